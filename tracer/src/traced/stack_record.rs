//! The record of a call stack. Traced threads make it.

use trace_format::line::Ticks;
use trace_format::record::{Flags, stack_word};

use super::record;
use crate::ring::{call_site_record, clock};
use crate::stack::{End, Registers, Walk, walk, walk_interrupted};

/// The greatest number of frames of a stack that are recorded: so many fit into one block of the smallest ring.
const MAX_FRAMES: usize = 120;

/// Records the call stack of the function in which the registers `from` were read. Only called if tracing is not off.
#[inline(never)]
pub(crate) fn record_stack(from: Registers) {
    record_stack_at(clock::now(), from);
}

/// Records the call stack of the function in which the registers `from` were read. The stack belongs to the message
/// that the thread has just recorded.
#[inline(never)]
pub fn record_stack_of_message(from: Registers) {
    record_stack_at(ticks_of_message(), from);
}

/// Records the call stack of a panic. Called after the panic's message was recorded. The innermost frame, in which
/// `from` was read, is the tracer's own and is left out.
pub(super) fn record_stack_of_panic(from: Registers) {
    record_frames(ticks_of_message(), |frames| walk(from, frames, 1));
}

/// Records the call stack of the code that a signal has interrupted. Called after the message about the signal was
/// recorded.
pub(super) fn record_interrupted_stack(from: Registers) {
    record_frames(ticks_of_message(), |frames| walk_interrupted(from, frames));
}

/// The number of frames of a call site: the function that was entered, and its caller.
const CALL_SITE: usize = 2;

/// Records the call site of the function that has just been entered at `ticks`. The record is an incomplete call stack
/// of two frames: an address in the entered function, and the address of its call. The caller must be the function of
/// the tracer that the entered function calls to record its entry, and must not be inlined. Nothing is recorded if the
/// walk of the stack does not reach the second frame.
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
