//! Programs in C and C++ that are compiled with `-finstrument-functions` have each of their calls in their traces:
//! the counts are equal to the programs' own counts, and their results are the same as without.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use support::programs::{installed_programs, lacks};

use crate::compiled::{Program, calls, counted, installed, linking, shared_library, tracemerge};

/// The names of the C compilers with which the tests compile programs.
const C: [&str; 2] = ["cc", "clang"];
const CPP: [&str; 2] = ["g++", "clang++"];
const ALL: [&str; 4] = ["cc", "clang", "g++", "clang++"];

/// The arguments of `calls.c` with which it can be run alone: each makes it call functions in another manner.
const MANNERS: [&str; 6] = ["plain", "threads", "jumps", "coroutines", "signals", "forks"];

/// Returns the untraced program's output in one manner.
fn untraced(program: &Program, arguments: &[&str]) -> String {
    let output =
        Command::new(&program.path).args(arguments).env_remove("TRACER_ENABLE").output().expect("it runs");
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}

/// Checks that each function in `counts` was entered as often as `counts` says.
fn assert_same_counts(counts: &BTreeMap<String, u64>, entered: &BTreeMap<String, u64>, how: &str) {
    assert!(!counts.is_empty(), "{how}");
    for (name, count) in counts {
        assert_eq!(entered.get(name), Some(count), "{how}: {name}: {entered:?}");
    }
}

#[test]
fn a_linked_program_has_each_call_traced_and_its_output_unchanged() {
    for compiler in installed_programs(ALL) {
        let program = Program::linked(compiler, "calls.c");
        for how in MANNERS {
            let traced = program.run(&[how]);
            assert_eq!(traced.stdout(), untraced(&program, &[how]), "{compiler} {how}");
            let calls = calls(&program.merged(&traced));
            assert_same_counts(&counted(&traced.stdout()), &calls.entered, &format!("{compiler} {how}"));
            // A program that jumps out of its functions, or has two stacks, leaves some without an end.
            let is_in_order = !["jumps", "coroutines"].contains(&how);
            assert!(!is_in_order || calls.not_innermost == 0, "{compiler} {how}: {calls:?}");
            // The last function that prints its counts is left before the process ends.
            let open: Vec<_> = calls.open.values().flatten().collect();
            assert!(how == "coroutines" || how == "forks" || open.is_empty(), "{compiler} {how}: {open:?}");
        }
    }
}

#[test]
fn a_preloaded_library_traces_a_program_linked_without_it() {
    for compiler in installed_programs(C) {
        let program = Program::compile(compiler, "calls.c", &["-finstrument-functions"]);
        let library = shared_library();
        let traced = program
            .scenario(&["threads"])
            .env("LD_PRELOAD", library.to_str().expect("text"))
            .run()
            .succeeded();
        traced.assert_whole();
        let calls = calls(&program.merged(&traced));
        assert_same_counts(&counted(&traced.stdout()), &calls.entered, compiler);
        assert_eq!(calls.not_innermost, 0);
    }
}

#[test]
fn a_static_executable_is_traced_by_the_static_library() {
    let archive = installed().join("lib/libtracer.a");
    for link in ["-static", "-no-pie"] {
        let archive = archive.to_str().expect("text");
        let program = Program::compile(
            "cc",
            "calls.c",
            &["-finstrument-functions", link, "-Wl,--allow-multiple-definition", archive],
        );
        let traced = program.run(&["threads"]);
        let calls = calls(&program.merged(&traced));
        assert_same_counts(&counted(&traced.stdout()), &calls.entered, link);
    }
}

#[test]
fn a_plugin_is_traced_from_its_constructor_at_each_load() {
    for compiler in installed_programs(ALL) {
        let program = Program::linked(compiler, "calls.c");
        let plugin = Program::compile(compiler, "plugin.c", &["-finstrument-functions", "-shared", "-fPIC"]);
        let traced = program.run(&["plugins", plugin.path.to_str().expect("a path")]);
        let calls = calls(&program.merged(&traced));
        assert_same_counts(&counted(&traced.stdout()), &calls.entered, compiler);
        let of_plugin = [("of_plugin", 20), ("inside_plugin", 40), ("plugin_is_loaded", 20)];
        let of_plugin = of_plugin.map(|(name, count)| (name.to_owned(), count));
        assert_same_counts(&BTreeMap::from(of_plugin), &calls.entered, compiler);
    }
}

