//! Perfetto's trace processor finds each call, message, loss, stall and flow of a trace with everything in it, in
//! both formats that it reads, with the written contents and the numbers of `report`.
#![allow(clippy::unwrap_used, reason = "a failure in a test fails it")]

use std::collections::BTreeMap;

use crate::support::{Everything, Expected, asked, number, readers, rows_of_report, shows, written};
use serde_json::{Value, json};

/// The query of the trace processor's own table of contents that it could not interpret, or has left out.
const ERRORS: &str = "select name, value from stats where severity in ('error', 'data_loss') and value > 0";

/// The query of the calls and the greatest depth of each thread.
const THREADS: &str = "select pid, tid, count(*), max(depth) from slice join thread_track on slice.track_id = thread_track.id \
                       join thread using (utid) join process using (upid) where category = 'function' group by pid, tid";

/// The query of the messages, with their times, threads and values.
const MESSAGES: &str = "select cast(slice.ts as text), pid, tid, slice.name, extract_arg(slice.arg_set_id, 'KEYbytes'), \
                        cast(cast(extract_arg(slice.arg_set_id, 'KEYtotal') as int) as text), extract_arg(slice.arg_set_id, 'KEYrate'), \
                        extract_arg(slice.arg_set_id, 'KEYpeer'), extract_arg(slice.arg_set_id, 'KEYok'), extract_arg(slice.arg_set_id, 'KEY2'), \
                        extract_arg(slice.arg_set_id, 'KEYmessage') \
                        from slice join thread_track on slice.track_id = thread_track.id join thread using (utid) \
                        join process using (upid) where dur = 0 and ifnull(category, '') not in ('function', 'tracer')";

/// The query of the number of flows, of those that join two calls of one span in order, and of those between threads.
const FLOWS: &str = "select count(*), sum(extract_arg(one.arg_set_id, 'KEYspan') = extract_arg(other.arg_set_id, 'KEYspan') \
                     and one.ts < other.ts), sum(one.track_id != other.track_id) from flow \
                     join slice one on one.id = flow.slice_out join slice other on other.id = flow.slice_in";

/// Returns the number of calls of each thread, and their greatest depth, by process and thread.
fn by_thread(all: &Everything) -> BTreeMap<(u64, u64), (u64, u64)> {
    let mut threads = BTreeMap::new();
    for call in &all.calls {
        let (calls, depth) = threads.entry((u64::from(call.pid), call.tid)).or_insert((0, 0));
        *calls += 1;
        *depth = call.depth.max(*depth as usize) as u64;
    }
    threads
}

/// Returns the same from the answer to [`THREADS`].
fn found_by_thread(rows: &[Vec<Value>]) -> BTreeMap<(u64, u64), (u64, u64)> {
    let row = |row: &Vec<Value>| ((number(&row[0]), number(&row[1])), (number(&row[2]), number(&row[3])));
    rows.iter().map(row).collect()
}

/// Returns a row of an answer as text. JavaScript does not distinguish whole numbers from floats.
fn told(row: &[Value]) -> String {
    let cell = |value: &Value| match value {
        Value::Number(number) => format!("{:.10e}", number.as_f64().unwrap()),
        Value::Bool(is_so) => format!("{:.10e}", f64::from(u8::from(*is_so))),
        Value::String(text) => format!("{text:?}"),
        other => other.to_string(),
    };
    row.iter().map(cell).collect::<Vec<_>>().join(" | ")
}

/// Returns the rows that [`MESSAGES`] must find; `time` returns the time of a record, and `truth` converts a truth
/// value.
fn messages(all: &Everything, time: impl Fn(&Expected) -> u64, truth: impl Fn(bool) -> Value) -> Vec<String> {
    let messages = all.records.iter().filter(|record| record.kind == "message");
    let row = |record: &Expected| {
        let template = record.site.map(|id| all.sites[id as usize - 1].template.clone());
        let of = |key: &str| match record.values.as_ref().map(|values| &values[key]) {
            Some(Value::Bool(is_so)) => truth(*is_so),
            Some(value) => value.clone(),
            None => Value::Null,
        };
        let message =
            if template.is_some() && record.values.is_none() { json!(record.text) } else { Value::Null };
        // The trace processor's integers have 64 bits with a sign.
        let total = of("total").as_u64().map(|total| (total as i64).to_string());
        let name = template.or_else(|| record.text.clone());
        told(&[
            json!(time(record).to_string()),
            json!(record.pid),
            json!(record.tid),
            json!(name),
            of("bytes"),
            json!(total),
            of("rate"),
            of("peer"),
            of("ok"),
            of("2"),
            message,
        ])
    };
    let mut rows: Vec<String> = messages.map(row).collect();
    rows.sort();
    rows
}

