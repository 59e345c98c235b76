//! Tests that counting thread by thread gives the same result as a merge, whatever the threads have recorded,
//! and that damaged or unordered files fall back to the merge.
#![allow(clippy::unwrap_used, reason = "a failure in a test fails it")]

use std::path::PathBuf;

use proptest::prelude::*;
use trace_format::line::Ticks;
use trace_format::meta::{Between, Meta};
use trace_format::wait::{Wait, WaitCause};

use super::*;
use crate::ui::messages::Messages;
use crate::view::call_counts::Counting;
use crate::view::calls::Depth;
use crate::view::export::Export;
use crate::view::export::folded::FoldedFormat;
use crate::view::export::report::{ReportForm, ReportFormat, ReportLayout};
use crate::view::layout::Needs;
use crate::view::made_traces::{Step, delivered, inputs, names, raw_file, steps, text, write};
use crate::view::request::View;
use crate::view::thread_labels::Label;
use crate::view::threads::Threads;

/// A format that gets its records from a merge, even if it only counts calls.
struct ByMerge(Box<dyn Export>);

impl Export for ByMerge {
    fn begin(&mut self, origins: &[Origin], out: &mut Vec<u8>) {
        self.0.begin(origins, out);
    }

    fn record(&mut self, origin: &Origin, record: &RecordText<'_>, out: &mut Vec<u8>) {
        self.0.record(origin, record, out);
    }

    fn finish(&mut self, out: &mut Vec<u8>) {
        self.0.finish(out);
    }

    fn omissions(&self) -> Vec<String> {
        self.0.omissions()
    }
}

/// Returns one of four formats that show only counts of calls.
fn format(number: usize) -> Box<dyn Export> {
    let form = if number == 2 { ReportForm::Folded } else { ReportForm::Table };
    let layout = ReportLayout { by_thread: number == 1, format: form, ..ReportLayout::default() };
    let labels = ["main", "net;1"].map(|label| Label::from(label.to_owned()));
    let threads = Threads::new(names(), labels.to_vec());
    if number == 3 {
        return Box::new(FoldedFormat::new(Depth::AtMost(3), threads));
    }
    Box::new(ReportFormat::new(layout, Depth::default(), threads))
}

/// Returns whether these files are counted without a merge.
fn is_counted(files: &[(PathBuf, u64)]) -> bool {
    let mut inputs = inputs(files);
    let (view, mut messages) = (View::default(), Messages::new(true));
    let plan = Plan::new(&mut inputs, &view, Needs::default(), &mut messages).unwrap();
    let mut counts = CallCounts::new(Counting::default(), Threads::new(names(), Vec::new()));
    count(&mut counts, &inputs, &plan).is_some()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn counting_thread_by_thread_agrees_with_the_merge(
        threads in prop::collection::vec((steps(), 0..3u8), 1..5)
    ) {
        let directory = tempfile::tempdir().unwrap();
        let mut contents = Vec::new();
        for (tid, (steps, stored)) in (1..).zip(&threads) {
            let raw = raw_file(tid, steps);
            match stored {
                0 => contents.push((raw, tid)),
                1 => contents.push((text(&raw), tid)),
                // The file ends as if the last records of the thread were still in its ring.
                _ => {
                    let (file, ring) = steps.split_at(steps.len() / 2);
                    let passed = file.iter().map(|(passed, _)| passed).sum();
                    let between = (passed, Step::Enter(0x7000, true));
                    let ring: Vec<_> = [between].into_iter().chain(ring.iter().cloned()).collect();
                    let parts = [(raw_file(tid, file), tid), (text(&raw_file(tid, &ring)), tid)];
                    contents.extend(parts.into_iter().filter(|(bytes, _)| !bytes.is_empty()));
                }
            }
        }
        let files = write(directory.path(), contents);
        prop_assert!(is_counted(&files));
        for number in 0..4 {
            let counted = delivered(&files, 0, &|| format(number));
            prop_assert_eq!(counted, delivered(&files, 0, &|| Box::new(ByMerge(format(number)))));
        }
    }
}

#[test]
fn calls_that_have_not_ended_leave_out_the_waits_of_their_thread() {
    let directory = tempfile::tempdir().unwrap();
    let steps = |begin: u64| {
        let (begin, end) = (Ticks(begin), Ticks(begin + 300));
        let wait = Wait { begin, end, ns: 300, what: WaitCause::Ring };
        let wait = Step::Meta(Meta::Wait(wait));
        [(5, Step::Enter(0x1000, true)), (500, wait), (100, Step::Message(3))]
    };
    let contents = vec![(raw_file(1, &steps(20)), 1), (raw_file(2, &steps(60)), 2)];
    let files = write(directory.path(), contents);
    assert!(is_counted(&files));
    for number in 0..4 {
        let counted = delivered(&files, 0, &|| format(number));
        assert_eq!(counted, delivered(&files, 0, &|| Box::new(ByMerge(format(number)))));
    }
}

#[test]
fn damaged_and_unordered_files_are_left_to_the_merge() {
    let directory = tempfile::tempdir().unwrap();
    let steps: Vec<_> = (0..100)
        .map(|n| (1, if n % 2 == 0 { Step::Enter(0x1000, true) } else { Step::Leave(0x1000, true) }))
        .collect();
    let sound = raw_file(1, &steps);
    let mut damaged = sound.clone();
    damaged[16 + 40 * 16] = 0xff;
    let mut backward = sound.clone();
    backward[16 + 40 * 16 + 8] = 1;
    let torn = text(&sound).strip_suffix(b"\n").unwrap().to_vec();
    let mut garbage = text(&sound);
    garbage[1000] = b'?';
    let missed = Meta::Missed { modules: 1, there: Between { after: Ticks(10), seen: Ticks(20) } };
    let changed: Vec<_> = steps.iter().cloned().chain([(1, Step::Meta(missed))]).collect();
    let cases = [
        ("sound", vec![(sound.clone(), 1)], true),
        ("two threads", vec![(sound.clone(), 1), (text(&raw_file(2, &steps)), 2)], true),
        ("one thread twice at one time", vec![(sound.clone(), 1), (text(&sound), 1)], false),
        ("modules that came and went", vec![(sound.clone(), 1), (raw_file(2, &changed), 2)], false),
        ("damaged", vec![(damaged, 1)], false),
        ("backward", vec![(backward, 1)], false),
        ("torn", vec![(torn, 1)], false),
        ("garbage", vec![(garbage, 1)], false),
    ];
    for (what, contents, is_sound) in cases {
        let files = write(directory.path(), contents);
        assert_eq!(is_counted(&files), is_sound, "{what}");
        let counted = delivered(&files, 0, &|| format(0));
        let merged = delivered(&files, 0, &|| Box::new(ByMerge(format(0))));
        // The merge of these files knows from the beginning the modules that the first attempt has found.
        if what != "modules that came and went" {
            assert_eq!(counted, merged, "{what}");
        }
        assert_eq!((counted.1, counted.2), (merged.1, merged.2), "{what}");
    }
}
