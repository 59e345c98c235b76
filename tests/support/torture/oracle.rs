//! The oracle: compares the counts of a trial's programs with the files: made = in files + reported lost.
//!
//! For each thread, with all its files: each record that it has made is in one of them once, whole and in order, or
//! a `# lost` line of them reports it. A call that had not returned may or may not have made its record.
//!
//! The expectation depends on the plan of the trial. For each plan, this list names the reasons for which records
//! may be reported lost, and the records that must be in files. If it names no others, the equation must hold
//! exactly: in files + reported lost = made.
//!
//! - `block` with a long patience, and only kills, signals, forks and closed descriptors: no reason; all records
//!   whose calls have returned.
//! - `drop`, or `block` with a short patience: `full`.
//! - `overwrite`: `overwritten`. Threads that have ended may be missing if more than sixteen have.
//! - `TRACER_MAX_BYTES`: `rotated`.
//! - `TRACER_MAX_TOTAL`: `rotated`; the file of the run reports the records and the reported losses of dropped
//!   files.
//! - A full disk, `RLIMIT_FSIZE`, few descriptors: `full`, or a reason of its own.
//! - A file that is deleted, truncated, replaced: `file_removed`. The rest of it counts as in files.
//! - A file that is deleted or truncated after the tracer has ended it, because its thread has got another ring: as
//!   many records as it had or reported lost may be missing, but no command says that the trace is whole.
//! - A record longer than the ring: `torn`; its beginning is in a file.
//! - A long record whose beginning is in a file that is taken away, or overwritten: `torn`.
//! - `exit` while other threads trace: reasons as above; all records whose calls had returned when `exit` was
//!   called.
//! - Records inside records, handlers that trace: `nested`; `full` if a handler interrupts the tracer itself.
//! - A `Display` that panics, or is left by a jump: `panic`, for at most as many records as there were; such a
//!   record is in no file.
//! - Rings that are private, and a death other than by `exit`: reasons as above; no more records than were
//!   made.
//! - A run's directory that is removed, or files in it, and a death other than by `exit`: reasons as above; no more
//!   records than were made, but `check` does not say "whole" if one is missing. A long record that was just being
//!   written: `full`.
//! - `TRACER_MAX_BYTES`, rings that are removed, and a death other than by `exit`: reasons as above; the hidden
//!   file that was to replace another one may remain.
//! - Handlers that trace before the run has its directory, and a kill: reasons as above; records made before that
//!   may be missing.
//! - `RLIMIT_FSIZE` or `TRACER_MAX_BYTES`, and a file that is renamed: `file_removed`. The records in the
//!   renamed file may be reported lost, too.
//! - `TRACER_MAX_BYTES` and a file that is replaced by its copy: `rotated`. The copy may have the dropped
//!   records.
//! - `TRACER_MAX_BYTES`, a file that is replaced by its copy, and `exit`: reasons as above; all records whose calls
//!   had returned when `exit` was called; on a full disk, no more records than were made.
//! - A copy of a file beside it: no reason; the copy counts nothing, and neither the merge nor `check` ends with 0.
//!   If the file was replaced before, the copy may have its inode number, so recovery appends to the copy: then the
//!   file, which is the beginning of the copy, counts nothing.
//!
//! `damaged` is never expected, and no record is ever expected twice. Whatever the plan is, `check` says "whole"
//! only if nothing is missing and nothing is reported lost; if the plan has no fault and no odd setting, it must
//! say so then. The merged file has as many messages of each slot as all files have. In the end, the rings and the
//! temporary files of the tracer are gone; a host's own files have the content that it has written.

use super::counters::{Counters, PROCESSES, SLOTS, process_of};
use super::plan::{Policy, ProgramEnd, Removal, Runtime, TrialPlan, What};
use super::texts::{Shape, closing};
use super::trial::own_content;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use trace_format::escape::unescape;
use trace_format::file::{FIRST_BYTES, run_of, thread_of};
use trace_format::line::{Key, Kind, Line};
use trace_format::meta::{End as EndLine, EndReason, Meta, RingPlace};
use trace_format::raw::{Decoder, Raw};

/// The traces of a trial, and the results of the commands.
#[derive(Debug)]
pub struct Evidence {
    /// The directories with trace files.
    pub directories: Vec<PathBuf>,
    /// The directory of the rings.
    pub runtime: PathBuf,
    /// The directory of the files that belong to the program.
    pub own: PathBuf,
    /// The counts of the programs.
    pub counters: Counters,
    /// The processes that were ended from outside, whatever they were about to do.
    pub ended_by_others: Vec<usize>,
    /// The exit status of the last merge, of all runs, and the file that it wrote.
    pub merge: (Option<i32>, PathBuf),
    /// The exit status of `check`.
    pub check: Option<i32>,
    /// The copy of a trace file, if one was made.
    pub copy: Option<PathBuf>,
    /// The file with the output of `--follow`.
    pub followed: Option<PathBuf>,
}

