//! The tracer hands out the first ring of a process before all of its memory is reserved. If it cannot get the
//! rest, the ring's thread goes on in another ring. The record that the thread is just writing may be lost, which
//! is reported: it was formatted already, and is not formatted again.
//!
//! Cargo builds the library that refuses the rest for `cargo test`, but not for `cargo test --test ...`. In that
//! case, build it first.
#![cfg(target_os = "linux")]

use support::{Scenario, Traced};

const SCENARIO: &str = env!("CARGO_BIN_EXE_scenario");

fn run(mode: &str, count: u64) -> Traced {
    let scenario = Scenario::new(SCENARIO, &["full", &count.to_string()])
        .env("LD_PRELOAD", support::slow_files())
        .env("SLOW_FILES", mode);
    scenario.run().succeeded()
}

/// Checks that each missing record is reported, and returns the number of files.
fn checked(mode: &str) -> usize {
    const COUNT: u64 = 5000;
    let traced = run(mode, COUNT);
    let (mut records, mut lost) = (Vec::new(), 0);
    // In the order of their names: the later one ends in a number.
    for thread in traced.files.values() {
        records.extend(thread.texts());
        lost += thread.end().lost;
    }
    assert!(lost <= u64::from(mode == "norest"), "{mode}: {lost} are lost");
    let number = |text: &str| text.split(' ').nth(2).and_then(|number| number.parse::<u64>().ok());
    let numbers: Vec<u64> = records.iter().filter_map(|text| number(text)).collect();
    assert!(numbers.windows(2).all(|two| two[0] < two[1]), "{mode}: in their order, none twice");
    assert_eq!(numbers.len() as u64 + lost, COUNT, "{mode}");
    assert!(traced.left_in_runtime().is_empty(), "{mode}");
    traced.files.len()
}

#[test]
fn a_thread_leaves_a_ring_that_cannot_get_its_memory() {
    assert_eq!(checked(""), 1);
    // If the rest is refused before the thread has made a record, the thread takes another ring at once, and there
    // is one file.
    let mut files = (0..100).map(|_| checked("norest"));
    assert!(files.any(|files| files == 2), "no thread has left its ring");
}
