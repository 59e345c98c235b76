//! System calls of Linux that are made without the C library, for the work of traced threads between two records.
//!
//! A program may replace functions of the C library (`getpid`, `clock_gettime`, `syscall`) by its own, whose calls
//! are traced. If the tracer called these functions for a record, each of the calls would make a record itself, for
//! which the tracer would call the functions again, without end.
#![allow(unsafe_code, reason = "system calls; each argued where it stands")]

use std::ffi::{c_int, c_long};
use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// Makes a system call of up to six arguments; returns its result, or the negative of an error's number. Does not
/// change `errno`. This is async-signal-safe.
///
/// # Safety
/// The effect of the system call with these arguments is sound.
#[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
unsafe fn call(number: c_long, arguments: [usize; 6]) -> isize {
    let [first, second, third, fourth, fifth, sixth] = arguments;
    let result: isize;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the kernel's convention: the result is in rax, and rcx and r11 are changed.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") first,
            in("rsi") second,
            in("rdx") third,
            in("r10") fourth,
            in("r8") fifth,
            in("r9") sixth,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack, preserves_flags)
        );
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: the kernel's convention: the result is in x0, and nothing else is changed.
    unsafe {
        std::arch::asm!(
            "svc 0",
            in("x8") number,
            inlateout("x0") first => result,
            in("x1") second,
            in("x2") third,
            in("x3") fourth,
            in("x4") fifth,
            in("x5") sixth,
            options(nostack, preserves_flags)
        );
    }
    result
}

/// Makes a system call of up to six arguments through the C library; returns its result, or the negative of an error's
/// number. Does not change `errno`.
///
/// # Safety
/// The effect of the system call with these arguments is sound.
#[cfg(not(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri))))]
unsafe fn call(number: c_long, arguments: [usize; 6]) -> isize {
    let _errno = super::keep_errno();
    let [first, second, third, fourth, fifth, sixth] = arguments;
    // SAFETY: the caller's promise; surplus arguments are ignored.
    let result = unsafe { libc::syscall(number, first, second, third, fourth, fifth, sixth) };
    let error = || std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL);
    if result == -1 { -(error() as isize) } else { result as isize }
}

/// Returns the calling process's id.
pub(crate) fn process_id() -> u32 {
    // SAFETY: has no arguments, and cannot fail.
    unsafe { call(libc::SYS_getpid, [0; 6]) as u32 }
}

/// Returns the calling thread's id, as `ps -L` and debuggers show it.
pub(crate) fn thread_id() -> u64 {
    // SAFETY: as above.
    unsafe { call(libc::SYS_gettid, [0; 6]) as u64 }
}

/// Reads the system's monotonic clock in nanoseconds: with a system call, which takes longer than the C library's
/// function.
pub(crate) fn monotonic_ns() -> u64 {
    if cfg!(target_pointer_width = "32") {
        // On these systems the kernel has two calls, which write two kinds of times.
        return trace_store::sys::monotonic_ns();
    }
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let to = std::ptr::from_mut(&mut now) as usize;
    // SAFETY: `now` may be written.
    unsafe { call(libc::SYS_clock_gettime, [libc::CLOCK_MONOTONIC as usize, to, 0, 0, 0, 0]) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Returns whether thread `tid` of this process still runs.
pub(crate) fn is_thread_alive(tid: u64) -> bool {
    // SAFETY: signal 0 only queries.
    let result = unsafe { call(libc::SYS_tgkill, [process_id() as usize, tid as usize, 0, 0, 0, 0]) };
    result != -(libc::ESRCH as isize)
}

/// Sleeps while `word` is `expected`, at most `timeout`; may wake without reason.
pub(crate) fn wait_word(word: &AtomicU32, expected: u32, timeout: Duration) {
    let timeout = libc::timespec {
        tv_sec: timeout.as_secs() as libc::time_t,
        tv_nsec: timeout.subsec_nanos() as libc::c_long,
    };
    let timeout = std::ptr::from_ref(&timeout) as usize;
    // SAFETY: the word and the time outlive the call.
    unsafe { futex(word, libc::FUTEX_WAIT, expected as usize, timeout) };
}

/// Wakes `count` of the threads that sleep on `word`. Async-signal-safe; keeps `errno`.
pub(crate) fn wake_word(word: &AtomicU32, count: i32) {
    // SAFETY: the word outlives the call.
    unsafe { futex(word, libc::FUTEX_WAKE, count as usize, 0) };
}

/// Makes the system call `futex`.
///
/// # Safety
/// The effect of the call with these arguments and a word of this process is sound.
unsafe fn futex(word: &AtomicU32, what: c_int, value: usize, timeout: usize) {
    let what = (what | libc::FUTEX_PRIVATE_FLAG) as usize;
    // SAFETY: the caller's promise.
    unsafe { call(libc::SYS_futex, [word.as_ptr() as usize, what, value, timeout, 0, 0]) };
}
