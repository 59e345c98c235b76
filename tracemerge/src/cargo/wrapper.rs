//! The compiler's wrapper, which Cargo calls in place of the compiler: it adds the arguments for hooks.
//!
//! It adds them only if the compiler gets a target (`--target`, which a build of `cargo tracer` always has), so build
//! scripts, procedural macros, and their dependencies get no hooks.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::Command;

use trace_format::patterns::Patterns;

use crate::cargo::listed::{Hooks, ListedCrate};
use crate::os::environment::of_cargo;
use crate::ui::messages::Messages;

/// The arguments that make the compiler put hooks into functions: the pass of ThreadSanitizer, reduced to the entries
/// and exits of functions. With one code unit for each crate, nothing is inlined after the pass.
pub const HOOKS: [&str; 3] = ["-Cpasses=tsan", "-Cllvm-args=-tsan-instrument-atomics=0", "-Ccodegen-units=1"];

/// The variable with the library's path. If it is set, this program is the wrapper.
pub const LIBRARY: &str = "CARGO_TRACER_LIBRARY";
/// The variable with the names of the traced crates, separated by commas; all crates are traced if it is not set.
pub const CRATES: &str = "CARGO_TRACER_CRATES";
/// The variable with the patterns of functions that have hooks; all functions have hooks if it is not set.
pub const FUNCTIONS: &str = "CARGO_TRACER_FUNCTIONS";
/// The variable with another wrapper, which this one calls.
pub const CHAINED: &str = "CARGO_TRACER_CHAINED";
/// The variable that is set if the hooks are to be dormant.
pub const DORMANT: &str = "CARGO_TRACER_DORMANT";
/// The variable that is set if functions that call nothing are traced, too.
pub const LEAF: &str = "CARGO_TRACER_LEAF";
/// The variable with the program that builds documentation and compiles the examples in it.
pub const RUSTDOC: &str = "CARGO_TRACER_RUSTDOC";

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
pub fn is_wanted() -> bool {
    of_cargo(LIBRARY).is_some()
}

/// Returns the arguments that link a program with the library.
pub fn link(library: &Path) -> [OsString; 2] {
    let mut file = OsString::from("-Clink-arg=");
    file.push(library);
    let mut place = OsString::from("-Clink-arg=-Wl,-rpath,");
    place.push(library.parent().unwrap_or(library));
    [file, place]
}

/// Compiles with `args`, which are the compiler and its arguments, or only the arguments of `rustdoc`. Returns the
/// exit status.
pub fn compile(args: Vec<OsString>) -> u8 {
    let library = of_cargo(LIBRARY).unwrap_or_default();
    let library = Path::new(&library);
    let is_rustdoc = args.first().is_none_or(|word| word.as_encoded_bytes().starts_with(b"-"));
    let compiler = || {
        if is_rustdoc {
            return Command::new(of_cargo(RUSTDOC).unwrap_or_else(|| "rustdoc".into()));
        }
        of_cargo(CHAINED).map_or_else(
            || Command::new(&args[0]),
            |chained| {
                let mut command = Command::new(chained);
                command.arg(&args[0]);
                command
            },
        )
    };
    let words = args.get(usize::from(!is_rustdoc)..).unwrap_or_default();
    let is_dormant = of_cargo(DORMANT).is_some();
    let mut more: Vec<OsString> = Vec::new();
    // A program with dormant hooks is not linked with the library, which is loaded when needed.
    if (is_rustdoc || is_for_target(words)) && !is_dormant {
        more.extend(link(library));
    }
    let package = of_cargo("CARGO_PKG_NAME");
    if is_own(package.as_deref()) && is_for_target(words) {
        // Without optimization, crates share the code of generic functions: the tracer would call functions into
        // which another crate has put hooks, and these hooks would call the tracer.
        more.push("-Copt-level=3".into());
    }
    let is_traced = !is_rustdoc && is_traced(words, package.as_deref(), of_cargo(CRATES).as_deref());
    if is_traced {
        if !words.iter().any(|word| word.to_string_lossy().contains("debuginfo=")) {
            more.push("-Cdebuginfo=line-tables-only".into());
        }
        // Function names are read from the program's own file. Cargo strips a program that has no debug information
        // of its own.
        more.push("-Cstrip=none".into());
    }
    if is_traced && !is_dormant {
        more.extend(HOOKS.map(OsString::from));
    }
    let wanted = of_cargo(FUNCTIONS).map(|text| Patterns::parse(&text.to_string_lossy()));
    let with_leaves = of_cargo(LEAF).is_some();
    let compiled = if is_traced && (is_dormant || with_leaves || wanted.is_some()) {
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
        Messages::new(false)
            .error(format_args!("cannot run {}: {error}", compiler().get_program().to_string_lossy()));
        super::FAILED
    })
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

/// Returns whether the compiler's arguments name a target.
fn is_for_target(words: &[OsString]) -> bool {
    words.iter().any(|word| word == "--target" || word.as_encoded_bytes().starts_with(b"--target="))
}

/// Returns whether a package is the tracer's.
fn is_own(package: Option<&OsStr>) -> bool {
    package.and_then(OsStr::to_str).is_some_and(|package| TRACER_PACKAGES.contains(&package))
}

/// Returns whether to trace the functions of the crate that the compiler is called for with these arguments. `wanted`
/// lists names of crates.
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
    is_for_target(words)
        // Cargo queries the compiler with a crate of this name.
        && name != "___"
        && !is_own
        && wanted.is_none_or(is_wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn only_crates_for_the_target_are_traced() {
        let traced = |line: &str, package: &str, wanted: Option<&str>| {
            is_traced(&words(line), Some(package.as_ref()), wanted.map(OsStr::new))
        };
        let target = "--crate-name app src/main.rs --crate-type bin --target x86_64-unknown-linux-gnu";
        assert!(traced(target, "app", None));
        assert!(traced(target, "an-app", Some("other,an_app")));
        assert!(!traced(target, "app", Some("other")));
        assert!(!traced(target, "tracer-lib", None));
        assert!(!traced("--crate-name build_script_build build.rs --crate-type bin", "app", None));
        assert!(!traced("--crate-name macros src/lib.rs --crate-type proc-macro", "macros", None));
        assert!(!traced("- --crate-name ___ --print=file-names --target x", "app", None));
        assert!(!traced("-vV", "app", None));
    }
}
