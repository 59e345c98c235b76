//! Programs and libraries in several languages, each with its own copy of the tracer, have one run: their records are
//! in the same files, in the order in which they were made.

use std::path::PathBuf;

use support::programs::{installed_programs, lacks};
use support::{Scenario, Traced};
use trace_format::function::{FunctionLine, FunctionPlace};
use trace_format::line::{Kind, Line};

use crate::compiled::{Program, calls, linking, shared_library, tracemerge};
use crate::messages::escaped_bytes;

const COUNT: u32 = 500;

/// Returns the path of an example that Cargo has built beside this test.
fn built(name: &str) -> PathBuf {
    let exe = std::env::current_exe().expect("a path");
    let path = exe.parent().expect("a directory").with_file_name("examples").join(name);
    assert!(path.is_file(), "{} is missing: cargo build --examples", path.display());
    path
}

/// Returns the records of the program's only file, in order: messages, and the names of functions that are entered
/// (`>`) and left (`<`).
fn told(traced: &Traced, program: &str) -> Vec<String> {
    let [file] = &traced.files.values().collect::<Vec<_>>()[..] else { panic!("one thread of one run") };
    assert_eq!((file.end().lost, file.end().records), (0, file.records()));
    let mut command = tracemerge(traced.runtime.path());
    command.args(["--quiet", "--symbols", "-o", "-"]).arg(traced.directory.path().join(program));
    let output = command.output().expect("it runs");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("text");
    let lines = text.lines().map(|line| Line::parse(line.as_bytes()).expect("a line"));
    lines
        .filter_map(|line| {
            let mark = match line.kind {
                Kind::Message => return Some(String::from_utf8_lossy(line.payload).into_owned()),
                Kind::Enter => '>',
                Kind::Leave => '<',
                _ => return None,
            };
            let told = FunctionLine::parse(line.payload).expect("a function");
            let name = match told.place {
                FunctionPlace::Address(_, named) => String::from_utf8_lossy(named.function).into_owned(),
                FunctionPlace::Site { .. } => "in_rust".to_owned(),
                place => panic!("{place:?}"),
            };
            Some(format!("{mark}{}", name.split('(').next().unwrap_or_default()))
        })
        .collect()
}

/// Runs the program in Rust, with the shared library preloaded and a library in C++ that has `hooks`.
fn listener(compiler: &str, hooks: &[&str], variables: &[(&str, &str)]) -> Vec<String> {
    let library = Program::compile(compiler, "library.cpp", &[&["-shared", "-fPIC"], hooks].concat());
    let arguments = [library.path.to_str().expect("UTF-8"), &COUNT.to_string()];
    let scenario = Scenario::new(built("listener"), &arguments)
        .env("LD_PRELOAD", shared_library().to_str().expect("UTF-8"));
    let scenario = variables.iter().fold(scenario, |scenario, (name, value)| scenario.env(name, value));
    let traced = scenario.run().succeeded();
    assert_eq!(traced.stderr(), "");
    told(&traced, "listener")
}

/// Returns the expected records of all rounds: those of `one`, with the number of the round in place of `#`.
fn rounds(one: &[&str]) -> Vec<String> {
    let round = |n: u32| one.iter().map(move |text| text.replace('#', &n.to_string()));
    (0..COUNT).flat_map(round).collect()
}

#[test]
fn calls_of_a_cpp_library_are_in_the_trace_of_its_rust_program() {
    if lacks(&["g++"]) {
        return;
    }
    let inside = [">space::outer", ">space::inner", "<space::inner", "<space::outer"];
    let expected = rounds(&[&["rust #", ">of_library"], &inside[..], &["<of_library"]].concat());
    for compiler in installed_programs(["g++", "clang++"]) {
        for hooks in ["-finstrument-functions", "-pg"] {
            assert_eq!(listener(compiler, &[hooks], &[]), expected, "{compiler} {hooks}");
        }
    }
}

#[test]
fn bytes_that_are_not_utf_8_pass_from_copy_to_copy_as_they_are() {
    let library = Program::compile("cc", "bytes.c", &["-shared", "-fPIC"]);
    let scenario = Scenario::new(built("listener"), &[library.path.to_str().expect("UTF-8"), "50"])
        .env("LD_PRELOAD", shared_library().to_str().expect("UTF-8"))
        .env("TRACER_RING_SIZE", "16K");
    let traced = scenario.run().succeeded();
    let mut told = told(&traced, "listener");
    told.retain(|text| !text.starts_with("rust "));
    assert_eq!((told.len(), told), (50, escaped_bytes(&traced)));
}

#[test]
fn records_that_a_copy_cannot_hand_over_are_counted_as_lost() {
    if lacks(&["g++"]) {
        return;
    }
    let options = ["-finstrument-functions", "-shared", "-fPIC"];
    let library = Program::compile("g++", "library.cpp", &options);
    // The owner calls this allocator while it decides, and the allocator's hooks are those of the guest.
    let allocator = Program::compile("cc", "calloc.c", &options);
    let preloaded = format!("{}:{}", shared_library().display(), allocator.path.display());
    let arguments = [library.path.to_str().expect("UTF-8"), &COUNT.to_string()];
    let traced = Scenario::new(built("listener"), &arguments).env("LD_PRELOAD", &preloaded).run().succeeded();
    let mut command = tracemerge(traced.runtime.path());
    command.args(["--quiet", "--symbols", "-o", "-"]).arg(traced.directory.path().join("listener"));
    let output = command.output().expect("it runs");
    let lines: Vec<String> = String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect();
    let calls = calls(&lines);
    for function in ["of_library", "space::outer", "space::inner"] {
        assert_eq!(calls.entered[function], u64::from(COUNT), "{calls:?}");
    }
    let lost: u64 = traced.files.values().map(|file| file.end().lost).sum();
    assert!((1..100).contains(&lost), "{lost}: {calls:?}");
}

#[test]
fn functions_selected_by_the_user_are_selected_in_all_copies() {
    if lacks(&["g++"]) {
        return;
    }
    let hooks = ["-finstrument-functions"];
    // Only the copy with the hooks knows names of C++.
    let inner = rounds(&["rust #", ">space::inner", "<space::inner"]);
    assert_eq!(listener("g++", &hooks, &[("TRACER_FUNCTIONS", "space::inner")]), inner);
    let outermost = rounds(&["rust #", ">of_library", "<of_library"]);
    assert_eq!(listener("g++", &hooks, &[("TRACER_MAX_DEPTH", "1")]), outermost);
    let trigger = listener("g++", &hooks, &[("TRACER_TRIGGER", "space::outer")]);
    assert_eq!(trigger[..3], ["rust 0", ">space::outer", ">space::inner"]);
    assert_eq!(listener("g++", &hooks, &[("TRACER_MIN_DURATION", "1000s")]), rounds(&["rust #"]));
}

#[test]
fn a_rust_library_is_in_the_run_of_its_c_program() {
    let expected = rounds(&["c #", ">in_c", "<in_c", "rust #", ">in_rust", "<in_rust"]);
    for compiler in installed_programs(["cc", "clang"]) {
        let program =
            Program::compile(compiler, "speaks.c", &[&["-finstrument-functions"], &linking()[..]].concat());
        let speaker = built("libspeaker.so");
        let traced = program.run(&[speaker.to_str().expect("UTF-8"), &COUNT.to_string()]);
        let mut told = told(&traced, "speaks");
        assert_eq!((told.remove(0), told.pop()), (">main".into(), Some("<main".into())));
        assert_eq!(told, expected, "{compiler}");
    }
}
