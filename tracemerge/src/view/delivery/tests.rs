//! Tests of the delivery of files that are truncated after they were mapped: the remaining lines are merged.
#![cfg(unix)]

use super::*;
use crate::file::map::Map;
use crate::file::truncation;
use crate::find::header::Trace;
use crate::find::marks::Marks;
use crate::input::inputs::Origin;
use crate::input::slice::TickPeriod;
use crate::input::source::whole;
use crate::merge::{MIN_WINDOW_RANGES, MergeWork, Room, Turn, Windows, run_without_output, unless_truncated};
use crate::os::sys::file_id;
use crate::time::clocks::TickClock;
use crate::ui::console::Content;
use crate::ui::messages::Status;
use crate::view::export::text::{TextFormat, TextStyle};
use crate::view::export::time_column::{TimeColumn, TimeMode};
use crate::view::layout::Needs;
use crate::view::request::View;
use itertools::Itertools;
use std::fs::{self, OpenOptions};
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;
use trace_format::meta::ClockKind;

/// Returns lines of 40 bytes each, at these ticks.
fn lines(tid: u64, ticks: impl Iterator<Item = u64>) -> Vec<u8> {
    ticks.flat_map(|ticks| format!("{ticks:016x}-{tid:08} : {:011}\n", ticks * 7).into_bytes()).collect()
}

/// Returns the trace at `path`, without other information.
fn trace_at(path: &Path) -> Trace {
    Trace {
        path: path.to_owned(),
        tid: 1,
        number: 0,
        id: None,
        map: None,
        holes: 0,
        held: None,
        owner: 0,
        run: None,
        claim: None,
        marks: Marks::default(),
        first: 0,
        last: 0,
    }
}

fn open_one(path: &Path) -> Source {
    Source::open(&trace_at(path), false).unwrap().remove(0)
}

/// Makes two files of 10,000 lines. The second has odd ticks, and is truncated to `length` bytes once both
/// are mapped.
fn place(length: u64) -> (TempDir, Vec<Vec<Source>>) {
    let directory = tempfile::tempdir().unwrap();
    let [first, second] = ["first", "second"].map(|name| directory.path().join(name));
    fs::write(&first, lines(1, (0..10_000).map(|n| 2 * n))).unwrap();
    fs::write(&second, lines(2, (0..10_000).map(|n| 2 * n + 1))).unwrap();
    let sources = vec![open_one(&first), open_one(&second)];
    OpenOptions::new().write(true).open(&second).unwrap().set_len(length).unwrap();
    (directory, vec![sources])
}

/// Returns these sources as inputs of unknown threads.
fn inputs(boots: Vec<Vec<Source>>) -> Inputs {
    let clock = Arc::new(TickClock::of(ClockKind::Ordered, []));
    let origin = Origin {
        run: None,
        tid: 1,
        name: Vec::new(),
        clock,
        is_shown: true,
        is_log: false,
        has_sites: false,
        waited: None,
        foreign: None,
    };
    let sources = boots.iter().flatten().count();
    let ends = vec![(0, u64::MAX); boots.len()];
    Inputs { boots, origins: vec![origin; sources], ends, references: vec![None; sources] }
}

/// Writes a `view` of all inputs to `target`.
fn deliver(
    inputs: &mut Inputs,
    view: &View,
    target: &Target,
    messages: &mut Messages,
) -> Result<Option<u64>, Error> {
    let mut plan = Plan::new(inputs, view, Needs::default(), messages).unwrap();
    let style = TextStyle {
        time: TimeColumn::new(view.time, plan.times.steady.0, plan.zone.clone()),
        palette: None,
        found: None,
    };
    let format = || Box::new(TextFormat::new(style.clone())) as Box<dyn Export>;
    let selection = &view.selection;
    Delivery {
        inputs,
        plan: &mut plan,
        selection,
        format: &format,
        target,
        content: Content::Data,
        paged: false,
    }
    .write(messages)
}

#[test]
fn a_truncated_file_is_merged_up_to_its_new_end() {
    truncation::watch();
    for length in [0, 1, 39, 40, 41, 4096, 99_990, 100_000, 300_000] {
        let (directory, boots) = place(length);
        let path = directory.path().join("out");
        let target =
            Target::new(Some(path.as_os_str()), &path, &[], &std::collections::HashSet::new()).unwrap();
        let mut messages = Messages::new(true);
        let mut inputs = inputs(boots);
        let merged = deliver(&mut inputs, &View::default(), &target, &mut messages).unwrap().unwrap();
        assert_eq!(messages.status(), Status::Damaged, "truncated to {length}");
        assert_eq!(inputs.boots[0][1].bytes().len() as u64, length);
        let text = fs::read(&path).unwrap();
        assert!(!text.contains(&0), "truncated to {length}");
        let text = String::from_utf8(text).unwrap();
        assert_eq!(merged, text.lines().count() as u64);
        assert_eq!(text.matches("-00000001 : ").count(), 10_000);
        let whole = length / 40;
        let rest = length % 40;
        assert_eq!(
            text.matches("-00000002 : ").count() as u64,
            whole + u64::from(rest > 27),
            "truncated to {length}"
        );
        assert_eq!(text.matches("# damaged ").count(), usize::from(rest > 0 && rest < 27 && whole > 0));
        assert!(text.lines().map(|line| &line[..16]).is_sorted());
    }
}

