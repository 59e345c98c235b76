//! Each format reports on stderr, for each sort of contents for which it has no place, how much it has left out. It
//! reports nothing about contents that it has.
#![allow(clippy::unwrap_used, reason = "a failure in a test fails it")]

use std::process::Stdio;

use crate::support::{Everything, Expected, Place, everything, header, line, raw_file_of_records, run};
use serde_json::Value;
use trace_format::meta::Meta;
use trace_format::sites::{Level, Site, SiteKind};

/// Returns the formats of this command: some need features.
fn formats() -> impl Iterator<Item = &'static str> {
    let of_features = [
        ("flamegraph", cfg!(feature = "flamegraph")),
        ("html", cfg!(feature = "html")),
        ("parquet", cfg!(feature = "parquet")),
    ];
    let of_features = of_features.into_iter().filter_map(|(name, is_there)| is_there.then_some(name));
    ["jsonl", "csv", "perfetto", "chrome", "folded", "speedscope", "uftrace", "ctf"]
        .into_iter()
        .chain(of_features)
}

/// Returns the lines on stderr when a format of the application `app` is written, without commas between thousands.
fn said(place: &Place, format: &str) -> Vec<String> {
    said_with(place, format, &[])
}

fn said_with(place: &Place, format: &str, options: &[&str]) -> Vec<String> {
    let ran = place.merge([&["--format", format, "--all-runs", "app"], options].concat());
    assert!(ran.status.is_some_and(|status| status < 2), "{format}: {}", ran.err);
    ran.err.lines().map(|line| line.trim_start_matches("tracemerge: ").replace(',', "")).collect()
}

/// Returns the contents that formats may have no place for, with the formats that have none, and their words for it.
/// `all` is a trace.
fn sentences(all: &Everything) -> Vec<(u64, &'static str, &'static str, &'static [&'static str])> {
    let count =
        |is_one: &dyn Fn(&Expected) -> bool| all.records.iter().filter(|of| is_one(of)).count() as u64;
    let kind = |kind: &'static str| count(&|of| of.kind == kind);
    let site = |of: &Expected| of.site.filter(|_| of.kind == "message").map(|id| &all.sites[id as usize - 1]);
    let of_sites = |is_one: &dyn Fn(&Site) -> bool| count(&|of| site(of).is_some_and(is_one));
    let with_values = count(&|of| {
        of.values.as_ref().is_some_and(|values| values.as_object().is_some_and(|of| !of.is_empty()))
    });
    let calls = count(&|of| matches!(of.kind, "enter" | "leave"));
    let metas = count(&|of| !matches!(of.kind, "message" | "stack")) - calls;
    const NO_RECORDS: &[&str] = &["folded", "flamegraph", "speedscope"];
    const NEST: &[&str] = &["folded", "flamegraph", "speedscope", "uftrace", "perfetto", "chrome", "html"];
    const TEXTS: &[&str] = &["jsonl", "csv", "parquet", "perfetto", "chrome", "uftrace", "ctf", "html"];
    const NO_SPANS: &[&str] = &["folded", "flamegraph", "speedscope", "uftrace"];
    vec![
        (1, "message", "with bytes that are not UTF-8: written as \\xNN", TEXTS),
        (kind("message"), "message", "left out: profiles have none", &["speedscope"]),
        (kind("message"), "message", "left out: call paths have none", &["folded", "flamegraph"]),
        (kind("stack"), "call stack", "left out: only calls are shown", NO_RECORDS),
        (metas, "# line", "left out including losses and stalls", NO_RECORDS),
        (all.unmatched, "leave record", "without an enter record: left out", NEST),
        (all.unseen, "call", "without a leave record: ended with the enclosing call", NEST),
        (all.still_open, "call", "still running at the end: ended with the thread or the trace", NEST),
        (
            of_sites(&|site| site.level != Level::None),
            "message",
            "with a level: the level is omitted",
            &["uftrace"],
        ),
        (of_sites(&|_| true), "message", "with a target: the target is omitted", &["uftrace", "ctf"]),
        (
            of_sites(&|site| !site.target.is_empty()),
            "message",
            "with a module path besides the target: the path is omitted",
            &["uftrace", "ctf", "perfetto", "chrome", "html"],
        ),
        (
            of_sites(&|_| true),
            "message",
            "with a place in the source: the place is omitted",
            &["uftrace", "chrome"],
        ),
        (of_sites(&|_| true), "message", "with a known function: the function is omitted", &["ctf"]),
        (
            with_values,
            "message",
            "with values: these are in the text without their names and types",
            &["uftrace", "html"],
        ),
        (
            with_values,
            "message",
            "with values: the template and the values replace the text",
            &["perfetto", "chrome", "ctf"],
        ),
        (
            count(&|of| of.site == Some(1) && of.values.is_some()),
            "integer",
            "of 2^63 and more: written with 2^64 less",
            &["parquet"],
        ),
        (
            crate::support::FUNCTIONS.len() as u64,
            "function",
            "with a place in the source: the place is omitted",
            &["uftrace", "folded", "flamegraph"],
        ),
        (all.polls, "call", "of a span: the id of the span is omitted", NO_SPANS),
        (all.ended, "leave record", "with the end of a span: the end is omitted", NO_SPANS),
        (all.unwinding, "leave record", "because of a panic: the panic is omitted", NO_SPANS),
    ]
}

