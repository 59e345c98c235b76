//! The unfinished output of this process: a file or a directory that still has a temporary name. When a signal ends
//! this process, that file or directory is deleted, and also the scratch directory, whose files only this process
//! needs.

use std::ffi::OsString;
use std::io;
#[cfg(feature = "parquet")]
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
#[cfg(feature = "parquet")]
use tempfile::TempDir;

use crate::os::directory::{Directory, Kind};

/// A file or a directory that has a temporary name until it is finished.
#[derive(Clone, Debug)]
pub(crate) struct Unfinished {
    /// The directory that contains the output.
    pub place: Arc<Directory>,
    /// The hidden name of the unfinished output in that directory.
    pub name: OsString,
}

/// The file or directory of this process that has a temporary name now. It is here so that it can be deleted if a
/// signal ends the process before the owner of the output deletes it.
static UNFINISHED: Mutex<Option<Unfinished>> = Mutex::new(None);

pub(crate) fn unfinished() -> MutexGuard<'static, Option<Unfinished>> {
    UNFINISHED.lock()
}

/// The number of attempts to delete a directory. An attempt fails if another thread makes a file in the directory
/// meanwhile.
const ATTEMPTS: u32 = 16;

impl Unfinished {
    /// Deletes the file or directory.
    ///
    /// # Errors
    /// The file or directory cannot be deleted.
    pub(crate) fn remove(&self) -> io::Result<()> {
        match self.place.look(&self.name)? {
            Some(found) if found.kind == Kind::Directory => self.place.remove_directory(&self.name),
            Some(_) => self.place.remove_file(&self.name),
            None => Ok(()),
        }
    }
}

/// The path of this process's scratch directory; `None` if there is none now.
static SCRATCH: Mutex<Option<PathBuf>> = Mutex::new(None);

/// A directory for files that only this process and the processes that it starts need. The directory and all its files
/// are deleted when this value is dropped, and when a signal ends this process. A process has at most one such
/// directory.
#[cfg(feature = "parquet")]
#[derive(Debug)]
pub(crate) struct Scratch(TempDir);

#[cfg(feature = "parquet")]
impl Scratch {
    /// Makes the directory among the system's temporary files.
    ///
    /// # Errors
    /// No directory can be made there.
    pub(crate) fn new() -> io::Result<Scratch> {
        let mut known = SCRATCH.lock();
        let made = tempfile::Builder::new().prefix("tracemerge-").tempdir()?;
        *known = Some(made.path().to_owned());
        Ok(Scratch(made))
    }

    /// Returns the path of the scratch directory.
    #[must_use]
    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }
}

#[cfg(feature = "parquet")]
impl Drop for Scratch {
    fn drop(&mut self) {
        *SCRATCH.lock() = None;
    }
}

/// The function that restores the terminal after this process has shown a full screen on it; `None` if it has never
/// shown one.
static GIVE_BACK: Mutex<Option<fn()>> = Mutex::new(None);

/// Sets the function that restores the terminal. A signal that ends this process calls it before anything else is
/// discarded.
#[cfg(feature = "tui")]
pub(crate) fn give_back_terminal_by(give_back: fn()) {
    *GIVE_BACK.lock() = Some(give_back);
}

/// Restores the terminal, and deletes the scratch directory and the temporary file or directory of an output that is
/// not finished. The process is about to end.
pub(crate) fn discard_unfinished() {
    if let Some(give_back) = *GIVE_BACK.lock() {
        give_back();
    }
    if let Some(unfinished) = unfinished().take() {
        let _ = (0..ATTEMPTS).find(|_| unfinished.remove().is_ok());
    }
    if let Some(scratch) = SCRATCH.lock().take() {
        #[expect(clippy::disallowed_methods, reason = "the directory is private, and no output")]
        let _ = (0..ATTEMPTS).find(|_| std::fs::remove_dir_all(&scratch).is_ok());
    }
}
