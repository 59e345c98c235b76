//! The calls of the operating system that the library needs, for Windows. docs/systems.md lists the guarantees that
//! hold on Windows, and those that are weaker than on Linux.
//!
//! Code that runs at the ends of threads and of the process does not call the loader: another thread that loads a
//! library or ends may hold the loader's lock, and wait for the thread that runs the code.
#![allow(unsafe_code, reason = "calls of the system; each argued where it stands")]

use std::ffi::{CStr, c_void};
use std::io;
use std::os::windows::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::time::Duration;

use windows_sys::Win32::Foundation::{
    CloseHandle, ERROR_INVALID_PARAMETER, FARPROC, GetLastError, LocalFree, STILL_ACTIVE, SetLastError,
    WAIT_OBJECT_0,
};
use windows_sys::Win32::Storage::FileSystem::{GetDiskFreeSpaceExW, WriteFile};
use windows_sys::Win32::System::Console::{GetStdHandle, STD_ERROR_HANDLE};
use windows_sys::Win32::System::LibraryLoader::{
    GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS, GET_MODULE_HANDLE_EX_FLAG_PIN, GetModuleHandleExW,
    GetModuleHandleW, GetProcAddress,
};
use windows_sys::Win32::System::SystemServices::{DLL_PROCESS_DETACH, DLL_THREAD_DETACH};
use windows_sys::Win32::System::Threading::{
    CreateThread, FLS_OUT_OF_INDEXES, FlsAlloc, FlsSetValue, GetCurrentThread, GetCurrentThreadId,
    GetExitCodeThread, OpenThread, STACK_SIZE_PARAM_IS_A_RESERVATION, THREAD_SYNCHRONIZE,
    WaitForSingleObject, WaitOnAddress, WakeByAddressAll, WakeByAddressSingle,
};

use super::Slot;
use super::hook::Hook;

