//! Recovery: what a run that is dead left in its rings goes into its files, every record once.
//!
//! Used by `tracemerge` before it reads, and by a starting run for those of its own executable. A run is dead
//! when its manifest's lock can be had. The recoverer holds that lock and does what the flusher would have
//! done, with the same code and the same order of steps; killed itself, it can start over. Rings are removed
//! last. Everything that is read is taken for hostile.

use crate::drain::{Drain, Source, TraceFile, TracePlace, Work};
use crate::ring::Memory;
use crate::sys;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;
use trace_format::manifest::{FILE_NAME, Manifest, RING_PREFIX, SITES_NAME};
use trace_format::meta::{EndReason, RingPlace, Run};
use trace_format::ring::State;

/// What became of a dead run.
#[derive(Debug)]
pub struct Recovered {
    /// The run.
    pub run: Run,
    /// Its threads that were alive, or not wholly written, when it died.
    pub threads: Vec<RecoveredThread>,
    /// What could not be done; the rings concerned are left where they are.
    pub errors: Vec<io::Error>,
}

/// A thread of a dead run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveredThread {
    /// The operating system's id.
    pub tid: u64,
    /// The thread's name.
    pub name: Vec<u8>,
    /// How many records were in its ring and not in its file.
    pub records: u64,
    /// Whether it was alive when the process died.
    pub killed: bool,
}

/// Where directories of this user's runs may be: `TRACER_RUNTIME_DIR`, or the system's places.
#[must_use]
pub fn runtime_directories() -> Vec<PathBuf> {
    match std::env::var_os("TRACER_RUNTIME_DIR").filter(|d| !d.is_empty()) {
        Some(directory) => vec![directory.into()],
        None => sys::runtime_directories(),
    }
}

/// Recovers the dead runs in `directories` whose manifests `wanted` accepts. Living runs, other users'
/// directories and what is no run are passed over. `going_on` is called now and then.
pub fn recover(
    directories: &[PathBuf],
    wanted: impl Fn(&Manifest) -> bool,
    going_on: impl Fn(),
) -> Vec<Recovered> {
    let own = format!("{}-", sys::process_id());
    let private = directories.iter().filter(|d| sys::is_private_directory(d));
    let runs = private.filter_map(|d| std::fs::read_dir(d).ok()).flatten().flatten();
    // To open and close a manifest of this very process would give up its lock.
    let others = runs.filter(|entry| !entry.file_name().to_string_lossy().starts_with(&own));
    others
        .filter_map(|entry| DeadRun::take(&entry.path(), &wanted))
        .map(|run| run.recover(&going_on))
        .collect()
}

/// A run whose lock we hold.
struct DeadRun {
    path: PathBuf,
    manifest: Manifest,
    /// Holds the lock until it is closed.
    _lock: File,
}

impl DeadRun {
    /// `None` where it is no run, not wanted, alive, or gone meanwhile.
    fn take(path: &Path, wanted: impl Fn(&Manifest) -> bool) -> Option<DeadRun> {
        let mut file = sys::open_own_file(&path.join(FILE_NAME)).ok()?;
        let mut bytes = Vec::new();
        // A manifest is a few hundred bytes; two paths of the greatest length, escaped, fit.
        (&mut file).take(64 * 1024).read_to_end(&mut bytes).ok()?;
        let manifest = Manifest::parse(&bytes).filter(wanted)?;
        if !lock_of_the_dead(&file, manifest.run.pid) {
            return None;
        }
        // Another recoverer may have been here between the opening and the lock.
        let there = sys::file_identity(&file).is_ok_and(|found| found.links > 0);
        there.then(|| DeadRun { path: path.to_path_buf(), manifest, _lock: file })
    }

    fn recover(self, going_on: impl Fn()) -> Recovered {
        let mut place = TracePlace::of(&self.manifest);
        let (mut threads, mut errors) = (Vec::new(), Vec::new());
        let rings = self.rings();
        for path in &rings {
            match recover_ring(path, &self.manifest.run, &mut place, &going_on) {
                Ok(thread) => threads.extend(thread),
                Err(e) => errors.push(io::Error::new(e.kind(), format!("cannot recover {path:?}: {e}"))),
            }
        }
        if errors.is_empty() {
            errors.extend(self.remove(&rings).err());
        }
        Recovered { run: self.manifest.run, threads, errors }
    }

    fn rings(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(&self.path).into_iter().flatten().flatten().map(|entry| entry.path());
        let is_ring =
            |p: &PathBuf| p.file_name().is_some_and(|n| n.to_string_lossy().starts_with(RING_PREFIX));
        let mut rings: Vec<PathBuf> = entries.filter(is_ring).collect();
        rings.sort();
        rings
    }

    /// The manifest goes last: without it, what is left would belong to nobody.
    fn remove(&self, rings: &[PathBuf]) -> io::Result<()> {
        let rest = [self.path.join(SITES_NAME), self.path.join(FILE_NAME)];
        for path in rings.iter().chain(&rest) {
            match std::fs::remove_file(path) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => {
                    return Err(io::Error::new(e.kind(), format!("cannot remove {path:?}: {e}")));
                }
                _ => {}
            }
        }
        std::fs::remove_dir(&self.path)
            .map_err(|e| io::Error::new(e.kind(), format!("cannot remove {:?}: {e}", self.path)))
    }
}

/// Gets the lock that the run `pid` held as long as it lived. If another recoverer has it, waits for that.
fn lock_of_the_dead(manifest: &File, pid: u32) -> bool {
    for _ in 0..1000 {
        if sys::hold_lock(manifest).is_ok() {
            return true;
        }
        match sys::lock_holder(manifest) {
            Some(holder) if holder != 0 && holder != pid => std::thread::sleep(Duration::from_millis(10)),
            Some(_) => return false,
            None => {}
        }
    }
    false
}

/// Writes what the ring holds. `None` where no thread had it.
fn recover_ring(
    path: &Path,
    run: &Run,
    place: &mut TracePlace,
    going_on: impl Fn(),
) -> io::Result<Option<RecoveredThread>> {
    let Some(memory) = Memory::existing(&sys::open_own_file(path)?)? else { return Ok(None) };
    let header = memory.header();
    if header.identity.run.load(Ordering::Relaxed) != run.id {
        return Err(io::Error::other("it belongs to another run"));
    }
    let state = header.tenancy.state().map_err(io::Error::other)?;
    let (killed, reason) = match state {
        State::Free => return Ok(None),
        State::Owned => (true, EndReason::Killed),
        State::Ended => (false, EndReason::Thread),
    };
    let tid = header.tenancy.tid.load(Ordering::Relaxed);
    let progress = header.published();
    place.remove_unfinished(tid, run.id);
    let mut drain = if progress.inode == 0 {
        Drain::of_new_thread(header)
    } else {
        Drain::resume(header, progress, TraceFile::reopen(place, tid, &progress)?)
    };
    let (before, mut out) = (drain.records(), Vec::new());
    let source = Source { memory: &memory, place: RingPlace::Shared, why: "" };
    let mut work = Work { info: run, place, out: &mut out };
    while drain.portion(source, &mut work, || true)? > 0 {
        going_on();
    }
    drain.end(source, &mut work, reason, None)?;
    let records = drain.records() - before;
    header.tenancy.state.store(State::Free as u32, Ordering::Release);
    Ok(Some(RecoveredThread { tid, name: header.tenancy.name(), records, killed }))
}
