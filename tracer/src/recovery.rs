//! Recovery: what a run that is dead left in its rings goes into its files, every record once.
//!
//! Used by `tracemerge` before it reads, and by a starting run for those of its own executable. A run is dead
//! when its manifest's lock can be had. The recoverer holds that lock, and one that keeps other recoverers waiting,
//! and does what the flusher would have done, with the same code and the same order of steps; killed itself, it
//! can start over. Rings are removed last. Everything that is read is taken for hostile.

use crate::drain::{Drain, Source, TracePlace, Work};
use crate::ring::Memory;
use crate::sys;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;
use trace_format::manifest::{FILE_NAME, LIFE_BYTE, Manifest, RECOVERY_BYTE, RING_PREFIX, SITES_NAME};
use trace_format::meta::{EndReason, RingPlace, Run};
use trace_format::plans::Plans;
use trace_format::ring::State;
use trace_format::sites;

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
    /// How many it had put into its ring in all.
    pub committed: u64,
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
/// directories and what is no run are passed over. Where another recoverer is at work, waits for it.
pub fn recover(directories: &[PathBuf], wanted: impl Fn(&Manifest) -> bool) -> Vec<Recovered> {
    dead_runs(directories, wanted, Other::IsWaitedFor).map(|run| run.recover(|| ())).collect()
}

/// The same for a flusher, which has threads of its own to serve: `going_on` is called after each portion, and what
/// another recoverer has begun is left to it.
pub(crate) fn recover_meanwhile(
    directories: &[PathBuf],
    wanted: impl Fn(&Manifest) -> bool,
    mut going_on: impl FnMut(),
) {
    for run in dead_runs(directories, wanted, Other::IsLeftAlone) {
        run.recover(&mut going_on);
        going_on();
    }
}

/// What to do where another recoverer is at work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Other {
    IsWaitedFor,
    IsLeftAlone,
}

fn dead_runs(
    directories: &[PathBuf],
    wanted: impl Fn(&Manifest) -> bool,
    other: Other,
) -> impl Iterator<Item = DeadRun> {
    let private = directories.iter().filter(|d| sys::is_private_directory(d));
    let runs = private.filter_map(|d| std::fs::read_dir(d).ok()).flatten().flatten();
    runs.filter_map(move |entry| DeadRun::take(&entry.path(), &wanted, other))
}

/// Whether the manifest in this directory may be open in the calling process: then nobody else here may open it, for
/// to close it again would give up the locks that are held on it.
///
/// It is where the run is this process's own, or another copy of this library in the process is recovering it; and
/// in a forked child, which leaves its parent's run to others. The process's id in the directory's name is no
/// answer: a dead run may have had the same one, before an `exec` or in another container.
#[must_use]
pub fn is_open_here(directory: &Path) -> bool {
    sys::has_open(&directory.join(FILE_NAME)).unwrap_or_else(|| {
        let own = format!("{}-", sys::process_id());
        directory.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&own))
    })
}

/// Opens the manifest, unless it is open here. Copies of this library in one process do that one after the other, so
/// only one of them has it.
fn open_manifest(directory: &Path) -> Option<File> {
    sys::is_private_directory(directory).then_some(())?;
    let _turn = sys::take_turn(directory).ok()?;
    (!is_open_here(directory)).then(|| sys::open_own_file(&directory.join(FILE_NAME)).ok())?
}

/// A run whose locks we hold.
struct DeadRun {
    path: PathBuf,
    manifest: Manifest,
    /// Holds the locks until it is closed.
    _locked: File,
}