fn assert_same(rows: &[Vec<Value>], expected: &[String]) {
    let mut found: Vec<String> = rows.iter().map(|row| told(row)).collect();
    found.sort();
    for (found, expected) in found.iter().zip(expected) {
        assert_eq!(found, expected);
    }
    assert_eq!(found.len(), expected.len());
}

#[test]
fn each_call_message_loss_stall_and_flow_of_packets_is_found() {
    let Some(readers) = readers() else { return };
    let (all, trace) = written("perfetto", "app.perfetto-trace");
    let [errors, threads, functions, wall, rows, types, losses, stalls, cut_off, flows] = asked(
        &readers,
        &trace,
        [
            ERRORS,
            THREADS,
            "with inside as (select parent_id, sum(dur) as ns from slice where category = 'function' group by parent_id) \
             select name, count(*), min(dur), max(dur), sum(dur), sum(dur - ifnull(ns, 0)) from slice \
             left join inside on inside.parent_id = slice.id where category = 'function' group by name",
            "select cast(min(ts) as text), cast(to_realtime(min(ts)) as text) from slice where category = 'function'",
            &MESSAGES.replace("KEY", "debug."),
            "select distinct slice.name, key, value_type from args join slice using (arg_set_id) where key like 'debug.%'",
            "select count(*), sum(extract_arg(slice.arg_set_id, 'debug.records')), max(dur) from slice \
             where category = 'tracer' and name = 'lost'",
            "select count(*), count(distinct track_id), sum(process_track.name like 'stalls of %'), \
             sum(dur <= extract_arg(slice.arg_set_id, 'debug.ns')), (select count(*) from slice join thread_track \
             on slice.track_id = thread_track.id where slice.name = 'stall') \
             from slice join process_track on slice.track_id = process_track.id where slice.name = 'stall'",
            "select sum(extract_arg(slice.arg_set_id, 'debug.cut off')), sum(extract_arg(slice.arg_set_id, 'debug.unwinding')), \
             sum(extract_arg(slice.arg_set_id, 'debug.ended')) from slice where category = 'function'",
            &FLOWS.replace("KEY", "debug."),
        ],
    );
    assert!(errors.is_empty(), "{errors:?}");
    assert_eq!(found_by_thread(&threads), by_thread(&all));
    let mut expected: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for call in &all.calls {
        let (calls, ns) = expected.entry(&call.function).or_default();
        (*calls, *ns) = (*calls + 1, *ns + (call.left - call.entered) * crate::support::TICK_NS);
    }
    let found = functions.iter().map(|row| (row[0].as_str().unwrap(), (number(&row[1]), number(&row[4]))));
    assert_eq!(found.collect::<BTreeMap<_, _>>(), expected);

    // Compare the numbers of `report` for the same trace.
    let report = all.place.merge(["report", "--all-runs", "app"]);
    let report = rows_of_report(&report.out);
    assert_eq!(report.len(), functions.len());
    for row in &functions {
        let [calls, min, max, own] = [1, 2, 3, 5].map(|cell| number(&row[cell]));
        let of_report = report.iter().find(|of| row[0] == of.function[..]).unwrap();
        assert_eq!(of_report.calls, calls);
        for (shown, ns) in [(1, own), (2, min), (4, max)] {
            assert!(shows(&of_report.times[shown], ns), "{of_report:?} {row:?}");
        }
    }

    // Compare the wall clock, in the times of calls and of messages.
    let first = all.calls.iter().map(|call| call.entered).min().unwrap();
    let first =
        (crate::support::WALL + (first - crate::support::FIRST) * crate::support::TICK_NS).to_string();
    assert_eq!(wall, [[json!(first), json!(first)]]);
    assert_same(&rows, &messages(&all, Expected::ns, |is_so| json!(u8::from(is_so))));
    let (sent, peer) = (&all.sites[0].template[..], &all.sites[1].template[..]);
    for (name, key, of) in [
        (sent, "bytes", "int"),
        (sent, "total", "uint"),
        (sent, "rate", "real"),
        (sent, "message", "string"),
        (peer, "peer", "string"),
        (peer, "ok", "bool"),
        (peer, "2", "string"),
        (crate::support::FUNCTIONS[3], "span", "uint"),
        (crate::support::FUNCTIONS[3], "cut off", "bool"),
        ("call stack", "stack", "string"),
        ("lost", "records", "uint"),
        ("end", "reason", "string"),
        ("end", "panic", "uint"),
    ] {
        let key = format!("debug.{key}");
        let types: Vec<_> =
            types.iter().filter(|row| row[0] == name && row[1] == key[..]).map(|row| &row[2]).collect();
        assert_eq!(types, [of], "{name}: {key}");
    }

    let lost = all.records.iter().filter(|record| record.kind == "lost").count();
    assert_eq!(losses, [[json!(lost), json!(all.lost), json!(0)]]);
    let mut stalled: Vec<u64> =
        all.records.iter().filter(|record| record.kind == "stall").map(|record| record.tid).collect();
    stalled.sort_unstable();
    stalled.dedup();
    let of = all.stalls;
    assert_eq!(stalls, [[json!(of), json!(stalled.len()), json!(of), json!(of), json!(0)]]);
    // A call that a panic ends is marked, and so is a call with which its span ended.
    let cut = all.unseen + all.still_open;
    assert_eq!(cut_off, [[json!(cut), json!(all.unwinding), json!(all.ended)]]);
    let [joined, of_one_span, between_threads] = [0, 1, 2].map(|cell| number(&flows[0][cell]));
    assert_eq!((joined, of_one_span), (all.joined, all.joined));
    assert!(between_threads > 0 && between_threads < joined, "{flows:?}");
}

