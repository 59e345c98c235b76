//! The numbers of `tracemerge diff --json` equal those of its report for people and those of the traces that the test
//! made; the numbers of `--csv` equal those of `--json`.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a failure in a test fails it")]

use std::collections::BTreeMap;

use crate::support::{Place, line, meta, run};
use serde_json::{Value, json};
use trace_format::meta::{ClockKind, Meta, RingPlace, Run, Thread};

/// Writes a trace file of the thread `name`, with a clock that counts nanoseconds.
fn thread(place: &Place, directory: &str, tid: u64, name: &str, messages: &[(u64, &str)]) {
    let run = Run { clock: ClockKind::System, ..run(5, 1) };
    let named =
        Thread { name: name.as_bytes().to_vec(), ring: RingPlace::Shared, why: Vec::new(), file: None };
    let mut text = [meta(1, tid, &Meta::Run(run)), meta(1, tid, &Meta::Thread(named))].concat();
    messages.iter().for_each(|(ticks, message)| text.extend(line(*ticks, tid, message)));
    place.write(format!("{directory}/app.trace.{tid}"), text);
}

/// Makes two directories of traces. They differ by a thread that takes another course, a thread that only the first
/// has, and a thread that only the second has.
fn traces() -> Place {
    let place = Place::new();
    for directory in ["a", "b"] {
        std::fs::create_dir(place.path(directory)).unwrap();
    }
    let same = [(1_000, "job 1"), (3_000, "job 2"), (9_000, "job 3")];
    thread(&place, "a", 5, "app", &same);
    thread(&place, "b", 5, "app", &same.map(|(ticks, text)| (2 * ticks, text)));
    let work = [(2_000, "begin"), (3_000, "job 1"), (4_000, "job 2"), (5_000, "done, \"all\"")];
    thread(&place, "a", 6, "worker", &work);
    let other = [work[0], work[1], (3_500, "retry 1"), (3_600, "retry 2"), work[2]];
    thread(&place, "b", 16, "worker", &other);
    thread(&place, "a", 7, "only here", &work[..1]);
    thread(&place, "b", 18, "only there", &work[..2]);
    place
}

fn compare(place: &Place, args: &[&str]) -> (Value, String) {
    let [json, text] = [&["--json"][..], &[]].map(|more| {
        let ran = place.merge(["diff"].iter().chain(args).chain(more));
        assert_eq!((ran.status, ran.err.as_str()), (Some(1), ""));
        ran.out
    });
    (serde_json::from_slice(&json).unwrap(), String::from_utf8(text).unwrap())
}

#[test]
fn text_and_json_agree_about_threads() {
    let place = traces();
    let (json, text) = compare(&place, &["a", "b"]);
    assert_eq!(
        (&json["version"], &json["a"], &json["b"], &json["same"]),
        (&json!(3), &json!("a"), &json!("b"), &json!(false))
    );
    let threads = json["threads"].as_array().unwrap();
    assert_eq!(threads.len(), 4);
    let mut told = 0;
    for thread in threads {
        let (a, b) = (&thread["a"], &thread["b"]);
        let name =
            thread["name"].as_str().map_or("first thread".to_owned(), |name| format!("thread \"{name}\""));
        let expected = match (a.is_null(), b.is_null()) {
            _ if thread["same"] == true => format!("1 thread the same, {} records\n", thread["alike"]),
            (true, _) => format!("{name} ({}) is only in B: {} record", b["tid"], b["records"]),
            (_, true) => format!("{name} ({}) is only in A: {} record", a["tid"], a["records"]),
            _ => format!(
                "{name} (A {}, B {}): A has {} records, B {}; the first {} alike, {} only in A, {} only in B\n",
                a["tid"],
                b["tid"],
                a["records"],
                b["records"],
                thread["alike"],
                thread["only_a"],
                thread["only_b"]
            ),
        };
        assert!(text.contains(&expected), "{expected} in {text}");
        for (side, messages) in [(" ", &thread["before"]), ("A", &a["next"]), ("B", &b["next"])] {
            for message in messages.as_array().into_iter().flatten() {
                let file = message["file"].as_str().unwrap().rsplit('/').next().unwrap();
                let us = message["since_ns"].as_f64().unwrap() / 1000.0;
                let expected = format!(
                    "  {side} {file}:{} +{us:.2} us  {}\n",
                    message["line"],
                    message["text"].as_str().unwrap()
                );
                assert!(text.contains(&expected), "{expected} in {text}");
                told += 1;
            }
        }
    }
    assert_eq!(told, 6);
    // These numbers were counted by hand.
    let of_worker = threads.iter().find(|thread| thread["name"] == "worker").unwrap();
    assert_eq!(
        [&of_worker["alike"], &of_worker["only_a"], &of_worker["only_b"], &of_worker["a"]["next"][1]["text"]],
        [&json!(2), &json!(1), &json!(2), &json!("done, \"all\"")]
    );
    assert_eq!(of_worker["b"]["next"][0]["file"], "b/app.trace.16");
    assert_eq!((&threads[3]["a"], &threads[3]["b"]["next"]), (&json!(null), &json!([])));
}

