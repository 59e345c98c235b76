//! Inspection: what the rings of a run hold, read as they are, while its threads go on or where recovery may
//! not write.
//!
//! For `tracemerge`. Nothing is locked that a run or a recoverer locks, nothing is written or removed, and
//! nobody is waited for by anybody: a living process cannot tell. What a thread has traced is its file up to
//! the length that its ring publishes, and behind that [`ThreadInMemory::text`], which has what the flusher
//! would write next. Everything that is read is taken for hostile.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

use trace_format::file::{FIRST_BYTES, run_of};
use trace_format::life;
use trace_format::line::Ticks;
use trace_format::manifest::{FILE_NAME, Manifest, ManifestError};
use trace_format::meta::{Cause, ClockKind, EndReason, RingPlace, Run};
use trace_format::plans::Plans;
use trace_format::ring::{Header, Progress, State};
use trace_format::wall::Wall;

use crate::counter;
use crate::drain::{DrainedRing, Onlooker, Survivors, TracePlace};
use crate::life::Lock;
use crate::memory::{HeaderCopy, Memory};
use crate::modules::StoredModules;
use crate::recovery::unknown_manifest;
use crate::run_directory::{StoredTables, name, open_table, plans_in, read_manifest, ring_paths};
use crate::sys;

/// The number of times that a ring is read that changes meanwhile.
const TRIES: u32 = 1000;
/// The number of pauses, in all rings of a run together, for which what a flusher or a thread is about to do
/// is waited for.
const PATIENCE: u32 = 200;
const PAUSE: Duration = Duration::from_millis(5);

/// A run that has left its directory, or lives in it.
#[derive(Clone, Debug)]
pub struct RunInMemory {
    /// The manifest, which says whose run it is.
    pub manifest: Manifest,
    /// The directory in which the run's rings are.
    pub directory: PathBuf,
    /// The user whose rings they are.
    user: u32,
}

/// A thread that has a ring.
#[derive(Debug)]
pub struct ThreadInMemory {
    /// The operating system's id.
    pub tid: u64,
    /// The thread's name.
    pub name: Vec<u8>,
    /// The time at which the thread took the ring, which is that of the first line of its file.
    pub since: Ticks,
    /// The ring's file.
    pub ring: PathBuf,
    /// The thread's file; `None` where it has none, or where somebody has deleted or truncated it: then the
    /// text begins another one.
    pub file: Option<FileInUse>,
    /// The file that is not found any more, if the thread had one. Whoever holds it open may read it to there.
    pub gone: Option<GoneFile>,
    /// The text that follows in the file, or will. Of a dead run it ends with `# end`, of a living one it may
    /// end inside a line.
    pub text: Vec<u8>,
    /// Tells that the file ends inside a message, and that the text goes on with that.
    pub continues: bool,
    /// The number of messages that the text has.
    pub records: u64,
    /// The number of messages that the thread had put into its ring in all, at least, when this was begun.
    pub committed: u64,
    /// The kind of a record in the ring that only a later version knows. Such records are not in the text,
    /// which tells them as damaged.
    pub unknown_kind: Option<u8>,
}

/// A thread's file, open for reading.
#[derive(Debug)]
pub struct FileInUse {
    /// The file itself, whatever name it has.
    pub file: File,
    /// The path at which the file was found.
    pub path: PathBuf,
    /// The number in the name that it was given.
    pub number: u32,
    /// The published length of the file, in bytes. The file may be longer: what is behind that is in the
    /// text.
    pub length: u64,
}

/// A thread's file that was deleted, moved or truncated, as it was published last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GoneFile {
    /// The device that the file is on.
    pub device: u64,
    /// The number of the file there.
    pub inode: u64,
    /// The published length of the file, in bytes.
    pub length: u64,
}

/// The states that the rings of a run were in when they were last looked at.
#[derive(Debug, Default)]
pub struct Looked(HashMap<PathBuf, Fingerprint>);

/// The values that differ when something has happened in a ring: its tenant, how often a slot was published,
/// both heads.
type Fingerprint = (Tenant, bool, u64, u64, u64);

