//! The restoration of a living run's directory, after files in it were removed. Only the flusher thread does this.
//!
//! A cleaner, systemd's `RemoveIPC` or a person may remove the directory of a run or files in it. The run keeps its
//! mappings and its locks, but a recoverer no longer finds the files. Each missing file is made again under a temporary
//! name, and renamed when it is complete and locked; so other processes see at any moment that the run is alive. The
//! removed file of a ring cannot be restored.

use std::io;
use std::path::Path;

use trace_format::life::FILE_NAME as LIFE_NAME;
use trace_format::manifest::{FILE_NAME, MODULES_NAME, RING_PREFIX, SITES_NAME, UNFINISHED_SUFFIX};
use trace_format::meta;
use trace_format::sites::Site;

use super::{DirectorySettings, RunDirectory, ring_paths, write_manifest, write_table};
use crate::life;
use crate::sys::{self, FileIdentity};

/// The identities that the directory and its files had when the run made them; `None` for an identity that is not
/// known.
#[derive(Clone, Copy, Debug)]
pub(super) struct Identities {
    directory: Option<FileIdentity>,
    life: Option<FileIdentity>,
    manifest: Option<FileIdentity>,
    sites: Option<FileIdentity>,
}

impl Identities {
    pub(super) fn of(path: &Path) -> Identities {
        let identity = |path: &Path| sys::path_identity(path).ok();
        Identities {
            directory: identity(path),
            life: identity(&path.join(LIFE_NAME)),
            manifest: identity(&path.join(FILE_NAME)),
            sites: identity(&path.join(SITES_NAME)),
        }
    }

    /// Returns whether the directory at `path` is the one that the run has made.
    pub(super) fn is_there(&self, path: &Path) -> bool {
        is_same(self.directory, Identities::of(path).directory)
    }
}

/// Returns whether the file that the run has made (`made`) is the file that was found at its path (`found`). Also
/// returns true if `made` is not known, and on systems on which an open file keeps its name, because the file cannot be
/// replaced there.
fn is_same(made: Option<FileIdentity>, found: Option<FileIdentity>) -> bool {
    let Some(made) = made.filter(|_| !sys::OPEN_FILES_KEEP_NAMES) else { return true };
    found.is_some_and(|found| found.is_same_file(&made))
}

/// The files that are missing in a run's directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Missing {
    /// Whether the directory itself is missing, with all its contents.
    pub directory: bool,
    /// Whether the life file is missing.
    pub life: bool,
    /// Whether the manifest is missing.
    pub manifest: bool,
    /// Whether the site table is missing.
    pub sites: bool,
    /// The numbers of the rings whose files are missing.
    pub rings: Vec<u32>,
}

impl Missing {
    /// Returns whether nothing is missing.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        *self == Missing::default()
    }
}

impl RunDirectory {
    /// Finds out which files of the run's directory are missing. A file that another file has replaced counts as
    /// missing, too.
    #[must_use]
    pub fn missing(&self) -> Missing {
        let (made, found) = (&self.made, Identities::of(&self.path));
        if !is_same(made.directory, found.directory) {
            return Missing { directory: true, rings: self.rings.clone(), ..Missing::default() };
        }
        let number = |path: &Path| -> Option<u32> {
            path.file_name()?.to_str()?.strip_prefix(RING_PREFIX)?.parse().ok()
        };
        let mut there: Vec<u32> = ring_paths(&self.path).iter().filter_map(|path| number(path)).collect();
        crate::sorting::sort(&mut there, |a, b| a < b);
        let is_missing = |ring: &u32| there.binary_search(ring).is_err();
        Missing {
            directory: false,
            life: !is_same(made.life, found.life),
            manifest: !is_same(made.manifest, found.manifest),
            sites: !is_same(made.sites, found.sites),
            rings: self.rings.iter().copied().filter(is_missing).collect(),
        }
    }

    /// Returns whether the module table is missing.
    #[must_use]
    pub fn has_no_modules(&self) -> bool {
        !self.path.join(MODULES_NAME).exists()
    }

    /// Restores the missing files, except those of rings.
    ///
    /// # Errors
    /// A file cannot be made; the caller may try again.
    pub fn restore(
        &mut self,
        missing: &Missing,
        directory_settings: &DirectorySettings<'_>,
        sites: &[Site],
    ) -> io::Result<()> {
        if missing.directory {
            let rings = std::mem::take(&mut self.rings);
            match RunDirectory::create_with_former(directory_settings, sites, Some(self.life)) {
                Ok(made) => *self = RunDirectory { rings, ..made },
                Err(error) => {
                    self.rings = rings;
                    return Err(error);
                }
            }
            return Ok(());
        }
        if missing.life {
            let (lock, life) = self.put_back(LIFE_NAME, |path| {
                let (lock, life) = life::begin(path, directory_settings.flusher)?;
                life.continue_from(self.life);
                Ok((lock, life))
            })?;
            (self.lock, self.life) = (lock, life);
        }
        if missing.manifest {
            let write = |path: &Path| write_manifest(path, directory_settings.info, directory_settings.place);
            self.manifest = self.put_back(FILE_NAME, write)?;
        }
        if missing.sites {
            (self.table, self.used) = self.put_back(SITES_NAME, |path| write_table(path, sites))?;
        }
        self.made = Identities::of(&self.path);
        Ok(())
    }

    /// Makes the missing file `name` again: calls `make` to make it under a temporary name, and then renames it to
    /// `name`.
    fn put_back<T>(&self, name: &str, make: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
        let path = self.path.join(name);
        let unfinished = self.path.join(format!("{name}{UNFINISHED_SUFFIX}"));
        // A failed attempt may have left a file.
        let _ = std::fs::remove_file(&unfinished);
        let put = make(&unfinished).and_then(|made| std::fs::rename(&unfinished, &path).map(|()| made));
        put.map_err(|e| io::Error::new(e.kind(), format!("cannot make {path:?} again: {e}")))
    }
}

impl<'a> DirectorySettings<'a> {
    /// Returns the values with which a run's directory is made.
    #[must_use]
    pub fn new(
        runtime: Option<&'a Path>,
        flusher: u64,
        info: &'a meta::Run,
        place: &'a crate::drain::TracePlace,
    ) -> DirectorySettings<'a> {
        DirectorySettings { runtime, flusher, info, place }
    }
}
