//! Hooks that are called before the program has thread-locals, and before the library is relocated: the loader calls
//! the functions that choose an implementation (`ifunc`, `target_clones`), and those call others.

use support::Traced;
use support::programs::installed_programs;

use crate::compiled::{Program, calls, counted, installed, linking, shared_library};

/// The compilers, and the options by which they put hooks into functions, or leave room for them.
const HOOKS: [(&str, &[&str]); 6] = [
    ("cc", &["-finstrument-functions"]),
    ("cc", &["-pg"]),
    ("cc", &["-pg", "-mfentry"]),
    ("clang", &["-finstrument-functions"]),
    ("clang", &["-pg", "-mfentry"]),
    ("clang", &["-fxray-instrument", "-fxray-instruction-threshold=1", "-fnoxray-link-deps"]),
];

/// Returns those of [`HOOKS`] whose compilers are installed.
fn usable() -> impl Iterator<Item = (&'static str, &'static [&'static str])> {
    let compilers = installed_programs(["cc", "clang"]);
    HOOKS.into_iter().filter(move |(compiler, _)| compilers.contains(compiler))
}

/// The linker's options by which the loader looks a function up at its first call, or at the program's start.
const BINDINGS: [&str; 2] = ["-Wl,-z,lazy", "-Wl,-z,now"];

const OUTPUT: &str = "sum 70, constructed 1\n";

/// Checks that each call is recorded with its name, except those of functions that choose an implementation; and that a
/// run without tracing has the same output and makes no file.
fn assert_traced(program: &Program, library: &str, said: &str) {
    let run = |is_on: bool| -> Traced {
        let scenario = program.scenario(&[]).env("LD_PRELOAD", library);
        let traced = if is_on { scenario } else { scenario.without("TRACER_ENABLE") }.run();
        assert!(traced.output.status.success(), "{said}, on: {is_on}: {:?}", traced.output);
        assert!(traced.stdout().starts_with(OUTPUT), "{said}: {}", traced.stdout());
        traced
    };
    assert!(run(false).files.is_empty(), "{said}");
    let traced = run(true);
    traced.assert_whole();
    let mut calls = calls(&program.merged(&traced));
    // The implementation that the processor gets is named like the function, or by what it is for.
    for implementation in ["total.avx2", "total.default", "total.avx2.0", "total.default.1"] {
        if let Some(count) = calls.entered.remove(implementation) {
            *calls.entered.entry("total".to_owned()).or_default() += count;
        }
    }
    // If the loader looks up functions late, it also chooses while the program runs already.
    let others = ["constructed", "is_fast", "choose", ".resolver"];
    let is_counted = |name: &str| !others.iter().any(|other| name.contains(other));
    calls.entered.retain(|name, _| is_counted(name));
    assert_eq!(calls.entered, counted(&traced.stdout()), "{said}");
    assert_eq!(calls.not_innermost, 0, "{said}");
}

#[test]
fn hooks_do_nothing_while_the_loader_chooses_implementations_of_functions() {
    let library = shared_library();
    let library = library.to_str().expect("text");
    let all = usable().flat_map(|usable| BINDINGS.map(|binding| (usable, binding)));
    for ((compiler, hooks), binding) in all {
        let options = [hooks, &[binding][..]].concat();
        let said = format!("{compiler} {options:?}");
        let program = Program::compile(compiler, "resolvers.c", &options);
        assert_traced(&program, library, &format!("preloaded {said}"));
        let linked = Program::compile(compiler, "resolvers.c", &[&options, &linking()[..]].concat());
        assert_traced(&linked, "", &format!("linked {said}"));
    }
}

#[test]
fn hooks_do_nothing_while_a_static_executable_chooses_implementations_of_functions() {
    let archive = installed().join("lib/libtracer.a");
    let archive = archive.to_str().expect("text");
    // No code of a program with dormant hooks calls the library.
    let more = ["-Wl,-u,tracer_startup", "-Wl,--allow-multiple-definition", archive];
    for (compiler, hooks) in usable() {
        for link in ["-static", "-static-pie", "-no-pie"] {
            // This program of clang crashes without the library, too.
            if (compiler, hooks[0], link) == ("clang", "-pg", "-static-pie") {
                continue;
            }
            let options = [hooks, &[link], &more].concat();
            let program = Program::compile(compiler, "resolvers.c", &options);
            assert_traced(&program, "", &format!("{compiler} {options:?}"));
        }
    }
}

#[test]
fn hooks_of_a_library_do_nothing_until_all_is_relocated_and_then_record_its_constructors() {
    let preloaded = shared_library();
    let preloaded = preloaded.to_str().expect("text");
    // Some versions of clang do not export a function that has several versions.
    let all = usable()
        .filter(|(compiler, _)| *compiler == "cc")
        .flat_map(|usable| BINDINGS.map(|binding| (usable, binding)));
    for ((compiler, hooks), binding) in all {
        let options = [hooks, &[binding][..]].concat();
        let shared = [&options, &["-DLIBRARY", "-shared", "-fPIC"][..]].concat();
        let library = Program::compile(compiler, "resolvers.c", &shared);
        let path = library.path.to_str().expect("text");
        let program = Program::compile(compiler, "resolvers.c", &[&options, &["-DUSER", path][..]].concat());
        assert_traced(&program, preloaded, &format!("{compiler} {options:?}"));
    }
}
