//! Which runs are still alive: those that hold the record lock on their manifest.
//!
//! Never takes the lock, so it cannot make a live run look dead to anybody. Where there are no such locks,
//! no run is known to be alive.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use trace_format::manifest::{FILE_NAME, Manifest};
use trace_format::meta::Run;
use tracer::recovery::runtime_directories;

use crate::sys::is_locked;

/// Manifests are far smaller; what is larger is none.
const LARGEST_MANIFEST: u64 = 1 << 20;

/// Whether the process of `run` still lives, and may be writing.
#[must_use]
pub fn is_alive(run: &Run) -> bool {
    let name = format!("{}-{:08x}", run.pid, run.id);
    runtime_directories().iter().any(|directory| {
        live_manifest(&directory.join(&name))
            .is_some_and(|manifest| manifest.run.id == run.id && manifest.run.pid == run.pid)
    })
}

/// Whether some live run writes a trace at `path`: then an empty file there is one just begun.
#[must_use]
pub fn is_being_written(path: &Path) -> bool {
    let (Some(name), Some(directory)) = (path.file_name(), path.parent()) else { return false };
    let Ok(directory) =
        fs::canonicalize(if directory.as_os_str().is_empty() { Path::new(".") } else { directory })
    else {
        return false;
    };
    runtime_directories().iter().filter_map(|runs| fs::read_dir(runs).ok()).flatten().flatten().any(|entry| {
        live_manifest(&entry.path()).is_some_and(|manifest| {
            manifest.directory == directory.as_os_str().as_encoded_bytes()
                && name
                    .as_encoded_bytes()
                    .strip_prefix(&manifest.name[..])
                    .is_some_and(|rest| rest.starts_with(b"."))
        })
    })
}

/// The manifest in a run's directory, if a process holds its lock.
fn live_manifest(directory: &Path) -> Option<Manifest> {
    let path = directory.join(FILE_NAME);
    // Nothing but a regular file is opened: a FIFO would block.
    fs::symlink_metadata(&path).ok().filter(fs::Metadata::is_file)?;
    let file = File::open(&path).ok()?;
    if !is_locked(&file) {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(LARGEST_MANIFEST).read_to_end(&mut bytes).ok()?;
    Manifest::parse(&bytes)
}
