//! The files that are read for names of functions: they are mapped, and kept as long as references into them may exist.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::file::map::Map;
use crate::symbols::build_ids::{BuildIds, files_by_build_id};
use crate::ui::error::Error;

/// The owner of the memory of debug information: mapped files, and their decompressed sections.
///
/// [`Symbols`](super::Symbols) borrows this value, because debug information points into files, and is not copied.
pub struct Files {
    first: Place,
    /// The number of bytes of memory that debug information may still take.
    left: AtomicU64,
    /// Whether some debug information needed more memory than was left.
    is_exceeded: AtomicBool,
    /// The files in the directories that the user has named, by their build-ids; empty until a file is first searched
    /// by its build-id.
    named: OnceLock<BuildIds>,
}

/// The number of bytes that the debug information of all modules may take in memory, besides the files themselves,
/// which are mapped. Without a limit, a file of some kilobytes could need many gigabytes.
pub(super) const MAX_DEBUG_BYTES: u64 = 128 << 20;

impl Default for Files {
    fn default() -> Files {
        let (left, is_exceeded) = (AtomicU64::new(MAX_DEBUG_BYTES), AtomicBool::new(false));
        Files { first: Place::new(), left, is_exceeded, named: OnceLock::new() }
    }
}

/// The place of a file in a linked list of all kept files, in which each file contains the place of the next one. So no
/// file in the list ever moves.
type Place = OnceLock<Box<Kept>>;

struct Kept {
    bytes: Bytes,
    next: Place,
}

enum Bytes {
    Mapped(Map),
    Unpacked(Vec<u8>),
}

impl Bytes {
    fn get(&self) -> &[u8] {
        match self {
            Bytes::Mapped(map) => map,
            Bytes::Unpacked(bytes) => bytes,
        }
    }
}

impl std::fmt::Debug for Files {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Files").finish_non_exhaustive()
    }
}

impl Files {
    /// Maps the regular file at `path`.
    pub(super) fn map(&self, path: &Path) -> Result<&[u8], Error> {
        Ok(self.put(Bytes::Mapped(Map::open(path)?)))
    }

    /// Returns the files with this build-id in `directories` and in those below. `directories` must be the same in each
    /// call.
    pub(super) fn with_build_id(&self, build_id: &[u8], directories: &[PathBuf]) -> &[PathBuf] {
        let named = self.named.get_or_init(|| files_by_build_id(directories));
        named.get(build_id).map_or(&[], Vec::as_slice)
    }

    /// Reserves `bytes` bytes of the memory for debug information. Returns false if fewer are left.
    pub(super) fn take(&self, bytes: u64) -> bool {
        // Relaxed: no other memory is read because of it.
        let taken =
            self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes));
        if taken.is_err() {
            self.is_exceeded.store(true, Ordering::Relaxed);
        }
        taken.is_ok()
    }

    /// Returns whether some debug information was not read because the limit of memory was reached.
    pub(super) fn is_exceeded(&self) -> bool {
        self.is_exceeded.load(Ordering::Relaxed)
    }

    pub(super) fn keep(&self, bytes: Vec<u8>) -> &[u8] {
        self.put(Bytes::Unpacked(bytes))
    }

    fn put(&self, bytes: Bytes) -> &[u8] {
        let (mut place, mut kept) = (&self.first, Box::new(Kept { bytes, next: Place::new() }));
        loop {
            kept = match place.set(kept) {
                Ok(()) => return place.get().map_or(&[], |kept| kept.bytes.get()),
                Err(kept) => kept,
            };
            match place.get() {
                Some(taken) => place = &taken.next,
                None => return &[],
            }
        }
    }
}
