//! Tests of the summary against handwritten texts.

use std::sync::{Arc, Mutex};

use jiff::tz::TimeZone;
use trace_format::line::Ticks;
use trace_format::meta::ClockKind;
use trace_format::wall::Wall;

use super::*;
use crate::symbols::Settings;
use crate::time::anchor::Anchor;
use crate::time::clocks::TickClock;
use crate::view::export::summary::lanes::PARTS;
use crate::view::export::time_column::TimeColumn;
use crate::view::function_names::FunctionNames;
use crate::view::thread_labels::Label;

/// Returns the text for these lines: ticks in nanoseconds, the id of the thread, and the rest of the line.
fn shown(layout: SummaryLayout, apps: &[&str], lines: &[(u64, u64, &str)]) -> String {
    let clock = Arc::new(TickClock::of(ClockKind::System, [Anchor::new(Ticks(0), Wall(0))]));
    let origins = [1, 2, 3, 4, 5, 6].map(|tid| Origin {
        run: None,
        tid,
        name: Vec::new(),
        clock: clock.clone(),
        is_shown: true,
        is_log: false,
        has_sites: false,
        waited: None,
        foreign: None,
    });
    let labels = ["main", "b", "c", "d", "e", "f"].map(|label| Label::from(label.to_owned()));
    let context = Context {
        names: Arc::new(Mutex::new(FunctionNames::new(Settings::default()))),
        labels: labels.to_vec(),
        apps: apps.iter().map(|app| (*app).to_owned()).collect(),
        last: lines.iter().map(|line| line.0).max().unwrap_or(0),
        ..Context::new(TimeColumn::new(TimeMode::Ticks, 0, TimeZone::UTC), Settings::default())
    };
    let (mut format, mut out) = (layout.format(&context), Vec::new());
    format.begin(&origins, &mut out);
    for (ticks, tid, text) in lines {
        let line = format!("{ticks:016x}-{tid:08} {text}\n");
        let number = *tid as usize - 1;
        format.record(&origins[number], &RecordText::new(number, line.as_bytes()), &mut out);
    }
    format.finish(&mut out);
    String::from_utf8(out).unwrap()
}

/// The nanoseconds of a part of a lane.
const PART: u64 = 1000;

