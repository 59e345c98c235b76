//! A parallel word counter: a queue of files, and threads that count the words of one file after another.
//!
//! It counts the words in the files that are named, and in the `.rs` and `.md` files below the directories that are
//! named; without names, in the `.rs` and `.md` files of this repository. A file that cannot be read or is not UTF-8 is
//! reported on stderr and counted as unreadable.
//!
//! ```text
//! cargo build --release --example word_count
//! TRACER_FORMAT=raw TRACER_ENABLE=1 target/release/examples/word_count --threads 4
//! tracemerge show --columns time,thread,site target/release/examples/word_count
//! ```
//!
//! Look whether the threads have equal shares of the work (`tracemerge stats --thread NAME`), which file they wait
//! for at the end, and how long merging the counts takes after the last file. `tracemerge tree` shows which function
//! took how long for which file.

#![allow(clippy::print_stdout)]

use crossbeam_channel::Receiver;
use std::cell::RefCell;
use std::collections::HashMap;
use std::num::NonZero;
use std::ops::AddAssign;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;
use std::{env, fs, io, thread};
use thread_local::ThreadLocal;
use tracer::{trace, traced};

/// The number of the most frequent words that are printed.
const SHOWN: usize = 20;
/// The names of directories that contain no sources and are skipped.
const SKIPPED: [&str; 2] = ["target", ".git"];

/// The counts besides the counts of single words.
#[derive(Clone, Copy, Default)]
struct Totals {
    files: u64,
    bytes: u64,
    words: u64,
    unreadable: u64,
}

impl AddAssign for Totals {
    fn add_assign(&mut self, other: Totals) {
        self.files += other.files;
        self.bytes += other.bytes;
        self.words += other.words;
        self.unreadable += other.unreadable;
    }
}

/// The counts of one thread, or the sum of the counts of all threads.
#[derive(Default)]
struct WordCounts {
    totals: Totals,
    words: HashMap<String, u64>,
}

impl WordCounts {
    #[traced]
    fn add_text(&mut self, text: &str) -> u64 {
        let mut words = 0;
        for word in words_of(text) {
            words += 1;
            *self.words.entry(word.to_lowercase()).or_default() += 1;
        }
        self.totals += Totals { files: 1, bytes: text.len() as u64, words, unreadable: 0 };
        words
    }

    fn merge(mut self, other: WordCounts) -> WordCounts {
        self.totals += other.totals;
        for (word, count) in other.words {
            *self.words.entry(word).or_default() += count;
        }
        self
    }

    /// Returns the most frequent words with their counts; words with equal counts are in the order of the alphabet.
    fn most_frequent(&self) -> Vec<(&str, u64)> {
        let mut words: Vec<(&str, u64)> = self.words.iter().map(|(w, n)| (w.as_str(), *n)).collect();
        words.sort_unstable_by(|(a, n), (b, m)| m.cmp(n).then(a.cmp(b)));
        words.truncate(SHOWN);
        words
    }
}

