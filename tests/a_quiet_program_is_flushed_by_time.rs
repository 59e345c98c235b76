//! A record of a quiet program is in its file soon, without a flush and without a wake-up by the program.

use support::Scenario;

/// How soon is shown, not asserted: 100 ms and the time the system needs; see docs/performance.md.
#[test]
fn a_line_is_in_its_file_without_any_further_call() {
    let traced = Scenario::new(env!("CARGO_BIN_EXE_scenario"), &["quiet"]).run().succeeded();
    let times: Vec<u64> = traced.stdout().lines().map(|l| l.parse().expect("milliseconds")).collect();
    eprintln!("in the file after {times:?} ms");
    assert_eq!(times.len(), 5);
    assert_eq!(traced.messages().len(), 5);
}
