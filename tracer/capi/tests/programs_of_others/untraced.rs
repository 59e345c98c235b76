//! `tracemerge run` says why a program was not traced, and what to do.

use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

use support::programs::{in_part, is_root};

use super::compiled::{Program, linking, tracemerge};

/// Compiles the program with `-finstrument-functions` and these options.
fn with_hooks(options: &[&str]) -> Program {
    Program::compile("cc", "faults.c", &[&["-finstrument-functions"], options].concat())
}

/// Runs the program with these variables, and returns the messages of `tracemerge run`.
fn said_of(program: &Path, variables: &[(&str, &str)]) -> String {
    let place = tempfile::tempdir().expect("a directory");
    let mut command = tracemerge(&place.path().join("runtime"));
    command.arg("run").arg(program).env("TRACER_DIR", place.path()).envs(variables.iter().copied());
    let output = command.output().expect("it runs");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Checks the reason that is reported for a program without a trace.
fn assert_reason(program: &Path, variables: &[(&str, &str)], reason: &str) {
    let said = said_of(program, variables);
    let told = said.lines().find_map(|line| line.split_once(" wrote no trace: ")).map(|(_, told)| told);
    assert!(told.is_some_and(|told| told.starts_with(reason)), "{reason}: {said}");
}

#[test]
fn the_reason_for_a_missing_trace_is_reported() {
    let plain = Program::compile("cc", "faults.c", &[]);
    assert_reason(
        &plain.path,
        &[],
        "its functions have no hooks, and it is not linked with the tracer. Compile it",
    );
    let script = plain.beside("script");
    std::fs::write(&script, "#!/bin/sh -e\ntrue\n").expect("a script");
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).expect("rights");
    assert_reason(&script, &[], "it is a script, which '/bin/sh -e' runs. Name the program that it starts");

    let linked = Program::compile("cc", "faults.c", &linking());
    assert_reason(&linked.path, &[], "it made no record before it ended. It must call the tracer");
    assert_reason(&linked.path, &[("TRACER_FILTER", "app=off")], "no record fits TRACER_FILTER='app=off'.");

    let hooks = with_hooks(&[]);
    for (variable, value) in
        [("TRACER_FUNCTIONS", "missing::*"), ("TRACER_TRIGGER", "missing"), ("TRACER_MIN_DURATION", "1h")]
    {
        let reason = format!("no record fits {variable}='{value}'. Choose another value, or set none");
        assert_reason(&hooks.path, &[(variable, value)], &reason);
    }
    let early = [("ENDS_EARLY", "1")];
    assert_reason(&hooks.path, &early, "SIGSEGV ended it before its first record. Run it alone");
    // The same program is traced otherwise.
    assert!(said_of(&hooks.path, &[]).contains("merged 1 file"));
}

#[test]
fn hooks_of_a_preloaded_library_are_reported_before_the_start() {
    let other = Program::compile("cc", "hooks_of_others.c", &["-shared", "-fPIC"]);
    let library = other.path.to_str().expect("text");
    let reason = format!("LD_PRELOAD names {library}, which has hooks of its own. Remove it from LD_PRELOAD");
    let hooks = with_hooks(&[]);
    assert_reason(&hooks.path, &[("LD_PRELOAD", library)], &reason);
    let said = said_of(&hooks.path, &[("LD_PRELOAD", library)]);
    let first = said.lines().next().unwrap_or_default();
    assert!(first.ends_with(&format!(" are not traced: {reason}")), "{said}");
}

#[test]
fn a_program_into_which_nothing_can_be_loaded_is_reported_before_the_start() {
    let source = tempfile::tempdir().expect("a directory");
    let source = source.path().join("empty.c");
    std::fs::write(&source, "int main(void) { return 0; }").expect("a file");
    for (option, reason) in [
        ("-static", "it is linked statically, so no library can be preloaded. Link it dynamically"),
        ("-static-pie", "it is linked statically, so no library can be preloaded. Link it dynamically"),
        ("-m32", "it is for 32-bit x86, but libtracer.so.0 is for x86_64: compile the program for x86_64"),
    ] {
        let place = tempfile::tempdir().expect("a directory");
        let mut command = Command::new("cc");
        command.arg(option).arg(&source).arg("-o").arg(place.path().join("program"));
        if !command.output().expect("it runs").status.success() {
            in_part(&format!("the libraries for cc {option}"));
            continue;
        }
        let program = with_hooks(&[option]);
        assert_reason(&program.path, &[], reason);
        let said = said_of(&program.path, &[]);
        let first = said.lines().next().unwrap_or_default();
        assert!(first.contains(&format!(" are not traced: {reason}")), "{option}: {said}");
    }
}

#[test]
fn a_program_with_more_rights_than_its_caller_is_reported() {
    const NOBODY: u32 = 65534;
    let rights = || std::fs::Permissions::from_mode(0o4755);
    let own = with_hooks(&[]);
    std::fs::set_permissions(&own.path, rights()).expect("rights");
    // It has no more than its caller.
    assert!(said_of(&own.path, &[]).contains("merged 1 file"));
    if !is_root() {
        in_part("root, who can give a file to another user");
        return;
    }
    let reason =
        "the system gives it more rights than its caller has (set-user-ID, set-group-ID or capabilities)";
    for options in [&[][..], &linking()] {
        let program = with_hooks(options);
        chown(&program.path, Some(NOBODY), None).expect("another owner");
        std::fs::set_permissions(&program.path, rights()).expect("rights");
        let said = said_of(&program.path, &[]);
        if said.contains("merged 1 file") {
            in_part("a system that obeys set-user-ID");
            return;
        }
        assert_reason(&program.path, &[], reason);
        // The library itself says it, too, if it is in the program.
        let own = "tracer: TRACER_ENABLE is ignored, because this program has more rights than its caller";
        assert_eq!(said.matches(own).count(), usize::from(!options.is_empty()), "{said}");
    }
}
