//! Processes that a tracing program leaves behind: daemons, silent children, other programs, many at full
//! speed.
#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use support::processes::merge;
use support::{Scenario, ThreadTrace, Traced, read_directory, runs};
use trace_format::meta::{EndReason, Meta, Run};

const SCENARIO: &str = env!("CARGO_BIN_EXE_scenario");

fn run_of(file: &ThreadTrace) -> &Run {
    let Some(Meta::Run(run)) = file.metas.first() else { panic!("a file begins with its run") };
    run
}

/// Returns the numbers of all messages `<who> <number>`, by `who`, in the order of each file.
fn numbers<'a>(files: impl IntoIterator<Item = &'a ThreadTrace>) -> BTreeMap<&'a str, Vec<u64>> {
    let mut all: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for text in files.into_iter().flat_map(|file| file.texts()) {
        let (who, number) = text.rsplit_once(' ').expect("two parts");
        all.entry(who).or_default().push(number.parse().expect("a number"));
    }
    all
}

/// Panics unless `found` has exactly these names, each with the numbers from 0 to below the given one, once, in
/// order.
fn assert_counts<'a>(mut found: BTreeMap<&'a str, Vec<u64>>, expected: &[(&'a str, u64)]) {
    for (who, count) in expected {
        let found = found.remove(who).unwrap_or_else(|| panic!("nothing of {who}"));
        let missing = (0..*count).find(|n| found.get(*n as usize) != Some(n));
        assert_eq!(
            (missing, found.len() as u64),
            (None, *count),
            "{who}: none missing, none twice, in order"
        );
    }
    assert!(found.is_empty(), "{:?}", found.keys());
}

#[test]
fn a_daemon_and_its_parent_lose_nothing_and_share_a_root() {
    for middle in ["traces", "is silent"] {
        // The records of the parents are in their rings when they end without their exit handlers.
        let mut scenario = Scenario::new(SCENARIO, &["daemon", middle]).env("TRACER_FLUSH_MS", "60000");
        // The daemon holds the pipes, so this call waits for its end as well.
        let output = scenario.command().output().expect("the program can be run");
        assert!(output.status.success(), "{output:?}");
        merge(&scenario, &[SCENARIO.as_ref()]).succeeded();
        let files = read_directory(scenario.directory.path());
        let expected = [("main", 100), ("other", 100), ("daemon", 1000), ("daemon thread", 1000)];
        let is_middle = |file: &&ThreadTrace| file.texts() == ["in the middle"];
        let (in_the_middle, others): (Vec<&ThreadTrace>, Vec<_>) = files.values().partition(is_middle);
        assert_eq!(in_the_middle.len(), usize::from(middle == "traces"));
        assert_counts(numbers(others), &expected);
        let root = run_of(files.values().find(|f| f.texts()[0] == "main 0").expect("the parent's file"));
        for (name, file) in &files {
            assert_eq!(run_of(file).root, root.id, "{name}");
            let daemon = file.texts()[0].starts_with("daemon");
            let reason = if file.texts()[0] == "daemon thread 0" {
                EndReason::Thread
            } else if daemon {
                EndReason::Exit
            } else {
                EndReason::Killed
            };
            assert_eq!((file.end().lost, file.end().reason), (0, reason), "{name}");
            assert_eq!(run_of(file).id == root.id, file.texts()[0].starts_with(['m', 'o']), "{name}");
        }
        assert!(runs(scenario.runtime.path()).is_empty(), "nothing is left in memory");
    }
}

#[test]
fn an_untraced_child_exits_at_once_and_keeps_its_parents_rings() {
    let mut scenario = Scenario::new(SCENARIO, &["silent-child"]).env("TRACER_FLUSH_MS", "60000");
    let output = scenario.command().output().expect("the program can be run");
    assert!(!output.status.success(), "the parent is killed");
    let waits = String::from_utf8_lossy(&output.stdout).trim().parse::<u64>();
    // A child that waited for a flusher, which it does not have, would check forty times.
    assert!(waits.as_ref().is_ok_and(|waits| *waits < 20), "how often the child has waited: {waits:?}");
    merge(&scenario, &[SCENARIO.as_ref()]).succeeded();
    assert!(runs(scenario.runtime.path()).is_empty(), "nothing is left in memory");
    let files = read_directory(scenario.directory.path());
    assert!(files.values().all(|file| file.end().reason == EndReason::Killed));
    assert_counts(numbers(files.values()), &[("main", 100), ("other", 100), ("children", 1)]);
}

/// Returns the program's own lines about its records, `<who> <number> <count>`, as `who` and count.
fn said(traced: &Traced) -> Vec<(String, u64)> {
    let line = |line: &str| {
        let (who, count) = line.rsplit_once(' ').expect("two parts");
        (who.to_string(), count.parse().expect("a number"))
    };
    traced.stdout().lines().map(line).collect()
}

#[test]
fn forks_at_full_speed_lose_nothing_in_parent_and_child() {
    let scenario = Scenario::new(SCENARIO, &["full-speed-forks", "20000"]).env("TRACER_RING_SIZE", "64K");
    let traced = scenario.env("TRACER_MAX_STALL", "60000").run().succeeded();
    traced.assert_whole();
    let parents = said(&traced);
    assert_eq!(parents.len(), 3, "{parents:?}");
    let children =
        (0..6).flat_map(|child| (0..3).map(move |thread| (format!("child{child} {thread}"), 2000)));
    let all: Vec<(String, u64)> = parents.into_iter().chain(children).collect();
    let mut expected: Vec<(&str, u64)> = all.iter().map(|(who, count)| (who.as_str(), *count)).collect();
    expected.push(("parent forks", 6));
    assert_counts(numbers(traced.files.values()), &expected);
    let runs: std::collections::BTreeSet<u32> = traced.files.values().map(|file| run_of(file).id).collect();
    assert_eq!(runs.len(), 7, "each child is a run of its own");
    assert!(traced.left_in_runtime().is_empty(), "{:?}", traced.left_in_runtime());
}

#[test]
fn starting_programs_at_full_speed_loses_no_record() {
    let scenario = Scenario::new(SCENARIO, &["full-speed-programs", "20000"]).env("TRACER_RING_SIZE", "64K");
    let traced = scenario.env("TRACER_MAX_STALL", "60000").run().succeeded();
    traced.assert_whole();
    let of_other_programs = |file: &&ThreadTrace| file.texts() == ["the last words of main"];
    let (others, own): (Vec<&ThreadTrace>, Vec<_>) = traced.files.values().partition(of_other_programs);
    assert_eq!(others.len(), 12);
    let all = said(&traced);
    let mut expected: Vec<(&str, u64)> = all.iter().map(|(who, count)| (who.as_str(), *count)).collect();
    expected.push(("parent round", 6));
    assert_counts(numbers(own.iter().copied()), &expected);
    let tree = run_of(own[0]).root;
    assert!(own.iter().all(|file| run_of(file).root == tree));
    assert!(others.iter().all(|file| run_of(file).root == run_of(file).id), "a program is a tree of its own");
    assert!(traced.left_in_runtime().is_empty(), "{:?}", traced.left_in_runtime());
}
