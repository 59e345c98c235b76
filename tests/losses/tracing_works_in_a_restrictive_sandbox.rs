//! A sandbox (seccomp) may refuse the system calls by which the flusher separates its descriptors from the program's,
//! or kill a process that makes these calls. The tracer finds that out beforehand, reports it once, and traces the
//! program nevertheless.
#![cfg(target_os = "linux")]

use support::Scenario;

#[test]
fn forbidden_system_calls_lose_neither_the_program_nor_a_record() {
    for action in ["refuse", "kill"] {
        let traced = Scenario::new(env!("CARGO_BIN_EXE_scenario"), &["sandboxed", action]).run().succeeded();
        let expected: Vec<String> = (0..200).map(|n| format!("daemon {n}")).collect();
        assert_eq!(traced.messages(), expected, "{action}");
        traced.assert_whole();
        let said = traced.stderr();
        assert_eq!(said.lines().count(), 1, "{action}: {said}");
        assert!(said.contains("cannot have file descriptors of its own"), "{action}: {said}");
    }
}

#[test]
fn explicitly_shared_descriptors_are_not_reported() {
    let traced = Scenario::new(env!("CARGO_BIN_EXE_scenario"), &["sandboxed", "kill"])
        .env("TRACER_DESCRIPTORS", "shared")
        .run()
        .succeeded();
    assert_eq!((traced.messages().len(), &*traced.stderr()), (200, ""));
    traced.assert_whole();
}
