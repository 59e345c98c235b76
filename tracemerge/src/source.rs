//! Stage *read*, second half: the bytes of the files that are merged, and where they fall into pieces.
//!
//! A *piece* is a part of a file in which ticks never go backwards. A sound file is one piece, and the merge
//! takes that for granted until it sees otherwise; only then, or where the output cannot be begun anew,
//! [`split`] goes over the bytes beforehand.

use std::path::PathBuf;

use crate::error::Error;
use crate::findings::Findings;
use crate::header::Trace;
use crate::lines::{Next, line_at, skip_bad, without_torn_tail};
use crate::map::Map;

/// A file, mapped.
#[derive(Debug)]
pub struct Source {
    /// Where it is, for messages.
    pub path: PathBuf,
    map: Map,
    end: usize,
}

impl Source {
    /// Maps the file of `trace`. Of a run that was alive before this call, what is not yet a whole line is
    /// left out: so the merge has a prefix of the thread.
    ///
    /// # Errors
    /// Where the file cannot be opened or mapped.
    pub fn open(trace: &Trace, alive: bool) -> Result<Source, Error> {
        let map = Map::open(&trace.path)?;
        let end = if alive { without_torn_tail(&map).len() } else { map.len() };
        Ok(Source { path: trace.path.clone(), map, end })
    }

    /// A file called `path` that has `bytes`.
    #[cfg(test)]
    pub fn of(path: &str, bytes: &[u8]) -> Source {
        Source { path: path.into(), map: Map::of(bytes), end: bytes.len() }
    }

    /// The bytes that are merged.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.map[..self.end]
    }
}

/// A part of a file with ascending ticks. It begins and ends where lines begin, or at the file's ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The file's place among the sources.
    pub source: usize,
    /// Its first byte.
    pub start: usize,
    /// Behind its last byte.
    pub end: usize,
}

/// One piece for each file.
#[must_use]
pub fn whole(sources: &[Source]) -> Vec<Piece> {
    let piece = |(source, file): (usize, &Source)| Piece { source, start: 0, end: file.bytes().len() };
    sources.iter().enumerate().map(piece).collect()
}

/// All pieces of all files, files in their order, and the breaks between them told to `findings`.
#[must_use]
pub fn split(sources: &[Source], findings: &mut Findings) -> Vec<Piece> {
    let mut pieces = Vec::with_capacity(sources.len());
    for (source, file) in sources.iter().enumerate() {
        let bytes = file.bytes();
        let mut piece = Piece { source, start: 0, end: bytes.len() };
        each_break(bytes, |at, before, after| {
            findings.broken(source, at, before, after);
            pieces.push(Piece { end: at, ..piece });
            piece.start = at;
        });
        pieces.push(piece);
    }
    pieces
}

/// Tells each place where ticks go backwards: offset of the line, ticks before, its ticks.
fn each_break(bytes: &[u8], mut tell: impl FnMut(usize, u64, u64)) {
    let (mut at, mut ticks) = (0, 0);
    loop {
        match line_at(bytes, at) {
            Next::End => return,
            Next::Bad => at = skip_bad(bytes, at),
            Next::Line(line) => {
                if line.ticks < ticks {
                    tell(at, ticks, line.ticks);
                }
                ticks = line.ticks;
                at = line.end;
            }
        }
    }
}
