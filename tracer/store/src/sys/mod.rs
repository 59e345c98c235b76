//! The parts that differ by operating system: files, locks, users and counters. There is one file per system, all with
//! the same functions.
//!
//! | function | purpose | called by |
//! |---|---|---|
//! | `take_own_descriptors` | gives a thread descriptors that no other thread can close | start of a run |
//! | `runtime_directory`, `runtime_directories` | return the directories of rings | flusher, recovery |
//! | `make_private_directory`, `private_directory_of` | make and check directories of one user | flusher, recovery |
//! | `begin_as_user` | starts work with another user's rights to files | recovery as root |
//! | `is_of_another_user` | returns whether another user may truncate a file | recovery, inspection, `tracemerge` |
//! | `create_scratch_file`, `next_data`, `read_at`, `write_at` | copy another user's file | recovery, inspection, `tracemerge` |
//! | `create_private_file`, `create_unnamed_file`, `link_unnamed_file` | make files | flusher, recovery |
//! | `give_name` | gives a file a further name, or another name, that is free | flusher, recovery |
//! | `check_file_creation` | checks whether files can be made in a directory | start of a run |
//! | `open_own_file`, `open_named_file`, `open_to_append` | open files that this user has made | flusher, recovery |
//! | `open_file_of_user_to_read` | opens a file for an observer | inspection |
//! | `reserve`, `reserve_part`, `hold_lock` | reserve a file's space, lock one of its bytes | flusher, recovery |
//! | `populate` | makes the system map pages in advance | flusher |
//! | `MAPPINGS_HOLD_LOCKS` | whether a mapping alone holds a lock | start of a run; recovery |
//! | `OPEN_FILES_KEEP_NAMES` | whether an open file keeps its name when it is deleted | recovery |
//! | `exclude_from_forks` | keeps a mapping from forked children | start of a run; recovery |
//! | `path_from_bytes` | returns a path that a manifest names | recovery |
//! | `file_identity`, `path_identity` | return the identity of a file | flusher, recovery |
//! | `directory_identity` | returns the identity of a directory; processes may see different ones at a path | flusher, recovery |
//! | `open_file_identity` | returns the identity of an open file, perhaps without its device | flusher, recovery |
//! | `real_path` | returns a path in the canonical form that is compared | `tracemerge` |
//! | `descriptor_limit`, `is_descriptor_limit_error`, `file_size_limit` | check limits | flusher, recovery |
//! | `effective_user`, `boot_id` | return facts about the system | flusher, recovery |
//! | `count_modules`, `module_counts`, `loaded_modules` | list the files mapped as code | start of a run, flusher |
//! | `executable`, `executable_file` | return the program's path, and one to open it (Linux only) | start of a run, flusher |
//! | `counter_is_trusted`, `wall_quality` | check clocks | start of a run, flusher |
//! | `monotonic_ns`, `raw_ns`, `since_boot_ns` | read clocks | start of a run, flusher; a record without a counter |
//!
//! The parts that hook into a traced process (the ends of threads and of the process, `errno`, waking) are in `tracer`.
//! The functions for Linux are complete. docs/systems.md describes the guarantees on Windows. The port to macOS is
//! type-checked, but was not run yet.

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

/// The modules of a process at one moment, as the system reports them: the files that are mapped as code.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadedModules {
    /// The number of modules that the process has ever loaded, and the number of modules that it has unloaded.
    pub counts: (u64, u64),
    /// The modules that are loaded now, without the times at which they were loaded.
    pub modules: Vec<Module>,
}

/// The accuracy of the wall clock, as the system reports it. A value that the system does not report is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WallQuality {
    /// The most by which the wall clock may be wrong, in nanoseconds.
    pub error: Option<u64>,
    /// The status bits of the wall clock, as Linux's `adjtimex` reports them (`STA_...`).
    pub status: Option<u32>,
    /// The state of the wall clock, as Linux's `adjtimex` returns it (`TIME_...`).
    pub state: Option<u32>,
}

/// The identity of a file, which distinguishes the file from others, and its current state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileIdentity {
    /// The device that the file is on.
    pub device: u64,
    /// The file's inode number, which is unique on its device.
    pub inode: u64,
    /// The number of names (hard links) that the file has; 0 if the file was deleted.
    pub links: u64,
    /// The file's size in bytes.
    pub length: u64,
}

impl FileIdentity {
    /// Returns whether both identities are those of the same file, provided that the file still exists.
    #[must_use]
    pub fn is_same_file(&self, other: &FileIdentity) -> bool {
        self.is(other.device, other.inode)
    }

    /// Returns whether this is the file with the number `inode` on `device`. On Windows the device may be unknown (0),
    /// and then only `inode` is compared: [`open_file_identity`] does not read the device, and Wine does not report the
    /// device of a file that was renamed while it was open.
    pub fn is(&self, device: u64, inode: u64) -> bool {
        let is_device_unknown = cfg!(windows) && (self.device == 0 || device == 0);
        self.inode == inode && (self.device == device || is_device_unknown)
    }
}
