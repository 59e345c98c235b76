//! A first word that is neither a command nor an application is refused before anything is read or written.
#![allow(clippy::unwrap_used, reason = "a failure in a test fails it")]

use std::fs;

use crate::support::{Place, file, ran, run};

#[test]
fn a_misspelt_command_is_refused_with_the_command_that_it_resembles() {
    let place = Place::with_one_file();
    for (word, meant) in [
        ("reprot", "report"),
        ("chekc", "check"),
        ("lokcs", "locks"),
        ("shwo", "show"),
        ("snapshots", "snapshot"),
        ("stat", "stats"),
    ] {
        // Neither order nor options change that.
        for args in [
            &[word][..],
            &[word, "app"],
            &["-q", word, "app"],
            &[word, "app", "-o", "all"],
            &[word, "-f", "app"],
        ] {
            let ran = place.merge(args);
            assert_eq!((ran.status, ran.out.len()), (Some(2), 0), "{args:?}: {}", ran.err);
            let expected = format!(
                "'{word}' is neither a command nor an application with traces; did you mean '{meant}'?"
            );
            assert!(ran.err.contains(&expected), "{args:?}: {}", ran.err);
        }
    }
    assert_eq!(place.names(), ["app.trace.9"]);
}

#[test]
fn options_of_the_command_do_not_hide_that_it_is_misspelt() {
    let place = Place::with_one_file();
    for args in [&["reprot", "--by-thread", "app"][..], &["reprot", "app", "--sort", "calls"]] {
        let ran = place.merge(args);
        assert_eq!(ran.status, Some(2), "{args:?}: {}", ran.err);
        assert!(ran.err.contains("did you mean 'report'?"), "{args:?}: {}", ran.err);
    }
    // An unknown option of a merge or of a command is reported as such.
    for args in [&["app", "--by-thread"][..], &["report", "--by-tread", "app"]] {
        let ran = place.merge(args);
        assert_eq!(ran.status, Some(2), "{args:?}: {}", ran.err);
        assert!(ran.err.contains("unexpected argument"), "{args:?}: {}", ran.err);
    }
}

#[test]
fn a_command_behind_options_is_named_with_the_right_order() {
    let place = Place::with_one_file();
    for (args, right) in [
        (&["--no-pager", "report", "--by-thread", "app"][..], "tracemerge report --no-pager --by-thread app"),
        (&["-q", "spans", "--id", "27", "app"], "tracemerge spans -q --id 27 app"),
        (&["-o", "-", "report", "--by-thread", "app"], "tracemerge report -o - --by-thread app"),
    ] {
        let ran = place.merge(args);
        assert_eq!(ran.status, Some(2), "{args:?}: {}", ran.err);
        let expected =
            format!("options go after the command '{}': {right}\n", right.split(' ').nth(1).unwrap());
        assert!(ran.err.contains(&expected), "{args:?}: {}", ran.err);
    }
}

#[test]
fn a_word_that_means_nothing_is_refused_with_the_searched_places() {
    let place = Place::with_one_file();
    for args in [&["wacht"][..], &["wacht", "app"], &["wacht", "app", "-o", "all"]] {
        let ran = place.merge(args);
        assert_eq!(ran.status, Some(2), "{args:?}: {}", ran.err);
        for part in [
            "'wacht' is neither a command nor an application with traces. Looked for wacht.trace.<thread id> in",
            "or as: tracemerge run 'wacht'",
        ] {
            assert!(ran.err.contains(part), "{args:?}: {}", ran.err);
        }
    }
    assert_eq!(place.names(), ["app.trace.9"]);
}

#[test]
fn files_with_traces_or_with_the_name_are_applications() {
    let place = Place::with_one_file();
    // Only the traces exist, in this directory and in that of TRACER_DIR.
    assert_eq!(place.merge(["app", "-q"]).status, Some(0));
    fs::create_dir(place.path("dir")).unwrap();
    place.write("dir/reprot.trace.9", file(&run(6, 1), 9, &[4]));
    let in_other =
        ran(place.command().args(["reprot", "app", "-o", "-"]).env("TRACER_DIR", place.path("dir")));
    assert_eq!(in_other.status, Some(0), "{}", in_other.err);
    assert_eq!(String::from_utf8(in_other.out).unwrap().matches(" : ").count(), 3);
    // The executable exists, and has no traces.
    place.write("reprot", "a program");
    let none = place.merge(["reprot"]);
    assert_eq!(none.status, Some(2));
    assert!(none.err.contains("no trace files of 'reprot'"), "{}", none.err);
    let other = place.merge(["reprot", "app", "-o", "-"]);
    assert_eq!(other.status, Some(1), "{}", other.err);
    // A path is never a command.
    let path = place.merge(["./chekc"]);
    assert!(path.err.contains("no trace files of './chekc'"), "{}", path.err);
    // Directories are searched.
    assert_eq!(place.merge(["dir", "-o", "-"]).status, Some(0));
}
