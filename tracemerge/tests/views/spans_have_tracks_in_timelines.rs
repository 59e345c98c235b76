//! Timelines show a span from its beginning to its end on a track of its own, with the times at which threads were in it,
//! and each of its slices has its fields and the span that opened it.
#![allow(clippy::unwrap_used, reason = "a failure in a test fails it")]

use crate::support::{Place, asked, optional_readers, run, whole_file};
use serde_json::{Value, json};
use std::path::Path;

/// The nanoseconds of a tick.
const TICK: u64 = 250;

/// A request that two threads poll, and inside it a call of an async function: ticks, thread and text.
const LINES: [(u64, u64, &str); 11] = [
    (1000, 5, ": INFO app: span=1 server new"),
    (2000, 5, r#": INFO app: span=12 request{path="/slow" size=3} new parent=1"#),
    (3000, 5, "> span=12 request at src/main.rs:9"),
    (5000, 5, "< span=12 request at src/main.rs:9"),
    (6000, 5, ": INFO app: span=12 request{status=200}"),
    (7000, 6, "> span=12 request at src/main.rs:9"),
    (8000, 6, "> span=20 load at src/db.rs:5"),
    (8500, 6, "< span=20 cancelled load at src/db.rs:5"),
    (9000, 6, "< span=12 request at src/main.rs:9"),
    (9500, 6, ": INFO app: span=12 request closed"),
    (9999, 6, ": the last record"),
];

fn place() -> Place {
    let place = Place::new();
    for (tid, name) in [(5, "five"), (6, "six")] {
        let lines = LINES.iter().filter(|line| line.1 == tid);
        let text: String = lines.map(|(ticks, _, text)| format!("{ticks:016x}-{tid:08} {text}\n")).collect();
        place.write(format!("app.trace.{tid}"), whole_file(&run(4, 0), tid, name, text.as_bytes()));
    }
    place
}

/// Writes the timeline of [`LINES`] in a format.
fn written(format: &str) -> Place {
    let place = place();
    let ran = place.merge(["--format", format, "-o", "timeline", "app"]);
    assert_eq!(ran.status, Some(0), "{}", ran.err);
    place
}

#[test]
fn each_span_has_a_track_in_timelines() {
    chromes_json_has_asynchronous_events();
    if let Some(readers) = optional_readers() {
        perfetto_has_tracks(&readers);
    }
}

fn chromes_json_has_asynchronous_events() {
    let text = std::fs::read_to_string(written("chrome").path("timeline")).unwrap();
    let all: Value = serde_json::from_str(&text).unwrap();
    let events = all["traceEvents"].as_array().unwrap();
    let of_spans: Vec<&Value> = events.iter().filter(|event| event["cat"] == "span").collect();
    // Times are microseconds, and a tick is 250 ns. The first line of the file is before that of the first span.
    let first = of_spans[0]["ts"].as_f64().unwrap() - 1000.0 * TICK as f64 / 1000.0;
    let tick =
        |event: &Value| ((event["ts"].as_f64().unwrap() - first) * 1000.0 / TICK as f64).round() as u64;
    let of = |name: &str| -> Vec<(String, u64, String, Value)> {
        let id = &of_spans.iter().find(|event| event["name"] == name).unwrap()["id"];
        let of_it = of_spans.iter().filter(|event| event["id"] == *id);
        let text = |event: &Value, key: &str| event[key].as_str().unwrap().to_owned();
        of_it
            .map(|event| (text(event, "ph"), tick(event), text(event, "name"), event["args"].clone()))
            .collect()
    };
    let event = |phase: &str, tick, name: &str, args: Value| (phase.to_owned(), tick, name.to_owned(), args);
    let opened = json!({"span": 12, "path": "/slow", "size": 3, "parent": "server", "parent span": 1});
    assert_eq!(
        of("request #12"),
        [
            event("b", 2000, "request #12", opened),
            event("b", 3000, "busy", json!({"thread": "five"})),
            event("e", 5000, "busy", Value::Null),
            event("b", 7000, "busy", json!({"thread": "six"})),
            event("e", 9000, "busy", Value::Null),
            event("e", 9500, "request #12", json!({"status": 200})),
        ]
    );
    assert_eq!(
        of("load #20"),
        [
            event("b", 8000, "load #20", json!({"span": 20, "parent": "request", "parent span": 12})),
            event("b", 8000, "busy", json!({"thread": "six"})),
            event("e", 8500, "busy", Value::Null),
            event("e", 8500, "load #20", json!({"cancelled": true})),
        ]
    );
    // It has not ended, and lasts until the last sign of life.
    assert_eq!(
        of("server #1"),
        [
            event("b", 1000, "server #1", json!({"span": 1})),
            event("e", 10_000, "server #1", json!({"cut off": true})),
        ]
    );
    let slices = events.iter().filter(|event| event["ph"] == "B" && event["name"] == "request");
    let args: Vec<&Value> = slices.map(|slice| &slice["args"]).collect();
    let on_a_thread = json!({"at": "src/main.rs:9", "span": 12, "path": "/slow", "size": 3, "parent": "server", "parent span": 1});
    let mut later = on_a_thread.clone();
    later["status"] = json!(200);
    assert_eq!(args, [&on_a_thread, &later]);
}

fn perfetto_has_tracks(readers: &Path) {
    let place = written("perfetto");
    let [errors, spans, slices] = asked(
        readers,
        &place.path("timeline"),
        [
            "select name, value from stats where severity in ('error', 'data_loss') and value > 0",
            "select track.name, slice.name, cast((slice.ts - (select min(ts) from slice where category = 'span')) / 250 as int), \
             cast(dur / 250 as int), depth, around.name, \
             extract_arg(slice.arg_set_id, 'debug.path'), extract_arg(slice.arg_set_id, 'debug.size'), \
             extract_arg(slice.arg_set_id, 'debug.status'), extract_arg(slice.arg_set_id, 'debug.parent'), \
             extract_arg(slice.arg_set_id, 'debug.parent span'), extract_arg(slice.arg_set_id, 'debug.thread'), \
             extract_arg(slice.arg_set_id, 'debug.span') \
             from slice join track on slice.track_id = track.id left join track around on around.id = track.parent_id \
             where category = 'span' order by track.name, slice.ts, depth",
            "select extract_arg(arg_set_id, 'debug.path'), extract_arg(arg_set_id, 'debug.status'), \
             extract_arg(arg_set_id, 'debug.parent'), extract_arg(arg_set_id, 'debug.parent span') \
             from slice where category = 'function' and name = 'request' order by ts",
        ],
    );
    assert!(errors.is_empty(), "{errors:?}");
    let span = |row: Value| serde_json::from_value::<Vec<Value>>(row).unwrap();
    assert_eq!(
        spans,
        [
            span(json!([
                "load #20", "load", 7000, 500, 0, "spans", null, null, null, "request", 12, null, 20
            ])),
            span(json!([
                "load #20", "busy", 7000, 500, 1, "spans", null, null, null, null, null, "six", null
            ])),
            span(json!([
                "request #12",
                "request",
                1000,
                7500,
                0,
                "spans",
                "/slow",
                3,
                200,
                "server",
                1,
                null,
                12
            ])),
            span(json!([
                "request #12",
                "busy",
                2000,
                2000,
                1,
                "spans",
                null,
                null,
                null,
                null,
                null,
                "five",
                null
            ])),
            span(json!([
                "request #12",
                "busy",
                6000,
                2000,
                1,
                "spans",
                null,
                null,
                null,
                null,
                null,
                "six",
                null
            ])),
            span(json!(["server #1", "server", 0, 9000, 0, "spans", null, null, null, null, null, null, 1])),
        ]
    );
    assert_eq!(slices, [span(json!(["/slow", null, "server", 1])), span(json!(["/slow", 200, "server", 1]))]);
}
