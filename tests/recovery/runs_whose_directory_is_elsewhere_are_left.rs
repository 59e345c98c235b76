//! A run's trace files may be in a directory that has another directory at its path here, because the program has a
//! mount namespace of its own. No record is then reported lost: a dead run stays as it is, and a living one is read
//! through its process.
#![cfg(target_os = "linux")]

use std::fs;
use std::path::Path;
use std::process::{Output, Stdio};
use support::merges::tracemerge;
use support::mounts::try_in_own_mounts;
use support::programs::in_part;
use support::{Scenario, names, runs, wait_until};

const SCENARIO: &str = env!("CARGO_BIN_EXE_scenario");

fn merged(traces: &Path, runtime: &Path, command: &str) -> (Output, String) {
    let app = traces.join("scenario");
    let mut merge = tracemerge(SCENARIO, runtime, [command.as_ref(), app.as_os_str()]);
    let output = merge.env("TMPDIR", runtime).current_dir("/").output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output, said)
}

#[test]
fn a_run_loses_nothing_if_another_directory_has_the_path_of_its_own() {
    a_dead_run_stays_until_its_directory_is_visible();
    a_dead_run_stays_until_the_directory_that_it_has_moved_to_is_visible();
    a_living_run_is_read_through_its_process();
}

fn a_dead_run_stays_until_its_directory_is_visible() {
    let traced = Scenario::new(SCENARIO, &["left-in-memory"]).env("TRACER_FLUSH_MS", "60000").run();
    let (traces, runtime) = (traced.directory.path(), traced.runtime.path());
    let aside = traces.with_extension("aside");
    fs::rename(traces, &aside).expect("a move");
    fs::create_dir(traces).expect("another directory");
    let (output, said) = merged(traces, runtime, "check");
    assert_ne!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("which is another directory here") && !said.contains("lost"), "{said}");
    assert_eq!((runs(runtime).len(), names(traces).len()), (1, 0), "nothing was written: {said}");

    fs::remove_dir(traces).expect("a removal");
    fs::rename(&aside, traces).expect("a move");
    let (output, said) = merged(traces, runtime, "check");
    assert!(output.status.success(), "{said}");
    assert!(String::from_utf8_lossy(&output.stdout).contains(" 0 lost"), "{said}");
    assert!(runs(runtime).is_empty(), "it is recovered: {said}");
}

/// The first directory refuses files while the program runs: a thread has its file there, and a later one in the next
/// directory, whose path leads to another directory after the program's death.
fn a_dead_run_stays_until_the_directory_that_it_has_moved_to_is_visible() {
    let mut scenario = Scenario::new(SCENARIO, &["moved-away"]).env("TRACER_FLUSH_MS", "60000");
    let traces = scenario.directory.path().to_path_buf();
    let place = tempfile::tempdir().expect("a directory");
    let next = place.path().join("next");
    fs::create_dir(&next).expect("a directory");
    scenario.command().arg(&traces).current_dir(&next);
    let traced = scenario.run();
    let runtime = traced.runtime.path();
    assert_eq!((names(&traces).len(), names(&next).len()), (1, 1), "{}", traced.stderr());
    let aside = next.with_extension("aside");
    fs::rename(&next, &aside).expect("a move");
    for is_replaced in [false, true] {
        if is_replaced {
            fs::create_dir(&next).expect("another directory");
        }
        let (output, said) = merged(&traces, runtime, "check");
        assert_ne!(output.status.code(), Some(0), "{said}");
        let hidden = format!("{next:?}, which is another directory here, or none");
        assert!(said.contains(&hidden) && !said.contains("lost"), "{said}");
        let is_empty = !is_replaced || names(&next).is_empty();
        assert!(traced.left_in_runtime().len() == 1 && is_empty, "nothing was written: {said}");
    }
    fs::remove_dir(&next).expect("a removal");
    fs::rename(&aside, &next).expect("a move");
    let (output, said) = merged(&traces, runtime, "check");
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && shown.contains(" 4 records, 0 lost"), "{said}{shown}");
    assert!(traced.left_in_runtime().is_empty(), "it is recovered: {said}");
}

fn a_living_run_is_read_through_its_process() {
    let script = r#"mount -t tmpfs tmpfs "$TRACER_DIR"; exec "$@""#;
    let Some(mut scenario) = try_in_own_mounts(script, &[SCENARIO, "return-later"]) else {
        return in_part("a mount namespace");
    };
    let mut child =
        scenario.command().stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
    let (traces, runtime) = (scenario.directory.path(), scenario.runtime.path());
    let mut said = String::new();
    wait_until(60, "the trace is found", || {
        let (output, text) = merged(traces, runtime, "show");
        said = text;
        String::from_utf8_lossy(&output.stdout).contains("before the end")
    });
    assert!(names(traces).is_empty(), "the files are elsewhere");
    let (output, said) = merged(traces, runtime, "check");
    assert!(output.status.success(), "{said}");
    drop(child.stdin.take());
    assert!(child.wait().expect("its end").success());
}
