//! Every command that reads traces reads a data set in their place, with the same result.
#![cfg(feature = "parquet")]
#![allow(clippy::unwrap_used, reason = "a failure in a test fails it")]

use std::fs;

use trace_format::line::Ticks;
use trace_format::meta::{ClockKind, LossReason, Meta, Run};

use crate::support::{Place, everything, header, meta, run};

/// Returns the traces of two runs with all kinds of lines, and with a set of them.
fn traces() -> Place {
    let place = Place::new();
    for (pid, tid) in [(5, 5), (5, 9), (6, 6)] {
        let of_run = Run { clock: ClockKind::System, ticks: Ticks(0), ..run(pid, 1) };
        let mut bytes = header(&of_run, tid);
        let lines = [
            "> app::main at src/main.rs:7",
            ": a message of\n| two lines, C:\\x5cx41 and \\x1b[0m",
            "> span=7 app::span at src/main.rs:9",
            "! lock wait id=1 for=lock made=\"src/a.rs:1\" at=\"src/a.rs:2\" holder=9 since=\"src/a.rs:3\"",
            "! lock got id=1 ns=500",
            ":  with  spaces, é and \\xff",
            "< span=7 app::span at src/main.rs:9",
            "^ 0x401000 (app::main at src/main.rs:7)",
            "< app::main at src/main.rs:7",
            ": the last one",
        ];
        for (number, line) in lines.iter().enumerate() {
            let ticks = (number as u64 + 1) * 1_000 + tid;
            for line in line.split('\n') {
                bytes.extend(format!("{ticks:016x}-{tid:08} {line}\n").bytes());
            }
        }
        bytes.extend(meta(20_000 + tid, tid, &Meta::Lost { records: 3, reason: LossReason::Overwritten }));
        place.write(format!("app.trace.{tid}"), bytes);
    }
    let ran = place.merge(["dataset", "add", "--machine", "m-1", "set", "app"]);
    assert_eq!(ran.status, Some(0), "{}", ran.err);
    place
}

/// Returns the output of a view.
fn shown(place: &Place, args: &[&str]) -> String {
    let ran = place.merge(args);
    assert!(ran.status < Some(2), "{args:?}: {}", ran.err);
    String::from_utf8(ran.out).unwrap()
}

#[test]
fn the_merged_text_of_a_set_is_that_of_its_traces() {
    let place = traces();
    for is_compacted in [false, true] {
        if is_compacted {
            assert_eq!(place.merge(["dataset", "compact", "set"]).status, Some(0));
        }
        let original = place.merge(["--all-runs", "-o", "original", "app"]);
        let of_set = place.merge(["-o", "of_set", "set"]);
        assert_eq!(of_set.status, original.status, "{}", of_set.err);
        // A message that is not UTF-8 has its escapes as text.
        let expected = place.text("original").replace("\\xff", "\\x5cxff");
        assert_eq!(place.text("of_set"), expected);
    }
    // Nothing is written into the set.
    assert_eq!(place.merge(["set"]).status, place.merge(["--all-runs", "app"]).status);
    assert!(place.names().contains(&"set.trace.merge".to_owned()), "{:?}", place.names());
}

#[test]
fn views_of_a_set_are_those_of_its_traces() {
    let place = traces();
    for view in [&["show"][..], &["stats"], &["report"], &["locks"], &["tree"], &["spans"]] {
        let of_traces = shown(&place, &[view, &["--all-runs", "app"]].concat());
        let of_set = shown(&place, &[view, &["set"]].concat());
        // A message that is not UTF-8 has its escapes as text.
        let same = |text: &str| text.replace("\\x#cxff", "\\xff").replace("\\x5cxff", "\\xff");
        assert_eq!(same(&of_set), same(&of_traces), "{view:?}");
    }
}

#[test]
fn a_set_is_compared_with_its_traces_and_is_neither_followed_nor_added() {
    let place = traces();
    let ran = place.merge(["diff", "set", "set"]);
    assert_eq!(ran.status, Some(0), "{}", ran.err);
    let ran = place.merge(["-f", "-o", "followed", "set"]);
    assert_eq!(ran.status, Some(2));
    assert!(ran.err.contains("'set' is a data set, which no program writes to"), "{}", ran.err);
    let ran = place.merge(["dataset", "add", "--machine", "m-1", "set", "set"]);
    assert_eq!(ran.status, Some(2));
    assert!(ran.err.contains("copy their files"), "{}", ran.err);
}

#[test]
fn a_set_has_each_record_of_raw_traces() {
    let all = everything(3_000);
    let ran = all.place.merge(["dataset", "add", "--machine", "m-1", "set", "app"]);
    assert_eq!(ran.status, Some(1), "{}", ran.err);
    let counts = |name: &str| {
        let text = all.place.text(name);
        let mut kinds = std::collections::BTreeMap::new();
        for line in text.lines() {
            *kinds.entry(line.split(' ').nth(1).unwrap_or("").to_owned()).or_insert(0) += 1;
        }
        kinds
    };
    let ran = all.place.merge(["--symbols", "-o", "of_set", "set"]);
    assert!(ran.status < Some(2), "{}", ran.err);
    all.place.merge(["--symbols", "--all-runs", "-o", "original", "app"]);
    let (of_set, original) = (counts("of_set"), counts("original"));
    for kind in [":", ">", "<", "^"] {
        assert_eq!(of_set.get(kind), original.get(kind), "{kind}: {of_set:?} {original:?}");
    }
}

