//! Systems on which every file has a name.

use std::fs::File;
use std::io;
use std::path::Path;

/// Returns `None`: there are no files without names.
pub fn create_unnamed_file(_directory: &Path) -> io::Result<Option<File>> {
    Ok(None)
}

/// Returns an error: there are no files without names.
pub fn link_unnamed_file(_file: &File, _path: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Returns whether a file can be made in `directory`; it is called `probe` for a moment.
///
/// # Errors
/// The error says why no file can be made.
pub fn try_to_make_file(_directory: &Path, probe: &Path) -> io::Result<()> {
    super::create_private_file(probe)?;
    std::fs::remove_file(probe)
}

/// Returns an error: only files of other users are copied, and nobody reads their rings here.
pub fn create_scratch_file() -> io::Result<File> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Returns the rest of the file's first `length` bytes: holes are not known here.
pub fn next_data(_file: &File, at: u64, length: u64) -> Option<std::ops::Range<u64>> {
    (at < length).then_some(at..length)
}
