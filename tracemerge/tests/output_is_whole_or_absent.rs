//! The merged file is there as a whole or not at all, and nothing else is left behind or overwritten.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a failure in a test fails it")]

mod support;

use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use support::{Place, file, ran, run};

#[test]
fn the_merged_file_replaces_an_older_one_and_is_private() {
    let place = Place::with_one_file();
    place.write("app.trace.merge", "old");
    assert_eq!(place.merge(["./app"]).status, Some(0));
    assert_eq!(place.read("app.trace.merge"), place.read("app.trace.9"));
    let mode = fs::metadata(place.path("app.trace.merge")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(place.names(), ["app.trace.9", "app.trace.merge"]);
}

#[test]
fn a_link_in_the_place_of_the_output_is_kept() {
    let place = Place::with_one_file();
    place.write("elsewhere", "old");
    std::os::unix::fs::symlink("elsewhere", place.path("link")).unwrap();
    assert_eq!(place.merge(["./app", "-o", "link"]).status, Some(0));
    assert_eq!(place.read("elsewhere"), place.read("app.trace.9"));
    assert!(fs::symlink_metadata(place.path("link")).unwrap().is_symlink());
}

#[test]
fn an_output_that_cannot_be_written_is_named() {
    let place = Place::with_one_file();
    let ran = place.merge(["./app", "-o", "no/such/directory/out"]);
    assert_eq!(ran.status, Some(2));
    assert!(
        ran.err.contains("cannot write 'no/such/directory/out': No such file or directory; -o FILE"),
        "{}",
        ran.err
    );
    let ran = place.merge(["./app", "-o", "/dev/full"]);
    assert_eq!(ran.status, Some(2));
    assert!(ran.err.contains("cannot write '/dev/full': No space left on device"), "{}", ran.err);
    assert_eq!(place.names(), ["app.trace.9"]);
}

#[test]
fn a_disk_that_is_full_leaves_nothing_behind() {
    let place = Place::with_one_file();
    place.write("app.trace.10", file(&run(5, 1), 10, &vec![4; 100_000]));
    place.write("app.trace.merge", "old");
    // Files beyond 512 KiB cannot be written; the signal that says so is ignored.
    let mut shell = place.program("sh");
    shell.args(["-c", "trap '' XFSZ; ulimit -f 1024; exec \"$0\" ./app", env!("CARGO_BIN_EXE_tracemerge")]);
    let ran = ran(&mut shell);
    assert_eq!(ran.status, Some(2), "{}", ran.err);
    assert!(ran.err.contains("cannot write './app.trace.merge': File too large"), "{}", ran.err);
    assert_eq!(place.text("app.trace.merge"), "old");
    assert_eq!(place.names(), ["app.trace.10", "app.trace.9", "app.trace.merge"]);
}

#[test]
fn inputs_directories_and_the_application_are_not_written_over() {
    let place = Place::with_one_file();
    place.write("app", "the application");
    fs::hard_link(place.path("app.trace.9"), place.path("other name")).unwrap();
    for (output, told) in [
        ("app.trace.9", "one of the traces"),
        ("other name", "one of the traces"),
        ("app", "the application itself"),
        ("tmp", "a directory"),
        (".", "a directory"),
    ] {
        let ran = place.merge(["./app", "-o", output]);
        assert_eq!(ran.status, Some(2), "{output}");
        assert!(ran.err.contains(told), "{output}: {}", ran.err);
    }
    assert_eq!(place.text("app"), "the application");
    assert_eq!(place.read("app.trace.9"), file(&run(5, 1), 9, &[3, 7]));
}

#[test]
fn what_is_no_regular_file_is_written_to_as_it_is() {
    let place = Place::with_one_file();
    assert_eq!(place.merge(["./app", "-o", "/dev/null"]).status, Some(0));
    let via = place.merge(["./app", "-o", "/dev/stdout"]);
    assert_eq!((via.status, via.out), (Some(0), place.read("app.trace.9")));
    assert_eq!(ran(place.program("mkfifo").arg("fifo")).status, Some(0));
    let mut cat = place.program("cat").arg("fifo").stdout(Stdio::piped()).spawn().unwrap();
    let status = place.merge(["./app", "-o", "fifo"]).status;
    let mut got = Vec::new();
    cat.stdout.take().unwrap().read_to_end(&mut got).unwrap();
    cat.wait().unwrap();
    assert_eq!((status, got), (Some(0), place.read("app.trace.9")));
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let place = Place::with_one_file();
    place.write("app.trace.10", file(&run(5, 1), 10, &vec![4; 200_000]));
    let mut child = place.command().args(["./app", "-o", "-"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut some = [0; 100];
    child.stdout.take().unwrap().read_exact(&mut some).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
