//! `TRACER_MAX_TOTAL` bounds the total size of a run's files, however many threads start and end. The trace records
//! the number of dropped files and records, however the run ends.
#![cfg(target_os = "linux")]

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use support::merges::tracemerge;
use support::{APP, Scenario, Traced, names, read_directory};
use trace_format::meta::{Meta, Name};

const SCENARIO: &str = env!("CARGO_BIN_EXE_scenario");
const MOST: u64 = 512 * 1024;

fn scenario(words: &[&str], format: &str) -> Scenario {
    let scenario = Scenario::new(SCENARIO, words).env("TRACER_FORMAT", format);
    scenario.env("TRACER_MAX_TOTAL", &MOST.to_string()).env("TRACER_FLUSH_MS", "1")
}

/// Returns the number of bytes that a directory's files occupy on disk.
fn taken(directory: &Path) -> u64 {
    let metadata = names(directory).into_iter().filter_map(|path| std::fs::metadata(path).ok());
    metadata.map(|found| found.blocks() * 512).sum()
}

/// Counts of a run: files that exist, files that the tracer dropped and files that it made; records in the existing
/// files, records lost with dropped files, and lost records in all.
struct Account {
    there: u64,
    dropped: u64,
    in_files: u64,
    lost_with_files: u64,
    lost: u64,
    made: u64,
}

fn account(directory: &Path) -> Account {
    let reason = Name::parse(b"dropped").expect("a name");
    let mut account = Account { there: 0, dropped: 0, in_files: 0, lost_with_files: 0, lost: 0, made: 0 };
    for file in read_directory(directory).values() {
        account.there += 1;
        account.in_files += file.messages.len() as u64;
        for meta in &file.metas {
            match meta {
                Meta::Dropped { files } => account.dropped += files,
                Meta::LostOtherwise { records, reason: of } if *of == reason => {
                    account.lost_with_files += records;
                    account.lost += records;
                }
                Meta::Lost { records, .. } | Meta::LostOtherwise { records, .. } => account.lost += records,
                Meta::End(end) => account.made = account.made.max(end.files.unwrap_or(0)),
                _ => {}
            }
        }
    }
    account
}

/// Returns the exit status and the standard error of `check`.
fn check(directory: &Path, runtime: &Path) -> (Option<i32>, String) {
    let mut command = tracemerge(SCENARIO, runtime, ["check", APP]);
    let ran = command.current_dir(directory).output().expect("the command can be run");
    (ran.status.code(), String::from_utf8_lossy(&ran.stderr).into_owned())
}

fn assert_reported_as_dropped(traced: &Traced) {
    let (status, said) = check(traced.directory.path(), traced.runtime.path());
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("dropped by the tracer"), "{said}");
}

#[test]
fn files_of_ended_threads_are_dropped_first_and_counted() {
    for format in ["text", "raw"] {
        let traced = scenario(&["short-lived", "1500"], format).run().succeeded();
        let directory = traced.directory.path();
        assert!(taken(directory) <= MOST, "{format}: {} bytes", taken(directory));
        let account = account(directory);
        // On a busy machine, threads may get no ring in time, and then have no file.
        let (dropped, made) = (account.dropped, account.made);
        assert!(made > 300 && dropped > made / 2, "{format}: {dropped} of {made} files were dropped");
        assert_eq!(account.there + account.dropped, account.made, "{format}");
        // Each thread makes two records.
        assert_eq!(account.in_files + account.lost, 3000, "{format}");
        assert_eq!(account.lost_with_files, 2 * account.dropped, "{format}");
        assert_reported_as_dropped(&traced);
    }
}

#[test]
fn a_single_thread_drops_its_older_half() {
    for format in ["text", "raw"] {
        let traced = scenario(&["rotated", "50000"], format).run().succeeded();
        let directory = traced.directory.path();
        assert!(taken(directory) <= MOST, "{format}: {} bytes", taken(directory));
        let account = account(directory);
        assert_eq!((account.dropped, account.in_files + account.lost), (0, 50_000), "{format}");
        let texts = traced.main_thread().texts();
        assert!(texts.last().is_some_and(|text| text.starts_with("49999")), "{format}");
    }
}

#[test]
fn dropped_files_are_counted_after_a_kill() {
    for after in [150, 250, 400] {
        let mut scenario = scenario(&["short-lived", "100000"], "text");
        let mut child = scenario.command().stdout(Stdio::null()).spawn().expect("the program starts");
        let mut most = 0;
        for _ in 0..after / 10 {
            std::thread::sleep(Duration::from_millis(10));
            most = most.max(taken(scenario.directory.path()));
        }
        // The sum may include files that the tracer creates and removes while the directory is read.
        assert!(most <= MOST + MOST / 8, "{most} bytes");
        child.kill().expect("it runs");
        child.wait().expect("it has ended");
        let directory = scenario.directory.path().to_path_buf();
        let (status, said) = check(&directory, scenario.runtime.path());
        assert!(taken(&directory) <= MOST + 8 * 4096 * 60, "what was in rings has got files");
        let account = account(&directory);
        assert_eq!(account.there + account.dropped, account.made, "{said}");
        if account.dropped > 0 {
            assert_eq!(status, Some(1), "{said}");
            assert_eq!(account.lost_with_files, 2 * account.dropped, "{said}");
        }
        assert!(!said.contains("not here") && !said.contains("no '# end'"), "{said}");
    }
}
