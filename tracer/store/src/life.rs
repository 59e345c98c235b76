//! The proof that a run is alive: a lock on its life file that depends on no descriptor.
//!
//! A lock of an open file description (`F_OFD_SETLK`) is held while anything refers to the description, for example a
//! mapping of the file. So the run maps its life file, keeps the mapping out of forked children, takes the lock through
//! the description that the mapping refers to, and closes the descriptor. After that, no operation of the host on its
//! descriptors can release the lock. The system releases the lock together with the process's memory: after the last
//! thread that could write into a ring has ended, or at an `exec`.
//!
//! docs/decisions/a-run-lives-as-long-as-its-memory.md compares this with other proofs, and names the cases in which
//! the lock gives a wrong answer.
#![allow(unsafe_code, reason = "the page of a mapping as atomics; argued where it stands")]

use std::fs::File;
use std::io;
use std::path::Path;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};

use memmap2::{MmapOptions, MmapRaw};
use trace_format::life::{Dropped, FILE_BYTES, FILE_NAME, LAYOUT_VERSION, LIFE_BYTE, Life, Switch};

use crate::sys;

/// A mapped file of a run, through which locks on some of the file's bytes are held.
///
/// A file of another user, whom this process need not trust, is copied instead of mapped, because its owner may
/// truncate it.
#[derive(Debug)]
pub struct Lock {
    map: MmapRaw,
    /// The file. `None` if it was closed because the mapping alone holds the locks, or if no lock can be taken.
    file: Option<File>,
    /// Whether `map` is a copy of the file's contents, through which no lock is held.
    copied: bool,
}

impl Lock {
    /// Maps the file, but takes no lock yet. Forked children do not inherit the mapping, so they hold no lock.
    ///
    /// # Errors
    /// The file cannot be mapped, for example because it is empty.
    pub fn of(file: File) -> io::Result<Lock> {
        if sys::is_of_another_user(&file.metadata()?) {
            return Ok(Lock { file: Some(file.try_clone()?), ..Lock::open_read_only(&file)? });
        }
        let map = MmapRaw::map_raw(&file)?;
        sys::exclude_from_forks(map.as_mut_ptr(), map.len())?;
        Ok(Lock { map, file: Some(file), copied: false })
    }

    /// Reads the current contents of the file. The result cannot take locks.
    ///
    /// # Errors
    /// The file is empty, or cannot be read.
    pub fn open_read_only(file: &File) -> io::Result<Lock> {
        let mut bytes = [0; FILE_BYTES];
        let found = sys::read_at(file, &mut bytes, 0)?;
        let mut map = MmapOptions::new().len(found).map_anon()?;
        map.copy_from_slice(&bytes[..found]);
        Ok(Lock { map: map.into(), file: None, copied: true })
    }

    /// Stores in the file the number of trace files that the run has made, and the number of directories that the run
    /// no longer uses. Does nothing if the file is not a complete life file.
    pub(crate) fn set_files(&self, files: u64, left: u32) {
        let Ok(Some(life)) = self.life() else { return };
        life.flusher.left.store(left, Ordering::Relaxed);
        // Release: a reader that sees the count sees the file in its ring.
        life.flusher.files.store(files, Ordering::Release);
        if let Some(original) = self.file.as_ref().filter(|_| self.copied) {
            // SAFETY: the page is this process's own, is as long as that, and no other thread writes it.
            let bytes = unsafe { std::slice::from_raw_parts(self.map.as_ptr(), FILE_BYTES) };
            // If this fails, further files of the run may get numbers that earlier ones have.
            let _ = sys::write_at(original, bytes, 0);
        }
    }

    /// Stores in the file how many trace files the run has dropped, and what they contained. Does nothing if the file
    /// is not a complete life file.
    pub(crate) fn set_dropped(&self, dropped: &Dropped) {
        if let Ok(Some(life)) = self.life() {
            life.drops.set(dropped);
        }
    }

    /// Takes the lock on one byte of the file.
    ///
    /// # Errors
    /// Another process has the lock, or the descriptor is closed.
    pub fn hold(&self, byte: u32) -> io::Result<()> {
        match &self.file {
            Some(file) => sys::hold_lock(file, byte),
            None => Err(io::Error::other("the descriptor is closed")),
        }
    }

