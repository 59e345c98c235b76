//! With `TRACER_SCHED=1`, `tracemerge run` records each switch of the program's threads: as many as the kernel counts
//! itself, in the order of the threads' own records, also if the program is killed.

use std::collections::BTreeMap;
use std::process::Output;

use support::Scenario;
use support::programs::left_out;
use trace_format::line::{Kind, Line};
use trace_format::states::{StateChange, ThreadState};

const SCENARIO: &str = env!("CARGO_BIN_EXE_scenario");

/// Runs the scenario `way` under `command`, with states.
fn run(command: &str, way: &str) -> (Scenario, Output) {
    let args = [command, "run", "-o", "-", "--", SCENARIO, "switches", way];
    let mut scenario = Scenario::new(SCENARIO, &args).without("TRACER_ENABLE").env("TRACER_SCHED", "1");
    let output = scenario.command().output().expect("it runs");
    (scenario, output)
}

/// Compares the switches between exact counts with the counts. Returns the number of switches of each kind; `None`
/// if this kernel refuses.
fn compared(way: &str) -> Option<(i64, i64)> {
    let (scenario, output) = run("tracemerge", way);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if said.contains("perf_event_open") {
        left_out("perf_event_open");
        return None;
    }
    #[derive(Default)]
    struct OfThread {
        switches: (i64, i64),
        /// The counts of the last record, and the switches before it.
        last: Option<((i64, i64), (i64, i64))>,
        exact: Vec<((i64, i64), (i64, i64))>,
    }
    let mut threads: BTreeMap<u64, OfThread> = BTreeMap::new();
    for line in output.stdout.split(|byte| *byte == b'\n') {
        let Ok(line) = Line::parse(line) else { continue };
        if line.kind == Kind::State {
            let state = ThreadState::parse(line.payload).expect("a state");
            assert_ne!(state.change, StateChange::Gap, "the kernel has lost states");
            let switches = &mut threads.entry(state.thread).or_default().switches;
            switches.0 += i64::from(state.change == StateChange::Left);
            switches.1 += i64::from(state.change == StateChange::Preempted);
        } else if line.kind == Kind::Message {
            let thread = threads.entry(line.key.tid).or_default();
            let text = String::from_utf8_lossy(line.payload).into_owned();
            if let Some(counts) = text.strip_prefix("counts ") {
                let mut counts = counts.split(' ').map(|number| number.parse().expect("a number"));
                let counts = (counts.next().expect("a number"), counts.next().expect("a number"));
                thread.last = Some((counts, thread.switches));
            } else if text == "exact" {
                thread.exact.extend(thread.last);
            }
        }
    }
    let mut sum = (0, 0);
    let with_counts: Vec<&OfThread> = threads.values().filter(|thread| !thread.exact.is_empty()).collect();
    assert_eq!(with_counts.len(), 3, "{said}");
    for thread in with_counts {
        let [first, last] = thread.exact[..] else { panic!("two exact counts: {:?}", thread.exact) };
        let counted = (last.0.0 - first.0.0, last.0.1 - first.0.1);
        assert_eq!((last.1.0 - first.1.0, last.1.1 - first.1.1), counted);
        sum = (sum.0 + counted.0, sum.1 + counted.1);
    }
    let app = scenario.directory.path().join("scenario").to_string_lossy().into_owned();
    for (command, expected) in [("check", "whole: "), ("info", " thread states")] {
        let mut shown = Scenario::new(SCENARIO, &["tracemerge", command, &app]);
        let shown = shown.command().output().expect("it runs");
        let text = String::from_utf8_lossy(&[shown.stdout, shown.stderr].concat()).into_owned();
        assert!(shown.status.success() && text.contains(expected), "{text}");
    }
    Some(sum)
}

#[test]
fn each_switch_is_recorded_with_its_kind_and_in_its_place() {
    if let Some((left, preempted)) = compared("ended") {
        assert!(left >= 200 && preempted >= 3, "{left} {preempted}");
    }
}

#[test]
fn a_killed_program_loses_none() {
    compared("killed");
}

#[test]
fn a_refusal_is_reported_once_with_its_reason() {
    let (_scenario, output) = run("without-events", "ended");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let reason = "the states of threads are not recorded: perf_event_open: Operation not permitted (os error 1); a \
                  filter of system calls forbids it";
    assert_eq!(said.matches(reason).count(), 1, "{said}");
    let merged = String::from_utf8_lossy(&output.stdout);
    assert!(merged.contains(" : exact") && !merged.contains(" = "), "{merged}");
}
