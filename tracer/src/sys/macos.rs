//! The functions of the module `sys` for macOS, and for other Unix systems except Linux. The code is type-checked, but
//! was not run yet.
#![allow(unsafe_code, reason = "calls of the C library; each argued where it stands")]

use std::ffi::CStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::hook::Hook;
use super::unix::{PAGE, stop_zeroing, zero_in_children};

/// Returns the calling process's id.
pub(crate) fn process_id() -> u32 {
    std::process::id()
}

/// Returns the calling thread's id, as debuggers show it.
#[cfg(target_vendor = "apple")]
pub(crate) fn thread_id() -> u64 {
    let mut id = 0;
    // SAFETY: thread 0 is the caller; the result may be written.
    unsafe { libc::pthread_threadid_np(0, &mut id) };
    id
}

/// Returns a number for the calling thread that no other living thread has.
#[cfg(not(target_vendor = "apple"))]
pub(crate) fn thread_id() -> u64 {
    // SAFETY: asks only.
    unsafe { libc::pthread_self() as usize as u64 }
}

/// Returns false: a thread's name is read from the system, even if Rust's library knows a longer one.
pub(crate) fn is_in_rust_thread() -> bool {
    false
}

/// Returns the calling thread's name, truncated to 15 bytes.
pub(crate) fn thread_name() -> [u8; 16] {
    let mut name = [0u8; 16];
    // SAFETY: writes at most the given length, with a zero at its end.
    #[cfg(target_vendor = "apple")]
    unsafe {
        libc::pthread_getname_np(libc::pthread_self(), name.as_mut_ptr().cast(), name.len())
    };
    name[15] = 0;
    name
}

/// Returns `None`: the system keeps only 15 bytes of a name, which [`thread_name`] returns.
pub(crate) fn full_thread_name() -> Option<String> {
    None
}

/// Returns `None`: the names of other threads are not read on this system.
pub(crate) fn thread_name_of(_tid: u64) -> Option<[u8; 16]> {
    None
}

/// Names the calling thread for tools that show the process's threads.
pub(crate) fn name_thread(name: &CStr) {
    #[cfg(target_vendor = "apple")]
    // SAFETY: the name is a C string.
    unsafe {
        libc::pthread_setname_np(name.as_ptr())
    };
    #[cfg(not(target_vendor = "apple"))]
    let _ = name;
}

/// Returns the path of the program that this process runs.
pub(crate) fn executable() -> PathBuf {
    std::env::current_exe().unwrap_or_default()
}

/// A guard that restores the calling thread's `errno` when it is dropped.
pub(crate) struct KeptErrno(libc::c_int);

/// Returns a guard that keeps `errno`: a host may trace between a call that fails and its check of the error.
pub(crate) fn keep_errno() -> KeptErrno {
    KeptErrno(io::Error::last_os_error().raw_os_error().unwrap_or(0))
}

impl Drop for KeptErrno {
    fn drop(&mut self) {
        #[cfg(target_vendor = "apple")]
        // SAFETY: this thread's own, always there.
        unsafe {
            *libc::__error() = self.0
        };
    }
}

/// Returns true: a thread is assumed to live until its exit is seen, because the system does not report it.
pub(crate) fn is_thread_alive(_tid: u64) -> bool {
    true
}

/// The time between two looks of a sleeper at its word: these systems have no public futex that a signal handler may
/// wake.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Sleeps while `word` is `expected`, at most `timeout`.
pub(crate) fn wait_word(word: &AtomicU32, expected: u32, timeout: Duration) {
    let start = Instant::now();
    while word.load(Ordering::Acquire) == expected && start.elapsed() < timeout {
        std::thread::sleep(POLL_INTERVAL.min(timeout));
    }
}

/// Does nothing: sleepers look at the word from time to time.
pub(crate) fn wake_word(_word: &AtomicU32, _count: i32) {}

/// Returns a zeroed page that a forked child sees zeroed again, or null if there is none. These systems have no mapping
/// that `fork` zeroes, so a handler of `fork` does it.
pub(crate) fn page_wiped_on_fork() -> *mut u8 {
    let layout = std::alloc::Layout::new::<[u64; PAGE / 8]>();
    // SAFETY: the layout is not empty.
    let page = unsafe { std::alloc::alloc_zeroed(layout) };
    // SAFETY: the page has that size; `release_page` takes it out of the list.
    if unsafe { zero_in_children(page) } { page } else { std::ptr::null_mut() }
}

/// Gives back a page of [`page_wiped_on_fork`].
///
/// # Safety
/// The page is no longer used.
pub(crate) unsafe fn release_page(page: *mut u8) {
    stop_zeroing(page);
    // SAFETY: allocated with this layout; unused by the caller's promise.
    unsafe { std::alloc::dealloc(page, std::alloc::Layout::new::<[u64; PAGE / 8]>()) };
}

/// Returns `None`: the system does not pass the status to handlers of `exit`.
pub(crate) fn exit_status() -> Option<u32> {
    None
}

/// The function that is called at `exit`.
static ON_EXIT: Hook = Hook::new();

extern "C" fn at_exit() {
    ON_EXIT.call();
}

/// Registers `handler` to be called at `exit`. `_detached` is not used on this system.
pub(crate) fn arm_exit_handler(handler: fn(), _detached: fn()) {
    ON_EXIT.set(handler);
    static ONCE: std::sync::Once = std::sync::Once::new();
    // SAFETY: the handler is a plain function that lives as long as the program.
    ONCE.call_once(|| unsafe {
        libc::atexit(at_exit);
    });
}

/// Does nothing: copies of the library do not find each other on this system.
pub(crate) fn call_when_unloaded(_: fn()) {}

/// Does nothing: an object with thread-locals is never unloaded here.
pub(crate) fn stay_loaded() {}

/// Returns the most memory that all rings together may take, in bytes: a quarter of the free space in `directory`.
pub(crate) fn shared_memory_budget(directory: &Path) -> u64 {
    super::free_bytes(directory).unwrap_or(0) / 4
}

/// Returns whether the program has more rights than its caller.
pub(crate) fn privileged() -> bool {
    // SAFETY: asks only.
    unsafe { libc::geteuid() != libc::getuid() || libc::getegid() != libc::getgid() }
}
