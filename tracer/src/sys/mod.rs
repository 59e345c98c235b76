//! What differs by operating system: one file per system, all with the same functions.
//!
//! | function | what it does | called by |
//! |---|---|---|
//! | `thread_id`, `thread_name` | the calling thread as the system knows it | a thread's first record |
//! | `executable` | the path of the program | start of a run |
//! | `call_at_thread_exit` | has [`crate::thread::on_thread_exit`] called late in the thread's end | a thread's first record |
//! | `keep_errno` | the host's last error, as the tracer found it | a thread's first record; a wait for room |
//! | `wait_word`, `wake_word` | sleep on an atomic word; waking is async-signal-safe | flusher; any |
//! | `stack_pointer` | where the caller is in its stack | every record |
//! | `write_stderr` | says something without locks and without waiting | any |
//! | `on_alternate_stack` | whether the caller runs on a signal stack | a record inside a record |
//! | `page_wiped_on_fork` | a zeroed page that is zero again in a forked child | flusher |
//! | `arm_exit_handler` | has [`crate::exit::on_process_exit`] called at `exit()` | start of a run |
//! | `stay_loaded` | keeps a plugin that holds this code from being unloaded | start of a run |
//! | `spawn_hidden`, `name_thread` | a thread that takes no signals and runs nothing else | start of a run |
//! | `take_own_descriptors` | descriptors that no other thread of the process can close | start of a run |
//! | `runtime_directory`, `make_private_directory`, `private_directory_of` | where rings live | flusher, recovery |
//! | `as_user` | does something with another user's rights | recovery as root |
//! | `create_private_file`, `create_unnamed_file`, `link_unnamed_file`, `open_own_file`, `open_named_file`, `open_to_append`, `try_to_make_file`, `open_file_of_user_to_read`, `reserve`, `hold_lock` | files that nobody else can have prepared | flusher, recovery |
//! | `MAPPINGS_HOLD_LOCKS`, `keep_from_children` | whether and how a mapping alone holds a lock | start of a run; recovery |
//! | `path_from_bytes` | a path that a manifest names | recovery |
//! | `file_identity`, `path_identity`, `descriptor_limit`, `is_without_descriptors`, `file_size_limit`, `thread_lives`, `shared_memory_budget`, `boot_id`, `process_id` | facts | flusher |
//! | `privileged` | whether the environment is not to be trusted (setuid) | the decision |
//! | `counter_is_trusted`, `monotonic_ns` | clocks | start of a run; a record without a counter |
//!
//! Linux is complete. macOS and Windows are type-checked ports of what is here, not yet run.

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

#[cfg(windows)]
mod windows;
#[cfg(windows)]
pub(crate) use windows::*;

/// Where the calling function's stack ends. Not the address of a local variable: sanitizers keep those
/// elsewhere.
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

/// Whether a frame lies deeper in the stack than the caller's, which ends at `here`, or is the same: then it is not
/// active any more, as after a `longjmp`. Stacks grow down; a signal stack has no order with the thread's.
pub(crate) fn is_deeper(frame: usize, here: usize) -> bool {
    here >= frame && !on_alternate_stack()
}

/// What tells one open file from another, and what has become of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileIdentity {
    /// The device it is on.
    pub device: u64,
    /// Its number there.
    pub inode: u64,
    /// How many names it has; 0 when it was deleted.
    pub links: u64,
    /// Its size in bytes.
    pub length: u64,
}

impl FileIdentity {
    /// Whether both are one file, as long as it exists.
    pub(crate) fn is_same_file(&self, other: &FileIdentity) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }
}
