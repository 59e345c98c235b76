//! Profiles for speedscope, and flame graphs, have every call of a trace with everything in it, and their sums are
//! those of `report`.
#![allow(clippy::unwrap_used, reason = "a failure in a test fails it")]

use std::collections::BTreeMap;

use crate::support::{Everything, everything};
use serde_json::Value;

/// A call without its thread: the times at which it was entered and left, in nanoseconds since the first record, the
/// number of calls around it, and its function.
type Call = (u64, u64, usize, String);

/// Returns the calls of each thread, sorted.
fn expected(all: &Everything) -> Vec<Vec<Call>> {
    let first = all.records.iter().map(|record| record.ticks).min().unwrap();
    let mut threads: BTreeMap<(u32, u64), Vec<Call>> = BTreeMap::new();
    for call in &all.calls {
        let ns = |ticks: u64| (ticks - first) * crate::support::TICK_NS;
        let of = threads.entry((call.pid, call.tid)).or_default();
        of.push((ns(call.entered), ns(call.left), call.depth, call.function.clone()));
    }
    let mut threads: Vec<_> = threads.into_values().collect();
    threads.iter_mut().for_each(|calls| calls.sort());
    threads.sort();
    threads
}

/// Returns the own time of each function, from the lines of `report --format folded`.
fn own_by_report(all: &Everything) -> BTreeMap<String, u64> {
    let report = all.place.merge(["report", "--format", "folded", "--all-runs", "app"]);
    let mut own = BTreeMap::new();
    for line in String::from_utf8(report.out).unwrap().lines() {
        let (path, ns) = line.rsplit_once(' ').unwrap();
        *own.entry(path.rsplit(';').next().unwrap().to_owned()).or_default() += ns.parse::<u64>().unwrap();
    }
    own
}

/// Processes the events of a profile like speedscope's importer; returns its calls. Adds their own times to `own`.
fn calls_of(profile: &Value, frames: &[Value], own: &mut BTreeMap<String, u64>) -> Vec<Call> {
    let (mut calls, mut open, mut latest) = (Vec::new(), Vec::new(), 0);
    for event in profile["events"].as_array().unwrap() {
        let (frame, at) = (event["frame"].as_u64().unwrap(), event["at"].as_u64().unwrap());
        assert!(at >= latest, "times do not go back");
        let name = frames[frame as usize]["name"].as_str().unwrap().to_owned();
        if let Some((_, _, innermost, _)) = open.last() {
            let innermost: &String = innermost;
            *own.entry(innermost.replace(';', ":")).or_default() += at - latest;
        }
        latest = at;
        match event["type"].as_str().unwrap() {
            "O" => open.push((frame, at, name, open.len())),
            "C" => {
                let (entered_frame, entered, name, depth) = open.pop().unwrap();
                assert_eq!(frame, entered_frame, "the innermost call is the one that ends");
                calls.push((entered, at, depth, name));
            }
            other => panic!("{other}"),
        }
    }
    assert!(open.is_empty(), "each call ends");
    assert!(profile["endValue"].as_u64().unwrap() >= latest);
    calls.sort();
    calls
}

#[test]
fn speedscope_profiles_have_each_call_and_the_sums_of_the_report() {
    let all = everything(100_000);
    let ran = all.place.merge(["--format", "speedscope", "--all-runs", "app"]);
    assert_eq!(ran.status, Some(1), "{}", ran.err);
    let messages = all.records.iter().filter(|record| record.kind == "message").count();
    assert!(ran.err.replace(',', "").contains(&format!("{messages} messages left out")), "{}", ran.err);
    let read: Value = serde_json::from_slice(&all.place.read("app.speedscope.json")).unwrap();
    let frames = read["shared"]["frames"].as_array().unwrap();
    let mut own = BTreeMap::new();
    let profiles = read["profiles"].as_array().unwrap();
    let mut found: Vec<_> = profiles.iter().map(|profile| calls_of(profile, frames, &mut own)).collect();
    found.sort();
    let expected = expected(&all);
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().flatten().zip(expected.iter().flatten()) {
        assert_eq!(found, expected);
    }
    assert_eq!(found.concat().len(), all.calls.len());
    own.retain(|_, ns| *ns > 0);
    assert_eq!(own, own_by_report(&all));
    let mut names: Vec<_> = profiles.iter().map(|profile| profile["name"].to_string()).collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), profiles.len(), "each thread has a name of its own: {names:?}");
}

/// Speedscope's importer refuses a profile without calls, so no profile is written.
#[test]
fn a_trace_without_calls_has_no_profile() {
    let place = crate::support::Place::with_one_file();
    let ran = place.merge(["--format", "speedscope", "app"]);
    // The status is 1 because the trace has only one time, which is a warning.
    assert_eq!(ran.status, Some(1), "{}", ran.err);
    let read: Value = serde_json::from_slice(&place.read("app.speedscope.json")).unwrap();
    assert_eq!(read["profiles"], serde_json::json!([]));
}

#[cfg(feature = "flamegraph")]
#[test]
fn a_flame_graph_has_the_sums_of_the_report() {
    let all = everything(100_000);
    let ran = all.place.merge(["--format", "flamegraph", "--all-runs", "app"]);
    assert_eq!(ran.status, Some(1), "{}", ran.err);
    // A title is `<title>NAME (1,234 ns, 5.67%)</title>`, for a frame with everything inside of it.
    let svg = all.place.text("app.svg");
    let report = all.place.merge(["report", "--format", "folded", "--all-runs", "app"]);
    let mut expected: BTreeMap<String, u64> = BTreeMap::new();
    let report = String::from_utf8(report.out).unwrap();
    let mut paths: BTreeMap<Vec<&str>, u64> = BTreeMap::new();
    for line in report.lines() {
        let (path, ns) = line.rsplit_once(' ').unwrap();
        let steps: Vec<&str> = path.split(';').collect();
        for end in 1..=steps.len() {
            *paths.entry(steps[..end].to_vec()).or_default() += ns.parse::<u64>().unwrap();
        }
    }
    for (path, ns) in paths {
        let name = path.last().unwrap().replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        *expected.entry(name.replace('"', "&quot;")).or_default() += ns;
    }
    let mut found: BTreeMap<String, u64> = BTreeMap::new();
    for title in svg.split("<title>").skip(1).map(|rest| rest.split("</title>").next().unwrap()) {
        let (name, rest) = title.rsplit_once(" (").unwrap_or((title, ""));
        let Some((ns, _)) = rest.split_once(" ns") else { continue };
        *found.entry(name.to_owned()).or_default() += ns.replace(',', "").parse::<u64>().unwrap();
    }
    let total = found.remove("all");
    assert_eq!(total, Some(own_by_report(&all).values().sum()));
    // Frames that are narrower than a tenth of a pixel are left out.
    assert!(found.len() >= 4, "{found:?}");
    for (name, ns) in &found {
        assert!(*ns <= expected[name] && *ns * 100 >= expected[name] * 95, "{name}: {ns} {}", expected[name]);
    }
}

#[cfg(not(feature = "flamegraph"))]
#[test]
fn a_format_left_out_of_the_build_says_how_to_get_it() {
    let place = crate::support::Place::with_one_file();
    let ran = place.merge(["--format", "flamegraph", "app"]);
    assert_eq!(ran.status, Some(2));
    assert!(ran.err.contains("cargo install --path tracemerge --features flamegraph"), "{}", ran.err);
    assert_eq!(place.names(), ["app.trace.9"]);
}
