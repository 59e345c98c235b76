//! `tracemerge snapshot PID` reads everything that a living process has traced, from its files and rings, from
//! outside. If it cannot, it reports the reason.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Output;
use support::merges::{THREADS, Watched, by_thread, tracemerge};
use support::{names, runs};

const SCENARIO: &str = env!("CARGO_BIN_EXE_scenario");

fn snapshot(watched: &Watched) -> (String, Vec<u8>) {
    let pid = watched.child.id().to_string();
    let (output, merged) = watched.merge(&["snapshot".as_ref(), pid.as_ref()], "snapshot");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{said}");
    (said, merged)
}

fn wait_for(watched: &Watched, count: u64) {
    support::wait_until(60, "all have traced", || watched.returned() == [count; THREADS]);
}

fn numbered(thread: usize, numbers: std::ops::Range<u64>) -> Vec<String> {
    numbers.map(|n| format!("{thread} {n}")).collect()
}

#[test]
fn a_snapshot_shows_all_records_in_rings_and_writes_no_trace_file() {
    let mut watched = Watched::start(SCENARIO, "plain", &[("TRACER_FULL", "overwrite")]);
    for count in [5, 7] {
        watched.go_on_to(count);
        wait_for(&watched, count);
        let (said, merged) = snapshot(&watched);
        let merged = by_thread(&merged);
        assert_eq!(merged.len(), THREADS, "{said}");
        for (thread, found) in merged {
            assert_eq!((found.messages, found.lost), (numbered(thread, 0..count), vec![]));
        }
        assert!(said.contains("merged 8 rings of 1 run (8 threads, "), "{said}");
        assert_eq!(names(watched.scenario.directory.path()).len(), 1, "there is no file but the snapshot");
    }
    watched.end();
}

#[test]
fn a_snapshot_shows_records_of_files_and_rings() {
    let env = [("TRACER_FLUSH_MS", "60000"), ("TRACER_RING_SIZE", "16K"), ("TRACER_MAX_STALL", "100000")];
    let mut watched = Watched::start(SCENARIO, "all", &env);
    // There are so many records that the flusher has to write some.
    watched.go_on_to(1006);
    wait_for(&watched, 1006);
    let (said, merged) = snapshot(&watched);
    assert!(said.contains("merged 8 files ") && said.contains(" of 1 run (8 threads, "), "{said}");
    for (thread, found) in by_thread(&merged) {
        // Some records are made inside of others.
        assert_eq!(found.messages.len(), 1006 + 6, "thread {thread}");
    }
    watched.end();
}

#[test]
fn a_snapshot_shows_records_made_inside_an_unfinished_record() {
    for full in ["block", "overwrite"] {
        let mut watched =
            Watched::start(SCENARIO, "stuck", &[("TRACER_FULL", full), ("TRACER_RING_SIZE", "1M")]);
        watched.go_on_to(12);
        wait_for(&watched, 10);
        let is_there = |merged: &[u8]| {
            let last = |thread: usize| format!("{thread} 10 inside");
            let merged = by_thread(merged);
            merged.len() == THREADS
                && merged.iter().all(|(t, found)| found.messages.last() == Some(&last(*t)))
        };
        // The calls inside return soon.
        support::wait_until(60, full, || is_there(&snapshot(&watched).1));
        watched.end();
    }
}

#[test]
fn a_snapshot_is_written_beside_the_executable_by_default() {
    // The directory is beside the program, so that a hard link can be made: a copy that was just written may be
    // open in a child of another test.
    let directory = tempfile::tempdir_in(Path::new(SCENARIO).parent().unwrap()).unwrap();
    let place = std::fs::canonicalize(directory.path()).unwrap();
    let app = place.join(format!("app{}", std::env::consts::EXE_SUFFIX));
    std::fs::hard_link(SCENARIO, &app).unwrap();
    let mut watched = Watched::start(app.to_str().unwrap(), "plain", &[]);
    watched.go_on_to(5);
    wait_for(&watched, 5);
    let beside = |suffix: &str| PathBuf::from(format!("{}.trace.{suffix}", app.display()));
    // The flusher writes the list of directories when it makes the first file, which may be after the first records.
    support::wait_until(60, "the flusher has made a file", || beside("places").exists());
    let pid = watched.child.id().to_string();
    let ran = tracemerge(SCENARIO, watched.scenario.runtime.path(), ["snapshot", &pid]).output().unwrap();
    assert_eq!(ran.status.code(), Some(0), "{}", said(&ran));
    assert_eq!(names(&place), [app.clone(), beside("merge"), beside("places")]);
    let to_stdout = ["snapshot", "-q", &pid, "-o", "-"];
    let ran = tracemerge(SCENARIO, watched.scenario.runtime.path(), to_stdout).output().unwrap();
    assert_eq!((ran.status.code(), &*said(&ran)), (Some(0), ""));
    assert_eq!(by_thread(&ran.stdout).len(), THREADS);
    watched.end();
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Returns the command's one line for a process that has no trace.
fn refused(runtime: &Path, pid: u32) -> String {
    let ran = tracemerge(SCENARIO, runtime, ["snapshot", &pid.to_string()]).output().unwrap();
    assert_eq!(ran.status.code(), Some(2), "{}", said(&ran));
    said(&ran)
}

#[test]
fn a_failed_snapshot_reports_the_reason() {
    let runtime = tempfile::tempdir().unwrap();
    let none = refused(runtime.path(), u32::MAX);
    assert_eq!(none, format!("tracemerge: error: there is no process {}\n", u32::MAX));
    let own = refused(runtime.path(), std::process::id());
    assert!(own.contains("does not trace: ") && own.contains(runtime.path().to_str().unwrap()), "{own}");
    // This process did trace, and its directory still exists, but it was killed.
    let mut watched = Watched::start(SCENARIO, "plain", &[]);
    watched.go_on_to(5);
    wait_for(&watched, 5);
    watched.child.kill().unwrap();
    watched.child.wait().unwrap();
    let dead = refused(watched.scenario.runtime.path(), watched.child.id());
    assert!(dead.contains("there is no process"), "{dead}");
    assert!(!runs(watched.scenario.runtime.path()).is_empty(), "what it left is left alone");
    let ran =
        tracemerge(SCENARIO, runtime.path(), [OsStr::new("snapshot"), OsStr::new("app")]).output().unwrap();
    assert_eq!(ran.status.code(), Some(2), "{}", said(&ran));
}

#[cfg(target_os = "linux")]
#[test]
fn a_snapshot_of_another_users_process_is_rejected() {
    if support::programs::lacks_root() {
        return;
    }
    let runtime = tempfile::tempdir().unwrap();
    let mut other = std::process::Command::new("sleep");
    std::os::unix::process::CommandExt::uid(&mut other, 65534).arg("1000");
    let mut other = other.spawn().unwrap();
    let uid =
        |pid: u32| std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(format!("/proc/{pid}")).unwrap());
    support::wait_until(60, "another user's process", || uid(other.id()) == 65534);
    let others = refused(runtime.path(), other.id());
    other.kill().unwrap();
    other.wait().unwrap();
    assert!(others.contains("belongs to another user (65534)"), "{others}");
}
