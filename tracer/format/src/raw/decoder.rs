//! The decoder of raw files: makes those lines of a raw file's records that a text file would have.
//!
//! Bytes that are no record are shown in their place, and nothing is believed twice: bytes may change while
//! they are looked at.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use super::reader::{Raw, RawItem, is_clean};
use super::short_calls::ShortCalls;
use super::{BLOCK_BYTES, Defined};
use crate::kinds::write_other;
use crate::line::{Kind, OtherKind, Ticks};
use crate::meta::{LossReason, Meta};
use crate::plans::Plans;
use crate::record::{Flags, HEADER, Record, RecordKind};
use crate::render::{LineWriter, ONE_BY_ONE, Plain, PlainContent, Plains, plain_text};
use crate::sites::Site;
use crate::states::ThreadState;

/// The number of bytes of a damaged place that are shown at most.
const SHOWN: usize = 256;

/// The result of [`Decoder::decode`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rendered {
    /// The ranges of bytes that are no record.
    pub damaged: Vec<Range<usize>>,
    /// Whether the last line has no line feed: its message goes on behind the range.
    pub open: bool,
}

/// A record as [`Decoder::calls`] tells it.
#[derive(Clone, Copy, Debug)]
pub enum CallOrLines<'a> {
    /// A function was entered or left: a [`RecordKind::Enter`] or [`RecordKind::Leave`].
    Call(Record<'a>),
    /// The lines of any other record.
    Lines(&'a [u8]),
}

/// A maker of marks: gives each site a number, from 1.
#[derive(Clone)]
pub struct Marker(pub Arc<dyn Fn(&Site) -> u32 + Send + Sync>);

impl fmt::Debug for Marker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Marker")
    }
}

/// Makes lines of the records of one file.
#[derive(Clone, Debug)]
pub struct Decoder {
    lines: LineWriter,
    /// The plans of all sites that were ever met: each entry is parsed once.
    plans: Plans,
    /// The sites that the block has defined.
    defined: Defined,
    /// The maker of marks, and the mark of each site that was ever met, by its number.
    marks: Option<(Marker, Vec<u32>)>,
    last: Ticks,
    most: Ticks,
    behind: bool,
    open: bool,
    short: ShortCalls,
}

impl Decoder {
    /// Returns a decoder for a file of thread `tid`.
    #[must_use]
    pub fn new(tid: u64) -> Decoder {
        Decoder {
            lines: LineWriter::new(tid),
            plans: Plans::default(),
            defined: Defined::default(),
            marks: None,
            last: Ticks(0),
            most: Ticks(u64::MAX),
            behind: false,
            open: false,
            short: ShortCalls::default(),
        }
    }

    /// Leaves out calls that have taken fewer than `ticks` and have nothing else inside. They cost a fraction of those
    /// whose lines are written. The last record of a range is never left out.
    #[must_use]
    pub fn without_shorter_calls(mut self, ticks: u64) -> Decoder {
        self.short.least = ticks;
        self
    }

    /// Has each message begin with a [mark](crate::mark): `marker` makes it of the site, where the file tells
    /// that.
    #[must_use]
    pub fn marking(mut self, marker: Marker) -> Decoder {
        self.marks = Some((marker, Vec::new()));
        self
    }

    /// Appends the lines of the records from `from` on and before `until`, where given, as if all others were
    /// not there. `name` stands for the file in the `# damaged` lines of bytes that are no record.
    ///
    /// Ticks that go back, or out of the range, which a sound file does not have, are brought back into it,
    /// and a `# backward` line says so: the appended lines are sorted, whatever the file is. A message that
    /// the file does not end is ended, and reported as lost.
    pub fn decode_times(
        &mut self,
        raw: Raw<'_>,
        (from, until): (Ticks, Option<Ticks>),
        name: &[u8],
        out: &mut Vec<u8>,
    ) -> Rendered {
        let start = if from.0 == 0 { 0 } else { raw.position(from) };
        let end = until.map_or(raw.bytes.len(), |until| raw.position(until)).max(start);
        self.last = from;
        self.most = Ticks(until.map_or(u64::MAX, |until| until.0.saturating_sub(1)).max(from.0));
        let mut found = self.decode_range(raw, start..end, name, out);
        self.close_torn(out);
        found.open = false;
        found
    }

