//! A failed write to standard output is an error, for every command; a reader that goes away is not an error.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a failure in a test fails it")]

use std::fs::File;

use crate::support::{Place, Ran, file, ran, run};

/// All commands that write to standard output.
const COMMANDS: &[&[&str]] = &[
    &["info", "app"],
    &["info", "--json", "app"],
    &["check", "app"],
    &["check", "-v", "app"],
    &["diff", "app", "app"],
    &["diff", "--json", "app", "app"],
    &["-o", "-", "app"],
    &["--format", "jsonl", "-o", "-", "app"],
    &["--last", "1", "app"],
    &["show", "app"],
    &["stats", "app"],
    &["stats", "--json", "app"],
    &["tree", "app"],
    &["report", "app"],
    &["report", "--json", "app"],
    &["locks", "app"],
    &["completions", "bash"],
    &["man"],
    &["man", "clean"],
    &["--help"],
    &["-h"],
    &["info", "-h"],
    &["check", "--help"],
    &["--version"],
];

/// Returns whether a command could write. The status 1 says that the trace is not whole: it has neither an end nor
/// readings of the clock.
fn is_done(status: Option<i32>) -> bool {
    matches!(status, Some(0 | 1))
}

/// Returns the result of each command, with the standard output that the shell makes of `redirection`.
fn with_output(redirection: &str) -> Vec<(&'static [&'static str], Ran)> {
    let place = Place::with_one_file();
    let line = format!("exec \"$0\" \"$@\" {redirection}");
    let command = |args: &&'static [&'static str]| {
        let mut shell = place.program("sh");
        (*args, ran(shell.args(["-c", &line, env!("CARGO_BIN_EXE_tracemerge")]).args(*args)))
    };
    COMMANDS.iter().map(command).collect()
}

fn fail_and_say(redirection: &str, reason: &str) {
    for (args, ran) in with_output(redirection) {
        assert_eq!(ran.status, Some(2), "{args:?}: {}", ran.err);
        assert!(ran.err.contains("error: cannot write to standard output"), "{args:?}: {}", ran.err);
        assert!(ran.err.contains(reason), "{args:?}: {}", ran.err);
    }
}

#[test]
fn each_command_writes_output_and_succeeds_otherwise() {
    for (args, ran) in with_output("") {
        assert!(is_done(ran.status), "{args:?}: {}", ran.err);
        assert!(!ran.out.is_empty(), "{args:?} shows nothing, and so says nothing about errors");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_device_is_an_error() {
    fail_and_say(">/dev/full", "No space left on device");
}

#[test]
fn a_closed_output_is_an_error() {
    fail_and_say(">&-", "Bad file descriptor");
}

#[test]
fn an_output_that_is_open_for_reading_only_is_an_error() {
    fail_and_say("1</dev/null", "Bad file descriptor");
}

#[test]
fn a_command_that_writes_nothing_needs_no_output() {
    for args in [&["check", "-q", "app"][..], &["diff", "-q", "app", "app"], &["app"], &["clean", "app"]] {
        let place = Place::with_one_file();
        let mut shell = place.program("sh");
        shell.args(["-c", "exec \"$0\" \"$@\" >&-", env!("CARGO_BIN_EXE_tracemerge")]).args(args);
        let ran = ran(&mut shell);
        assert!(is_done(ran.status), "{args:?}: {}", ran.err);
    }
}

#[test]
fn a_reader_that_has_closed_the_pipe_is_not_an_error() {
    let place = Place::with_one_file();
    place.write("app.trace.10", file(&run(5, 1), 10, &[4, 5]));
    for args in COMMANDS {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = place.command();
        command.args(*args).stdout(writer).stderr(File::create(place.path("said")).unwrap());
        let status = command.status().unwrap();
        assert!(is_done(status.code()), "{args:?}: {}", place.text("said"));
        assert!(!place.text("said").contains("error:"), "{args:?}: {}", place.text("said"));
    }
}
