//! A span that one thread enters and another thread leaves ends at the time of leaving, on the thread that has entered
//! it, and all views have the same times, equal to those of the made records.
#![allow(clippy::unwrap_used, reason = "a failure in a test fails it")]

use std::collections::BTreeMap;

use serde_json::Value;

use crate::data_sets_have_every_record_once::rows_below;
use crate::deep_calls_are_folded::{Paths, of_speedscope, paths};
use crate::support::protobuf::Message;
use crate::support::{Place, Seeded, run, whole_file};

/// The threads, with names of the same length.
const THREADS: [&str; 4] = ["red", "sky", "elm", "fig"];
/// The ticks of a millisecond.
const MS: u64 = 4000;

/// The spans, by the names of their functions: the times in milliseconds for which a thread was in each, and the time
/// from its beginning to its end.
pub(crate) type Spans = BTreeMap<String, (Vec<u64>, u64)>;

/// Makes a trace in which random threads enter and leave spans. Some spans are entered again, by another thread.
pub(crate) fn made(seed: u64) -> (Place, Spans) {
    let (place, spans, _) = made_with_periods(seed);
    (place, spans)
}

/// Makes the same trace. Also returns the periods in milliseconds for which each thread was in a span: their begins and
/// ends.
fn made_with_periods(seed: u64) -> (Place, Spans, [Vec<(u64, u64)>; 4]) {
    let mut periods = [const { Vec::new() }; 4];
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
                periods[entered_by].push((entered, now));
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
    (place, spans, periods)
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

#[test]
fn formats_for_other_programs_end_such_a_span_when_it_is_left() {
    for seed in 1..=4 {
        let (place, spans) = made(seed);
        let sums: BTreeMap<String, u64> = spans
            .iter()
            .map(|(name, (times, _))| (name.clone(), times.iter().sum::<u64>() * 1_000_000))
            .collect();
        let written = |format: &str| {
            let ran = place.merge(["--format", format, "-o", format, "app"]);
            assert!(ran.status == Some(0) && !ran.err.contains("without an"), "seed {seed}: {}", ran.err);
        };
        // A path stays that of the call's beginning, so only the last function on it has its own time.
        written("folded");
        let mut own = BTreeMap::new();
        for (path, ns) in paths(&place.text("folded")) {
            *own.entry(path.last().unwrap().clone()).or_insert(0) += ns;
        }
        own.retain(|_, ns| *ns > 0);
        let report: Value =
            serde_json::from_str(&shown(&place, &["report", "--rows", "all", "--json"])).unwrap();
        let rows = report["functions"].as_array().unwrap().iter();
        let rows = rows.map(|row| (row["function"].as_str().unwrap().to_owned(), number(row, "self_ns")));
        assert_eq!(own, rows.filter(|(_, ns)| *ns > 0).collect(), "seed {seed}");
        written("speedscope");
        assert_eq!(sums_of_paths(&of_speedscope(&place.text("speedscope"))), sums, "seed {seed}");
        written("perfetto");
        assert_eq!(sums_of_packets(&place.read("perfetto")), sums, "seed {seed}");
        written("uftrace");
        assert_eq!(sums_of_uftrace(&place), sums, "seed {seed}");
        let ran = place.merge(["dataset", "add", "set", "app"]);
        assert_eq!(ran.status, Some(0), "{}", ran.err);
        let mut rows = BTreeMap::new();
        for row in rows_below(&place.path("set/calls")) {
            *rows.entry(row["function"].as_str().unwrap().to_owned()).or_insert(0) +=
                row["duration"].as_u64().unwrap();
        }
        assert_eq!(rows, sums, "seed {seed}");
    }
}

#[test]
fn a_summary_ends_such_a_span_when_it_is_left() {
    for seed in 1..=8 {
        let (place, spans, periods) = made_with_periods(seed);
        let summary: Value = serde_json::from_str(&shown(&place, &["summary", "--json"])).unwrap();
        assert_eq!(summary["open_calls"], Value::Array(Vec::new()), "seed {seed}");
        for (name, periods) in THREADS.iter().zip(periods) {
            let rows = summary["threads"].as_array().unwrap();
            let row = rows.iter().find(|row| row["thread"].as_str().unwrap().contains(name)).unwrap();
            assert_eq!(number(row, "in_calls_ns"), covered(periods) * 1_000_000, "seed {seed}: {name}");
        }
        let rows = summary["functions"].as_array().unwrap();
        assert_eq!(rows.len(), 10, "seed {seed}");
        for row in rows {
            let (times, _) = &spans[row["function"].as_str().unwrap()];
            assert_eq!(number(row, "calls"), times.len() as u64, "seed {seed}: {row}");
            assert_eq!(number(row, "max_ns"), times.iter().max().unwrap() * 1_000_000, "seed {seed}: {row}");
        }
    }
}

/// Returns the time that periods cover.
fn covered(mut periods: Vec<(u64, u64)>) -> u64 {
    periods.sort_unstable();
    let (mut sum, mut until) = (0, 0);
    for (begin, end) in periods {
        sum += end.max(until) - begin.max(until);
        until = until.max(end);
    }
    sum
}

/// Returns the time of each function, wherever it is on a path.
fn sums_of_paths(paths: &Paths) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    for (path, ns) in paths {
        for name in path {
            *sums.entry(name.clone()).or_default() += ns;
        }
    }
    sums
}

