//! The run's directory, which contains the life file, the manifest, the site table, the module table and the ring
//! files. The flusher thread makes the directory; recoverers and observers read it.

mod restoration;

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use trace_format::life::{FILE_NAME as LIFE_NAME, LIFE_BYTE, Life, RingFiles};
use trace_format::manifest::{
    self, FILE_NAME, Manifest, ManifestError, RING_PREFIX, SITES_NAME, UNFINISHED_SUFFIX,
};
use trace_format::meta;
use trace_format::plans::Plans;
use trace_format::render::References;
use trace_format::ring::{Geometry, HEADER_BYTES};
use trace_format::sites::{self, Site};

use crate::descriptor::Descriptor;
use crate::drain::{RunTables, TracePlace};
use crate::life::{self, Lock};
use crate::memory::{FIRST_BYTES, FIRST_NESTED_BYTES, MAX_STEP_BYTES, Memory};
use crate::modules::StoredModules;
use crate::reading::read_at_most;
use crate::sys;
use restoration::Identities;
pub use restoration::Missing;

/// The number of times that making a directory is tried, a millisecond apart. A try fails if a recoverer removes the
/// unfinished directory.
const TRIES: u32 = 200;

/// The directory of this process's run, which recoverers and observers read, even after the process was killed.
#[derive(Debug)]
pub struct RunDirectory {
    path: PathBuf,
    /// The mapped page of the life file. The lock on that file shows that the run is alive.
    pub life: &'static Life,
    /// The lock on the life file, which shows that the run is alive.
    pub lock: Arc<Lock>,
    table: Descriptor,
    /// The number of bytes of the site table that are completely written.
    used: u64,
    /// The lock on the manifest, which shows that the run is alive if its life file was removed.
    manifest: Option<Lock>,
    /// The numbers of the ring files that this process has made and not removed.
    rings: Vec<u32>,
    /// The identities that the directory and its files had when the run made them. Files with other identities at their
    /// paths are not the run's.
    made: Identities,
}

/// The values with which a run's directory is made.
#[derive(Clone, Copy, Debug)]
pub struct DirectorySettings<'a> {
    /// The directory that contains the directories of runs; `None` for the directory that is usual on this system.
    runtime: Option<&'a Path>,
    /// The id of the run's flusher thread.
    flusher: u64,
    /// The content of the `# run` line of the run's files.
    info: &'a meta::Run,
    /// The directories of the run's trace files.
    place: &'a TracePlace,
}

/// The files that a new directory of a run gets.
struct Parts {
    life: (Arc<Lock>, &'static Life),
    table: Descriptor,
    used: u64,
    manifest: Option<Lock>,
}

impl RunDirectory {
    /// Makes `<runtime>/<pid>-<id>/`, its life file, its site table and its manifest.
    ///
    /// The directory has a temporary name until it is complete. If a directory keeps that name because the process was
    /// killed, the lock of the life file, which is free, shows that the process is dead. If there is no life file yet,
    /// the directory is empty, and any recoverer may remove it.
    pub fn create(directory_settings: &DirectorySettings<'_>, sites: &[Site]) -> io::Result<RunDirectory> {
        RunDirectory::create_with_former(directory_settings, sites, None)
    }

    /// Makes the directory as [`RunDirectory::create`] does. If the run had an earlier directory that was removed,
    /// `former` is the life page of that directory.
    fn create_with_former(
        directory_settings: &DirectorySettings<'_>,
        sites: &[Site],
        former: Option<&Life>,
    ) -> io::Result<RunDirectory> {
        let DirectorySettings { runtime, info, .. } = *directory_settings;
        let runtime = runtime.map_or_else(sys::runtime_directory, Path::to_path_buf);
        let named = |e, path: &Path| io::Error::other(format!("cannot prepare {path:?} for rings: {e}"));
        sys::make_private_directory(&runtime).map_err(|e| named(e, &runtime))?;
        let name = name(info.pid, info.id);
        let (path, unfinished) = (runtime.join(&name), runtime.join(name + UNFINISHED_SUFFIX));
        let mut tries = TRIES;
        loop {
            tries -= 1;
            match RunDirectory::fill(&unfinished, directory_settings, sites, former) {
                Ok(Parts { life: (lock, life), table, used, manifest }) => {
                    let made = Identities::of(&unfinished);
                    if let Err(e) = std::fs::rename(&unfinished, &path) {
                        // Without the lock, other processes would take it for a dead run.
                        let _ = remove(&unfinished);
                        return Err(named(e, &path));
                    }
                    let rings = Vec::new();
                    return Ok(RunDirectory { path, life, lock, table, used, manifest, rings, made });
                }
                Err(e) if was_removed_by_recoverer(&e) && tries > 0 => {
                    std::thread::sleep(Duration::from_millis(1))
                }
                Err(e) => {
                    let _ = remove(&unfinished);
                    return Err(named(e, &path));
                }
            }
        }
    }

