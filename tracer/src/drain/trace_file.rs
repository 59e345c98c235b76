//! Trace files: where they go, how they are made, written and found again.

use crate::descriptor::Descriptor;
use crate::report;
use crate::sys::{self, FileIdentity};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use trace_format::file::{Encoding, FIRST_BYTES, run_of};
use trace_format::line::TICKS_DIGITS;
use trace_format::manifest::Manifest;
use trace_format::meta::{Meta, Run};
use trace_format::name::trace_file_suffix;
use trace_format::raw;
use trace_format::record::HEADER;
use trace_format::render::{RenderState, Renderer};
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
    /// A file that is longer loses its older half.
    pub max_bytes: u64,
    /// How files are written.
    pub encoding: Encoding,
    /// What could not be done though the records are in the file.
    pub trouble: Option<io::Error>,
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
        TracePlace {
            directories,
            name,
            open: Arc::default(),
            most_open,
            max_bytes: u64::MAX,
            encoding: Encoding::Text,
            trouble: None,
        }
    }

    /// How many bytes should be written at once at most.
    pub(crate) fn portion(&self) -> usize {
        usize::try_from(self.max_bytes / 4).unwrap_or(usize::MAX)
    }

    /// An open file of this place.
    pub(super) fn opened(
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
        let place = TracePlace::in_directories(vec![directory], name.into_os_string());
        TracePlace { encoding: manifest.encoding, ..place }
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
        let file = match sys::create_private_file(&unfinished) {
            // Put there by somebody else; it is not removed.
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                return self.create_without_links(tid, publish);
            }
            created => created?,
        };
        let mut made = self.opened(file, PathBuf::new(), 0, 0)?;
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
                    let made = self.opened(file, path, number, 0)?;
                    publish(&made);
                    return Ok(made);
                }
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists && number < u32::MAX => number += 1,
                Err(e) => return Err(e),
            }
        }
    }

    /// The name that a file of thread `tid` of run `run` has until it gets its own.
    pub(super) fn unfinished_path(&self, tid: u64, run: u32) -> PathBuf {
        let mut name = OsString::from(".");
        name.push(&self.name);
        name.push(format!("{}.{run:08x}.new", trace_file_suffix(tid, 0)));
        self.directory().join(name)
    }

    /// The file that `progress` names: under its name or, if somebody has given it another one or it has not got
    /// its own yet, under any in the directory.
    fn find(&self, tid: u64, run: u32, progress: &Progress) -> io::Result<Option<(File, PathBuf)>> {
        self.find_by(sys::open_own_file, tid, run, progress)
    }

    /// The same for an onlooker.
    pub(crate) fn find_to_read(
        &self,
        tid: u64,
        run: u32,
        progress: &Progress,
    ) -> io::Result<Option<(File, PathBuf)>> {
        self.find_by(sys::open_own_file_to_read, tid, run, progress)
    }

    fn find_by(
        &self,
        open: fn(&Path) -> io::Result<File>,
        tid: u64,
        run: u32,
        progress: &Progress,
    ) -> io::Result<Option<(File, PathBuf)>> {
        let path = self.path(tid, progress.file_number);
        for path in [path.clone(), self.unfinished_path(tid, run)] {
            match open_same(open, &path, progress) {
                Ok(None) => {}
                Ok(Some(file)) => return Ok(Some((file, path))),
                Err(e) => return Err(io::Error::new(e.kind(), format!("cannot open {path:?}: {e}"))),
            }
        }
        let renamed =
            std::fs::read_dir(self.directory()).into_iter().flatten().flatten().find(|entry| {
                sys::path_identity(&entry.path()).is_ok_and(|found| is_named_by(&found, progress))
            });
        let Some(path) = renamed.map(|entry| entry.path()) else { return Ok(None) };
        Ok(open_same(open, &path, progress)?.map(|file| (file, path)))
    }

    /// Removes what a dead run `run` may have left of the making of a file.
    pub(crate) fn remove_unfinished(&self, tid: u64, run: u32) {
        let _ = std::fs::remove_file(self.unfinished_path(tid, run));
    }
}