    /// Appends the lines of the records in a range of bytes that begins and ends where records begin.
    pub fn decode(&mut self, raw: Raw<'_>, range: Range<usize>, name: &[u8], out: &mut Vec<u8>) -> Rendered {
        (self.last, self.most) = (Ticks(0), Ticks(u64::MAX));
        self.decode_range(raw, range, name, out)
    }

    /// Calls `take` with all records of the file, in order: those of calls as they are, which is several times as fast
    /// as to write lines and to read these, and all others as the lines that [`Decoder::decode_times`] would append.
    /// Returns whether the file is sound. If not, that is, if bytes are no record or ticks go back, `take` was called
    /// with the records before that.
    pub fn calls(&mut self, raw: Raw<'_>, mut take: impl FnMut(CallOrLines<'_>)) -> bool {
        (self.last, self.most) = (Ticks(0), Ticks(u64::MAX));
        (self.open, self.behind) = (false, false);
        self.defined.clear();
        let (mut at, mut text) = (0, Vec::new());
        loop {
            // Calls stand in long rows.
            while let Some(record) = raw.call(at) {
                if self.open {
                    self.close(&mut text);
                    take(CallOrLines::Lines(&text));
                    text.clear();
                }
                if record.ticks < self.last {
                    return false;
                }
                self.last = record.ticks;
                at += HEADER;
                take(CallOrLines::Call(record));
            }
            match raw.next(at) {
                RawItem::End => break,
                RawItem::Bad(_) => return false,
                RawItem::Border(end) => {
                    if at % BLOCK_BYTES == 0 {
                        self.defined.clear();
                    }
                    at = end;
                }
                RawItem::Record(record, behind) => {
                    at = behind;
                    if !self.record(&record, &mut text) || self.behind {
                        return false;
                    }
                    if !self.open && !text.is_empty() {
                        take(CallOrLines::Lines(&text));
                        text.clear();
                    }
                }
            }
        }
        self.close_torn(&mut text);
        if !text.is_empty() {
            take(CallOrLines::Lines(&text));
        }
        true
    }

    fn decode_range(
        &mut self,
        raw: Raw<'_>,
        range: Range<usize>,
        name: &[u8],
        out: &mut Vec<u8>,
    ) -> Rendered {
        let mut found = Rendered::default();
        (self.open, self.behind) = (false, false);
        self.define_before(raw, range.start);
        let mut at = range.start;
        // Where one record is not of the usual kind, the next ones may not be either.
        let mut one_by_one = 0;
        while at < range.end {
            if self.short.least > 0 {
                at = self.calls_but_short_ones(raw, at..range.end, out);
                if at >= range.end {
                    break;
                }
            }
            match raw.next(at) {
                RawItem::End => break,
                RawItem::Border(end) => {
                    if at % BLOCK_BYTES == 0 {
                        self.defined.clear();
                    }
                    at = end;
                }
                RawItem::Record(record, behind) => {
                    self.write_held(false, out);
                    if one_by_one > 0 {
                        one_by_one -= 1;
                    } else if !self.open {
                        let end = self.many(raw, at..range.end, out);
                        if end > at {
                            at = end;
                            continue;
                        }
                        one_by_one = ONE_BY_ONE;
                    }
                    if !self.record(&record, out) {
                        self.damaged(raw, at..behind, name, &mut found, out);
                    }
                    at = behind;
                }
                RawItem::Bad(end) => {
                    self.write_held(false, out);
                    let end = self.next_sound(raw, end).min(range.end);
                    self.damaged(raw, at..end, name, &mut found, out);
                    at = end;
                }
            }
        }
        self.write_held(true, out);
        found.open = self.open;
        found
    }

    /// Takes the calls that stand behind each other, up to a record of another kind; returns where they end. Appends the
    /// lines of those that are not short.
    fn calls_but_short_ones(&mut self, raw: Raw<'_>, range: Range<usize>, out: &mut Vec<u8>) -> usize {
        let (mut at, mut last) = (range.start, self.last);
        while let Some(record) = raw.call(at).filter(|_| at < range.end) {
            at += HEADER;
            if self.open || record.ticks < last || record.ticks > self.most {
                self.last = last;
                self.write_held(false, out);
                self.record(&record, out);
                last = self.last;
                continue;
            }
            last = record.ticks;
            if record.kind == RecordKind::Enter {
                self.short.enter(&record);
            } else if !self.short.leave(&record) {
                self.write_held(false, out);
                self.lines.function(record.ticks, &record, None, out);
            }
            self.behind = false;
        }
        self.last = last;
        at
    }

    /// Appends the lines of the enterings that are held; at the end of a range also those of a call that was left out
    /// last, if no other record is behind it.
    #[inline]
    fn write_held(&mut self, is_end: bool, out: &mut Vec<u8>) {
        let lines = &self.lines;
        self.short.give_back(is_end, |record| lines.function(record.ticks, record, None, out));
    }

    /// Appends the lines of as many of the next records as can be done at once; returns the position where
    /// they end.
    #[inline]
    fn many(&mut self, raw: Raw<'_>, range: Range<usize>, out: &mut Vec<u8>) -> usize {
        let mut usual =
            RawMessages { raw, decoder: self, at: range.start, range, last: self.last, next: None };
        self.lines.plain_lines(&mut usual, usize::MAX, out);
        let (end, last) = (usual.at, usual.last);
        if end > usual.range.start {
            (self.last, self.behind) = (last, false);
        }
        end
    }

    /// Defines the sites whose entries stand in front of a position, in its block.
    fn define_before(&mut self, raw: Raw<'_>, position: usize) {
        self.defined.clear();
        let block = position / BLOCK_BYTES * BLOCK_BYTES;
        for (_, record) in raw.records(block).take_while(|(at, _)| *at < position) {
            if record.kind == RecordKind::Site {
                self.define(&record);
            }
        }
    }

    /// Returns the position of the next block that has its magic, from a border on.
    fn next_sound(&self, raw: Raw<'_>, mut border: usize) -> usize {
        while let RawItem::Bad(end) = raw.next(border) {
            border = end;
        }
        border
    }

    /// Appends the lines of a record; returns false where it cannot be read.
    #[inline]
    fn record(&mut self, record: &Record<'_>, out: &mut Vec<u8>) -> bool {
        match record.kind {
            RecordKind::Captured if self.defined.has(record.site()) => {
                self.close(out);
                self.go_on_to(record.ticks, out);
                let (plan, mark) = (self.plans.get(record.site()), self.mark(record.site()));
                plan.is_some_and(|plan| self.lines.captured(self.last, mark, plan, record.payload, out))
            }
            RecordKind::Message => {
                self.message(record, out);
                true
            }
            RecordKind::Meta if is_clean(record.payload) => {
                self.close(out);
                self.go_on_to(record.ticks, out);
                self.lines.meta(self.last, |out| out.extend_from_slice(record.payload), out);
                true
            }
            RecordKind::Site => self.define(record),
            RecordKind::Enter | RecordKind::Leave | RecordKind::Stack | RecordKind::Scope => {
                self.close(out);
                self.go_on_to(record.ticks, out);
                let place = self.plans.place(record.site()).filter(|_| self.defined.has(record.site()));
                self.lines.function(self.last, record, place, out);
                true
            }
            RecordKind::Lock => {
                self.close(out);
                self.go_on_to(record.ticks, out);
                self.lines.lock(self.last, record.payload, out);
                true
            }
            RecordKind::Other => {
                self.close(out);
                self.go_on_to(record.ticks, out);
                let kind = Kind::Other(OtherKind::RECORD);
                self.lines.line(self.last, kind, |out| write_other(record, out), out);
                true
            }
            RecordKind::State => {
                let Some(state) = ThreadState::of_record(record) else { return false };
                self.close(out);
                self.go_on_to(record.ticks, out);
                self.lines.line(self.last, Kind::State, |out| state.write(out), out);
                true
            }
            // A raw file tells of a wait in a record of metadata.
            RecordKind::Captured | RecordKind::Meta | RecordKind::Wait | RecordKind::Pad => false,
        }
    }

    fn message(&mut self, record: &Record<'_>, out: &mut Vec<u8>) {
        let more = record.flags().has(Flags::MORE);
        if !record.continues() {
            self.close(out);
            self.go_on_to(record.ticks, out);
            self.lines.message(self.last, self.mark(record.site()), out);
            self.lines.first_piece(self.last, record.payload, self.is_of_lock(record.site()), more, out);
        } else if self.open {
            self.lines.text(self.last, record.payload, out);
        } else {
            // The message's beginning is in front of the range, or was dropped.
            return;
        }
        self.open = more;
        if !self.open {
            out.push(b'\n');
        }
    }

    /// Ends a message whose last piece does not come.
    fn close(&mut self, out: &mut Vec<u8>) {
        if std::mem::take(&mut self.open) {
            out.push(b'\n');
        }
    }

    /// Ends a message whose last piece does not come, and reports it as torn.
    fn close_torn(&mut self, out: &mut Vec<u8>) {
        if self.open {
            self.close(out);
            let torn = Meta::Lost { records: 1, reason: LossReason::Torn };
            self.lines.meta(self.last, |out| torn.write(out), out);
        }
    }

    /// Returns the ticks of the next line.
    #[inline]
    fn go_on_to(&mut self, ticks: Ticks, out: &mut Vec<u8>) {
        let shown = ticks.clamp(self.last, self.most);
        self.last = shown;
        let known = std::mem::replace(&mut self.behind, shown != ticks);
        if self.behind && !known {
            let backward = Meta::Backward { ticks: ticks.0.abs_diff(shown.0) };
            self.lines.meta(shown, |out| backward.write(out), out);
        }
    }

    fn define(&mut self, record: &Record<'_>) -> bool {
        if self.plans.entry(record.site()) != Some(record.payload) {
            let site = Site::parse(record.payload).filter(|site| site.id == record.site());
            let Some(site) = site.filter(|site| self.plans.add(site)) else { return false };
            if let Some((marker, marks)) = &mut self.marks {
                let index = site.id as usize;
                marks.resize(marks.len().max(index + 1), 0);
                marks[index] = (marker.0)(&site);
            }
        }
        self.defined.add(record.site());
        true
    }

    /// Returns whether the block tells a site, and that it is one of the tracer's locks.
    fn is_of_lock(&self, site: u32) -> bool {
        self.defined.has(site) && self.plans.is_of_lock(site)
    }

    /// Returns the mark of a site, if marks are wanted: 0 where the block does not tell the site.
    #[inline]
    fn mark(&self, site: u32) -> Option<u32> {
        let (_, marks) = self.marks.as_ref()?;
        Some(marks.get(site as usize).copied().filter(|_| self.defined.has(site)).unwrap_or(0))
    }

    /// Shows bytes that are no record.
    #[cold]
    fn damaged(
        &mut self,
        raw: Raw<'_>,
        place: Range<usize>,
        name: &[u8],
        found: &mut Rendered,
        out: &mut Vec<u8>,
    ) {
        self.close_torn(out);
        let text = raw.bytes.get(place.start..place.end.min(place.start + SHOWN)).unwrap_or_default();
        let (offset, bytes) = (place.start as u64, place.len() as u64);
        let damaged = Meta::Damaged { file: name.to_vec(), offset, bytes, text: text.to_vec() };
        self.lines.meta(self.last, |out| damaged.write(out), out);
        found.damaged.push(place);
    }
}

