//! The hot path makes no system call: a thread that any system call would kill traces 2,000 messages.
#![cfg(target_os = "linux")]

use support::Scenario;

#[test]
fn two_thousand_messages_need_no_system_call_and_no_allocation() {
    let traced = Scenario::new(env!("CARGO_BIN_EXE_scenario"), &["burst"]).run().succeeded();
    assert_eq!(traced.stdout(), "allocations 0\n");
    assert_eq!(traced.messages().len(), 2001, "{}", traced.said());
}
