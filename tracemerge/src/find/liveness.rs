//! Liveness of runs: a run is alive as long as it holds the lock on its life file.
//!
//! These functions never take the lock, so they cannot make a live run look dead to another process.

use std::fs;
use std::io::Read;
use std::path::Path;

use trace_format::life::LIFE_BYTE;
use trace_format::manifest::{FILE_NAME, Manifest};
use trace_format::meta::Run;
use trace_store::recovery::runtime_directories;
use trace_store::run_directory::{lock_file, name};
use trace_store::sys::{open_file_of_user_to_read, private_directory_of};

use crate::find::header::Trace;
use crate::os::sys::{is_locked, real_path};

/// The maximum size of a manifest, in bytes. A larger file is no manifest.
const LARGEST_MANIFEST: u64 = 1 << 20;

/// Returns whether the process of `run` is still alive, and may be writing.
#[must_use]
pub(crate) fn is_alive(run: &Run) -> bool {
    let name = name(run.pid, run.id);
    runtime_directories().iter().map(|directory| directory.join(&name)).any(|directory| {
        live_manifest(&directory)
            .is_some_and(|manifest| manifest.run.id == run.id && manifest.run.pid == run.pid)
    })
}

/// Returns whether some live run writes a trace at `path`. If so, an empty file at that path has just been created.
#[must_use]
pub(crate) fn is_being_written(path: &Path) -> bool {
    let (Some(name), Some(directory)) = (path.file_name(), path.parent()) else { return false };
    let Ok(directory) = real_path(if directory.as_os_str().is_empty() { Path::new(".") } else { directory })
    else {
        return false;
    };
    let writes = |manifest: Manifest| {
        manifest.directories.iter().any(|place| place.path == directory.as_os_str().as_encoded_bytes())
            && name
                .as_encoded_bytes()
                .strip_prefix(&manifest.name[..])
                .is_some_and(|rest| rest.starts_with(b"."))
    };
    let runs = runtime_directories();
    let mut runs = runs.iter().filter_map(|runs| fs::read_dir(runs).ok()).flatten().flatten();
    runs.any(|run| live_manifest(&run.path()).is_some_and(writes))
}

/// Returns the manifest in a run's directory, if the run is alive: it holds the lock on its life file.
fn live_manifest(directory: &Path) -> Option<Manifest> {
    // A directory that is not private to a user does not belong to a run.
    let user = private_directory_of(directory)?;
    let open = |path: &Path| open_file_of_user_to_read(path, user).ok();
    if !is_locked(&open(&lock_file(directory))?, LIFE_BYTE) {
        return None;
    }
    let mut bytes = Vec::new();
    open(&directory.join(FILE_NAME))?.take(LARGEST_MANIFEST).read_to_end(&mut bytes).ok()?;
    Manifest::parse(&bytes).ok()
}

/// Returns a function that checks whether the run of a trace is alive. The function remembers the result for the last
/// run, because traces of the same run follow each other.
pub(crate) fn liveness_check() -> impl FnMut(&Trace) -> bool {
    let mut asked: Option<((u32, u32), bool)> = None;
    move |trace| {
        trace.run.as_ref().is_some_and(|run| match asked {
            Some((known, alive)) if known == (run.pid, run.id) => alive,
            _ => asked.insert(((run.pid, run.id), is_alive(run))).1,
        })
    }
}
