//! The decoder of raw files. From the records of a raw file, it makes the lines that a text file would have.
//!
//! The decoder shows bytes that are not a record as `# damaged` lines. Because the bytes may change while the decoder
//! reads them, it never relies on an earlier read of the same bytes.

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
use crate::render::{LineWriter, PlainContent, PlainRecord, PlainRecords, RECORDS_BEFORE_BATCH, plain_text};
use crate::sites::Site;
use crate::states::ThreadState;

/// The greatest number of damaged bytes that a `# damaged` line shows.
const SHOWN: usize = 256;

/// The result of [`Decoder::decode`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rendered {
    /// The ranges of bytes of the file that are not a record.
    pub damaged: Vec<Range<usize>>,
    /// Whether the last line has no line feed because its message continues after the range.
    pub open: bool,
    /// Whether ticks went back, or were outside the range of ticks to decode.
    pub backward: bool,
}

/// A record that [`Decoder::records`] passes on. Ticks are in order, even if those in the file are not.
#[derive(Clone, Copy, Debug)]
pub enum Decoded<'a> {
    /// A function was entered or left: a [`RecordKind::Enter`] or [`RecordKind::Leave`], which has an address.
    Call(Ticks, Record<'a>),
    /// The function or span of a site was entered or left: a [`RecordKind::Scope`], and the text of the site's place as
    /// in a line.
    Scope(Ticks, Record<'a>, &'a [u8]),
    /// A message, with its site and its values.
    Message {
        /// The lines of the message, each with its line feed.
        lines: &'a [u8],
        /// The number that a [`SiteNumbers`] gives the message's site; 0 if the file does not have the site.
        site: u32,
        /// The captured values; `None` if the message was formatted by its thread.
        values: Option<&'a [u8]>,
    },
    /// The lines of records of other kinds, one line for each record.
    Lines(&'a [u8]),
}

/// A writer that turns the calls that [`Decoder::records`] passes on into lines of one thread.
#[derive(Clone, Debug)]
pub struct CallLines(LineWriter);

impl CallLines {
    /// Returns a writer of lines of thread `tid`.
    #[must_use]
    pub fn new(tid: u64) -> CallLines {
        CallLines(LineWriter::new(tid))
    }

    /// Appends the line of a [`Decoded::Call`], or of a [`Decoded::Scope`] with its place.
    pub fn write(&self, ticks: Ticks, record: &Record<'_>, place: Option<&[u8]>, out: &mut Vec<u8>) {
        self.0.function(ticks, record, place, out);
    }
}

/// A function that gives each site a number, from 1. In all files, the same number means the same site.
#[derive(Clone)]
pub struct SiteNumbers(pub Arc<dyn Fn(&Site) -> u32 + Send + Sync>);

impl fmt::Debug for SiteNumbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SiteNumbers")
    }
}