#[test]
fn each_format_reports_its_omissions_with_counts() {
    let all = everything(10_000);
    let sentences = sentences(&all);
    for format in formats() {
        let said = said(&all.place, format);
        for (number, noun, rest, formats) in &sentences {
            assert!(*number > 0, "the trace has some: {noun} {rest}");
            let plural = if *number == 1 { "" } else { "s" };
            let sentence = format!("{number} {noun}{plural} {rest}");
            let is_said = said.contains(&sentence);
            assert_eq!(is_said, formats.contains(&format), "{format}: {sentence}\n{}", said.join("\n"));
            let similar =
                said.iter().filter(|line| line.ends_with(rest) && line.contains(&format!(" {noun}")));
            assert_eq!(similar.count(), usize::from(is_said), "{format}: {sentence}");
        }
    }
}

/// Makes a trace with contents that are odd for some format: lines of a text file.
fn odd() -> Place {
    let place = Place::new();
    let run = run(5, 1);
    let mut lines = header(&run, 9);
    lines.extend(line(1001, 9, "before the first call"));
    let call =
        |ticks: u64, kind: char, name: &str| format!("{ticks:016x}-{:08} {kind} {name}\n", 9).into_bytes();
    lines.extend(call(1002, '>', "0x55d5c0ffee00 app::parse at src/parse.rs:88 called from src/main.rs:7"));
    lines.extend(call(1003, '<', "0x55d5c0ffee00"));
    lines.extend(line(1004, 9, "an odd \\x00 one"));
    lines.extend(line(1005, 9, &"long ".repeat(300)));
    for depth in 0..1030 {
        lines.extend(call(1010 + depth, '>', "app::deep at src/main.rs:9"));
    }
    place.write("app.trace.9", lines);
    // This is a process of another run with the same id, and with values that have no type in some formats.
    let of_old = crate::support::run(5, 2);
    let of_old = trace_format::meta::Run { id: 7, root: 7, ..of_old };
    let site = Site {
        id: 1,
        line: 3,
        file: "src/main.rs".to_owned(),
        module: "app".to_owned(),
        kind: SiteKind::Message,
        format: "{0}".to_owned(),
        template: "{0}".to_owned(),
        descriptor: b"o".to_vec(),
        names: vec!["größe".to_owned()],
        ..Site::default()
    };
    // A function that is known by its address is left because a panic unwinds the stack.
    let address = 0x55d5_c0ff_ee00 << 8;
    let unwinding = [(4 | address, 1150, Vec::new()), (5 | address | 1 << 63, 1160, Vec::new())];
    let captured = (3 | 1 << 32, 1200, (1u128 << 100).to_le_bytes().to_vec());
    let raw = raw_file_of_records(
        8,
        &[(1100, &Meta::Run(of_old))],
        &[site],
        unwinding.into_iter().chain([captured]),
    );
    place.write("app.trace.8", raw);
    place
}

