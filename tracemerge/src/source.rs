//! Stage *read*, second half: the bytes of the files that are merged, and where they fall into pieces.
//!
//! A *piece* is a part of a file in which ticks never go backwards. A sound file is one piece, and the merge
//! takes that for granted until it sees otherwise; only then, or where the output cannot be begun anew,
//! [`split`] goes over the bytes beforehand.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{iter, thread};

use crate::error::Error;
use crate::findings::Findings;
use crate::header::Trace;
use crate::held::Held;
use crate::lines::{Next, line_at, skip_bad, without_torn_tail};
use crate::map::Map;

/// Fewer bytes than this are looked through sooner than a thread is started.
const WORTH_A_THREAD: usize = 1 << 20;

/// A file, mapped, or text from a ring.
#[derive(Debug)]
pub struct Source {
    /// Where it is, for messages.
    pub path: PathBuf,
    bytes: Bytes,
}

#[derive(Debug)]
enum Bytes {
    /// A file up to there.
    Mapped(Map, usize),
    /// The file of a thread whose ring was read.
    File(Arc<Held>),
    /// What that ring has for it.
    Ring(Arc<Held>),
}

impl Source {
    /// Maps the file of `trace`, and takes what its ring has behind it, if that was read. Otherwise, of a run that was
    /// alive before this call, what is not yet a whole line is left out: so the merge has a prefix of the thread.
    ///
    /// # Errors
    /// Where the file cannot be opened or mapped.
    pub fn open(trace: &Trace, alive: bool) -> Result<Vec<Source>, Error> {
        let path = trace.path.clone();
        if let Some(held) = &trace.held {
            let file = Source { path, bytes: Bytes::File(held.clone()) };
            let ring = Source { path: held.ring.clone(), bytes: Bytes::Ring(held.clone()) };
            return Ok([file, ring].into_iter().filter(|part| !part.bytes().is_empty()).collect());
        }
        let map = Map::open(&path)?;
        map.will_be_read_through();
        let end = if alive { without_torn_tail(&map).len() } else { map.len() };
        Ok(vec![Source { path, bytes: Bytes::Mapped(map, end) }])
    }

    /// The whole of a file that is open and does not change; `path` is for messages.
    ///
    /// # Errors
    /// Where it cannot be mapped.
    pub fn of_file(path: PathBuf, file: &File) -> Result<Source, Error> {
        let map = Map::of_file(file, &path)?;
        map.will_be_read_through();
        let end = map.len();
        Ok(Source { path, bytes: Bytes::Mapped(map, end) })
    }

    /// A file called `path` that has `bytes`.
    #[cfg(test)]
    pub fn of(path: &str, bytes: &[u8]) -> Source {
        Source { path: path.into(), bytes: Bytes::Mapped(Map::of(bytes), bytes.len()) }
    }

    /// Whether this is text from a ring.
    #[must_use]
    pub fn is_ring(&self) -> bool {
        matches!(self.bytes, Bytes::Ring(_))
    }

    /// The bytes that are merged.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        match &self.bytes {
            Bytes::Mapped(map, end) => &map[..*end],
            Bytes::File(held) => held.file(),
            Bytes::Ring(held) => held.rest(),
        }
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
    for (source, breaks) in all_breaks(sources).into_iter().enumerate() {
        let mut piece = Piece { source, start: 0, end: sources[source].bytes().len() };
        for (at, before, after) in breaks {
            findings.broken(source, at, before, after);
            pieces.push(Piece { end: at, ..piece });
            piece.start = at;
        }
        pieces.push(piece);
    }
    pieces
}

/// Where ticks go backwards: offset of the line, ticks before, its ticks.
type Break = (usize, u64, u64);

/// The breaks of each file.
fn all_breaks(sources: &[Source]) -> Vec<Vec<Break>> {
    look_at_all(sources, |source| source.bytes().len(), |source| breaks(source.bytes()))
}

/// What `look` finds in each file. Files are independent of each other here, so all processors look.
pub fn look_at_all<F: Sync, T: Default + Send>(
    files: &[F],
    bytes: impl Fn(&F) -> usize,
    look: impl Fn(&F) -> T + Sync,
) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mine = iter::from_fn(|| {
            let file = next.fetch_add(1, Ordering::Relaxed);
            Some((file, look(files.get(file)?)))
        });
        mine.collect::<Vec<_>>()
    };
    let mut all: Vec<T> = files.iter().map(|_| T::default()).collect();
    let mut put = |found: Vec<(usize, T)>| {
        found.into_iter().for_each(|(file, found)| all[file] = found);
    };
    let large = files.iter().map(bytes).sum::<usize>() > WORTH_A_THREAD;
    let others = if large { thread::available_parallelism().map_or(0, |all| all.get() - 1) } else { 0 };
    thread::scope(|scope| {
        // A thread that cannot be had leaves its share to the others.
        let threads: Vec<_> =
            (0..others).filter_map(|_| thread::Builder::new().spawn_scoped(scope, work).ok()).collect();
        put(work());
        for thread in threads {
            // It does not panic; if it did, the merge would see that its files are not sorted.
            put(thread.join().unwrap_or_default());
        }
    });
    all
}

/// The breaks in `bytes`.
fn breaks(bytes: &[u8]) -> Vec<Break> {
    let mut breaks = Vec::new();
    let (mut at, mut ticks) = (0, 0);
    loop {
        match line_at(bytes, at) {
            Next::End => return breaks,
            Next::Bad => at = skip_bad(bytes, at),
            Next::Line(line) => {
                if line.ticks < ticks {
                    breaks.push((at, ticks, line.ticks));
                }
                ticks = line.ticks;
                at = line.end;
            }
        }
    }
}
