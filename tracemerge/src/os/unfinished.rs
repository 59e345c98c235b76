//! The output that has a temporary name, for the signal that ends this process.

use std::fs;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The temporary file there is now, for a signal that ends the process before its owner can delete it.
static UNFINISHED: Mutex<Option<PathBuf>> = Mutex::new(None);

pub fn unfinished() -> MutexGuard<'static, Option<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Deletes the temporary file of an output that is not finished. The process is about to end.
#[cfg(unix)]
pub fn discard_unfinished() {
    if let Some(path) = unfinished().take() {
        let _ = fs::remove_file(path);
    }
}
