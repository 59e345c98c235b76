//! Trace files: where they go, how they are made, written and found again.

use crate::report;
use crate::sys::{self, FileIdentity};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use trace_format::manifest::Manifest;
use trace_format::name::trace_file_suffix;
use trace_format::ring::Progress;

/// Where the trace files of this run go.
#[derive(Debug)]
pub(crate) struct TracePlace {
    /// Directories in the order in which they are tried; the first that works is kept.
    directories: Vec<PathBuf>,
    /// What stands before `.trace.` in their names.
    name: OsString,
    /// How many of the files are open.
    open: Arc<AtomicUsize>,
    most_open: usize,
}

impl TracePlace {
    /// The place for a run of `exe`: `wanted` or beside the executable, else `here`, else the temp directory.
    pub(crate) fn new(wanted: Option<&Path>, exe: &Path, here: Option<&Path>, run: u32) -> TracePlace {
        let name = exe.file_name().unwrap_or(OsStr::new("unknown")).to_os_string();
        // Absolute, for the program may change its current directory.
        let absolute = |path: &Path| here.map_or(path.to_path_buf(), |here| here.join(path));
        let beside = wanted.or_else(|| exe.parent()).map(absolute);
        let others = here.map(Path::to_path_buf).into_iter().chain([std::env::temp_dir()]);
        let directories = beside.into_iter().chain(others);
        let mut place = TracePlace::in_directories(directories.collect(), name);
        place.leave_refusing(run);
        place
    }

    fn in_directories(directories: Vec<PathBuf>, name: OsString) -> TracePlace {
        // The host needs descriptors, too.
        let most_open = sys::descriptor_limit() / 4;
        TracePlace { directories, name, open: Arc::default(), most_open }
    }

    /// Whether so many files are open that one should be closed until it is written again.
    pub(crate) fn is_crowded(&self) -> bool {
        self.open.load(Ordering::Relaxed) > self.most_open
    }

    fn count_open(&self) -> Open {
        self.open.fetch_add(1, Ordering::Relaxed);
        Open(self.open.clone())
    }

    /// Tries the directories before the manifest names one: recovery will look there.
    fn leave_refusing(&mut self, run: u32) {
        loop {
            let probe = self.unfinished_path(0, run);
            match sys::create_private_file(&probe) {
                Ok(_) => {
                    let _ = std::fs::remove_file(probe);
                    return;
                }
                Err(error) if self.leave_if_refused(&error) => {}
                Err(_) => return,
            }
        }
    }

    /// The place where a run that left a manifest had its files.
    pub(crate) fn of(manifest: &Manifest) -> TracePlace {
        let (directory, name) =
            (sys::path_from_bytes(&manifest.directory), sys::path_from_bytes(&manifest.name));
        TracePlace::in_directories(vec![directory], name.into_os_string())
    }

    /// The directory that files go to now.
    pub(crate) fn directory(&self) -> &Path {
        self.directories.first().map_or(Path::new("."), PathBuf::as_path)
    }

    /// What stands before `.trace.` in the names of the files.
    pub(crate) fn name(&self) -> &OsStr {
        &self.name
    }

