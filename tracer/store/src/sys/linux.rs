//! The functions of this folder for Linux.
#![allow(unsafe_code, reason = "calls of the C library; each argued where it stands")]

use std::ffi::CString;
use std::fs::{File, Permissions};
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::WallQuality;

/// Reserves the space of the file's first `bytes` bytes. Without that, an access to a mapping of the file could end the
/// process by `SIGBUS` when the file system has no space left.
pub fn reserve(file: &File, bytes: u64) -> io::Result<()> {
    reserve_part(file, 0, bytes)
}

/// Reserves space for `bytes` bytes of the file from `offset` on; makes the file longer if necessary.
pub fn reserve_part(file: &File, offset: u64, bytes: u64) -> io::Result<()> {
    // SAFETY: the descriptor is open.
    match unsafe { libc::posix_fallocate(file.as_raw_fd(), offset as libc::off_t, bytes as libc::off_t) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// Makes the kernel map the pages of a shared mapping in advance, so that the first thread that accesses them need not
/// wait for the kernel. Kernels before 5.14 cannot do that; there, each page is mapped when it is first accessed.
pub fn populate(start: *mut u8, bytes: usize) {
    // SAFETY: this is a mapping of the caller, whose content does not change.
    unsafe { libc::madvise(start.cast(), bytes, libc::MADV_POPULATE_WRITE) };
}

/// Makes a file in `directory` that has no name, and that only its owner can read and write. Returns `None` if the file
/// system does not support files without a name.
///
/// # Errors
/// No file can be made there.
pub fn create_unnamed_file(directory: &Path) -> io::Result<Option<File>> {
    let mut options = std::fs::OpenOptions::new();
    match options.read(true).write(true).mode(0o600).custom_flags(libc::O_TMPFILE).open(directory) {
        Err(error) if is_without_unnamed_files(&error) => Ok(None),
        Err(error) => Err(error),
        Ok(file) => {
            // The umask may have removed more rights; a file system may not support modes.
            let _ = file.set_permissions(Permissions::from_mode(0o600));
            Ok(Some(file))
        }
    }
}

/// Gives a name to a file of [`create_unnamed_file`]. Must only be called if no other thread can close the file's
/// descriptor, because the number of the descriptor stands for the file.
///
/// # Errors
/// The name exists already, the file system has no links, or `/proc` is not mounted.
pub fn link_unnamed_file(file: &File, path: &Path) -> io::Result<()> {
    let from = CString::new(format!("/proc/thread-self/fd/{}", file.as_raw_fd()))?;
    let to = CString::new(path.as_os_str().as_bytes())?;
    let here = libc::AT_FDCWD;
    // SAFETY: both are C strings that outlive the call.
    match unsafe { libc::linkat(here, from.as_ptr(), here, to.as_ptr(), libc::AT_SYMLINK_FOLLOW) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Checks that this user may make files in `directory`. Makes no file: on a disk, that would take longer
/// than all other steps of a run's start. A sandbox may still refuse a file that the file system would accept.
///
/// # Errors
/// No file can be made, for the reason in the error.
pub fn check_file_creation(directory: &Path, _probe: &Path) -> io::Result<()> {
    let path = CString::new(directory.as_os_str().as_bytes())?;
    let wanted = libc::W_OK | libc::X_OK;
    // SAFETY: a C string that outlives the call.
    if unsafe { libc::faccessat(libc::AT_FDCWD, path.as_ptr(), wanted, libc::AT_EACCESS) } != 0 {
        return Err(io::Error::last_os_error());
    }
    if directory.is_dir() { Ok(()) } else { Err(io::ErrorKind::NotADirectory.into()) }
}

/// Returns whether an error of `create_unnamed_file` means that the file system does not support files without a name.
fn is_without_unnamed_files(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EISDIR | libc::EINVAL))
}

/// Whether a mapping of a file keeps the locks that were taken through the descriptor with which it was mapped, even
/// after the descriptor is closed.
pub const MAPPINGS_HOLD_LOCKS: bool = true;

/// Takes a lock on one byte of the file, or fails at once. The lock belongs to the open file description, and is held
/// as long as any descriptor or mapping refers to the description. While it is held, no other description of the file
/// can get it, not even in this process.
pub fn hold_lock(file: &File, byte: u32) -> io::Result<()> {
    super::unix::set_lock(file, libc::F_OFD_SETLK, byte)
}

/// Starts `work` on a thread of its own that has only the rights to files of the user `user`, and of the group with the
/// same number. If the thread cannot get these rights, `work` is dropped. The process must belong to root. The caller
/// does not wait for the thread.
///
/// The thread changes only the ids that the kernel checks for files (`setfsuid`), and keeps the ids that the kernel
/// checks for signals. So the user cannot end this process.
///
/// # Errors
/// No thread can be made.
pub fn begin_as_user(user: u32, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let take_rights = move || {
        // SAFETY: these calls change only the calling thread: the first is the system call itself, not the C
        // library's function. With an invalid id, the others change nothing and return the current id.
        let taken = unsafe {
            libc::syscall(libc::SYS_setgroups, 0, std::ptr::null::<libc::gid_t>()) == 0 && {
                libc::setfsgid(user);
                libc::setfsuid(user);
                let (group, now) = (libc::setfsgid(u32::MAX), libc::setfsuid(u32::MAX));
                [group, now].iter().all(|id| *id as u32 == user)
            }
        };
        if taken {
            super::unix::set_file_user(user);
        }
        taken
    };
    let thread = std::thread::Builder::new();
    thread
        .spawn(move || {
            if take_rights() {
                work()
            }
        })
        .map(drop)
}

/// Makes a file that no other process can open, and that disappears with the process. If possible, the file is on a
/// disk and not in memory.
///
/// # Errors
/// No such file can be made.
pub fn create_scratch_file() -> io::Result<File> {
    // `/var/tmp` is on a disk even if the system's directory for temporary files is in memory.
    let large = crate::variables::value("TMPDIR").is_none().then(|| PathBuf::from("/var/tmp"));
    let places = large.into_iter().chain([std::env::temp_dir()]);
    if let Some(file) = places.filter_map(|place| create_unnamed_file(&place).ok().flatten()).next() {
        return Ok(file);
    }
    // SAFETY: the name is a C string; the descriptor is a new one that no other code has.
    unsafe {
        match libc::memfd_create(c"tracer".as_ptr(), libc::MFD_CLOEXEC) {
            -1 => Err(io::Error::last_os_error()),
            file => Ok(File::from_raw_fd(file)),
        }
    }
}

/// Returns the next range of the file's first `length` bytes, at the position `at` or after it, that contains data;
/// `None` if only a hole (a range that was never written) follows. If the file system does not report holes, everything
/// counts as data.
pub fn next_data(file: &File, at: u64, length: u64) -> Option<Range<u64>> {
    let seek = |from: u64, what| {
        // SAFETY: the descriptor is open; no code relies on its position.
        let found = unsafe { libc::lseek(file.as_raw_fd(), from as libc::off_t, what) };
        u64::try_from(found).map_err(|_| io::Error::last_os_error())
    };
    if at >= length {
        return None;
    }
    let start = match seek(at, libc::SEEK_DATA) {
        Ok(start) => start,
        Err(error) if error.raw_os_error() == Some(libc::ENXIO) => return None,
        Err(_) => return Some(at..length),
    };
    let end = seek(start, libc::SEEK_HOLE).unwrap_or(length).min(length);
    (start < end).then_some(start..end)
}

/// Excludes a mapping from forked children. A child that was forked before this call still has the mapping.
pub fn exclude_from_forks(start: *mut u8, bytes: usize) -> io::Result<()> {
    // SAFETY: this is a mapping of the caller, whose content does not change.
    if unsafe { libc::madvise(start.cast(), bytes, libc::MADV_DONTFORK) } == 0 {
        return Ok(());
    }
    Err(io::Error::last_os_error())
}

/// Gives the calling thread a table of descriptors of its own, in which only `/dev/null` is open, as 0, 1 and 2: no
/// other thread of the process can close a file that this thread opens, and this thread does not keep the files of
/// other threads open.
///
/// # Errors
/// The system or a sandbox refuses a table of its own. The thread keeps the descriptors that it had.
pub fn take_own_descriptors() -> io::Result<()> {
    if !is_call_allowed(|| unshare_descriptor_table().is_some()) {
        return Err(io::Error::other("a sandbox would end the process for a call of close_range or unshare"));
    }
    replace_descriptor_table()?;
    for _ in 0..3 {
        // Text that std writes to its standard streams must not end up in a file of ours. Without `/dev`, a
        // descriptor that can be neither read nor written takes the place. SAFETY: the names are C strings.
        unsafe {
            let place = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
            if place == -1 {
                libc::open(c"/".as_ptr(), libc::O_PATH | libc::O_CLOEXEC);
            }
        }
    }
    Ok(())
}

/// Makes the calling thread stop sharing its table of descriptors. Returns true if the thread now has an empty table,
/// false if it has a copy of the shared table, and `None` if the system refuses both. Makes only system calls.
fn unshare_descriptor_table() -> Option<bool> {
    // Since Linux 5.9 this is one step, without copies that must be closed. SAFETY: from here on this thread uses no
    // descriptor that was opened before.
    let emptied = unsafe {
        libc::syscall(libc::SYS_close_range, 0, libc::c_uint::MAX, libc::CLOSE_RANGE_UNSHARE as libc::c_uint)
    };
    // SAFETY: the call touches no memory.
    (emptied == 0 || unsafe { libc::unshare(libc::CLONE_FILES) } == 0).then_some(emptied == 0)
}

/// Gives the calling thread an empty table of descriptors, in place of the table that it shares with other threads.
fn replace_descriptor_table() -> io::Result<()> {
    match unshare_descriptor_table() {
        Some(true) => return Ok(()),
        Some(false) => {}
        None => return Err(io::Error::last_os_error()),
    }
    // Closes the copies of the host's descriptors: a pipe that stays open never ends for its reader.
    let names = std::fs::read_dir("/proc/thread-self/fd").into_iter().flatten().flatten();
    let numbers: Vec<libc::c_int> =
        names.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    let all = 0..libc::c_int::try_from(super::descriptor_limit()).unwrap_or(libc::c_int::MAX).min(1 << 16);
    let close = |number| {
        // SAFETY: the table is this thread's own, and contains only copies that no code uses.
        unsafe { libc::close(number) };
    };
    if numbers.is_empty() {
        all.for_each(close)
    } else {
        numbers.into_iter().for_each(close)
    }
    Ok(())
}

/// Returns whether a filter of system calls (seccomp) applies to the calling thread.
fn has_seccomp_filter() -> bool {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let mode = status.lines().find_map(|line| line.strip_prefix("Seccomp:"));
    mode.is_some_and(|mode| mode.trim() != "0")
}

/// Returns whether `call`, which makes unusual system calls, is safe: a filter of system calls (seccomp) might end the
/// process because of them. If there is a filter, a child process makes the calls first, and the result shows whether
/// the child survives. (If the filter also ends processes that fork, even this check is fatal; use
/// `TRACER_DESCRIPTORS=shared` then.)
fn is_call_allowed(call: fn() -> bool) -> bool {
    if !has_seccomp_filter() {
        return true;
    }
    // SAFETY: the child has a copy of this memory and only this thread, and makes only system calls: it
    // takes no lock that another thread may have held. It sends no signal when it ends, so the host does not
    // notice it.
    unsafe {
        match libc::syscall(libc::SYS_clone, 0, 0, 0, 0, 0) {
            -1 => false,
            0 => {
                // If the filter ends the child, there must be no core dump.
                let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
                libc::setrlimit(libc::RLIMIT_CORE, &none);
                libc::syscall(libc::SYS_exit_group, libc::c_int::from(!call()));
                false
            }
            child => {
                let mut status = 0;
                let child = child as libc::pid_t;
                while libc::waitpid(child, &mut status, libc::__WALL) == -1 {
                    if io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
                        return false;
                    }
                }
                // The caller finds out whether the calls are refused.
                libc::WIFEXITED(status)
            }
        }
    }
}

/// Returns the directory that contains the directories of this user's runs. It is in memory (`/dev/shm`) if the system
/// has that file system.
pub fn runtime_directory() -> PathBuf {
    let [shared, temporary] = both_runtime_directories();
    if shared.parent().is_some_and(Path::is_dir) { shared } else { temporary }
}

/// Returns the directories that may contain the directories of this user's runs. For root, also returns those of all
/// other users.
pub fn runtime_directories() -> Vec<PathBuf> {
    let own = both_runtime_directories();
    let mut all = own.to_vec();
    if super::effective_user() == 0 {
        let places = own.iter().filter_map(|own| std::fs::read_dir(own.parent()?).ok()).flatten().flatten();
        all.extend(
            places.map(|entry| entry.path()).filter(|path| !own.contains(path) && is_named_by_owner(path)),
        );
    }
    all
}

/// Returns whether `path` is a directory of runs, named after its owner: `tracer-` and the owner's user id.
fn is_named_by_owner(path: &Path) -> bool {
    let user = path.file_name().and_then(|name| name.to_str()?.strip_prefix("tracer-")?.parse().ok());
    user.is_some() && super::private_directory_of(path) == user
}

fn both_runtime_directories() -> [PathBuf; 2] {
    // SAFETY: the call only reads an id.
    let name = format!("tracer-{}", unsafe { libc::geteuid() });
    [Path::new("/dev/shm").join(&name), std::env::temp_dir().join(name)]
}

/// Returns the random id that the kernel has chosen when the machine was started.
pub fn boot_id() -> Vec<u8> {
    std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim_ascii().to_vec()
}

/// Returns whether the kernel relies on the processor's counter being the same on all cores.
///
/// The kernel removes `tsc` from its list of available clock sources if it finds the counters unstable or different.
pub fn counter_is_trusted() -> bool {
    let path = "/sys/devices/system/clocksource/clocksource0/available_clocksource";
    match std::fs::read_to_string(path) {
        Ok(list) => list.split_whitespace().any(|name| name == "tsc" || name == "arch_sys_counter"),
        Err(_) => true,
    }
}

/// Reads the raw monotonic clock (`CLOCK_MONOTONIC_RAW`), in nanoseconds. The clock is never adjusted, and stands still
/// while the machine is suspended.
pub fn raw_ns() -> Option<u64> {
    super::unix::clock_ns(libc::CLOCK_MONOTONIC_RAW)
}

/// Reads the time since the machine was started, in nanoseconds. It includes the time for which the machine was
/// suspended.
pub fn since_boot_ns() -> Option<u64> {
    super::unix::clock_ns(libc::CLOCK_BOOTTIME)
}

/// Reads how accurate the wall clock is, without changing anything. If a filter of system calls (seccomp) applies to
/// the thread, makes no system call, because the filter might end the process, and returns no values.
pub fn wall_quality() -> WallQuality {
    if has_seccomp_filter() {
        return WallQuality::default();
    }
    // SAFETY: a `timex` of zeros asks for nothing to be changed, and is plain memory.
    let (state, adjtimex_result) = unsafe {
        let mut adjtimex_result: libc::timex = std::mem::zeroed();
        (libc::adjtimex(&mut adjtimex_result), adjtimex_result)
    };
    let Ok(state) = u32::try_from(state) else { return WallQuality::default() };
    // `maxerror` is in microseconds.
    let error = u64::try_from(adjtimex_result.maxerror).ok().map(|error| error.saturating_mul(1000));
    WallQuality { error, status: u32::try_from(adjtimex_result.status).ok(), state: Some(state) }
}
