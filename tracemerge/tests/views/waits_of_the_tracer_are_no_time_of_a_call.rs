//! Durations leave out the time for which the tracer made the thread wait, and each view that shows durations says so
//! in one line. Timelines of other programs keep real times.
#![allow(clippy::unwrap_used, reason = "a failure in a test fails it")]

use crate::support::{Place, header, meta, ran, run};
use serde_json::Value;
use trace_format::kinds::SeparateCounts;
use trace_format::line::Ticks;
use trace_format::meta::{Cause, End, EndReason, LossReason, Meta, Run, SystemClocks, Waited};
use trace_format::wait::{Wait, WaitCause};
use trace_format::wall::Wall;

/// The ticks at which the run began. A tick is a nanosecond.
const BEGIN: u64 = 1_000_000;
const MS: u64 = 1_000_000;

/// Returns the `#` line of a wait between two times after the beginning, in tenths of milliseconds.
fn wait(begin: u64, end: u64, what: WaitCause) -> Meta {
    let ticks = |tenths: u64| Ticks(BEGIN + tenths * MS / 10);
    Meta::Wait(Wait { begin: ticks(begin), end: ticks(end), ns: (end - begin) * MS / 10, what })
}

/// Makes the trace of a process that began at [`BEGIN`], with lines of its threads: the time after the beginning in
/// milliseconds, the thread, and the text or the metadata.
fn traces(lines: &[(u64, u64, Result<&str, Meta>)]) -> Place {
    let place = Place::new();
    let run = Run { ticks: Ticks(BEGIN), wall: run(5, 0).wall, ..run(5, 0) };
    for tid in [5, 9] {
        let (mut text, mut records, mut apart) = (header(&run, tid), 0, SeparateCounts::default());
        for (ms, _, what) in lines.iter().filter(|line| line.1 == tid) {
            let ticks = BEGIN + ms * MS;
            match what {
                Ok(rest) => {
                    text.extend(format!("{ticks:016x}-{tid:08} {rest}\n").bytes());
                    records += 1;
                }
                Err(line) => {
                    apart.waits += u64::from(matches!(line, Meta::Wait(_)));
                    text.extend(meta(ticks, tid, line));
                }
            }
        }
        let ticks = BEGIN + 60 * MS;
        let clock = (Ticks(ticks), Wall(run.wall.0 + 60 * MS));
        text.extend(meta(
            ticks,
            tid,
            &Meta::Clock { ticks: clock.0, wall: clock.1, system: SystemClocks::default() },
        ));
        let (lost, reason, files, cause, seen) = (0, EndReason::Exit, None, Cause::default(), None);
        let waited = Waited::default();
        let end = End { records, lost, reason, files, cause, seen, apart, waited };
        text.extend(meta(ticks, tid, &Meta::End(end)));
        place.write(format!("app.trace.{tid}"), text);
    }
    place
}

fn shown(place: &Place, args: &[&str]) -> String {
    let ran = ran(place.command().args(args).arg("./app"));
    assert_eq!(ran.status, Some(0), "{args:?}: {}", ran.err);
    assert!(!ran.err.contains("wait"), "{args:?}: {}", ran.err);
    String::from_utf8(ran.out).unwrap()
}

fn json(place: &Place, args: &[&str]) -> Value {
    serde_json::from_str(&shown(place, args)).unwrap()
}

/// A call of 20 ms whose first 10 ms are a wait, three messages with a wait of 5 ms between the last two, and another
/// thread that waits for its ring for 1.6 ms. The record that waited has its own ticks, and is behind the line.
fn waits() -> Place {
    traces(&[
        (10, 5, Err(wait(100, 200, WaitCause::Room))),
        (10, 5, Ok("> app::work at src/main.rs:7")),
        (30, 5, Ok("< app::work at src/main.rs:7")),
        (40, 5, Ok(": one")),
        (41, 5, Err(wait(410, 460, WaitCause::Memory))),
        (41, 5, Ok(": two")),
        (50, 5, Ok(": three")),
        (50, 5, Err(Meta::Lost { records: 0, reason: LossReason::Full })),
        (5, 9, Err(wait(50, 66, WaitCause::Ring))),
        (5, 9, Ok(": begins")),
    ])
}

const SUM: &str = "these numbers leave out 16.6 ms in which the tracer made threads wait 3 times, the longest \
                   10.0 ms at 0.010000000s in main";

