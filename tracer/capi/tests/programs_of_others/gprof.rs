//! Programs that are compiled for `gprof` (`-pg`) have each of their calls in their traces, with their ends, and
//! their results are the same as without: for any content of the registers at entries and ends, and for any way of
//! leaving a function.

use std::collections::BTreeMap;
use std::process::Command;

use support::programs::{installed_programs, lacks};

use crate::compiled::{Program, calls, counted, installed, linking, shared_library, tracemerge};

/// The options by which compilers put hooks into functions: after a function has made its frame, and before that.
const HOOKS: [&[&str]; 2] = [&["-pg"], &["-pg", "-mfentry"]];

/// The arguments of `returns.c` with which its calls are the same each time.
const MANNERS: [&str; 6] = ["values", "jumped-to", "deep", "backtraces", "coroutines", "children"];
const BY_CHANCE: [&str; 2] = ["signals", "jumps"];

/// Compiles `source` with these options, and links it with the shared library.
fn linked(compiler: &str, source: &str, options: &[&str]) -> Program {
    Program::compile(compiler, source, &[options, &linking()].concat())
}

/// Returns the untraced program's output.
fn untraced(program: &Program, arguments: &[&str]) -> String {
    let mut command = Command::new(&program.path);
    command.args(arguments).env_remove("TRACER_ENABLE").current_dir(program.beside(""));
    let output = command.output().expect("it runs");
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}

fn assert_same_counts(counts: &BTreeMap<String, u64>, entered: &BTreeMap<String, u64>, how: &str) {
    assert!(!counts.is_empty(), "{how}");
    for (name, count) in counts {
        assert_eq!(entered.get(name), Some(count), "{how}: {name}: {entered:?}");
    }
}

#[test]
fn arguments_and_results_are_preserved_and_each_call_is_recorded() {
    let all = installed_programs(["cc", "clang"])
        .into_iter()
        .flat_map(|compiler| HOOKS.map(|hooks| (compiler, hooks)));
    for (compiler, hooks) in all {
        // Tail calls are jumps.
        let program = linked(compiler, "returns.c", &[hooks, &["-foptimize-sibling-calls"]].concat());
        for how in MANNERS {
            let (said, traced) = (format!("{compiler} {hooks:?} {how}"), program.run(&[how]));
            assert_eq!(traced.stdout(), untraced(&program, &[how]), "{said}");
            let calls = calls(&program.merged(&traced));
            assert_same_counts(&counted(&traced.stdout()), &calls.entered, &said);
            // A forked child leaves a function that its parent has entered.
            let elsewhere = u64::from(how == "children");
            assert!(how == "coroutines" || calls.not_innermost == elsewhere, "{said}: {calls:?}");
            assert!(calls.open.values().all(Vec::is_empty), "{said}: {calls:?}");
        }
        for how in BY_CHANCE {
            let traced = program.scenario(&[how]).run().succeeded();
            assert_eq!(traced.stdout(), untraced(&program, &[how]), "{compiler} {hooks:?} {how}");
            // A jump out of a handler that has interrupted a record loses that record.
            let entered = calls(&program.merged_with_losses(&traced)).entered;
            assert!(entered.values().sum::<u64>() > 1_000, "{compiler} {hooks:?} {how}: {entered:?}");
        }
        assert!(!program.beside("gmon.out").exists());
    }
}

#[test]
fn jumps_coroutines_signals_and_forks_are_recorded_as_by_other_hooks() {
    for (compiler, hooks) in installed_programs(["cc", "clang"]).into_iter().zip(HOOKS) {
        let program = linked(compiler, "calls.c", hooks);
        for how in ["plain", "threads", "jumps", "coroutines", "signals", "forks"] {
            let (said, traced) = (format!("{compiler} {hooks:?} {how}"), program.run(&[how]));
            assert_eq!(traced.stdout(), untraced(&program, &[how]), "{said}");
            let calls = calls(&program.merged(&traced));
            assert_same_counts(&counted(&traced.stdout()), &calls.entered, &said);
            // Functions that a jump has left are recorded as left when the next function is entered.
            assert_eq!(calls.not_innermost, 0, "{said}: {calls:?}");
        }
    }
}

