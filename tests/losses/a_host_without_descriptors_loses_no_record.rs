//! A program has opened as many files as it may; the flusher has descriptors of its own. If it shares those of the
//! program, records wait until it can open a file.
#![cfg(target_os = "linux")]

use support::{Scenario, Traced};

/// Runs a program that takes all descriptors, before its first record if `when` is "first", and gives them back.
fn run(when: &str, descriptors: &str) -> Traced {
    let traced = Scenario::new(env!("CARGO_BIN_EXE_scenario"), &["no-descriptors", when]);
    let traced = traced.env("TRACER_DESCRIPTORS", descriptors).env("TRACER_RING_SIZE", "64K");
    let traced = traced.run().succeeded();
    // One thread has 10 records more.
    let records = 13 * 110 + 10;
    assert_eq!(
        traced.stdout().lines().last(),
        Some(&*format!("records {records} lost 0")),
        "{}",
        traced.said()
    );
    for id in 0..13 {
        let start = format!("{id} ");
        let texts = traced.files.values().flat_map(support::ThreadTrace::texts);
        let found: Vec<&str> = texts.filter(|text| text.starts_with(&start)).collect();
        let expected = if id == 0 { 120 } else { 110 };
        assert_eq!(found.len(), expected, "worker {id}");
        for (n, text) in found.iter().enumerate() {
            assert!(text.starts_with(&format!("{id} {n} ")), "in order, none twice: {text}");
        }
    }
    assert_eq!(traced.files.len(), 13, "one file for each thread");
    traced.assert_whole();
    traced
}

#[test]
fn the_flusher_works_if_the_host_has_used_every_descriptor() {
    for (when, flushes) in [("later", 3), ("first", 2)] {
        let traced = run(when, "own");
        let said = traced.stdout();
        let (flushed, _) = said.trim_end().rsplit_once('\n').expect("two lines");
        assert_eq!(flushed.lines().collect::<Vec<_>>(), vec!["flushed"; flushes]);
        assert_eq!(traced.stderr(), "");
    }
}

#[test]
fn records_wait_if_the_flusher_shares_the_used_up_descriptors() {
    let traced = run("later", "shared");
    let said = traced.stdout();
    let [before, while_none, after, _] = said.lines().collect::<Vec<_>>()[..] else { panic!("{said}") };
    assert_eq!([before, after], ["flushed"; 2]);
    assert!(while_none.starts_with("error: ") && while_none.contains("Too many open files"), "{said}");
    assert!(traced.stderr().contains("Too many open files"), "{}", traced.stderr());
}

#[test]
fn a_run_may_begin_without_a_free_descriptor() {
    let traced = run("first", "shared");
    let said = traced.stdout();
    let [while_none, after, _] = said.lines().collect::<Vec<_>>()[..] else { panic!("{said}") };
    assert!(while_none.starts_with("error: ") && while_none.contains("Too many open files"), "{said}");
    assert_eq!(after, "flushed");
    assert!(traced.stderr().contains("will be lost"), "its rings are private: {}", traced.stderr());
}

#[test]
fn a_process_limited_to_six_open_files_loses_no_record() {
    let program = env!("CARGO_BIN_EXE_scenario");
    for descriptors in ["own", "shared"] {
        let limited = Scenario::new("sh", &["-c", "ulimit -n 6 && exec \"$0\" many 5000", program]);
        let traced = limited.env("TRACER_DESCRIPTORS", descriptors).env("TRACER_RING_SIZE", "64K");
        let traced = traced.env("TRACER_MAX_STALL", "60000").run().succeeded();
        traced.assert_whole();
        assert_eq!(traced.files.len(), 8, "{descriptors}: {}", traced.stderr());
        for (name, file) in &traced.files {
            assert_eq!((file.end().records, file.end().lost), (5000, 0), "{descriptors}, {name}");
        }
    }
}