/// A trace file, read.
struct TracedFile {
    name: String,
    tid: u64,
    pid: u64,
    private: bool,
    /// The ticks of the first message and the numbers of all messages, by slot.
    messages: BTreeMap<usize, (u64, Vec<u64>)>,
    whole: u64,
    lost: BTreeMap<String, u64>,
    end: Option<EndLine>,
    /// Whether there are lines after the file's end.
    behind_end: bool,
}

/// The state of a judgement.
struct Judge<'a> {
    plan: &'a TrialPlan,
    evidence: &'a Evidence,
    wrong: Vec<String>,
    /// The threads with a file that has a hole: its lost records are not reported.
    holed: BTreeSet<u64>,
}

/// The counts of the slots and files of one thread.
#[derive(Default)]
struct ThreadAccount {
    pid: u64,
    slots: Vec<usize>,
    files: Vec<String>,
    private: bool,
    /// Whether the rings were private and the process ended without its exit handlers.
    private_and_killed: bool,
    in_files: u64,
    /// The numbers of messages and lost records in files that were renamed.
    in_renamed: BTreeMap<String, u64>,
    lost: BTreeMap<String, u64>,
    /// The least and the greatest number of records that must be found.
    made: (u64, u64),
    /// The number of calls that have returned, or that had returned at `exit` if the process called it.
    returned: u64,
    /// The number of records in a file that was taken away after it had ended.
    removed_records: u64,
}

impl ThreadAccount {
    fn told(&self) -> u64 {
        self.lost.values().sum()
    }

    fn found(&self) -> u64 {
        self.in_files + self.told()
    }
}

/// Returns a sentence for each mismatch; none if there is no mismatch.
#[must_use]
pub fn judge(plan: &TrialPlan, evidence: &Evidence) -> Vec<String> {
    let mut judge = Judge { plan, evidence, wrong: Vec::new(), holed: BTreeSet::new() };
    let files = judge.files();
    let slots = judge.slots(&files);
    let threads = judge.threads(&files);
    let missing = judge.equation(&threads, &files);
    judge.verdicts(&files, missing);
    judge.merged(&slots);
    judge.followed();
    judge.left();
    judge.own_files();
    judge.wrong
}