#[test]
fn text_and_json_agree_about_sorts_of_messages() {
    let place = traces();
    for rows in ["1", "3", "20"] {
        let (json, text) = compare(&place, &["a", "b", "--rows", rows]);
        let sorts = json["messages"].as_array().unwrap();
        let table: Vec<&str> =
            text.lines().skip_while(|line| !line.contains("message, # for numbers")).skip(1).collect();
        let rows: usize = rows.parse().unwrap();
        assert_eq!((sorts.len(), json["sorts"].as_u64()), (rows.min(4), Some(4)));
        // One sort comes once; it is reported on a line of its own.
        assert_eq!(table.len(), sorts.len() + [2, 1, 0][rows.min(4) / 2], "{text}");
        for (sort, row) in sorts.iter().zip(table) {
            assert!(row.ends_with(sort["message"].as_str().unwrap()), "{row} is {sort}");
            let counts: Vec<&str> = row.split_whitespace().take(2).collect();
            assert_eq!(counts, [sort["a"]["count"].to_string(), sort["b"]["count"].to_string()]);
            let times = ["median_ns", "p99_ns"].map(|time| [&sort["a"][time], &sort["b"][time]]).concat();
            let shown =
                row.split("  ").map(str::trim).filter(|cell| cell.ends_with(" us") || cell.ends_with(" ns"));
            assert_eq!(
                shown.count(),
                times.iter().filter(|time| time.is_number()).count(),
                "{row} is {sort}"
            );
        }
    }
    let (json, _) = compare(&place, &["a", "b"]);
    let jobs = json["messages"].as_array().unwrap().iter().find(|sort| sort["message"] == "job #").unwrap();
    // These numbers were counted by hand: of 2,000, 6,000, 1,000 and 1,000 ticks, half do not exceed 1,000. The
    // report is exact to 1 %.
    assert_eq!((&jobs["a"]["count"], &jobs["a"]["measured"]), (&json!(5), &json!(4)));
    let within = |time: &Value, ns: u64| time.as_u64().unwrap().abs_diff(ns) <= ns / 100;
    assert!(within(&jobs["a"]["median_ns"], 1_000) && within(&jobs["a"]["p99_ns"], 6_000), "{jobs}");
}

