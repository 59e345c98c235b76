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
/// The variable that sets what happens to a record if its thread's ring is full.
pub const FULL: &str = "TRACER_FULL";
/// The variable that sets the longest time for which a thread waits for room in its ring: a duration, or a number of
/// milliseconds.
pub const MAX_STALL: &str = "TRACER_MAX_STALL";
/// The variable that sets the greatest size of each thread's file, in bytes.
pub const MAX_BYTES: &str = "TRACER_MAX_BYTES";
/// The variable that sets the greatest total size of all files of a process, in bytes.
pub const MAX_TOTAL: &str = "TRACER_MAX_TOTAL";
/// The variable that sets the longest time until the flusher writes a record to its file: a duration.
pub const FLUSH_INTERVAL: &str = "TRACER_FLUSH_INTERVAL";
/// The earlier name of the variable [`FLUSH_INTERVAL`]. Its value is a number of milliseconds.
pub const FLUSH_MS: &str = "TRACER_FLUSH_MS";
/// The variable that selects the clock from which ticks are read.
pub const CLOCK: &str = "TRACER_CLOCK";
/// The variable that selects the calls of `trace!` that are on.
pub const FILTER: &str = "TRACER_FILTER";
/// The variable that switches on the recording of call sites: the places from which functions are called.
pub const CALL_SITES: &str = "TRACER_CALL_SITES";
/// The variable that selects the functions whose calls hooks record.
pub const FUNCTIONS: &str = "TRACER_FUNCTIONS";
/// The variable that selects the functions that start the recording: hooks begin to record when one of them is called
/// for the first time.
pub const TRIGGER: &str = "TRACER_TRIGGER";
/// The variable that sets the greatest nesting depth of calls that hooks record.
pub const MAX_DEPTH: &str = "TRACER_MAX_DEPTH";
/// The variable that sets the shortest duration of calls that hooks record.
pub const MIN_DURATION: &str = "TRACER_MIN_DURATION";
/// The variable that switches on the recording of when and why threads stop running on a processor. `tracemerge run`
/// does the recording.
pub const SCHED: &str = "TRACER_SCHED";
/// The variable that selects the format of the trace files: text or raw.
pub const FORMAT: &str = "TRACER_FORMAT";
/// The variable that selects the format of the trace files if neither the program nor [`FORMAT`] does. `tracemerge run`
/// sets it.
pub const DEFAULT_FORMAT: &str = "TRACER_DEFAULT_FORMAT";
/// The variable that keeps the former value of `LD_PRELOAD`, which may be empty: `tracemerge run` adds the tracer's
/// library to `LD_PRELOAD`. As soon as the library is loaded, it restores `LD_PRELOAD` and removes this variable.
pub const PRELOADED: &str = "TRACER_PRELOADED";
/// The variable that decides whether the flusher has file descriptors of its own or shares those of the host.
pub const DESCRIPTORS: &str = "TRACER_DESCRIPTORS";

/// The variable that names the directory of the user's local application data; Windows sets it.
#[cfg(windows)]
pub(crate) const LOCAL_DATA: &str = "LOCALAPPDATA";

/// Returns the value of the environment variable `name`; `None` if the variable is not set, or its value is empty.
#[must_use]
pub fn value(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}
