//! The subcommand `clean`, which deletes the traces of an application and the files written from them.
//!
//! It deletes only files that a merge of all runs would read, found by the same search, and the files that their runs
//! have left beside them under hidden names. It deletes no files of a live run or of another program of the same name.
//! In directories other than the application's and the one that the user has named for traces, it deletes files only if
//! the user agrees. If several users have files, it deletes only those of one user: of the caller or, if the caller has
//! none, of the executable's owner.

mod lists;
mod outputs;
mod whose;

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use trace_format::name::{INFIX, parse_hidden_file_suffix};

use crate::command::clean::whose::{OwnershipFilter, directory_of};
use crate::find::app::App;
use crate::find::choose::of_nearest;
use crate::find::dead_runs::recover_dead_runs;
use crate::find::find_files;
use crate::find::header::Trace;
use crate::find::liveness::liveness_check;
use crate::find::named_places::Places;
use crate::find::owners::{Owners, of_users, recorded};
use crate::find::rings;
use crate::os::sys::{file_id, owner};
use crate::output::place::{abandoned, remove_known};
use crate::ui::error::Error;
use crate::ui::messages::{Messages, can_ask, count, shown};

/// Deletes the trace files of `app` except those of live runs, the hidden files that the same runs have left beside
/// them, outputs under default names, and the files that killed merges have left in the directory of `app`. If `yes` is
/// true, the user has agreed to delete trace files in other directories, too.
///
/// # Errors
/// If there is neither such an application nor a trace of it. Warns the user of each file that cannot be deleted.
pub(crate) fn clean(app: &App, yes: bool, messages: &mut Messages) -> Result<(), Error> {
    // Otherwise the next merge would write the records that a killed run has left in memory to files again.
    recover_dead_runs(app, messages);
    let mut places = rings::places(&rings::runs(|manifest| app.is_of(manifest)));
    places.extend(Places::of(app).directories());
    let traces = find_files(app, &places, &[], false, messages).0;
    let whose = OwnershipFilter::new(app);
    let (traces, of_others): (Vec<Trace>, Vec<Trace>) =
        traces.into_iter().partition(|trace| whose.is_of_app(trace));
    if !app.given.exists() && traces.is_empty() && !outputs::any(app) {
        let given = shown(&app.given);
        return Err(Error::plain(format!(
            "there is no {given}, and no trace of such a program: nothing is deleted"
        )));
    }
    let (traces, others) = of_nearest(traces, &Owners::of(app), recorded);
    let (living, ended): (Vec<Trace>, Vec<Trace>) = traces.into_iter().partition(liveness_check());
    let (ended, kept) = agreed(app, ended, &whose, yes, messages);
    let removed = remove_traces(&ended, messages);
    let needed = living.iter().map(|trace| directory_of(&trace.path)).chain(kept);
    let needed: HashSet<PathBuf> = needed.filter_map(|place| fs::canonicalize(place).ok()).collect();
    let is_needed = |place: &Path| fs::canonicalize(place).is_ok_and(|place| needed.contains(&place));
    lists::forget(app, is_needed).iter().for_each(|error| messages.warn(error));
    let outputs = outputs::remove(app, messages);
    for left in abandoned(&app.merged_path()) {
        let path = left.place.path_of(&left.name);
        match left.remove() {
            Ok(()) => {
                messages.note(format_args!("deleted {}, a temporary file of a killed merge", shown(&path)))
            }
            Err(error) => messages.warn(Error::io("delete", &path, error)),
        }
    }
    if !living.is_empty() {
        let files = count(living.len() as u64, "trace file");
        messages.note(format_args!("not deleted: {files} of processes that are still running"));
    }
    if !others.is_empty() {
        messages.note(format_args!("not deleted: {}", of_users(&others)));
    }
    if !of_others.is_empty() {
        let files = count(of_others.len() as u64, "trace file");
        messages.note(format_args!("not deleted: {files} of other programs of that name"));
    }
    let and_outputs: Vec<String> = outputs.iter().map(|path| format!(" and {}", shown(path))).collect();
    messages.done(format_args!("deleted {}{}", count(removed, "trace file"), and_outputs.concat()));
    Ok(())
}

