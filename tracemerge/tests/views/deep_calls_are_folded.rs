//! Calls inside of many other calls are shown as one, with their number, in each format that shows nested calls, and
//! the times still add up.
#![allow(clippy::unwrap_used, reason = "a failure in a test fails it")]

use std::collections::BTreeMap;

use crate::support::{Place, everything, header, run};
use serde_json::Value;

/// The default number of nested calls that are shown.
const USUAL: usize = 64;

fn record(ticks: u64, kind: char, text: &str) -> Vec<u8> {
    format!("{ticks:016x}-{:08} {kind} {text}\n", 9).into_bytes()
}

/// Makes a trace of `calls` nested calls, each hundredth of `app::g`, with a message in the last one. Half of them
/// are left; the process is killed inside of the others.
fn recursion(calls: u64) -> Place {
    let place = Place::new();
    let mut lines = header(&run(5, 1), 9);
    let function = |call: u64| if call % 100 == 99 { "app::g at src/g.rs:7" } else { "app::f at src/f.rs:3" };
    for call in 0..calls {
        lines.extend(record(1000 + call, '>', function(call)));
    }
    lines.extend(record(1000 + calls, ':', "as deep as it goes"));
    for call in (calls / 2..calls).rev() {
        lines.extend(record(1001 + calls + (calls - call), '<', function(call)));
    }
    lines.extend(record(1002 + 2 * calls, '#', "end records=1 lost=0 reason=killed"));
    place.write("app.trace.9", lines);
    place
}

fn shown(place: &Place, args: &[&str]) -> String {
    let ran = place.merge(args);
    assert!(ran.status.is_some_and(|status| status < 2), "{args:?}: {}", ran.err);
    String::from_utf8(ran.out).unwrap()
}

#[test]
fn a_tree_of_a_stack_overflow_is_short() {
    let calls = 20_000;
    let place = recursion(calls);
    let tree = shown(&place, &["tree", "app"]);
    assert!(tree.len() < 64 << 10, "{} bytes", tree.len());
    let folded = calls - USUAL as u64;
    let expected = format!("… {},{} more calls ({},{} of app::f)", folded / 1000, folded % 1000, 19, 736);
    let line = tree.lines().find(|line| line.contains(&expected)).unwrap();
    assert!(line.ends_with("<- still running when the process was killed"), "{line}");
    let open = tree.lines().position(|line| line.ends_with("… more calls {")).unwrap();
    let next = tree.lines().nth(open + 1).unwrap();
    assert!(next.ends_with(": as deep as it goes"), "a message stands in the calls that it is in: {next}");
    let few = shown(&place, &["tree", "--depth", "2", "app"]);
    assert!(few.lines().count() == 5 && few.contains("… 19,998 more calls"), "{few}");
    let all = shown(&recursion(300), &["tree", "--depth", "all", "app"]);
    assert!(all.lines().count() == 601 && !all.contains('…'), "{all}");
    let some = shown(&place, &["tree", "--function", "g", "app"]);
    let indented = some.lines().map(|line| line.len()).max().unwrap();
    assert!(indented < 400 && some.contains("… 19,837 more calls (19,638 of app::f)"), "{some}");
}

/// The time of each path of calls, without the calls inside, by the names on it.
pub type Paths = BTreeMap<Vec<String>, u64>;

/// Reads folded stacks, without the name of the thread.
pub fn paths(folded: &str) -> Paths {
    let mut paths = Paths::new();
    for line in folded.lines() {
        let (path, ns) = line.rsplit_once(' ').unwrap();
        let path = path.split(';').skip(1).map(str::to_owned).collect();
        *paths.entry(path).or_default() += ns.parse::<u64>().unwrap();
    }
    paths
}

/// Takes events of a thread (whether it is a beginning, nanoseconds, name); returns the own time of each path.
fn paths_of(events: impl Iterator<Item = (bool, u64, String)>, paths: &mut Paths) {
    let (mut open, mut latest) = (Vec::new(), 0);
    for (begins, at, name) in events {
        assert!(at >= latest, "times do not go back");
        if !open.is_empty() {
            *paths.entry(open.clone()).or_default() += at - latest;
        }
        latest = at;
        if begins {
            open.push(name);
        } else {
            open.pop().unwrap();
        }
    }
    assert!(open.is_empty(), "each call ends");
    paths.retain(|_, ns| *ns > 0);
}

pub fn of_speedscope(json: &str) -> Paths {
    let read: Value = serde_json::from_str(json).unwrap();
    let mut paths = Paths::new();
    for profile in read["profiles"].as_array().unwrap() {
        let events = profile["events"].as_array().unwrap().iter().map(|event| {
            let frame = &read["shared"]["frames"][event["frame"].as_u64().unwrap() as usize];
            let name = frame["name"].as_str().unwrap().replace(';', ":");
            (event["type"] == "O", event["at"].as_u64().unwrap(), name)
        });
        paths_of(events, &mut paths);
    }
    paths
}

