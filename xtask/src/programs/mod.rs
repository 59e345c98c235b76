//! Counts every function of programs that others wrote. Programs of Debian's source packages, by gcc and by clang, and
//! published programs in Rust, unedited, are built with hooks and run. They must print the same as without tracing, no
//! record may be lost, and each function must be counted as often as another tool counts it on the same binary: uftrace
//! for C and C++, callgrind for Rust and for dormant hooks. The recipes of docs/functions.md are run literally. A
//! published server on axum hands its spans to the tracer, by one line of its source. A server in C under load and a
//! search in Rust are run with small rings, so that threads wait for the tracer: their durations, names of threads and
//! the order of the tree are compared with the merged lines.
//!
//! The task needs Debian and a Rust toolchain; it installs the other programs if it may (as root), and takes the
//! sources from Debian's archive and from the registry of crates. All usual steps take a quarter of an hour.

mod c_programs;
mod compilers;
mod counts;
mod requests;
mod rust_programs;
mod sources;
mod spans;
mod waits;

use std::path::PathBuf;

use crate::failure::{Named, Result, check};
use crate::install;
use crate::shell::{Place, Shell};
use crate::steps::{self, Step, step, step_by_name};
use c_programs::{bzip2, ifuncs, lua, plugins, sqlite, tinyxml2};
use compilers::toolchains;
use counts::Counts;
use requests::requests;
use rust_programs::{json, server, tool, workspace};
use waits::{fd, futexes, redis};

/// The steps in the order in which they run.
const STEPS: [Step<Tools>; 15] = [
    step("bzip2", bzip2, "In C: hooks of gcc and clang beside uftrace, dormant ones beside callgrind."),
    step("lua", lua, "In C: an interpreter with a script, beside uftrace."),
    step("sqlite", sqlite, "In C: a database with statements, beside uftrace."),
    step("tinyxml2", tinyxml2, "In C++: virtual functions and templates, beside uftrace."),
    step_by_name("ifuncs", ifuncs, "In C: rsync, with functions in several versions, beside uftrace."),
    step_by_name("plugins", plugins, "In C: gawk with six plugins, beside uftrace."),
    step("json", json, "In Rust: jaq with all its crates, beside callgrind."),
    step("tool", tool, "In Rust: hexyl, whose own crate is traced, beside callgrind."),
    step_by_name("workspace", workspace, "In Rust: a workspace of 49 packages, beside callgrind."),
    step("server", server, "In Rust: a server of several threads, beside callgrind."),
    step("requests", requests, "A server on axum hands its spans to the tracer: one for each request."),
    step("futexes", futexes, "Each wait for a lock of an unchanged program is recorded with its place."),
    step("redis", redis, "A server in C under load: names of threads, durations without waits, order."),
    step("fd", fd, "A search in Rust by many threads: durations without waits, order."),
    step(
        "toolchains",
        toolchains,
        "With several versions of Rust, programs get hooks, or cargo tracer says why not.",
    ),
];

/// Runs the steps with these names, or the usual steps without names.
pub fn run(names: &[String]) -> Result<()> {
    steps::run(&STEPS, names, Tools::new)
}

/// The environment of the steps: a shell that finds the programs that they need, and a directory for their files.
pub struct Tools {
    pub shell: Shell,
    place: Place,
}