/// Selects the traces to delete: those in directories in which the user expects deletions and, if the user agrees,
/// those in other directories. Reports the other directories, and asks the user about them if the user can be asked.
/// Returns the selected traces, and the directories of the traces that stay.
fn agreed(
    app: &App,
    traces: Vec<Trace>,
    whose: &OwnershipFilter<'_>,
    yes: bool,
    messages: &mut Messages,
) -> (Vec<Trace>, Vec<PathBuf>) {
    let mut by_directory: BTreeMap<PathBuf, Vec<Trace>> = BTreeMap::new();
    for trace in traces {
        by_directory.entry(directory_of(&trace.path)).or_default().push(trace);
    }
    let (mut agreed, mut kept) = (Vec::new(), Vec::new());
    for (directory, traces) in by_directory {
        let (files, place) = (count(traces.len() as u64, "trace file"), shown(&directory));
        if whose.is_expected(&directory) {
            agreed.extend(traces);
        } else if yes {
            messages.note(format_args!("deleting {files} in {place}, too"));
            agreed.extend(traces);
        } else if can_ask()
            && messages.ask(format_args!("delete {files} of {} in {place}, too?", shown(&app.given)))
        {
            agreed.extend(traces);
        } else {
            messages.warn(format_args!(
                "not deleted: {files} in {place}; 'tracemerge clean --yes' deletes them, too"
            ));
            kept.push(directory);
        }
    }
    (agreed, kept)
}

/// Deletes the files of these traces, and the hidden files beside them. Returns the number of deleted trace files.
fn remove_traces(traces: &[Trace], messages: &mut Messages) -> u64 {
    let mut removed = 0;
    // The hidden files go first, because they are found beside the traces.
    for left in hidden(traces) {
        let known = fs::symlink_metadata(&left).map(|found| file_id(&left, &found));
        if let Err(error) = known.and_then(|id| remove_known(&left, &id)) {
            messages.warn(Error::io("delete", &left, error));
        }
    }
    for trace in traces {
        let known = trace.id.as_ref().ok_or_else(|| io::Error::from(io::ErrorKind::NotFound));
        match known.and_then(|id| remove_known(&trace.path, id)) {
            Ok(()) => removed += 1,
            Err(error) => messages.warn(Error::io("delete", &trace.path, error)),
        }
    }
    removed
}

/// Returns the hidden files beside `traces` that belong to the same runs: files of the same program, run and owner,
/// whose names contain a run, but no thread. They exist where the library could not delete them, on systems on which an
/// open file keeps its name.
fn hidden(traces: &[Trace]) -> Vec<PathBuf> {
    let mut runs = HashSet::new();
    for trace in traces {
        if let (Some((directory, program, _)), Some(run)) = (parts(&trace.path), &trace.run) {
            runs.insert((directory, program.to_owned(), run.id, trace.owner));
        }
    }
    let directories: HashSet<&Path> = runs.iter().map(|(directory, ..)| *directory).collect();
    // The search has reported the directories that cannot be read.
    let entries =
        directories.into_iter().filter_map(|directory| fs::read_dir(directory).ok()).flatten().flatten();
    let is_of_runs = |entry: &fs::DirEntry| {
        let path = entry.path();
        let (Some((directory, program, suffix)), Ok(found)) = (parts(&path), entry.metadata()) else {
            return false;
        };
        let (Some(program), Some(run)) = (program.strip_prefix(b"."), parse_hidden_file_suffix(suffix))
        else {
            return false;
        };
        runs.contains(&(directory, program.to_owned(), run, owner(&found)))
    };
    entries.filter(is_of_runs).map(|entry| entry.path()).collect()
}

/// Splits the path of a file of a run into its directory, the program's name, and the rest of the file name.
fn parts(path: &Path) -> Option<(&Path, &[u8], &[u8])> {
    let (directory, name) = (path.parent()?, path.file_name()?.as_encoded_bytes());
    let at = memchr::memmem::rfind(name, INFIX.as_bytes())?;
    // An empty path is the current directory.
    let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
    Some((directory, &name[..at], &name[at..]))
}
