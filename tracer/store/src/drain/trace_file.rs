//! Trace files: where they go, how they are made, written and found again.

use super::{Announcement, rotation};
use crate::descriptor::{self, Descriptor};
use crate::life::Lock;
use crate::sys::{self, FileIdentity};
use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::{DirEntry, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use trace_format::file::{Encoding, FIRST_BYTES, run_of};
use trace_format::line::{TICKS_DIGITS, Ticks};
use trace_format::manifest::Manifest;
use trace_format::meta::{Meta, Run};
use trace_format::name::{stem, trace_file_suffix};
use trace_format::raw;
use trace_format::record::HEADER;
use trace_format::render::{FileTotals, RenderState, Renderer};
use trace_format::ring::Progress;

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
    /// The encoding in which files are written.
    pub encoding: Encoding,
    /// The error of what could not be done though the records are in the file.
    pub trouble: Option<io::Error>,
    /// The function that tells the user that files go to another directory.
    say: Say,
}

impl TracePlace {
    /// Makes the place for run `run` of `exe`: `wanted` or beside the executable, else `here`, else the temp
    /// directory. Where files have to go to another one of these, the user is told so by `say`.
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
        let others = here.map(Path::to_path_buf).into_iter().chain([std::env::temp_dir()]);
        let directories = beside.into_iter().chain(others);
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
            encoding: Encoding::Text,
            trouble: None,
            say,
        }
    }

    /// Returns how many bytes should be written at once at most.
    pub fn portion(&self) -> usize {
        usize::try_from(self.max_bytes / 4).unwrap_or(usize::MAX)
    }

    /// Makes an open file of this place.
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

    /// Returns whether so many files are open that one should be closed until it is written again.
    pub fn is_crowded(&self) -> bool {
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

    /// Returns how many files the run has made.
    pub fn files(&self) -> u64 {
        self.files
    }

    /// Returns what the last line of a file says of how many files the run has so far.
    pub fn files_so_far(&self) -> Option<u64> {
        self.counts.then_some(self.files)
    }

    /// Returns the number in its run of the next file that is made; `None` where that is not known.
    pub(super) fn next_file(&self) -> Option<u32> {
        u32::try_from(self.files + 1).ok().filter(|_| self.counts)
    }

    /// Counts a file that is made: its first lines are there, and its ring says which it is.
    pub(super) fn count_file(&mut self) {
        self.files += 1;
        self.tell_files();
    }

    fn tell_files(&self) {
        for life in self.lives.iter().filter_map(|page| page.life().ok().flatten()) {
            // Release: who sees the count sees the file in its ring.
            life.flusher.files.store(self.files, Ordering::Release);
        }
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

    /// Makes a new file for thread `tid` of run `run`, which has the bytes in `first`; `publish` is told
    /// before it has its name. Where a directory cannot be written, goes on to the next and says so once.
    ///
    /// # Errors
    /// There can be no such file, now or at all; nothing is left of it.
    pub(super) fn create(
        &mut self,
        tid: u64,
        run: u32,
        first: &FirstBytes<'_>,
        publish: &mut dyn FnMut(&TraceFile),
    ) -> io::Result<TraceFile> {
        loop {
            let error = match self.create_here(tid, run, first, publish) {
                Ok(file) => return Ok(file),
                Err(error) => error,
            };
            let message = format!("cannot create trace files in {:?}: {error}", self.directory());
            if !self.leave_if_refused(&error) {
                return Err(io::Error::new(error.kind(), message));
            }
        }
    }

    /// Goes on to the next directory if this one refuses for good, and says so. Out of space or descriptors
    /// may pass.
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
        self.leave(error);
        true
    }

    fn leave(&mut self, error: &io::Error) {
        let left = self.directories.remove(0);
        self.left.push(left.clone());
        (self.say)(format_args!(
            "cannot create trace files in {left:?}: {error}; they go to {:?}",
            self.directory()
        ));
    }

    fn path(&self, tid: u64, number: u32) -> PathBuf {
        self.directory().join(self.file_name(tid, number))
    }

    fn file_name(&self, tid: u64, number: u32) -> OsString {
        let mut name = self.name.clone();
        name.push(trace_file_suffix(tid, number));
        name
    }

    /// Returns whether one of the first files that have this thread's name is of this run.
    pub(super) fn has_file_of(&self, tid: u64, run: u32) -> bool {
        let mut numbers = self.directories.iter().flat_map(|place| {
            (0..=u32::MAX)
                .map(move |number| place.join(self.file_name(tid, number)))
                .take_while(|path| path.exists())
        });
        numbers.any(|path| is_of_run(&path, run))
    }

    /// Makes a file that has `bytes`, under the first name of thread `tid` that is free.
    ///
    /// # Errors
    /// No directory takes it.
    pub(super) fn create_whole(&mut self, tid: u64, run: u32, bytes: &[u8]) -> io::Result<()> {
        let path = loop {
            let path = self.unfinished_path(tid, run);
            let _ = std::fs::remove_file(&path);
            let written = sys::create_private_file(&path).and_then(|mut file| file.write_all(bytes));
            match written {
                Ok(()) => break path,
                Err(error) => {
                    let _ = std::fs::remove_file(&path);
                    if !self.leave_if_refused(&error) {
                        return Err(io::Error::new(error.kind(), format!("cannot write {path:?}: {error}")));
                    }
                }
            }
        };
        self.announce();
        let mut number = 0;
        let linked = loop {
            let own = self.path(tid, number);
            match std::fs::hard_link(&path, &own) {
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists && number < u32::MAX => number += 1,
                // There are no links here.
                Err(_) if !own.exists() => break std::fs::rename(&path, &own),
                linked => break linked,
            }
        };
        let _ = std::fs::remove_file(&path);
        linked.map(|()| self.count_file())
    }

    /// Makes the file without a name, or under one that is this run's alone, has `publish` write down what it
    /// is, and only then gives it its own name, the first that is free: killed at any step, recovery finds
    /// the file, or none.
    fn create_here(
        &mut self,
        tid: u64,
        run: u32,
        first: &FirstBytes<'_>,
        publish: &mut dyn FnMut(&TraceFile),
    ) -> io::Result<TraceFile> {
        // A file without a name is linked by the number of its descriptor, so no other thread may close that.
        let unnamed = if descriptor::are_own() { sys::create_unnamed_file(self.directory())? } else { None };
        if let Some(file) = unnamed {
            self.announce();
            let mut made = self.opened(file, self.path(tid, 0), 0, 0)?;
            made.append(first.bytes, first.room)?;
            if self.give_first_free_name(&mut made, tid, publish, sys::link_unnamed_file).is_ok() {
                return Ok(made);
            }
            // The file system has no links, or there is no `/proc`.
        }
        let mut made = self.create_named(tid, run, publish)?;
        match made.append(first.bytes, first.room) {
            Ok(()) => Ok(made),
            Err(error) => {
                made.discard();
                Err(error)
            }
        }
    }

    /// Makes an empty file where there are none without names.
    fn create_named(
        &mut self,
        tid: u64,
        run: u32,
        publish: &mut dyn FnMut(&TraceFile),
    ) -> io::Result<TraceFile> {
        let unfinished = self.unfinished_path(tid, run);
        let file = match sys::create_private_file(&unfinished) {
            // Put there by somebody else; it is not removed.
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                return self.create_without_links(tid, publish);
            }
            created => created?,
        };
        self.announce();
        let mut made = self.opened(file, PathBuf::new(), 0, 0)?;
        let link = |_: &File, own: &Path| std::fs::hard_link(&unfinished, own);
        let result = self.give_first_free_name(&mut made, tid, publish, link);
        let _ = std::fs::remove_file(&unfinished);
        match result {
            Ok(()) => Ok(made),
            Err(_) => self.create_without_links(tid, publish),
        }
    }

    /// Has `publish` write down what the file is, and then gives it, by `link`, the first name that is free.
    fn give_first_free_name(
        &self,
        made: &mut TraceFile,
        tid: u64,
        publish: &mut dyn FnMut(&TraceFile),
        link: impl Fn(&File, &Path) -> io::Result<()>,
    ) -> io::Result<()> {
        loop {
            made.path = self.path(tid, made.number);
            publish(made);
            match link(&made.file, &made.path) {
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists && made.number < u32::MAX => {
                    made.number += 1
                }
                other => return other,
            }
        }
    }

    /// Announces that there are files in the directory that they go to now, before one has its name there.
    fn announce(&mut self) {
        if let (Some(announcement), Some(directory)) = (&mut self.announcement, self.directories.first()) {
            announcement.announce(directory);
        }
    }

    /// Makes the file where the file system has no links: killed between the two steps, an empty file is
    /// left.
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

    /// Returns the path that a file of thread `tid` of run `run` has until it gets its own name.
    pub(super) fn unfinished_path(&self, tid: u64, run: u32) -> PathBuf {
        self.directory().join(self.unfinished_name(tid, run))
    }

    fn unfinished_name(&self, tid: u64, run: u32) -> OsString {
        let mut name = OsString::from(".");
        name.push(&self.name);
        name.push(format!("{}.{run:08x}.new", trace_file_suffix(tid, 0)));
        name
    }

    /// Opens the file that `progress` names: under its name or, if somebody has given it another one or it
    /// has not got its own yet, under any in the directory.
    fn find(&self, tid: u64, run: u32, progress: &Progress) -> io::Result<Option<(File, PathBuf)>> {
        self.find_by(&sys::open_named_file, tid, run, progress)
    }

    /// Opens the file that `progress` names for an onlooker; the file may be that user's.
    pub fn find_to_read(
        &self,
        user: u32,
        tid: u64,
        run: u32,
        progress: &Progress,
    ) -> io::Result<Option<(File, PathBuf)>> {
        let open = |path: &Path| sys::open_file_of_user_to_read(path, user);
        self.find_by(&open, tid, run, progress)
    }

    fn find_by(
        &self,
        open: &dyn Fn(&Path) -> io::Result<File>,
        tid: u64,
        run: u32,
        progress: &Progress,
    ) -> io::Result<Option<(File, PathBuf)>> {
        let names = [self.file_name(tid, progress.file_number), self.unfinished_name(tid, run)];
        let places = || self.directories.iter().chain(&self.left);
        for path in places().flat_map(|place| names.iter().map(|name| place.join(name))) {
            match open_same(open, &path, progress) {
                Ok(None) => {}
                Ok(Some(file)) => return Ok(Some((file, path))),
                Err(e) => return Err(io::Error::new(e.kind(), format!("cannot open {path:?}: {e}"))),
            }
        }
        let mut entries = places().filter_map(|place| std::fs::read_dir(place).ok()).flatten().flatten();
        // The number of a file that was deleted may be a directory's now.
        let is_file = |entry: &DirEntry| entry.file_type().is_ok_and(|kind| kind.is_file());
        let renamed = entries.find(|entry| {
            is_file(entry)
                && sys::path_identity(&entry.path()).is_ok_and(|found| is_named_by(&found, progress))
        });
        let Some(path) = renamed.map(|entry| entry.path()) else { return Ok(None) };
        Ok(open_same(open, &path, progress)?.map(|file| (file, path)))
    }

    /// Returns what the files of thread `tid` of run `run` hold that are there now, but for that with the
    /// identity `current`, where one is given. A file is known by its name and its first line: `since` is
    /// when the thread took its ring.
    ///
    /// Where `progress` tells of no earlier file, only that which has the current one's name is looked at.
    ///
    /// # Errors
    /// A file cannot be read, or the directory.
    pub(super) fn survey(
        &self,
        tid: u64,
        run: &Run,
        since: Ticks,
        progress: &Progress,
        current: Option<&FileIdentity>,
    ) -> io::Result<FileTotals> {
        let named = |path: &Path| {
            let path = path.to_path_buf();
            move |e: io::Error| io::Error::new(e.kind(), format!("cannot read {path:?}: {e}"))
        };
        let mut found = FileTotals::default();
        for path in self.paths_of(tid, progress)? {
            let identity = sys::path_identity(&path);
            if identity.is_err() || current.is_some_and(|own| identity.is_ok_and(|it| it.is_same_file(own))) {
                continue;
            }
            // What may not be opened is not this run's.
            let Ok(mut file) = sys::open_file_of_user_to_read(&path, sys::effective_user()) else { continue };
            if begins_at(&file, since).map_err(named(&path))?
                && begins_as(&file, tid, run, self.encoding, true).map_err(named(&path))?
            {
                found = found.and(&rotation::content(&mut file, self.encoding).map_err(named(&path))?);
            }
        }
        Ok(found)
    }

    /// Returns the lengths together, in bytes, of the files of thread `tid` that are there, but for that with
    /// the number `own`.
    pub(super) fn bytes_beside(&self, tid: u64, own: &Progress) -> io::Result<u64> {
        let name = self.file_name(tid, own.file_number);
        let others = self.paths_of(tid, own)?.into_iter().filter(|other| !other.ends_with(&name));
        let length = |other: PathBuf| sys::path_identity(&other).map_or(0, |found| found.length);
        Ok(others.map(length).fold(0, u64::saturating_add))
    }

    /// Returns the names that files of thread `tid` have here: only that of the current one where there was
    /// no other.
    fn paths_of(&self, tid: u64, progress: &Progress) -> io::Result<Vec<PathBuf>> {
        let places = || self.directories.iter().chain(&self.left);
        if progress.render.elsewhere.bytes == 0 {
            let name = self.file_name(tid, progress.file_number);
            return Ok(places().map(|place| place.join(&name)).collect());
        }
        let first = self.file_name(tid, 0);
        let is_number = |rest: &[u8]| match rest {
            [] => true,
            [b'.', digits @ ..] => !digits.is_empty() && digits.iter().all(u8::is_ascii_digit),
            _ => false,
        };
        let mut paths = Vec::new();
        for place in places() {
            let entries = match std::fs::read_dir(place) {
                Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                    continue;
                }
                entries => entries?,
            };
            for entry in entries {
                let name = entry?.file_name();
                if name.as_encoded_bytes().strip_prefix(first.as_encoded_bytes()).is_some_and(is_number) {
                    paths.push(place.join(name));
                }
            }
        }
        Ok(paths)
    }

    /// Removes what a dead run `run` may have left of the making of a file.
    pub fn remove_unfinished(&self, tid: u64, run: u32) {
        for place in self.directories.iter().chain(&self.left) {
            let _ = std::fs::remove_file(place.join(self.unfinished_name(tid, run)));
        }
    }
}

