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
