//! Reads the rings that are still in memory, of live runs and of dead ones that could not be recovered.
//!
//! A ring is read unchanged, before the search for files. So a file that is found contains at least the records that
//! were published when its ring was read, and the merge takes no more of that file.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use trace_format::manifest::{FILE_NAME as MANIFEST_NAME, Manifest};
use trace_format::raw::Raw;
use trace_store::inspect::{self, RunInMemory, ThreadInMemory};
use trace_store::recovery::{Recovered, runtime_directories};
use trace_store::sys::private_directory_of;

use crate::file::file_with_ring::FileWithRing;
use crate::find::header::Trace;
use crate::find::liveness;
use crate::find::marks::Marks;
use crate::find::search::Candidate;
use crate::os::sys::{FileId, effective_user, file_id, owner};
use crate::ui::few::FirstItems;
use crate::ui::messages::{Messages, shown};

/// Returns the caller's runs with rings that `wanted` accepts. For runs of other users see [`crate::find::strangers`].
#[must_use]
pub(crate) fn runs(wanted: impl Fn(&Manifest) -> bool) -> Vec<RunInMemory> {
    inspect::runs(&runtime_directories(), wanted)
}

/// Returns the directories of the runs' trace files.
#[must_use]
pub(crate) fn places(runs: &[RunInMemory]) -> Vec<PathBuf> {
    let mut places: Vec<PathBuf> = runs.iter().flat_map(RunInMemory::traces).collect();
    places.sort();
    places.dedup();
    places
}

/// Reads the rings of `runs`, as far as they still exist. Reports each dead run that was not recovered, with the
/// reason.
pub(crate) fn read(runs: &[RunInMemory], recovered: &[Recovered], messages: &mut Messages) -> Vec<Trace> {
    let mut traces = Vec::new();
    for run in runs {
        let alive = liveness::is_alive(&run.manifest.run);
        let of_run = |found: &&Recovered| found.run == run.manifest.run;
        let why = match recovered.iter().find(of_run) {
            Some(recovered) => recovered.errors.first().map(ToString::to_string),
            None if alive => None,
            None => match run.recovery_error() {
                // Another process has recovered the run meanwhile.
                _ if !run.directory.exists() => continue,
                Some(error) => Some(error.to_string()),
                None => Some("no process has recovered them yet".to_owned()),
            },
        };
        if let Some(why) = why {
            messages.note(format_args!(
                "process {} is dead, but its records in {} are not in its trace files yet: {why}; they are merged \
                 from there",
                run.manifest.run.pid,
                shown(&run.directory),
            ));
        }
        let mut unread: FirstItems<io::Error> = FirstItems::default();
        for thread in run.threads(alive) {
            match thread {
                Ok(thread) => traces.extend(trace(run, thread, alive, messages)),
                Err(error) => unread.push(error),
            }
        }
        for (error, more) in unread.each() {
            messages.warn(format_args!("{error}; the records in it are not merged{more}"));
        }
    }
    traces
}

/// Returns the trace of a thread whose ring was read; `None` if there is nothing to merge.
fn trace(run: &RunInMemory, thread: ThreadInMemory, alive: bool, messages: &mut Messages) -> Option<Trace> {
    let tid = thread.tid;
    if let Some(kind) = thread.unknown_kind {
        messages.warn(format_args!(
            "{}: a record has the unknown kind {kind}, and records after it may be missing; use the \
             tracemerge of the program's version",
            shown(&thread.ring),
        ));
    }
    let (path, number) = match &thread.file {
        Some(file) => (file.path.clone(), file.number),
        // The trace follows all the files that the thread had before.
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

/// Reports the chosen runs that have left a directory which this user may not read, for example because it is another
/// user's.
pub(crate) fn report_unread_runs(chosen: &[&Trace], runs: &[RunInMemory], messages: &mut Messages) {
    let read: HashSet<(u32, u32)> =
        runs.iter().map(|run| (run.manifest.run.pid, run.manifest.run.id)).collect();
    let mut reported_runs = HashSet::new();
    for (trace, run) in chosen.iter().filter_map(|trace| Some((trace, trace.run.as_ref()?))) {
        if read.contains(&(run.pid, run.id)) || !reported_runs.insert((run.pid, run.id)) {
            continue;
        }
        let name = trace_store::run_directory::name(run.pid, run.id);
        let there = places_of_owner(&trace.path).into_iter().map(|place| place.join(&name));
        for path in there.filter(|path| path.is_dir()) {
            // The run may have begun only now.
            if inspect::runs(&runtime_directories(), |manifest| manifest.run == *run).is_empty()
                && path.is_dir()
            {
                let why = without_manifest(&path).unwrap_or_else(|| match private_directory_of(&path) {
                    Some(user) if user == effective_user() => {
                        format!("{} cannot be read", shown(&path.join(MANIFEST_NAME)))
                    }
                    Some(user) => {
                        format!("the run in {} belongs to user {user} and was not read", shown(&path))
                    }
                    None => format!("only the user of process {} may read {}", run.pid, shown(&path)),
                });
                messages.warn(format_args!("{why}; the records in memory there are not merged"));
            }
        }
    }
}

/// Returns a message which says that the run in a directory has no manifest. Returns `None` if it may have a manifest,
/// or if the caller may not read the directory.
pub(crate) fn without_manifest(directory: &Path) -> Option<String> {
    private_directory_of(directory)?;
    let found = fs::symlink_metadata(directory.join(MANIFEST_NAME));
    let is_missing = found.is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
    is_missing.then(|| {
        format!(
            "the run in {} has no manifest (if the program still runs, it makes the manifest again within a second: \
             try again)",
            shown(directory)
        )
    })
}

/// Returns the directories that may contain the directories of runs of a trace file's owner.
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

/// Returns an empty list, because on this system other users cannot see the directories of a user's runs.
#[cfg(not(unix))]
fn places_of_owner(_trace: &Path) -> Vec<PathBuf> {
    Vec::new()
}

/// Returns whether the file at `path` belongs to one of `held`, the traces that were read together with their rings.
#[must_use]
pub(crate) fn have(held: &[Trace], path: &Path) -> bool {
    let id = fs::metadata(path).ok().map(|metadata| file_id(path, &metadata));
    id.is_some() && held.iter().any(|trace| trace.id == id)
}

/// Replaces the files of threads by `held`, the traces that were read together with the threads' rings. `before` are
/// the files that were found before the rings were read.
#[must_use]
pub(crate) fn join(mut found: Vec<Trace>, held: Vec<Trace>, before: &[Candidate]) -> Vec<Trace> {
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
        // A thread has got its file, or another one, only after its ring was read: the records in that file were in
        // the ring.
        let later = thread(trace, trace.first).and_then(|thread| threads.get(&thread));
        let later = later.is_some_and(|number| *number == trace.number || !before.contains(id));
        !ids.contains(id) && !later
    });
    found.extend(held);
    found
}