impl DeadRun {
    /// `None` where it is no run, not wanted, alive, or gone meanwhile.
    fn take(path: &Path, wanted: impl Fn(&Manifest) -> bool, other: Other) -> Option<DeadRun> {
        let mut file = open_manifest(path)?;
        let mut bytes = Vec::new();
        // A manifest is a few hundred bytes; two paths of the greatest length, escaped, fit.
        (&mut file).take(64 * 1024).read_to_end(&mut bytes).ok()?;
        let manifest = Manifest::parse(&bytes).filter(wanted)?;
        if !become_recoverer(&file, other) || sys::hold_lock(&file, LIFE_BYTE).is_err() {
            return None;
        }
        // Another recoverer may have been here between the opening and the lock.
        let there = sys::file_identity(&file).is_ok_and(|found| found.links > 0);
        there.then(|| DeadRun { path: path.to_path_buf(), manifest, _locked: file })
    }

    fn recover(self, mut going_on: impl FnMut()) -> Recovered {
        let mut place = TracePlace::of(&self.manifest);
        let (mut threads, mut errors) = (Vec::new(), Vec::new());
        let rings = ring_paths(&self.path);
        let plans = read_plans(&self.path);
        for path in &rings {
            match recover_ring(path, &self.manifest.run, &mut place, &plans, &mut going_on) {
                Ok(thread) => threads.extend(thread),
                Err(e) => errors.push(io::Error::new(e.kind(), format!("cannot recover {path:?}: {e}"))),
            }
        }
        if errors.is_empty() {
            errors.extend(self.remove(&rings).err());
        }
        Recovered { run: self.manifest.run, threads, errors }
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

/// The rings in a run's directory.
pub(crate) fn ring_paths(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_ring = |p: &PathBuf| p.file_name().is_some_and(|n| n.to_string_lossy().starts_with(RING_PREFIX));
    let mut rings: Vec<PathBuf> = entries.filter(is_ring).collect();
    rings.sort();
    rings
}

/// Gets the lock that only one recoverer of a run can have. Waits at most ten seconds for another one.
fn become_recoverer(manifest: &File, other: Other) -> bool {
    let tries = if other == Other::IsWaitedFor { 1000 } else { 1 };
    (0..tries).any(|tried| {
        if tried > 0 {
            std::thread::sleep(Duration::from_millis(10));
        }
        sys::hold_lock(manifest, RECOVERY_BYTE).is_ok()
    })
}

/// What captured arguments of the run in `directory` mean, as far as its table can be read.
fn read_plans(directory: &Path) -> Plans {
    open_table(directory).map_or_else(|_| Plans::default(), |table| plans_in(&table))
}

/// The site table of the run in `directory`.
pub(crate) fn open_table(directory: &Path) -> io::Result<File> {
    sys::open_own_file_to_read(&directory.join(SITES_NAME))
}

/// What the table says now.
pub(crate) fn plans_in(mut table: &File) -> Plans {
    let mut bytes = Vec::new();
    let read = table.rewind().and_then(|()| table.take(LARGEST_TABLE).read_to_end(&mut bytes));
    read.ok().and_then(|_| sites::parse(&bytes)).map_or_else(Plans::default, |sites| Plans::of(&sites))
}

/// A site takes some hundred bytes; no program has so many.
const LARGEST_TABLE: u64 = 256 << 20;

/// Writes what the ring holds. `None` where no thread had it.
fn recover_ring(
    path: &Path,
    run: &Run,
    place: &mut TracePlace,
    plans: &Plans,
    mut going_on: impl FnMut(),
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
    let mut drain = Drain::new(header, place.encoding);
    let mut out = Vec::new();
    let source = Source { memory: &memory, place: RingPlace::Shared, why: "" };
    let mut work = Work { info: run, place, plans, out: &mut out };
    drain.resume(header, &mut work)?;
    work.place.remove_unfinished(tid, run.id);
    let before = drain.records();
    while drain.portion(source, &mut work, &|| true)? > 0 {
        going_on();
    }
    drain.end(source, &mut work, reason, None)?;
    let records = drain.records().saturating_sub(before);
    let committed = [&header.main, &header.nested].map(|written| written.counts().committed);
    let committed = committed.into_iter().fold(0, u64::wrapping_add);
    header.tenancy.state.store(State::Free as u32, Ordering::Release);
    Ok(Some(RecoveredThread { tid, name: header.tenancy.name(), records, committed, killed }))
}
