//! The JSON in the format of Chrome's tracing, and folded stacks, have every call of a trace with everything in it.
#![allow(clippy::unwrap_used, reason = "a failure in a test fails it")]

use std::collections::{BTreeMap, BTreeSet};

use crate::support::{Call, Everything, Place, everything, header, meta, run};
use serde_json::{Value, json};
use trace_format::line::Ticks;
use trace_format::meta::{Meta, SystemClocks};
use trace_format::wall::Wall;

/// Returns the calls with their times in nanoseconds since the first record.
fn calls(all: &Everything) -> Vec<Call> {
    let first = all.records.iter().map(|record| record.ticks).min().unwrap();
    let mut calls = all.calls.clone();
    for call in &mut calls {
        call.entered = (call.entered - first) * crate::support::TICK_NS;
        call.left = (call.left - first) * crate::support::TICK_NS;
    }
    calls.sort();
    calls
}

#[test]
fn chrome_json_is_balanced_and_has_each_call_and_message() {
    let all = everything(100_000);
    let ran = all.place.merge(["--format", "chrome", "--all-runs", "app"]);
    assert_eq!(ran.status, Some(1), "{}", ran.err);
    let read: Value = serde_json::from_slice(&all.place.read("app.chrome.json")).unwrap();
    let ns = |value: &Value| {
        // Microseconds have three decimals in the text, so this is exact.
        (value.as_f64().unwrap() * 1000.0).round() as u64
    };
    let mut open: BTreeMap<(u64, u64), Vec<(u64, String)>> = BTreeMap::new();
    let (mut found, mut messages, mut stalls) = (Vec::new(), Vec::new(), 0);
    let (mut polls, mut flows, mut begun) = (0, 0, BTreeSet::new());
    let (mut of_spans, mut busy): (BTreeMap<String, u64>, u64) = (BTreeMap::new(), 0);
    // Beginnings and ends of one tick are put off by a nanosecond each, in all by less than a tick.
    let tick = |ns: u64| ns / crate::support::TICK_NS * crate::support::TICK_NS;
    let mut latest: BTreeMap<u64, u64> = BTreeMap::new();
    let mut apart = |tid: u64, ns: u64| {
        let before = latest.insert(tid, ns);
        assert!(before.is_none_or(|before| before < ns), "no two share a nanosecond");
        ns
    };
    for event in read["traceEvents"].as_array().unwrap() {
        let (pid, tid) = (event["pid"].as_u64().unwrap(), event["tid"].as_u64().unwrap());
        assert!(tid < 1 << 31, "readers keep 32 bits of a thread's id");
        let calls = open.entry((pid, tid)).or_default();
        let name = event["name"].as_str().unwrap_or_default().to_owned();
        match event["ph"].as_str().unwrap() {
            "B" => {
                calls.push((tick(apart(tid, ns(&event["ts"]))), name));
                polls += u64::from(event["args"]["span"].is_number());
            }
            // These are the polls of a span.
            "s" | "t" => {
                let is_known = !begun.insert(event["id"].to_string());
                assert!(is_known || event["ph"] == "s", "a flow goes on that has not begun");
                flows += 1;
            }
            "E" => {
                let (entered, function) = calls.pop().expect("a call is open");
                let left = tick(apart(tid, ns(&event["ts"])));
                let (pid, depth) = (pid as u32, calls.len());
                found.push(Call { pid, tid, entered, left, depth, function });
            }
            "i" if event["cat"] != "tracer" => {
                messages.push(json!([ns(&event["ts"]), pid, tid, name, event["args"]]).to_string());
            }
            "X" => stalls += 1,
            "b" => {
                *of_spans.entry(event["id"].to_string()).or_default() += 1;
                busy += u64::from(name == "busy");
            }
            "e" => {
                let open = of_spans.get_mut(&event["id"].to_string()).expect("the span has begun");
                *open = open.checked_sub(1).expect("a slice of the span is open");
            }
            "i" | "M" => {}
            other => panic!("{other}"),
        }
    }
    assert!(open.values().all(Vec::is_empty), "each call ends");
    found.sort();
    assert_eq!(found.len(), all.calls.len());
    for (found, expected) in found.iter().zip(calls(&all)) {
        assert_eq!(*found, expected);
    }
    assert_eq!(stalls, all.stalls);
    assert!(polls > 0, "there are spans");
    assert_eq!(flows, polls);
    assert!(of_spans.values().all(|open| *open == 0), "each slice of a span ends");
    assert_eq!(busy, polls, "no two threads are in one span at a time");
    let first = all.records.iter().map(|record| record.ticks).min().unwrap();
    let wanted = all.records.iter().filter(|record| record.kind == "message").map(|record| {
        let template = record.site.map(|id| &all.sites[id as usize - 1].template).cloned();
        let args = match (&record.values, &template) {
            (Some(values), _) => values.clone(),
            (None, Some(_)) => json!({"message": record.text}),
            (None, None) => Value::Null,
        };
        let ns = (record.ticks - first) * crate::support::TICK_NS;
        let row = json!([ns, record.pid, record.tid, template.or_else(|| record.text.clone()), args]);
        // The reader of JSON may read a float with another last bit than the one that was written.
        serde_json::from_str::<Value>(&row.to_string()).unwrap().to_string()
    });
    let mut wanted: Vec<String> = wanted.collect();
    wanted.sort();
    messages.sort();
    for (found, expected) in messages.iter().zip(&wanted) {
        assert_eq!(found, expected);
    }
    assert_eq!(messages.len(), wanted.len());
}

