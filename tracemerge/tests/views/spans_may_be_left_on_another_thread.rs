//! A span that one thread enters and another one leaves ends at that time, on the thread that has entered it, and all
//! views have the same times. They are compared with those of the made records.
#![allow(clippy::unwrap_used, reason = "a failure in a test fails it")]

use std::collections::BTreeMap;

use serde_json::Value;

use crate::support::{Place, Seeded, run, whole_file};

/// The threads, with names of the same length.
const THREADS: [&str; 4] = ["red", "sky", "elm", "fig"];
/// The ticks of a millisecond.
const MS: u64 = 4000;

/// The spans, by the names of their functions: the times in milliseconds for which a thread was in each, and the time
/// from its beginning to its end.
type Spans = BTreeMap<String, (Vec<u64>, u64)>;

/// Makes a trace in which random threads enter and leave spans. Some spans are entered again, by another thread.
fn made(seed: u64) -> (Place, Spans) {
    let mut random = Seeded::new(seed);
    let (mut files, mut spans, mut elsewhere) = (THREADS.map(|_| String::new()), Spans::new(), 0);
    let (mut open, mut again, mut begun, mut now) = (Vec::new(), Vec::new(), 0, 1);
    let mut write = |now: u64, thread: usize, text: String| {
        files[thread] += &format!("{:016x}-{:08} {text}\n", now * MS, thread + 1);
    };
    while begun < 24 || !open.is_empty() || !again.is_empty() {
        now += 1 + random.below(6);
        let thread = random.below(THREADS.len() as u64) as usize;
        match random.below(5) {
            0 | 1 if begun < 24 => {
                begun += 1;
                write(now, thread, format!("> span={begun} work{begun} at src/main.rs:{begun}"));
                open.push((begun, thread, now, now, random.below(3) == 0));
            }
            2 if !again.is_empty() => {
                let (span, began): (u64, u64) = again.swap_remove(random.below(again.len() as u64) as usize);
                write(now, thread, format!("> span={span} work{span} at src/main.rs:{span}"));
                open.push((span, thread, now, began, false));
            }
            3 | 4 if !open.is_empty() => {
                let (span, entered_by, entered, began, more): (u64, usize, u64, u64, bool) =
                    open.swap_remove(random.below(open.len() as u64) as usize);
                elsewhere += usize::from(entered_by != thread);
                let ended = if more { "" } else { "ended " };
                write(now, thread, format!("< span={span} {ended}work{span} at src/main.rs:{span}"));
                let times = spans.entry(format!("work{span}")).or_default();
                times.0.push(now - entered);
                times.1 = now - began;
                if more {
                    again.push((span, began));
                }
            }
            _ => write(now, thread, ": a message".to_owned()),
        }
    }
    (0..THREADS.len()).for_each(|thread| write(now + 1, thread, ": done".to_owned()));
    assert!(elsewhere >= 10, "seed {seed}: {elsewhere}");
    let place = Place::new();
    for (thread, text) in files.iter().enumerate() {
        let tid = thread as u64 + 1;
        place
            .write(format!("app.trace.{tid}"), whole_file(&run(9, 0), tid, THREADS[thread], text.as_bytes()));
    }
    (place, spans)
}

fn shown(place: &Place, args: &[&str]) -> String {
    let ran = place.merge([args, &["app"]].concat());
    let text = String::from_utf8(ran.out).unwrap();
    for missing in ["leave record", "enter record", "still running"] {
        assert!(ran.status == Some(0) && !ran.err.contains(missing), "{args:?}: {}", ran.err);
        assert!(!text.contains(missing), "{args:?}: {text}");
    }
    text
}

fn number(row: &Value, key: &str) -> u64 {
    row[key].as_u64().unwrap_or_else(|| panic!("{key} in {row}"))
}

