//! The writer of raw files: it writes records unchanged, in blocks that can be read alone.

use crate::line::Ticks;
use crate::meta::Meta;
use crate::plans::Plans;
use crate::raw::{BLOCK, Defined, MAGIC};
use crate::record::{HEADER, MAX_PAYLOAD, PAD_WORD, Record, RecordKind, Records, aligned};
use crate::states::{self, ThreadState};

/// A writer of one thread's records in the form of a raw file.
#[derive(Clone, Debug)]
pub struct Writer {
    tid: u64,
    /// The position in the file, in bytes, of the beginning of the output vector.
    base: u64,
    defined: Defined,
}

impl Writer {
    /// Returns a writer for an empty file of thread `tid`.
    #[must_use]
    pub fn new(tid: u64) -> Writer {
        Writer { tid, base: 0, defined: Defined::default() }
    }

    /// Makes the writer continue at this position of the file, in bytes, with an empty output vector.
    pub(crate) fn begin_at(&mut self, position: u64) {
        if position != self.base {
            // The block may contain other bytes than those that this writer has written, so no site
            // counts as defined.
            self.base = position;
            self.defined.clear();
        }
    }

    /// Advances the position in the file by the `bytes` bytes of the output vector, which were written there. The
    /// output vector must be empty again before the next record.
    pub fn written(&mut self, bytes: usize) {
        self.base += bytes as u64;
    }

    /// Copies a record of another file, whose sites are in `plans`. Does not copy definitions of sites, but
    /// writes the definitions that are needed. Returns false if captured arguments have a site that is not in `plans`.
    pub fn copy(&mut self, record: &Record<'_>, plans: &Plans, out: &mut Vec<u8>) -> bool {
        match record.kind {
            RecordKind::Captured => {
                return self.captured(record.site(), record.ticks, record.payload, plans, out);
            }
            RecordKind::Site => {}
            _ => self.write_without_site(record, record.ticks, plans, out),
        }
        true
    }

    /// Writes a record of metadata, which has the payload of a `#` line.
    pub(crate) fn meta(&mut self, ticks: Ticks, meta: &Meta, out: &mut Vec<u8>) {
        let mut payload = Vec::new();
        meta.write(&mut payload);
        // Only a line of a hostile manifest is longer.
        payload.truncate(MAX_PAYLOAD);
        self.record(word(RecordKind::Meta, 0, payload.len()), ticks, &payload, out);
    }

    /// Appends the record of a change of a thread's state.
    pub(crate) fn thread_state(&mut self, ticks: Ticks, state: &ThreadState, out: &mut Vec<u8>) {
        let mut payload = [0; states::PAYLOAD];
        for (bytes, word) in payload.chunks_exact_mut(8).zip(state.payload()) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        self.record(state.word(), ticks, &payload, out);
    }

