//! A slow file system, or one without links, for the tests: replacements of the calls of the C library that change
//! trace files, loaded before the real ones by `LD_PRELOAD`.
//!
//! `SLOW_FILES=slow` splits each write into parts with pauses between them, reports some writes as short, and
//! pauses around every change of a name or a length: a kill nearly always hits the middle of something.
//! `SLOW_FILES=nolinks` also refuses links. `SLOW_FILES=norest` does something else: it reports that there is no
//! space for the rest of a file that was reserved in part before.
#![cfg(target_os = "linux")]
#![allow(unsafe_code, reason = "takes the place of functions of the C library; each passes its arguments on")]

use libc::{c_char, c_int, c_long, c_void, off64_t, size_t, ssize_t};
use std::ffi::CStr;
use std::sync::atomic::{AtomicU64, Ordering};

/// The length of a pause, in microseconds.
const PAUSE: c_long = 300;
/// The number of parts of a write.
const PARTS: usize = 4;

fn mode() -> &'static [u8] {
    // SAFETY: no code changes the environment of the programs that load this.
    unsafe {
        let mode = libc::getenv(c"SLOW_FILES".as_ptr());
        if mode.is_null() { b"" } else { CStr::from_ptr(mode).to_bytes() }
    }
}

fn pause() {
    let time = libc::timespec { tv_sec: 0, tv_nsec: PAUSE * 1000 };
    // SAFETY: the time is valid for the call.
    unsafe { libc::nanosleep(&time, std::ptr::null_mut()) };
}

fn is_slow() -> bool {
    !mode().is_empty() && mode() != b"norest"
}

fn is_trace_path(path: &[u8]) -> bool {
    is_slow() && path.windows(7).any(|part| part == b".trace.")
}

/// Returns whether this is the kernel's name for an open file that was made without a name; the kernel still uses
/// that name after the file has got another one.
fn is_unnamed_file_path(path: &[u8]) -> bool {
    is_slow() && path.windows(2).any(|part| part == b"/#")
}

/// Returns whether a descriptor of the calling thread, which may have descriptors of its own, is a trace file, or
/// one that is being made. Allocates nothing.
fn is_trace(fd: c_int) -> bool {
    let mut link = *b"/proc/thread-self/fd/\0\0\0\0\0\0\0\0\0\0\0\0";
    let mut digits = [0; 10];
    let (mut at, mut rest) = (digits.len(), fd.unsigned_abs());
    while at > 0 && (rest > 0 || at == digits.len()) {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    let start = b"/proc/thread-self/fd/".len();
    link[start..start + digits.len() - at].copy_from_slice(&digits[at..]);
    let mut path = [0u8; 1024];
    // SAFETY: the link is a C string, the path may be written for its length.
    let bytes = unsafe { libc::readlink(link.as_ptr().cast(), path.as_mut_ptr().cast(), path.len()) };
    let path = &path[..usize::try_from(bytes).unwrap_or(0)];
    is_trace_path(path) || is_unnamed_file_path(path)
}

/// Returns whether the path of a call names a trace file.
///
/// # Safety
/// The path is a C string.
unsafe fn names_trace(path: *const c_char) -> bool {
    // SAFETY: the caller promises a C string.
    is_trace_path(unsafe { CStr::from_ptr(path) }.to_bytes())
}

/// Writes to a file, in parts if it is a trace file.
///
/// # Safety
/// The conditions are those of `write` of the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn write(fd: c_int, bytes: *const c_void, count: size_t) -> ssize_t {
    // SAFETY: the caller's promise holds for parts of the bytes that it gave.
    let part = |from: usize, to: usize| unsafe {
        libc::syscall(libc::SYS_write, fd, bytes.byte_add(from), to - from) as ssize_t
    };
    if count < PARTS || !is_trace(fd) {
        return part(0, count);
    }
    static WRITES: AtomicU64 = AtomicU64::new(0);
    let short = WRITES.fetch_add(1, Ordering::Relaxed) % 3 == 2;
    let parts = if short { PARTS - 1 } else { PARTS };
    let mut written = 0;
    for n in 1..=parts {
        pause();
        let result = part(written, count * n / PARTS);
        if result < 0 {
            return if written > 0 { written as ssize_t } else { result };
        }
        written += result as usize;
    }
    pause();
    written as ssize_t
}

