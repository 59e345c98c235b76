//! Pieces that are dealt out together: of each the lines of a window of time, to buckets.

use std::io;
use std::mem;
use std::ops::Range;

use crate::file::map::prefetch;
use crate::file::render::Render;
use crate::file::truncation;
use crate::input::boundary::{Boundary, first_from};
use crate::input::findings::Findings;
use crate::input::slice::TickSpan;
use crate::input::source::{SortedRange, Source, place_of};
use crate::merge::Stop;
use crate::merge::cursor::{LineCursor, Pass};
use crate::merge::windows::Window;
use crate::output::sink::Sink;

/// Of the range after the next two so many bytes are fetched, so that memory is waited for while others are dealt out.
/// What stands behind these the processor foresees.
const AHEAD: usize = 1024;

/// The number of bytes after which a group adds what it has dealt out to the sum of all groups.
const TELL: usize = if cfg!(test) { 100 } else { 1 << 20 };

/// The most ticks between the first and the last of neighbouring lines that are kept together.
const MOST: u64 = u32::MAX as u64;

/// A group of neighbouring ranges, which one thread deals out at a time.
#[derive(Debug)]
pub struct Group<'a> {
    /// The number of the group, from 0.
    pub number: usize,
    ranges: Vec<SortedRange>,
    span: TickSpan,
    /// The ranges, once they are open.
    open_ranges: Vec<OpenRange<'a>>,
    /// The lines of the ranges in the window, in buckets by time; each bucket in the order of ties.
    buckets: Vec<Vec<Stretch<'a>>>,
    /// The lines that were rendered, one after the other.
    text: Vec<u8>,
    /// The place of each rendered line in `text`.
    made: Vec<Range<usize>>,
    /// The findings in this window.
    found: Findings,
    /// The findings in the windows before.
    findings: Findings,
    /// The first ticks behind the window, or fewer; `None` where there is nothing any more.
    pub next: Option<u64>,
    /// How many ranges are dealt out: not all where that was given up.
    pub ranges_dealt: usize,
}

/// An open range.
#[derive(Debug)]
enum OpenRange<'a> {
    /// Text, with a cursor at the beginning of the window and one at its end.
    Text { begin: LineCursor<'a>, end: LineCursor<'a> },
    /// A source that renders its lines when it is asked for them.
    Rendered { source: usize, render: &'a dyn Render },
}

/// Neighbouring lines of one range.
#[derive(Clone, Copy, Debug)]
pub struct Stretch<'a> {
    /// Ticks of the first line.
    pub ticks: u64,
    /// The bytes of the lines; empty as long as they are among the rendered ones.
    pub lines: &'a [u8],
    /// The place of the lines' source among all sources.
    pub source: u32,
    /// Of text, the ticks between the first and the last line. Of rendered lines, which all have the same ticks, the
    /// place of the line in `Group::made`.
    more: u32,
}

impl Stretch<'_> {
    /// Ticks of the last line.
    #[inline]
    #[must_use]
    pub fn last(&self) -> u64 {
        self.ticks + u64::from(self.more)
    }
}

