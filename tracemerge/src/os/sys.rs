//! System calls beyond the standard library, with all the `unsafe` code that they need.
//!
//! Each function has one meaning on every system. On a system that does not support a function, the function returns
//! the answer that promises least, such as `None` or false.
#![allow(unsafe_code)]

use std::fs::{File, Metadata};
use std::io;
use std::path::Path;

pub(crate) use trace_store::sys::{is_of_another_user, next_data, open_with_retries, read_at, real_path};

/// The identity of a file, independent of the path that names it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum FileId {
    /// The device on which the file is, and the file's number (inode) there.
    Inode(u64, u64),
    /// The file's path, if its number is not known. The same file may then have several identities.
    #[cfg(not(unix))]
    Path(std::path::PathBuf),
}

/// Returns the identity of the file at `path`, whose metadata the caller has read.
#[must_use]
pub(crate) fn file_id(path: &Path, metadata: &Metadata) -> FileId {
    imp::file_id(path, metadata)
}

/// Returns the id of the user who owns a file; if files have no owners, the same number for all files.
#[must_use]
pub(crate) fn owner(metadata: &Metadata) -> u32 {
    imp::owner(metadata)
}

/// Returns the id of the user whose rights this process has; if the system has no users, the same number as [`owner`].
#[must_use]
pub(crate) fn effective_user() -> u32 {
    imp::effective_user()
}

/// Returns whether another process, or another open file description of this process, holds a lock on the byte at the
/// offset `byte` of `file`. Two processes may check the same byte at the same time without finding each other's check.
#[must_use]
pub(crate) fn is_locked(file: &File, byte: u32) -> bool {
    imp::is_locked(file, byte)
}

/// Takes a lock on the byte at the offset `byte` of `file` for this process, which keeps the lock as long as it does
/// not close the file.
///
/// # Errors
/// Another process holds the lock, or the system has no locks.
pub(crate) fn hold_lock(file: &File, byte: u32) -> io::Result<()> {
    imp::hold_lock(file, byte)
}

/// Returns the name of this machine; `None` if the system does not say it.
#[cfg(feature = "parquet")]
#[must_use]
pub(crate) fn machine_name() -> Option<String> {
    imp::machine_name()
}

/// Returns the number of bytes that a file takes on its disk or, if the system does not know it, the file's length.
#[must_use]
pub(crate) fn size_on_disk(metadata: &Metadata) -> u64 {
    imp::size_on_disk(metadata)
}

/// Returns whether `path` is a path of the null device.
#[must_use]
pub(crate) fn is_null_device(path: &Path) -> bool {
    imp::is_null_device(path)
}

/// Returns whether standard output is the null device; false if the system cannot say it.
#[must_use]
pub(crate) fn is_output_discarded() -> bool {
    imp::is_output_discarded()
}

/// Makes the terminal at standard output interpret colour sequences. Returns whether the terminal does so.
#[must_use]
pub(crate) fn shows_colours() -> bool {
    imp::shows_colours()
}

/// Returns a writer of standard output that reports every error of the system to its caller.
///
/// # Errors
/// This process was started without standard output.
pub(crate) fn standard_output() -> io::Result<impl io::Write + std::fmt::Debug + 'static> {
    imp::standard_output()
}

#[cfg(unix)]
pub(crate) use imp::{is_ignored, send_signal, set_on_signal, wait_until_ended};

#[cfg(not(unix))]
pub(crate) use imp::{handle_interrupts, process_start_since_epoch};

#[cfg(unix)]
mod imp {
    use super::{File, FileId, Metadata, Path, io};
    use std::mem::MaybeUninit;
    use std::os::fd::{AsFd, AsRawFd};
    use std::os::unix::fs::MetadataExt;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use signal_hook::low_level::emulate_default_handler;

    pub(super) fn file_id(_path: &Path, metadata: &Metadata) -> FileId {
        FileId::Inode(metadata.dev(), metadata.ino())
    }

    pub(super) fn owner(metadata: &Metadata) -> u32 {
        metadata.uid()
    }

    pub(super) fn is_null_device(path: &Path) -> bool {
        std::fs::metadata(path).is_ok_and(|found| is_null(&found))
    }

    pub(super) fn is_output_discarded() -> bool {
        standard_output().and_then(|output| output.metadata()).is_ok_and(|found| is_null(&found))
    }