#[test]
fn bytes_that_are_not_lines_are_reported_and_the_rest_is_compared() {
    let place = traces();
    std::fs::remove_dir_all(place.path("b")).unwrap();
    std::fs::create_dir(place.path("b")).unwrap();
    for name in ["app.trace.5", "app.trace.6", "app.trace.7"] {
        place.write(format!("b/{name}"), place.read(format!("a/{name}")));
    }
    let ran = place.merge(["diff", "a", "b"]);
    assert_eq!((ran.status, ran.err.as_str()), (Some(0), ""));
    let mut damaged = place.read("b/app.trace.6");
    let end = damaged.len();
    damaged.extend(b"junk\0");
    place.write("b/app.trace.6", &damaged);
    crate::support::ran(place.program("mkfifo").arg("b/app.trace.8"));
    let ran = place.merge(["diff", "a", "b"]);
    assert_eq!(ran.status, Some(1), "{}", ran.err);
    let told = format!("'b/app.trace.6': 5 bytes at offset {end} are not a trace line, and not compared\n");
    assert!(ran.err.contains(&told), "{}", ran.err);
    assert!(ran.err.contains("'b/app.trace.8': it is not a regular file"), "{}", ran.err);
    assert!(String::from_utf8(ran.out).unwrap().contains("3 threads the same, 8 records\n"));
    // A merge shows damaged bytes in their place, and a comparison with the merged file counts them.
    assert_eq!(place.merge(["b", "-o", "merged"]).status, Some(1));
    let ran = place.merge(["diff", "a", "merged"]);
    assert_eq!(ran.status, Some(1));
    assert!(ran.err.contains(&told), "{}", ran.err);
}

/// Returns the rows of `diff --csv`, by kind: the cells by the names of their columns.
pub(super) fn csv_rows(place: &Place, args: &[&str]) -> BTreeMap<String, Vec<BTreeMap<String, String>>> {
    let ran = place.merge(["diff", "--csv"].iter().chain(args));
    assert_eq!(ran.err, "");
    let mut rows: BTreeMap<String, Vec<BTreeMap<String, String>>> = BTreeMap::new();
    for row in csv::Reader::from_reader(&ran.out[..]).deserialize() {
        let row: BTreeMap<String, String> = row.unwrap();
        rows.entry(row["kind"].clone()).or_default().push(row);
    }
    rows
}

/// Checks that the columns have these values of JSON.
pub(super) fn assert_cells(row: &BTreeMap<String, String>, expected: &[(&str, &Value)]) {
    for (column, value) in expected {
        let text = match value {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            value => value.to_string(),
        };
        assert_eq!(row[*column], text, "{column} of {row:?}");
    }
}

#[test]
fn csv_and_json_agree() {
    let place = traces();
    // A pool, which the other tests have not.
    thread(&place, "a", 30, "pool-1", &[(2_000, "task 1"), (3_000, "task 2")]);
    thread(&place, "a", 31, "pool-2", &[(2_500, "task 3")]);
    thread(&place, "b", 32, "pool-1", &[(2_000, "task 1")]);
    let args = ["a", "b", "--rows", "all"];
    let (json, _) = compare(&place, &args);
    let csv = csv_rows(&place, &args);
    let of = |name: &str| json[name].as_array().unwrap().clone();
    let names = [("thread", "threads"), ("pool", "pools"), ("message", "messages")];
    for (kind, name) in names {
        assert_eq!((csv[kind].len(), of(name).is_empty()), (of(name).len(), false), "{kind}");
    }
    assert_eq!(csv.len(), names.len());
    let none = json!(0);
    let records = |side: &Value| if side.is_null() { none.clone() } else { side["records"].clone() };
    for (kind, name) in &names[..2] {
        for (row, value) in csv[*kind].iter().zip(of(name)) {
            let (a, b) = (records(&value["a"]), records(&value["b"]));
            let found = [("a_count", &a), ("b_count", &b)];
            let others = [("name", &value["name"]), ("same", &value["same"])];
            let only = [("a_only", &value["only_a"]), ("b_only", &value["only_b"])];
            assert_cells(row, &[found, others, only].concat());
        }
    }
    for (row, value) in csv["message"].iter().zip(of("messages")) {
        let (a, b) = (&value["a"], &value["b"]);
        assert_cells(
            row,
            &[
                ("name", &value["message"]),
                ("a_count", &a["count"]),
                ("b_count", &b["count"]),
                ("a_median_ns", &a["median_ns"]),
                ("b_median_ns", &b["median_ns"]),
                ("a_p99_ns", &a["p99_ns"]),
                ("b_p99_ns", &b["p99_ns"]),
                ("file", &value["file"]),
            ],
        );
    }
}
