//! If there is nothing to show, the command reports the true reason; it deletes and names nothing by mistake.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a failure in a test fails it")]

use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;

use crate::support::{Place, Ran, file, line, meta, ran, run};
use trace_format::line::Ticks;
use trace_format::meta::{Meta, SystemClocks};
use trace_format::wall::Wall;

/// A user who owns nothing here: `nobody`.
const NOBODY: u32 = 65_534;

/// Runs the command as a user who is not root, so that permissions count.
fn as_ordinary_user(place: &Place, args: &[&str]) -> Ran {
    // The owner of this new directory is the user who runs the test.
    if place.path(".").metadata().unwrap().uid() != 0 {
        return place.merge(args);
    }
    set_permissions(place.path("."), Permissions::from_mode(0o755)).unwrap();
    // Not every user can access the directory in which programs are built. If another process makes the copy, no
    // process that this one forks has it open for writing.
    let copy = place.path("tmp/tracemerge");
    assert_eq!(ran(place.program("cp").arg(env!("CARGO_BIN_EXE_tracemerge")).arg(&copy)).status, Some(0));
    ran(place.program(&copy).uid(NOBODY).gid(NOBODY).args(args))
}

#[test]
fn unreadable_files_are_not_reported_as_absent() {
    let place = Place::with_one_file();
    set_permissions(place.path("app.trace.9"), Permissions::from_mode(0o000)).unwrap();
    for app in ["app", "."] {
        let ran = as_ordinary_user(&place, &[app, "-o", "-"]);
        assert_eq!(ran.status, Some(2), "{}", ran.err);
        assert!(ran.err.contains("can be read: cannot open"), "{}", ran.err);
        assert!(ran.err.contains("Permission denied"), "{}", ran.err);
        assert!(!ran.err.contains("no trace files"), "{}", ran.err);
    }
}

#[test]
fn an_unsearchable_directory_is_not_reported_as_empty() {
    let place = Place::new();
    std::fs::create_dir(place.path("shut")).unwrap();
    set_permissions(place.path("shut"), Permissions::from_mode(0o000)).unwrap();
    let ran = as_ordinary_user(&place, &["shut", "-o", "-"]);
    assert_eq!(ran.status, Some(2), "{}", ran.err);
    assert!(ran.err.contains("not all places can be searched"), "{}", ran.err);
}

#[test]
fn the_output_is_named_after_the_first_application_that_has_traces() {
    let place = Place::with_one_file();
    let ran = place.merge(["./watch", "app"]);
    assert_eq!(ran.status, Some(1), "{}", ran.err);
    assert!(ran.err.contains("no trace files of './watch'"), "{}", ran.err);
    assert_eq!(place.names(), ["app.trace.9", "app.trace.merge"]);
}

#[test]
fn merge_may_be_given_as_a_command() {
    let place = Place::with_one_file();
    assert_eq!(place.merge(["merge", "app", "-q"]).status, Some(0));
    assert_eq!(place.names(), ["app.trace.9", "app.trace.merge"]);
}

#[test]
fn cleaning_a_missing_path_is_rejected() {
    let place = Place::with_one_file();
    let ran = place.merge(["clean", "apq"]);
    assert_eq!(ran.status, Some(2), "{}", ran.err);
    assert!(ran.err.contains("there is no 'apq'"), "{}", ran.err);
    assert_eq!(place.names(), ["app.trace.9"]);
}

#[test]
fn a_directory_is_cleaned_of_the_traces_in_it() {
    let place = Place::with_one_file();
    place.write("other.trace.8", file(&run(6, 2), 8, &[4]));
    place.write("notes", "not a trace");
    assert_eq!(place.merge([".", "-q"]).status, Some(0));
    let ran = place.merge(["clean", "."]);
    assert_eq!(ran.status, Some(0), "{}", ran.err);
    assert!(ran.err.contains("deleted 2 trace files and './trace.merge'"), "{}", ran.err);
    assert_eq!(place.names(), ["notes"]);
}

#[test]
fn a_log_is_selected_only_as_thread_0_or_by_its_name() {
    let place = Place::new();
    let run = run(5, 1);
    let wall = |seconds: u64| Wall(run.wall.0 + seconds * 1_000_000_000);
    let clock =
        meta(4000, 9, &Meta::Clock { ticks: Ticks(4000), wall: wall(40), system: SystemClocks::default() });
    place.write("app.trace.9", [file(&run, 9, &[1000, 3000]), clock].concat());
    place.write("log", format!("{} noted\n", wall(20)));
    let shown = |args: &[&str]| {
        let ran = place.merge(["app", "--with", "log", "-q"].iter().chain(args));
        (ran.status, String::from_utf8(ran.out).unwrap())
    };
    let has = |args: &[&str]| {
        let (status, text) = shown(args);
        assert_eq!(status, Some(0), "{args:?}: {text}");
        (text.contains("noted"), text.contains("line 0 of 9"))
    };
    assert_eq!(has(&["--thread", "0"]), (true, false));
    assert_eq!(has(&["--thread", "lo*"]), (true, false));
    assert_eq!(has(&["--process", "0"]), (true, false));
    assert_eq!(has(&["--thread", "9"]), (false, true));
    assert_eq!(has(&["--process", "5"]), (false, true));
    assert_eq!(has(&["--thread", "9", "--thread", "0"]), (true, true));
    assert_eq!(has(&["--time", "offset"]), (true, true));
    assert_eq!(shown(&["--thread", "7"]).0, Some(2));
}

#[test]
fn a_wrong_number_of_records_is_explained() {
    let place = Place::with_one_file();
    for option in ["--head", "--last"] {
        let ran = place.merge(["app", option, "x"]);
        assert_eq!(ran.status, Some(2));
        assert!(ran.err.contains("expected a number of records, such as 20"), "{}", ran.err);
    }
}

#[test]
fn an_empty_time_range_is_answered_with_the_times_of_the_traces() {
    let place = Place::new();
    let run = run(5, 1);
    let clock = Meta::Clock {
        ticks: Ticks(2001),
        wall: Wall(run.wall.0 + 2_000_000_000),
        system: SystemClocks::default(),
    };
    place.write("app.trace.9", [file(&run, 9, &[3, 7]), meta(2001, 9, &clock)].concat());
    let ran = place.merge(["app", "--since", "1h"]);
    assert_eq!((ran.status, &ran.out[..]), (Some(0), &b""[..]), "{}", ran.err);
    let first = run.wall;
    let last = Wall(first.0 + 2_000_000_000);
    let told = format!("no records found; the traces are from {first} to {last} (2.00 s)");
    assert!(ran.err.contains(&told), "{}", ran.err);
    let ran = place.merge(["app", "--since", "@99999"]);
    assert!(ran.err.contains("no records found; the traces are from ticks 0x1 to 0x7d1"), "{}", ran.err);
    // If there is something to show, there is no such message.
    place.write("app.trace.9", [file(&run, 9, &[3]), line(5000, 9, "last")].concat());
    assert!(!place.merge(["app", "--since", "@4000"]).err.contains("no records found"));
}
