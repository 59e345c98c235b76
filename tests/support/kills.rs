//! Runs of the stress program that are killed, recovered and compared with the program's own counters.

use crate::{APP, Scenario, ThreadTrace, memory, names, read_directory, runs};
use std::ffi::OsString;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use trace_format::meta::{EndReason, LossReason, Meta};

/// The number of threads of the stress program.
pub const THREADS: usize = 8;

/// The factor for the time until a program traces and a merge is at work: Wine starts programs slowly.
const SLOWER: u32 = if cfg!(windows) { 8 } else { 1 };

/// The way in which the stress program is run, killed and recovered.
pub struct Kill<'a> {
    /// The traced program.
    pub scenario: &'a str,
    /// The time that the program lives.
    pub after: Duration,
    /// The times after which merges are killed, before one may finish.
    pub merges: Vec<Duration>,
    /// Variables for the program.
    pub env: Vec<(&'a str, &'a str)>,
    /// Variables for the program and for the merges that are killed.
    pub files: Vec<(&'a str, OsString)>,
    /// Whether empty files may be left, because the file system has no links.
    pub empty_files: bool,
    /// Whether the older records of a thread may be gone, because its file has a limit.
    pub rotated: bool,
}

/// The result of a kill.
#[derive(Clone, Copy, Debug, Default)]
pub struct Killed {
    /// The number of calls that had returned; 0 if the program was killed before it traced.
    pub records: u64,
    /// The number of files that ended in the middle of a line, after each of the kills.
    pub cut_off: u64,
    /// The number of files that had lost their older half.
    pub rotated: u64,
}

