//! With `TRACER_SCHED=1`, `tracemerge run` records each switch of the program's threads: as many as the kernel counts
//! itself, in the order of the threads' own records, also if the program is killed.

use std::collections::BTreeMap;
use std::process::Output;

use serde_json::Value;
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

/// Returns what a command prints about the trace of a scenario.
fn read(scenario: &Scenario, args: &[&str]) -> String {
    let app = scenario.directory.path().join("scenario").to_string_lossy().into_owned();
    let args = [&["tracemerge"], args, &[&app]].concat();
    let output = Scenario::new(SCENARIO, &args).command().output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

#[test]
fn views_divide_the_times_of_calls_by_the_states_of_their_threads() {
    const SLEPT: u64 = 200 * 100_000;
    let (scenario, output) = run("tracemerge", "ended");
    if String::from_utf8_lossy(&output.stderr).contains("perf_event_open") {
        return left_out("perf_event_open");
    }
    let json = |args: &[&str]| -> Value { serde_json::from_str(&read(&scenario, args)).expect("JSON") };
    let number = |of: &Value| of.as_u64().unwrap_or_else(|| panic!("a number: {of}"));
    // The times of the thread's own clock of the processor, which the program has traced in each function.
    let merged = String::from_utf8_lossy(&output.stdout);
    let measured = |function: &str| -> u64 {
        let mut times = merged.lines().filter_map(|line| line.split_once(&format!(" : cpu of {function} ")));
        times.next().and_then(|(_, time)| time.parse().ok()).expect("a time")
    };
    let report = json(&["report", "--json"]);
    for (function, column, least) in
        [("sleep_often", "waiting_ns", SLEPT), ("spin_until_preempted", "preempted_ns", 1)]
    {
        let rows = report["functions"].as_array().expect("rows").iter();
        let row =
            rows.clone().find(|row| row["function"].as_str().is_some_and(|name| name.ends_with(function)));
        let row = row.unwrap_or_else(|| panic!("{function}: {report}"));
        let [own, cpu, waiting, preempted] =
            ["self_ns", "cpu_ns", "waiting_ns", "preempted_ns"].map(|column| number(&row[column]));
        assert_eq!(cpu + waiting + preempted, own, "{row}");
        assert!(number(&row[column]) >= least, "{row}");
        let measured = measured(function);
        // The thread's clock also counts the switches themselves.
        assert!(cpu <= measured * 2 + 20_000_000 && measured <= cpu * 4 + 20_000_000, "{measured}: {row}");
    }
    let table = read(&scenario, &["report"]);
    let heading = table.lines().find(|line| line.contains(" self ")).expect("a heading");
    assert!(heading.contains(" cpu  waiting  preempted "), "{table}");
    assert!(table.contains("times off the processor are those of the kernel, \u{b1}"), "{table}");
    let tree = read(&scenario, &["tree", "--function", "sleep_often"]);
    assert!(tree.lines().any(|line| line.contains("sleep_often") && line.contains("  [waiting ")), "{tree}");
    let summary = json(&["summary", "--json"]);
    let threads = summary["threads"].as_array().expect("threads");
    assert!(threads.iter().any(|thread| number(&thread["waiting_ns"]) >= SLEPT), "{summary}");
    let chrome: Value = json(&["--format", "chrome", "-o", "-"]);
    let events = chrome["traceEvents"].as_array().expect("events").iter();
    let waits: Vec<&Value> =
        events.filter(|event| event["cat"] == "state" && event["name"] == "waiting").collect();
    let all: f64 = waits.iter().filter_map(|event| event["dur"].as_f64()).sum();
    assert!(waits.len() >= 200 && all * 1000.0 >= SLEPT as f64, "{}: {all}", waits.len());
}

#[test]
fn a_killed_program_loses_none() {
    compared("killed");
}

#[test]
fn a_program_that_tracemerge_does_not_start_says_that_it_records_none() {
    for (value, says_so) in [("1", true), ("0", false)] {
        let mut scenario = Scenario::new(SCENARIO, &["many", "1"]).env("TRACER_SCHED", value);
        let output = scenario.command().output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr);
        let sentence = "TRACER_SCHED has no effect: only tracemerge run records states of threads";
        assert_eq!(said.matches(sentence).count(), usize::from(says_so), "{said}");
    }
}

#[test]
fn a_refusal_is_reported_once_with_its_reason_and_the_trace_has_the_totals() {
    let (scenario, output) = run("without-events", "ended");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let reason = "the states of threads are not recorded: perf_event_open: Operation not permitted (os error 1); a \
                  filter of system calls forbids it";
    assert_eq!(said.matches(reason).count(), 1, "{said}");
    let totals = said.lines().skip_while(|line| !line.ends_with("blocked  thread"));
    // Some kernels have no totals.
    let counts = std::path::Path::new("/proc/self/schedstat").exists();
    assert_eq!(totals.count() >= 2, counts, "{said}");
    let merged = String::from_utf8_lossy(&output.stdout);
    assert!(merged.contains(" : exact") && !merged.contains(" = "), "{merged}");
    if counts {
        assert_eq!(merged.matches("# no_states why=\"perf_event_open: ").count(), 1, "{merged}");
        let pid = merged.split(" pid=").nth(1).and_then(|rest| rest.split(' ').next()).expect("a process");
        let of_main = merged.lines().filter(|line| line.contains(&format!(" # totals thread={pid} name=")));
        assert_eq!(of_main.count(), 1, "{merged}");
        let report = read(&scenario, &["report"]);
        let sentence = "the kernel has recorded no states of threads: perf_event_open: ";
        assert_eq!(report.matches(sentence).count(), 1, "{report}");
        for view in ["report", "summary"] {
            let text = read(&scenario, &[view]);
            let short = "no states of threads: perf_event_open: Operation not permitted";
            assert_eq!(text.matches(short).count(), 1, "{text}");
            let totals = text.lines().skip_while(|line| !line.ends_with("blocked  thread"));
            let labels: Vec<&str> =
                totals.skip(1).map(|line| line.rsplit("  ").next().unwrap_or(line)).collect();
            assert!(labels.contains(&"main"), "{text}");
            assert!(!labels.iter().any(|label| label.starts_with("tracer-")), "{text}");
        }
        read(&scenario, &["check"]);
    }
}