/// Returns the time of each function in the slices of the threads.
fn sums_of_packets(trace: &[u8]) -> BTreeMap<String, u64> {
    let (mut tracks, mut names, mut threads) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
    let (mut open, mut sums) = (BTreeMap::<u64, Vec<(u64, String)>>::new(), BTreeMap::new());
    for packet in Message::read(trace).messages(1) {
        let sequence = packet.number(10).unwrap();
        for defaults in packet.messages(59).flat_map(|defaults| defaults.messages(11).collect::<Vec<_>>()) {
            tracks.insert(sequence, defaults.number(11).unwrap());
        }
        for track in packet.messages(60).filter(|track| track.messages(4).next().is_some()) {
            threads.push(track.number(1).unwrap());
        }
        for entry in packet.messages(12).flat_map(|interned| interned.messages(2).collect::<Vec<_>>()) {
            names.insert((sequence, entry.number(1).unwrap()), entry.text(2).unwrap());
        }
        let Some(event) = packet.messages(11).next() else { continue };
        let track = event.number(11).or_else(|| tracks.get(&sequence).copied()).unwrap();
        let (ns, open) = (packet.number(8).unwrap(), open.entry(track).or_default());
        match event.number(9).unwrap() {
            _ if !threads.contains(&track) => {}
            1 => open.push((ns, names[&(sequence, event.number(10).unwrap())].clone())),
            2 => {
                let (since, name) = open.pop().unwrap();
                *sums.entry(name).or_insert(0) += ns - since;
            }
            _ => {}
        }
    }
    assert!(open.values().all(Vec::is_empty), "each slice ends");
    sums
}

/// Returns the time of each function in the records for uftrace, of 16 bytes each.
fn sums_of_uftrace(place: &Place) -> BTreeMap<String, u64> {
    let symbols = place.text("uftrace/app.sym");
    let name_at = |address: u64| {
        let of_symbol =
            |line: &str| Some((u64::from_str_radix(line.get(..16)?, 16).ok()?, line.get(19..)?.to_owned()));
        symbols.lines().filter_map(of_symbol).find(|(at, _)| *at == address).unwrap().1
    };
    let mut sums = BTreeMap::new();
    for tid in 1..=THREADS.len() {
        let bytes = place.read(format!("uftrace/{tid}.dat"));
        let words: Vec<u64> =
            bytes.chunks(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect();
        let mut open = Vec::new();
        for record in words.chunks(2) {
            let (ns, is_entry, address) = (record[0], record[1] & 3 == 0, record[1] >> 16);
            if is_entry {
                open.push((ns, address));
            } else {
                let (since, entered) = open.pop().unwrap();
                assert_eq!(entered, address);
                *sums.entry(name_at(address - 0x40_0000)).or_insert(0) += ns - since;
            }
        }
        assert!(open.is_empty(), "each call ends");
    }
    sums
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
