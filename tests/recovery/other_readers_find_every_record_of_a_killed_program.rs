//! `kill -9`, and then other programs read the trace: babeltrace2 and Perfetto's trace processor find as many
//! records of each thread as the killed program has counted, and a reader of JSON also finds their texts.
#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use support::kills::{self, THREADS};
use support::merges::tracemerge;
use support::programs::{installed_programs, optional_readers};
use support::{APP, Scenario, memory};

const SCENARIO: &str = env!("CARGO_BIN_EXE_scenario");

/// Returns the standard output of a program, which must succeed.
fn printed(command: &mut Command) -> String {
    let ran = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    assert!(ran.status.success(), "{command:?}: {}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).expect("UTF-8")
}

/// Kills the program that counts its records; returns its scenario, and the counts.
fn killed(kill: u64) -> (Scenario, Vec<u64>) {
    let counters = tempfile::NamedTempFile::new_in(memory()).expect("a file of counters");
    std::fs::write(counters.path(), [0; THREADS * 8]).expect("a file of counters");
    let path = counters.path().to_str().expect("a path in UTF-8");
    let mut scenario =
        Scenario::new(SCENARIO, &["stress", path]).env("TRACER_FORMAT", ["text", "raw"][kill as usize % 2]);
    if kill % 4 < 2 {
        scenario = scenario.env("STRESS_DEFERRED", "1");
    }
    kills::kill(scenario.command(), Duration::from_millis(5 + kill * 5));
    let words = std::fs::read(counters.path()).expect("the counters");
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
    (scenario, words.chunks_exact(8).map(word).collect())
}

/// Merges into a format; returns the path of the output.
fn merged(scenario: &Scenario, format: &str, extension: &str) -> std::path::PathBuf {
    let app = scenario.directory.path().join(APP);
    printed(tracemerge(SCENARIO, scenario.runtime.path(), ["-q", "--format", format]).arg(&app));
    app.with_extension(extension)
}

/// Returns the texts of each thread in lines of JSON, by the system's id of the thread, with the program's number
/// of it.
fn texts(lines: &Path) -> BTreeMap<u64, (usize, Vec<String>)> {
    let mut threads: BTreeMap<u64, (usize, Vec<String>)> = BTreeMap::new();
    for line in std::fs::read_to_string(lines).expect("lines").lines() {
        let record: Value = serde_json::from_str(line).expect("JSON");
        if record["kind"] == "message" {
            let text = record["message"].as_str().expect("a text");
            let number = || text.split(' ').next().and_then(|word| word.parse().ok()).expect("a number");
            let tid = record["tid"].as_u64().expect("a thread");
            threads.entry(tid).or_insert_with(|| (number(), vec![])).1.push(text.to_owned());
        }
    }
    threads
}

/// Returns the number of messages of each thread that babeltrace2 reads.
fn counted_by_babeltrace(directory: &Path) -> BTreeMap<u64, u64> {
    let mut counts = BTreeMap::new();
    let read = printed(
        Command::new("babeltrace2").args(["--clock-cycles", "--no-delta", "--color=never"]).arg(directory),
    );
    for line in read.lines() {
        let (_, event) = line.split_once("] ").expect("a time");
        if !event.starts_with("# ") {
            let (_, tid) = event.split_once(" vtid = ").expect("a thread");
            let tid = tid.split([',', ' ']).next().and_then(|tid| tid.parse().ok()).expect("a number");
            *counts.entry(tid).or_default() += 1;
        }
    }
    counts
}

/// Returns the number of messages of each thread that Perfetto's trace processor finds.
fn counted_by_perfetto(readers: &Path, trace: &Path) -> BTreeMap<u64, u64> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tracemerge/tests/readers/trace_processor.mjs");
    let errors = "select name, value from stats where severity in ('error', 'data_loss') and value > 0";
    let count = "select tid, count(*) from slice join thread_track on slice.track_id = thread_track.id join thread \
                 using (utid) where dur = 0 and ifnull(category, '') != 'tracer' group by tid";
    let told = printed(Command::new("node").arg(script).arg(readers).arg(trace).args([errors, count]));
    let (errors, counts) = told.split_once('\n').expect("two answers");
    assert_eq!(errors, "[]");
    let counts: Vec<(u64, u64)> = serde_json::from_str(counts).expect("rows of two numbers");
    counts.into_iter().collect()
}

#[test]
fn json_babeltrace_and_perfetto_find_all_records() {
    let readers = optional_readers();
    let has_babeltrace = !installed_programs(["babeltrace2"]).is_empty();
    let mut total = 0;
    for kill in 0..8 {
        let (scenario, committed) = killed(kill);
        if committed.iter().all(|count| *count == 0) {
            continue; // Then there may be nothing to merge.
        }
        // The first merge recovers the records in memory, each time in another format.
        let formats = [("jsonl", "jsonl"), ("ctf", "ctf"), ("perfetto", "perfetto-trace")];
        let mut made = BTreeMap::new();
        for at in 0..formats.len() {
            let (format, extension) = formats[(kill as usize + at) % formats.len()];
            made.insert(format, merged(&scenario, format, extension));
        }
        let threads = texts(&made["jsonl"]);
        let mut whole = String::new();
        for (number, texts) in threads.values() {
            for (n, text) in texts.iter().enumerate() {
                kills::record(*number, n as u64, &mut whole);
                assert_eq!(*text, whole, "none is lost, doubled or torn");
            }
        }
        for (number, committed) in committed.iter().enumerate() {
            let found =
                threads.values().find(|(of, _)| *of == number).map_or(0, |(_, texts)| texts.len() as u64);
            assert!((*committed..=committed + 1).contains(&found), "thread {number}: {found} of {committed}");
        }
        let counts: BTreeMap<_, _> =
            threads.iter().map(|(tid, (_, texts))| (*tid, texts.len() as u64)).collect();
        if has_babeltrace {
            assert_eq!(counted_by_babeltrace(&made["ctf"]), counts);
        }
        if let Some(readers) = &readers {
            assert_eq!(counted_by_perfetto(readers, &made["perfetto"]), counts);
        }
        total += counts.values().sum::<u64>();
    }
    eprintln!("{total} records");
    assert!(total > 0, "some live long enough to trace");
}
