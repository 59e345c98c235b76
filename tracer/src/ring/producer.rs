//! A record, from the call to its publication: the hot path. Runs on the traced thread.
//!
//! Where there is room: no lock, no allocation, no system call, no store to memory that another thread
//! writes. Everything else is `#[cold]`.
//!
//! A signal handler, a panic hook or a user's `Display` may come here while its own thread is already inside.
//! [`Producer::frame`] tells; such a record goes to the nested ring.
#![allow(unsafe_code, reason = "calls of `Lane` with spans that it gave; each argued")]

use super::lane::{Lane, MIN_ROOM, Span, add};
use super::memory::Memory;
use crate::clock;
use crate::config::FullPolicy;
use crate::sys;
use crate::wake::Wake;
#[cfg(loom)]
use loom::sync::atomic::AtomicU64;
use std::fmt::{self, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
#[cfg(not(loom))]
use std::sync::atomic::AtomicU64;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, compiler_fence};
use std::time::Duration;
use trace_format::escape::LOOKAHEAD;
use trace_format::meta::ClockKind;
use trace_format::record::{Flags, HEADER};
use trace_format::ring::Written;

/// What became of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It is in the ring.
    Committed,
    /// It is lost, and counted.
    Lost,
    /// This producer is no more: its ring was closed, or this is a forked child. Try another.
    Gone,
}

/// What a producer shares with its flusher, in memory of the process.
#[derive(Debug)]
pub(crate) struct Link {
    /// The ring was closed: its thread must take another. Set once, by the flusher.
    pub closed: AtomicBool,
    /// The thread's file cannot be written now: waiting for room is useless.
    pub failing: AtomicBool,
    /// Wakes the flusher.
    pub wake: &'static Wake,
    /// What to do when there is no room.
    pub policy: FullPolicy,
    /// How long to wait for room at most.
    pub max_stall: Duration,
}

/// A thread's way to write into its ring.
///
/// Lives in a page of its own that a forked child sees zeroed. All-zero bytes are a valid, unbound value: its
/// lanes have no room, so every use ends in [`Outcome::Gone`] without touching the parent's ring.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Producer {
    main: Lane,
    /// 0, or where the stack of the call ends that is writing a record.
    ///
    /// ```text
    ///        record() begins                    record() ends, also by panic
    ///   0 ─────────────────────► its address ─────────────────────────────────► 0
    ///                              │     ▲
    ///   another record() deeper in │     │ another record() further out in the stack:
    ///   the stack: nested ring     └─────┘ the first was left by longjmp; goes on as if 0
    /// ```
    ///
    /// Stored by the owner, 0 with Release; loaded with Acquire by the flusher, which so knows that no record
    /// with smaller ticks than what it saw before is still to come.
    frame: AtomicUsize,
    clock: ClockKind,
    /// A wait for room timed out: drop until there is room.
    dropping: AtomicBool,
    nested: Lane,
    /// The same as `frame` for the record that is being written into the nested ring.
    nested_frame: AtomicUsize,
    /// Null in a forked child.
    link: *const Link,
}

impl Producer {
    /// A producer for the ring in `memory`, at its head.
    ///
    /// # Safety
    /// `memory` and `link` outlive every use of the producer; it is the only one of this ring.
    pub(crate) unsafe fn bound_to(memory: &Memory, clock: ClockKind, link: *const Link) -> Producer {
        let (header, geometry) = (memory.header(), memory.geometry());
        // SAFETY: header and data belong to one mapping, which outlives the lanes by the caller's promise.
        let (main, nested) = unsafe {
            (
                Lane::new(memory.data(), geometry.block, &header.main, &header.consumed.main),
                Lane::new(
                    memory.nested_data(),
                    geometry.nested_block,
                    &header.nested,
                    &header.consumed.nested,
                ),
            )
        };
        Producer {
            main,
            frame: AtomicUsize::new(0),
            clock,
            dropping: AtomicBool::new(false),
            nested,
            nested_frame: AtomicUsize::new(0),
            link,
        }
    }

    /// Forgets what another thread may have left: it may have ended in the middle of a record.
    ///
    /// # Safety
    /// No thread uses the producer.
    pub(crate) unsafe fn renew(&self) {
        self.frame.store(0, Ordering::Relaxed);
        self.nested_frame.store(0, Ordering::Relaxed);
        self.dropping.store(false, Ordering::Relaxed);
    }

