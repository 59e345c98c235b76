//! The proof that a run lives: a lock on its life file that depends on no descriptor.
//!
//! A lock of an open file description (`F_OFD_SETLK`) is held as long as anything refers to the description;
//! a mapping of the file does. So the file is mapped, kept out of forked children, locked through the
//! mapping's own description, and the descriptor is closed. From then on nothing that a host does to its
//! descriptors can give the lock up; it is gone when the process's memory is: after the last thread has ended
//! that could write into a ring, or at an `exec`.
//!
//! docs/decisions.md ("A run lives as long as its memory") compares this with other proofs, and says what it
//! gets wrong.
#![allow(unsafe_code, reason = "the page of a mapping as atomics; argued where it stands")]

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use memmap2::{MmapOptions, MmapRaw};
use trace_format::life::{Dropped, FILE_BYTES, FILE_NAME, LAYOUT_VERSION, LIFE_BYTE, Life, Switch};

use crate::sys;

/// A mapped file through which locks on some of its bytes are held.
///
/// The file of a user whom this process need not trust is copied instead of mapped: its owner may make it shorter.
#[derive(Debug)]
pub struct Lock {
    map: MmapRaw,
    /// The file; `None` where the mapping alone holds the locks, or none is to be held.
    file: Option<File>,
    /// Tells that the mapping is a copy, which holds no lock.
    copied: bool,
}

impl Lock {
    /// Maps the file; nothing is locked yet. Forked children do not have the mapping, so they hold no lock.
    ///
    /// # Errors
    /// The file cannot be mapped; an empty one, for example.
    pub fn of(file: File) -> io::Result<Lock> {
        if sys::is_of_another_user(&file.metadata()?) {
            return Ok(Lock { file: Some(file.try_clone()?), ..Lock::to_read(&file)? });
        }
        let map = MmapRaw::map_raw(&file)?;
        sys::keep_from_children(map.as_mut_ptr(), map.len())?;
        Ok(Lock { map, file: Some(file), copied: false })
    }

    /// Reads what the file says now; no lock can be taken.
    ///
    /// # Errors
    /// The file is empty, or cannot be read.
    pub fn to_read(file: &File) -> io::Result<Lock> {
        let mut bytes = [0; FILE_BYTES];
        let found = sys::read_at(file, &mut bytes, 0)?;
        let mut map = MmapOptions::new().len(found).map_anon()?;
        map.copy_from_slice(&bytes[..found]);
        Ok(Lock { map: map.into(), file: None, copied: true })
    }

    /// Says in the file, from here on, how many trace files the run has made, if it is a whole life file.
    pub(crate) fn set_files(&self, files: u64) {
        let Ok(Some(life)) = self.life() else { return };
        // Release: who sees the count sees the file in its ring.
        life.flusher.files.store(files, Ordering::Release);
        if let Some(original) = self.file.as_ref().filter(|_| self.copied) {
            // SAFETY: the page is this process's own, is as long as that, and no other thread writes it.
            let bytes = unsafe { std::slice::from_raw_parts(self.map.as_ptr(), FILE_BYTES) };
            // Where that is not written, further files of the run may have numbers that there were before.
            let _ = sys::write_at(original, bytes, 0);
        }
    }

    /// Says in the file, from here on, what files the run has dropped, if it is a whole life file.
    pub(crate) fn set_dropped(&self, dropped: &Dropped) {
        if let Ok(Some(life)) = self.life() {
            life.drops.set(dropped);
        }
    }

    /// Takes the lock on one byte.
    ///
    /// # Errors
    /// Somebody else has it.
    pub fn hold(&self, byte: u32) -> io::Result<()> {
        match &self.file {
            Some(file) => sys::hold_lock(file, byte),
            None => Err(io::Error::other("the descriptor is closed")),
        }
    }

    /// Gives the file, as long as it is open.
    pub fn file(&self) -> Option<&File> {
        self.file.as_ref()
    }

    /// Closes the descriptor where the mapping holds the locks. No further one can be taken.
    pub fn close_descriptor(&mut self) {
        if sys::MAPPINGS_HOLD_LOCKS && !self.copied {
            self.file = None;
        }
    }