/// A decoder of one file, which makes lines of its records.
#[derive(Clone, Debug)]
pub struct Decoder {
    lines: LineWriter,
    /// The plans of all sites found so far: each entry is parsed once.
    plans: Plans,
    /// The sites that the current block has defined so far.
    defined: Defined,
    /// The function that numbers sites, and the number that it has returned for each site found so far; the index is
    /// the number of the site in the file.
    numbers: Option<(SiteNumbers, Vec<u32>)>,
    last: Ticks,
    most: Ticks,
    behind: bool,
    /// Whether the ticks of a record in the current range went back, or were outside the range of ticks to decode.
    went_back: bool,
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
            numbers: None,
            last: Ticks(0),
            most: Ticks(u64::MAX),
            behind: false,
            went_back: false,
            open: false,
            short: ShortCalls::default(),
        }
    }

    /// Makes the decoder leave out function calls that have taken fewer than `ticks` ticks and contain no other shown
    /// record. To leave a call out takes a fraction of the time that writing its lines takes. The last record of a
    /// range is never left out.
    #[must_use]
    pub fn without_shorter_calls(mut self, ticks: u64) -> Decoder {
        self.short.least = ticks;
        self
    }

    /// Makes the decoder give the sites of [messages](Decoded::Message) the numbers that `numbers` returns.
    #[must_use]
    pub fn with_site_numbers(mut self, numbers: SiteNumbers) -> Decoder {
        self.numbers = Some((numbers, Vec::new()));
        self
    }

    /// Appends the lines of the records from `from` on and before `until`, if given, as if there were no other records.
    /// `name` is the file's name in the `# damaged` lines for bytes that are not a record.
    ///
    /// Ticks that go back, or are outside the range, do not occur in a sound file. The decoder moves them into the
    /// range and reports this in a `# backward` line: the appended lines are sorted, whatever the file contains. If
    /// the file does not end a message, the decoder ends it and reports it as lost.
    pub fn decode_times(
        &mut self,
        raw: Raw<'_>,
        (from, until): (Ticks, Option<Ticks>),
        name: &[u8],
        out: &mut Vec<u8>,
    ) -> Rendered {
        let range = self.begin_times(raw, from, until);
        let mut found = self.decode_range(raw, range, name, out);
        self.close_torn(out);
        found.open = false;
        found
    }

    /// Appends the lines of the records in a range of bytes, whose two ends must be at borders between records.
    pub fn decode(&mut self, raw: Raw<'_>, range: Range<usize>, name: &[u8], out: &mut Vec<u8>) -> Rendered {
        (self.last, self.most) = (Ticks(0), Ticks(u64::MAX));
        (self.open, self.behind, self.went_back) = (false, false, false);
        self.define_before(raw, range.start);
        self.decode_range(raw, range, name, out)
    }

    /// Calls `take` with the records from `from` on and before `until`, in order. It passes on calls as records, which
    /// is several times as fast as writing and reading lines, and other records as the lines that
    /// [`Decoder::decode_times`] would append. For messages, it also passes on the sites and the captured values.
    pub fn records(
        &mut self,
        raw: Raw<'_>,
        (from, until): (Ticks, Option<Ticks>),
        name: &[u8],
        take: &mut impl FnMut(Decoded<'_>),
    ) -> Rendered {
        let range = self.begin_times(raw, from, until);
        let mut found = Rendered::default();
        let (mut at, mut text, mut open) = (range.start, Vec::new(), OpenMessage::default());
        while at < range.end {
            at = self.for_each_call(raw, at..range.end, &mut text, &mut open, take);
            if at >= range.end {
                break;
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
                    self.take_held(false, take);
                    if !self.decode_record(&record, &mut text, &mut open, take) {
                        self.take_torn(&mut text, &mut open, take);
                        self.damaged(raw, at..behind, name, &mut found, &mut text);
                        open.end(&mut text, take);
                    }
                    at = behind;
                }
                RawItem::Bad(end) => {
                    self.take_held(false, take);
                    let end = self.next_valid_block(raw, end).min(range.end);
                    self.take_torn(&mut text, &mut open, take);
                    self.damaged(raw, at..end, name, &mut found, &mut text);
                    open.end(&mut text, take);
                    at = end;
                }
            }
        }
        self.take_held(true, take);
        self.take_torn(&mut text, &mut open, take);
        found.backward = self.went_back;
        found
    }

    /// Calls `take` with each of the next calls, up to a record of another kind; returns the position in the file where
    /// these calls end.
    #[inline]
    fn for_each_call(
        &mut self,
        raw: Raw<'_>,
        range: Range<usize>,
        text: &mut Vec<u8>,
        open: &mut OpenMessage,
        take: &mut impl FnMut(Decoded<'_>),
    ) -> usize {
        let mut at = range.start;
        while let Some(record) = raw.call(at).filter(|_| at < range.end) {
            at += HEADER;
            if self.open || record.ticks < self.last || record.ticks > self.most {
                self.take_held(false, take);
                self.begin_record(record.ticks, text, open, take);
                take(Decoded::Call(self.last, record));
                continue;
            }
            (self.last, self.behind) = (record.ticks, false);
            if self.short.least == 0 {
                take(Decoded::Call(record.ticks, record));
            } else if record.kind == RecordKind::Enter {
                self.short.enter(&record);
            } else if !self.short.leave(&record) {
                self.take_held(false, take);
                take(Decoded::Call(record.ticks, record));
            }
        }
        at
    }

    /// Calls `take` with the entries that were held back because their calls might be short. At the end of a range
    /// (`is_end`), also passes the entry and the exit of the call that was left out last, if no record has followed
    /// that call.
    #[inline]
    fn take_held(&mut self, is_end: bool, take: &mut impl FnMut(Decoded<'_>)) {
        self.short.give_back(is_end, |record| take(Decoded::Call(record.ticks, *record)));
    }

    /// Calls `take` with the content of a record. If the record is a piece of a message, appends its text to `text`
    /// instead, and calls `take` after the last piece. Returns false if the record cannot be read.
    fn decode_record(
        &mut self,
        record: &Record<'_>,
        text: &mut Vec<u8>,
        open: &mut OpenMessage,
        take: &mut impl FnMut(Decoded<'_>),
    ) -> bool {
        let site = record.site();
        match record.kind {
            RecordKind::Captured if self.defined.has(site) => {
                self.begin_record(record.ticks, text, open, take);
                let Some(plan) = self.plans.get(site) else { return false };
                if !self.lines.captured(self.last, plan, record.payload, text) {
                    return false;
                }
                let (lines, values) = (&text[..], Some(record.payload));
                take(Decoded::Message { lines, site: self.number(site), values });
                text.clear();
            }
            RecordKind::Message => {
                if !record.continues() {
                    self.begin_record(record.ticks, text, open, take);
                    open.site = Some(self.number(site));
                }
                self.message(record, text);
                if !self.open {
                    open.end(text, take);
                }
            }
            RecordKind::Scope => {
                self.begin_record(record.ticks, text, open, take);
                match self.plans.place(site).filter(|_| self.defined.has(site)) {
                    Some(place) => take(Decoded::Scope(self.last, *record, place)),
                    None => {
                        self.lines.function(self.last, record, None, text);
                        open.end(text, take);
                    }
                }
            }
            _ => {
                let is_line = match record.kind {
                    RecordKind::Enter | RecordKind::Leave | RecordKind::Stack => true,
                    RecordKind::Lock | RecordKind::Other => true,
                    RecordKind::Meta => is_clean(record.payload),
                    RecordKind::State => ThreadState::of_record(record).is_some(),
                    _ => false,
                };
                if is_line {
                    self.begin_record(record.ticks, text, open, take);
                }
                let is_read = self.record(record, text);
                if !self.open {
                    open.end(text, take);
                }
                return is_read;
            }
        }
        true
    }

    /// Prepares for a record with these ticks that does not continue a message. Calls `take` with the message before
    /// the record if the last piece of that message is missing, and with a `# backward` line if the record needs one.
    #[inline]
    fn begin_record(
        &mut self,
        ticks: Ticks,
        text: &mut Vec<u8>,
        open: &mut OpenMessage,
        take: &mut impl FnMut(Decoded<'_>),
    ) {
        self.close(text);
        open.end(text, take);
        self.advance_ticks(ticks, text);
        open.end(text, take);
    }

    /// If the last piece of the last message is missing, calls `take` with the message and with the line that reports
    /// the message as torn.
    fn take_torn(&mut self, text: &mut Vec<u8>, open: &mut OpenMessage, take: &mut impl FnMut(Decoded<'_>)) {
        if self.open {
            let mut torn = Vec::new();
            self.close_torn(&mut torn);
            // The first byte is the line feed of the message.
            text.push(b'\n');
            open.end(text, take);
            take(Decoded::Lines(&torn[1..]));
        }
    }

    /// Prepares the decoder for the records from the ticks `from` on and before `until`; returns the range of bytes
    /// that contains these records.
    fn begin_times(&mut self, raw: Raw<'_>, from: Ticks, until: Option<Ticks>) -> Range<usize> {
        let start = if from.0 == 0 { 0 } else { raw.position(from) };
        let end = until.map_or(raw.bytes.len(), |until| raw.position(until)).max(start);
        self.last = from;
        self.most = Ticks(until.map_or(u64::MAX, |until| until.0.saturating_sub(1)).max(from.0));
        (self.open, self.behind, self.went_back) = (false, false, false);
        self.define_before(raw, start);
        start..end
    }

    fn decode_range(
        &mut self,
        raw: Raw<'_>,
        range: Range<usize>,
        name: &[u8],
        out: &mut Vec<u8>,
    ) -> Rendered {
        let mut found = Rendered::default();
        let mut at = range.start;
        // If one record cannot be rendered with others at once, the next ones often cannot either.
        let mut one_by_one = 0;
        while at < range.end {
            if self.short.least > 0 {
                at = self.render_long_calls(raw, at..range.end, out);
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
                        one_by_one = RECORDS_BEFORE_BATCH;
                    }
                    if !self.record(&record, out) {
                        self.damaged(raw, at..behind, name, &mut found, out);
                    }
                    at = behind;
                }
                RawItem::Bad(end) => {
                    self.write_held(false, out);
                    let end = self.next_valid_block(raw, end).min(range.end);
                    self.damaged(raw, at..end, name, &mut found, out);
                    at = end;
                }
            }
        }
        self.write_held(true, out);
        (found.open, found.backward) = (self.open, self.went_back);
        found
    }

    /// Appends the lines of successive calls that are not short, up to a record of another kind; returns the position
    /// in the file where the calls end.
    fn render_long_calls(&mut self, raw: Raw<'_>, range: Range<usize>, out: &mut Vec<u8>) -> usize {
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

    /// Appends the lines of the entries that were held back because their calls might be short. At the end of a range
    /// (`is_end`), also appends the lines of the call that was left out last, if no record has followed that call.
    #[inline]
    fn write_held(&mut self, is_end: bool, out: &mut Vec<u8>) {
        let lines = &self.lines;
        self.short.give_back(is_end, |record| lines.function(record.ticks, record, None, out));
    }

    /// Appends the lines of as many of the next records as can be rendered at once; returns the position in the file
    /// where these records end.
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

    /// Defines the sites that are defined before `position` in the block that contains `position`.
    fn define_before(&mut self, raw: Raw<'_>, position: usize) {
        self.defined.clear();
        let block = position / BLOCK_BYTES * BLOCK_BYTES;
        for (_, record) in raw.records(block).take_while(|(at, _)| *at < position) {
            if record.kind == RecordKind::Site {
                self.define(&record);
            }
        }
    }

    /// Returns the first position, from `border` on, at which a valid block begins; the end of the file if there is
    /// none.
    fn next_valid_block(&self, raw: Raw<'_>, mut border: usize) -> usize {
        while let RawItem::Bad(end) = raw.next(border) {
            border = end;
        }
        border
    }

    /// Appends the lines of a record; returns false if it cannot be read.
    #[inline]
    fn record(&mut self, record: &Record<'_>, out: &mut Vec<u8>) -> bool {
        match record.kind {
            RecordKind::Captured if self.defined.has(record.site()) => {
                self.close(out);
                self.advance_ticks(record.ticks, out);
                let plan = self.plans.get(record.site());
                plan.is_some_and(|plan| self.lines.captured(self.last, plan, record.payload, out))
            }
            RecordKind::Message => {
                self.message(record, out);
                true
            }
            RecordKind::Meta if is_clean(record.payload) => {
                self.close(out);
                self.advance_ticks(record.ticks, out);
                self.lines.meta(self.last, |out| out.extend_from_slice(record.payload), out);
                true
            }
            RecordKind::Site => self.define(record),
            RecordKind::Enter | RecordKind::Leave | RecordKind::Stack | RecordKind::Scope => {
                self.close(out);
                self.advance_ticks(record.ticks, out);
                let place = self.plans.place(record.site()).filter(|_| self.defined.has(record.site()));
                self.lines.function(self.last, record, place, out);
                true
            }
            RecordKind::Lock => {
                self.close(out);
                self.advance_ticks(record.ticks, out);
                self.lines.lock(self.last, record.payload, out);
                true
            }
            RecordKind::Other => {
                self.close(out);
                self.advance_ticks(record.ticks, out);
                let kind = Kind::Other(OtherKind::RECORD);
                self.lines.line(self.last, kind, |out| write_other(record, out), out);
                true
            }
            RecordKind::State => {
                let Some(state) = ThreadState::of_record(record) else { return false };
                self.close(out);
                self.advance_ticks(record.ticks, out);
                self.lines.line(self.last, Kind::State, |out| state.write(out), out);
                true
            }
            // In a raw file, a wait is a record of metadata.
            RecordKind::Captured | RecordKind::Meta | RecordKind::Wait | RecordKind::Pad => false,
        }
    }

    fn message(&mut self, record: &Record<'_>, out: &mut Vec<u8>) {
        let more = record.flags().has(Flags::MORE);
        if !record.continues() {
            self.close(out);
            self.advance_ticks(record.ticks, out);
            self.lines.message(self.last, out);
            self.lines.first_piece(self.last, record.payload, self.is_lock_site(record.site()), more, out);
        } else if self.open {
            self.lines.text(self.last, record.payload, out);
        } else {
            // The message's beginning is before the range, or was dropped.
            return;
        }
        self.open = more;
        if !self.open {
            out.push(b'\n');
        }
    }

    /// Ends the line of a message that lacks its last piece, if there is one.
    fn close(&mut self, out: &mut Vec<u8>) {
        if std::mem::take(&mut self.open) {
            out.push(b'\n');
        }
    }

    /// Ends the line of a message that lacks its last piece, if there is one, and reports the message as torn.
    fn close_torn(&mut self, out: &mut Vec<u8>) {
        if self.open {
            self.close(out);
            let torn = Meta::Lost { records: 1, reason: LossReason::Torn };
            self.lines.meta(self.last, |out| torn.write(out), out);
        }
    }

    /// Sets the ticks of the next line. If `ticks` are smaller than those of the line before, or outside the range to
    /// decode, the line gets the nearest ticks that are allowed; a `# backward` line reports the first of successive
    /// records that are changed like that.
    #[inline]
    fn advance_ticks(&mut self, ticks: Ticks, out: &mut Vec<u8>) {
        let shown = ticks.clamp(self.last, self.most);
        self.last = shown;
        let known = std::mem::replace(&mut self.behind, shown != ticks);
        self.went_back |= self.behind;
        if self.behind && !known {
            let backward = Meta::Backward { ticks: ticks.0.abs_diff(shown.0) };
            self.lines.meta(shown, |out| backward.write(out), out);
        }
    }

    fn define(&mut self, record: &Record<'_>) -> bool {
        if self.plans.entry(record.site()) != Some(record.payload) {
            let site = Site::parse(record.payload).filter(|site| site.id == record.site());
            let Some(site) = site.filter(|site| self.plans.add(site)) else { return false };
            if let Some((numbers, known)) = &mut self.numbers {
                let index = site.id as usize;
                known.resize(known.len().max(index + 1), 0);
                known[index] = (numbers.0)(&site);
            }
        }
        self.defined.add(record.site());
        true
    }

    /// Returns whether the current block defines the site, and the site is in the tracer's own code that records locks.
    fn is_lock_site(&self, site: u32) -> bool {
        self.defined.has(site) && self.plans.is_lock_site(site)
    }

    /// Returns the number that a site has in all files; 0 if the current block does not define the site.
    #[inline]
    fn number(&self, site: u32) -> u32 {
        let known = self.numbers.as_ref().and_then(|(_, known)| known.get(site as usize));
        known.copied().filter(|_| self.defined.has(site)).unwrap_or(0)
    }

    /// Appends a `# damaged` line for bytes that are not a record.
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

/// The message that `Decoder::records` is putting together from pieces.
#[derive(Default)]
struct OpenMessage {
    /// The number of the message's site; `None` if the collected text is not that of a message but lines of other
    /// records.
    site: Option<u32>,
}

impl OpenMessage {
    /// Calls `take` with the collected `text`, which is complete: a message, or lines of other records. Then clears
    /// `text`.
    #[inline]
    fn end(&mut self, text: &mut Vec<u8>, take: &mut impl FnMut(Decoded<'_>)) {
        if text.is_empty() {
            return;
        }
        match self.site.take() {
            Some(site) => take(Decoded::Message { lines: text, site, values: None }),
            None => take(Decoded::Lines(text)),
        }
        text.clear();
    }
}

/// The next records of a raw file, up to a record that is neither a whole message nor a call, or whose ticks go back.
struct RawMessages<'d, 'a> {
    raw: Raw<'a>,
    decoder: &'d Decoder,
    range: Range<usize>,
    at: usize,
    last: Ticks,
    next: Option<(Ticks, usize)>,
}

impl PlainRecords for RawMessages<'_, '_> {
    #[inline(always)]
    fn peek(&mut self) -> Option<PlainRecord<'_>> {
        if self.at >= self.range.end {
            return None;
        }
        let RawItem::Record(record, behind) = self.raw.next(self.at) else { return None };
        let content = match record.kind {
            RecordKind::Captured if self.decoder.defined.has(record.site()) => {
                PlainContent::Captured(self.decoder.plans.get(record.site())?, record.payload)
            }
            RecordKind::Message if record.flags() == Flags::NONE => {
                plain_text(&record, || self.decoder.is_lock_site(record.site()))?
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
        Some(PlainRecord { ticks: record.ticks, content })
    }

    #[inline(always)]
    fn advance(&mut self) {
        if let Some((ticks, end)) = self.next {
            (self.last, self.at) = (ticks, end);
        }
    }
}
