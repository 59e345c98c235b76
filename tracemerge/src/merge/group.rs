//! Groups of sorted ranges. One thread at a time deals out a group: it puts the lines that the group's ranges have in a
//! window of time into buckets.

use std::io;
use std::mem;
use std::ops::Range;

use crate::file::map::prefetch;
use crate::file::records::Records;
use crate::file::rendered::{LineSource, RecordNeeds};
use crate::file::truncation;
use crate::input::boundary::{Boundary, first_from};
use crate::input::findings::Findings;
use crate::input::slice::TickPeriod;
use crate::input::source::{Content, SortedRange, Source, place_of};
use crate::merge::Stop;
use crate::merge::cursor::{LineCursor, Pass, note_records};
use crate::merge::windows::Window;
use crate::output::sink::Sink;

/// The number of bytes that are prefetched from the range after the next two, so that the bytes arrive from memory
/// while other ranges are dealt out. The processor fetches the bytes after these on its own.
const AHEAD: usize = 1024;

/// The number of bytes that a group deals out before it adds them to the sum of all groups.
const SUM_UPDATE_BYTES: usize = if cfg!(test) { 100 } else { 1 << 20 };

/// The greatest difference of ticks between the first and the last line of one stretch.
const MAX_TICK_SPAN: u64 = u32::MAX as u64;

/// A group of neighbouring sorted ranges. Only one thread at a time deals out the lines of a group.
#[derive(Debug)]
pub(crate) struct Group<'a> {
    /// The number of the group, from 0.
    pub number: usize,
    ranges: Vec<SortedRange>,
    period: TickPeriod,
    /// The group's ranges, in order; empty until they are opened.
    open_ranges: Vec<OpenRange<'a>>,
    /// The lines that the ranges have in the window, in one list for each bucket. Lines with equal ticks in one bucket
    /// are in the order in which they will be passed on.
    buckets: Vec<Vec<Dealt<'a>>>,
    /// The text of the lines that are not a part of a source's bytes, such as rendered lines, one line after the other.
    text: Vec<u8>,
    /// The records of sources that are not text, if the sink takes records.
    records: Records,
    /// The position in `text`, or among `records`, of each stretch whose lines are not a part of a source.
    copies: Vec<Copied>,
    /// The parts of records that the sink wants; `None` if it takes lines only.
    wanted: Option<&'a RecordNeeds>,
    /// The findings in the window that is being dealt out.
    found: Findings,
    /// The findings in all windows before the current one.
    findings: Findings,
    /// A lower bound of the ticks of the first line after the window; `None` if no lines are left.
    pub next: Option<u64>,
    /// The number of ranges that are dealt out for this window: not all ranges if the window turned out to have too
    /// many bytes.
    pub ranges_dealt: usize,
}

/// A sorted range of a group, open for reading.
#[derive(Debug)]
enum OpenRange<'a> {
    /// A range of text, with a cursor at the beginning of the window and one at the window's end.
    Text { begin: LineCursor<'a>, end: LineCursor<'a> },
    /// A range of a source that renders its lines on demand.
    Rendered { source: usize, render: &'a dyn LineSource },
}

/// Neighbouring lines of one sorted range, or neighbouring records, that are passed on together.
#[derive(Clone, Debug)]
pub(crate) struct Stretch<'a> {
    /// The ticks of the stretch's first line.
    pub ticks: u64,
    /// The lines, or the records, of the stretch.
    pub run: Run<'a>,
    /// The index of the lines' source among all sources.
    pub source: u32,
    /// The difference of ticks between the stretch's first and last line.
    length: u32,
}

/// The content of a stretch: lines or records.
#[derive(Clone, Debug)]
pub(crate) enum Run<'a> {
    /// The bytes of the lines.
    Lines(&'a [u8]),
    /// The records of the stretch: those in this range of indexes.
    Records(&'a Records, Range<usize>),
}

impl Stretch<'_> {
    /// Returns the ticks of the stretch's last line.
    #[inline]
    #[must_use]
    pub(crate) fn last(&self) -> u64 {
        self.ticks + u64::from(self.length)
    }
}

