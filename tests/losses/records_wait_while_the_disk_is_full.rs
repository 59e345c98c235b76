//! A disk that is really full, and later has room again: all records that are not counted as lost are in the files,
//! whole and in order.
#![cfg(target_os = "linux")]

use support::mounts::in_own_mounts;
use support::{Scenario, ThreadTrace, Traced};
use tempfile::TempDir;
use trace_format::meta::{EndReason, LossReason, Meta};

const SCENARIO: &str = env!("CARGO_BIN_EXE_scenario");

/// The beginning of a script, which mounts a small file system for trace files (`SMALL`). The trace files are
/// copied to `COPY` when the program has ended.
const SMALL_DISK: &str = r#"
    mount -t tmpfs -o size=256k tmpfs "$SMALL"
    export COPY="$TRACER_DIR" TRACER_DIR="$SMALL""#;

/// Runs `script`, which runs the scenario `disk-full` on a small disk. Returns `None` if the system refuses the
/// mount.
fn on_small_disk(script: &str, program: &[&str], ring_size: &str) -> Option<Traced> {
    let small = TempDir::new().expect("a directory");
    let script = format!("{SMALL_DISK}\n{script}");
    let scenario: Scenario = in_own_mounts(&script, program)?;
    let scenario = scenario.env("SMALL", small.path().to_str().expect("UTF-8"));
    Some(scenario.env("TRACER_RING_SIZE", ring_size).run())
}

/// A script that runs the program to its end.
const TO_ITS_END: &str = r#""$@"; cp "$SMALL"/scenario.trace.* "$COPY""#;

/// Returns the numbers of the records of worker `id`, and its file.
fn numbers(traced: &Traced, id: u64) -> (Vec<u64>, &ThreadTrace) {
    let start = format!("{id} ");
    let files: Vec<_> = traced.files.values().filter(|f| f.texts()[0].starts_with(&start)).collect();
    let [file] = files[..] else { panic!("worker {id} has {} files", files.len()) };
    let number = |text: &str| text.split(' ').nth(1).and_then(|n| n.parse().ok()).expect("a number");
    (file.texts().into_iter().map(number).collect(), file)
}

#[test]
fn records_wait_in_rings_until_the_disk_has_room() {
    let Some(traced) = on_small_disk(TO_ITS_END, &[SCENARIO, "disk-full"], "1M") else { return };
    let traced = traced.succeeded();
    let said = traced.stdout();
    let [before, first, second, after, end, stats] = said.lines().collect::<Vec<_>>()[..] else {
        panic!("{said}")
    };
    for error in [first, second] {
        assert!(
            error.starts_with("error: ") && error.contains(".trace.") && error.contains("No space"),
            "{said}"
        );
    }
    assert_eq!([before, after, end], ["flushed"; 3], "an error is returned while it lasts: {said}");
    assert_eq!(stats, "records 1640 lost 0");
    let said = traced.stderr();
    assert!(said.lines().count() == 1 && said.contains("No space"), "said once: {said}");
    for (id, count) in [(0, 410), (1, 420), (2, 400), (3, 410)] {
        assert_eq!(numbers(&traced, id).0, (0..count).collect::<Vec<u64>>(), "worker {id}");
    }
    traced.assert_whole();
}

#[test]
fn records_that_do_not_fit_in_a_ring_are_counted_as_lost() {
    let Some(traced) = on_small_disk(TO_ITS_END, &[SCENARIO, "disk-full"], "16K") else { return };
    let traced = traced.succeeded();
    let mut all_lost = 0;
    for (id, count) in [(0, 410), (1, 420), (2, 400), (3, 410)] {
        let (found, file) = numbers(&traced, id);
        assert!(found.is_sorted_by(|a, b| a < b), "in order, none twice: {found:?}");
        let lost: u64 = file
            .metas
            .iter()
            .map(|m| if let Meta::Lost { records, reason: LossReason::Full } = m { *records } else { 0 })
            .sum();
        assert!(lost > 0, "a ring of 16 KiB has to overflow");
        assert_eq!(found.len() as u64 + lost, count, "worker {id}: each record is there or counted");
        assert_eq!((file.end().records, file.end().lost), (found.len() as u64, lost));
        all_lost += lost;
    }
    let stats = format!("records {} lost {all_lost}", 1640 - all_lost);
    assert_eq!(traced.stdout().lines().last(), Some(&*stats));
}

