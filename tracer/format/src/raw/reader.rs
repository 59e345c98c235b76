//! Reads raw files: finds records by time, and makes of them the lines that a text file would have.
//!
//! All bytes are taken for hostile, and for bytes that may change while they are looked at: nothing is believed twice.

use super::{BLOCK, BLOCK_HEADER, MAGIC};
use crate::line::Ticks;
use crate::meta::{LossReason, Meta};
use crate::plans::Plans;
use crate::record::{Flags, HEADER, MAX_PAYLOAD, PAD_WORD, RecordKind, aligned};
use crate::render::{Lines, ONE_BY_ONE, Plain, Plains};
use crate::sites::Site;
use std::ops::Range;

const BLOCK_BYTES: usize = BLOCK as usize;
/// So much of a damaged place is shown.
const SHOWN: usize = 256;

/// The bytes of a raw file.
#[derive(Clone, Copy, Debug)]
pub struct Raw<'a> {
    bytes: &'a [u8],
    tid: u64,
}

/// What stands at a position.
#[derive(Clone, Copy, Debug)]
enum Next<'a> {
    End,
    /// Nothing that can be, up to there: the next block, or the end.
    Bad(usize),
    /// A block begins, or a pad ends: go on there.
    Border(usize),
    Record(Record<'a>),
}

/// One record.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// What it is.
    pub kind: RecordKind,
    /// Which piece of a message it is.
    pub flags: Flags,
    /// The number of its site, if it has one.
    pub site: u32,
    /// When; nothing where it is a [`RecordKind::Site`].
    pub ticks: Ticks,
    /// What it says.
    pub payload: &'a [u8],
    /// Where the next record may begin.
    end: usize,
}

impl Record<'_> {
    /// Whether it is what a line is made of, and so has ticks.
    #[must_use]
    pub fn has_ticks(&self) -> bool {
        self.kind != RecordKind::Site
    }

    /// Whether a message begins with it.
    #[must_use]
    pub fn begins_message(&self) -> bool {
        matches!(self.kind, RecordKind::Message | RecordKind::Captured) && !self.flags.has(Flags::CONT)
    }

    /// Whether a message ends with it.
    #[must_use]
    pub fn ends_message(&self) -> bool {
        matches!(self.kind, RecordKind::Message | RecordKind::Captured) && !self.flags.has(Flags::MORE)
    }
}

