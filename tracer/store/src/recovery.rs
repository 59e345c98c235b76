//! Recovery: writes the records in a dead run's rings to its files, every record once.
//!
//! `tracemerge` recovers runs before it reads, and a starting run recovers those of its own executable. A run is dead
//! if the lock of its life file is free. The recoverer takes that lock, and a second lock that keeps other recoverers
//! waiting. Then it does what the flusher would have done, with the same code and in the same order; if the recoverer
//! is killed itself, the next recoverer continues. Rings are removed last. The recoverer treats everything that it
//! reads as hostile.
//!
//! If a recoverer does not know a layout (of the manifest, the life file, the site table, a ring, a record), it leaves
//! the whole run unchanged, and names the unknown layout. Every recoverer knows all layouts of earlier versions.

mod others;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use trace_format::file::Encoding;
use trace_format::life::{self, LIFE_BYTE, Looks, RECOVERY_BYTE, RingFiles};
use trace_format::line::Ticks;
use trace_format::manifest::{FILE_NAME as MANIFEST_NAME, Manifest, ManifestError, RING_PREFIX};
use trace_format::meta::{Cause, EndReason, Ended, RingPlace, Run};
use trace_format::ring::{RingError, State};

use crate::drain::{Announcement, Drain, DrainContext, DrainedRing, RunFile, TracePlace};
use crate::life::Lock;
use crate::memory::Memory;
use crate::modules::ModuleTable;
use crate::run_directory::{self, StoredTables, lock_file, read_manifest, ring_paths};
use crate::sys;
use crate::variables;

pub use others::{Limits, OtherUsersRun, Outcome, recover_other_users};

/// The result of a search for dead runs.
#[derive(Debug, Default)]
pub struct Recovery {
    /// The dead runs that were found, both those that were recovered and those that could not be.
    pub runs: Vec<Recovered>,
    /// The errors for runs of unknown versions, living or dead, which were left unchanged. Each error names the
    /// directory.
    pub unknown: Vec<io::Error>,
}

/// A dead run, and the result of its recovery.
#[derive(Debug)]
pub struct Recovered {
    /// The content of the run's `# run` line.
    pub run: Run,
    /// The directories in which the run's trace files are.
    pub directories: Vec<PathBuf>,
    /// The threads of the run that were alive, or whose files were incomplete, when the run died.
    pub threads: Vec<RecoveredThread>,
    /// The number of lost records of threads that never got a ring.
    pub ringless_records: u64,
    /// The number of rings whose files were removed before the recovery. Their records are lost, unless they were
    /// already in a trace file.
    pub missing_rings: u64,
    /// The errors that occurred. Rings with an error are left unchanged.
    pub errors: Vec<io::Error>,
}

/// A thread of a dead run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveredThread {
    /// The operating system's id of the thread.
    pub tid: u64,
    /// The thread's name.
    pub name: Vec<u8>,
    /// The number of records that were in the thread's ring and not in its file.
    pub records: u64,
    /// The total number of records that the thread had committed to its ring.
    pub committed: u64,
    /// Whether the thread was alive when the process ended without a regular end, such as by a signal.
    pub killed: bool,
}

/// Returns the directories that may contain the directories of this user's runs: the directory in the variable
/// `TRACER_RUNTIME_DIR` or, if it is not set, the directories that are usual on this system.
#[must_use]
pub fn runtime_directories() -> Vec<PathBuf> {
    match variables::value(variables::RUNTIME_DIR) {
        Some(directory) => vec![directory.into()],
        None => sys::runtime_directories(),
    }
}

/// Returns the path that consists of these bytes.
#[must_use]
pub fn path_from_bytes(bytes: &[u8]) -> PathBuf {
    sys::path_from_bytes(bytes)
}

/// Recovers the dead runs in `directories` that `wanted` accepts. Skips living runs, other users' directories and
/// everything that is not a run. If another recoverer is already recovering a run, waits for that recoverer. `cause`
/// returns the cause of the end of a run's process, as far as the caller knows it.
///
/// Root recovers other users' runs with [`recover_other_users`].
pub fn recover(
    directories: &[PathBuf],
    wanted: impl Fn(&Run, Option<&Manifest>) -> bool,
    cause: impl Fn(&Run) -> Cause,
) -> Recovery {
    let mut recovery = Recovery::default();
    for directory in directories.iter().filter(|directory| sys::is_private_directory(directory)) {
        let (runs, unknown) = recover_in(directory, &wanted, &cause, BusyPolicy::WaitForOther, &mut || ());
        recovery.runs.extend(runs);
        recovery.unknown.extend(unknown);
    }
    recovery
}

