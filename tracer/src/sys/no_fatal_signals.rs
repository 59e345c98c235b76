//! Signals that end the process, on systems on which they are not caught.

use std::fmt;

/// A signal that was caught: on these systems there is none.
#[derive(Debug)]
pub(crate) struct FatalSignal {
    /// The name of the signal, `SIGSEGV`.
    pub name: &'static str,
    /// The program counter, the stack pointer, the frame pointer and the link register of the interrupted function.
    pub registers: [usize; 4],
}

impl fmt::Display for FatalSignal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// The tracer's functions that a signal handler calls, on systems that have one.
#[derive(Debug)]
#[expect(dead_code, reason = "no handler exists here")]
pub(crate) struct SignalCallbacks {
    /// The function that is called for each signal that is caught.
    pub caught: fn(&FatalSignal),
    /// The function that is called after `caught`, if the signal certainly ends the process.
    pub ends: fn(&FatalSignal),
}

/// Does nothing: signals are not caught on this system.
pub(crate) fn catch_fatal_signals(_: &'static SignalCallbacks) {}

/// Returns false: there is no spare stack.
pub(crate) fn is_on_spare_stack(_: usize) -> bool {
    false
}