#[link(name = "ntdll", kind = "raw-dylib")]
unsafe extern "system" {
    fn RtlDllShutdownInProgress() -> u8;
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

/// Returns false on Windows, so that the name of any thread is read from the system, even if Rust's library knows a
/// longer name.
pub(crate) fn is_in_rust_thread() -> bool {
    false
}

/// The system's function `GetThreadDescription`; null before [`create_exit_key`], and on older versions of Windows,
/// which lack the function.
static GET_THREAD_DESCRIPTION: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// Returns the name that the system has for the calling thread, truncated to 15 bytes of UTF-8. For threads of Rust it
/// is the Rust name, because Rust's library passes the name to the system. The name is read from the system because
/// Rust's library may refuse to return it when the thread is about to end.
pub(crate) fn thread_name() -> [u8; 16] {
    let mut name = [0; 16];
    with_thread_name(|units| put_truncated(units, &mut name[..15]));
    name
}

/// Returns the whole name that the system has for the calling thread.
pub(crate) fn full_thread_name() -> Option<String> {
    let replaced = |character: Result<char, _>| character.unwrap_or(char::REPLACEMENT_CHARACTER);
    with_thread_name(|units| char::decode_utf16(units).map(replaced).collect())
}

/// Calls `take` with the UTF-16 units of the calling thread's name, and returns its result; returns `None` if the
/// system knows no name.
fn with_thread_name<R>(take: impl FnOnce(&mut dyn Iterator<Item = u16>) -> R) -> Option<R> {
    let function = GET_THREAD_DESCRIPTION.load(Ordering::Acquire);
    if function.is_null() {
        return None;
    }
    type GetThreadDescription = unsafe extern "system" fn(*mut c_void, *mut *mut u16) -> i32;
    // SAFETY: the function of this name has this type. The result may be written; if the call succeeds it is a text
    // with a zero at its end, which the caller must free.
    unsafe {
        let function = std::mem::transmute::<*mut c_void, GetThreadDescription>(function);
        let mut text: *mut u16 = ptr::null_mut();
        if function(GetCurrentThread(), &mut text) < 0 || text.is_null() {
            return None;
        }
        let taken = take(&mut (0..).map(|index| *text.add(index)).take_while(|unit| *unit != 0));
        LocalFree(text.cast());
        Some(taken)
    }
}

/// Writes as many whole characters of the UTF-16 text `units` into `name`, in UTF-8, as fit.
fn put_truncated(units: impl Iterator<Item = u16>, name: &mut [u8]) {
    let mut used = 0;
    for character in char::decode_utf16(units) {
        let mut bytes = [0; 4];
        let bytes = character.unwrap_or(char::REPLACEMENT_CHARACTER).encode_utf8(&mut bytes).as_bytes();
        let Some(room) = name.get_mut(used..used + bytes.len()) else { return };
        room.copy_from_slice(bytes);
        used += bytes.len();
    }
}

/// Returns the real path of the program that this process runs, whatever path it was started with.
pub(crate) fn executable() -> PathBuf {
    let started = std::env::current_exe().unwrap_or_default();
    trace_store::sys::real_path(&started).unwrap_or(started)
}

/// A guard that, when it is dropped, sets the calling thread's last error (`GetLastError`) back to the stored value.
pub(crate) struct KeptErrno(u32);

/// Stores the calling thread's last error in a guard, which restores it. A host may trace between a call that fails and
/// its check of the error, and tracing must not change the error.
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

/// Returns whether thread `tid` still runs; true if that cannot be known.
pub(crate) fn is_thread_alive(tid: u64) -> bool {
    let Ok(tid) = u32::try_from(tid) else { return true };
    // SAFETY: queries only; the handle is this function's own.
    unsafe {
        let thread = OpenThread(THREAD_SYNCHRONIZE, 0, tid);
        if thread.is_null() {
            return GetLastError() != ERROR_INVALID_PARAMETER;
        }
        let lives = WaitForSingleObject(thread, 0) != WAIT_OBJECT_0;
        CloseHandle(thread);
        lives
    }
}

/// Whether a new thread may be unable to run until the thread that started it has continued. On Windows this happens if
/// the starting thread holds the loader's lock, as it does in functions that the system calls when it loads a library.
pub(crate) const THREADS_BEGIN_LATE: bool = true;

/// Returns whether the calling thread holds the loader's lock. If so, no new thread begins to run before the calling
/// thread has released the lock. Returns false if the owner of the lock is not known.
pub(crate) fn blocks_new_threads() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        let owner: usize;
        // SAFETY: the thread's description leads to that of its process, which has the loader's lock, a critical
        // section with its owner at this place. All of these always exist.
        unsafe {
            std::arch::asm!("mov {owner}, gs:[0x60]", "mov {owner}, [{owner} + 0x110]", "mov {owner}, [{owner} + 0x10]",
                owner = out(reg) owner, options(nostack, preserves_flags, readonly));
        }
        owner as u64 == thread_id()
    }
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// The function that is called when a thread ends.
static ON_THREAD_EXIT: Hook = Hook::new();

/// The function that is called when the process ends and no other thread of it runs any more.
static ON_PROCESS_DETACH: Hook = Hook::new();

/// For each thread, a pointer that is not null if the end of the thread calls [`ON_THREAD_EXIT`].
static IS_CALLED_AT_THREAD_EXIT: Slot<()> = Slot::new();

/// The index of the fiber-local slot whose callback calls `at_process_detach` on Wine, of which some versions do not
/// call [`AT_THREAD_EXIT`]; see [`create_exit_key`].
static FIBER_SLOT: AtomicU32 = AtomicU32::new(FLS_OUT_OF_INDEXES);

/// Registers the calling thread, so that the function passed to [`create_exit_key`] is called when the thread ends.
pub(crate) fn call_at_thread_exit() {
    IS_CALLED_AT_THREAD_EXIT.set(ptr::without_provenance(1));
    call_at_process_detach();
}