/// Recovers dead runs on the flusher thread of another run. The flusher must also serve its own threads meanwhile, so
/// `going_on` is called after each portion that was written. Skips runs that another recoverer has begun to recover,
/// and runs of other users. `wanted` must not accept the flusher's own run, because its locks may have been removed.
pub fn recover_in_background(
    directories: &[PathBuf],
    wanted: impl Fn(&Run, Option<&Manifest>) -> bool,
    mut going_on: impl FnMut(),
) {
    for directory in directories.iter().filter(|directory| sys::is_private_directory(directory)) {
        let nobody_knows = |_: &Run| Cause::default();
        recover_in(directory, &wanted, &nobody_knows, BusyPolicy::SkipRun, &mut going_on);
        going_on();
    }
}

/// Writes the records in the rings of the calling process's own run to the trace files, and ends the files as at a
/// regular exit. Then removes the run's directory, if possible. This is for a process that is about to end, and whose
/// other threads have stopped; the process still holds the run's lock, which keeps recoverers away. Does nothing if the
/// flusher has done this already. `now` reads the clock of the process's records; `cause` is the cause of the end, as
/// far as the process knows it.
///
/// # Errors
/// Returns the errors of the steps that failed; a recoverer will do these steps.
pub fn drain_own(
    runtime: &Path,
    pid: u32,
    run: u32,
    now: fn() -> Ticks,
    cause: Cause,
) -> Result<(), Vec<io::Error>> {
    let path = runtime.join(run_directory::name(pid, run));
    let Some(Ok(manifest)) = read_manifest(&path, sys::effective_user()) else { return Ok(()) };
    let lock = sys::open_own_file(&lock_file(&path)).and_then(Lock::of).map_err(|error| vec![error])?;
    ModuleTable::complete(&path, sys::effective_user(), now);
    if let Ok(Some(life)) = lock.life() {
        life.set_ending(life::Ending::Exit);
    }
    let recovered = DeadRun { path, manifest, lock: Arc::new(lock) }.recover(cause, || true);
    if recovered.errors.is_empty() { Ok(()) } else { Err(recovered.errors) }
}

/// The behaviour of a recoverer if another recoverer is working on a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BusyPolicy {
    WaitForOther,
    SkipRun,
}

/// Recovers the dead runs in `directory`, which contains the directories of runs and belongs to one user.
fn recover_in(
    directory: &Path,
    wanted: &impl Fn(&Run, Option<&Manifest>) -> bool,
    cause: &impl Fn(&Run) -> Cause,
    other: BusyPolicy,
    going_on: &mut impl FnMut(),
) -> (Vec<Recovered>, Vec<io::Error>) {
    let (mut runs, mut unknown) = (Vec::new(), Vec::new());
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        // If the directory could not be renamed, its manifest was removed.
        if run_directory::is_unfinished(&path)
            || (sys::OPEN_FILES_KEEP_NAMES && !path.join(MANIFEST_NAME).exists())
        {
            remove_unfinished(&path);
            continue;
        }
        match DeadRun::take(&path, wanted, other) {
            Ok(TakeResult::Dead(run)) => {
                let cause = cause(&run.manifest.run);
                let going_on = || {
                    going_on();
                    true
                };
                runs.push(run.recover(cause, going_on));
            }
            Ok(TakeResult::Nothing | TakeResult::Busy) => {}
            Err(error) => unknown.push(error),
        }
    }
    (runs, unknown)
}

/// Removes the unfinished directory at `path`, if it is empty, or if the process is dead that was making or removing
/// it.
fn remove_unfinished(path: &Path) {
    if !sys::is_private_directory(path) {
        return;
    }
    match sys::open_own_file(&lock_file(path)) {
        // This succeeds only if the directory is empty: then a living maker starts again.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let _ = std::fs::remove_dir(path);
        }
        Ok(file) if sys::hold_lock(&file, LIFE_BYTE).is_ok() => {
            if sys::OPEN_FILES_KEEP_NAMES {
                drop(file);
            }
            let _ = run_directory::remove(path);
        }
        _ => {}
    }
}

