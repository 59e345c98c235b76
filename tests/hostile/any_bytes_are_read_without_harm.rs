//! Readers of bytes that may be hostile get random bytes, and all seeds that were worth keeping: the checks of the
//! fuzz targets, see `fuzz/README.md`.

use proptest::prelude::*;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

use crate::checks;

const SCENARIO: &str = env!("CARGO_BIN_EXE_scenario");

/// Calls the check of a directory of traces, which the command merges.
fn traces(bytes: &[u8]) {
    let memory = || TempDir::new_in("/dev/shm").or_else(|_| TempDir::new());
    let (directory, nothing) = (memory().expect("a directory"), memory().expect("a directory"));
    checks::traces(bytes, directory.path(), |app| {
        let output = directory.path().join("merged");
        let mut merge = Command::new(SCENARIO);
        merge.args(["tracemerge", "-q", "-o"]).arg(&output).arg(app);
        merge
            .env("TRACER_RUNTIME_DIR", nothing.path())
            .env("TMPDIR", nothing.path())
            .env_remove("TRACER_DIR");
        let ran = merge.current_dir(nothing.path()).output().expect("the merge runs");
        let said = Some(String::from_utf8(ran.stderr).expect("UTF-8"));
        checks::Merged { text: std::fs::read(output).expect("a merged file"), said }
    });
}

/// Calls a check with every file of a directory of seeds.
fn every_seed(name: &str, check: fn(&[u8])) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds").join(name);
    let seeds = support::names(&directory);
    assert!(!seeds.is_empty());
    for seed in seeds {
        eprintln!("{}", seed.display());
        check(&std::fs::read(seed).expect("a seed"));
    }
}

#[test]
fn every_seed_is_read_without_harm() {
    every_seed("ring", checks::ring);
    every_seed("lines", checks::lines);
    every_seed("directory", checks::directory);
    every_seed("raw", checks::raw);
    every_seed("arguments", checks::arguments);
    every_seed("run_lines", checks::run_lines);
    every_seed("traces", traces);
}

/// Makes bytes. Many of their words are small, or look like a record's first word.
fn numbers() -> impl Strategy<Value = Vec<u8>> {
    let word = prop_oneof![
        any::<u64>(),
        0..64u64,
        Just(u64::MAX),
        (0..9u64, 0..4u64, 0..80u64, 0..9u64)
            .prop_map(|(kind, flags, length, site)| site << 32 | length << 16 | flags << 8 | kind),
    ];
    prop::collection::vec(word, 0..120).prop_map(|words| words.iter().flat_map(|w| w.to_le_bytes()).collect())
}

/// Makes lines whose parts are mostly valid.
fn lines() -> impl Strategy<Value = String> {
    let key = prop_oneof!["[0-9a-f]{16}-[0-9]{8}", "[0-9a-f]{15,17}-[0-9]{7,21}"];
    let value = prop_oneof![
        "[0-9]{1,21}",
        "[0-9a-f]{8}",
        r#""[ -~]{0,9}""#,
        "[a-z_]{1,12}",
        r#""(\\x[0-9a-f]{2}){0,3}""#
    ];
    let keys = "(version|id|root|pid|exe|boot|ticks|wall|clock|name|ring|why|records|reason|ns|lost|file|offset|bytes|text)";
    let words = "(run|thread|clock|lost|stall|module|unloaded|end|damaged|backward)";
    let fields = prop::collection::vec((keys, value).prop_map(|(k, v)| format!(" {k}={v}")), 0..9);
    let meta = (words, fields).prop_map(|(word, fields)| format!("{word}{}", fields.concat()));
    let payload = prop_oneof![meta, "[\u{0}-\u{ff}]{0,20}", r"(\\|x|[0-9a-fA-F]){0,12}"];
    let line =
        (key, "[:|<>^#? ]{1,2}", payload).prop_map(|(key, kind, payload)| format!("{key} {kind} {payload}"));
    let name = r"\.trace\.[0-9]{1,21}(\.[0-9]{1,11})?";
    prop::collection::vec(prop_oneof![line, name.prop_map(|name| name)], 0..4)
        .prop_map(|lines| lines.join("\n"))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1000) })]

    #[test]
    fn any_ring_becomes_sorted_lines(flags: u8, bytes in prop_oneof![numbers(), any::<Vec<u8>>()]) {
        checks::ring(&[&[flags], &bytes[..]].concat());
        // If all of the header is right, its records are reached.
        checks::ring(&[&[flags | 0b1111], &bytes[..]].concat());
    }

    #[test]
    fn any_raw_file_becomes_sorted_lines(head: [u8; 3], bytes in prop_oneof![numbers(), any::<Vec<u8>>()]) {
        checks::raw(&[&head[..], &bytes].concat());
    }

    #[test]
    fn any_trace_is_read_and_written_again(text in lines(), bytes: Vec<u8>) {
        checks::lines(text.as_bytes());
        checks::lines(&bytes);
    }

    #[test]
    fn any_arguments_become_text_or_an_error(
        format in r"([a-z{}]|\{[0-3]?(:[<^>]?[+]?#?0?[0-9]{0,2}(\.[0-9*]|[0-2]\$)?[?xXobep]?)?\}){0,4}",
        descriptor in "[aslxnhtmyofdbceupPORSA]{0,5}",
        payload: Vec<u8>,
    ) {
        let length = |text: &str| (text.len() as u16).to_le_bytes();
        let parts = [&length(&format), &length(&descriptor), format.as_bytes(), descriptor.as_bytes(), &payload];
        checks::arguments(&parts.concat());
        checks::arguments(&payload);
    }

    #[test]
    fn any_run_line_is_read_exactly_or_rejected(
        head: [u8; 33], rest in prop_oneof![prop::collection::vec(any::<u8>(), 0..300), lines().prop_map(String::into_bytes)]
    ) {
        checks::run_lines(&[&head[..], &rest].concat());
    }

    #[test]
    fn any_manifest_and_site_table_is_read(bytes in prop_oneof![numbers(), any::<Vec<u8>>()], line in lines()) {
        checks::directory(&[b"tracer-manifest 1\n", line.as_bytes(), b"\ntraces dir=\"a\" name=\"b\"\n"].concat());
        checks::directory(&[&trace_format::sites::header(u64::MAX)[..], &bytes].concat());
        checks::directory(&bytes);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn a_damaged_trace_hides_no_other_trace_in_its_directory(
        head: [u8; 2], changes in prop::collection::vec((any::<u8>(), 0..400u16, any::<u16>(), any::<[u8; 4]>()), 1..4)
    ) {
        let change = |(what, at, span, some): &(u8, u16, u16, [u8; 4])| {
            [&[*what][..], &at.to_le_bytes(), &span.to_le_bytes(), some].concat()
        };
        traces(&[&head[..], &changes.iter().flat_map(change).collect::<Vec<u8>>()].concat());
    }
}