#[test]
fn all_views_end_such_a_span_when_it_is_left() {
    for seed in 1..=8 {
        let (place, spans) = made(seed);
        let sums: BTreeMap<String, u64> =
            spans.iter().map(|(name, (times, _))| (name.clone(), times.iter().sum())).collect();

        let report: Value =
            serde_json::from_str(&shown(&place, &["report", "--rows", "all", "--json"])).unwrap();
        for key in ["still_running", "without_leave", "without_enter"] {
            assert_eq!(number(&report, key), 0, "seed {seed}: {key}");
        }
        let mut rows = BTreeMap::new();
        for row in report["functions"].as_array().unwrap() {
            rows.insert(row["function"].as_str().unwrap(), (number(row, "calls"), number(row, "total_ns")));
        }
        let expected: BTreeMap<&str, (u64, u64)> = spans
            .iter()
            .map(|(name, (times, _))| (&name[..], (times.len() as u64, sums[name] * 1_000_000)))
            .collect();
        assert_eq!(rows, expected, "seed {seed}");

        let busy: Value = serde_json::from_str(&shown(&place, &["spans", "--json"])).unwrap();
        assert_eq!((number(&busy, "spans"), number(&busy, "open")), (24, 0), "seed {seed}");
        for row in busy["names"].as_array().unwrap() {
            let name = row["name"].as_str().unwrap();
            let (times, wall) = &spans[name];
            let found = ["wall_max_ns", "busy_max_ns", "polls"].map(|key| number(row, key));
            assert_eq!(
                found,
                [wall * 1_000_000, sums[name] * 1_000_000, times.len() as u64],
                "seed {seed}: {name}"
            );
            assert!(row["opened_by"].is_null() || spans.contains_key(row["opened_by"].as_str().unwrap()));
        }

        assert_eq!(times_of_tree(&shown(&place, &["tree"])), texts(&spans), "seed {seed}");
        shown(&place, &["--format", "chrome", "-o", "timeline"]);
        assert_eq!(sums_of_slices(&place.text("timeline")), sums, "seed {seed}");
        let show = shown(&place, &["show"]);
        let ends: Vec<_> = show.lines().filter(|line| line.ends_with("done")).collect();
        for line in &ends {
            let behind = THREADS.iter().find_map(|name| Some(line.split_once(name)?.1));
            assert_eq!(behind, Some("  done"), "seed {seed}: a thread is outside of all spans at its end");
        }
        assert_eq!(ends.len(), THREADS.len());
    }
}

/// Returns the times of each function in a tree, as texts.
fn times_of_tree(tree: &str) -> BTreeMap<String, Vec<String>> {
    let mut times: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in tree.lines().filter(|line| !line.ends_with('{')) {
        let Some((columns, rest)) = line.split_once("work") else { continue };
        let name = format!("work{}", rest.split(' ').next().unwrap());
        let columns: Vec<_> = columns.trim_end_matches("} ").split_whitespace().collect();
        let [.., time, unit] = columns[..] else { panic!("{line}") };
        times.entry(name).or_default().push(format!("{time} {unit}"));
    }
    times.values_mut().for_each(|times| times.sort());
    times
}

fn texts(spans: &Spans) -> BTreeMap<String, Vec<String>> {
    let text = |ms: &u64| match ms {
        0..10 => format!("{ms}.00 ms"),
        10..100 => format!("{ms}.0 ms"),
        _ => format!("{ms} ms"),
    };
    let mut all = BTreeMap::new();
    for (name, (times, _)) in spans {
        let mut times: Vec<_> = times.iter().map(text).collect();
        times.sort();
        all.insert(name.clone(), times);
    }
    all
}

/// Returns the sum of the slices of each function, in milliseconds.
fn sums_of_slices(timeline: &str) -> BTreeMap<String, u64> {
    let timeline: Value = serde_json::from_str(timeline).unwrap();
    let (mut open, mut sums) = (BTreeMap::<u64, Vec<(String, f64)>>::new(), BTreeMap::new());
    for event in timeline["traceEvents"].as_array().unwrap() {
        let tid = event["tid"].as_u64().unwrap();
        match event["ph"].as_str().unwrap() {
            "B" => {
                let name = event["name"].as_str().unwrap().to_owned();
                open.entry(tid).or_default().push((name, event["ts"].as_f64().unwrap()));
            }
            "E" => {
                let (name, since) = open.get_mut(&tid).unwrap().pop().unwrap();
                *sums.entry(name).or_insert(0.0) += event["ts"].as_f64().unwrap() - since;
                assert!(event["args"]["cut off"].is_null(), "{event}");
            }
            _ => {}
        }
    }
    assert!(open.values().all(Vec::is_empty), "each slice ends");
    sums.into_iter().map(|(name, us)| (name, (us / 1000.0_f64).round() as u64)).collect()
}
