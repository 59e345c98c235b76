//! A view that shows nothing says why on stderr, and what there is; its exit status stays that of a success.
#![allow(clippy::unwrap_used, reason = "a failure in a test fails it")]

use trace_format::meta::Meta;
use trace_format::sites::{Level, Site};

use crate::support::{Place, raw_file_of_sites, run, whole_file};

/// Makes a trace of these lines, a tick apart; a tick is 250 ns.
fn place(lines: &[String]) -> Place {
    let place = Place::new();
    let lines = (1..).zip(lines).map(|(ticks, line)| format!("{ticks:016x}-00000009 {line}\n"));
    place.write("app.trace.9", whole_file(&run(5, 0), 9, "main", lines.collect::<String>().as_bytes()));
    place
}

/// Makes a trace of calls of these functions, each as often as its place in the list says.
fn calls_of(functions: &[&str]) -> Place {
    let mut lines = vec![": a message".to_owned()];
    for (function, times) in functions.iter().zip(1..) {
        for mark in [">", "<"].repeat(times) {
            lines.push(format!("{mark} app::{function} at src/main.rs:3"));
        }
    }
    place(&lines)
}

/// Returns what the command writes on stderr; it shows nothing but a heading, and succeeds.
fn said(place: &Place, args: &[&str]) -> String {
    let ran = place.merge([args, &["app"]].concat());
    assert_eq!(ran.status, Some(0), "{args:?}: {}", ran.err);
    let out = String::from_utf8(ran.out).unwrap();
    assert!(out.lines().count() <= 2 && !out.contains("app::"), "{args:?}: {out}");
    ran.err
}

#[test]
fn a_pattern_that_matches_no_function_is_answered_with_the_functions() {
    for (functions, expected) in [
        (&["one"][..], "app::one"),
        (&["one", "two"], "app::two and app::one"),
        (&["one", "two", "three"], "app::three, app::two and app::one"),
        (&["one", "two", "three", "four"], "app::four, app::three, app::two and 1 other"),
        (&["one", "two", "three", "four", "five"], "app::five, app::four, app::three and 2 others"),
    ] {
        let err = said(&calls_of(functions), &["tree", "--function", "nowhere"]);
        let expected = format!("no called function matches --function; there are calls of {expected}\n");
        assert!(err.ends_with(&expected), "{err}");
    }
}

#[test]
fn calls_that_are_all_too_short_are_explained() {
    let place = calls_of(&["one", "two"]);
    let err = said(&place, &["tree", "--min-duration", "10ms"]);
    assert!(err.ends_with("tracemerge: no shown call took 10.0 ms or longer\n"), "{err}");
    let err = said(&place, &["tree", "--min-duration", "10ms", "--function", "one"]);
    assert!(err.ends_with("no call of a function that matches --function took 10.0 ms or longer\n"), "{err}");
}

#[test]
fn a_trace_without_calls_is_answered_with_the_ways_to_record_some() {
    let place = place(&[": one".to_owned(), ": two".to_owned()]);
    for args in [&["report"][..], &["--format", "folded", "-o", "-"]] {
        let err = said(&place, args);
        for part in ["there are no calls of functions", "tracer::scope!", "cargo tracer", "docs/functions.md"]
        {
            assert!(err.contains(part), "{args:?}: {err}");
        }
    }
    // The tree has the messages.
    let ran = place.merge(["tree", "app"]);
    assert!(ran.status == Some(0) && ran.err.contains("there are no calls of functions"), "{}", ran.err);
}

#[test]
fn a_selection_that_fits_no_record_is_named() {
    let place = calls_of(&["one"]);
    for command in [&["show"][..], &["stats"], &["rates"], &["-o", "-"], &["--format", "jsonl", "-o", "-"]] {
        let err = said(&place, &[command, &["--grep", "nowhere"]].concat());
        assert!(
            err.contains("no records found: none of the records in 1 file fits --grep; of 3 records, "),
            "{command:?}: {err}"
        );
    }
    let err = said(&place, &["show", "--grep", "e", "--invert", "--process", "5"]);
    let expected = "fits --process and --grep and --invert; the pattern matches 3 records\n";
    assert!(err.contains(expected), "{err}");
}

