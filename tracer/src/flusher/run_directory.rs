//! The run's directory: manifest and lock, site table, ring files. Flusher thread only.

use crate::drain::TracePlace;
use crate::ring::Memory;
use crate::sys;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use trace_format::manifest::{FILE_NAME, Manifest, RING_PREFIX, SITES_NAME};
use trace_format::meta;
use trace_format::ring::Geometry;
use trace_format::sites;

/// A directory that says what this process traces, as long as it lives and after it was killed.
#[derive(Debug)]
pub(crate) struct RunDirectory {
    path: PathBuf,
    /// Opened once and never closed before the end: closing any descriptor of a file drops this process's
    /// record locks on it.
    _manifest: File,
}

impl RunDirectory {
    /// Makes `<runtime>/<pid>-<id>/`, its manifest and its empty site table.
    pub(crate) fn create(
        runtime: Option<&Path>,
        info: &meta::Run,
        place: &TracePlace,
    ) -> io::Result<RunDirectory> {
        let runtime = runtime.map_or_else(sys::runtime_directory, Path::to_path_buf);
        let name = |e, path: &Path| io::Error::other(format!("cannot prepare {path:?} for rings: {e}"));
        sys::make_private_directory(&runtime).map_err(|e| name(e, &runtime))?;
        let path = runtime.join(format!("{}-{:08x}", info.pid, info.id));
        sys::make_private_directory(&path).map_err(|e| name(e, &path))?;
        RunDirectory::fill(&path, info, place).map_err(|e| {
            let _ = std::fs::remove_dir_all(&path);
            name(e, &path)
        })
    }

    /// The manifest gets its name only when it is whole and locked: who sees one without a lock sees a dead
    /// run.
    fn fill(path: &Path, info: &meta::Run, place: &TracePlace) -> io::Result<RunDirectory> {
        let mut table = sys::create_private_file(&path.join(SITES_NAME))?;
        table.write_all(&sites::header(sites::HEADER_BYTES as u64))?;
        let manifest = Manifest {
            run: info.clone(),
            directory: place.directory().as_os_str().as_encoded_bytes().to_vec(),
            name: place.name().as_encoded_bytes().to_vec(),
        };
        let unfinished = path.join("manifest.new");
        let mut file = sys::create_private_file(&unfinished)?;
        sys::hold_lock(&file)?;
        file.write_all(&manifest.write())?;
        std::fs::rename(&unfinished, path.join(FILE_NAME))?;
        Ok(RunDirectory { path: path.to_path_buf(), _manifest: file })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn ring_path(&self, index: u32) -> PathBuf {
        self.path.join(format!("{RING_PREFIX}{index}"))
    }

    /// Makes a ring file, reserves its space and maps it. The descriptor is closed; the mapping stays.
    pub(crate) fn create_ring(&self, index: u32, geometry: Geometry) -> io::Result<Memory> {
        let path = self.ring_path(index);
        let file = sys::create_private_file(&path)?;
        let reserved = sys::reserve(&file, geometry.file_size());
        reserved.and_then(|()| Memory::shared(&file, geometry)).inspect_err(|_| {
            let _ = std::fs::remove_file(&path);
        })
    }

    /// Removes a ring's file; its mapping stays.
    pub(crate) fn remove_ring(&self, index: u32) {
        let _ = std::fs::remove_file(self.ring_path(index));
    }

    /// Removes the directory and what is in it. The directory above stays: another run may be starting there.
    pub(crate) fn remove(&self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}