    fn is_null(found: &Metadata) -> bool {
        std::fs::metadata("/dev/null")
            .is_ok_and(|null| (found.dev(), found.ino()) == (null.dev(), null.ino()))
    }

    pub(super) fn shows_colours() -> bool {
        true
    }

    pub(super) fn effective_user() -> u32 {
        // SAFETY: `geteuid` touches no memory of this process, and cannot fail.
        unsafe { libc::geteuid() }
    }

    pub(super) fn size_on_disk(metadata: &Metadata) -> u64 {
        metadata.blocks().saturating_mul(512)
    }

    /// Whether standard output was closed when this process began. Rust's startup code then opens the null device as
    /// standard output, which accepts all bytes.
    static STARTED_WITHOUT_OUTPUT: AtomicBool = AtomicBool::new(false);

    /// The pointer through which the system calls [`check_output`], before Rust's startup code runs.
    #[used]
    #[cfg_attr(target_vendor = "apple", unsafe(link_section = "__DATA,__mod_init_func"))]
    #[cfg_attr(not(target_vendor = "apple"), unsafe(link_section = ".init_array"))]
    static CHECK_AT_START: extern "C" fn() = check_output;

    extern "C" fn check_output() {
        // SAFETY: asks for the flags of a descriptor, open or not.
        let is_closed = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) } == -1;
        STARTED_WITHOUT_OUTPUT.store(is_closed, Ordering::Relaxed);
    }

    /// Returns standard output as a file. The standard library's own writer reports no error if standard output cannot
    /// be written; a file does.
    #[allow(clippy::disallowed_methods, reason = "the console alone asks for it")]
    pub(super) fn standard_output() -> io::Result<File> {
        if STARTED_WITHOUT_OUTPUT.load(Ordering::Relaxed) {
            return Err(io::Error::from_raw_os_error(libc::EBADF));
        }
        io::stdout().as_fd().try_clone_to_owned().map(File::from)
    }

    /// Returns the description, as `fcntl` takes it, of a write lock on the byte at the offset `byte`.
    fn lock_on(byte: u32) -> libc::flock {
        // SAFETY: `flock` is plain data of the operating system, valid when all zero.
        let mut lock: libc::flock = unsafe { MaybeUninit::zeroed().assume_init() };
        lock.l_type = libc::F_WRLCK as libc::c_short;
        lock.l_whence = libc::SEEK_SET as libc::c_short;
        lock.l_start = libc::off_t::from(byte);
        lock.l_len = 1;
        lock
    }

    #[cfg(feature = "parquet")]
    pub(super) fn machine_name() -> Option<String> {
        let mut name = [0; 256];
        // SAFETY: the system writes at most as many bytes as the array has.
        let answer = unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len()) };
        let end = name.iter().position(|byte| *byte == 0).filter(|_| answer == 0)?;
        String::from_utf8(name[..end].to_vec()).ok()
    }

    pub(super) fn hold_lock(file: &File, byte: u32) -> io::Result<()> {
        let lock = lock_on(byte);
        // SAFETY: the descriptor is open as long as `file` is borrowed; F_SETLK reads one `flock`.
        match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLK, &raw const lock) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    pub(super) fn is_locked(file: &File, byte: u32) -> bool {
        let mut lock = lock_on(byte);
        // SAFETY: the descriptor is open as long as `file` is borrowed; F_GETLK writes one `flock`, to
        // `lock`.
        let answer = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETLK, &raw mut lock) };
        answer == 0 && lock.l_type != libc::F_UNLCK as libc::c_short
    }

    /// Returns whether this process ignores `signal`.
    #[must_use]
    pub(crate) fn is_ignored(signal: i32) -> bool {
        // SAFETY: `sigaction` is plain data, valid when all zero.
        let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
        // SAFETY: no new action is given; the old one is written to `action`.
        let answer = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) };
        answer == 0 && action.sa_sigaction == libc::SIG_IGN
    }

    /// Installs a handler for `signal`. The handler sets `word` to true; if `word` is true already, the signal has its
    /// default effect instead. One handler does both, so at every moment the signal has exactly one of the two effects.
    ///
    /// # Errors
    /// The signal cannot be handled; it keeps its effect.
    pub(crate) fn set_on_signal(signal: i32, word: Arc<AtomicBool>) -> io::Result<()> {
        let action = move || {
            if word.swap(true, Ordering::SeqCst) {
                let _ = emulate_default_handler(signal);
            }
        };
        // SAFETY: the action changes a word and calls a function that is allowed in a handler by its documentation.
        unsafe { signal_hook::low_level::register(signal, action) }.map(drop)
    }

    /// Sends `signal` to the process `pid`, which must be a child that is not reaped yet.
    pub(crate) fn send_signal(pid: u32, signal: i32) {
        if let Ok(pid) = libc::pid_t::try_from(pid) {
            // SAFETY: `kill` touches no memory of this process.
            unsafe { libc::kill(pid, signal) };
        }
    }

    /// Waits until the child `pid` has ended, but does not reap it, so that no other process gets its pid.
    ///
    /// # Errors
    /// `pid` is not a child of this process.
    pub(crate) fn wait_until_ended(pid: u32) -> io::Result<()> {
        loop {
            let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
            let flags = libc::WEXITED | libc::WNOWAIT;
            // SAFETY: `info` is writable memory for one `siginfo_t`.
            if unsafe { libc::waitid(libc::P_PID, pid, info.as_mut_ptr(), flags) } == 0 {
                return Ok(());
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
    }
}

#[cfg(not(unix))]
mod imp {
    use super::{File, FileId, Metadata, Path, io};
    use std::os::windows::io::AsRawHandle;
    use std::sync::OnceLock;
    use std::time::Duration;

    use windows_sys::Win32::Foundation::{
        CloseHandle, ERROR_INVALID_PARAMETER, ERROR_LOCK_VIOLATION, FILETIME, INVALID_HANDLE_VALUE,
        STILL_ACTIVE,
    };
    use windows_sys::Win32::Storage::FileSystem::{
        LOCKFILE_FAIL_IMMEDIATELY, LockFile, LockFileEx, UnlockFile,
    };
    use windows_sys::Win32::System::Console::{
        CTRL_BREAK_EVENT, ENABLE_VIRTUAL_TERMINAL_PROCESSING, GetConsoleMode, GetStdHandle,
        STD_OUTPUT_HANDLE, SetConsoleCtrlHandler, SetConsoleMode,
    };
    use windows_sys::Win32::System::IO::{OVERLAPPED, OVERLAPPED_0, OVERLAPPED_0_0};
    use windows_sys::Win32::System::Threading::{
        GetExitCodeProcess, GetProcessTimes, OpenProcess, PROCESS_QUERY_LIMITED_INFORMATION,
    };

    /// The upper 32 bits of the offset at which a byte is locked; the lower 32 bits are the number of the byte for
    /// which the lock stands. On this system other processes cannot read a locked byte, so locks are taken far behind
    /// the end of the file.
    const LOCK_OFFSET: u32 = 1 << 30;

    /// Returns the time from 1970 to the beginning of the living process `pid`; `Some(None)` if this process may not
    /// query that process, and `None` if no such process lives.
    pub(crate) fn process_start_since_epoch(pid: u32) -> Option<Option<Duration>> {
        /// The time from 1601, when the system's times begin, to 1970, in units of 100 ns.
        const EPOCH: u64 = 116_444_736_000_000_000;
        let (mut status, mut began, mut others) = (0, FILETIME::default(), [FILETIME::default(); 3]);
        let [ended, in_system, in_program] = &mut others;
        // SAFETY: the handle is this function's own; all results are plain memory.
        let is_process_readable = unsafe {
            let process = OpenProcess(PROCESS_QUERY_LIMITED_INFORMATION, 0, pid);
            if process.is_null() {
                let error = io::Error::last_os_error().raw_os_error();
                return (error != Some(ERROR_INVALID_PARAMETER as i32)).then_some(None);
            }
            let is_process_readable = GetExitCodeProcess(process, &raw mut status) != 0
                && GetProcessTimes(process, &raw mut began, ended, in_system, in_program) != 0;
            CloseHandle(process);
            is_process_readable
        };
        if is_process_readable && status != STILL_ACTIVE as u32 {
            return None;
        }
        let began = u64::from(began.dwHighDateTime) << 32 | u64::from(began.dwLowDateTime);
        let units = is_process_readable.then_some(began).and_then(|began| began.checked_sub(EPOCH));
        Some(units.map(|units| Duration::from_nanos(units.saturating_mul(100))))
    }

    /// The function with which [`handle_interrupts`] was called first.
    static DECIDE: OnceLock<fn(bool) -> bool> = OnceLock::new();

    /// Makes the system call `decide`, on a thread of its own, when the user asks this process to end. The argument of
    /// `decide` is true if the user did so by the keyboard, and false if by closing the console. If `decide` returns
    /// true after a request by the keyboard, the process continues; after the console was closed, the system ends the
    /// process in any case.
    pub(crate) fn handle_interrupts(decide: fn(bool) -> bool) {
        unsafe extern "system" fn handle(event: u32) -> i32 {
            // The events of the keyboard have the lowest numbers.
            DECIDE.get().map_or(0, |decide| i32::from(decide(event <= CTRL_BREAK_EVENT)))
        }
        if DECIDE.set(decide).is_ok() {
            // SAFETY: the function lives as long as the process and may be called on any thread.
            unsafe { SetConsoleCtrlHandler(Some(handle), 1) };
        }
    }

    #[cfg(feature = "parquet")]
    pub(super) fn machine_name() -> Option<String> {
        crate::os::environment::value_of("COMPUTERNAME")?.into_string().ok()
    }

    /// Returns whether `path` names the null device: its last part is `NUL`, in upper or lower case, perhaps with
    /// colons at the end. The null device has that name in every directory.
    pub(super) fn is_null_device(path: &Path) -> bool {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.trim_end_matches(':').trim_end().eq_ignore_ascii_case("nul")
    }

    pub(super) fn is_output_discarded() -> bool {
        false
    }

    /// Returns the standard library's writer, which converts text for a console. If standard output is missing, returns
    /// an error, because that writer would silently drop all text.
    #[allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "the console alone asks for it")]
    pub(super) fn standard_output() -> io::Result<io::Stdout> {
        // SAFETY: this only queries a handle.
        let handle = unsafe { GetStdHandle(STD_OUTPUT_HANDLE) };
        if handle.is_null() || handle == INVALID_HANDLE_VALUE {
            return Err(io::Error::other(
                "this process has no standard output; with -o FILE, most commands write to a file",
            ));
        }
        Ok(io::stdout())
    }

    pub(super) fn shows_colours() -> bool {
        let mut mode = 0;
        // SAFETY: the handle is this process's own, or none, which the calls refuse; the mode is plain memory.
        unsafe {
            let console = GetStdHandle(STD_OUTPUT_HANDLE);
            GetConsoleMode(console, &raw mut mode) == 0
                || SetConsoleMode(console, mode | ENABLE_VIRTUAL_TERMINAL_PROCESSING) != 0
        }
    }

    pub(super) fn file_id(path: &Path, _metadata: &Metadata) -> FileId {
        match trace_store::sys::target_identity(path) {
            Ok(found) => FileId::Inode(found.device, found.inode),
            Err(_) => FileId::Path(path.canonicalize().unwrap_or_else(|_| path.to_owned())),
        }
    }

    pub(super) fn owner(_metadata: &Metadata) -> u32 {
        0
    }

    pub(super) fn effective_user() -> u32 {
        0
    }

    pub(super) fn size_on_disk(metadata: &Metadata) -> u64 {
        metadata.len()
    }

    pub(super) fn hold_lock(file: &File, byte: u32) -> io::Result<()> {
        // SAFETY: the handle is open as long as `file` is borrowed; a range need not be in the file.
        match unsafe { LockFile(file.as_raw_handle(), byte, LOCK_OFFSET, 1, 0) } {
            0 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    }

    /// Returns whether another process holds a lock on the byte: tries to take a shared lock on it, and releases the
    /// lock at once. A shared lock does not disturb such checks by other processes.
    pub(super) fn is_locked(file: &File, byte: u32) -> bool {
        let handle = file.as_raw_handle();
        let offset = OVERLAPPED_0_0 { Offset: byte, OffsetHigh: LOCK_OFFSET };
        let mut at = OVERLAPPED { Anonymous: OVERLAPPED_0 { Anonymous: offset }, ..OVERLAPPED::default() };
        // SAFETY: the handle is open as long as `file` is borrowed; `at` outlives the call, which does not wait.
        if unsafe { LockFileEx(handle, LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &raw mut at) } == 0 {
            return io::Error::last_os_error().raw_os_error() == Some(ERROR_LOCK_VIOLATION as i32);
        }
        // SAFETY: this releases the lock that was taken above.
        unsafe { UnlockFile(handle, byte, LOCK_OFFSET, 1, 0) };
        false
    }
}