/// Returns true if the run in `directory` is dead, which shows in its lock being free, or if there is no run.
#[must_use]
pub fn is_dead(directory: &Path) -> bool {
    let lock = sys::open_own_file(&lock_file(directory));
    lock.is_err() || lock.is_ok_and(|file| sys::hold_lock(&file, LIFE_BYTE).is_ok())
}

/// A dead run whose locks this process holds.
struct DeadRun {
    path: PathBuf,
    manifest: Manifest,
    lock: Arc<Lock>,
}

/// The result of trying to take the locks of a run.
enum TakeResult {
    /// The run is dead, and this process now holds its locks.
    Dead(DeadRun),
    /// There is nothing to recover: the directory is not a run, or the run is not wanted, is alive, or was removed
    /// meanwhile.
    Nothing,
    /// Another recoverer is working on the run.
    Busy,
}

impl DeadRun {
    /// Takes the locks of the run in the directory `path`.
    ///
    /// # Errors
    /// The version of the run's manifest is unknown.
    fn take(
        path: &Path,
        wanted: impl Fn(&Run, Option<&Manifest>) -> bool,
        other: BusyPolicy,
    ) -> io::Result<TakeResult> {
        if !sys::is_private_directory(path) {
            return Ok(TakeResult::Nothing);
        }
        let manifest = match read_manifest(path, sys::effective_user()) {
            Some(Ok(manifest)) if wanted(&manifest.run, Some(&manifest)) => manifest,
            Some(Err(ManifestError::Version { version, run: Some(run) })) if wanted(&run, None) => {
                return Err(unknown_manifest(path, version, &run));
            }
            _ => return Ok(TakeResult::Nothing),
        };
        let lock = sys::open_own_file(&lock_file(path)).and_then(Lock::of);
        let Ok(mut lock) = lock else { return Ok(TakeResult::Nothing) };
        if !become_recoverer(&lock, other) {
            return Ok(TakeResult::Busy);
        }
        if lock.hold(LIFE_BYTE).is_err() {
            return Ok(TakeResult::Nothing);
        }
        // Another recoverer may have been here between the opening and the lock.
        let there =
            lock.file().is_some_and(|file| sys::file_identity(file).is_ok_and(|found| found.links > 0));
        if !there {
            return Ok(TakeResult::Nothing);
        }
        lock.close_descriptor();
        Ok(TakeResult::Dead(DeadRun { path: path.to_path_buf(), manifest, lock: Arc::new(lock) }))
    }

    /// Recovers the run. `going_on` is called after each portion that was written, and returns whether there is time
    /// for another portion. `cause` is the cause of the end of the run's process.
    fn recover(self, cause: Cause, mut going_on: impl FnMut() -> bool) -> Recovered {
        let (mut errors, mut missing_rings) = (Vec::new(), 0);
        let killed = Ended { reason: EndReason::Killed, cause, seen: None };
        let ended = self.life().map_or(killed, |life| life.ended(cause));
        let threads = match self.prepare(&mut going_on) {
            Ok((mut place, mut tables, rings)) => {
                missing_rings = self.missing_rings(&rings);
                if missing_rings > 0 {
                    // The missing rings may have had records of threads without a file, so no file may contain the
                    // number of files, which would mean that the trace is complete.
                    place.forget_count();
                }
                let threads =
                    self.recover_rings(&rings, ended, &mut place, &mut tables, &mut going_on, &mut errors);
                let said = threads.iter().any(|(_, said)| *said);
                if errors.is_empty() {
                    errors.extend(self.end_run(&mut place, ended, said, missing_rings).err());
                }
                place.retry_removals_at_end();
                threads.into_iter().map(|(thread, _)| thread).collect()
            }
            Err(error) => {
                errors.push(error);
                Vec::new()
            }
        };
        let directories =
            self.manifest.directories.iter().map(|directory| sys::path_from_bytes(&directory.path)).collect();
        let ringless_records =
            self.life().map_or(0, |life| life.traced.ringless_records.load(Ordering::Relaxed));
        if errors.is_empty() {
            errors.extend(run_directory::remove_with(&self.path, self.lock).err());
        }
        Recovered { run: self.manifest.run, directories, threads, ringless_records, missing_rings, errors }
    }