    fn fill(
        path: &Path,
        directory_settings: &DirectorySettings<'_>,
        sites: &[Site],
        former: Option<&Life>,
    ) -> io::Result<Parts> {
        sys::make_private_directory(path)?;
        let life = life::begin(&path.join(LIFE_NAME), directory_settings.flusher)?;
        if let Some(former) = former {
            life.1.continue_from(former);
        }
        let (table, used) = write_table(&path.join(SITES_NAME), sites)?;
        let manifest =
            write_manifest(&path.join(FILE_NAME), directory_settings.info, directory_settings.place)?;
        Ok(Parts { life, table, used, manifest })
    }

    /// Opens the site table again if the host has closed it.
    pub fn keep_open(&mut self) -> io::Result<()> {
        if !self.table.is_ours() {
            self.table = Descriptor::new(sys::open_own_file(&self.path.join(SITES_NAME))?)?;
        }
        Ok(())
    }

    /// Appends a site to the site table. Writes the site first, and then the new number of valid bytes, so that readers
    /// never see a part of a site.
    pub fn add_site(&mut self, site: &Site) -> io::Result<()> {
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

    /// Returns the directory's path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn ring_path(&self, index: u32) -> PathBuf {
        self.path.join(format!("{RING_PREFIX}{index}"))
    }

    /// Creates the file of the ring number `index`, calls `make` to fill it, and counts it. Removes the file if `make`
    /// fails.
    fn make_ring_file<T>(&mut self, index: u32, make: impl FnOnce(File) -> io::Result<T>) -> io::Result<T> {
        self.count_rings(Some(index));
        let path = self.ring_path(index);
        let made = sys::create_private_file(&path).and_then(|file| {
            make(file).inspect_err(|_| {
                let _ = std::fs::remove_file(&path);
            })
        });
        self.rings.extend(made.is_ok().then_some(index));
        self.count_rings(None);
        made
    }

    /// Stores, for a recoverer, the number of ring files, and the number of the ring whose file is being made or
    /// removed (`changing`).
    fn count_rings(&self, changing: Option<u32>) {
        let count = u32::try_from(self.rings.len()).unwrap_or(u32::MAX);
        // Release: a recoverer that sees the word sees the directory as it was before the change at least.
        self.life.flusher.rings.store(RingFiles { count, changing }.to_word(), Ordering::Release);
    }

    /// Makes the file of ring number `index` and maps it. Space in the file system is reserved only for the header and
    /// the first bytes ([`FIRST_BYTES`] and [`FIRST_NESTED_BYTES`]). [`Unreserved::reserve_next`] reserves the rest.
    pub fn create_ring(&mut self, index: u32, geometry: Geometry) -> io::Result<(Memory, Unreserved)> {
        let header = HEADER_BYTES as u64;
        self.make_ring_file(index, |file| {
            file.set_len(geometry.file_size())?;
            sys::reserve_part(&file, 0, header + FIRST_BYTES)?;
            sys::reserve_part(&file, header + geometry.capacity, FIRST_NESTED_BYTES)?;
            let memory = Memory::shared(&file, geometry)?;
            Ok((memory, Unreserved { file: Descriptor::new(file)?, geometry, reserved: FIRST_BYTES }))
        })
    }

    /// Removes the file of ring number `index`, if this process has made it. The ring stays mapped.
    pub fn remove_ring(&mut self, index: u32) {
        let Some(at) = self.rings.iter().position(|ring| *ring == index) else { return };
        self.rings.swap_remove(at);
        self.count_rings(Some(index));
        let _ = std::fs::remove_file(self.ring_path(index));
        self.count_rings(None);
    }

