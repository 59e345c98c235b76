//! What the tracer has to say to a person: on stderr, in one line, never fatal.

use crate::sys;
use std::fmt;

/// Says something on stderr. A stderr that is closed, or full with nobody reading, is no
/// error: a tracer never takes its host down.
pub(crate) fn say(message: fmt::Arguments<'_>) {
    // One write, so that lines of several threads do not mix.
    let line = format!("tracer: {message}\n");
    sys::write_stderr(line.as_bytes());
}
