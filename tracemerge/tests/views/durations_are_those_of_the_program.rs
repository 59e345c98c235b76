//! The durations that views show are those that passed in the program, whatever happens to the wall clock meanwhile.
#![allow(clippy::unwrap_used, reason = "a failure in a test fails it")]

use std::collections::BTreeMap;

use crate::support::{Place, Ran, header, line, meta, run};
use serde_json::Value;
use trace_format::line::Ticks;
use trace_format::meta::{ClockKind, Meta, Run, SystemClocks};
use trace_format::wall::Wall;

const S: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;
/// The nanoseconds of 2026-11-20, 15:11:02 UTC.
const BEGAN: u64 = 1_795_187_462 * S;
/// The ticks of the beginning.
const FIRST: u64 = 7 * S;
/// The number of ticks in a nanosecond.
const RATE: u64 = 3;

/// The wall clock of a trace of 50 s: the seconds by which it is set at 25 s, and whether the machine was suspended for
/// that time.
#[derive(Clone, Copy)]
struct Step {
    seconds: i64,
    suspended: bool,
}

/// Returns the trace of a thread whose function `work` takes 10 ms each second, with a message in it.
fn trace(version: u32, kind: ClockKind, step: Step) -> Vec<u8> {
    trace_of(5, 0, version, kind, step)
}

/// Returns such a trace of a process that reads the wall clock `late` nanoseconds later, and with an error of as many.
fn trace_of(pid: u32, late: u64, version: u32, kind: ClockKind, step: Step) -> Vec<u8> {
    let rate = if kind == ClockKind::System { 1 } else { RATE };
    let ticks = |ns: u64| FIRST + ns * rate;
    let wall = |ns: u64| {
        let gained = if ns >= 25 * S { step.seconds * 1_000_000_000 } else { 0 };
        Wall((BEGAN + ns + late).checked_add_signed(gained).unwrap())
    };
    let run = Run { version, clock: kind, ticks: Ticks(FIRST), wall: wall(0), ..run(pid, 1) };
    let tid = u64::from(pid);
    let mut file = header(&run, tid);
    let clocks = |ns: u64| {
        let asleep = if step.suspended && ns >= 25 * S { step.seconds.unsigned_abs() * S } else { 0 };
        let (raw, since_boot) = (Some(90 * S + ns), Some(90 * S + ns + asleep));
        let all = SystemClocks { within: Some(100), raw, since_boot, ..SystemClocks::default() };
        let system = if version < 3 { SystemClocks::default() } else { all };
        meta(ticks(ns), tid, &Meta::Clock { ticks: Ticks(ticks(ns)), wall: wall(ns), system })
    };
    file.extend(clocks(0));
    for second in 0..50 {
        let at = second * S;
        file.extend(format!("{:016x}-{tid:08} > work at src/main.rs:7\n", ticks(at + MS)).into_bytes());
        file.extend(line(ticks(at + 2 * MS), tid, &format!("step {second} of {pid}")));
        file.extend(format!("{:016x}-{tid:08} < work at src/main.rs:7\n", ticks(at + 11 * MS)).into_bytes());
        if second % 10 == 9 {
            file.extend(clocks(at + S / 2 + late));
        }
    }
    file
}

fn shown(place: &Place, arguments: &[&str]) -> Ran {
    let ran = place.merge(arguments);
    assert_eq!(ran.status, Some(0), "{arguments:?}: {}", ran.err);
    ran
}

fn out(ran: &Ran) -> String {
    String::from_utf8(ran.out.clone()).unwrap()
}

const STEPS: [Step; 5] = [
    Step { seconds: 0, suspended: false },
    Step { seconds: 874, suspended: false },
    Step { seconds: -3, suspended: false },
    Step { seconds: -3600, suspended: false },
    Step { seconds: 600, suspended: true },
];

