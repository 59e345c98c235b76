//! JSON lines and comma-separated values have each record of a trace with everything in it, with the right time,
//! thread, text and values, according to readers of others.
#![allow(clippy::unwrap_used, reason = "a failure in a test fails it")]

use crate::support::{Everything, everything};
use serde_json::{Map, Value, json};

/// The size of the trace in records.
const SIZE: u64 = 100_000;

/// Returns the rows to compare with each format's rows, sorted: no format distinguishes the lines of one tick.
fn expected(all: &Everything) -> Vec<String> {
    let mut rows: Vec<String> = all
        .records
        .iter()
        .map(|record| {
            let row = json!({
                "ticks": record.ticks, "ns": record.ns(), "pid": record.pid, "tid": record.tid,
                "kind": record.kind,
                "message": record.text, "function": record.function, "values": record.values,
                "line": record.site.map(|id| all.sites.iter().find(|site| site.id == id).unwrap().line),
            });
            // The reader of JSON may read a float with another last bit than the one that was written.
            serde_json::from_str::<Value>(&row.to_string()).unwrap().to_string()
        })
        .collect();
    rows.sort();
    rows
}

/// Returns the same for a row that was read.
fn row(read: &Map<String, Value>) -> String {
    let of = |key: &str| read.get(key).cloned().unwrap_or(Value::Null);
    let kind = of("kind");
    let is_message = kind == "message";
    let has_text = is_message || kind == "stack";
    let is_call = kind == "enter" || kind == "leave";
    let only = |key: &str, is_so: bool| if is_so { of(key) } else { Value::Null };
    let row = json!({
        "ticks": of("ticks"), "ns": of("ns"), "pid": of("pid"), "tid": of("tid"), "kind": kind,
        "message": only("message", has_text), "function": only("function", is_call),
        "values": only("fields", is_message), "line": of("line"),
    });
    row.to_string()
}

fn assert_same(mut found: Vec<String>, all: &Everything) {
    found.sort();
    let expected = expected(all);
    for (found, expected) in found.iter().zip(&expected) {
        assert_eq!(found, expected);
    }
    assert_eq!(found.len(), expected.len());
}

#[test]
fn json_lines_have_every_record_with_its_values() {
    let all = everything(SIZE);
    let ran = all.place.merge(["--format", "jsonl", "--all-runs", "app"]);
    assert_eq!(ran.status, Some(1), "the damage is reported: {}", ran.err);
    assert!(ran.err.contains("1 message with bytes that are not UTF-8"), "{}", ran.err);
    let text = all.place.text("app.jsonl");
    let rows: Vec<Map<String, Value>> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{line}: {e}")))
        .collect();
    assert!(rows.iter().map(|row| row["ticks"].as_u64()).is_sorted());
    let odd = rows.iter().find(|row| row["tid"] == 51).unwrap();
    assert_eq!(odd["thread"], "w;orker \"é\",\\x");
    assert_eq!(odd["process"], "odd; \"app\"");
    let sent = rows.iter().find(|row| row.get("line") == Some(&json!(12))).unwrap();
    let told = ["level", "target", "module", "file", "function", "template"].map(|key| sent[key].clone());
    let site = &all.sites[0];
    let is = ["error", "app::net", "app::net", &site.file, "app::net::send", "sent {0} of {1} at {2}"];
    assert_eq!(told, is.map(|text| json!(text)));
    let left = rows.iter().filter(|row| row.get("fields").is_some_and(|f| f.get("unwinding").is_some()));
    assert!(left.count() > 10, "panics unwind");
    assert_same(rows.iter().map(row).collect(), &all);
}

#[test]
fn comma_separated_values_have_every_record_with_its_values() {
    let all = everything(SIZE);
    let ran = all.place.merge(["--format", "csv", "--all-runs", "app", "-o", "-"]);
    assert_eq!(ran.status, Some(1), "the damage is reported: {}", ran.err);
    let mut reader = csv::Reader::from_reader(&ran.out[..]);
    let columns: Vec<String> = reader.headers().unwrap().iter().map(str::to_owned).collect();
    let mut found = Vec::new();
    for read in reader.records() {
        let read = read.unwrap();
        let mut typed = Map::new();
        for (column, cell) in columns.iter().zip(read.iter()) {
            let is_number = ["ticks", "ns", "pid", "tid", "line"].contains(&&column[..]);
            let is_text = column == "message" && (typed["kind"] == "message" || typed["kind"] == "stack");
            let value = match cell {
                "" if !is_text => continue,
                cell if is_number || column == "fields" => serde_json::from_str(cell).unwrap(),
                cell => json!(cell),
            };
            typed.insert(column.clone(), value);
        }
        found.push(row(&typed));
    }
    assert_same(found, &all);
}

#[test]
fn selections_apply_to_other_formats() {
    let all = everything(2000);
    let lines = |args: &[&str]| {
        let ran = all.place.merge([&["--format", "jsonl", "--all-runs", "app", "-o", "-"], args].concat());
        assert!(ran.status.is_some_and(|status| status < 2), "{}", ran.err);
        let text = String::from_utf8(ran.out).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<Value>>()
    };
    let of =
        |wanted: &dyn Fn(&crate::support::Expected) -> bool| all.records.iter().filter(|r| wanted(r)).count();
    let grep = lines(&["--grep", "^sent .* at"]);
    assert_eq!(grep.len(), of(&|r| r.text.as_ref().is_some_and(|text| text.starts_with("sent "))));
    assert!(grep.iter().any(|row| row["fields"]["bytes"].is_i64()), "values are not searched, and not lost");
    assert_eq!(lines(&["--thread", "51"]).len(), of(&|r| r.tid == 51));
    assert_eq!(lines(&["--process", "6"]).len(), of(&|r| r.pid == 6));
    let middle = all.records.iter().map(|r| r.ticks).max().unwrap() / 2 + 0x800_0000;
    assert_eq!(lines(&["--since", &format!("@{middle}")]).len(), of(&|r| r.ticks >= middle));
    let last = lines(&["--last", "7", "--site", "net \"q\", é.rs:12"]);
    assert_eq!(last.iter().filter(|row| row["kind"] == "message" && row["line"] == 12).count(), 7);
    assert!(last.iter().any(|row| row["fields"]["total"].is_u64()), "{last:?}");
}
