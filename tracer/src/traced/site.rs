//! A call of [`trace!`](crate::trace): whether it is on, and how its arguments get into a record.
//!
//! The functions run on traced threads; [`Site::word`] and [`Site::record`] are hot.

use std::fmt;
use std::sync::atomic::{Ordering, fence};

use trace_format::line::Ticks;
use trace_store::counter;

use super::{decision, record};
use crate::ring::{Arguments, clock};
use crate::shared::process;
use crate::shared::sites::{Captured, FORMATTED, KINDS, NEW, OFF, Site};
use crate::words::exclusion;

/// Does the work of [`Site::record`] for arguments that can be copied. All calls of `trace!` with arguments of the same
/// types share this code: inlined, it would be half of the code of a call of `trace!`; calling it costs one cycle.
#[inline(never)]
fn record_now<A: Arguments>(word: u64, arguments: &A) -> bool {
    let ticks = match (word >> 32) as u32 ^ (A::SIGNATURE & !KINDS) {
        clock::ORDERED => counter::ordered(),
        clock::FAST => counter::fast(),
        clock::SYSTEM => counter::system(),
        _ => return false,
    };
    record::capture(Ticks(ticks), word as u32, arguments)
}

impl Site {
    /// Returns the site's state, for [`is_on`](Site::is_on) and [`record`](Site::record). This is one relaxed load.
    #[inline(always)]
    #[must_use]
    pub fn word(&self) -> u64 {
        self.word.load(Ordering::Relaxed)
    }

    /// Returns whether the site is on, so that its arguments have to be recorded. `word` is the result of
    /// [`word`](Site::word).
    #[inline(always)]
    #[must_use]
    pub fn is_on(&'static self, word: u64) -> bool {
        word > NEW || (word == NEW && self.first_use())
    }

    /// Copies the arguments into a record. Returns false if that is impossible: then the caller must call
    /// [`format`](Site::format).
    #[inline(always)]
    #[must_use]
    pub fn record<A: Arguments>(&self, word: u64, arguments: &A) -> bool {
        A::CAPTURED && record_now(word, arguments)
    }

    /// Does the same as [`record`](Site::record), for values that belong to another record, such as the arguments of a
    /// function's entry: they are recorded with the `ticks` of that other record.
    #[inline(always)]
    #[must_use]
    pub fn record_at<A: Arguments>(&self, ticks: Ticks, word: u64, arguments: &A) -> bool {
        let kind = (word >> 32) as u32 ^ (A::SIGNATURE & !KINDS);
        let is_numbered = matches!(kind, clock::ORDERED | clock::FAST | clock::SYSTEM);
        A::CAPTURED && is_numbered && record::capture(ticks, word as u32, arguments)
    }

    /// Does the same as [`format`](Site::format), for values that belong to another record, such as the arguments of a
    /// function's entry: they are recorded with the `ticks` of that other record.
    pub fn format_at<A: Arguments>(&'static self, ticks: Ticks, _: &A, message: fmt::Arguments<'_>) {
        self.request_entry(
            A::CAPTURED.then_some(Captured { signature: A::SIGNATURE, describe: A::describe }),
        );
        record::trace_at(ticks, self.number(), message);
    }

    /// Formats the message at the call, as `Tracer::trace` does. Requests that the flusher puts the site into the table
    /// for readers; from then on the site's arguments are captured, if possible.
    #[inline(always)]
    pub fn format<A: Arguments>(&'static self, _: &A, message: fmt::Arguments<'_>) {
        // Only the message is passed on: the arguments themselves can stay in registers.
        if A::CAPTURED {
            self.format_once::<A>(message);
        } else if self.word() == FORMATTED {
            self.format_this_time(None, message);
        } else {
            record::trace(self.number(), message);
        }
    }

    /// Formats the message, and requests an entry with the types of these arguments in the table for readers.
    #[cold]
    #[inline(never)]
    fn format_once<A: Arguments>(&'static self, message: fmt::Arguments<'_>) {
        self.format_this_time(Some(Captured { signature: A::SIGNATURE, describe: A::describe }), message);
    }

    #[cold]
    #[inline(never)]
    fn format_this_time(&'static self, captured: Option<Captured>, message: fmt::Arguments<'_>) {
        self.request_entry(captured);
        record::trace(self.number(), message);
    }

    /// Decides whether the site is on, by the filter. Called when the site is used for the first time since tracing was
    /// switched on.
    #[cold]
    #[inline(never)]
    fn first_use(&'static self) -> bool {
        if exclusion::is_excluded() {
            // This call is inside of the tracer itself: the record is counted as lost.
            return true;
        }
        let decided = decision::is_on();
        if !decided && !process::is_off() {
            // The decision is impossible now, on too small a stack: the record is counted as lost.
            return true;
        }
        self.list();
        // A thread that switches tracing off changes the state, then walks the list: either it finds this site there,
        // or this code sees the state.
        fence(Ordering::SeqCst);
        let on = decided && !process::is_off() && self.is_allowed();
        let word = if on { FORMATTED } else { OFF };
        // Release: a thread that announces the site sees the decision that this thread has seen, and its run.
        let _ = self.word.compare_exchange(NEW, word, Ordering::Release, Ordering::Relaxed);
        on
    }
}