impl Kill<'_> {
    /// Runs the program, kills it, merges, and compares the trace with the program's own counts.
    pub fn run(&self) -> Killed {
        let counters = tempfile::NamedTempFile::new_in(memory()).expect("a file of counters");
        std::fs::write(counters.path(), [0; THREADS * 8]).expect("a file of counters");
        let path = counters.path().to_str().expect("a path in UTF-8");
        let mut scenario = Scenario::new(self.scenario, &["stress", path]);
        scenario.command().envs(self.env.iter().copied()).envs(self.files.iter().map(|(n, v)| (n, v)));
        kill(scenario.command(), self.after);

        let words = std::fs::read(counters.path()).expect("the counters");
        let committed: Vec<u64> =
            words.chunks_exact(8).map(|w| u64::from_le_bytes(w.try_into().expect("eight bytes"))).collect();
        if committed.iter().all(|count| *count == 0) {
            return Killed::default(); // Then there may be nothing to merge.
        }
        let mut cut_off = self.cut_off(&scenario);
        for after in &self.merges {
            let mut merge = self.merge(&scenario);
            merge.stderr(Stdio::null()).envs(self.files.iter().map(|(n, v)| (n, v)));
            kill(&mut merge, *after);
            cut_off += self.cut_off(&scenario);
        }
        let merged = self.merged(&scenario);
        let rotated = self.compare(scenario.directory.path(), &committed);
        assert!(runs(scenario.runtime.path()).is_empty(), "nothing is left in memory");
        assert!(merged == self.merged(&scenario), "a second merge gives the same bytes");
        Killed { records: committed.iter().sum(), cut_off, rotated }
    }

    /// Returns the number of files that end in the middle of a line.
    fn cut_off(&self, scenario: &Scenario) -> u64 {
        let traces = names(scenario.directory.path()).into_iter().filter_map(|path| std::fs::read(path).ok());
        traces.filter(|bytes| bytes.last().is_some_and(|last| *last != b'\n')).count() as u64
    }

    fn app(scenario: &Scenario) -> PathBuf {
        scenario.directory.path().join(APP)
    }

    /// Returns the command of a merge, as a process of its own.
    fn merge(&self, scenario: &Scenario) -> Command {
        let mut merge = Command::new(self.scenario);
        merge.arg("merge").arg(Kill::app(scenario)).env("TRACER_RUNTIME_DIR", scenario.runtime.path());
        merge
    }

    fn merged(&self, scenario: &Scenario) -> Vec<u8> {
        let output = self.merge(scenario).output().expect("the merge can be run");
        let said = String::from_utf8_lossy(&output.stderr);
        let excused = self.empty_files && said.contains(" is empty");
        let expected = if excused { Some(1) } else { Some(0) };
        assert_eq!(output.status.code(), expected, "{said}");
        let merged = scenario.directory.path().join(format!("{APP}.trace.merge"));
        std::fs::read(merged).expect("the merged file")
    }

    /// Compares the files with the program's own counts; returns the number of files that had lost their
    /// older half.
    fn compare(&self, directory: &Path, committed: &[u64]) -> u64 {
        if self.empty_files {
            let is_empty = |path: &PathBuf| std::fs::metadata(path).is_ok_and(|found| found.len() == 0);
            for path in names(directory).into_iter().filter(is_empty) {
                std::fs::remove_file(path).expect("a removal");
            }
        }
        let files = read_directory(directory);
        for (thread, committed) in committed.iter().enumerate() {
            let start = format!("{thread} ");
            let mine = |f: &&ThreadTrace| f.messages.first().is_some_and(|(_, m)| m.starts_with(&start));
            let texts: Vec<&str> = files.values().filter(mine).flat_map(ThreadTrace::texts).collect();
            let oldest = || texts.first().and_then(|text| text.split([' ', '\n']).nth(1)?.parse().ok());
            let mut count = if self.rotated { oldest().unwrap_or(0) } else { 0 };
            let mut whole = String::new();
            for text in texts {
                record(thread, count, &mut whole);
                assert!(text == whole, "none lost, doubled or torn: {whole:?} became {text:?}");
                count += 1;
            }
            let range = *committed..=committed + 1;
            assert!(range.contains(&count), "thread {thread}: {count} of {committed} records");
        }
        let mut rotated = 0;
        for (name, file) in &files {
            let of_loss = |meta: &&Meta| matches!(meta, Meta::Lost { .. });
            for loss in file.metas.iter().filter(of_loss) {
                let excused = matches!(loss, Meta::Lost { reason: LossReason::Rotated, .. });
                assert!(self.rotated && excused, "{name}: {loss:?}");
                rotated += 1;
            }
            assert_eq!(file.end().reason, EndReason::Killed, "{name}");
            assert_eq!(file.end().records, file.messages.len() as u64, "{name}");
        }
        let is_unfinished = |path: &PathBuf| path.to_string_lossy().ends_with(".new");
        let unfinished: Vec<_> = names(directory).into_iter().filter(is_unfinished).collect();
        assert!(unfinished.is_empty(), "{unfinished:?}");
        rotated
    }
}

/// Makes `text` the text of record `n` of a thread of the stress program.
pub fn record(thread: usize, n: u64, text: &mut String) {
    text.clear();
    // Some messages span blocks, or have several lines.
    let rest = match n % 50 {
        7 => format!(" {}", "long ".repeat(400)),
        8 => " \nand more\n".to_string(),
        _ => String::new(),
    };
    write!(text, "{thread} {n}{rest}").expect("a string grows");
}

/// Returns the time after which a program is killed. If it takes longer to begin, as under an emulator, the
/// variable `KILL_LATER` multiplies that time.
#[must_use]
pub fn later(after: Duration) -> Duration {
    let times = std::env::var("KILL_LATER").ok().and_then(|times| times.parse().ok()).unwrap_or(SLOWER);
    after * times
}

/// Starts a program and kills it.
///
/// # Panics
/// If the program cannot be started.
pub fn kill(command: &mut Command, after: Duration) {
    let mut child = command.spawn().expect("the program starts");
    std::thread::sleep(later(after));
    child.kill().expect("a kill");
    child.wait().expect("its end");
}
