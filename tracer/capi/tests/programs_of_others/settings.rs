//! The settings that users make for their programs and for Cargo apply if every function is traced.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use trace_format::meta::{ClockKind, Meta};

use crate::compiled::{Calls, Program, calls, counted, installed, tracemerge};
use crate::rust::{Workspace, forget_cargo, text};

#[test]
fn calls_are_the_same_with_each_clock_format_and_ring_size() {
    let program = Program::linked("cc", "calls.c");
    for (variable, value, clock) in [
        ("TRACER_CLOCK", "fast", ClockKind::Fast),
        ("TRACER_CLOCK", "ordered", ClockKind::Ordered),
        ("TRACER_CLOCK", "system", ClockKind::System),
        ("TRACER_FORMAT", "text", ClockKind::Fast),
        ("TRACER_RING_SIZE", "64K", ClockKind::Fast),
    ] {
        for how in ["plain", "threads", "signals", "forks"] {
            let said = format!("{variable}={value} {how}");
            let traced = program.scenario(&[how]).env(variable, value).run().succeeded();
            assert_eq!(traced.stderr(), "", "{said}");
            traced.assert_whole();
            let calls = calls(&program.merged(&traced));
            for (name, count) in counted(&traced.stdout()) {
                assert_eq!(calls.entered.get(&name), Some(&count), "{said} {name}: {:?}", calls.entered);
            }
            assert_eq!(calls.not_innermost, 0, "{said}: {calls:?}");
            // If the processor's counter cannot be trusted, the system's clock is read.
            let clocks = traced.files.values().flat_map(|file| &file.metas).filter_map(|meta| match meta {
                Meta::Run(run) => Some(run.clock),
                _ => None,
            });
            assert!(clocks.clone().count() > 0, "{said}");
            assert!(clocks.clone().all(|found| found == clock || found == ClockKind::System), "{said}");
        }
    }
}

#[test]
fn a_flight_recorder_keeps_the_newest_calls_before_the_end() {
    let program = Program::linked("cc", "calls.c");
    let scenario = program.scenario(&["overflows"]);
    let traced = scenario.env("TRACER_FULL", "overwrite").env("TRACER_RING_SIZE", "64K").run();
    assert_eq!(traced.output.status.signal(), Some(11), "{:?}", traced.output);
    let calls = calls(&program.merged_with_losses(&traced));
    // The recursion has more calls than the ring has room for, at 16 bytes for each; a block may be in the middle of
    // being overwritten.
    assert_eq!(calls.entered.keys().collect::<Vec<_>>(), ["deep"], "{:?}", calls.entered);
    assert!((2048..=4096).contains(&calls.entered["deep"]), "{:?}", calls.entered);
    let open: usize = calls.open.values().map(Vec::len).sum();
    assert_eq!(open as u64, calls.entered["deep"], "none of them was left");
}

#[test]
fn a_flight_recorder_keeps_the_selected_calls() {
    let program = Program::linked("cc", "calls.c");
    let run = |variable: &str, value: &str| {
        let scenario = program.scenario(&["overflows"]).env(variable, value);
        let traced = scenario.env("TRACER_FULL", "overwrite").env("TRACER_RING_SIZE", "64K").run();
        assert_eq!(traced.output.status.signal(), Some(11), "{:?}", traced.output);
        calls(&program.merged_with_losses(&traced))
    };
    let entered =
        |calls: &Calls| calls.entered.iter().map(|(name, count)| (name.clone(), *count)).collect::<Vec<_>>();
    // The first calls of the program stay if the recursion is left out or is too deep.
    let outer =
        [("before_main", 1), ("main", 1), ("overflows", 1)].map(|(name, count)| (name.to_owned(), count));
    assert_eq!(entered(&run("TRACER_FUNCTIONS", "*,-deep")), outer);
    let shallow = entered(&run("TRACER_MAX_DEPTH", "5"));
    assert_eq!(shallow, [&[outer[0].clone(), ("deep".to_owned(), 3)], &outer[1..]].concat());
    // If all calls are still too short, the stack at the end is recorded: the innermost calls, as far as they are
    // held back, and the newest of those around them.
    let held = run("TRACER_MIN_DURATION", "1h");
    let open: usize = held.open.values().map(Vec::len).sum();
    assert!(held.entered["deep"] >= 2048 && open as u64 == held.entered.values().sum::<u64>(), "{held:?}");
}