    /// Reads the run's tables and checks all layouts before the recovery changes anything: if a layout is unknown, the
    /// run is left unchanged. Returns the directories of the trace files, the tables, and the paths of the rings.
    fn prepare(
        &self,
        going_on: &mut impl FnMut() -> bool,
    ) -> io::Result<(TracePlace, StoredTables, Vec<PathBuf>)> {
        let in_run = |e: io::Error| io::Error::new(e.kind(), format!("cannot recover {:?}: {e}", self.path));
        self.lock.life().map_err(in_run)?;
        let tables = StoredTables::read(&self.path).map_err(in_run)?;
        let rings = ring_paths(&self.path);
        let mut place = TracePlace::of(&self.manifest, self.life());
        for path in &rings {
            if !going_on() {
                return Err(in_run(timed_out_error()));
            }
            // Damage is reported later, for each ring separately.
            if let Some(error) = check_ring(path, place.encoding).err().filter(is_unknown_layout) {
                return Err(io::Error::new(error.kind(), format!("cannot recover {path:?}: {error}")));
            }
        }
        place.count_files_in(self.lock.clone());
        // A run that was killed before it had made a file has announced no directory.
        let runtime = self.path.parent().map(Path::to_path_buf);
        place.announcement =
            runtime.and_then(|runtime| Announcement::new(&self.manifest.run, place.name(), runtime));
        if let Err(error) = place.check_last_visible() {
            let finds_its_file =
                |ring: &PathBuf| read_file_number(ring, self.manifest.run.id, &place).is_some();
            if place.files() > 0 && !rings.iter().any(finds_its_file) {
                return Err(in_run(error));
            }
        }
        place.finish_drops(self.manifest.run.id, &self.lock);
        Ok((place, tables, rings))
    }

    fn recover_rings(
        &self,
        rings: &[PathBuf],
        ended: Ended,
        place: &mut TracePlace,
        tables: &mut StoredTables,
        going_on: &mut impl FnMut() -> bool,
        errors: &mut Vec<io::Error>,
    ) -> Vec<(RecoveredThread, bool)> {
        let mut threads = Vec::new();
        for path in rings.iter().filter(|_| going_on()) {
            if let Some(number) = read_file_number(path, self.manifest.run.id, place) {
                place.raise_file_count(number);
            }
        }
        for path in rings {
            let life = self.life();
            match recover_ring(path, &self.manifest.run, ended, life, place, tables, &mut *going_on) {
                Ok(thread) => threads.extend(thread),
                Err(e) => errors.push(io::Error::new(e.kind(), format!("cannot recover {path:?}: {e}"))),
            }
        }
        threads
    }

    /// Returns the number of rings that the run has made and whose files no longer exist. `rings` are the paths of the
    /// files that exist. The caller holds the run's lock, so no other recoverer removes a ring meanwhile.
    fn missing_rings(&self, rings: &[PathBuf]) -> u64 {
        let word = self.life().map_or(0, |life| life.flusher.rings.load(Ordering::Acquire));
        let RingFiles { count, changing } = RingFiles::of_word(word);
        let changing = changing.map(|ring| self.path.join(format!("{RING_PREFIX}{ring}")));
        let found = rings.iter().filter(|ring| Some(*ring) != changing.as_ref()).count() as u64;
        u64::from(count).saturating_sub(found)
    }

    fn life(&self) -> Option<&life::Life> {
        self.lock.life().ok().flatten()
    }

    /// Writes the run's own file, if it has something to report: records that found no ring or were dropped, missing
    /// rings, or the number of files if no thread's file states it. `said` says whether a thread's file states it.
    fn end_run(&self, place: &mut TracePlace, ended: Ended, said: bool, missing: u64) -> io::Result<()> {
        let Some(life) = self.life() else { return Ok(()) };
        let ringless_records = life.traced.ringless_records.load(Ordering::Acquire);
        let unsaid = place.files() > 0 && !said;
        let forgotten = life.flusher.forgotten.load(Ordering::Acquire);
        let dropped = place.dropped();
        if ringless_records == 0 && forgotten == 0 && dropped.files == 0 && !unsaid && missing == 0 {
            return Ok(());
        }
        let tid = life.identity.flusher.load(Ordering::Relaxed);
        RunFile { tid, ringless_records, forgotten, dropped, ended }.write(place, &self.manifest.run)
    }
}