impl<'a> Raw<'a> {
    /// The file whose bytes these are; `None` where it does not begin as a raw file does.
    #[must_use]
    pub fn parse(bytes: &'a [u8]) -> Option<Raw<'a>> {
        let (tid, _) = bytes.strip_prefix(&MAGIC)?.split_first_chunk::<8>()?;
        Some(Raw { bytes, tid: u64::from_le_bytes(*tid) })
    }

    /// The thread.
    #[must_use]
    pub fn tid(&self) -> u64 {
        self.tid
    }

    /// The ticks of the first record, and what it says if it is metadata; `None` where the first block has none.
    #[must_use]
    pub fn first(&self) -> Option<(Ticks, Option<Meta>)> {
        let (_, record) =
            self.records(0).take_while(|(at, _)| *at < BLOCK_BYTES).find(|(_, r)| r.has_ticks())?;
        let meta = (record.kind == RecordKind::Meta).then(|| Meta::parse(record.payload)).flatten();
        Some((record.ticks, meta))
    }

    /// The ticks of the last record.
    #[must_use]
    pub fn last(&self) -> Option<Ticks> {
        let mut block = self.bytes.len().saturating_sub(1) / BLOCK_BYTES * BLOCK_BYTES;
        loop {
            let in_block = self.records(block).take_while(|(at, _)| *at < block + BLOCK_BYTES);
            if let Some((_, record)) = in_block.filter(|(_, record)| record.has_ticks()).last() {
                return Some(record.ticks);
            }
            block = block.checked_sub(BLOCK_BYTES)?;
        }
    }

    /// Where the first record stands whose ticks are not below `ticks`; the end where there is none.
    ///
    /// Costs a look into a few blocks, and at the records of one.
    #[must_use]
    pub fn position(&self, ticks: Ticks) -> usize {
        let at_least = |record: &Record<'_>| record.has_ticks() && record.ticks >= ticks;
        let found = self.records(self.block_of(ticks) * BLOCK_BYTES).find(|(_, record)| at_least(record));
        found.map_or(self.bytes.len(), |(at, _)| at)
    }

    /// About where that is, within a block: for those who ask often. More ticks, no smaller place.
    #[must_use]
    pub fn place(&self, ticks: Ticks) -> usize {
        let block = self.block_of(ticks);
        let start = block * BLOCK_BYTES;
        let bytes = self.bytes.len().saturating_sub(start).min(BLOCK_BYTES);
        let first = self.first_of(block).unwrap_or(ticks);
        let next = self.first_of(block + 1).or_else(|| self.last()).unwrap_or(ticks);
        let (part, whole) = (ticks.0.saturating_sub(first.0), next.0.saturating_sub(first.0));
        if part >= whole {
            return start + if part > 0 { bytes } else { 0 };
        }
        start + usize::try_from(bytes as u128 * u128::from(part) / u128::from(whole)).unwrap_or(bytes)
    }

    /// Where the last message begins, if its last piece is not there.
    #[must_use]
    pub fn open_message(&self) -> Option<usize> {
        let last = self.position(self.last()?);
        let mut open = None;
        for (at, record) in self.records(last) {
            match record.kind {
                RecordKind::Message if record.flags.has(Flags::CONT) => {
                    open = open.filter(|_| record.flags.has(Flags::MORE));
                }
                RecordKind::Message => open = record.flags.has(Flags::MORE).then_some(at),
                RecordKind::Site => {}
                _ => open = None,
            }
        }
        open
    }

    /// The bytes without a last record, or pad, that is not all there.
    #[must_use]
    pub fn without_torn_tail(&self) -> usize {
        let mut at = self.bytes.len().saturating_sub(1) / BLOCK_BYTES * BLOCK_BYTES;
        loop {
            match self.next(at) {
                Next::End | Next::Bad(_) => return at.min(self.bytes.len()),
                Next::Border(end) if at % BLOCK_BYTES != 0 && end % BLOCK_BYTES != 0 => return at,
                Next::Border(end) => at = end,
                Next::Record(record) => at = record.end,
            }
        }
    }

    /// The block that the records before `ticks` end in; the first for what is before all.
    fn block_of(&self, ticks: Ticks) -> usize {
        let (mut low, mut high) = (0, self.bytes.len().div_ceil(BLOCK_BYTES));
        while high - low > 1 {
            let middle = low.midpoint(high);
            // A block without records is as the next one.
            if self.first_of(middle).is_some_and(|first| first < ticks) {
                low = middle;
            } else {
                high = middle;
            }
        }
        low
    }

    /// The ticks of the first record at or behind the start of a block.
    fn first_of(&self, block: usize) -> Option<Ticks> {
        self.records(block * BLOCK_BYTES)
            .find(|(_, record)| record.has_ticks())
            .map(|(_, record)| record.ticks)
    }

    /// The records from a position on, with their places; what is no record is passed over.
    pub fn records(self, mut at: usize) -> impl Iterator<Item = (usize, Record<'a>)> {
        std::iter::from_fn(move || {
            loop {
                match self.next(at) {
                    Next::End => return None,
                    Next::Bad(end) | Next::Border(end) => at = end,
                    Next::Record(record) => {
                        let found = at;
                        at = record.end;
                        return Some((found, record));
                    }
                }
            }
        })
    }

    #[inline]
    fn next(&self, at: usize) -> Next<'a> {
        let Some(rest) = self.bytes.get(at..).filter(|rest| !rest.is_empty()) else { return Next::End };
        let border = (at / BLOCK_BYTES + 1) * BLOCK_BYTES;
        let end = border.min(self.bytes.len());
        if at % BLOCK_BYTES == 0 {
            let head = rest.strip_prefix(&MAGIC).and_then(|rest| rest.split_first_chunk::<8>());
            let ours = head.is_some_and(|(tid, _)| u64::from_le_bytes(*tid) == self.tid);
            return if ours { Next::Border(at + BLOCK_HEADER) } else { Next::Bad(end) };
        }
        let Some((word, payload)) = rest.split_first_chunk::<8>() else { return Next::Bad(end) };
        let word = u64::from_le_bytes(*word);
        if word == PAD_WORD {
            return Next::Border(end);
        }
        match record(word, payload, at) {
            Some(record) if record.end <= end => Next::Record(record),
            _ => Next::Bad(end),
        }
    }
}

