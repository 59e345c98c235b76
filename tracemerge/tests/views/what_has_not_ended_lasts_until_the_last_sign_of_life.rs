//! Calls and waits without a record of their end have lasted until the last sign of life of their process: a look at
//! the clocks or the ticks in `# end seen=`, which are later than its last record.
#![allow(clippy::unwrap_used, reason = "a failure in a test fails it")]

use crate::support::{Place, header, meta, ran, run};
use trace_format::kinds::SeparateCounts;
use trace_format::line::Ticks;
use trace_format::meta::{Cause, End, EndReason, Meta, Run, SystemClocks, Waited};
use trace_format::wall::Wall;

/// The ticks at which the run began. A tick is a nanosecond.
const BEGIN: u64 = 1_000_000;
/// The ticks at which a thread began to wait.
const WAIT: u64 = BEGIN + 1_000_000;
const SECOND: u64 = 1_000_000_000;

fn clock(run: &Run, ticks: u64) -> Meta {
    let wall = Wall(run.wall.0 + (ticks - BEGIN));
    Meta::Clock { ticks: Ticks(ticks), wall, system: SystemClocks::default() }
}

fn end(records: u64, seen: Option<u64>) -> Meta {
    let (reason, apart) = (EndReason::Killed, SeparateCounts::default());
    let seen = seen.map(Ticks);
    Meta::End(End {
        records,
        lost: 0,
        reason,
        files: None,
        cause: Cause::default(),
        seen,
        apart,
        waited: Waited::default(),
    })
}

/// Makes the trace of a thread that waits for a lock in a call, a second before the last sign of life of its process,
/// which is in another thread's file: in the line of a look at the clocks, or in its last line.
fn traces(in_end: bool) -> Place {
    let place = Place::new();
    let run = Run { ticks: Ticks(BEGIN), wall: run(5, 0).wall, ..run(5, 0) };
    let mut waiting = header(&run, 5);
    for (ticks, rest) in [
        (WAIT, "> app::work at src/main.rs:7"),
        (
            WAIT,
            "! lock wait id=1 for=lock made=\"src/a.rs:1\" at=\"src/a.rs:2\" holder=9 since=\"src/a.rs:3\"",
        ),
    ] {
        waiting.extend(format!("{ticks:016x}-00000005 {rest}\n").bytes());
    }
    waiting.extend(meta(WAIT, 5, &end(2, None)));
    place.write("app.trace.5", waiting);
    let mut other = header(&run, 9);
    other.extend(format!("{WAIT:016x}-00000009 : the last record\n").bytes());
    // Each line has the ticks of the record before it.
    let looked = if in_end { WAIT + SECOND / 2 } else { WAIT + SECOND };
    other.extend(meta(WAIT, 9, &clock(&run, looked)));
    other.extend(meta(WAIT, 9, &end(1, in_end.then_some(WAIT + SECOND))));
    place.write("app.trace.9", other);
    place
}

fn shown(place: &Place, args: &[&str]) -> String {
    let ran = ran(place.command().args(args).arg("./app"));
    assert_eq!(ran.status, Some(0), "{args:?}: {}", ran.err);
    String::from_utf8(ran.out).unwrap()
}

#[test]
fn an_open_call_and_an_open_wait_last_until_the_process_was_seen_last() {
    for in_end in [false, true] {
        let place = traces(in_end);
        let locks = shown(&place, &["locks"]);
        assert!(locks.contains("main: 1.00 s for lock 1 "), "{locks}");
        assert!(locks.contains("lock 1 (src/a.rs:1): 1 wait, 1.00 s\n"), "{locks}");
        let report: serde_json::Value = serde_json::from_str(&shown(&place, &["report", "--json"])).unwrap();
        assert_eq!(report["functions"][0]["total_ns"], SECOND, "{report}");
        let tree = shown(&place, &["tree"]);
        let ended = tree.lines().find(|line| line.contains("} app::work")).unwrap();
        assert!(
            ended.contains(" 1.00 s  } app::work  <- still running when the process was killed"),
            "{tree}"
        );
        let folded = shown(&place, &["--format", "folded", "-o", "-"]);
        assert!(folded.ends_with(&format!("app::work {SECOND}\n")), "{folded}");
        let chrome: serde_json::Value =
            serde_json::from_str(&shown(&place, &["--format", "chrome", "-o", "-"])).unwrap();
        let of = |phase: &str| {
            let events = chrome["traceEvents"].as_array().unwrap().iter();
            events
                .filter(|event| event["ph"] == phase)
                .map(|event| event["ts"].as_f64().unwrap())
                .next()
                .unwrap()
        };
        assert_eq!(of("E") - of("B"), 1e6, "microseconds: {chrome}");
    }
}

#[test]
fn nothing_lasts_longer_than_the_wanted_period() {
    let place = traces(true);
    let until = format!("@{}", WAIT + SECOND / 4);
    let report = shown(&place, &["report", "--json", "--until", &until]);
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["functions"][0]["total_ns"], SECOND / 4, "{report}");
    let locks = shown(&place, &["locks", "--until", &until]);
    assert!(locks.contains("main: 250 ms for lock 1 "), "{locks}");
}