    /// Whether its thread is outside of any record. For the flusher.
    pub(crate) fn is_idle(&self) -> bool {
        self.frame.load(Ordering::Acquire) == 0
    }

    /// Whether this is a forked child's view of it.
    pub(crate) fn is_wiped(&self) -> bool {
        self.link.is_null()
    }

    /// Makes its thread look whether the ring was closed. For the flusher.
    pub(crate) fn revoke(&self) {
        self.main.revoke();
    }

    /// Leaves the producer as a `longjmp` out of a `Display` does: marked by a frame that is gone.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn mark_as_left_for_test(&self) {
        // The lowest address: every stack lies above it.
        self.frame.store(1, Ordering::Relaxed);
    }

    /// Whether the calling thread is inside a record.
    pub(crate) fn is_inside(&self) -> bool {
        self.frame.load(Ordering::Relaxed) != 0
    }

    /// Writes a message. Never panics, whatever the arguments' `Display` does.
    #[inline(always)]
    pub(crate) fn record(&self, args: fmt::Arguments<'_>) -> Outcome {
        let here = sys::stack_pointer();
        if self.frame.load(Ordering::Relaxed) != 0 && !self.was_left(here) {
            return self.record_inside(args, here);
        }
        self.record_in(&self.main, &self.frame, here, args)
    }

    #[inline(always)]
    fn record_in(&self, lane: &Lane, frame: &AtomicUsize, here: usize, args: fmt::Arguments<'_>) -> Outcome {
        frame.store(here, Ordering::Relaxed);
        // A signal handler on this thread sees the frame before anything below.
        compiler_fence(Ordering::SeqCst);
        let ticks = clock::now(self.clock).0;
        let opened = if lane.has_room() { Outcome::Committed } else { self.open(lane, frame, here) };
        let outcome = match opened {
            Outcome::Committed => Message::begin(self, lane, frame, here, ticks).format(args),
            outcome => outcome,
        };
        compiler_fence(Ordering::SeqCst);
        frame.store(0, Ordering::Release);
        outcome
    }

    /// A record made inside another of the same thread.
    #[cold]
    #[inline(never)]
    fn record_inside(&self, args: fmt::Arguments<'_>, here: usize) -> Outcome {
        let inner = self.nested_frame.load(Ordering::Relaxed);
        if inner != 0 && !is_deeper(inner, here) {
            // Inside a record inside a record: there is no third ring.
            add(&self.nested.written().lost_full, 1);
            return Outcome::Lost;
        }
        self.record_in(&self.nested, &self.nested_frame, here, args)
    }

    /// Whether the record that is marked as being written was left without ending (`longjmp`).
    #[cold]
    #[inline(never)]
    fn was_left(&self, here: usize) -> bool {
        let left = is_deeper(self.frame.load(Ordering::Relaxed), here);
        if left && !self.link.is_null() {
            add(&self.main.written().lost_panic, 1);
            self.nested_frame.store(0, Ordering::Relaxed);
        }
        left
    }

    /// Finds room for a new record. `Committed`: there is room.
    #[cold]
    #[inline(never)]
    fn open(&self, lane: &Lane, frame: &AtomicUsize, here: usize) -> Outcome {
        if self.link.is_null() {
            return Outcome::Gone;
        }
        // SAFETY: not null, so it is the one given to `new`, which outlives this.
        let link = unsafe { &*self.link };
        if link.closed.load(Ordering::Acquire) {
            return Outcome::Gone;
        }
        let Some(span) = self.find(lane, lane.pos()) else {
            add(&lane.written().lost_full, 1);
            return Outcome::Lost;
        };
        // A record that took this one for left has gone on from where the lane is now.
        if frame.load(Ordering::Relaxed) != here {
            return Outcome::Lost;
        }
        lane.take(span);
        if self.was_closed(lane, link) { Outcome::Gone } else { Outcome::Committed }
    }

    /// Whether the flusher has closed the ring. To be asked after the lane's limit was stored.
    fn was_closed(&self, lane: &Lane, link: &Link) -> bool {
        // If the flusher closed the ring since, its `revoke` may have been overwritten by `take`. One of the
        // two sees the other: the store above is before this load, its flag is before its store.
        std::sync::atomic::fence(Ordering::SeqCst);
        let closed = link.closed.load(Ordering::Relaxed);
        if closed {
            lane.revoke();
        }
        closed
    }

    /// Finds room from `from` on; waits for it where the policy says so.
    #[cold]
    #[inline(never)]
    fn find(&self, lane: &Lane, from: u64) -> Option<Span> {
        // SAFETY: as in `open`, which was asked first.
        let link = unsafe { &*self.link };
        let found = lane.find(from).or_else(|| {
            link.wake.wake();
            if self.may_wait(lane) { self.wait(lane, from, link) } else { None }
        })?;
        let main = std::ptr::eq(lane, &self.main);
        // Nobody waits for room in the nested ring, so the flusher has to come earlier.
        if found.pending >= lane.capacity() / if main { 2 } else { 4 } {
            link.wake.wake();
        }
        if main {
            self.dropping.store(false, Ordering::Relaxed);
        }
        Some(found)
    }

    /// Whether a record of this lane waits for room. A nested one cannot: it may hold up what the flusher must
    /// see first.
    fn may_wait(&self, lane: &Lane) -> bool {
        // SAFETY: as in `find`.
        std::ptr::eq(lane, &self.main) && unsafe { &*self.link }.policy == FullPolicy::Block
    }

    #[cold]
    fn wait(&self, lane: &Lane, from: u64, link: &Link) -> Option<Span> {
        if self.dropping.load(Ordering::Relaxed) || link.failing.load(Ordering::Relaxed) {
            return None;
        }
        let start = sys::monotonic_ns();
        let mut pause = Duration::from_micros(20);
        let (span, waited) = loop {
            link.wake.wake();
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(1));
            let waited = sys::monotonic_ns().saturating_sub(start);
            let span = lane.find(from);
            let useless =
                u128::from(waited) >= link.max_stall.as_nanos() || link.failing.load(Ordering::Relaxed);
            if span.is_some() || useless || link.closed.load(Ordering::Relaxed) {
                break (span, waited);
            }
        };
        add(&lane.written().stalls, 1);
        add(&lane.written().stall_ns, waited);
        self.dropping.store(span.is_none(), Ordering::Relaxed);
        span
    }
}

