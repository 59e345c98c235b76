//! The functions of the module `sys` for Linux.
#![allow(unsafe_code, reason = "calls of the C library; each argued where it stands")]

use std::ffi::CStr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) use trace_store::sys::executable;

use super::hook::Hook;
use super::unix::{PAGE, stop_zeroing, zero_in_children};

/// Returns the calling thread's name from the kernel, at most 15 bytes. This is async-signal-safe and allocates
/// nothing.
pub(crate) fn thread_name() -> [u8; 16] {
    let mut name = [0u8; 16];
    // SAFETY: PR_GET_NAME writes at most 16 bytes.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    name
}

/// Returns whether Rust's library has started the calling thread and the thread's function still runs. The result is
/// true if the thread has a stack for signal handlers and does not run on it: Rust's library gives each of its threads
/// this stack, for the handler that reports stack overflows, and takes the stack away before the thread's variables are
/// dropped. (A thread to which other code has given such a stack counts, too.)
pub(crate) fn is_in_rust_thread() -> bool {
    if super::is_on_spare_stack(super::stack_pointer()) {
        return false;
    }
    // SAFETY: a `stack_t` of zeros is a value of this type, and the call only writes to it.
    unsafe {
        let mut stack: libc::stack_t = std::mem::zeroed();
        libc::sigaltstack(std::ptr::null(), &raw mut stack) == 0
            && stack.ss_flags & (libc::SS_DISABLE | libc::SS_ONSTACK) == 0
    }
}

/// Returns `None`: the system keeps only 15 bytes of a name, which [`thread_name`] returns.
pub(crate) fn full_thread_name() -> Option<String> {
    None
}

/// Returns the kernel's name of a thread of this process, filled up with zeros; `None` if the thread has ended, or its
/// name cannot be read.
pub(crate) fn thread_name_of(tid: u64) -> Option<[u8; 16]> {
    let found = std::fs::read(format!("/proc/self/task/{tid}/comm")).ok()?;
    let mut name = [0; 16];
    let bytes = found.strip_suffix(b"\n").unwrap_or(&found);
    name.iter_mut().take(15).zip(bytes).for_each(|(to, from)| *to = *from);
    Some(name)
}

/// Names the calling thread for tools that show the process's threads.
pub(crate) fn name_thread(name: &CStr) {
    // SAFETY: the name is a C string; the system takes its first 15 bytes.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
}

/// A guard that restores the calling thread's `errno` when it is dropped.
pub(crate) struct KeptErrno(libc::c_int);

/// Returns a guard that keeps `errno`: a host may trace between a call that fails and its check of the error, and a
/// signal handler may run between any two instructions.
pub(crate) fn keep_errno() -> KeptErrno {
    // SAFETY: this thread's own, always there.
    KeptErrno(unsafe { *libc::__errno_location() })
}

impl Drop for KeptErrno {
    fn drop(&mut self) {
        // SAFETY: as above.
        unsafe { *libc::__errno_location() = self.0 };
    }
}

/// Returns a zeroed page for this process alone, which a forked child sees zeroed again; null if there is none.
pub(crate) fn page_wiped_on_fork() -> *mut u8 {
    // SAFETY: maps new memory, nothing that exists is touched.
    unsafe {
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let page = libc::mmap(std::ptr::null_mut(), PAGE, access, kind, -1, 0);
        if page == libc::MAP_FAILED {
            return std::ptr::null_mut();
        }
        // Since Linux 4.14. Qemu 7 accepts any advice, and does nothing.
        let is_honest = libc::madvise(page, PAGE, NO_ADVICE) != 0;
        let is_wiped = is_honest && libc::madvise(page, PAGE, libc::MADV_WIPEONFORK) == 0;
        if !is_wiped && !zero_in_children(page.cast()) {
            libc::munmap(page, PAGE);
            return std::ptr::null_mut();
        }
        page.cast()
    }
}

/// Gives back a page of [`page_wiped_on_fork`].
///
/// # Safety
/// The page is no longer used.
pub(crate) unsafe fn release_page(page: *mut u8) {
    stop_zeroing(page);
    // SAFETY: mapped by `page_wiped_on_fork` with this size; unused by the caller's promise.
    unsafe { libc::munmap(page.cast(), PAGE) };
}

/// A number that is no valid advice of `madvise`: a system that accepts it does not check advice.
const NO_ADVICE: libc::c_int = 0x7ace;

/// The function that is called at `exit`.
static ON_EXIT: Hook = Hook::new();

/// The entry that calls [`ON_EXIT`] at `exit`, after the handlers of `atexit`: the dynamic linker calls the functions
/// of this section after these handlers.
#[used]
#[unsafe(link_section = ".fini_array")]
static AT_EXIT: extern "C" fn() = at_exit;

extern "C" fn at_exit() {
    ON_EXIT.call();
}

/// Registers `handler` to be called at `exit`, and ensures that [`AT_EXIT`] is linked in. `_detached` is not used on
/// this system.
pub(crate) fn arm_exit_handler(handler: fn(), _detached: fn()) {
    ON_EXIT.set(handler);
    std::hint::black_box(&AT_EXIT);
    status::watch();
}