#[test]
fn a_plugin_may_load_the_library_into_a_running_program() {
    let program = Program::compile("cc", "calls.c", &[]);
    let run = |options: &[&str]| {
        let plugin = Program::compile("cc", "plugin.c", &[&["-shared", "-fPIC"], options].concat());
        let traced = program.run(&["plugins", plugin.path.to_str().expect("a path")]);
        // The plugin's file must exist when its names are looked up.
        (traced, plugin)
    };
    // If the program has only the hooks of glibc, they take precedence, unless the plugin's are bound to its own.
    let archive = installed().join("lib/libtracer.a");
    let archive = archive.to_str().expect("text");
    let (traced, _plugin) = run(&["-finstrument-functions", archive, "-Wl,-Bsymbolic"]);
    // The library stays loaded, and its plugin with it: so the constructor was called once.
    let expected = [("inside_plugin", 21), ("of_plugin", 20), ("plugin_is_loaded", 1)];
    let expected = expected.map(|(name, count)| (name.to_owned(), count));
    assert_eq!(calls(&program.merged(&traced)).entered, BTreeMap::from(expected));
    let said: Vec<String> = (0..20).map(|turn| format!("the plugin says {turn}")).collect();
    for library in [&linking()[..], &[archive]] {
        let (traced, _) = run(&[&["-DSAYS"], library].concat());
        assert_eq!(traced.messages(), said, "{library:?}");
    }
}

#[test]
fn exceptions_restore_the_depth() {
    if lacks(&["g++"]) {
        return;
    }
    for compiler in installed_programs(CPP) {
        let program = Program::linked(compiler, "exceptions.cpp");
        let traced = program.run(&[]);
        assert_eq!(traced.stdout(), untraced(&program, &[]));
        let calls = calls(&program.merged(&traced));
        assert_same_counts(&counted(&traced.stdout()), &calls.entered, compiler);
        // gcc calls the hook while an exception unwinds the stack, clang does not: then the end of the call around
        // them ends these calls, too.
        assert!(compiler != "g++" || calls.not_innermost == 0, "{calls:?}");
        assert!(calls.open.values().all(Vec::is_empty), "{calls:?}");
    }
}

#[test]
fn the_documented_option_leaves_out_the_standard_library() {
    if lacks(&["g++"]) {
        return;
    }
    const OPTION: &str = "-finstrument-functions-exclude-file-list=/usr/include,/usr/lib";
    assert!(include_str!("../../../../docs/functions.md").contains(OPTION));
    let entered = |program: Program| {
        let traced = program.run(&[]);
        let calls = calls(&program.merged(&traced));
        assert_same_counts(&counted(&traced.stdout()), &calls.entered, "g++");
        calls.entered
    };
    let all = entered(Program::linked("g++", "standard.cpp"));
    assert!(all.keys().any(|name| name.contains("std::")), "{all:?}");
    let options = [&["-finstrument-functions", OPTION], &linking()[..]].concat();
    let own = entered(Program::compile("g++", "standard.cpp", &options));
    assert_eq!(own.keys().collect::<Vec<_>>(), ["main", "shorter"]);
}

#[test]
fn a_stack_overflow_ends_the_process_and_keeps_its_calls() {
    let program = Program::linked("cc", "calls.c");
    let traced = program.scenario(&["overflows"]).run();
    assert_eq!(traced.output.status.signal(), Some(11), "{:?}", traced.output);
    let calls = calls(&program.merged(&traced));
    let deep = calls.entered.get("deep").copied().unwrap_or(0);
    // Each call takes 300 bytes and more of 8 MiB.
    assert!(deep > 5_000, "{deep}");
    let open: Vec<_> = calls.open.values().flatten().filter(|name| *name == "deep").collect();
    assert_eq!(open.len() as u64, deep, "none of them was left");
}

#[test]
fn a_program_whose_tracing_is_off_makes_no_file() {
    let program = Program::linked("cc", "calls.c");
    let traced = program.scenario(&["threads"]).without("TRACER_ENABLE").run().succeeded();
    assert!(traced.files.is_empty(), "{:?}", traced.files.keys());
    assert!(traced.left_in_runtime().is_empty());
}

#[test]
fn call_sites_are_recorded_on_request() {
    let program = Program::linked("cc", "calls.c");
    let traced = program.scenario(&["plain"]).env("TRACER_CALL_SITES", "1").run().succeeded();
    traced.assert_whole();
    let entered =
        traced.files.values().flat_map(|file| &file.calls).filter(|(_, kind, _)| kind.byte() == b'>').count();
    let stacks: usize = traced.files.values().map(|file| file.stacks.len()).sum();
    assert_eq!(stacks, entered);
    // The second address is the return address: in the function that has called.
    let merged = program.merged(&traced);
    let of_leaf =
        merged.iter().skip_while(|line| !line.contains(" > hook ") || !line.contains(" leaf at ")).nth(1);
    let of_leaf = of_leaf.expect("a stack");
    assert!(
        of_leaf.contains(" ^ ") && of_leaf.contains("(leaf at ") && of_leaf.contains("(fib at "),
        "{of_leaf}"
    );
}

