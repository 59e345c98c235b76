//! Programs that are merged while they run, and the lines of each of their threads in a merge.

use crate::words::words;
use crate::{Scenario, memory};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use tempfile::NamedTempFile;
use trace_format::escape::unescape;
use trace_format::line::{Kind, Line};
use trace_format::meta::{LossReason, Meta};

/// The number of threads of the program.
pub const THREADS: usize = 8;

/// Returns the command as a process of its own: `program` is the traced program, which can act as the command, too.
pub fn tracemerge<S: AsRef<OsStr>>(
    program: &str,
    runtime: &Path,
    args: impl IntoIterator<Item = S>,
) -> Command {
    let mut command = Command::new(program);
    command.arg("tracemerge").args(args).env("TRACER_RUNTIME_DIR", runtime);
    command.env_remove("TRACER_ENABLE").env_remove("TRACER_DIR");
    command
}

/// A program that traces as many records as the test requests.
pub struct Watched {
    /// The program with its directories of files and rings.
    pub scenario: Scenario,
    /// The process of the program.
    pub child: Child,
    program: String,
    words: &'static [AtomicU64],
    /// The file of the words, which is removed when this is dropped.
    _file: NamedTempFile,
}

impl Watched {
    /// Starts the program with these variables; `manners` is that of the scenario.
    pub fn start(program: &str, manners: &str, env: &[(&str, &str)]) -> Watched {
        let file = NamedTempFile::new_in(memory()).expect("a file of words");
        std::fs::write(file.path(), [0; (THREADS + 2) * 8]).expect("a file of words");
        let words = words(file.path(), THREADS + 2);
        let path = file.path().to_str().expect("a path in UTF-8");
        let mut scenario = Scenario::new(program, &["watched", path, manners]);
        let command = scenario.command().envs(env.iter().copied());
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        Watched { scenario, child, program: program.to_owned(), words, _file: file }
    }

    /// Lets each thread trace until it has `goal` records.
    pub fn go_on_to(&self, goal: u64) {
        self.words[0].store(goal, Ordering::Release);
    }

    /// Returns the number of calls of each thread that have returned.
    pub fn returned(&self) -> Vec<u64> {
        self.words[2..].iter().map(|word| word.load(Ordering::Acquire)).collect()
    }

    /// Makes the program end; returns its output and its messages.
    pub fn end(&mut self) -> String {
        self.words[1].store(1, Ordering::Release);
        let status = self.child.wait().expect("its end");
        let mut said = String::new();
        let (out, err) =
            (self.child.stdout.take().expect("a pipe"), self.child.stderr.take().expect("a pipe"));
        out.chain(err).read_to_string(&mut said).expect("what it said");
        assert!(status.success(), "{status}: {said}");
        said
    }

    /// Merges to `to` in the program's directory; returns the command's output, and the bytes that it wrote.
    pub fn merge(&self, args: &[&OsStr], to: &str) -> (Output, Vec<u8>) {
        let to = self.scenario.directory.path().join(to);
        let mut command = tracemerge(&self.program, self.scenario.runtime.path(), args);
        let output = command.arg("-o").arg(&to).output().expect("the merge can be run");
        (output, std::fs::read(to).unwrap_or_default())
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The content of one thread in a merged file.
#[derive(Debug, Default)]
pub struct Merged {
    /// The thread's messages.
    pub messages: Vec<String>,
    /// The reported losses: their reasons, and the numbers of records.
    pub lost: Vec<(LossReason, u64)>,
}

/// Returns the threads of the program in a merged file, by the number that their messages begin with. Panics unless
/// every line parses and all are in the order of their ticks.
pub fn by_thread(merged: &[u8]) -> BTreeMap<usize, Merged> {
    let mut threads: BTreeMap<u64, Merged> = BTreeMap::new();
    let mut last = 0;
    let text = merged.strip_suffix(b"\n").unwrap_or(merged);
    for line in text.split(|&b| b == b'\n').filter(|line| !line.is_empty()) {
        let line = Line::parse(line).unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(line)));
        assert!(line.key.ticks.0 >= last, "ticks go back");
        last = line.key.ticks.0;
        let thread = threads.entry(line.key.tid).or_default();
        let text = || String::from_utf8(unescape(line.payload)).expect("messages of tests are UTF-8");
        match (line.kind, Meta::parse(line.payload)) {
            (Kind::Message, _) => thread.messages.push(text()),
            (Kind::Continuation, _) => {
                let message = thread.messages.last_mut().expect("a message before its next line");
                message.push('\n');
                message.push_str(&text());
            }
            (_, Some(Meta::Lost { records, reason })) => thread.lost.push((reason, records)),
            _ => {}
        }
    }
    let number = |thread: &Merged| thread.messages.first()?.split(' ').next()?.parse().ok();
    threads.into_values().filter_map(|thread| Some((number(&thread)?, thread))).collect()
}
