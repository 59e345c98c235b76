//! babeltrace2 reads the trace's contents from the output in the Common Trace Format, record for record and tick for
//! tick.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a failure in a test fails it")]

use std::collections::BTreeMap;

use crate::support::{Everything, Expected, everything, ran};
use serde_json::Value;

/// Returns a text in the form of babeltrace2's strings.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\'' => out.push_str("\\'"),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\u{7}' => out.push_str("\\a"),
            other if other.is_ascii_control() => out.push_str(&format!("\\x{:02x}", u32::from(other))),
            other => out.push(other),
        }
    }
    out + "\""
}

/// Returns the text that babeltrace2 must write for a record, behind the ticks; if the test does not know the
/// record's fields, only the text before these.
fn expected(all: &Everything, record: &Expected) -> String {
    let site = record.site.map(|id| all.sites.iter().find(|site| site.id == id).unwrap());
    let name = match record.kind {
        "message" => site.map_or("message".to_owned(), |site| site.template.clone()),
        "enter" | "leave" => {
            let of_span = if record.function.as_deref() == Some("app::async_run") { " span" } else { "" };
            format!("{}{of_span}", record.kind)
        }
        "stack" => "stack".to_owned(),
        word => format!("# {word}"),
    };
    let fields = match (&record.values, &record.text, &record.function) {
        (Some(Value::Object(values)), ..) if values.is_empty() => String::new(),
        (Some(Value::Object(values)), ..) => {
            // The fields are in the order of the site, not of the alphabet.
            let names = site.unwrap().names.iter().enumerate();
            let fields = names.map(|(number, name)| {
                let name = if name.is_empty() { number.to_string() } else { name.clone() };
                let value = match &values[&name] {
                    Value::String(text) => quoted(text),
                    Value::Bool(is_so) => {
                        format!("( \"{is_so}\" : container = {} )", u8::from(*is_so))
                    }
                    // A float has six digits behind the point; only some are compared.
                    Value::Number(number) if number.is_f64() => "FLOAT".to_owned(),
                    other => other.to_string(),
                };
                format!("{name} = {value}")
            });
            fields.collect::<Vec<_>>().join(", ")
        }
        (_, Some(text), _) => format!("message = {}", quoted(text)),
        (_, _, Some(function)) => {
            let line = site.unwrap().line;
            format!("function = ( {} : container = ", quoted(&format!("{function} at src/main.rs:{line}")))
        }
        _ => String::new(),
    };
    // babeltrace2 2.0 shows the text before in place of an empty one, so the text behind that is not compared.
    let fields = fields.split_once("\"\"").map_or(&fields[..], |(before, _)| before);
    format!("{name}: {{ vpid = {}, vtid = {}, .. }}, {{ {fields}", record.pid, record.tid)
}

#[test]
fn babeltrace_reads_each_record_with_its_ticks_and_counts_losses() {
    if crate::support::programs::lacks(&["babeltrace2"]) {
        return;
    }
    let all = everything(100_000);
    let run = all.place.merge(["--format", "ctf", "--all-runs", "app"]);
    assert_eq!(run.status, Some(1), "{}", run.err);
    let mut command = all.place.program("babeltrace2");
    let read = ran(command.args(["--clock-cycles", "--no-delta", "--color=never", "app.ctf"]));
    assert_eq!(read.status, Some(0), "{}", read.err);
    let out = String::from_utf8(read.out).unwrap();

    let discarded: u64 = read
        .err
        .lines()
        .filter_map(|line| line.split_once("discarded ")?.1.split_once(" event")?.0.parse::<u64>().ok())
        .sum();
    assert_eq!(discarded, all.lost, "{}", &read.err[..read.err.len().min(2000)]);

    let mut wanted: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    for record in &all.records {
        wanted.entry(record.ticks).or_default().push(expected(&all, record));
    }
    let (mut latest, mut records) = (0, 0);
    for line in out.lines() {
        let (ticks, rest) = line.strip_prefix('[').unwrap().split_once("] ").unwrap();
        let ticks: u64 = ticks.parse().unwrap();
        assert!(ticks >= latest, "in order");
        latest = ticks;
        // The test does not know the names of processes and threads, nor the digits of a float.
        let (head, tail) = rest.split_once(", procname = ").unwrap();
        let (_, tail) = tail.split_once(" }, { ").unwrap();
        let mut found = format!("{head}, .. }}, {{ {tail}");
        if let Some((before, rate)) = found.split_once("rate = ") {
            assert!(rate.split(' ').next().unwrap().parse::<f64>().is_ok(), "{line}");
            found = format!("{before}rate = FLOAT }}");
        }
        let here = wanted.get_mut(&ticks).unwrap_or_else(|| panic!("no record at {line}"));
        let fits = here.iter().enumerate().filter(|(_, expected)| found.starts_with(&expected[..]));
        let at = fits.max_by_key(|(_, expected)| expected.len()).map(|(at, _)| at);
        here.swap_remove(at.unwrap_or_else(|| panic!("{found}\nis none of {here:#?}")));
        records += 1;
    }
    assert_eq!(records, all.records.len());
    let clock = ran(all.place.program("babeltrace2").args(["--clock-seconds", "--no-delta", "app.ctf"]));
    let first = String::from_utf8(clock.out).unwrap();
    let first =
        first.lines().next().unwrap().trim_start_matches('[').split_once(']').unwrap().0.replace('.', "");
    let wall = all.records.iter().map(Expected::ns).min().unwrap();
    assert_eq!(first.parse::<u64>().unwrap(), wall, "the time of day");
}
