//! `tracemerge on PID` and `tracemerge off PID`: a process that starts paused records nothing until it is switched on.
//! Its trace lacks only the records of the periods in which it is switched off.

use std::path::Path;
use std::process::Output;

use support::merges::{THREADS, Watched, by_thread, tracemerge};
use trace_format::line::{Kind, Line};
use trace_format::meta::Meta;

const SCENARIO: &str = env!("CARGO_BIN_EXE_scenario");

fn ask(runtime: &Path, word: &str, pid: u32) -> (Option<i32>, String) {
    let ran: Output =
        tracemerge(SCENARIO, runtime, [word, &pid.to_string()]).output().expect("the command can be run");
    (ran.status.code(), String::from_utf8_lossy(&ran.stderr).into_owned())
}

/// Lets each thread call until it has made `count` calls.
fn go_on_to(watched: &Watched, count: u64) {
    watched.go_on_to(count);
    support::wait_until(60, "all have called", || watched.returned() == [count; THREADS]);
}

/// Switches the program's tracing and returns the standard error of the command.
fn switched(watched: &Watched, word: &str) -> String {
    let (status, said) = ask(watched.scenario.runtime.path(), word, watched.child.id());
    assert_eq!(status, Some(0), "{word}: {said}");
    said
}

/// Returns the numbers of a thread's calls that left a message, in order.
fn numbers(messages: &[String]) -> Vec<u64> {
    let number = |text: &String| text.split_whitespace().nth(1).and_then(|word| word.parse().ok());
    let mut numbers: Vec<u64> = messages.iter().filter_map(number).collect();
    // Some calls leave a second message, made inside of the first.
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

#[test]
fn a_trace_lacks_only_the_records_of_pauses() {
    for (begins, format) in [("paused", "text"), ("paused", "raw"), ("1", "text")] {
        let mut watched =
            Watched::start(SCENARIO, "plain", &[("TRACER_ENABLE", begins), ("TRACER_FORMAT", format)]);
        go_on_to(&watched, 5);
        if begins == "1" {
            assert!(switched(&watched, "off").contains("pauses from now on"));
        }
        assert!(switched(&watched, "off").contains("off already"));
        go_on_to(&watched, 8);
        assert!(switched(&watched, "on").contains("traces from now on"));
        assert!(switched(&watched, "on").contains("on already"));
        go_on_to(&watched, 12);
        switched(&watched, "off");
        go_on_to(&watched, 20);
        switched(&watched, "on");
        go_on_to(&watched, 25);
        let said = watched.end();
        let (output, merged) = watched.merge(&[watched.scenario.directory.path().as_os_str()], "merged");
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        let threads = by_thread(&merged);
        assert_eq!(threads.len(), THREADS);
        let from_the_first = if begins == "1" { 0..5 } else { 0..0 };
        let records = (from_the_first.end + 9) * THREADS as u64;
        assert_eq!(said, format!("records {records} lost 0\n"));
        for (thread, found) in threads {
            let expected: Vec<u64> = from_the_first.clone().chain(8..12).chain(20..25).collect();
            assert_eq!(found.messages.len(), expected.len(), "{begins} {format}");
            assert_eq!((numbers(&found.messages), found.lost), (expected, vec![]), "thread {thread}");
        }
        // Each thread's file records each switch that happened while the thread had a file.
        let switches = merged
            .split(|&byte| byte == b'\n')
            .filter_map(|line| Line::parse(line).ok().filter(|line| line.kind == Kind::Meta))
            .filter(|line| matches!(Meta::parse(line.payload), Some(Meta::Switched { .. })));
        let times = if begins == "1" { 4 } else { 2 };
        assert_eq!(switches.count(), times * THREADS, "{begins} {format}");
        let directory = watched.scenario.directory.path().to_str().expect("text");
        let checked = tracemerge(SCENARIO, watched.scenario.runtime.path(), ["check", directory]).output();
        let checked = String::from_utf8(checked.expect("the command can be run").stdout).expect("text");
        let (_, verdict) = checked.trim_end().rsplit_once('\n').expect("two lines");
        let expected = "whole except for the time in which tracing was switched off: 1 run, ";
        assert!(verdict.starts_with(expected), "{begins} {format}: {checked}");
    }
}

#[test]
fn a_program_that_is_never_enabled_leaves_no_file() {
    let mut watched = Watched::start(SCENARIO, "all", &[("TRACER_ENABLE", "paused")]);
    go_on_to(&watched, 30);
    assert_eq!(watched.end(), "records 0 lost 0\n");
    let left = support::names(watched.scenario.directory.path());
    assert!(left.is_empty(), "{left:?}");
    assert!(support::runs(watched.scenario.runtime.path()).is_empty(), "its rings are removed");
}

#[test]
fn messages_of_every_kind_are_recorded_before_and_after_a_pause() {
    let mut watched = Watched::start(SCENARIO, "all", &[]);
    go_on_to(&watched, 40);
    switched(&watched, "off");
    go_on_to(&watched, 60);
    switched(&watched, "on");
    go_on_to(&watched, 100);
    watched.end();
    let (output, merged) = watched.merge(&[watched.scenario.directory.path().as_os_str()], "merged");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    for (thread, found) in by_thread(&merged) {
        let expected: Vec<u64> = (0..40).chain(60..100).collect();
        assert_eq!((numbers(&found.messages), found.lost), (expected, vec![]), "thread {thread}");
    }
}

#[test]
fn on_and_off_report_why_a_process_cannot_be_switched() {
    let runtime = tempfile::tempdir().expect("a directory");
    for word in ["on", "off"] {
        let (status, said) = ask(runtime.path(), word, u32::MAX);
        assert_eq!(
            (status, said),
            (Some(2), format!("tracemerge: error: there is no process {}\n", u32::MAX))
        );
        let (status, said) = ask(runtime.path(), word, std::process::id());
        assert!(status == Some(2) && said.contains("does not trace: "), "{said}");
    }
}
