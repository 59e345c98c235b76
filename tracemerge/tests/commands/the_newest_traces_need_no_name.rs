//! Commands that only read take the newest traces below the current directory if no application is named.
#![allow(clippy::unwrap_used, reason = "a failure in a test fails it")]

use std::fs::{self, File};
use std::time::{Duration, SystemTime};

use crate::support::{Place, Ran, line, run, whole_file};

/// The commands that read traces and write no file.
const READING: [&str; 8] = ["show", "stats", "rates", "tree", "report", "locks", "info", "check"];

/// Writes a trace with one message, which was changed some seconds ago.
fn trace(place: &Place, path: &str, message: &str, seconds_ago: u64) {
    fs::create_dir_all(place.path(path).parent().unwrap()).unwrap();
    place.write(path, whole_file(&run(5, 0), 9, "main", &line(3, 9, message)));
    let time = SystemTime::now() - Duration::from_secs(seconds_ago);
    File::options().append(true).open(place.path(path)).unwrap().set_modified(time).unwrap();
}

fn shown(place: &Place, args: &[&str]) -> (String, String) {
    let Ran { status, out, err } = place.merge(args);
    // `check` finds that these files are not numbered.
    assert_ne!(status, Some(2), "{args:?}: {err}");
    (String::from_utf8(out).unwrap(), err)
}

/// Returns what the command says about its choice.
fn choice(app: &str) -> String {
    format!("tracemerge: no application was named; showing the newest traces: '{app}'\n")
}

#[test]
fn each_reading_command_takes_the_newest_traces_and_names_them() {
    let place = Place::new();
    trace(&place, "old.trace.9", "old", 200);
    trace(&place, "target/debug/app.trace.9", "new", 100);
    for command in READING {
        let (out, err) = shown(&place, &[command]);
        // Wine and Windows show their own separator.
        assert!(err.replace('\\', "/").contains(&choice("./target/debug/app")), "{command}: {err}");
        assert_eq!(out, shown(&place, &[command, "./target/debug/app"]).0, "{command}");
    }
    assert!(shown(&place, &["show"]).0.ends_with("  new\n"));
    trace(&place, "old.trace.9", "changed", 0);
    assert!(shown(&place, &["show"]).0.ends_with("  changed\n"));
    assert_eq!(place.names(), ["old.trace.9", "target"]);
}

#[test]
fn a_quiet_command_does_not_name_them() {
    let place = Place::new();
    trace(&place, "app.trace.9", "one", 0);
    let (out, err) = shown(&place, &["show", "-q"]);
    assert!(out.ends_with("  one\n") && err.is_empty(), "{out}{err}");
}

#[test]
fn commands_that_write_need_a_name() {
    let place = Place::new();
    trace(&place, "app.trace.9", "one", 0);
    for command in
        [&["merge"][..], &["clean"], &["open"], &["diff"], &["run"], &["--format", "csv"], &["-o", "x"]]
    {
        assert_eq!(place.merge(command).status, Some(2), "{command:?}");
    }
    assert_eq!(place.names(), ["app.trace.9"]);
}

#[test]
fn if_there_are_none_the_command_says_how_to_make_some() {
    let place = Place::new();
    place.write("app.trace.merge", "merged\n");
    place.write(".trace.9", "no name\n");
    for command in READING {
        let Ran { status, out, err } = place.merge([command]);
        assert_eq!((status, out.len()), (Some(2), 0), "{command}: {err}");
        assert!(err.contains("there are no traces of yours below the current directory"), "{err}");
        assert!(err.contains("TRACER_ENABLE=1") && err.contains("tracemerge run ./app"), "{err}");
    }
}

#[test]
fn only_near_and_visible_directories_are_searched() {
    let place = Place::new();
    trace(&place, "1/2/3/4/5/6/7/8/near.trace.9", "near", 100);
    for (number, unseen) in
        ["1/2/3/4/5/6/7/8/9/far", ".git/hidden", ".cache/hidden", "node_modules/x/y", "target/incremental/z"]
            .into_iter()
            .enumerate()
    {
        trace(&place, &format!("{unseen}.trace.9"), "unseen", number as u64);
    }
    let (out, err) = shown(&place, &["show"]);
    assert!(out.ends_with("  near\n"), "{out}{err}");
}

#[cfg(unix)]
#[test]
fn symbolic_links_are_not_followed() {
    let place = Place::new();
    trace(&place, "app.trace.9", "own", 100);
    trace(&place, "tmp/x/other.trace.9", "other", 0);
    fs::create_dir(place.path("here")).unwrap();
    fs::rename(place.path("app.trace.9"), place.path("here/app.trace.9")).unwrap();
    std::os::unix::fs::symlink("../tmp/x", place.path("here/linked")).unwrap();
    std::os::unix::fs::symlink("../tmp/x/other.trace.9", place.path("here/linked.trace.9")).unwrap();
    let shown = crate::support::ran(place.command().arg("show").current_dir(place.path("here")));
    assert_eq!(shown.status, Some(0), "{}", shown.err);
    assert!(shown.err.contains(&choice("./app")), "{}", shown.err);
}

#[test]
fn the_search_ends_after_ten_thousand_files() {
    let place = Place::new();
    trace(&place, "first.trace.9", "first", 0);
    fs::create_dir(place.path("many")).unwrap();
    for number in 0..10_100 {
        File::create(place.path(format!("many/{number}"))).unwrap();
    }
    let (_, err) = shown(&place, &["show"]);
    assert!(
        err.contains("newest traces: './first'; only the first 10,000 files and directories were searched"),
        "{err}"
    );
}

#[cfg(unix)]
#[test]
fn traces_of_other_users_are_not_taken() {
    if crate::support::programs::lacks_root() {
        return;
    }
    let place = Place::new();
    trace(&place, "own.trace.9", "own", 100);
    trace(&place, "other.trace.9", "other", 0);
    std::os::unix::fs::chown(place.path("other.trace.9"), Some(65_534), Some(65_534)).unwrap();
    assert!(shown(&place, &["show"]).1.contains(&choice("./own")));
}
