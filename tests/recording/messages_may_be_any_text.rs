//! Any message arrives unchanged: line feeds, control characters, empty text, a mebibyte, any script.

use support::Scenario;

#[path = "../programs/messages.rs"]
#[allow(dead_code)]
mod messages;

#[test]
fn any_text_of_any_length_arrives_unchanged() {
    for ring in ["1M", "16K"] {
        let traced =
            Scenario::new(env!("CARGO_BIN_EXE_scenario"), &["free-text"]).env("TRACER_RING_SIZE", ring);
        let traced = traced.run().succeeded();
        let file = traced.main_thread();
        for (found, expected) in file.texts().into_iter().zip(messages::texts()) {
            assert!(found == expected, "{:?} ... became {:?} ...", start(&expected), start(found));
        }
        assert_eq!(file.messages.len(), messages::texts().len());
        traced.assert_whole();
    }
}

fn start(text: &str) -> String {
    text.chars().take(60).collect()
}
