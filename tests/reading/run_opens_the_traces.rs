//! `tracemerge run --open` starts the viewer after the program, with the traces of this run.

use support::Scenario;

const SCENARIO: &str = env!("CARGO_BIN_EXE_scenario");

/// The result of a command.
struct Ran {
    status: Option<i32>,
    out: String,
    err: String,
    /// Whether the program has left a trace.
    has_run: bool,
}

/// Runs `tracemerge run --open` with the configured viewer.
fn run(viewer: &str, program: &[&str]) -> Ran {
    let args = [&["tracemerge", "run", "--open", "--", SCENARIO], program].concat();
    let mut scenario = Scenario::new(SCENARIO, &args).without("TRACER_ENABLE").env("TRACEMERGE_OPEN", viewer);
    let output = scenario.command().output().expect("it runs");
    let names = std::fs::read_dir(scenario.directory.path()).expect("a directory").flatten();
    let is_trace = |name: &std::ffi::OsString| name.to_string_lossy().contains(".trace.");
    let has_run = names.map(|entry| entry.file_name()).any(|name| is_trace(&name));
    let [out, err] = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    Ran { status: output.status.code(), out, err, has_run }
}

#[test]
fn the_viewer_gets_this_run_with_its_typed_values() {
    let Ran { status, out, err, has_run } = run("jsonl:cat", &["sites-by-builder", "any"]);
    assert_eq!((status, has_run), (Some(0), true), "{err}");
    assert_eq!(out.matches("\"message\":\"number ").count(), 2, "{out}{err}");
    assert!(out.contains("\"fields\":{\"n\":1}"), "{out}");
}

#[test]
fn the_status_is_that_of_the_program_and_then_of_the_viewer() {
    assert_eq!(run("text:exit 9;", &["sites-by-builder", "any"]).status, Some(9));
    let Ran { status, err, .. } = run("text:exit 9;", &["no such scenario"]);
    assert!(![Some(0), Some(9)].contains(&status), "{status:?} {err}");
}

#[test]
fn the_program_is_not_run_if_no_viewer_can_be_chosen() {
    let Ran { status, err, has_run, .. } = run("svg", &["sites-by-builder", "any"]);
    assert_eq!((status, has_run), (Some(2), false), "{err}");
    assert!(err.contains("TRACEMERGE_OPEN=\"svg\" names no format"), "{err}");
}
