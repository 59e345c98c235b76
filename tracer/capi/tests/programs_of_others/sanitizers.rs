//! Programs that are compiled with a sanitizer are traced, and the sanitizer reports the same as without the tracer.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use support::programs::{in_part, installed_programs};

use super::compiled::{Program, calls, counted, linking, shared_library, tracemerge};

/// The sanitizers that both compilers have.
const SANITIZERS: [&str; 4] = ["address", "thread", "leak", "undefined"];

/// The options that put hooks into functions, or leave room for them, and whether only clang has them.
const HOOKS: [(&[&str], bool); 4] = [
    (&["-finstrument-functions"], false),
    (&["-pg"], false),
    (&["-pg", "-mfentry"], false),
    (&["-fxray-instrument", "-fxray-instruction-threshold=1", "-fnoxray-link-deps"], true),
];

/// Returns the compilers and their sanitizers that work on this machine, and reports those that do not.
fn usable() -> Vec<(&'static str, &'static str, String)> {
    let mut usable = Vec::new();
    for compiler in installed_programs(["cc", "clang"]) {
        for sanitizer in SANITIZERS {
            let option = format!("-fsanitize={sanitizer}");
            if works(compiler, &option) {
                usable.push((compiler, sanitizer, option));
            } else {
                in_part(&format!("{option} of {compiler}"));
            }
        }
    }
    usable
}

/// Returns whether a program can be compiled with the option, and runs: some systems lack a runtime, or what it needs.
fn works(compiler: &str, option: &str) -> bool {
    let directory = tempfile::tempdir().expect("a directory");
    let program = directory.path().join("program");
    let mut command = Command::new(compiler);
    command.args([option, "-x", "c", "-", "-o"]).arg(&program).stdin(Stdio::piped()).stderr(Stdio::null());
    let mut compiling = command.spawn().expect("it runs");
    compiling.stdin.take().expect("a pipe").write_all(b"int main(void) { return 0; }").expect("it reads");
    compiling.wait().expect("it ends").success()
        && Command::new(&program).output().is_ok_and(|output| output.status.success())
}

/// Runs the program by `tracemerge run`, with its traces in `place`, and returns the lines of the merge, too.
fn run(
    program: &Program,
    place: &Path,
    arguments: &[&str],
    libraries: Option<&str>,
) -> (Output, Vec<String>) {
    let merged = place.join("merged");
    let mut command = tracemerge(&place.join("runtime"));
    command.args(["run", "--quiet", "--all-runs", "--symbols", "-o"]).arg(&merged).arg(&program.path);
    // On a machine with much load, the program waits for the tracer, however long that takes.
    command.args(arguments).env("TRACER_DIR", place).env("TRACER_MAX_STALL", "60s");
    if let Some(libraries) = libraries {
        command.env("LD_PRELOAD", libraries);
    }
    let output = command.output().expect("it runs");
    let lines = std::fs::read_to_string(merged).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    (output, lines.lines().map(str::to_owned).collect())
}

/// Returns the functions of the program in the call stacks that a sanitizer has printed, and its lines about errors.
fn report(output: &Output) -> Vec<String> {
    let said = String::from_utf8_lossy(&output.stderr);
    let mut report = Vec::new();
    for line in said.lines() {
        if line.trim_start().starts_with('#') {
            let names = ["fault", "outer", "main"];
            report.extend(line.split_whitespace().filter(|word| names.contains(word)).map(str::to_owned));
        } else if line.starts_with("SUMMARY: ") || line.contains(" runtime error: ") {
            // Without the addresses and the path of the program.
            report.extend(line.split_whitespace().filter(|word| !word.contains('/')).map(str::to_owned));
        }
    }
    report
}

