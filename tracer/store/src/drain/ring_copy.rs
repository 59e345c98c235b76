//! Copies of a ring that its producer may overwrite, which are checked after copying.
//!
//! The copies are for readers for which the producer does not wait: the flusher, if the ring is a flight recorder, and
//! observers from other processes. The method is that of a sequence lock, with the producer's `reserve` as the
//! sequence.
//!
//! A producer that waits for the flusher does not overwrite records that the flusher has not published as written. So
//! an observer copies the whole ring, and then reads the position up to which the flusher has published records as
//! written: from that position on, the copy is valid.

use std::ops::Range;

use trace_format::meta::LossReason;
use trace_format::record::{Record, Records};
use trace_format::render::Renderer;
use trace_format::ring::{CommittedEnd, RingError, Written, oldest, readable_to, survivors};

use crate::memory::Memory;

/// The number of times that copying a ring is tried, if each time the producer overwrites all of it meanwhile.
const TRIES: u32 = 100;

/// A copy of the records that a ring and its nested ring contained at one moment, without those that were overwritten.
#[derive(Debug)]
pub struct Survivors {
    main: RingCopy,
    nested: RingCopy,
    /// The number of messages that the thread had ever committed to the ring and the nested ring, up to the ends of the
    /// copies.
    pub committed: u64,
}

/// The ring or nested ring that is to be copied.
struct Copied<'a> {
    written: &'a Written,
    /// The version of the ring's layout.
    layout: u32,
    /// The size of the ring's data in bytes.
    capacity: u64,
    /// The size of the ring's blocks in bytes.
    block: u64,
    /// The function that copies the bytes at the given positions out of the ring.
    bytes: &'a dyn Fn(Range<u64>) -> Vec<u8>,
}

/// A copy of the records of a ring or nested ring.
#[derive(Debug)]
struct RingCopy {
    bytes: Vec<u8>,
    /// The position in the ring of the first byte of `bytes`.
    start: u64,
    /// Whether records were overwritten between the position from which a copy was requested and `start`.
    has_gap: bool,
    block: u64,
    /// The number of messages that the thread had ever committed, up to the end of the copy.
    messages: u64,
}

impl Survivors {
    /// Copies the records from the positions `consumed` in the ring and `nested_consumed` in the nested ring on.
    ///
    /// # Errors
    /// The ring's positions are impossible.
    pub fn copy(memory: &Memory, consumed: u64, nested_consumed: u64) -> Result<Survivors, RingError> {
        let (header, geometry) = (memory.header(), memory.geometry());
        let layout = header.layout();
        // First the ring, then the nested ring, as in [`Drain::portion`](super::Drain::portion).
        let copy = if memory.overwrites() { RingCopy::copy_survivors } else { RingCopy::copy_whole_ring };
        let main = Copied {
            written: &header.main,
            layout,
            capacity: geometry.capacity,
            block: geometry.block,
            bytes: &|range| memory.copy(range),
        };
        let nested = Copied {
            written: &header.nested,
            layout,
            capacity: geometry.nested_capacity,
            block: geometry.nested_block,
            bytes: &|range| memory.copy_nested(range),
        };
        let (main, nested) = (copy(&main, consumed)?, copy(&nested, nested_consumed)?);
        let committed = main.messages.wrapping_add(nested.messages);
        Ok(Survivors { main, nested, committed })
    }

    /// Returns the position where the copy of the ring ends.
    pub fn end(&self) -> u64 {
        self.main.range().end
    }

    /// Returns whether records after the positions that were given to [`Survivors::copy`] were overwritten.
    pub fn has_gap(&self) -> bool {
        self.main.has_gap || self.nested.has_gap
    }

    /// Returns the records of the copies from the given positions on. If the beginning of the first message was
    /// overwritten, leaves out the rest of this message.
    pub fn records(&self, consumed: u64, nested_consumed: u64) -> (Records<'_>, Records<'_>) {
        (self.main.records(consumed), self.nested.records(nested_consumed))
    }

    /// Returns the type number of a record in the copies whose type is reserved for later versions, if there is one:
    /// see [`RESERVED`](trace_format::record::RESERVED).
    pub fn unknown_kind(&self, consumed: u64, nested_consumed: u64) -> Option<u8> {
        let (mut main, mut nested) = self.records(consumed, nested_consumed);
        main.by_ref().for_each(drop);
        nested.by_ref().for_each(drop);
        main.unknown().or(nested.unknown())
    }

    /// Reports as lost the messages that were overwritten since the last report. These are all committed messages
    /// except three groups: those that are or were in a file, those that were reported as lost before, and those in
    /// this copy.
    pub fn report_overwritten(&self, renderer: &mut Renderer, out: &mut Vec<u8>) {
        use LossReason::{Damaged, FileRemoved, Overwritten, Rotated, Torn};
        if self.has_gap() {
            renderer.close_torn(out);
        }
        let state = renderer.state();
        let on_file =
            [Torn, Damaged, Rotated, FileRemoved, Overwritten].map(|reason| state.lost[reason as usize]);
        let there = [state.records, state.in_earlier_files.records, self.messages()];
        let known = on_file.into_iter().chain(there).fold(0, u64::saturating_add);
        let lost = self.committed.saturating_sub(known);
        if lost > 0 {
            // A hostile ring may be inside a message nevertheless.
            renderer.close_torn(out);
            renderer.lost(lost, Overwritten, out);
        }
    }

    /// Returns the number of messages in the copied parts of the ring.
    pub fn messages(&self) -> u64 {
        let (main, nested) = self.records(0, 0);
        main.chain(nested).filter(Record::counts).count() as u64
    }
}

impl RingCopy {
    fn copy_survivors(of: &Copied<'_>, consumed: u64) -> Result<RingCopy, RingError> {
        let mut tries = 0;
        loop {
            let CommittedEnd { position, messages } = of.written.end(of.layout);
            let range = survivors(of.written, position, consumed, of.capacity, of.block)?;
            let mut bytes = (of.bytes)(range.clone());
            let start = oldest(of.written, of.capacity, of.block).clamp(range.start, range.end);
            tries += 1;
            // While this reads, a busy producer may have overwritten the whole ring: then there are newer records.
            if start < range.end || range.is_empty() || tries == TRIES {
                let overwritten = usize::try_from(start - range.start).unwrap_or(usize::MAX).min(bytes.len());
                bytes.drain(..overwritten);
                return Ok(RingCopy { bytes, start, has_gap: start > consumed, block: of.block, messages });
            }
        }
    }

    fn copy_whole_ring(of: &Copied<'_>, consumed: u64) -> Result<RingCopy, RingError> {
        let CommittedEnd { position, messages } = of.written.end(of.layout);
        let range = readable_to(position, consumed, of.capacity)?;
        let bytes = (of.bytes)(range);
        Ok(RingCopy { bytes, start: consumed, has_gap: false, block: of.block, messages })
    }

    fn range(&self) -> Range<u64> {
        self.start..self.start + self.bytes.len() as u64
    }

    fn records(&self, from: u64) -> Records<'_> {
        let from = from.clamp(self.start, self.range().end);
        let skipped = usize::try_from(from - self.start).unwrap_or(usize::MAX);
        let mut records = Records::new([self.bytes.get(skipped..).unwrap_or(&[]), &[]], from, self.block);
        if self.has_gap && from == self.start {
            while let Some(piece) = records.peek().filter(Record::continues) {
                records.advance(&piece);
            }
        }
        records
    }
}