impl Tools {
    /// Installs the programs that the steps need, and this library and command in the way in which docs/functions.md
    /// installs them.
    fn new() -> Result<Self> {
        let mut shell = Shell::new()?;
        install::programs(
            &shell,
            &[
                ("gcc", "gcc libc6-dev"),
                ("g++", "g++"),
                ("clang", "clang"),
                ("make", "make"),
                ("c++filt", "binutils"),
                ("dpkg-source", "dpkg-dev"),
                ("uftrace", "uftrace"),
                ("valgrind", "valgrind"),
                ("tclsh", "tcl"),
                ("setarch", "util-linux"),
            ],
        )?;
        for program in ["gcc", "clang", "uftrace", "valgrind", "rustc"] {
            println!("{}", shell.command(program).arg("--version").done()?.first_line());
        }
        let place = Place::new()?;
        let prefix = place.0.join("prefix");
        let target =
            shell.path(shell.variable("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from));
        let target = target.join("tmp/installed/target");
        let release = target.join("release");
        let build = |package| {
            shell
                .command("cargo build -q --release --locked -p")
                .arg(package)
                .arg("--target-dir")
                .arg(&target)
                .done()
        };
        // If `.ci/fresh` has run, its command was installed as users install it.
        let installed = if let Some(built) = install::built_by_fresh(&shell)? {
            built.join("installed")
        } else {
            build("tracemerge")?;
            release.clone()
        };
        build("tracer-capi")?;
        let assignment = |name: &str, value: &PathBuf| format!("{name}={}", value.display());
        let make = shell.command("make --silent -C tracer/capi install");
        make.arg(assignment("PREFIX", &prefix)).arg(assignment("LIBRARIES", &release)).done()?;
        let programs = ["tracemerge", "cargo-tracer"].map(|name| installed.join(name));
        shell.command("install -D -t").arg(prefix.join("bin")).args(programs).done()?;
        // Each program is built separately; `cargo tracer` is found as on a user's machine.
        shell.unset("CARGO_TARGET_DIR");
        shell.find_first_in(&prefix.join("bin"));
        let runtime = place.0.join("runtime");
        shell.command("mkdir -m 700").arg(&runtime).done()?;
        shell.set("TRACER_RUNTIME_DIR", runtime);
        Ok(Self { shell: shell.at(&place.0), place })
    }

    /// Returns the directory for the steps' files.
    fn place(&self) -> &PathBuf {
        &self.place.0
    }
}

/// Returns the counts in the report of a program's traces. Fails if the report warns of losses.
fn counts_of_report(shell: &Shell, program: &str) -> Result<Counts> {
    let report = shell.command("tracemerge report --rows all").arg(program).output()?;
    check(report.status().is_some_and(|status| status <= 1), || report.failure())?;
    let said = report.said();
    let more: Vec<&str> = said.lines().filter(|line| !is_usual(line)).collect();
    check(more.is_empty(), || format!("the report says more than it should: {}", more.join("\n")))?;
    Ok(Counts::of_report(&report.text()))
}

/// Returns whether a message of tracemerge says only that something is done, or how long threads waited, or that the
/// names of a large program may come from its symbol table.
fn is_usual(message: &str) -> bool {
    let Some(text) = message.strip_prefix("tracemerge: ") else { return false };
    let rest = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == ',');
    ["recovered ", "merged ", "warning: debug information beyond "]
        .iter()
        .any(|start| text.starts_with(start))
        || rest.len() < text.len()
            && (rest.starts_with(" thread waited ") || rest.starts_with(" threads waited "))
}

/// Deletes the traces of a program, so that the traces of this run are not found with those of its next run.
fn clean(shell: &Shell, program: &str) -> Result<()> {
    shell.command("tracemerge clean").arg(program).done().map(drop)
}

/// Fails unless two outputs of a program, untraced and traced, are the same.
fn same_output(what: &str, untraced: &[u8], traced: &[u8]) -> Result<()> {
    let differ = || format!("{what} prints something else when it is traced");
    check(untraced == traced, differ)
}

/// Compares the counts of a program's functions with those of another tool: all names and all counts must be the same.
/// Names with the same address are names of one function, of which the other tool knows only one.
fn same_counts(shell: &Shell, what: &str, program: &str, ours: Counts, theirs: &Counts) -> Result<()> {
    let listing = shell.command("nm").arg(program).done()?;
    let listing = listing.text();
    let symbols = counts::Symbols::parse(&listing);
    let names = demangled(shell, &symbols.names())?;
    let ours = ours.named_as(theirs, &symbols.shared(&names));
    let differences = ours.differences(theirs);
    for line in differences.iter().take(20) {
        eprintln!("{line}");
    }
    check(differences.is_empty(), || {
        format!("{what}: the counts of {} functions differ", differences.len())
    })?;
    check(ours.len() > 0, || format!("{what}: no function was counted"))?;
    println!("{what}: {} functions, {} calls, all the same", ours.len(), ours.calls());
    Ok(())
}

/// Returns the names demangled and without hashes, so that several functions may have the same name.
fn demangled(shell: &Shell, names: &[&str]) -> Result<Vec<String>> {
    let output = shell.command("c++filt").input(names.join("\n") + "\n").done()?;
    let text = output.text();
    let demangled: Vec<String> = text.lines().map(counts::without_hashes).collect();
    check(demangled.len() == names.len(), || {
        format!("c++filt gave {} names for {}", demangled.len(), names.len())
    })?;
    Ok(demangled)
}

/// Returns the counts in the file that callgrind has written, with demangled names: how often each function has called
/// `hook` or, without a hook, how often it was called.
fn counts_of_callgrind(shell: &Shell, hook: Option<&str>) -> Result<Counts> {
    let raw = Counts::of_callgrind(&shell.read_text("callgrind.out")?, hook)
        .named("callgrind's file is damaged")?;
    let names = demangled(shell, &raw.names())?;
    Ok(names.into_iter().zip(raw.numbers()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_about_losses_is_not_usual() {
        let usual =
            ["merged 3 files", "recovered 1 run", "1 thread waited 3 ms", "1,200 threads waited 3 ms"];
        for text in usual {
            assert!(is_usual(&format!("tracemerge: {text}")), "{text}");
        }
        for text in
            ["12 records were lost", "waited 3 ms", "threads waited 3 ms", "warning: merged files are torn"]
        {
            assert!(!is_usual(&format!("tracemerge: {text}")), "{text}");
        }
        assert!(!is_usual("merged 3 files"));
    }
}