/// Changes a file's length, with pauses if it is a trace file.
///
/// # Safety
/// The conditions are those of `ftruncate64` of the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ftruncate64(fd: c_int, length: off64_t) -> c_int {
    let slow = is_trace(fd);
    around(slow, || {
        // SAFETY: the caller's arguments are passed on.
        unsafe { libc::syscall(libc::SYS_ftruncate, fd, length) as c_int }
    })
}

/// Makes a link, as [`linkat`] does.
///
/// # Safety
/// The conditions are those of `link` of the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn link(from: *const c_char, to: *const c_char) -> c_int {
    // SAFETY: the caller's arguments are passed on.
    unsafe { linkat(libc::AT_FDCWD, from, libc::AT_FDCWD, to, 0) }
}

/// Makes a link, with pauses if it is to a trace file; refuses that with `nolinks`.
///
/// # Safety
/// The conditions are those of `linkat` of the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linkat(
    from_dir: c_int,
    from: *const c_char,
    to_dir: c_int,
    to: *const c_char,
    flags: c_int,
) -> c_int {
    // SAFETY: a path given to `linkat` is a C string.
    let slow = unsafe { names_trace(to) };
    if slow && mode() == b"nolinks" {
        // SAFETY: the location is the calling thread's own.
        unsafe { *libc::__errno_location() = libc::EPERM };
        return -1;
    }
    around(slow, || {
        // SAFETY: the caller's arguments are passed on.
        unsafe { libc::syscall(libc::SYS_linkat, from_dir, from, to_dir, to, flags) as c_int }
    })
}

/// Renames a file, with pauses if it becomes a trace file.
///
/// # Safety
/// The conditions are those of `rename` of the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rename(from: *const c_char, to: *const c_char) -> c_int {
    // SAFETY: a path given to `rename` is a C string.
    let slow = unsafe { names_trace(to) };
    around(slow, || {
        // SAFETY: the caller's arguments are passed on.
        unsafe { libc::syscall(libc::SYS_renameat, libc::AT_FDCWD, from, libc::AT_FDCWD, to) as c_int }
    })
}

/// Removes a file, with pauses if it is a trace file.
///
/// # Safety
/// The conditions are those of `unlink` of the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unlink(path: *const c_char) -> c_int {
    // SAFETY: a path given to `unlink` is a C string.
    let slow = unsafe { names_trace(path) };
    around(slow, || {
        // SAFETY: the caller's arguments are passed on.
        unsafe { libc::syscall(libc::SYS_unlinkat, libc::AT_FDCWD, path, 0) as c_int }
    })
}

/// Reserves space. With `norest`, returns `ENOSPC` for the rest of a file that was reserved in part before.
///
/// # Safety
/// The conditions are those of `posix_fallocate` of the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_fallocate(fd: c_int, offset: off64_t, length: off64_t) -> c_int {
    // SAFETY: the result may be written, and is read only if the call has succeeded; the other arguments are passed
    // on.
    unsafe {
        let mut found: libc::stat = std::mem::zeroed();
        let has_part = libc::fstat(fd, &mut found) == 0 && found.st_blocks > 0;
        if mode() == b"norest" && offset == 0 && has_part {
            return libc::ENOSPC;
        }
        match libc::syscall(libc::SYS_fallocate, fd, 0, offset, length) {
            0 => 0,
            _ => *libc::__errno_location(),
        }
    }
}

/// Pauses before and after a call.
fn around(slow: bool, call: impl FnOnce() -> c_int) -> c_int {
    if slow {
        pause();
    }
    let result = call();
    if slow {
        pause();
    }
    result
}
