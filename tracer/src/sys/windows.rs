//! Windows. Type-checked, not yet run.
#![allow(unsafe_code, reason = "calls of the system; each argued where it stands")]

use std::ffi::CStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use super::hook::Hook;

#[link(name = "kernel32", kind = "raw-dylib")]
unsafe extern "system" {
    fn GetCurrentThreadId() -> u32;
    fn GetLastError() -> u32;
    fn SetLastError(error: u32);
    fn FlsAlloc(callback: unsafe extern "system" fn(*mut u8)) -> u32;
    fn FlsSetValue(index: u32, value: *mut u8) -> i32;
    fn GetModuleHandleExW(flags: u32, name: *const u16, module: *mut *mut core::ffi::c_void) -> i32;
}

#[link(name = "api-ms-win-core-synch-l1-2-0", kind = "raw-dylib")]
unsafe extern "system" {
    fn WaitOnAddress(address: *const u32, compare: *const u32, size: usize, milliseconds: u32) -> i32;
    fn WakeByAddressAll(address: *const u32);
}

unsafe extern "C" {
    fn atexit(handler: extern "C" fn()) -> i32;
}

/// Returns the calling process's id.
pub(crate) fn process_id() -> u32 {
    std::process::id()
}

/// Returns the calling thread's id.
pub(crate) fn thread_id() -> u64 {
    // SAFETY: asks only.
    u64::from(unsafe { GetCurrentThreadId() })
}

/// Returns false: the name that the system has is taken, also where it is shorter.
pub(crate) fn is_inside_of_a_rust_thread() -> bool {
    false
}

/// Returns the calling thread's name as Rust knows it, truncated to 16 bytes.
pub(crate) fn thread_name() -> [u8; 16] {
    let mut name = [0; 16];
    let current = std::thread::current();
    for (to, from) in name.iter_mut().zip(current.name().unwrap_or_default().bytes()) {
        *to = from;
    }
    name
}

/// Returns the path of the program that this process runs.
pub(crate) fn executable() -> PathBuf {
    std::env::current_exe().unwrap_or_default()
}

/// A guard that gives the calling thread's last error back as it was, when it is dropped.
pub(crate) struct KeptErrno(u32);

/// Keeps the last error: a host may trace between a call that fails and its look at why.
pub(crate) fn keep_errno() -> KeptErrno {
    // SAFETY: asks only.
    KeptErrno(unsafe { GetLastError() })
}

impl Drop for KeptErrno {
    fn drop(&mut self) {
        // SAFETY: this thread's own.
        unsafe { SetLastError(self.0) };
    }
}

/// Returns true: a thread is taken to live until its exit is seen, for the system does not say it.
pub(crate) fn thread_lives(_tid: u64) -> bool {
    true
}

/// The function that is called when a thread ends.
static ON_THREAD_EXIT: Hook = Hook::new();

static EXIT_INDEX: OnceLock<u32> = OnceLock::new();

/// Has the function that [`create_exit_key`] was given called when the calling thread ends.
pub(crate) fn call_at_thread_exit() {
    if let Some(&index) = EXIT_INDEX.get() {
        // SAFETY: the index was allocated below and is never freed; the value is never dereferenced.
        unsafe { FlsSetValue(index, std::ptr::without_provenance_mut(1)) };
    }
}

/// Makes what [`call_at_thread_exit`] uses, once for the process; `handler` is what is called.
pub(crate) fn create_exit_key(handler: fn()) {
    ON_THREAD_EXIT.set(handler);
    unsafe extern "system" fn at_exit(_value: *mut u8) {
        ON_THREAD_EXIT.call();
    }
    // SAFETY: the callback is a plain function that lives as long as the program.
    EXIT_INDEX.get_or_init(|| unsafe { FlsAlloc(at_exit) });
}

/// Writes to stderr; what cannot be written is dropped.
pub(crate) fn write_stderr(text: &[u8]) {
    use std::io::Write;
    let _ = std::io::stderr().write_all(text);
}

/// Starts a thread.
pub(crate) fn spawn_hidden(body: Box<dyn FnOnce() + Send>) -> io::Result<()> {
    std::thread::Builder::new().name("tracer".into()).spawn(body).map(drop)
}

/// Does nothing: the thread has its name.
pub(crate) fn name_thread(_name: &CStr) {}

/// Returns false: there are no signal stacks.
pub(crate) fn on_alternate_stack() -> bool {
    false
}

/// Sleeps while `word` is `expected`, at most `timeout`; may wake without reason.
pub(crate) fn wait_word(word: &AtomicU32, expected: u32, timeout: Duration) {
    let milliseconds = u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX - 1).max(1);
    // SAFETY: both words outlive the call and have the size given.
    unsafe { WaitOnAddress(word.as_ptr(), &expected, 4, milliseconds) };
}

/// Wakes those that sleep on `word`: all of them, whatever `count` says.
pub(crate) fn wake_word(word: &AtomicU32, _count: i32) {
    // SAFETY: the address is not dereferenced.
    unsafe { WakeByAddressAll(word.as_ptr()) };
}

/// Gives a zeroed page; there is no `fork`.
pub(crate) fn page_wiped_on_fork() -> *mut u8 {
    Box::leak(Box::new([0u64; 512])).as_mut_ptr().cast()
}

/// Gives back a page of [`page_wiped_on_fork`].
///
/// # Safety
/// Nobody may use it any more.
pub(crate) unsafe fn release_page(page: *mut u8) {
    // SAFETY: made by `page_wiped_on_fork` with this type; unused by the caller's promise.
    drop(unsafe { Box::from_raw(page.cast::<[u64; 512]>()) });
}

/// Returns `None`: the system does not tell handlers of `exit` which status it was called with.
pub(crate) fn exit_status() -> Option<u32> {
    None
}

/// The function that is called at `exit`.
static ON_EXIT: Hook = Hook::new();

extern "C" fn at_exit() {
    ON_EXIT.call();
}

/// Has `handler` called at `exit`.
pub(crate) fn arm_exit_handler(handler: fn()) {
    ON_EXIT.set(handler);
    static ONCE: std::sync::Once = std::sync::Once::new();
    // SAFETY: the handler is a plain function that lives as long as the program.
    ONCE.call_once(|| unsafe {
        atexit(at_exit);
    });
}

/// Keeps the library that this code is in from being unloaded: the flusher runs on.
pub(crate) fn stay_loaded() {
    const PIN: u32 = 1;
    const FROM_ADDRESS: u32 = 4;
    let own = stay_loaded as fn() as *const u16;
    let mut module = std::ptr::null_mut();
    // SAFETY: with `FROM_ADDRESS` the name is any address in the module; the result may be written.
    unsafe { GetModuleHandleExW(PIN | FROM_ADDRESS, own, &mut module) };
}

/// Returns how much memory all rings together may take, in bytes.
pub(crate) fn shared_memory_budget(_directory: &Path) -> u64 {
    256 << 20
}

/// Returns false: there is no setuid.
pub(crate) fn privileged() -> bool {
    false
}
