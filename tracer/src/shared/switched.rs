//! Listeners that are called when tracing was switched on or off at run time.
//!
//! The listeners run on the thread that has switched tracing, after the decision: a listener may trace, and may switch
//! tracing again. If another process has requested the switch, the thread is the flusher.

use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::process;
use crate::words::switch::TracingState;

/// The functions that are called when tracing is switched.
static LISTENERS: Mutex<Vec<fn(bool)>> = Mutex::new(Vec::new());
/// The number of switches that were not reported yet. The thread that raises the number from 0 calls the listeners
/// until the number is 0 again.
static WAITING: AtomicUsize = AtomicUsize::new(0);

/// Calls `switch_listener` now, and whenever tracing is switched afterwards; the argument of the call says whether the
/// process traces.
pub fn on_switch(switch_listener: fn(bool)) {
    LISTENERS.lock().push(switch_listener);
    switch_listener(is_on());
}

/// Calls the listeners with the current state.
pub(crate) fn call_listeners() {
    if LISTENERS.lock().is_empty() || WAITING.fetch_add(1, Ordering::AcqRel) != 0 {
        return;
    }
    loop {
        let reported_switches = WAITING.load(Ordering::Acquire);
        let on = is_on();
        // No listener runs under the lock.
        let listeners = LISTENERS.lock().clone();
        listeners.iter().for_each(|switch_listener| switch_listener(on));
        if WAITING.compare_exchange(reported_switches, 0, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            return;
        }
    }
}

fn is_on() -> bool {
    process::stand() == TracingState::On
}
