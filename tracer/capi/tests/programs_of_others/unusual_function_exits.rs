//! Functions of Rust that are left in ways that Rust does not know: by jumps, on other stacks, in forked children, in
//! libraries that are unloaded, in signal handlers, by calls that are jumps, and at the end of the stack. Functions
//! of C and C++ are tested in `functions.rs`.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output};

use support::{Scenario, Traced};

use crate::compiled::{Calls, calls, counted, shared_library, tracemerge};
use crate::rust::{Workspace, text};

/// Runs a program without tracing.
fn untraced(program: &Path, arguments: &[&str]) -> Output {
    Command::new(program).args(arguments).env_remove("TRACER_ENABLE").output().expect("it runs")
}

/// Returns the output of a view of the traces of `moves`.
fn shown(traced: &Traced, view: &[&str]) -> String {
    let mut command = tracemerge(traced.runtime.path());
    command.args(view).arg(traced.directory.path().join("moves"));
    let shown = command.output().expect("it runs");
    let said = text(&shown.stderr);
    let is_usual = |line: &str| line.starts_with("tracemerge: recovered ");
    assert!(shown.status.success() && said.lines().all(is_usual), "{said}");
    text(&shown.stdout)
}

/// Returns the calls in the merged traces of `moves`.
fn told(traced: &Traced) -> Calls {
    let merged = shown(traced, &["--quiet", "--symbols", "-o", "/dev/stdout"]);
    calls(&merged.lines().map(str::to_owned).collect::<Vec<_>>())
}

#[test]
fn each_rust_call_is_recorded_however_its_function_is_left() {
    let workspace = Workspace::new();
    for (profile, words) in
        [("debug", &["build", "--workspace"][..]), ("release", &["build", "--workspace", "--release"])]
    {
        for targets in [&[][..], &["--examples"]] {
            let output = workspace.cargo_tracer(&[words, targets].concat());
            assert!(output.status.success(), "{}", text(&output.stderr));
        }
        let program = workspace.built(profile, "examples/moves");
        let plugin = workspace.built(profile, "libplugin.so");
        let plugin = plugin.to_str().expect("a path");
        for how in ["forks", "jumps", "coroutines", "plugins", "signals"] {
            let untraced = untraced(&program, &[how, plugin]);
            assert!(untraced.status.success(), "{}", text(&untraced.stderr));
            let traced = Scenario::new(&program, &[how, plugin]).run().succeeded();
            assert_eq!((traced.stdout(), traced.stderr()), (text(&untraced.stdout), String::new()), "{how}");
            traced.assert_whole();
            let entered = told(&traced).entered;
            let counts = counted(&traced.stdout());
            assert!(!counts.is_empty());
            for (name, count) in counts {
                assert_eq!(entered.get(&name), Some(&count), "{profile} {how} {name}: {entered:?}");
            }
            // If a library is loaded and unloaded at once, the trace may have no module for its addresses. Without
            // optimization there are more functions than its two. The program loads the library 20 times.
            let calls = |name: &str| entered.get(name).copied().unwrap_or(0);
            let [outer, inner, unnamed] = ["of_plugin", "plugin::inside_plugin", ""].map(calls);
            let is_right = if how == "plugins" {
                outer <= 20 && inner <= 20 && outer + inner + unnamed >= 40
            } else {
                [outer, inner, unnamed] == [0, 0, 0]
            };
            assert!(is_right, "{profile} {how}: {entered:?}");
        }
    }
}

#[test]
fn a_report_names_the_recursion_of_a_stack_overflow_in_rust() {
    let workspace = Workspace::new();
    let output = workspace.cargo_tracer(&["build", "--release", "--examples"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let program = workspace.built("release", "examples/moves");
    let without = untraced(&program, &["overflows"]);
    let traced = Scenario::new(&program, &["overflows"]).run();
    // The standard library reports that, and aborts.
    let said = "thread 'main'";
    assert!(text(&without.stderr).contains(said), "{}", text(&without.stderr));
    assert!(traced.stderr().contains(said) && traced.stderr().contains("has overflowed its stack"));
    assert_eq!(
        (traced.output.status.signal(), without.status.signal()),
        (Some(6), Some(6)),
        "{:?}",
        traced.output
    );
    let calls = told(&traced);
    let deep = calls.entered["moves::deep"];
    // Each call takes 300 bytes and more of 8 MiB.
    assert!(deep > 5_000, "{deep}");
    let open = calls.open.values().flatten().filter(|name| *name == "moves::deep").count();
    assert_eq!(open as u64, deep, "none of them was left");
    let report = shown(&traced, &["report", "--quiet"]);
    // A line about waits for the tracer may come before it.
    let named = report.lines().find(|line| line.contains(" ended inside ")).expect("the recursion");
    let number =
        named.split(" ended inside ").nth(1).and_then(|rest| rest.split(' ').next()).expect("a number");
    assert_eq!(number.replace(',', ""), deep.to_string(), "{report}");
    assert!(
        named.contains(" calls of moves::deep. If the program does not end like this without hooks"),
        "{named}"
    );
}

#[test]
fn tail_calls_stay_jumps_with_dormant_hooks_only() {
    let workspace = Workspace::new();
    let build = |how: &[&str]| {
        let output = workspace.cargo_tracer(&[&["build", "--release", "--examples"], how].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
    };
    build(&["--dormant"]);
    let dormant = workspace.place.path().join("target/tracer/dormant").join(env!("HOST_OF_TEST"));
    let dormant = dormant.join("release/examples/moves");
    let without = untraced(&dormant, &["siblings"]);
    assert!(without.status.success(), "it needs no stack: {}", text(&without.stderr));
    let library = shared_library();
    let library = library.to_str().expect("text");
    let traced = Scenario::new(&dormant, &["siblings"]).env("LD_PRELOAD", library).run().succeeded();
    assert_eq!(traced.stdout(), text(&without.stdout));
    traced.assert_whole();
    let calls = told(&traced);
    for name in ["moves::even", "moves::odd"] {
        assert_eq!(calls.entered.get(name), counted(&traced.stdout()).get(name), "{name}");
    }
    // A jump ends the call that makes it.
    assert_eq!(calls.not_innermost, 0);
    build(&[]);
    let traced = Scenario::new(workspace.built("release", "examples/moves"), &["siblings"]).run();
    assert_eq!(traced.output.status.signal(), Some(6), "{:?}", traced.output);
    let report = shown(&traced, &["report", "--quiet"]);
    let is_named = |line: &str| line.contains(" ended inside ") && line.contains(" calls of moves::");
    assert!(report.lines().any(is_named), "{report}");
}
