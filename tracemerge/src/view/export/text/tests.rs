//! Tests of the lines for people: their times, their threads, and their colours.

use std::sync::Arc;

use jiff::tz::{Offset, TimeZone};
use trace_format::line::Ticks;
use trace_format::meta::{ClockKind, Run};

use super::*;
use trace_format::wall::Wall;

use crate::time::anchor::Anchor;
use crate::time::clocks::TickClock;
use crate::ui::escaping::escaped;

/// The wall clock at tick 0, in nanoseconds since 1970.
const FIRST: u64 = 1_795_187_462_000_000_000;

/// Returns the origin of a thread whose ticks are nanoseconds since [`FIRST`].
fn origin(pid: u32) -> Origin {
    let (ticks, wall) = (Ticks(0), Wall(FIRST));
    let run = Run {
        version: 1,
        id: pid,
        root: pid,
        pid,
        exe: b"/app".to_vec(),
        boot: b"b".to_vec(),
        ticks,
        wall,
        clock: ClockKind::System,
    };
    let clock = Arc::new(TickClock::of(ClockKind::System, [Anchor::new(ticks, wall)]));
    Origin {
        run: Some(run),
        tid: 320,
        name: Vec::new(),
        clock,
        is_shown: true,
        is_log: false,
        has_sites: false,
        waited: None,
        foreign: None,
    }
}

/// Returns the output for `records` of the first of these processes.
fn shown(style: TextStyle, pids: &[u32], records: &[&str]) -> String {
    let origins: Vec<Origin> = pids.iter().map(|&pid| origin(pid)).collect();
    let (mut text, mut out) = (TextFormat::new(style), Vec::new());
    text.begin(&origins, &mut out);
    for lines in records {
        text.record(&origins[0], &RecordText::new(0, lines.as_bytes()), &mut out);
    }
    text.finish(&mut out);
    String::from_utf8(escaped(&out)).unwrap()
}

fn plain(time: TimeMode) -> TextStyle {
    let zone = TimeZone::fixed(Offset::constant(1));
    TextStyle { time: TimeColumn::new(time, FIRST, zone), palette: None, found: None }
}

const TWO: &str = "000000003b9aca01-00000320 : one\n000000003b9aca01-00000320 | two\n";
const LATER: &str = "000000003b9aca05-00000320 # lost records=1 reason=full\n";

#[test]
fn times_replace_ticks() {
    for (time, one, lost) in [
        (TimeMode::Ticks, "000000003b9aca01-", "000000003b9aca05-"),
        (TimeMode::Offset, "     1.000000001 ", "     1.000000005 "),
        (TimeMode::Delta, "     0.000000000 ", "     0.000000004 "),
        (TimeMode::Wall, "2026-11-20 16:11:03.000000001 ", "2026-11-20 16:11:03.000000005 "),
        (TimeMode::Utc, "2026-11-20T15:11:03.000000001Z ", "2026-11-20T15:11:03.000000005Z "),
    ] {
        let expected = format!(
            "{one}00000320 : one\n{one}00000320 | two\n{lost}00000320 # lost records=1 reason=full\n"
        );
        assert_eq!(shown(plain(time), &[5], &[TWO, LATER]), expected, "{time:?}");
    }
}

#[test]
fn lines_with_times_name_the_process_if_there_are_several() {
    assert!(
        shown(plain(TimeMode::Offset), &[5, 6], &[TWO]).starts_with("     1.000000001 5/00000320 : one\n")
    );
    assert_eq!(shown(plain(TimeMode::Ticks), &[5, 6], &[TWO]), TWO);
    assert!(!shown(plain(TimeMode::Offset), &[5, 5], &[TWO]).contains('/'));
}

#[test]
fn colours_do_not_change_the_text() {
    let palette = Some(Palette::colours());
    let found = Some(Regex::new("tw|o").unwrap());
    let text = shown(TextStyle { palette, found, ..plain(TimeMode::Ticks) }, &[5], &[TWO, LATER]);
    assert!(text.contains("| \x1b[1m\x1b[31mtw\x1b[0m\x1b[1m\x1b[31mo\x1b[0m\n"), "{text:?}");
    assert!(text.contains("# \x1b[31mlost records=1 reason=full\x1b[0m\n"), "{text:?}");
    let mut uncoloured = String::new();
    let mut rest = &text[..];
    while let Some((before, after)) = rest.split_once('\x1b') {
        uncoloured.push_str(before);
        rest = after.split_once('m').unwrap().1;
    }
    assert_eq!(uncoloured + rest, [TWO, LATER].concat());
}
