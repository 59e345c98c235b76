//! `tracemerge run --open` starts the viewer after the program, with the traces of this run.

use support::Scenario;

const SCENARIO: &str = env!("CARGO_BIN_EXE_scenario");

/// Runs `tracemerge run --open` with the configured viewer; returns its exit status, stdout and stderr.
fn run(viewer: &str, program: &[&str]) -> (Option<i32>, String, String) {
    let args = [&["tracemerge", "run", "--open", "--", SCENARIO], program].concat();
    let mut scenario = Scenario::new(SCENARIO, &args).without("TRACER_ENABLE").env("TRACEMERGE_OPEN", viewer);
    let output = scenario.command().output().expect("it runs");
    let [out, err] = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    (output.status.code(), out, err)
}

#[test]
fn the_viewer_gets_this_run_with_its_typed_values() {
    let (status, out, err) = run("jsonl:cat", &["sites-by-builder", "any"]);
    assert_eq!(status, Some(0), "{err}");
    assert_eq!(out.matches("\"message\":\"number ").count(), 2, "{out}{err}");
    assert!(out.contains("\"fields\":{\"n\":1}"), "{out}");
}

#[test]
fn the_status_is_that_of_the_program_and_then_of_the_viewer() {
    assert_eq!(run("text:exit 9;", &["sites-by-builder", "any"]).0, Some(9));
    let (status, _, err) = run("text:exit 9;", &["no such scenario"]);
    assert!(![Some(0), Some(9)].contains(&status), "{status:?} {err}");
}

#[test]
fn the_program_is_not_run_if_no_viewer_can_be_chosen() {
    let (status, out, err) = run("svg", &["sites-by-builder", "any"]);
    assert_eq!((status, &out[..]), (Some(2), ""), "{err}");
    assert!(err.contains("TRACEMERGE_OPEN=\"svg\" names no format") && !err.contains("merged"), "{err}");
}
