//! The tracer soon writes the records of a quiet program to their files, without a flush or a wake-up by the
//! program.

use support::Scenario;

/// Prints the cost of an idle tracer and asserts only that it does not spin. `scenario idle 10` measures for
/// longer.
#[test]
fn an_idle_tracer_uses_little_processor_time() {
    let traced = Scenario::new(env!("CARGO_BIN_EXE_scenario"), &["idle", "1"]).run().succeeded();
    let used: u64 = traced.stdout().trim().parse().expect("microseconds");
    eprintln!("an idle second took {used} us of processor time");
    assert!(used < 500_000, "it does not spin");
}

/// Prints the times and asserts none of them: 100 ms and the time that the system needs; see docs/performance.md.
#[test]
fn a_record_reaches_its_file_without_a_further_call() {
    let traced = Scenario::new(env!("CARGO_BIN_EXE_scenario"), &["quiet"]).run().succeeded();
    let times: Vec<u64> = traced.stdout().lines().map(|l| l.parse().expect("milliseconds")).collect();
    eprintln!("in the file after {times:?} ms");
    assert_eq!(times.len(), 5);
    assert_eq!(traced.messages().len(), 5);
}
