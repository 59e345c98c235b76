//! Programs of others read a trace with everything in it as it was written: Perfetto's trace processor, speedscope's importer,
//! and DuckDB. `.ci/readers` installs them; `TRACER_READERS` names the directory where they are.
#![allow(clippy::unwrap_used, reason = "a failure in a test fails it")]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use support::{Everything, everything};

/// Returns the directory of the readers; `None` where there is none, which is said.
fn readers() -> Option<PathBuf> {
    let readers = std::env::var_os("TRACER_READERS").filter(|readers| !readers.is_empty()).map(PathBuf::from);
    if readers.is_none() {
        eprintln!("not tested: TRACER_READERS names no directory with other readers (see .ci/readers)");
    }
    readers
}

/// Makes the trace in a format; returns it and the path of the file.
fn written(format: &str, name: &str) -> (Everything, PathBuf) {
    let all = everything(100_000);
    let ran = all.place.merge(["--format", format, "--all-runs", "app"]);
    // The trace is damaged in one place, and lacks records.
    assert_eq!(ran.status, Some(1), "{}", ran.err);
    let file = all.place.path(name);
    (all, file)
}

/// Runs a program of the folder `readers`; returns the lines that it has printed, as JSON.
fn answers(program: &str, script: &str, arguments: &[&str]) -> Vec<Value> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/readers").join(script);
    let output = Command::new(program).arg(script).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).unwrap();
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Asks the trace processor; returns the rows of each query.
fn asked<const N: usize>(readers: &Path, trace: &Path, queries: [&str; N]) -> [Vec<Vec<Value>>; N] {
    let words = [readers.to_str().unwrap(), trace.to_str().unwrap()];
    let answers = answers("node", "trace_processor.mjs", &[&words[..], &queries].concat());
    let rows = answers.into_iter().map(|rows| serde_json::from_value(rows).unwrap());
    rows.collect::<Vec<_>>().try_into().unwrap()
}

fn number(value: &Value) -> u64 {
    value.as_f64().unwrap() as u64
}

/// Returns how many calls each thread has, and how deep they go, by process and thread.
fn by_thread(all: &Everything) -> BTreeMap<(u64, u64), (u64, u64)> {
    let mut threads = BTreeMap::new();
    for call in &all.calls {
        let (calls, depth) = threads.entry((u64::from(call.pid), call.tid)).or_insert((0, 0));
        *calls += 1;
        *depth = call.depth.max(*depth as usize) as u64;
    }
    threads
}

/// The trace processor's own table of what it could not make sense of, or has left out.
const ERRORS: &str = "select name, value from stats where severity in ('error', 'data_loss') and value > 0";

#[test]
fn perfettos_trace_processor_finds_each_call_message_loss_and_stall() {
    let Some(readers) = readers() else { return };
    let (all, trace) = written("perfetto", "app.perfetto-trace");
    let [errors, threads, durations, messages, losses, stalls] = asked(
        &readers,
        &trace,
        [
            ERRORS,
            "select pid, tid, count(*), max(depth) from slice join thread_track on slice.track_id = thread_track.id \
             join thread using (utid) join process using (upid) where category = 'function' group by pid, tid",
            "select slice.name, count(*), sum(dur) from slice where category = 'function' group by 1",
            "select count(*) from slice join thread_track on slice.track_id = thread_track.id where dur = 0 \
             and ifnull(category, '') not in ('function', 'tracer')",
            "select sum(extract_arg(arg_set_id, 'debug.records')) from slice where category = 'tracer' and name = 'lost'",
            "select count(*) from slice where name = 'stall'",
        ],
    );
    assert!(errors.is_empty(), "{errors:?}");
    let found: BTreeMap<_, _> = threads
        .iter()
        .map(|row| ((number(&row[0]), number(&row[1])), (number(&row[2]), number(&row[3]))))
        .collect();
    assert_eq!(found, by_thread(&all));
    let mut expected: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for call in &all.calls {
        let (calls, ns) = expected.entry(call.function.clone()).or_default();
        (*calls, *ns) = (*calls + 1, *ns + (call.left - call.entered) * support::TICK_NS);
    }
    let found: BTreeMap<String, (u64, u64)> = durations
        .iter()
        .map(|row| (row[0].as_str().unwrap().to_owned(), (number(&row[1]), number(&row[2]))))
        .collect();
    assert_eq!(found, expected);
    let expected = all.records.iter().filter(|record| record.kind == "message").count() as u64;
    assert_eq!(number(&messages[0][0]), expected);
    assert_eq!(number(&losses[0][0]), all.lost);
    assert_eq!(number(&stalls[0][0]), all.stalls);
}

#[test]
fn the_trace_processor_finds_each_call_and_message_of_chromes_json() {
    let Some(readers) = readers() else { return };
    let (all, trace) = written("chrome", "app.chrome.json");
    let [errors, threads] = asked(
        &readers,
        &trace,
        [
            ERRORS,
            "select pid, tid, count(*), max(depth) from slice join thread_track on slice.track_id = thread_track.id \
             join thread using (utid) join process using (upid) where category = 'function' group by pid, tid",
        ],
    );
    assert!(errors.is_empty(), "{errors:?}");
    let found: BTreeMap<_, _> = threads
        .iter()
        .map(|row| ((number(&row[0]), number(&row[1])), (number(&row[2]), number(&row[3]))))
        .collect();
    assert_eq!(found, by_thread(&all));
}

#[test]
fn speedscopes_importer_takes_the_profile_of_each_thread() {
    let Some(readers) = readers() else { return };
    let (all, profile) = written("speedscope", "app.speedscope.json");
    let told = answers("node", "speedscope.mjs", &[readers.to_str().unwrap(), profile.to_str().unwrap()]);
    assert_eq!(told[0]["errors"], serde_json::json!([]));
    let bar = told[0]["bar"].to_string();
    let threads = by_thread(&all).len();
    assert!(bar.contains(&format!("/{threads})")), "{bar}");
    let rows = told[0]["rows"].to_string();
    let functions: BTreeSet<&str> = all.calls.iter().map(|call| &*call.function).collect();
    for function in functions {
        let quoted = Value::from(function).to_string();
        assert!(rows.contains(quoted.trim_matches('"')), "{function}: {rows}");
    }
}

#[test]
fn duckdb_finds_each_record_in_lines_and_rows() {
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
}
