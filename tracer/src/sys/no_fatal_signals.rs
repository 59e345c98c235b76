//! Signals that end the process, where they are not caught.

use std::fmt;

/// A signal that was caught: there is none here.
#[derive(Debug)]
pub(crate) struct FatalSignal {
    /// The name of the signal, `SIGSEGV`.
    pub name: &'static str,
    /// The program counter, the stack pointer, the frame pointer and the link register of what was interrupted.
    pub registers: [usize; 4],
}

impl fmt::Display for FatalSignal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// The functions that are told of signals.
#[derive(Debug)]
#[expect(dead_code, reason = "nobody is told here")]
pub(crate) struct Told {
    /// Is told of each signal that is caught.
    pub caught: fn(&FatalSignal),
    /// Is told of the signal behind that, if it ends the process for certain.
    pub ends: fn(&FatalSignal),
}

/// Does nothing.
pub(crate) fn catch_fatal_signals(_: &'static Told) {}

/// Returns false: there is no spare stack.
pub(crate) fn is_on_spare_stack(_: usize) -> bool {
    false
}
