//! A program and a plugin have each linked the tracer. One copy owns the process and its files, whichever copy
//! records and however the process ends. Copies that cannot cooperate are two runs, and neither harms the other.
//!
//! Cargo builds examples, and so the plugin, for `cargo test`, but not for `cargo test --test ...`. In that case,
//! run `cargo build --examples` first.
#![cfg(target_os = "linux")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};

use support::processes::{Running, merge};
use support::site_records::{SiteRecord, site_records};
use support::{Scenario, ThreadTrace, Traced, read_directory};
use tempfile::TempDir;
use trace_format::meta::{EndReason, Meta};
use trace_format::record::{Flags, RecordKind};

const SCENARIO: &str = env!("CARGO_BIN_EXE_scenario");

/// Returns the path of the plugin: `target/<profile>/deps/<this test>` stands beside `target/<profile>/examples/`.
fn plugin() -> PathBuf {
    let test = std::env::current_exe().expect("the path of the test");
    let profile = test.parent().and_then(Path::parent).expect("the directory of the profile");
    let path = profile.join("examples/libplugin.so");
    assert!(path.is_file(), "{} is missing: cargo build --examples", path.display());
    path
}

/// Makes a plugin in `directory` whose note names another version of the tracer.
fn stranger(directory: &TempDir) -> PathBuf {
    let mut bytes = fs::read(plugin()).expect("the plugin");
    let name = b"TracerOwner\0";
    let found: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at..].starts_with(name)).collect();
    let is_note = |at: &&usize| bytes[**at - 12..**at - 4] == [12, 0, 0, 0, 8, 0, 0, 0];
    let notes: Vec<usize> = found.iter().filter(is_note).copied().collect();
    assert_eq!(notes.len(), 1, "a copy of the tracer has one note");
    bytes[notes[0] - 4] += 1;
    let path = directory.path().join("libstranger.so");
    fs::write(&path, bytes).expect("a plugin of another version");
    path
}

/// Returns the ids of the files' runs, each with the first words of its messages: the names of the speakers.
fn runs(traced: &Traced) -> BTreeMap<u32, BTreeSet<&str>> {
    let mut runs: BTreeMap<u32, BTreeSet<&str>> = BTreeMap::new();
    for file in traced.files.values().filter(|file| file.end().reason != EndReason::Killed) {
        let Some(Meta::Run(run)) = file.metas.first() else { panic!("a file begins with its run") };
        let who = file.texts().into_iter().map(|text| text.split(' ').next().expect("a word"));
        runs.entry(run.id).or_default().extend(who);
    }
    runs
}