impl Judge<'_> {
    fn says(&mut self, what: String) {
        if self.wrong.len() < 40 {
            self.wrong.push(what);
        }
    }

    /// Returns whether a file may end anywhere, because a fault has truncated it or made it.
    fn may_be_truncated(&self) -> bool {
        self.plan.has(|what| matches!(what, What::Cut(_) | What::Copy))
    }

    /// Returns whether a file may end anywhere: its thread was killed while the rest was in private memory or in a
    /// ring that was removed, or it may not grow in the middle of a long message, or a fault has truncated it.
    fn may_end_anywhere(&self, bytes: &[u8]) -> bool {
        let first = &bytes[..bytes.len().min(FIRST_BYTES)];
        self.may_be_truncated()
            || self.may_be_removed()
            || self.may_end_in_long()
            || first.windows(12).any(|word| word == b"ring=private")
    }

    /// Returns whether a file may end inside a long message whose rest finds no room in it and is reported lost.
    fn may_end_in_long(&self) -> bool {
        let shapes = &self.plan.shapes;
        (shapes.long || shapes.huge) && self.plan.has(|what| matches!(what, What::FileLimit(_)))
    }

    fn files(&mut self) -> Vec<TracedFile> {
        let mut files = Vec::new();
        let uncounted = self.uncounted_copy();
        for directory in self.evidence.directories.clone() {
            let Ok(entries) = std::fs::read_dir(&directory) else { continue };
            let mut paths: Vec<_> = entries.filter_map(Result::ok).map(|entry| entry.path()).collect();
            paths.sort();
            for path in paths {
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                if uncounted.as_ref() == Some(&path) {
                    continue;
                }
                // If a process is killed while it drops the older half of a file, and its rings are private or were
                // removed, no process can remove the new file. Nor does an exit wait for work after the flusher's
                // last look.
                let exits = matches!(self.plan.end, ProgramEnd::Exit(..) | ProgramEnd::Return);
                let removed = |what| matches!(what, What::Remove(Removal::Directory | Removal::Rings));
                let rings_go = self.may_be_private() || self.plan.has(removed);
                let of_nobody = self.plan.rotates() && (rings_go || exits);
                if name.starts_with('.') {
                    if !(name.ends_with(".new") && of_nobody) {
                        self.says(format!("{name} is left in {directory:?}"));
                    }
                } else if name.contains(".trace.") && !name.ends_with(".merge") {
                    files.extend(self.file(&path, name));
                }
            }
        }
        files
    }

    /// Returns the path of the copy, or of another file of which the copy is a continuation.
    fn uncounted_copy(&self) -> Option<PathBuf> {
        let copy = self.evidence.copy.as_ref()?;
        let bytes = std::fs::read(copy).unwrap_or_default();
        let is_beginning = |path: &PathBuf| {
            let file = std::fs::read(path).unwrap_or_default();
            // A file that is cut inside its first lines is the beginning of many.
            thread_of(&file).is_some() && file.len() < bytes.len() && bytes.starts_with(&file)
        };
        let entries = std::fs::read_dir(copy.parent()?).ok()?.flatten().map(|entry| entry.path());
        Some(entries.into_iter().find(is_beginning).unwrap_or_else(|| copy.clone()))
    }

    fn file(&mut self, path: &Path, name: String) -> Option<TracedFile> {
        let bytes = std::fs::read(path).unwrap_or_default();
        let Some((key, run)) = run_of(&bytes[..bytes.len().min(FIRST_BYTES)]) else {
            // The process was killed before its first line, with rings that no process can recover.
            let killed_at_once = bytes.is_empty() && self.may_be_private();
            if !self.may_be_truncated() && !killed_at_once {
                self.says(format!("{name} of {} bytes has no beginning", bytes.len()));
            }
            return None;
        };
        let mut traced = TracedFile {
            name,
            tid: key.tid,
            pid: run.pid.into(),
            private: false,
            messages: BTreeMap::new(),
            whole: 0,
            lost: BTreeMap::new(),
            end: None,
            behind_end: false,
        };
        // A file that was truncated between the tracer's last look and its write has a hole there, which its
        // readers report.
        let holed = Raw::parse(&bytes).is_none() && bytes.contains(&0);
        if holed && self.plan.has(|what| matches!(what, What::Cut(_))) {
            self.holed.insert(traced.tid);
        }
        let text = self.text(&traced.name, &bytes);
        self.lines(&mut traced, &text);
        let told = traced.lost.values().sum::<u64>();
        // Records that are made after the exit has begun may be written after the end; a file of a shared ring gets
        // another end, unless the ring's file was removed.
        let removed = |what| matches!(what, What::Remove(Removal::Directory | Removal::Rings));
        let (private, behind) = (traced.private || self.plan.has(removed), traced.behind_end);
        if let Some(end) = traced
            .end
            .as_ref()
            .filter(|end| (end.records, end.lost) != (traced.whole, told) && !(private && behind))
            .filter(|_| !self.holed.contains(&traced.tid))
        {
            let name = &traced.name;
            self.says(format!("{name} has {} messages and {told} reported lost, and {end:?}", traced.whole));
        }
        Some(traced)
    }

    /// Returns the text of a file, which may be a raw one, without an incomplete end.
    fn text(&mut self, name: &str, bytes: &[u8]) -> Vec<u8> {
        let Some(raw) = Raw::parse(bytes) else {
            let whole = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |feed| feed + 1);
            if whole < bytes.len() && !self.may_end_anywhere(bytes) {
                self.says(format!("{name} does not end in a line feed"));
            }
            return bytes[..whole].to_vec();
        };
        let mut end = bytes.len();
        if self.may_end_anywhere(bytes) {
            end = raw.without_torn_tail();
            end = Raw::parse(&bytes[..end]).and_then(|raw| raw.open_message()).unwrap_or(end);
        }
        let mut text = Vec::new();
        let found = Decoder::new(raw.tid()).decode(raw, 0..end, name.as_bytes(), &mut text);
        if !found.damaged.is_empty() && self.plan.has(|what| matches!(what, What::Cut(_))) {
            self.holed.insert(raw.tid());
        } else if !found.damaged.is_empty() {
            self.says(format!("{name} is damaged: {:?}", found.damaged));
        }
        text
    }

    fn lines(&mut self, traced: &mut TracedFile, text: &[u8]) {
        let mut open: Option<(u64, String)> = None;
        let mut last = 0;
        let lines: Vec<&[u8]> = text.split_inclusive(|&byte| byte == b'\n').collect();
        for line in &lines {
            let Ok(line) = Line::parse(&line[..line.len() - 1]) else {
                if self.holed.contains(&traced.tid) {
                    continue;
                }
                self.says(format!("{} has a damaged line: {:?}", traced.name, String::from_utf8_lossy(line)));
                continue;
            };
            if line.key.ticks.0 < last || line.key.tid != traced.tid {
                self.says(format!("{}: {:?} after ticks {last:x}", traced.name, line.key));
            }
            last = line.key.ticks.0;
            traced.behind_end = traced.end.is_some();
            let payload = || String::from_utf8_lossy(&unescape(line.payload)).into_owned();
            match (line.kind, &mut open) {
                (Kind::Continuation, Some((_, message))) => {
                    message.push('\n');
                    message.push_str(&payload());
                    continue;
                }
                (Kind::Continuation, None) => {
                    self.says(format!("{} has a next line without a first", traced.name));
                }
                _ => {}
            }
            let meta = (line.kind == Kind::Meta).then(|| (Meta::parse(line.payload), payload()));
            if let Some((ticks, message)) = open.take() {
                let torn = meta
                    .as_ref()
                    .is_some_and(|(_, text)| text.starts_with("lost ") && text.ends_with(" reason=torn"));
                self.message(traced, ticks, &message, torn, None);
            }
            match meta {
                None if line.kind == Kind::Message => open = Some((line.key.ticks.0, payload())),
                Some((Some(Meta::Thread(thread)), _)) => traced.private |= thread.ring == RingPlace::Private,
                Some((Some(Meta::End(end)), _)) => {
                    (traced.end, traced.behind_end) = (Some(end), false);
                }
                Some((_, text)) if text.starts_with("lost ") => self.lost(traced, &text),
                Some((Some(_), _)) => {}
                _ => self.says(format!("{}: {}", traced.name, payload())),
            }
        }
        if let Some((ticks, message)) = open {
            let truncated = self.may_be_truncated() || self.may_be_removed() || traced.private;
            self.message(traced, ticks, &message, false, Some(truncated));
        }
    }

    /// Counts the records of a `# lost` line of any reason.
    fn lost(&mut self, traced: &mut TracedFile, text: &str) {
        let value = |key: &str| text.split(' ').find_map(|word| word.strip_prefix(key));
        match (value("records=").and_then(|n| n.parse::<u64>().ok()), value("reason=")) {
            (Some(records), Some(reason)) => *traced.lost.entry(reason.to_owned()).or_default() += records,
            _ => self.says(format!("{}: {text}", traced.name)),
        }
    }

    /// Counts a message of a file; `torn` if the next line says so. `truncated` is given for the last message only,
    /// and says whether it may be truncated.
    fn message(
        &mut self,
        traced: &mut TracedFile,
        ticks: u64,
        message: &str,
        torn: bool,
        truncated: Option<bool>,
    ) {
        let (open_end, truncated) = (truncated.is_some(), truncated == Some(true));
        if self.holed.contains(&traced.tid) && message.contains('\0') {
            return;
        }
        let mut words = message.splitn(3, [' ', '\n']);
        let mut number = || words.next().and_then(|word| word.parse::<u64>().ok());
        let (Some(slot), Some(n)) = (number(), number()) else {
            return self.says(format!("{}: nobody has made {message:?}", traced.name));
        };
        let slot = slot as usize;
        if slot >= SLOTS || self.evidence.counters.slot(slot).tid() != (traced.tid, traced.pid) {
            return self.says(format!("{}: {message:?} is of another thread", traced.name));
        }
        let shape = self.plan.shape(slot, n);
        let mut expected = String::new();
        self.plan.text(slot, n, &mut expected);
        let never = matches!(shape, Shape::Panics | Shape::Jumps);
        if (message == expected && !never) || message == closing(slot, n) {
            traced.whole += 1;
            traced.messages.entry(slot).or_insert((ticks, Vec::new())).1.push(n);
        } else if torn && expected.starts_with(message) && matches!(shape, Shape::Huge | Shape::Long) {
            // The rest of the message is reported lost.
        } else if open_end && self.may_end_in_long() && expected.starts_with(message) {
            // The file that the thread goes on in reports the message lost.
        } else if truncated && expected.starts_with(message) {
            // The message's first line is complete, so the writer counts the message, too.
            traced.whole += 1;
            traced.messages.entry(slot).or_insert((ticks, Vec::new())).1.push(n);
        } else {
            let short = |text: &str| text.chars().take(80).collect::<String>();
            let lengths = (message.len(), expected.len());
            self.says(format!(
                "{}: torn is {:?}, of {lengths:?} bytes; whole it is {:?}",
                traced.name,
                short(message),
                short(&expected)
            ));
        }
    }

    /// Checks that each number of a slot is found at most once, in order, and only if it was made; returns the
    /// number of records of each slot.
    fn slots(&mut self, files: &[TracedFile]) -> BTreeMap<usize, u64> {
        let mut counts = BTreeMap::new();
        for slot in 0..SLOTS {
            let mut parts: Vec<_> = files
                .iter()
                .filter_map(|file| {
                    file.messages.get(&slot).map(|(ticks, numbers)| (*ticks, numbers, &file.name))
                })
                .collect();
            parts.sort_by_key(|(ticks, numbers, _)| (*ticks, numbers[0]));
            let numbers: Vec<u64> =
                parts.iter().flat_map(|(_, numbers, _)| numbers.iter().copied()).collect();
            let names: Vec<_> = parts.iter().map(|(_, _, name)| name).collect();
            if let Some(pair) = numbers.windows(2).find(|pair| pair[0] >= pair[1]) {
                self.says(format!("slot {slot}: {} stands before {} in {names:?}", pair[0], pair[1]));
            }
            let made = self.evidence.counters.slot(slot).made();
            if let Some(last) = numbers.last().filter(|last| **last >= made) {
                self.says(format!("slot {slot}: {last} was never made, {made} were, {names:?}"));
            }
            if !numbers.is_empty() {
                counts.insert(slot, numbers.len() as u64);
            }
        }
        counts
    }

    /// Returns whether the directory of the program's run may have been removed, or files in it.
    fn may_be_removed(&self) -> bool {
        self.plan.has(|what| matches!(what, What::Remove(_)))
    }

    /// Returns whether the rings of this trial may have been private although no file says so.
    fn may_be_private(&self) -> bool {
        let plan = self.plan;
        plan.runtime == Runtime::Unusable
            || plan.descriptors.is_some()
            || plan.has(|what| matches!(what, What::FileLimit(_)))
    }

    fn threads(&mut self, files: &[TracedFile]) -> BTreeMap<u64, ThreadAccount> {
        let counters = self.evidence.counters;
        let mut threads: BTreeMap<u64, ThreadAccount> = BTreeMap::new();
        for slot in 0..SLOTS {
            let (tid, pid) = counters.slot(slot).tid();
            if tid != 0 {
                let thread = threads.entry(tid).or_default();
                thread.pid = pid;
                thread.slots.push(slot);
            }
        }
        for file in files {
            if let Some(thread) = threads.get_mut(&file.tid) {
                thread.files.push(file.name.clone());
                thread.private |= file.private;
                thread.in_files += file.whole;
                // The program gives such names to files that it renames.
                let is_renamed = file.name.contains(&format!(".{}", 10_000_000 + file.tid));
                if is_renamed {
                    *thread.in_renamed.entry("file_removed".to_owned()).or_default() += file.whole;
                }
                for (reason, records) in &file.lost {
                    *thread.lost.entry(reason.clone()).or_default() += records;
                    if is_renamed {
                        *thread.in_renamed.entry(reason.clone()).or_default() += records;
                    }
                }
            }
        }
        for thread in threads.values_mut() {
            for slot in thread.slots.clone() {
                let (words, process) = (counters.slot(slot), process_of(slot));
                // A truncated file need not say that its ring was private, nor need the file of the program that
                // this one has become.
                let is_executed = matches!(self.plan.end, ProgramEnd::Exec(..));
                let is_untold = thread.files.is_empty() || self.may_be_truncated() || is_executed;
                // Faults do not remove the rings of forked processes, nor those of later programs.
                let removed = process == 0 && self.may_be_removed();
                let private = removed || thread.private || (is_untold && self.may_be_private());
                let exited = counters.process(process).has_ended()
                    && !self.evidence.ended_by_others.contains(&process);
                thread.private_and_killed |= private && !exited;
                thread.made.1 += words.made();
                thread.removed_records += words.removed_records();
                let full_disk = self.plan.disk_kb.is_some();
                // Records that are made while the exit goes on may be kept or not.
                let promised = if exited { words.made_before_exit() } else { words.certainly_made() };
                thread.returned += promised;
                // Records of handlers that trace before the run has its directory are counted in the
                // process's memory.
                let is_of =
                    |file: &&TracedFile| file.messages.keys().any(|slot| process_of(*slot) == process);
                let of_thread = files.iter().filter(|file| file.tid == words.tid().0);
                let unborn = self.plan.signals && of_thread.filter(is_of).count() == 0;
                thread.made.0 += match (private, exited) {
                    (true, false) => 0,
                    (false, false) if unborn => 0,
                    // There is no place to write to, and no process waits for one.
                    (true, true) if full_disk => 0,
                    _ => promised,
                };
            }
        }
        threads
    }

    /// Checks the equation, thread by thread. Returns the number of records that are in no file and not reported
    /// lost.
    fn equation(&mut self, threads: &BTreeMap<u64, ThreadAccount>, files: &[TracedFile]) -> u64 {
        // A run may report losses of threads without a file in one more file.
        let mut pools: BTreeMap<u64, u64> = BTreeMap::new();
        for file in files.iter().filter(|file| !threads.contains_key(&file.tid)) {
            *pools.entry(file.pid).or_default() += file.lost.values().sum::<u64>();
        }
        let mut missing = 0;
        for (tid, thread) in threads {
            let (least, most) = thread.made;
            let found = thread.found();
            let mut short = least.saturating_sub(found);
            let of_first = |slot: &usize| process_of(*slot) == 0;
            let has_files = files.iter().any(|file| file.messages.keys().any(of_first));
            // On a full disk, the program can report on stderr only, as with private rings.
            let is_removed = self.may_be_removed()
                && self.plan.disk_kb.is_none()
                && thread.slots.iter().any(of_first)
                && has_files;
            // No command knows of a private ring that had no file yet.
            let is_unknown = self.may_be_private() || self.is_forgotten(*tid, thread, threads);
            let says_whole = self.evidence.check == Some(0);
            if is_removed && !is_unknown && found < thread.returned && says_whole {
                self.says(format!("check says \"whole\"; thread {tid}: {found} of {}", thread.returned));
            }
            if self.is_forgotten(*tid, thread, threads) || self.holed.contains(tid) {
                short = 0;
            }
            // The tracer does not watch a file that has ended, but commands report that it is missing or not whole.
            let removed_records = short.min(thread.removed_records);
            short -= removed_records;
            let pool = pools.entry(thread.pid).or_default();
            let told_elsewhere = short.min(*pool);
            *pool -= told_elsewhere;
            short -= told_elsewhere;
            // Records that die with private rings may belong to a run that is no longer the newest, or that has
            // left no file at all; no process counts records that are made while an exit goes on.
            if !thread.private_and_killed {
                missing += short + removed_records;
            }
            if short > 0 || found.saturating_sub(self.reported_lost_but_found(thread)) > most {
                let what =
                    if short > 0 { format!("{short} are missing") } else { "there are too many".into() };
                self.says(format!(
                    "thread {tid} of {}: made {least}..={most}, {} in files + {:?} reported lost: {what}; slots {:?}, {:?}{}",
                    thread.pid,
                    thread.in_files,
                    thread.lost,
                    thread.slots,
                    thread.files,
                    if thread.private { ", private" } else { "" },
                ));
            }
            for (reason, records) in &thread.lost {
                self.reason(*tid, thread, reason, *records);
            }
        }
        missing
    }

    /// Returns the number of records that may be reported lost although they are in files, because of faults: the
    /// tracer does not find a file that is renamed and then left, and a copy that replaces a file restores the part
    /// that the tracer drops meanwhile.
    fn reported_lost_but_found(&self, thread: &ThreadAccount) -> u64 {
        let told = |reason: &str| thread.lost.get(reason).copied().unwrap_or(0);
        let copied = self.plan.has(|what| matches!(what, What::Copy)) && self.plan.rotates();
        let renamed = if self.may_lose_track_of_files() { thread.in_renamed.values().sum() } else { 0 };
        renamed + if copied { told("rotated") } else { 0 }
    }

    /// Returns whether files may be renamed and then left, or renamed while their older half is dropped.
    fn may_lose_track_of_files(&self) -> bool {
        let renamed = self.plan.has(|what| matches!(what, What::Rename));
        let limited = self.plan.has(|what| matches!(what, What::FileLimit(_))) || self.plan.rotates();
        renamed && limited
    }

    /// Returns whether the flight recorder may have forgotten the thread: as documented, it keeps the ring of a
    /// thread that has ended until sixteen others have.
    fn is_forgotten(&self, tid: u64, thread: &ThreadAccount, threads: &BTreeMap<u64, ThreadAccount>) -> bool {
        let ended_at = |thread: &ThreadAccount| self.evidence.counters.slot(thread.slots[0]).ended_at();
        let (true, Some(end)) = (self.plan.policy == Policy::Overwrite, ended_at(thread)) else {
            return false;
        };
        // Threads that end at the same time may be seen in any order. The first thread of a process ends with the
        // process.
        let later = |other: &&ThreadAccount| {
            other.pid == thread.pid && ended_at(other).is_some_and(|at| at + 10_000_000 > end)
        };
        tid != thread.pid && threads.values().filter(later).count() > 16
    }

    /// Checks whether records may be lost for this reason, by the list at the head of this file.
    fn reason(&mut self, tid: u64, thread: &ThreadAccount, reason: &str, records: u64) {
        let plan = self.plan;
        let storage = plan.disk_kb.is_some()
            || plan.descriptors.is_some()
            || plan.has(|what| matches!(what, What::FileLimit(_)));
        let impatient =
            plan.policy == Policy::Drop || (plan.policy == Policy::Block && plan.max_stall < 60_000);
        let may = match reason {
            "full" => {
                let too_long = plan.policy == Policy::Overwrite && plan.shapes.huge;
                impatient || storage || too_long || plan.signals || self.may_be_removed()
            }
            "overwritten" => plan.policy == Policy::Overwrite,
            "rotated" => plan.rotates(),
            "file_removed" => {
                let taken = plan.has(|what| matches!(what, What::Delete | What::Cut(_) | What::Copy));
                taken || self.may_lose_track_of_files()
            }
            "torn" => {
                let taken = |what| matches!(what, What::Delete | What::Cut(_) | What::Copy);
                let in_two = plan.policy == Policy::Overwrite || plan.has(taken) || self.may_be_removed();
                // The thread's process exits in the middle of the record.
                let exits = matches!(plan.end, ProgramEnd::Exit(..) | ProgramEnd::Return);
                plan.shapes.huge || (plan.shapes.long && (in_two || exits))
            }
            "nested" => plan.shapes.nested || plan.signals,
            "panic" => {
                let again =
                    thread.in_renamed.get(reason).filter(|_| self.may_lose_track_of_files()).unwrap_or(&0);
                records - again <= self.left_records(thread)
            }
            "damaged" => false,
            // Later versions may have other reasons for what is "full" now.
            _ => storage || plan.signals,
        };
        if !may {
            self.says(format!(
                "thread {tid} of {}: {records} records are reported lost, reason={reason}, slots {:?}, {:?}",
                thread.pid, thread.slots, thread.files
            ));
        }
    }

    /// Returns the number of the thread's records whose `Display` panics or is left.
    fn left_records(&self, thread: &ThreadAccount) -> u64 {
        let of = |slot: &usize| {
            let left = |n: &u64| matches!(self.plan.shape(*slot, *n), Shape::Panics | Shape::Jumps);
            (0..self.evidence.counters.slot(*slot).made()).filter(left).count() as u64
        };
        thread.slots.iter().map(of).sum()
    }

    /// Checks the verdicts of the commands, which are their statuses.
    fn verdicts(&mut self, files: &[TracedFile], missing: u64) {
        let told: u64 = files.iter().flat_map(|file| file.lost.values()).sum();
        let in_files: u64 = files.iter().map(|file| file.whole).sum();
        let (merge, check) = (self.evidence.merge.0, self.evidence.check);
        let plan = self.plan;
        for (name, status) in [("merge", merge), ("check", check)] {
            let nothing = status == Some(2) && in_files == 0;
            if !matches!(status, Some(0 | 1)) && !nothing {
                self.says(format!("the last {name} ended with {status:?}"));
            }
            if status == Some(0) && missing > 0 {
                self.says(format!("the last {name} says nothing of {missing} records that are missing"));
            }
        }
        if check == Some(0) && told > 0 {
            self.says(format!("check says \"whole\", and {told} records are reported lost"));
        }
        let has_copy = self.evidence.copy.is_some();
        if has_copy && (merge, check) != (Some(1), Some(1)) {
            self.says(format!("of a copy, the merge ended with {merge:?}, check with {check:?}"));
        }
        let calm = plan.faults.is_empty()
            && !has_copy
            && !matches!(plan.end, ProgramEnd::Exec(..))
            // A flight recorder reports the records of dropped rings in a file of no thread.
            && plan.policy != Policy::Overwrite
            && !plan.closes()
            && plan.total_kb.is_none()
            && plan.runtime != Runtime::Unusable
            && plan.descriptors.is_none()
            && plan.disk_kb.is_none();
        let whole = missing == 0 && told == 0 && in_files > 0;
        if calm && whole && (merge, check) != (Some(0), Some(0)) {
            self.says(format!("all is there, and the merge ended with {merge:?}, check with {check:?}"));
        }
    }

    /// Checks that the merged file has the messages of the files.
    fn merged(&mut self, slots: &BTreeMap<usize, u64>) {
        // The merge shows an incomplete last line, which is no message of the file.
        if self.may_be_truncated() || self.may_be_removed() || slots.is_empty() || self.may_be_private() {
            return;
        }
        let bytes = std::fs::read(&self.evidence.merge.1).unwrap_or_default();
        let mut found: BTreeMap<usize, u64> = BTreeMap::new();
        let (mut last, mut open): (u64, Option<(usize, Key)>) = (0, None);
        for line in bytes.split_inclusive(|&byte| byte == b'\n') {
            let Ok(line) = Line::parse(line.strip_suffix(b"\n").unwrap_or(line)) else {
                return self.says(format!("merged: {:?}", String::from_utf8_lossy(line)));
            };
            if line.key.ticks.0 < last {
                return self.says(format!("merged: ticks go back to {:?}", line.key));
            }
            last = line.key.ticks.0;
            if let Some((slot, key)) = open.take() {
                let of_it = line.kind == Kind::Meta && line.key == key;
                let torn = of_it && line.payload.ends_with(b" reason=torn");
                // A slot whose messages are all torn has none.
                if !torn {
                    *found.entry(slot).or_default() += 1;
                }
            }
            if line.kind == Kind::Message {
                let text = String::from_utf8_lossy(line.payload);
                let slot = text.split([' ', '\n']).next().and_then(|word| word.parse::<usize>().ok());
                open = slot.map(|slot| (slot, line.key));
            }
        }
        if let Some((slot, _)) = open {
            *found.entry(slot).or_default() += 1;
        }
        if found != *slots {
            let (merged, files): (BTreeSet<_>, BTreeSet<_>) =
                (found.iter().collect(), slots.iter().collect());
            let more: Vec<_> = merged.difference(&files).collect();
            let less: Vec<_> = files.difference(&merged).collect();
            self.says(format!("merged has (slot, messages) {more:?}, the files have {less:?}"));
        }
    }

    /// Checks that followed records are shown once. If files are taken away, records after them may be shown again;
    /// on a full disk, so may records that were written in part and are taken back.
    fn followed(&mut self) {
        let taken = |what| matches!(what, What::Delete | What::Cut(_) | What::Copy | What::Rename);
        let once = !self.plan.has(taken) && self.plan.disk_kb.is_none();
        let Some(path) = self.evidence.followed.as_ref().filter(|_| once) else { return };
        let bytes = std::fs::read(path).unwrap_or_default();
        let mut seen = BTreeSet::new();
        for line in bytes.split_inclusive(|&byte| byte == b'\n') {
            let Some(Ok(line)) = line.strip_suffix(b"\n").map(Line::parse) else { continue };
            let text = String::from_utf8_lossy(line.payload);
            let mut words = text.split(' ').map_while(|word| word.parse::<u64>().ok());
            let (Kind::Message, Some(slot), Some(n)) = (line.kind, words.next(), words.next()) else {
                continue;
            };
            if !seen.insert((slot, n)) {
                return self.says(format!("followed, slot {slot}: {n} is shown twice"));
            }
        }
    }

    /// Checks that nothing is left in memory.
    fn left(&mut self) {
        // If a program is killed while it removes a directory, the rest is no run any more.
        if self.plan.has(|what| what == What::Remove(Removal::Directory)) {
            return;
        }
        if let Ok(entries) = std::fs::read_dir(&self.evidence.runtime) {
            let left: Vec<_> = entries.filter_map(Result::ok).map(|entry| entry.path()).collect();
            // The list of places may remain; it is here if it cannot be beside the executable.
            let is_list = |path: &&PathBuf| path.to_string_lossy().ends_with(".trace.places");
            for run in left.iter().filter(|path| !is_list(path)) {
                let names: Vec<_> = std::fs::read_dir(run)
                    .map(|entries| entries.filter_map(Result::ok).map(|e| e.file_name()).collect())
                    .unwrap_or_default();
                self.says(format!("{run:?} is left, with {names:?}"));
            }
        }
    }

    /// Checks that only the program has written to its own files.
    fn own_files(&mut self) {
        for process in 0..PROCESSES {
            for n in 0..24 {
                let path = self.evidence.own.join(format!("{process}-{n}"));
                let Ok(bytes) = std::fs::read(&path) else { continue };
                if !own_content(n).starts_with(&bytes) {
                    let first = String::from_utf8_lossy(&bytes[..bytes.len().min(80)]).into_owned();
                    self.says(format!(
                        "the program's own file {path:?} of {} bytes was written to: {first:?}",
                        bytes.len()
                    ));
                }
            }
        }
    }
}

/// Returns the number of records, lost ones included, in a file that the tracer has ended because its thread goes
/// on with another ring, or has ended; 0 for any other file.
#[must_use]
pub fn count_records_of_ended_file(bytes: &[u8]) -> u64 {
    let decoded = Raw::parse(bytes).map(|raw| {
        let mut text = Vec::new();
        let end = raw.without_torn_tail();
        Decoder::new(raw.tid()).decode(raw, 0..end, b"", &mut text);
        text
    });
    let text = decoded.as_deref().unwrap_or(bytes);
    let last = text.split(|&byte| byte == b'\n').rfind(|line| !line.is_empty());
    let line = last.and_then(|line| Line::parse(line).ok()).filter(|line| line.kind == Kind::Meta);
    match line.and_then(|line| Meta::parse(line.payload)) {
        Some(Meta::End(end)) if end.reason == EndReason::Thread => end.records + end.lost,
        _ => 0,
    }
}

/// Returns the number of records that the trial has made.
#[must_use]
pub fn made(counters: Counters) -> u64 {
    (0..SLOTS).map(|slot| counters.slot(slot).certainly_made()).sum()
}
