//! The producer's position in a ring or nested ring: room, blocks, commits.
//!
//! The code runs on the traced thread. It takes no lock, allocates nothing, and makes no system call.
#![allow(unsafe_code, reason = "calls of the raw access in `memory`, and pointers that a fork wipes")]

use std::cell::Cell;
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering, fence};

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering, fence};
use trace_format::record::{ALIGN, Flags, HEADER, PAD_WORD, aligned, captured_word, message_word};
use trace_format::ring::Written;
use trace_store::memory::Data;

/// The minimum room, in bytes, in which a record is begun. If the rest of a block is shorter, it is filled by a pad,
/// and the record begins in the next block.
pub(crate) const MIN_ROOM: u64 = 64;

/// The producer's own view of a ring, or of a nested ring.
///
/// All fields are zero if the lane is not bound, or if a fork has wiped it: then [`Lane::has_room`] is false, and
/// nothing else may be called.
///
/// `limit` has two writers. The producer stores the position up to which it may write; the flusher stores 0 when it
/// closes the ring, which makes the producer check and find it closed. Both stores are relaxed: the producer checks the
/// flag `closed` after its store (see [`Producer::was_closed`](super::Producer::was_closed)).
#[derive(Debug)]
pub(crate) struct Lane {
    /// The position at which the next record begins: the head (the end of the published records), or the end of a pad
    /// that is not published yet.
    pos: Cell<u64>,
    /// The ticks of the last record of this lane.
    last: Cell<u64>,
    /// The position below which records may be written without looking at the consumer's position.
    limit: AtomicU64,
    data: Data,
    block: u64,
    /// True if the producer does not wait for the consumer: the oldest records are overwritten.
    overwrite: bool,
    written: *const Written,
    consumed: *const AtomicU64,
}

/// Room for one record or piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reservation {
    /// The position at which the record or piece begins.
    pub start: u64,
    /// The largest position at which the record or piece may end.
    pub limit: u64,
    /// The number of bytes before `start` that the consumer, the flusher, has not freed yet.
    pub pending: u64,
}

impl Reservation {
    /// Returns the part of the room that lies below `end`.
    pub(crate) fn within(self, end: u64) -> Reservation {
        Reservation { limit: self.limit.min(end), ..self }
    }
}

impl Lane {
    /// Makes a lane for the given memory. The lane's position is the memory's head.
    ///
    /// # Safety
    /// `data`, `written` and `consumed` belong together and outlive every use of the lane; there is one lane
    /// for them at a time.
    pub(crate) unsafe fn new(
        data: Data,
        block: u64,
        overwrite: bool,
        written: *const Written,
        consumed: *const AtomicU64,
    ) -> Lane {
        // SAFETY: valid by the caller's promise.
        let head = unsafe { &*written }.head();
        Lane {
            pos: Cell::new(head),
            last: Cell::new(0),
            limit: AtomicU64::new(0),
            data,
            block,
            overwrite,
            written,
            consumed,
        }
    }

    /// Returns the part of the ring's header that the producer writes: its positions and counters.
    #[inline(always)]
    pub(crate) fn written(&self) -> &Written {
        // SAFETY: bound, by the type's rule, to memory that outlives the lane.
        unsafe { &*self.written }
    }

    /// Returns the size of the ring in bytes.
    pub(crate) fn capacity(&self) -> u64 {
        self.data.capacity()
    }

    /// Returns the size of a block in bytes. No record can be longer.
    pub(crate) fn block(&self) -> u64 {
        self.block
    }

    /// Returns the number of published bytes that the consumer has not freed.
    pub(crate) fn unconsumed(&self) -> u64 {
        // SAFETY: bound, by the type's rule. Relaxed: this only decides how long a thread waits.
        let consumed = unsafe { &*self.consumed }.load(Ordering::Relaxed);
        self.written().head().saturating_sub(consumed)
    }

    /// Returns the position at which the next record begins.
    #[inline(always)]
    pub(crate) fn pos(&self) -> u64 {
        self.pos.get()
    }

