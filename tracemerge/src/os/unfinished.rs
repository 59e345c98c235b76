//! The output file that still has a temporary name, for the signal that ends this process.

use std::path::PathBuf;

use parking_lot::{Mutex, MutexGuard};

/// The temporary file that exists now, for a signal that ends the process before the file's owner can delete
/// it.
static UNFINISHED: Mutex<Option<PathBuf>> = Mutex::new(None);

pub fn unfinished() -> MutexGuard<'static, Option<PathBuf>> {
    UNFINISHED.lock()
}

/// Deletes the temporary file of an output that is not finished. The process is about to end.
pub fn discard_unfinished() {
    if let Some(path) = unfinished().take() {
        let _ = std::fs::remove_file(path);
    }
}
