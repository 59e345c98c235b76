//! User code runs inside a record: it may panic, trace, fail, or reach a panic hook that traces.

use support::Scenario;
use trace_format::meta::{LossReason, Meta};

const SCENARIO: &str = env!("CARGO_BIN_EXE_scenario");

#[test]
fn only_a_panicking_display_loses_its_record() {
    let traced = Scenario::new(SCENARIO, &["display"]).run().succeeded();
    let file = traced.main_thread();
    let expected = [
        "before",
        "between",
        "the outer message",
        "made while another is formatted",
        "as far as it got",
        "after",
    ];
    assert_eq!(file.texts(), expected);
    assert!(file.metas.contains(&Meta::Lost { records: 1, reason: LossReason::Panic }), "{:?}", file.metas);
    assert_eq!((file.end().records, file.end().lost), (6, 1));
    assert_eq!(traced.stdout(), "lost 1\n");
    assert!(
        traced.stderr().contains("a Display that panics"),
        "the panic hook has spoken: {}",
        traced.stderr()
    );
}

#[test]
fn a_panic_hook_may_trace_inside_a_record() {
    let traced = Scenario::new(SCENARIO, &["panic-hook"]).run().succeeded();
    let texts = traced.main_thread().texts().join(" / ");
    assert!(texts.starts_with("before / hook: panicked at") && texts.ends_with("/ after"), "{texts}");
}

#[test]
fn records_made_inside_a_message_of_any_length_are_kept() {
    for length in [10, 262_144 - 100, 300_000, 600_000, 2_000_000] {
        let traced = Scenario::new(SCENARIO, &["long-display", &length.to_string()]).run().succeeded();
        let file = traced.files.values().find(|f| f.messages.len() > 1).expect("the thread's file");
        let inside: Vec<&str> = file.texts().into_iter().filter(|t| t.starts_with("inside")).collect();
        assert_eq!(inside, ["inside 0", "inside 1", "inside 2", "inside 3", "inside 4"], "{length}");
        assert!(file.texts()[0].starts_with('x'), "the outer message began first");
        traced.assert_whole();
    }
}