/// Two threads: one is in calls and waits for a lock in one of them; the other waits for ever.
const LINES: [(u64, u64, &str); 11] = [
    (PART, 1, "> app::main at src/main.rs:1"),
    (2 * PART, 1, "> app::load at src/load.rs:7"),
    (3 * PART, 1, r#"! lock wait id=4 for=lock made="m.rs:1" at="a.rs:7" holder=2 since="b.rs:3""#),
    (7 * PART, 1, "! lock got id=4 ns=4000"),
    (8 * PART, 1, "< app::load at src/load.rs:7"),
    (9 * PART, 2, ": hello"),
    (10 * PART, 2, r#"! condvar notify id=9 to=one first=0 wakes=0 made="q.rs:4" at="q.rs:30""#),
    (11 * PART, 2, r#"! condvar wait id=9 lock=1 made="q.rs:4" at="q.rs:20""#),
    (12 * PART, 1, "# lost records=3 reason=full"),
    (20 * PART, 1, "< app::main at src/main.rs:1"),
    (PARTS as u64 * PART, 2, ": the end"),
];

#[test]
fn a_trace_fits_a_screen_and_names_the_next_commands() {
    let text = shown(SummaryLayout::default(), &["./my app"], &LINES);
    let rest = " ".repeat(PARTS - 21);
    let expected = format!(
        "\
./my app: 2 threads, 10 records, 2 calls over 56.0 us, 3 records LOST
main                 | ##----#############.{rest}|
b                    |         ..{}|
   self  waiting  calls      max  function
13.0 us        -      1  19.0 us  app::main
2.00 us  4.00 us      1  6.00 us  app::load
NOT ENDED: b waits for condition 9 at q.rs:20, 45.0 us
1 notification found no waiting thread
next: tracemerge locks './my app'
      tracemerge report './my app'
      tracemerge tree --min-duration 9us './my app'
",
        "-".repeat(PARTS - 11)
    );
    assert_eq!(text, expected);
    assert!(text.lines().count() <= 24 && text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn many_threads_and_functions_fit_a_screen() {
    let mut lines = Vec::new();
    let names: Vec<(String, String)> = (0..40)
        .map(|number| {
            let function = format!("app::function_with_a_long_name_{number} at src/main.rs:1");
            (format!("> {function}"), format!("< {function}"))
        })
        .collect();
    for tid in 1..=6 {
        for (number, (enter, leave)) in names.iter().enumerate() {
            let at = 1000 * number as u64 + tid;
            lines.push((at, tid, enter.as_str()));
            lines.push((at + 500, tid, leave.as_str()));
        }
        lines.push((50_000, tid, "> app::open at src/main.rs:1"));
    }
    let text = shown(SummaryLayout::default(), &["./app"], &lines);
    assert!(text.lines().count() <= 24, "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    for part in ["6 threads, ", "more functions", "is in app::open", "; and 4 more"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn long_names_of_threads_functions_and_places_fit_a_screen() {
    let far = format!("/srv/{}/queue.rs:30", "deep/".repeat(400));
    let lines = [
        (1, 1, format!("# thread name=\"{}\" ring=shared file=1", "t".repeat(300))),
        (2, 1, format!("> {}::load<{}> at src/main.rs:1", "app::".repeat(90), "Vec<u8>, ".repeat(60))),
        (3, 2, format!("! condvar wait id=9 lock=1 made=\"{far}\" at=\"{far}\"")),
        (4, 3, format!("! condvar wait id=18446744073709551615 lock=1 made=\"{far}\" at=\"{far}\"")),
        (900_000_000_000, 3, ": the end".to_owned()),
    ];
    let lines: Vec<(u64, u64, &str)> = lines.iter().map(|(at, tid, text)| (*at, *tid, &text[..])).collect();
    let app = format!("./{}app", "directory/".repeat(30));
    let text = shown(SummaryLayout::default(), &[&app], &lines);
    let shown = text.lines().filter(|line| !line.contains("tracemerge "));
    shown.for_each(|line| assert!(line.chars().count() <= 80, "{line}"));
    assert!(text.starts_with('\u{2026}') && text.contains("directory/app\n"), "{text}");
    assert!(text.contains("waits for condition 9 at \u{2026}") && text.contains("/queue.rs:30, "), "{text}");
    assert!(text.contains("; and 1 more\n"), "{text}");
    assert!(text.contains(&format!("tracemerge locks {app}\n")), "a command is whole: {text}");
}

#[test]
fn a_short_trace_of_a_killed_program_is_called_killed_and_names_a_duration_that_fits() {
    let lines = [(1, 1, "> app::main at src/main.rs:1"), (61_000, 1, "# end records=1 lost=0 reason=killed")];
    let text = shown(SummaryLayout::default(), &["app"], &lines);
    assert!(text.lines().next().is_some_and(|facts| facts.ends_with(", nothing lost, killed")), "{text}");
    assert!(text.contains("tracemerge tree --min-duration 100ns app\n"), "{text}");
    let text = shown(SummaryLayout::default(), &["app"], &lines[..1]);
    assert!(text.contains("tracemerge tree app\n") && !text.contains("killed"), "{text}");
}

#[test]
fn programs_read_the_same_facts_as_json() {
    let json = shown(SummaryLayout { json: true }, &["app"], &LINES);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    for (key, expected) in [
        ("records", 10),
        ("messages", 2),
        ("calls", 2),
        ("lost", 3),
        ("silent_notifications", 1),
        ("span_ns", 56_000),
    ] {
        assert_eq!(json[key], expected, "{key}");
    }
    assert_eq!(json["threads"][0]["thread"], "main");
    assert_eq!(
        (&json["threads"][0]["in_calls_ns"], &json["threads"][0]["waiting_ns"]),
        (&19_000.into(), &4_000.into())
    );
    assert_eq!(
        (&json["functions"][1]["function"], &json["functions"][1]["self_ns"]),
        (&"app::load".into(), &2_000.into())
    );
    assert_eq!(
        (&json["open_waits"][0]["thread"], &json["open_waits"][0]["ns"]),
        (&"b".into(), &45_000.into())
    );
    assert_eq!(json["next"][0], "tracemerge locks app");
}

#[test]
fn a_trace_of_messages_names_commands_for_messages() {
    let text = shown(SummaryLayout::default(), &["app"], &[(1, 1, ": one"), (1000, 1, ": two")]);
    let expected = format!(
        "\
app: 1 thread, 2 records over 1.00 us, nothing lost
main                 |.{}.|
next: tracemerge stats app
      tracemerge show --last 20 app
      tracemerge --format perfetto app
",
        " ".repeat(PARTS - 2)
    );
    assert_eq!(text, expected);
}
