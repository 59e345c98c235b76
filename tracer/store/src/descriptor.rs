//! A file that the tracer keeps open, on the flusher thread or in recovery.
//!
//! If the system allows it ([`take_own`]), the flusher thread has a table of file descriptors of its own, which no
//! other thread can touch. Otherwise it shares the descriptors with the host. The host may then close all descriptors
//! that it does not know, as daemons do when they start. After that, the number of a closed descriptor belongs to no
//! file, or to a file of the host, and the tracer must neither write to that descriptor nor close it. Therefore a
//! shared descriptor is checked before each use; this makes the race window smaller, but does not close it.
#![allow(unsafe_code, reason = "closes the descriptor, if it is still the one that was opened")]

use std::cell::Cell;
use std::fs::File;
use std::io;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};

use crate::sys::{self, FileIdentity};

thread_local! {
    /// Whether the calling thread has a table of file descriptors of its own.
    static OWN: Cell<bool> = const { Cell::new(false) };
}

/// Gives the calling thread a table of file descriptors of its own, which it shares with no other thread.
///
/// # Errors
/// The system or a sandbox refuses that. Then descriptors are checked before they are used.
pub fn take_own() -> io::Result<()> {
    sys::take_own_descriptors()?;
    OWN.set(true);
    Ok(())
}

/// Returns whether the calling thread has a table of file descriptors of its own.
pub fn has_own_descriptors() -> bool {
    OWN.get()
}

/// Returns the number of trace files that the calling thread may keep open, at least one: nearly as many as the process
/// may have descriptors if the thread has descriptors of its own, and a quarter of that number if it shares them with
/// other threads.
pub fn max_open_files() -> usize {
    let limit = sys::descriptor_limit();
    // Three standard streams, the site table, and three files that are open for a moment: a ring, a directory, a
    // second file.
    let most = if has_own_descriptors() { limit.saturating_sub(7) } else { limit / 4 };
    most.max(1)
}

/// A file that stays open. Before each use, `Descriptor::is_ours` has to be checked, because the host may have closed
/// the file.
#[derive(Debug)]
pub struct Descriptor {
    file: ManuallyDrop<File>,
    /// The identity of the file when it was opened.
    identity: FileIdentity,
}

impl Descriptor {
    /// Makes the descriptor of a file that was just opened.
    ///
    /// # Errors
    /// The system does not report the file's identity.
    pub fn new(file: File) -> io::Result<Descriptor> {
        let identity = sys::file_identity(&file)?;
        Ok(Descriptor { file: ManuallyDrop::new(file), identity })
    }

    /// Returns the identity of the file when it was opened.
    pub fn identity(&self) -> FileIdentity {
        self.identity
    }

    /// Returns whether the descriptor still refers to the file that was opened. The caller must check this before each
    /// use of the file.
    pub fn is_ours(&self) -> bool {
        has_own_descriptors()
            || sys::open_file_identity(&self.file).is_ok_and(|now| now.is_same_file(&self.identity))
    }
}

impl Deref for Descriptor {
    type Target = File;

    fn deref(&self) -> &File {
        &self.file
    }
}

impl DerefMut for Descriptor {
    fn deref_mut(&mut self) -> &mut File {
        &mut self.file
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        if self.is_ours() {
            // SAFETY: the file is dropped only here, and not used afterwards.
            unsafe { ManuallyDrop::drop(&mut self.file) };
        }
    }
}
