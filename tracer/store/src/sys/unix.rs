//! Functions that are the same on all Unix systems.
#![allow(unsafe_code, reason = "calls of the C library; each argued where it stands")]

use std::cell::Cell;
use std::fs::{DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::FileIdentity;

/// Whether a deleted file keeps its name, and prevents its directory from being deleted, until all processes have
/// closed it. On Unix it does not.
pub const OPEN_FILES_KEEP_NAMES: bool = false;

/// Calls `open` once. On Unix no retries are needed, because no process can keep others from opening a file.
pub fn open_with_retries<T>(mut open: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    open()
}

/// Makes `path` a directory that only this user, its owner, can enter; succeeds also if it already is such a directory.
pub fn make_private_directory(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(path) {
        // The umask may have removed more rights.
        Ok(()) => return std::fs::set_permissions(path, Permissions::from_mode(0o700)),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
        Err(e) => return Err(e),
    }
    std::fs::symlink_metadata(path)?;
    if !is_private_directory(path) {
        let why = "it exists, but is not a directory that only this user can enter";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    Ok(())
}

/// Returns `None`: on Unix there is no other directory for trace files if the executable's directory cannot be written.
pub fn directory_for_traces() -> Option<PathBuf> {
    None
}

/// Makes the directory `path`, and the directories above it that are missing. Only this user can enter the new
/// directories; directories that exist stay unchanged.
pub fn make_directories(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).recursive(true).create(path)
}

thread_local! {
    /// The user whose rights to files the calling thread has taken; `None` if it has the rights of the process.
    static FILE_USER: Cell<Option<u32>> = const { Cell::new(None) };
}

/// Notes that the calling thread has the rights to files of the user `user` from now on.
#[cfg(target_os = "linux")]
pub(super) fn set_file_user(user: u32) {
    FILE_USER.set(Some(user));
}

/// Returns the id of the user whose rights to files the calling thread has.
pub fn effective_user() -> u32 {
    FILE_USER.get().unwrap_or_else(process_user)
}

/// Returns the id of the user whose rights the process has.
fn process_user() -> u32 {
    // SAFETY: the call only reads an id.
    unsafe { libc::geteuid() }
}

/// Returns whether a file belongs to a user whom this process need not trust: to neither the user of the process nor
/// root. The owner may truncate such a file at any moment, so it is never mapped.
pub fn is_of_another_user(found: &Metadata) -> bool {
    ![process_user(), 0].contains(&found.uid())
}

/// Reads from `offset` on until `bytes` is full or the file ends; returns the number of bytes read.
pub fn read_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut got = 0;
    while got < bytes.len() {
        match file.read_at(&mut bytes[got..], offset + got as u64) {
            Ok(0) => break,
            Ok(more) => got += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(got)
}

/// Writes all of `bytes` at `offset`.
pub fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    file.write_all_at(bytes, offset)
}

/// Returns whether `path` is a directory (and not a link to one) that belongs to this user, and that only this user can
/// enter.
pub fn is_private_directory(path: &Path) -> bool {
    let user = effective_user();
    std::fs::symlink_metadata(path).is_ok_and(|f| f.is_dir() && f.uid() == user && f.mode() & 0o077 == 0)
}

/// Returns the user id of the owner of the directory `path`, if only the owner can enter the directory, and this
/// process has the rights of the owner or of root. Returns `None` otherwise, and if `path` is a link.
pub fn private_directory_of(path: &Path) -> Option<u32> {
    let found = std::fs::symlink_metadata(path).ok()?;
    let may = [found.uid(), 0].contains(&effective_user());
    (may && found.is_dir() && found.mode() & 0o077 == 0).then(|| found.uid())
}

/// Makes a new file that only its owner can read and write. Fails if the name exists, even as a link that leads
/// nowhere.
pub fn create_private_file(path: &Path) -> io::Result<File> {
    // `create_new` is O_CREAT|O_EXCL, which follows no link; std adds O_CLOEXEC.
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW)
        .open(path)?;
    // The umask may have removed more rights; a file system may not support modes.
    let _ = file.set_permissions(Permissions::from_mode(0o600));
    above_standard_streams(file)
}

/// Gives a file a descriptor whose number is greater than those of the standard streams. If the host has closed a
/// standard stream, a file of the tracer must not get the stream's number, because the host would write into that file.
fn above_standard_streams(file: File) -> io::Result<File> {
    if file.as_raw_fd() > libc::STDERR_FILENO {
        return Ok(file);
    }
    // SAFETY: the descriptor is open; the result is a new one that no other code has.
    unsafe {
        match libc::fcntl(file.as_raw_fd(), libc::F_DUPFD_CLOEXEC, libc::STDERR_FILENO + 1) {
            -1 => Err(io::Error::last_os_error()),
            above => Ok(File::from_raw_fd(above)),
        }
    }
}

/// Opens a regular file that belongs to this user for reading and writing. Fails if `path` is a link.
pub fn open_own_file(path: &Path) -> io::Result<File> {
    open_own(path, true, &[effective_user()])
}

