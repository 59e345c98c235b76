//! The functions of libraries that a program opens for a moment have their names: each counts as often as the program
//! calls it.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use support::Scenario;

use crate::compiled::{Program, calls, linking, shared_library, tracemerge};

/// Compiles a library with these options into the directory of `program`.
fn library(program: &Program, name: &str, options: &[&str]) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/loads.c");
    let mut command = Command::new("cc");
    command.args(["-g", "-O1", "-Wall", "-Werror", "-finstrument-functions", "-shared", "-fPIC"]);
    command.arg(format!("-DLIBRARY={name}")).args(options).arg(source);
    command.arg("-o").arg(program.beside(&format!("lib{name}.so")));
    assert!(command.status().expect("a compiler").success());
}

#[test]
fn libraries_that_are_open_for_a_moment_have_names_at_the_same_addresses() {
    let own = ["-finstrument-functions", "-Wl,-rpath,$ORIGIN"];
    for is_preloaded in [false, true] {
        let linked = if is_preloaded { &[][..] } else { &linking()[..] };
        let program = Program::compile("cc", "loads.c", &[&own, linked].concat());
        library(&program, "one", &[]);
        library(&program, "two", &[]);
        library(&program, "broken", &["-DLACKS"]);
        let preloaded = shared_library();
        let mut scenario = program.scenario(&[]);
        if is_preloaded {
            scenario = scenario.env("LD_PRELOAD", preloaded.to_str().expect("text"));
        }
        let traced = scenario.run().succeeded();
        assert_eq!(traced.stdout(), "");
        // Ten times in the program and once in a child.
        let expected = [
            ("in_child", 2),
            ("inside_one", 11),
            ("inside_two", 11),
            ("main", 1),
            ("of_one", 11),
            ("of_two", 11),
            ("use", 22),
        ];
        let expected = expected.map(|(name, count)| (name.to_owned(), count));
        assert_eq!(calls(&program.merged(&traced)).entered, BTreeMap::from(expected), "{is_preloaded}");
    }
}

#[test]
fn a_program_that_the_loader_gets_as_an_argument_is_the_traced_one() {
    let program = Program::compile("cc", "loads.c", &["-finstrument-functions", "-DSHORT"]);
    let loader = Path::new("/lib64/ld-linux-x86-64.so.2");
    let library = shared_library();
    for chosen in ["", "TRACER_FUNCTIONS"] {
        let mut scenario = Scenario::new(loader, &[program.path.to_str().expect("text")]);
        scenario = scenario.env("LD_PRELOAD", library.to_str().expect("text")).env(chosen, "short_*");
        let traced = scenario.run().succeeded();
        // Its files have the program's name, and its functions are found in it.
        let entered = calls(&program.merged(&traced)).entered;
        let expected = [("main", 1), ("short_life", 1)].map(|(name, count)| (name.to_owned(), count));
        assert_eq!(entered, BTreeMap::from(expected).split_off(if chosen.is_empty() { "" } else { "s" }));
    }
}

#[test]
fn a_deleted_program_is_found_under_another_name_by_its_build_id() {
    let options = ["-finstrument-functions", "-DSHORT", "-Wl,--build-id"];
    let program = Program::compile("cc", "loads.c", &options);
    let kept = program.beside("kept");
    std::fs::create_dir_all(kept.join("of/monday")).expect("a directory");
    std::fs::copy(&program.path, kept.join("of/monday/another")).expect("a copy");
    let library = shared_library();
    let scenario = program.scenario(&[]).env("LD_PRELOAD", library.to_str().expect("text"));
    // The program deletes its file before it is traced.
    let traced = scenario.env("DELETES", "1").run().succeeded();
    assert!(!program.path.exists());
    let mut report = tracemerge(traced.runtime.path());
    let report = report.arg("report").arg("--debug-dir").arg(&kept).arg(program.in_traces(&traced));
    let output = report.output().expect("it runs");
    assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr)), (Some(0), "".into()));
    let rows = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(rows.contains(" main  (") && rows.contains(" short_life  ("), "{rows}");
}
