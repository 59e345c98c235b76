//! The search for existing trace files, which may have been renamed.

use std::fs::{DirEntry, File};
use std::io::{self, Seek};
use std::path::{Path, PathBuf};

use trace_format::file::{Encoding, FIRST_BYTES, run_of, thread_of};
use trace_format::line::{TICKS_DIGITS, Ticks};
use trace_format::meta::{Meta, Run};
use trace_format::raw;
use trace_format::record::HEADER;
use trace_format::render::{FileTotals, RenderState, Renderer};
use trace_format::ring::Progress;

use crate::drain::rotation;
use crate::drain::trace_place::TracePlace;
use crate::reading::read_at_most;
use crate::sys::{self, FileIdentity};

impl TracePlace {
    /// Opens the file that `progress` identifies. Tries the file's own name and the name of an unfinished file first,
    /// and then all names in the directories, because the file may have been renamed.
    pub(in crate::drain) fn find(
        &self,
        tid: u64,
        run: u32,
        progress: &Progress,
    ) -> io::Result<Option<(File, PathBuf)>> {
        self.find_by(&sys::open_named_file, tid, run, progress)
    }

    /// Opens the file that `progress` identifies for reading only. The file may belong to `user`, as an observer may be
    /// another user.
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

    /// Returns the number that the file that `progress` identifies has among the files of its run, as the file's `#
    /// thread` line states it.
    pub(crate) fn number_in_run(&self, tid: u64, run: u32, progress: &Progress) -> Option<u32> {
        let (file, _) = self.find(tid, run, progress).ok()??;
        thread_of(&read_at_most(&file, FIRST_BYTES as u64).ok()?)?.file
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
        // The inode number of a deleted file may be that of a directory now.
        let is_file = |entry: &DirEntry| entry.file_type().is_ok_and(|kind| kind.is_file());
        let renamed = entries.find(|entry| {
            is_file(entry)
                && sys::path_identity(&entry.path()).is_ok_and(|found| is_named_by(&found, progress))
        });
        let Some(path) = renamed.map(|entry| entry.path()) else {
            return self.check_visible().map(|()| None);
        };
        Ok(open_same(open, &path, progress)?.map(|file| (file, path)))
    }

    /// Counts what the existing files of thread `tid` of run `run` contain, except the file with the identity
    /// `current`, if one is given. A file belongs to the thread if it has the right name and its first line has the
    /// ticks `since`, at which the thread took its ring.
    ///
    /// If `progress` counts no earlier file, reads only the files that have the current file's name.
    ///
    /// # Errors
    /// A file or a directory cannot be read.
    pub(in crate::drain) fn survey(
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
            // A file that this user may not open does not belong to this run.
            let Ok(mut file) = sys::open_file_of_user_to_read(&path, sys::effective_user()) else { continue };
            if begins_at(&file, since).map_err(named(&path))?
                && begins_with_run_line(&file, tid, run, self.encoding, true).map_err(named(&path))?
            {
                found = found.and(&rotation::content(&mut file, self.encoding).map_err(named(&path))?);
            }
        }
        Ok(found)
    }

    /// Returns the sum of the lengths, in bytes, of the existing files of thread `tid`, except the file that `own`
    /// identifies.
    pub(in crate::drain) fn other_files_bytes(&self, tid: u64, own: &Progress) -> io::Result<u64> {
        let name = self.file_name(tid, own.file_number);
        let others = self.paths_of(tid, own)?.into_iter().filter(|other| !other.ends_with(&name));
        let length = |other: PathBuf| sys::path_identity(&other).map_or(0, |found| found.length);
        Ok(others.map(length).fold(0, u64::saturating_add))
    }

    /// Returns the paths of the files of thread `tid`. If the thread has had only one file, these are the paths with
    /// that file's name in all directories.
    fn paths_of(&self, tid: u64, progress: &Progress) -> io::Result<Vec<PathBuf>> {
        let places = || self.directories.iter().chain(&self.left);
        if progress.render.in_earlier_files.bytes == 0 {
            let name = self.file_name(tid, progress.file_number);
            return Ok(places().map(|place| place.join(&name)).collect());
        }
        let first = self.file_name(tid, 0);
        let is_number = |rest: &[u8]| match rest {
            [] => true,
            [b'.', digits @ ..] => !digits.is_empty() && digits.iter().all(u8::is_ascii_digit),
            _ => false,
        };
        self.check_visible()?;
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
}

/// Opens the file at `path` if it is the file that `progress` identifies.
fn open_same(
    open: &dyn Fn(&Path) -> io::Result<File>,
    path: &Path,
    progress: &Progress,
) -> io::Result<Option<File>> {
    // This does not open other files: a FIFO, a link, a file that may not be read.
    if !sys::path_identity(path).is_ok_and(|found| is_named_by(&found, progress)) {
        return Ok(None);
    }
    let file = match open(path) {
        // The file was renamed meanwhile.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    Ok(is_named_by(&sys::file_identity(&file)?, progress).then_some(file))
}

/// Returns whether a file begins with the `# run` line of thread `tid` of run `run`; the line may have any ticks. If
/// `published` is false, the file may end inside this line. The check is needed because the inode number of a deleted
/// file may be given to another file.
pub(in crate::drain) fn begins_with_run_line(
    file: &File,
    tid: u64,
    run: &Run,
    encoding: Encoding,
    published: bool,
) -> io::Result<bool> {
    let mut first = Vec::new();
    Renderer::new(tid, RenderState::default(), encoding).meta(&Meta::Run(run.clone()), &mut first);
    let found = read_at_most(file, first.len() as u64)?;
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

/// Returns whether the first line, or the first record of a raw file, has the ticks `since`. Reads from the current
/// position of the file, which must be its beginning, and then sets the position back to the beginning.
fn begins_at(mut file: &File, since: Ticks) -> io::Result<bool> {
    let first = read_at_most(file, FIRST_BYTES as u64)?;
    file.rewind()?;
    Ok(run_of(&first).is_some_and(|(key, _)| key.ticks == since))
}

fn is_named_by(found: &FileIdentity, progress: &Progress) -> bool {
    found.is(progress.device, progress.inode)
}

/// Returns whether the first line of the file at `path` names run `run`.
pub(in crate::drain) fn is_of_run(path: &Path, run: u32) -> bool {
    let Ok(file) = sys::open_own_file(path) else { return false };
    let first = read_at_most(&file, FIRST_BYTES as u64);
    first.is_ok_and(|first| run_of(&first).is_some_and(|(_, found)| found.id == run))
}