#[test]
fn a_debugger_shows_the_callers_and_stops_at_return_addresses() {
    if lacks(&["gdb"]) {
        return;
    }
    for hooks in HOOKS {
        let program = linked("cc", "calls.c", hooks);
        let scenario = program.scenario(&["plain"]);
        let mut command = Command::new("gdb");
        command.args(["-batch", "-nx", "-iex", "set debuginfod enabled off"]);
        for step in ["break leaf", "run plain", "backtrace", "finish", "delete", "continue"] {
            command.args(["-ex", step]);
        }
        command.env("TRACER_ENABLE", "1").env("TRACER_DIR", scenario.directory.path());
        command.env("TRACER_RUNTIME_DIR", scenario.runtime.path());
        let output = command.arg(&program.path).output().expect("gdb runs");
        let shown = String::from_utf8_lossy(&output.stdout);
        // From the innermost function to `main`, without gaps; the trampolines of the library stand between them.
        let frames = shown.lines().filter(|line| line.starts_with('#'));
        let own = |name: &str| frames.clone().filter(|line| line.contains(&format!(" {name} ("))).count();
        assert_eq!((own("leaf"), own("fib"), own("main")), (1, 12, 1), "{hooks:?}: {output:?}");
        assert!(shown.contains("Value returned is $1 = "), "{hooks:?}: {output:?}");
        assert!(shown.contains("exited normally"), "{hooks:?}: {output:?}");
        let expected = untraced(&program, &["plain"]);
        for line in expected.lines() {
            assert!(shown.lines().any(|shown| shown == line), "{hooks:?} {line}: {output:?}");
        }
    }
}

#[test]
fn exceptions_end_the_calls_that_they_leave() {
    if lacks(&["g++"]) {
        return;
    }
    let compilers = installed_programs(["g++", "clang++"]);
    let all = [("g++", HOOKS[0]), ("g++", HOOKS[1]), ("clang++", HOOKS[0])];
    for (compiler, hooks) in all.into_iter().filter(|(compiler, _)| compilers.contains(compiler)) {
        let program = linked(compiler, "exceptions.cpp", hooks);
        let traced = program.run(&[]);
        assert_eq!(traced.stdout(), untraced(&program, &[]));
        let calls = calls(&program.merged(&traced));
        assert_same_counts(&counted(&traced.stdout()), &calls.entered, compiler);
        assert_eq!(calls.not_innermost, 0, "{compiler} {hooks:?}: {calls:?}");
        assert!(calls.open.values().all(Vec::is_empty), "{calls:?}");
    }
}

#[test]
fn a_static_executable_is_traced() {
    let archive = installed().join("lib/libtracer.a");
    let archive = archive.to_str().expect("text");
    let options = ["-pg", "-static", "-Wl,--allow-multiple-definition", archive];
    let program = Program::compile("cc", "returns.c", &options);
    for how in ["values", "deep"] {
        let traced = program.run(&[how]);
        let calls = calls(&program.merged(&traced));
        assert_same_counts(&counted(&traced.stdout()), &calls.entered, how);
        assert_eq!(calls.not_innermost, 0, "{calls:?}");
    }
}

#[test]
fn run_loads_the_library_by_itself() {
    for hooks in HOOKS {
        let program = Program::compile("cc", "returns.c", hooks);
        let scenario = program.scenario(&["values"]);
        let mut command = tracemerge(scenario.runtime.path());
        command.env("TRACER_DIR", scenario.directory.path()).current_dir(program.beside(""));
        command.args(["run", "--show", "report"]).arg(&program.path).arg("values");
        let output = command.output().expect("it runs");
        let shown = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{output:?}");
        for name in ["integers", "doubles", "extended", "complexes", "structures", "variadic"] {
            assert!(shown.lines().any(|line| line.contains(name)), "{name}: {shown}");
        }
    }
}

#[test]
fn an_untraced_program_leaves_no_trace_files() {
    let program = Program::compile("cc", "returns.c", &["-pg"]);
    let library = shared_library();
    let scenario = program.scenario(&["values"]).without("TRACER_ENABLE");
    let traced = scenario.env("LD_PRELOAD", library.to_str().expect("text")).run().succeeded();
    assert!(traced.files.is_empty(), "{:?}", traced.files.keys());
}
