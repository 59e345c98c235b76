//! A report has twenty functions unless the user asks for more, and then the sums of all functions; the forms for
//! programs have all rows.
#![allow(clippy::unwrap_used, reason = "a failure in a test fails it")]

use crate::support::{Place, line, rows_of_report, run, shows, whole_file};

/// The number of calls of each function in each thread.
const CALLS: usize = 3;

/// Makes traces of two threads. Each calls functions 0 to `functions`, `CALLS` times each; a call of function N takes
/// N + 1 ticks.
fn place_with(functions: u64) -> Place {
    let place = Place::new();
    for (tid, name) in [(8, "one"), (9, "two")] {
        let (mut lines, mut ticks) = (String::new(), 0);
        for function in (0..functions).flat_map(|function| [function; CALLS]) {
            for (mark, taken) in [('>', 0), ('<', function + 1)] {
                ticks += taken;
                let call = format!("{mark} app::f{function} at src/main.rs:{function}");
                lines.push_str(&format!("{ticks:016x}-{tid:08} {call}\n"));
            }
        }
        place.write(format!("app.trace.{tid}"), whole_file(&run(5, 0), tid, name, lines.as_bytes()));
    }
    place
}

fn shown(place: &Place, args: &[&str]) -> String {
    let ran = place.merge([args, &["app"]].concat());
    assert_eq!(ran.status, Some(0), "{args:?}: {}", ran.err);
    String::from_utf8(ran.out).unwrap()
}

/// Returns the cells of the rows of sums.
fn sums(report: &str) -> Vec<Vec<&str>> {
    let rows = report.lines().filter(|line| line.ends_with("  all functions"));
    rows.map(|line| line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect()).collect()
}

#[test]
fn a_report_has_twenty_functions_the_sums_of_all_and_the_number_of_the_others() {
    let place = place_with(111);
    let report = shown(&place, &["report"]);
    let rows = rows_of_report(report.as_bytes());
    // Those that took the longest are the last ones.
    let expected: Vec<String> = (91..111).rev().map(|function| format!("app::f{function}")).collect();
    assert_eq!(rows.iter().map(|row| row.function.clone()).collect::<Vec<_>>(), expected);
    // The other columns are empty.
    assert_eq!((sums(&report)[0][0], sums(&report)[0].len()), ("666", 3), "{report}");
    let last = report.lines().last().unwrap();
    assert_eq!(last, "and 91 more functions: tracemerge report --rows all shows them");
    assert!(report.lines().count() < 25, "{report}");
}

#[test]
fn a_report_leaves_out_functions_without_any_time_unless_all_are_wanted() {
    let place = Place::new();
    let lines = ["> app::long at a.rs:1", "> app::short at a.rs:2", "< app::short at a.rs:2"];
    let at_once = lines.iter().map(|line| format!("{:016x}-00000005 {line}\n", 1000)).collect::<String>();
    let left = format!("{:016x}-00000005 < app::long at a.rs:1\n", 2000);
    place.write("app.trace.5", whole_file(&run(4, 0), 5, "five", (at_once + &left).as_bytes()));
    let report = shown(&place, &["report"]);
    let names = |report: &str| -> Vec<String> {
        rows_of_report(report.as_bytes()).iter().map(|row| row.function.clone()).collect()
    };
    assert_eq!(names(&report), ["app::long"], "{report}");
    assert_eq!(sums(&report)[0][0], "2", "the sums are those of all: {report}");
    assert_eq!(
        report.lines().last().unwrap(),
        "and 1 function whose calls took no time: tracemerge report --rows all shows them"
    );
    let all = shown(&place, &["report", "--rows", "all"]);
    assert_eq!(names(&all), ["app::long", "app::short"], "{all}");
    assert!(all.ends_with("all functions\n"), "{all}");
    for form in ["--json", "--csv"] {
        assert!(shown(&place, &["report", form]).contains("app::short"), "{form}");
    }
}

#[test]
fn the_user_chooses_the_number_of_functions() {
    let place = place_with(21);
    for (wanted, expected) in [("0", 0), ("5", 5), ("20", 20), ("21", 21), ("22", 21), ("all", 21)] {
        let report = shown(&place, &["report", "--rows", wanted]);
        assert_eq!(rows_of_report(report.as_bytes()).len(), expected, "{report}");
        assert_eq!(sums(&report).len(), 1, "{report}");
        let more = report.lines().last().unwrap().starts_with("and ");
        assert_eq!(more, expected < 21, "{report}");
    }
    let one = shown(&place, &["report", "--rows", "20"]);
    assert!(one.ends_with("and 1 more function: tracemerge report --rows all shows them\n"), "{one}");
    for refused in ["", "few", "-1"] {
        let ran = place.merge(["report", &format!("--rows={refused}"), "app"]);
        assert_eq!(ran.status, Some(2), "{refused}");
        assert!(ran.err.contains("expected a number of rows, such as 20, or all"), "{}", ran.err);
    }
}

#[test]
fn a_report_for_each_thread_has_the_limit_and_the_sums_of_each() {
    let place = place_with(30);
    let report = shown(&place, &["report", "--by-thread", "--rows", "7"]);
    let tables: Vec<&str> = report.split("\n\n").skip(1).collect();
    assert_eq!(tables.len(), 2, "{report}");
    for (table, name) in tables.iter().zip(["one", "two"]) {
        assert!(table.starts_with(&format!("{name}\n")), "{table}");
        assert_eq!(rows_of_report(table.as_bytes()).len(), 7, "{table}");
        assert_eq!(sums(table)[0][0], "90", "{table}");
        assert!(table.trim_end().ends_with("and 23 more functions: tracemerge report --rows all shows them"));
    }
}

#[test]
fn the_sum_of_own_times_is_that_of_the_rows() {
    let place = place_with(40);
    let json = shown(&place, &["report", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let rows = json["functions"].as_array().unwrap();
    let own: u64 = rows.iter().map(|row| row["self_ns"].as_u64().unwrap()).sum();
    let report = shown(&place, &["report"]);
    let shown = sums(&report)[0][1];
    assert!(shows(shown, own), "{shown} {own}");
}

#[test]
fn forms_for_programs_have_all_functions() {
    let place = place_with(50);
    for limit in [&[][..], &["--rows", "3"]] {
        let json = shown(&place, &[&["report", "--json"], limit].concat());
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json["functions"].as_array().unwrap().len(), 50);
        let csv = shown(&place, &[&["report", "--csv"], limit].concat());
        assert_eq!(csv.lines().count(), 51, "{csv}");
        assert!(!csv.contains("all functions"));
    }
}

#[test]
fn every_table_takes_all_for_its_number_of_rows() {
    let place = Place::new();
    let words = ('a'..='z').map(|letter| letter.to_string().repeat(5)).collect::<Vec<_>>();
    let lines = words.iter().zip(1..).map(|(word, ticks)| line(ticks, 9, word)).collect::<Vec<_>>();
    place.write("app.trace.9", whole_file(&run(5, 0), 9, "one", &lines.concat()));
    assert!(shown(&place, &["stats"]).contains("and 6 more sorts of messages"));
    let all = shown(&place, &["stats", "--rows", "all"]);
    assert!(words.iter().all(|word| all.contains(word)), "{all}");
    assert!(shown(&place, &["locks", "--rows", "all"]).contains("no lock was waited for"));
}
