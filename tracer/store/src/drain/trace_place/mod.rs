//! The directories where the trace files of a run go, and the number of files there.

mod create;
pub(in crate::drain) mod find;
mod total;

use std::borrow::Cow;
use std::cell::RefCell;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use trace_format::file::Encoding;
use trace_format::manifest::Manifest;
use trace_format::name::stem;

use crate::descriptor::{self, Descriptor};
use crate::drain::Announcement;
use crate::drain::trace_file::{Open, TraceFile};
use crate::life::Lock;
use crate::sys::{self};
use total::Total;
pub use total::{EndedFile, SMALLEST_FILE};

/// Tells the user something, in one line.
pub type Say = fn(fmt::Arguments<'_>);

/// The place where the trace files of a run go.
#[derive(Debug)]
pub struct TracePlace {
    /// The directories, in the order in which they are tried; the first that works is kept.
    directories: Vec<PathBuf>,
    /// The directories that were left when they refused a file: files may be there.
    left: Vec<PathBuf>,
    /// The number of files that the run has made.
    files: u64,
    /// The announcement that says where the files are.
    pub announcement: Option<Announcement>,
    /// Tells that the number of files is known: not where a run is recovered that did not count them.
    counts: bool,
    lives: Vec<Arc<Lock>>,
    /// The part of the files' names that stands before `.trace.`.
    name: OsString,
    /// The number of the files that are open.
    open: Arc<AtomicUsize>,
    most_open: usize,
    /// The length, in bytes, above which a file loses its older half.
    pub max_bytes: u64,
    /// The bound for all files together.
    total: Total,
    /// The encoding in which files are written.
    pub encoding: Encoding,
    /// The files that could not be removed, for somebody had them open.
    unremoved: RefCell<Vec<PathBuf>>,
    /// The error of what could not be done though the records are in the file.
    pub trouble: Option<io::Error>,
    /// The function that tells the user that files go to another directory.
    say: Say,
}

impl TracePlace {
    /// Makes the place for run `run` of `exe`: `wanted` or beside the executable, for which a system may have a
    /// substitute; else `here`, else the temp directory. Where files have to go to another one of these, the user is told so by `say`.
    #[must_use]
    pub fn new(wanted: Option<&Path>, exe: &Path, here: Option<&Path>, run: u32, say: Say) -> TracePlace {
        let name = exe.file_name().unwrap_or(OsStr::new("unknown"));
        let name = match stem(name.as_encoded_bytes()) {
            Cow::Borrowed(_) => name.to_os_string(),
            Cow::Owned(short) => sys::path_from_bytes(&short).into_os_string(),
        };
        // Absolute, for the program may change its current directory.
        let absolute = |path: &Path| here.map_or(path.to_path_buf(), |here| here.join(path));
        let beside = wanted.or_else(|| exe.parent()).map(absolute);
        let missing = wanted.and(beside.as_deref()).map(sys::make_directories);
        let substitute = if wanted.is_none() { sys::directory_for_traces() } else { None };
        let others = here.map(Path::to_path_buf).into_iter().chain([std::env::temp_dir()]);
        let directories = beside.into_iter().chain(substitute).chain(others);
        let mut place = TracePlace::in_directories(directories.collect(), name, say);
        if let Some(Err(error)) = missing {
            place.leave(&error);
        }
        place.leave_refusing(run);
        place
    }

    fn in_directories(directories: Vec<PathBuf>, name: OsString, say: Say) -> TracePlace {
        let most_open = descriptor::most_open();
        TracePlace {
            directories,
            left: Vec::new(),
            files: 0,
            announcement: None,
            counts: true,
            lives: Vec::new(),
            name,
            open: Arc::default(),
            most_open,
            max_bytes: u64::MAX,
            total: Total::default(),
            encoding: Encoding::Text,
            unremoved: RefCell::default(),
            trouble: None,
            say,
        }
    }

    /// Returns how many bytes should be written at once at most.
    pub fn portion(&self) -> usize {
        usize::try_from((self.max_bytes / 4).min(self.total.portion())).unwrap_or(usize::MAX)
    }

    /// Makes an open file of this place.
    pub(in crate::drain) fn opened(
        &self,
        file: File,
        path: PathBuf,
        number: u32,
        length: u64,
    ) -> io::Result<TraceFile> {
        let file = Descriptor::new(file)?;
        let identity = file.identity();
        let (rotate_at, _open) = (self.max_bytes, self.count_open());
        Ok(TraceFile { file, path, number, identity, length, rotate_at, _open })
    }

    /// Returns whether so many files are open that one should be closed until it is written again.
    pub fn is_crowded(&self) -> bool {
        self.open.load(Ordering::Relaxed) > self.most_open
    }

    pub(in crate::drain) fn count_open(&self) -> Open {
        self.open.fetch_add(1, Ordering::Relaxed);
        Open(self.open.clone())
    }

    /// Tries the directories before the manifest names one: recovery will look there.
    pub(in crate::drain) fn leave_refusing(&mut self, run: u32) {
        loop {
            let probe = self.unfinished_path(0, run);
            match sys::try_to_make_file(self.directory(), &probe) {
                Err(error) if self.leave_if_refused(&error) => {}
                _ => return,
            }
        }
    }

    /// Gives the place where a run that left a manifest had its files.
    pub fn of(manifest: &Manifest) -> TracePlace {
        let mut directories = manifest.directories.iter().map(|path| sys::path_from_bytes(path));
        let name = sys::path_from_bytes(&manifest.name).into_os_string();
        // Recovery makes files in the first one or leaves the rings as they are; in the others files may be.
        // So there is no other directory to go to, and nothing to say.
        let first = directories.next().into_iter().collect();
        let place = TracePlace::in_directories(first, name, |_| ());
        TracePlace { encoding: manifest.encoding, left: directories.collect(), ..place }
    }

    /// Gives the directories in which files may be made, in the order in which they are tried.
    pub fn directories(&self) -> &[PathBuf] {
        &self.directories
    }

    /// Has the number of files told in this page, too, from here on.
    pub fn count_files_in(&mut self, page: Arc<Lock>) {
        let known = page.life().ok().flatten().map(|life| life.flusher.files.load(Ordering::Acquire));
        self.counts = known.is_some();
        self.files = self.files.max(known.unwrap_or(0));
        self.lives.push(page);
        self.tell_files();
    }

    /// Counts at least as many files as this number of one of them: if a run was killed before it had counted its newest
    /// file, its life file tells one too few.
    pub(crate) fn know_number(&mut self, number: u32) {
        self.files = self.files.max(number.into());
        self.tell_files();
    }

    /// Has no further file say how many there are.
    pub(crate) fn forget_count(&mut self) {
        self.counts = false;
    }

    /// Returns how many files the run has made.
    pub fn files(&self) -> u64 {
        self.files
    }

    /// Returns what the last line of a file says of how many files the run has so far.
    pub fn files_so_far(&self) -> Option<u64> {
        self.counts.then_some(self.files)
    }

    /// Returns the number in its run of the next file that is made; `None` where that is not known.
    pub(in crate::drain) fn next_file(&self) -> Option<u32> {
        u32::try_from(self.files + 1).ok().filter(|_| self.counts)
    }

    /// Counts a file that is made: its first lines are there, and its ring says which it is.
    pub(in crate::drain) fn count_file(&mut self) {
        self.files += 1;
        self.tell_files();
    }

    fn tell_files(&self) {
        self.lives.iter().for_each(|page| page.set_files(self.files));
    }

    /// Returns the directory that files go to now.
    pub fn directory(&self) -> &Path {
        self.directories.first().map_or(Path::new("."), PathBuf::as_path)
    }

    /// Returns the part of the files' names that stands before `.trace.`.
    pub fn name(&self) -> &OsStr {
        &self.name
    }

    /// Leaves no other directory to go to.
    #[doc(hidden)]
    pub fn keep_first_for_test(&mut self) {
        self.directories.truncate(1);
    }

    /// Removes what a dead run `run`, or an attempt that failed, may have left of the making of a file.
    pub fn remove_unfinished(&self, tid: u64, run: u32) {
        for place in self.directories.iter().chain(&self.left) {
            self.remove(place.join(self.unfinished_name(tid, run)));
        }
    }

    /// Removes a file that has a name of its run's alone, if there is one. Where somebody has it open, and it keeps its name
    /// for that, it is tried again when a file ends, and at the end of the run.
    pub(in crate::drain) fn remove(&self, path: PathBuf) {
        let is_held =
            |error: io::Error| error.kind() != io::ErrorKind::NotFound && sys::OPEN_FILES_KEEP_NAMES;
        if std::fs::remove_file(&path).is_err_and(is_held) {
            let mut unremoved = self.unremoved.borrow_mut();
            if !unremoved.contains(&path) {
                unremoved.push(path);
            }
        }
    }

    /// Removes what has such a name, if anything has, for another file is to get it: that one is not removed later.
    ///
    /// # Errors
    /// What has the name cannot be removed.
    pub(in crate::drain) fn make_way(&self, path: &Path) -> io::Result<()> {
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => {
                self.unremoved.borrow_mut().retain(|other| other != path);
                Ok(())
            }
        }
    }

    /// Tries again to remove what could not be removed before.
    pub(in crate::drain) fn remove_rest(&self) {
        let rest = self.unremoved.take();
        rest.into_iter().for_each(|path| self.remove(path));
    }

    /// Tries that at the end of the run until all is removed, for two seconds at most. What is left then is for
    /// `tracemerge clean`.
    pub fn remove_rest_at_end(&self) {
        const TRIES: u32 = 200;
        const PAUSE: Duration = Duration::from_millis(10);
        for _ in 0..TRIES {
            self.remove_rest();
            if self.unremoved.borrow().is_empty() {
                return;
            }
            std::thread::sleep(PAUSE);
        }
    }
}
