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

/// What a bucket is to have, in bytes, where ticks come evenly: it is to fit in a core's second-level cache.
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
    /// Where the runs of a bucket are, in order.
    order: Vec<u64>,
}

/// What a slice has between two moments, part after part.
#[derive(Debug, Default)]
struct Bucket {
    /// Runs, each behind its head.
    text: Vec<u8>,
    /// The smallest ticks and the greatest, if there are runs.
    ticks: Option<(u64, u64)>,
}

/// What stands before a run: lines of one part with the same ticks.
#[derive(Clone, Copy, Debug)]
struct Head {
    ticks: u64,
    /// Bytes of the lines.
    length: u64,
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
        // A third more, for heads.
        let expected = slice.bytes() / count * 4 / 3;
        self.buckets[..count].iter_mut().for_each(|bucket| bucket.clear(expected));
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
        reason = "each source is a mapping or a box: there are fewer than 2^32; the product is one of words"
    )]
    fn lines(&mut self, source: usize, lines: &[u8]) -> io::Result<()> {
        let ticks = u128::from(self.ticks.saturating_sub(self.first));
        let place = ((ticks * u128::from(self.scale)) >> 64) as u64;
        let place = usize::try_from(place).unwrap_or(usize::MAX).min(self.count - 1);
        let bucket = &mut self.buckets[place];
        bucket.push(Head { ticks: self.ticks, length: lines.len() as u64, source: source as u32 }, lines);
        Ok(())
    }
}

impl Head {
    const LENGTH: usize = 20;

    #[inline]
    fn write(self, out: &mut Vec<u8>) {
        let mut bytes = [0; Head::LENGTH];
        bytes[..8].copy_from_slice(&self.ticks.to_ne_bytes());
        bytes[8..16].copy_from_slice(&self.length.to_ne_bytes());
        bytes[16..].copy_from_slice(&self.source.to_ne_bytes());
        out.extend_from_slice(&bytes);
    }

    /// The head that `bytes` begin with, and the lines behind it; `None` at the end.
    #[inline]
    fn read(bytes: &[u8]) -> Option<(Head, &[u8])> {
        let (ticks, rest) = bytes.split_first_chunk()?;
        let (length, rest) = rest.split_first_chunk()?;
        let (source, rest) = rest.split_first_chunk()?;
        let (ticks, length) = (u64::from_ne_bytes(*ticks), u64::from_ne_bytes(*length));
        let lines = rest.get(..usize::try_from(length).ok()?)?;
        Some((Head { ticks, length, source: u32::from_ne_bytes(*source) }, lines))
    }
}

impl Bucket {
    #[inline]
    fn push(&mut self, head: Head, lines: &[u8]) {
        self.text.reserve(Head::LENGTH + lines.len());
        head.write(&mut self.text);
        self.text.extend_from_slice(lines);
        let (first, last) = self.ticks.unwrap_or((head.ticks, head.ticks));
        self.ticks = Some((first.min(head.ticks), last.max(head.ticks)));
        // Where the next lines will be written, which is when hundreds of others have got theirs.
        prefetch(self.text.as_ptr().wrapping_add(self.text.len() + LINE / 2), 2 * LINE);
    }

    /// The run at `at`.
    #[inline]
    fn run(&self, at: usize) -> Option<(Head, &[u8])> {
        Head::read(self.text.get(at..)?)
    }

    /// Passes the runs on in the order of their ticks, those with the same in the order in which they came.
    fn pass_on<S: Sink>(&self, order: &mut Vec<u64>, out: &mut S) -> io::Result<()> {
        let Some((first, last)) = self.ticks else { return Ok(()) };
        let bits = u64::BITS - (self.text.len() as u64).leading_zeros();
        // Whether ticks and place fit into one word: words are sorted fastest.
        let is_packed = last - first < 1 << (u64::BITS - bits);
        order.clear();
        let mut at = 0;
        while let Some((head, lines)) = self.run(at) {
            order.push(at as u64 | if is_packed { (head.ticks - first) << bits } else { 0 });
            at += Head::LENGTH + lines.len();
        }
        if is_packed {
            order.sort_unstable();
        } else {
            order.sort_by_key(|&at| self.run(at as usize).map(|(head, _)| head.ticks));
        }
        for word in order.iter() {
            if let Some((head, lines)) = self.run((word & ((1 << bits) - 1)) as usize) {
                out.lines(head.source as usize, lines)?;
            }
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
        self.ticks = None;
    }
}
