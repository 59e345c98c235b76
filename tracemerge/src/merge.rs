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

use crate::findings::Findings;
use crate::lines::{LineAt, Next, line_at, skip_bad, without_feed};
use crate::slice::{LARGEST, Part, Slice, Slicer, Span};
use crate::source::{Piece, Source};
use crate::tree::{Key, LoserTree};

/// So much of a damaged place is shown in the merged file.
const SHOWN: usize = 256;

/// Parts of a slice that are merged by sorting their lines.
const MANY: usize = if cfg!(test) { 4 } else { 64 };

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
///
/// # Errors
/// As [`merge`].
pub fn merge_in_turn<S: Sink>(
    sources: &[Source],
    slicer: Slicer<'_>,
    out: &mut S,
    findings: &mut Findings,
) -> Result<(), Stop> {
    let mut text = Vec::new();
    for slice in slicer {
        merge_slice(sources, &slice, &mut text, out, findings)?;
        slice.forget(sources);
    }
    Ok(())
}

/// Merges one slice. `text` is room for lines that are not read where they are.
///
/// # Errors
/// As [`merge`].
pub fn merge_slice<S: Sink>(
    sources: &[Source],
    slice: &Slice,
    text: &mut Vec<u8>,
    out: &mut S,
    findings: &mut Findings,
) -> Result<(), Stop> {
    let is_of_many = slice.parts.len() >= MANY && slice.bytes() <= 2 * LARGEST;
    let ends = bring_together(sources, slice, is_of_many, text, findings);
    let mut begin = 0;
    let cursor = |(part, end): (&Part, Option<usize>)| {
        let source = &sources[part.source];
        match end {
            Some(end) => {
                let bytes = &text[std::mem::replace(&mut begin, end)..end];
                let base = if source.rendered().is_none() { part.start } else { 0 };
                Cursor::new(bytes, 0, base, part.source, findings)
            }
            None => Cursor::new(&source.bytes()[..part.end], part.start, 0, part.source, findings),
        }
    };
    let mut cursors: Vec<Cursor<'_>> = slice.parts.iter().zip(ends).map(cursor).collect();
    if is_of_many {
        return many::merge(sources, text, &mut cursors, out, findings);
    }
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

/// Puts the parts that are rendered, or all of them, into `text`, one behind the other; returns for each where it ends,
/// if it is there.
fn bring_together(
    sources: &[Source],
    slice: &Slice,
    all: bool,
    text: &mut Vec<u8>,
    findings: &mut Findings,
) -> Vec<Option<usize>> {
    text.clear();
    let put = |part: &Part| {
        let source = &sources[part.source];
        match source.rendered() {
            Some(render) => {
                let mut damaged = |at, bytes| findings.damaged(part.source, at, bytes);
                render.lines(slice.span.since, slice.span.until, text, &mut damaged);
            }
            None if all => text.extend_from_slice(&source.bytes()[part.start..part.end]),
            None => return None,
        }
        Some(text.len())
    };
    slice.parts.iter().map(put).collect()
}

/// Where the merge stands in one part: at a line that is found and not yet passed on.
#[derive(Debug)]
struct Cursor<'a> {
    source: u32,
    /// Its bytes end where the slice's do.
    bytes: &'a [u8],
    /// Where in the source they begin.
    base: usize,
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
    fn new(bytes: &'a [u8], start: usize, base: usize, source: usize, findings: &mut Findings) -> Cursor<'a> {
        let at = skip_bad(bytes, start);
        let line = match line_at(bytes, at) {
            Next::Line(line) => Some((at, line)),
            Next::Bad | Next::End => None,
        };
        if line.is_none() && start < bytes.len() {
            // The file has changed since the slice was cut; there is no key for these bytes to stand at.
            findings.damaged(source, base + start, bytes.len() - start);
        }
        note_metadata(bytes, line, findings);
        #[expect(
            clippy::cast_possible_truncation,
            reason = "each source is a mapping: there are fewer than 2^32"
        )]
        let source = source as u32;
        Cursor { source, bytes, base, done: start, line }
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
                note_metadata(pass.bytes, Some((at, line)), pass.findings);
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
                pass.findings.torn(self.source as usize, self.base + at);
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
            offset: (self.base + start) as u64,
            bytes: (end - start) as u64,
            text: pass.bytes[start..end.min(start + SHOWN)].to_vec(),
        };
        let mut payload = Vec::new();
        damaged.write(&mut payload);
        let mut text = Vec::new();
        Line { key, kind: Kind::Meta, payload: &payload }.write(&mut text);
        pass.out.lines(pass.number, &text)?;
        pass.findings.lines += 1;
        pass.findings.damaged(self.source as usize, self.base + start, end - start);
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
fn note_metadata(bytes: &[u8], line: Option<(usize, LineAt)>, findings: &mut Findings) {
    let Some((at, line)) = line.filter(|(_, line)| line.meta) else { return };
    if let Ok(line) = Line::parse(without_feed(&bytes[at..line.end])) {
        findings.metadata(line.payload);
    }
}

#[cfg(test)]
mod tests;
