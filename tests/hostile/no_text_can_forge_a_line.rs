//! Messages, names of threads and the program's own path may contain anything. They forge no line of another thread
//! and no end of a file, and they contain nothing that a terminal would obey: in traces, merged files and messages
//! to the user.
#![cfg(target_os = "linux")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use support::{Scenario, read_directory};
use tempfile::TempDir;
use trace_format::line::{Kind, Line};
use trace_format::meta::Meta;

#[path = "../programs/hostile.rs"]
#[allow(dead_code)]
mod hostile;

const SCENARIO: &str = env!("CARGO_BIN_EXE_scenario");
/// The names of a directory and of a program.
const PATH: [&str; 2] = [
    "up\n0000000000000001-00000001 # end records=9 lost=0 reason=exit\n\u{1b}[2J",
    "ap\"p key=\"x\u{9b}31m\u{7}\n",
];

/// Copies the program under the worst possible name.
fn copy_under_hostile_name(directory: &Path) -> PathBuf {
    let place = directory.join(PATH[0]);
    fs::create_dir(&place).expect("a directory");
    let program = place.join(PATH[1]);
    // `cp` writes the file: a child of another test would inherit a file that this process has open for writing.
    assert!(Command::new("cp").arg(SCENARIO).arg(&program).status().expect("cp runs").success());
    program
}

/// Returns whether a terminal would only show the text.
fn is_harmless(text: &[u8]) -> bool {
    let control = |c: char| c.is_control() && c != '\n' && c != '\t';
    std::str::from_utf8(text).is_ok_and(|text| !text.chars().any(control))
}

/// Merges as the command does; returns the merged bytes and the command's output.
fn merge(program: &Path, scenario: &Scenario) -> (Vec<u8>, Output) {
    let mut merge = Command::new(SCENARIO);
    merge.arg("merge").arg(program).env("TRACER_RUNTIME_DIR", scenario.runtime.path());
    let output = merge.env("TRACER_DIR", scenario.directory.path()).output().expect("the merge runs");
    let mut merged = program.as_os_str().to_os_string();
    merged.push(".trace.merge");
    (fs::read(merged).unwrap_or_default(), output)
}

#[test]
fn hostile_texts_names_and_paths_are_recorded_unchanged() {
    let directory = TempDir::new().expect("a directory");
    let program = copy_under_hostile_name(directory.path());
    let mut scenario = Scenario::new(&program, &["forger"]).env("TRACER_FLUSH_MS", "60000");
    let killed = scenario.command().output().expect("the program runs");
    assert!(is_harmless(&killed.stderr) && killed.stdout.is_empty(), "{killed:?}");
    let (merged, output) = merge(&program, &scenario);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("recovered 1 record of thread"), "names of threads are shown: {said}");
    assert!(is_harmless(&output.stderr) && output.stdout.is_empty(), "{output:?}");

    let texts = hostile::texts();
    let files = read_directory(scenario.directory.path());
    assert_eq!(files.len(), texts.len(), "a thread for each text");
    let mut found: Vec<&str> = files.values().flat_map(support::ThreadTrace::texts).collect();
    let mut expected: Vec<&str> = texts.iter().map(String::as_str).collect();
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!(found, expected);
    for (name, file) in &files {
        let own = format!(".trace.{}", file.messages[0].0.tid);
        assert!(name.ends_with(&own), "{name} is of that thread");
        let text = file.texts()[0];
        let name: String = text.chars().filter(|c| *c != '\0').collect();
        let name = String::from_utf8_lossy(&name.as_bytes()[..name.len().min(15)]).into_owned();
        assert_eq!(file.name, name);
        let Meta::Run(run) = &file.metas[0] else { panic!("a `# run` line") };
        assert_eq!(run.exe, program.as_os_str().as_encoded_bytes());
        assert_eq!((file.end().records, file.end().lost), (1, 0));
    }

    assert!(is_harmless(&merged));
    let tids: Vec<u64> = files.values().map(|file| file.messages[0].0.tid).collect();
    let mut ends = 0;
    for line in merged.split_inclusive(|b| *b == b'\n') {
        let line = Line::parse(&line[..line.len() - 1]).expect("a line");
        assert!(tids.contains(&line.key.tid), "{line:?}");
        ends += usize::from(line.kind == Kind::Meta && line.payload.starts_with(b"end "));
    }
    assert_eq!(ends, files.len(), "one for each thread");
}

/// Puts bad files among the traces: the command names them, harmlessly.
#[test]
fn messages_about_bad_files_are_harmless() {
    let directory = TempDir::new().expect("a directory");
    let program = copy_under_hostile_name(directory.path());
    let scenario = Scenario::new(&program, &["return"]);
    let beside = |suffix: &str, bytes: &[u8]| {
        let mut path = program.as_os_str().to_os_string();
        path.push(suffix);
        fs::write(path, bytes).expect("a file");
    };
    let lines = |texts: &[&str]| texts.concat().into_bytes();
    let good = "0000000000000005-00000001 : good\n";
    let mut junk = lines(&[good]);
    junk.extend(b"\x1b[2J\x1b]0;owned\x07 \xff\x9b31m\r\n\0\0\n");
    beside(".trace.1", &junk);
    beside(".trace.2", &lines(&[good, "0000000000000001-00000001 : back\u{1b}\n"]));
    beside(".trace.3", b"\x1b[31mno trace at all\x07\n");
    beside(".trace.4", b"");
    beside(".trace.5", &lines(&[good, "0000000000000006-00000001 # lost records=3 reason=\u{1b}[31m\n"]));
    beside(".trace.6", &lines(&[good, "0000000000000006-00000001 : torn \u{1b}[31m"]));
    beside(
        ".trace.7",
        &lines(&["0000000000000001-00000001 # run version=1 id=00000000 root=0 exe=\"\u{1b}\"\n"]),
    );
    let (merged, output) = merge(&program, &scenario);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.lines().count() >= 6, "each file is named: {said}");
    assert!(is_harmless(&output.stderr), "{said:?}");
    assert!(said.lines().all(|line| line.starts_with("tracemerge: ")), "no line is forged: {said}");
    assert!(is_harmless(&merged), "{:?}", String::from_utf8_lossy(&merged));
    for line in merged.split_inclusive(|b| *b == b'\n') {
        Line::parse(&line[..line.len() - 1]).expect("a line");
    }
}
