//! Which runs are still alive: those that hold the record lock on their manifest.
//!
//! Never takes the lock, so it cannot make a live run look dead to anybody; nor opens the manifest of the run of
//! its own process, whose lock would be gone when it is closed. Where there are no such locks, no other run is
//! known to be alive.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use trace_format::manifest::{FILE_NAME, LIFE_BYTE, Manifest};
use trace_format::meta::Run;
use tracer::recovery::{is_open_here, runtime_directories};

use crate::sys::is_locked;

/// Manifests are far smaller; what is larger is none.
const LARGEST_MANIFEST: u64 = 1 << 20;

/// Whether the process of `run` still lives, and may be writing.
#[must_use]
pub fn is_alive(run: &Run) -> bool {
    let name = format!("{}-{:08x}", run.pid, run.id);
    runtime_directories().iter().map(|directory| directory.join(&name)).any(|directory| {
        is_open_here(&directory)
            || live_manifest(&directory)
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
    let writes = |manifest: Manifest| {
        manifest.directory == directory.as_os_str().as_encoded_bytes()
            && name
                .as_encoded_bytes()
                .strip_prefix(&manifest.name[..])
                .is_some_and(|rest| rest.starts_with(b"."))
    };
    let runs = runtime_directories();
    let mut runs = runs.iter().filter_map(|runs| fs::read_dir(runs).ok()).flatten().flatten();
    // What this process itself writes cannot be asked, so it may be that.
    runs.any(|run| is_open_here(&run.path()) || live_manifest(&run.path()).is_some_and(writes))
}

/// The manifest in a run's directory, if another process holds its lock.
fn live_manifest(directory: &Path) -> Option<Manifest> {
    let path = directory.join(FILE_NAME);
    // Nothing but a regular file is opened: a FIFO would block.
    fs::symlink_metadata(&path).ok().filter(fs::Metadata::is_file)?;
    let file = File::open(&path).ok()?;
    if !is_locked(&file, LIFE_BYTE) {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(LARGEST_MANIFEST).read_to_end(&mut bytes).ok()?;
    Manifest::parse(&bytes)
}
