//! A panic leaves its message and its call stack in the trace. So does a signal that ends the process, if the
//! program has requested that. The process ends as it would have without tracing.
#![cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::Command;

use support::{APP, Scenario, ThreadTrace, Traced};
use trace_format::meta::{Cause, EndReason, Name};

const SCENARIO: &str = env!("CARGO_BIN_EXE_scenario");

/// The functions in which the crash happens, the innermost first.
const CALLED: [&str; 3] = ["::fails", "::middle", "::outer"];

fn crashed(how: &str) -> Traced {
    crashed_with(how, &[])
}

fn crashed_with(how: &str, env: &[(&str, &str)]) -> Traced {
    let mut scenario = Scenario::new(SCENARIO, &["crashed", how]);
    scenario.command().envs(env.iter().copied());
    scenario.run_and_recover()
}

/// Returns the records of the crashed thread as `tracemerge tree` shows them, with names for addresses.
fn shown(traced: &Traced) -> Vec<String> {
    shown_with(traced, &["--depth", "all"])
}

fn shown_with(traced: &Traced, options: &[&str]) -> Vec<String> {
    let mut command = Command::new(SCENARIO);
    command.args(["tracemerge", "tree"]).args(options).arg(traced.directory.path().join(APP));
    let output = command.env("TRACER_RUNTIME_DIR", traced.runtime.path()).output().expect("it can be run");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("text");
    // The thread may have waited for the tracer.
    let lines = text.lines().filter(|line| !line.contains("the tracer made ") && !line.contains("# stall "));
    lines.map(|line| line.split_once(": ").expect("a line").1.to_owned()).collect()
}

/// Checks that these lines of the tree are a call stack with the functions of the crash, in their order; others may
/// be between and around them.
fn assert_is_crash_stack(frames: &[String]) {
    assert!(frames.iter().all(|frame| frame.starts_with("by ")), "{frames:?}");
    let mut frames_left = frames.iter();
    for function in CALLED {
        let is_it =
            |frame: &String| frame.split_whitespace().nth(1).is_some_and(|name| name.ends_with(function));
        assert!(frames_left.any(is_it), "{function}: {frames:#?}");
    }
    let is_main = |frame: &String| frame.starts_with("by scenario::main");
    assert!(frames.last().is_some_and(is_main), "up to the beginning: {frames:#?}");
}

fn stacks(thread: &ThreadTrace) -> usize {
    thread.stacks.len()
}

fn signal(traced: &Traced) -> Option<String> {
    traced.main_thread().end().cause.signal.as_ref().map(Name::to_string)
}

#[test]
fn a_signal_leaves_its_name_and_call_stack() {
    for (how, name, told) in [
        ("fault", "SIGSEGV", " at 0x8"),
        ("null-call", "SIGSEGV", " at 0x8"),
        ("aborts", "SIGABRT", " from process "),
        ("traps", "SIGTRAP", ""),
        ("illegal", "SIGILL", " at 0x"),
        #[cfg(target_arch = "x86_64")]
        ("divides", "SIGFPE", " at 0x"),
        ("quits", "SIGQUIT", " from process "),
    ] {
        let traced = crashed(how);
        traced.assert_whole();
        assert_eq!(signal(&traced).as_deref(), Some(name), "{how}: {}", traced.said());
        assert_eq!(traced.main_thread().end().reason, EndReason::Killed);
        let lines = shown(&traced);
        assert_eq!(lines[0], "before the end", "{lines:#?}");
        assert!(lines[1].starts_with(&format!("{name}{told}")), "{lines:#?}");
        assert_is_crash_stack(&lines[2..]);
    }
}

