//! A message, and its writer, which puts the message's text straight into the ring, in pieces if necessary.
//!
//! The writer runs on the traced thread. Text that fits into the room that the thread knows of takes the short path;
//! all other code is `#[cold]`.
#![allow(unsafe_code, reason = "calls of `Lane` with reservations that it gave; each argued")]

use std::fmt::{self, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
#[cfg(not(loom))]
use std::sync::atomic::AtomicU64;
use std::sync::atomic::{AtomicUsize, Ordering};

#[cfg(loom)]
use loom::sync::atomic::AtomicU64;
use trace_format::escape::LOOKAHEAD;
use trace_format::record::{Flags, HEADER};
use trace_format::ring::Written;

use super::lane::{Lane, MIN_ROOM, Reservation, add};
use super::producer::{Outcome, Producer};

/// A receiver of the bytes of a message.
pub(crate) trait ByteSink: fmt::Write {
    /// Appends bytes, which need not be UTF-8.
    fn write_bytes(&mut self, bytes: &[u8]) -> fmt::Result;
}

/// A function that writes a message, which need not be UTF-8.
pub(crate) type WriteBytes<'a> = dyn Fn(&mut dyn ByteSink) -> fmt::Result + 'a;

/// A message that is to be written. [`Message::Bytes`] has a reference to a reference, so that this type is not larger
/// than `fmt::Arguments`.
#[derive(Clone, Copy)]
pub(crate) enum Message<'a> {
    /// Arguments that are formatted when the message is written.
    Format(fmt::Arguments<'a>),
    /// A function that writes the message.
    Bytes(&'a &'a WriteBytes<'a>),
}

impl<'a> From<fmt::Arguments<'a>> for Message<'a> {
    #[inline(always)]
    fn from(args: fmt::Arguments<'a>) -> Message<'a> {
        Message::Format(args)
    }
}

/// The writer of one message into a ring. It is a `fmt::Write`, into which the arguments of a call are formatted.
///
/// The end of the room is `lane.limit()`, not a field of the writer: a fork, or a close of the ring, in the middle of
/// the message sets the limit to 0, so that the next write takes the cold path, which finds out the reason.
pub(super) struct MessageWriter<'a> {
    producer: &'a Producer,
    lane: &'a Lane,
    frame: &'a AtomicUsize,
    /// The stack pointer that is stored in `frame` as long as this message is being written.
    here: usize,
    /// The position at which the current piece begins.
    start: u64,
    /// The position at which the text of the current piece ends so far.
    at: u64,
    ticks: u64,
    /// The number of the site that makes the message, or 0.
    site: u32,
    /// The number of finished pieces of the message, before the current piece.
    pieces: u32,
    /// True if some pieces of the message are published, so that the message can no longer be taken back.
    published: bool,
    /// True if the rest of the message cannot be written, for example because there is no room.
    failed: bool,
}

impl fmt::Write for MessageWriter<'_> {
    #[inline]
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.at + text.len() as u64;
        if end <= self.lane.limit() {
            // SAFETY: from behind the header up to the limit, which is the reservation's.
            unsafe { self.lane.write_short(self.at, text.as_bytes()) };
            self.at = end;
            Ok(())
        } else {
            self.write_bytes(text.as_bytes())
        }
    }
}

impl ByteSink for MessageWriter<'_> {
    #[cold]
    #[inline(never)]
    fn write_bytes(&mut self, mut bytes: &[u8]) -> fmt::Result {
        while !self.failed && self.is_current() {
            let room = usize::try_from(self.lane.limit().saturating_sub(self.at)).unwrap_or(usize::MAX);
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            // SAFETY: at most `room` bytes, so the range ends at the limit at the latest.
            unsafe { self.lane.write(self.at, now) };
            self.at += now.len() as u64;
            if later.is_empty() {
                return Ok(());
            }
            bytes = later;
            self.next_piece();
        }
        self.failed = true;
        Err(fmt::Error)
    }
}