/// The next records, as long as they are whole messages and their ticks are in order.
struct RawMessages<'d, 'a> {
    raw: Raw<'a>,
    decoder: &'d Decoder,
    range: Range<usize>,
    at: usize,
    last: Ticks,
    next: Option<(Ticks, usize)>,
}

impl Plains for RawMessages<'_, '_> {
    #[inline(always)]
    fn peek(&mut self) -> Option<Plain<'_>> {
        if self.at >= self.range.end {
            return None;
        }
        let RawItem::Record(record, behind) = self.raw.next(self.at) else { return None };
        let content = match record.kind {
            RecordKind::Captured if self.decoder.defined.has(record.site()) => {
                PlainContent::Captured(self.decoder.plans.get(record.site())?, record.payload)
            }
            RecordKind::Message if record.flags() == Flags::NONE => {
                plain_text(&record, || self.decoder.is_of_lock(record.site()))?
            }
            RecordKind::Enter | RecordKind::Leave
                if !record.flags().has(Flags::UNWINDING) && self.decoder.short.least == 0 =>
            {
                PlainContent::Address(record.kind, record.flags(), record.address())
            }
            _ => return None,
        };
        if record.ticks < self.last || record.ticks > self.decoder.most {
            return None;
        }
        self.next = Some((record.ticks, behind));
        Some(Plain { ticks: record.ticks, content, mark: self.decoder.mark(record.site()) })
    }

    #[inline(always)]
    fn advance(&mut self) {
        if let Some((ticks, end)) = self.next {
            (self.last, self.at) = (ticks, end);
        }
    }
}
