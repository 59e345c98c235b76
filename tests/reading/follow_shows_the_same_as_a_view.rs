//! `tracemerge --follow` with the options of a view: its output of a run that has ended equals the view's output
//! afterwards. It begins and ends at the requested times, and follows several applications as one.

use std::collections::BTreeSet;
use std::time::Duration;
use support::Scenario;
use support::follows::{Follower, assert_same, view};
use support::merges::{THREADS, Watched};
use trace_format::line::{Kind, Line};
use trace_format::wall::Wall;

const SCENARIO: &str = env!("CARGO_BIN_EXE_scenario");
const PATIENT: (&str, &str) = ("TRACER_MAX_STALL", "100000");

fn go_on_to(watched: &Watched, count: u64) {
    watched.go_on_to(count);
    support::wait_until(60, "all have traced", || watched.returned() == [count; THREADS]);
}

/// A pattern for the names of threads that were given none: on Linux they have the name of the process.
const UNNAMED: &str = if cfg!(windows) { "*" } else { "sc*" };

fn follow(watched: &Watched, options: &[&str]) -> Follower {
    Follower::start(SCENARIO, &[&watched.scenario], options)
}

fn view_of(watched: &Watched, options: &[&str]) -> String {
    view(SCENARIO, &[&watched.scenario], options)
}

/// Waits until the command shows something: from then on it follows to the end.
fn begun(follower: &Follower) {
    support::wait_until(60, "it begins", || !follower.shown().is_empty());
}

fn ticks(line: &str) -> u64 {
    Line::parse(line.as_bytes()).unwrap_or_else(|error| panic!("{error}: {line}")).key.ticks.0
}

/// Returns the lines that are messages, or continue them.
fn messages(text: &str) -> Vec<&str> {
    let is_message = |line: &&str| Line::parse(line.as_bytes()).is_ok_and(|line| line.kind != Kind::Meta);
    text.lines().filter(is_message).collect()
}

#[test]
fn followed_selections_equal_views_after_the_end() {
    for format in ["text", "raw"] {
        let env = [PATIENT, ("TRACER_RING_SIZE", "16K"), ("TRACER_FORMAT", format)];
        let mut watched = Watched::start(SCENARIO, "all", &env);
        go_on_to(&watched, 300);
        let pid = watched.child.id().to_string();
        let all = view_of(&watched, &[]);
        let tid = all.lines().find(|line| line.contains(" : 3 ")).expect("thread 3");
        let tid = Line::parse(tid.as_bytes()).expect("a line").key.tid.to_string();
        let selections: [&[&str]; 9] = [
            &["--process", &pid],
            &["--thread", &tid],
            &["--thread", UNNAMED, "--process", &pid],
            &["--thread", "nobody*", "--thread", &tid],
            &["--grep", "and more"],
            &["--grep", "^and more$", "--thread", &tid],
            &["--grep", "inside|outside"],
            &["--grep", "7", "--invert"],
            &["--grep", "^[0-9]* [0-9]*$", "--invert", "--thread", &tid],
        ];
        let followers: Vec<Follower> = selections.iter().map(|options| follow(&watched, options)).collect();
        followers.iter().for_each(begun);
        for goal in [700, 701, 1500] {
            go_on_to(&watched, goal);
            std::thread::sleep(Duration::from_millis(50));
        }
        watched.end();
        for (follower, options) in followers.into_iter().zip(selections) {
            let (status, shown, said) = follower.ended();
            assert_eq!(status.code(), Some(0), "{said}");
            let expected = view_of(&watched, options);
            assert!(!expected.is_empty(), "{options:?}");
            let late = assert_same(&shown, &expected);
            let counts = format!("{} shown, {late} late", expected.lines().count() + marks(&shown));
            assert!(
                said.replace(',', "").contains(&counts.replace(',', "")),
                "{options:?}: {counts}: {said}"
            );
        }
    }
}

/// Returns the number of lines that report late lines.
fn marks(shown: &str) -> usize {
    shown.lines().filter(|line| line.contains(" # late ")).count()
}

