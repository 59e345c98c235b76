//! `startup("MYAPP_TRACE")`: only the variable that the call names switches tracing on or off.

use support::Scenario;

const SCENARIO: &str = env!("CARGO_BIN_EXE_scenario");

fn run(default: &str, own: &str) -> (String, Vec<String>) {
    let scenario = Scenario::new(SCENARIO, &["startup", "MYAPP_TRACE"]);
    let traced = scenario.env("TRACER_ENABLE", default).env("MYAPP_TRACE", own).run().succeeded();
    traced.assert_whole();
    (traced.stdout(), traced.messages())
}

#[test]
fn the_named_variable_enables_tracing_if_the_default_one_is_off() {
    assert_eq!(run("0", "1"), ("true\n".into(), vec!["after startup".into()]));
}

#[test]
fn the_named_variable_disables_tracing_that_the_default_one_enabled() {
    assert_eq!(run("1", "0"), ("false\n".into(), vec!["before startup".into()]));
}

#[test]
fn a_run_continues_if_both_variables_are_on() {
    let both = vec!["before startup".into(), "after startup".into()];
    assert_eq!(run("1", "1"), ("true\n".into(), both));
}