/// Registers the calling thread, so that [`at_process_detach`] is called if the process ends on this thread, even on
/// versions of Wine that do not call [`AT_THREAD_EXIT`].
fn call_at_process_detach() {
    let fiber = FIBER_SLOT.load(Ordering::Relaxed);
    if fiber != FLS_OUT_OF_INDEXES {
        // SAFETY: the index was allocated below and is never freed; the value is never dereferenced.
        unsafe { FlsSetValue(fiber, ptr::without_provenance(1)) };
    }
}

/// Prepares [`call_at_thread_exit`]. `handler` is called when a registered thread ends.
///
/// When the process ends, Wine before about 8.13 calls [`AT_THREAD_EXIT`] only if the tracer is in a library, not if it
/// is in the program itself. On Wine the callback of a fiber-local slot is therefore registered as well. This callback
/// runs before the destructors of thread-locals.
pub(crate) fn create_exit_key(handler: fn()) {
    ON_THREAD_EXIT.set(handler);
    let library = |name: &str| {
        let name: Vec<u16> = name.encode_utf16().chain([0]).collect();
        // SAFETY: a text with a zero at its end.
        unsafe { GetModuleHandleW(name.as_ptr()) }
    };
    let function = |module: *mut c_void, name: &CStr| -> FARPROC {
        // SAFETY: the module is loaded for ever, or null, for which nothing is found.
        if module.is_null() { None } else { unsafe { GetProcAddress(module, name.as_ptr().cast()) } }
    };
    let describe = function(library("kernel32.dll"), c"GetThreadDescription");
    GET_THREAD_DESCRIPTION
        .store(describe.map_or(ptr::null_mut(), |describe| describe as *mut c_void), Ordering::Release);
    let is_wine = function(library("ntdll.dll"), c"wine_get_version").is_some();
    if is_wine && FIBER_SLOT.load(Ordering::Relaxed) == FLS_OUT_OF_INDEXES {
        // SAFETY: the callback is a plain function; its code stays loaded.
        FIBER_SLOT.store(unsafe { FlsAlloc(Some(at_fiber_exit)) }, Ordering::Relaxed);
    }
}

/// The entry by which the loader calls [`at_thread_exit`] when a thread ends, and when the process ends. The loader
/// calls such entries in the order of their sections' names; the entries of Rust and of mingw, which run the
/// destructors of thread-locals, stand before this one.
#[used]
#[unsafe(link_section = ".CRT$XLY")]
static AT_THREAD_EXIT: unsafe extern "system" fn(*mut c_void, u32, *mut c_void) = at_thread_exit;

unsafe extern "system" fn at_thread_exit(_module: *mut c_void, reason: u32, _reserved: *mut c_void) {
    if reason == DLL_THREAD_DETACH && !IS_CALLED_AT_THREAD_EXIT.replace(ptr::null()).is_null() {
        ON_THREAD_EXIT.call();
    } else if reason == DLL_PROCESS_DETACH {
        at_process_detach();
    }
}

unsafe extern "system" fn at_fiber_exit(_value: *const c_void) {
    at_process_detach();
}

/// Calls the function that was last passed to [`arm_exit_handler`] as `detached`, if the whole process is ending. Does
/// nothing if only a library is being unloaded, or only one thread is ending.
fn at_process_detach() {
    // SAFETY: asks only.
    if unsafe { RtlDllShutdownInProgress() } != 0 {
        ON_PROCESS_DETACH.call();
    }
}

/// Writes to stderr without std's lock: the end of the process may have ended the thread that holds the lock.
pub(crate) fn write_stderr(text: &[u8]) {
    let mut written = 0;
    // SAFETY: the text is valid for its length; the result may be written. The system refuses an invalid handle.
    unsafe {
        let stderr = GetStdHandle(STD_ERROR_HANDLE);
        WriteFile(stderr, text.as_ptr(), text.len().min(4096) as u32, &mut written, ptr::null_mut());
    }
}

/// The handles of the two threads that [`spawn_hidden`] has started last, the newer one first: a flusher, and the
/// thread that prints its messages. A thread that takes a handle out of this array closes it; the process's last thread
/// reads the handles without taking them out.
static HIDDEN_THREADS: [AtomicPtr<c_void>; 2] = [const { AtomicPtr::new(ptr::null_mut()) }; 2];

