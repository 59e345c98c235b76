//! A plugin that has linked the tracer itself may be closed and loaded again, and neither copy harms the
//! other.
//!
//! Cargo builds examples, of which the plugin is one, for `cargo test`, not for `cargo test --test ...`: then
//! build them before.
#![cfg(target_os = "linux")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use support::processes::Running;
use support::{Scenario, Traced};
use trace_format::meta::{EndReason, Meta};

const SCENARIO: &str = env!("CARGO_BIN_EXE_scenario");

/// Returns the plugin: `target/<profile>/deps/<this test>` stands beside `target/<profile>/examples/`.
fn plugin() -> PathBuf {
    let test = std::env::current_exe().expect("the path of the test");
    let profile = test.parent().and_then(Path::parent).expect("the directory of the profile");
    let path = profile.join("examples/libplugin.so");
    assert!(path.is_file(), "{} is missing: cargo build --examples", path.display());
    path
}

/// Panics unless all records of host and plugin are there, once and in order.
fn assert_both_whole(traced: &Traced) {
    let mut messages: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    let mut runs: BTreeMap<u32, BTreeSet<&str>> = BTreeMap::new();
    let mut pids = BTreeSet::new();
    for file in traced.files.values().filter(|file| file.end().reason != EndReason::Killed) {
        let Some(Meta::Run(run)) = file.metas.first() else { panic!("a file begins with its run") };
        pids.insert(run.pid);
        for text in file.texts() {
            let (who, number) = text.rsplit_once(' ').expect("two parts");
            runs.entry(run.id).or_default().insert(who.split(' ').next().expect("a word"));
            messages.entry(who.into()).or_default().push(number);
        }
    }
    let up_to = |count: u32| (0..count).map(|n| n.to_string()).collect::<Vec<_>>();
    // The first time the plugin has no threads of its own.
    let rounds = [(0, 1), (1, 3), (2, 3)].into_iter();
    let threads = rounds.flat_map(|(round, n)| (0..n).map(move |thread| format!("plugin {round} {thread}")));
    let mut expected: BTreeMap<String, Vec<String>> = threads.map(|who| (who, up_to(100))).collect();
    expected.insert("host".into(), up_to(7));
    assert_eq!(messages.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
    for (who, numbers) in &expected {
        assert_eq!(&messages[who], numbers, "{who}");
    }
    let whose: Vec<BTreeSet<&str>> = runs.into_values().collect();
    assert!(
        whose.contains(&BTreeSet::from(["host"])) && whose.contains(&BTreeSet::from(["plugin"])),
        "{whose:?}"
    );
    assert_eq!((whose.len(), pids.len()), (2, 1), "two runs of one process");
    assert!(traced.left_in_runtime().is_empty(), "{:?}", traced.left_in_runtime());
}

#[test]
fn a_plugin_that_is_closed_and_loaded_again_loses_nothing() {
    let plugin = plugin();
    let traced = Scenario::new(SCENARIO, &["plugin", plugin.to_str().expect("UTF-8")]).run().succeeded();
    traced.assert_whole();
    assert_both_whole(&traced);
}

/// The dead run has so many records in its rings that both copies come while it is being recovered.
#[test]
fn two_copies_that_find_the_same_dead_run_recover_it_once() {
    const COUNT: usize = 200_000;
    let plugin = plugin();
    let mut scenario = Scenario::new(SCENARIO, &["plugin", plugin.to_str().expect("UTF-8")]);
    let places =
        [scenario.directory.path(), scenario.runtime.path()].map(|p| p.to_str().expect("UTF-8").to_string());
    let mut dead = Scenario::new(SCENARIO, &["held", &COUNT.to_string()])
        .env("TRACER_FLUSH_MS", "60000")
        .env("TRACER_RING_SIZE", "16M")
        .env("TRACER_DIR", &places[0])
        .env("TRACER_RUNTIME_DIR", &places[1]);
    let mut dead = Running::start(&mut dead);
    assert_eq!(dead.hear(), "ready");
    dead.kill();

    scenario.command().env("TRACER_FLUSH_MS", "1");
    let traced = scenario.run().succeeded();
    traced.assert_whole();
    assert_both_whole(&traced);
    let of_the_dead = traced.files.values().filter(|file| file.end().reason == EndReason::Killed);
    let mut threads = Vec::new();
    for file in of_the_dead {
        let texts = file.texts();
        let thread = texts[0].split(' ').next().expect("a word");
        let wrong = texts.iter().enumerate().find(|(n, text)| **text != format!("{thread} {n}"));
        assert_eq!((wrong, texts.len()), (None, COUNT));
        threads.push(thread);
    }
    threads.sort_unstable();
    assert_eq!(threads, ["main", "other"]);
}
