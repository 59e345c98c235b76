//! A trace records the cause of its process's end, if it is known: a signal or a status that `tracemerge run` has
//! seen, a status at `exit`, a panic that could not be caught.
#![cfg(target_os = "linux")]

use std::process::{Command, Output};

use support::{APP, Scenario, Traced, read_directory};
use trace_format::meta::{Cause, End, EndReason, Name};

const SCENARIO: &str = env!("CARGO_BIN_EXE_scenario");

/// Runs the program directly, and then recovers its trace.
fn by_itself(how: &str) -> Traced {
    Scenario::new(SCENARIO, &["ended", how]).run_and_recover()
}

/// Runs the program with `tracemerge run`.
fn by_run(how: &str) -> Traced {
    by_run_with(how, &[])
}

fn by_run_with(how: &str, env: &[(&str, &str)]) -> Traced {
    let args = ["tracemerge", "run", "-q", "-o", "/dev/null", "--", SCENARIO, "ended", how];
    let mut scenario = Scenario::new(SCENARIO, &args).without("TRACER_ENABLE");
    let output: Output = scenario.command().envs(env.iter().copied()).output().expect("it can be run");
    let files = read_directory(scenario.directory.path());
    Traced { output, files, directory: scenario.directory, runtime: scenario.runtime }
}

/// Returns the end of the main thread's file. Panics if a record is missing.
fn end(traced: &Traced) -> End {
    traced.assert_whole();
    let main = traced.main_thread();
    let texts = main.texts();
    let are_of_panics = texts[1..].iter().all(|text| text.starts_with("panicked at "));
    assert!(texts[0] == "before the end" && are_of_panics, "{texts:?}: {}", traced.said());
    main.end().clone()
}

/// Returns the contents of the end of the main thread's file. Panics if it names a panic of another thread.
fn said(traced: &Traced) -> (EndReason, bool, Option<String>, Option<u32>) {
    let End { reason, cause: Cause { panic, signal, status }, .. } = end(traced);
    let main = traced.main_thread().messages[0].0.tid;
    assert!(panic.is_none_or(|tid| tid == main), "{panic:?}, not {main}");
    (reason, panic.is_some(), signal.as_ref().map(Name::to_string), status)
}

fn signal(name: &str) -> Option<String> {
    Some(name.to_owned())
}

#[test]
fn run_records_the_signal_or_status_that_ended_the_process() {
    assert_eq!(said(&by_run("killed")), (EndReason::Killed, false, signal("SIGKILL"), None));
    assert_eq!(said(&by_run("fault")), (EndReason::Killed, false, signal("SIGSEGV"), None));
    assert_eq!(said(&by_run("aborts")), (EndReason::Killed, false, signal("SIGABRT"), None));
    assert_eq!(said(&by_run("skips-handlers")), (EndReason::Killed, false, None, Some(3)));
}

#[test]
fn an_unobserved_end_is_recorded_as_a_kill_of_unknown_cause() {
    for how in ["killed", "fault", "aborts", "skips-handlers"] {
        assert_eq!(said(&by_itself(how)), (EndReason::Killed, false, None, None), "{how}");
    }
}

#[test]
fn an_uncatchable_panic_is_recorded_as_the_cause() {
    for how in ["hook-aborts", "cannot-unwind", "panics-twice"] {
        assert_eq!(said(&by_itself(how)), (EndReason::Panic, true, None, None), "{how}");
        assert_eq!(said(&by_run(how)), (EndReason::Panic, true, signal("SIGABRT"), None), "{how}");
    }
}

#[test]
fn a_caught_panic_is_not_recorded_as_the_cause() {
    for (how, ending) in
        [("caught", "SIGKILL"), ("thread-panics", "SIGKILL"), ("thread-panics-and-aborts", "SIGABRT")]
    {
        assert_eq!(said(&by_itself(how)), (EndReason::Killed, false, None, None), "{how}");
        assert_eq!(said(&by_run(how)), (EndReason::Killed, false, signal(ending), None), "{how}");
    }
    let traced = by_run("thread-panics");
    let threads = traced.files.values().filter(|file| file.texts()[0] == "the thread");
    let ends: Vec<End> = threads.map(|file| file.end().clone()).collect();
    assert_eq!(ends.len(), 1);
    assert_eq!((ends[0].reason, ends[0].cause), (EndReason::Thread, Cause::default()));
}

