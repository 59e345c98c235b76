//! What differs by operating system in files, locks, users and counters: one file per system, all with the
//! same functions.
//!
//! | function | what it does | called by |
//! |---|---|---|
//! | `take_own_descriptors` | gives a thread descriptors that no other can close | start of a run |
//! | `runtime_directory`, `runtime_directories` | say where rings live | flusher, recovery |
//! | `make_private_directory`, `private_directory_of` | make such places, and test them | flusher, recovery |
//! | `begin_as_user` | does something with another user's rights to files | recovery as root |
//! | `is_of_another_user` | tells whose file may become shorter under a mapping | recovery, inspection, `tracemerge` |
//! | `create_scratch_file`, `next_data`, `read_at`, `write_at` | copy such a file | recovery, inspection, `tracemerge` |
//! | `create_private_file`, `create_unnamed_file`, `link_unnamed_file` | make files | flusher, recovery |
//! | `give_name` | gives a file a further name, or another one, that is free | both |
//! | `try_to_make_file` | looks whether a directory takes files | start of a run |
//! | `open_own_file`, `open_named_file`, `open_to_append` | open files that nobody else can have made | both |
//! | `open_file_of_user_to_read` | opens a file for an onlooker | inspection |
//! | `reserve`, `reserve_part`, `hold_lock` | reserve a file's space, lock one of its bytes | flusher, recovery |
//! | `populate` | has the pages of a mapping ready | flusher |
//! | `MAPPINGS_HOLD_LOCKS` | tells whether a mapping alone holds a lock | start of a run; recovery |
//! | `OPEN_FILES_KEEP_NAMES` | tells when a deleted file goes | recovery |
//! | `keep_from_children` | keeps a mapping from forked children | start of a run; recovery |
//! | `path_from_bytes` | gives a path that a manifest names | recovery |
//! | `file_identity`, `path_identity` | tell which file it is | flusher, recovery |
//! | `open_file_identity` | looks at an open file once more, and may leave its device out | flusher, recovery |
//! | `real_path` | gives a path in the one form that is compared | `tracemerge` |
//! | `descriptor_limit`, `is_without_descriptors`, `file_size_limit` | tell limits | flusher, recovery |
//! | `effective_user`, `boot_id` | tell facts | flusher, recovery |
//! | `count_modules`, `module_counts`, `loaded_modules` | tell which files are mapped as code | start of a run, flusher |
//! | `counter_is_trusted`, `monotonic_ns`, `raw_ns`, `since_boot_ns`, `wall_quality` | tell about clocks | start of a run; a record without a counter |
//!
//! What hooks into a process that traces (the ends of threads and of the process, `errno`, waking) is in
//! `tracer`. Linux is complete. docs/systems.md says what Windows keeps. macOS is a type-checked port of what
//! is here, not yet run.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
mod loader;
#[cfg(target_os = "linux")]
pub use linux::*;
#[cfg(target_os = "linux")]
pub use loader::*;

#[cfg(all(unix, not(target_os = "linux")))]
mod macos;
#[cfg(all(unix, not(target_os = "linux")))]
pub use macos::*;

#[cfg(unix)]
mod unix;
#[cfg(unix)]
pub use unix::*;

#[cfg(not(target_os = "linux"))]
mod named_files;
#[cfg(not(target_os = "linux"))]
pub use named_files::*;

#[cfg(windows)]
mod windows;
#[cfg(windows)]
mod windows_rights;
#[cfg(windows)]
pub use windows::*;
#[cfg(windows)]
mod windows_loader;
#[cfg(windows)]
pub use windows_loader::*;

use trace_format::meta::Module;

/// What the system says of a process's modules at one moment: of the files that are mapped as code.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadedModules {
    /// The number of modules that were loaded so far, and of those that were unloaded.
    pub counts: (u64, u64),
    /// The modules that are there; when they were loaded is not said.
    pub modules: Vec<Module>,
}

/// What the system says of how exact the wall clock is. What it does not say is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WallQuality {
    /// The greatest error, in nanoseconds.
    pub error: Option<u64>,
    /// The bits that say what is done to the clock.
    pub status: Option<u32>,
    /// The number of the clock's state.
    pub state: Option<u32>,
}

/// The identity of a file, which tells it from others, and what has become of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileIdentity {
    /// The device that the file is on.
    pub device: u64,
    /// The file's number on its device.
    pub inode: u64,
    /// The number of names that the file has; 0 when it was deleted.
    pub links: u64,
    /// The file's size in bytes.
    pub length: u64,
}

impl FileIdentity {
    /// Returns whether both are one file, as long as it exists.
    #[must_use]
    pub fn is_same_file(&self, other: &FileIdentity) -> bool {
        self.is(other.device, other.inode)
    }

    /// Returns whether it is the file of this number on this device. On Windows the device may be untold (0): an open file is
    /// looked at without it, and Wine does not tell that of a file that was renamed while it was open.
    pub fn is(&self, device: u64, inode: u64) -> bool {
        let untold = cfg!(windows) && (self.device == 0 || device == 0);
        self.inode == inode && (self.device == device || untold)
    }
}
