//! The output, a file or a directory, that still has a temporary name, for the signal that ends this process.

use std::path::PathBuf;

use parking_lot::{Mutex, MutexGuard};

/// The temporary file or directory that exists now, for a signal that ends the process before its owner can
/// delete it.
static UNFINISHED: Mutex<Option<PathBuf>> = Mutex::new(None);

pub fn unfinished() -> MutexGuard<'static, Option<PathBuf>> {
    UNFINISHED.lock()
}

/// The number of times that a directory is deleted in which another thread may still make files.
const ATTEMPTS: u32 = 16;

/// Deletes the temporary file or directory of an output that is not finished. The process is about to end.
pub fn discard_unfinished() {
    let Some(path) = unfinished().take() else { return };
    if std::fs::remove_file(&path).is_err() {
        let _ = (0..ATTEMPTS).find(|_| std::fs::remove_dir_all(&path).is_ok());
    }
}
