//! Inspection: reads the records in the rings of a run without changing anything, while the run's threads go on, or
//! after the run has died if recovery may not write.
//!
//! This is for `tracemerge`. Inspection takes no lock that a run or a recoverer takes, writes and removes nothing, and
//! no thread of the run waits for it: a living process does not notice it. The trace of a thread consists of two parts:
//! its file up to the length that its ring publishes, and [`ThreadInMemory::text`], which is the text that the flusher
//! would write next. The inspection treats everything that it reads as hostile.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

use trace_format::file::{FIRST_BYTES, run_of};
use trace_format::life;
use trace_format::line::Ticks;
use trace_format::manifest::{Directory, FILE_NAME, Manifest, ManifestError};
use trace_format::meta::{Cause, ClockKind, EndReason, Meta, RingPlace, Run};
use trace_format::plans::Plans;
use trace_format::ring::{Header, Progress, State};

use crate::counter;
use crate::drain::{DrainedRing, Observer, Survivors, TracePlace, visible};
use crate::life::Lock;
use crate::memory::{HeaderCopy, Memory};
use crate::modules::StoredModules;
use crate::reading::read_at_most;
use crate::recovery::unknown_manifest;
use crate::run_directory::{
    StoredTables, is_unfinished, name, open_table, read_manifest, read_plans, ring_paths,
};
use crate::sys;

/// The number of times that reading a ring is tried, if the ring changes during each reading.
const TRIES: u32 = 1000;
/// The greatest number of pauses that are made for all rings of a run together. In a pause the reader waits for a
/// change that a flusher or a thread is about to make.
const MAX_PAUSES: u32 = 200;
const PAUSE: Duration = Duration::from_millis(5);

/// A run, living or dead, whose directory with its rings still exists.
#[derive(Clone, Debug)]
pub struct RunInMemory {
    /// The manifest, which describes the run.
    pub manifest: Manifest,
    /// The directory of the run's rings.
    pub directory: PathBuf,
    /// The user id of the owner of the rings.
    user: u32,
}

/// A thread that has a ring, and what its ring contains.
#[derive(Debug)]
pub struct ThreadInMemory {
    /// The operating system's id of the thread.
    pub tid: u64,
    /// The thread's name.
    pub name: Vec<u8>,
    /// The ticks at which the thread took the ring. The first line of the thread's file has the same ticks.
    pub since: Ticks,
    /// The path of the ring's file.
    pub ring: PathBuf,
    /// The thread's file. `None` if the thread has no file, or if its file was deleted or truncated; `text` then begins
    /// with the first lines of a file.
    pub file: Option<FileInUse>,
    /// The identity of the thread's file, if the thread had one that is not found any more. A reader that has this file
    /// open may read it up to the published length.
    pub gone: Option<MissingFile>,
    /// The text that follows after the file's published length. If the run is dead, the text ends with an `# end` line;
    /// if the run is alive, the text may end inside a line.
    pub text: Vec<u8>,
    /// Whether the file ends inside a message, whose rest is in `text`.
    pub continues: bool,
    /// The number of messages in `text`.
    pub records: u64,
    /// A lower bound for the number of messages that the thread had ever put into its ring when the reading began.
    pub committed: u64,
    /// The type number of a record in the ring, if only a later version of the library knows this type. `text` does not
    /// contain such records, and reports them as damaged.
    pub unknown_kind: Option<u8>,
}

/// A thread's file, open for reading.
#[derive(Debug)]
pub struct FileInUse {
    /// The open file. It may have been renamed since it was made.
    pub file: File,
    /// The path at which the file was found.
    pub path: PathBuf,
    /// The number at the end of the name that the file got when it was made; 0 if that name ends without a number.
    pub number: u32,
    /// The published length of the file, in bytes. The file may be longer: `ThreadInMemory::text` repeats what the
    /// further bytes contain.
    pub length: u64,
}

/// The last published identity and length of a thread's file that was deleted, moved or truncated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MissingFile {
    /// The file's device.
    pub device: u64,
    /// The file's inode number.
    pub inode: u64,
    /// The published length of the file, in bytes.
    pub length: u64,
}

/// The state of each ring of a run when it was read last, by the path of the ring's file. The next reading compares the
/// rings with these states.
#[derive(Debug, Default)]
pub struct RingStates(HashMap<PathBuf, Fingerprint>);