/// A stretch, neighbouring lines of one sorted range, in the form in which a bucket stores it.
#[derive(Clone, Copy, Debug)]
struct Dealt<'a> {
    /// The ticks of the stretch's first line.
    ticks: u64,
    bytes: DealtBytes<'a>,
    /// The index of the lines' source among all sources.
    source: u32,
    /// The difference of ticks between the stretch's first and last line.
    length: u32,
}

/// The lines of a stretch in a bucket: the bytes themselves, or the place of a copy.
#[derive(Clone, Copy, Debug)]
enum DealtBytes<'a> {
    /// The bytes of the lines, which are a part of their source's bytes.
    InSource(&'a [u8]),
    /// The lines are copied, or they are records. The number is an index in [`Group::copies`], which has the place of
    /// the copy or of the records.
    Copied(usize),
}

/// The place of a stretch whose lines are not a part of a source's bytes.
#[derive(Clone, Debug)]
enum Copied {
    /// The stretch's range in [`Group::text`].
    Text(Range<usize>),
    /// The stretch's range in [`Group::records`].
    Records(Range<usize>),
}

// Buckets are written to at random, so each byte of an entry counts.
const _: () = assert!(size_of::<Dealt<'_>>() <= 32);

impl<'a> Group<'a> {
    /// Makes the group with this number, which deals out the lines that `ranges` have in `period`. `wanted` has the
    /// parts of records that the sink wants, if it takes records.
    #[must_use]
    pub(crate) fn new(
        number: usize,
        ranges: &[SortedRange],
        period: TickPeriod,
        wanted: Option<&'a RecordNeeds>,
    ) -> Group<'a> {
        Group {
            number,
            ranges: ranges.to_vec(),
            period,
            open_ranges: Vec::new(),
            buckets: Vec::new(),
            text: Vec::new(),
            records: Records::default(),
            copies: Vec::new(),
            wanted,
            found: Findings::default(),
            findings: Findings::default(),
            next: None,
            ranges_dealt: 0,
        }
    }

    /// Deals out the lines that the ranges have in the window, from the window's beginning, even if some of them were
    /// dealt out by an earlier call. Gives up if all groups together have dealt out more bytes than the window's limit.
    /// `room` is memory for rendered lines.
    ///
    /// # Errors
    /// The ticks go back in a sorted range.
    pub(crate) fn deal(
        &mut self,
        sources: &'a [Source],
        window: &Window,
        room: &mut Vec<u8>,
    ) -> Result<(), Stop> {
        self.found = Findings::default();
        self.text.clear();
        self.records.clear();
        self.copies.clear();
        self.buckets.resize_with(window.buckets.max(self.buckets.len()), Vec::new);
        self.buckets.iter_mut().for_each(Vec::clear);
        self.next = None;
        self.ranges_dealt = 0;
        if self.open_ranges.is_empty() {
            self.open(sources);
        }
        let Group { open_ranges, buckets, text, records, copies, wanted, found, .. } = self;
        let mut out = Dealer { window, buckets, text, copies, there: &[], ticks: 0, before: None, bytes: 0 };
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
                    if let Some(wanted) = wanted {
                        let start = records.len();
                        records.begin_source(*source);
                        render.records((window.since, window.until), wanted, records, &mut damaged);
                        note_records(records, start..records.len(), found);
                        out.deal_records(records, start, *source);
                    } else {
                        render.lines(window.since, window.until, room, &mut damaged);
                        let mut cursor = LineCursor::new(room, 0, *source, found);
                        out.there = &[];
                        out.deal(&mut cursor, &sources[*source], found)?;
                    }
                    let left = render.period().zip(window.until).filter(|((_, last), until)| until <= last);
                    left.map(|((first, _), until)| first.max(until))
                }
            };
            self.next = self.next.into_iter().chain(next).min();
            self.ranges_dealt += 1;
            if out.bytes >= SUM_UPDATE_BYTES && !out.add_to_sum() {
                return Ok(());
            }
        }
        out.add_to_sum();
        Ok(())
    }

    /// Opens each range at its first line that is in the group's period.
    fn open(&mut self, sources: &'a [Source]) {
        for range in &self.ranges {
            let bytes = match sources[range.source].content() {
                Content::Text(bytes) => &bytes[..range.end],
                Content::Rendered(render) => {
                    self.open_ranges.push(OpenRange::Rendered { source: range.source, render });
                    continue;
                }
            };
            let (first, last) = (Boundary::before(bytes, range.start), Boundary::end(bytes));
            let start = first_from(bytes, self.period.since, first, last, usize::MAX).at;
            let begin = LineCursor::new(bytes, start, range.source, &mut self.findings);
            self.open_ranges.push(OpenRange::Text { begin, end: begin });
        }
    }

    /// Ends the current window after its lines were passed on. The next window begins where this window ends.
    pub(crate) fn end_window(&mut self, sources: &[Source]) {
        self.findings.append(mem::take(&mut self.found));
        for range in &mut self.open_ranges {
            if let OpenRange::Text { begin, end } = range {
                sources[begin.source as usize].forget(begin.done..end.done);
                *begin = *end;
            }
        }
    }

    /// Returns the findings in all windows that have ended.
    #[must_use]
    pub(crate) fn findings(self) -> Findings {
        self.findings
    }

    /// Returns the number of ranges in the group.
    #[must_use]
    pub(crate) fn ranges(&self) -> usize {
        self.ranges.len()
    }

    /// Returns the number of bytes that the group has in the window's bucket `number`.
    #[must_use]
    pub(crate) fn bytes_in(&self, number: usize) -> usize {
        let bytes = |dealt: &Dealt<'_>| match self.run(dealt) {
            Run::Lines(lines) => lines.len(),
            Run::Records(_, range) => Records::bytes_of(range.len()),
        };
        self.buckets.get(number).into_iter().flatten().map(bytes).sum()
    }

    /// Returns whether the group has lines or records in the window's bucket `number`.
    #[must_use]
    pub(crate) fn is_in(&self, number: usize) -> bool {
        self.buckets.get(number).is_some_and(|dealt| !dealt.is_empty())
    }

    /// Appends the stretches that the group has in the window's bucket `number` to `all`. Stretches with equal ticks
    /// are in the order in which they will be passed on.
    pub(crate) fn add_bucket<'g>(&'g self, number: usize, all: &mut Vec<Stretch<'g>>) {
        let Some(bucket) = self.buckets.get(number) else { return };
        all.extend(bucket.iter().map(|dealt| {
            let Dealt { ticks, source, length, .. } = *dealt;
            Stretch { ticks, run: self.run(dealt), source, length }
        }));
    }

    #[inline]
    fn run<'g>(&'g self, dealt: &Dealt<'g>) -> Run<'g> {
        match dealt.bytes {
            DealtBytes::InSource(lines) => Run::Lines(lines),
            DealtBytes::Copied(place) => match &self.copies[place] {
                Copied::Text(range) => Run::Lines(&self.text[range.clone()]),
                Copied::Records(range) => Run::Records(&self.records, range.clone()),
            },
        }
    }
}

