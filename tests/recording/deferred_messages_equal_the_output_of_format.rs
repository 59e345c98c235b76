//! `trace!` may format a message later or, after a kill, in another process. The text equals that of `format!`.

use std::process::Command;
use std::time::Duration;
use support::kills::Kill;
use support::{APP, Scenario, Traced, names, read_directory, runs};
use trace_format::record::Records;
use trace_format::ring::HEADER_BYTES;

const SCENARIO: &str = env!("CARGO_BIN_EXE_scenario");

fn traced(scenario: &str) -> Traced {
    Scenario::new(SCENARIO, &[scenario]).run().succeeded()
}

#[test]
fn every_kind_of_argument_is_formatted_as_format_does() {
    let traced = traced("sites");
    let messages = traced.messages();
    let texts: Vec<String> = messages.iter().map(|text| text.escape_debug().to_string()).collect();
    let expected: Vec<String> = traced.stdout().lines().map(str::to_owned).collect();
    assert_eq!(texts.len(), expected.len());
    for (text, expected) in texts.iter().zip(&expected) {
        assert_eq!(text, expected);
    }
    traced.assert_whole();
}

#[test]
fn disabled_tracing_evaluates_no_argument() {
    let scenario = Scenario::new(SCENARIO, &["sites-disabled"]).env("TRACER_ENABLE", "0");
    assert!(scenario.run().succeeded().files.is_empty());
}

#[test]
fn a_filter_enables_and_disables_modules() {
    let filtered =
        |filter: &str| Scenario::new(SCENARIO, &["sites-filtered"]).env("TRACER_FILTER", filter).run();
    for (filter, evaluated, texts) in [
        ("scenario::sites::inner=off", "[2, 0, 0]", &["outer 0"][..]),
        ("scenario::sites::inner::deep", "[0, 0, 2]", &["deep 2"]),
        ("off,scenario::sites::inner,scenario::sites::inner::deep=off", "[0, 2, 0]", &["inner 1"]),
        ("somebody::else=off", "[2, 2, 2]", &["outer 0", "inner 1", "deep 2"]),
    ] {
        let traced = filtered(filter).succeeded();
        assert_eq!(traced.stdout().trim(), evaluated, "{filter}");
        assert_eq!(traced.messages(), texts.repeat(2), "{filter}");
        assert_eq!(traced.stderr(), "", "{filter}");
    }
    let bad = filtered("a=b=c,scenario::sites::inner=loud,scenario::sites::inner::deep=off").succeeded();
    assert_eq!(bad.stdout().trim(), "[2, 2, 0]", "the rest applies");
    assert_eq!(bad.stderr().lines().count(), 1, "{}", bad.stderr());
    assert!(bad.stderr().contains("TRACER_FILTER") && bad.stderr().contains("a=b=c"), "{}", bad.stderr());
}

fn recovered(scenario: &Scenario) -> Vec<String> {
    let mut merge = Command::new(SCENARIO);
    let app = scenario.directory.path().join(APP);
    let merged = merge.arg("merge").arg(app).env("TRACER_RUNTIME_DIR", scenario.runtime.path()).output();
    let merged = merged.expect("the merge can be run");
    assert!(merged.status.success(), "{}", String::from_utf8_lossy(&merged.stderr));
    let files = read_directory(scenario.directory.path());
    files.values().flat_map(|file| file.messages.iter().map(|(_, text)| text.clone())).collect()
}

#[test]
fn recovery_formats_the_captured_arguments_of_a_killed_program() {
    let mut scenario = Scenario::new(SCENARIO, &["sites-killed"]).env("TRACER_FLUSH_MS", "60000");
    assert!(!scenario.command().status().expect("the program runs").success());
    // The ring holds numbers, not text.
    let run = runs(scenario.runtime.path()).pop().expect("the run's directory");
    let rings = names(&run).into_iter().filter(|path| path.to_string_lossy().contains("ring-"));
    let captured = rings.map(|path| {
        let ring = std::fs::read(path).expect("a ring");
        let word = |at: usize| u64::from_le_bytes(ring[at..at + 8].try_into().expect("eight bytes"));
        let (head, block) =
            (word(128) as usize, u64::from(u32::from_le_bytes(ring[32..36].try_into().expect("four"))));
        let data = &ring[HEADER_BYTES..HEADER_BYTES + head];
        Records::new([data, &[]], 0, block)
            .filter(|record| record.kind == trace_format::record::RecordKind::Captured)
            .count()
    });
    assert_eq!(captured.sum::<usize>(), 999);
    let text = |n: u32| {
        let name = if n == 0 { "first" } else { "in the ring" };
        format!("killed {n} {name:?} {:5.1}", f64::from(n) / 2.0)
    };
    assert_eq!(recovered(&scenario), (0..1000).map(text).collect::<Vec<_>>());
}

#[test]
fn a_kill_at_any_moment_loses_no_captured_record() {
    let mut records = 0;
    for kill in 0..60u64 {
        let after = Duration::from_micros(200 + (kill * 7919) % 60_000);
        let env =
            vec![("TRACER_RING_SIZE", if kill % 2 == 0 { "64K" } else { "1M" }), ("STRESS_DEFERRED", "1")];
        let (merges, files) = (vec![], vec![]);
        let kill = Kill { scenario: SCENARIO, after, merges, env, files, empty_files: false, rotated: false };
        records += kill.run().records;
    }
    assert!(records > 0, "some live long enough to trace");
}

#[cfg(unix)]
#[test]
fn a_forked_child_uses_the_sites_of_its_parent() {
    let traced = traced("sites-forked");
    let of = |file: &support::ThreadTrace| {
        file.texts()
            .iter()
            .map(|text| text.split(' ').nth(1).expect("a number").to_owned())
            .collect::<Vec<_>>()
    };
    let mut found: Vec<_> = traced.files.values().map(of).collect();
    found.sort_by_key(Vec::len);
    let numbers = |range: std::ops::Range<u32>| range.map(|n| n.to_string()).collect::<Vec<_>>();
    assert_eq!(found, [numbers(0..3), numbers(2..100)]);
    traced.assert_whole();
}

#[test]
fn restarted_tracing_evaluates_the_filter_again() {
    let second = tempfile::TempDir::new().expect("a directory");
    let path = second.path().to_str().expect("a path in UTF-8");
    let traced = Scenario::new(SCENARIO, &["sites-restarted", path]).run().succeeded();
    assert_eq!(traced.messages(), ["call 0", "call 1"]);
    let second = read_directory(second.path());
    let texts: Vec<&str> = second.values().flat_map(support::ThreadTrace::texts).collect();
    assert_eq!(texts, ["call 4", "call 5"]);
}
