//! The environment variables of the tracer, by name: those that switch it on and set it up, which
//! `tracemerge` reads too where it has to look in the same places.
//!
//! The documentation of the crate `tracer` says what each means and what is taken for it.

use std::ffi::OsString;

/// Switches tracing on, unless the program has named another variable for that.
pub const ENABLE: &str = "TRACER_ENABLE";
/// The directory of the trace files.
pub const DIR: &str = "TRACER_DIR";
/// The directory of the rings.
pub const RUNTIME_DIR: &str = "TRACER_RUNTIME_DIR";
/// The number of bytes of each thread's ring.
pub const RING_SIZE: &str = "TRACER_RING_SIZE";
/// What a thread does whose ring is full.
pub const FULL: &str = "TRACER_FULL";
/// The longest time that a thread waits for room: a duration, or a number of milliseconds.
pub const MAX_STALL: &str = "TRACER_MAX_STALL";
/// The number of bytes that each thread's file may have.
pub const MAX_BYTES: &str = "TRACER_MAX_BYTES";
/// How much all files of a process may take together.
pub const MAX_TOTAL: &str = "TRACER_MAX_TOTAL";
/// The longest time that a record waits for the flusher: a duration.
pub const FLUSH_INTERVAL: &str = "TRACER_FLUSH_INTERVAL";
/// The earlier name of [`FLUSH_INTERVAL`]: a number of milliseconds.
pub const FLUSH_MS: &str = "TRACER_FLUSH_MS";
/// The clock that ticks are read from.
pub const CLOCK: &str = "TRACER_CLOCK";
/// The calls of `trace!` that are on.
pub const FILTER: &str = "TRACER_FILTER";
/// Whether the entering of a function records where it was called from.
pub const CALL_SITES: &str = "TRACER_CALL_SITES";
/// The functions whose calls hooks record.
pub const FUNCTIONS: &str = "TRACER_FUNCTIONS";
/// The functions with whose first call hooks begin to record.
pub const TRIGGER: &str = "TRACER_TRIGGER";
/// The depth to which hooks record calls.
pub const MAX_DEPTH: &str = "TRACER_MAX_DEPTH";
/// The duration from which on hooks record a call.
pub const MIN_DURATION: &str = "TRACER_MIN_DURATION";
/// The encoding of the trace files.
pub const FORMAT: &str = "TRACER_FORMAT";
/// The library that `tracemerge run` has put at the beginning of `LD_PRELOAD`. The library takes both back as soon as it is
/// loaded.
pub const PRELOADED: &str = "TRACER_PRELOADED";
/// Whether the flusher has descriptors of its own.
pub const DESCRIPTORS: &str = "TRACER_DESCRIPTORS";

/// The directory of what programs keep for the user on this machine; set by Windows.
#[cfg(windows)]
pub(crate) const LOCAL_DATA: &str = "LOCALAPPDATA";

/// Returns the value of a variable, or `None` where it is not set or empty.
#[must_use]
pub fn value(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}
