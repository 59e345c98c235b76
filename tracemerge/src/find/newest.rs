//! The search for the newest traces below the current directory, for commands that name no application.

use std::fs::{DirEntry, read_dir};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::find::app::{App, directory_of};
use crate::find::search::app_of_trace;
use crate::os::sys::{effective_user, owner};
use crate::ui::error::Error;
use crate::ui::messages::{Grouped, Messages, shown};

/// The maximum number of directories between the current directory and a trace.
const MAX_DEPTH: usize = 8;
/// The maximum number of files and directories that are examined.
const MAX_ENTRIES: u64 = 10_000;
/// The names of directories that are not searched, because they have many files and no programs: the directories of
/// packages for Node.js, and of rustc's intermediate results.
const UNSEARCHED: [&str; 2] = ["node_modules", "incremental"];

/// Returns the application at `given`, or the application of the newest traces below the current directory.
///
/// # Errors
/// If the path names no file, or if no application is given and there are no traces.
pub(crate) fn app_or_newest(given: Option<PathBuf>, messages: &Messages) -> Result<App, Error> {
    match given {
        Some(given) => App::or_directory(given),
        None => newest_app(messages),
    }
}

/// Returns the application of the newest traces below the current directory, and tells the user which it is.
///
/// # Errors
/// If there are no traces.
pub(crate) fn newest_app(messages: &Messages) -> Result<App, Error> {
    let mut walk = Walk::default();
    walk.search(PathBuf::from("."));
    let searched = match walk.entries {
        MAX_ENTRIES.. => {
            format!("; only the first {} files and directories were searched", Grouped(MAX_ENTRIES))
        }
        _ => String::new(),
    };
    let Some((_, newest)) = walk.newest else {
        return Err(Error::plain(format!(
            "no application was named, and there are no traces of yours below the current directory{searched}.\n\
             To make some, run a program with TRACER_ENABLE=1 in its environment, or as: tracemerge run ./app"
        )));
    };
    let directory = directory_of(&newest);
    // A directory may have the name of the application; then all traces beside it are shown.
    let app = App::new(newest).or_else(|_| App::or_directory(directory))?;
    messages.done(format_args!(
        "no application was named; showing the newest traces: {}{searched}",
        shown(&app.given)
    ));
    Ok(app)
}

/// A walk through a directory and the directories below it, level by level.
#[derive(Debug, Default)]
struct Walk {
    /// The number of files and directories that were examined so far.
    entries: u64,
    /// The newest trace file that was found so far: the time of its last change, and the path of its application.
    newest: Option<(SystemTime, PathBuf)>,
}

impl Walk {
    fn search(&mut self, top: PathBuf) {
        let mut level = vec![top];
        for _ in 0..=MAX_DEPTH {
            let mut below = Vec::new();
            for directory in &level {
                // The user's other directories can be read.
                for entry in read_dir(directory).into_iter().flatten().flatten() {
                    if self.entries == MAX_ENTRIES {
                        return;
                    }
                    self.entries += 1;
                    self.take(directory, &entry, &mut below);
                }
            }
            below.sort();
            level = below;
        }
    }

    /// Examines an entry of a directory. Adds the entry to `below` if it is a directory to search. Stores its
    /// application in `newest` if it is the newest trace file so far. Does not follow symbolic links.
    fn take(&mut self, directory: &Path, entry: &DirEntry, below: &mut Vec<PathBuf>) {
        let (name, Ok(file_type)) = (entry.file_name(), entry.file_type()) else { return };
        let is_hidden = name.as_encoded_bytes().starts_with(b".");
        if file_type.is_dir() && !is_hidden && !UNSEARCHED.iter().any(|unsearched| name == **unsearched) {
            below.push(directory.join(name));
        } else if file_type.is_file() {
            let Some(app) = app_of_trace(&name) else { return };
            let found = entry.metadata().ok().filter(|found| owner(found) == effective_user());
            let modified = found.and_then(|found| found.modified().ok());
            let found = modified.map(|modified| (modified, directory.join(app)));
            self.newest = self.newest.take().max(found);
        }
    }
}