#[test]
fn run_preloads_the_library_for_the_program_and_not_its_children() {
    let program = Program::compile("cc", "starts.c", &["-finstrument-functions"]);
    let run = |arguments: &[&str], preload: Option<&str>| {
        let scenario = program.scenario(&[]);
        let mut command = tracemerge(scenario.runtime.path());
        command.arg("run").arg(&program.path).args(arguments).env("TRACER_DIR", scenario.directory.path());
        if let Some(libraries) = preload {
            command.env("LD_PRELOAD", libraries);
        }
        (command.output().expect("it runs"), scenario)
    };
    let (output, scenario) = run(&["7"], None);
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    // The program prints a part of its child's environment, and the child is not traced.
    let printed = String::from_utf8(output.stdout).expect("text");
    assert_eq!(printed, "child: LD_PRELOAD=(none) TRACER_PRELOADED=(none) TRACER_ENABLE=1\n");
    let said = String::from_utf8(output.stderr).expect("text");
    assert!(said.contains("ended with exit status: 7") && said.contains("merged 1 file"), "{said}");
    let files = support::names(scenario.directory.path());
    assert_eq!(
        files.iter().filter(|name| !name.to_string_lossy().ends_with(".merge")).count(),
        1,
        "{files:?}"
    );

    // Libraries that the user preloads are kept for all of them.
    let (output, _) = run(&["0"], Some("libm.so.6"));
    let printed = String::from_utf8(output.stdout).expect("text");
    assert!(printed.starts_with("child: LD_PRELOAD=libm.so.6 TRACER_PRELOADED=(none)"), "{printed}");
}

#[test]
fn a_missing_library_is_reported_and_the_program_runs() {
    let program = Program::compile("cc", "starts.c", &["-finstrument-functions"]);
    let scenario = program.scenario(&[]);
    let alone = program.beside("tracemerge");
    std::fs::copy(installed().join("bin/tracemerge"), &alone).expect("a copy");
    let mut command = Command::new(&alone);
    command.arg("run").arg(&program.path).arg("0").env("TRACER_RUNTIME_DIR", scenario.runtime.path());
    let output = support::output_of_copy(&mut command);
    let said = String::from_utf8(output.stderr).expect("text");
    assert!(said.contains("libtracer.so.0 is not installed, so its functions are not traced"), "{said}");
    assert!(String::from_utf8(output.stdout).expect("text").starts_with("child: "));
}

#[test]
fn an_allocator_that_the_tracer_itself_calls_may_be_traced() {
    for compiler in installed_programs(C) {
        let program = Program::linked(compiler, "allocator.c");
        let traced = program.scenario(&[]).run().succeeded();
        let calls = calls(&program.merged_with_losses(&traced));
        let counts = counted(&traced.stdout());
        assert_same_counts(&counts, &calls.entered, compiler);
        // There are more: those that the tracer has called while it began, as far as it was ready to record them.
        assert!(calls.entered["calloc"] >= counts["of_program"], "{calls:?}");
        // The others are counted as lost; no call of the program is among them.
        let lost: u64 = traced.files.values().map(|file| file.end().lost).sum();
        assert!(lost < 100 && calls.not_innermost == 0, "{lost}: {calls:?}");
    }
}

#[test]
fn c_library_functions_that_the_tracer_itself_calls_may_be_traced() {
    let wrappers = ["memset", "memcpy", "memmove", "memcmp", "strlen", "clock_gettime", "getpid"];
    let settings = [
        ("TRACER_ENABLE", "1"),
        ("TRACER_CLOCK", "ordered"),
        ("TRACER_CLOCK", "system"),
        ("TRACER_FUNCTIONS", "*"),
        ("TRACER_MIN_DURATION", "1ns"),
        ("TRACER_CALL_SITES", "1"),
    ];
    let compilers = installed_programs(C);
    for (compiler, hooks) in [
        ("cc", &["-finstrument-functions"][..]),
        ("clang", &["-finstrument-functions"]),
        ("cc", &["-pg"]),
        ("cc", &["-pg", "-mfentry"]),
    ] {
        if !compilers.contains(&compiler) {
            continue;
        }
        let options = [hooks, &["-fno-builtin"], &linking()].concat();
        let program = Program::compile(compiler, "wrappers.c", &options);
        for (variable, value) in settings {
            let said = format!("{compiler} {hooks:?} {variable}={value}");
            let traced = program.scenario(&[]).env(variable, value).run().succeeded();
            assert_eq!(traced.stdout(), untraced(&program, &[]), "{said}");
            let calls = calls(&program.merged_with_losses(&traced));
            let counts = counted(&traced.stdout());
            assert_same_counts(&counts, &calls.entered, &said);
            // There are more: those that the tracer calls outside of its hooks.
            for wrapper in wrappers {
                assert!(
                    calls.entered[wrapper] >= counts["of_program"],
                    "{said} {wrapper}: {:?}",
                    calls.entered
                );
            }
            assert_eq!(calls.not_innermost, 0, "{said}: {calls:?}");
        }
    }
}