    /// Returns the position up to which the producer may write without looking for more room.
    #[inline(always)]
    pub(crate) fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }

    /// Returns whether a record can be begun without looking for more room. Returns false if the lane is unbound.
    #[inline(always)]
    pub(crate) fn has_room(&self) -> bool {
        self.pos.get() + MIN_ROOM <= self.limit.load(Ordering::Relaxed)
    }

    /// Returns whether a record of `bytes` bytes can be written without looking for more room. Returns false if the
    /// lane is unbound.
    #[inline(always)]
    pub(crate) fn has_room_for(&self, bytes: u64) -> bool {
        self.pos.get() + bytes <= self.limit.load(Ordering::Relaxed)
    }

    /// Sets the position and the limit for the next record to the room that [`Lane::find`] has found.
    pub(crate) fn take(&self, reservation: Reservation) {
        self.pos.set(reservation.start);
        self.limit.store(reservation.limit, Ordering::Relaxed);
    }

    /// Sets the limit to the end of the room for a message's next piece; the position stays at the message's beginning.
    pub(crate) fn limit_to(&self, reservation: Reservation) {
        self.limit.store(reservation.limit, Ordering::Relaxed);
    }

    /// Makes the producer look for room again at its next record. This is the only function of the type that the
    /// flusher may call.
    pub(crate) fn revoke(&self) {
        self.limit.store(0, Ordering::Relaxed);
    }

    /// Returns the position at which a record of `need` bytes ends if [`Lane::find`] finds room for the record at the
    /// position `from` or, if the record does not fit into the rest of that block, at the beginning of the next block.
    pub(crate) fn end_of(&self, from: u64, need: u64) -> u64 {
        let border = self.border_after(from);
        if border - from < need { border + need } else { from + need }
    }

    fn border_after(&self, position: u64) -> u64 {
        (position / self.block + 1) * self.block
    }

    /// Looks for room of at least `need` bytes, at most a block, from position `from` on, where the last record or
    /// piece ended. Returns `None` if the ring is full.
    ///
    /// If the rest of a block is too short, fills it with a pad. At the beginning of a block, first advances the
    /// position `reserve` in the ring's header: by that, late readers notice that the block is overwritten.
    #[cold]
    pub(crate) fn find(&self, from: u64, need: u64) -> Option<Reservation> {
        // SAFETY: bound, by the type's rule. Acquire: the consumer has read the records that it frees.
        let consumed = if self.overwrite { from } else { unsafe { &*self.consumed }.load(Ordering::Acquire) };
        let free_end = consumed + self.data.capacity();
        let mut start = from;
        let mut border = self.border_after(start);
        if border - start < need {
            if border > free_end {
                return None;
            }
            // SAFETY: this is the producer; the pad is aligned, not below the head, and below `free_end`.
            unsafe { self.data.write_word(start, PAD_WORD) };
            start = border;
            border += self.block;
        }
        if start + need > free_end {
            return None;
        }
        if start % self.block == 0 {
            // Before anything is written in the block, for readers that are late; see `trace_format::ring`.
            let reserve = &self.written().reserve;
            reserve.store(border.max(reserve.load(Ordering::Relaxed)), Ordering::Relaxed);
            fence(Ordering::Release);
        }
        Some(Reservation { start, limit: border.min(free_end), pending: start.saturating_sub(consumed) })
    }

    /// Writes payload bytes at `position`.
    ///
    /// # Safety
    /// The range lies in the reservation that was found last, after the header of its record.
    #[inline(always)]
    pub(crate) unsafe fn write(&self, position: u64, bytes: &[u8]) {
        // SAFETY: a reservation is the producer's own space and inside one block.
        unsafe { self.data.write_bytes(position, bytes) };
    }

    /// Writes as [`Lane::write`] does, but faster for a few bytes.
    ///
    /// # Safety
    /// The same as for [`Lane::write`].
    #[inline(always)]
    pub(crate) unsafe fn write_short(&self, position: u64, bytes: &[u8]) {
        // SAFETY: as in `write`.
        unsafe { self.data.write_short(position, bytes) };
    }

    /// Returns a copy of the `N` bytes before `position`.
    ///
    /// # Safety
    /// The bytes were written by [`Lane::write`] into the current reservation.
    pub(crate) unsafe fn written_before<const N: usize>(&self, position: u64) -> [u8; N] {
        // SAFETY: by the caller's promise.
        unsafe { self.data.read_back(position - N as u64) }
    }

    /// Writes the header of the piece from `start` to `end`; returns the position at which the next record may begin.
    ///
    /// # Safety
    /// `start` is the start of the reservation that was found last and `end` lies in that reservation, at least a
    /// header behind `start`.
    #[inline(always)]
    pub(crate) unsafe fn seal(&self, site: u32, start: u64, end: u64, ticks: u64, flags: Flags) -> u64 {
        let len = (end - start) as usize - HEADER;
        // SAFETY: both words lie in the reservation, which is aligned and the producer's own.
        unsafe {
            self.data.write_word(start, message_word(site, flags, len));
            self.data.write_word(start + ALIGN as u64, ticks);
        }
        aligned(end)
    }

    /// Writes a message of a `site` (0: no site) at the lane's position: the header, and the text. Returns the position
    /// at which the next record may begin.
    ///
    /// # Safety
    /// The lane has room for the header and the text.
    #[inline(always)]
    pub(crate) unsafe fn write_message(&self, site: u32, ticks: u64, text: &str) -> u64 {
        let start = self.pos.get();
        let at = start + HEADER as u64;
        // SAFETY: header and text lie in the reservation that was found last, by the caller's promise.
        unsafe {
            self.write_short(at, text.as_bytes());
            self.seal(site, start, at + text.len() as u64, ticks, Flags::NONE)
        }
    }

    /// Writes the captured arguments of a site at the lane's position: the header, and `size` bytes of payload, which
    /// `write` fills in. Returns the position at which the next record may begin.
    ///
    /// # Safety
    /// The lane has room for the header and `size` bytes; `size` is at most [`MAX_PAYLOAD`].
    ///
    /// [`MAX_PAYLOAD`]: trace_format::record::MAX_PAYLOAD
    #[inline(always)]
    pub(crate) unsafe fn capture(
        &self,
        site: u32,
        ticks: u64,
        size: usize,
        write: impl FnOnce(&mut [u8]),
    ) -> u64 {
        let start = self.pos.get();
        // SAFETY: header and payload lie in the reservation that was found last, by the caller's promise; it
        // is aligned, and the producer's own.
        let (header, payload) = unsafe { self.data.own(start, HEADER + size) }.split_at_mut(HEADER);
        header[..ALIGN].copy_from_slice(&captured_word(site, size).to_le_bytes());
        header[ALIGN..].copy_from_slice(&ticks.to_le_bytes());
        write(payload);
        aligned(start + (HEADER + size) as u64)
    }

    /// Writes a record at the lane's position that consists of 64-bit words: word 0, the ticks and the payload. Returns
    /// the position at which the next record may begin.
    ///
    /// # Safety
    /// The lane has room for the header and the payload.
    #[inline(always)]
    pub(crate) unsafe fn write_words(&self, word: u64, ticks: u64, payload: &[u64]) -> u64 {
        let mut at = self.pos.get();
        for word in [word, ticks].iter().chain(payload) {
            // SAFETY: inside of the reservation that was found last, by the caller's promise, which is aligned
            // and the producer's own.
            unsafe { self.data.write_word(at, *word) };
            at += ALIGN as u64;
        }
        at
    }

    /// Writes a record at the lane's position that consists of a header only. Returns the position at which the next
    /// record may begin.
    ///
    /// # Safety
    /// The lane has room for the header.
    #[inline(always)]
    pub(crate) unsafe fn write_header(&self, word: u64, ticks: u64) -> u64 {
        let start = self.pos.get();
        // SAFETY: inside of the reservation that was found last, by the caller's promise, which is aligned, the producer's
        // own, and inside one block.
        unsafe { self.data.write_words(start, [word, ticks]) };
        start + HEADER as u64
    }

    /// Returns the ticks of the last record of this lane. A former thread of the ring may have made that record.
    #[inline(always)]
    pub(crate) fn last(&self) -> u64 {
        self.last.get()
    }

    /// Publishes everything before `head`, which is the end of a record that was begun at `ticks`, and counts the
    /// record.
    #[inline(always)]
    pub(crate) fn commit(&self, head: u64, ticks: u64) {
        self.pos.set(head);
        self.last.set(ticks);
        let written = self.written();
        let committed = written.committed.load(Ordering::Relaxed).wrapping_add(1);
        written.publish(head, committed);
        // Release: a reader of the count sees a head that covers all these messages. A plain store on x86-64.
        written.committed.store(committed, Ordering::Release);
    }

    /// Publishes everything before `head`: whole pieces of a message that continues.
    #[inline(always)]
    pub(crate) fn publish(&self, head: u64) {
        self.pos.set(head);
        let written = self.written();
        written.publish(head, written.committed.load(Ordering::Relaxed));
    }
}

/// Adds to a counter that only this thread writes: no locked instruction is needed.
#[inline(always)]
pub(crate) fn add(counter: &AtomicU64, more: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
}
