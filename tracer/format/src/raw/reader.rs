//! The reader of raw files, which finds records, one after the other and by time.
//!
//! The reader treats all bytes as hostile, and expects that they may change while it reads them: it never relies on an
//! earlier read of the same bytes.

use super::{BLOCK_BYTES, BLOCK_HEADER, MAGIC};
use crate::escape::is_harmless;
use crate::line::Ticks;
use crate::meta::{Meta, Thread};
use crate::record::{Flags, HEADER, PAD_WORD, Record, RecordKind, aligned};

/// The bytes of a raw file.
#[derive(Clone, Copy, Debug)]
pub struct Raw<'a> {
    pub(super) bytes: &'a [u8],
    tid: u64,
    /// Whether a record may be of an unknown kind. If not, such a record is damage.
    has_others: bool,
}

/// The item that begins at a position of a raw file.
#[derive(Clone, Copy, Debug)]
pub(super) enum RawItem<'a> {
    End,
    /// Bytes that are not a record, up to this position: the beginning of the next block, or the end of the file.
    Bad(usize),
    /// The beginning of a block, or a pad; the next record may begin at this position.
    Border(usize),
    /// A record, and the position where the next one may begin.
    Record(Record<'a>, usize),
}

impl<'a> Raw<'a> {
    /// Returns the file with these bytes; `None` if they do not begin like a raw file.
    #[must_use]
    pub fn parse(bytes: &'a [u8]) -> Option<Raw<'a>> {
        let (tid, records) = bytes.strip_prefix(&MAGIC)?.split_first_chunk::<8>()?;
        let earlier = [&b"run version=1 "[..], b"run version=2 "];
        let first = records.get(HEADER..).unwrap_or_default();
        let has_others = !earlier.iter().any(|of_earlier| first.starts_with(of_earlier));
        Some(Raw { bytes, tid: u64::from_le_bytes(*tid), has_others })
    }

    /// Returns the id of the file's thread.
    #[must_use]
    pub fn tid(&self) -> u64 {
        self.tid
    }

    /// Returns the ticks of the first record, and its content if it is a record of metadata; `None` if the first block
    /// has no record.
    #[must_use]
    pub fn first(&self) -> Option<(Ticks, Option<Meta>)> {
        let (ticks, payload) = self.first_payload()?;
        Some((ticks, payload.and_then(Meta::parse)))
    }

    /// Returns the ticks of the first record, and its payload if it is that of a `#` line; `None` if the
    /// first block has no record.
    #[must_use]
    pub fn first_payload(&self) -> Option<(Ticks, Option<&'a [u8]>)> {
        let (_, record) =
            self.records(0).take_while(|(at, _)| *at < BLOCK_BYTES).find(|(_, r)| r.has_ticks())?;
        let is_meta = record.kind == RecordKind::Meta && is_clean(record.payload);
        Some((record.ticks, is_meta.then_some(record.payload)))
    }

    /// Returns the thread that the second record describes; `None` if it does not describe one.
    #[must_use]
    pub fn thread(self) -> Option<Thread> {
        let mut metas = self.records(0).take(2).filter(|(_, record)| record.kind == RecordKind::Meta);
        metas.find_map(|(_, record)| match Meta::parse(record.payload) {
            Some(Meta::Thread(thread)) => Some(thread),
            _ => None,
        })
    }

    /// Returns the ticks of the last record. In a damaged file, whose ticks go back, the result is the greatest ticks
    /// for which [`position`](Raw::position) finds a record: for greater ticks, `position` returns the end of the file.
    #[must_use]
    pub fn last(&self) -> Option<Ticks> {
        let mut block = self.bytes.len().saturating_sub(1) / BLOCK_BYTES * BLOCK_BYTES;
        let mut last = loop {
            let in_block = self.records(block).take_while(|(at, _)| *at < block + BLOCK_BYTES);
            let in_block = in_block.filter(|(_, record)| record.has_ticks());
            if let Some(greatest) = in_block.map(|(_, record)| record.ticks).max() {
                break greatest;
            }
            block = block.checked_sub(BLOCK_BYTES)?;
        };
        // This is the binary search for ticks that are greater than all others.
        let (mut low, mut high) = (0usize, self.bytes.len().div_ceil(BLOCK_BYTES));
        while high - low > 1 {
            let middle = low.midpoint(high);
            match self.first_of(middle) {
                Some(first) => (low, last) = (middle, last.max(first)),
                None => high = middle,
            }
        }
        Some(last)
    }

    /// Returns the position of the first record whose ticks are not below `ticks`, in bytes; the end if
    /// there is none.
    ///
    /// Cost: reads the first records of a few blocks, and all records of one.
    #[must_use]
    pub fn position(&self, ticks: Ticks) -> usize {
        let at_least = |record: &Record<'_>| record.has_ticks() && record.ticks >= ticks;
        let found = self.records(self.block_of(ticks) * BLOCK_BYTES).find(|(_, record)| at_least(record));
        found.map_or(self.bytes.len(), |(at, _)| at)
    }

    /// Returns a position near the result of [`position`](Raw::position), in the same block. It is interpolated between
    /// the first ticks of two blocks, which is fast enough for frequent calls. Greater ticks never get a smaller
    /// position.
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

    /// Returns the last record, if the last block ends with a complete record and nothing follows it.
    #[must_use]
    pub fn last_record(&self) -> Option<Record<'a>> {
        let block = self.bytes.len().saturating_sub(1) / BLOCK_BYTES * BLOCK_BYTES;
        let (at, record) = self.records(block).last()?;
        (end_of(at, &record) == self.bytes.len()).then_some(record)
    }

