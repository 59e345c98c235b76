//! The merge of few sorted ranges: slice of time after slice of time, each through a
//! [tree](crate::merge::loser_tree) of all ranges.

use std::collections::BTreeMap;

use crate::file::truncation;
use crate::input::findings::Findings;
use crate::input::slice::{PartLines, Slice, SlicePart, Slicer, TickPeriod};
use crate::input::source::{Content, SortedRange, Source};
use crate::merge::Stop;
use crate::merge::cursor::{LineCursor, Pass};
use crate::merge::loser_tree::{LoserTree, TreeKey};
use crate::merge::work::{MergeWork, Room, Turn};
use crate::output::sink::Sink;

/// The slices of a merge, made one after the other and merged by whoever has time.
#[derive(Debug)]
pub struct Slices<'a> {
    /// The maker of slices; `None` while a thread makes one with it, and when there are no more slices.
    slicer: Option<Slicer<'a>>,
    is_partitioned: bool,
    bytes: usize,
    /// The slice that was made last, if no thread has taken it yet.
    next: Option<Slice>,
    number: usize,
    /// The findings by the number of the slice: slices are not done in order.
    found: BTreeMap<usize, Findings>,
}

/// A job of a merge by slices.
#[derive(Debug)]
pub enum SliceJob<'a> {
    /// Make the next slice, with this slicer; the slice is put behind it.
    Partition(Slicer<'a>, Option<Slice>),
    /// Merge a slice.
    Merge {
        /// The number of the slice, from 0.
        number: usize,
        /// The slice that is merged.
        slice: Slice,
        /// The findings in that slice.
        findings: Findings,
    },
}

impl<'a> Slices<'a> {
    /// Prepares the merge of `ranges`; the rank of a range is its place among them.
    #[must_use]
    pub fn new(sources: &'a [Source], ranges: &[SortedRange], period: TickPeriod) -> Slices<'a> {
        let mut findings = Findings::default();
        let slicer = Slicer::new(sources, ranges, period, &mut findings);
        let bytes = slicer.left();
        let found = BTreeMap::from([(0, findings)]);
        Slices { slicer: Some(slicer), is_partitioned: false, bytes, next: None, number: 1, found }
    }
}

impl<'a> MergeWork<'a> for Slices<'a> {
    type Job = SliceJob<'a>;

    fn bytes(&self) -> usize {
        self.bytes
    }

    fn next(&mut self) -> Turn<SliceJob<'a>> {
        if let Some(slice) = self.next.take() {
            self.number += 1;
            return Turn::Lines(SliceJob::Merge {
                number: self.number - 1,
                slice,
                findings: Findings::default(),
            });
        }
        match self.slicer.take() {
            Some(slicer) => Turn::Silent(SliceJob::Partition(slicer, None)),
            None if self.is_partitioned => Turn::End,
            None => Turn::Wait,
        }
    }

    fn run<S: Sink>(
        sources: &'a [Source],
        job: &mut SliceJob<'a>,
        room: &mut Room,
        out: &mut S,
    ) -> Result<(), Stop> {
        match job {
            SliceJob::Partition(slicer, slice) => {
                // A job that is done again keeps its slice: the slicer would give the next one.
                if slice.is_none() {
                    *slice = slicer.next();
                }
                Ok(())
            }
            SliceJob::Merge { slice, findings, .. } => {
                if truncation::count() > 0 {
                    // A file may have been truncated since the slice was made.
                    slice.leave_out_truncated(sources);
                }
                *findings = Findings::default();
                merge_slice(sources, slice, &mut room.text, out, findings)
            }
        }
    }

    fn done(&mut self, job: SliceJob<'a>) -> Vec<SlicePart> {
        match job {
            SliceJob::Partition(slicer, Some(slice)) => {
                (self.slicer, self.next) = (Some(slicer), Some(slice))
            }
            SliceJob::Partition(_, None) => self.is_partitioned = true,
            SliceJob::Merge { number, slice, findings } => {
                self.found.insert(number, findings);
                return slice.parts;
            }
        }
        Vec::new()
    }

    fn findings(self) -> Findings {
        let mut all = Findings::default();
        self.found.into_values().for_each(|found| all.append(found));
        all
    }
}

/// Merges one slice; `text` is room for the lines that are rendered.
fn merge_slice<S: Sink>(
    sources: &[Source],
    slice: &Slice,
    text: &mut Vec<u8>,
    out: &mut S,
    findings: &mut Findings,
) -> Result<(), Stop> {
    text.clear();
    // All are rendered before the first cursor borrows the text.
    let mut ends = Vec::new();
    for part in slice.parts.iter().filter(|part| part.lines == PartLines::Rendered) {
        render(&sources[part.source], part.source, slice.period, text, findings);
        ends.push(text.len());
    }
    let (mut begin, mut ends) = (0, ends.into_iter());
    let cursor = |part: &SlicePart| match &part.lines {
        PartLines::Text(range) => {
            LineCursor::new(&sources[part.source].bytes()[..range.end], range.start, part.source, findings)
        }
        PartLines::Rendered => {
            let end = ends.next().unwrap_or(begin);
            let start = std::mem::replace(&mut begin, end);
            LineCursor::new(&text[start..end], 0, part.source, findings)
        }
    };
    let mut cursors: Vec<LineCursor<'_>> = slice.parts.iter().map(cursor).collect();
    let keys: Vec<TreeKey> = cursors.iter().enumerate().map(|(rank, cursor)| cursor.key(rank)).collect();
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

/// Appends the lines that a source renders for `period` to `text`; `number` is the source's place among all
/// sources.
fn render(source: &Source, number: usize, period: TickPeriod, text: &mut Vec<u8>, findings: &mut Findings) {
    let mut damaged = |at, bytes| findings.damaged(number, at, bytes);
    if let Content::Rendered(render) = source.content() {
        render.lines(period.since, period.until, text, &mut damaged);
    }
}