#[test]
fn folded_stacks_add_up_to_the_time_of_the_outermost_calls() {
    let all = everything(100_000);
    let ran = all.place.merge(["--format", "folded", "--all-runs", "app"]);
    assert_eq!(ran.status, Some(1), "{}", ran.err);
    let messages = all.records.iter().filter(|record| record.kind == "message").count();
    assert!(ran.err.replace(',', "").contains(&format!("{messages} messages left out")), "{}", ran.err);
    let mut own: BTreeMap<String, u64> = BTreeMap::new();
    for line in all.place.text("app.folded").lines() {
        let (path, ns) = line.rsplit_once(' ').unwrap();
        let leaf = path.rsplit(';').next().unwrap().to_owned();
        *own.entry(leaf).or_default() += ns.parse::<u64>().unwrap();
    }
    // For each call, this is the time that includes the calls inside of it.
    let mut expected: BTreeMap<String, u64> = BTreeMap::new();
    for call in &all.calls {
        *expected.entry(call.function.replace(';', ":")).or_default() +=
            (call.left - call.entered) * crate::support::TICK_NS;
    }
    let total: u64 = own.values().sum();
    let outermost = all.calls.iter().filter(|call| call.depth == 0);
    let outermost: u64 = outermost.map(|call| (call.left - call.entered) * crate::support::TICK_NS).sum();
    assert_eq!(total, outermost);
    assert!(own.iter().all(|(function, own)| *own <= expected[function]), "{own:?} {expected:?}");
    let report = all.place.merge(["report", "--format", "folded", "--all-runs", "app"]);
    assert_eq!(String::from_utf8(report.out).unwrap(), all.place.text("app.folded"));
}

#[test]
fn open_calls_end_when_tracing_is_paused() {
    let place = Place::new();
    let run = run(5, 1);
    let call = |ticks: u64, kind: char, name: &str| {
        format!("{ticks:016x}-{:08} {kind} {name} at src/main.rs:7\n", 9).into_bytes()
    };
    // The thread records the switch long after it, and leaves the functions that it had entered before.
    let off = meta(5000, 9, &Meta::Switched { on: false, ticks: Ticks(2000) });
    let on = meta(5000, 9, &Meta::Switched { on: true, ticks: Ticks(4000) });
    let ended = [call(5100, '<', "inner"), call(5200, '<', "outer"), call(5300, '>', "again")];
    let clock = meta(
        5400,
        9,
        &Meta::Clock {
            ticks: Ticks(1_000_000_001),
            wall: Wall(run.wall.0 + 1_000_000_000),
            system: SystemClocks::default(),
        },
    );
    let lines =
        [header(&run, 9), call(1000, '>', "outer"), call(1500, '>', "inner"), off, on, ended.concat(), clock];
    place.write("app.trace.9", lines.concat());
    let ran = place.merge(["--format", "chrome", "app"]);
    for told in ["2 leave records without an enter record", "3 calls still running at the end"] {
        assert!(ran.err.contains(told), "{}", ran.err);
    }
    let read: Value = serde_json::from_slice(&place.read("app.chrome.json")).unwrap();
    let events = read["traceEvents"].as_array().unwrap().iter();
    let calls: Vec<String> = events
        .filter(|event| event["ph"] == "B" || event["ph"] == "E")
        .map(|event| format!("{} {}", event["ph"].as_str().unwrap(), event["ts"]))
        .collect();
    // These are microseconds; two ends at the same time are a nanosecond apart. The last call has lasted until the
    // clocks were read.
    assert_eq!(calls, ["B 0.999", "B 1.499", "E 1.999", "E 2.0", "B 5.299", "E 1000000.0"]);
    let report = String::from_utf8(place.merge(["report", "app"]).out).unwrap();
    assert!(
        report.starts_with("3 calls of 1 thread, 3 still running at the end, 2 without an enter record"),
        "{report}"
    );
}