#[test]
fn the_process_ends_as_without_tracing() {
    let ended = |scenario: &str, how: &str| {
        let mut scenario = Scenario::new(SCENARIO, &[scenario, how]);
        // The system writes a core into the current directory.
        let directory = scenario.directory.path().to_owned();
        allow_a_core(scenario.command().current_dir(directory));
        let output = scenario.command().output().expect("it can be run");
        // The program prints the id of the process.
        let printed = String::from_utf8(output.stderr)
            .expect("text")
            .replace(|letter: char| letter.is_ascii_digit(), "");
        (output.status, printed)
    };
    let ways = [
        "fault",
        "null-call",
        "aborts",
        "overflow",
        "traps",
        "illegal",
        #[cfg(target_arch = "x86_64")]
        "divides",
        "quits",
        "in-display",
        "ignored",
    ];
    let mut dumped = 0;
    for how in ways.iter().chain(&["handled", "handler-exits", "another-thread", "forked"]) {
        let (with, without) = (ended("crashed", how), ended("crashed-uncaught", how));
        // Two statuses are equal only if both report a core, or neither does.
        assert_eq!(with, without, "{how}");
        dumped += usize::from(with.0.core_dumped());
    }
    // If the system writes no cores, no status can report one.
    assert!(dumped >= 6 || !writes_core_files(), "{dumped} cores");
}

/// Returns whether this system writes cores as files into the current directory of a process, if the process allows
/// it.
fn writes_core_files() -> bool {
    let pattern = std::fs::read_to_string("/proc/sys/kernel/core_pattern").expect("it can be read");
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structure is valid.
    unsafe { libc::getrlimit(libc::RLIMIT_CORE, &mut limit) };
    limit.rlim_max > 0 && !pattern.starts_with(['|', '/'])
}

