//! Handles a signal that ends the process: records the signal's name and the call stack of its thread, and notes the
//! signal in the run's life file.
//!
//! The records are made in a signal handler, which no other signal interrupts.

use super::stack_record::record_interrupted_stack;
use super::{decision, record};
use crate::copies;
use crate::shared::process;
use crate::stack::Registers;
use crate::sys::{self, FatalSignal, SignalCallbacks};

/// If the process traces, catches the signals that end the process from now on.
pub(crate) fn catch_and_flush() {
    if decision::is_on() {
        match copies::joined() {
            Some(owner) => owner.catch_signals(),
            None => catch(),
        }
        // So that the modules with the addresses are known if the program fails at once. An error changes nothing.
        let _ = decision::flush();
    }
}

fn catch() {
    static SIGNAL_CALLBACKS: SignalCallbacks = SignalCallbacks { caught: on_signal, ends: note };
    sys::catch_fatal_signals(&SIGNAL_CALLBACKS);
}

fn on_signal(signal: &FatalSignal) {
    // No run is begun here, and a forked child has none before its first record.
    if process::running().is_none() {
        return;
    }
    record::trace(0, format_args!("{signal}"));
    record_interrupted_stack(Registers::interrupted(signal.registers));
}

fn note(signal: &FatalSignal) {
    if let Some(run) = process::running() {
        run.note_signal(signal.name);
    }
}
