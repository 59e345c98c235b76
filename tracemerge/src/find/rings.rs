//! Reads what is still in memory, of living runs and of dead ones that could not be recovered.
//!
//! A ring is read as it is, before files are looked for. So a file that is found has at least what was
//! published when its ring was read, and no more of that file is merged.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use trace_format::manifest::Manifest;
use trace_format::raw::Raw;
use trace_store::inspect::{self, RunInMemory, ThreadInMemory};
use trace_store::recovery::{Recovered, runtime_directories};

use crate::file::file_with_ring::FileWithRing;
use crate::find::header::Trace;
use crate::find::liveness;
use crate::find::marks::Marks;
use crate::find::search::Candidate;
use crate::os::sys::{FileId, effective_user, file_id, owner};
use crate::ui::messages::{Messages, shown};

/// Returns the caller's runs with rings that `wanted` accepts. Those of others are for [`crate::find::strangers`].
#[must_use]
pub fn runs(wanted: impl Fn(&Manifest) -> bool) -> Vec<RunInMemory> {
    inspect::runs(&runtime_directories(), wanted)
}

/// The places where the runs have their trace files.
#[must_use]
pub fn places(runs: &[RunInMemory]) -> Vec<PathBuf> {
    let mut places: Vec<PathBuf> = runs.iter().flat_map(RunInMemory::traces).collect();
    places.sort();
    places.dedup();
    places
}

/// Reads the rings of all `runs` that are still there, and tells which dead runs are left as they were, and
/// why.
pub fn read(runs: &[RunInMemory], recovered: &[Recovered], messages: &mut Messages) -> Vec<Trace> {
    let mut traces = Vec::new();
    for run in runs {
        let alive = liveness::is_alive(&run.manifest.run);
        let of_run = |found: &&Recovered| found.run == run.manifest.run;
        let why = match recovered.iter().find(of_run) {
            Some(recovered) => recovered.errors.first().map(ToString::to_string),
            None if alive => None,
            None => match run.why_not_recovered() {
                // Somebody else has recovered the run meanwhile.
                _ if !run.directory.exists() => continue,
                Some(error) => Some(error.to_string()),
                None => Some("nobody has recovered it yet".to_owned()),
            },
        };
        if let Some(why) = why {
            messages.note(format_args!(
                "process {} is dead, but what it left in {} stays there: {why}; merged from there",
                run.manifest.run.pid,
                shown(&run.directory),
            ));
        }
        for thread in run.threads(alive) {
            match thread {
                Ok(thread) => traces.extend(trace(run, thread, alive, messages)),
                Err(error) => messages.warn(format_args!("{error}; what is in there is not merged")),
            }
        }
    }
    traces
}

/// Makes a trace of a thread in memory; `None` where there is nothing to merge.
fn trace(run: &RunInMemory, thread: ThreadInMemory, alive: bool, messages: &mut Messages) -> Option<Trace> {
    let tid = thread.tid;
    if let Some(kind) = thread.unknown_kind {
        messages.warn(format_args!(
            "{}: a record of kind {kind} is not known here, and what stands behind it may be missing; use the \
             tracemerge of the program's version",
            shown(&thread.ring),
        ));
    }
    let (path, number) = match &thread.file {
        Some(file) => (file.path.clone(), file.number),
        // The trace stands behind all the files that the thread had before.
        None => (thread.ring.clone(), u32::MAX),
    };
    // The metadata are those of the open file, not of the file that has its name now.
    let opened = thread.file.as_ref().and_then(|file| file.file.metadata().ok());
    let metadata = opened.or_else(|| fs::metadata(&path).ok());
    let owner = metadata.as_ref().map_or_else(effective_user, owner);
    let id = metadata.map(|metadata| file_id(&path, &metadata));
    let held = FileWithRing::new(thread, alive).map_err(|error| messages.warn(error)).ok()?;
    let (first, last) = held.range()?;
    let of_file = Raw::parse(held.file()).map_or_else(|| Marks::of_text(held.file()), Marks::of_raw);
    let marks = of_file.followed_by(held.rest());
    let run = Some(run.manifest.run.clone());
    Some(Trace {
        path,
        tid,
        number,
        id,
        map: None,
        holes: 0,
        held: Some(Arc::new(held)),
        owner,
        run,
        claim: None,
        marks,
        first,
        last,
    })
}