/// Checks that the layout of the ring at `path`, and the types of its records, are known. Changes nothing.
fn check_ring(path: &Path, encoding: Encoding) -> io::Result<()> {
    let Some(memory) = Memory::existing(&sys::open_own_file(path)?)? else { return Ok(()) };
    match memory.header().tenancy.state() {
        Ok(State::Free) => Ok(()),
        _ => Drain::new(memory.header(), encoding).check_kinds(&memory).map_err(io::Error::other),
    }
}

/// Returns whether an error means that the layout of a ring or the type of a record is unknown. Errors about damage
/// return false.
fn is_unknown_layout(error: &io::Error) -> bool {
    let error = error.get_ref().and_then(|error| error.downcast_ref());
    matches!(error, Some(RingError::Version(_) | RingError::Kind(_)))
}

/// Returns the error for a manifest whose version this program does not know.
pub(crate) fn unknown_manifest(directory: &Path, version: u32, run: &Run) -> io::Error {
    io::Error::other(format!(
        "manifest version {version} in {directory:?} is unknown (this program reads 1 to {}); \
         the records of process {} are left unchanged; use the tracemerge of the program's version",
        trace_format::manifest::VERSION,
        run.pid
    ))
}

/// Returns the error for a recovery that has used up its time.
fn timed_out_error() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "the time for runs of other users is used up")
}

/// Takes the lock that only one recoverer of a run can have; returns whether this process has got it. If `other` is
/// `WaitForOther`, waits at most ten seconds for another recoverer.
fn become_recoverer(lock: &Lock, other: BusyPolicy) -> bool {
    let tries = if other == BusyPolicy::WaitForOther { 1000 } else { 1 };
    (0..tries).any(|tried| {
        if tried > 0 {
            std::thread::sleep(Duration::from_millis(10));
        }
        lock.hold(RECOVERY_BYTE).is_ok()
    })
}

/// Returns the number, among the files of run `run`, of the trace file that the ring at `path` names. Returns `None` if
/// the trace file states no number, or cannot be read.
fn read_file_number(path: &Path, run: u32, place: &TracePlace) -> Option<u32> {
    let memory = Memory::existing(&sys::open_own_file(path).ok()?).ok()??;
    let header = memory.header();
    let progress = header.published();
    (progress.file_length > 0).then_some(())?;
    place.number_in_run(header.tenancy.tid.load(Ordering::Relaxed), run, &progress)
}

/// Writes the records in the ring at `path` to the file of its thread. Returns the thread, and whether the `# end` line
/// of the thread's file states the end of the run. Returns `None` if no thread had the ring.
fn recover_ring(
    path: &Path,
    run: &Run,
    unended: Ended,
    life: Option<&life::Life>,
    place: &mut TracePlace,
    tables: &mut StoredTables,
    mut going_on: impl FnMut() -> bool,
) -> io::Result<Option<(RecoveredThread, bool)>> {
    let Some(memory) = Memory::existing(&sys::open_own_file(path)?)? else { return Ok(None) };
    let header = memory.header();
    if header.identity.run.load(Ordering::Relaxed) != run.id {
        return Err(io::Error::other("the ring belongs to another run"));
    }
    let state = header.tenancy.state().map_err(io::Error::other)?;
    let (killed, ended) = match state {
        State::Free => return Ok(None),
        State::Owned => (unended.reason.is_death(), unended),
        State::Ended => (false, EndReason::Thread.into()),
    };
    let tid = header.tenancy.tid.load(Ordering::Relaxed);
    let mut drain = Drain::new(header, place.encoding);
    let mut out = Vec::new();
    let (start, looks) = (life.map(|life| &life.traced.start), life.map(|life| &life.looks));
    let drained = DrainedRing { memory: &memory, place: RingPlace::Shared, why: "", start, looks };
    let mut context = DrainContext { info: run, place, tables, out: &mut out };
    drain.resume(drained, &mut context)?;
    context.place.remove_unfinished(tid, run.id);
    let before = drain.records();
    while drain.portion(drained, &mut context, &|| true)? > 0 {
        if !going_on() {
            return Err(timed_out_error());
        }
    }
    drain.end(drained, &mut context, ended, looks.and_then(Looks::last))?;
    let records = drain.records().saturating_sub(before);
    let committed = header.committed();
    header.tenancy.state.store(State::Free as u32, Ordering::Release);
    memory.write_header_back();
    let thread = RecoveredThread { tid, name: header.thread_name(), records, committed, killed };
    Ok(Some((thread, drain.has_file() && state == State::Owned)))
}
