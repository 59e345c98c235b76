//! The names of the tracer's environment variables, which switch it on and configure it. `tracemerge` also reads
//! the variables that name directories.
//!
//! The documentation of the crate `tracer` describes the meaning and the values of each variable.

use std::ffi::OsString;

/// The variable that switches tracing on, unless the program has named another variable for that.
pub const ENABLE: &str = "TRACER_ENABLE";
/// The variable that names the directory of the trace files.
pub const DIR: &str = "TRACER_DIR";
/// The variable that names the directory of the rings.
pub const RUNTIME_DIR: &str = "TRACER_RUNTIME_DIR";
/// The variable that sets the number of bytes of each thread's ring.
pub const RING_SIZE: &str = "TRACER_RING_SIZE";
/// The variable that sets the policy for a thread whose ring is full.
pub const FULL: &str = "TRACER_FULL";
/// The variable that sets the longest time for which a thread waits for room: a duration, or a number of milliseconds.
pub const MAX_STALL: &str = "TRACER_MAX_STALL";
/// The variable that sets the number of bytes that each thread's file may have.
pub const MAX_BYTES: &str = "TRACER_MAX_BYTES";
/// The variable that sets the number of bytes that all files of a process may take together.
pub const MAX_TOTAL: &str = "TRACER_MAX_TOTAL";
/// The variable that sets the longest time for which a record waits for the flusher: a duration.
pub const FLUSH_INTERVAL: &str = "TRACER_FLUSH_INTERVAL";
/// The earlier name of [`FLUSH_INTERVAL`], whose value is a number of milliseconds.
pub const FLUSH_MS: &str = "TRACER_FLUSH_MS";
/// The variable that selects the clock from which ticks are read.
pub const CLOCK: &str = "TRACER_CLOCK";
/// The variable that selects the calls of `trace!` that are on.
pub const FILTER: &str = "TRACER_FILTER";
/// The variable that switches on the recording of the place from which a function is called.
pub const CALL_SITES: &str = "TRACER_CALL_SITES";
/// The variable that selects the functions whose calls hooks record.
pub const FUNCTIONS: &str = "TRACER_FUNCTIONS";
/// The variable that selects the functions whose first call makes hooks begin to record.
pub const TRIGGER: &str = "TRACER_TRIGGER";
/// The variable that sets the depth to which hooks record calls.
pub const MAX_DEPTH: &str = "TRACER_MAX_DEPTH";
/// The variable that sets the least duration of a call that hooks record.
pub const MIN_DURATION: &str = "TRACER_MIN_DURATION";
/// The variable that switches on the recording of when and why threads leave a processor. `tracemerge run` obeys it.
pub const SCHED: &str = "TRACER_SCHED";
/// The variable that selects the encoding of the trace files.
pub const FORMAT: &str = "TRACER_FORMAT";
/// The variable that selects the encoding of the trace files if neither the program nor [`FORMAT`] chooses one.
/// `tracemerge run` sets it.
pub const DEFAULT_FORMAT: &str = "TRACER_DEFAULT_FORMAT";
/// The variable with the value that `LD_PRELOAD` had, perhaps none, before `tracemerge run` added the library. The
/// library restores `LD_PRELOAD`, and removes this variable, as soon as it is loaded.
pub const PRELOADED: &str = "TRACER_PRELOADED";
/// The variable that decides whether the flusher has descriptors of its own.
pub const DESCRIPTORS: &str = "TRACER_DESCRIPTORS";

/// The variable that names the directory of the user's local application data; Windows sets it.
#[cfg(windows)]
pub(crate) const LOCAL_DATA: &str = "LOCALAPPDATA";

/// Returns the value of a variable, or `None` if it is not set or empty.
#[must_use]
pub fn value(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}
