//! Files cannot grow for a while, as on a full disk; the records wait until the files can grow again.
#![cfg(unix)]

use support::Scenario;

#[test]
fn unwritable_records_wait_in_the_ring_and_are_written_later() {
    let traced = Scenario::new(env!("CARGO_BIN_EXE_scenario"), &["no-space"]).run().succeeded();
    let file = traced.main_thread();
    let between = (0..1000).map(|i| format!("while there is none {i}"));
    let expected: Vec<String> =
        ["while there is room".into()].into_iter().chain(between).chain(["at the end".into()]).collect();
    assert_eq!(file.texts(), expected);
    traced.assert_whole();
    let error = traced.stdout();
    assert!(
        error.contains("cannot write") && error.contains(".trace."),
        "flush reports the operation and the path: {error}"
    );
    assert_eq!(traced.stderr().lines().count(), 1, "said once: {}", traced.stderr());
}
