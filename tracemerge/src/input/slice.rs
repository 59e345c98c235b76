//! Partitions time into slices. A slice consists of all lines in a period of ticks, which are a part of each sorted
//! range. All lines of a slice together have a few megabytes.
//!
//! Each slice can be merged alone, and the lines of the slices, one after the other, are the lines of the whole merge.
//! So several threads can merge different slices, the size of a slice bounds the memory, and a range of time is a list
//! of slices. A slice ends only at the beginning of a line; bytes that are not a line belong to the line before them.
//!
//! The end of a slice is estimated from the length of the previous slice, tried in each sorted range, and corrected.

use std::io::{BufWriter, Write};
use std::ops::Range;

use trace_format::raw::SiteNumbers;

use crate::file::records::Records;
use crate::file::rendered::RecordNeeds;
use crate::file::truncation;
use crate::input::boundary::{Boundary, first_from};
use crate::input::findings::Findings;
use crate::input::source::{Content, SortedRange, Source};
use crate::ui::error::Error;

/// The intended number of bytes of the first slice. The first slice is smaller than later ones, so that the first lines
/// of the output appear sooner. In tests, all slices are small.
const FIRST: usize = if cfg!(test) { 64 } else { 256 << 10 };
/// The intended number of bytes of later slices.
const USUAL: usize = if cfg!(test) { 128 } else { 1 << 20 };
/// The factor by which later slices are larger if the sink takes records instead of lines.
const RECORDS: usize = 8;

/// A range of ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TickPeriod {
    /// The first ticks that are in the period.
    pub since: u64,
    /// The first ticks after the period; `None` if the period has no end.
    pub until: Option<u64>,
}

impl TickPeriod {
    /// The period of all ticks.
    pub(crate) const ALL: TickPeriod = TickPeriod { since: 0, until: None };
}

/// The part of a slice that comes from one sorted range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SlicePart {
    /// The index of the source among all sources.
    pub source: usize,
    /// The lines of the sorted range that are in the slice.
    pub lines: PartLines,
}

/// The lines of one source in a slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PartLines {
    /// The lines are text: this range of the source's bytes.
    Text(Range<usize>),
    /// The lines are rendered by the source: all its lines whose ticks are in the slice's period.
    Rendered,
}

/// A period of ticks, with all lines in this period. These are few enough to be merged in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Slice {
    /// The period of ticks that the slice covers.
    pub period: TickPeriod,
    /// The ticks of the slice's first line.
    pub first: u64,
    /// The parts of the sorted ranges that are in the slice. If lines have equal ticks, those of an earlier part come
    /// first. Sorted ranges without lines in the slice have no part.
    pub parts: Vec<SlicePart>,
}

impl Slice {
    /// Leaves out the bytes of files that were truncated since the slice was made: those that a file no longer has.
    pub(crate) fn leave_out_truncated(&mut self, sources: &[Source]) {
        for part in &mut self.parts {
            let PartLines::Text(range) = &mut part.lines else { continue };
            if let Some(end) = sources[part.source].truncated_at() {
                range.end = range.end.min(end).max(range.start);
            }
        }
    }
}

/// An iterator that makes the slices of a merge, one after the other.
#[derive(Debug)]
pub(crate) struct Slicer<'a> {
    sources: &'a [Source],
    /// The number of truncations of files in this process at the last check of the ends of the sorted ranges.
    truncations: usize,
    remainders: Vec<Remainder<'a>>,
    /// The ticks at which the next slice begins.
    from: u64,
    until: Option<u64>,
    /// The intended number of bytes of the next slice; `usual` is that of later slices.
    wanted: usize,
    usual: usize,
    /// The estimated length of the next slice, in ticks.
    step: u64,
}

/// The rest of a sorted range, which later slices will contain.
#[derive(Debug)]
struct Remainder<'a> {
    source: usize,
    content: Content<'a>,
    next: Boundary,
    end: Boundary,
    /// The number of bytes of the range that were in the previous slice.
    last: usize,
}

