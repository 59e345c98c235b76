//! The functions of libraries that a program opens for a moment have their names: each counts as often as the program
//! calls it.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use support::Scenario;
use trace_format::line::{Kind, Line};
use trace_format::meta::Meta;

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

/// Mounts an overlay that only the program sees, with the program's directory below, and starts the program in it.
const IN_OVERLAY: &str = "mkdir upper work over && mount -t overlay overlay -o lowerdir=lower,upperdir=upper,workdir=work over \
                          && exec over/app";

#[test]
fn a_program_whose_file_is_not_at_its_path_is_found_under_another_name_by_its_build_id() {
    let options = ["-finstrument-functions", "-DSHORT", "-Wl,--build-id"];
    for variable in ["DELETES", "IN_MEMORY", "IN_OVERLAY"] {
        let program = Program::compile("cc", "loads.c", &options);
        let kept = program.beside("kept");
        std::fs::create_dir_all(kept.join("of/monday")).expect("a directory");
        std::fs::copy(&program.path, kept.join("of/monday/another")).expect("a copy");
        let library = shared_library();
        let preloaded = |scenario: Scenario| scenario.env("LD_PRELOAD", library.to_str().expect("text"));
        let traced = if variable == "IN_OVERLAY" {
            let place = program.beside("lower");
            std::fs::create_dir(&place).expect("a directory");
            std::fs::rename(&program.path, place.join("app")).expect("a file of ours");
            let place = program.beside("").display().to_string();
            let run = format!("cd '{place}' && export LD_PRELOAD='{}' && {IN_OVERLAY}", library.display());
            let probe = Command::new("unshare")
                .args([
                    "-Urm",
                    "sh",
                    "-c",
                    &format!(
                        "cd '{place}' && mkdir a b c d && \
                mount -t overlay overlay -o lowerdir=a,upperdir=b,workdir=c d"
                    ),
                ])
                .output();
            if !probe.is_ok_and(|output| output.status.success()) {
                support::programs::in_part("an overlay of one's own");
                continue;
            }
            Scenario::new(Path::new("/usr/bin/unshare"), &["-Urm", "sh", "-c", &run]).run().succeeded()
        } else {
            preloaded(program.scenario(&[])).env(variable, "1").run().succeeded()
        };
        let mut report = tracemerge(traced.runtime.path());
        let report = report.arg("report").arg("--debug-dir").arg(&kept).arg(traced.directory.path());
        let output = report.output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), said.as_str()), (Some(0), ""), "{variable}");
        let rows = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(rows.contains(" main  (") && rows.contains(" short_life  ("), "{variable}: {rows}");
    }
}

#[test]
fn a_first_record_inside_a_callback_of_the_loader_ends_in_time_and_is_recorded_or_reported_lost() {
    let program = Program::compile("cc", "loads.c", &["-finstrument-functions", "-DCALLBACK"]);
    let library = shared_library();
    let scenario = program.scenario(&[]).env("LD_PRELOAD", library.to_str().expect("text"));
    // The flusher needs the loader's lock for its first list of modules, so the thread gets no ring until then.
    let traced = scenario.env("TRACER_MAX_STALL", "50ms").run().succeeded();
    let called: u64 = traced.stdout().trim().parse().expect("the number of functions that were called");
    assert!(called > 2, "one for each module, and one: {called}");
    let mut accounted = 0;
    for line in program.merged_with_losses(&traced) {
        let line = Line::parse(line.as_bytes()).expect("a line");
        accounted += match (line.kind, Meta::parse(line.payload)) {
            (Kind::Enter | Kind::Leave, _) => 1,
            (Kind::Meta, Some(Meta::Lost { records, .. })) => records,
            _ => 0,
        };
    }
    assert_eq!(accounted, 2 * called);
}
