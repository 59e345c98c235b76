//! An open trace file: opening it again, giving it its name, and appending to it.

use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use trace_format::meta::Run;
use trace_format::ring::Progress;

use crate::descriptor::Descriptor;
use crate::drain::trace_place::TracePlace;
use crate::drain::trace_place::find::{begins_with_run_line, is_of_run};
use crate::sys::{self, FileIdentity};

/// The first bytes of a new trace file.
#[derive(Debug)]
pub(super) struct FirstBytes<'a> {
    pub bytes: &'a [u8],
    /// The number of further bytes by which the file must be able to grow, as in [`TraceFile::append`].
    pub room: u64,
}

/// An open trace file, which only this process writes.
#[derive(Debug)]
pub struct TraceFile {
    pub(super) file: Descriptor,
    pub(super) path: PathBuf,
    /// The number at the end of the file's name, which distinguishes files with the same thread id; 0 if the name ends
    /// without a number.
    pub number: u32,
    /// The identity of the file when it was made or opened.
    pub identity: FileIdentity,
    /// The number of bytes that are completely written, and published in the ring; bytes after them are cut off.
    pub length: u64,
    /// The length, in bytes, above which the file is rotated.
    pub(super) rotate_at: u64,
    pub(super) _open: Open,
}

/// A guard for an open file, which decrements the count of open files when it is dropped.
#[derive(Debug)]
pub(super) struct Open(pub(super) Arc<AtomicUsize>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl TraceFile {
    /// Removes the file, which was made but not written to, if the file at its path is still this one.
    pub fn discard(self) {
        if sys::path_identity(&self.path).is_ok_and(|found| found.is_same_file(&self.identity)) {
            let _ = std::fs::remove_file(&self.path);
        }
    }

    /// Opens the file that `progress` names and truncates it to its published length. Returns `None`, and changes
    /// nothing, if the file does not exist, is shorter than the published length, or was replaced by another file.
    pub fn reopen(
        place: &TracePlace,
        tid: u64,
        run: &Run,
        progress: &Progress,
    ) -> io::Result<Option<TraceFile>> {
        let Some((file, path)) = place.find(tid, run.id, progress)? else { return Ok(None) };
        let is_unfinished = path.ends_with(place.unfinished_name(tid, run.id));
        let aside = place.aside_path(tid, run.id);
        // If the file system has no links, an empty file cannot get its name, and is not needed.
        if (is_unfinished && progress.file_length == 0)
            || !begins_with_run_line(&file, tid, run, place.encoding, progress.file_length > 0)?
        {
            return Ok(None);
        }
        let mut found = place.opened(file, path, progress.file_number, progress.file_length)?;
        if found.identity.length < progress.file_length {
            return Ok(None);
        }
        let length = progress.file_length;
        let cut = found.file.set_len(length).and_then(|()| found.file.seek(SeekFrom::Start(length)));
        cut.map_err(|e| io::Error::new(e.kind(), format!("cannot truncate {:?}: {e}", found.path)))?;
        if is_unfinished || found.path == aside {
            found.take_own_name(place, tid, run.id)?;
        }
        // A kill in the middle of a rotation may have left this file.
        if sys::OPEN_FILES_KEEP_NAMES {
            place.remove(aside);
        }
        Ok(Some(found))
    }

    /// Gives this file the name of `old`, which it replaces.
    ///
    /// # Errors
    /// The system refuses that, or somebody has renamed `old` to keep it. In both cases the thread continues to write
    /// to `old`.
    pub(super) fn take_name_of(
        &mut self,
        old: &TraceFile,
        place: &TracePlace,
        tid: u64,
        run: u32,
    ) -> io::Result<()> {
        let names = old.names();
        if old.has_its_name() {
            match std::fs::rename(&self.path, &old.path) {
                Err(_) if sys::OPEN_FILES_KEEP_NAMES => {
                    self.push_aside(old, place, place.aside_path(tid, run))?
                }
                done => done?,
            }
            if names == 0 || old.names() < names {
                self.path.clone_from(&old.path);
                return Ok(());
            }
            // The old file was renamed between the check and the renaming here.
            std::fs::remove_file(&old.path)?;
        }
        if old.names() > 0 {
            return Err(io::Error::other("the file was renamed meanwhile"));
        }
        // Another process has put another file in its place.
        self.take_own_name(place, tid, run)
    }

    /// Returns the number of names (hard links) that the file has; 0 on systems that do not report this number for an
    /// open file.
    fn names(&self) -> u64 {
        if sys::OPEN_FILES_KEEP_NAMES {
            return 0;
        }
        sys::open_file_identity(&self.file).map_or(0, |now| now.links)
    }

    /// Gives the name of `old` to this file, on systems on which an open file can be renamed, but not replaced. First
    /// renames `old` to `aside`, a file that is deleted when it is closed. If the process is killed between the two
    /// steps, the slot in the ring's header names this file: recovery finds this file under the name of an unfinished
    /// file, and deletes `aside`.
    fn push_aside(&self, old: &TraceFile, place: &TracePlace, aside: PathBuf) -> io::Result<()> {
        place.free_file_name(&aside)?;
        sys::give_name(&old.path, &aside)?;
        if let Err(error) = sys::give_name(&self.path, &old.path) {
            // The thread continues to write to the old file; if that cannot get its name back, it is found by its
            // identity.
            let _ = sys::give_name(&aside, &old.path);
            return Err(error);
        }
        Ok(())
    }

    /// Gives this file, which has the name of an unfinished file, its own name. If a file with the same number belongs
    /// to this run, this file replaces it and takes its name; otherwise this file gets the first free name of the
    /// thread.
    fn take_own_name(&mut self, place: &TracePlace, tid: u64, run: u32) -> io::Result<()> {
        let own = self.path.with_file_name(place.file_name(tid, self.number));
        if is_of_run(&own, run) {
            std::fs::rename(&self.path, &own)?;
            self.path = own;
            return Ok(());
        }
        for number in 0..=u32::MAX {
            let path = self.path.with_file_name(place.file_name(tid, number));
            match sys::give_name(&self.path, &path) {
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

    /// Returns whether the file is still open, and was not closed by the host.
    pub fn is_open(&self) -> bool {
        self.file.is_ours()
    }

    /// Returns whether the file at the path is still this one: it was neither renamed nor replaced.
    pub(super) fn has_its_name(&self) -> bool {
        sys::path_identity(&self.path).is_ok_and(|there| there.is_same_file(&self.identity))
    }

    /// Returns whether the file was neither deleted (it still has a name) nor truncated.
    pub fn is_intact(&self) -> bool {
        sys::open_file_identity(&self.file).is_ok_and(|now| now.links > 0 && now.length >= self.length)
    }

    /// Stores the identity, the number and the length of this file in `progress`.
    pub fn mark(&self, progress: &mut Progress) {
        progress.file_length = self.length;
        progress.device = self.identity.device;
        progress.inode = self.identity.inode;
        progress.file_number = self.number;
    }

    /// Appends all of `text` or, on error, nothing. Fails without writing if the file would exceed the process's limit
    /// on the size of files, or would have fewer than `room` bytes left up to the limit: a write beyond the limit would
    /// send the process a signal. There is no `fsync`: power loss may cost records.
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
            // Best effort: if this fails, the next append overwrites the rest, or recovery truncates it.
            let _ = self.file.set_len(self.length);
            let _ = self.file.seek(SeekFrom::Start(self.length));
            return Err(named(error, &self.path));
        }
        self.length += text.len() as u64;
        Ok(())
    }
}