/// The result of a look at a ring, compared with the one before.
#[derive(Debug)]
pub enum Change {
    /// No thread has the ring.
    Nobody,
    /// The ring is as it was.
    Same,
    /// The ring has more, or something else.
    Thread(Box<ThreadInMemory>),
}

/// Reads the counter and the wall clock now, if this is the machine's boot `boot` and it has a counter of its
/// own.
#[must_use]
pub fn now_in(boot: &[u8]) -> Option<(Ticks, Wall)> {
    let counts = counter::available(ClockKind::Ordered) == ClockKind::Ordered;
    (counts && !boot.is_empty() && sys::boot_id() == boot)
        .then(|| counter::pair(|| Ticks(counter::ordered())))
}

/// Finds the runs of this user in `directories` whose manifests `wanted` accepts, living or dead. Other users'
/// directories, what is no run, and runs of other versions are passed over.
pub fn runs(directories: &[PathBuf], wanted: impl Fn(&Manifest) -> bool) -> Vec<RunInMemory> {
    let user = sys::effective_user();
    let own = directories.iter().filter(|directory| sys::is_private_directory(directory));
    let entries = own.filter_map(|directory| std::fs::read_dir(directory).ok()).flatten().flatten();
    let run = |directory: PathBuf| {
        sys::is_private_directory(&directory).then_some(())?;
        let manifest = read_manifest(&directory, user)?.ok().filter(&wanted)?;
        Some(RunInMemory { manifest, directory, user })
    };
    entries.filter_map(|entry| run(entry.path())).collect()
}

/// The runs of other users.
#[derive(Debug, Default)]
pub struct RunsOfOthers {
    /// The runs, living or dead.
    pub runs: Vec<RunInMemory>,
    /// The errors that say which runs are of another version.
    pub unknown: Vec<io::Error>,
    /// The directories that were not looked through to their end, for the time was used up, with their users.
    pub unlisted: Vec<(u32, PathBuf)>,
}

