//! Decides whether a trace belongs to the application that the user has named, and whether the user expects deletions
//! in the trace's directory.

use std::fs;
use std::path::{Path, PathBuf};

use crate::find::app::App;
use crate::find::header::Trace;
use crate::os::environment::trace_directory;
use crate::os::sys::{FileId, file_id};

/// A filter that distinguishes the traces of an application from those of other programs with the same name.
pub(super) struct OwnershipFilter<'a> {
    app: &'a App,
    /// The path of the application's executable that its runs state in their traces, whether or not a file with this
    /// path still exists.
    exe: Option<PathBuf>,
    /// The application's directories: the directory of the path that the user gave and, if links lead to another file,
    /// the directory of that file.
    own: Vec<FileId>,
    /// The directory that the user has named for traces.
    named: Option<FileId>,
}

impl<'a> OwnershipFilter<'a> {
    /// Returns a filter for the traces of `app`.
    pub(super) fn new(app: &'a App) -> OwnershipFilter<'a> {
        let directories: Vec<PathBuf> = if app.is_directory() {
            vec![app.given.clone()]
        } else {
            [Some(app.given.as_path()), app.real_path()].into_iter().flatten().map(directory_of).collect()
        };
        let own = directories.iter().filter_map(|path| identity(path)).collect();
        let named = trace_directory().and_then(|path| identity(&path));
        OwnershipFilter { app, exe: app.named_exe(), own, named }
    }

    /// Returns whether the application has written the trace. This is also assumed for a trace in the application's
    /// directory that does not name another existing program, because the directory may have been moved.
    pub(super) fn is_of_app(&self, trace: &Trace) -> bool {
        if self.app.is_directory() {
            return true;
        }
        let run = trace.run.as_ref().map(|run| &run.exe);
        let exe = run.or_else(|| trace.claim.as_ref().and_then(|claim| claim.exe.as_ref()));
        let is_own = || self.own.contains(&place_of(trace));
        let Some(exe) = exe else { return is_own() };
        if self.exe.as_deref().is_some_and(|own| own.as_os_str().as_encoded_bytes() == &exe[..]) {
            return true;
        }
        let there = trace_store::recovery::path_from_bytes(exe);
        let other = fs::metadata(&there).ok().map(|found| file_id(&there, &found));
        let app = self.app.real_path().and_then(identity);
        is_own() && (other.is_none() || other == app)
    }

    /// Returns whether a user who names only the application expects deletions in this directory: it is the
    /// application's directory, or the directory that the user has named for traces.
    pub(super) fn is_expected(&self, directory: &Path) -> bool {
        identity(directory).is_some_and(|id| self.own.contains(&id) || self.named.as_ref() == Some(&id))
    }
}

fn place_of(trace: &Trace) -> FileId {
    let directory = directory_of(&trace.path);
    identity(&directory).unwrap_or(FileId::Inode(u64::MAX, u64::MAX))
}

fn identity(path: &Path) -> Option<FileId> {
    fs::metadata(path).ok().map(|found| file_id(path, &found))
}

/// Returns the directory that a file is in.
pub(super) fn directory_of(path: &Path) -> PathBuf {
    crate::output::place::directory_of(path).to_owned()
}
