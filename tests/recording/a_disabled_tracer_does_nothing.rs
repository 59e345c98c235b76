//! A disabled tracer starts no thread, creates no file, allocates nothing and formats nothing. Environment
//! variables switch tracing on and off.

use support::Scenario;

const SCENARIO: &str = env!("CARGO_BIN_EXE_scenario");

#[test]
fn a_disabled_tracer_starts_allocates_and_formats_nothing() {
    for value in ["", "0", "false", "off", "no", "OFF"] {
        let traced = Scenario::new(SCENARIO, &["disabled"]).env("TRACER_ENABLE", value).run().succeeded();
        assert_eq!(traced.stdout(), "allocations 0 threads 1\n", "TRACER_ENABLE={value:?}");
        assert_eq!(traced.stderr(), "");
        assert!(traced.files.is_empty() && traced.left_in_runtime().is_empty());
    }
    let traced = Scenario::new(SCENARIO, &["disabled"]).without("TRACER_ENABLE").run().succeeded();
    assert_eq!(traced.stdout(), "allocations 0 threads 1\n");
}

#[test]
fn an_invalid_value_disables_tracing_and_is_reported_once() {
    let traced = Scenario::new(SCENARIO, &["disabled"]).env("TRACER_ENABLE", "maybe").run().succeeded();
    assert_eq!(traced.stdout(), "allocations 0 threads 1\n");
    let said = traced.stderr();
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains("TRACER_ENABLE") && said.contains("\"maybe\""), "{said}");
}

#[test]
fn every_word_for_on_enables_tracing() {
    for value in ["1", "true", "on", "yes", "Yes"] {
        let traced = Scenario::new(SCENARIO, &["return"]).env("TRACER_ENABLE", value).run().succeeded();
        assert_eq!(traced.messages(), ["the last words of main"], "TRACER_ENABLE={value:?}");
    }
}

#[test]
fn an_invalid_setting_is_reported_and_the_default_is_used() {
    let settings = [
        ("TRACER_RING_SIZE", "12 parsecs"),
        ("TRACER_FULL", "perhaps"),
        ("TRACER_CLOCK", "sundial"),
        ("TRACER_FLUSH_MS", "-1"),
        ("TRACER_MAX_STALL", "soon"),
        ("TRACER_FORMAT", "yaml"),
    ];
    for (name, value) in settings {
        let traced = Scenario::new(SCENARIO, &["return"]).env(name, value).run().succeeded();
        assert_eq!(traced.messages().len(), 1, "tracing goes on");
        let said = traced.stderr();
        assert!(said.lines().count() == 1 && said.contains(name) && said.contains(value), "{said}");
    }
}
