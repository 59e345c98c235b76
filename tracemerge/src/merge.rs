//! Stage *merge*: many sorted pieces to one stream of lines, in constant memory.
//!
//! Order: ticks, then the piece's rank, then the position in the piece. The lines themselves are passed on
//! untouched, as parts of the files, as many neighbours at once as may be: the piece that is first goes on
//! until its next line is behind the runner-up's. Every line is looked at once on the way.
//!
//! All is done by [slices](crate::slice) of time: here one after the other, in [`crate::pool`] by several threads.
//!
//! The next stage is a [`Sink`]: it gets whole lines only, and is told which source they are of.

mod many;

use std::io;
use std::path::PathBuf;

use memchr::memrchr;
use trace_format::line::{Key as LineKey, Kind, Line};
use trace_format::meta::Meta;

use self::many::Buckets;
use crate::findings::Findings;
use crate::lines::{LineAt, Next, line_at, skip_bad, without_feed};
use crate::slice::{LARGEST, Part, Slice, Slicer, Span};
use crate::source::{Piece, Source};
use crate::tree::{Key, LoserTree};

/// So much of a damaged place is shown in the merged file.
const SHOWN: usize = 256;

/// Parts of a slice whose lines are dealt out.
const MANY: usize = if cfg!(test) { 4 } else { 32 };

/// What takes the merged lines.
pub trait Sink {
    /// Takes whole lines of one source, the last with its line feed; they stand behind all that was taken before.
    ///
    /// # Errors
    /// Where it takes no more.
    fn lines(&mut self, source: usize, lines: &[u8]) -> io::Result<()>;
}

impl<W: io::Write> Sink for W {
    #[inline]
    fn lines(&mut self, _source: usize, lines: &[u8]) -> io::Result<()> {
        self.write_all(lines)
    }
}

/// Why a merge stopped early.
#[derive(Debug)]
pub enum Stop {
    /// The output takes no more.
    Write(io::Error),
    /// Ticks go backwards inside a piece: what was written is not in order.
    Backward {
        /// In this file.
        path: PathBuf,
    },
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Stop {
        Stop::Write(error)
    }
}

/// Merges what `pieces`, whose ranks are their places, have in `span` into `out`, in this thread.
///
/// # Errors
/// See [`Stop`]; then what was written and found has no meaning.
pub fn merge<S: Sink>(
    sources: &[Source],
    pieces: &[Piece],
    span: Span,
    out: &mut S,
    findings: &mut Findings,
) -> Result<(), Stop> {
    let slicer = Slicer::new(sources, pieces, span, findings);
    merge_in_turn(sources, slicer, out, findings)
}

/// Merges all slices into `out`, in this thread.
fn merge_in_turn<S: Sink>(
    sources: &[Source],
    slicer: Slicer<'_>,
    out: &mut S,
    findings: &mut Findings,
) -> Result<(), Stop> {
    let mut room = Room::default();
    for slice in slicer {
        merge_slice(sources, &slice, &mut room, out, findings)?;
        while room.pass_on(out)? {}
        slice.forget(sources);
    }
    Ok(())
}

/// What of a slice is passed on at once, in bytes, where it was dealt out.
const AT_ONCE: usize = if cfg!(test) { 100 } else { 1 << 20 };

/// Room that the merge of a slice needs, kept from one slice to the next.
#[derive(Debug, Default)]
pub struct Room {
    /// For lines that are made.
    text: Vec<u8>,
    /// Those that were dealt out and not passed on.
    buckets: Buckets,
}

impl Room {
    /// Passes on lines of the slice that was merged last; returns whether there may be more.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn pass_on<S: Sink>(&mut self, out: &mut S) -> io::Result<bool> {
        self.buckets.pass_on(AT_ONCE, out)
    }
}

