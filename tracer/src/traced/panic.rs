//! Handles a panic of the program: records the panic's message and call stack, notes whether the panic ends the
//! process, and lets the flusher write the flight recorders.
//!
//! The code runs on the panicking thread, before and after the program's own panic hook.

use std::fmt::{self, Write};
use std::panic::PanicHookInfo;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::record;
use super::stack_record::record_stack_of_panic;
use crate::copies;
use crate::copies::interface::{PANIC_BEGINS, PANIC_UNWINDS, PANIC_WAS_REPORTED};
use crate::shared::process;
use crate::shared::run::Run;
use crate::stack::Registers;
use crate::sys;
use crate::user::config::FullPolicy;

/// The longest time that a panicking thread waits for the snapshot of flight recorders. If the panic ends the process,
/// giving up loses nothing, because recovery finds the rings.
const MAX_WAIT: Duration = Duration::from_secs(2);

/// Puts the tracer's panic hook around the program's own, once. If the program sets another hook later, and that hook
/// does not call the former one, the tracer no longer sees panics.
pub(crate) fn arm() {
    // No `Once`: if a signal handler jumps out of this, the next caller has to do it, and must not wait. It is
    // harmless if two threads do it at once; that happens only after a decision was taken over.
    static ARMED: AtomicBool = AtomicBool::new(false);
    // A panicking thread must not touch the hook.
    if !ARMED.load(Ordering::Relaxed) && !std::thread::panicking() {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| on_panic(info, &before)));
        // Relaxed: only says that nothing is left to do.
        ARMED.store(true, Ordering::Relaxed);
    }
}

/// Records the panic, counts it as deadly (it may end the process), and calls `before`, the program's own hook. If the
/// panic is going to unwind the stack, it no longer counts as deadly after that.
#[inline(never)]
fn on_panic(info: &PanicHookInfo<'_>, before: &dyn Fn(&PanicHookInfo<'_>)) {
    let owner = copies::joined();
    let is_on = process::running().is_some() || owner.is_some() && !process::is_off();
    // A panic inside of a record ends there, and that record is counted as lost.
    if is_on && !record::is_inside() {
        record_panic(info, Registers::here());
    }
    let pass_moment = |moment, of_own_run: fn()| match owner {
        Some(owner) => owner.panic(moment),
        None => of_own_run(),
    };
    if is_on {
        pass_moment(PANIC_BEGINS, begins);
    }
    before(info);
    pass_moment(PANIC_WAS_REPORTED, take_panic_snapshot);
    if is_on && can_unwind(info) {
        pass_moment(PANIC_UNWINDS, unwinds);
    }
}

/// Counts a panic of the calling thread as deadly: it may end the process.
pub(super) fn begins() {
    if let Some(run) = process::running() {
        run.panics().begin(sys::thread_id());
    }
}

/// Requests that the flusher writes the contents of the flight recorders, and waits for that. Called after the
/// program's own panic hook has reported a panic. The current run is looked up only now, because that hook may have
/// begun a run.
pub(super) fn take_panic_snapshot() {
    if let Some(run) = process::running().filter(|run| run.config.full_policy == FullPolicy::Overwrite) {
        take_snapshot(run);
    }
}

/// Stops counting a panic of the calling thread as deadly, because the panic goes on by unwinding the thread's stack.
pub(super) fn unwinds() {
    if let Some(run) = process::running() {
        run.panics().note_unwinding();
    }
}

/// Records the panic's message, its position in the source, and the call stack of the function in which the registers
/// `from` were read.
fn record_panic(info: &PanicHookInfo<'_>, from: Registers) {
    let text = info.payload();
    let text = text.downcast_ref::<&str>().copied().or_else(|| Some(text.downcast_ref::<String>()?.as_str()));
    let text = text.unwrap_or("(a value that is no text)");
    match info.location() {
        Some(place) => record::trace(0, format_args!("panicked at {place}: {text}")),
        None => record::trace(0, format_args!("panicked: {text}")),
    }
    record_stack_of_panic(from);
}

/// Returns whether the panic unwinds the thread's stack after its hooks, so that it may be caught. If not, the
/// process is aborted.
///
/// The standard library shows this only in the debug output of `info`: there is no stable function for it. If the form
/// of that output changes, every panic is taken for one that unwinds.
fn can_unwind(info: &PanicHookInfo<'_>) -> bool {
    let mut printed = Find { text: b"can_unwind: false", found: 0 };
    // Formatting should not fail; if it does all the same, the answer is that the panic unwinds.
    let _ = write!(printed, "{info:?}");
    cfg!(panic = "unwind") && printed.found < printed.text.len()
}

/// A search for a text in the output of a formatter. It does not allocate memory for the output, because the panic may
/// come from the allocator. The first byte of the searched text must not occur in it again.
struct Find {
    text: &'static [u8],
    /// The length of the longest beginning of `text` with which the output so far ends; the length of `text` once it
    /// was found.
    found: usize,
}

impl Write for Find {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        for byte in part.bytes() {
            match self.text.get(self.found) {
                None => break,
                Some(next) if *next == byte => self.found += 1,
                Some(_) => self.found = usize::from(self.text.first() == Some(&byte)),
            }
        }
        Ok(())
    }
}

/// Requests that the flusher writes the contents of the run's flight recorders, and waits for that, at most
/// [`MAX_WAIT`].
fn take_snapshot(run: &Run) {
    run.panic_request.ask(&run.wake, MAX_WAIT);
}
