//! What all Unix systems do alike.
#![allow(unsafe_code, reason = "calls of the C library; each argued where it stands")]

use super::FileIdentity;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// The calling process's id.
pub(crate) fn process_id() -> u32 {
    std::process::id()
}

/// The key plus one; 0 before there is one.
static EXIT_KEY: AtomicU32 = AtomicU32::new(0);

/// Has [`crate::thread::on_thread_exit`] called when the calling thread ends.
///
/// A `pthread` key, not a Rust thread-local with a destructor: its destructors run after those of all
/// thread-locals of Rust and C++ on Linux, so what these trace is kept; and setting it allocates nothing for
/// the first keys of a process. It is not called where `exit` ends the thread.
pub(crate) fn call_at_thread_exit() {
    let key = EXIT_KEY.load(Ordering::Acquire);
    if key != 0 {
        // SAFETY: the key was created by `create_exit_key` and is never deleted; any value may be set.
        unsafe {
            libc::pthread_setspecific((key - 1) as libc::pthread_key_t, std::ptr::without_provenance(1))
        };
    }
}

/// Makes the key that [`call_at_thread_exit`] uses, once for the process.
pub(crate) fn create_exit_key() {
    unsafe extern "C" fn at_exit(rounds: *mut libc::c_void) {
        // Other keys' destructors may trace after this one: come back, as the last of the rounds that POSIX
        // grants (`PTHREAD_DESTRUCTOR_ITERATIONS` is at least 4).
        let rounds = rounds.addr();
        let key = EXIT_KEY.load(Ordering::Acquire);
        if rounds < 3 && key != 0 {
            let next = std::ptr::without_provenance(rounds + 1);
            // SAFETY: as in `call_at_thread_exit`.
            unsafe { libc::pthread_setspecific((key - 1) as libc::pthread_key_t, next) };
        } else {
            crate::thread::on_thread_exit();
        }
    }
    if EXIT_KEY.load(Ordering::Acquire) != 0 {
        return;
    }
    let mut key: libc::pthread_key_t = 0;
    // SAFETY: `key` may be written; the destructor is a plain function that lives as long as the program.
    if unsafe { libc::pthread_key_create(&mut key, Some(at_exit)) } == 0 {
        EXIT_KEY.store(key as u32 + 1, Ordering::Release);
    }
}

/// Runs `f` with all signals blocked in the calling thread; threads that it starts inherit that.
pub(crate) fn with_signals_blocked<T>(f: impl FnOnce() -> T) -> T {
    // SAFETY: both sets are plain memory that the calls initialise before they are read.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        let result = f();
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        result
    }
}

/// Whether the caller runs on an alternate signal stack.
pub(crate) fn on_alternate_stack() -> bool {
    // SAFETY: asks only; the result is plain memory.
    unsafe {
        let mut stack: libc::stack_t = std::mem::zeroed();
        libc::sigaltstack(std::ptr::null(), &mut stack) == 0 && stack.ss_flags & libc::SS_ONSTACK != 0
    }
}

/// Makes `path` a directory that only its owner, this user, can enter, or accepts that it is one.
pub(crate) fn make_private_directory(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => return Ok(()),
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

/// Whether `path` is a directory, not a link to one, that only its owner, this user, can enter.
pub(crate) fn is_private_directory(path: &Path) -> bool {
    // SAFETY: asks only.
    let user = unsafe { libc::geteuid() };
    std::fs::symlink_metadata(path).is_ok_and(|f| f.is_dir() && f.uid() == user && f.mode() & 0o077 == 0)
}

/// Writes to stderr without std's lock, which a forked child may find taken for ever, and only if that does
/// not block: nobody may be reading.
pub(crate) fn write_stderr(text: &[u8]) {
    let mut stderr = libc::pollfd { fd: libc::STDERR_FILENO, events: libc::POLLOUT, revents: 0 };
    // SAFETY: one descriptor to ask for; the text is valid for its length.
    unsafe {
        if libc::poll(&mut stderr, 1, 0) == 1 && stderr.revents & libc::POLLOUT != 0 {
            // A pipe that is ready takes this much at once (POSIX: PIPE_BUF).
            libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len().min(4096));
        }
    }
}

