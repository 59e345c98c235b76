//! The functions of this folder for macOS and, as far as they work there, for other Unix systems except Linux. The code
//! is type-checked, but was not run yet.
#![allow(unsafe_code, reason = "calls of the C library; each argued where it stands")]

use std::fs::File;
use std::io;
use std::path::PathBuf;

use super::{LoadedModules, WallQuality};

/// Sets the file's size to `bytes`. No space is reserved in the file system.
pub fn reserve(file: &File, bytes: u64) -> io::Result<()> {
    file.set_len(bytes)
}

/// Makes the file long enough for `bytes` bytes from `offset` on. No space is reserved in the file system.
pub fn reserve_part(file: &File, offset: u64, bytes: u64) -> io::Result<()> {
    if file.metadata()?.len() < offset + bytes { file.set_len(offset + bytes) } else { Ok(()) }
}

/// Does nothing: on this system each page of a mapping is mapped when it is first accessed.
pub fn populate(_start: *mut u8, _bytes: usize) {}

/// Returns the directory that contains the directories of this user's runs.
pub fn runtime_directory() -> PathBuf {
    // SAFETY: the call only reads an id.
    std::env::temp_dir().join(format!("tracer-{}", unsafe { libc::geteuid() }))
}

/// Returns the directories that may contain the directories of this user's runs.
pub fn runtime_directories() -> Vec<PathBuf> {
    vec![runtime_directory()]
}

/// Whether a mapping of a file keeps the locks that were taken through the descriptor with which it was mapped, even
/// after the descriptor is closed.
pub const MAPPINGS_HOLD_LOCKS: bool = false;

/// Takes a classic POSIX record lock on one byte of the file, or fails at once. The lock is held until this process
/// closes any descriptor of the file, or ends.
pub fn hold_lock(file: &File, byte: u32) -> io::Result<()> {
    super::unix::set_lock(file, libc::F_SETLK, byte)
}

/// Does nothing: forked children do not inherit record locks, so it does no harm if they have the mapping.
pub fn exclude_from_forks(_start: *mut u8, _bytes: usize) -> io::Result<()> {
    Ok(())
}

/// Returns an error: on this system a thread cannot have other rights than its process.
pub fn begin_as_user(_user: u32, _work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Returns an error: on this system a thread cannot have a table of descriptors of its own.
pub fn take_own_descriptors() -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Returns an empty id. On this system no id of the boot is read, so ticks of different boots cannot be distinguished.
pub fn boot_id() -> Vec<u8> {
    Vec::new()
}

/// Returns true: the processor's counter is taken to be the same on all cores.
pub fn counter_is_trusted() -> bool {
    true
}

/// Returns `None`: modules are not listed on this system.
pub fn module_counts() -> Option<(u64, u64)> {
    None
}

/// Returns `None`: modules are not listed on this system, so addresses get no names.
pub fn loaded_modules() -> Option<LoadedModules> {
    None
}

/// Reads the raw monotonic clock, in nanoseconds. The clock is never adjusted, and stands still while the machine
/// sleeps.
pub fn raw_ns() -> Option<u64> {
    super::unix::clock_ns(libc::CLOCK_UPTIME_RAW)
}

/// Reads the time since the machine was started, in nanoseconds. It includes the time for which the machine was asleep.
pub fn since_boot_ns() -> Option<u64> {
    super::unix::clock_ns(libc::CLOCK_MONOTONIC_RAW)
}

/// Returns no values: on this system the tracer does not read how accurate the wall clock is.
pub fn wall_quality() -> WallQuality {
    WallQuality::default()
}
