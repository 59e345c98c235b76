//! The files that are read for names: mapped, and kept as long as anything may point into them.

use std::path::Path;
use std::sync::OnceLock;

use crate::file::map::Map;
use crate::ui::error::Error;

/// The memory that debug information lies in: mapped files, and sections of them that were compressed.
///
/// [`Symbols`](super::Symbols) borrows it, because debug information points into files, and is not copied.
#[derive(Default)]
pub struct Files {
    first: Place,
}

/// The place of a file, and of all that come after it: what is kept never moves.
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