#[test]
fn selected_lines_are_shown_while_the_program_runs() {
    let mut watched = Watched::start(SCENARIO, "plain", &[("TRACER_FLUSH_MS", "60000")]);
    let follower = follow(&watched, &["--grep", "^[26] ", "--time", "offset"]);
    for goal in [1, 2, 5] {
        watched.go_on_to(goal);
        let last = |thread: usize| format!(" : {thread} {}\n", goal - 1);
        support::wait_until(60, "the lines", || {
            let shown = follower.shown();
            [2, 6].iter().all(|thread| shown.contains(&last(*thread)))
        });
    }
    watched.end();
    let (_, shown, _) = follower.ended();
    assert_eq!(shown.lines().filter(|line| line.contains(" : ")).count(), 10, "{shown}");
}

#[test]
fn a_message_longer_than_its_ring_is_selected_as_a_whole() {
    for format in ["text", "raw"] {
        let env = [PATIENT, ("TRACER_RING_SIZE", "16K"), ("TRACER_FORMAT", format), ("TRACER_FLUSH_MS", "5")];
        let mut scenario = Scenario::new(SCENARIO, &["slow-display", "6000"]);
        scenario = env.iter().fold(scenario, |scenario, (name, value)| scenario.env(name, value));
        for options in
            [&["--grep", "^1 begins$"][..], &["--grep", "1 ends", "--invert"], &["--grep", "line 7 "]]
        {
            let follower = Follower::start(SCENARIO, &[&scenario], options);
            support::wait_until(60, "it says so", || follower.said().contains("waiting for it to start"));
            scenario.command().output().expect("the program can be run");
            let (_, shown, said) = follower.ended();
            let expected = view(SCENARIO, &[&scenario], &[&["--since", since(&shown)], options].concat());
            assert_same(&shown, &expected);
            assert!(shown.lines().count() > 6000, "{said}");
        }
    }
}

/// Returns the first line, as a time.
fn since(shown: &str) -> &str {
    shown.get(..16).expect("a line")
}

#[test]
fn follow_shows_the_last_existing_records_and_all_later_ones() {
    let mut watched = Watched::start(SCENARIO, "plain", &[PATIENT]);
    go_on_to(&watched, 300);
    let sevens = ["--last", "7", "--grep", "^3 .*[05]$"];
    let begun = [&["--last", "5"][..], &["--last", "1"], &sevens].map(|options| {
        let (follower, expected) = (follow(&watched, options), view_of(&watched, options));
        support::wait_until(60, "it begins with the last", || follower.shown() == expected);
        (follower, expected)
    });
    go_on_to(&watched, 900);
    watched.end();
    let [(five, _), (one, _), (seven, before)] = begun;
    for (follower, wanted) in [(five, 5 + 8 * 600), (one, 1 + 8 * 600)] {
        let (status, shown, said) = follower.ended();
        assert_eq!(status.code(), Some(0), "{said}");
        let expected = view_of(&watched, &["--last", &wanted.to_string()]);
        let (mut shown, mut expected) = (messages(&shown), messages(&expected));
        shown.sort_unstable();
        expected.sort_unstable();
        assert!(shown == expected, "{wanted}: {} and {}", shown.len(), expected.len());
    }
    let (_, shown, _) = seven.ended();
    let all = view_of(&watched, &sevens[2..]);
    assert!(shown.starts_with(&before) && all.ends_with(&shown), "{shown}");
}

#[test]
fn last_shows_all_records_if_the_program_starts_later() {
    let mut scenario = Scenario::new(SCENARIO, &["many", "300"]);
    let follower = Follower::start(SCENARIO, &[&scenario], &["--last", "2", "--grep", ""]);
    support::wait_until(60, "it says so", || follower.said().contains("waiting for it to start"));
    scenario.command().output().expect("the program can be run");
    let (_, shown, _) = follower.ended();
    assert_same(&shown, &view(SCENARIO, &[&scenario], &["--grep", ""]));
}

