//! The run's directory: manifest and lock, site table, ring files. Flusher thread only.

use crate::descriptor::Descriptor;
use crate::drain::TracePlace;
use crate::ring::Memory;
use crate::sys;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use trace_format::manifest::{FILE_NAME, LIFE_BYTE, Manifest, RING_PREFIX, SITES_NAME};
use trace_format::meta;
use trace_format::ring::Geometry;
use trace_format::sites::{self, Site};

/// A directory that says what this process traces, as long as it lives and after it was killed.
#[derive(Debug)]
pub(crate) struct RunDirectory {
    path: PathBuf,
    /// Opened once and never closed before the end: closing any descriptor of a file drops this process's
    /// record locks on it.
    manifest: Descriptor,
    table: Descriptor,
    /// Bytes of the table that count.
    used: u64,
}

impl RunDirectory {
    /// Makes `<runtime>/<pid>-<id>/`, its manifest and its site table.
    pub(crate) fn create(
        runtime: Option<&Path>,
        info: &meta::Run,
        place: &TracePlace,
        sites: &[Site],
    ) -> io::Result<RunDirectory> {
        let runtime = runtime.map_or_else(sys::runtime_directory, Path::to_path_buf);
        let name = |e, path: &Path| io::Error::other(format!("cannot prepare {path:?} for rings: {e}"));
        sys::make_private_directory(&runtime).map_err(|e| name(e, &runtime))?;
        let path = runtime.join(format!("{}-{:08x}", info.pid, info.id));
        sys::make_private_directory(&path).map_err(|e| name(e, &path))?;
        RunDirectory::fill(&path, info, place, sites).map_err(|e| {
            let _ = std::fs::remove_dir_all(&path);
            name(e, &path)
        })
    }

    /// The manifest gets its name only when it is whole and locked: who sees one without a lock sees a dead
    /// run.
    fn fill(path: &Path, info: &meta::Run, place: &TracePlace, sites: &[Site]) -> io::Result<RunDirectory> {
        let mut entries = Vec::new();
        sites.iter().for_each(|site| site.write(&mut entries));
        let used = (sites::HEADER_BYTES + entries.len()) as u64;
        let mut table = sys::create_private_file(&path.join(SITES_NAME))?;
        table.write_all(&sites::header(used))?;
        table.write_all(&entries)?;
        let manifest = Manifest {
            run: info.clone(),
            directory: place.directory().as_os_str().as_encoded_bytes().to_vec(),
            name: place.name().as_encoded_bytes().to_vec(),
            encoding: place.encoding,
        };
        let unfinished = path.join("manifest.new");
        let mut file = sys::create_private_file(&unfinished)?;
        sys::hold_lock(&file, LIFE_BYTE)?;
        file.write_all(&manifest.write())?;
        std::fs::rename(&unfinished, path.join(FILE_NAME))?;
        let (manifest, table) = (Descriptor::new(file)?, Descriptor::new(table)?);
        Ok(RunDirectory { path: path.to_path_buf(), manifest, table, used })
    }

    /// Opens again what the host has closed, with all descriptors that it does not know, and takes the lock that went
    /// with the manifest. Meanwhile the run may be taken for dead; so this is done each time the flusher wakes.
    pub(crate) fn keep_open(&mut self) -> io::Result<()> {
        if !self.manifest.is_ours() {
            let manifest = sys::open_own_file(&self.path.join(FILE_NAME))?;
            sys::hold_lock(&manifest, LIFE_BYTE)?;
            self.manifest = Descriptor::new(manifest)?;
        }
        if !self.table.is_ours() {
            self.table = Descriptor::new(sys::open_own_file(&self.path.join(SITES_NAME))?)?;
        }
        Ok(())
    }

    /// Appends a site to the table: first the entry, then that it counts.
    pub(crate) fn add_site(&mut self, site: &Site) -> io::Result<()> {
        let mut entry = Vec::new();
        site.write(&mut entry);
        self.table.seek(SeekFrom::Start(self.used))?;
        self.table.write_all(&entry)?;
        let used = self.used + entry.len() as u64;
        self.table.seek(SeekFrom::Start(sites::USED_OFFSET as u64))?;
        self.table.write_all(&used.to_le_bytes())?;
        self.used = used;
        Ok(())
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
