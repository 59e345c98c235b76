//! `startup("MYAPP_TRACE")`: only the variable that the call names switches tracing.

use support::Scenario;

const SCENARIO: &str = env!("CARGO_BIN_EXE_scenario");

fn run(default: &str, own: &str) -> (String, Vec<String>) {
    let scenario = Scenario::new(SCENARIO, &["startup", "MYAPP_TRACE"]);
    let traced = scenario.env("TRACER_ENABLE", default).env("MYAPP_TRACE", own).run().succeeded();
    traced.assert_whole();
    (traced.stdout(), traced.messages())
}

#[test]
fn the_named_variable_switches_on_where_the_default_one_is_off() {
    assert_eq!(run("0", "1"), ("true\n".into(), vec!["after startup".into()]));
}

#[test]
fn the_named_variable_switches_off_what_the_default_one_had_switched_on() {
    assert_eq!(run("1", "0"), ("false\n".into(), vec!["before startup".into()]));
}

#[test]
fn a_run_goes_on_where_both_are_on() {
    let both = vec!["before startup".into(), "after startup".into()];
    assert_eq!(run("1", "1"), ("true\n".into(), both));
}
