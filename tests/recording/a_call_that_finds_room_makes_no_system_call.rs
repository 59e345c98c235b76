//! The hot path: a thread that any system call would kill traces 2,000 messages.
#![cfg(target_os = "linux")]

use support::Scenario;

#[test]
fn a_call_that_finds_room_makes_no_system_call_and_no_allocation() {
    let traced = Scenario::new(env!("CARGO_BIN_EXE_scenario"), &["burst"]).run().succeeded();
    assert_eq!(traced.stdout(), "allocations 0\n");
    assert_eq!(traced.messages().len(), 2001, "{}", traced.said());
}
