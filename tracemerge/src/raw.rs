//! Raw files: their records become lines when the merge comes to them.

use std::ops::{Deref, Range};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use trace_format::line::Ticks;
use trace_format::raw::{Decoder, Raw};

use crate::held::Held;
use crate::map::Map;
use crate::render::Render;

/// A line takes about so many times the bytes of its record: most of a line is its key and what its message always
/// says.
const GROWTH: u64 = 2;

/// A raw file, or the part of one that a merge may read.
#[derive(Debug)]
pub struct RawFile {
    /// Stands for the file in `# damaged` lines.
    path: PathBuf,
    bytes: Bytes,
}

#[derive(Debug)]
enum Bytes {
    /// A file up to there.
    Mapped(Map, usize),
    /// The file of a thread whose ring was read.
    Held(Arc<Held>),
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Bytes::Mapped(map, end) => &map[..*end],
            Bytes::Held(held) => held.file(),
        }
    }
}

impl RawFile {
    /// The file at `path`, whose bytes `map` has. Of a thread that may go on, what is not yet a whole message is left
    /// out.
    #[must_use]
    pub fn new(path: &Path, map: Map, alive: bool) -> RawFile {
        let end = if alive { whole_messages(&map) } else { map.len() };
        RawFile { path: path.to_path_buf(), bytes: Bytes::Mapped(map, end) }
    }

    /// The file of a thread whose ring was read.
    #[must_use]
    pub fn held(path: &Path, held: Arc<Held>) -> RawFile {
        RawFile { path: path.to_path_buf(), bytes: Bytes::Held(held) }
    }

    fn raw(&self) -> Option<Raw<'_>> {
        Raw::parse(&self.bytes)
    }
}

/// The bytes of a raw file without a last message that is not all there.
#[must_use]
pub fn whole_messages(bytes: &[u8]) -> usize {
    let Some(raw) = Raw::parse(bytes) else { return 0 };
    let end = raw.without_torn_tail();
    let open = Raw::parse(&bytes[..end]).and_then(|raw| raw.open_message());
    open.unwrap_or(end)
}

/// The lines of the records in a range of a raw file; the last one has no line feed if its message goes on.
#[must_use]
pub fn lines_of(bytes: &[u8], range: Range<usize>, path: &Path) -> Vec<u8> {
    let mut out = Vec::new();
    if let Some(raw) = Raw::parse(bytes) {
        Decoder::new(raw.tid()).decode(raw, range, path.as_os_str().as_encoded_bytes(), &mut out);
    }
    out
}

impl Render for RawFile {
    fn span(&self) -> Option<(u64, u64)> {
        let raw = self.raw()?;
        Some((raw.first()?.0.0, raw.last()?.0))
    }

    fn bytes_before(&self, ticks: u64) -> u64 {
        self.raw().map_or(0, |raw| raw.place(Ticks(ticks)) as u64 * GROWTH)
    }

    fn lines(&self, from: u64, until: Option<u64>, out: &mut Vec<u8>, damaged: &mut dyn FnMut(usize, usize)) {
        let Some(raw) = self.raw() else { return };
        let name = self.path.as_os_str().as_encoded_bytes();
        let times = (Ticks(from), until.map(Ticks));
        let found = Decoder::new(raw.tid()).decode_times(raw, times, name, out);
        found.damaged.iter().for_each(|place| damaged(place.start, place.len()));
    }
}