impl<'a> LineCursor<'a> {
    /// Shortens the cursor's bytes to those that still exist, if the cursor's file was truncated.
    fn end_where_truncated(&mut self, source: &Source, findings: &mut Findings) {
        let Some(end) = source.truncated_at().filter(|&end| end < self.bytes.len()) else { return };
        self.bytes = &self.bytes[..end];
        self.done = self.done.min(end);
        if self.line.is_some_and(|(_, line)| line.end > end) {
            *self = LineCursor::new(self.bytes, self.done, self.source as usize, findings);
        }
    }
}

/// The sink that deals the lines of a group out to its buckets.
struct Dealer<'g, 'a> {
    window: &'g Window,
    buckets: &'g mut [Vec<Dealt<'a>>],
    text: &'g mut Vec<u8>,
    copies: &'g mut Vec<Copied>,
    /// The bytes of the sorted range that is being dealt out; lines that are a part of these bytes are not copied.
    /// Empty if the lines are rendered.
    there: &'a [u8],
    /// The ticks of the lines that the sink gets next.
    ticks: u64,
    /// The bucket that got the previous lines, and the range of these lines in `there`. `None` if the previous lines
    /// were copied, so that the next lines cannot extend that range.
    before: Option<(usize, Range<usize>)>,
    /// The number of bytes dealt out that are not added to the sum of all groups yet.
    bytes: usize,
}

