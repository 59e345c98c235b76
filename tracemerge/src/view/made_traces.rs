//! Traces for tests: each test describes a thread by its steps, and gets a trace with their records, or the output of a
//! merge of it.
#![allow(clippy::unwrap_used, reason = "a failure in a test fails it")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use trace_format::kinds::SeparateCounts;
use trace_format::line::Ticks;
use trace_format::meta::{Cause, ClockKind, End, EndReason, LossReason, Meta, Waited};
use trace_format::record::{
    Flags, RecordKind, enter_word, hook_enter_word, hook_leave_word, leave_word, message_word, stack_word,
};
use trace_format::wall::Wall;

use crate::file::raw_file::lines_of;
use crate::input::inputs::{Inputs, Origin};
use crate::input::source::Source;
use crate::output::target::Target;
use crate::symbols::Settings;
use crate::time::anchor::Anchor;
use crate::time::clocks::TickClock;
use crate::ui::console::Content;
use crate::ui::messages::Messages;
use crate::view::delivery::Delivery;
use crate::view::export::Export;
use crate::view::function_names::{FunctionNames, SharedNames};
use crate::view::layout::Needs;
use crate::view::plan::Plan;
use crate::view::request::View;

/// A step of a thread: the record that it makes.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Enter(u64, bool),
    Leave(u64, bool),
    /// A call stack with this number of frames.
    Stack(u64),
    Message(usize),
    Meta(Meta),
}

fn step() -> impl Strategy<Value = Step> {
    let end = |reason| {
        let (cause, apart) = (Cause::default(), SeparateCounts::default());
        Meta::End(End {
            records: 1,
            lost: 0,
            reason,
            files: None,
            cause,
            seen: None,
            apart,
            waited: Waited::default(),
        })
    };
    let meta = prop_oneof![
        Just(Meta::Lost { records: 3, reason: LossReason::Full }),
        Just(Meta::Switched { on: false, ticks: Ticks(0) }),
        Just(end(EndReason::Thread)),
        Just(end(EndReason::Killed)),
    ];
    prop_oneof![
        30 => (1..6u64, any::<bool>()).prop_map(|(function, hook)| Step::Enter(0x1000 * function, hook)),
        30 => (0..6u64, any::<bool>()).prop_map(|(function, hook)| Step::Leave(0x1000 * function, hook)),
        20 => Just(Step::Leave(0, true)),
        5 => (0..4u64).prop_map(Step::Stack),
        3 => prop_oneof![0..40usize, Just(50_000)].prop_map(Step::Message),
        1 => meta.prop_map(Step::Meta),
    ]
}

/// Returns a strategy for random steps of a thread, each with the ticks that pass before it.
pub(crate) fn steps() -> impl Strategy<Value = Vec<(u64, Step)>> {
    let passed = prop_oneof![2 => Just(0), 5 => 0..30u64];
    prop::collection::vec((passed, step()), 1..400)
}

/// Returns a raw file of a thread that has taken these steps, with the ticks that have passed before each
/// step.
pub(crate) fn raw_file(tid: u64, steps: &[(u64, Step)]) -> Vec<u8> {
    const BLOCK: usize = 256 << 10;
    let (mut bytes, mut ticks) = (Vec::new(), 10);
    for (passed, step) in steps {
        ticks += passed;
        let (word, payload) = match step {
            Step::Enter(address, true) => (hook_enter_word(*address), Vec::new()),
            Step::Enter(address, false) => (enter_word(*address), Vec::new()),
            Step::Leave(address, true) => (hook_leave_word(*address), Vec::new()),
            Step::Leave(address, false) => (leave_word(*address, address % 3 == 0), Vec::new()),
            Step::Stack(frames) => {
                let payload: Vec<u8> =
                    (1..=*frames).flat_map(|frame| (0x1000 * frame + 8).to_le_bytes()).collect();
                (stack_word(Flags::NONE, payload.len()), payload)
            }
            Step::Message(length) => (message_word(0, Flags::NONE, *length), vec![b'\n'; *length]),
            Step::Meta(meta) => {
                let mut payload = Vec::new();
                match meta {
                    Meta::Switched { on, .. } => {
                        Meta::Switched { on: *on, ticks: Ticks(ticks) }.write(&mut payload)
                    }
                    meta => meta.write(&mut payload),
                }
                (RecordKind::Meta as u64 | (payload.len() as u64) << 16, payload)
            }
        };
        let length = 16 + payload.len().next_multiple_of(8);
        if bytes.len() % BLOCK != 0 && bytes.len() % BLOCK + length > BLOCK {
            bytes.extend_from_slice(&1u64.to_le_bytes());
            bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
        }
        if bytes.len() % BLOCK == 0 {
            bytes.extend_from_slice(b"TRCRAW1\n");
            bytes.extend_from_slice(&tid.to_le_bytes());
        }
        bytes.extend_from_slice(&word.to_le_bytes());
        bytes.extend_from_slice(&ticks.to_le_bytes());
        bytes.extend_from_slice(&payload);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
    }
    bytes
}

