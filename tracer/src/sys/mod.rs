//! The parts that differ by operating system: one file per system, all with the same functions.
//!
//! | function | purpose | called by |
//! |---|---|---|
//! | `thread_id`, `thread_name` | the calling thread's id and name in the system | a thread's first record |
//! | `full_thread_name` | a thread's name, if the system keeps more than 15 bytes | a thread's first record |
//! | `is_in_rust_thread` | whether Rust's library knows a name of the thread | a thread's first record |
//! | `executable` | the path of the program | start of a run |
//! | `create_exit_key` | makes the key that `call_at_thread_exit` uses | start of a run |
//! | `call_at_thread_exit` | calls a function late in the thread's end | a thread's first record |
//! | `lasting_thread_local!` | makes a pointer of each thread that exists as long as the thread runs | every record |
//! | `keep_errno` | preserves the host's last error | first record; wait for room |
//! | `wait_word`, `wake_word` | sleep on an atomic word; waking is async-signal-safe | flusher; any |
//! | `stack_pointer` | the end of the caller's stack | every record |
//! | `write_stderr` | prints a text without locks and without waiting | any |
//! | `on_alternate_stack`, `alternate_stack` | whether the caller runs on a signal stack, and on which | a record inside a record; first record |
//! | `catch_fatal_signals` | calls functions for signals that end the process | any, on request |
//! | `page_wiped_on_fork` | a zeroed page that is zero again in a forked child | flusher |
//! | `arm_exit_handler` | calls functions at `exit()`, and when all other threads have ended | start of a run |
//! | `LAST_THREAD_IS_CALLED` | whether `detached` of `arm_exit_handler` is ever called | the process's end |
//! | `exit_status` | the argument of `exit()`, if the system reports it | flusher, at `exit()` |
//! | `stay_loaded` | keeps a plugin that contains this code from being unloaded | start of a run |
//! | `call_when_unloaded` | calls a function when that plugin is unloaded | a guest of another copy of the library |
//! | `spawn_hidden`, `name_thread` | a thread without signals and without other code | start of a run |
//! | `THREADS_BEGIN_LATE`, `blocks_new_threads` | whether a new thread may have to wait for its maker | start of a run |
//! | `process_id`, `thread_id`, `is_thread_alive`, `monotonic_ns`, `shared_memory_budget` | query the system | any; flusher |
//! | `privileged` | whether the environment is not to be trusted (setuid) | the decision |
//!
//! The functions for Linux are complete. docs/systems.md describes those for Windows. The port to macOS is
//! type-checked, but was not run yet.

#[cfg(not(target_os = "linux"))]
pub(crate) use trace_store::sys::monotonic_ns;
pub(crate) use trace_store::sys::{boot_id, effective_user, runtime_directories, runtime_directory};

#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod fatal_signals;
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(crate) use fatal_signals::{FatalSignal, SignalCallbacks, catch_fatal_signals, is_on_spare_stack};
#[cfg(all(windows, target_arch = "x86_64"))]
mod unhandled_exceptions;
#[cfg(all(windows, target_arch = "x86_64"))]
pub(crate) use unhandled_exceptions::{FatalSignal, SignalCallbacks, catch_fatal_signals, is_on_spare_stack};
#[cfg(not(any(
    all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")),
    all(windows, target_arch = "x86_64")
)))]
mod no_fatal_signals;
#[cfg(not(any(
    all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")),
    all(windows, target_arch = "x86_64")
)))]
pub(crate) use no_fatal_signals::{FatalSignal, SignalCallbacks, catch_fatal_signals, is_on_spare_stack};

mod hook;

#[cfg(target_os = "linux")]
mod kernel;
#[cfg(target_os = "linux")]
pub(crate) use kernel::*;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
pub(crate) use linux::*;

#[cfg(all(unix, not(target_os = "linux")))]
mod macos;
#[cfg(all(unix, not(target_os = "linux")))]
pub(crate) use macos::*;

