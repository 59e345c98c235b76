//! The subcommand `clean`, which deletes the traces of an application and the file that was merged from them.
//!
//! Only files are deleted that a merge of all runs would read, found by the same search, and none of a live
//! run. If several users have files, only those are deleted that a merge shows first, and never files of
//! others than the caller and the executable's owner.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use trace_format::name::{INFIX, parse_hidden_file_suffix};

use crate::find::app::App;
use crate::find::choose::of_nearest;
use crate::find::dead_runs::recover_dead_runs;
use crate::find::find_files;
use crate::find::liveness;
use crate::find::named_places::{self, Places};
use crate::find::owners::{Owners, of_users, recorded};
use crate::find::rings;
use crate::output::target::{abandoned, remove_abandoned};
use crate::ui::error::Error;
use crate::ui::messages::{Messages, count, shown};

/// Deletes the trace files of `app` except those of live runs, the merged file, and the files that killed
/// merges into its directory have left.
///
/// # Errors
/// There is neither such an application nor a trace of it. The user is warned of each file that cannot be
/// deleted.
pub fn clean(app: &App, messages: &mut Messages) -> Result<(), Error> {
    // What a killed run has left in memory would come back as files with the next merge.
    recover_dead_runs(app, messages);
    let (mut removed, mut kept) = (0, 0);
    // The runs that have ended, in each directory.
    let mut ended: HashMap<PathBuf, HashSet<u32>> = HashMap::new();
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
    for trace in traces {
        if trace.run.as_ref().is_some_and(liveness::is_alive) {
            kept += 1;
            continue;
        }
        if let (Some(directory), Some(run)) = (trace.path.parent(), &trace.run) {
            ended.entry(directory.to_owned()).or_default().insert(run.id);
        }
        match fs::remove_file(&trace.path) {
            Ok(()) => removed += 1,
            Err(error) => messages.warn(Error::io("delete", &trace.path, error)),
        }
    }
    for left in ended.iter().flat_map(|(directory, runs)| hidden(directory, runs)) {
        if let Err(error) = fs::remove_file(&left) {
            messages.warn(Error::io("delete", &left, error));
        }
    }
    if kept == 0 {
        forget_places(app, messages);
    }
    let merged = app.merged_path();
    let and_merged = match fs::remove_file(&merged) {
        Ok(()) => format!(" and {}", shown(&merged)),
        Err(error) => {
            if error.kind() != io::ErrorKind::NotFound {
                messages.warn(Error::io("delete", &merged, error));
            }
            String::new()
        }
    };
    for left in abandoned(&merged) {
        match remove_abandoned(&left) {
            Ok(()) => messages.note(format_args!("deleted {}, which a killed merge has left", shown(&left))),
            Err(error) => messages.warn(Error::io("delete", &left, error)),
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

/// Returns the files of `runs` in a directory that have names of their runs alone. Where a file keeps its name while somebody
/// has it open, the library could not delete them.
fn hidden(directory: &Path, runs: &HashSet<u32>) -> Vec<PathBuf> {
    let is_of_runs = |name: &OsStr| {
        let bytes = name.as_encoded_bytes();
        let behind = memchr::memmem::rfind(bytes, INFIX.as_bytes()).map(|at| &bytes[at..]);
        bytes.starts_with(b".")
            && behind.and_then(parse_hidden_file_suffix).is_some_and(|run| runs.contains(&run))
    };
    // An empty path is the current directory.
    let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter(|entry| is_of_runs(&entry.file_name())).map(|entry| entry.path()).collect()
}

/// Deletes the lists of the directories into which the runs of `app` have put their files, which are gone.
fn forget_places(app: &App, messages: &mut Messages) {
    for list in named_places::lists(app) {
        match fs::remove_file(&list) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                messages.warn(Error::io("delete", &list, error));
            }
            _ => {}
        }
    }
}