impl<'a> Slicer<'a> {
    /// Prepares the slices of the lines in `ranges` whose ticks are in `period`. The index of a range in `ranges` is
    /// its rank, which orders lines with equal ticks. Adds to `findings` each range that has bytes but no line.
    #[must_use]
    pub(crate) fn new(
        sources: &'a [Source],
        ranges: &[SortedRange],
        period: TickPeriod,
        findings: &mut Findings,
    ) -> Slicer<'a> {
        let mut remainders: Vec<Remainder<'a>> = Vec::with_capacity(ranges.len());
        for range in ranges {
            let content = match sources[range.source].content() {
                Content::Text(bytes) => Content::Text(&bytes[..range.end]),
                rendered @ Content::Rendered(_) => rendered,
            };
            let (low, high) = content.boundaries(range.start);
            if low.ticks.is_none() {
                if range.start < range.end {
                    // The file has changed since its header was read; no line's key places these bytes.
                    findings.damaged(range.source, range.start, range.end - range.start);
                }
                continue;
            }
            let next = content.first_from(period.since, low, high, usize::MAX);
            let end = match period.until {
                Some(until) => content.first_from(until, next, high, usize::MAX),
                None => high,
            };
            remainders.push(Remainder { source: range.source, content, next, end, last: 0 });
        }
        remainders.retain(|remainder| !remainder.is_done());
        let (truncations, from, until) = (truncation::count(), period.since, period.until);
        Slicer { sources, truncations, remainders, from, until, wanted: FIRST, usual: USUAL, step: 1 << 20 }
    }

    /// Makes larger slices, for sinks that take records instead of lines: records take less memory than lines, and each
    /// slice costs a search in each source.
    #[must_use]
    pub(crate) fn of_records(mut self) -> Slicer<'a> {
        self.usual *= RECORDS;
        self
    }

    /// Returns the approximate number of bytes that all remaining slices will have together.
    #[must_use]
    pub(crate) fn left(&self) -> usize {
        self.remainders.iter().map(|remainder| remainder.end.at - remainder.next.at).sum()
    }

    /// Chooses the end of the next slice, which begins with the ticks `first`, so that the slice has about the intended
    /// number of bytes. Returns the first ticks after the slice, and the end of the slice in each sorted range.
    fn end_of_slice(&mut self, first: u64) -> (Option<u64>, Vec<Boundary>) {
        let rest = |slicer: &Slicer<'_>| {
            (slicer.until, slicer.remainders.iter().map(|remainder| remainder.end).collect())
        };
        if self.left() <= self.wanted + self.wanted / 2 {
            return rest(self);
        }
        let mut low = Trial {
            ticks: first,
            bytes: 0,
            boundaries: self.remainders.iter().map(|remainder| remainder.next).collect(),
        };
        let mut high: Option<Trial> = None;
        let mut step = self.step;
        let limit = self.until.unwrap_or(u64::MAX);
        for turn in 0.. {
            if low.ticks >= limit {
                return rest(self);
            }
            let ticks = match &high {
                Some(high) => low.between(high, self.wanted, turn),
                None => low.ticks.saturating_add(step).min(limit),
            };
            let trial = self.try_end(ticks, &low, high.as_ref());
            if trial.bytes > 2 * self.wanted && trial.ticks - low.ticks > 1 {
                high = Some(trial);
            } else if trial.bytes < self.wanted / 2 && high.as_ref().is_none_or(|high| high.ticks - ticks > 1)
            {
                step = step.saturating_mul(4);
                low = trial;
            } else {
                low = trial;
                break;
            }
        }
        if low.ticks >= limit {
            // The ends are known. In bytes that are not sorted, another search might find other ends.
            return rest(self);
        }
        // The ticks that the next slice would take if lines continued at this rate.
        let taken = u128::from(low.ticks - first) * self.wanted as u128 / low.bytes.max(1) as u128;
        self.step = u64::try_from(taken).unwrap_or(u64::MAX).max(1);
        (Some(low.ticks), low.boundaries)
    }

    /// Leaves out the bytes of files that were truncated since the last check: those that a file no longer has.
    fn leave_out_truncated(&mut self) {
        if self.truncations == truncation::count() {
            return;
        }
        self.truncations = truncation::count();
        for remainder in &mut self.remainders {
            if let Some(end) =
                self.sources[remainder.source].truncated_at().filter(|&end| end < remainder.end.at)
            {
                remainder.end = Boundary { at: end.max(remainder.next.at), ticks: None };
            }
        }
        self.remainders.retain(|remainder| !remainder.is_done());
    }

    fn try_end(&self, ticks: u64, low: &Trial, high: Option<&Trial>) -> Trial {
        let boundary = |(place, remainder): (usize, &Remainder<'_>)| {
            let high = high.map_or(remainder.end, |high| high.boundaries[place]);
            remainder.content.first_from(ticks, low.boundaries[place], high, remainder.last)
        };
        let boundaries: Vec<Boundary> = self.remainders.iter().enumerate().map(boundary).collect();
        let bytes = boundaries
            .iter()
            .zip(&self.remainders)
            .map(|(boundary, remainder)| boundary.at - remainder.next.at)
            .sum();
        Trial { ticks, bytes, boundaries }
    }
}