/// Names the chosen runs that have left a directory which this user may not read: another user's, for
/// example.
pub fn tell_unread(chosen: &[&Trace], runs: &[RunInMemory], messages: &mut Messages) {
    let read: HashSet<(u32, u32)> =
        runs.iter().map(|run| (run.manifest.run.pid, run.manifest.run.id)).collect();
    let mut told = HashSet::new();
    for (trace, run) in chosen.iter().filter_map(|trace| Some((trace, trace.run.as_ref()?))) {
        if read.contains(&(run.pid, run.id)) || !told.insert((run.pid, run.id)) {
            continue;
        }
        let name = trace_store::run_directory::name(run.pid, run.id);
        let there = places_of_owner(&trace.path).into_iter().map(|place| place.join(&name));
        for path in there.filter(|path| path.is_dir()) {
            // The run may have begun only now.
            if inspect::runs(&runtime_directories(), |manifest| manifest.run == *run).is_empty()
                && path.is_dir()
            {
                messages.warn(format_args!(
                    "{} may only be read by the user whose process {} is; what is in memory there is not merged",
                    shown(&path),
                    run.pid
                ));
            }
        }
    }
}

/// The places where the owner of a trace file has the directories of runs.
#[cfg(unix)]
fn places_of_owner(trace: &Path) -> Vec<PathBuf> {
    use std::os::unix::fs::MetadataExt;
    let mut places = runtime_directories();
    if let Ok(metadata) = fs::metadata(trace) {
        let own = |place: &PathBuf| {
            place.file_name().is_some_and(|name| name.to_string_lossy().starts_with("tracer-"))
        };
        let name = format!("tracer-{}", metadata.uid());
        let others = places.iter().filter(|place| own(place)).map(|place| place.with_file_name(&name));
        places.extend(others.collect::<Vec<_>>());
    }
    places.sort();
    places.dedup();
    places
}

/// Returns nothing: each user has a place of their own, in which others see nothing.
#[cfg(not(unix))]
fn places_of_owner(_trace: &Path) -> Vec<PathBuf> {
    Vec::new()
}

/// Returns whether the file at `path` is one that a ring has named.
#[must_use]
pub fn have(held: &[Trace], path: &Path) -> bool {
    let id = fs::metadata(path).ok().map(|metadata| file_id(path, &metadata));
    id.is_some() && held.iter().any(|trace| trace.id == id)
}

/// Puts what was read from rings in the place of the files of the same threads. `before` are the files that
/// were found before the rings were read.
#[must_use]
pub fn join(mut found: Vec<Trace>, held: Vec<Trace>, before: &[Candidate]) -> Vec<Trace> {
    let thread = |trace: &Trace, since| {
        let run = trace.run.as_ref()?;
        Some((trace.owner, run.boot.clone(), run.pid, run.id, trace.tid, since))
    };
    let before: HashSet<&FileId> = before.iter().map(|candidate| &candidate.id).collect();
    let ids: HashSet<FileId> = held.iter().filter_map(|trace| trace.id.clone()).collect();
    let since = |trace: &Trace| trace.held.as_ref().map_or(0, |held| held.since);
    let threads: HashMap<_, u32> =
        held.iter().filter_map(|trace| Some((thread(trace, since(trace))?, trace.number))).collect();
    found.retain(|trace| {
        let Some(id) = &trace.id else { return true };
        // A thread has got its file, or another one, only after its ring was read: what is in that file was
        // in the ring.
        let later = thread(trace, trace.first).and_then(|thread| threads.get(&thread));
        let later = later.is_some_and(|number| *number == trace.number || !before.contains(id));
        !ids.contains(id) && !later
    });
    found.extend(held);
    found
}
