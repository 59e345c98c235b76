//! `--with`: lines of other logs stand in the order of the wall clock, in a file that is still a trace.

use std::path::Path;
use std::process::Output;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use support::APP;
use support::merges::{THREADS, Watched, tracemerge};
use trace_format::escape::unescape;
use trace_format::line::{Kind, Line};
use trace_format::wall::Wall;

const SCENARIO: &str = env!("CARGO_BIN_EXE_scenario");
const STEPS: u64 = 4;

/// Returns the wall clock's time, at some distance from all other events.
fn now() -> Wall {
    std::thread::sleep(Duration::from_millis(5));
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time").as_nanos();
    std::thread::sleep(Duration::from_millis(5));
    Wall(u64::try_from(since).expect("this century"))
}

/// Runs a program that traces its records step by step; returns it with the times before each step and at the end.
fn traced() -> (Watched, Vec<Wall>) {
    let mut watched = Watched::start(SCENARIO, "plain", &[]);
    let mut times = Vec::new();
    for step in 1..=STEPS {
        times.push(now());
        watched.go_on_to(step);
        support::wait_until(60, "all have traced", || watched.returned() == [step; THREADS]);
    }
    times.push(now());
    watched.end();
    (watched, times)
}

fn merge(watched: &Watched, with: &[(&str, String)]) -> Output {
    view(watched, with, &[])
}

fn view(watched: &Watched, with: &[(&str, String)], options: &[&str]) -> Output {
    let directory = watched.scenario.directory.path();
    let app = directory.join(APP);
    let path = |path: &Path| path.to_str().expect("a path in UTF-8").to_owned();
    let mut args = vec!["-o".to_owned(), "-".to_owned()];
    args.extend(options.iter().map(|&option| option.to_owned()));
    for (name, text) in with {
        let log = directory.join(name);
        std::fs::write(&log, text).expect("a log");
        args.extend(["--with".to_owned(), path(&log)]);
    }
    args.push(path(&app));
    tracemerge(SCENARIO, watched.scenario.runtime.path(), args).output().expect("the merge can be run")
}

/// Returns the messages of the merged file, each with its lines. Panics unless the file is sorted and is a trace.
fn messages(merged: &[u8]) -> Vec<String> {
    let (mut messages, mut last): (Vec<String>, u64) = (Vec::new(), 0);
    for line in merged.strip_suffix(b"\n").expect("whole lines").split(|&b| b == b'\n') {
        let line = Line::parse(line).expect("a line of a trace");
        assert!(line.key.ticks.0 >= last, "ticks go back");
        last = line.key.ticks.0;
        let text = String::from_utf8(unescape(line.payload)).expect("UTF-8");
        match line.kind {
            Kind::Message => messages.push(text),
            Kind::Continuation => messages.last_mut().expect("a message").extend(["\n", &text]),
            _ => {}
        }
    }
    messages
}

