//! `tracemerge info` shows which processes are a program and its forks, in its text for people and in its output for
//! programs.
#![allow(clippy::unwrap_used, reason = "a failure in a test fails it")]

use crate::support::{Place, file, run};
use serde_json::{Value, json};
use trace_format::meta::Run;

fn trace(place: &Place, run: &Run) {
    let tid = u64::from(run.pid);
    place.write(format!("app.trace.{tid}"), file(run, tid, &[7, 8]));
}

/// Makes traces of five processes: 5 forked 6, and one of these two forked 7; a process that left no file forked 8; 9
/// is neither a fork nor has one.
fn family() -> Place {
    let place = Place::new();
    trace(&place, &run(5, 1));
    trace(&place, &Run { root: 0x50, ..run(6, 2) });
    trace(&place, &Run { root: 0x50, ..run(7, 3) });
    trace(&place, &Run { root: 0x40, ..run(8, 4) });
    trace(&place, &run(9, 5));
    place
}

#[test]
fn json_shows_forked_processes() {
    let place = family();
    let ran = place.merge(["info", "--all-runs", "--json", "app"]);
    assert_eq!(ran.status, Some(0), "{}", ran.err);
    let report: Value = serde_json::from_slice(&ran.out).unwrap();
    let tree = |root: &str, pid: Value, runs: &[&str]| json!({ "root": root, "root_pid": pid, "boot": "6c1e", "runs": runs });
    let expected = [
        tree("00000050", json!(5), &["00000050", "00000060", "00000070"]),
        tree("00000040", json!(null), &["00000080"]),
        tree("00000090", json!(9), &["00000090"]),
    ];
    assert_eq!(report["trees"], json!(expected));
    let of_runs: Vec<[&Value; 3]> = report["runs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| [&run["pid"], &run["root"], &run["root_pid"]])
        .collect();
    assert_eq!(
        json!(of_runs),
        json!([
            [5, "00000050", 5],
            [6, "00000050", 5],
            [7, "00000050", 5],
            [8, "00000040", null],
            [9, "00000090", 9]
        ])
    );
}

#[test]
fn the_table_shows_forked_processes() {
    let place = family();
    let ran = place.merge(["info", "--all-runs", "app"]);
    let table = String::from_utf8(ran.out).unwrap();
    let about: Vec<&str> = table.lines().filter(|line| line.starts_with("  run ")).collect();
    assert_eq!(
        about,
        [
            "  run 00000050, 2 forks (6, 7), boot 6c1e, format version 3",
            "  run 00000060, descends by forks from process 5, run 00000050, boot 6c1e, format version 3",
            "  run 00000070, descends by forks from process 5, run 00000050, boot 6c1e, format version 3",
            "  run 00000080, descends by forks from run 00000040, which is not here, boot 6c1e, format version 3",
            "  run 00000090, boot 6c1e, format version 3",
        ]
    );
}

/// Processes with the same ids on another machine, or after another start of it, are not related.
#[test]
fn only_processes_of_one_boot_are_related() {
    let place = Place::new();
    trace(&place, &run(5, 1));
    trace(&place, &Run { root: 0x50, boot: b"other".to_vec(), ..run(6, 2) });
    let ran = place.merge(["info", "--all-runs", "app"]);
    let table = String::from_utf8(ran.out).unwrap();
    assert!(table.contains("descends by forks from run 00000050, which is not here"), "{table}");
    assert!(!table.contains(" fork ("), "{table}");
}