/// Returns the text form of a raw file.
pub(crate) fn text(raw: &[u8]) -> Vec<u8> {
    lines_of(raw, 0..raw.len(), Path::new("raw"))
}

/// Returns `files` as inputs of a merge. Each file comes with the id of its thread.
pub(crate) fn inputs(files: &[(PathBuf, u64)]) -> Inputs {
    let anchors = [(0, 1_000), (200, 1_700), (5_000, 30_000)];
    let anchors = anchors.map(|(ticks, wall)| Anchor::new(Ticks(ticks), Wall(wall)));
    let clock = Arc::new(TickClock::of(ClockKind::Ordered, anchors));
    let origin = |tid: u64| Origin {
        run: None,
        tid,
        name: Vec::new(),
        clock: clock.clone(),
        is_shown: true,
        is_log: false,
        has_sites: false,
        waited: None,
        foreign: None,
    };
    let sources = files.iter().map(|(path, _)| Source::of_trace_file(path.clone()).unwrap()).collect();
    Inputs {
        boots: vec![sources],
        origins: files.iter().map(|(_, tid)| origin(*tid)).collect(),
        ends: vec![(0, u64::MAX)],
        references: vec![None; files.len()],
    }
}

/// Returns an empty table of names of functions.
pub(crate) fn names() -> SharedNames {
    Arc::new(Mutex::new(FunctionNames::new(Settings::default())))
}

/// Merges `files` into this format, without calls that took less than `least` nanoseconds. Returns the output, the
/// number of its lines, and the status of the messages to the user.
pub(crate) fn delivered(
    files: &[(PathBuf, u64)],
    least: u64,
    format: &dyn Fn() -> Box<dyn Export>,
) -> (String, u64, String) {
    let mut inputs = inputs(files);
    let (view, mut messages) = (View::default(), Messages::new(true));
    let mut plan = Plan::new(&mut inputs, &view, Needs::default(), &mut messages).unwrap();
    inputs.leave_out_shorter_calls(least);
    let out = files[0].0.with_file_name("out");
    let target = Target::new(Some(out.as_os_str()), &out, &[], &std::collections::HashSet::new()).unwrap();
    let selection = &view.selection;
    let delivery = Delivery {
        inputs: &mut inputs,
        plan: &mut plan,
        selection,
        format,
        target: &target,
        content: Content::Data,
        paged: false,
    };
    let lines = delivery.write(&mut messages).unwrap().unwrap();
    (fs::read_to_string(out).unwrap(), lines, format!("{:?}", messages.status()))
}

/// Writes files with these contents into a directory. Returns each path with the id of its thread.
pub(crate) fn write(directory: &Path, contents: Vec<(Vec<u8>, u64)>) -> Vec<(PathBuf, u64)> {
    let write = |(number, (bytes, tid)): (usize, (Vec<u8>, u64))| {
        let path = directory.join(number.to_string());
        fs::write(&path, bytes).unwrap();
        (path, tid)
    };
    contents.into_iter().enumerate().map(write).collect()
}
