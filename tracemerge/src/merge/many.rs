//! A slice with many parts: its lines are dealt out to buckets by time, and each bucket is sorted by itself.
//!
//! Where each line is of another file than the one before, the tree waits for memory at every turn: which line is
//! looked at next depends on this one. Here each part is read through once, from its beginning, which is what caches
//! are made for, and all of a bucket is in the cache while its lines are put in order. So this is a bucket sort; it
//! is as fast as that where ticks come somewhat evenly, and right anyhow.

use std::io;

use super::{Cursor, Pass, Sink, Stop, render};
use crate::findings::Findings;
use crate::lines::last_ticks;
use crate::map::prefetch;
use crate::slice::{Part, Slice};
use crate::source::Source;

/// What a bucket is to have, in bytes, where ticks come evenly: with its runs it fits in a core's second-level cache.
const BUCKET: usize = if cfg!(test) { 64 } else { 128 << 10 };

/// About the bytes of a line.
const LINE: usize = 64;
/// Of the part after the next so many bytes are fetched: so memory is waited for while another part is dealt out. What
/// stands behind these the processor foresees.
const AHEAD: usize = 512;

/// Room for lines on their way, used for one slice after the other.
#[derive(Debug, Default)]
pub(super) struct Buckets {
    buckets: Vec<Bucket>,
    /// How many of them this slice has...
    count: usize,
    /// ...and how many of these were passed on.
    next: usize,
    /// The first ticks of the first bucket.
    first: u64,
    /// Buckets in a tick, times two to the power of 64.
    scale: u64,
    /// Ticks of the lines that come next.
    ticks: u64,
    /// The runs of a bucket in order.
    order: Vec<u64>,
}

/// What a slice has between two moments, part after part.
#[derive(Debug, Default)]
struct Bucket {
    text: Vec<u8>,
    runs: Vec<Run>,
    /// The greatest ticks.
    last: u64,
}

/// Lines of one part with the same ticks. They end where the next run begins.
#[derive(Clone, Copy, Debug)]
struct Run {
    ticks: u64,
    /// Where they begin in the bucket's text.
    start: usize,
    source: u32,
}

impl Buckets {
    /// Deals out the parts of a slice, which stand in the order of ties. `text` is room for the lines of a part.
    /// Afterwards nothing is read from the sources any more.
    pub(super) fn deal(
        &mut self,
        sources: &[Source],
        slice: &Slice,
        text: &mut Vec<u8>,
        findings: &mut Findings,
    ) -> Result<(), Stop> {
        self.begin(sources, slice);
        for (rank, part) in slice.parts.iter().enumerate() {
            if let Some(next) = slice.parts.get(rank + 2) {
                let bytes = sources[next.source].bytes();
                prefetch(bytes.as_ptr().wrapping_add(next.start), AHEAD);
            }
            let number = part.source;
            let source = &sources[number];
            text.clear();
            let (bytes, start) = match render(source, part, slice.span, text, findings) {
                Some(end) => (&text[..end], 0),
                None => (&source.bytes()[..part.end], part.start),
            };
            let mut cursor = Cursor::new(bytes, start, number, findings);
            let mut pass = Pass { bytes, source, number, out: self, findings };
            while let Some((_, line)) = cursor.line {
                pass.out.ticks = line.ticks;
                // Up to itself: this line, and those with the same ticks.
                cursor.run(&mut pass, rank, cursor.key(rank))?;
            }
        }
        Ok(())
    }

    /// Makes as many buckets as the slice is worth, all empty.
    fn begin(&mut self, sources: &[Source], slice: &Slice) {
        let last = match slice.span.until {
            Some(until) => until.saturating_sub(1),
            None => {
                let lasts = slice.parts.iter().filter_map(|part| last_of(&sources[part.source], part));
                lasts.max().unwrap_or(slice.first)
            }
        };
        let ticks = u128::from(last.saturating_sub(slice.first)) + 1;
        let count = (slice.bytes() / BUCKET).max(1);
        (self.first, self.next, self.count) = (slice.first, 0, count);
        self.scale = u64::try_from(((count as u128) << 64) / ticks).unwrap_or(u64::MAX);
        self.buckets.resize_with(count.max(self.buckets.len()), Bucket::default);
        let expected = slice.bytes() / count;
        self.buckets.iter_mut().for_each(|bucket| bucket.clear(expected + expected / 8));
    }