#[test]
fn durations_of_calls_and_gaps_between_messages_leave_waits_out() {
    let place = waits();
    let report = json(&place, &["report", "--json"]);
    assert_eq!(
        (&report["functions"][0]["total_ns"], &report["waited_ns"]),
        (&Value::from(10 * MS), &Value::from(16_600_000))
    );
    let folded = shown(&place, &["--format", "folded", "-o", "-"]);
    assert_eq!(folded, format!("main;app::work {}\n", 10 * MS));
    let stats = json(&place, &["stats", "--json"]);
    let to_next = |message: &str| {
        let sorts = stats["by_sort"].as_array().unwrap();
        sorts.iter().find(|sort| sort["message"] == message).unwrap()["max_ns"].clone()
    };
    assert_eq!([to_next("one"), to_next("two")], [Value::from(MS), Value::from(4 * MS)]);
    assert_eq!((&stats["waited_ns"], &stats["span_ns"]), (&Value::from(16_600_000), &Value::from(45 * MS)));
    let tree = shown(&place, &["tree"]);
    assert!(tree.contains("main    10.0 ms  app::work  (main.rs:7)\n"), "{tree}");
    // A call of 10 ms is not one of 15 ms.
    let long = shown(&place, &["tree", "--min-duration", "15ms"]);
    assert!(!long.contains("app::work"), "{long}");
    let chrome = json(&place, &["--format", "chrome", "-o", "-"]);
    let events = chrome["traceEvents"].as_array().unwrap();
    let of = |phase: &str| events.iter().find(|event| event["ph"] == phase).unwrap()["ts"].as_f64().unwrap();
    assert_eq!(of("E") - of("B"), 20_000.0, "microseconds of real time");
}

#[test]
fn a_wait_lasts_from_its_begin_to_its_end_unless_several_waits_are_in_it() {
    let of_call = |ns: u64| {
        let line =
            Wait { begin: Ticks(BEGIN + 10 * MS), end: Ticks(BEGIN + 20 * MS), ns, what: WaitCause::Room };
        let place = traces(&[
            (10, 5, Err(Meta::Wait(line))),
            (10, 5, Ok("> app::work at src/main.rs:7")),
            (30, 5, Ok("< app::work at src/main.rs:7")),
        ]);
        json(&place, &["report", "--json"])["functions"][0]["total_ns"].as_u64().unwrap()
    };
    // The clock that measures the wait is read between the readings of the ticks.
    assert_eq!(of_call(10 * MS - 900), 10 * MS);
    // Two waits, between which the thread has worked for 7 ms.
    assert_eq!(of_call(3 * MS), 17 * MS);
}

#[test]
fn each_view_with_durations_says_how_much_is_left_out() {
    let place = waits();
    assert_eq!(shown(&place, &["report"]).lines().nth(1), Some(SUM));
    for view in ["stats", "tree"] {
        assert_eq!(shown(&place, &[view]).lines().last(), Some(SUM), "{view}");
    }
    let one =
        traces(&[(5, 9, Err(wait(50, 66, WaitCause::Ring))), (5, 9, Ok(": begins")), (6, 5, Ok(": begins"))]);
    let sum =
        "these numbers leave out 1.60 ms in which the tracer made a thread wait once, at 0.005000000s in 9";
    assert_eq!(shown(&one, &["stats"]).lines().last(), Some(sum));
    let none = traces(&[(5, 9, Ok(": begins")), (6, 5, Ok(": begins"))]);
    for view in ["stats", "tree", "report"] {
        assert!(!shown(&none, &[view]).contains("the tracer made"), "{view}");
    }
}

/// Makes the traces of [`waits`], whose last lines have the sums of the waits of threads 5 and 9.
fn waits_with_sums(sums: [&str; 2]) -> Place {
    let place = waits();
    for (name, sum) in ["app.trace.5", "app.trace.9"].into_iter().zip(sums) {
        let text = place.text(name);
        place.write(name, format!("{} {sum}\n", text.trim_end()));
    }
    place
}