impl Iterator for Slicer<'_> {
    type Item = Slice;

    fn next(&mut self) -> Option<Slice> {
        self.leave_out_truncated();
        if self.remainders.is_empty() {
            return None;
        }
        let first =
            self.remainders.iter().filter_map(|remainder| remainder.next.ticks).min().unwrap_or(self.from);
        let (until, boundaries) = self.end_of_slice(first);
        let period = TickPeriod { since: self.from, until };
        let mut parts = Vec::with_capacity(self.remainders.len());
        for (remainder, boundary) in self.remainders.iter_mut().zip(boundaries) {
            let (start, end) = (remainder.next.at, boundary.at);
            let lines = match remainder.content {
                Content::Text(_) => (start < end).then_some(PartLines::Text(start..end)),
                Content::Rendered(_) => {
                    (start < end || remainder.may_have_lines_before(until)).then_some(PartLines::Rendered)
                }
            };
            parts.extend(lines.map(|lines| SlicePart { source: remainder.source, lines }));
            (remainder.next, remainder.last) = (boundary, end - start);
        }
        if self.wanted < self.usual {
            (self.wanted, self.step) = ((2 * self.wanted).min(self.usual), self.step.saturating_mul(2));
        }
        match until {
            Some(until) if Some(until) != self.until => {
                self.from = until;
                self.remainders.retain(|remainder| !remainder.is_done());
            }
            _ => self.remainders.clear(),
        }
        Some(Slice { period, first, parts })
    }
}

/// Passes all text of a source to `see` in order, in stretches of whole lines. If the source is rendered, reports each
/// range of its bytes that is not a record to `damaged`, by its offset and its length.
pub(crate) fn each_stretch(
    source: &Source,
    damaged: &mut dyn FnMut(usize, usize),
    mut see: impl FnMut(&[u8]),
) {
    let render = match source.content() {
        Content::Text(bytes) => return see(bytes),
        Content::Rendered(render) => render,
    };
    let range = SortedRange { source: 0, start: 0, end: 0 };
    let mut text = Vec::new();
    for slice in
        Slicer::new(std::slice::from_ref(source), &[range], TickPeriod::ALL, &mut Findings::default())
    {
        text.clear();
        render.lines(slice.period.since, slice.period.until, &mut text, damaged);
        see(&text);
    }
}

