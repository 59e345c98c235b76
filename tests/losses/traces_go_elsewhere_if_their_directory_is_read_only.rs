//! Directories may be read but not written. Trace files go to the next directory that can be written, and one message
//! reports that. If there is no such directory, the program does not suffer.
#![cfg(target_os = "linux")]

use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::process::Command;
use support::mounts::in_own_mounts;
use support::programs::{in_part, is_root};
use support::{APP, Scenario, Traced};
use tempfile::TempDir;

const SCENARIO: &str = env!("CARGO_BIN_EXE_scenario");

/// Panics unless one line names the directory that refuses, the reason, and the directory that takes its place.
fn assert_said(traced: &Traced, refusing: &TempDir, why: &str) {
    let said = traced.stderr();
    assert_eq!(said.lines().count(), 1, "{said}");
    for part in [&refusing.path().to_string_lossy(), why, &traced.directory.path().to_string_lossy()] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn traces_go_to_the_current_directory_if_the_file_system_is_read_only() {
    let refusing = TempDir::new().expect("a directory");
    let script = r#"mount -t tmpfs -o ro tmpfs "$REFUSING"; cd "$TRACER_DIR"; TRACER_DIR="$REFUSING" "$@""#;
    let Some(scenario) = in_own_mounts(script, &[SCENARIO, "thread-local"]) else { return };
    let traced = scenario.env("REFUSING", refusing.path().to_str().expect("UTF-8")).run().succeeded();
    assert_said(&traced, &refusing, "Read-only file system");
    assert_eq!(traced.files.len(), 3, "one per thread");
    traced.assert_whole();
}

/// Runs the program as another user if the test runs as root, because root may write everywhere.
#[test]
fn traces_go_to_the_current_directory_if_writing_is_not_permitted() {
    const NOBODY: u32 = 65534;
    let refusing = TempDir::new().expect("a directory");
    std::fs::set_permissions(refusing.path(), PermissionsExt::from_mode(0o555)).expect("a change of mode");
    let place = TempDir::new().expect("a directory");
    let mut scenario = if is_root() {
        // All users can enter this directory.
        std::fs::set_permissions(place.path(), PermissionsExt::from_mode(0o755)).expect("a change of mode");
        let program = place.path().join(APP);
        assert!(Command::new("cp").arg(SCENARIO).arg(&program).status().expect("cp runs").success());
        let mut scenario = Scenario::new(&program, &["thread-local"]);
        scenario.command().uid(NOBODY).gid(NOBODY);
        for directory in [scenario.directory.path(), scenario.runtime.path()] {
            chown(directory, Some(NOBODY), None).expect("a change of owner");
        }
        scenario
    } else {
        in_part("root, who has the rights of all");
        Scenario::new(SCENARIO, &["thread-local"])
    };
    let here = scenario.directory.path().to_path_buf();
    scenario.command().current_dir(here).env("TRACER_DIR", refusing.path());
    let traced = scenario.run().succeeded();
    assert_said(&traced, &refusing, "Permission denied");
    assert_eq!(traced.files.len(), 3, "one per thread");
    traced.assert_whole();
    assert!(support::names(refusing.path()).is_empty());
}

#[test]
fn the_program_runs_normally_if_no_directory_is_writable() {
    let refusing = TempDir::new().expect("a directory");
    let script = r#"mount -t tmpfs -o ro tmpfs "$REFUSING"
                    cd "$REFUSING"
                    TMPDIR="$REFUSING" TRACER_DIR="$REFUSING" "$@""#;
    let Some(scenario) = in_own_mounts(script, &[SCENARIO, "exit", "thread"]) else { return };
    let traced = scenario.env("REFUSING", refusing.path().to_str().expect("UTF-8")).run();
    assert_eq!(traced.output.status.code(), Some(3), "its own status: {}", traced.said());
    assert!(traced.files.is_empty());
    let said = traced.stderr();
    let errors: Vec<&str> = said.lines().filter(|line| line.contains("tries again")).collect();
    assert_eq!(errors.len(), 1, "said once: {said}");
    assert!(!traced.left_in_runtime().is_empty(), "the records wait for a recovery");
}