/// Runs a program that ends while the disk is full. Merges before and after there is room again.
fn run_on_full_disk(how: &str) -> Option<Traced> {
    let script = r#"
        "$@" >&2 && echo "ended" || echo "killed: $?"
        "$1" merge "$SMALL/scenario" || echo "no room: $?"
        rm "$SMALL/filler"
        "$1" merge "$SMALL/scenario"
        cp "$SMALL"/scenario.trace.* "$COPY"
    "#;
    let traced = on_small_disk(script, &[SCENARIO, "disk-full", how], "1M")?.succeeded();
    for id in 0..4 {
        let (found, file) = numbers(&traced, id);
        let count = if id < 2 { 410 } else { 400 };
        assert_eq!(found, (0..count).collect::<Vec<u64>>(), "worker {id}");
        // Two threads have ended before; the file of one of them may record the end of the run.
        let end = if how == "killed" { EndReason::Killed } else { EndReason::Exit };
        let reason = file.end().reason;
        assert!(reason == end || (id % 2 == 0 && reason == EndReason::Thread), "worker {id}: {reason:?}");
    }
    traced.assert_whole();
    assert!(traced.left_in_runtime().is_empty(), "{:?}", traced.left_in_runtime());
    Some(traced)
}

#[test]
fn a_program_killed_on_a_full_disk_is_recovered_later() {
    let Some(traced) = run_on_full_disk("killed") else { return };
    assert!(traced.stdout().starts_with("killed: 137\nno room: "), "{}{}", traced.stdout(), traced.said());
}

#[test]
fn an_exit_on_a_full_disk_leaves_records_in_rings() {
    let Some(traced) = run_on_full_disk("exits") else { return };
    assert!(traced.stdout().starts_with("ended\nno room: "), "{}{}", traced.stdout(), traced.said());
}

/// Checks that records that cannot be written are counted and reported if the rings vanish with the process's own
/// memory. Files are full to the last record that fits.
#[test]
fn an_exit_reports_records_that_cannot_be_written_anywhere() {
    for ring_size in ["16K", "1M"] {
        // Two threads have an empty file.
        let empty = "for file in \"$COPY\"/*; do test -s \"$file\" || rm \"$file\"; done";
        let script = format!("export TRACER_RUNTIME_DIR=/proc\n{TO_ITS_END}; {empty}");
        let Some(traced) = on_small_disk(&script, &[SCENARIO, "disk-full", "exits"], ring_size) else {
            return;
        };
        let traced = traced.succeeded();
        let said = traced.stderr();
        let line = said.lines().find(|line| line.contains(" records are lost: writing failed: "));
        let line = line.unwrap_or_else(|| panic!("{said}"));
        let count = line.trim_start_matches("tracer: ").split(' ').next().and_then(|n| n.parse::<u64>().ok());
        assert!(line.contains(".trace.") && line.contains("No space"), "it says why: {line}");
        let told: u64 = traced.files.values().flat_map(|file| &file.metas).map(lost).sum();
        let there: u64 = traced.files.values().map(|file| file.messages.len() as u64).sum();
        assert_eq!(there + told + count.expect("a number"), 2 * 410 + 2 * 400, "{said}");
        // One page of the first worker's file was allocated before the disk was full.
        let first = numbers(&traced, 0).0.len();
        assert!(first > 40, "what fits is there: {first}");
    }
}

fn lost(meta: &Meta) -> u64 {
    if let Meta::Lost { records, .. } = meta { *records } else { 0 }
}
