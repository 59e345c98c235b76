//! The compiler's wrapper, which Cargo calls in place of the compiler: it adds the arguments for hooks.
//!
//! The wrapper adds these arguments only if the compiler is called with the option `--target` of a build by
//! `cargo tracer`. Cargo compiles build scripts, procedural macros and their dependencies without this option, so they
//! get no hooks. The wrapper passes the arguments for hooks on to the user's own wrappers, too, so a compiler cache
//! (such as sccache) distinguishes crates with hooks from those without.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::Command;

use trace_format::patterns::Patterns;

use crate::cargo::build;
use crate::cargo::listed::{Hooks, ListedCrate};
use crate::os::environment::of_cargo;
use crate::ui::messages::Messages;

/// The arguments that make the compiler put hooks into functions: they run the compiler pass of ThreadSanitizer, but
/// only for the entries and exits of functions. With one code unit for each crate, nothing is inlined after this pass.
pub(super) const HOOKS: [&str; 3] =
    ["-Cpasses=tsan", "-Cllvm-args=-tsan-instrument-atomics=0", "-Ccodegen-units=1"];

/// The environment variable with the path of the tracer's library. If it is set, Cargo has called this program as the
/// compiler's wrapper.
pub(super) const LIBRARY: &str = "CARGO_TRACER_LIBRARY";
/// The environment variable with the names of the traced crates, separated by commas; all crates are traced if it is
/// not set.
pub(super) const CRATES: &str = "CARGO_TRACER_CRATES";
/// The environment variable with the patterns of functions that have hooks; all functions have hooks if it is not set.
pub(super) const FUNCTIONS: &str = "CARGO_TRACER_FUNCTIONS";
/// The environment variable with the value of `RUSTC_WRAPPER` that the user has set: the program that this wrapper
/// calls.
pub(super) const CHAINED: &str = "CARGO_TRACER_CHAINED";
/// The environment variable with the value of `RUSTC_WORKSPACE_WRAPPER` that the user has set: the program that this
/// wrapper calls for members of the workspace.
pub(super) const CHAINED_FOR_MEMBERS: &str = "CARGO_TRACER_CHAINED_FOR_MEMBERS";
/// The environment variable with the target for which traced crates are compiled.
pub(super) const TARGET: &str = "CARGO_TRACER_TARGET";
/// The environment variable that is set if crates that are not members of the workspace are traced, too.
pub(super) const DEPS: &str = "CARGO_TRACER_DEPS";
/// The environment variable that is set if functions get only room for hooks (dormant hooks).
pub(super) const DORMANT: &str = "CARGO_TRACER_DORMANT";
/// The environment variable with the compiler's flag that leaves room for hooks in all functions, if this flag is used
/// instead of a list.
pub(super) const FLAG_OF_SLEDS: &str = "CARGO_TRACER_FLAG_OF_SLEDS";
/// The environment variable that is set if functions that call nothing are traced, too.
pub(super) const LEAF: &str = "CARGO_TRACER_LEAF";
/// The environment variable with the program that builds documentation and compiles the examples in it.
pub(super) const RUSTDOC: &str = "CARGO_TRACER_RUSTDOC";

/// The packages of the tracer, which would trace themselves if they had hooks.
const TRACER_PACKAGES: [&str; 7] = [
    "tracer-lib",
    "tracer-format",
    "tracer-store",
    "tracer-macros",
    "tracer-capi",
    "tracer-log",
    "tracer-tracing",
];

/// Returns whether Cargo has called this program in place of the compiler.
pub(super) fn is_wanted() -> bool {
    of_cargo(LIBRARY).is_some()
}

/// Returns the compiler's arguments that link a program with the tracer's library.
pub(super) fn link(library: &Path) -> Vec<OsString> {
    // An argument of the linker is passed on unchanged, whatever characters are in it.
    let words =
        ["-Xlinker".as_ref(), "-rpath".as_ref(), "-Xlinker".as_ref(), library.parent().unwrap_or(library)];
    let argument = |word: &Path| {
        let mut argument = OsString::from("-Clink-arg=");
        argument.push(word);
        argument
    };
    [library].into_iter().chain(words).map(argument).collect()
}

