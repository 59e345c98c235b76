//! A FIFO, a device, a directory or a link to nowhere may be in place of a trace. No command opens it, waits for it or
//! deletes it; each command names it and does as much as possible with the other files.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a failure in a test fails it")]

use std::fs;
use std::os::unix::fs::symlink;

use crate::support::{Place, Ran, header, line, meta, ran, run};
use trace_format::line::Ticks;
use trace_format::meta::{Meta, SystemClocks};
use trace_format::wall::Wall;

const ODD: [(&str, &str); 4] = [
    ("app.trace.20", "it is not a regular file"),
    ("app.trace.21", "it is not a regular file"),
    ("app.trace.22", "it is a directory"),
    ("app.trace.24", "is empty"),
];

fn place() -> Place {
    let place = Place::with_one_file();
    assert_eq!(ran(place.program("mkfifo").arg("app.trace.20")).status, Some(0));
    symlink("/dev/zero", place.path("app.trace.21")).unwrap();
    fs::create_dir(place.path("app.trace.22")).unwrap();
    symlink("nowhere", place.path("app.trace.23")).unwrap();
    place.write("app.trace.24", "");
    place
}

/// Runs the command, and ends it if it waits for a FIFO.
fn command(place: &Place, args: &[&str]) -> Ran {
    ran(place.program("timeout").arg("20").arg(env!("CARGO_BIN_EXE_tracemerge")).args(args))
}

#[test]
fn reading_commands_report_non_files() {
    let place = place();
    place.write("log", "2026-11-20T15:11:03Z a line\n");
    for args in [
        &["app", "-o", "-"][..],
        &["app", "--since", "@2", "--until", "@9"],
        &["app", "--last", "9"],
        &["app", "--time", "offset"],
        &["app", "--with", "log", "-o", "-"],
        &["check", "-v", "app"],
        &["info", "app"],
        &["info", "--json", "app"],
        &["diff", "app", "app"],
    ] {
        let Ran { status, out, err } = command(&place, args);
        assert_eq!(status, Some(1), "{args:?}: {err}");
        for (name, why) in ODD {
            assert!(
                err.lines().any(|line| line.contains(name) && line.contains(why)),
                "{args:?}, {name}: {err}"
            );
        }
        assert!(!out.is_empty(), "{args:?}");
    }
    // A directory of traces is read file by file.
    let Ran { status, out, err } = command(&place, &["diff", ".", "app.trace.9"]);
    assert_eq!(status, Some(1), "{err}");
    assert!(ODD.iter().take(3).all(|(name, _)| err.contains(name)), "{err}");
    assert!(String::from_utf8(out).unwrap().contains("1 thread the same, 2 records"), "{err}");
}

#[test]
fn clean_reports_non_files_and_keeps_them() {
    let place = place();
    let Ran { status, err, .. } = command(&place, &["clean", "app"]);
    assert_eq!(status, Some(1), "{err}");
    assert!(ODD.iter().all(|(name, _)| err.contains(name)), "{err}");
    assert!(err.contains("deleted 1 trace file"), "{err}");
    let left = ["app.trace.20", "app.trace.21", "app.trace.22", "app.trace.23", "app.trace.24"];
    assert_eq!(place.names(), left);
}

#[test]
fn a_non_file_given_as_an_argument_is_rejected() {
    let place = place();
    for args in [
        ["diff", "app", "app.trace.20"],
        ["diff", "/dev/zero", "app"],
        ["app", "--with", "/dev/zero"],
        ["app", "--with", "app.trace.22"],
        ["app", "-o", "app.trace.22"],
    ] {
        let Ran { status, err, .. } = command(&place, &args);
        assert_eq!(status, Some(2), "{args:?}: {err}");
    }
}

/// Each run records the length of its own ticks.
#[test]
fn two_runs_with_different_ticks_per_second_have_their_own_times() {
    let place = Place::new();
    let second = 1_000_000_000;
    for (pid, rate, boot) in [(5u32, 1_000u64, "one"), (6, 1_000_000, "other")] {
        let run =
            trace_format::meta::Run { boot: boot.as_bytes().to_vec(), ticks: Ticks(rate), ..run(pid, 0) };
        let tid = u64::from(pid);
        let mut text = header(&run, tid);
        for n in 2..=9 {
            text.extend(line(n * rate, tid, &format!("second {n}")));
            let clock = Meta::Clock {
                ticks: Ticks(n * rate),
                wall: Wall(run.wall.0 + (n - 1) * second),
                system: SystemClocks::default(),
            };
            text.extend(meta(n * rate, tid, &clock));
        }
        place.write(format!("app.trace.{pid}"), text);
    }
    for pid in ["5", "6"] {
        let args =
            ["app", "--all-runs", "--process", pid, "--time", "offset", "--since", "3s", "--until", "4s"];
        let shown = String::from_utf8(command(&place, &args).out).unwrap();
        let messages: Vec<&str> = shown.lines().filter(|line| line.contains(" : ")).collect();
        assert!(
            matches!(messages[..], [line] if line.contains("3.0") && line.ends_with("second 4")),
            "{shown}"
        );
    }
    let info = command(&place, &["info", "--all-runs", "--json", "app"]);
    let report: serde_json::Value = serde_json::from_slice(&info.out).unwrap();
    let rates = [0, 1].map(|n| report["runs"][n]["clock"]["ticks_per_second"].as_f64().unwrap().round());
    assert_eq!((rates, &report["runs"][1]["span_ns"]), ([1e3, 1e6], &serde_json::json!(7 * second)));
    let check = command(&place, &["check", "--all-runs", "app"]);
    assert!(String::from_utf8(check.out).unwrap().contains("2 runs, 2 threads, 16 records, 0 lost"));
    // The two runs are compared in nanoseconds.
    let diff = command(&place, &["diff", "app.trace.5", "app.trace.6", "--json"]);
    let report: serde_json::Value = serde_json::from_slice(&diff.out).unwrap();
    assert_eq!((diff.status, &report["same"]), (Some(0), &serde_json::json!(true)), "{}", diff.err);
    let medians = ["a", "b"].map(|side| report["messages"][0][side]["median_ns"].as_f64().unwrap() / 1e9);
    assert!(medians.iter().all(|seconds| (0.99..1.01).contains(seconds)), "{medians:?}");
}