/// Returns the forms of a time in the logs, each with the name of its log.
fn stamps(time: Wall) -> [(&'static str, String); 5] {
    let iso = time.to_string();
    let (seconds, ns) = (time.0 / 1_000_000_000, time.0 % 1_000_000_000);
    [
        ("iso.log", format!("[{iso} INFO  app]")),
        ("comma.log", format!("{},{:06} +0000", iso[..19].replace('T', " "), ns / 1000)),
        ("seconds.log", format!("{seconds}.{ns:09}")),
        ("ns.log", time.0.to_string()),
        ("json.log", format!("{{\"time\": \"{iso}\"}}")),
    ]
}

#[test]
fn log_lines_are_placed_between_records_by_their_times() {
    let (watched, times) = traced();
    let without = merge(&watched, &[]);
    for kind in 0..stamps(times[0]).len() {
        let name = stamps(times[0])[kind].0;
        let line = |(number, time): (usize, &Wall)| format!("{} step {number}\n", stamps(*time)[kind].1);
        let line = |at: (usize, &Wall)| {
            // A JSON line ends with its object.
            if name == "json.log" {
                line(at).replace("} step ", ", \"m\": \"step ").replace('\n', "\"}\n")
            } else {
                line(at)
            }
        };
        let mut lines: Vec<String> = times.iter().enumerate().map(line).collect();
        // Logs need not be sorted.
        lines.reverse();
        let output = merge(&watched, &[(name, lines.concat())]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{said}");
        let messages = messages(&output.stdout);
        let mut step = 0;
        for message in &messages {
            if message.starts_with(&format!("{name}: ")) {
                assert!(message.contains(&format!("step {step}")), "{name}: {messages:#?}");
                step += 1;
            } else {
                let record: usize =
                    message.split([' ', '\n']).nth(1).expect("a number").parse().expect("a number");
                assert_eq!(record + 1, step, "{name}: {messages:#?}");
            }
        }
        assert_eq!(step, times.len());
        assert!(said.contains(&format!("{} records placed by ", times.len())), "{said}");
    }
    // The traces' own lines are not touched.
    let own = |text: &[u8]| -> Vec<String> {
        let text = String::from_utf8(text.to_vec()).expect("UTF-8");
        text.lines().filter(|line| !line.contains("-00000000 ")).map(str::to_owned).collect()
    };
    let with = merge(
        &watched,
        &[("one.log", format!("{} one\n", times[1])), ("two.log", format!("{}\n", times[2]))],
    );
    assert_eq!(own(&with.stdout), own(&without.stdout));
    assert_eq!(messages(&with.stdout).len(), messages(&without.stdout).len() + 2);
}

#[test]
fn log_lines_are_shown_with_any_selection() {
    let (watched, times) = traced();
    let (_, time) = &stamps(times[2])[0];
    let log = [("other.log", format!("{time} said by another\n"))];
    for options in
        [&["--thread", "no-*", "--thread", "*"][..], &["--time", "utc"], &["--grep", "another|none"]]
    {
        let shown = view(&watched, &log, options);
        let text = String::from_utf8_lossy(&shown.stdout);
        let line =
            text.lines().find(|line| line.contains("said by another")).unwrap_or_else(|| panic!("{text}"));
        assert!(line.contains("00000000 : other.log: ") && !line.contains('/'), "one process: {line}");
    }
    let none = view(&watched, &log, &["--thread", "no-such-thread"]);
    assert_eq!(none.status.code(), Some(2), "{}", String::from_utf8_lossy(&none.stderr));
}

#[test]
fn log_lines_without_a_time_continue_the_line_before() {
    let (watched, times) = traced();
    let log = format!("starting\n{} panicked\n  at app.rs:1\n\x1b[31m\n{} next\r\n", times[2], times[3]);
    let output = merge(&watched, &[("app.log", log)]);
    let messages = messages(&output.stdout);
    let of_log: Vec<&String> = messages.iter().filter(|message| message.starts_with("app.log: ")).collect();
    let panicked = format!("app.log: {} panicked\n  at app.rs:1\n\x1b[31m", times[2]);
    assert_eq!(of_log, ["app.log: starting", &panicked, &format!("app.log: {} next", times[3])]);
}

#[test]
fn a_log_without_times_is_rejected_and_its_first_lines_are_shown() {
    let (watched, _) = traced();
    let output = merge(&watched, &[("app.log", "hello\nworld\n".to_owned())]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{said}");
    for word in ["app.log'", "ISO 8601", "syslog", "\n  hello\n  world"] {
        assert!(said.contains(word), "{said}");
    }
    let missing = tracemerge(SCENARIO, watched.scenario.runtime.path(), ["--with", "/nowhere/x.log", APP]);
    let app = watched.scenario.directory.path();
    let output = { missing }.current_dir(app).output().expect("the merge can be run");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot open '/nowhere/x.log'"));
}
