//! `kill -9` at any instant: after recovery every committed record is in the trace once, whole, in order.
#![cfg(target_os = "linux")]

use std::path::Path;
use std::time::Duration;
use support::{Scenario, read_directory};
use trace_format::meta::{EndReason, Meta};

const SCENARIO: &str = env!("CARGO_BIN_EXE_scenario");
const THREADS: usize = 8;
/// `KILLS=2000 cargo test --release --test a_killed_program_loses_nothing` for a longer run.
const KILLS: u64 = 60;

/// Merges what is in `directory` as the command does, in a process of its own with the runtime directory set.
fn merge(scenario: &Path, runtime: &Path, app: &Path) {
    let mut merge = std::process::Command::new(scenario);
    let output = merge.arg("merge").arg(app).env("TRACER_RUNTIME_DIR", runtime).output();
    let output = output.expect("the merge can be run");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Starts a merge, which begins with recovery, and kills it after `delay`.
fn kill_a_merge(scenario: &Path, runtime: &Path, app: &Path, delay: Duration) {
    let mut merge = std::process::Command::new(scenario);
    merge.arg("merge").arg(app).env("TRACER_RUNTIME_DIR", runtime).stderr(std::process::Stdio::null());
    let mut child = merge.spawn().expect("the merge starts");
    std::thread::sleep(delay);
    child.kill().expect("a kill");
    child.wait().expect("its end");
}

/// Runs the stress program, kills it after `delay`, merges, and compares the trace with the program's own
/// counters.
fn kill_after(delay: Duration, ring_size: &str, recovery_kills: &[Duration]) {
    let counters = tempfile::NamedTempFile::new_in("/dev/shm").expect("a file of counters");
    std::fs::write(counters.path(), [0; THREADS * 8]).expect("a file of counters");
    let counters_path = counters.path().to_str().expect("a path in UTF-8");
    let mut scenario = Scenario::new(SCENARIO, &["stress", counters_path]).env("TRACER_RING_SIZE", ring_size);
    let mut child = scenario.command().spawn().expect("the program starts");
    std::thread::sleep(delay);
    child.kill().expect("a kill");
    child.wait().expect("its end");

    let directory = scenario.directory.path();
    let app = directory.join("scenario");
    if std::fs::read_dir(scenario.runtime.path()).expect("a directory").next().is_none() {
        return; // Killed before it traced.
    }
    let words = std::fs::read(counters.path()).expect("the counters");
    if words.iter().all(|byte| *byte == 0) {
        return; // Nor before its first record; then there may be nothing to merge.
    }
    for delay in recovery_kills {
        kill_a_merge(Path::new(SCENARIO), scenario.runtime.path(), &app, *delay);
    }
    merge(Path::new(SCENARIO), scenario.runtime.path(), &app);
    let committed = words.chunks_exact(8).map(|w| u64::from_le_bytes(w.try_into().expect("eight bytes")));
    let files = read_directory(directory);
    for (thread, committed) in committed.enumerate() {
        let mine = |f: &&support::ThreadTrace| {
            f.messages.first().is_some_and(|(_, m)| m.starts_with(&format!("{thread} ")))
        };
        let found: Vec<_> = files.values().filter(mine).collect();
        let records = found.iter().flat_map(|f| f.texts());
        let mut count = 0;
        for text in records {
            let number = text.split([' ', '\n']).nth(1);
            assert_eq!(
                number,
                Some(count.to_string().as_str()),
                "thread {thread}: none lost, doubled or torn"
            );
            let length = if count % 50 == 7 { format!("{thread} {count} ").len() + 2000 } else { text.len() };
            assert_eq!(text.len(), length);
            count += 1;
        }
        assert!(
            (committed..=committed + 1).contains(&count),
            "thread {thread}: {count} of {committed} records"
        );
    }
    for (name, file) in &files {
        assert!(!file.metas.iter().any(|m| matches!(m, Meta::Lost { .. })), "{name}: {:?}", file.metas);
        assert_eq!(file.end().reason, EndReason::Killed, "{name}");
        assert_eq!(file.end().records, file.messages.len() as u64, "{name}");
    }
    assert!(support::names(scenario.runtime.path()).is_empty(), "nothing is left in memory");
    let merged = std::fs::read(directory.join("scenario.trace.merge")).expect("the merged file");
    merge(Path::new(SCENARIO), scenario.runtime.path(), &app);
    let again = std::fs::read(directory.join("scenario.trace.merge")).expect("the merged file");
    assert!(merged == again, "a second merge gives the same bytes");
}

#[test]
fn a_program_killed_at_any_instant_loses_no_committed_record() {
    let kills = std::env::var("KILLS").ok().and_then(|k| k.parse().ok()).unwrap_or(KILLS);
    for kill in 0..kills {
        // From before the first file exists to well into full speed; small rings make the flusher busy.
        let delay = Duration::from_micros(200 + (kill * 7919) % 60_000);
        kill_after(delay, if kill % 2 == 0 { "64K" } else { "1M" }, &[]);
    }
}

#[test]
fn a_recovery_that_is_killed_at_any_instant_starts_over() {
    for kill in 0..20 {
        let micros = |n: u64| Duration::from_micros(500 + (kill * 3571 + n * 1709) % 12_000);
        kill_after(Duration::from_millis(30), "1M", &[micros(0), micros(1), micros(2)]);
    }
}

#[test]
fn a_killed_program_is_recovered_by_its_next_run_as_well() {
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
    assert!(support::names(scenario.runtime.path()).is_empty());
}

#[test]
fn rings_of_a_living_run_are_left_alone() {
    let mut scenario = Scenario::new(SCENARIO, &["idle", "2"]);
    let mut child = scenario.command().spawn().expect("the program starts");
    let ready = || support::names(scenario.directory.path()).len() == 1;
    support::wait_until(20, "a trace file", ready);
    let before = support::names(scenario.runtime.path());
    merge(Path::new(SCENARIO), scenario.runtime.path(), &scenario.directory.path().join("scenario"));
    assert_eq!(support::names(scenario.runtime.path()), before);
    assert!(child.wait().expect("its end").success());
    assert!(support::names(scenario.runtime.path()).is_empty());
}