    /// Returns the file while it is open.
    pub fn file(&self) -> Option<&File> {
        self.file.as_ref()
    }

    /// Closes the descriptor if the mapping alone keeps the locks. After that, no further lock can be taken.
    pub fn close_descriptor(&mut self) {
        if sys::MAPPINGS_HOLD_LOCKS && !self.copied {
            self.file = None;
        }
    }

    /// Returns the mapped page as the life page of a run; `None` if the file is too short. The page's version is not
    /// checked.
    fn page(&self) -> Option<&Life> {
        // SAFETY: the mapping is page-aligned, long enough by the condition, and lives as long as `self`;
        // `Life` is atomics only, for which any bytes are valid.
        (self.map.len() >= FILE_BYTES).then(|| unsafe { &*self.map.as_ptr().cast::<Life>() })
    }

    /// Returns the life page of a run; `Ok(None)` if the page was not completely made.
    ///
    /// # Errors
    /// The page has the layout of another version.
    pub fn life(&self) -> io::Result<Option<&Life>> {
        match self.page().and_then(|life| Some((life, life.version()?))) {
            None => Ok(None),
            Some((life, LAYOUT_VERSION)) => Ok(Some(life)),
            Some((_, version)) => Err(io::Error::other(format!(
                "life-file layout {version} is unknown; this program reads {LAYOUT_VERSION}"
            ))),
        }
    }
}

/// The locks on the life files of this process's runs, the newest first, which are held until the process ends. No code
/// reads this list. It exists for LeakSanitizer, which would report the locks as leaked memory if no static led to
/// them.
static HELD: AtomicPtr<Held> = AtomicPtr::new(ptr::null_mut());

struct Held {
    lock: Arc<Lock>,
    earlier: AtomicPtr<Held>,
}

/// Makes the life file of a run and locks it. The file stays mapped as long as the process lives, because traced
/// threads store counts in it. `flusher` is the id of the run's flusher thread.
///
/// # Errors
/// The file cannot be made, mapped or locked.
pub fn begin(path: &Path, flusher: u64) -> io::Result<(Arc<Lock>, &'static Life)> {
    let file = sys::create_private_file(path)?;
    sys::reserve(&file, FILE_BYTES as u64)?;
    let mut lock = Lock::of(file)?;
    lock.hold(LIFE_BYTE)?;
    lock.close_descriptor();
    let held: &'static Held =
        Box::leak(Box::new(Held { lock: Arc::new(lock), earlier: AtomicPtr::default() }));
    held.earlier.store(HELD.swap(ptr::from_ref(held).cast_mut(), Ordering::Relaxed), Ordering::Relaxed);
    let life = held.lock.page().ok_or_else(|| io::Error::other("the life file is too short"))?;
    life.set(flusher);
    Ok((Arc::clone(&held.lock), life))
}

/// The outcome of a request to resume or to pause tracing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// The run is already in the requested state.
    Already,
    /// The run's flusher will see the request.
    Asked,
    /// The run's flusher does not look at requests.
    NotListening,
}

/// Requests that the living run in `directory` resumes tracing if `on` is true, and pauses it if `on` is false. Makes
/// no request if the run is in the requested state already.
///
/// # Errors
/// The run's life file cannot be opened, or has another layout.
pub fn ask(directory: &Path, on: bool) -> io::Result<Asked> {
    access_switch(directory, on, |switch| switch.ask(on))
}

/// Returns what has become of a request that [`ask`] has made with the same arguments.
///
/// # Errors
/// Fails for the same reasons as [`ask`].
pub fn answer(directory: &Path, on: bool) -> io::Result<Asked> {
    access_switch(directory, on, |_| {})
}

fn access_switch(directory: &Path, on: bool, ask: impl FnOnce(&Switch)) -> io::Result<Asked> {
    let lock = Lock::of(sys::open_own_file(&directory.join(FILE_NAME))?)?;
    let Some(life) = lock.life()? else { return Ok(Asked::NotListening) };
    Ok(match life.switch.is_on() {
        None => Asked::NotListening,
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
    fn the_lock_lasts_as_long_as_the_mapping_whatever_descriptors_close() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("life");
        begin(&path, 1).unwrap();
        // Closing another descriptor of the file does not release the lock either.
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