#[test]
fn the_calls_of_programs_with_sanitizers_are_those_that_they_count() {
    let all = usable().into_iter().flat_map(|usable| HOOKS.map(|hooks| (usable.clone(), hooks)));
    for ((compiler, sanitizer, option), (hooks, is_of_clang)) in all {
        if is_of_clang && compiler != "clang" {
            continue;
        }
        let said = format!("{compiler} {option} {hooks:?}");
        let program = Program::compile(compiler, "calls.c", &[hooks, &[&option]].concat());
        for how in ["threads", "signals", "forks"] {
            // A fork can stop a child for ever if another thread is inside the allocator of AddressSanitizer.
            if (how == "forks" && sanitizer != "thread") || (how != "threads" && hooks != HOOKS[0].0) {
                continue;
            }
            let place = tempfile::tempdir().expect("a directory");
            let (output, lines) = run(&program, place.path(), &[how], None);
            assert_eq!(output.status.code(), Some(0), "{said} {how}: {output:?}");
            assert_eq!(report(&output), [""; 0], "{said} {how}: {output:?}");
            let counts = counted(&String::from_utf8_lossy(&output.stdout));
            assert!(!counts.is_empty(), "{said} {how}");
            let entered = calls(&lines).entered;
            for (function, count) in &counts {
                assert_eq!(entered.get(function), Some(count), "{said} {how} {function}");
            }
        }
    }
}

#[test]
fn sanitizers_report_the_same_as_without_the_tracer() {
    let linking = linking();
    for (compiler, sanitizer, option) in usable() {
        for linked in [&[][..], &linking] {
            let said = format!("{compiler} {option} {linked:?}");
            let options = [&["-finstrument-functions", &option], linked].concat();
            let program = Program::compile(compiler, "faults.c", &options);
            let untraced = Command::new(&program.path).arg(sanitizer).output().expect("it runs");
            let expected = report(&untraced);
            assert!(expected.len() > 2, "{said}: {untraced:?}");
            let place = tempfile::tempdir().expect("a directory");
            let (output, lines) = run(&program, place.path(), &[sanitizer], None);
            assert_eq!(report(&output), expected, "{said}: {output:?}");
            assert_eq!(output.status.code(), untraced.status.code(), "{said}: {output:?}");
            assert_eq!(output.stdout, untraced.stdout, "{said}");
            // `main`, `outer` and `fault`. If the sanitizer ends the process at once, they may have no names.
            assert_eq!(calls(&lines).entered.values().sum::<u64>(), 3, "{said}: {lines:?}");
        }
    }
}

#[test]
fn libraries_of_the_user_come_first_unless_a_sanitizer_refuses_that() {
    let library = "libm.so.6";
    for (compiler, sanitizer, option) in usable().into_iter().filter(|(compiler, ..)| *compiler == "cc") {
        let program = Program::compile(compiler, "starts.c", &["-finstrument-functions", &option]);
        let place = tempfile::tempdir().expect("a directory");
        // The program starts itself again. AddressSanitizer refuses a library before itself in this child.
        let (output, _) = run(&program, place.path(), &["0"], Some(library));
        let (printed, said) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let is_refusing = sanitizer == "address";
        assert_eq!(said.contains("libasan.so"), is_refusing, "{option}: {said}");
        let child = format!("child: LD_PRELOAD={library} TRACER_PRELOADED=(none)");
        assert_eq!(printed.starts_with(&child), !is_refusing, "{option}: {printed} {said}");
        assert_eq!(output.status.code(), Some(0), "{option}: {said}");
    }
}

#[test]
fn a_program_that_is_linked_with_the_library_is_not_preloaded() {
    for options in [&["-finstrument-functions"][..], &[]] {
        let program = Program::compile("cc", "starts.c", &[options, &linking()].concat());
        let place = tempfile::tempdir().expect("a directory");
        let mut command = tracemerge(&place.path().join("runtime"));
        command.arg("run").arg(&program.path).arg("0").env("TRACER_DIR", place.path());
        let output = command.env("LD_DEBUG", "files").output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr);
        let name = shared_library();
        let loads =
            said.lines().filter(|line| line.contains("calling init: ") && line.contains("libtracer.so"));
        // The program and its child, which is the same program.
        assert_eq!(loads.count(), 2, "{}: {said}", name.display());
        let printed = String::from_utf8_lossy(&output.stdout);
        assert!(printed.starts_with("child: LD_PRELOAD=(none) TRACER_PRELOADED=(none)"), "{printed}");
    }
}