impl<'a> Dealer<'_, 'a> {
    /// Deals out the lines from the cursor's line to the end of the window.
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
            // The cursor's own key is the limit: this line is passed on, and those with the same ticks.
            cursor.run(&mut pass, 0, cursor.key(0))?;
        }
        Ok(())
    }

    /// Deals out the records in `records` from the index `start` on, which are all records that the source with the
    /// index `source` has in the window.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a source is a mapping or a box: there are fewer than 2^32; and a length is checked"
    )]
    fn deal_records(&mut self, records: &Records, start: usize, source: usize) {
        self.before = None;
        // The bucket of the record before.
        let mut before = None;
        for at in start..records.len() {
            let ticks = records.ticks(at);
            let place = self.window.bucket_of(ticks);
            self.bytes += Records::bytes_of(1);
            if before.replace(place) == Some(place) {
                let last = self.buckets[place].last_mut().zip(self.copies.last_mut());
                if let Some((last, Copied::Records(range))) = last {
                    let length = ticks - last.ticks;
                    if length - u64::from(last.length) <= self.window.gap && length <= MAX_TICK_SPAN {
                        (range.end, last.length) = (at + 1, length as u32);
                        continue;
                    }
                }
            }
            self.copies.push(Copied::Records(at..at + 1));
            let bytes = DealtBytes::Copied(self.copies.len() - 1);
            self.buckets[place].push(Dealt { ticks, bytes, source: source as u32, length: 0 });
        }
    }

    /// Adds the number of bytes that were dealt out to the sum of all groups. Returns whether the sum is still within
    /// the window's limit.
    fn add_to_sum(&mut self) -> bool {
        self.window.add(mem::take(&mut self.bytes))
    }
}

impl Sink for Dealer<'_, '_> {
    #[inline]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a source is a mapping or a box: there are fewer than 2^32; and a length is checked"
    )]
    fn lines(&mut self, source: usize, lines: &[u8]) -> io::Result<()> {
        if lines.is_empty() {
            return Ok(());
        }
        let place = self.window.bucket_of(self.ticks);
        let bucket = &mut self.buckets[place];
        self.bytes += lines.len();
        let bytes = if let Some(range) = place_of(self.there, lines) {
            let goes_on =
                |before: &&mut (usize, Range<usize>)| (before.0, before.1.end) == (place, range.start);
            if let (Some(before), Some(last)) = (self.before.as_mut().filter(goes_on), bucket.last_mut()) {
                // `last` has the lines before.
                let length = self.ticks - last.ticks;
                if length - u64::from(last.length) <= self.window.gap && length <= MAX_TICK_SPAN {
                    before.1.end = range.end;
                    last.bytes = DealtBytes::InSource(&self.there[before.1.clone()]);
                    last.length = length as u32;
                    return Ok(());
                }
            }
            self.before = Some((place, range.clone()));
            DealtBytes::InSource(&self.there[range])
        } else {
            let start = self.text.len();
            self.text.extend_from_slice(lines);
            self.copies.push(Copied::Text(start..self.text.len()));
            self.before = None;
            DealtBytes::Copied(self.copies.len() - 1)
        };
        bucket.push(Dealt { ticks: self.ticks, bytes, source: source as u32, length: 0 });
        self.bytes += size_of::<Dealt<'_>>();
        // The next entry will be written there, after hundreds of others in other buckets.
        prefetch(bucket.as_ptr().wrapping_add(bucket.len() + 1).cast(), 1);
        Ok(())
    }
}
