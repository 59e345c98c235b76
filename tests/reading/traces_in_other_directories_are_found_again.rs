//! A run that writes its files to another directory records that directory beside its executable. Its trace is found by
//! the executable's path, now and later, and no older run is shown in its place.
#![cfg(target_os = "linux")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use support::output_of_copy;
use tempfile::TempDir;

const SCENARIO: &str = env!("CARGO_BIN_EXE_scenario");

/// A program in a directory of its own.
struct Program {
    place: TempDir,
    exe: PathBuf,
    runtime: PathBuf,
}

impl Program {
    fn new() -> Program {
        let place = TempDir::new().expect("a directory");
        let exe = place.path().join("app");
        fs::copy(SCENARIO, &exe).expect("a copy");
        let runtime = place.path().join("rings");
        fs::create_dir(&runtime).expect("a directory");
        let owner_only = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        fs::set_permissions(&runtime, owner_only).expect("a change of mode");
        Program { place, exe, runtime }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    /// Runs the program with tracing on; its files go to `directory` or, if none is given, beside it.
    fn run(&self, args: &[&str], directory: Option<&Path>) {
        let mut command = Command::new(&self.exe);
        command.args(args).env("TRACER_ENABLE", "1").env_remove("TRACER_DIR");
        command.env("TRACER_RUNTIME_DIR", &self.runtime).env("TRACER_FLUSH_MS", "60000");
        if let Some(directory) = directory {
            command.env("TRACER_DIR", directory);
        }
        output_of_copy(&mut command);
    }

    fn tracemerge(&self, args: &[&str]) -> Output {
        let mut command = Command::new(SCENARIO);
        command.arg("tracemerge").args(args).arg(&self.exe).args(["-o", "-"]).current_dir("/");
        command
            .env_remove("TRACER_DIR")
            .env("TRACER_RUNTIME_DIR", &self.runtime)
            .env("TMPDIR", &self.runtime);
        command.output().expect("it runs")
    }

    /// Returns the messages in a merge that succeeds.
    fn messages(&self, args: &[&str]) -> Vec<String> {
        let output = self.tracemerge(args);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.lines().filter_map(|line| Some(line.split_once(" : ")?.1.to_owned())).collect()
    }
}

fn killed() -> Vec<String> {
    let in_ring = (0..5).map(|n| format!("in the ring {n}"));
    std::iter::once("flushed".to_owned()).chain(in_ring).collect()
}

#[test]
fn the_newest_run_is_found_again_in_its_directory() {
    let program = Program::new();
    program.run(&["return"], None);
    assert_eq!(program.messages(&[]), ["the last words of main"]);
    // The second run is killed, and is elsewhere.
    let elsewhere = program.at("kd");
    program.run(&["killed"], Some(&elsewhere));
    assert_eq!(program.messages(&[]), killed(), "it is recovered, and the newest");
    assert_eq!(program.messages(&[]), killed(), "and found again");
    assert_eq!(program.messages(&["--all-runs"]).len(), 7);
    // The third run is beside the executable again.
    program.run(&["return"], None);
    assert_eq!(program.messages(&[]), ["the last words of main"]);
}

#[test]
fn an_unreadable_newest_run_is_reported_and_no_older_run_is_shown() {
    let program = Program::new();
    program.run(&["return"], None);
    let elsewhere = program.at("kd");
    program.run(&["return"], Some(&elsewhere));
    fs::remove_dir_all(&elsewhere).expect("a removal");
    let output = program.tracemerge(&[]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), &*output.stdout), (Some(2), &b""[..]), "{said}");
    assert!(said.contains("the newest known run") && said.contains("kd"), "{said}");
    assert_eq!(program.messages(&["--all-runs"]), ["the last words of main"]);
    // `clean` has removed the entry of that run.
    let cleaned = Command::new(SCENARIO)
        .args(["tracemerge", "clean"])
        .arg(&program.exe)
        .current_dir("/")
        .env("TRACER_RUNTIME_DIR", &program.runtime)
        .env("TMPDIR", &program.runtime)
        .output()
        .expect("it runs");
    assert!(cleaned.status.success(), "{}", String::from_utf8_lossy(&cleaned.stderr));
    program.run(&["return"], None);
    assert_eq!(program.messages(&[]), ["the last words of main"]);
}

#[test]
fn a_missing_directory_is_created_or_reported_once() {
    let program = Program::new();
    let deep = program.at("some/where/new");
    program.run(&["return"], Some(&deep));
    let mode =
        std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&deep).expect("it is there").permissions());
    assert_eq!(mode & 0o777, 0o700);
    assert_eq!(program.messages(&[]), ["the last words of main"]);

    let mut command = Command::new(&program.exe);
    command.arg("return").env("TRACER_ENABLE", "1").env("TRACER_RUNTIME_DIR", &program.runtime);
    let output =
        command.env("TRACER_DIR", "/dev/null/x").current_dir(program.at("")).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains("/dev/null/x") && said.contains("they go to"), "{said}");
}

#[test]
fn files_that_recovery_has_made_are_found_again() {
    // A flusher that is late makes the files of the last threads itself.
    for _ in 0..50 {
        let program = Program::new();
        let elsewhere = program.at("later");
        fs::create_dir(&elsewhere).expect("a directory");
        program.run(&["left-in-memory"], Some(&elsewhere));
        // As if the program had been killed before it had made a file.
        fs::remove_file(program.at("app.trace.places")).expect("the list");
        let files = || fs::read_dir(&elsewhere).expect("the directory").count();
        let before = files();
        program.tracemerge(&[]);
        if files() > before {
            let found = program.messages(&[]);
            assert!(found.iter().any(|message| message == "without a file"), "{found:?}");
            return;
        }
    }
    panic!("recovery has made no file");
}

#[test]
fn records_are_found_in_both_directories_after_a_move() {
    let program = Program::new();
    let elsewhere = program.at("later");
    program.run(&["moved-away", elsewhere.to_str().expect("UTF-8")], Some(&elsewhere));
    let mut found = program.messages(&[]);
    found.sort();
    assert_eq!(found, ["before 0", "before 1", "behind 0", "behind 1"], "recovered from both");
    assert_eq!(program.messages(&[]).len(), 4, "and found again");
}