/// Opens the file at `path` if it is the one that `progress` names.
fn open_same(
    open: fn(&Path) -> io::Result<File>,
    path: &Path,
    progress: &Progress,
) -> io::Result<Option<File>> {
    // Nothing is opened that is another's: a FIFO, a link, a file that may not be read.
    if !sys::path_identity(path).is_ok_and(|found| is_named_by(&found, progress)) {
        return Ok(None);
    }
    let file = match open(path) {
        // It has been given another name meanwhile.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    Ok(is_named_by(&sys::file_identity(&file)?, progress).then_some(file))
}

/// Whether a file begins with the `# run` line of thread `tid` of run `run`, but for its ticks; what was never published
/// may end inside of it. A deleted file's number is given to the next one that is made, which may be anybody's.
fn begins_as(file: &File, tid: u64, run: &Run, encoding: Encoding, published: bool) -> io::Result<bool> {
    let (mut first, mut found) = (Vec::new(), Vec::new());
    Renderer::new(tid, RenderState::default(), encoding).meta(&Meta::Run(run.clone()), &mut first);
    file.take(first.len() as u64).read_to_end(&mut found)?;
    let whole = found.len() == first.len() || !published;
    let ticks = match encoding {
        Encoding::Text => 0..TICKS_DIGITS,
        Encoding::Raw => raw::BLOCK_HEADER + 8..raw::BLOCK_HEADER + HEADER,
    };
    let same = |at: usize, found: u8| match encoding {
        Encoding::Text if ticks.contains(&at) => found.is_ascii_hexdigit(),
        _ => ticks.contains(&at) || found == first[at],
    };
    Ok(whole && found.iter().enumerate().all(|(at, byte)| same(at, *byte)))
}

fn is_named_by(found: &FileIdentity, progress: &Progress) -> bool {
    (found.device, found.inode) == (progress.device, progress.inode)
}

/// Whether the file at `path` says in its first line that it is of run `run`.
fn is_of_run(path: &Path, run: u32) -> bool {
    let Ok(file) = sys::open_own_file(path) else { return false };
    let mut first = Vec::new();
    let read = file.take(FIRST_BYTES as u64).read_to_end(&mut first);
    read.is_ok() && run_of(&first).is_some_and(|(_, found)| found.id == run)
}

/// An open trace file, written by this process alone.
#[derive(Debug)]
pub(crate) struct TraceFile {
    pub(super) file: Descriptor,
    pub(super) path: PathBuf,
    /// The `<n>` of its name.
    pub number: u32,
    /// What it was when it was made.
    pub identity: FileIdentity,
    /// Bytes that are whole and published; what is behind them is cut off.
    pub length: u64,
    /// It is rotated when it is longer than this.
    pub(super) rotate_at: u64,
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
    /// Opens the file that `progress` names and cuts off what is behind its published length. `None` where there
    /// is none, or a shorter one: that is not touched, nor is another file in its place.
    pub(crate) fn reopen(
        place: &TracePlace,
        tid: u64,
        run: &Run,
        progress: &Progress,
    ) -> io::Result<Option<TraceFile>> {
        let Some((file, path)) = place.find(tid, run.id, progress)? else { return Ok(None) };
        let is_unfinished = path == place.unfinished_path(tid, run.id);
        // Where there are no links, one without content cannot get its name; and it is not needed.
        if (is_unfinished && progress.file_length == 0)
            || !begins_as(&file, tid, run, place.encoding, progress.file_length > 0)?
        {
            return Ok(None);
        }
        let mut found = place.opened(file, path, progress.file_number, progress.file_length)?;
        if found.identity.length < progress.file_length {
            return Ok(None);
        }
        let length = progress.file_length;
        let cut = found.file.set_len(length).and_then(|()| found.file.seek(SeekFrom::Start(length)));
        cut.map_err(|e| io::Error::new(e.kind(), format!("cannot cut {:?}: {e}", found.path)))?;
        if is_unfinished {
            found.take_own_name(place, tid, run.id)?;
        }
        Ok(Some(found))
    }

    /// Gives the name of `old`, which is dropped, to this file.
    pub(super) fn take_name_of(
        &mut self,
        old: &TraceFile,
        place: &TracePlace,
        tid: u64,
        run: u32,
    ) -> io::Result<()> {
        let there = sys::path_identity(&old.path);
        if there.is_ok_and(|there| there.is_same_file(&old.identity)) {
            std::fs::rename(&self.path, &old.path)?;
            self.path.clone_from(&old.path);
            return Ok(());
        }
        // Somebody has put another file in its place.
        self.take_own_name(place, tid, run)
    }

    /// Gives this file, which has the name of an unfinished one, the thread's first name that is free; or that of
    /// the file that it was made to replace, which is known by its first line.
    fn take_own_name(&mut self, place: &TracePlace, tid: u64, run: u32) -> io::Result<()> {
        let own = place.path(tid, self.number);
        if is_of_run(&own, run) {
            std::fs::rename(&self.path, &own)?;
            self.path = own;
            return Ok(());
        }
        for number in 0..=u32::MAX {
            let path = place.path(tid, number);
            match std::fs::hard_link(&self.path, &path) {
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                Err(e) => return Err(e),
                Ok(()) => {
                    let _ = std::fs::remove_file(&self.path);
                    (self.path, self.number) = (path, number);
                    break;
                }
            }
        }
        Ok(())
    }

    /// Whether the host has left it open.
    pub(crate) fn is_open(&self) -> bool {
        self.file.is_ours()
    }

    /// Whether it still has a name, and all that was written.
    pub(crate) fn is_intact(&self) -> bool {
        sys::file_identity(&self.file).is_ok_and(|now| now.links > 0 && now.length >= self.length)
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