/// Panics unless all records of the scenario `plugin` are present, once and in order.
fn assert_no_record_is_missing(traced: &Traced) {
    let mut messages: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for file in traced.files.values().filter(|file| file.end().reason != EndReason::Killed) {
        for text in file.texts() {
            let (who, number) = text.rsplit_once(' ').expect("two parts");
            messages.entry(who.into()).or_default().push(number);
        }
    }
    let up_to = |count: u32| (0..count).map(|n| n.to_string()).collect::<Vec<_>>();
    // In the first round, the plugin has no threads of its own.
    let rounds = [(0, 1), (1, 3), (2, 3)].into_iter();
    let threads = rounds.flat_map(|(round, n)| (0..n).map(move |thread| format!("plugin {round} {thread}")));
    let mut expected: BTreeMap<String, Vec<String>> = threads.map(|who| (who, up_to(100))).collect();
    expected.insert("host".into(), up_to(7));
    assert_eq!(messages.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
    for (who, numbers) in &expected {
        assert_eq!(&messages[who], numbers, "{who}");
    }
    assert!(traced.left_in_runtime().is_empty(), "{:?}", traced.left_in_runtime());
}

fn assert_two_runs(traced: &Traced) {
    let whose: Vec<BTreeSet<&str>> = runs(traced).into_values().collect();
    assert!(
        whose.len() == 2
            && whose.contains(&BTreeSet::from(["host"]))
            && whose.contains(&BTreeSet::from(["plugin"])),
        "{whose:?}"
    );
}

#[test]
fn a_plugin_that_is_unloaded_and_loaded_again_loses_nothing() {
    let plugin = plugin();
    let traced = Scenario::new(SCENARIO, &["plugin", plugin.to_str().expect("UTF-8")]).run().succeeded();
    traced.assert_whole();
    assert_no_record_is_missing(&traced);
    assert_eq!(runs(&traced).len(), 1, "one run");
    assert!(!traced.stderr().contains("another copy"), "{}", traced.stderr());
}

#[test]
fn a_copy_of_another_version_has_its_own_run_and_is_reported() {
    let directory = TempDir::new().expect("a directory");
    let plugin = stranger(&directory);
    let traced = Scenario::new(SCENARIO, &["plugin", plugin.to_str().expect("UTF-8")]).run().succeeded();
    traced.assert_whole();
    assert_no_record_is_missing(&traced);
    assert_two_runs(&traced);
    let said = traced.stderr();
    assert!(said.contains("another copy of the tracer, of version 0."), "{said}");
}

/// Recovers a dead run that has so many records in its rings that both copies find it during the recovery.
#[test]
fn two_runs_of_one_process_recover_a_dead_run_once() {
    const COUNT: usize = 200_000;
    let directory = TempDir::new().expect("a directory");
    let plugin = stranger(&directory);
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
    assert_no_record_is_missing(&traced);
    assert_two_runs(&traced);
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

fn copies(how: &str) -> Scenario {
    let plugin = plugin();
    Scenario::new(SCENARIO, &["copies", plugin.to_str().expect("UTF-8"), how]).env("TRACER_FLUSH_MS", "1")
}

/// Splits a thread's messages into parts, each with the whole text of the program or of the plugin; returns each
/// part with the name of its speaker.
fn said(file: &ThreadTrace) -> Vec<(&'static str, Vec<String>)> {
    let mut parts: Vec<(&str, Vec<String>)> = Vec::new();
    for text in file.texts() {
        let begins = [("plugin", "plugin has 0 and "), ("host", "host has 0 and ")];
        if let Some((who, _)) = begins.into_iter().find(|(_, begin)| text.starts_with(begin)) {
            parts.push((who, Vec::new()));
        }
        let (who, part) = parts.last_mut().expect("a beginning");
        part.push(text.replacen(&format!("{who} "), "who ", 1));
    }
    parts
}

/// Panics unless the speakers are `who`, in this order, and all have said the same.
fn assert_said(file: &ThreadTrace, who: &[&str]) {
    let parts = said(file);
    assert_eq!(parts.iter().map(|(who, _)| *who).collect::<Vec<_>>(), who);
    // The expectation is independent: the output of `format!`.
    let first = &parts[0].1;
    let third = f64::from(7) / 3.0;
    assert!(first.contains(&format!("who has 7 and {third:.2}, {:?}", "a \"text\"\n")), "{first:?}");
    assert!(first.contains(&format!("who has much: {}", "0123456789".repeat(30_000))));
    for n in [0, 299] {
        for text in
            [format!("inside of nested {n}"), format!("who has nested {n}"), format!("called with {n}")]
        {
            assert!(first.contains(&text), "{text}");
        }
    }
    assert!(first.iter().any(|text| text.starts_with("panicked at ") && text.ends_with("caught")));
    for (who, texts) in &parts {
        assert_eq!(texts.len(), first.len(), "{who}");
        let differs = texts.iter().zip(first).find(|(text, first)| text != first);
        assert!(differs.is_none(), "{who}: {differs:?}");
    }
    // One `Display` panics in each part.
    assert_eq!(file.end().lost, parts.len() as u64);
}

#[test]
fn records_of_a_plugin_equal_those_of_its_program() {
    for format in ["text", "raw"] {
        let traced = copies("ends").env("TRACER_FORMAT", format).run().succeeded();
        assert_eq!(runs(&traced).len(), 1, "one run");
        assert_said(traced.main_thread(), &["plugin", "host"]);
        assert_said(traced.thread("other"), &["plugin"]);
        for file in traced.files.values() {
            assert_eq!(file.stacks.len(), 2 * said(file).len(), "a stack, and one of a panic, in each part");
        }
    }
}

/// Returns the place of a record as readers report it, without the crate of the function.
fn place(record: &SiteRecord) -> Option<(String, String, Vec<String>, u32, String)> {
    let site = record.site.clone()?;
    let function = site.function.split_once("common_records::").map_or("", |(_, function)| function);
    let template = site.template.replacen("{who}", "who", 1);
    Some((template, function.to_owned(), site.names, site.line, site.file))
}

#[test]
fn records_of_a_plugin_have_their_sites_and_values() {
    let traced = copies("ends").env("TRACER_FORMAT", "raw").run().succeeded();
    let records = site_records(traced.directory.path());
    let threads: BTreeSet<u64> = records.iter().map(|record| record.tid).collect();
    assert_eq!(threads.len(), 2);
    let main = *threads.first().expect("a thread");
    let of_main: Vec<_> = records.iter().filter(|record| record.tid == main).collect();
    assert_eq!(of_main.len() % 2, 0);
    let (plugin, host) = of_main.split_at(of_main.len() / 2);
    for (plugin, host) in plugin.iter().zip(host) {
        assert_eq!(place(plugin), place(host));
    }
    let named = plugin.iter().filter_map(|record| place(record)).collect::<BTreeSet<_>>();
    assert!(named.iter().any(|(_, function, ..)| function == "called"), "{named:?}");
    // No two spans have the same id. Each is entered twice and left twice. There are three sets: two of the main
    // thread, by program and plugin, and one of the other thread.
    let mut spans: BTreeMap<u64, usize> = BTreeMap::new();
    for span in records.iter().filter_map(|record| record.span) {
        *spans.entry(span).or_default() += 1;
    }
    assert_eq!((spans.len(), spans.values().all(|count| *count == 4)), (3 * 300, true));
    // All sites were registered before the second thread began, so at most its first message of each is formatted
    // at the call.
    let is_captured = |record: &&SiteRecord| record.kind == RecordKind::Captured;
    let second: Vec<_> = records.iter().filter(|record| record.tid != main).collect();
    let captured = second.iter().filter(|record| is_captured(record)).count();
    assert!(captured >= 2 * 299, "{captured} of {}", second.len());
    assert!(second.iter().filter(|record| is_captured(record)).all(|record| {
        let site = record.site.as_ref().expect("a site");
        !site.descriptor.is_empty() && record.flags == Flags::NONE
    }));
}

#[test]
fn records_of_a_plugin_survive_a_kill() {
    for format in ["text", "raw"] {
        let mut scenario = copies("is-killed").env("TRACER_FORMAT", format).env("TRACER_RING_SIZE", "16M");
        let output = scenario.command().output().expect("the program runs");
        assert_eq!(output.status.signal(), Some(libc::SIGKILL), "{output:?}");
        let merged = merge(&scenario, &[SCENARIO.as_ref()]);
        assert!(merged.stderr.contains("2 records were lost (reason=panic: 2)"), "{}", merged.stderr);
        let files = read_directory(scenario.directory.path());
        let [file] = &files.values().collect::<Vec<_>>()[..] else { panic!("one thread") };
        assert_eq!(file.end().reason, EndReason::Killed);
        assert_said(file, &["plugin", "host"]);
    }
}

#[test]
fn a_forked_child_has_its_own_run_with_the_records_of_both_copies() {
    let traced = copies("forks").run().succeeded();
    let mut parts: Vec<Vec<&str>> =
        traced.files.values().map(|file| said(file).iter().map(|(who, _)| *who).collect()).collect();
    parts.sort();
    assert_eq!(parts, [vec!["plugin", "host"], vec!["plugin", "host", "plugin", "host"]]);
    assert_eq!(runs(&traced).len(), 2, "parent and child");
}

#[test]
fn a_program_switches_its_plugin_and_a_plugin_only_itself() {
    let traced = copies("is-switched").run().succeeded();
    let mut parts: Vec<Vec<&str>> =
        traced.files.values().map(|file| said(file).iter().map(|(who, _)| *who).collect()).collect();
    parts.sort();
    assert_eq!(parts, [vec!["plugin", "host"], vec!["plugin", "host", "host"]]);
}

#[test]
fn a_plugin_can_be_unloaded_until_its_first_record() {
    let traced = copies("loads-it-again").without("TRACER_ENABLE").run().succeeded();
    assert_said(traced.main_thread(), &["host", "plugin", "plugin"]);
}