/// Whether a frame lies deeper in the stack than the caller's, or is the same: then it is not active any
/// more. Stacks grow down; a signal stack has no order with the thread's.
fn is_deeper(frame: usize, here: usize) -> bool {
    here >= frame && !sys::on_alternate_stack()
}

/// A message that is being written: the `fmt::Write` that the arguments are formatted into.
///
/// The room that is left is `lane.limit()`, not a field: it is 0 after a fork or a close in the middle of the
/// message, so that the next write takes the cold path, which looks why.
struct Message<'a> {
    producer: &'a Producer,
    lane: &'a Lane,
    frame: &'a AtomicUsize,
    /// What `frame` holds as long as this message is the one being written.
    here: usize,
    /// Where the current piece begins.
    start: u64,
    /// Where its text ends so far.
    at: u64,
    ticks: u64,
    /// Whole pieces before the current one.
    pieces: u32,
    /// Some of them are published: the message can no longer be taken back.
    published: bool,
    /// There was no room for the rest.
    failed: bool,
}

impl fmt::Write for Message<'_> {
    #[inline]
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.at + text.len() as u64;
        if end <= self.lane.limit() {
            // SAFETY: from behind the header up to the limit, which is the span's.
            unsafe { self.lane.write(self.at, text.as_bytes()) };
            self.at = end;
            Ok(())
        } else {
            self.write_in_pieces(text)
        }
    }
}

