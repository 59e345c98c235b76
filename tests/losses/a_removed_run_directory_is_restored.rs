//! Another process (a cleaner, systemd's RemoveIPC, `rm`) removes the directory of a living run, or files in it.
//! The flusher reports that, restores as much as it can, and lets threads go on in new rings. No command takes the
//! run for dead meanwhile.
#![cfg(target_os = "linux")]

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Output, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use support::equation::{Accounts, assert_equation, check};
use support::words::words;
use support::{APP, Scenario, memory, names, runs, wait_until};
use tempfile::NamedTempFile;
use trace_format::life::RingFiles;

const SCENARIO: &str = env!("CARGO_BIN_EXE_scenario");
/// The number of threads of the traced program.
const THREADS: usize = 8;

/// The removed part of a run's directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Removed {
    Directory,
    /// The directory, which an empty file then replaces.
    Replaced,
    Life,
    Manifest,
    Sites,
    Rings,
    /// All files in the directory, but not the directory itself.
    Files,
}

use Removed::{Directory, Files, Life, Manifest, Replaced, Rings, Sites};

/// A program that is traced, with the counts of its records.
struct Traced {
    scenario: Scenario,
    child: Child,
    said: NamedTempFile,
    words: &'static [AtomicU64],
    run: PathBuf,
    /// Keeps the file of the counts alive.
    _counts: NamedTempFile,
}

impl Traced {
    fn start(variables: &[(&str, &str)]) -> Traced {
        let counts = NamedTempFile::new_in(memory()).expect("a file of counters");
        fs::write(counts.path(), [0; THREADS * 8]).expect("a file of counters");
        let mut scenario = Scenario::new(SCENARIO, &["stress", counts.path().to_str().expect("UTF-8")])
            .env("STRESS_PAUSE_US", "200")
            .env("TRACER_RING_SIZE", "64K");
        let said = NamedTempFile::new().expect("a file");
        let stderr = Stdio::from(said.reopen().expect("the file"));
        let child =
            scenario.command().envs(variables.iter().copied()).stderr(stderr).spawn().expect("it starts");
        let words = words(counts.path(), THREADS);
        let all = || words.iter().all(|word| word.load(Ordering::Acquire) > 20);
        wait_until(60, "some records of each thread", all);
        let run = runs(scenario.runtime.path()).pop().expect("a run");
        Traced { scenario, child, said, words, run, _counts: counts }
    }

    fn made(&self) -> Vec<u64> {
        self.words.iter().map(|word| word.load(Ordering::Acquire)).collect()
    }

    /// Waits until each thread has made 200 more records.
    fn go_on(&self) {
        let before = self.made();
        let more = || self.made().iter().zip(&before).all(|(now, before)| *now > before + 200);
        wait_until(60, "further records of each thread", more);
    }

    fn remove(&self, what: Removed) {
        let files = |prefix: &str| {
            for path in names(&self.run) {
                if path.file_name().expect("a name").to_string_lossy().starts_with(prefix) {
                    fs::remove_file(path).expect("a removal");
                }
            }
        };
        match what {
            Directory | Replaced => {
                // The flusher may be making a ring there.
                while self.run.exists() {
                    let _ = fs::remove_dir_all(&self.run);
                }
                if what == Replaced {
                    fs::write(&self.run, "").expect("a file");
                }
            }
            Life => files("life"),
            Manifest => files("manifest"),
            Sites => files("sites"),
            Rings => files("ring-"),
            Files => files(""),
        }
    }

    fn said(&self) -> String {
        fs::read_to_string(self.said.path()).expect("what it said")
    }

    fn command(&self, words: &[&str]) -> Output {
        let app = self.scenario.directory.path().join(APP);
        let mut command = std::process::Command::new(SCENARIO);
        command.arg("tracemerge").args(words).arg(app);
        command.env("TRACER_RUNTIME_DIR", self.scenario.runtime.path()).output().expect("it runs")
    }