    /// Returns the position where the last message begins, in bytes, if its last piece is missing.
    #[must_use]
    pub fn open_message(&self) -> Option<usize> {
        let last = self.position(self.last()?);
        let mut open = None;
        for (at, record) in self.records(last) {
            match record.kind {
                RecordKind::Message if record.continues() => {
                    open = open.filter(|_| record.flags().has(Flags::MORE));
                }
                RecordKind::Message => open = record.flags().has(Flags::MORE).then_some(at),
                RecordKind::Site => {}
                _ => open = None,
            }
        }
        open
    }

    /// Returns the length of the file in bytes, not counting an incomplete record or pad at its end.
    #[must_use]
    pub fn without_torn_tail(&self) -> usize {
        let mut at = self.bytes.len().saturating_sub(1) / BLOCK_BYTES * BLOCK_BYTES;
        loop {
            match self.next(at) {
                RawItem::End | RawItem::Bad(_) => return at.min(self.bytes.len()),
                RawItem::Border(end) if at % BLOCK_BYTES != 0 && end % BLOCK_BYTES != 0 => return at,
                RawItem::Border(end) => at = end,
                RawItem::Record(_, end) => at = end,
            }
        }
    }

    /// Returns the index of the block in which the records before `ticks` end; 0 if all records are at or after
    /// `ticks`.
    fn block_of(&self, ticks: Ticks) -> usize {
        let (mut low, mut high) = (0, self.bytes.len().div_ceil(BLOCK_BYTES));
        while high - low > 1 {
            let middle = low.midpoint(high);
            // A block without records counts like the next one.
            if self.first_of(middle).is_some_and(|first| first < ticks) {
                low = middle;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Returns the ticks of the first record at or after the start of a block.
    fn first_of(&self, block: usize) -> Option<Ticks> {
        self.records(block * BLOCK_BYTES)
            .find(|(_, record)| record.has_ticks())
            .map(|(_, record)| record.ticks)
    }

    /// Returns the records from a position on, with their positions; skips bytes that are not a
    /// record.
    pub fn records(self, mut at: usize) -> impl Iterator<Item = (usize, Record<'a>)> {
        std::iter::from_fn(move || {
            loop {
                match self.next(at) {
                    RawItem::End => return None,
                    RawItem::Bad(end) | RawItem::Border(end) => at = end,
                    RawItem::Record(record, end) => {
                        let found = at;
                        at = end;
                        return Some((found, record));
                    }
                }
            }
        })
    }

    /// Returns the record of a function's entry or exit at a position; `None` if no such record begins there.
    #[inline(always)]
    pub(super) fn call(&self, at: usize) -> Option<Record<'static>> {
        let in_block = at % BLOCK_BYTES;
        if in_block == 0 || in_block + HEADER > BLOCK_BYTES {
            return None;
        }
        let (word, rest) = self.bytes.get(at..)?.split_first_chunk::<8>()?;
        let ticks = rest.first_chunk::<8>()?;
        Record::call(u64::from_le_bytes(*word), Ticks(u64::from_le_bytes(*ticks)))
    }

    #[inline]
    pub(super) fn next(&self, at: usize) -> RawItem<'a> {
        let Some(rest) = self.bytes.get(at..).filter(|rest| !rest.is_empty()) else { return RawItem::End };
        let border = (at / BLOCK_BYTES + 1) * BLOCK_BYTES;
        let end = border.min(self.bytes.len());
        if at % BLOCK_BYTES == 0 {
            let head = rest.strip_prefix(&MAGIC).and_then(|rest| rest.split_first_chunk::<8>());
            let ours = head.is_some_and(|(tid, _)| u64::from_le_bytes(*tid) == self.tid);
            return if ours { RawItem::Border(at + BLOCK_HEADER) } else { RawItem::Bad(end) };
        }
        let Some((word, payload)) = rest.split_first_chunk::<8>() else { return RawItem::Bad(end) };
        let word = u64::from_le_bytes(*word);
        if word == PAD_WORD {
            return RawItem::Border(end);
        }
        match Record::read(word, payload).map(|record| (record, end_of(at, &record))) {
            Some((record, behind))
                if behind <= end && (record.kind != RecordKind::Other || self.has_others) =>
            {
                RawItem::Record(record, behind)
            }
            _ => RawItem::Bad(end),
        }
    }
}

/// Returns the position after a record that begins at `at`.
#[inline]
fn end_of(at: usize, record: &Record<'_>) -> usize {
    at.saturating_add(usize::try_from(aligned(record.bytes() as u64)).unwrap_or(usize::MAX))
}

/// Returns whether `payload` can be the payload of one line: it has no bytes that must be escaped.
#[must_use]
pub fn is_clean(payload: &[u8]) -> bool {
    is_harmless(payload)
}