    /// Gives the page as a life page; `None` where the file is shorter.
    fn page(&self) -> Option<&Life> {
        // SAFETY: the mapping is page-aligned, long enough by the condition, and lives as long as `self`;
        // `Life` is atomics only, for which any bytes are valid.
        (self.map.len() >= FILE_BYTES).then(|| unsafe { &*self.map.as_ptr().cast::<Life>() })
    }

    /// Gives the life page of a dead run.
    ///
    /// # Errors
    /// The page has another layout. `Ok(None)` says that its making was not finished.
    pub fn life(&self) -> io::Result<Option<&Life>> {
        match self.page().and_then(|life| Some((life, life.version()?))) {
            None => Ok(None),
            Some((life, LAYOUT_VERSION)) => Ok(Some(life)),
            Some((_, version)) => Err(io::Error::other(format!(
                "layout {version} of its life file is not known here, only {LAYOUT_VERSION}"
            ))),
        }
    }
}

/// Makes the life file of a run and locks it. The mapping stays for ever: traced threads count in its page.
/// `flusher` is the id of the run's flusher thread.
///
/// # Errors
/// The file cannot be made, mapped or locked.
pub fn begin(path: &Path, flusher: u64) -> io::Result<(Arc<Lock>, &'static Life)> {
    let file = sys::create_private_file(path)?;
    sys::reserve(&file, FILE_BYTES as u64)?;
    let mut lock = Lock::of(file)?;
    lock.hold(LIFE_BYTE)?;
    lock.close_descriptor();
    let lock: &'static Arc<Lock> = Box::leak(Box::new(Arc::new(lock)));
    let life = lock.page().ok_or_else(|| io::Error::other("the life file is too short"))?;
    life.set(flusher);
    Ok((Arc::clone(lock), life))
}

/// What has become of the question whether tracing goes on, or pauses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// It is so already.
    Already,
    /// The run's flusher will see that it was asked.
    Asked,
    /// The run's flusher sees no such questions.
    Deaf,
}

/// Asks the living run in `directory` to go on tracing, or to pause, unless it does so.
///
/// # Errors
/// Its life file cannot be opened, or has another layout.
pub fn ask(directory: &Path, on: bool) -> io::Result<Asked> {
    look_at_switch(directory, on, |switch| switch.ask(on))
}

/// Returns what has become of the question.
///
/// # Errors
/// As [`ask`].
pub fn answer(directory: &Path, on: bool) -> io::Result<Asked> {
    look_at_switch(directory, on, |_| {})
}

fn look_at_switch(directory: &Path, on: bool, ask: impl FnOnce(&Switch)) -> io::Result<Asked> {
    let lock = Lock::of(sys::open_own_file(&directory.join(FILE_NAME))?)?;
    let Some(life) = lock.life()? else { return Ok(Asked::Deaf) };
    Ok(match life.switch.is_on() {
        None => Asked::Deaf,
        Some(is_on) if is_on == on => Asked::Already,
        Some(_) => {
            ask(&life.switch);
            Asked::Asked
        }
    })
}

#[cfg(all(test, target_os = "linux", not(loom)))]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn is_free(path: &Path) -> bool {
        let file = sys::open_own_file(path).unwrap();
        sys::hold_lock(&file, LIFE_BYTE).is_ok()
    }

    #[test]
    fn the_lock_outlives_every_descriptor_and_not_the_mapping() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("life");
        begin(&path, 1).unwrap();
        // To close another descriptor of the file gives nothing up either.
        assert!(!is_free(&path) && !is_free(&path));

        let other = directory.path().join("other");
        std::fs::write(&other, "some bytes").unwrap();
        let mut lock = Lock::of(sys::open_own_file(&other).unwrap()).unwrap();
        assert!(is_free(&other));
        lock.hold(LIFE_BYTE).unwrap();
        lock.close_descriptor();
        assert!(!is_free(&other));
        drop(lock);
        assert!(is_free(&other));
    }
}