/// Returns the offset or delta at the beginning of a line, in nanoseconds.
fn nanoseconds(line: &str) -> i64 {
    let text = line.split_whitespace().next().expect("a time").replace('.', "");
    text.parse().unwrap_or_else(|error| panic!("{error}: {line}"))
}

#[test]
fn followed_times_equal_those_of_the_view() {
    let mut watched = Watched::start(SCENARIO, "plain", &[PATIENT]);
    go_on_to(&watched, 100);
    let terms = ["offset", "delta", "wall", "utc"];
    let followers = terms.map(|terms| follow(&watched, &["--time", terms, "--grep", "^4 "]));
    followers.iter().for_each(begun);
    go_on_to(&watched, 300);
    watched.end();
    for (follower, terms) in followers.into_iter().zip(terms) {
        let (_, shown, said) = follower.ended();
        let expected = view_of(&watched, &["--time", terms, "--grep", "^4 "]);
        assert_eq!(shown.lines().count(), expected.lines().count(), "{said}");
        for (shown, expected) in shown.lines().zip(expected.lines()) {
            let time = |line: &str| match terms {
                "offset" | "delta" => nanoseconds(line),
                "wall" => wall(&format!("{}T{}Z", &line[..10], &line[11..29])),
                _ => wall(&line[..30]),
            };
            let rest = |line: &str| line.rsplit_once(" 0").map(|(_, rest)| rest.to_owned());
            assert_eq!(rest(shown), rest(expected));
            // When the line was shown, less was known of the clocks than now.
            let apart = time(shown).abs_diff(time(expected));
            assert!(apart < 1_000_000, "{shown}\n{expected}");
        }
    }
}

fn wall(text: &str) -> i64 {
    let wall = Wall::parse(text.as_bytes()).unwrap_or_else(|| panic!("no time: {text}"));
    i64::try_from(wall.0).expect("a year below 2262")
}

/// Returns the time from the first line to the last one, plus five milliseconds; that time has passed when this
/// returns.
fn now_as_offset(watched: &Watched) -> String {
    let lines = view_of(watched, &["--time", "offset"]);
    let last = lines.lines().map(nanoseconds).max().expect("a line") + 5_000_000;
    std::thread::sleep(Duration::from_millis(20));
    format!("{}.{:09}", last / 1_000_000_000, last % 1_000_000_000)
}

#[test]
fn follow_begins_at_the_requested_time() {
    for format in ["text", "raw"] {
        let mut watched = Watched::start(SCENARIO, "all", &[PATIENT, ("TRACER_FORMAT", format)]);
        // There are more records than are read at once.
        go_on_to(&watched, 6000);
        let before = view_of(&watched, &[]);
        let newest = before.lines().map(ticks).max().expect("a line");
        let from_newest = follow(&watched, &["--since", "-0s"]);
        // On a busy machine, a metadata line with the same ticks, such as a clock reading or a stall, may not be in
        // a file yet.
        let is_newest = |line: &&str| ticks(line) == newest && line.contains(" : ");
        let expected = before.lines().filter(is_newest).count();
        support::wait_until(60, "the newest", || {
            from_newest.shown().lines().filter(is_newest).count() == expected
        });
        let since = now_as_offset(&watched);
        let from_offset = follow(&watched, &["--since", &since, "--thread", UNNAMED]);
        let from_ticks = follow(&watched, &["--since", &format!("@{}", newest + 1)]);
        go_on_to(&watched, 6001);
        [&from_offset, &from_ticks].into_iter().for_each(begun);
        go_on_to(&watched, 6500);
        watched.end();
        assert_same(&from_newest.ended().1, &view_of(&watched, &["--since", &format!("@{newest}")]));
        assert_same(&from_ticks.ended().1, &view_of(&watched, &["--since", &format!("@{}", newest + 1)]));
        let expected = view_of(&watched, &["--since", &since, "--thread", UNNAMED]);
        assert_eq!(
            messages(&expected).iter().filter(|line| line.contains(" : ")).count(),
            THREADS * (500 + 3)
        );
        assert_same(&from_offset.ended().1, &expected);
    }
}