/// Makes a new file, readable and writable by its owner only; fails where the name exists, even as a link.
pub(crate) fn create_private_file(path: &Path) -> io::Result<File> {
    // `create_new` is O_CREAT|O_EXCL, which follows no link; std adds O_CLOEXEC.
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW)
        .open(path)?;
    above_standard_streams(file)
}

/// Where the host has closed a standard stream, its number must not become a file of ours: the host would
/// write into it.
fn above_standard_streams(file: File) -> io::Result<File> {
    if file.as_raw_fd() > libc::STDERR_FILENO {
        return Ok(file);
    }
    // SAFETY: the descriptor is open; the result is a new one that nobody else has.
    unsafe {
        match libc::fcntl(file.as_raw_fd(), libc::F_DUPFD_CLOEXEC, libc::STDERR_FILENO + 1) {
            -1 => Err(io::Error::last_os_error()),
            above => Ok(File::from_raw_fd(above)),
        }
    }
}

/// Opens a file of this user for reading and writing: a regular one, not through a link.
pub(crate) fn open_own_file(path: &Path) -> io::Result<File> {
    // A FIFO in its place must not make us wait.
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = OpenOptions::new().read(true).write(true).custom_flags(flags).open(path)?;
    let found = file.metadata()?;
    // SAFETY: asks only.
    if !found.is_file() || found.uid() != unsafe { libc::geteuid() } {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it is not a file of this user"));
    }
    Ok(file)
}

/// A path of the bytes that the system knows it by.
pub(crate) fn path_from_bytes(bytes: &[u8]) -> PathBuf {
    PathBuf::from(std::ffi::OsString::from_vec(bytes.to_vec()))
}

/// Takes the classic POSIX record lock on the whole file, which says that this process lives.
///
/// Not `flock` and not an open-file-description lock: a forked child would keep those.
pub(crate) fn hold_lock(file: &File) -> io::Result<()> {
    // SAFETY: the descriptor is open; the request is plain memory.
    let result = unsafe {
        let mut request: libc::flock = std::mem::zeroed();
        request.l_type = libc::F_WRLCK as _;
        request.l_whence = libc::SEEK_SET as _;
        libc::fcntl(file.as_raw_fd(), libc::F_SETLK, &request)
    };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The process that holds a lock which keeps [`hold_lock`] from succeeding; 0 where it cannot be told.
pub(crate) fn lock_holder(file: &File) -> Option<u32> {
    // SAFETY: the descriptor is open; the request is plain memory, and the answer is written into it.
    unsafe {
        let mut request: libc::flock = std::mem::zeroed();
        request.l_type = libc::F_WRLCK as _;
        request.l_whence = libc::SEEK_SET as _;
        let answered = libc::fcntl(file.as_raw_fd(), libc::F_GETLK, &mut request) != -1;
        (answered && request.l_type != libc::F_UNLCK as libc::c_short)
            .then_some(u32::try_from(request.l_pid).unwrap_or(0))
    }
}

/// What the open file is, and what has become of it.
pub(crate) fn file_identity(file: &File) -> io::Result<FileIdentity> {
    let found = file.metadata()?;
    Ok(FileIdentity { device: found.dev(), inode: found.ino(), links: found.nlink(), length: found.len() })
}

/// How many files this process may have open.
pub(crate) fn descriptor_limit() -> usize {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the result is plain memory.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) };
    usize::try_from(limit.rlim_cur).unwrap_or(usize::MAX)
}

/// Nanoseconds of the system's monotonic clock. Async-signal-safe.
pub(crate) fn monotonic_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` may be written.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Room in bytes that a file system has for this user.
pub(crate) fn free_bytes(path: &Path) -> Option<u64> {
    use std::os::unix::ffi::OsStrExt;
    let path = std::ffi::CString::new(path.as_os_str().as_bytes()).ok()?;
    // SAFETY: the path is a C string; the result is plain memory, read only where the call succeeded.
    unsafe {
        let mut found: libc::statvfs = std::mem::zeroed();
        (libc::statvfs(path.as_ptr(), &mut found) == 0)
            .then(|| (found.f_bavail as u64).saturating_mul(found.f_frsize as u64))
    }
}
