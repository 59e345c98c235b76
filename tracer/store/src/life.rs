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

use memmap2::{MmapOptions, MmapRaw};
use trace_format::life::{FILE_BYTES, FILE_NAME, LAYOUT_VERSION, LIFE_BYTE, Life, Switch};

use crate::sys;

/// A mapped file through which locks on some of its bytes are held.
#[derive(Debug)]
pub struct Lock {
    map: MmapRaw,
    /// The file; `None` where the mapping alone holds the locks.
    file: Option<File>,
}

impl Lock {
    /// Maps the file; nothing is locked yet. Forked children do not have the mapping, so they hold no lock.
    ///
    /// # Errors
    /// The file cannot be mapped; an empty one, for example.
    pub fn of(file: File) -> io::Result<Lock> {
        let map = MmapRaw::map_raw(&file)?;
        sys::keep_from_children(map.as_mut_ptr(), map.len())?;
        Ok(Lock { map, file: Some(file) })
    }

    /// Maps the file for reading; no lock can be taken.
    ///
    /// # Errors
    /// The file cannot be mapped.
    pub fn to_read(file: &File) -> io::Result<Lock> {
        Ok(Lock { map: MmapOptions::new().map_raw_read_only(file)?, file: None })
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
        if sys::MAPPINGS_HOLD_LOCKS {
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
