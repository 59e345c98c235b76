//! Windows. Type-checked, not yet run.
#![allow(unsafe_code, reason = "calls of the system; each argued where it stands")]

use std::fs::{File, OpenOptions};
use std::io;
use std::os::windows::fs::{MetadataExt, OpenOptionsExt};
use std::os::windows::io::AsRawHandle;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::{FileIdentity, LoadedModules};

#[link(name = "kernel32", kind = "raw-dylib")]
unsafe extern "system" {
    fn LockFile(file: *mut core::ffi::c_void, low: u32, high: u32, bytes_low: u32, bytes_high: u32) -> i32;
}

/// Returns where the directories of this user's runs are.
pub fn runtime_directory() -> PathBuf {
    std::env::temp_dir().join("tracer")
}

/// Makes a directory. The temp directory is the user's own.
pub fn make_private_directory(path: &Path) -> io::Result<()> {
    match std::fs::create_dir(path) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        other => other,
    }
}

/// Makes `path` a directory, with those above it; what is there stays as it is.
pub fn make_directories(path: &Path) -> io::Result<()> {
    std::fs::create_dir_all(path)
}

/// Returns 0: users have no numbers here.
pub fn effective_user() -> u32 {
    0
}

/// Makes a new file that others may read and rename while it is open; fails where the name exists.
pub fn create_private_file(path: &Path) -> io::Result<File> {
    const SHARE_READ_WRITE_DELETE: u32 = 7;
    OpenOptions::new().read(true).write(true).create_new(true).share_mode(SHARE_READ_WRITE_DELETE).open(path)
}

/// Opens a file for reading and writing.
pub fn open_own_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).open(path)
}

/// Opens a file for writing at its end; makes it if it is not there.
pub fn open_to_append(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).open(path)
}

/// Opens a file that a ring names.
pub fn open_named_file(path: &Path) -> io::Result<File> {
    open_own_file(path)
}

/// Opens a file for reading, and lets others do with it what they like. Files have no users' numbers here.
pub fn open_file_of_user_to_read(path: &Path, _user: u32) -> io::Result<File> {
    OpenOptions::new().read(true).open(path)
}

/// Makes a path of the bytes that std's encoding has for it; what is not UTF-8 is replaced.
pub fn path_from_bytes(bytes: &[u8]) -> PathBuf {
    PathBuf::from(String::from_utf8_lossy(bytes).into_owned())
}

/// Gives the file its size.
pub fn reserve(file: &File, bytes: u64) -> io::Result<()> {
    file.set_len(bytes)
}

/// Makes the file long enough for `bytes` bytes from `offset` on. Its space is not reserved.
pub fn reserve_part(file: &File, offset: u64, bytes: u64) -> io::Result<()> {
    if file.metadata()?.len() < offset + bytes { file.set_len(offset + bytes) } else { Ok(()) }
}

/// Leaves the pages of a mapping to be made ready when they are touched.
pub fn populate(_start: *mut u8, _bytes: usize) {}

/// Returns whether `path` is a directory. The temp directory is the user's own.
pub fn is_private_directory(path: &Path) -> bool {
    path.is_dir()
}

/// Returns the user whose `path` is, if it is a directory. The temp directory is the user's own.
pub fn private_directory_of(path: &Path) -> Option<u32> {
    path.is_dir().then_some(0)
}

/// Returns `None`: nobody acts for other users here.
pub fn as_user<T: Send>(_user: u32, _work: impl FnOnce() -> T + Send) -> Option<T> {
    None
}

/// Takes a lock that stands for one byte of the file. Not on the byte itself: what is locked here, others
/// cannot read.
pub fn hold_lock(file: &File, byte: u32) -> io::Result<()> {
    const FAR_BEHIND_THE_END: u32 = 1 << 30;
    // SAFETY: the handle is open; a range need not be in the file.
    let locked = unsafe { LockFile(file.as_raw_handle(), byte, FAR_BEHIND_THE_END, 1, 0) };
    if locked == 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Tells whether a mapping of a file keeps the locks that were taken through the handle that it was mapped
/// from.
pub const MAPPINGS_HOLD_LOCKS: bool = false;

/// Does nothing: there is no `fork`.
pub fn keep_from_children(_start: *mut u8, _bytes: usize) -> io::Result<()> {
    Ok(())
}

/// Returns an error: a thread has no handles of its own here.
pub fn take_own_descriptors() -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Returns false: errors of this kind are never told apart here.
pub fn is_without_descriptors(_error: &io::Error) -> bool {
    false
}

/// Returns how many files this process may have open: as good as any number.
pub fn descriptor_limit() -> usize {
    4096
}

/// Returns how long, in bytes, a file may become that this process writes.
pub fn file_size_limit() -> u64 {
    u64::MAX
}

/// Returns what the open file is; its creation time stands in for the number that std does not show on this
/// system.
pub fn file_identity(file: &File) -> io::Result<FileIdentity> {
    let found = file.metadata()?;
    Ok(FileIdentity { device: 0, inode: found.creation_time(), links: 1, length: found.file_size() })
}

/// Returns what stands at `path`.
pub fn path_identity(path: &Path) -> io::Result<FileIdentity> {
    let found = std::fs::symlink_metadata(path)?;
    Ok(FileIdentity { device: 0, inode: found.creation_time(), links: 1, length: found.file_size() })
}

/// Returns where the directories of this user's runs may be.
pub fn runtime_directories() -> Vec<PathBuf> {
    vec![runtime_directory()]
}

/// Returns nothing, for the boot is not known here.
pub fn boot_id() -> Vec<u8> {
    Vec::new()
}

/// Returns whether the processor's counter is the same on all cores.
pub fn counter_is_trusted() -> bool {
    true
}

/// Reads the system's monotonic clock in nanoseconds.
pub fn monotonic_ns() -> u64 {
    static CLOCK: OnceLock<quanta::Clock> = OnceLock::new();
    let clock = CLOCK.get_or_init(quanta::Clock::new);
    clock.delta_as_nanos(0, clock.raw())
}

/// Returns nothing: modules are not looked for here.
pub fn module_counts() -> Option<(u64, u64)> {
    None
}

/// Returns nothing: modules are not looked for here, so addresses get no names.
pub fn loaded_modules() -> Option<LoadedModules> {
    None
}
