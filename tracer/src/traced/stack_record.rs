//! The record of a call stack.
//!
//! Runs on traced threads.

use trace_format::line::Ticks;
use trace_format::record::{Flags, stack_word};

use super::record;
use crate::ring::clock;
use crate::stack::{End, Registers, walk};

/// The greatest number of frames that are recorded of a stack: so many fit into a block of the smallest ring.
const MAX_FRAMES: usize = 120;

/// Records the call stack of the function that `from` belongs to. It is called where tracing is not off.
#[inline(never)]
pub(crate) fn record_stack(from: Registers) {
    record_stack_at(clock::now(), from);
}

/// Records the call stack of the function that `from` belongs to, behind the message that the thread has just
/// recorded.
#[inline(never)]
pub fn record_stack_of_message(from: Registers) {
    record_stack_at(record::last_ticks().unwrap_or_else(clock::now), from);
}

fn record_stack_at(ticks: Ticks, from: Registers) {
    let mut frames = [0; MAX_FRAMES];
    let walked = walk(from, &mut frames, 0);
    let flags = if walked.end == End::Complete { Flags::WHOLE } else { Flags::NONE };
    let frames = frames.get(..walked.len).unwrap_or_default();
    record::words(ticks, stack_word(flags, size_of_val(frames)), frames);
}
