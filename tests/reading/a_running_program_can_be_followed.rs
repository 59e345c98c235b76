//! `tracemerge --follow` shows the lines that a full merge has afterwards, each line once, in order except for the
//! lines that it marks, and also those that are still in rings. The programs exit, are killed, fork or start
//! threads late.

use std::path::PathBuf;
use support::Scenario;
use support::follows::{Follower, assert_same};
use support::merges::{THREADS, Watched};
use trace_format::line::{Kind, Line};

const SCENARIO: &str = env!("CARGO_BIN_EXE_scenario");

/// Returns the full merge of the program's traces.
fn merged(scenario: &Scenario) -> String {
    support::follows::view(SCENARIO, &[scenario], &[])
}

fn wait_for(watched: &Watched, count: u64) {
    support::wait_until(60, "all have traced", || watched.returned() == [count; THREADS]);
}

#[test]
fn follow_shows_every_line_once_and_marks_late_lines() {
    for env in [
        &[("TRACER_MAX_STALL", "100000"), ("TRACER_RING_SIZE", "16K")][..],
        &[("TRACER_FLUSH_MS", "1")],
        &[("TRACER_FLUSH_MS", "60000"), ("TRACER_RING_SIZE", "1M")],
        &[("TRACER_MAX_STALL", "100000"), ("TRACER_RING_SIZE", "16K"), ("TRACER_FORMAT", "raw")],
        &[("TRACER_FLUSH_MS", "1"), ("TRACER_FORMAT", "raw")],
    ] {
        let mut watched = Watched::start(SCENARIO, "all", env);
        watched.go_on_to(300);
        wait_for(&watched, 300);
        let follower = Follower::start(SCENARIO, &[&watched.scenario], &[]);
        for goal in [700, 701, 2500] {
            watched.go_on_to(goal);
            wait_for(&watched, goal);
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        watched.end();
        let (status, shown, said) = follower.ended();
        assert_eq!(status.code(), Some(0), "{said}");
        let late = assert_same(&shown, &merged(&watched.scenario));
        assert!(said.contains("followed 8 threads: "), "{said}");
        assert!(said.contains(&format!(", {late} late")), "{said}");
    }
}

#[test]
fn follow_shows_lines_that_are_still_in_memory() {
    let mut watched = Watched::start(SCENARIO, "plain", &[("TRACER_FLUSH_MS", "60000")]);
    let follower = Follower::start(SCENARIO, &[&watched.scenario], &[]);
    let mut is_ahead = false;
    // Taking a ring wakes the flusher, on a busy machine a while later; then it sleeps for a minute.
    for goal in 1..=20 {
        watched.go_on_to(goal);
        let last = |thread: usize| format!(" : {thread} {}\n", goal - 1);
        support::wait_until(60, "the lines", || {
            let shown = follower.shown();
            (0..THREADS).all(|thread| shown.contains(&last(thread)))
        });
        let read = |path: PathBuf| std::fs::read_to_string(path).expect("UTF-8");
        let files = support::names(watched.scenario.directory.path()).into_iter();
        let files: Vec<_> =
            files.filter(|path| path.to_string_lossy().contains(".trace.")).map(read).collect();
        let is_written = |thread: &usize| files.iter().any(|text| text.contains(&last(*thread)));
        is_ahead = (0..THREADS).filter(is_written).count() < THREADS;
        if goal >= 5 && is_ahead {
            break;
        }
    }
    assert!(is_ahead, "something is in no file yet");
    watched.end();
    let (_, shown, _) = follower.ended();
    assert_same(&shown, &merged(&watched.scenario));
}

#[test]
fn follow_shows_the_recovered_records_of_a_killed_program_and_ends() {
    for format in ["text", "raw"] {
        follow_killed(format);
    }
}

fn follow_killed(format: &str) {
    let env = [("TRACER_MAX_STALL", "100000"), ("TRACER_FORMAT", format)];
    let mut watched = Watched::start(SCENARIO, "all", &env);
    watched.go_on_to(1);
    wait_for(&watched, 1);
    let follower = Follower::start(SCENARIO, &[&watched.scenario], &[]);
    watched.go_on_to(20_000);
    support::wait_until(60, "much is shown", || follower.shown().len() > 500_000);
    watched.child.kill().expect("a kill");
    watched.child.wait().expect("its end");
    let (status, shown, said) = follower.ended();
    assert_eq!(status.code(), Some(0), "{said}");
    let merged = merged(&watched.scenario);
    assert_same(&shown, &merged);
    assert!(shown.contains("reason=killed"), "{said}");
}

#[test]
fn follow_waits_for_a_program_that_has_not_started() {
    let mut scenario = Scenario::new(SCENARIO, if cfg!(unix) { &["fork"] } else { &["many", "100"] });
    let follower = Follower::start(SCENARIO, &[&scenario], &[]);
    support::wait_until(60, "it says so", || {
        follower.said().contains("is not running; waiting for it to start")
    });
    let output = scenario.command().output().expect("the program can be run");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let (status, shown, said) = follower.ended();
    assert_eq!(status.code(), Some(0), "{said}");
    assert_same(&shown, &merged(&scenario));
}

#[test]
fn follow_shows_short_lived_threads_and_processes() {
    let forks = cfg!(unix).then_some(["full-speed-forks", "5"]);
    let threads = [["short-lived", "1000"], ["at-once", "200"], ["many", "5000"]];
    for arguments in threads.into_iter().chain(forks) {
        let mut scenario = Scenario::new(SCENARIO, &arguments).env("TRACER_MAX_STALL", "100000");
        let follower = Follower::start(SCENARIO, &[&scenario], &[]);
        support::wait_until(60, "it says so", || follower.said().contains("waiting for it to start"));
        let output = scenario.command().output().expect("the program can be run");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let (status, shown, said) = follower.ended();
        assert_eq!(status.code(), Some(0), "{said}");
        assert_same(&shown, &merged(&scenario));
    }
}

#[test]
fn follow_shows_every_line_of_rotated_files() {
    let mut scenario = Scenario::new(SCENARIO, &["many", "20000"]).env("TRACER_MAX_STALL", "100000");
    scenario = scenario.env("TRACER_MAX_BYTES", "256K");
    let follower = Follower::start(SCENARIO, &[&scenario], &[]);
    support::wait_until(60, "it says so", || follower.said().contains("waiting for it to start"));
    scenario.command().output().expect("the program can be run");
    let (_, shown, said) = follower.ended();
    // All remaining lines are shown, each once.
    let (shown, merged): (Vec<&str>, String) = (shown.lines().collect(), merged(&scenario));
    let mut seen = std::collections::HashSet::new();
    let messages = |line: &&str| Line::parse(line.as_bytes()).is_ok_and(|line| line.kind == Kind::Message);
    for line in shown.iter().filter(|line| messages(line)) {
        assert!(seen.insert(*line), "twice: {line}");
    }
    let missing = merged.lines().filter(|line| messages(line)).find(|line| !seen.contains(line));
    assert_eq!(missing, None, "{said}");
}

#[test]
fn follow_rejects_unsupported_options() {
    let scenario = Scenario::new(SCENARIO, &[]);
    for options in [
        &["--until", "-1s"][..],
        &["--head", "1", "--last", "1"],
        &["--since", "sometime"],
        &["--all-runs"],
        &["--with", "log"],
    ] {
        let (status, shown, said) = Follower::start(SCENARIO, &[&scenario], options).ended();
        assert_eq!((status.code(), shown.as_str()), (Some(2), ""), "{options:?}: {said}");
        assert!(said.contains(options[0]), "{said}");
    }
    let (_, _, said) = Follower::start(SCENARIO, &[&scenario], &["--until", "-1s"]).ended();
    assert!(said.contains("leave --follow out"), "{said}");
}

#[cfg(unix)]
#[test]
fn an_interrupt_ends_follow_with_success() {
    let scenario = Scenario::new(SCENARIO, &[]);
    let follower = Follower::start(SCENARIO, &[&scenario], &[]);
    support::wait_until(60, "it waits", || follower.said().contains("waiting"));
    follower.interrupt();
    assert_eq!(follower.ended().0.code(), Some(0));

    let mut watched = Watched::start(SCENARIO, "plain", &[]);
    let follower = Follower::start(SCENARIO, &[&watched.scenario], &[]);
    watched.go_on_to(3);
    support::wait_until(60, "a line", || follower.shown().contains(" : 7 2\n"));
    follower.interrupt();
    let (status, _, said) = follower.ended();
    assert_eq!(status.code(), Some(0), "{said}");
    watched.end();
}

#[test]
fn follow_shows_the_records_of_a_flight_recorder() {
    let mut watched = Watched::start(SCENARIO, "plain", &[("TRACER_FULL", "overwrite")]);
    let follower = Follower::start(SCENARIO, &[&watched.scenario], &[]);
    for goal in [3, 5, 300] {
        watched.go_on_to(goal);
        let last = |thread: usize| format!(" : {thread} {}\n", goal - 1);
        support::wait_until(60, "the lines", || {
            let shown = follower.shown();
            (0..THREADS).all(|thread| shown.contains(&last(thread)))
        });
    }
    watched.end();
    let (_, shown, _) = follower.ended();
    assert_same(&shown, &merged(&watched.scenario));
}

#[test]
fn follow_ends_with_the_status_of_a_merge() {
    for (env, status) in [(("TRACER_FULL", "drop"), 1), (("TRACER_MAX_STALL", "100000"), 0)] {
        let mut scenario = Scenario::new(SCENARIO, &["many", "200000"]).env("TRACER_RING_SIZE", "16K");
        scenario = scenario.env("TRACER_FLUSH_MS", "200").env(env.0, env.1);
        let follower = Follower::start(SCENARIO, &[&scenario], &[]);
        support::wait_until(60, "it says so", || follower.said().contains("waiting for it to start"));
        scenario.command().output().expect("the program can be run");
        let (followed, shown, said) = follower.ended();
        assert_eq!(shown.contains(" # lost records="), status == 1, "{env:?}: {said}");
        let app = scenario.directory.path().join(support::APP);
        let args = [std::ffi::OsString::from("-o"), "-".into(), app.into()];
        let mut merge = support::merges::tracemerge(SCENARIO, scenario.runtime.path(), args);
        let merged = merge.output().expect("the merge can be run");
        assert_eq!(merged.status.code(), Some(status), "{}", String::from_utf8_lossy(&merged.stderr));
        assert_eq!(followed.code(), Some(status), "{env:?}: {said}");
        assert_eq!(said.contains("the traces say that"), status == 1, "{said}");
    }
}

#[cfg(unix)]
#[test]
fn follow_shows_lines_of_renamed_and_deleted_files_once() {
    for format in ["text", "raw"] {
        let env = [("TRACER_FLUSH_MS", "1"), ("TRACER_FORMAT", format), ("TRACER_MAX_STALL", "100000")];
        let mut watched = Watched::start(SCENARIO, "plain", &env);
        let follower = Follower::start(SCENARIO, &[&watched.scenario], &[]);
        let go_on = |goal: u64, watched: &mut Watched| {
            watched.go_on_to(goal);
            support::wait_until(60, "the lines", || {
                let shown = follower.shown();
                (0..THREADS).all(|thread| shown.contains(&format!(" : {thread} {}\n", goal - 1)))
            });
        };
        go_on(50, &mut watched);
        let place = watched.scenario.directory.path().to_path_buf();
        let files = || {
            let files = support::names(&place).into_iter();
            files.filter(|path| path.to_string_lossy().contains(".trace.")).collect::<Vec<_>>()
        };
        support::wait_until(60, "the files", || files().len() >= THREADS);
        // By then, the command has found the files.
        std::thread::sleep(std::time::Duration::from_millis(500));
        let found = files();
        std::fs::rename(&found[0], place.join("renamed")).expect("a new name");
        std::fs::remove_file(&found[1]).expect("a file that is there");
        for goal in (100..=400).step_by(50) {
            go_on(goal, &mut watched);
        }
        watched.end();
        let (status, shown, said) = follower.ended();
        for (thread, number) in (0..THREADS).flat_map(|thread| (0..400).map(move |number| (thread, number))) {
            // Some messages have more text after their number.
            let line = format!(" : {thread} {number}");
            let ends = shown.match_indices(&line).map(|(at, _)| shown.as_bytes()[at + line.len()]);
            assert_eq!(ends.filter(|end| b" \n".contains(end)).count(), 1, "{format}: {line}\n{said}");
        }
        // A merge does not find these files, and reports that.
        assert_eq!(status.code(), Some(1), "{format}: {said}");
        assert!(!said.contains("could not be shown"), "{format}: {said}");
    }
}
