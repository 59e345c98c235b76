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
pub(crate) fn spawn_hidden(body: Box<dyn FnOnce() + Send>) -> io::Result<()> {
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

/// Makes `path` a directory, with those above it, which only this user can enter; what is there stays as it is.
pub(crate) fn make_directories(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).recursive(true).create(path)
}

/// The user whose rights the calling thread has.
pub(crate) fn effective_user() -> u32 {
    // SAFETY: asks only.
    unsafe { libc::geteuid() }
}

/// Whether `path` is a directory, not a link to one, that only its owner, this user, can enter.
pub(crate) fn is_private_directory(path: &Path) -> bool {
    // SAFETY: asks only.
    let user = unsafe { libc::geteuid() };
    std::fs::symlink_metadata(path).is_ok_and(|f| f.is_dir() && f.uid() == user && f.mode() & 0o077 == 0)
}

/// The user whose `path` is, if it is a directory, not a link to one, that only its owner can enter, and this user may:
/// because it is this user's, or as root.
pub(crate) fn private_directory_of(path: &Path) -> Option<u32> {
    let found = std::fs::symlink_metadata(path).ok()?;
    let may = [found.uid(), 0].contains(&effective_user());
    (may && found.is_dir() && found.mode() & 0o077 == 0).then(|| found.uid())
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
    open_own(path, true, &[effective_user()])
}

/// Opens a file of this user's for writing at its end, wherever that is by then; makes it if it is not there.
pub(crate) fn open_to_append(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.append(true).create(true).mode(0o600).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    is_own(options.open(path)?, &[effective_user()])
}

/// Opens a file that a ring of this user names, for reading and writing: a regular one, not through a link. As root it
/// may be another user's, whom the process had become when it made the file. The caller sees to it that it is that file.
pub(crate) fn open_named_file(path: &Path) -> io::Result<File> {
    match std::fs::symlink_metadata(path) {
        Ok(found) if effective_user() == 0 => open_own(path, true, &[0, found.uid()]),
        _ => open_own(path, true, &[effective_user()]),
    }
}

/// Opens a file of this user, or of `user` where this one may read it, for reading: a regular one, not through a link.
pub(crate) fn open_file_of_user_to_read(path: &Path, user: u32) -> io::Result<File> {
    open_own(path, false, &[effective_user(), user])
}

fn open_own(path: &Path, write: bool, users: &[u32]) -> io::Result<File> {
    // A FIFO in its place must not make us wait.
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    is_own(OpenOptions::new().read(true).write(write).custom_flags(flags).open(path)?, users)
}

/// The file, if it is a regular one of one of these users.
fn is_own(file: File, users: &[u32]) -> io::Result<File> {
    let found = file.metadata()?;
    if !found.is_file() || !users.contains(&found.uid()) {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it is not a file of this user"));
    }
    Ok(file)
}

/// A path of the bytes that the system knows it by.
pub(crate) fn path_from_bytes(bytes: &[u8]) -> PathBuf {
    PathBuf::from(std::ffi::OsString::from_vec(bytes.to_vec()))
}

/// Asks for a write lock on one byte of the file, of the kind that `command` stands for; does not wait.
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

/// Whether a file could not be opened because too many are.
pub(crate) fn is_without_descriptors(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

/// How many files this process may have open.
pub(crate) fn descriptor_limit() -> usize {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the result is plain memory.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) };
    usize::try_from(limit.rlim_cur).unwrap_or(usize::MAX)
}

/// How long a file may become that this process writes, now: who writes more gets a signal.
pub(crate) fn file_size_limit() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: 0 };
    // SAFETY: the result is plain memory.
    unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit) };
    if limit.rlim_cur == libc::RLIM_INFINITY { u64::MAX } else { limit.rlim_cur }
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