impl<'a> Group<'a> {
    /// Will deal out what `ranges` have in `span`.
    #[must_use]
    pub fn new(number: usize, ranges: &[SortedRange], span: TickSpan) -> Group<'a> {
        Group {
            number,
            ranges: ranges.to_vec(),
            span,
            open_ranges: Vec::new(),
            buckets: Vec::new(),
            text: Vec::new(),
            made: Vec::new(),
            found: Findings::default(),
            findings: Findings::default(),
            next: None,
            ranges_dealt: 0,
        }
    }

    /// Deals out what the ranges have in the window, from its beginning whatever was done for it before. Gives up where
    /// all groups together have too much.
    ///
    /// # Errors
    /// Ticks go back in a file.
    pub fn deal(&mut self, sources: &'a [Source], window: &Window, room: &mut Vec<u8>) -> Result<(), Stop> {
        self.found = Findings::default();
        self.text.clear();
        self.made.clear();
        self.buckets.resize_with(window.buckets.max(self.buckets.len()), Vec::new);
        self.buckets.iter_mut().for_each(Vec::clear);
        self.next = None;
        self.ranges_dealt = 0;
        if self.open_ranges.is_empty() {
            self.open(sources);
        }
        let Group { open_ranges, buckets, text, made, found, .. } = self;
        let mut out = Dealer { window, buckets, text, made, there: &[], ticks: 0, before: None, bytes: 0 };
        for rank in 0..open_ranges.len() {
            if let Some(OpenRange::Text { begin, .. }) = open_ranges.get(rank + 3) {
                prefetch(begin.bytes.as_ptr().wrapping_add(begin.done), AHEAD);
            }
            let next = match &mut open_ranges[rank] {
                OpenRange::Text { begin, end } => {
                    let source = &sources[begin.source as usize];
                    if truncation::count() > 0 {
                        begin.end_where_truncated(source, found);
                    }
                    *end = *begin;
                    out.there = begin.bytes;
                    out.deal(end, source, found)?;
                    end.line.map(|(_, line)| line.ticks)
                }
                OpenRange::Rendered { source, render } => {
                    room.clear();
                    let mut damaged = |at, bytes| found.damaged(*source, at, bytes);
                    render.lines(window.since, window.until, room, &mut damaged);
                    let mut cursor = LineCursor::new(room, 0, *source, found);
                    out.there = &[];
                    out.deal(&mut cursor, &sources[*source], found)?;
                    let left = render.span().zip(window.until).filter(|((_, last), until)| until <= last);
                    left.map(|((first, _), until)| first.max(until))
                }
            };
            self.next = self.next.into_iter().chain(next).min();
            self.ranges_dealt += 1;
            if out.bytes >= TELL && !out.tell() {
                return Ok(());
            }
        }
        out.tell();
        Ok(())
    }

    /// Finds the first lines.
    fn open(&mut self, sources: &'a [Source]) {
        for range in &self.ranges {
            let source = &sources[range.source];
            if let Some(render) = source.rendered() {
                self.open_ranges.push(OpenRange::Rendered { source: range.source, render });
                continue;
            }
            let bytes = &source.bytes()[..range.end];
            let (first, last) = (Boundary::before(bytes, range.start), Boundary::end(bytes));
            let start = first_from(bytes, self.span.since, first, last, usize::MAX).at;
            let begin = LineCursor::new(bytes, start, range.source, &mut self.findings);
            self.open_ranges.push(OpenRange::Text { begin, end: begin });
        }
    }

    /// Takes note that the window's lines are passed on: what comes next begins where it ends.
    pub fn end_window(&mut self, sources: &[Source]) {
        self.findings.append(mem::take(&mut self.found));
        for range in &mut self.open_ranges {
            if let OpenRange::Text { begin, end } = range {
                sources[begin.source as usize].forget(begin.done..end.done);
                *begin = *end;
            }
        }
    }

    /// The findings in all windows.
    #[must_use]
    pub fn findings(self) -> Findings {
        self.findings
    }

    /// The number of ranges in the group.
    #[must_use]
    pub fn ranges(&self) -> usize {
        self.ranges.len()
    }

    /// How many bytes the window has in one of the buckets.
    #[must_use]
    pub fn bytes_in(&self, bucket: usize) -> usize {
        let made = |lines: &Stretch<'_>| self.made.get(lines.more as usize).map_or(0, Range::len);
        let bytes =
            |lines: &Stretch<'_>| if lines.lines.is_empty() { made(lines) } else { lines.lines.len() };
        self.buckets.get(bucket).into_iter().flatten().map(bytes).sum()
    }

    /// Whether the window has something in one of the buckets.
    #[must_use]
    pub fn is_in(&self, bucket: usize) -> bool {
        self.buckets.get(bucket).is_some_and(|lines| !lines.is_empty())
    }

    /// Adds to `all` what the window has in one of the buckets, in order of ties.
    pub fn add_bucket<'g>(&'g self, number: usize, all: &mut Vec<Stretch<'g>>) {
        let Some(bucket) = self.buckets.get(number) else { return };
        let begin = all.len();
        all.extend_from_slice(bucket);
        if self.made.is_empty() {
            return;
        }
        for lines in all[begin..].iter_mut().filter(|lines| lines.lines.is_empty()) {
            lines.lines = &self.text[self.made[mem::take(&mut lines.more) as usize].clone()];
        }
    }
}