    /// Removes the directory and its contents, unless another directory has replaced it. The directory that contains it
    /// is not removed, because another run may just be making its own directory there.
    pub fn remove(&self) {
        if self.made.is_there(&self.path) {
            let _ = remove(&self.path);
        }
    }
}

/// Writes the site table of a run; returns the open table and the number of its valid bytes.
fn write_table(path: &Path, sites: &[Site]) -> io::Result<(Descriptor, u64)> {
    let mut entries = Vec::new();
    sites.iter().for_each(|site| site.write(&mut entries));
    let used = (sites::HEADER_BYTES + entries.len()) as u64;
    let mut table = sys::create_private_file(path)?;
    table.write_all(&sites::header(used))?;
    table.write_all(&entries)?;
    Ok((Descriptor::new(table)?, used))
}

/// Writes the manifest of a run. Also locks it, if that does not keep a descriptor open: a process that finds no life
/// file tries this lock.
fn write_manifest(path: &Path, info: &meta::Run, place: &TracePlace) -> io::Result<Option<Lock>> {
    let directory = |path: &PathBuf| manifest::Directory {
        path: path.as_os_str().as_encoded_bytes().to_vec(),
        identity: sys::directory_identity(path),
    };
    let manifest = Manifest {
        run: info.clone(),
        directories: place.directories_of_run().map(directory).collect(),
        name: place.name().as_encoded_bytes().to_vec(),
        encoding: place.encoding,
    };
    let mut file = sys::create_private_file(path)?;
    file.write_all(&manifest.write())?;
    if !sys::MAPPINGS_HOLD_LOCKS {
        return Ok(None);
    }
    let mut lock = Lock::of(file)?;
    lock.hold(LIFE_BYTE)?;
    lock.close_descriptor();
    Ok(Some(lock))
}

/// The file of a ring whose space in the file system is reserved step by step.
#[derive(Debug)]
pub struct Unreserved {
    file: Descriptor,
    geometry: Geometry,
    /// The number of bytes at the beginning of the ring's data for which space in the file system is reserved.
    reserved: u64,
}

impl Unreserved {
    /// Reserves space in the file system for the next part of the file, and makes the system map the pages of that part
    /// in `memory`. Returns the position below which the ring's data is reserved now, or `None` if the whole file is
    /// reserved.
    ///
    /// The first steps are small, so that a thread that is already filling the ring soon gets more room.
    ///
    /// # Errors
    /// There is no space, or the host has closed the descriptor.
    pub fn reserve_next(&mut self, memory: &Memory) -> io::Result<Option<u64>> {
        if !self.file.is_ours() {
            return Err(io::Error::other("the program has closed the descriptor of a ring"));
        }
        let Geometry { capacity, .. } = self.geometry;
        let header = HEADER_BYTES as u64;
        // The pages of the first bytes are prepared with the first step.
        let start = if self.reserved == FIRST_BYTES { 0 } else { header + self.reserved };
        let next = (self.reserved + self.reserved.min(MAX_STEP_BYTES)).min(capacity);
        let end = if next == capacity { self.geometry.file_size() } else { header + next };
        sys::reserve_part(&self.file, start, end - start)?;
        memory.populate(start..end);
        self.reserved = next;
        Ok((next < capacity).then_some(next))
    }
}

/// Returns the name of the directory of run `run` of process `pid`.
#[must_use]
pub fn name(pid: u32, run: u32) -> String {
    format!("{pid}-{run:08x}")
}

/// Returns whether `path` has the temporary name of a run's directory that is being made or removed. Removing such a
/// directory loses no records: the run has made no records yet, or all its records are in its trace files.
#[must_use]
pub fn is_unfinished(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().ends_with(UNFINISHED_SUFFIX.as_bytes())
}

/// Returns whether making a directory failed because a recoverer has removed it meanwhile. A recoverer does so if the
/// directory looks as if its process was killed: it has no life file yet, or the life file is not locked yet.
fn was_removed_by_recoverer(error: &io::Error) -> bool {
    use io::ErrorKind::{AlreadyExists, NotFound, WouldBlock};
    matches!(error.kind(), NotFound | WouldBlock | AlreadyExists)
}

/// Removes a run's directory: renames it first, and removes the file with the run's lock last. If this process is
/// killed in between, a recoverer recognizes by the new name what is left, and removes it.
///
/// # Errors
/// Something in the directory cannot be removed.
pub fn remove(path: &Path) -> io::Result<()> {
    let named = |e: io::Error, path: &Path| io::Error::new(e.kind(), format!("cannot remove {path:?}: {e}"));
    let mut nameless = path.as_os_str().to_owned();
    if !is_unfinished(path) {
        nameless.push(UNFINISHED_SUFFIX);
        match std::fs::rename(path, &nameless) {
            // A file in it is open. A directory without a manifest is recognized as one to be removed.
            Err(e) if sys::OPEN_FILES_KEEP_NAMES && e.kind() != io::ErrorKind::NotFound => {
                std::fs::remove_file(path.join(FILE_NAME)).map_err(|e| named(e, path))?;
                path.as_os_str().clone_into(&mut nameless);
            }
            renamed => renamed.map_err(|e| named(e, path))?,
        }
    }
    let path = Path::new(&nameless);
    let locked = lock_file(path);
    let entries = std::fs::read_dir(path).map_err(|e| named(e, path))?.flatten();
    let others = entries.map(|entry| entry.path()).filter(|path| *path != locked).collect::<Vec<_>>();
    for path in others.iter().chain([&locked]) {
        match std::fs::remove_file(path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(named(e, path)),
            _ => {}
        }
    }
    std::fs::remove_dir(path).map_err(|e| named(e, path))
}

/// Removes the directory of a run whose records are all written, and then releases the run's lock. On systems on which
/// an open file cannot be removed completely, releases the lock first.
///
/// # Errors
/// Something in the directory cannot be removed.
pub(crate) fn remove_with(path: &Path, lock: Arc<Lock>) -> io::Result<()> {
    if !sys::OPEN_FILES_KEEP_NAMES {
        let removed = remove(path);
        drop(lock);
        return removed;
    }
    drop(lock);
    match remove(path) {
        // Another recoverer has removed the directory meanwhile.
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Returns the path of the file in a run's directory whose lock shows that the run is alive. This is the life file. If
/// there is no life file, because it was removed or the manifest has version 1, this is the manifest.
#[must_use]
pub fn lock_file(directory: &Path) -> PathBuf {
    let life = directory.join(LIFE_NAME);
    if life.exists() { life } else { directory.join(FILE_NAME) }
}

/// Reads the manifest in a run's directory. Returns `None` if this process cannot read it, or if it belongs neither to
/// `user` nor to the user of this process.
pub(crate) fn read_manifest(directory: &Path, user: u32) -> Option<Result<Manifest, ManifestError>> {
    let file = sys::open_file_of_user_to_read(&directory.join(FILE_NAME), user).ok()?;
    // A manifest has a few hundred bytes; several escaped paths of the greatest length fit in.
    Some(Manifest::parse(&read_at_most(&file, 256 * 1024).ok()?))
}

/// Returns the paths of the ring files in a run's directory, sorted.
pub(crate) fn ring_paths(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_ring = |p: &PathBuf| p.file_name().is_some_and(|n| n.to_string_lossy().starts_with(RING_PREFIX));
    let mut rings: Vec<PathBuf> = entries.filter(is_ring).collect();
    crate::sorting::sort(&mut rings, |a, b| a < b);
    rings
}

/// The tables in a run's directory that the run's records refer to: those of sites and of modules.
pub(crate) struct StoredTables {
    plans: Plans,
    modules: StoredModules,
}

impl StoredTables {
    /// Makes the tables from the plans of the sites and from the module table.
    pub(crate) fn new(plans: Plans, modules: StoredModules) -> StoredTables {
        StoredTables { plans, modules }
    }

    /// Reads the tables of the run in `directory`, which belongs to the user of this process.
    ///
    /// # Errors
    /// The site table has an unknown layout, or cannot be read. The run's records cannot be rendered without it.
    pub(crate) fn read(directory: &Path) -> io::Result<StoredTables> {
        let user = sys::effective_user();
        let plans = match open_table(directory, user) {
            // A run that was killed before it had a site table has no records.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Plans::default(),
            Err(error) => {
                return Err(io::Error::new(
                    error.kind(),
                    format!("cannot open the run's site table: {error}"),
                ));
            }
            Ok(table) => read_plans(&table)?,
        };
        Ok(StoredTables::new(plans, StoredModules::open(directory, user)))
    }
}

impl RunTables for StoredTables {
    fn references(&mut self) -> References<'_> {
        References { plans: &self.plans, modules: &mut self.modules }
    }
}

/// Opens the site table of the run in `directory`, which belongs to `user`.
pub(crate) fn open_table(directory: &Path, user: u32) -> io::Result<File> {
    sys::open_file_of_user_to_read(&directory.join(SITES_NAME), user)
}

/// Reads the current contents of a site table, and makes the plans by which the records of its sites are rendered.
///
/// # Errors
/// The table cannot be read, or is not a table of this layout.
pub(crate) fn read_plans(mut table: &File) -> io::Result<Plans> {
    table.rewind()?;
    let sites = sites::parse(&read_at_most(table, LARGEST_TABLE)?).map_err(io::Error::other)?;
    Ok(Plans::of(&sites))
}

/// The greatest number of bytes that are read of a site table. A site takes some hundred bytes, and no program has so
/// many sites that this limit matters.
const LARGEST_TABLE: u64 = 256 << 20;