#[test]
fn a_pattern_that_fits_no_record_is_answered_with_the_most_frequent_texts() {
    let line = |number: u64| match number % 8 {
        0 => ": f(x) = [a]".to_owned(),
        1 => format!(": {} at the end {number}", "long ".repeat(40)),
        2 => ": \\x1b[31m".to_owned(),
        3 | 4 => "> 0x55d5c0ffee00".to_owned(),
        _ => format!(": Request {number} took {}ms\n{:016x}-00000009 | and more", number * 7, number + 1),
    };
    let place = place(&(0..800).map(line).collect::<Vec<_>>());
    let frequent = format!(
        "of 800 records, 300 are like 'Request # took #ms', 100 are like 'f(x) = [a]', 100 are like '{}...'; \
         --grep does not search the names of the functions of 200 calls\n",
        "long ".repeat(12)
    );
    for (pattern, other) in [
        ("nowhere", ""),
        ("^request|REQUEST", "'(?i)^request|REQUEST' would fit 300; "),
        ("f(x) = [a]", "'f\\(x\\) = \\[a\\]' would fit 100; "),
        ("F(X)", "'(?i)F\\(X\\)' would fit 100; "),
        ("more.$x", ""),
    ] {
        let err = said(&place, &["show", "--grep", pattern]);
        let expected = format!("fits --grep; {other}{frequent}");
        assert!(err.ends_with(&expected), "{pattern}: {err}\n{expected}");
    }
}

#[test]
fn conditions_that_fit_no_site_are_answered_with_the_sites() {
    let place = Place::new();
    let of = |name: &str, level, line| Site {
        level,
        module: format!("app::{name}"),
        target: if name == "net" { "wire".to_owned() } else { String::new() },
        file: format!("src/{name}.rs"),
        line,
        ..Site::default()
    };
    let sites = [of("net", Level::Info, 7), of("parse", Level::Warn, 8), of("\u{1b}[31m", Level::None, 9)];
    let sites: Vec<Site> = sites.into_iter().zip(1..).map(|(site, id)| Site { id, ..site }).collect();
    let messages = (1..=3).map(|site| (u64::from(site), site, "text".to_owned()));
    let meta = Meta::Run(run(5, 0));
    place.write("app.trace.9", raw_file_of_sites(9, &[(0, &meta)], &sites, messages));
    for (option, value, expected) in [
        ("--level", "error", "the levels warn, info"),
        ("--target", "wirr", "the targets wire, app::parse, app::\\x1b[31m"),
        ("--module", "app::pars", "the modules app::parse, app::net, app::\\x1b[31m"),
        ("--site", "parse.rs:9", "the places src/parse.rs:8, src/net.rs:7, src/\\x1b[31m.rs:9"),
    ] {
        for command in [&["show"][..], &["stats", "--json"], &["--format", "jsonl", "-o", "-"], &["-o", "-"]]
        {
            let ran = place.merge([command, &[option, value, "app"]].concat());
            let expected = format!("fits {option}; the records have {expected}\n");
            assert!(ran.err.contains(&expected), "{command:?}: {}", ran.err);
        }
    }
    // Of two conditions, the one is answered that leaves out all.
    let err = place.merge(["show", "--level", "warn", "--grep", "TEXT", "app"]).err;
    assert!(
        err.contains("--grep and --level; '(?i)TEXT' would fit 1; of 1 record, 1 is like 'text'"),
        "{err}"
    );
    let err = place.merge(["show", "--level", "error", "--grep", "TEXT", "app"]).err;
    assert!(err.contains("fits --grep and --level; the records have the levels warn, info"), "{err}");
    let both = place.merge(["show", "--level", "error", "--since", "@90", "app"]).err;
    assert!(both.contains("the traces are from") && both.contains("fits --level"), "{both}");
}

#[test]
fn a_view_that_shows_something_has_no_such_note() {
    let place = calls_of(&["one", "two"]);
    for args in [
        &["tree"][..],
        &["tree", "--function", "one"],
        &["tree", "--min-duration", "1ns"],
        &["report"],
        &["show", "--grep", "one"],
        &["--format", "folded", "-o", "-"],
    ] {
        let ran = place.merge([args, &["app"]].concat());
        assert_eq!(ran.status, Some(0), "{}", ran.err);
        assert!(!ran.err.contains("no call") && !ran.err.contains("no records"), "{args:?}: {}", ran.err);
        assert!(!ran.out.is_empty(), "{args:?}");
    }
}