/// Reads the calls of Chrome's JSON. If several begin or end at once, they are a nanosecond apart there.
fn of_chrome(json: &str, tick: u64) -> Paths {
    let read: Value = serde_json::from_str(json).unwrap();
    let mut threads: BTreeMap<String, Vec<(bool, u64, String)>> = BTreeMap::new();
    for event in read["traceEvents"].as_array().unwrap() {
        if event["ph"] == "B" || event["ph"] == "E" {
            let ns = (event["ts"].as_f64().unwrap() * 1000.0).round() as u64;
            let name = event["name"].as_str().unwrap_or_default().replace(';', ":");
            let thread = format!("{} {}", event["pid"], event["tid"]);
            threads.entry(thread).or_default().push((event["ph"] == "B", ns / tick * tick, name));
        }
    }
    let mut paths = Paths::new();
    threads.into_values().for_each(|events| paths_of(events.into_iter(), &mut paths));
    paths
}

#[test]
fn each_format_folds_the_same_calls() {
    let place = recursion(3000);
    let folded = paths(&shown(&place, &["--format", "folded", "-o", "-", "app"]));
    assert_eq!(paths(&shown(&place, &["report", "--format", "folded", "app"])), folded);
    assert_eq!(folded.keys().map(Vec::len).max(), Some(USUAL + 1));
    assert_eq!(folded.len(), USUAL + 1);
    assert_eq!(folded.values().sum::<u64>(), 6002, "the time of the outermost call");
    let deepest = folded.keys().max_by_key(|path| path.len()).unwrap();
    assert_eq!(deepest[USUAL], "… 2,936 more calls (2,906 of app::f)");
    assert_eq!(of_speedscope(&shown(&place, &["--format", "speedscope", "-o", "-", "app"])), folded);
    let said = place.merge(["--format", "chrome", "-o", "app.json", "app"]).err;
    assert!(
        said.contains("2,936 calls inside of 64 others: folded, and counted (--depth all shows them)"),
        "{said}"
    );
    assert!(said.contains("1,500 calls still running at the end"), "{said}");
    let events = place.text("app.json").matches("\"ph\":\"B\"").count();
    assert_eq!(events, USUAL + 1);
    for format in ["perfetto", "uftrace"] {
        let ran = place.merge(["--format", format, "app"]);
        assert!(ran.err.contains("2,936 calls inside of 64 others: folded"), "{format}: {}", ran.err);
    }
    assert!(place.read("app.perfetto-trace").len() < 16 << 10);
    // Each call has an enter record and an end, of 16 bytes each.
    assert_eq!(place.read("app.uftrace/9.dat").len(), (USUAL + 1) * 32);
    let symbols = place.text("app.uftrace/app.sym");
    assert!(symbols.contains("… 2,936 more calls"), "{symbols}");
    let jsonl = shown(&place, &["--format", "jsonl", "-o", "-", "app"]);
    assert_eq!(jsonl.matches("\"kind\":\"enter\"").count(), 3000, "what has no depth has each record");
}

/// The part of a path up to `depth` is the same, and times further in are summed up.
#[test]
fn times_add_up_at_any_folding_depth() {
    let all = everything(30_000);
    let run = |depth: &str, format: &str| {
        shown(&all.place, &["--format", format, "--depth", depth, "-o", "-", "--all-runs", "app"])
    };
    let whole = paths(&run("all", "folded"));
    for depth in [0, 1, 2, 3] {
        let mut expected: BTreeMap<Vec<String>, u64> = BTreeMap::new();
        for (path, ns) in &whole {
            let end = path.len().min(depth);
            let mut path_shown = path[..end].to_vec();
            path_shown.extend((end < path.len()).then(|| "…".to_owned()));
            *expected.entry(path_shown).or_default() += ns;
        }
        let depth = depth.to_string();
        let found = [
            paths(&run(&depth, "folded")),
            of_speedscope(&run(&depth, "speedscope")),
            of_chrome(&run(&depth, "chrome"), crate::support::TICK_NS),
        ];
        for found in found {
            let mut summed: BTreeMap<Vec<String>, u64> = BTreeMap::new();
            for (path, ns) in found {
                let path =
                    path.into_iter().map(|name| if name.starts_with('…') { "…".to_owned() } else { name });
                *summed.entry(path.collect()).or_default() += ns;
            }
            assert_eq!(summed, expected, "{depth}");
        }
    }
}
