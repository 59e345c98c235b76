//! `kill -9` at any instant: after recovery, every committed record is in the trace exactly once, whole and in order.

use std::path::Path;
use std::time::Duration;
use support::kills::Kill;
use support::quiet::quiet;
use support::{APP, Scenario, read_directory};
use trace_format::meta::EndReason;

const SCENARIO: &str = env!("CARGO_BIN_EXE_scenario");
/// The number of kills. `KILLS=2000 cargo test --release --test recovery a_killed_program_loses` is a longer run.
const KILLS: u64 = 300;

/// Kills a program with eight threads, and merges that recover it; returns the number of records.
fn kill_after(delay: Duration, ring_size: &str, merges: Vec<Duration>) -> u64 {
    let env = vec![("TRACER_RING_SIZE", ring_size)];
    Kill { scenario: SCENARIO, after: delay, merges, env, files: vec![], empty_files: false, rotated: false }
        .run()
        .records
}

/// Merges the traces in `directory` as the command does, in a process of its own with the runtime directory
/// set.
fn merge(scenario: &Path, runtime: &Path, app: &Path) {
    let mut merge = std::process::Command::new(scenario);
    let output = merge.arg("merge").arg(app).env("TRACER_RUNTIME_DIR", runtime).output();
    let output = output.expect("the merge can be run");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_kill_at_any_moment_loses_no_committed_record() {
    let _quiet = quiet();
    let kills = std::env::var("KILLS").ok().and_then(|k| k.parse().ok()).unwrap_or(KILLS);
    let mut records = 0;
    for kill in 0..kills {
        // The delays go from before the first file exists to well into full speed; small rings make the
        // flusher busy.
        let delay = Duration::from_micros(200 + (kill * 7919) % 45_000);
        records += kill_after(delay, if kill % 2 == 0 { "64K" } else { "1M" }, vec![]);
    }
    eprintln!("{kills} kills, {records} records");
    assert!(records > 0, "some live long enough to trace");
}

#[test]
fn a_recovery_killed_at_any_moment_starts_over() {
    for kill in 0..20 {
        let micros = |n: u64| Duration::from_micros(500 + (kill * 3571 + n * 1709) % 12_000);
        kill_after(Duration::from_millis(30), "1M", vec![micros(0), micros(1), micros(2)]);
    }
}

#[test]
fn a_killed_program_is_recovered_by_its_next_run() {
    let mut scenario = Scenario::new(SCENARIO, &["killed"]).env("TRACER_FLUSH_MS", "60000");
    assert!(!scenario.command().status().expect("the program runs").success());
    let again = std::process::Command::new(SCENARIO)
        .arg("return")
        .env("TRACER_ENABLE", "1")
        .env("TRACER_DIR", scenario.directory.path())
        .env("TRACER_RUNTIME_DIR", scenario.runtime.path())
        .status();
    assert!(again.expect("the program runs").success());
    let files = read_directory(scenario.directory.path());
    let killed = files.values().find(|f| f.messages.len() > 1).expect("the killed run's file");
    let mut expected = vec!["flushed".to_string()];
    expected.extend((0..5).map(|i| format!("in the ring {i}")));
    assert_eq!(killed.texts(), expected);
    assert_eq!(killed.end().reason, EndReason::Killed);
    assert!(support::runs(scenario.runtime.path()).is_empty());
}

#[test]
fn rings_of_a_running_program_are_left_alone() {
    // It must not end before the merge, which takes long on an emulated machine (see `KILL_LATER`).
    let seconds = if std::env::var_os("KILL_LATER").is_some() { "20" } else { "2" };
    let mut scenario = Scenario::new(SCENARIO, &["idle", seconds]);
    let mut child = scenario.command().spawn().expect("the program starts");
    let has_one = |place: &Path| support::names(place).len() == 1;
    let ready = || has_one(scenario.directory.path()) && has_one(scenario.runtime.path());
    support::wait_until(20, "a trace file and a run", ready);
    let before = support::runs(scenario.runtime.path());
    merge(Path::new(SCENARIO), scenario.runtime.path(), &scenario.directory.path().join(APP));
    assert_eq!(support::runs(scenario.runtime.path()), before);
    assert!(child.wait().expect("its end").success());
    assert!(support::runs(scenario.runtime.path()).is_empty());
}
