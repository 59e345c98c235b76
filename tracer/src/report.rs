//! What the tracer has to say to a person: on stderr, in one line, never fatal.

use std::fmt;
use std::io::Write;

/// Says something on stderr. A closed stderr is no error: a tracer never takes its host down.
pub(crate) fn say(message: fmt::Arguments<'_>) {
    // One write, so that lines of several threads do not mix.
    let line = format!("tracer: {message}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}
