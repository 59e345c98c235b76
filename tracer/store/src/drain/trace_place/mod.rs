//! The directories of a run's trace files, and the number of these files.

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
use trace_format::life::Life;
use trace_format::manifest::{Directory, Manifest};
use trace_format::name::stem;

use crate::descriptor::{self, Descriptor};
use crate::drain::Announcement;
use crate::drain::trace_file::{Open, TraceFile};
use crate::life::Lock;
use crate::sys::{self};
use total::Total;
pub use total::{EndedFile, SMALLEST_FILE};

/// Returns the path at which this process sees a directory of the run of process `pid`. This is the directory's own
/// path or, if that leads to another directory here, the path through the mount namespace of process `pid`, as long as
/// that process lives. Returns `None` if neither path leads to the directory.
pub(crate) fn visible(directory: &Directory, pid: u32) -> Option<PathBuf> {
    let path = sys::path_from_bytes(&directory.path);
    if directory.identity.is_none() || sys::directory_identity(&path) == directory.identity {
        return Some(path);
    }
    let there = sys::path_from_bytes(&[format!("/proc/{pid}/root").as_bytes(), &directory.path].concat());
    (sys::directory_identity(&there) == directory.identity).then_some(there)
}

/// A function that shows the user a message of one line.
pub type MessageFn = fn(fmt::Arguments<'_>);

/// The directories of a run's trace files, with the settings and the count of these files.
#[derive(Debug)]
pub struct TracePlace {
    /// The directories, in the order in which they are tried; the first that works is used.
    directories: Vec<PathBuf>,
    /// The path of a directory that may contain files of the run, but that this process cannot see: here the path leads
    /// to another directory, or to none.
    hidden: Option<PathBuf>,
    /// Further directories that may contain files of the run: those that the run no longer uses because they refused a
    /// file and, in recovery, all other directories of the manifest.
    left: Vec<PathBuf>,
    /// The number of directories of the manifest that the run no longer uses, because they refused a file.
    left_by_run: u32,
    /// The number of files that the run has made.
    files: u64,
    /// The list that tells readers the directories of the files.
    pub announcement: Option<Announcement>,
    /// Whether the number of files is known: it is unknown if a recovered run did not count its files.
    counts: bool,
    lives: Vec<Arc<Lock>>,
    /// The part of the files' names before `.trace.`.
    name: OsString,
    /// The number of trace files that are open now.
    open: Arc<AtomicUsize>,
    max_open_files: usize,
    /// The length, in bytes, above which the older half of a file is dropped.
    pub max_bytes: u64,
    /// The limit for the total size of the files.
    total: Total,
    /// The encoding in which files are written.
    pub encoding: Encoding,
    /// The files that could not be removed because some process had them open.
    failed_removals: RefCell<Vec<PathBuf>>,
    /// The error of an action that is not essential, such as the rotation of a file: it failed, but all records are in
    /// the file.
    pub deferred_error: Option<io::Error>,
    /// The function that tells the user that files go to another directory.
    say: MessageFn,
}

impl TracePlace {
    /// Chooses the directories for the trace files of run `run` of the executable `exe`. The files go to the first of
    /// these directories in which files can be made:
    ///
    /// - the directory `wanted` or, if there is none, the executable's own directory;
    /// - without `wanted`: the system's directory for traces, on systems that have one;
    /// - the directory `here`;
    /// - the temporary directory.
    ///
    /// If a directory has to be left out, tells the user so with `say`.
    #[must_use]
    pub fn new(
        wanted: Option<&Path>,
        exe: &Path,
        here: Option<&Path>,
        run: u32,
        say: MessageFn,
    ) -> TracePlace {
        let name = exe.file_name().unwrap_or(OsStr::new("unknown"));
        let name = match stem(name.as_encoded_bytes()) {
            Cow::Borrowed(_) => name.to_os_string(),
            Cow::Owned(short) => sys::path_from_bytes(&short).into_os_string(),
        };
        // The path is made absolute, because the program may change its current directory.
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
        place.leave_refusing_directories(run);
        // There is no manifest yet, and no file.
        place.left.clear();
        place.left_by_run = 0;
        place
    }

    fn in_directories(directories: Vec<PathBuf>, name: OsString, say: MessageFn) -> TracePlace {
        let max_open_files = descriptor::max_open_files();
        TracePlace {
            directories,
            hidden: None,
            left: Vec::new(),
            left_by_run: 0,
            files: 0,
            announcement: None,
            counts: true,
            lives: Vec::new(),
            name,
            open: Arc::default(),
            max_open_files,
            max_bytes: u64::MAX,
            total: Total::default(),
            encoding: Encoding::Text,
            failed_removals: RefCell::default(),
            deferred_error: None,
            say,
        }
    }

    /// Returns the greatest number of bytes that should be written to a file at once.
    pub fn portion(&self) -> usize {
        usize::try_from((self.max_bytes / 4).min(self.total.portion())).unwrap_or(usize::MAX)
    }

    /// Makes a `TraceFile` from a file that was just opened, and counts it as open.
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

    /// Returns whether so many trace files are open that one of them should be closed until its next write.
    pub fn is_crowded(&self) -> bool {
        self.open.load(Ordering::Relaxed) > self.max_open_files
    }

    pub(in crate::drain) fn count_open(&self) -> Open {
        self.open.fetch_add(1, Ordering::Relaxed);
        Open(self.open.clone())
    }

    /// Removes directories that refuse files from the front of the list. Must be called before the manifest is written,
    /// because recovery uses the directory that the manifest names.
    pub(in crate::drain) fn leave_refusing_directories(&mut self, run: u32) {
        loop {
            let probe = self.unfinished_path(0, run);
            match sys::check_file_creation(self.directory(), &probe) {
                Err(error) if self.leave_if_refused(&error) => {}
                _ => return,
            }
        }
    }

    /// Returns the directories of the trace files of a run, as its manifest and its life page state them. `life` is
    /// `None` if the life page was removed.
    pub fn of(manifest: &Manifest, life: Option<&Life>) -> TracePlace {
        let left_by_run = life.map_or(0, |life| life.flusher.left.load(Ordering::Relaxed));
        let current = (left_by_run as usize).min(manifest.directories.len().saturating_sub(1));
        let mut hidden = None;
        let mut left = Vec::with_capacity(manifest.directories.len());
        for directory in &manifest.directories {
            let path = visible(directory, manifest.run.pid).unwrap_or_else(|| {
                let path = sys::path_from_bytes(&directory.path);
                if left.len() <= current {
                    hidden = Some(path.clone());
                }
                path
            });
            left.push(path);
        }
        let name = sys::path_from_bytes(&manifest.name).into_os_string();
        // Recovery makes files only in the run's last directory, or leaves the rings unchanged; the others may contain
        // files. So there is no change of directory, and nothing to report.
        let last = (current < left.len()).then(|| left.remove(current));
        let directories = last.into_iter().collect();
        let place = TracePlace::in_directories(directories, name, |_| ());
        TracePlace { encoding: manifest.encoding, hidden, left, left_by_run, ..place }
    }

    /// Checks that this process sees all directories that the run has used. Only then does a file that is not found
    /// really not exist.
    ///
    /// # Errors
    /// The path of a directory leads to another directory here, or to none.
    pub(crate) fn check_visible(&self) -> io::Result<()> {
        let Some(hidden) = &self.hidden else { return Ok(()) };
        Err(io::Error::other(format!(
            "the run has trace files in {hidden:?}, which is another directory here, or none: the process had a mount \
             namespace of its own, or the directory was replaced or removed. Run tracemerge where that directory is \
             visible, or merge the files alone by the path that their directory has here"
        )))
    }

    /// Checks that this process sees the directory in which the run made its last files.
    ///
    /// # Errors
    /// The path of that directory leads to another directory, or to none.
    pub(crate) fn check_last_visible(&self) -> io::Result<()> {
        if self.hidden.as_deref() == Some(self.directory()) { self.check_visible() } else { Ok(()) }
    }

    /// Returns the directories that a manifest names: those that the run no longer uses because they refused a file,
    /// and those in which files may be made.
    pub(crate) fn directories_of_run(&self) -> impl Iterator<Item = &PathBuf> {
        self.left.iter().chain(&self.directories)
    }

    /// Makes this object store the number of files in the life page `page`, too, from now on.
    pub fn count_files_in(&mut self, page: Arc<Lock>) {
        let known = page.life().ok().flatten().map(|life| life.flusher.files.load(Ordering::Acquire));
        self.counts = known.is_some();
        self.files = self.files.max(known.unwrap_or(0));
        self.lives.push(page);
        self.publish_file_count();
    }

    /// Raises the number of files to at least `number`, the number that an existing file has in its run. If a run was
    /// killed before it had counted its newest file, the number in its life file is too small by one.
    pub(crate) fn raise_file_count(&mut self, number: u32) {
        self.files = self.files.max(number.into());
        self.publish_file_count();
    }

    /// Marks the number of files as unknown, so that no further file states it.
    pub(crate) fn forget_count(&mut self) {
        self.counts = false;
    }

    /// Returns the number of files that the run has made.
    pub fn files(&self) -> u64 {
        self.files
    }

    /// Returns the number of files that the run has made so far, for the last line of a file; `None` if it is
    /// unknown.
    pub fn files_so_far(&self) -> Option<u64> {
        self.counts.then_some(self.files)
    }

    /// Returns the number that the next file will have among the files of its run; `None` if the number is unknown.
    pub(in crate::drain) fn next_file(&self) -> Option<u32> {
        u32::try_from(self.files + 1).ok().filter(|_| self.counts)
    }

    /// Counts a file that was made. Called when the file has its first lines, and the ring's header contains the file's
    /// identity.
    pub(in crate::drain) fn count_file(&mut self) {
        self.files += 1;
        self.publish_file_count();
    }

    pub(in crate::drain) fn publish_file_count(&self) {
        self.lives.iter().for_each(|page| page.set_files(self.files, self.left_by_run));
    }

    /// Returns the directory in which files are made now.
    pub fn directory(&self) -> &Path {
        self.directories.first().map_or(Path::new("."), PathBuf::as_path)
    }

    /// Returns the part of the files' names before `.trace.`.
    pub fn name(&self) -> &OsStr {
        &self.name
    }

    /// Forgets all directories except the first.
    #[doc(hidden)]
    pub fn keep_first_for_test(&mut self) {
        self.directories.truncate(1);
    }

    /// Removes the unfinished file of thread `tid` that the dead run `run`, or a failed attempt to make a file, may
    /// have left.
    pub fn remove_unfinished(&self, tid: u64, run: u32) {
        for place in self.directories.iter().chain(&self.left) {
            self.remove(place.join(self.unfinished_name(tid, run)));
        }
    }

    /// Removes a file with a name that only this run uses, if it exists. If the file cannot be removed because some
    /// process has it open, the removal is tried again whenever a trace file ends, and at the end of the run.
    pub(in crate::drain) fn remove(&self, path: PathBuf) {
        let is_held =
            |error: io::Error| error.kind() != io::ErrorKind::NotFound && sys::OPEN_FILES_KEEP_NAMES;
        if std::fs::remove_file(&path).is_err_and(is_held) {
            let mut failed_removals = self.failed_removals.borrow_mut();
            if !failed_removals.contains(&path) {
                failed_removals.push(path);
            }
        }
    }

    /// Removes the file at `path`, if there is one, so that another file can get this name. If an earlier removal of
    /// this path has failed, it is not tried again, because it would remove that other file.
    ///
    /// # Errors
    /// The file at `path` cannot be removed.
    pub(in crate::drain) fn free_file_name(&self, path: &Path) -> io::Result<()> {
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => {
                self.failed_removals.borrow_mut().retain(|other| other != path);
                Ok(())
            }
        }
    }

    /// Tries again to remove the files that could not be removed before.
    pub(in crate::drain) fn retry_removals(&self) {
        let rest = self.failed_removals.take();
        rest.into_iter().for_each(|path| self.remove(path));
    }

    /// Tries, at the end of the run, to remove the files that could not be removed before, until all are removed, for
    /// at most two seconds. `tracemerge clean` removes the rest.
    pub fn retry_removals_at_end(&self) {
        const TRIES: u32 = 200;
        const PAUSE: Duration = Duration::from_millis(10);
        for _ in 0..TRIES {
            self.retry_removals();
            if self.failed_removals.borrow().is_empty() {
                return;
            }
            std::thread::sleep(PAUSE);
        }
    }
}
