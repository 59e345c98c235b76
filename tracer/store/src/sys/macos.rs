//! macOS, and what other Unix systems have of it. Type-checked, not yet run.
#![allow(unsafe_code, reason = "calls of the C library; each argued where it stands")]

use std::fs::File;
use std::io;
use std::path::PathBuf;

use super::LoadedModules;

/// Gives the file its size. The space itself is not reserved here.
pub fn reserve(file: &File, bytes: u64) -> io::Result<()> {
    file.set_len(bytes)
}

/// Makes the file long enough for `bytes` bytes from `offset` on. Its space is not reserved.
pub fn reserve_part(file: &File, offset: u64, bytes: u64) -> io::Result<()> {
    if file.metadata()?.len() < offset + bytes { file.set_len(offset + bytes) } else { Ok(()) }
}

/// Leaves the pages of a mapping to be made ready when they are touched.
pub fn populate(_start: *mut u8, _bytes: usize) {}

/// Returns where the directories of this user's runs are.
pub fn runtime_directory() -> PathBuf {
    // SAFETY: asks only.
    std::env::temp_dir().join(format!("tracer-{}", unsafe { libc::geteuid() }))
}

/// Returns where the directories of this user's runs may be.
pub fn runtime_directories() -> Vec<PathBuf> {
    vec![runtime_directory()]
}

/// Tells whether a mapping of a file keeps the locks that were taken through the descriptor that it was
/// mapped from.
pub const MAPPINGS_HOLD_LOCKS: bool = false;

/// Takes the classic POSIX record lock on one byte of the file; it is held until any descriptor of the file
/// is closed in this process, or the process ends.
pub fn hold_lock(file: &File, byte: u32) -> io::Result<()> {
    super::unix::set_lock(file, libc::F_SETLK, byte)
}

/// Does nothing: a forked child has no record locks.
pub fn keep_from_children(_start: *mut u8, _bytes: usize) -> io::Result<()> {
    Ok(())
}

/// Returns an error: a thread has no rights of its own here.
pub fn begin_as_user(_user: u32, _work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Returns an error: a thread has no descriptors of its own here.
pub fn take_own_descriptors() -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Returns nothing, for the boot is not known here: ticks of different boots cannot be told apart.
pub fn boot_id() -> Vec<u8> {
    Vec::new()
}

/// Returns whether the processor's counter is the same on all cores.
pub fn counter_is_trusted() -> bool {
    true
}

/// Returns nothing: modules are not looked for here.
pub fn module_counts() -> Option<(u64, u64)> {
    None
}

/// Returns nothing: modules are not looked for here, so addresses get no names.
pub fn loaded_modules() -> Option<LoadedModules> {
    None
}

/// Reads the monotonic clock that nobody steers, in nanoseconds. It stands still while the machine sleeps.
pub fn raw_ns() -> Option<u64> {
    super::unix::clock_ns(libc::CLOCK_UPTIME_RAW)
}

/// Reads the time since the machine was started, in nanoseconds, sleep included.
pub fn since_boot_ns() -> Option<u64> {
    super::unix::clock_ns(libc::CLOCK_MONOTONIC_RAW)
}

/// Returns nothing: the system is not asked how exact the wall clock is.
pub fn wall_quality() -> WallQuality {
    WallQuality::default()
}
