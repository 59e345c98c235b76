//! `tracemerge run` records raw files if its view needs what text files lack, unless the program or the user chooses
//! text.

use support::Scenario;

const SCENARIO: &str = env!("CARGO_BIN_EXE_scenario");

/// Runs the program with its messages as JSON lines on stdout; returns these, and stderr.
fn jsonl(program: &[&str], variable: (&str, &str)) -> (String, String) {
    let args = [&["tracemerge", "run", "--format", "jsonl", "-o", "-", "--", SCENARIO], program].concat();
    let mut scenario = Scenario::new(SCENARIO, &args).without("TRACER_ENABLE").env(variable.0, variable.1);
    let output = scenario.command().output().expect("it runs");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let [out, err] = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert_eq!(out.matches("\"message\":\"number ").count(), 2, "{out}");
    (out, err)
}

/// Whether both messages have their template and the second one its value, and stderr names no way to record them.
fn has_values((out, err): &(String, String)) -> bool {
    let templates = out.matches("\"template\":\"number {n}\"").count();
    let has_value = out.contains("\"fields\":{\"n\":1}");
    assert_eq!((templates == 2, has_value), (has_value, !err.contains("TRACER_FORMAT=raw")), "{out}{err}");
    has_value
}

#[test]
fn run_records_typed_values_for_a_format_that_has_them() {
    assert!(has_values(&jsonl(&["sites-by-builder", "any"], ("", ""))));
}

#[test]
fn the_program_and_the_user_may_choose_text_all_the_same() {
    assert!(!has_values(&jsonl(&["sites-by-builder", "text"], ("", ""))));
    assert!(!has_values(&jsonl(&["sites-by-builder", "any"], ("TRACER_FORMAT", "text"))));
}
