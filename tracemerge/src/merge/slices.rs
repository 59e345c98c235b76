//! The merge of few sorted ranges, slice of time after slice of time. The lines of a slice are merged as
//! [words](crate::merge::in_order) or, if a line of it is unusual, through a [tree](crate::merge::loser_tree) of all
//! ranges.

use std::collections::BTreeMap;

use crate::file::records::Records;
use crate::file::rendered::RecordNeeds;
use crate::file::truncation;
use crate::input::findings::Findings;
use crate::input::slice::{PartLines, Slice, SlicePart, Slicer, TickPeriod};
use crate::input::source::{Content, SortedRange, Source};
use crate::merge::Stop;
use crate::merge::cursor::{LineCursor, Pass, RecordCursor};
use crate::merge::in_order::{PartText, merge_in_order};
use crate::merge::loser_tree::{LoserTree, TreeKey};
use crate::merge::work::{MergeWork, Room, Turn};
use crate::output::sink::Sink;

/// The slices of a merge: they are made one after another, and any free thread merges them.
#[derive(Debug)]
pub(crate) struct Slices<'a> {
    /// The maker of slices; `None` while a thread makes a slice with it, and after the last slice.
    slicer: Option<Slicer<'a>>,
    is_partitioned: bool,
    bytes: usize,
    /// The slice that was made last; `None` if a thread has taken it.
    next: Option<Slice>,
    number: usize,
    /// The parts of records that the sink wants; `None` if it takes lines only.
    wanted: Option<&'a RecordNeeds>,
    /// The findings in each slice, by the slice's number. They are kept apart because slices are not finished in order.
    found: BTreeMap<usize, Findings>,
}

/// A job of a merge by slices: to make the next slice, or to merge a slice.
#[derive(Debug)]
pub(crate) enum SliceJob<'a> {
    /// The job to make the next slice with this slicer, and to put it into the second field.
    Partition(Slicer<'a>, Option<Slice>),
    /// The job to merge a slice.
    Merge {
        /// The number of the slice, from 0.
        number: usize,
        /// The slice to be merged.
        slice: Slice,
        /// The parts of records that the sink wants; `None` if it takes lines only.
        wanted: Option<&'a RecordNeeds>,
        /// The findings in the slice, to which the merge adds.
        findings: Findings,
    },
}