#[test]
fn a_merge_says_how_long_threads_have_waited_if_it_was_over_one_percent_of_their_time() {
    let said = |sums, args: &[&str]| {
        let ran = ran(waits_with_sums(sums).command().args(args).arg("./app"));
        assert_eq!(ran.status, Some(0), "{args:?}: {}", ran.err);
        let lines: Vec<String> = ran.err.lines().filter(|l| l.contains("waited")).map(Into::into).collect();
        assert!(lines.len() <= 1, "{args:?}: {lines:?}");
        lines.into_iter().next()
    };
    // Both threads last 60 ms.
    let sums = ["waited=15000000 for_ring=5000000", "waited=1600000 for_ring=1600000"];
    let sentence = "tracemerge: 2 threads waited 16.6 ms for the tracer, 13 % of their time (main longest: 15.0 ms), most of it \
                    for room in a ring: a larger TRACER_RING_SIZE makes that rarer, and TRACER_FULL=drop or overwrite \
                    ends it, but gives up records";
    for args in [&[][..], &["show"], &["--format", "csv"]] {
        assert_eq!(said(sums, args).as_deref(), Some(sentence), "{args:?}");
    }
    // These say it themselves.
    for view in ["report", "stats", "tree"] {
        assert_eq!(said(sums, &[view]), None, "{view}");
    }
    assert_eq!(said(sums, &["-q"]), None);
    let rings = said(["", "waited=12000000 for_ring=12000000"], &[]);
    let sentence = "tracemerge: 1 thread waited 12.0 ms for the tracer, 20 % of its time (9 longest: 12.0 ms), most of it for \
                    rings and their memory: a smaller TRACER_RING_SIZE shortens that";
    assert_eq!(rings.as_deref(), Some(sentence));
    assert_eq!(said(["waited=9000000", ""], &[]), None, "a short wait");
    assert_eq!(said(["waited=15000000", ""], &["--thread", "9"]), None, "another thread");
    assert!(said(["waited=15000000", ""], &[]).is_some());
}

#[test]
fn a_merge_without_times_takes_the_length_of_a_tick_from_the_clocks_too() {
    let place = waits_with_sums(["waited=15000000 for_ring=5000000", "waited=1600000 for_ring=1600000"]);
    // A tick is two nanoseconds, so the threads last 120 ms.
    let wall = |ms: u64| format!("wall={}", Wall(run(5, 0).wall.0 + ms * MS));
    for name in ["app.trace.5", "app.trace.9"] {
        let text = place.text(name);
        assert!(text.contains(&wall(60)), "{text}");
        place.write(name, text.replace(&wall(60), &wall(120)));
    }
    for args in [&[][..], &["show"], &["--time", "wall", "-o", "-"]] {
        let ran = ran(place.command().args(args).arg("./app"));
        assert!(ran.err.contains(" for the tracer, 6 % of their time "), "{args:?}: {}", ran.err);
    }
}

#[test]
fn a_wait_without_a_place_stays_in_the_durations() {
    let place = traces(&[
        (10, 5, Ok("> app::work at src/main.rs:7")),
        (30, 5, Ok("< app::work at src/main.rs:7")),
        (30, 5, Err(Meta::Stall { ns: 2 * MS })),
    ]);
    let report = json(&place, &["report", "--json"]);
    assert_eq!(
        (&report["functions"][0]["total_ns"], &report["waited_ns"]),
        (&Value::from(20 * MS), &Value::from(0))
    );
    let told = "these numbers include 2.00 ms in which the tracer made threads wait, because the trace does not record when that was";
    assert_eq!(shown(&place, &["report"]).lines().nth(1), Some(told));
    assert!(shown(&place, &["show"]).contains("# stall ns=2000000\n"));
}

#[test]
fn tree_and_show_tell_a_wait_in_its_place_in_words() {
    let place = waits();
    for view in ["show", "tree"] {
        let text = shown(&place, &[view]);
        let lines: Vec<&str> = text.lines().collect();
        let at = |words: &str| lines.iter().position(|line| line.contains(words)).unwrap();
        let wait = at("# the tracer made the thread wait 5.00 ms for memory");
        assert!(at("one") < wait && wait < at("two"), "{text}");
        assert!(text.contains("# the tracer made the thread wait 10.0 ms for room"), "{text}");
        assert!(text.contains("# the tracer made the thread wait 1.60 ms for a ring"), "{text}");
        assert!(text.contains("# lost records=0 reason=full"), "{text}");
        assert!(!text.contains("begin="), "{text}");
    }
}
