//! For any path of the application, each of its traces is found once, and no trace of another application.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a failure in a test fails it")]

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;

use crate::support::{Place, file, header, ran, run};
use trace_format::meta::Run;

/// Returns a run of the executable `name` in `place`.
fn run_of(place: &Place, name: &str) -> Run {
    let exe = fs::canonicalize(place.path(name)).unwrap();
    Run { exe: exe.as_os_str().as_bytes().to_vec(), ..run(5, 1) }
}

fn merges_one(place: &Place, app: impl AsRef<OsStr>, merged: &str) {
    let ran = place.merge([app.as_ref()]);
    assert_eq!(ran.status, Some(0), "{}", ran.err);
    assert!(ran.err.contains("merged 1 file of 1 run"), "{}", ran.err);
    fs::remove_file(place.path(merged)).unwrap();
}

#[test]
fn paths_may_be_relative_or_absolute_and_have_spaces_or_an_extension() {
    let place = Place::new();
    for name in ["app", "app.exe", "my app", "größe 🦀"] {
        place.write(format!("{name}.trace.9"), file(&run(5, 1), 9, &[3]));
        let merged = format!("{name}.trace.merge");
        merges_one(&place, name, &merged);
        merges_one(&place, format!("./{name}"), &merged);
        merges_one(&place, place.path(name), &merged);
        merges_one(&place, format!("tmp/../{name}"), &merged);
    }
}

#[test]
fn names_that_are_not_utf_8_are_supported() {
    let place = Place::new();
    let app = OsStr::from_bytes(b"caf\xe9");
    if fs::write(place.path(OsStr::from_bytes(b"caf\xe9.trace.9")), file(&run(5, 1), 9, &[3])).is_err() {
        return; // This file system has no such names.
    }
    let ran = place.merge([app]);
    assert_eq!(ran.status, Some(0), "{}", ran.err);
    assert!(ran.err.contains(r"into 'caf\xe9.trace.merge'"), "{}", ran.err);
    assert!(place.path(OsStr::from_bytes(b"caf\xe9.trace.merge")).exists());
}

#[test]
fn links_to_a_directory_and_to_the_file_are_followed() {
    let place = Place::new();
    fs::create_dir(place.path("real")).unwrap();
    place.write("real/app-1.2", "");
    place.write("real/app-1.2.trace.9", file(&run(5, 1), 9, &[3]));
    symlink("real", place.path("dir")).unwrap();
    symlink("real/app-1.2", place.path("latest")).unwrap();
    merges_one(&place, "dir/app-1.2", "real/app-1.2.trace.merge");
    merges_one(&place, "latest", "latest.trace.merge");
}

#[test]
fn shared_directories_give_only_files_that_name_the_application() {
    let place = Place::new();
    for dir in ["bin", "other", "chosen"] {
        fs::create_dir(place.path(dir)).unwrap();
    }
    place.write("bin/app", "");
    place.write("other/app", "");
    let (ours, mut others) = (run_of(&place, "bin/app"), run_of(&place, "other/app"));
    (others.pid, others.id, others.root) = (ours.pid + 1, ours.id + 1, ours.root + 1);
    place.write("bin/app.trace.8", file(&others, 8, &[3]));
    for (number, dir) in (0..).zip(["", "tmp/", "chosen/"]) {
        place.write(format!("{dir}app.trace.{}", 10 + number), file(&ours, 10 + number, &[3]));
        place.write(format!("{dir}app.trace.{}", 20 + number), file(&others, 20 + number, &[3]));
        place.write(format!("{dir}app.trace.{}", 30 + number), "nobody's\n");
        place.write(format!("{dir}app.trace.{}", 40 + number), "");
    }
    let mut command = place.command();
    let with_dir = ran(command.env("TRACER_DIR", "chosen").args(["bin/app", "-o", "merged"]));
    assert_eq!(with_dir.status, Some(0), "{}", with_dir.err);
    assert!(with_dir.err.contains("merged 4 files"), "{}", with_dir.err);
    // The path of an executable that does not exist any more is in its traces.
    fs::remove_file(place.path("bin/app")).unwrap();
    let without = place.merge(["bin/app", "-o", "merged"]);
    assert!(without.err.contains("merged 3 files"), "{}", without.err);
    assert!(without.err.contains("left out 2 trace files of other programs of that name"), "{}", without.err);
    // If no trace names the path, the names of the files decide.
    fs::create_dir(place.path("copied")).unwrap();
    let copied = place.merge(["copied/app", "-o", "merged"]);
    assert!(copied.err.contains("merged 4 files"), "{}", copied.err);
}

#[test]
fn a_file_that_is_found_twice_counts_once() {
    let place = Place::new();
    place.write("app", "");
    place.write("app.trace.9", file(&run_of(&place, "app"), 9, &[3]));
    symlink(".", place.path("dir")).unwrap();
    let mut command = place.command();
    let ran = ran(command.env("TRACER_DIR", place.path("dir")).env("TMPDIR", place.path("")).arg("dir/app"));
    assert!(
        ran.err.contains("merged 1 file of 1 run (1 thread, 2 lines) into 'dir/app.trace.merge'"),
        "{}",
        ran.err
    );
}

#[test]
fn other_files_next_to_the_executable_are_not_taken_for_traces() {
    let place = Place::new();
    place.write("app.trace.9", file(&run(5, 1), 9, &[3]));
    for name in
        ["app.trace.merge", "app.trace.9.0", "app.trace.09", "app.trace.9.bak", "app2.trace.9", "app.trace."]
    {
        place.write(name, header(&run(6, 1), 9));
    }
    merges_one(&place, "./app", "app.trace.merge");
}

#[test]
fn errors_about_missing_traces_name_the_places_and_the_variables() {
    let place = Place::new();
    let ran = place.merge(["./app"]);
    assert_eq!(ran.status, Some(2));
    let temp = place.path("tmp").display().to_string();
    for told in [
        "no trace files of './app'",
        "'.'",
        &temp,
        "TRACER_DIR is not set",
        "TRACER_ENABLE=1",
        "tracemerge run './app'",
    ] {
        assert!(ran.err.contains(told), "{told}: {}", ran.err);
    }
}

#[test]
fn a_trace_file_in_place_of_its_program_is_refused_with_the_name_of_the_program() {
    let place = Place::with_one_file();
    assert_eq!(place.merge(["./app"]).status, Some(0));
    for (file, program) in [("app.trace.9", "app"), ("./app.trace.9", "./app"), ("app.trace.merge", "app")] {
        for command in ["show", "report", "info", "tree"] {
            let ran = place.merge([command, file]);
            let expected =
                format!("'{file}' is a file of a trace. Name the program that made it: '{program}'");
            assert!(ran.status == Some(2) && ran.err.contains(&expected), "{command}: {}", ran.err);
        }
    }
    // If there is no such file, its name is that of a program without traces.
    let ran = place.merge(["show", "app.trace.10"]);
    assert!(ran.err.contains("no trace files of 'app.trace.10'"), "{}", ran.err);
}
