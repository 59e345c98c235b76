//! `tree --collapse` has one line for each call path, with the number of its calls and their times.
#![allow(clippy::unwrap_used, reason = "a failure in a test fails it")]

use std::collections::BTreeMap;

use crate::support::{Place, everything, run, whole_file};

fn shown(place: &Place, args: &[&str]) -> (String, String) {
    let ran = place.merge([&["tree", "--collapse"], args, &["app"]].concat());
    assert_ne!(ran.status, Some(2), "{}", ran.err);
    (String::from_utf8(ran.out).unwrap(), ran.err)
}

/// Returns the cells of the rows: calls, total, self and function. The function keeps its indentation.
fn rows(text: &str) -> Vec<[String; 4]> {
    // A line about waits for the tracer may come before the table.
    let mut lines = text.lines().skip(1);
    let column = lines.find_map(|line| line.find("  function")).unwrap() + 2;
    let row = |line: &str| {
        let cells: Vec<&str> =
            line[..column].split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
        let [calls, total, own] = cells[..] else { panic!("{line}") };
        [calls, total, own, &line[column..]].map(str::to_owned)
    };
    lines.map(row).collect()
}

/// Two threads, in which `a` calls `b` three times and `c` once, `b` calls `c`; and `d` alone. A tick is 250 ns.
fn place() -> Place {
    let place = Place::new();
    for tid in [8, 9] {
        let (mut lines, mut ticks) = (String::new(), 0);
        let mut call = |mark: char, function: char, after: u64| {
            ticks += after;
            lines.push_str(&format!("{ticks:016x}-{tid:08} {mark} {function} at src/m.rs:1\n"));
        };
        call('>', 'a', 0);
        for _ in 0..3 {
            call('>', 'b', 4);
            call('>', 'c', 8);
            call('<', 'c', 40);
            call('<', 'b', 0);
        }
        call('>', 'c', 0);
        call('<', 'c', 4);
        call('<', 'a', 0);
        call('>', 'd', 0);
        call('<', 'd', 0);
        place.write(format!("app.trace.{tid}"), whole_file(&run(5, 0), tid, "x", lines.as_bytes()));
    }
    place
}

#[test]
fn each_path_is_one_line_below_that_of_its_caller() {
    let (text, _) = shown(&place(), &[]);
    assert!(text.starts_with("18 calls of 2 threads\n"), "{text}");
    let expected = [
        ["2", "80.0 us", "6.00 us", "a  (m.rs:1)"],
        ["6", "72.0 us", "12.0 us", "  b  (m.rs:1)"],
        ["6", "60.0 us", "60.0 us", "    c  (m.rs:1)"],
        ["2", "2.00 us", "2.00 us", "  c  (m.rs:1)"],
        ["2", "0 ns", "0 ns", "d  (m.rs:1)"],
    ];
    assert_eq!(rows(&text), expected.map(|row| row.map(str::to_owned)), "{text}");
}

#[test]
fn functions_and_durations_select_paths() {
    let place = place();
    let functions = |args: &[&str]| {
        let rows = rows(&shown(&place, args).0).into_iter();
        rows.map(|row| row[3].replace("  (m.rs:1)", "")).collect::<Vec<_>>()
    };
    assert_eq!(functions(&["--function", "^b$"]), ["b", "  c"]);
    assert_eq!(functions(&["--function", "^c$"]), ["c", "c"]);
    assert_eq!(functions(&["--min-duration", "50us"]), ["a", "  b", "    c"]);
    assert_eq!(functions(&["--depth", "1"]), ["a", "  \u{2026} 14 more calls (8 of c)", "d"]);
    let (text, err) = shown(&place, &["--function", "nowhere"]);
    assert!(rows(&text).is_empty(), "{text}");
    assert!(
        err.ends_with("no called function matches --function; there are calls of c, b, a and 1 other\n"),
        "{err}"
    );
}

#[test]
fn the_numbers_of_calls_are_those_of_the_trace() {
    let all = everything(10_000);
    let (text, _) = shown(&all.place, &["--all-runs", "--depth", "all"]);
    let mut expected: BTreeMap<Vec<&str>, u64> = BTreeMap::new();
    for ((_, path), calls) in &all.paths {
        *expected.entry(path.clone()).or_default() += calls;
    }
    let (mut found, mut path) = (BTreeMap::new(), Vec::new());
    let rows = rows(&text);
    for [calls, _, _, function] in &rows {
        let name = function.trim_start();
        path.truncate((function.len() - name.len()) / 2);
        path.push(name.split("  (").next().unwrap());
        *found.entry(path.clone()).or_default() += calls.replace(',', "").parse::<u64>().unwrap();
    }
    assert!(rows.len() > 10 && found == expected, "{found:?} {expected:?}");
}