    fn directory(&self) -> &Path {
        self.scenario.directory.path()
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        // After a failure, the program would go on and write into another directory.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs `each` with all cases, several at the same time: they mostly wait.
fn run_for_all<T: Copy + Sync>(cases: &[T], each: impl Fn(T) + Sync) {
    for some in cases.chunks(4) {
        std::thread::scope(|scope| {
            some.iter().for_each(|case| drop(scope.spawn(|| each(*case))));
        });
    }
}

#[test]
fn removed_run_files_are_restored_and_a_later_kill_loses_nothing() {
    let removals = [Directory, Life, Manifest, Sites, Rings, Files];
    let cases: Vec<_> = removals
        .into_iter()
        .zip(["block", "overwrite"].into_iter().cycle())
        .flat_map(|(what, policy)| [(what, policy, "text"), (what, "block", "raw")])
        .collect();
    run_for_all(&cases, |(what, policy, format)| {
        let mut traced = Traced::start(&[("TRACER_FULL", policy), ("TRACER_FORMAT", format)]);
        traced.remove(what);
        wait_until(20, "a report", || traced.said().contains("somebody has removed"));
        // The report comes when all is restored except the module table, which the flusher writes in its next
        // round.
        for name in ["life", "manifest", "sites"] {
            assert!(traced.run.join(name).is_file(), "{what:?}: {name}");
        }
        wait_until(20, "the module table", || traced.run.join("modules").is_file());
        traced.go_on();
        // A ring without a file is counted until its thread has left it and all its records are written.
        let are_given_up = || {
            let life = fs::read(traced.run.join("life")).unwrap_or_default();
            let counted: Option<[u8; 8]> = life.get(152..160).and_then(|bytes| bytes.try_into().ok());
            let files = names(&traced.run);
            let is_ring = |path: &&PathBuf| path.to_string_lossy().contains("/ring-");
            let word =
                RingFiles { count: files.iter().filter(is_ring).count() as u32, changing: None }.to_word();
            counted.map(u64::from_le_bytes) == Some(word)
        };
        wait_until(20, "the former rings are given up", are_given_up);
        assert!(!trace_store::recovery::is_dead(&traced.run), "{what:?}");
        traced.child.kill().expect("a kill");
        traced.child.wait().expect("its end");
        let checked = traced.command(&["check"]);
        let report = String::from_utf8_lossy(&checked.stdout).into_owned();
        let said = String::from_utf8_lossy(&checked.stderr).into_owned();
        let made = traced.made();
        let accounts = assert_equation(traced.directory(), &made, true);
        if policy == "block" {
            let whole = count_allowed_losses(&accounts) == 0;
            assert_eq!(checked.status.success(), whole, "{what:?}: {report} {said}");
            assert_ne!(report.contains("not whole: "), whole, "{what:?}: {report} {said}");
        }
        assert!(runs(traced.scenario.runtime.path()).is_empty(), "{what:?}: nothing is left in memory");
        assert_eq!(traced.said().matches("removed").count(), 1, "{}", traced.said());
    });
}

/// Returns the number of records reported lost: at most one for each thread, the long message that it was writing
/// when its ring was given up.
fn count_allowed_losses(accounts: &Accounts) -> u64 {
    let lost: u64 = accounts.threads.iter().map(support::equation::Account::reported_lost).sum();
    assert!(lost <= THREADS as u64, "{lost} records are lost");
    lost
}

#[test]
fn a_kill_before_the_restoration_leaves_no_whole_trace() {
    for what in [Directory, Life, Manifest, Rings, Files] {
        for flush in ["60000", "5"] {
            let mut traced = Traced::start(&[("TRACER_FLUSH_MS", flush)]);
            traced.remove(what);
            assert!(what != Life || !trace_store::recovery::is_dead(&traced.run), "its manifest is locked");
            traced.child.kill().expect("a kill");
            traced.child.wait().expect("its end");
            let checked = traced.command(&["check"]);
            let report = String::from_utf8_lossy(&checked.stdout).into_owned();
            let is_all_there = check(traced.directory(), &traced.made(), true).is_ok();
            assert!(
                !checked.status.success() || is_all_there,
                "{what:?}, {flush}: {report} {}",
                String::from_utf8_lossy(&checked.stderr)
            );
            // A later check knows of the removal only from the files.
            let again = traced.command(&["check"]);
            assert!(!again.status.success() || is_all_there, "{what:?}, {flush}: {report}");
            if what == Life {
                assert!(is_all_there, "all rings were there: {report}");
            }
        }
    }
}

#[test]
fn a_ring_file_that_was_being_made_at_the_kill_hides_no_removed_one() {
    let mut traced = Traced::start(&[("TRACER_FULL", "overwrite"), ("TRACER_FLUSH_MS", "60000")]);
    traced.child.kill().expect("a kill");
    traced.child.wait().expect("its end");
    let rings = names(&traced.run).into_iter().filter(|path| path.to_string_lossy().contains("/ring-"));
    let used = rings.max_by_key(|ring| fs::metadata(ring).expect("a ring").modified().expect("a time"));
    fs::remove_file(used.expect("a ring")).expect("a removal");
    // As after a kill between the creation of a file and its count.
    let path = traced.run.join("life");
    let mut life = fs::read(&path).expect("the life file");
    let counted = u64::from_le_bytes(life[152..160].try_into().expect("a word"));
    let of_kill = RingFiles { changing: Some(999), ..RingFiles::of_word(counted) };
    life[152..160].copy_from_slice(&of_kill.to_word().to_le_bytes());
    fs::write(&path, life).expect("the life file");
    fs::write(traced.run.join("ring-999"), "").expect("a ring");
    let checked = traced.command(&["check"]);
    let said = String::from_utf8_lossy(&checked.stderr).into_owned();
    assert!(!checked.status.success() && said.contains("1 ring"), "{said}");
}

#[test]
fn a_program_without_its_run_directory_keeps_all_records_at_exit() {
    run_for_all(&[Directory, Replaced, Life, Manifest, Rings], |what| {
        let mut traced = Traced::start(&[]);
        traced.remove(what);
        // While it lives, no command recovers it.
        for _ in 0..5 {
            let checked = traced.command(&["check"]);
            let said = String::from_utf8_lossy(&checked.stderr).into_owned();
            assert!(!said.contains("recovered") && !said.contains("is dead"), "{what:?}: {said}");
        }
        assert!(traced.child.wait().expect("its end").success(), "{what:?}: {}", traced.said());
        let accounts = assert_equation(traced.directory(), &traced.made(), false);
        let whole = count_allowed_losses(&accounts) == 0;
        let checked = traced.command(&["check"]);
        let report = String::from_utf8_lossy(&checked.stdout).into_owned();
        let said = String::from_utf8_lossy(&checked.stderr);
        assert_eq!(checked.status.success(), whole, "{what:?}: {report} {said}");
        assert!(traced.said().contains("somebody has removed"), "{what:?}: {}", traced.said());
        let is_of_others = |path: &PathBuf| what == Replaced && *path == traced.run;
        let left: Vec<_> =
            names(traced.scenario.runtime.path()).into_iter().filter(|p| !is_of_others(p)).collect();
        let left: Vec<_> = left.iter().filter(|p| p.extension() != Some(OsStr::new("places"))).collect();
        assert!(left.is_empty(), "{what:?}: {left:?}");
    });
}
