//! A program drops its privileges after it has begun to trace: the rings and files of its later threads belong to
//! the new user. However it ends, root finds every record; the new user finds those that the user may read, and the
//! command names the rest.
#![cfg(target_os = "linux")]

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use support::processes::Running;
use support::programs::lacks_root;
use support::{APP, Scenario, read_directory, runs};
use trace_format::meta::{EndReason, Meta};

const SCENARIO: &str = env!("CARGO_BIN_EXE_scenario");

/// Returns the default directory of a user's rings.
fn rings_of(user: u32) -> PathBuf {
    Path::new("/dev/shm").join(format!("tracer-{user}"))
}

/// Starts the program, and waits until it has become `user` and all its threads have traced.
fn start(user: u32) -> (Scenario, Running) {
    let mut scenario = Scenario::new(SCENARIO, &["becomes", &user.to_string()]).without("TRACER_RUNTIME_DIR");
    fs::set_permissions(scenario.directory.path(), Permissions::from_mode(0o1777)).expect("a change of mode");
    let mut running = Running::start(&mut scenario);
    assert_eq!(running.hear(), "ready");
    (scenario, running)
}

/// Merges as root, or as another user.
fn merge(scenario: &Scenario, user: Option<u32>) -> Output {
    let app = scenario.directory.path().join(APP);
    let mut command = Command::new(SCENARIO);
    command.args([OsStr::new("tracemerge"), app.as_os_str(), OsStr::new("-o"), OsStr::new("-")]);
    if let Some(user) = user {
        command.uid(user).gid(user);
    }
    command.env_remove("TRACER_RUNTIME_DIR").output().expect("it runs")
}

/// Panics unless all records of all threads are in the files, once.
fn assert_all(scenario: &Scenario, reason: EndReason) {
    let files = read_directory(scenario.directory.path());
    let mut texts: Vec<String> = files.values().flat_map(|file| file.texts()).map(str::to_owned).collect();
    let names = ["new a", "new b", "new c", "new d", "new e", "new f", "new g", "new h"];
    let new = names.iter().flat_map(|name| (0..100).map(move |n| format!("{name} {n}")));
    let mut expected: Vec<String> = (0..200).map(|n| format!("old {n}")).chain(new).collect();
    texts.sort();
    expected.sort();
    assert!(texts == expected, "{} of {} records", texts.len(), expected.len());
    let is_final = |meta: &Meta| matches!(meta, Meta::End(end) if end.reason == reason);
    assert!(files.values().any(|file| file.metas.iter().any(is_final)), "{files:?}");
    let told = |meta: &Meta| matches!(meta, Meta::Credentials { .. });
    assert!(files.values().any(|file| file.metas.iter().any(told)), "the change is recorded");
}

#[test]
fn root_finds_every_record_however_the_program_ends() {
    if lacks_root() {
        return;
    }
    // No other process here has a user id of this number.
    let user = 600_000 + std::process::id() % 100_000;
    let (scenario, mut running) = start(user);
    running.say("end");
    let (status, _) = running.wait();
    assert!(status.success(), "{status}");
    assert_all(&scenario, EndReason::Exit);
    assert!(merge(&scenario, None).status.success());

    let (scenario, running) = start(user);
    running.kill();
    // The new user gets the records that the user may read, and an error for the rest.
    let output = merge(&scenario, Some(user));
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let found =
        String::from_utf8_lossy(&output.stdout).lines().filter(|line| line.contains(" : new")).count();
    assert_eq!(found, 800, "{said}");
    assert!(said.contains("Permission denied"), "{said}");
    // Root gets all records, and nothing is left.
    let output = merge(&scenario, None);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert_all(&scenario, EndReason::Killed);
    assert_eq!(
        String::from_utf8_lossy(&output.stdout).lines().filter(|line| line.contains(" : ")).count(),
        1000
    );
    // The user may not write beside the executable, so recovery has put the list of places here.
    assert!(runs(&rings_of(user)).is_empty(), "nothing is left in memory");
    let _ = fs::remove_dir_all(rings_of(user));
}