/// Merges one slice: passes lines on, and keeps others in `room`, which are to be [passed on](Room::pass_on) behind
/// these. All that is needed of the sources was read then.
///
/// # Errors
/// As [`merge`]; the room is of no use then.
pub fn merge_slice<S: Sink>(
    sources: &[Source],
    slice: &Slice,
    room: &mut Room,
    out: &mut S,
    findings: &mut Findings,
) -> Result<(), Stop> {
    let Room { text, buckets } = room;
    if slice.parts.len() >= MANY && slice.bytes() <= 2 * LARGEST {
        return buckets.deal(sources, slice, text, findings);
    }
    text.clear();
    let ends: Vec<_> = slice
        .parts
        .iter()
        .map(|part| render(&sources[part.source], part, slice.span, text, findings))
        .collect();
    let mut begin = 0;
    let cursor = |(part, end): (&Part, Option<usize>)| match end {
        Some(end) => {
            let start = std::mem::replace(&mut begin, end);
            Cursor::new(&text[start..end], 0, part.source, findings)
        }
        None => Cursor::new(&sources[part.source].bytes()[..part.end], part.start, part.source, findings),
    };
    let mut cursors: Vec<Cursor<'_>> = slice.parts.iter().zip(ends).map(cursor).collect();
    let keys: Vec<Key> = cursors.iter().enumerate().map(|(rank, cursor)| cursor.key(rank)).collect();
    let mut tree = LoserTree::new(&keys);
    drop(keys);
    while let Some(rank) = tree.winner() {
        let cursor = &mut cursors[rank];
        let number = cursor.source as usize;
        let mut pass = Pass { bytes: cursor.bytes, source: &sources[number], number, out, findings };
        cursor.run(&mut pass, rank, tree.runner_up(rank))?;
        tree.replace(rank, cursor.key(rank));
    }
    Ok(())
}

/// Adds the lines of a part that has none before they are made to `text`; returns where they end.
fn render(
    source: &Source,
    part: &Part,
    span: Span,
    text: &mut Vec<u8>,
    findings: &mut Findings,
) -> Option<usize> {
    let mut damaged = |at, bytes| findings.damaged(part.source, at, bytes);
    source.rendered()?.lines(span.since, span.until, text, &mut damaged);
    Some(text.len())
}

/// Where the merge stands in one part: at a line that is found and not yet passed on.
#[derive(Debug)]
struct Cursor<'a> {
    source: u32,
    /// Its bytes end where the slice's do.
    bytes: &'a [u8],
    /// All before this is passed on. Less than `line` only where a part begins with a bad region.
    done: usize,
    /// The line; `None` at the end.
    line: Option<(usize, LineAt)>,
}

/// What a cursor works with while it runs.
struct Pass<'a, S> {
    bytes: &'a [u8],
    source: &'a Source,
    number: usize,
    out: &'a mut S,
    findings: &'a mut Findings,
}