#[test]
#[cfg(target_env = "gnu")]
fn an_exit_records_its_status_and_its_panic() {
    for run in [by_itself, by_run] {
        assert_eq!(said(&run("exits")), (EndReason::Exit, false, None, Some(3)));
        assert_eq!(said(&run("panics")), (EndReason::Exit, true, None, Some(101)));
        assert_eq!(said(&run("hook-exits")), (EndReason::Exit, true, None, Some(7)));
        assert_eq!(said(&run("caught-and-exits")), (EndReason::Exit, false, None, Some(4)));
    }
    // An exit with status 0 is recorded without a cause.
    let traced = Scenario::new(SCENARIO, &["return"]).run().succeeded();
    assert_eq!(traced.main_thread().end().cause, Cause::default());
}

#[test]
fn flight_recorders_record_the_cause() {
    let traced = by_run_with("cannot-unwind", &[("TRACER_FULL", "overwrite")]);
    assert_eq!(said(&traced), (EndReason::Panic, true, signal("SIGABRT"), None));
}

/// Returns the standard output of the command for the traces.
fn command(traced: &Traced, args: &[&str]) -> String {
    let mut command = Command::new(SCENARIO);
    command.arg("tracemerge").args(args).arg(traced.directory.path().join(APP));
    let output = command.env("TRACER_RUNTIME_DIR", traced.runtime.path()).output().expect("it can be run");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn commands_show_the_cause_of_the_end() {
    let traced = by_run("cannot-unwind");
    let tid = end(&traced).cause.panic.expect("the thread");
    let state = format!("killed (a panic of thread {tid}, SIGABRT)");
    let info = command(&traced, &["info"]);
    assert!(info.contains(&format!(", {state}\n")), "{info}");
    let check = command(&traced, &["check", "-v"]);
    assert!(check.contains(&format!("  {state}\n")), "{check}");
    let merged = command(&traced, &["merge", "-o", "-"]);
    assert!(merged.contains(&format!("reason=panic files=1 panic={tid} signal=SIGABRT")), "{merged}");
    let json: serde_json::Value = serde_json::from_str(&command(&traced, &["info", "--json"])).expect("JSON");
    let run = &json["runs"][0];
    assert_eq!((run["state"].as_str(), run["threads"][0]["end"].as_str()), (Some("killed"), Some("panic")));
    assert_eq!((run["panic_tid"].as_u64(), run["signal"].as_str()), (Some(tid), Some("SIGABRT")));
    assert!(run["status"].is_null(), "{run}");
}

/// Returns the standard error of a program that panics, without the ids of its threads and without the frames of
/// its stacks, which include the hook.
fn printed(how: &str, enabled: bool) -> String {
    let scenario = Scenario::new(SCENARIO, &["ended", how]);
    let scenario = if enabled { scenario } else { scenario.without("TRACER_ENABLE") };
    let traced = scenario.env("RUST_BACKTRACE", "0").run();
    let without_ids = |line: &str| match line.split_once(" (") {
        Some((before, after)) if line.starts_with("thread ") => {
            format!("{before}{}", after.split_once(')').expect("an id").1)
        }
        _ => line.to_owned(),
    };
    let lines = traced.stderr();
    // An emulator prints a line of its own if a signal ends a program.
    let is_of_program = |line: &&str| !line.starts_with(' ') && !line.starts_with("qemu: ");
    lines.lines().filter(is_of_program).map(without_ids).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_panic_prints_the_same_with_and_without_tracing() {
    for how in ["panics", "cannot-unwind", "panics-twice", "hook-aborts", "caught-and-exits"] {
        let without = printed(how, false);
        assert_eq!(without.is_empty(), how == "hook-aborts", "{how}: {without}");
        assert_eq!(printed(how, true), without, "{how}");
    }
}
