//! The subcommand `clean`, which deletes the traces of an application and the file that was merged from them.
//!
//! Only files are deleted that a merge of all runs would read, found by the same search, with what their runs have left
//! beside them under hidden names, and none of a live run. If several users have files, only those are deleted that a
//! merge shows first, and never files of others than the caller and the executable's owner.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use trace_format::name::{INFIX, parse_hidden_file_suffix};

use crate::find::app::App;
use crate::find::choose::of_nearest;
use crate::find::dead_runs::recover_dead_runs;
use crate::find::find_files;
use crate::find::header::Trace;
use crate::find::liveness;
use crate::find::named_places::{self, Places};
use crate::find::owners::{Owners, of_users, recorded};
use crate::find::rings;
use crate::os::sys::owner;
use crate::output::place::{abandoned, remove};
use crate::ui::error::Error;
use crate::ui::messages::{Messages, count, shown};

/// Deletes the trace files of `app` except those of live runs, what the same runs have left beside them, the merged file,
/// and the files that killed merges into its directory have left.
///
/// # Errors
/// There is neither such an application nor a trace of it. The user is warned of each file that cannot be
/// deleted.
pub fn clean(app: &App, messages: &mut Messages) -> Result<(), Error> {
    // What a killed run has left in memory would come back as files with the next merge.
    recover_dead_runs(app, messages);
    let mut removed = 0;
    let mut places = rings::places(&rings::runs(|manifest| app.is_of(manifest)));
    places.extend(Places::of(app).directories());
    let traces = find_files(app, &places, &[], messages).0;
    let is_known = app.given.exists() || !traces.is_empty() || app.merged_path().exists();
    let (traces, others) = of_nearest(traces, &Owners::of(app), recorded);
    if !is_known {
        let given = shown(&app.given);
        return Err(Error::plain(format!(
            "there is no {given}, and no trace of such a program: nothing is deleted"
        )));
    }
    let (living, ended): (Vec<Trace>, Vec<Trace>) =
        traces.into_iter().partition(|trace| trace.run.as_ref().is_some_and(liveness::is_alive));
    let kept = living.len() as u64;
    // Before the traces, beside which they are found.
    for left in hidden(&ended) {
        if let Err(error) = remove(&left) {
            messages.warn(Error::io("delete", &left, error));
        }
    }
    for trace in ended {
        match remove(&trace.path) {
            Ok(()) => removed += 1,
            Err(error) => messages.warn(Error::io("delete", &trace.path, error)),
        }
    }
    if kept == 0 {
        forget_places(app, messages);
    }
    let merged = app.merged_path();
    let and_merged = match remove(&merged) {
        Ok(()) => format!(" and {}", shown(&merged)),
        Err(error) => {
            if error.kind() != io::ErrorKind::NotFound {
                messages.warn(Error::io("delete", &merged, error));
            }
            String::new()
        }
    };
    for left in abandoned(&merged) {
        let path = left.place.path_of(&left.name);
        match left.remove() {
            Ok(()) => messages.note(format_args!("deleted {}, which a killed merge has left", shown(&path))),
            Err(error) => messages.warn(Error::io("delete", &path, error)),
        }
    }
    if kept > 0 {
        messages.note(format_args!("left {} of processes that are still running", count(kept, "trace file")));
    }
    if !others.is_empty() {
        messages.note(format_args!("left {}", of_users(&others)));
    }
    messages.done(format_args!("deleted {}{and_merged}", count(removed, "trace file")));
    Ok(())
}

/// Returns the files beside `traces` that have names of their runs alone, which the library could not delete where a file keeps
/// its name while somebody has it open: files of the same program, the same run and the same owner.
fn hidden(traces: &[Trace]) -> Vec<PathBuf> {
    let mut runs = HashSet::new();
    for trace in traces {
        if let (Some((directory, program, _)), Some(run)) = (parts(&trace.path), &trace.run) {
            runs.insert((directory, program.to_owned(), run.id, trace.owner));
        }
    }
    let directories: HashSet<&Path> = runs.iter().map(|(directory, ..)| *directory).collect();
    // The search has told which directories cannot be read.
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

/// Splits the path of a file of a run into its directory, the program's name, and what stands behind that.
fn parts(path: &Path) -> Option<(&Path, &[u8], &[u8])> {
    let (directory, name) = (path.parent()?, path.file_name()?.as_encoded_bytes());
    let at = memchr::memmem::rfind(name, INFIX.as_bytes())?;
    // An empty path is the current directory.
    let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
    Some((directory, &name[..at], &name[at..]))
}

/// Deletes the lists of the directories into which the runs of `app` have put their files, which are gone.
fn forget_places(app: &App, messages: &mut Messages) {
    for list in named_places::lists(app) {
        match remove(&list) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                messages.warn(Error::io("delete", &list, error));
            }
            _ => {}
        }
    }
}
