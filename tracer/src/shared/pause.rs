//! Pauses and resumes tracing, as another process requests through the run's life file.
//!
//! The code runs on the flusher thread. While tracing is paused, the word of [`process`] and the words of sites make
//! traced threads act as if tracing were off.

use std::sync::atomic::{AtomicBool, Ordering};

use super::process::{self, STATE};
use super::{sites, switched};
use crate::words::switch::TracingState;

/// Whether the run of the process is paused. The value stays valid while the program decides again whether it traces.
/// Relaxed: the flag orders no other memory, because the decision has a word of its own.
static PAUSED: AtomicBool = AtomicBool::new(false);

/// Stores whether the run that begins is paused.
pub(crate) fn begin(paused: bool) {
    PAUSED.store(paused, Ordering::Relaxed);
}

/// Returns whether the run is paused, even if a new decision is in progress.
pub(crate) fn was_paused() -> bool {
    PAUSED.load(Ordering::Relaxed)
}

/// Returns whether the process records nothing now; `None` while that is being decided.
pub(crate) fn is_paused() -> Option<bool> {
    match process::stand() {
        TracingState::On => Some(false),
        TracingState::Paused | TracingState::Off => Some(true),
        TracingState::Undecided | TracingState::Deciding | TracingState::Settling => None,
    }
}

/// Pauses tracing in this process. Returns false if the process does not trace.
pub(crate) fn pause() -> bool {
    let paused = STATE.pause();
    if paused {
        begin(true);
        process::begin_era();
        sites::end();
        switched::call_listeners();
    }
    paused
}

/// Resumes tracing in this process. Returns false if tracing was not paused.
pub(crate) fn go_on() -> bool {
    let goes_on = STATE.go_on();
    if goes_on {
        begin(false);
        sites::go_on();
        switched::call_listeners();
    }
    goes_on
}