/// Opens a file of this user for appending, so that each write goes to the end that the file has then. Makes the file
/// if it does not exist.
pub fn open_to_append(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.append(true).create(true).mode(0o600).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    is_own(options.open(path)?, &[effective_user()])
}

/// Opens a regular file, which a ring of this user names, for reading and writing. Fails if `path` is a link. If this
/// user is root, the file may belong to another user, because the process may have switched to that user before it made
/// the file. The caller must check that the opened file is the one that the ring names.
pub fn open_named_file(path: &Path) -> io::Result<File> {
    match std::fs::symlink_metadata(path) {
        Ok(found) if effective_user() == 0 => open_own(path, true, &[0, found.uid()]),
        _ => open_own(path, true, &[effective_user()]),
    }
}

/// Opens a regular file for reading. Fails if `path` is a link, or if the file belongs neither to this user nor to
/// `user`.
pub fn open_file_of_user_to_read(path: &Path, user: u32) -> io::Result<File> {
    open_own(path, false, &[effective_user(), user])
}

fn open_own(path: &Path, write: bool, users: &[u32]) -> io::Result<File> {
    // A FIFO in the file's place must not make us wait.
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    is_own(OpenOptions::new().read(true).write(write).custom_flags(flags).open(path)?, users)
}

/// Returns the file if it is a regular file that belongs to one of `users`; an error otherwise.
fn is_own(file: File, users: &[u32]) -> io::Result<File> {
    let found = file.metadata()?;
    if !found.is_file() || !users.contains(&found.uid()) {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it is not a file of this user"));
    }
    Ok(file)
}

/// Returns `path` with all links resolved.
///
/// # Errors
/// No file is at `path`, or it cannot be reached.
pub fn real_path(path: &Path) -> io::Result<PathBuf> {
    std::fs::canonicalize(path)
}

/// Gives the file named `from` the further name `to`, as a hard link. The caller then removes the name `from`.
///
/// # Errors
/// The name exists already, or the system refuses it.
pub fn give_name(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::hard_link(from, to)
}

/// Returns the path that consists of these bytes.
pub fn path_from_bytes(bytes: &[u8]) -> PathBuf {
    PathBuf::from(std::ffi::OsString::from_vec(bytes.to_vec()))
}

/// Takes a write lock on one byte of the file, or fails at once. `command` is the command of `fcntl` that says which
/// type of lock is taken.
pub(super) fn set_lock(file: &File, command: libc::c_int, byte: u32) -> io::Result<()> {
    // SAFETY: the descriptor is open; the request is plain memory.
    let result = unsafe {
        let mut request: libc::flock = std::mem::zeroed();
        request.l_type = libc::F_WRLCK as _;
        request.l_whence = libc::SEEK_SET as _;
        request.l_start = byte as libc::off_t;
        request.l_len = 1;
        libc::fcntl(file.as_raw_fd(), command, &request)
    };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Returns the identity and the current state of an open file.
pub fn file_identity(file: &File) -> io::Result<FileIdentity> {
    let found = file.metadata()?;
    Ok(FileIdentity { device: found.dev(), inode: found.ino(), links: found.nlink(), length: found.len() })
}

/// Returns the same as [`file_identity`]. (On Windows, the result has no device.)
pub fn open_file_identity(file: &File) -> io::Result<FileIdentity> {
    file_identity(file)
}

/// Returns the identity of the file at `path`. If `path` is a link, returns the identity of the link itself.
pub fn path_identity(path: &Path) -> io::Result<FileIdentity> {
    let found = std::fs::symlink_metadata(path)?;
    Ok(FileIdentity { device: found.dev(), inode: found.ino(), links: found.nlink(), length: found.len() })
}

/// Returns the device and the inode number of the directory at `path`. If `path` is a link, returns those of the
/// directory to which it leads.
pub fn directory_identity(path: &Path) -> Option<(u64, u64)> {
    std::fs::metadata(path).ok().map(|found| (found.dev(), found.ino()))
}

/// Returns whether a file could not be opened because too many files are open.
pub fn is_descriptor_limit_error(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

/// Returns the greatest number of files that this process may have open.
pub fn descriptor_limit() -> usize {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the result is plain memory.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) };
    usize::try_from(limit.rlim_cur).unwrap_or(usize::MAX)
}

/// Returns the current limit, in bytes, on the size of files that this process writes. A write beyond the limit raises
/// a signal.
pub fn file_size_limit() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: 0 };
    // SAFETY: the result is plain memory.
    unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit) };
    if limit.rlim_cur == libc::RLIM_INFINITY { u64::MAX } else { limit.rlim_cur }
}

/// Reads the system's clock with the number `clock`, in nanoseconds; returns `None` if there is no such clock.
pub(super) fn clock_ns(clock: libc::clockid_t) -> Option<u64> {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` may be written.
    let found = unsafe { libc::clock_gettime(clock, &mut now) } == 0;
    found.then_some(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
}

/// Reads the system's monotonic clock in nanoseconds. This is async-signal-safe.
#[inline]
pub fn monotonic_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` may be written.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