/// Registers `handler` to be called when the object that contains this code is unloaded, or at `exit`.
pub(crate) fn call_when_unloaded(handler: fn()) {
    ON_EXIT.set(handler);
    std::hint::black_box(&AT_EXIT);
}

/// Returns the status that the process exits with, as its parent will see it, if the system reports it.
pub(crate) fn exit_status() -> Option<u32> {
    status::seen()
}

/// The exit status: the argument of `exit`, which the C library of GNU passes to its handlers.
#[cfg(target_env = "gnu")]
mod status {
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

    /// The status plus one, or 0 before the process exits. The thread that exits writes it before it calls the other
    /// handlers; so a thread for which one of these handlers waits sees it.
    static STATUS: AtomicU32 = AtomicU32::new(0);

    unsafe extern "C" {
        fn on_exit(
            handler: extern "C" fn(libc::c_int, *mut libc::c_void),
            argument: *mut libc::c_void,
        ) -> libc::c_int;
    }

    extern "C" fn see(status: libc::c_int, _: *mut libc::c_void) {
        STATUS.store(status as u32 % 256 + 1, Ordering::Relaxed);
    }

    /// Ensures that [`STATUS`] is set when the process exits.
    pub(super) fn watch() {
        static DONE: AtomicBool = AtomicBool::new(false);
        if !DONE.swap(true, Ordering::Relaxed) {
            // SAFETY: the function lives as long as the process, because its object stays loaded. Without room for
            // one more handler the status stays unknown.
            unsafe { on_exit(see, std::ptr::null_mut()) };
        }
    }

    pub(super) fn seen() -> Option<u32> {
        STATUS.load(Ordering::Relaxed).checked_sub(1)
    }
}

/// The exit status with other C libraries, which do not report it.
#[cfg(not(target_env = "gnu"))]
mod status {
    pub(super) fn watch() {}

    pub(super) fn seen() -> Option<u32> {
        None
    }
}

/// Keeps the shared object that contains this code, if there is one, from being unloaded: a program may close a
/// plugin that has traced, but the flusher runs on, and threads will run their destructors.
///
/// This function takes the loader's lock. So a thread must not call this function while another thread has the loader's
/// lock and waits for the calling thread: neither of them could go on.
pub(crate) fn stay_loaded() {
    static DONE: AtomicBool = AtomicBool::new(false);
    // This is set at the end only: if a signal handler jumps out of this, the next caller has to do it.
    if DONE.load(Ordering::Relaxed) {
        return;
    }
    let object_of = |address: *const libc::c_void| {
        // SAFETY: the result is plain memory, read only if the call succeeded.
        unsafe {
            let mut found: libc::Dl_info = std::mem::zeroed();
            (libc::dladdr(address, &mut found) != 0 && !found.dli_fname.is_null()).then_some(found)
        }
    };
    let Some(own) = object_of((stay_loaded as fn() as *const libc::c_void).cast()) else { return };
    // SAFETY: asks only.
    let entry = std::ptr::without_provenance(unsafe { libc::getauxval(libc::AT_ENTRY) } as usize);
    if object_of(entry).is_some_and(|program| program.dli_fbase == own.dli_fbase) {
        DONE.store(true, Ordering::Relaxed);
        return;
    }
    // SAFETY: the name is the loader's own and lives as long as the object, which is loaded already, so no code of it
    // runs.
    unsafe {
        let mode = libc::RTLD_LAZY | libc::RTLD_NOLOAD | libc::RTLD_NODELETE;
        if libc::dlopen(own.dli_fname, mode).is_null() {
            // The host must not find our error instead of its own.
            libc::dlerror();
        }
    }
    DONE.store(true, Ordering::Relaxed);
}

/// Returns the most memory that all rings together may take, in bytes: a quarter of the smaller of the free space in
/// `directory` and the limit of the memory cgroup.
pub(crate) fn shared_memory_budget(directory: &Path) -> u64 {
    let free = super::free_bytes(directory).unwrap_or(0);
    free.min(cgroup_limit().unwrap_or(u64::MAX)) / 4
}

/// Returns the memory limit, in bytes, of this process's cgroup (version 2, or 1 as mounted by default).
fn cgroup_limit() -> Option<u64> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let read = |path: PathBuf| std::fs::read_to_string(path).ok()?.trim().parse().ok();
    groups.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?.trim_start_matches('/'));
        let unified = Path::new("/sys/fs/cgroup");
        match controllers {
            "" => read(unified.join(path).join("memory.max")).or_else(|| read(unified.join("memory.max"))),
            list if list.split(',').any(|c| c == "memory") => {
                read(unified.join("memory").join(path).join("memory.limit_in_bytes"))
                    .or_else(|| read(unified.join("memory/memory.limit_in_bytes")))
            }
            _ => None,
        }
    })
}

/// Returns whether the program has more rights than the user who started it (setuid), so that the environment must not
/// be trusted.
pub(crate) fn privileged() -> bool {
    // SAFETY: asks only.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}
