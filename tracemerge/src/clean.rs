//! The subcommand `clean`: deletes the traces of an application and what was merged from them.
//!
//! Deletes only what a merge of all runs would read, by the same search, and nothing of a live run.

use std::fs;
use std::io;

use crate::discover::App;
use crate::error::Error;
use crate::liveness;
use crate::messages::{Messages, count, shown};
use crate::pipeline::find;
use crate::rings;

/// Deletes the trace files of `app`, except those of live runs, and the merged file.
///
/// # Errors
/// Never so far: what cannot be deleted is a warning each.
pub fn clean(app: &App, messages: &mut Messages) -> Result<(), Error> {
    let (mut removed, mut kept) = (0, 0);
    let places = rings::places(&rings::runs(|manifest| app.is_of(manifest)));
    for trace in find(app, &places, &[], messages).0 {
        if trace.run.as_ref().is_some_and(liveness::is_alive) {
            kept += 1;
            continue;
        }
        match fs::remove_file(&trace.path) {
            Ok(()) => removed += 1,
            Err(error) => messages.warn(Error::io("delete", &trace.path, error)),
        }
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
    if kept > 0 {
        messages.note(format_args!("left {} of processes that are still running", count(kept, "trace file")));
    }
    messages.done(format_args!("deleted {}{and_merged}", count(removed, "trace file")));
    Ok(())
}
