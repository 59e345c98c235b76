//! A slice with many parts: its lines are looked at part by part, put in a list, and the list is sorted.
//!
//! Where each line is of another file than the one before, the tree waits for memory at every turn: which line is
//! looked at next depends on this one. Here parts are copied together and read through from their beginning, which is
//! what caches are made for, and when lines are passed on at last it is known where they all are. More work, in about
//! half of the time for ten thousand files.

use std::io;

use super::{Cursor, Pass, Sink, Stop};
use crate::findings::Findings;
use crate::source::Source;

/// Lines of one part with the same ticks.
#[derive(Clone, Copy, Debug)]
struct Run {
    ticks: u64,
    /// Where they are in the text, or in what was made.
    start: usize,
    end: usize,
    is_made: bool,
    source: u32,
}

/// All runs of a slice.
struct List<'a> {
    /// The parts, one behind the other.
    text: &'a [u8],
    /// Lines that stand in no file, or not as they are.
    made: Vec<u8>,
    /// Ticks of the lines that come next.
    ticks: u64,
    runs: Vec<Run>,
}

/// Merges the parts of a slice, which stand in the order of ties and are all in `text`.
pub(super) fn merge<S: Sink>(
    sources: &[Source],
    text: &[u8],
    cursors: &mut [Cursor<'_>],
    out: &mut S,
    findings: &mut Findings,
) -> Result<(), Stop> {
    let mut list = List { text, made: Vec::new(), ticks: 0, runs: Vec::new() };
    for (rank, cursor) in cursors.iter_mut().enumerate() {
        let number = cursor.source as usize;
        let mut pass =
            Pass { bytes: cursor.bytes, source: &sources[number], number, out: &mut list, findings };
        while let Some((_, line)) = cursor.line {
            pass.out.ticks = line.ticks;
            // Up to itself: this line, and those with the same ticks.
            cursor.run(&mut pass, rank, cursor.key(rank))?;
        }
    }
    // Stable: ties stay in the order of the parts.
    list.runs.sort_by_key(|run| run.ticks);
    Ok(list.pass_on(out)?)
}

impl List<'_> {
    /// Passes all runs on, neighbours together.
    fn pass_on<S: Sink>(&self, out: &mut S) -> io::Result<()> {
        let mut runs = self.runs.iter().copied();
        let Some(mut whole) = runs.next() else { return Ok(()) };
        for run in runs {
            if (run.source, run.is_made, run.start) == (whole.source, whole.is_made, whole.end) {
                whole.end = run.end;
            } else {
                self.pass_on_run(std::mem::replace(&mut whole, run), out)?;
            }
        }
        self.pass_on_run(whole, out)
    }

    #[inline]
    fn pass_on_run<S: Sink>(&self, run: Run, out: &mut S) -> io::Result<()> {
        let text = if run.is_made { &self.made[..] } else { self.text };
        out.lines(run.source as usize, &text[run.start..run.end])
    }
}

impl Sink for List<'_> {
    #[inline]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "each source is a mapping: there are fewer than 2^32"
    )]
    fn lines(&mut self, source: usize, lines: &[u8]) -> io::Result<()> {
        let start = (lines.as_ptr() as usize).wrapping_sub(self.text.as_ptr() as usize);
        let is_made = start >= self.text.len();
        let start = if is_made { self.made.len() } else { start };
        if is_made {
            self.made.extend_from_slice(lines);
        }
        let end = start + lines.len();
        self.runs.push(Run { ticks: self.ticks, start, end, is_made, source: source as u32 });
        Ok(())
    }
}
