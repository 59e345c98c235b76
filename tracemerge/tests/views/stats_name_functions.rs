//! The statistics of messages count calls by function, and name the functions as the other views do.
#![allow(clippy::unwrap_used, reason = "a failure in a test fails it")]

use serde_json::Value;

use crate::support::{Place, run, whole_file};

/// The lines of a thread: a function with a hook, whose leaving names no function, one of a site, and one whose address
/// belongs to no module.
const LINES: [&str; 12] = [
    ": starts",
    "> hook 0x55d5c0ffee00 app::parse at src/parse.rs:88",
    "> app::net::send at src/net.rs:12",
    "< app::net::send at src/net.rs:12",
    "> hook 0x55d5c0ffee00 app::parse at src/parse.rs:88",
    "< hook 0x0",
    "< hook 0x0",
    "> hook 0x1234",
    "< hook 0x0",
    "> span=4 app::request at src/net.rs:50",
    "< span=4 app::request at src/net.rs:50",
    ": ends",
];

fn place() -> Place {
    let place = Place::new();
    let lines = (1..).zip(LINES).map(|(ticks, line)| format!("{ticks:016x}-00000009 {line}\n"));
    place.write("app.trace.9", whole_file(&run(5, 0), 9, "main", lines.collect::<String>().as_bytes()));
    place
}

fn shown(place: &Place, args: &[&str]) -> String {
    let ran = place.merge(args);
    assert_eq!(ran.status, Some(0), "{}", ran.err);
    String::from_utf8(ran.out).unwrap()
}

#[test]
fn calls_are_counted_by_function_and_named_with_their_place() {
    let table = shown(&place(), &["stats", "app"]);
    assert!(table.starts_with("12 messages of 1 thread"), "{table}");
    for (count, function) in [
        (4, "app::parse  (parse.rs:88)"),
        (2, "app::net::send  (net.rs:12)"),
        (2, "app::request  (net.rs:50)"),
        (1, "starts"),
    ] {
        let row = table.lines().find(|line| line.ends_with(&format!("  {function}")));
        let row = row.unwrap_or_else(|| panic!("{function}: {table}"));
        assert_eq!(row.split_whitespace().next(), Some(&count.to_string()[..]), "{table}");
    }
    assert!(table.contains("  0x1234 (of no known module)") && !table.contains("hook"), "{table}");
}

#[test]
fn rows_for_programs_have_the_function_and_its_place() {
    let json: Value = serde_json::from_str(&shown(&place(), &["stats", "--json", "app"])).unwrap();
    let rows = json["by_sort"].as_array().unwrap();
    let row = rows.iter().find(|row| row["function"] == "app::parse").unwrap();
    let found = ["message", "count", "file", "line", "has_site"].map(|column| row[column].clone());
    assert_eq!(Value::from(found.to_vec()), serde_json::json!(["app::parse", 4, "src/parse.rs", 88, false]));
    assert_eq!((json["messages"].as_u64(), json["sorts"].as_u64()), (Some(12), Some(6)));
}