/// Compiles a crate with `args`: the compiler and its arguments, or only the arguments of `rustdoc`. For a member of
/// the workspace, Cargo puts the path of this program before the compiler; this path is skipped. Returns the exit
/// status.
pub(super) fn compile(mut args: Vec<OsString>) -> u8 {
    let is_member =
        args.first().is_some_and(|word| of_cargo("RUSTC_WORKSPACE_WRAPPER").as_ref() == Some(word));
    args.drain(..usize::from(is_member));
    let is_for_target = is_for_target(&args, of_cargo(TARGET).as_deref());
    let is_dormant = of_cargo(DORMANT).is_some();
    if is_for_target && !is_dormant {
        link_dynamically(&mut args);
    }
    let library = of_cargo(LIBRARY).unwrap_or_default();
    let library = Path::new(&library);
    let is_rustdoc = args.first().is_none_or(|word| word.as_encoded_bytes().starts_with(b"-"));
    let compiler = || {
        if is_rustdoc {
            return Command::new(of_cargo(RUSTDOC).unwrap_or_else(|| "rustdoc".into()));
        }
        let of_members = of_cargo(CHAINED_FOR_MEMBERS).filter(|_| is_member);
        let mut words = of_cargo(CHAINED).into_iter().chain(of_members).chain(args.first().cloned());
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words);
        command
    };
    let words = args.get(usize::from(!is_rustdoc)..).unwrap_or_default();
    let is_usual = !is_rustdoc && !(is_for_target && (is_member || of_cargo(DEPS).is_some()));
    let mut more: Vec<OsString> = Vec::new();
    // A program with dormant hooks is not linked with the library, which is loaded when needed.
    if !is_usual && !is_dormant {
        more.extend(link(library));
    }
    let package = of_cargo("CARGO_PKG_NAME");
    if is_own(package.as_deref()) && !is_usual {
        // Without optimization, crates share the code of generic functions: the tracer would call functions into
        // which another crate has put hooks, and these hooks would call the tracer.
        more.push("-Copt-level=3".into());
    }
    let is_traced =
        !is_rustdoc && !is_usual && is_traced(words, package.as_deref(), of_cargo(CRATES).as_deref());
    if is_traced {
        if !words.iter().any(|word| word == "-g" || word.to_string_lossy().contains("debuginfo=")) {
            more.push("-Cdebuginfo=line-tables-only".into());
        }
        // Function names are read from the program's own file. Cargo strips a program that has no debug information
        // of its own.
        more.push("-Cstrip=none".into());
    }
    if is_traced && !is_dormant {
        if let Some(why) = conflict(words) {
            Messages::new(false).error(why);
            return super::FAILED;
        }
        more.extend(HOOKS.map(OsString::from));
    }
    let wanted = of_cargo(FUNCTIONS).map(|text| Patterns::parse(&text.to_string_lossy()));
    let with_leaves = of_cargo(LEAF).is_some();
    let flag = of_cargo(FLAG_OF_SLEDS).filter(|_| is_traced);
    let is_listed = is_traced && flag.is_none();
    more.extend(flag);
    let compiled = if is_listed && (is_dormant || with_leaves || wanted.is_some()) {
        let hooks = match (is_dormant, with_leaves) {
            (true, _) => Hooks::Dormant,
            (false, true) => Hooks::WithLeaves,
            (false, false) => Hooks::Called,
        };
        ListedCrate { words, more: &more, hooks, wanted: wanted.as_ref() }.compile(compiler)
    } else {
        replace_process(compiler().args(words).args(&more))
    };
    compiled.unwrap_or_else(|error| {
        Messages::new(false).error(format_args!(
            "cannot compile with {}: {error}",
            compiler().get_program().to_string_lossy()
        ));
        super::FAILED
    })
}

/// Replaces the request for a statically linked program in the compiler's arguments `words` by one for a dynamically
/// linked program: a static program would crash, because it is linked with a shared library.
fn link_dynamically(words: &mut [OsString]) {
    for word in words {
        if let Some(text) = word.to_str().filter(|text| text.contains("target-feature=")) {
            *word = text.replace("+crt-static", "-crt-static").into();
        }
    }
}

#[cfg(unix)]
fn replace_process(command: &mut Command) -> std::io::Result<u8> {
    use std::os::unix::process::CommandExt;
    Err(command.exec())
}

#[cfg(not(unix))]
fn replace_process(command: &mut Command) -> std::io::Result<u8> {
    let status = command.status()?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}

/// The sanitizers with which a program cannot call hooks, and the reasons.
const CONFLICTS: [(&str, &str); 2] = [
    (
        "thread",
        "no function would be traced: the hooks of ThreadSanitizer have the same names as those of cargo tracer. Add --dormant, or build without ThreadSanitizer",
    ),
    (
        "memory",
        "MemorySanitizer would report false errors: it needs all code of a program to be compiled for it, and the code of the tracer is not. Build without MemorySanitizer",
    ),
];