#[cfg(unix)]
mod unix;
#[cfg(unix)]
pub(crate) use unix::*;

#[cfg(all(
    feature = "hooks",
    target_os = "linux",
    target_env = "gnu",
    target_arch = "x86_64",
    not(any(loom, miri))
))]
mod near_pointer;

#[cfg(windows)]
mod windows_slot;
#[cfg(all(
    feature = "hooks",
    target_os = "linux",
    target_env = "gnu",
    target_arch = "x86_64",
    not(any(loom, miri))
))]
pub(crate) use near_pointer::NearPointer;

#[cfg(windows)]
pub(crate) use windows_slot::Slot;

#[cfg(windows)]
mod windows;
#[cfg(windows)]
pub(crate) use windows::*;

/// Makes a variable that is a pointer for each thread, null at first. It can be read and set as long as the thread
/// runs, even after the destructors of all thread-locals, and a read costs an instruction or two.
///
/// The variable has the functions `get`, `set` and `replace`. It is a thread-local of Rust, except with the linker of
/// mingw, with which thread-locals of Rust have a destructor and each access is a call.
///
/// `near` before the pointer's type makes the variable the library's one `NearPointer`, on targets that have that type.
macro_rules! lasting_thread_local {
    ($(#[$doc:meta])* $visible:vis static $name:ident: near *const $to:ty;) => {
        #[cfg(all(feature = "hooks", target_os = "linux", target_env = "gnu", target_arch = "x86_64", not(any(loom, miri))))]
        $(#[$doc])*
        // SAFETY: the only one.
        $visible static $name: $crate::sys::NearPointer<$to> = unsafe { $crate::sys::NearPointer::new() };
        #[cfg(not(all(feature = "hooks", target_os = "linux", target_env = "gnu", target_arch = "x86_64", not(any(loom, miri)))))]
        $crate::sys::lasting_thread_local! {
            $(#[$doc])*
            $visible static $name: *const $to;
        }
    };
    ($($(#[$doc:meta])* $visible:vis static $name:ident: *const $to:ty;)+) => {
        #[cfg(not(all(windows, not(any(target_env = "msvc", target_abi = "llvm")))))]
        std::thread_local! {
            $($(#[$doc])* $visible static $name: std::cell::Cell<*const $to> = const { std::cell::Cell::new(std::ptr::null()) };)+
        }
        $(
            #[cfg(all(windows, not(any(target_env = "msvc", target_abi = "llvm"))))]
            $(#[$doc])* $visible static $name: $crate::sys::Slot<$to> = $crate::sys::Slot::new();
        )+
    };
}
pub(crate) use lasting_thread_local;

/// Returns the stack pointer of the calling function. On x86-64 and aarch64 it is not the address of a local variable,
/// because sanitizers keep local variables elsewhere.
#[allow(unsafe_code, reason = "reads a register")]
#[inline(always)]
pub(crate) fn stack_pointer() -> usize {
    #[cfg(target_arch = "x86_64")]
    {
        let pointer: usize;
        // SAFETY: copies a register.
        unsafe { std::arch::asm!("mov {}, rsp", out(reg) pointer, options(nomem, nostack, preserves_flags)) };
        pointer
    }
    #[cfg(target_arch = "aarch64")]
    {
        let pointer: usize;
        // SAFETY: copies a register.
        unsafe { std::arch::asm!("mov {}, sp", out(reg) pointer, options(nomem, nostack, preserves_flags)) };
        pointer
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        let local = 0u8;
        std::ptr::from_ref(&local).addr()
    }
}

/// Returns whether the frame that had the stack pointer `frame` is at least as deep in the stack as the caller's frame,
/// which has the stack pointer `here` (stacks grow down). If so, the function of the former frame was left, for example
/// by a `longjmp`. Returns false on a stack for signal handlers, which has no order relative to the thread's own stack.
pub(crate) fn is_deeper(frame: usize, here: usize) -> bool {
    here >= frame && !is_on_spare_stack(here) && !on_alternate_stack()
}