    /// Copies as many whole records as can be copied at once. Stops before a record that
    /// - is not `wanted`,
    /// - needs a definition of its site,
    /// - would cross the border of a block,
    /// - has smaller ticks than the record before it, or
    /// - would make `out` longer than `limit` bytes.
    ///
    /// Returns the number of copied records and the ticks of the last one. `last` are the ticks of the record before
    /// the first one.
    pub(crate) fn copy_run(
        &mut self,
        records: &mut Records<'_>,
        mut last: Ticks,
        plans: &Plans,
        wanted: impl Fn(&Record<'_>) -> bool,
        limit: usize,
        out: &mut Vec<u8>,
    ) -> (u64, Ticks) {
        let room = self.bytes_to_border(out);
        if room == BLOCK {
            return (0, last);
        }
        let room = usize::try_from(room).unwrap_or(usize::MAX).min(limit.saturating_sub(out.len()));
        let mut count = 0;
        let bytes = records.take_whole(room, |record| {
            let next = self.is_site_defined(record, plans) && record.ticks >= last && wanted(record);
            if next {
                (count, last) = (count + 1, record.ticks);
            }
            next
        });
        out.extend_from_slice(bytes);
        (count, last)
    }

    /// Returns whether the record can be appended without a definition of its site: it has no site, the block already
    /// defines the site, or the site is unknown and the record has a meaning without it.
    #[inline]
    fn is_site_defined(&self, record: &Record<'_>, plans: &Plans) -> bool {
        let site = record.site();
        site == 0
            || self.defined.has(site)
            || (record.kind != RecordKind::Captured && plans.entry(site).is_none())
    }

    /// Writes, with the given ticks, a record that has a meaning without its site: a function, a
    /// message, or a piece of a message. So the site need not be in `plans`.
    pub(crate) fn write_without_site(
        &mut self,
        record: &Record<'_>,
        ticks: Ticks,
        plans: &Plans,
        out: &mut Vec<u8>,
    ) {
        let (site, len) = (record.site(), record.payload.len());
        if site != 0 && !record.continues() {
            self.make_room(len, out);
            if let Some(entry) = plans.entry(site).filter(|_| !self.defined.has(site)) {
                self.define(site, entry, len, out);
            }
        }
        self.record(record.word(), ticks, record.payload, out);
    }

    /// Writes captured arguments; returns false if the site is not in `plans`.
    #[inline]
    pub(crate) fn captured(
        &mut self,
        site: u32,
        ticks: Ticks,
        arguments: &[u8],
        plans: &Plans,
        out: &mut Vec<u8>,
    ) -> bool {
        let Some(entry) = plans.entry(site) else { return false };
        self.make_room(arguments.len(), out);
        if !self.defined.has(site) {
            self.define(site, entry, arguments.len(), out);
        }
        self.record(word(RecordKind::Captured, site, arguments.len()), ticks, arguments, out);
        true
    }

    /// Defines a site in the block that a record with `len` bytes of payload will be in.
    #[cold]
    fn define(&mut self, site: u32, entry: &[u8], len: usize, out: &mut Vec<u8>) {
        if (record_bytes(entry.len()) + record_bytes(len)) as u64 > self.bytes_to_border(out) {
            self.next_block(out);
        }
        self.record(word(RecordKind::Site, site, entry.len()), Ticks(0), entry, out);
        self.defined.add(site);
    }

    #[inline]
    fn record(&mut self, word: u64, ticks: Ticks, payload: &[u8], out: &mut Vec<u8>) {
        self.make_room(payload.len(), out);
        out.reserve(record_bytes(payload.len()));
        out.extend_from_slice(&word.to_le_bytes());
        out.extend_from_slice(&ticks.0.to_le_bytes());
        out.extend_from_slice(payload);
        let pad = payload.len().wrapping_neg() % 8;
        out.extend_from_slice(&[0; 8][..pad]);
    }

    /// Ensures that a record with `len` bytes of payload has room in the block.
    #[inline]
    fn make_room(&mut self, len: usize, out: &mut Vec<u8>) {
        let room = self.bytes_to_border(out);
        if room == BLOCK || record_bytes(len) as u64 > room {
            self.next_block(out);
        }
    }

    #[inline]
    fn bytes_to_border(&self, out: &[u8]) -> u64 {
        BLOCK - (self.base + out.len() as u64) % BLOCK
    }

    #[cold]
    fn next_block(&mut self, out: &mut Vec<u8>) {
        let room = self.bytes_to_border(out);
        if room < BLOCK {
            out.extend_from_slice(&PAD_WORD.to_le_bytes());
            #[expect(clippy::cast_possible_truncation, reason = "less than a block")]
            out.resize(out.len() + room as usize - 8, 0);
        }
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&self.tid.to_le_bytes());
        self.defined.clear();
    }
}

/// Returns the number of bytes of a record with `len` bytes of payload.
#[inline]
fn record_bytes(len: usize) -> usize {
    HEADER + aligned(len as u64) as usize
}

/// Returns word 0 of a record without flags.
#[inline]
fn word(kind: RecordKind, site: u32, len: usize) -> u64 {
    debug_assert!(len <= MAX_PAYLOAD);
    u64::from(site) << 32 | ((len & MAX_PAYLOAD) as u64) << 16 | kind as u64
}