#[test]
fn follow_ends_when_the_requested_lines_are_shown() {
    let mut watched = Watched::start(SCENARIO, "plain", &[PATIENT]);
    go_on_to(&watched, 3);
    // There are not that many yet.
    let mut head = follow(&watched, &["--head", "50", "--grep", ""]);
    support::wait_until(60, "what there is", || head.shown().lines().count() == 3 * THREADS);
    assert!(!head.has_ended());
    go_on_to(&watched, 100);
    let (status, shown, said) = head.ended();
    assert_eq!(status.code(), Some(0), "{said}");
    assert_eq!(shown.lines().filter(|line| line.contains(" : ")).count(), 50, "{shown}");

    let (status, shown, said) = follow(&watched, &["--head", "9"]).ended();
    assert_eq!(status.code(), Some(0), "{said}");
    assert_eq!(shown, view_of(&watched, &["--head", "9"]));

    let until = now_as_offset(&watched);
    go_on_to(&watched, 200);
    let (status, shown, said) = follow(&watched, &["--until", &until]).ended();
    assert_eq!(status.code(), Some(0), "{said}");
    assert_eq!(shown, view_of(&watched, &["--until", &until]));
    // It also ends if the program traces nothing more.
    let until = now_as_offset(&watched);
    let (_, shown, _) = follow(&watched, &["--until", &until, "--grep", ""]).ended();
    assert_eq!(shown, view_of(&watched, &["--grep", ""]));
    watched.end();

    let scenario = Scenario::new(SCENARIO, &[]);
    let never = Follower::start(SCENARIO, &[&scenario], &["--until", "2020-01-01T00:00:00Z"]).ended();
    assert_eq!((never.0.code(), never.1.as_str()), (Some(0), ""), "{}", never.2);
}

#[test]
fn follow_merges_several_applications_until_all_have_ended() {
    let mut first = Watched::start(SCENARIO, "all", &[PATIENT]);
    let runtime = first.scenario.runtime.path().to_str().expect("a path in UTF-8").to_owned();
    let env = [PATIENT, ("TRACER_RUNTIME_DIR", &runtime)];
    go_on_to(&first, 100);
    let late: &[&str] = if cfg!(unix) { &["fork"] } else { &["many", "20"] };
    let mut late = Scenario::new(SCENARIO, late).env("TRACER_RUNTIME_DIR", &runtime);
    let mut second = Watched::start(SCENARIO, "all", &env);
    go_on_to(&second, 50);
    let all = [&first.scenario, &second.scenario];
    let mut both = Follower::start(SCENARIO, &all, &[]);
    let directories = all.map(|scenario| scenario.directory.path().to_str().expect("a path in UTF-8"));
    let in_directories = Follower::start_with(SCENARIO, first.scenario.runtime.path(), &directories);
    let mut three = Follower::start(SCENARIO, &[all[0], all[1], &late], &["--grep", "5", "--invert"]);
    let timed = Follower::start(SCENARIO, &all, &["--time", "utc", "--grep", "^1 "]);
    support::wait_until(60, "it says so", || three.said().contains("waiting for it to start"));
    [&both, &in_directories, &three, &timed].into_iter().for_each(begun);
    go_on_to(&first, 400);
    go_on_to(&second, 400);
    first.end();
    go_on_to(&second, 450);
    assert!(!both.has_ended(), "{}", both.said());
    support::wait_until(60, "its last lines", || {
        (0..THREADS).all(|thread| both.shown().contains(&format!(" : {thread} 449\n")))
    });
    second.end();
    let all = [&first.scenario, &second.scenario];
    let merged = view(SCENARIO, &all, &[]);
    for follower in [both, in_directories] {
        let (status, shown, said) = follower.ended();
        assert_eq!(status.code(), Some(0), "{said}");
        assert_same(&shown, &merged);
        assert!(said.contains("followed 16 threads"), "{said}");
    }
    // Each line names its process.
    let (_, shown, _) = timed.ended();
    let expected = view(SCENARIO, &all, &["--time", "utc", "--grep", "^1 "]);
    let whose = |text: &str| {
        let lines = text.lines().filter(|line| !line.contains(" # late ")).map(|line| line[31..].to_owned());
        let mut lines: Vec<String> = lines.collect();
        lines.sort_unstable();
        lines
    };
    assert!(shown.contains(&format!("Z {}/", first.child.id())), "{shown}");
    assert_eq!(whose(&shown), whose(&expected));

    assert!(!three.has_ended(), "the third has not begun");
    late.command().output().expect("the program can be run");
    let (_, shown, said) = three.ended();
    assert_same(&shown, &view(SCENARIO, &[all[0], all[1], &late], &["--grep", "5", "--invert"]));
    assert!(said.contains("waiting for it to start"), "{said}");
}