impl<'a> Cursor<'a> {
    fn new(bytes: &'a [u8], start: usize, source: usize, findings: &mut Findings) -> Cursor<'a> {
        let at = skip_bad(bytes, start);
        let line = match line_at(bytes, at) {
            Next::Line(line) => Some((at, line)),
            Next::Bad | Next::End => None,
        };
        if line.is_none() && start < bytes.len() {
            // The file has changed since the slice was cut; there is no key for these bytes to stand at.
            findings.damaged(source, start, bytes.len() - start);
        }
        note_metadata(source, bytes, line, findings);
        #[expect(
            clippy::cast_possible_truncation,
            reason = "each source is a mapping or a box: there are fewer than 2^32"
        )]
        let source = source as u32;
        Cursor { source, bytes, done: start, line }
    }

    #[inline]
    fn key(&self, rank: usize) -> Key {
        self.line.map_or(Key::EXHAUSTED, |(_, line)| Key::new(line.ticks, rank))
    }

    /// Passes on the line and all that follow it before `limit`.
    #[inline]
    fn run<S: Sink>(&mut self, pass: &mut Pass<'_, S>, rank: usize, limit: Key) -> Result<(), Stop> {
        let Some((mut at, mut line)) = self.line else { return Ok(()) };
        if self.done < at {
            self.put_damaged(pass, self.done, at, at)?;
            self.done = at;
        }
        loop {
            pass.findings.lines += 1;
            let mut next_at = line.end;
            let mut next = line_at(pass.bytes, next_at);
            if next == Next::Bad {
                pass.write_lines(self.done, next_at)?;
                let end = skip_bad(pass.bytes, next_at);
                self.put_damaged(pass, next_at, end, at)?;
                (self.done, next_at) = (end, end);
                next = line_at(pass.bytes, end);
            }
            let Next::Line(next) = next else { return self.finish(pass, at) };
            if next.ticks < line.ticks {
                return Err(Stop::Backward { path: pass.source.path.clone() });
            }
            (at, line) = (next_at, next);
            if line.meta {
                note_metadata(pass.number, pass.bytes, Some((at, line)), pass.findings);
            }
            if Key::new(line.ticks, rank) > limit {
                pass.write_lines(self.done, at)?;
                (self.done, self.line) = (at, Some((at, line)));
                return Ok(());
            }
        }
    }

    /// The line at `at` was the last.
    #[cold]
    fn finish<S: Sink>(&mut self, pass: &mut Pass<'_, S>, at: usize) -> Result<(), Stop> {
        if self.done < self.bytes.len() {
            pass.write_lines(self.done, self.bytes.len())?;
            if pass.bytes.last() != Some(&b'\n') {
                pass.findings.torn(self.source as usize, at);
            }
        }
        self.line = None;
        Ok(())
    }

    /// Writes a `# damaged` line for the bytes from `start` to `end`, with the key of the line at `line`.
    #[cold]
    fn put_damaged<S: Sink>(
        &self,
        pass: &mut Pass<'_, S>,
        start: usize,
        end: usize,
        line: usize,
    ) -> Result<(), Stop> {
        let key = key_at(pass.bytes, line);
        let damaged = Meta::Damaged {
            file: pass.source.path.as_os_str().as_encoded_bytes().to_vec(),
            offset: start as u64,
            bytes: (end - start) as u64,
            text: pass.bytes[start..end.min(start + SHOWN)].to_vec(),
        };
        let mut payload = Vec::new();
        damaged.write(&mut payload);
        let mut text = Vec::new();
        Line { key, kind: Kind::Meta, payload: &payload }.write(&mut text);
        pass.out.lines(pass.number, &text)?;
        pass.findings.lines += 1;
        pass.findings.damaged(self.source as usize, start, end - start);
        Ok(())
    }
}

impl<S: Sink> Pass<'_, S> {
    /// Writes the bytes of whole lines, and the line feed that the last one may lack.
    #[inline]
    fn write_lines(&mut self, start: usize, end: usize) -> Result<(), Stop> {
        let lines = &self.bytes[start..end];
        if lines.last().is_some_and(|&b| b != b'\n') {
            return self.write_unended(lines);
        }
        Ok(self.out.lines(self.number, lines)?)
    }

    /// A line that ends at a NUL or at the end of its file gets its line feed.
    #[cold]
    fn write_unended(&mut self, lines: &[u8]) -> Result<(), Stop> {
        let (whole, last) = lines.split_at(memrchr(b'\n', lines).map_or(0, |at| at + 1));
        self.out.lines(self.number, whole)?;
        Ok(self.out.lines(self.number, &[last, b"\n"].concat())?)
    }
}

/// The key of the line at `at`, which is known to be one.
fn key_at(bytes: &[u8], at: usize) -> LineKey {
    let Next::Line(line) = line_at(bytes, at) else { return LineKey::default() };
    Line::parse(without_feed(&bytes[at..line.end])).map_or_else(|_| LineKey::default(), |line| line.key)
}

/// Tells the findings what a `#` line says.
fn note_metadata(source: usize, bytes: &[u8], line: Option<(usize, LineAt)>, findings: &mut Findings) {
    let Some((at, line)) = line.filter(|(_, line)| line.meta) else { return };
    if let Ok(line) = Line::parse(without_feed(&bytes[at..line.end])) {
        findings.metadata(source, line.payload);
    }
}

#[cfg(test)]
mod tests;