impl<'a> MessageWriter<'a> {
    #[inline(always)]
    pub(super) fn begin(
        producer: &'a Producer,
        lane: &'a Lane,
        frame: &'a AtomicUsize,
        here: usize,
        ticks: u64,
        site: u32,
    ) -> MessageWriter<'a> {
        let start = lane.pos();
        let at = start + HEADER as u64;
        MessageWriter {
            producer,
            lane,
            frame,
            here,
            start,
            at,
            ticks,
            site,
            pieces: 0,
            published: false,
            failed: false,
        }
    }

    #[inline(always)]
    pub(super) fn format(&mut self, message: Message<'_>) -> Outcome {
        let written = match message {
            Message::Format(args) => match args.as_str() {
                Some(text) => Ok(self.write_str(text)),
                None => catch_unwind(AssertUnwindSafe(|| self.write_fmt(args))),
            },
            Message::Bytes(write) => catch_unwind(AssertUnwindSafe(|| write(self))),
        };
        // An error that a `Display` itself returns ends the message where it is.
        match written {
            Ok(_) => self.finish(),
            Err(payload) => {
                // Dropping the panic's value may panic again.
                std::mem::forget(payload);
                self.abandon(|written| &written.lost_panic)
            }
        }
    }

    /// Returns whether the producer's thread still writes this message. Returns false after a fork inside the message,
    /// and if another record has taken the message's place in the ring.
    #[inline(always)]
    fn is_current(&self) -> bool {
        self.frame.load(Ordering::Relaxed) == self.here
    }

    /// Ends the current piece and begins another, if there is room.
    fn next_piece(&mut self) {
        let (carried, count) = self.open_end();
        self.at -= count as u64;
        let flags = Flags::MORE.with(self.flags());
        // SAFETY: `start` begins the current reservation, `at` lies in it, behind the header.
        let end = unsafe { self.lane.seal(self.site, self.start, self.at, self.ticks, flags) };
        // `None` also in a forked child, which may not look for room.
        let memory = self.producer.memory_end(self.lane, end, MIN_ROOM);
        let found = memory.and_then(|memory| {
            let found = self.lane.find(end, MIN_ROOM).map(|found| found.within(memory));
            found.or_else(|| self.wait_for_room(end))
        });
        let Some(reservation) = found else {
            self.failed = true;
            self.lane.revoke();
            return;
        };
        self.lane.limit_to(reservation);
        if self.producer.was_closed(self.lane) {
            self.failed = true;
            return;
        }
        self.pieces += 1;
        (self.start, self.at) = (reservation.start, reservation.start + HEADER as u64);
        const { assert!(MIN_ROOM as usize > HEADER + LOOKAHEAD) };
        // SAFETY: at most three bytes behind the header of a reservation of at least `MIN_ROOM`.
        unsafe { self.lane.write(self.at, &carried[LOOKAHEAD - count..]) };
        self.at += count as u64;
    }

    /// Waits for room, if the policy says so. If the message takes more than half of the ring, first publishes the
    /// pieces that are written, because there is no room before the flusher has consumed them. A smaller message stays
    /// whole: the trace has all of it or nothing.
    fn wait_for_room(&mut self, end: u64) -> Option<Reservation> {
        if end - self.lane.pos() > self.lane.capacity() / 2 && self.producer.may_wait(self.lane) {
            self.lane.publish(end);
            self.published = true;
        }
        self.producer.find(self.lane, end, MIN_ROOM)
    }

    /// Returns the last three bytes of the piece, and how many of them belong to the next piece. The latter begin with
    /// a backslash, or with the first byte of a character of several bytes, so their meaning may depend on the bytes
    /// after them.
    fn open_end(&self) -> ([u8; LOOKAHEAD], usize) {
        let mut last = [0; LOOKAHEAD];
        if self.at - self.start >= (HEADER + LOOKAHEAD) as u64 {
            // SAFETY: the piece has at least three bytes of text, written by `write`.
            last = unsafe { self.lane.written_before(self.at) };
        }
        let is_open = |byte: &u8| *byte == b'\\' || *byte >= 0xc0;
        let count = last.iter().position(is_open).map_or(0, |first| LOOKAHEAD - first);
        (last, count)
    }

    #[inline(always)]
    fn flags(&self) -> Flags {
        if self.pieces == 0 { Flags::NONE } else { Flags::CONT }
    }

    #[inline(always)]
    fn finish(&mut self) -> Outcome {
        if self.failed || !self.is_current() {
            return self.abandon(|written| &written.lost_full);
        }
        // SAFETY: as in `next_piece`.
        let end = unsafe { self.lane.seal(self.site, self.start, self.at, self.ticks, self.flags()) };
        self.lane.commit(end, self.ticks);
        if self.pieces > 0 {
            // If the ring was closed, the next record finds that out.
            let _ = self.producer.write_pending_wait(self.lane, self.ticks, 0);
        }
        Outcome::Committed
    }

    /// Gives up the message. If no part of it is published, adds 1 to the counter that `counter` returns, and the ring
    /// stays as it was before the message. If a part is published, the renderer finds that the message's end is
    /// missing, and reports that.
    #[cold]
    #[inline(never)]
    fn abandon(&mut self, counter: fn(&Written) -> &AtomicU64) -> Outcome {
        if !self.is_current() {
            return Outcome::Lost;
        }
        if !self.published {
            add(counter(self.lane.written()), 1);
        }
        self.lane.revoke();
        Outcome::Lost
    }
}