/// Values of a ring that show whether its contents have changed: the thread that has the ring, whether that thread has
/// ended, the number of publications by the flusher, and the positions up to which records are committed in the ring
/// and in the nested ring.
type Fingerprint = (Tenant, bool, u64, u64, u64);

/// The result of comparing a ring with its state at the previous reading.
#[derive(Debug)]
pub enum Change {
    /// No thread has the ring.
    Unowned,
    /// The ring has not changed since the previous reading.
    Same,
    /// The ring has changed since the previous reading. Contains the thread that has the ring, and what the ring
    /// contains now.
    Thread(Box<ThreadInMemory>),
}

/// Reads the counter and all clocks of the system now, for a `# clock` line. Returns `None` if `boot` does not name the
/// current boot of this machine, or if the processor has no counter that can be trusted.
#[must_use]
pub fn read_clocks(boot: &[u8]) -> Option<Meta> {
    let counts = counter::available(ClockKind::Ordered) == ClockKind::Ordered;
    (counts && !boot.is_empty() && sys::boot_id() == boot)
        .then(|| counter::look(|| Ticks(counter::ordered())))
}

/// Finds the runs of this user in `directories` whose manifests `wanted` accepts, living or dead. Skips other users'
/// directories, directories that are being made or removed, everything that is not a run, and runs of unknown versions.
pub fn runs(directories: &[PathBuf], wanted: impl Fn(&Manifest) -> bool) -> Vec<RunInMemory> {
    let user = sys::effective_user();
    let own = directories.iter().filter(|directory| sys::is_private_directory(directory));
    let entries = own.filter_map(|directory| std::fs::read_dir(directory).ok()).flatten().flatten();
    let run = |directory: PathBuf| {
        (!is_unfinished(&directory) && sys::is_private_directory(&directory)).then_some(())?;
        let manifest = read_manifest(&directory, user)?.ok().filter(&wanted)?;
        Some(RunInMemory { manifest, directory, user })
    };
    entries.filter_map(|entry| run(entry.path())).collect()
}

/// The results of a search for the runs of other users.
#[derive(Debug, Default)]
pub struct OtherUsersRuns {
    /// The runs, living or dead.
    pub runs: Vec<RunInMemory>,
    /// The errors for runs whose manifests have a version that this program does not know.
    pub unknown: Vec<io::Error>,
    /// The directories of which only a part was read, because the time was used up; each with the user id of its owner.
    pub unread_directories: Vec<(u32, PathBuf)>,
}

/// Finds the runs of other users in `directories` that `wanted` accepts. Called for root. Reads one entry of each
/// directory in turn, so that a directory with many entries does not hide the runs in the others. Ends at the time
/// `until`, even if entries are left.
pub fn find_other_users_runs(
    directories: &[PathBuf],
    wanted: impl Fn(&Run, Option<&Manifest>) -> bool,
    until: Instant,
) -> OtherUsersRuns {
    let mut found = OtherUsersRuns::default();
    let of_other = |directory: &PathBuf| {
        let user = sys::private_directory_of(directory).filter(|user| *user != sys::effective_user())?;
        Some((user, directory.clone(), std::fs::read_dir(directory).ok()?))
    };
    let mut open: Vec<_> = directories.iter().filter_map(of_other).collect();
    while !open.is_empty() {
        open.retain_mut(|(user, directory, entries)| {
            if Instant::now() >= until {
                found.unread_directories.push((*user, directory.clone()));
                return false;
            }
            let Some(entry) = entries.next() else { return false };
            let Ok(directory) = entry.map(|entry| entry.path()) else { return true };
            if is_unfinished(&directory) || sys::private_directory_of(&directory) != Some(*user) {
                return true;
            }
            match read_manifest(&directory, *user) {
                Some(Ok(manifest)) if wanted(&manifest.run, Some(&manifest)) => {
                    found.runs.push(RunInMemory { manifest, directory, user: *user });
                }
                Some(Err(ManifestError::Version { version, run: Some(run) })) if wanted(&run, None) => {
                    found.unknown.push(unknown_manifest(&directory, version, &run));
                }
                _ => {}
            }
            true
        });
    }
    found
}

impl RunInMemory {
    /// Returns the user id of the run's owner.
    #[must_use]
    pub fn user(&self) -> u32 {
        self.user
    }

