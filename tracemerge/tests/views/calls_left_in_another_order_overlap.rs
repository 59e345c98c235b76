//! A call that is left after a call around it overlaps with this call in each view, with its own times, and no view
//! says that it has no leave record, unless records were lost.
#![allow(clippy::unwrap_used, reason = "a failure in a test fails it")]

use crate::data_sets_have_every_record_once::rows_below;
use crate::support::{Place, run, whole_file};
use serde_json::{Map, Value, json};

/// Makes the trace of a thread: ticks of 250 ns, and text.
fn place(lines: &[(u64, &str)]) -> Place {
    let text: String = lines.iter().map(|(ticks, text)| format!("{ticks:016x}-00000005 {text}\n")).collect();
    let place = Place::new();
    place.write("app.trace.5", whole_file(&run(4, 0), 5, "five", text.as_bytes()));
    place
}

/// The kinds of the two calls, and their payloads: of the first one, and of the second one.
const CALLS: [(&str, &str, &str); 6] = [
    ("spans", "span=1 first at src/main.rs:3", "span=2 second at src/main.rs:4"),
    ("two spans of one site", "span=1 first at src/main.rs:3", "span=2 first at src/main.rs:3"),
    ("guards with a site", "first at src/main.rs:3", "second at src/main.rs:4"),
    ("guards in one line", "first at src/main.rs:3", "first at src/main.rs:3 site 2"),
    ("guards with an address", "0x1f first at src/main.rs:3", "0x2f second at src/main.rs:4"),
    ("a function that drops a guard", "first at src/main.rs:3", "hook 0x2f second at src/main.rs:4"),
];

/// The second call is left 6,000 ticks after the first one.
fn overlapping(first: &str, second: &str) -> Place {
    place(&[
        (1000, &format!("> {first}")),
        (2000, &format!("> {second}")),
        (3000, &format!("< {first}")),
        (5000, ": still in second"),
        (9000, &format!("< {second}")),
        (9500, ": outside"),
    ])
}

fn shown(place: &Place, args: &[&str]) -> String {
    let ran = place.merge([args, &["app"]].concat());
    assert_eq!((ran.status, ran.err.contains("leave record")), (Some(0), false), "{}", ran.err);
    String::from_utf8(ran.out).unwrap()
}

/// Returns the text behind the columns of the time and the thread.
fn behind_columns(text: &str) -> Vec<&str> {
    text.lines().map(|line| line.split_once("five").unwrap().1).collect()
}

/// Returns the shown names of the two calls, and their numbers if they are spans.
fn names(first: &str, second: &str) -> [(&'static str, &'static str); 2] {
    let second_name = if second.contains("second") { "second" } else { "first" };
    let numbers = if first.starts_with("span") { [" #1", " #2"] } else { ["", ""] };
    [("first", numbers[0]), (second_name, numbers[1])]
}

#[test]
fn a_tree_shows_where_each_call_begins_and_ends() {
    for (what, first, second) in CALLS {
        let place = overlapping(first, second);
        let [(one, number), (other, other_number)] = names(first, second);
        let line = if other == one { 3 } else { 4 };
        let expected = [
            format!("             {one}{number}  (main.rs:3) {{"),
            format!("               {other}{other_number}  (main.rs:{line}) {{"),
            format!("     500 us  }} {one}"),
            "                 : still in second".to_owned(),
            format!("    1.75 ms    }} {other}  <- left after a call around it"),
            "             : outside".to_owned(),
        ];
        assert_eq!(behind_columns(&shown(&place, &["tree"])), expected, "{what}");
        // The second one is long enough, and the first one is not. A message before that is not shown.
        let long = shown(&place, &["tree", "--min-duration", "1ms"]);
        let expected =
            format!("    1.75 ms    {other}{other_number}  (main.rs:{line})  <- left after a call around it");
        assert_eq!(behind_columns(&long), [expected], "{what}");
        if other == "second" {
            let selected = shown(&place, &["tree", "--function", "second"]);
            let expected = [
                format!("             second{other_number}  (main.rs:4) {{"),
                "               : still in second".to_owned(),
                "    1.75 ms  } second  <- left after a call around it".to_owned(),
            ];
            assert_eq!(behind_columns(&selected), expected, "{what}");
        }
    }
}

#[test]
fn a_tree_ends_a_call_that_another_thread_leaves() {
    let place = Place::new();
    for (tid, name, lines) in [
        (5, "five", &[(1000, "> span=1 f at src/main.rs:3"), (9500, ": outside")][..]),
        (6, "six", &[(2000, ": before"), (5000, "< span=1 ended f at src/main.rs:3"), (6000, ": after")]),
    ] {
        let text: String =
            lines.iter().map(|(ticks, text)| format!("{ticks:016x}-{tid:08} {text}\n")).collect();
        place.write(format!("app.trace.{tid}"), whole_file(&run(4, 0), tid, name, text.as_bytes()));
    }
    let tree = shown(&place, &["tree"]);
    let of_five: Vec<_> = tree.lines().filter_map(|line| Some(line.split_once("five")?.1)).collect();
    let expected = ["    1.00 ms  f #1  (main.rs:3)  <- left on another thread", "             : outside"];
    assert_eq!(of_five.iter().map(|line| line.trim_end()).collect::<Vec<_>>(), expected, "{tree}");
}