/// Starts a thread on which no code of the host's runs before `body`. `std::thread` is not used, because it allocates
/// memory on the new thread first, and the host's allocator may trace.
pub(crate) fn spawn_hidden(body: Box<dyn FnOnce() + Send>) -> io::Result<()> {
    unsafe extern "system" fn start(body: *mut c_void) -> u32 {
        // SAFETY: the box was leaked below, and given to this thread alone.
        let body = unsafe { Box::from_raw(body.cast::<Box<dyn FnOnce() + Send>>()) };
        // `body` should not panic; if it does all the same, the panic must not end the process.
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(*body));
        0
    }
    /// The size of the thread's stack in bytes: the same as `std` gives to a thread.
    const STACK: usize = 2 << 20;
    let body = Box::into_raw(Box::new(body));
    // SAFETY: the function takes the argument that it gets.
    let thread = unsafe {
        CreateThread(
            ptr::null(),
            STACK,
            Some(start),
            body.cast(),
            STACK_SIZE_PARAM_IS_A_RESERVATION,
            ptr::null_mut(),
        )
    };
    if thread.is_null() {
        let error = io::Error::last_os_error();
        // SAFETY: no thread has it.
        drop(unsafe { Box::from_raw(body) });
        return Err(error);
    }
    let [newer, older] = &HIDDEN_THREADS;
    let before = older.swap(newer.swap(thread, Ordering::AcqRel), Ordering::AcqRel);
    if !before.is_null() {
        // SAFETY: a handle of this function's own, which no other thread can take any more; the thread runs on.
        unsafe { CloseHandle(before) };
    }
    Ok(())
}

/// Returns `None`: on Windows the tracer does not read the names of threads other than the calling one.
pub(crate) fn thread_name_of(_tid: u64) -> Option<[u8; 16]> {
    None
}

/// Does nothing: on Windows the tracer's own threads get no names.
pub(crate) fn name_thread(_name: &CStr) {}

/// Returns false: Windows has no alternate signal stacks.
pub(crate) fn on_alternate_stack() -> bool {
    false
}

/// Returns `None`: Windows has no alternate signal stacks.
pub(crate) fn alternate_stack() -> Option<usize> {
    None
}

/// Sleeps as long as `word` has the value `expected`, at most for `timeout`; may return earlier without a reason.
pub(crate) fn wait_word(word: &AtomicU32, expected: u32, timeout: Duration) {
    let milliseconds = u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX - 1).max(1);
    // SAFETY: both words outlive the call and have the size given.
    unsafe { WaitOnAddress(word.as_ptr().cast(), (&raw const expected).cast(), 4, milliseconds) };
}

/// Wakes one of the threads that sleep on `word` if `count` is 1, and all of them otherwise.
pub(crate) fn wake_word(word: &AtomicU32, count: i32) {
    // SAFETY: the address is not dereferenced.
    unsafe {
        if count == 1 {
            WakeByAddressSingle(word.as_ptr().cast());
        } else {
            WakeByAddressAll(word.as_ptr().cast());
        }
    }
}

/// Returns a zeroed page. Elsewhere the system zeroes such a page in forked children, but Windows has no `fork`.
pub(crate) fn page_wiped_on_fork() -> *mut u8 {
    Box::leak(Box::new([0u64; 512])).as_mut_ptr().cast()
}

/// Gives back a page of [`page_wiped_on_fork`].
///
/// # Safety
/// The page is no longer used.
pub(crate) unsafe fn release_page(page: *mut u8) {
    // SAFETY: made by `page_wiped_on_fork` with this type; unused by the caller's promise.
    drop(unsafe { Box::from_raw(page.cast::<[u64; 512]>()) });
}