#[test]
fn follow_reports_losses_that_a_pattern_hides() {
    let env = [("TRACER_FULL", "drop"), ("TRACER_RING_SIZE", "16K"), ("TRACER_FLUSH_MS", "1000")];
    let mut watched = Watched::start(SCENARIO, "plain", &env);
    go_on_to(&watched, 1);
    let follower = follow(&watched, &["--grep", " 0$"]);
    begun(&follower);
    go_on_to(&watched, 20_000);
    watched.end();
    let (status, shown, said) = follower.ended();
    assert_eq!(status.code(), Some(1), "a loss is no success: {said}");
    let all = view_of(&watched, &[]);
    assert_same(&shown, &view_of(&watched, &["--grep", " 0$"]));
    assert!(all.contains(" # lost "));
    assert!(said.contains("lost; --grep does not show"), "{said}");
}

#[test]
fn followed_colours_equal_those_of_the_view() {
    let mut watched = Watched::start(SCENARIO, "plain", &[PATIENT]);
    go_on_to(&watched, 20);
    let options = ["--color", "always", "--grep", "^5 1"];
    let coloured = follow(&watched, &options);
    let plain = follow(&watched, &["--color", "never"]);
    [&coloured, &plain].into_iter().for_each(begun);
    watched.end();
    let (_, shown, _) = coloured.ended();
    assert!(shown.contains("\x1b["), "{shown}");
    assert_eq!(shown, view_of(&watched, &options));
    assert_same(&plain.ended().1, &view_of(&watched, &[]));
}

#[test]
fn show_can_follow_in_columns() {
    let mut watched = Watched::start(SCENARIO, "all", &[PATIENT]);
    go_on_to(&watched, 100);
    let with_sites = Follower::start_showing(SCENARIO, &[&watched.scenario], &["--columns", "time,site"]);
    let (status, _, said) = with_sites.ended();
    assert!(status.code() == Some(2) && said.contains("leave out the columns"), "{said}");
    let options = ["--time", "utc", "--grep", "^(3|5) [0-9]*$"];
    let follower = Follower::start_showing(SCENARIO, &[&watched.scenario], &options);
    begun(&follower);
    for goal in [300, 900] {
        go_on_to(&watched, goal);
    }
    watched.end();
    let (status, shown, said) = follower.ended();
    assert_eq!(status.code(), Some(0), "{said}");
    let columns = |line: &str| -> [String; 3] {
        let columns: Vec<String> = line.splitn(3, "  ").map(|column| column.trim().to_owned()).collect();
        columns.try_into().unwrap_or_else(|_| panic!("{line}"))
    };
    let shown: Vec<[String; 3]> = shown.lines().map(columns).collect();
    assert!(
        shown.iter().all(|[time, _, _]| time.len() == "2026-11-20T15:11:02.123456789Z".len()),
        "{shown:?}"
    );
    let threads: BTreeSet<&String> = shown.iter().map(|[_, thread, _]| thread).collect();
    assert_eq!(threads.len(), 2, "{threads:?}");
    // Late lines are shown late, so the order is not that of the view.
    let mut texts: Vec<&str> = shown.iter().map(|[_, _, text]| &**text).collect();
    let lines = view_of(&watched, &options);
    let mut expected: Vec<&str> =
        lines.lines().map(|line| line.split_once(" : ").expect("a text").1).collect();
    texts.sort_unstable();
    expected.sort_unstable();
    assert_eq!(texts, expected);
}