impl<'a> LineCursor<'a> {
    /// Leaves out what was cut off from the file.
    fn end_where_truncated(&mut self, source: &Source, findings: &mut Findings) {
        let Some(end) = source.truncated_at().filter(|&end| end < self.bytes.len()) else { return };
        self.bytes = &self.bytes[..end];
        self.done = self.done.min(end);
        if self.line.is_some_and(|(_, line)| line.end > end) {
            *self = LineCursor::new(self.bytes, self.done, self.source as usize, findings);
        }
    }
}

/// Takes the lines of a group.
struct Dealer<'g, 'a> {
    window: &'g Window,
    buckets: &'g mut [Vec<Stretch<'a>>],
    text: &'g mut Vec<u8>,
    made: &'g mut Vec<Range<usize>>,
    /// Stretch that are a part of this stay there.
    there: &'a [u8],
    /// Ticks of the lines that come next.
    ticks: u64,
    /// Where the lines before are: their bucket, and their part of what is there.
    before: Option<(usize, Range<usize>)>,
    /// What was dealt out and not told.
    bytes: usize,
}

impl<'a> Dealer<'_, 'a> {
    /// Deals out what there is before the end of the window.
    fn deal(
        &mut self,
        cursor: &mut LineCursor<'_>,
        source: &Source,
        findings: &mut Findings,
    ) -> Result<(), Stop> {
        let (until, number) = (self.window.until, cursor.source as usize);
        self.before = None;
        let mut pass = Pass { bytes: cursor.bytes, source, number, out: self, findings };
        while let Some((_, line)) = cursor.line {
            if until.is_some_and(|until| line.ticks >= until) {
                break;
            }
            pass.out.ticks = line.ticks;
            // Up to itself: this line, and those with the same ticks.
            cursor.run(&mut pass, 0, cursor.key(0))?;
        }
        Ok(())
    }

    /// Tells what was dealt out; returns whether there is room for more.
    fn tell(&mut self) -> bool {
        self.window.add(mem::take(&mut self.bytes))
    }
}

impl Sink for Dealer<'_, '_> {
    #[inline]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a source is a mapping or a box, a made run has a line of a window: there are fewer than 2^32 of both"
    )]
    fn lines(&mut self, source: usize, lines: &[u8]) -> io::Result<()> {
        if lines.is_empty() {
            return Ok(());
        }
        let place = self.window.bucket_of(self.ticks);
        let bucket = &mut self.buckets[place];
        self.bytes += lines.len();
        let mut dealt = Stretch { ticks: self.ticks, lines: &[], source: source as u32, more: 0 };
        if let Some(range) = place_of(self.there, lines) {
            let goes_on =
                |before: &&mut (usize, Range<usize>)| (before.0, before.1.end) == (place, range.start);
            if let (Some(before), Some(last)) = (self.before.as_mut().filter(goes_on), bucket.last_mut()) {
                // They are the lines before.
                let more = self.ticks - last.ticks;
                if self.ticks - last.last() <= self.window.gap && more <= MOST {
                    before.1.end = range.end;
                    last.lines = &self.there[before.1.clone()];
                    last.more = more as u32;
                    return Ok(());
                }
            }
            dealt.lines = &self.there[range.clone()];
            self.before = Some((place, range));
        } else {
            let start = self.text.len();
            self.text.extend_from_slice(lines);
            dealt.more = self.made.len() as u32;
            self.made.push(start..self.text.len());
            self.before = None;
        }
        bucket.push(dealt);
        self.bytes += size_of::<Stretch<'_>>();
        // Where the next will be written, which is when hundreds of others have got theirs.
        prefetch(bucket.as_ptr().wrapping_add(bucket.len() + 1).cast(), 1);
        Ok(())
    }
}