/// Finds the runs of other users in `directories` that `wanted` accepts, for root. Takes one entry of each directory in turn,
/// so that a full one hides nothing in the others, and ends when it is `until`.
pub fn runs_of_others(
    directories: &[PathBuf],
    wanted: impl Fn(&Run, Option<&Manifest>) -> bool,
    until: Instant,
) -> RunsOfOthers {
    let mut found = RunsOfOthers::default();
    let of_other = |directory: &PathBuf| {
        let user = sys::private_directory_of(directory).filter(|user| *user != sys::effective_user())?;
        Some((user, directory.clone(), std::fs::read_dir(directory).ok()?))
    };
    let mut open: Vec<_> = directories.iter().filter_map(of_other).collect();
    while !open.is_empty() {
        open.retain_mut(|(user, directory, entries)| {
            if Instant::now() >= until {
                found.unlisted.push((*user, directory.clone()));
                return false;
            }
            let Some(entry) = entries.next() else { return false };
            let Ok(directory) = entry.map(|entry| entry.path()) else { return true };
            if sys::private_directory_of(&directory) != Some(*user) {
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
    /// Returns the user whose run it is.
    #[must_use]
    pub fn user(&self) -> u32 {
        self.user
    }

    /// Returns whether the run's directory has the name that the run gives it: a user has one such run at most.
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

    /// Returns the directories that the run's trace files may be in, the one first that further ones go to.
    #[must_use]
    pub fn traces(&self) -> Vec<PathBuf> {
        self.manifest.directories.iter().map(|path| sys::path_from_bytes(path)).collect()
    }

    /// Returns how many trace files the run has made so far, and how many of them it has dropped; `None` where it does not say
    /// that.
    #[must_use]
    pub fn files(&self) -> Option<(u64, u64)> {
        let lock = self.life()?;
        let life = lock.life().ok()??;
        Some((life.flusher.files.load(Ordering::Acquire), life.drops.get().files))
    }

    /// Reads the life file, if it is there.
    fn life(&self) -> Option<Lock> {
        let path = self.directory.join(life::FILE_NAME);
        Lock::to_read(&sys::open_file_of_user_to_read(&path, self.user).ok()?).ok()
    }

    /// Returns why nobody can recover this run here, if it is dead: its files in memory cannot be written.
    #[must_use]
    pub fn why_not_recovered(&self) -> Option<io::Error> {
        sys::open_own_file(&self.directory.join(FILE_NAME)).err()
    }

    /// Reads the rings, each when it is asked for. `alive` says whether the run may go on; it must have been
    /// found out before.
    ///
    /// An error is that of one ring, which is named in it.
    pub fn threads(&self, alive: bool) -> impl Iterator<Item = io::Result<ThreadInMemory>> {
        let place = TracePlace::of(&self.manifest);
        let mut patience = if alive { PATIENCE } else { 0 };
        ring_paths(&self.directory).into_iter().filter_map(move |path| {
            let thread = self.thread(&path, &place, alive, &mut patience);
            let named = |e: io::Error| io::Error::new(e.kind(), format!("cannot read {path:?}: {e}"));
            thread.map_err(named).transpose()
        })
    }

    /// Looks at the rings again and again, while the run may go on: reads those in which something has
    /// happened since the last time, and never waits for what a thread or the flusher is just about to do. So
    /// a record that was made inside of another one may be seen before that.
    ///
    /// Gives each ring's file, and an error that is of this ring only.
    pub fn changes(&self, looked: &mut Looked) -> impl Iterator<Item = (PathBuf, io::Result<Change>)> {
        let place = TracePlace::of(&self.manifest);
        let paths = ring_paths(&self.directory);
        looked.0.retain(|path, _| paths.binary_search(path).is_ok());
        paths.into_iter().map(move |path| {
            let change = self.change(&path, &place, looked);
            (path, change)
        })
    }

    fn change(&self, path: &Path, place: &TracePlace, looked: &mut Looked) -> io::Result<Change> {
        // Before it is read: what happens from here on is for the next look.
        let mark = mark(path, self.user)?;
        match mark {
            None => return Ok(Change::Nobody),
            Some(mark) if looked.0.get(path) == Some(&mark) => return Ok(Change::Same),
            Some(_) => {}
        }
        let thread = self.thread(path, place, true, &mut 0)?;
        looked.0.extend(mark.map(|mark| (path.to_path_buf(), mark)));
        Ok(thread.map_or(Change::Nobody, |thread| Change::Thread(Box::new(thread))))
    }

    /// Reads a ring. Returns `None` where no thread has it: what it may have held is in a file.
    fn thread(
        &self,
        path: &Path,
        place: &TracePlace,
        alive: bool,
        patience: &mut u32,
    ) -> io::Result<Option<ThreadInMemory>> {
        // Opened before the ring is looked at: a run that ends removes its directory.
        let table = open_table(&self.directory, self.user).ok();
        let file = match sys::open_file_of_user_to_read(path, self.user) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        let Some(mut memory) = Memory::to_read(&file)? else { return Ok(None) };
        if memory.header().identity.run.load(Ordering::Relaxed) != self.manifest.run.id {
            return Err(io::Error::other("it belongs to another run"));
        }
        for tried in 0..TRIES {
            if tried > 0 && memory.is_copy() {
                let Some(anew) = Memory::to_read(&file)? else { return Ok(None) };
                memory = anew;
            }
            let reader = RingReader { run: self, place, path, memory: &memory, table: table.as_ref(), alive };
            match reader.read(*patience > 0)? {
                Reading::Nobody => return Ok(None),
                Reading::Thread(thread) => return Ok(Some(*thread)),
                Reading::Changed => std::thread::yield_now(),
                Reading::Changing => {
                    *patience -= 1;
                    std::thread::sleep(PAUSE);
                }
            }
        }
        Err(io::Error::other("it changes faster than it can be read; try again"))
    }
}

/// Takes the fingerprint of a ring. Returns `None` where no thread has it.
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

/// The thread that had the ring when it was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tenant {
    generation: u32,
    tid: u64,
}

impl Tenant {
    /// Gives the ring's tenant, with the reason that its file ends with if the run is dead. Returns `None`
    /// where nobody has the ring.
    fn of(header: &Header) -> io::Result<Option<(Tenant, EndReason)>> {
        let tenancy = &header.tenancy;
        // Acquire, before the rest is looked at.
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
    Nobody,
    Thread(Box<ThreadInMemory>),
    /// The ring has changed meanwhile.
    Changed,
    /// The ring is about to change.
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
    /// Reads the ring once. With `patient`, what is about to change may be waited for.
    fn read(&self, patient: bool) -> io::Result<Reading> {
        let header = self.memory.header();
        let Some((tenant, reason)) = Tenant::of(header)? else { return Ok(Reading::Nobody) };
        let Some(first) = header.published_meanwhile() else { return Ok(Reading::Changed) };
        let (name, since) = (header.thread_name(), header.tenancy.since.load(Ordering::Relaxed));
        let copy = Survivors::copy(self.memory, first.1.consumed, first.1.nested_consumed);
        let losses = header.losses();
        // The copy is read before what is published now: the producer overwrites nothing of it from there on.
        fence(Ordering::Acquire);
        let Some(now) = header.published_meanwhile() else { return Ok(Reading::Changed) };
        let same = Tenant::of(header)?.is_some_and(|(now, _)| now == tenant);
        // A flight recorder's losses are counted from where its copy begins. A dead run is looked at below.
        // Positions that contradict each other may be of two moments.
        let moved = now.0 != first.0 && (self.memory.overwrites() || !self.alive || copy.is_err());
        if !same || moved {
            return Ok(Reading::Changed);
        }
        let copy = copy.map_err(|e| io::Error::other(format!("it is damaged: {e}")))?;
        let progress = now.1;
        let unknown_kind = copy.unknown_kind(progress.consumed, progress.nested_consumed);
        let file = self.file(tenant.tid, &progress)?;
        if file.is_none() && progress.inode != 0 {
            let replaced = header.published_meanwhile().is_none_or(|(count, _)| count != now.0);
            if replaced {
                return Ok(Reading::Changed);
            }
            if patient {
                // It may just be given another name, or the flusher is about to see that it is gone.
                return Ok(Reading::Changing);
            }
        }
        let lock = self.run.life();
        let life = lock.as_ref().and_then(|lock| lock.life().ok()?);
        let (start, looks) = (life.map(|life| &life.traced.start), life.map(|life| &life.looks));
        let drained = DrainedRing { memory: self.memory, place: RingPlace::Shared, why: "", start, looks };
        // After the copy: what it has was in the table before.
        let plans = self.table.map_or_else(|| Ok(Plans::default()), plans_in)?;
        let modules = StoredModules::open(&self.run.directory, self.run.user);
        let mut tables = StoredTables::new(plans, modules);
        let mut onlooker = Onlooker::new(drained, &self.run.manifest.run, &mut tables, progress);
        let gone = (file.is_none() && progress.inode != 0).then_some(GoneFile {
            device: progress.device,
            inode: progress.inode,
            length: progress.file_length,
        });
        if gone.is_some() {
            onlooker.forget_file(self.place)?;
        }
        let rest = if self.alive {
            let patient = patient && !self.memory.overwrites();
            let Some(rest) = onlooker.living(&copy, &losses, patient) else { return Ok(Reading::Changing) };
            // The text has the tenant's id, which was read again to render it.
            if Tenant::of(header)?.is_none_or(|(now, _)| now != tenant) {
                return Ok(Reading::Changed);
            }
            rest
        } else {
            let of_run =
                life.filter(|_| reason == EndReason::Killed).map(|life| life.ended(Cause::default()));
            let rest = onlooker.dead(of_run.unwrap_or(reason.into()))?;
            // Another recoverer may have been at work.
            if header.published_meanwhile().is_none_or(|(count, _)| count != now.0) {
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

    /// Opens the thread's file, if it is all there.
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

/// Returns whether the file says in its first line that it is of that thread and run: the number of a file
/// that was deleted may be another's now.
fn is_of(mut file: &File, tid: u64, run: u32) -> io::Result<bool> {
    let mut start = Vec::new();
    Read::by_ref(&mut file).take(FIRST_BYTES as u64).read_to_end(&mut start)?;
    Ok(run_of(&start).is_some_and(|(key, found)| key.tid == tid && found.id == run))
}

#[cfg(all(test, unix, not(loom)))]
mod tests;
