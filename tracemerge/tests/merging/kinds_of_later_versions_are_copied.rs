//! Lines and raw records of kinds that only later versions know: a merge copies them, views leave them out and name the
//! kinds, and they count as neither messages nor damage. If a flipped bit changes the kind of a line, `check` misses the line.
#![allow(clippy::unwrap_used, reason = "a failure in a test fails it")]

use crate::support::{Place, Ran, header, meta, raw_file_of_records, run};
use trace_format::line::{Key, Kind, Line, Ticks};
use trace_format::meta::{Meta, SystemClocks};
use trace_format::wall::Wall;

const TID: u64 = 9;

fn line(ticks: u64, kind: char, payload: &str) -> Vec<u8> {
    let (kind, payload) = (Kind::from_byte(kind as u8).unwrap(), payload.as_bytes());
    let mut out = Vec::new();
    Line { key: Key { ticks: Ticks(ticks), tid: TID }, kind, payload }.write(&mut out);
    out
}

/// Returns a whole file with one line of each known kind, and two of a later kind.
fn later(version: u32) -> Vec<Vec<u8>> {
    let mut run = run(5, 1);
    run.version = version;
    vec![
        header(&run, TID),
        line(1, '#', "thread name=\"main\" ring=shared file=1"),
        line(3, ':', "one"),
        line(4, '~', "what nobody knows yet"),
        line(5, '>', "0x1234"),
        line(5, '^', "0x1234 0x5678"),
        line(6, '~', "of=another sort"),
        line(7, '<', "0x1234"),
        line(7, '#', "of_a_later_version key=1"),
        meta(
            7,
            TID,
            &Meta::Clock { ticks: Ticks(7), wall: Wall(run.wall.0 + 6), system: SystemClocks::default() },
        ),
        line(7, '#', "end records=4 lost=0 reason=exit files=1 others=2"),
    ]
}

fn ran(bytes: &[u8], args: &[&str]) -> Ran {
    let place = Place::new();
    place.write("app.trace.9", bytes);
    place.merge(args)
}

#[test]
fn a_merge_copies_unknown_kinds_and_a_check_reports_them() {
    let whole = later(trace_format::VERSION).concat();
    let merged = ran(&whole, &["app", "-q", "-o", "-"]);
    assert_eq!((merged.status, merged.out, merged.err), (Some(0), whole.clone(), String::new()));
    let checked = ran(&whole, &["check", "app"]);
    let said = String::from_utf8_lossy(&checked.out).into_owned();
    assert_eq!(checked.status, Some(0), "{said}{}", checked.err);
    assert!(said.contains("whole: 1 run, 1 thread, 4 records"), "{said}");
    let named = "2 lines of kinds that this version does not know ('~': 2)";
    assert!(checked.err.contains(named), "{}", checked.err);
    let info = ran(&whole, &["info", "app"]);
    assert!(String::from_utf8_lossy(&info.out).contains(named));
}

#[test]
fn views_leave_unknown_kinds_out_and_report_them() {
    let whole = later(trace_format::VERSION).concat();
    for view in [&["--format", "jsonl"][..], &["--format", "csv"], &["--format", "chrome"]] {
        let shown = ran(&whole, &[view, &["app", "-o", "-"]].concat());
        let out = String::from_utf8_lossy(&shown.out).into_owned();
        assert_eq!(shown.status, Some(0), "{view:?} {}", shown.err);
        assert!(out.contains("one") && !out.contains("nobody knows"), "{view:?} {out}");
        assert!(shown.err.contains("left out: 2 lines of kinds that"), "{view:?} {}", shown.err);
    }
    for view in [&["report", "app"][..], &["tree", "app"], &["--format", "folded", "app", "-o", "-"]] {
        let shown = ran(&whole, view);
        assert_eq!(shown.status, Some(0), "{view:?} {}", shown.err);
        assert!(!String::from_utf8_lossy(&shown.out).contains("nobody knows"), "{view:?}");
        assert!(shown.err.contains("left out: 2 lines of kinds that"), "{view:?} {}", shown.err);
    }
}

#[test]
fn a_check_detects_a_line_whose_kind_was_changed() {
    let lines = later(trace_format::VERSION);
    for changed in 0..lines.len() {
        for kind in (b'!'..=b'~').filter(u8::is_ascii_punctuation) {
            let is_known = Kind::ALL.iter().any(|known| known.byte() == kind);
            if is_known || kind == b'~' {
                continue;
            }
            let mut lines = lines.clone();
            // A changed line of a later kind may still be of a later kind: no reader can know that it was another.
            if lines[changed][26] == b'~' {
                continue;
            }
            lines[changed][26] = kind;
            let checked = ran(&lines.concat(), &["check", "app"]);
            assert_eq!(checked.status, Some(1), "line {changed}, '{}': {}", char::from(kind), checked.err);
        }
    }
}

#[test]
fn unknown_kinds_in_a_trace_of_an_earlier_version_are_damage() {
    for version in [1, 2] {
        let checked = ran(&later(version).concat(), &["check", "app"]);
        assert_eq!(checked.status, Some(1));
        assert!(checked.err.contains("no line of this thread's trace"), "{}", checked.err);
    }
}

#[test]
fn a_raw_record_of_an_unknown_kind_becomes_a_line() {
    let sound = Meta::Run(run(5, 1));
    // Kind 20, flags 3, site 5.
    let records = [(2, 3, b"one".to_vec()), (5 << 32 | 3 << 8 | 20, 9, vec![0xff, 0x0b, 0xaa])];
    let raw = raw_file_of_records(TID, &[(1, &sound)], &[], records);
    let merged = ran(&raw, &["app", "-q", "-o", "-"]);
    let expected =
        [header(&run(5, 1), TID), line(3, ':', "one"), line(9, '?', "kind=20 flags=3 site=5 bytes=ff0baa")];
    assert_eq!((merged.status, merged.err), (Some(0), String::new()));
    assert_eq!(String::from_utf8_lossy(&merged.out), String::from_utf8_lossy(&expected.concat()));
}