/// Calls `check` with each kind of trace, its step, its version and the directory in which it is.
fn each_trace(check: impl Fn(&Place, Step, u32)) {
    for step in STEPS {
        for (version, kind) in [
            (2, ClockKind::Ordered),
            (2, ClockKind::System),
            (3, ClockKind::Ordered),
            (3, ClockKind::Fast),
            (3, ClockKind::System),
        ] {
            let place = Place::new();
            place.write("app.trace.5", trace(version, kind, step));
            check(&place, step, version);
        }
    }
}

#[test]
fn a_wall_clock_that_is_set_changes_no_duration_in_any_view() {
    each_trace(|place, step, version| {
        let what = format!("{} s, version {version}", step.seconds);
        let report: Value = serde_json::from_str(&out(&shown(place, &["report", "--json", "app"]))).unwrap();
        let row = &report["functions"][0];
        assert_eq!(row["calls"], 50, "{what}");
        let near = |key: &str, expected: u64| {
            let ns = row[key].as_u64().unwrap();
            assert!(ns.abs_diff(expected) <= expected / 100_000 + 1, "{what}: {key} {ns}");
        };
        ["min_ns", "average_ns", "max_ns"].into_iter().for_each(|key| near(key, 10 * MS));
        near("total_ns", 500 * MS);
        let tree = out(&shown(place, &["tree", "app"]));
        let ends: Vec<&str> = tree.lines().filter(|line| line.contains("} work")).collect();
        assert_eq!(ends.len(), 50, "{what}: {tree}");
        assert!(ends.iter().all(|line| line.contains("10.0 ms")), "{what}: {tree}");
        // Offsets and differences of lines.
        for (mode, expected) in [("offset", 49.002), ("delta", 1.0)] {
            let last = out(&shown(place, &["show", "--time", mode, "--grep", "step (48|49) ", "app"]));
            let time: f64 = last.lines().last().unwrap().split_whitespace().next().unwrap().parse().unwrap();
            assert!((time - expected).abs() < 0.001, "{what}, {mode}: {last}");
        }
        let rates = out(&shown(place, &["rates", "--every", "10s", "--json", "app"]));
        let rates: Value = serde_json::from_str(&rates).unwrap();
        let periods = rates["periods"].as_array().unwrap();
        assert_eq!(periods.len(), 5, "{what}: {rates}");
        let part = out(&shown(place, &["show", "--since", "30s", "--until", "35s", "app"]));
        assert_eq!(part.matches("step ").count(), 5, "{what}: {part}");
        let stats: Value = serde_json::from_str(&out(&shown(place, &["stats", "--json", "app"]))).unwrap();
        let span = stats["span_ns"].as_u64().unwrap();
        assert!(span.abs_diff(49 * S + 10 * MS) < MS, "{what}: {stats}");
    });
}

#[test]
fn each_output_with_times_of_day_names_the_step_of_the_wall_clock() {
    each_trace(|place, step, version| {
        let what = format!("{} s, version {version}", step.seconds);
        let words = match step {
            Step { seconds: 0, .. } => None,
            // Only the newer version records for how long the machine was suspended.
            Step { suspended: true, .. } if version > 2 => Some("the machine was suspended for 10 min"),
            Step { seconds: 1.., .. } => Some("the wall clock was set forward by "),
            Step { .. } => Some("the wall clock was set back by "),
        };
        let info = out(&shown(place, &["info", "app"]));
        let check = out(&place.merge(["check", "-v", "app"]));
        let mut outputs = vec![("info", info), ("check -v", check)];
        for arguments in [
            &["show", "--time", "utc", "app"][..],
            &["show", "--time", "wall", "app"],
            &["app", "-o", "-", "--time", "utc"],
            &["--format", "csv", "-o", "-", "app"],
            &["--format", "jsonl", "-o", "-", "app"],
        ] {
            outputs.push((arguments[0], shown(place, arguments).err));
        }
        for (name, output) in &outputs {
            match words {
                Some(words) => assert!(output.contains(words), "{what}, {name}: {output}"),
                None => assert!(!output.contains("was set"), "{what}, {name}: {output}"),
            }
        }
        for arguments in [&["show", "--time", "offset", "app"][..], &["report", "app"], &["app", "-o", "-"]] {
            let ran = shown(place, arguments);
            assert!(!ran.err.contains("was set") && !ran.err.contains("suspended"), "{what}: {}", ran.err);
        }
        let json: Value = serde_json::from_str(&out(&shown(place, &["info", "--json", "app"]))).unwrap();
        let steps = json["runs"][0]["clock"]["steps"].as_array().unwrap();
        assert_eq!(steps.len(), usize::from(step.seconds != 0), "{what}: {json}");
        for found in steps {
            let (cause, ns) = (found["cause"].as_str().unwrap(), found["ns"].as_i64().unwrap());
            assert_eq!(cause, if step.suspended && version > 2 { "suspended" } else { "set" }, "{what}");
            assert!((ns - step.seconds * 1_000_000_000).abs() < 2_000_000, "{what}: {ns}");
        }
    });
}

