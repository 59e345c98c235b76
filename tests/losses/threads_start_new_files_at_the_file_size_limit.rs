//! A process may not write long files (`RLIMIT_FSIZE`): each thread fills its file, then goes on in its next one,
//! and no record is lost. A recoverer under such a limit does the same, and no signal is raised.
#![cfg(target_os = "linux")]

use std::process::Command;
use support::equation::{Accounts, assert_equation};
use support::{APP, Scenario, read_directory, runs};
use trace_format::meta::EndReason;

const SCENARIO: &str = env!("CARGO_BIN_EXE_scenario");
/// The number of records of each thread, as in the scenario.
const MADE: [u64; 2] = [3000; 2];
/// The limit in bytes; the longest record takes 2.5 KB. The smallest ring's file is shorter than that.
const LIMIT: u64 = 32 * 1024;

fn limited(limit: u64, format: &str, end: &str, env: &[(&str, &str)]) -> Scenario {
    let mut scenario = Scenario::new(SCENARIO, &["limited", &limit.to_string(), end]);
    let output = scenario.command().env("TRACER_FORMAT", format).envs(env.iter().copied()).output();
    let output = output.expect("the program runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.success(), end != "killed", "{}: {said}", output.status);
    assert!(!said.contains("RLIMIT_FSIZE") && !said.contains(" are lost"), "nothing failed: {said}");
    scenario
}

fn assert_all_there(scenario: &Scenario, what: &str) -> Accounts {
    let accounts = assert_equation(scenario.directory.path(), &MADE, false);
    assert_eq!(accounts.in_files(), MADE.iter().sum::<u64>(), "{what}: nothing is lost: {accounts:?}");
    for thread in &accounts.threads {
        assert!(thread.files.len() > 2 && thread.without_end.is_empty(), "{what}: {thread:?}");
    }
    accounts
}

/// Panics unless each file of a thread, except the last, has less room left than the longest record and the file's
/// last lines take.
fn assert_filled(scenario: &Scenario, what: &str) {
    let mut left = 0;
    for (name, file) in read_directory(scenario.directory.path()) {
        let length = std::fs::metadata(scenario.directory.path().join(&name)).expect("the file").len();
        assert!(length <= LIMIT, "{what}: {name} has {length} bytes");
        if file.end().reason == EndReason::Full {
            assert!(length > LIMIT - 512 - 3000, "{what}: {name} has {length} bytes only");
            left += 1;
        }
    }
    assert!(left > 4, "{what}: {left} files are full");
}

#[test]
fn a_file_size_limit_loses_no_record() {
    let settings: [&[(&str, &str)]; 3] = [
        // These rings are private, because their files would be too long.
        &[],
        &[("TRACER_RING_SIZE", "16K")],
        &[("TRACER_RING_SIZE", "16K"), ("TRACER_FLUSH_MS", "1")],
    ];
    for env in settings {
        for format in ["text", "raw"] {
            let what = format!("{format} {env:?}");
            let scenario = limited(LIMIT, format, "exit", env);
            assert_all_there(&scenario, &what);
            assert_filled(&scenario, &what);
        }
    }
}

/// Returns whether all files of the scenario are shorter than the limit.
fn has_little_in_files(scenario: &Scenario) -> bool {
    let files = std::fs::read_dir(scenario.directory.path()).expect("the directory");
    files.map(|file| file.expect("a file").metadata().expect("its length")).all(|file| file.len() < LIMIT)
}

#[test]
fn recovery_under_a_file_size_limit_creates_enough_files() {
    for format in ["text", "raw"] {
        // The program has no limit. On a busy machine the flusher may write a whole ring when it makes the next one.
        let killed = |_| {
            limited(1 << 40, format, "killed", &[("TRACER_FLUSH_MS", "60000"), ("TRACER_RING_SIZE", "4M")])
        };
        let scenario =
            (0..20).map(killed).find(has_little_in_files).expect("a kill before records are written");
        let app = scenario.directory.path().join(APP);
        // `check` recovers, and writes nothing else.
        let script = format!("ulimit -f {}; exec \"$0\" tracemerge check \"$1\"", LIMIT / 512);
        let mut check = Command::new("sh");
        check.arg("-c").arg(script).arg(SCENARIO).arg(app);
        let output = check.env("TRACER_RUNTIME_DIR", scenario.runtime.path()).output().expect("a shell");
        let said = [output.stdout, output.stderr].concat();
        assert_eq!(output.status.code(), Some(0), "{}: {}", output.status, String::from_utf8_lossy(&said));
        assert!(runs(scenario.runtime.path()).is_empty(), "nothing is left in memory");
        assert_all_there(&scenario, format);
        assert_filled(&scenario, format);
    }
}