/// Lets a process write a core.
fn allow_a_core(command: &mut Command) {
    let raise = || {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: both calls have a valid structure, and may be made between fork and exec.
        unsafe { libc::getrlimit(libc::RLIMIT_CORE, &mut limit) };
        limit.rlim_cur = limit.rlim_max;
        // SAFETY: as above.
        match unsafe { libc::setrlimit(libc::RLIMIT_CORE, &limit) } {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    };
    // SAFETY: the closure makes two system calls, which take no lock.
    unsafe { command.pre_exec(raise) };
}

#[test]
fn a_stack_overflow_leaves_its_call_stack() {
    let traced = crashed("overflow");
    assert!(traced.stderr().contains("has overflowed its stack"), "{}", traced.stderr());
    let lines = shown(&traced);
    assert!(lines[1].starts_with("SIGSEGV at 0x"), "{lines:#?}");
    let frames: Vec<_> = lines[2..].iter().take_while(|line| line.starts_with("by ")).collect();
    let of_overflow = frames.iter().filter(|frame| frame.contains("::overflow ")).count();
    // A record has room for so many frames; a line says that there were more.
    assert!(frames.len() > 120 && of_overflow >= 118, "{frames:#?}");
    // The standard library prints the message and ends the process.
    assert!(lines[2 + frames.len()].starts_with("SIGABRT from process"), "{lines:#?}");
    assert_eq!(signal(&traced).as_deref(), Some("SIGABRT"));
}

#[test]
fn crashes_inside_a_record_and_of_untraced_threads_are_recorded() {
    let traced = crashed("in-display");
    let lines = shown(&traced);
    assert!(lines[1].starts_with("SIGSEGV at 0x8"), "{lines:#?}");
    assert_is_crash_stack(&lines[2..]);
    assert_eq!(signal(&traced).as_deref(), Some("SIGSEGV"));

    let traced = crashed("another-thread");
    let files: Vec<_> = traced.files.values().collect();
    assert_eq!(files.iter().map(|file| stacks(file)).collect::<Vec<_>>(), [0, 1], "{files:#?}");
    let crashed = files.iter().find(|file| stacks(file) == 1).expect("it");
    assert!(crashed.texts()[0].starts_with("SIGSEGV"), "{files:#?}");
}

#[test]
fn a_crash_is_recorded_with_other_settings() {
    for env in [("TRACER_FULL", "overwrite"), ("TRACER_FORMAT", "raw"), ("TRACER_RING_SIZE", "16K")] {
        let traced = crashed_with("fault", &[env]);
        assert_eq!(signal(&traced).as_deref(), Some("SIGSEGV"), "{env:?}");
        assert_is_crash_stack(&shown(&traced)[2..]);
    }
}

#[test]
fn the_handlers_of_the_program_decide_how_the_process_ends() {
    // A handler that goes on after the instruction.
    let traced = crashed("handled").succeeded();
    let main = traced.main_thread();
    assert_eq!(main.texts(), ["before the end", "SIGSEGV at 0x8", "behind it"]);
    assert_eq!((main.end().reason, main.end().cause, stacks(main)), (EndReason::Exit, Cause::default(), 1));
    // A handler that ends the process in its own way.
    let traced = crashed("handler-exits");
    assert_eq!(traced.output.status.code(), Some(7), "{}", traced.said());
    assert_eq!((signal(&traced), stacks(traced.main_thread())), (None, 1));
    // A handler that was set later, and calls the tracer's.
    let traced = crashed("replaced").succeeded();
    let main = traced.main_thread();
    assert_eq!((main.texts()[2], main.end().cause, stacks(main)), ("behind it", Cause::default(), 1));
}

#[test]
fn ignored_signals_and_untraced_children_leave_no_stack() {
    let traced = crashed("ignored").succeeded();
    assert_eq!(traced.messages(), ["before the end", "behind it"]);
    let traced = crashed("forked").succeeded();
    assert_eq!(traced.stdout().trim(), libc::SIGSEGV.to_string());
    assert_eq!(traced.messages(), ["before the end", "behind it"]);
}

#[test]
fn no_signal_is_caught_unless_requested() {
    let traced = Scenario::new(SCENARIO, &["crashed-uncaught", "fault"]).run_and_recover();
    assert_eq!((traced.messages(), signal(&traced)), (vec!["before the end".to_owned()], None));
}

#[test]
fn a_panic_leaves_its_message_and_call_stack() {
    let traced = Scenario::new(SCENARIO, &["ended", "panics"]).run();
    let main = traced.main_thread();
    assert_eq!(main.texts().len(), 2);
    let text = main.texts()[1];
    assert!(
        text.starts_with("panicked at tests/programs/endings.rs:") && text.ends_with(": as the test wants"),
        "{text}"
    );
    assert_eq!(stacks(main), 1);
    // The stack begins at the function that has panicked, and ends at main.
    let frames = &shown(&traced)[2..];
    let is_first = frames[0].starts_with("by scenario::endings::ended  (");
    let is_last = frames.last().is_some_and(|frame| frame.starts_with("by scenario::main  ("));
    assert!(is_first && is_last, "{frames:#?}");
    let all = &shown_with(&traced, &["--full"])[2..];
    let place = |part: &str| all.iter().position(|frame| frame.contains(part));
    let shown = place("scenario::endings::ended  (").expect("it");
    assert!(place("panic_fmt").is_some_and(|panic| panic < shown), "{all:#?}");
    assert_eq!(&all[shown..shown + frames.len()], frames);
    assert!(all.last().is_some_and(|frame| frame.contains("_start")), "{all:#?}");
}

#[test]
fn a_caught_panic_leaves_its_stack_unless_inside_a_record() {
    let traced = Scenario::new(SCENARIO, &["ended", "caught-and-exits"]).run();
    assert_eq!((stacks(traced.main_thread()), traced.messages().len()), (1, 2));
    let traced = Scenario::new(SCENARIO, &["ended", "caught-and-exits"]).env("TRACER_ENABLE", "0").run();
    assert!(traced.files.is_empty());
    let traced = Scenario::new(SCENARIO, &["display"]).run();
    assert!(traced.stderr().contains("a Display that panics"), "{}", traced.said());
    let main = traced.main_thread();
    assert_eq!((main.end().lost, stacks(main)), (1, 0), "{}", traced.said());
}