/// Opens the file at `path` if it is the one that `progress` names.
fn open_same(
    open: &dyn Fn(&Path) -> io::Result<File>,
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

/// Returns whether a file begins with the `# run` line of thread `tid` of run `run`, but for its ticks; what
/// was never published may end inside of it. A deleted file's number is given to the next one that is made,
/// which may be anybody's.
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

/// Returns whether the first line or record of a file has these ticks. Reads from the start and goes back
/// there.
fn begins_at(mut file: &File, since: Ticks) -> io::Result<bool> {
    let mut first = Vec::new();
    file.take(FIRST_BYTES as u64).read_to_end(&mut first)?;
    file.rewind()?;
    Ok(run_of(&first).is_some_and(|(key, _)| key.ticks == since))
}

fn is_named_by(found: &FileIdentity, progress: &Progress) -> bool {
    (found.device, found.inode) == (progress.device, progress.inode)
}

/// Returns whether the file at `path` says in its first line that it is of run `run`.
fn is_of_run(path: &Path, run: u32) -> bool {
    let Ok(file) = sys::open_own_file(path) else { return false };
    let mut first = Vec::new();
    let read = file.take(FIRST_BYTES as u64).read_to_end(&mut first);
    read.is_ok() && run_of(&first).is_some_and(|(_, found)| found.id == run)
}

/// The first bytes of a new trace file.
#[derive(Debug)]
pub(super) struct FirstBytes<'a> {
    pub bytes: &'a [u8],
    /// The number of bytes by which the file must be able to grow further, as in [`TraceFile::append`].
    pub room: u64,
}