#[inline]
fn record(word: u64, rest: &[u8], at: usize) -> Option<Record<'_>> {
    let [kind, flags, ..] = word.to_le_bytes();
    let (kind, known) = match kind {
        k if k == RecordKind::Captured as u8 => (RecordKind::Captured, 0),
        k if k == RecordKind::Message as u8 => (RecordKind::Message, Flags::MORE.0 | Flags::CONT.0),
        k if k == RecordKind::Meta as u8 => (RecordKind::Meta, 0),
        k if k == RecordKind::Site as u8 => (RecordKind::Site, 0),
        _ => return None,
    };
    if flags & !known != 0 {
        return None;
    }
    let len = usize::try_from(word >> 16 & MAX_PAYLOAD as u64).ok()?;
    let (ticks, payload) = rest.split_first_chunk::<8>()?;
    Some(Record {
        kind,
        flags: Flags(flags),
        site: u32::try_from(word >> 32).ok()?,
        ticks: Ticks(u64::from_le_bytes(*ticks)),
        payload: payload.get(..len)?,
        end: at + HEADER + usize::try_from(aligned(len as u64)).ok()?,
    })
}

/// What [`Decoder::decode`] has made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rendered {
    /// What is no record: where, and how many bytes.
    pub damaged: Vec<Range<usize>>,
    /// The last line has no line feed: its message goes on behind the range.
    pub open: bool,
}

/// Makes lines of the records of one file.
#[derive(Clone, Debug)]
pub struct Decoder {
    lines: Lines,
    /// All sites that were ever met: what they mean is parsed once.
    plans: Plans,
    /// Those that the block has defined, a bit each.
    defined: Vec<u64>,
    last: Ticks,
    most: Ticks,
    behind: bool,
    open: bool,
}

impl Decoder {
    /// For a file of thread `tid`.
    #[must_use]
    pub fn new(tid: u64) -> Decoder {
        Decoder {
            lines: Lines::new(tid),
            plans: Plans::default(),
            defined: Vec::new(),
            last: Ticks(0),
            most: Ticks(u64::MAX),
            behind: false,
            open: false,
        }
    }