    /// Returns whether the run's directory still has the name that the run gave it: no two runs of a user have the same
    /// name.
    #[must_use]
    pub fn has_its_name(&self) -> bool {
        let Run { pid, id, .. } = self.manifest.run;
        self.directory.file_name().is_some_and(|found| found.to_str() == Some(&name(pid, id)))
    }

    /// Returns the path of the run's executable.
    #[must_use]
    pub fn exe(&self) -> PathBuf {
        sys::path_from_bytes(&self.manifest.run.exe)
    }

    /// Returns the directories that may contain the run's trace files, in the order in which the run tries to make
    /// files there.
    #[must_use]
    pub fn traces(&self) -> Vec<PathBuf> {
        let path = |directory: &Directory| sys::path_from_bytes(&directory.path);
        let pid = self.manifest.run.pid;
        let directories = self.manifest.directories.iter();
        directories.map(|directory| visible(directory, pid).unwrap_or_else(|| path(directory))).collect()
    }

    /// Returns the number of trace files that the run has made so far, and the number of files that it has dropped;
    /// `None` if the run's life file does not contain these numbers.
    #[must_use]
    pub fn files(&self) -> Option<(u64, u64)> {
        let lock = self.life()?;
        let life = lock.life().ok()??;
        Some((life.flusher.files.load(Ordering::Acquire), life.drops.get().files))
    }

    /// Returns the directories of the run's trace files, as an object that finds the files.
    fn place(&self) -> TracePlace {
        let lock = self.life();
        TracePlace::of(&self.manifest, lock.as_ref().and_then(|lock| lock.life().ok()?))
    }

    /// Reads the run's life file; returns `None` if that is impossible.
    fn life(&self) -> Option<Lock> {
        let path = self.directory.join(life::FILE_NAME);
        Lock::open_read_only(&sys::open_file_of_user_to_read(&path, self.user).ok()?).ok()
    }

    /// Checks whether this user could recover the run if it were dead. Returns the error with which the run's manifest
    /// cannot be opened for writing, or `None` if it can be opened.
    #[must_use]
    pub fn recovery_error(&self) -> Option<io::Error> {
        sys::open_own_file(&self.directory.join(FILE_NAME)).err()
    }

    /// Returns an iterator that reads one ring at each step. `alive` says whether the run may be alive, which the
    /// caller must have checked before.
    ///
    /// Each error concerns one ring only, and names the ring's file.
    pub fn threads(&self, alive: bool) -> impl Iterator<Item = io::Result<ThreadInMemory>> {
        let place = self.place();
        let mut patience = if alive { MAX_PAUSES } else { 0 };
        ring_paths(&self.directory).into_iter().filter_map(move |path| {
            let thread = self.thread(&path, &place, alive, &mut patience);
            let named = |e: io::Error| io::Error::new(e.kind(), format!("cannot read {path:?}: {e}"));
            thread.map_err(named).transpose()
        })
    }

    /// Reads those rings of a run that have changed since the last call with the same `looked`. The run may be alive.
    /// Does not wait for a change that a thread or the flusher is about to make, so a record that was made inside
    /// another record may be returned before the outer one.
    ///
    /// Returns, for each ring, the path of its file, and its change or an error that concerns only this ring.
    pub fn changes(&self, looked: &mut RingStates) -> impl Iterator<Item = (PathBuf, io::Result<Change>)> {
        let place = self.place();
        let paths = ring_paths(&self.directory);
        looked.0.retain(|path, _| paths.binary_search(path).is_ok());
        paths.into_iter().map(move |path| {
            let change = self.change(&path, &place, looked);
            (path, change)
        })
    }

    fn change(&self, path: &Path, place: &TracePlace, looked: &mut RingStates) -> io::Result<Change> {
        // The fingerprint is taken before the ring is read: the next call sees later changes.
        let mark = mark(path, self.user)?;
        match mark {
            None => return Ok(Change::Unowned),
            Some(mark) if looked.0.get(path) == Some(&mark) => return Ok(Change::Same),
            Some(_) => {}
        }
        let thread = self.thread(path, place, true, &mut 0)?;
        looked.0.extend(mark.map(|mark| (path.to_path_buf(), mark)));
        Ok(thread.map_or(Change::Unowned, |thread| Change::Thread(Box::new(thread))))
    }