#[test]
fn a_program_with_hooks_is_switched_on_and_off_from_outside() {
    let program = Program::linked("cc", "durations.c");
    let mut scenario = program.scenario(&["slowly"]).env("TRACER_ENABLE", "paused");
    let mut child = scenario.command().spawn().expect("it starts");
    let has = |word: &str| {
        let mut command = tracemerge(scenario.runtime.path());
        command.arg(word).arg(child.id().to_string()).output().expect("it runs").status.success()
    };
    let entered = || {
        let merged = program.beside("merged");
        let mut command = tracemerge(scenario.runtime.path());
        command.args(["--symbols", "-o"]).arg(&merged).arg(scenario.directory.path().join("durations"));
        command.output().expect("it runs");
        let lines = fs::read_to_string(merged).unwrap_or_default();
        calls(&lines.lines().map(str::to_owned).collect::<Vec<_>>()).entered
    };
    // The process must have begun before it can be controlled.
    support::wait_until(60, "it is on", || has("on"));
    support::wait_until(60, "it records calls", || entered().contains_key("level_3"));
    assert!(has("off"), "it is switched off");
    let before = entered();
    std::thread::sleep(std::time::Duration::from_millis(100));
    child.kill().expect("it is killed");
    child.wait().expect("its end");
    assert_eq!(entered(), before, "nothing is recorded any more");
}

#[test]
fn the_users_cargo_configuration_stays_in_effect() {
    let workspace = Workspace::new();
    let place = workspace.place.path();
    let write = |name: &str, text: &str| fs::write(place.join(name), text).expect("a file");
    fs::create_dir(place.join(".cargo")).expect("a directory");
    let config = "[build]\nrustflags = [\"--cfg\", \"feature=\\\"more\\\"\"]\n";
    write("wrapper", "#!/bin/sh\necho \"$*\" >> \"$0.called\"\nexec \"$@\"\n");
    let wrapper = place.join("wrapper");
    fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o700)).expect("it is a program");
    for (variable, deps) in [
        ("RUSTC_WORKSPACE_WRAPPER", &[][..]),
        ("RUSTC_WRAPPER", &["--deps"]),
        ("rustc-workspace-wrapper", &[]),
        ("rustc-wrapper", &["--deps"]),
    ] {
        // In the environment, or in a file; a path in a file is relative to the file's directory.
        let is_in_file = variable.starts_with("rustc");
        let named = if is_in_file { format!("{variable} = \"./wrapper\"\n") } else { String::new() };
        write(".cargo/config.toml", &format!("{config}{named}"));
        // Otherwise Cargo would not compile again crates that another wrapper has compiled.
        let _ = fs::remove_dir_all(place.join("target"));
        let mut command = Command::new(installed().join("bin/cargo-tracer"));
        forget_cargo(&mut command);
        // From another directory, in which the configuration is found as well.
        let output = command
            .args(["tracer", "run", "--manifest-path", "../app/Cargo.toml", "--show", "nothing"])
            .args(deps)
            .envs((!is_in_file).then_some((variable, &wrapper)))
            .current_dir(place.join("helper"))
            .output()
            .expect("it runs");
        let printed = text(&output.stdout);
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert!(printed.starts_with("42 8 42\nmore true\n"), "the flags are those of the user: {printed}");
        let called = fs::read_to_string(place.join("wrapper.called")).expect("the wrapper was called");
        let compiled = called.lines().find(|line| line.contains("--crate-name the_app")).expect("the crate");
        assert!(compiled.contains("-Cpasses=tsan") && compiled.contains("feature=\"more\""), "{compiled}");
        fs::remove_file(place.join("wrapper.called")).expect("it is there");
    }
}
