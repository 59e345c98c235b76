//! This process: whether it traces, and its run if it does.
//!
//! The functions run on any thread. The hot path only loads [`STATE`].

use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use super::run::Run;
use crate::sys;
use crate::words::switch::{SwitchWord, TracingState};

/// The decision whether this process traces; its states are described at [`SwitchWord`].
#[cfg(not(loom))]
pub(crate) static STATE: SwitchWord = SwitchWord::new();
#[cfg(loom)]
pub(crate) static STATE: std::sync::LazyLock<SwitchWord> = std::sync::LazyLock::new(SwitchWord::new);

/// A count that grows when a decision ends; threads that wait for the end of a decision sleep on this word.
pub(crate) static SETTLED: AtomicU32 = AtomicU32::new(0);

/// The current run. Never freed, so a reference to it is good for ever.
static RUN: AtomicPtr<Run> = AtomicPtr::new(std::ptr::null_mut());

/// Returns whether a call of the tracer may return at once, because nothing is recorded. This is one relaxed load.
#[inline(always)]
pub(crate) fn is_off() -> bool {
    STATE.is_off()
}

/// Returns the state of tracing in this process: on, off, paused, or not decided yet.
pub(crate) fn stand() -> TracingState {
    STATE.see().stand(sys::process_id)
}

/// A count that grows when the process stops recording. A thread that sees a new count empties its list of function
/// calls in progress.
static ERA: AtomicU32 = AtomicU32::new(0);

/// Begins an era in which the process records nothing, for a while or for good: threads empty their lists of function
/// calls in progress.
pub(crate) fn begin_era() {
    ERA.fetch_add(1, Ordering::Relaxed);
}

/// Returns the number of the current era, which changes when the process stops recording. Relaxed: a thread that sees
/// the change late may combine records from before and after the change.
#[inline(always)]
pub(crate) fn era() -> u32 {
    ERA.load(Ordering::Relaxed)
}

/// Returns the run of this process, if there is one and it has not ended.
pub(crate) fn running() -> Option<&'static Run> {
    current().filter(|run| run.is_of_this_process() && !run.is_closed())
}

/// Returns the run, ended or not, of this process or of the process that it was forked from.
pub(crate) fn current() -> Option<&'static Run> {
    let run = RUN.load(Ordering::Acquire);
    // The pointer is null or was leaked by `start`, and is never freed.
    #[allow(unsafe_code, reason = "a leaked box, never freed")]
    // SAFETY: null, or a leaked box that is never freed and only ever used by shared reference.
    unsafe {
        run.as_ref()
    }
}

/// Makes `run`, which is leaked, the process's current run. Release: a thread that sees the pointer sees the run.
pub(crate) fn set_current(run: &'static Run) {
    RUN.store(std::ptr::from_ref(run).cast_mut(), Ordering::Release);
}

/// Wakes the threads that wait for a decision that has ended.
pub(crate) fn announce() {
    // Release: the word was changed before, so a thread that sees this count grown sees that change.
    SETTLED.fetch_add(1, Ordering::Release);
    sys::wake_word(&SETTLED, i32::MAX);
}