/// Returns the words of a text: runs of letters, digits and underscores.
fn words_of(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// Counts the words of one file, and adds them to the calling thread's counts.
#[traced]
fn count_file(path: &Path, counts: &mut WordCounts) {
    let start = Instant::now();
    trace!("taken {}", path.display());
    match fs::read_to_string(path) {
        Ok(text) => {
            let words = counts.add_text(&text);
            let (bytes, us) = (text.len(), start.elapsed().as_micros());
            trace!("done {}: {bytes} bytes, {words} words, {us} µs", path.display());
        }
        Err(error) => {
            counts.totals.unreadable += 1;
            trace!("unreadable {}: {error}", path.display());
            eprintln!("word_count: {}: {error}", path.display());
        }
    }
}

/// Takes files from the queue and counts their words, until the queue is closed.
#[traced]
fn work(queue: &Receiver<PathBuf>, counts: &ThreadLocal<RefCell<WordCounts>>) {
    let mut counts = counts.get_or_default().borrow_mut();
    for path in queue {
        count_file(&path, &mut counts);
    }
    trace!("the queue is closed: {} files done", counts.totals.files);
}

/// Counts the words of all files by `threads` threads.
#[traced]
fn count(files: Vec<PathBuf>, threads: usize) -> io::Result<WordCounts> {
    let counts = ThreadLocal::new();
    let (sender, receiver) = crossbeam_channel::bounded(2 * threads);
    thread::scope(|scope| {
        for number in 1..=threads {
            let (receiver, counts) = (receiver.clone(), &counts);
            let named = thread::Builder::new().name(format!("counter {number}"));
            named.spawn_scoped(scope, move || work(&receiver, counts))?;
        }
        drop(receiver);
        for file in files {
            // Sending fails only if no thread is left, and then the rest is not needed.
            if sender.send(file).is_err() {
                break;
            }
        }
        drop(sender);
        Ok::<(), io::Error>(())
    })?;
    Ok(merge_counts(counts))
}

#[traced]
fn merge_counts(counts: ThreadLocal<RefCell<WordCounts>>) -> WordCounts {
    let start = Instant::now();
    let all = counts.into_iter().map(RefCell::into_inner).fold(WordCounts::default(), WordCounts::merge);
    let us = start.elapsed().as_micros();
    trace!("counts merged: {} different words, {us} µs", all.words.len());
    all
}

/// Appends `path` itself to `files` if it is a file, or the sources below it if it is a directory.
fn files_of(path: PathBuf, files: &mut Vec<PathBuf>) {
    if !path.is_dir() {
        files.push(path);
    } else if let Err(error) = walk(&path, files) {
        eprintln!("word_count: {}: {error}", path.display());
    }
}

fn walk(directory: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let path = entry.path();
        let kind = entry.file_type()?;
        if kind.is_dir() && SKIPPED.iter().all(|skipped| entry.file_name() != *skipped) {
            files_of(path, files);
        } else if kind.is_file() && path.extension().is_some_and(|e| e == "rs" || e == "md") {
            files.push(path);
        }
    }
    Ok(())
}

/// Returns the directory whose sources are counted if no path is given.
fn sources() -> PathBuf {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).parent().filter(|path| path.is_dir());
    repository.unwrap_or(Path::new(".")).to_owned()
}

/// The options of the command line.
struct Options {
    threads: usize,
    paths: Vec<PathBuf>,
}

impl Options {
    fn parse(mut args: impl Iterator<Item = std::ffi::OsString>) -> Result<Options, String> {
        let threads = thread::available_parallelism().map_or(1, NonZero::get);
        let mut options = Options { threads, paths: Vec::new() };
        while let Some(arg) = args.next() {
            if arg == "--threads" {
                let number = args.next().and_then(|n| n.to_str()?.parse::<NonZero<u16>>().ok());
                options.threads = usize::from(number.ok_or("--threads takes a number above 0")?.get());
            } else if arg.as_encoded_bytes().starts_with(b"--") {
                return Err(format!("unknown option {}", arg.to_string_lossy()));
            } else {
                options.paths.push(arg.into());
            }
        }
        if options.paths.is_empty() {
            options.paths.push(sources());
        }
        Ok(options)
    }
}

fn main() -> ExitCode {
    let options = match Options::parse(env::args_os().skip(1)) {
        Ok(options) => options,
        Err(error) => {
            eprintln!("word_count: {error}\nusage: word_count [--threads N] [FILE or DIRECTORY]...");
            return ExitCode::from(2);
        }
    };
    let mut files = Vec::new();
    options.paths.into_iter().for_each(|path| files_of(path, &mut files));
    files.sort();
    let counts = match count(files, options.threads) {
        Ok(counts) => counts,
        Err(error) => {
            eprintln!("word_count: cannot start a thread: {error}");
            return ExitCode::FAILURE;
        }
    };
    for (word, count) in counts.most_frequent() {
        println!("{count:8} {word}");
    }
    let Totals { files, bytes, words, unreadable } = counts.totals;
    println!("{files} files, {bytes} bytes, {words} words, {unreadable} unreadable");
    ExitCode::SUCCESS
}
