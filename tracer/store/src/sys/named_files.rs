//! Functions for systems that do not support files without a name.

use std::fs::File;
use std::io;
use std::path::Path;

/// Returns `None`: this system does not support files without a name.
pub fn create_unnamed_file(_directory: &Path) -> io::Result<Option<File>> {
    Ok(None)
}

/// Returns an error: this system does not support files without a name.
pub fn link_unnamed_file(_file: &File, _path: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Checks that a file can be made in the directory, by making a file at `probe` and removing it.
///
/// # Errors
/// No file can be made, for the reason in the error.
pub fn check_file_creation(_directory: &Path, probe: &Path) -> io::Result<()> {
    super::create_private_file(probe)?;
    std::fs::remove_file(probe)
}

/// Returns an error. Scratch files are needed only for copies of other users' rings, and on this system no process
/// reads other users' rings.
pub fn create_scratch_file() -> io::Result<File> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Returns the file's bytes from `at` to `length` as one range: this system does not report holes (ranges that were
/// never written). Returns `None` if `at` is not below `length`.
pub fn next_data(_file: &File, at: u64, length: u64) -> Option<std::ops::Range<u64>> {
    (at < length).then_some(at..length)
}