#[test]
fn show_indents_what_is_inside_the_call_that_goes_on() {
    for (what, first, second) in CALLS {
        let [(one, number), (other, other_number)] = names(first, second);
        let line = if other == one { 3 } else { 4 };
        let expected = [
            format!("  -> {one}{number}  (main.rs:3)"),
            format!("    -> {other}{other_number}  (main.rs:{line})"),
            format!("  <- {one}{number}"),
            "      still in second".to_owned(),
            format!("    <- {other}{other_number}"),
            "  outside".to_owned(),
        ];
        assert_eq!(behind_columns(&shown(&overlapping(first, second), &["show"])), expected, "{what}");
    }
}

#[test]
fn a_report_has_the_times_of_each_call() {
    for (what, first, second) in CALLS {
        let report = shown(&overlapping(first, second), &["report", "--json"]);
        let report: Value = serde_json::from_str(&report).unwrap();
        assert_eq!((&report["without_leave"], &report["without_enter"]), (&json!(0), &json!(0)), "{what}");
        let row = |name: &str| {
            let rows = report["functions"].as_array().unwrap();
            let row = rows.iter().find(|row| row["function"] == name).unwrap();
            ["calls", "total_ns", "self_ns"].map(|key| row[key].as_u64().unwrap())
        };
        // The second one was inside the first one for 1,000 ticks.
        if second.contains("second") {
            assert_eq!(row("first"), [1, 500_000, 250_000], "{what}");
            assert_eq!(row("second"), [1, 1_750_000, 1_750_000], "{what}");
        } else {
            assert_eq!((row("first")[0], row("first")[2]), (2, 2_000_000), "{what}");
        }
    }
}

#[test]
fn a_data_set_has_the_times_of_each_call() {
    for (what, first, second) in CALLS {
        let place = overlapping(first, second);
        let ran = place.merge(["dataset", "add", "set", "app"]);
        assert_eq!(ran.status, Some(0), "{what}: {}", ran.err);
        let times = |row: &Map<String, Value>| ["duration", "own"].map(|key| row[key].as_i64().unwrap());
        let rows = rows_below(&place.path("set/calls"));
        let found: Vec<_> = rows.iter().map(times).collect();
        assert_eq!(found, [[500_000, 250_000], [1_750_000, 1_750_000]], "{what}");
    }
}

#[test]
fn timelines_begin_the_slice_again() {
    for (what, first, second) in CALLS {
        let place = overlapping(first, second);
        shown(&place, &["--format", "chrome", "-o", "timeline"]);
        let all: Value = serde_json::from_slice(&place.read("timeline")).unwrap();
        let events = all["traceEvents"].as_array().unwrap().iter();
        let slices = events.filter(|event| event["ph"] == "B" || event["ph"] == "E");
        let found: Vec<_> = slices
            .map(|slice| (slice["ph"].as_str().unwrap(), slice["name"].as_str(), &slice["args"]["goes on"]))
            .collect();
        let (no, yes) = (&Value::Null, &Value::Bool(true));
        let [(one, _), (other, _)] = names(first, second);
        let expected = [
            ("B", Some(one), no),
            ("B", Some(other), no),
            ("E", None, yes),
            ("E", None, no),
            ("B", Some(other), no),
            ("E", None, no),
        ];
        assert_eq!(found, expected, "{what}");
    }
}

#[test]
fn a_call_ends_with_the_call_around_it_if_records_were_lost() {
    for (what, first, second) in CALLS {
        let place = place(&[
            (1000, &format!("> {first}")),
            (2000, &format!("> {second}")),
            (2500, "# lost records=1 reason=full"),
            (3000, &format!("< {first}")),
            (9500, ": outside"),
        ]);
        let tree = String::from_utf8(place.merge(["tree", "app"]).out).unwrap();
        let [_, (other, _)] = names(first, second);
        assert!(tree.contains(&format!("}} {other}  <- no leave record")), "{what}: {tree}");
        assert_eq!(behind_columns(&tree).last(), Some(&"             : outside"), "{what}: {tree}");
    }
}

#[test]
fn a_function_ends_with_the_function_around_it() {
    // The hooks of Rust do not name the function that is left: it is the innermost function, and not a guard.
    for (what, left) in [
        ("the function is named", "hook 0x1f outer at src/main.rs:3"),
        ("the function is not named", "hook 0x0"),
    ] {
        let place = place(&[
            (1000, "> hook 0x1f outer at src/main.rs:3"),
            (1500, "> span=1 guard at src/main.rs:5"),
            (2000, "> hook 0x2f inner at src/main.rs:4"),
            (2500, "< hook 0x0"),
            (3000, &format!("< {left}")),
            (4000, "< span=1 guard at src/main.rs:5"),
        ]);
        let expected = [
            "             outer  (main.rs:3) {",
            "               guard #1  (main.rs:5) {",
            "     125 us      inner  (main.rs:4)",
            "     500 us  } outer",
            "     625 us    } guard  <- left after a call around it",
        ];
        assert_eq!(behind_columns(&shown(&place, &["tree"])), expected, "{what}");
    }
    // A `longjmp` has left the inner function.
    let place = place(&[
        (1000, "> hook 0x1f outer at src/main.rs:3"),
        (2000, "> hook 0x2f inner at src/main.rs:4"),
        (3000, "< hook 0x1f outer at src/main.rs:3"),
    ]);
    let tree = String::from_utf8(place.merge(["tree", "app"]).out).unwrap();
    assert!(tree.contains("inner  (main.rs:4)  <- no leave record"), "{tree}");
}
