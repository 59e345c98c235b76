//! Several applications in one call, and directories with traces, are merged into one file.
#![allow(clippy::unwrap_used, reason = "a failure in a test fails it")]

use std::fs;

use crate::support::{Place, file, run, sorted};

#[test]
fn the_newest_runs_of_all_applications_are_merged() {
    let place = Place::new();
    place.write("a.trace.9", file(&run(5, 10), 9, &[10, 30]));
    place.write("a.trace.7", file(&run(4, 1), 7, &[1, 2]));
    place.write("b.trace.8", file(&run(3, 20), 8, &[20, 40]));
    let ran = place.merge(["./a", "b"]);
    assert_eq!(ran.status, Some(0), "{}", ran.err);
    assert!(
        ran.err.contains("merged 2 files of 2 runs (2 threads, 6 lines) into './a.trace.merge'"),
        "{}",
        ran.err
    );
    assert!(ran.err.contains("left out 1 older run"), "{}", ran.err);
    assert_eq!(place.read("a.trace.merge"), sorted(&place, ["b.trace.8", "a.trace.9"]));
    let twice = place.merge(["a", "b", "./a", "-o", "twice"]);
    assert_eq!(twice.status, Some(0), "{}", twice.err);
    assert_eq!(place.read("twice"), place.read("a.trace.merge"));
}

#[test]
fn an_application_without_traces_is_a_warning_and_none_is_an_error() {
    let place = Place::with_one_file();
    let one = place.merge(["./none", "app", "-o", "all"]);
    assert_eq!(one.status, Some(1), "{}", one.err);
    assert!(one.err.contains("warning: no trace files of './none'"), "{}", one.err);
    assert_eq!(place.read("all"), place.read("app.trace.9"));
    assert_eq!(place.merge(["app", "none", "-o", "all"]).status, Some(1));
    assert_eq!(place.merge(["none", "nothing"]).status, Some(2));
    let over = place.merge(["./none", "app", "-o", "app.trace.9"]);
    assert!(over.err.contains("it is one of the traces to be merged"), "{}", over.err);
}

#[test]
fn a_directory_stands_for_all_traces_in_it() {
    let place = Place::new();
    fs::create_dir(place.path("dir")).unwrap();
    place.write("dir/a.trace.9", file(&run(5, 10), 9, &[10, 30]));
    place.write("dir/a.trace.9.1", file(&run(4, 1), 9, &[1, 2]));
    place.write("dir/b c.exe.trace.8", file(&run(3, 20), 8, &[20, 40]));
    for other in ["a.trace.merge", ".trace.5", "notes", "a.trace.7.bak"] {
        place.write(format!("dir/{other}"), "no trace\n");
    }
    let ran = place.merge(["dir"]);
    assert_eq!(ran.status, Some(0), "{}", ran.err);
    assert!(ran.err.contains("merged 3 files of 3 runs"), "{}", ran.err);
    let expected = sorted(&place, ["dir/b c.exe.trace.8", "dir/a.trace.9.1", "dir/a.trace.9"]);
    assert_eq!(place.read("dir/trace.merge"), expected);
    let with_another = place.merge(["dir/", "dir/a", "-o", "all"]);
    assert_eq!(with_another.status, Some(0), "{}", with_another.err);
    assert_eq!(place.read("all"), expected);
    fs::create_dir(place.path("empty")).unwrap();
    let none = place.merge(["empty"]);
    assert_eq!(none.status, Some(2));
    assert!(none.err.contains("no trace files in 'empty'"), "{}", none.err);
    let checked = String::from_utf8(place.merge(["check", "dir"]).out).unwrap();
    assert!(checked.contains("3 runs, 3 threads, 6 records, 0 lost"), "{checked}");
    let cleaned = place.merge(["clean", "dir"]);
    assert_eq!(cleaned.status, Some(0), "{}", cleaned.err);
    let mut left: Vec<_> = fs::read_dir(place.path("dir")).unwrap().map(|e| e.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, [".trace.5", "a.trace.7.bak", "a.trace.merge", "notes"]);
}