impl<'a> Slices<'a> {
    /// Prepares the merge of the lines of `ranges` in `period`. The rank of a range is its index in `ranges`. `wanted`
    /// has the parts of records that the sink wants, if it takes records.
    #[must_use]
    pub(crate) fn new(
        sources: &'a [Source],
        ranges: &[SortedRange],
        period: TickPeriod,
        wanted: Option<&'a RecordNeeds>,
    ) -> Slices<'a> {
        let mut findings = Findings::default();
        let slicer = Slicer::new(sources, ranges, period, &mut findings);
        let slicer = if wanted.is_some() { slicer.of_records() } else { slicer };
        let bytes = slicer.left();
        let found = BTreeMap::from([(0, findings)]);
        Slices { slicer: Some(slicer), is_partitioned: false, bytes, next: None, number: 1, wanted, found }
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
                wanted: self.wanted,
                findings: Findings::default(),
            });
        }
        match self.slicer.take() {
            Some(slicer) => Turn::WithoutOutput(SliceJob::Partition(slicer, None)),
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
                // A job that is done again keeps its slice: the slicer would return the next one.
                if slice.is_none() {
                    *slice = slicer.next();
                }
                Ok(())
            }
            SliceJob::Merge { slice, wanted, findings, .. } => {
                if truncation::count() > 0 {
                    // A file may have been truncated since the slice was made.
                    slice.leave_out_truncated(sources);
                }
                *findings = Findings::default();
                merge_slice(sources, slice, *wanted, room, out, findings)
            }
        }
    }

    fn done(&mut self, job: SliceJob<'a>) -> Vec<SlicePart> {
        match job {
            SliceJob::Partition(slicer, Some(slice)) => {
                (self.slicer, self.next) = (Some(slicer), Some(slice))
            }
            SliceJob::Partition(_, None) => self.is_partitioned = true,
            SliceJob::Merge { number, slice, findings, .. } => {
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

/// Merges one slice. `room` is memory for rendered lines and decoded records.
fn merge_slice<S: Sink>(
    sources: &[Source],
    slice: &Slice,
    wanted: Option<&RecordNeeds>,
    room: &mut Room,
    out: &mut S,
    findings: &mut Findings,
) -> Result<(), Stop> {
    let Room { text, records, in_order, .. } = room;
    text.clear();
    // All are decoded before the first cursor borrows the text.
    let (mut ends, mut decoded) = (Vec::new(), 0);
    for part in slice.parts.iter().filter(|part| part.lines == PartLines::Rendered) {
        let Content::Rendered(render) = sources[part.source].content() else { continue };
        let TickPeriod { since, until } = slice.period;
        let mut damaged = |at, bytes| findings.damaged(part.source, at, bytes);
        match wanted {
            None => render.lines(since, until, text, &mut damaged),
            Some(wanted) => {
                if records.len() == decoded {
                    records.push(Records::default());
                }
                let records = &mut records[decoded];
                records.clear();
                records.begin_source(part.source);
                render.records((since, until), wanted, records, &mut damaged);
                decoded += 1;
            }
        }
        ends.push(text.len());
    }
    if decoded == 0 {
        let (mut begin, mut ends) = (0, ends.iter());
        let part_text = |part: &SlicePart| {
            let (bytes, length) = match &part.lines {
                PartLines::Text(range) => (&sources[part.source].bytes()[range.start..], range.len()),
                PartLines::Rendered => {
                    let end = ends.next().copied().unwrap_or(begin);
                    let start = std::mem::replace(&mut begin, end);
                    (&text[start..], end - start)
                }
            };
            PartText { source: part.source, bytes, length }
        };
        let parts: Vec<PartText<'_>> =
            slice.parts.iter().map(part_text).filter(|part| part.length > 0).collect();
        if merge_in_order(&parts, slice.first, in_order, out, findings)? {
            return Ok(());
        }
    }
    merge_by_tree(sources, slice, &ends, wanted.is_some(), room, out, findings)
}

/// Merges one slice by the tree: line by line, or record by record. `ends` has the ends of the rendered parts in
/// `room.text`.
pub(super) fn merge_by_tree<S: Sink>(
    sources: &[Source],
    slice: &Slice,
    ends: &[usize],
    takes_records: bool,
    Room { text, records, .. }: &Room,
    out: &mut S,
    findings: &mut Findings,
) -> Result<(), Stop> {
    let (mut begin, mut ends, mut records) = (0, ends.iter().copied(), records.iter());
    let cursor = |part: &SlicePart| match &part.lines {
        PartLines::Text(range) => {
            let bytes = &sources[part.source].bytes()[..range.end];
            Cursor::Lines(LineCursor::new(bytes, range.start, part.source, findings))
        }
        PartLines::Rendered => {
            let end = ends.next().unwrap_or(begin);
            let start = std::mem::replace(&mut begin, end);
            match records.next().filter(|_| takes_records) {
                Some(records) => Cursor::Records(RecordCursor { records, at: 0 }),
                None => Cursor::Lines(LineCursor::new(&text[start..end], 0, part.source, findings)),
            }
        }
    };
    let mut cursors: Vec<Cursor<'_>> = slice.parts.iter().map(cursor).collect();
    let keys: Vec<TreeKey> = cursors.iter().enumerate().map(|(rank, cursor)| cursor.key(rank)).collect();
    let mut tree = LoserTree::new(&keys);
    drop(keys);
    while let Some(rank) = tree.winner() {
        let limit = tree.runner_up(rank);
        let next = match &mut cursors[rank] {
            Cursor::Lines(cursor) => {
                let number = cursor.source as usize;
                let mut pass = Pass { bytes: cursor.bytes, source: &sources[number], number, out, findings };
                cursor.run(&mut pass, rank, limit)?;
                cursor.key(rank)
            }
            Cursor::Records(cursor) => {
                cursor.run(rank, limit, out, findings)?;
                cursor.key(rank)
            }
        };
        tree.replace(rank, next);
    }
    Ok(())
}

/// A position in the lines, or in the records, that one sorted range has in a slice.
enum Cursor<'a> {
    Lines(LineCursor<'a>),
    Records(RecordCursor<'a>),
}

impl Cursor<'_> {
    fn key(&self, rank: usize) -> TreeKey {
        match self {
            Cursor::Lines(cursor) => cursor.key(rank),
            Cursor::Records(cursor) => cursor.key(rank),
        }
    }
}