impl<'a> Message<'a> {
    #[inline(always)]
    fn begin(
        producer: &'a Producer,
        lane: &'a Lane,
        frame: &'a AtomicUsize,
        here: usize,
        ticks: u64,
    ) -> Message<'a> {
        let start = lane.pos();
        let at = start + HEADER as u64;
        Message { producer, lane, frame, here, start, at, ticks, pieces: 0, published: false, failed: false }
    }

    #[inline(always)]
    fn format(&mut self, args: fmt::Arguments<'_>) -> Outcome {
        if let Some(text) = args.as_str() {
            let _ = self.write_str(text);
            return self.finish();
        }
        // An error that a `Display` itself returns ends the message where it is.
        match catch_unwind(AssertUnwindSafe(|| self.write_fmt(args))) {
            Ok(_) => self.finish(),
            Err(payload) => {
                // Dropping it may panic again.
                std::mem::forget(payload);
                self.abandon(|written| &written.lost_panic)
            }
        }
    }

    /// Whether this is still the message that its thread writes: not after a fork inside it, nor when another
    /// record took its place.
    #[inline(always)]
    fn is_current(&self) -> bool {
        self.frame.load(Ordering::Relaxed) == self.here
    }

    #[cold]
    #[inline(never)]
    fn write_in_pieces(&mut self, mut text: &str) -> fmt::Result {
        while !self.failed && self.is_current() {
            let room = usize::try_from(self.lane.limit().saturating_sub(self.at)).unwrap_or(usize::MAX);
            let (now, later) = text.split_at(floor_char_boundary(text, room));
            // SAFETY: at most `room` bytes, so the range ends at the limit at the latest.
            unsafe { self.lane.write(self.at, now.as_bytes()) };
            self.at += now.len() as u64;
            if later.is_empty() {
                return Ok(());
            }
            text = later;
            self.next_piece();
        }
        self.failed = true;
        Err(fmt::Error)
    }

    /// Ends the current piece and begins another, where there is room.
    fn next_piece(&mut self) {
        let (carried, count) = self.open_escape();
        self.at -= count as u64;
        let flags = Flags::MORE.with(self.flags());
        // SAFETY: `start` begins the current span, `at` lies in it, behind the header.
        let end = unsafe { self.lane.seal(self.start, self.at, self.ticks, flags) };
        let Some(span) = self.lane.find(end).or_else(|| self.wait_for_room(end)) else {
            self.failed = true;
            self.lane.revoke();
            return;
        };
        self.lane.limit_to(span);
        // SAFETY: as in `Producer::open`; there was no fork since (`is_current`).
        if self.producer.was_closed(self.lane, unsafe { &*self.producer.link }) {
            self.failed = true;
            return;
        }
        self.pieces += 1;
        (self.start, self.at) = (span.start, span.start + HEADER as u64);
        const { assert!(MIN_ROOM as usize > HEADER + LOOKAHEAD) };
        // SAFETY: at most three bytes behind the header of a span of at least `MIN_ROOM`.
        unsafe { self.lane.write(self.at, &carried[LOOKAHEAD - count..]) };
        self.at += count as u64;
    }

    /// Waits for room, where the policy says so. A message that would take more than half of the ring has its
    /// pieces published, for they must be consumed before there can be room; a smaller one stays whole: it is
    /// in the trace or it is not.
    fn wait_for_room(&mut self, end: u64) -> Option<Span> {
        if end - self.lane.pos() > self.lane.capacity() / 2 && self.producer.may_wait(self.lane) {
            self.lane.publish(end);
            self.published = true;
        }
        self.producer.find(self.lane, end)
    }

    /// The bytes from the last backslash on, if that is among the last three of the piece: what they mean is
    /// decided by what follows, so they belong to the next piece.
    fn open_escape(&self) -> ([u8; LOOKAHEAD], usize) {
        let mut last = [0; LOOKAHEAD];
        if self.at - self.start >= (HEADER + LOOKAHEAD) as u64 {
            // SAFETY: the piece has at least three bytes of text, written by `write`.
            last = unsafe { self.lane.written_before(self.at) };
        }
        let count = last.iter().position(|&b| b == b'\\').map_or(0, |first| LOOKAHEAD - first);
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
        let end = unsafe { self.lane.seal(self.start, self.at, self.ticks, self.flags()) };
        self.lane.publish(end);
        add(&self.lane.written().committed, 1);
        Outcome::Committed
    }

    /// Leaves the ring as it was before the message. If a part of it is published, the renderer finds its end
    /// missing and tells so.
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

/// The largest index at most `at` that is no inside of a character.
fn floor_char_boundary(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|&i| text.is_char_boundary(i)).unwrap_or(0)
}
