//! `tracemerge stats --follow` counts the records of a running program; the result is that of `stats` afterwards.
//! On a terminal, it draws the table again in its place.
#![cfg(target_os = "linux")]

use std::process::Stdio;

use serde_json::Value;
use support::APP;
use support::follows::Follower;
use support::merges::{THREADS, Watched, tracemerge};
use support::terminal::OnTerminal;

const SCENARIO: &str = env!("CARGO_BIN_EXE_scenario");
const PATIENT: (&str, &str) = ("TRACER_MAX_STALL", "100000");

fn go_on_to(watched: &Watched, count: u64) {
    watched.go_on_to(count);
    support::wait_until(60, "all have traced", || watched.returned() == [count; THREADS]);
}

/// Returns the counts of `stats` for a program up to now.
fn stats_of(watched: &Watched, options: &[&str]) -> Value {
    let app = watched.scenario.directory.path().join(APP);
    let mut command = tracemerge(SCENARIO, watched.scenario.runtime.path(), ["stats", "--json"]);
    let output = command.args(options).arg(app).output().expect("it can be run");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Returns the counts that do not depend on the precision of times: the numbers of messages, threads and sorts, and
/// those of each sort.
fn counts(stats: &Value) -> (Vec<u64>, Vec<(String, Vec<u64>)>) {
    let number = |of: &Value, key: &str| of[key].as_u64().unwrap_or_else(|| panic!("{key}: {of}"));
    let all = ["messages", "threads", "sorts"].map(|key| number(stats, key)).to_vec();
    let of_sort = |sort: &Value| {
        let text = sort["message"].as_str().expect("a text").to_owned();
        (text, ["count", "threads", "measured"].map(|key| number(sort, key)).to_vec())
    };
    (all, stats["by_sort"].as_array().expect("sorts").iter().map(of_sort).collect())
}

#[test]
fn followed_stats_equal_stats_after_the_end() {
    for format in ["text", "raw"] {
        let env = [PATIENT, ("TRACER_RING_SIZE", "16K"), ("TRACER_FORMAT", format)];
        let mut watched = Watched::start(SCENARIO, "all", &env);
        go_on_to(&watched, 300);
        let selections: [&[&str]; 3] = [&[], &["--grep", "and more"], &["--grep", "7", "--invert"]];
        let start = |options: &&[&str]| {
            Follower::start_counting(SCENARIO, &[&watched.scenario], &[&["--json"], *options].concat())
        };
        let followers: Vec<Follower> = selections.iter().map(start).collect();
        go_on_to(&watched, 1500);
        assert!(followers.iter().all(|follower| follower.shown().is_empty()), "nothing comes before the end");
        watched.end();
        for (follower, options) in followers.into_iter().zip(selections) {
            let (status, shown, said) = follower.ended();
            assert_eq!(status.code(), Some(0), "{said}");
            let followed: Value = serde_json::from_str(&shown).expect("JSON");
            // Messages that no call of `trace!` made have no site in raw files either.
            let expected = counts(&stats_of(&watched, options));
            assert_eq!(counts(&followed), expected, "{format} {options:?}");
            assert!(expected.0[0] > 0, "{options:?}");
            assert!(said.contains(" counted, "), "{said}");
        }
    }
}

#[test]
fn an_interrupt_ends_followed_stats_with_the_current_counts() {
    let mut watched = Watched::start(SCENARIO, "all", &[PATIENT]);
    go_on_to(&watched, 400);
    let follower = Follower::start_counting(SCENARIO, &[&watched.scenario], &[]);
    let expected = stats_of(&watched, &[])["messages"].as_u64().expect("a number");
    follower.interrupt();
    let (status, shown, said) = follower.ended();
    assert_eq!(status.code(), Some(0), "{said}");
    let first = shown.lines().next().expect("a table").replace(',', "");
    assert!(first.starts_with(&format!("{expected} messages of {THREADS} threads")), "{shown}");
    watched.end();
}

/// Starts `stats -f` with a terminal as its standard output.
fn on_terminal(watched: &Watched, options: &[&str]) -> OnTerminal {
    let app = watched.scenario.directory.path().join(APP);
    let mut command = tracemerge(SCENARIO, watched.scenario.runtime.path(), ["stats", "-f"]);
    command.args(options).arg(app);
    OnTerminal::start(&mut command, |command, terminal| {
        command.stdout(terminal).stderr(Stdio::null());
    })
}

#[test]
fn a_terminal_shows_the_table_redrawn_in_place() {
    let mut watched = Watched::start(SCENARIO, "all", &[PATIENT]);
    go_on_to(&watched, 100);
    let terminal = on_terminal(&watched, &[]);
    for goal in 101..130 {
        go_on_to(&watched, goal);
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    watched.end();
    let written = terminal.ended();
    let last = stats_of(&watched, &[])["messages"].as_u64().expect("a number");
    let tables: Vec<&str> = written.match_indices(" messages of ").map(|(at, _)| &written[..at]).collect();
    assert!(tables.len() >= 3, "drawn at the beginning, on the way and at the end: {written:?}");
    let number = |text: &&str| {
        let digits = text.rsplit(|c: char| !c.is_ascii_digit() && c != ',').next().expect("a number");
        digits.replace(',', "").parse().unwrap_or_else(|_| panic!("{text:?}"))
    };
    let counts: Vec<u64> = tables.iter().map(number).collect();
    assert!(counts.is_sorted() && counts[0] < last && counts.last() == Some(&last), "{counts:?} of {last}");
    assert!(written.contains("\u{1b}["), "the cursor goes back to where the table begins");
}

#[test]
fn a_terminal_gets_json_once() {
    let mut watched = Watched::start(SCENARIO, "all", &[PATIENT]);
    go_on_to(&watched, 100);
    let terminal = on_terminal(&watched, &["--json"]);
    for goal in 101..115 {
        go_on_to(&watched, goal);
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    watched.end();
    let written = terminal.ended();
    let json = &written[written.find('{').expect("JSON")..=written.rfind('}').expect("JSON")];
    let followed: Value = serde_json::from_str(json).expect("JSON");
    assert_eq!(counts(&followed), counts(&stats_of(&watched, &[])));
}
