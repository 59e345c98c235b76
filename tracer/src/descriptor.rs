//! A file that the tracer keeps open among those of its host. Flusher thread only.
//!
//! A host may close all descriptors that it does not know, as daemons do when they start. Then the number is nobody's,
//! or soon that of a file of the host's: nothing may be written there, and it is not ours to close.
#![allow(unsafe_code, reason = "closes the descriptor, if it is still the one that was opened")]

use crate::sys::{self, FileIdentity};
use std::fs::File;
use std::io;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};

/// A file that was opened here.
#[derive(Debug)]
pub(crate) struct Descriptor {
    file: ManuallyDrop<File>,
    /// What it was when it was opened.
    identity: FileIdentity,
}

impl Descriptor {
    pub(crate) fn new(file: File) -> io::Result<Descriptor> {
        let identity = sys::file_identity(&file)?;
        Ok(Descriptor { file: ManuallyDrop::new(file), identity })
    }

    /// What the file was when it was opened.
    pub(crate) fn identity(&self) -> FileIdentity {
        self.identity
    }

    /// Whether it still is that file. To be asked before each use.
    pub(crate) fn is_ours(&self) -> bool {
        sys::file_identity(&self.file).is_ok_and(|now| now.is_same_file(&self.identity))
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
            // SAFETY: dropped here only, and not used afterwards.
            unsafe { ManuallyDrop::drop(&mut self.file) };
        }
    }
}
