//! Programs of others read a trace with everything in it correctly: speedscope's importer, and DuckDB.
#![allow(clippy::unwrap_used, reason = "a failure in a test fails it")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::support::{agree, answers, readers, rows_of_report, written};
use serde_json::Value;

/// Returns the columns that `docs/formats.md` lists, with DuckDB's names of the types in that document. DuckDB
/// recognizes times in texts.
fn documented_columns() -> Vec<(String, String)> {
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/formats.md");
    let document = std::fs::read_to_string(document).unwrap();
    let (_, behind) = document.split_once("| field | type | meaning |\n|---|---|---|\n").unwrap();
    let mut columns = Vec::new();
    for row in behind.lines().take_while(|line| line.starts_with('|')) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        for (name, of) in cells[1].split(", ").zip(cells[2].split(", ")) {
            let name = name.trim_matches('`');
            let of = match (name, of) {
                ("time", "text") => "TIMESTAMP WITH TIME ZONE",
                (_, "integer") => "BIGINT",
                (_, "text") => "VARCHAR",
                (_, "object") => "VARCHAR",
                other => panic!("{other:?}"),
            };
            columns.push((name.to_owned(), of.to_owned()));
        }
    }
    columns
}

#[test]
fn speedscope_imports_the_profile_of_each_thread() {
    let Some(readers) = readers() else { return };
    let (all, profile) = written("speedscope", "app.speedscope.json");
    let told = answers("node", "speedscope.mjs", &[readers.to_str().unwrap(), profile.to_str().unwrap()]);
    assert_eq!(told[0]["errors"], serde_json::json!([]));
    let bar = told[0]["bar"].to_string();
    let threads: BTreeSet<_> = all.calls.iter().map(|call| (call.pid, call.tid)).collect();
    assert!(bar.contains(&format!("/{})", threads.len())), "{bar}");
    // Compares its table of the first thread with the report of that thread.
    let (_, tid) = threads.first().unwrap();
    let report = rows_of_report(&all.place.merge(["report", "--all-runs", "--by-thread", "app"]).out);
    let rows: Vec<Vec<String>> = serde_json::from_value(told[0]["rows"].clone()).unwrap();
    let head = rows.iter().position(|row| row[..] == ["Total", "Self", "Symbol Name"]).unwrap();
    let rows = &rows[head + 1..];
    let calls = all.calls.iter().filter(|call| call.tid == *tid);
    let functions: BTreeSet<&str> = calls.map(|call| &*call.function).collect();
    assert_eq!(rows.len(), functions.len());
    assert_eq!(report.len(), functions.len());
    for of_report in report {
        assert!(functions.contains(&of_report.function[..]), "{of_report:?}");
        let row = rows.iter().find(|row| row[2] == of_report.function).unwrap();
        for (shown, of_report) in row[..2].iter().zip(&of_report.times) {
            let (time, _percent) = shown.split_once(" (").unwrap();
            assert!(agree(time, of_report), "{row:?} {of_report}");
        }
    }
}

#[test]
fn duckdb_finds_each_record_in_json_lines_and_csv() {
    let Some(readers) = readers() else { return };
    let (all, jsonl) = written("jsonl", "app.jsonl");
    let ran = all.place.merge(["--format", "csv", "--all-runs", "app"]);
    assert_eq!(ran.status, Some(1), "{}", ran.err);
    let (jsonl, csv) = (jsonl.display().to_string(), all.place.path("app.csv").display().to_string());
    let kinds = |from: &str| format!("select kind, count(*) from {from} group by kind order by kind");
    let sums = |from: &str| {
        format!(
            "select count(*), sum((fields->>'bytes')::bigint) from {from} where template like 'sent%' and fields->>'bytes' is not null"
        )
    };
    let (lines, rows) = (format!("read_json('{jsonl}')"), format!("read_csv('{csv}', all_varchar = true)"));
    let rows = format!("(select * replace (fields::json as fields) from {rows})");
    let queries = [kinds(&lines), kinds(&rows), sums(&lines), sums(&rows)];
    let python = readers.join("python/bin/python");
    let queries: Vec<&str> = queries.iter().map(String::as_str).collect();
    let told = answers(python.to_str().unwrap(), "query.py", &queries);
    let mut expected: BTreeMap<&str, u64> = BTreeMap::new();
    let (mut sent, mut bytes) = (0, 0);
    for record in &all.records {
        *expected.entry(record.kind).or_default() += 1;
        if let Some(of_record) = record.values.as_ref().and_then(|values| values["bytes"].as_i64()) {
            (sent, bytes) = (sent + 1, bytes + of_record);
        }
    }
    let expected: Vec<_> =
        expected.into_iter().map(|(kind, count)| serde_json::json!([kind, count])).collect();
    assert_eq!([&told[0], &told[1]], [&Value::from(expected.clone()), &Value::from(expected)]);
    let sums = serde_json::json!([[sent, bytes]]);
    assert_eq!([&told[2], &told[3]], [&sums, &sums]);

    // DuckDB itself finds the types in the cells that the document states. No cell of one machine has an error.
    let described =
        format!("select column_name, column_type from (describe select * from read_csv('{csv}'))");
    let told = answers(python.to_str().unwrap(), "query.py", &[&described]);
    let found: Vec<(String, String)> = serde_json::from_value(told[0].clone()).unwrap();
    let mut documented = documented_columns();
    documented.last_mut().unwrap().1 = "VARCHAR".to_owned();
    assert_eq!(found, documented);
}
