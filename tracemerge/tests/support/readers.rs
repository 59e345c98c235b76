//! Programs of others that read the command's output; `.ci/readers` installs them.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::{Everything, everything};

/// Makes the trace that has everything in it in a format; returns it and the path of the output.
pub fn written(format: &str, name: &str) -> (Everything, PathBuf) {
    let all = everything(100_000);
    let ran = all.place.merge(["--format", format, "--all-runs", "app"]);
    // The trace is damaged in one place, and lacks records.
    assert_eq!(ran.status, Some(1), "{}", ran.err);
    let file = all.place.path(name);
    (all, file)
}

/// Runs a program of the folder `readers`; returns the lines that it has printed, as JSON.
pub fn answers(program: &str, script: &str, arguments: &[&str]) -> Vec<Value> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/readers").join(script);
    let output = Command::new(program).arg(script).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).unwrap();
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Runs queries in Perfetto's trace processor; returns the rows of each query.
pub fn asked<const N: usize>(readers: &Path, trace: &Path, queries: [&str; N]) -> [Vec<Vec<Value>>; N] {
    let words = [readers.to_str().unwrap(), trace.to_str().unwrap()];
    let answers = answers("node", "trace_processor.mjs", &[&words[..], &queries].concat());
    let rows = answers.into_iter().map(|rows| serde_json::from_value(rows).unwrap());
    rows.collect::<Vec<_>>().try_into().unwrap()
}

/// Returns a number of a row.
pub fn number(value: &Value) -> u64 {
    value.as_f64().unwrap() as u64
}

/// Returns the nanoseconds of a time in the form for people, such as `12.3 us`, and the nanoseconds of a unit of its
/// last digit.
fn nanoseconds(text: &str) -> (f64, f64) {
    let end = text.find(|letter: char| letter != '.' && !letter.is_ascii_digit()).unwrap();
    let (digits, unit) = text.split_at(end);
    let unit: f64 = match unit.trim() {
        "ns" => 1.0,
        "us" | "µs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        other => panic!("{other:?} in {text:?}"),
    };
    let decimals = digits.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    (digits.parse::<f64>().unwrap() * unit, unit / 10_f64.powi(decimals as i32))
}

/// Returns whether a time in the form for people is this number of nanoseconds, except for its last digit.
pub fn shows(text: &str, ns: u64) -> bool {
    let (shown, off) = nanoseconds(text);
    (shown - ns as f64).abs() <= off
}

/// Returns whether two times in the form for people are the same, except for their last digits.
pub fn agree(one: &str, other: &str) -> bool {
    let ((one, off), (other, off_too)) = (nanoseconds(one), nanoseconds(other));
    (one - other).abs() <= off + off_too
}

/// A row of a report: a function, and its numbers in the form that is shown.
#[derive(Debug)]
pub struct ReportRow {
    pub function: String,
    pub calls: u64,
    /// The columns `total`, `self`, `min`, `avg`, `max` and `p99`.
    pub times: Vec<String>,
}

/// Returns the rows of functions that `tracemerge report` has printed, without that of the sums; those of the first thread, if each thread has a report.
pub fn rows_of_report(printed: &[u8]) -> Vec<ReportRow> {
    let printed = std::str::from_utf8(printed).unwrap();
    let rows = printed.lines().skip_while(|line| !line.trim_start().starts_with("calls ")).skip(1);
    let rows = rows.take_while(|line| !line.is_empty() && !line.ends_with("  all functions"));
    let row = |line: &str| {
        let cells: Vec<&str> = line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
        let [calls, times @ .., function, _place] = &cells[..] else { panic!("{line}") };
        ReportRow {
            function: (*function).to_owned(),
            calls: calls.replace(',', "").parse().unwrap(),
            times: times.iter().map(|time| (*time).to_owned()).collect(),
        }
    };
    rows.map(row).collect()
}