    /// Reads a ring, again if it changes meanwhile. Returns `None` if no thread has the ring; all records of the ring
    /// are then in a file.
    fn thread(
        &self,
        path: &Path,
        place: &TracePlace,
        alive: bool,
        patience: &mut u32,
    ) -> io::Result<Option<ThreadInMemory>> {
        // The table is opened before the ring is read, because a run that ends removes its directory.
        let table = open_table(&self.directory, self.user).ok();
        let file = match sys::open_file_of_user_to_read(path, self.user) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        let Some(mut memory) = Memory::open_read_only(&file)? else { return Ok(None) };
        if memory.header().identity.run.load(Ordering::Relaxed) != self.manifest.run.id {
            return Err(io::Error::other("the ring belongs to another run"));
        }
        for tried in 0..TRIES {
            if tried > 0 && memory.is_copy() {
                let Some(anew) = Memory::open_read_only(&file)? else { return Ok(None) };
                memory = anew;
            }
            let reader = RingReader { run: self, place, path, memory: &memory, table: table.as_ref(), alive };
            match reader.read(*patience > 0)? {
                Reading::Unowned => return Ok(None),
                Reading::Thread(thread) => return Ok(Some(*thread)),
                Reading::Changed => std::thread::yield_now(),
                Reading::Changing => {
                    *patience -= 1;
                    std::thread::sleep(PAUSE);
                }
            }
        }
        Err(io::Error::other("the ring changes faster than it can be read; try again"))
    }
}

/// Returns the [`Fingerprint`] of the ring in the file at `path`; `None` if no thread has the ring.
fn mark(path: &Path, user: u32) -> io::Result<Option<Fingerprint>> {
    let file = match sys::open_file_of_user_to_read(path, user) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let Some(copy) = HeaderCopy::of(&file, file.metadata()?.len())? else { return Ok(None) };
    let header = copy.header();
    let Some((tenant, reason)) = Tenant::of(header)? else { return Ok(None) };
    let published = header.selected.count.load(Ordering::Acquire);
    Ok(Some((tenant, reason == EndReason::Thread, published, header.main.head(), header.nested.head())))
}

/// The identity of the thread that has a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tenant {
    generation: u32,
    tid: u64,
}

impl Tenant {
    /// Returns the thread that has the ring, and the reason to state in the `# end` line of its file if the run is
    /// dead. Returns `None` if no thread has the ring.
    fn of(header: &Header) -> io::Result<Option<(Tenant, EndReason)>> {
        let tenancy = &header.tenancy;
        // Acquire: the state is loaded before the rest is read.
        let reason = match tenancy.state().map_err(io::Error::other)? {
            State::Free => return Ok(None),
            State::Owned => EndReason::Killed,
            State::Ended => EndReason::Thread,
        };
        let generation = tenancy.generation.load(Ordering::Relaxed);
        Ok(Some((Tenant { generation, tid: tenancy.tid.load(Ordering::Relaxed) }, reason)))
    }
}

/// The result of reading a ring once.
enum Reading {
    Unowned,
    Thread(Box<ThreadInMemory>),
    /// The ring has changed during the reading, so that it has to be read again.
    Changed,
    /// The flusher or the thread is about to change the ring, so that the reader should wait before it reads the ring
    /// again.
    Changing,
}

/// A reader of one ring.
struct RingReader<'a> {
    run: &'a RunInMemory,
    place: &'a TracePlace,
    path: &'a Path,
    memory: &'a Memory,
    table: Option<&'a File>,
    alive: bool,
}