/// Returns the source as text. If the source is rendered, writes its lines to a temporary file without a name and
/// returns that file as the source. Calls `see` for each rendered message whose site is known, with the offset of the
/// message in the text and the number that `numbers` gives to its site.
///
/// # Errors
/// No space is left for the text.
pub(crate) fn as_text(
    source: Source,
    numbers: &SiteNumbers,
    see: &mut dyn FnMut(u64, u32),
) -> Result<Source, Error> {
    let Content::Rendered(render) = source.content() else { return Ok(source) };
    let failed = |error| Error::io("write a temporary file for the lines of", &source.path, error);
    let mut out = BufWriter::with_capacity(1 << 20, tempfile::tempfile().map_err(failed)?);
    let range = SortedRange { source: 0, start: 0, end: 0 };
    let wanted = RecordNeeds { sites: Some(numbers.clone()), ..RecordNeeds::default() };
    let (mut records, mut at) = (Records::default(), 0);
    let all = std::slice::from_ref(&source);
    for Slice { period, .. } in Slicer::new(all, &[range], TickPeriod::ALL, &mut Findings::default()) {
        records.clear();
        render.records((period.since, period.until), &wanted, &mut records, &mut |_, _| {});
        for record in records.each(0..records.len()) {
            if record.site > 0 {
                see(at, record.site);
            }
            out.write_all(record.lines).map_err(failed)?;
            at += record.lines.len() as u64;
        }
    }
    let file = out.into_inner().map_err(|error| failed(error.into_error()))?;
    Source::of_file(source.path.clone(), &file)
}

impl Remainder<'_> {
    /// Returns whether no line of the sorted range remains for later slices.
    fn is_done(&self) -> bool {
        match self.content {
            Content::Text(_) => self.next.at == self.end.at,
            Content::Rendered(_) => self.next.ticks.is_none(),
        }
    }

    /// Returns whether the next line of the sorted range may have ticks before `until`. This does not depend on numbers
    /// of bytes, which are only approximate if the source is rendered.
    fn may_have_lines_before(&self, until: Option<u64>) -> bool {
        self.next.ticks.is_some_and(|first| until.is_none_or(|until| first < until))
    }
}

impl<'a> Content<'a> {
    /// Returns the boundaries at the beginning and the end of the content. In a text, the first one is at the offset
    /// `start`.
    fn boundaries(&self, start: usize) -> (Boundary, Boundary) {
        match self {
            Content::Text(bytes) => (Boundary::before(bytes, start), Boundary::end(bytes)),
            Content::Rendered(render) => {
                let at = |ticks| usize::try_from(render.bytes_before(ticks)).unwrap_or(usize::MAX);
                let ticks = render.period().map(|(first, _)| first);
                (Boundary { at: at(0), ticks }, Boundary { at: at(u64::MAX), ticks: None })
            }
        }
    }

    /// Returns the boundary before the first line with `ticks` or more. The boundary must lie between `low` and `high`;
    /// `step` is an estimate of its distance from `low` in bytes.
    fn first_from(&self, ticks: u64, low: Boundary, high: Boundary, step: usize) -> Boundary {
        match self {
            Content::Text(bytes) => first_from(bytes, ticks, low, high, step),
            Content::Rendered(_) if low.starts_at_or_after(ticks) => low,
            Content::Rendered(render) => {
                let at = usize::try_from(render.bytes_before(ticks)).unwrap_or(usize::MAX);
                let more = render.period().is_some_and(|(_, last)| last >= ticks);
                Boundary { at: at.clamp(low.at, high.at), ticks: more.then_some(ticks) }
            }
        }
    }
}

/// A possible end of a slice, and the size that the slice would have.
#[derive(Debug)]
struct Trial {
    ticks: u64,
    /// The number of bytes that the slice would have if it ended at `ticks`.
    bytes: usize,
    boundaries: Vec<Boundary>,
}

impl Trial {
    /// Returns the ticks to try next as the end of the slice, between this trial and `high`. On odd turns, these are
    /// the ticks at which the slice would have `wanted` bytes if the bytes were spread evenly; on even turns, the
    /// middle.
    fn between(&self, high: &Trial, wanted: usize, turn: u32) -> u64 {
        let ticks = high.ticks - self.ticks;
        let (share, of) = if turn % 2 == 0 {
            (1, 2)
        } else {
            (wanted.saturating_sub(self.bytes) as u128, (high.bytes - self.bytes).max(1) as u128)
        };
        let step = u128::from(ticks) * share / of;
        self.ticks + u64::try_from(step).unwrap_or(u64::MAX).clamp(1, ticks - 1)
    }
}