    /// Leaves no other directory to go to.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn keep_first_for_test(&mut self) {
        self.directories.truncate(1);
    }

    /// Makes a new file for thread `tid` of run `run`; `publish` is told before it has its name. Where a directory cannot be written, goes on to the next and says
    /// so once.
    pub(crate) fn create(
        &mut self,
        tid: u64,
        run: u32,
        publish: &mut dyn FnMut(&TraceFile),
    ) -> io::Result<TraceFile> {
        loop {
            let error = match self.create_here(tid, run, publish) {
                Ok(file) => return Ok(file),
                Err(error) => error,
            };
            let message = format!("cannot create trace files in {:?}: {error}", self.directory());
            if !self.leave_if_refused(&error) {
                return Err(io::Error::new(error.kind(), message));
            }
        }
    }

    /// Goes on to the next directory if this one refuses for good, and says so. Out of space or descriptors may
    /// pass.
    fn leave_if_refused(&mut self, error: &io::Error) -> bool {
        let refused = matches!(
            error.kind(),
            io::ErrorKind::PermissionDenied
                | io::ErrorKind::ReadOnlyFilesystem
                | io::ErrorKind::NotFound
                | io::ErrorKind::NotADirectory
        );
        if !refused || self.directories.len() < 2 {
            return false;
        }
        let left = self.directories.remove(0);
        report::say(format_args!(
            "cannot create trace files in {left:?}: {error}; they go to {:?}",
            self.directory()
        ));
        true
    }

    fn path(&self, tid: u64, number: u32) -> PathBuf {
        let mut name = self.name.clone();
        name.push(trace_file_suffix(tid, number));
        self.directory().join(name)
    }

    /// Makes the file under a name that is this run's alone, has `publish` write down what it is, and only then
    /// gives it its own name, the first that is free: killed at any step, recovery finds the file, or none.
    fn create_here(&self, tid: u64, run: u32, publish: &mut dyn FnMut(&TraceFile)) -> io::Result<TraceFile> {
        let unfinished = self.unfinished_path(tid, run);
        let file = sys::create_private_file(&unfinished)?;
        let identity = sys::file_identity(&file)?;
        let mut made = TraceFile {
            file,
            path: PathBuf::new(),
            number: 0,
            identity,
            length: 0,
            _open: self.count_open(),
        };
        let result = loop {
            made.path = self.path(tid, made.number);
            publish(&made);
            match std::fs::hard_link(&unfinished, &made.path) {
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists && made.number < u32::MAX => {
                    made.number += 1
                }
                other => break other,
            }
        };
        let _ = std::fs::remove_file(&unfinished);
        match result {
            Ok(()) => Ok(made),
            Err(_) => self.create_without_links(tid, publish),
        }
    }

    /// The same where the file system has no links: killed between the two steps, an empty file is left.
    fn create_without_links(&self, tid: u64, publish: &mut dyn FnMut(&TraceFile)) -> io::Result<TraceFile> {
        let mut number = 0;
        loop {
            let path = self.path(tid, number);
            match sys::create_private_file(&path) {
                Ok(file) => {
                    let identity = sys::file_identity(&file)?;
                    let made =
                        TraceFile { file, path, number, identity, length: 0, _open: self.count_open() };
                    publish(&made);
                    return Ok(made);
                }
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists && number < u32::MAX => number += 1,
                Err(e) => return Err(e),
            }
        }
    }

    fn unfinished_path(&self, tid: u64, run: u32) -> PathBuf {
        let mut name = OsString::from(".");
        name.push(&self.name);
        name.push(format!("{}.{run:08x}.new", trace_file_suffix(tid, 0)));
        self.directory().join(name)
    }

    /// Removes what a dead run `run` may have left of the making of a file.
    pub(crate) fn remove_unfinished(&self, tid: u64, run: u32) {
        let _ = std::fs::remove_file(self.unfinished_path(tid, run));
    }
}

/// An open trace file, written by this process alone.
#[derive(Debug)]
pub(crate) struct TraceFile {
    file: File,
    path: PathBuf,
    /// The `<n>` of its name.
    pub number: u32,
    /// What it was when it was made.
    pub identity: FileIdentity,
    /// Bytes that are whole and published; what is behind them is cut off.
    pub length: u64,
    _open: Open,
}

/// Counts an open file as long as it is.
#[derive(Debug)]
struct Open(Arc<AtomicUsize>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl TraceFile {
    /// Opens the file that `progress` names and cuts off what is behind its published length. `None` where
    /// another file, or a shorter one, is there now: that is not touched.
    pub(crate) fn reopen(place: &TracePlace, tid: u64, progress: &Progress) -> io::Result<Option<TraceFile>> {
        let number = progress.file_number;
        let path = place.path(tid, number);
        let mut file = match sys::open_own_file(&path) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(io::Error::new(e.kind(), format!("cannot open {path:?}: {e}"))),
        };
        let identity = sys::file_identity(&file)?;
        let same = (identity.device, identity.inode) == (progress.device, progress.inode);
        if !same || identity.length < progress.file_length {
            return Ok(None);
        }
        let length = progress.file_length;
        let cut = file.set_len(length).and_then(|()| file.seek(SeekFrom::Start(length)));
        cut.map_err(|e| io::Error::new(e.kind(), format!("cannot cut {path:?}: {e}")))?;
        Ok(Some(TraceFile { file, path, number, identity, length, _open: place.count_open() }))
    }

    /// Writes what this file is, and its length, into `progress`.
    pub(crate) fn mark(&self, progress: &mut Progress) {
        progress.file_length = self.length;
        progress.device = self.identity.device;
        progress.inode = self.identity.inode;
        progress.file_number = self.number;
    }

    /// Appends all of `text` or, on error, nothing.
    pub(crate) fn append(&mut self, text: &[u8]) -> io::Result<()> {
        if let Err(error) = self.file.write_all(text) {
            // Best effort: what cannot be cut now is cut by the next append's seek, or by recovery.
            let _ = self.file.set_len(self.length);
            let _ = self.file.seek(SeekFrom::Start(self.length));
            return Err(io::Error::new(error.kind(), format!("cannot write {:?}: {error}", self.path)));
        }
        self.length += text.len() as u64;
        Ok(())
    }
}