impl RingReader<'_> {
    /// Reads the ring once. Only if `patient` is set, the result may be [`Reading::Changing`]; the caller then waits,
    /// and calls this again.
    fn read(&self, patient: bool) -> io::Result<Reading> {
        let header = self.memory.header();
        let Some((tenant, reason)) = Tenant::of(header)? else { return Ok(Reading::Unowned) };
        let Some(first) = header.read_published() else { return Ok(Reading::Changed) };
        let (name, since) = (header.thread_name(), header.tenancy.since.load(Ordering::Relaxed));
        let copy = Survivors::copy(self.memory, first.1.consumed, first.1.nested_consumed);
        let losses = header.losses();
        // The copy is read before the publication below: the producer has not overwritten the copied bytes from that
        // position on.
        fence(Ordering::Acquire);
        let Some(now) = header.read_published() else { return Ok(Reading::Changed) };
        let same = Tenant::of(header)?.is_some_and(|(now, _)| now == tenant);
        // A flight recorder's losses are counted from the beginning of its copy. A dead run is read again below.
        // Positions that contradict each other may belong to two moments.
        let moved = now.0 != first.0 && (self.memory.overwrites() || !self.alive || copy.is_err());
        if !same || moved {
            return Ok(Reading::Changed);
        }
        let copy = copy.map_err(|e| io::Error::other(format!("the ring is damaged: {e}")))?;
        let progress = now.1;
        let unknown_kind = copy.unknown_kind(progress.consumed, progress.nested_consumed);
        let file = self.file(tenant.tid, &progress)?;
        // If the flusher has published again, the file may have been replaced since: a file with the same inode number may
        // be a later one.
        if progress.inode != 0 && header.read_published().is_none_or(|(count, _)| count != now.0) {
            return Ok(Reading::Changed);
        }
        if file.is_none() && progress.inode != 0 && patient {
            // The file may be about to get another name, or the flusher is about to see that it was removed.
            return Ok(Reading::Changing);
        }
        let lock = self.run.life();
        let life = lock.as_ref().and_then(|lock| lock.life().ok()?);
        let (start, looks) = (life.map(|life| &life.traced.start), life.map(|life| &life.looks));
        let drained = DrainedRing { memory: self.memory, place: RingPlace::Shared, why: "", start, looks };
        // The table is read after the copy, so it contains all sites of the copied records.
        let plans = self.table.map_or_else(|| Ok(Plans::default()), read_plans)?;
        let modules = StoredModules::open(&self.run.directory, self.run.user);
        let mut tables = StoredTables::new(plans, modules);
        let mut observer = Observer::new(drained, &self.run.manifest.run, &mut tables, progress);
        let gone = (file.is_none() && progress.inode != 0).then_some(MissingFile {
            device: progress.device,
            inode: progress.inode,
            length: progress.file_length,
        });
        if gone.is_some() {
            observer.forget_file(self.place)?;
        }
        let rest = if self.alive {
            let patient = patient && !self.memory.overwrites();
            let Some(rest) = observer.living(&copy, &losses, patient) else { return Ok(Reading::Changing) };
            // The rendering has read the tenant's id again, for the text.
            if Tenant::of(header)?.is_none_or(|(now, _)| now != tenant) {
                return Ok(Reading::Changed);
            }
            rest
        } else {
            let of_run =
                life.filter(|_| reason == EndReason::Killed).map(|life| life.ended(Cause::default()));
            let rest = observer.dead(of_run.unwrap_or(reason.into()))?;
            // Another recoverer may have been at work.
            if header.read_published().is_none_or(|(count, _)| count != now.0) {
                return Ok(Reading::Changed);
            }
            rest
        };
        Ok(Reading::Thread(Box::new(ThreadInMemory {
            tid: tenant.tid,
            name,
            since: Ticks(since),
            ring: self.path.to_path_buf(),
            continues: file.is_some() && progress.render.in_message,
            file,
            gone,
            text: rest.text,
            records: rest.records,
            committed: copy.committed,
            unknown_kind,
        })))
    }

    /// Opens the thread's file. Returns `None` if the file does not exist, or was truncated.
    fn file(&self, tid: u64, progress: &Progress) -> io::Result<Option<FileInUse>> {
        if progress.inode == 0 {
            return Ok(None);
        }
        let run = self.run.manifest.run.id;
        let Some((file, path)) = self.place.find_to_read(self.run.user, tid, run, progress)? else {
            return Ok(None);
        };
        let length = progress.file_length;
        let whole = sys::file_identity(&file)?.length >= length && (length == 0 || is_of(&file, tid, run)?);
        Ok(whole.then_some(FileInUse { file, path, number: progress.file_number, length }))
    }
}

/// Returns whether the first line of the file names thread `tid` and run `run`. This is checked because another file
/// may have got the inode number of a deleted file.
fn is_of(file: &File, tid: u64, run: u32) -> io::Result<bool> {
    let start = read_at_most(file, FIRST_BYTES as u64)?;
    Ok(run_of(&start).is_some_and(|(key, found)| key.tid == tid && found.id == run))
}

#[cfg(all(test, unix, not(loom)))]
mod tests;