    /// Appends the lines of the records from `from` on and before `until`, where given, as if all others were not
    /// there. `name` stands for the file in the `# damaged` lines of what is no record.
    ///
    /// Ticks that go back, or out of the range, which a sound file does not have, are brought back into it, and a
    /// `# backward` line says so: what is appended is sorted, whatever the file is. A message that the file does not
    /// end is ended, and told lost.
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
            match raw.next(at) {
                Next::End => break,
                Next::Border(end) => {
                    if at % BLOCK_BYTES == 0 {
                        self.defined.clear();
                    }
                    at = end;
                }
                Next::Record(record) => {
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
                        self.damaged(raw, at..record.end, name, &mut found, out);
                    }
                    at = record.end;
                }
                Next::Bad(end) => {
                    let end = self.next_sound(raw, end).min(range.end);
                    self.damaged(raw, at..end, name, &mut found, out);
                    at = end;
                }
            }
        }
        found.open = self.open;
        found
    }

    /// Appends the lines of as many of the next records as can be done at once; returns where they end.
    #[inline]
    fn many(&mut self, raw: Raw<'_>, range: Range<usize>, out: &mut Vec<u8>) -> usize {
        let mut usual = Usual { raw, decoder: self, at: range.start, range, last: self.last, next: None };
        self.lines.plain_lines(&mut usual, usize::MAX, out);
        let (end, last) = (usual.at, usual.last);
        if end > usual.range.start {
            (self.last, self.behind) = (last, false);
        }
        end
    }

    /// The sites that are defined in front of a position, in its block.
    fn define_before(&mut self, raw: Raw<'_>, position: usize) {
        self.defined.clear();
        let block = position / BLOCK_BYTES * BLOCK_BYTES;
        for (_, record) in raw.records(block).take_while(|(at, _)| *at < position) {
            if record.kind == RecordKind::Site {
                self.define(&record);
            }
        }
    }

    /// Where the next block begins that has its magic, from a border on.
    fn next_sound(&self, raw: Raw<'_>, mut border: usize) -> usize {
        while let Next::Bad(end) = raw.next(border) {
            border = end;
        }
        border
    }

    /// Appends what a record says; false where it cannot be read.
    #[inline]
    fn record(&mut self, record: &Record<'_>, out: &mut Vec<u8>) -> bool {
        match record.kind {
            RecordKind::Captured if self.is_defined(record.site) => {
                self.close(out);
                self.go_on_to(record.ticks, out);
                let plan = self.plans.get(record.site);
                plan.is_some_and(|plan| self.lines.captured(self.last, plan, record.payload, out))
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
            RecordKind::Captured | RecordKind::Meta | RecordKind::Pad => false,
        }
    }

    fn message(&mut self, record: &Record<'_>, out: &mut Vec<u8>) {
        if record.flags.has(Flags::CONT) {
            if !self.open {
                // Its beginning is in front of the range, or was dropped.
                return;
            }
        } else {
            self.close(out);
            self.go_on_to(record.ticks, out);
            self.lines.message(self.last, out);
        }
        self.lines.text(self.last, record.payload, out);
        self.open = record.flags.has(Flags::MORE);
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

    /// The same, and says that it is missing.
    fn close_torn(&mut self, out: &mut Vec<u8>) {
        if self.open {
            self.close(out);
            let torn = Meta::Lost { records: 1, reason: LossReason::Torn };
            self.lines.meta(self.last, |out| torn.write(out), out);
        }
    }

    /// The ticks of the next line.
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

    #[inline]
    fn is_defined(&self, site: u32) -> bool {
        let bits = self.defined.get(site as usize / 64).copied().unwrap_or(0);
        bits >> (site % 64) & 1 != 0
    }

    fn define(&mut self, record: &Record<'_>) -> bool {
        if self.plans.entry(record.site) != Some(record.payload) {
            let site = Site::parse(record.payload).filter(|site| site.id == record.site);
            if !site.is_some_and(|site| self.plans.add(&site)) {
                return false;
            }
        }
        let index = record.site as usize / 64;
        if self.defined.len() <= index {
            self.defined.resize(index + 1, 0);
        }
        self.defined[index] |= 1 << (record.site % 64);
        true
    }

    /// Shows what is no record.
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
struct Usual<'d, 'a> {
    raw: Raw<'a>,
    decoder: &'d Decoder,
    range: Range<usize>,
    at: usize,
    last: Ticks,
    next: Option<(Ticks, usize)>,
}

impl Plains for Usual<'_, '_> {
    #[inline(always)]
    fn peek(&mut self) -> Option<Plain<'_>> {
        if self.at >= self.range.end {
            return None;
        }
        let Next::Record(record) = self.raw.next(self.at) else { return None };
        let plan = match record.kind {
            RecordKind::Captured if self.decoder.is_defined(record.site) => {
                Some(self.decoder.plans.get(record.site)?)
            }
            RecordKind::Message if record.flags == Flags::NONE => None,
            _ => return None,
        };
        if record.ticks < self.last || record.ticks > self.decoder.most {
            return None;
        }
        self.next = Some((record.ticks, record.end));
        Some(Plain { ticks: record.ticks, plan, bytes: record.payload })
    }

    #[inline(always)]
    fn advance(&mut self) {
        if let Some((ticks, end)) = self.next {
            (self.last, self.at) = (ticks, end);
        }
    }
}

/// Whether this can be the payload of one line.
#[must_use]
pub fn is_clean(payload: &[u8]) -> bool {
    std::str::from_utf8(payload).is_ok_and(|text| !text.chars().any(|c| c.is_control() && c != '\t'))
}