#[test]
fn formats_report_unusual_records_that_they_cannot_represent() {
    let place = odd();
    for (sentence, formats) in [
        ("1 line before the first call: left out because uftrace attaches lines to calls", &["uftrace"][..]),
        ("1 text of more than 1000 bytes: cut", &["uftrace"]),
        (
            "966 calls inside of 64 others: folded and counted (--depth all shows them)",
            &["uftrace", "perfetto", "chrome", "speedscope", "folded", "flamegraph"],
        ),
        (
            "1 call with a known place in the source: the place is omitted",
            &["uftrace", "speedscope", "folded", "flamegraph", "html"],
        ),
        (
            "1 leave record because of a panic: the panic is omitted",
            &["uftrace", "speedscope", "folded", "flamegraph"],
        ),
        ("1 record with NUL in a text: written as \\x00", &["ctf"]),
        ("1 name of a value with characters other than ASCII letters and digits: replaced by _", &["ctf"]),
        ("1 integer of 128 bits: written as text", &["parquet"]),
        (
            "1 process with the id of another process: numbered from 4194304 on",
            &["perfetto", "chrome", "uftrace", "ctf"],
        ),
    ] {
        for format in self::formats() {
            let said = said(&place, format);
            let is_said = said.iter().any(|line| line == sentence);
            assert_eq!(is_said, formats.contains(&format), "{format}: {sentence}\n{}", said.join("\n"));
        }
    }
    let whole = said_with(&place, "uftrace", &["--depth", "all"]);
    let too_deep = "6 calls inside of 1024 others: left out";
    assert!(whole.iter().any(|line| line == too_deep), "{}", whole.join("\n"));
    let chrome: Value = serde_json::from_slice(&place.read("app.chrome.json")).unwrap();
    let mut events = chrome["traceEvents"].as_array().unwrap().iter();
    let parse = events.find(|event| event["name"] == "app::parse").unwrap();
    assert!(parse["args"]["called from"].as_str().unwrap().ends_with("main.rs:7"), "{parse}");
}

#[test]
fn a_large_number_of_events_is_reported() {
    let all = everything(100_000);
    let many = "events: maybe too many for viewers that parse the whole file; --format perfetto is smaller";
    let chrome = said(&all.place, "chrome");
    let read: Value = serde_json::from_slice(&all.place.read("app.chrome.json")).unwrap();
    let events = read["traceEvents"].as_array().unwrap().len();
    assert!(chrome.contains(&format!("{events} {many}")), "{}", chrome.join("\n"));
    let few = said(&everything(10_000).place, "chrome");
    assert!(few.iter().all(|line| !line.contains("too many for viewers")), "{}", few.join("\n"));
}

#[test]
fn the_memory_for_many_calls_is_reported() {
    let said = |calls: u64| {
        let place = Place::new();
        let site = Site {
            id: 1,
            line: 3,
            kind: SiteKind::Function,
            function: "app::f".to_owned(),
            ..Site::default()
        };
        let (enter, leave) = (9 | 1 << 32, 9 | 4 << 8 | 1 << 32);
        let records = (0..2 * calls).map(|n| (if n % 2 == 0 { enter } else { leave }, 1000 + n, Vec::new()));
        place.write("app.trace.9", raw_file_of_records(9, &[(1, &Meta::Run(run(5, 1)))], &[site], records));
        let mut command = place.command();
        let output = command.args(["--format", "speedscope", "-o", "-", "app"]).stdout(Stdio::null());
        crate::support::ran(output.stderr(Stdio::piped())).err
    };
    let (many, few) = (said(1_000_001), said(10));
    // Each call takes 32 bytes.
    assert!(many.contains("1,000,001 calls held in memory, 30 MiB"), "{many}");
    assert!(!few.contains("in memory"), "{few}");
}
