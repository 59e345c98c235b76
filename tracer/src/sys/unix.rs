//! What all Unix systems do alike.
#![allow(unsafe_code, reason = "calls of the C library; each argued where it stands")]

use super::FileIdentity;
use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
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

/// Starts a thread that takes no signals, and on which nothing runs before `body`.
///
/// Not by `std::thread`, which allocates on the new thread first: the host's allocator may trace, and the flusher
/// would wait for a ring that only it can make.
pub(crate) fn spawn_flusher(body: Box<dyn FnOnce() + Send>) -> io::Result<()> {
    extern "C" fn start(body: *mut libc::c_void) -> *mut libc::c_void {
        // SAFETY: what was leaked below, given to this thread alone.
        let body = unsafe { Box::from_raw(body.cast::<Box<dyn FnOnce() + Send>>()) };
        // It does not panic; should it all the same, that must not end the process.
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(*body));
        std::ptr::null_mut()
    }
    /// As much as `std` gives to a thread.
    const STACK: usize = 2 << 20;
    let body = Box::into_raw(Box::new(body));
    // SAFETY: attributes, sets and the thread's id are plain memory that is initialised before it is read; the
    // function takes what it is given.
    let error = unsafe {
        let mut attributes: libc::pthread_attr_t = std::mem::zeroed();
        libc::pthread_attr_init(&mut attributes);
        libc::pthread_attr_setstacksize(&mut attributes, STACK);
        libc::pthread_attr_setdetachstate(&mut attributes, libc::PTHREAD_CREATE_DETACHED);
        let mut all: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        let mut thread: libc::pthread_t = std::mem::zeroed();
        let error = libc::pthread_create(&mut thread, &attributes, start, body.cast());
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        libc::pthread_attr_destroy(&mut attributes);
        error
    };
    if error == 0 {
        return Ok(());
    }
    // SAFETY: no thread has it.
    drop(unsafe { Box::from_raw(body) });
    Err(io::Error::from_raw_os_error(error))
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
        // The umask may have taken more.
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
    // The umask may have taken more; a file system may know no modes.
    let _ = file.set_permissions(Permissions::from_mode(0o600));
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
    open_own(path, true)
}

/// The same for reading only.
pub(crate) fn open_own_file_to_read(path: &Path) -> io::Result<File> {
    open_own(path, false)
}

fn open_own(path: &Path, write: bool) -> io::Result<File> {
    // A FIFO in its place must not make us wait.
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = OpenOptions::new().read(true).write(write).custom_flags(flags).open(path)?;
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

/// Takes the classic POSIX record lock on one byte of the file; it is held until any descriptor of the file is
/// closed in this process, or the process ends.
///
/// Not `flock` and not an open-file-description lock: a forked child would keep those.
pub(crate) fn hold_lock(file: &File, byte: u32) -> io::Result<()> {
    // SAFETY: the descriptor is open; the request is plain memory.
    let result = unsafe {
        let mut request: libc::flock = std::mem::zeroed();
        request.l_type = libc::F_WRLCK as _;
        request.l_whence = libc::SEEK_SET as _;
        request.l_start = byte as libc::off_t;
        request.l_len = 1;
        libc::fcntl(file.as_raw_fd(), libc::F_SETLK, &request)
    };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// A directory's lock, which one open descriptor has, also within a process.
pub(crate) struct Turn(File);

impl Drop for Turn {
    fn drop(&mut self) {
        // Not only by closing it: a child that was forked meanwhile has a copy.
        // SAFETY: the descriptor is open.
        unsafe { libc::flock(self.0.as_raw_fd(), libc::LOCK_UN) };
    }
}

/// Waits at most a second for that lock. To be held for a moment only.
pub(crate) fn take_turn(directory: &Path) -> io::Result<Turn> {
    let flags = libc::O_DIRECTORY | libc::O_NOFOLLOW;
    let directory = OpenOptions::new().read(true).custom_flags(flags).open(directory)?;
    let mut tries = 1000;
    loop {
        // SAFETY: the descriptor is open.
        if unsafe { libc::flock(directory.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
            return Ok(Turn(directory));
        }
        let error = io::Error::last_os_error();
        tries -= 1;
        if error.kind() != io::ErrorKind::WouldBlock || tries == 0 {
            return Err(error);
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

/// What the open file is, and what has become of it.
pub(crate) fn file_identity(file: &File) -> io::Result<FileIdentity> {
    let found = file.metadata()?;
    Ok(FileIdentity { device: found.dev(), inode: found.ino(), links: found.nlink(), length: found.len() })
}

/// What stands at `path` itself, be it a link.
pub(crate) fn path_identity(path: &Path) -> io::Result<FileIdentity> {
    let found = std::fs::symlink_metadata(path)?;
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