/// An open trace file, written by this process alone.
#[derive(Debug)]
pub struct TraceFile {
    pub(super) file: Descriptor,
    pub(super) path: PathBuf,
    /// The `<n>` of its name.
    pub number: u32,
    /// The identity of the file when it was made or opened.
    pub identity: FileIdentity,
    /// The number of bytes that are whole and published; what is behind them is truncated.
    pub length: u64,
    /// The length, in bytes, above which the file is rotated.
    pub(super) rotate_at: u64,
    _open: Open,
}

/// A count of one open file, as long as it is open.
#[derive(Debug)]
struct Open(Arc<AtomicUsize>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl TraceFile {
    /// Removes a file that was made and not written to, if it still has the name that it got.
    pub fn discard(self) {
        if sys::path_identity(&self.path).is_ok_and(|found| found.is_same_file(&self.identity)) {
            let _ = std::fs::remove_file(&self.path);
        }
    }

    /// Opens the file that `progress` names and truncates it to its published length. `None` where there is
    /// none, or a shorter one: that is not touched, nor is another file in its place.
    pub fn reopen(
        place: &TracePlace,
        tid: u64,
        run: &Run,
        progress: &Progress,
    ) -> io::Result<Option<TraceFile>> {
        let Some((file, path)) = place.find(tid, run.id, progress)? else { return Ok(None) };
        let is_unfinished = path.ends_with(place.unfinished_name(tid, run.id));
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

    /// Gives this file, which has the name of an unfinished one, the thread's first name that is free; or
    /// that of the file that it was made to replace, which is known by its first line.
    fn take_own_name(&mut self, place: &TracePlace, tid: u64, run: u32) -> io::Result<()> {
        let own = self.path.with_file_name(place.file_name(tid, self.number));
        if is_of_run(&own, run) {
            std::fs::rename(&self.path, &own)?;
            self.path = own;
            return Ok(());
        }
        for number in 0..=u32::MAX {
            let path = self.path.with_file_name(place.file_name(tid, number));
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

    /// Returns whether the host has left the file open.
    pub fn is_open(&self) -> bool {
        self.file.is_ours()
    }

    /// Returns whether the file still has the name that it was given.
    pub(super) fn has_its_name(&self) -> bool {
        sys::path_identity(&self.path).is_ok_and(|there| there.is_same_file(&self.identity))
    }

    /// Returns whether the file still has a name, and all that was written.
    pub fn is_intact(&self) -> bool {
        sys::file_identity(&self.file).is_ok_and(|now| now.links > 0 && now.length >= self.length)
    }

    /// Writes what this file is, and its length, into `progress`.
    pub fn mark(&self, progress: &mut Progress) {
        progress.file_length = self.length;
        progress.device = self.identity.device;
        progress.inode = self.identity.inode;
        progress.file_number = self.number;
    }

    /// Appends all of `text` or, on error, nothing. Where the process may not write files that long, or
    /// `room` bytes longer, it is not tried: the process would get a signal.
    pub fn append(&mut self, text: &[u8], room: u64) -> io::Result<()> {
        let named = |error: io::Error, path: &Path| {
            io::Error::new(error.kind(), format!("cannot write {path:?}: {error}"))
        };
        let length = self.length.saturating_add(text.len() as u64).saturating_add(room);
        if length > sys::file_size_limit() {
            let why = "the process's limit of the size of files (RLIMIT_FSIZE) is reached";
            return Err(named(io::Error::new(io::ErrorKind::FileTooLarge, why), &self.path));
        }
        if let Err(error) = self.file.write_all(text) {
            // Best effort: what cannot be cut now is cut by the next append's seek, or by recovery.
            let _ = self.file.set_len(self.length);
            let _ = self.file.seek(SeekFrom::Start(self.length));
            return Err(named(error, &self.path));
        }
        self.length += text.len() as u64;
        Ok(())
    }
}
