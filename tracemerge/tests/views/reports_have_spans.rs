//! `report` shows the wall and busy times of spans by name, the same as `spans`, in a second table, if there are spans.
#![allow(clippy::unwrap_used, reason = "a failure in a test fails it")]

use crate::support::{Place, run, whole_file};
use serde_json::Value;

/// Two requests, of which two threads poll the first one, and one call of an async function: ticks of 250 ns, thread
/// and text.
const LINES: [(u64, u64, &str); 13] = [
    (1000, 5, ": INFO app: span=1 server new"),
    (2000, 5, r#": INFO app: span=12 request{path="/slow"} new parent=1"#),
    (3000, 5, "> span=12 request at src/main.rs:9"),
    (5000, 5, "< span=12 request at src/main.rs:9"),
    (5000, 5, ": INFO app: span=13 request new"),
    (5500, 5, "> span=13 request at src/main.rs:9"),
    (6500, 5, "< span=13 request at src/main.rs:9"),
    (7000, 5, ": INFO app: span=13 request closed"),
    (7000, 6, "> span=12 request at src/main.rs:9"),
    (8000, 6, "> span=20 load at src/db.rs:5"),
    (8500, 6, "< span=20 ended load at src/db.rs:5"),
    (9000, 6, "< span=12 request at src/main.rs:9"),
    (9999, 6, ": INFO app: span=12 request closed"),
];

fn place(lines: &[(u64, u64, &str)]) -> Place {
    let place = Place::new();
    for (tid, name) in [(5, "five"), (6, "six")] {
        let lines = lines.iter().filter(|line| line.1 == tid);
        let text: String = lines.map(|(ticks, _, text)| format!("{ticks:016x}-{tid:08} {text}\n")).collect();
        place.write(format!("app.trace.{tid}"), whole_file(&run(4, 0), tid, name, text.as_bytes()));
    }
    place
}

fn shown(place: &Place, args: &[&str]) -> String {
    let ran = place.merge([args, &["app"]].concat());
    assert_eq!(ran.status, Some(0), "{}", ran.err);
    String::from_utf8(ran.out).unwrap()
}

/// Returns the lines of the table of spans, with one space between cells.
fn spans(report: &str) -> Vec<String> {
    let lines = report.lines().skip_while(|line| !line.is_empty()).skip(1);
    lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

#[test]
fn spans_have_a_table_of_their_own() {
    let place = place(&LINES);
    let report = shown(&place, &["report"]);
    // A request takes 2,000 or 7,999 ticks, of which it is busy for 1,000 or 4,000; the server until the last line.
    let expected = [
        "spans wall p50 max busy p50 max span",
        "2 2.50 ms 501 us 2.00 ms 1.25 ms 250 us 1.00 ms request",
        "1 2.25 ms 2.26 ms 2.25 ms 0 ns 0 ns 0 ns server",
        "1 125 us 125 us 125 us 125 us 125 us 125 us load",
    ];
    let exact = |line: &String| {
        let mut cells: Vec<&str> = line.split(' ').collect();
        // Medians have an error of up to one percent.
        if cells[0] != "spans" {
            for at in [10, 9, 4, 3] {
                cells.remove(at);
            }
        }
        cells.join(" ")
    };
    let found: Vec<String> = spans(&report).iter().map(exact).collect();
    assert_eq!(found, expected.map(|line| exact(&line.to_owned())), "{report}");
    let few = spans(&shown(&place, &["report", "--rows", "1"]));
    assert_eq!(few[1..].last().unwrap(), "and 2 more span names: tracemerge report --rows all shows them");
    assert_eq!(few.len(), 3, "{few:?}");
}

#[test]
fn the_numbers_are_those_of_spans_and_csv_stays_as_it_is() {
    let place = place(&LINES);
    let json = |args: &[&str]| -> Value { serde_json::from_str(&shown(&place, args)).unwrap() };
    let (report, names) = (json(&["report", "--json"]), json(&["spans", "--json"]));
    let names = names["names"].as_array().unwrap();
    for (name, expected) in [
        ("request", [2, 2_499_750, 1_999_750, 1_250_000, 1_000_000]),
        ("load", [1, 125_000, 125_000, 125_000, 125_000]),
    ] {
        let rows = report["spans"].as_array().unwrap();
        let row = rows.iter().find(|row| row["name"] == name).unwrap();
        let keys = ["spans", "wall_total_ns", "wall_max_ns", "busy_total_ns", "busy_max_ns"];
        assert_eq!(keys.map(|key| row[key].as_u64().unwrap()), expected, "{name}");
        // `spans` has a row for each name that opened them.
        let total = names.iter().filter(|row| row["name"] == name).map(|row| row["wall_total_ns"].as_u64());
        assert_eq!(total.map(Option::unwrap).sum::<u64>(), expected[1]);
    }
    let csv = shown(&place, &["report", "--csv"]);
    assert!(csv.starts_with("thread,calls,total_ns,") && csv.lines().count() == 3, "{csv}");
}

#[test]
fn a_report_without_spans_has_no_table_of_them() {
    let place = place(&[(1000, 5, "> work at src/main.rs:3"), (2000, 5, "< work at src/main.rs:3")]);
    let report = shown(&place, &["report"]);
    assert!(report.trim_end().ends_with("all functions"), "{report}");
    let json: Value = serde_json::from_str(&shown(&place, &["report", "--json"])).unwrap();
    assert_eq!(json["spans"], Value::Array(Vec::new()));
}
