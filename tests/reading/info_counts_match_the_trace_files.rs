//! The numbers of `tracemerge info` equal the counts of the files' contents, made in another way, and the counts of the
//! program itself.

use serde_json::Value;
use std::path::Path;
use std::process::Output;
use support::merges::tracemerge;
use support::{APP, Scenario, Traced};
use trace_format::meta::Meta;

const SCENARIO: &str = env!("CARGO_BIN_EXE_scenario");

fn info(traced: &Traced, args: &[&str]) -> Output {
    let app = traced.directory.path().join(APP);
    let args = [&["info"], args, &[app.to_str().expect("a path in UTF-8")]].concat();
    tracemerge(SCENARIO, traced.runtime.path(), args).output().expect("the command can be run")
}

fn json(traced: &Traced) -> Value {
    let output = info(traced, &["--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn size(directory: &Path, name: &str) -> u64 {
    std::fs::metadata(directory.join(name)).expect("a file").len()
}

#[test]
fn info_shows_the_records_bytes_and_times_of_each_file() {
    let traced = Scenario::new(SCENARIO, &["many", "3000"]).run().succeeded();
    let report = json(&traced);
    let [run] = &report["runs"].as_array().expect("runs")[..] else { panic!("{report}") };
    assert_eq!((run["state"].as_str(), run["root"] == run["run"]), (Some("ended"), true));
    let threads = run["threads"].as_array().expect("threads");
    assert_eq!((threads.len(), report["threads"].as_u64()), (8, Some(8)));
    let mut all = 0;
    for (name, file) in &traced.files {
        let tid: u64 = name.rsplit('.').next().expect("a thread id").parse().expect("a number");
        let thread = threads.iter().find(|thread| thread["tid"] == tid).expect("the thread");
        assert_eq!(thread["records"], file.messages.len() as u64);
        assert_eq!(thread["bytes"], size(traced.directory.path(), name));
        let end = file.end().reason;
        assert_eq!((thread["lost"].as_u64(), thread["end"].as_str()), (Some(0), Some(end.name())));
        all += file.messages.len() as u64;

        // Times are compared with the moments that the file itself records by both clocks, which are about on a
        // straight line.
        let clocks: Vec<(u64, u64)> = file.metas.iter().filter_map(moment).collect();
        let ([first, .., last], (key, _)) = (&clocks[..], &file.messages[0]) else { continue };
        let (ticks, wall) = (last.0 - first.0, last.1 - first.1);
        if ticks > 0 {
            let expected =
                first.1 + (u128::from(key.ticks.0 - first.0) * u128::from(wall) / u128::from(ticks)) as u64;
            let reported = thread["first_wall_ns"].as_u64().expect("a time");
            assert!(reported.abs_diff(expected) < 5_000_000, "{reported} is not about {expected}");
        }
        let (first, last) = (thread["first_ns"].as_i64(), thread["last_ns"].as_i64());
        assert!(first.is_some() && first <= last, "{first:?} {last:?}");
    }
    assert_eq!((all, report["records"].as_u64()), (24_000, Some(24_000)));
}

fn moment(meta: &Meta) -> Option<(u64, u64)> {
    match meta {
        Meta::Run(run) => Some((run.ticks.0, run.wall.0)),
        Meta::Clock { ticks, wall, .. } => Some((ticks.0, wall.0)),
        _ => None,
    }
}

#[cfg(unix)]
#[test]
fn info_counts_losses_by_reason() {
    let scenario = Scenario::new(SCENARIO, &["without-flusher", "20000"]);
    let traced = scenario.env("TRACER_FULL", "drop").env("TRACER_RING_SIZE", "16K").run().succeeded();
    let report = json(&traced);
    let lost = |meta: &Meta| if let Meta::Lost { records, .. } = meta { *records } else { 0 };
    let expected: u64 = traced.files.values().flat_map(|file| &file.metas).map(lost).sum();
    assert!(expected > 0);
    assert_eq!(report["lost"], expected);
    assert_eq!(report["lost_by_reason"]["full"], expected);
}

#[test]
fn info_shows_the_stall_time_that_the_program_counted() {
    let scenario = Scenario::new(SCENARIO, &["full", "20000"]);
    let traced = scenario.env("TRACER_MAX_STALL", "100000").env("TRACER_RING_SIZE", "16K").run().succeeded();
    let report = json(&traced);
    let said = traced.stdout();
    let counted =
        |word: &str| said.split(' ').skip_while(|w| *w != word).nth(1).expect(word).trim().parse::<u64>();
    assert_eq!(report["stall_ns"].as_u64(), counted("stall_ns").ok(), "{said}");
    assert_eq!(report["records"].as_u64(), Some(20_000), "{said}");
}

#[test]
fn info_counts_recovered_records_of_a_killed_program() {
    let traced = Scenario::new(SCENARIO, &["killed-when-flushed"]).run();
    let report = json(&traced);
    assert_eq!((report["records"].as_u64(), report["runs"][0]["state"].as_str()), (Some(2), Some("killed")));
}

#[test]
fn info_prints_one_row_per_thread_and_no_messages() {
    let traced = Scenario::new(SCENARIO, &["many", "100"]).run().succeeded();
    let output = info(&traced, &[]);
    let table = String::from_utf8(output.stdout).expect("UTF-8");
    for name in traced.files.keys() {
        let tid = name.rsplit('.').next().expect("a thread id");
        assert!(
            table.lines().any(|line| line.contains(&format!(" {tid} ")) && line.contains(" 100 ")),
            "{table}"
        );
    }
    assert!(table.ends_with('\n') && table.contains("1 run, 8 threads, 800 records, "), "{table}");
    assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0));
}

#[test]
fn info_fails_without_a_trace() {
    let traced = Scenario::new(SCENARIO, &["disabled"]).without("TRACER_ENABLE").run();
    let output = info(&traced, &["--json"]);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0));
}