#[test]
fn times_of_day_are_those_that_the_machine_showed() {
    let place = Place::new();
    place.write("app.trace.5", trace(3, ClockKind::Ordered, Step { seconds: 874, suspended: false }));
    let utc = out(&shown(&place, &["show", "--time", "utc", "--grep", "step (19|30) ", "app"]));
    // Readings at 19.5 s and 29.5 s show that the clock was set between them.
    let times: Vec<&str> = utc.lines().map(|line| line.split('.').next().unwrap()).collect();
    assert_eq!(times, ["2026-11-20T15:11:21", "2026-11-20T15:26:06"]);
    let since = out(&shown(&place, &["show", "--since", "2026-11-20T15:26:06Z", "app"]));
    assert!(since.contains("step 30") && !since.contains("step 28"), "{since}");
}

/// Returns the times of the messages `step N of PID`, by those messages.
fn times_of_steps(output: &str) -> BTreeMap<String, String> {
    let step_and_time = |line: &str| {
        let step = line[line.find("step ")?..].split(['"', ',']).next()?.to_owned();
        let mut words = line.split([' ', ',', '"']);
        let time = words.find(|word| word.starts_with("2026-11-20T"))?;
        // In a merged file, the id of the thread follows the time.
        Some((step, time.split_once('Z')?.0.to_owned()))
    };
    output.lines().filter_map(step_and_time).collect()
}

#[test]
fn a_record_has_the_same_time_of_day_in_every_call() {
    each_trace(|place, step, version| {
        let what = format!("{} s, version {version}", step.seconds);
        let first = place.text("app.trace.5");
        let kind = [ClockKind::System, ClockKind::Fast].into_iter();
        let kind = kind.zip(["clock=system", "clock=fast"]).find(|(_, words)| first.contains(words));
        let kind = kind.map_or(ClockKind::Ordered, |(kind, _)| kind);
        place.write("app.trace.6", trace_of(6, 300_000, version, kind, step));
        let all = times_of_steps(&out(&shown(place, &["show", "--time", "utc", "--all-runs", "app"])));
        assert_eq!(all.len(), 100, "{what}: {all:?}");
        let jsonl = ["--format", "jsonl", "--all-runs", "-o", "-", "app"];
        let merged = ["app", "--all-runs", "-o", "-", "--time", "utc"];
        let show = ["show", "--time", "utc", "--all-runs", "app"];
        let csv = ["--format", "csv", "--all-runs", "-o", "-", "app"];
        for arguments in [&jsonl[..], &merged, &show, &csv] {
            let all_options = [
                &[][..],
                &["--since", "30s"],
                &["--until", "20s"],
                &["--since", "24s", "--until", "26s"],
                &["--grep", "step 2."],
                &["--thread", "5"],
                &["--thread", "6", "--since", "22s"],
            ];
            // Each call is a process, so the formats are called with some of the options.
            for options in all_options.into_iter().step_by(if arguments == show { 1 } else { 3 }) {
                let arguments = [arguments, options].concat();
                let some = times_of_steps(&out(&shown(place, &arguments)));
                assert!(some.len() > 1, "{what}, {arguments:?}");
                for (step, time) in &some {
                    assert_eq!(Some(time), all.get(step), "{what}, {arguments:?}: {step}");
                }
            }
        }
    });
}
