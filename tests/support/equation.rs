//! The one equation: every record that a program has made is in its files, or reported lost there.
//!
//! The program begins each message with the number of the thread that makes it and a space, makes no two messages
//! with the same text, and counts, for each thread, the calls that have returned, for example in a file that
//! outlives it. When it has ended and was recovered, whatever was done to it and to its files, [`check`] compares
//! these counts with the directory of its trace files:
//!
//! ```text
//! made = in files + reported lost    for each thread, and so in sum
//! ```
//!
//! A file of the run's own reports the lost records of threads that never got a ring. It does not name these
//! threads: its losses count if they equal the records that all threads together miss.
//!
//! A thread that was killed may have made one record more than it has counted: its last call had not
//! returned.
//!
//! The check uses none of the tracer's own sums: it counts messages and `# lost` lines in the files.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use trace_format::escape::unescape;
use trace_format::file::{FIRST_BYTES, run_of};
use trace_format::line::{Kind, Line};
use trace_format::meta::{End, LossReason, Meta};
use trace_format::raw::{Decoder, Raw};

/// The records of one thread, as its files account for them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// The number of messages in the thread's files.
    pub in_files: u64,
    /// The numbers of records that the thread's files report lost, in the order of [`LossReason`].
    pub lost: [u64; LossReason::COUNT],
    /// The names of the thread's files, sorted.
    pub files: Vec<String>,
    /// The names of those files that have no `# end`: the tracer has left them, because they were truncated or
    /// replaced.
    pub without_end: Vec<String>,
}

impl Account {
    /// Returns the number of all records that are reported lost.
    #[must_use]
    pub fn reported_lost(&self) -> u64 {
        self.lost.iter().sum()
    }

    fn add(&mut self, file: &FileAccount) {
        self.in_files += file.messages;
        for (sum, more) in self.lost.iter_mut().zip(file.lost) {
            *sum += more;
        }
        self.files.push(file.name.clone());
        if file.end.is_none() {
            self.without_end.push(file.name.clone());
        }
    }
}

/// The records of a program, as its files account for them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accounts {
    /// The account of each thread that was counted, by its number.
    pub threads: Vec<Account>,
    /// The account of files of threads whose messages do not begin with a number, and of threads without a
    /// message.
    pub others: Account,
    /// The numbers of records that files without a message report lost, for no counted thread but for threads that
    /// never got a ring. In the order of [`LossReason`].
    pub without_thread: [u64; LossReason::COUNT],
}

impl Accounts {
    /// Returns the number of messages in the files of the threads that were counted.
    #[must_use]
    pub fn in_files(&self) -> u64 {
        self.threads.iter().map(|thread| thread.in_files).sum()
    }

    /// Returns the number of records that the files of these threads, and those of no thread, report lost for the
    /// given reason.
    #[must_use]
    pub fn lost(&self, reason: LossReason) -> u64 {
        let of_threads: u64 = self.threads.iter().map(|thread| thread.lost[reason as usize]).sum();
        of_threads + self.without_thread[reason as usize]
    }
}

/// Compares the counts of a program with the trace files in `directory`. `made` is the number of records that each
/// thread has made, by the thread's number; `killed` allows one more for each.
///
/// Skips files that are not trace files, and merged files. A file may be truncated: an incomplete last line is no
/// message, and a message counts if its first line is complete. In each file that has an `# end`, the last one must
/// have the number of the file's messages, and as many lost records as all the file's `# lost` lines together. `#
/// lost` lines of a file without a message belong to the thread of the same id and run.
///
/// # Errors
/// The error describes, in full sentences, each mismatch of all threads and files.
pub fn check(directory: &Path, made: &[u64], killed: bool) -> Result<Accounts, String> {
    let mut wrong = Vec::new();
    let files = files(directory, &mut wrong);
    let accounts = by_number(&files, made.len(), &mut wrong);
    let without_thread: u64 = accounts.without_thread.iter().sum();
    let missing =
        |(account, made): (&Account, &u64)| made.saturating_sub(account.in_files + account.reported_lost());
    let all_missing: u64 = accounts.threads.iter().zip(made).map(missing).sum();
    for (number, (account, made)) in accounts.threads.iter().zip(made).enumerate() {
        let found = account.in_files + account.reported_lost();
        let is_told_elsewhere = found < *made && all_missing == without_thread;
        if found != *made && !is_told_elsewhere && !(killed && found == made + 1) {
            wrong.push(format!(
                "thread {number} has made {made} records: {} are in its files and {} are reported lost, in all {found}, and \
                 {without_thread} of no thread: {account:?}",
                account.in_files,
                account.reported_lost(),
            ));
        }
    }
    if wrong.is_empty() { Ok(accounts) } else { Err(wrong.join("\n")) }
}

/// Calls [`check`], for tests, and panics if there is a mismatch.
pub fn assert_equation(directory: &Path, made: &[u64], killed: bool) -> Accounts {
    check(directory, made, killed).unwrap_or_else(|wrong| panic!("{directory:?}:\n{wrong}"))
}

/// One trace file, counted.
struct FileAccount {
    name: String,
    /// The id of the run, and the thread's id.
    of: (u32, u64),
    /// The number that the file's messages begin with.
    number: Option<u64>,
    messages: u64,
    lost: [u64; LossReason::COUNT],
    end: Option<End>,
}