/// Returns the status with which the process ends. Only the last thread of the process gets it: it is the exit status
/// that the system gave to the other threads when it ended them. Returns `None` before that, so also in handlers of
/// `exit`.
pub(crate) fn exit_status() -> Option<u32> {
    // SAFETY: asks only.
    if unsafe { RtlDllShutdownInProgress() } == 0 {
        return None;
    }
    // A thread that has ended normally has the status 0, which is left out.
    let statuses = HIDDEN_THREADS.iter().filter_map(|thread| {
        let mut status = STILL_ACTIVE as u32;
        // SAFETY: no other thread runs, so the handle is not closed; an invalid one is refused. The result may be
        // written.
        let is_status_known = unsafe { GetExitCodeThread(thread.load(Ordering::Acquire), &mut status) } != 0;
        (is_status_known && status != STILL_ACTIVE as u32).then_some(status)
    });
    statuses.max()
}

/// The function that is called when the program calls `exit`, or `main` returns.
static ON_EXIT: Hook = Hook::new();

/// Calls [`ON_EXIT`], unless the process is already ending: in that case the flusher no longer runs. The system calls
/// the `exit` handlers of libraries so late.
extern "C" fn at_exit() {
    // SAFETY: asks only.
    if unsafe { RtlDllShutdownInProgress() } == 0 {
        ON_EXIT.call();
    }
    // This thread may be the last one, and may never have traced.
    call_at_process_detach();
}

/// Does nothing: copies of the library do not find each other on this system.
pub(crate) fn call_when_unloaded(_: fn()) {}

/// Whether the function passed to [`arm_exit_handler`] as `detached` is called when the process ends. On Windows it is.
pub(crate) const LAST_THREAD_IS_CALLED: bool = true;

/// Registers `handler` to be called at `exit`, and `detached` to be called last when the process ends in any way
/// except by force. When `detached` is called, all other threads have ended, wherever they were.
pub(crate) fn arm_exit_handler(handler: fn(), detached: fn()) {
    ON_EXIT.set(handler);
    ON_PROCESS_DETACH.set(detached);
    std::hint::black_box(&AT_THREAD_EXIT);
    static ONCE: std::sync::Once = std::sync::Once::new();
    // SAFETY: the handler is a plain function that lives as long as the program.
    ONCE.call_once(|| unsafe {
        atexit(at_exit);
    });
}

/// Prevents the library that contains this code from being unloaded, because the flusher thread runs its code. After
/// that, registers the code that counts loaded and unloaded modules, which the loader calls.
pub(crate) fn stay_loaded() {
    let own = stay_loaded as fn() as *const u16;
    let mut module = std::ptr::null_mut();
    // SAFETY: with `FROM_ADDRESS`, the name is any address in the module; the result may be written.
    if unsafe {
        GetModuleHandleExW(
            GET_MODULE_HANDLE_EX_FLAG_PIN | GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS,
            own,
            &mut module,
        )
    } != 0
    {
        trace_store::sys::count_modules();
    }
}

/// Returns the most memory that all rings together may take, in bytes: a quarter of the free space in `directory`, or
/// 256 MiB if the free space is unknown.
pub(crate) fn shared_memory_budget(directory: &Path) -> u64 {
    let path: Vec<u16> = directory.as_os_str().encode_wide().chain([0]).collect();
    let mut free = 0;
    // SAFETY: the path is a text with a zero at its end; the first result may be written, the others are not
    // requested.
    let is_space_known =
        unsafe { GetDiskFreeSpaceExW(path.as_ptr(), &mut free, ptr::null_mut(), ptr::null_mut()) };
    if is_space_known == 0 { 256 << 20 } else { free / 4 }
}

/// Returns false: Windows has no setuid programs.
pub(crate) fn privileged() -> bool {
    false
}

/// Returns null. On other systems this function maps memory for the hooks that compilers put into functions; on Windows
/// these hooks are not supported.
pub(crate) fn map_lazily(_bytes: usize) -> *mut u8 {
    ptr::null_mut()
}

/// Does nothing, because [`map_lazily`] maps no memory on Windows.
///
/// # Safety
/// No condition has to be met.
pub(crate) unsafe fn unmap(_memory: *mut u8, _bytes: usize) {}