#[test]
fn a_damaged_file_of_a_set_is_named() {
    let place = traces();
    let folder = place.path("set/records/day=2026-11-20/machine=m-1");
    let path = fs::read_dir(&folder).unwrap().next().unwrap().unwrap().path();
    let bytes = fs::read(&path).unwrap();
    for length in [0, 3, 40, bytes.len() / 2, bytes.len() - 1] {
        fs::write(&path, &bytes[..length]).unwrap();
        let ran = place.merge(["show", "set"]);
        assert_eq!(ran.status, Some(2), "{length}: {}", ran.err);
        assert!(ran.err.contains(path.file_name().unwrap().to_str().unwrap()), "{length}: {}", ran.err);
    }
    // Any byte may be another one: the command reads the file or refuses it.
    for at in (0..bytes.len()).step_by(67) {
        let mut other = bytes.clone();
        other[at] ^= 0x55;
        fs::write(&path, &other).unwrap();
        let ran = place.merge(["show", "set"]);
        assert!(ran.status < Some(3), "{at}: {:?} {}", ran.status, ran.err);
        assert!(!ran.err.contains("panicked"), "{at}: {}", ran.err);
    }
}

/// The nanoseconds from one record of [`long_traces`] to the next.
const STEP: u64 = 2_000_000;

/// Returns the traces of two processes of ten minutes, and a set of them with several row groups: calls and messages, with
/// spans in which others are, or without.
fn long_traces(with_spans: bool) -> Place {
    let place = Place::new();
    for (pid, tid, records) in [(5, 5, 200_000), (5, 9, 100_000), (6, 26, 3_000)] {
        let of_run = Run { clock: ClockKind::System, ticks: Ticks(0), ..run(pid, 0) };
        let mut text = String::from_utf8(header(&of_run, tid)).unwrap();
        let mut put = |ticks: u64, rest: &str| text.push_str(&format!("{ticks:016x}-{tid:08} {rest}\n"));
        let outer = if with_spans { "span=7 app::main" } else { "app::main" };
        put(STEP, &format!("> {outer} at src/main.rs:7"));
        for number in 1..records {
            let ticks = number * (300_000 / records) * STEP + tid;
            match number % 4 {
                0 => put(ticks, &format!(": message {number}")),
                1 if with_spans && number % 1000 == 1 => put(ticks, "> span=9 app::work at src/main.rs:9"),
                1 => put(ticks, "> app::work at src/main.rs:9"),
                2 => put(ticks, &format!(": inside {number}")),
                _ if with_spans && number % 1000 == 3 => put(ticks, "< span=9 app::work at src/main.rs:9"),
                _ => put(ticks, "< app::work at src/main.rs:9"),
            }
        }
        place.write(format!("app.trace.{tid}"), text);
    }
    let ran = place.merge(["dataset", "add", "--machine", "m-1", "set", "app"]);
    assert!(ran.status < Some(2), "{}", ran.err);
    place
}

/// Selections of parts of [`long_traces`].
const PARTS: [&[&str]; 8] = [
    &["--until", "1s"],
    &["--since", "300s", "--until", "301s"],
    &["--since", "-2s"],
    &["--since", "2026-11-20T15:16:02Z", "--until", "2026-11-20T15:16:04Z"],
    &["--since", "@120000000000", "--until", "@121000000000"],
    &["--since", "900s"],
    &["--process", "6"],
    &["--thread", "9", "--since", "200s", "--until", "201s"],
];

#[test]
fn a_part_of_a_set_is_that_of_its_traces() {
    for with_spans in [false, true] {
        let place = long_traces(with_spans);
        for (number, part) in PARTS.iter().enumerate() {
            let mut views = vec![&["-o", "-"][..]];
            if number % 3 == 1 {
                views.extend([&["report"][..], &["spans"], &["stats"]]);
            }
            for view in views {
                let of = |source: &[&str]| {
                    let ran = place.merge([view, part, source].concat());
                    (ran.status, String::from_utf8(ran.out).unwrap(), ran.err.replace("'set'", "'app'"))
                };
                let (of_set, of_traces) = (of(&["set"]), of(&["--all-runs", "app"]));
                assert_eq!(of_set, of_traces, "{view:?} {part:?} {with_spans}");
            }
        }
    }
}

#[test]
fn row_groups_without_the_wanted_part_are_not_read() {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    let place = long_traces(false);
    let shown = |part: &[&str], source: &[&str]| {
        let ran = place.merge([&["-o", "-"], part, source].concat());
        (ran.status, ran.out, ran.err)
    };
    let folder = place.path("set/records/day=2026-11-20/machine=m-1");
    let path = folder.join("00000050-5-0.parquet");
    let mut bytes = fs::read(&path).unwrap();
    let reader = SerializedFileReader::new(fs::File::open(&path).unwrap()).unwrap();
    let groups = reader.metadata().row_groups();
    assert_eq!(groups.len(), 3);
    // Dictionaries show that the group has only calls and messages, and whose.
    let is_read = |name: &str| ["kind", "thread"].contains(&name);
    for column in groups[1].columns().iter().filter(|column| !is_read(column.column_descr().name())) {
        let (start, length) = column.byte_range();
        bytes[start as usize..][..length as usize].fill(0xff);
    }
    fs::write(&path, bytes).unwrap();
    for part in [&["--until", "1s"][..], &["--since", "-2s"], &["--process", "6"], &["--thread", "26"]] {
        let (status, out, err) = shown(part, &["set"]);
        assert!(status < Some(2), "{part:?} {err}");
        assert_eq!(out, shown(part, &["--all-runs", "app"]).1, "{part:?}");
    }
    for part in [&[][..], &["--since", "300s", "--until", "301s"], &["--thread", "9"]] {
        let (status, _, err) = shown(part, &["set"]);
        assert_eq!(status, Some(2), "{part:?}");
        assert!(err.contains("00000050-5-0.parquet"), "{part:?} {err}");
    }
}