/// Compiles a program with the sleds of XRay in each function, and links it without XRay's own library.
fn with_sleds(source: &str, compiler: &str, optimization: &[&str]) -> Program {
    let sleds = ["-fxray-instrument", "-fxray-instruction-threshold=1", "-fnoxray-link-deps"];
    Program::compile(compiler, source, &[&sleds, optimization].concat())
}

#[test]
fn dormant_hooks_wake_if_tracing_is_on_and_change_nothing_otherwise() {
    if lacks(&["clang", "clang++"]) {
        return;
    }
    let library = shared_library();
    let library = library.to_str().expect("text");
    // If the compiler makes a loop of a recursion, it has fewer calls than the program counts.
    for optimization in [&["-O0"][..], &["-O2", "-fno-optimize-sibling-calls"]] {
        let program = with_sleds("calls.c", "clang", optimization);
        for how in ["plain", "threads", "signals", "forks", "jumps", "coroutines"] {
            let off = untraced(&program, &[how]);
            let preloaded =
                Command::new(&program.path).arg(how).env("LD_PRELOAD", library).output().expect("it runs");
            assert_eq!(
                (String::from_utf8_lossy(&preloaded.stdout), preloaded.stderr.len()),
                (off.as_str().into(), 0)
            );
            let traced = program.scenario(&[how]).env("LD_PRELOAD", library).run().succeeded();
            traced.assert_whole();
            assert_eq!(traced.stdout(), off, "{optimization:?} {how}");
            let calls = calls(&program.merged(&traced));
            assert_same_counts(
                &counted(&traced.stdout()),
                &calls.entered,
                &format!("{optimization:?} {how}"),
            );
            let is_in_order = !["jumps", "coroutines"].contains(&how);
            assert!(!is_in_order || calls.not_innermost == 0, "{optimization:?} {how}: {calls:?}");
        }
    }
    // An exception leaves functions without an exit; the end of the call around them ends these calls.
    let program = with_sleds("exceptions.cpp", "clang++", &["-O1"]);
    let traced = program.scenario(&[]).env("LD_PRELOAD", library).run().succeeded();
    assert_eq!(traced.stdout(), untraced(&program, &[]));
    let calls = calls(&program.merged(&traced));
    assert_same_counts(&counted(&traced.stdout()), &calls.entered, "exceptions");
}

#[test]
fn handlers_of_dormant_hooks_preserve_arguments_and_results() {
    if lacks(&["clang"]) {
        return;
    }
    let library = shared_library();
    let program = with_sleds("values.c", "clang", &["-O2"]);
    let off = untraced(&program, &[]);
    assert!(off.ends_with("all as it was\n"), "{off}");
    // A ring that is full again and again uses the cold paths, too.
    for ring in ["16K", "1M"] {
        let scenario = program.scenario(&[]).env("LD_PRELOAD", library.to_str().expect("text"));
        let traced = scenario.env("TRACER_RING_SIZE", ring).run().succeeded();
        assert_eq!(traced.stdout(), off);
        let calls = calls(&program.merged(&traced));
        assert_same_counts(&counted(&off), &calls.entered, ring);
    }
}

#[test]
fn run_preloads_the_library_if_hooks_are_dormant() {
    if lacks(&["clang"]) {
        return;
    }
    let program = with_sleds("calls.c", "clang", &["-O1"]);
    let merged = program.beside("merged");
    let runtime = tempfile::tempdir().expect("a directory");
    let mut run = tracemerge(runtime.path());
    run.args(["run", "--quiet", "-o"]).arg(&merged).arg(&program.path).arg("plain");
    let output = run.env("TRACER_DIR", program.beside("")).output().expect("it runs");
    assert!(output.status.success(), "{output:?}");
    let text = std::fs::read_to_string(merged).expect("a merge");
    assert!(text.contains(" > hook "), "{text}");
}