/// Counts the trace files of a directory.
fn files(directory: &Path, wrong: &mut Vec<String>) -> Vec<FileAccount> {
    let mut seen = HashSet::new();
    let mut files = Vec::new();
    for path in crate::names(directory) {
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        let is_file = std::fs::symlink_metadata(&path).is_ok_and(|found| found.is_file());
        if !is_file || !name.contains(".trace.") || name.ends_with(".merge") {
            continue;
        }
        let bytes = std::fs::read(&path).expect("a file that can be read");
        let Some((key, run)) = run_of(&bytes[..bytes.len().min(FIRST_BYTES)]) else { continue };
        let mut file = FileAccount {
            name,
            of: (run.id, key.tid),
            number: None,
            messages: 0,
            lost: [0; LossReason::COUNT],
            end: None,
        };
        file.count(&bytes, &mut seen, wrong);
        file.check_end(wrong);
        files.push(file);
    }
    files
}

impl FileAccount {
    fn count(&mut self, bytes: &[u8], seen: &mut HashSet<String>, wrong: &mut Vec<String>) {
        let text = text(&self.name, bytes, wrong);
        let mut message = String::new();
        // The bytes after the last line feed are no line.
        let whole = text.iter().rposition(|&byte| byte == b'\n').map_or(0, |feed| feed + 1);
        for line in text[..whole].split_inclusive(|&byte| byte == b'\n') {
            let line = &line[..line.len() - 1];
            let Ok(line) = Line::parse(line) else {
                wrong.push(format!("{} has a damaged line: {}", self.name, String::from_utf8_lossy(line)));
                continue;
            };
            if line.kind != Kind::Continuation && !message.is_empty() {
                self.message(std::mem::take(&mut message), seen, wrong);
            }
            let payload = || String::from_utf8_lossy(&unescape(line.payload)).into_owned();
            match line.kind {
                Kind::Message => message = format!("{}\n", payload()),
                Kind::Continuation => message.push_str(&payload()),
                Kind::Meta => match Meta::parse(line.payload) {
                    Some(Meta::Lost { records, reason }) => self.lost[reason as usize] += records,
                    Some(Meta::End(end)) => self.end = Some(end),
                    _ => {}
                },
                _ => {}
            }
        }
        if !message.is_empty() {
            self.message(message, seen, wrong);
        }
    }

    fn message(&mut self, message: String, seen: &mut HashSet<String>, wrong: &mut Vec<String>) {
        self.messages += 1;
        let number = message.split([' ', '\n']).next().and_then(|number| number.parse().ok());
        if self.number.is_some() && number != self.number {
            wrong.push(format!("{} has messages of several threads: {message:?}", self.name));
        }
        self.number = number;
        if number.is_some() && seen.contains(&message) {
            wrong.push(format!("{} has a message that is there twice: {message:?}", self.name));
        }
        seen.insert(message);
    }

    fn check_end(&self, wrong: &mut Vec<String>) {
        let Some(end) = &self.end else { return };
        let lost: u64 = self.lost.iter().sum();
        if (end.records, end.lost) != (self.messages, lost) {
            wrong.push(format!(
                "{} has {} messages and reports {lost} lost, and ends with {end:?}",
                self.name, self.messages
            ));
        }
    }
}

/// Returns the text of a trace file, which may be a raw one, and may be truncated.
fn text(name: &str, bytes: &[u8], wrong: &mut Vec<String>) -> Vec<u8> {
    let Some(raw) = Raw::parse(bytes) else { return bytes.to_vec() };
    // A last record that is incomplete, and a last message whose last piece is missing, are no message.
    let end = raw.without_torn_tail();
    let end = Raw::parse(&bytes[..end]).and_then(|raw| raw.open_message()).unwrap_or(end);
    let mut text = Vec::new();
    let found = Decoder::new(raw.tid()).decode(raw, 0..end, name.as_bytes(), &mut text);
    wrong.extend(found.damaged.iter().map(|place| format!("{name} is damaged at {place:?}")));
    text
}

fn by_number(files: &[FileAccount], threads: usize, wrong: &mut Vec<String>) -> Accounts {
    // A file without a message has no number of its own.
    let mut numbers: BTreeMap<(u32, u64), Vec<u64>> = BTreeMap::new();
    for file in files {
        numbers.entry(file.of).or_default().extend(file.number);
    }
    let mut accounts = Accounts { threads: vec![Account::default(); threads], ..Accounts::default() };
    for file in files {
        let known = numbers.get(&file.of).map_or(&[][..], Vec::as_slice);
        let only = known.first().filter(|first| file.messages == 0 && known.iter().all(|n| n == *first));
        match file.number.or(only.copied()).map(usize::try_from) {
            None => {
                if known.is_empty() {
                    accounts.without_thread.iter_mut().zip(file.lost).for_each(|(sum, more)| *sum += more);
                }
                accounts.others.add(file);
            }
            Some(Ok(number)) if number < threads => accounts.threads[number].add(file),
            Some(_) => wrong.push(format!("{} is of a thread that was not counted", file.name)),
        }
    }
    accounts
}
