//! The files that are read for names: mapped, and kept as long as anything may point into them.

use std::path::Path;

use typed_arena::Arena;

use crate::file::map::Map;
use crate::ui::error::Error;

/// The memory that debug information lies in: mapped files, and sections of them that were compressed.
///
/// [`Symbols`](super::Symbols) borrows it, because debug information points into files, and is not copied.
#[derive(Default)]
pub struct Files {
    kept: Arena<Bytes>,
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
        f.debug_struct("Files").field("kept", &self.kept.len()).finish()
    }
}

impl Files {
    /// Maps the regular file at `path`.
    pub(super) fn map(&self, path: &Path) -> Result<&[u8], Error> {
        Ok(self.kept.alloc(Bytes::Mapped(Map::open(path)?)).get())
    }

    pub(super) fn keep(&self, bytes: Vec<u8>) -> &[u8] {
        self.kept.alloc(Bytes::Unpacked(bytes)).get()
    }
}