/// Returns the reason why the program cannot call hooks, if the compiler's arguments request a sanitizer of
/// [`CONFLICTS`], alone or in a list.
fn conflict(words: &[OsString]) -> Option<&'static str> {
    let lists = words.iter().filter_map(|word| {
        word.to_str().and_then(|word| word.trim_start_matches("-Z").strip_prefix("sanitizer="))
    });
    let mut requested = lists.flat_map(|list| list.split(','));
    requested.find_map(|name| CONFLICTS.iter().find(|(of, _)| *of == name).map(|(_, why)| *why))
}

/// Returns whether the compiler's arguments `words` name `target` as their `--target`.
fn is_for_target(words: &[OsString], target: Option<&OsStr>) -> bool {
    build::value_of(words, "--target").is_some_and(|named| Some(named) == target)
}

/// Returns whether a package is one of the tracer's own packages.
fn is_own(package: Option<&OsStr>) -> bool {
    package.and_then(OsStr::to_str).is_some_and(|package| TRACER_PACKAGES.contains(&package))
}

/// Returns whether to trace the functions of the crate that the compiler, called with the arguments `words`, compiles.
/// `package` is the name of the crate's package, and `wanted` lists the names of the crates to trace.
fn is_traced(words: &[OsString], package: Option<&OsStr>, wanted: Option<&OsStr>) -> bool {
    let behind = |option: &str| {
        let at = words.iter().position(|word| word == option);
        at.and_then(|at| words.get(at + 1)).map(|word| word.to_string_lossy().into_owned())
    };
    let Some(name) = behind("--crate-name") else { return false };
    let is_own = is_own(package);
    let package = package.map(|package| package.to_string_lossy().into_owned()).unwrap_or_default();
    let is_wanted = |wanted: &OsStr| {
        wanted
            .to_string_lossy()
            .split(',')
            .any(|wanted| wanted == name || wanted == package.replace('-', "_"))
    };
    // Cargo queries the compiler with a crate of this name.
    name != "___" && !is_own && wanted.is_none_or(is_wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn only_crates_for_the_target_are_traced() {
        let host = Some(OsStr::new("x86_64-unknown-linux-gnu"));
        let is_for_target = |line: &str| is_for_target(&words(line), host);
        assert!(is_for_target(
            "--crate-name app src/main.rs --crate-type bin --target x86_64-unknown-linux-gnu"
        ));
        assert!(is_for_target("--crate-name app --target=x86_64-unknown-linux-gnu"));
        // A build script may build for another machine.
        assert!(!is_for_target("--crate-name app --target wasm32-unknown-unknown"));
        assert!(!is_for_target("--crate-name build_script_build build.rs --crate-type bin"));
        assert!(!is_for_target("--crate-name macros src/lib.rs --crate-type proc-macro"));
    }

    #[test]
    fn a_static_program_is_linked_dynamically() {
        let mut args =
            words("rustc -C target-feature=+avx,+crt-static -Ctarget-feature=+crt-static a+crt-static");
        link_dynamically(&mut args);
        let linked = "rustc -C target-feature=+avx,-crt-static -Ctarget-feature=-crt-static a+crt-static";
        assert_eq!(args, words(linked));
    }

    #[test]
    fn a_sanitizer_that_prevents_hooks_is_found_in_each_form_of_its_argument() {
        for (line, name) in [
            ("-Zsanitizer=thread", "ThreadSanitizer"),
            ("-Z sanitizer=thread", "ThreadSanitizer"),
            ("-O -Zsanitizer=leak,memory x", "MemorySanitizer"),
        ] {
            assert!(conflict(&words(line)).is_some_and(|why| why.contains(name)), "{line}");
        }
        for line in ["-Zsanitizer=address", "-C sanitizer", "--crate-name thread", "-Zsanitizer-x=thread"] {
            assert_eq!(conflict(&words(line)), None, "{line}");
        }
    }

    #[test]
    fn only_chosen_crates_are_traced() {
        let traced = |line: &str, package: &str, wanted: Option<&str>| {
            is_traced(&words(line), Some(package.as_ref()), wanted.map(OsStr::new))
        };
        let target = "--crate-name app src/main.rs --crate-type bin";
        assert!(traced(target, "app", None));
        assert!(traced(target, "an-app", Some("other,an_app")));
        assert!(!traced(target, "app", Some("other")));
        assert!(!traced(target, "tracer-lib", None));
        assert!(!traced("- --crate-name ___ --print=file-names --target x", "app", None));
        assert!(!traced("-vV", "app", None));
    }
}
