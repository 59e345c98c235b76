//! While the flusher is making rings and files, a daemon closes all descriptors that it does not know and opens files
//! of its own, which get the numbers of those descriptors. The tracer changes none of the daemon's files, and no record
//! is lost, however the daemon ends. This is a race, so there are many trials.
#![cfg(target_os = "linux")]

use std::ffi::OsStr;
use support::{APP, Scenario, read_directory, runs, tracemerge};
use tempfile::TempDir;

const SCENARIO: &str = env!("CARGO_BIN_EXE_scenario");

/// Runs one trial. If `on_disk` is true, the rings are on disk and not in memory.
fn trial(how: &str, on_disk: bool) {
    let own = TempDir::new().expect("a directory");
    let mut scenario = Scenario::new(SCENARIO, &["closes-at-once", own.path().to_str().expect("UTF-8"), how]);
    if on_disk {
        let owner_only = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        scenario.runtime =
            tempfile::Builder::new().permissions(owner_only).tempdir_in(own.path()).expect("a directory");
        let runtime = scenario.runtime.path().to_path_buf();
        scenario.command().env("TRACER_RUNTIME_DIR", runtime);
    }
    // The daemon holds the pipes, so this call waits for its end.
    let output = scenario.command().output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!((&*String::from_utf8_lossy(&output.stdout), &*said), ("as it was\n", ""));

    // The run is dead when the last of its threads is: a moment after its pipes were closed.
    let is_dead = || {
        let mut runs = runs(scenario.runtime.path()).into_iter();
        runs.all(|run| trace_store::recovery::is_dead(&run))
    };
    support::wait_until(60, "its death", is_dead);
    let merged = std::process::Command::new(SCENARIO)
        .args([OsStr::new("tracemerge"), OsStr::new("-q"), scenario.directory.path().join(APP).as_os_str()])
        .env("TRACER_RUNTIME_DIR", scenario.runtime.path())
        .output()
        .expect("it runs");
    assert!(merged.status.success(), "{}", String::from_utf8_lossy(&merged.stderr));
    let files = read_directory(scenario.directory.path());
    let mut texts: Vec<&str> = files.values().flat_map(|file| file.texts()).collect();
    texts.sort_by_key(|text| text.strip_prefix("daemon ").map(|n| n.parse::<u64>().expect("a number")));
    let expected: Vec<String> = (0..2501).map(|n| format!("daemon {n}")).collect();
    assert_eq!(texts.first(), Some(&"before the daemon"));
    assert!(texts[1..] == expected, "{how}: {} records", texts.len());
    for (name, file) in &files {
        assert_eq!((file.end().records, file.end().lost), (file.messages.len() as u64, 0), "{name}");
    }
    assert!(runs(scenario.runtime.path()).is_empty(), "nothing is left in memory");
    let check = [OsStr::new("check"), OsStr::new("-q"), scenario.directory.path().as_os_str()];
    assert_eq!(tracemerge(&check), 0);
}

#[test]
fn an_ending_daemon_keeps_its_own_files_and_every_record() {
    for _ in 0..20 {
        trial("ends", false);
        trial("ends", true);
    }
}

#[test]
fn a_killed_daemon_keeps_its_own_files_and_every_record() {
    for _ in 0..20 {
        trial("killed", false);
        trial("killed", true);
    }
}
