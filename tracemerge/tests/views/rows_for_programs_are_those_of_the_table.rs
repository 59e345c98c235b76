//! `--json` and `--csv` of a view with rows have the values of all calls and messages, and the rows of the table.
#![allow(clippy::unwrap_used, reason = "a failure in a test fails it")]

use std::collections::BTreeMap;

use serde_json::Value;

use crate::support::{Everything, Expected, everything, rows_of_report};

/// Returns the output of a view of all runs.
fn shown(all: &Everything, words: &[&str]) -> Vec<u8> {
    let ran = all.place.merge([words, &["--all-runs", "app"]].concat());
    assert_eq!(ran.status, Some(1), "{words:?}: {}", ran.err);
    ran.out
}

/// Returns the rows of comma-separated values: the cells by the names of their columns.
fn csv_rows(bytes: &[u8]) -> Vec<BTreeMap<String, String>> {
    csv::Reader::from_reader(bytes).deserialize().map(Result::unwrap).collect()
}

/// Returns whether a cell of CSV has this value of JSON.
fn has(cell: &str, value: &Value) -> bool {
    match value {
        Value::Null => cell.is_empty(),
        Value::String(text) => cell == text,
        value => serde_json::from_str::<Value>(cell).unwrap() == *value,
    }
}

/// Checks that the rows in JSON under this name and those in CSV are the same; returns the former.
fn rows(all: &Everything, words: &[&str], name: &str) -> Vec<Value> {
    let json: Value = serde_json::from_slice(&shown(all, &[words, &["--json"]].concat())).unwrap();
    assert_eq!(json["version"], 1);
    let rows = json[name].as_array().unwrap().clone();
    let csv = csv_rows(&shown(all, &[words, &["--csv"]].concat()));
    assert_eq!(csv.len(), rows.len());
    for (cells, row) in csv.iter().zip(&rows) {
        let row = row.as_object().unwrap();
        assert_eq!(cells.len(), row.len());
        assert!(row.iter().all(|(name, value)| has(&cells[name], value)), "{cells:?}: {row:?}");
    }
    rows
}

#[test]
fn a_report_for_programs_has_the_times_of_all_calls_and_the_order_of_the_table() {
    let all = everything(10_000);
    let rows = rows(&all, &["report"], "functions");
    let name = |row: &Value| row["function"].as_str().unwrap().to_owned();
    let table: Vec<(String, u64)> = rows_of_report(&shown(&all, &["report"]))
        .iter()
        .map(|row| (row.function.clone(), row.calls))
        .collect();
    let found: Vec<(String, u64)> =
        rows.iter().map(|row| (name(row), row["calls"].as_u64().unwrap())).collect();
    assert_eq!(found, table);

    let mut calls: BTreeMap<&str, u64> = BTreeMap::new();
    all.calls.iter().for_each(|call| *calls.entry(&call.function).or_default() += 1);
    assert_eq!(calls.len(), rows.len());
    for row in &rows {
        let (name, known) = (name(row), all.times[&name(row)[..]]);
        let number = |column: &str| row[column].as_u64().unwrap();
        assert_eq!(number("calls"), calls[&name[..]], "{name}");
        assert_eq!((number("total_ns"), number("self_ns")), (known.total, known.own), "{name}");
        assert!(
            number("min_ns") <= number("average_ns") && number("average_ns") <= number("max_ns"),
            "{row}"
        );
    }

    let of_threads = self::rows(&all, &["report", "--by-thread"], "functions");
    let sum = of_threads.iter().map(|row| row["calls"].as_u64().unwrap()).sum::<u64>();
    assert!(of_threads.iter().all(|row| row["thread"].is_string()) && sum == all.calls.len() as u64);
}

#[test]
fn counts_of_messages_for_programs_are_complete() {
    let all = everything(10_000);
    let rows = rows(&all, &["stats"], "by_sort");
    let json: Value = serde_json::from_slice(&shown(&all, &["stats", "--json"])).unwrap();
    let sum = rows.iter().map(|row| row["count"].as_u64().unwrap()).sum::<u64>();
    assert_eq!((json["sorts"].as_u64(), json["messages"].as_u64()), (Some(rows.len() as u64), Some(sum)));
    let table = String::from_utf8(shown(&all, &["stats", "--rows", "1000000"])).unwrap();
    let lines = table.lines().filter(|line| !line.contains("the tracer made "));
    assert_eq!(lines.count(), 2 + rows.len(), "{table}");
}

#[test]
fn rates_count_the_records_of_each_thread_in_each_period() {
    const EVERY: u64 = 250_000;
    let all = everything(10_000);
    let rows = rows(&all, &["rates", "--every", "250us"], "periods");
    let mut expected: BTreeMap<(u64, u64), u64> = BTreeMap::new();
    let first = all.records.iter().map(Expected::ns).min().unwrap();
    let is_record = |kind: &str| ["message", "enter", "leave", "stack"].contains(&kind);
    for record in all.records.iter().filter(|record| is_record(record.kind)) {
        *expected.entry(((record.ns() - first) / EVERY * EVERY, record.tid)).or_default() += 1;
    }
    let sorted = |mut counts: Vec<(u64, u64)>| {
        counts.sort_unstable();
        counts
    };
    let number = |row: &Value, column: &str| row[column].as_u64().unwrap();
    let found = rows.iter().map(|row| (number(row, "from_ns"), number(row, "records"))).collect();
    let expected: Vec<(u64, u64)> =
        expected.iter().map(|((period, _), records)| (*period, *records)).collect();
    assert!(expected.len() > 10);
    assert_eq!(sorted(found), sorted(expected));
    let table = String::from_utf8(shown(&all, &["rates", "--every", "250us"])).unwrap();
    assert_eq!(table.lines().count(), 1 + rows.len(), "{table}");
}
