//! The tracer for C and C++: the functions that `tracer.h` declares, and the hooks that compilers call.
//!
//! The documentation for users is in `include/tracer.h`. No function here unwinds into C.
#![allow(unsafe_code, reason = "the interface to C; each use argued")]

#[cfg(all(feature = "futex", naked_functions, target_os = "linux", target_arch = "x86_64"))]
mod futex;
mod hooks;
#[cfg(target_os = "linux")]
mod loads;
#[cfg(all(naked_functions, target_os = "linux", target_arch = "x86_64"))]
mod mcount;
mod messages;
#[cfg(target_os = "linux")]
mod preload;
#[cfg(all(naked_functions, target_os = "linux", target_arch = "x86_64"))]
mod sleds;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod started;

use std::ffi::{CStr, c_char, c_int};
use std::io;

use tracer::{__foreign as foreign, Tracer};

/// Counters of the tracer's work so far in this process: `struct tracer_stats`.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Stats {
    /// 1 if this process traces, otherwise 0.
    pub enabled: c_int,
    /// The number of records that were put into rings.
    pub records: u64,
    /// The number of records that were not put into rings.
    pub lost: u64,
    /// The number of times that a thread has waited for the tracer.
    pub stalls: u64,
    /// The time for which threads have waited for the tracer, in nanoseconds.
    pub stall_ns: u64,
    /// The number of bytes written to files.
    pub bytes_written: u64,
}

/// Returns whether this process traces; the first call decides.
#[unsafe(no_mangle)]
pub extern "C" fn tracer_is_enabled() -> bool {
    Tracer::get().is_enabled()
}

/// Makes `variable` the only environment variable that switches tracing on, decides by it whether this process traces,
/// and returns the decision. If `variable` is null, the usual environment variable decides.
///
/// # Safety
/// `variable` is null or a string that ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tracer_startup(variable: *const c_char) -> bool {
    let on = if variable.is_null() {
        Tracer::get().is_enabled()
    } else {
        // SAFETY: the caller vouches for it.
        let variable = unsafe { CStr::from_ptr(variable) };
        Tracer::get().startup(&variable.to_string_lossy())
    };
    #[cfg(all(naked_functions, target_os = "linux", target_arch = "x86_64"))]
    if on {
        sleds::wake();
    }
    on
}

/// Begins a message: stores in `ticks` the current ticks, which are those of the message. Returns false if tracing is
/// off.
///
/// # Safety
/// `ticks` is valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tracer_begin(ticks: *mut u64) -> bool {
    let begun = foreign::begin();
    if let Some(now) = begun {
        // SAFETY: the caller vouches for it.
        unsafe { ticks.write(now) };
    }
    begun.is_some()
}

/// Records a message of `length` bytes. `ticks` are those that `tracer_begin` has stored for it. `place` is the number
/// of its place in the source, or 0 if it has none.
///
/// # Safety
/// `text` is valid for reads of `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tracer_write_at(ticks: u64, place: u32, text: *const c_char, length: usize) {
    let text = if text.is_null() || length == 0 {
        &[]
    } else {
        // SAFETY: the caller vouches for it.
        unsafe { std::slice::from_raw_parts(text.cast::<u8>(), length) }
    };
    foreign::write(ticks, place, text);
}

/// Records that the function that contains `address` is entered; returns whether to record that it is left.
#[unsafe(no_mangle)]
pub extern "C" fn tracer_enter(address: u64) -> bool {
    foreign::enter(address)
}

/// Records that a function is left. `address` is the one that was passed to `tracer_enter` for this call; `unwinding`
/// is true if an exception leaves the function.
#[unsafe(no_mangle)]
pub extern "C" fn tracer_leave(address: u64, unwinding: bool) {
    foreign::leave(address, unwinding);
}

/// Records the call stack of the calling function.
#[unsafe(no_mangle)]
pub extern "C" fn tracer_stack() {
    Tracer::get().stack();
}

/// Makes each signal that ends the process record its name and the call stack of its thread.
#[unsafe(no_mangle)]
pub extern "C" fn tracer_catch_signals() {
    Tracer::catch_signals();
}

/// Waits until all records that were made before are in the files; returns 0, or the number of the error.
#[unsafe(no_mangle)]
pub extern "C" fn tracer_flush() -> c_int {
    number(Tracer::get().flush())
}

/// Writes the contents of the flight recorder; returns 0, or the number of the error.
#[unsafe(no_mangle)]
pub extern "C" fn tracer_snapshot() -> c_int {
    number(Tracer::get().snapshot())
}

/// Ends tracing; returns 0, or the number of the error.
#[unsafe(no_mangle)]
pub extern "C" fn tracer_shutdown() -> c_int {
    number(Tracer::get().shutdown())
}

/// Stores the counters of this run in `stats`.
///
/// # Safety
/// `stats` is valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tracer_get_stats(stats: *mut Stats) {
    let now = Tracer::get().stats();
    let current_stats = Stats {
        enabled: c_int::from(now.enabled),
        records: now.records,
        lost: now.lost,
        stalls: now.stalls,
        stall_ns: now.stall_ns,
        bytes_written: now.bytes_written,
    };
    // SAFETY: the caller vouches for it.
    unsafe { stats.write(current_stats) };
}

/// Returns the number of an error as in `errno.h`, or 0 if there was none: `EAGAIN` if the call was made inside of a
/// record, and `EIO` if the system has given the error no number.
fn number(result: io::Result<()>) -> c_int {
    const EIO: c_int = 5;
    const EAGAIN: c_int = 11;
    match result {
        Ok(()) => 0,
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => EAGAIN,
        Err(error) => error.raw_os_error().unwrap_or(EIO),
    }
}
