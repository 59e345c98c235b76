//! The program makes more records than the flusher can take: `block` loses none, `drop` counts those that it loses.

use support::{Scenario, Traced};
use trace_format::meta::{LossReason, Meta};

const COUNT: u64 = 200_000;

/// Runs the scenario; returns the traced run, and the numbers of records, lost records, stalls and stalled
/// nanoseconds from `stats()`.
fn run(policy: &str) -> (Traced, [u64; 4]) {
    let scenario = Scenario::new(env!("CARGO_BIN_EXE_scenario"), &["full", &COUNT.to_string()]);
    let scenario = scenario.env("TRACER_FULL", policy).env("TRACER_RING_SIZE", "16K");
    let traced = scenario.env("TRACER_MAX_STALL", "60000").run().succeeded();
    let numbers: Vec<u64> = traced.stdout().split_whitespace().filter_map(|w| w.parse().ok()).collect();
    let numbers = numbers.try_into().expect("four numbers");
    (traced, numbers)
}

#[test]
fn block_waits_reports_its_waits_and_loses_nothing() {
    let (traced, [records, lost, stalls, stall_ns]) = run("block");
    let file = traced.main_thread();
    assert_eq!((records, lost, file.messages.len() as u64), (COUNT, 0, COUNT));
    for (n, text) in file.texts().iter().enumerate() {
        assert!(text.starts_with(&format!("record number {n} ")), "{text}");
    }
    let told = |meta: &Meta| match meta {
        Meta::Stall { ns } => *ns,
        Meta::Wait(wait) => wait.ns,
        _ => 0,
    };
    let told: u64 = file.metas.iter().map(told).sum();
    assert!(stalls > 0 && stall_ns > 0, "a ring of 16 KiB has to fill up");
    assert_eq!(told, stall_ns, "the file reports every wait");
    assert_eq!(file.end().waited.ns, told, "its last line has the sum");
    traced.assert_whole();
}

#[test]
fn drop_counts_every_lost_record() {
    let (traced, [records, lost, stalls, _]) = run("drop");
    let file = traced.main_thread();
    assert!(lost > 0, "a ring of 16 KiB has to overflow");
    assert_eq!((records + lost, stalls), (COUNT, 0));
    assert_eq!(file.messages.len() as u64, records, "what was committed is in the file");
    let told: u64 = file
        .metas
        .iter()
        .map(|m| if let Meta::Lost { records, reason: LossReason::Full } = m { *records } else { 0 })
        .sum();
    assert_eq!((told, file.end().lost), (lost, lost), "the file reports every loss");
}
