//! A thread that begins to decide whether the process traces may never end the decision, or end it late: another
//! thread decides in its place, once, and there is one run.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

use std::collections::HashSet;
use support::{Scenario, Traced};
use trace_format::meta::Meta;

const SCENARIO: &str = env!("CARGO_BIN_EXE_scenario");

/// Runs the scenario in which `how` happens at the `nth` allocation. Returns `None` if the decision has fewer.
fn run_interrupted_at(how: &str, nth: usize) -> Option<Traced> {
    let mut scenario = Scenario::new(SCENARIO, &["left-deciding", how, &nth.to_string()]);
    if how.ends_with("-startup") {
        scenario = scenario.without("TRACER_ENABLE").env("TRACED_BY_THIS", "1");
    }
    let traced = scenario.run().succeeded();
    let begins = if how.starts_with("jump") { "left true" } else { "slept" };
    traced.stdout().starts_with(begins).then_some(traced)
}

/// Panics unless all records are there except one that a jump has left, all of one run, and no thread waited again
/// and again.
fn assert_one_run(traced: &Traced, which: &str) {
    let told = traced.stdout();
    let number = |word: &str| -> u64 {
        let line = told.lines().find_map(|line| line.strip_prefix(word)?.strip_prefix(' '));
        line.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{which}: {told}"))
    };
    let all = traced.messages();
    for thread in ["thread 0 record", "thread 1 record", "thread 2 record", "thread 3 record", "main"] {
        let own: Vec<_> = all.iter().filter(|text| text.starts_with(thread)).cloned().collect();
        let expected: Vec<_> = (0..50).map(|n| format!("{thread} {n}")).collect();
        assert_eq!(own, expected, "{which}: {told} {}", traced.stderr());
    }
    // One slow call is expected; if the waiting did not end, all 50 would be slow.
    assert!(number("slow") <= 3, "{which}: {told}");
    let runs: HashSet<u32> = traced.files.values().flat_map(|file| &file.metas).filter_map(run).collect();
    assert_eq!(runs.len(), 1, "{which}: {:?}", traced.files.keys());
    assert!(traced.left_in_runtime().is_empty(), "{which}: {:?}", traced.left_in_runtime());
    assert_eq!(traced.stderr(), "", "{which}");
}

fn run(meta: &Meta) -> Option<u32> {
    if let Meta::Run(run) = meta { Some(run.id) } else { None }
}

/// Runs the scenario for each allocation of the decision except the first `before`, several at a time, because they
/// mostly wait.
fn everywhere(how: &str, before: usize) {
    const AT_ONCE: usize = 12;
    let mut tried = before;
    loop {
        let traced: Vec<_> = std::thread::scope(|scope| {
            let runs: Vec<_> =
                (1..=AT_ONCE).map(|n| scope.spawn(move || run_interrupted_at(how, tried + n))).collect();
            runs.into_iter().map(|run| run.join().expect("its end")).collect()
        });
        for traced in traced {
            tried += 1;
            match traced {
                Some(traced) => assert_one_run(&traced, &format!("{how} at allocation {tried}")),
                None => {
                    assert!(tried > before + 5, "{how}: a decision takes some allocations");
                    eprintln!("{how}: at each of {} allocations", tried - 1 - before);
                    return;
                }
            }
        }
    }
}

#[test]
fn a_jump_out_of_the_first_record_loses_only_that_record() {
    everywhere("jump", 0);
}

#[test]
fn a_jump_out_of_startup_leaves_the_decision_to_another_thread() {
    // Two allocations come before the decision begins: the question, and its text. A thread that leaves there has
    // not begun to decide.
    everywhere("jump-startup", 2);
}

#[test]
fn a_slow_decision_that_was_taken_over_starts_no_second_run() {
    everywhere("sleep", 0);
}
