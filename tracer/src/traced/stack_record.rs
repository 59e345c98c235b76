//! The record of a call stack. Traced threads make it.

use trace_format::line::Ticks;
use trace_format::record::{Flags, stack_word};

use super::record;
use crate::ring::{call_site_record, clock};
use crate::stack::{End, Registers, Walk, walk, walk_interrupted};

/// The greatest number of frames of a stack that are recorded. A record with so many frames fits into a block of the
/// smallest ring.
const MAX_FRAMES: usize = 120;

/// Records the call stack of the function that `from` belongs to. Only called if tracing is not off.
#[inline(never)]
pub(crate) fn record_stack(from: Registers) {
    record_stack_at(clock::now(), from);
}

/// Records the call stack of the function that `from` belongs to, after the message that the thread has just
/// recorded.
#[inline(never)]
pub fn record_stack_of_message(from: Registers) {
    record_stack_at(ticks_of_message(), from);
}

/// Records the call stack of a panic after its message. The first frame of `from` is the tracer's own.
pub(super) fn record_stack_of_panic(from: Registers) {
    record_frames(ticks_of_message(), |frames| walk(from, frames, 1));
}

/// Records the call stack that a signal has interrupted, after the message about it.
pub(super) fn record_interrupted_stack(from: Registers) {
    record_frames(ticks_of_message(), |frames| walk_interrupted(from, frames));
}

/// The number of frames of a call site: the function that was entered, and its caller.
const CALL_SITE: usize = 2;

/// Records the call site of the function that has just been entered at `ticks`. The record is an incomplete call stack
/// of two frames: an address in the entered function, and the address of its call. This must be called by the tracer's
/// function that the entered function has called to record its entry, and that function must not be inlined. Nothing is
/// recorded if the walk of the stack does not reach the second frame.
#[cold]
#[inline(never)]
pub(super) fn record_call_site(ticks: Ticks) {
    /// The number of frames that are left out: the frame of this function, and the frame of its caller.
    const OWN: usize = 2;
    let mut frames = [0; CALL_SITE];
    // A walk that finds no table for its own frame would take any frame for the caller's; therefore readers compare
    // the first one with the function that was entered.
    if walk(Registers::here(), &mut frames, OWN).len == CALL_SITE {
        write_call_site(ticks, frames);
    }
}

/// Records the call site of a function that a hook has just entered at `ticks`: the function contains `address`, and
/// will return to `call_site`.
#[cold]
#[inline(never)]
pub(super) fn record_call_site_of_hook(ticks: Ticks, address: u64, call_site: u64) {
    let (word, frames) = call_site_record(address, call_site);
    record::words(ticks_of_call_site(ticks), word, &frames);
}

fn write_call_site(ticks: Ticks, frames: [u64; CALL_SITE]) {
    record::words(ticks_of_call_site(ticks), stack_word(Flags::NONE, size_of_val(&frames)), &frames);
}

/// Returns the ticks for the record of a call site: `ticks`, or the ticks of the thread's last record (the function's
/// entry) if these are later, as they may be if the entry was the thread's first record.
fn ticks_of_call_site(ticks: Ticks) -> Ticks {
    record::last_ticks().map_or(ticks, |last| last.max(ticks))
}

fn record_stack_at(ticks: Ticks, from: Registers) {
    record_frames(ticks, |frames| walk(from, frames, 0));
}

fn ticks_of_message() -> Ticks {
    record::last_ticks().unwrap_or_else(clock::now)
}

#[inline(always)]
fn record_frames(ticks: Ticks, walk: impl FnOnce(&mut [u64]) -> Walk) {
    let mut frames = [0; MAX_FRAMES];
    let walked = walk(&mut frames);
    let flags = if walked.end == End::Complete { Flags::WHOLE } else { Flags::NONE };
    let frames = frames.get(..walked.len).unwrap_or_default();
    record::words(ticks, stack_word(flags, size_of_val(frames)), frames);
}