    /// Passes on about so many bytes of what was dealt out; returns whether there may be more.
    pub(super) fn pass_on<S: Sink>(&mut self, bytes: usize, out: &mut S) -> io::Result<bool> {
        let mut left = bytes;
        while self.next < self.count && left > 0 {
            let bucket = &mut self.buckets[self.next];
            bucket.pass_on(&mut self.order, out)?;
            left = left.saturating_sub(bucket.text.len());
            self.next += 1;
        }
        Ok(self.next < self.count)
    }
}

/// The ticks of the last line of a part; of what is rendered, of the whole source.
fn last_of(source: &Source, part: &Part) -> Option<u64> {
    match source.rendered() {
        Some(render) => render.span().map(|(_, last)| last),
        None => last_ticks(&source.bytes()[part.start..part.end]),
    }
}

impl Sink for Buckets {
    #[inline]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "each source is a mapping: there are fewer than 2^32; the other product is one of words"
    )]
    fn lines(&mut self, source: usize, lines: &[u8]) -> io::Result<()> {
        let ticks = u128::from(self.ticks.saturating_sub(self.first));
        let place = ((ticks * u128::from(self.scale)) >> 64) as usize;
        let bucket = &mut self.buckets[place.min(self.count - 1)];
        bucket.runs.push(Run { ticks: self.ticks, start: bucket.text.len(), source: source as u32 });
        bucket.text.extend_from_slice(lines);
        bucket.prefetch();
        bucket.last = bucket.last.max(self.ticks);
        Ok(())
    }
}

impl Bucket {
    /// Has fetched where the next lines will be written, which is when hundreds of others have got theirs.
    #[inline]
    fn prefetch(&self) {
        prefetch(self.text.as_ptr().wrapping_add(self.text.len() + LINE / 2), 2 * LINE);
        prefetch(self.runs.as_ptr().wrapping_add(self.runs.len()).cast(), 2 * size_of::<Run>());
    }

    /// Passes the runs on in the order of their ticks, those with the same in the order in which they came.
    fn pass_on<S: Sink>(&self, order: &mut Vec<u64>, out: &mut S) -> io::Result<()> {
        let Some(first) = self.runs.iter().map(|run| run.ticks).min() else { return Ok(()) };
        let bits = u64::BITS - (self.runs.len() as u64).leading_zeros();
        order.clear();
        if self.last - first < 1 << (u64::BITS - bits) {
            // Ticks and place fit into one word, and words are sorted fastest.
            let place = |(place, run): (usize, &Run)| (run.ticks - first) << bits | place as u64;
            order.extend(self.runs.iter().enumerate().map(place));
            order.sort_unstable();
        } else {
            order.extend(0..self.runs.len() as u64);
            order.sort_by_key(|&place| self.runs[place as usize].ticks);
        }
        for word in order.iter() {
            let place = (word & ((1 << bits) - 1)) as usize;
            let end = self.runs.get(place + 1).map_or(self.text.len(), |next| next.start);
            let run = &self.runs[place];
            out.lines(run.source as usize, &self.text[run.start..end])?;
        }
        Ok(())
    }

    /// Forgets the runs, and has room for so many bytes; what is much more is given back.
    fn clear(&mut self, bytes: usize) {
        if self.text.capacity() > 4 * BUCKET {
            *self = Bucket::default();
        }
        self.text.clear();
        self.text.reserve_exact(bytes);
        self.runs.clear();
        self.last = 0;
    }
}