#[test]
fn a_view_restarts_if_a_file_is_truncated() {
    truncation::watch();
    let pattern = |text| Some(regex::bytes::Regex::new(text).unwrap());
    let all = Selection { pattern: pattern(""), ..Selection::default() };
    let last = Selection { amount: Amount::Last(30_000), ..Selection::default() };
    let views = [
        View { selection: all, ..View::default() },
        View { selection: last, ..View::default() },
        View { time: TimeMode::Delta, ..View::default() },
        View { time: TimeMode::Utc, ..View::default() },
    ];
    for (view, length) in views.iter().cartesian_product([0, 41, 100_000]) {
        let (directory, boots) = place(length);
        let path = directory.path().join("out");
        let target =
            Target::new(Some(path.as_os_str()), &path, &[], &std::collections::HashSet::new()).unwrap();
        let (mut messages, mut inputs) = (Messages::new(true), inputs(boots));
        let shown = deliver(&mut inputs, view, &target, &mut messages).unwrap().unwrap();
        assert_eq!(messages.status(), Status::Damaged, "{view:?}, truncated to {length}");
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(shown, text.lines().count() as u64, "{view:?}, truncated to {length}");
        assert!(!text.contains('\0'), "{view:?}, truncated to {length}");
        assert_eq!(text.matches("00000001 : ").count(), 10_000, "{view:?}, truncated to {length}");
        assert_eq!(
            text.matches("00000002 : ").count() as u64,
            length / 40,
            "{view:?}, truncated to {length}"
        );
    }
}

/// Adds enough files to the first boot that the merge distributes lines to buckets.
fn add_many(boots: &mut [Vec<Source>], directory: &TempDir) {
    for tid in 3..=MIN_WINDOW_RANGES as u64 {
        let path = directory.path().join(tid.to_string());
        fs::write(&path, lines(tid, (0..500).map(|n| 50 * n))).unwrap();
        boots[0].push(open_one(&path));
    }
}

#[test]
fn a_merge_that_cannot_restart_keeps_the_lines_it_has_read() {
    truncation::watch();
    for (length, are_many) in [0, 41, 100_000].into_iter().cartesian_product([false, true]) {
        let (directory, mut boots) = place(length);
        if are_many {
            add_many(&mut boots, &directory);
        }
        let sources = &boots[0];
        let mut findings = Findings::default();
        let mut out = Vec::new();
        let (make, mut write) =
            (|| MergedLines::new(sources), |lines: &MergedLines<'_>| lines.write(&mut out));
        merge_by_all(sources, &whole(sources), TickPeriod::ALL, None, &make, &mut write, &mut findings)
            .unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text.matches("-00000001 : ").count(), 10_000, "truncated to {length}");
        assert!(text.matches("-00000002 : ").count() as u64 >= length / 40, "truncated to {length}");
        assert!(!text.contains('\0'));
        assert!(text.lines().map(|line| &line[..16]).is_sorted());
        assert_eq!(sources[1].truncated_at(), Some(usize::try_from(length).unwrap()));
    }
}

#[test]
fn lines_truncated_after_their_distribution_are_left_out() {
    truncation::watch();
    for length in [0, 4096, 8192] {
        // At this length, the file is still whole.
        let (directory, boots) = place(400_000);
        let sources = &boots[0];
        let mut windows = Windows::new(sources, &whole(sources), TickPeriod::ALL, None, 1);
        let (mut room, mut text, mut before) = (Room::default(), String::new(), None);
        let of_second = |text: &str| text.matches("-00000002 : ").count();
        loop {
            match windows.next() {
                Turn::WithoutOutput(job) => {
                    let job = run_without_output::<Windows<'_>>(sources, job, &mut room).unwrap();
                    windows.done(job);
                }
                Turn::Lines(mut job) => {
                    // The lines that are distributed by now are on later pages than the remaining ones.
                    if text.len() > 50_000 && before.is_none() {
                        let file = OpenOptions::new().write(true).open(directory.path().join("second"));
                        file.unwrap().set_len(length).unwrap();
                        before = Some(of_second(&text));
                    }
                    let mut lines = Vec::new();
                    let merge = || {
                        lines.clear();
                        Windows::run(sources, &mut job, &mut room, &mut lines)
                    };
                    unless_truncated(merge).unwrap();
                    text.push_str(std::str::from_utf8(&lines).unwrap());
                    windows.done(job);
                }
                Turn::Wait | Turn::End => break,
            }
        }
        assert!(!text.contains('\0'), "truncated to {length}");
        assert_eq!(text.matches("-00000001 : ").count(), 10_000, "truncated to {length}");
        assert_eq!(before, Some(of_second(&text)), "truncated to {length}");
        assert!(text.lines().map(|line| &line[..16]).is_sorted());
    }
}

#[test]
fn a_file_that_grew_or_was_replaced_is_opened_again() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    let (short, long) = (lines(1, 0..3), lines(1, 0..5));
    fs::write(&path, &short).unwrap();
    let id = Some(file_id(&path, &fs::metadata(&path).unwrap()));
    let map = Some(Arc::new(Map::open(&path).unwrap()));
    let mut trace = Trace { id, map, ..trace_at(&path) };
    let read = |trace: &Trace| Source::open(trace, false).unwrap().remove(0).bytes().to_vec();
    let kept = Source::open(&trace, false).unwrap().remove(0);
    assert_eq!(
        kept.bytes().as_ptr(),
        trace.map.as_ref().unwrap().as_ptr(),
        "as it was, it is not mapped again"
    );
    fs::write(&path, &long).unwrap();
    assert_eq!(read(&trace), long);
    trace.map = Some(Arc::new(Map::open(&path).unwrap()));
    let other = directory.path().join("other");
    fs::write(&other, lines(2, 10..15)).unwrap();
    fs::rename(&other, &path).unwrap();
    assert_eq!(read(&trace), lines(2, 10..15), "another file of the same length");
}

#[test]
fn a_file_that_became_empty_before_mapping_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("empty");
    fs::write(&path, "").unwrap();
    assert!(
        Source::open(&trace_at(&path), false)
            .unwrap_err()
            .to_string()
            .contains("has become empty while it was read")
    );
}