#[test]
fn each_call_message_stall_and_flow_of_chromes_json_is_found() {
    let Some(readers) = readers() else { return };
    let (all, trace) = written("chrome", "app.chrome.json");
    let [errors, threads, calls, rows, stalls, flows] = asked(
        &readers,
        &trace,
        [
            ERRORS,
            THREADS,
            "select tid, depth, ts, dur, slice.name from slice join thread_track on slice.track_id = thread_track.id \
             join thread using (utid) where category = 'function'",
            &MESSAGES.replace("KEY", "args."),
            "select count(*), sum(thread.name like 'stalls of %'), sum(dur <= extract_arg(slice.arg_set_id, 'args.ns')), \
             count(distinct utid) from slice join thread_track on slice.track_id = thread_track.id join thread using (utid) \
             where slice.name = 'stall'",
            &FLOWS.replace("KEY", "args."),
        ],
    );
    assert!(errors.is_empty(), "{errors:?}");
    assert_eq!(found_by_thread(&threads), by_thread(&all));
    // If two events of a thread would share a nanosecond, the later one is put off by one: in all by less than half
    // of a tick.
    let first = all.records.iter().map(|record| record.ticks).min().unwrap();
    let ticks = |ns: u64| first + (ns + crate::support::TICK_NS / 2) / crate::support::TICK_NS;
    let mut found: Vec<_> = calls
        .iter()
        .map(|row| {
            let [tid, depth, at, dur] = [0, 1, 2, 3].map(|cell| number(&row[cell]));
            (tid, ticks(at), ticks(at + dur), depth as usize, row[4].as_str().unwrap())
        })
        .collect();
    found.sort();
    let calls = all.calls.iter();
    let mut expected: Vec<_> =
        calls.map(|call| (call.tid, call.entered, call.left, call.depth, &call.function[..])).collect();
    expected.sort();
    for (found, expected) in found.iter().zip(&expected) {
        assert_eq!(found, expected);
    }
    assert_eq!(found.len(), expected.len());
    let since_first = |record: &Expected| (record.ticks - first) * crate::support::TICK_NS;
    // Its reader of JSON keeps the escapes of texts without quotes, and replaces an empty name by one of its own.
    let unescaped = |cell: &Value| match cell.as_str() {
        Some("[No name]") => json!(""),
        Some(text) => serde_json::from_str(&format!("\"{text}\"")).unwrap_or_else(|_| cell.clone()),
        None => cell.clone(),
    };
    let rows: Vec<Vec<Value>> = rows.iter().map(|row| row.iter().map(unescaped).collect()).collect();
    assert_same(&rows, &messages(&all, since_first, |is_so| json!(is_so)));
    let of = all.stalls;
    assert_eq!(stalls, [[json!(of), json!(of), json!(of), json!(5)]]);
    let [joined, of_one_span, between_threads] = [0, 1, 2].map(|cell| number(&flows[0][cell]));
    assert_eq!((joined, of_one_span), (all.joined, all.joined));
    assert!(between_threads > 0 && between_threads < joined, "{flows:?}");
}
