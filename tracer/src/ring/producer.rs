//! A record, from the call to its publication. This is the hot path, on the traced thread.
//!
//! If there is room, a record takes no lock, allocates nothing, makes no system call, and stores nothing into memory
//! that another thread writes. All code for other cases is `#[cold]`.
//!
//! A signal handler, a panic hook or a user's `Display` may make a record while its own thread is already inside a
//! record. [`Producer::frame`] shows that, and the new record goes to the nested ring.
#![allow(unsafe_code, reason = "calls of `Lane` with reservations that it gave; each argued")]

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering, compiler_fence};
use std::time::Duration;

use trace_format::capture::Cursor;
use trace_format::line::Ticks;
use trace_format::record::{Flags, HEADER, hook_enter_word, stack_word};
use trace_format::ring::open_calls::{MAX_OPEN, OpenCall, OpenCalls};
use trace_format::wait::{Wait, WaitCause};
use trace_store::memory::{FIRST_NESTED_BYTES, Memory};

use super::arguments::Arguments;
use super::clock;
use super::lane::{Lane, MIN_ROOM, Reservation, add};
use super::message::{Message, MessageWriter};
use crate::sys;
use crate::user::config::FullPolicy;
use crate::words::wake::Wake;

/// The maximum size of captured arguments, in bytes. A message with larger arguments is formatted at the call. The
/// limit exists because a record must fit into a block, and a block of the smallest ring has only 2 KiB.
pub(crate) const MAX_CAPTURED: usize = 1024;

/// The longest time, in nanoseconds, that a thread waits for the next part of its ring's memory. Reserving all parts
/// takes about a millisecond.
const MAX_MEMORY_WAIT: u64 = 1_000_000_000;

/// The value of [`Link::reserved`] of a ring whose memory is reserved completely.
pub(crate) const ALL_RESERVED: u64 = u64::MAX;

/// The outcome of writing a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The record is in the ring.
    Committed,
    /// The record is lost, and counted.
    Lost,
    /// The producer can no longer be used: its ring was closed, or this is a forked child. The caller has to try
    /// another producer.
    Gone,
}

/// The data through which a producer and the flusher communicate, in memory of the process.
#[derive(Debug)]
pub(crate) struct Link {
    /// True once the ring was closed: its thread must take another ring. Set once, by the flusher.
    pub closed: AtomicBool,
    /// The position in the ring below which its memory is reserved; [`ALL_RESERVED`] once the memory of the ring and of
    /// the nested ring is reserved completely. Until then only the first bytes of the nested ring are reserved. The
    /// position grows; the flusher stores it with Release.
    pub reserved: AtomicU64,
    /// True while the thread's file cannot be written, so that waiting for room is useless.
    pub failing: AtomicBool,
    /// The word that wakes the flusher.
    pub wake: &'static Wake,
    /// The word that wakes the ring's thread: if it waits for room, when there is plenty of room; if it waits for
    /// memory, when all of the memory is reserved.
    pub room: Wake,
    /// The policy for a ring without room.
    pub policy: FullPolicy,
    /// The longest time to wait for room.
    pub max_stall: Duration,
}

/// The writing end of a thread's ring.
///
/// A producer lives in a page of its own that a forked child sees zeroed. All-zero bytes are a valid, unbound
/// value: its lanes have no room, so every use ends in [`Outcome::Gone`] without touching the parent's ring.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Producer {
    main: Lane,
    /// The stack pointer in the call that is writing a record, or 0.
    ///
    /// ```text
    ///        record() begins                    record() ends, also by panic
    ///   0 ─────────────────────► its address ─────────────────────────────────► 0
    ///                              │     ▲
    ///   another record() deeper in │     │ another record() further out in the stack:
    ///   the stack: nested ring     └─────┘ the first was left by longjmp; goes on as if 0
    ///
    ///        a call is held back                   the last of them is recorded or forgotten
    ///   0 ─────────────────────► HOLDING ───────────────────────────────────────────────► 0
    ///                              │     ▲
    ///    record() begins, which    │     │ it ends: calls are held back still
    ///    is no call of the list    └─────┘
    /// ```
    ///
    /// HOLDING is not an address on a stack. If a record finds it, the record takes the cold path, as if another record
    /// were unfinished. This path first writes the calls that are held back, because a later record must not come
    /// before them.
    ///
    /// The producer's thread stores `frame`, 0 with Release, and the flusher loads it with Acquire: so the flusher
    /// knows that no record with smaller ticks than those of the records that it saw before is still to come.
    frame: AtomicUsize,
    /// True after a wait for room has timed out: from then on records are dropped until there is room.
    dropping: AtomicBool,
    nested: Lane,
    /// The stack pointer, as in `frame`, in the call that is writing a record into the nested ring, or 0.
    nested_frame: AtomicUsize,
    /// The link to the flusher; null in a forked child.
    link: *const Link,
    /// The list of the calls that are held back; null if `link` is null.
    open_calls: *const OpenCalls,
    /// The last wait of the producer's thread for the tracer, if the record of this wait is not written yet.
    waited: PendingWait,
}

/// The values of a wait that has ended. They are kept until the record of the wait can be written: before the record
/// that had to wait or, if a message waited in the middle, after that message.
///
/// Only the producer's thread reads and writes the values. If a signal handler of that thread waits meanwhile, the
/// handler and the interrupted code may overwrite each other's values: then the record of a wait shows less time than
/// it took, and the rest is reported when the thread's file ends.
#[derive(Debug, Default)]
struct PendingWait {
    begin: AtomicU64,
    end: AtomicU64,
    /// The duration of the wait in nanoseconds; 0 if there is no wait.
    ns: AtomicU64,
    /// The cause of the wait: the number of a [`WaitCause`].
    what: AtomicU8,
}

impl PendingWait {
    /// Notes a wait that has just ended. The wait began at `start`, in nanoseconds of the monotonic clock, and at the
    /// ticks `begin`. Returns the wait's duration in nanoseconds. Several waits without room for a record between them
    /// are recorded as one, from the beginning of the first.
    ///
    /// Callers read `start` before `begin`, and this function reads the ticks of the end before the nanoseconds. So if
    /// the thread is preempted between two readings, the duration in nanoseconds is rather too long than too short for
    /// the ticks. By that, a reader can distinguish one wait from several waits with work between them.
    #[cold]
    fn note(&self, start: u64, begin: Ticks, what: WaitCause) -> u64 {
        let before = self.ns.load(Ordering::Relaxed);
        if before == 0 {
            self.begin.store(begin.0, Ordering::Relaxed);
            self.what.store(what as u8, Ordering::Relaxed);
        }
        self.end.store(clock::now_inside().0, Ordering::Relaxed);
        let ns = sys::monotonic_ns().saturating_sub(start);
        self.ns.store(before.saturating_add(ns), Ordering::Relaxed);
        ns
    }

    /// Returns the wait that was noted; `None` if there is none.
    fn get(&self) -> Option<Wait> {
        let ns = self.ns.load(Ordering::Relaxed);
        let number = self.what.load(Ordering::Relaxed);
        let (what, _) = WaitCause::NAMES.iter().find(|(what, _)| *what as u8 == number)?;
        let ticks = |word: &AtomicU64| Ticks(word.load(Ordering::Relaxed));
        (ns > 0).then(|| Wait { begin: ticks(&self.begin), end: ticks(&self.end), ns, what: *what })
    }
}

/// The number of bytes of the record of a wait.
const WAIT_BYTES: u64 = (HEADER + trace_format::wait::PAYLOAD) as u64;

/// The value of [`Producer::frame`] while calls are held back and no record is being written.
const HOLDING: usize = 1;

impl Producer {
    /// Makes a producer for the ring in `memory`. The producer begins to write at the ring's head.
    ///
    /// # Safety
    /// `memory` and `link` outlive every use of the producer, which is the only producer of this ring.
    pub(crate) unsafe fn bound_to(memory: &Memory, link: *const Link) -> Producer {
        let (header, geometry) = (memory.header(), memory.geometry());
        let overwrite = memory.overwrites();
        // SAFETY: header and data belong to one mapping, which outlives the lanes by the caller's promise.
        let (main, nested) = unsafe {
            (
                Lane::new(memory.data(), geometry.block, overwrite, &header.main, &header.consumed.main),
                Lane::new(
                    memory.nested_data(),
                    geometry.nested_block,
                    overwrite,
                    &header.nested,
                    &header.consumed.nested,
                ),
            )
        };
        Producer {
            main,
            frame: AtomicUsize::new(0),
            dropping: AtomicBool::new(false),
            nested,
            nested_frame: AtomicUsize::new(0),
            link,
            open_calls: &raw const header.open_calls,
            waited: PendingWait::default(),
        }
    }

    /// Clears the state that the ring's former thread may have left, because it may have ended in the middle of a
    /// record.
    ///
    /// # Safety
    /// No thread uses the producer.
    pub(crate) unsafe fn renew(&self) {
        self.frame.store(0, Ordering::Relaxed);
        self.nested_frame.store(0, Ordering::Relaxed);
        self.dropping.store(false, Ordering::Relaxed);
        self.waited.ns.store(0, Ordering::Relaxed);
    }

    /// Returns whether the producer's thread is outside any record and holds back no calls. Only the flusher calls
    /// this.
    pub(crate) fn is_idle(&self) -> bool {
        self.frame.load(Ordering::Acquire) == 0
    }

    /// Returns the list of the function calls that are held back: calls of which it is not known yet whether they last
    /// long enough to be recorded. Returns `None` in a forked child.
    #[inline(always)]
    fn open_calls(&self) -> Option<&OpenCalls> {
        // SAFETY: null, or in the header of the ring, which outlives the producer by the promise of `bound_to`.
        unsafe { self.open_calls.as_ref() }
    }

    /// Returns whether the function call with this number is still held back, neither recorded nor forgotten.
    #[inline(always)]
    pub(crate) fn holds(&self, number: u64) -> bool {
        self.open_calls().is_some_and(|open| number >= open.first())
    }

    /// Holds back a call that was entered inside all calls that are held back; returns its number, by which it can be
    /// forgotten. First records the held-back calls that were entered at `before` or earlier. Returns `None` if the
    /// thread is inside a record, or the producer can no longer be used.
    #[inline(always)]
    pub(crate) fn hold(&self, call: OpenCall, before: Ticks) -> Option<u64> {
        let here = sys::stack_pointer();
        let frame = self.frame.load(Ordering::Relaxed);
        if frame != 0 && frame != HOLDING && !self.was_abandoned(here) {
            return None;
        }
        let open = self.open_calls()?;
        if open.count() == MAX_OPEN || open.outermost().is_some_and(|outermost| outermost.ticks <= before) {
            self.record_open_calls(here, before, MAX_OPEN - 1);
        }
        self.frame.store(here, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        // 0 after a fork in a signal handler: the list is the parent's.
        if self.frame.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let number = open.hold(call);
        compiler_fence(Ordering::SeqCst);
        self.frame.store(HOLDING, Ordering::Release);
        Some(number)
    }

    /// Forgets the call with this number, and all calls inside it, if they are still held back.
    #[inline(always)]
    pub(crate) fn forget_from(&self, number: u64) {
        let here = sys::stack_pointer();
        let Some(open) = self.open_calls().filter(|open| number >= open.first()) else { return };
        if !self.is_inside(here) {
            self.frame.store(here, Ordering::Relaxed);
            compiler_fence(Ordering::SeqCst);
            // As in `hold`.
            if self.frame.load(Ordering::Relaxed) == 0 {
                return;
            }
            open.forget_from(number);
            compiler_fence(Ordering::SeqCst);
            self.frame.store(if open.count() == 0 { 0 } else { HOLDING }, Ordering::Release);
        }
    }

    /// Records all held-back calls.
    #[cold]
    pub(crate) fn record_all_open_calls(&self) {
        let here = sys::stack_pointer();
        if !self.is_inside(here) {
            self.record_open_calls(here, Ticks(u64::MAX), 0);
        }
    }

    /// Records the held-back calls that were entered at `before` or earlier, and further ones until no more than
    /// `most` are left. The calling thread is outside any record.
    #[cold]
    #[inline(never)]
    fn record_open_calls(&self, here: usize, before: Ticks, most: u64) {
        // Read again in each round: a signal handler may have come between, or have forked.
        while let Some(open) = self.open_calls() {
            self.frame.store(here, Ordering::Relaxed);
            compiler_fence(Ordering::SeqCst);
            let next = open.outermost().filter(|call| call.ticks <= before || open.count() > most);
            if let Some(call) = next {
                self.record_open_call(open, call, here);
            }
            compiler_fence(Ordering::SeqCst);
            let count = self.open_calls().map_or(0, OpenCalls::count);
            self.frame.store(if count == 0 { 0 } else { HOLDING }, Ordering::Release);
            if next.is_none() {
                break;
            }
        }
    }

    /// Records `call`, the outermost held-back call. The caller has stored `here` in `frame`.
    fn record_open_call(&self, open: &OpenCalls, call: OpenCall, here: usize) {
        let total = HEADER as u64;
        let lane = &self.main;
        // A signal handler may have made a record with later ticks meanwhile.
        let ticks = call.ticks.0.max(lane.last());
        let opened = if lane.has_room_for(total) {
            Outcome::Committed
        } else {
            self.open(lane, &self.frame, here, ticks, total)
        };
        // A fork in a signal handler leaves the child without the list.
        if self.open_calls().is_none() {
            return;
        }
        open.begin_move(lane.written().head());
        if opened == Outcome::Committed {
            // SAFETY: there is room for `total` bytes.
            let end = unsafe { lane.write_words(hook_enter_word(call.address), ticks, &[]) };
            lane.commit(end, ticks);
        }
        open.end_move();
        if call.call_site != 0 {
            let (word, frames) = call_site_record(call.address, call.call_site);
            self.record_words_in(lane, &self.frame, here, Ticks(ticks), word, &frames);
        }
    }

    /// Returns whether this is a forked child's view of the producer.
    pub(crate) fn is_wiped(&self) -> bool {
        self.link.is_null()
    }

    /// Returns whether the thread may go on using the ring: this is not a forked child's view, and the ring was not
    /// closed.
    pub(crate) fn is_usable(&self) -> bool {
        // SAFETY: not null, so as in `open`.
        !self.is_wiped() && !unsafe { &*self.link }.closed.load(Ordering::Acquire)
    }

    /// Makes the producer's thread check, at its next record, whether the ring was closed. Only the flusher calls this.
    pub(crate) fn revoke(&self) {
        self.main.revoke();
    }

    /// Brings the producer into the state in which a `longjmp` out of a `Display` leaves it: marked as inside a record,
    /// by a frame that no longer exists.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn mark_abandoned_for_test(&self) {
        // Every stack lies above this address.
        self.frame.store(HOLDING + 1, Ordering::Relaxed);
    }

    /// Returns whether the calling thread is inside a record. `here` is the caller's stack pointer, which shows whether
    /// the record was left by a jump.
    pub(crate) fn is_inside(&self, here: usize) -> bool {
        let frame = self.frame.load(Ordering::Relaxed);
        frame != 0 && frame != HOLDING && !sys::is_deeper(frame, here)
    }

    /// Returns the ticks of the thread's last record. If the thread is inside a record, returns the ticks of the last
    /// record that was made inside a record (in the nested ring). `here` is the caller's stack pointer.
    pub(crate) fn last_ticks(&self, here: usize) -> Ticks {
        Ticks(if self.is_inside(here) { self.nested.last() } else { self.main.last() })
    }

    /// Writes a message of a `site` (0: no site) that was begun at `ticks`. Never panics, whatever the arguments'
    /// `Display` does.
    #[inline(always)]
    pub(crate) fn record<'a>(&self, ticks: Ticks, site: u32, message: impl Into<Message<'a>>) -> Outcome {
        let (here, message) = (sys::stack_pointer(), message.into());
        if self.frame.load(Ordering::Relaxed) != 0 && !self.was_abandoned(here) {
            return self.record_inside(ticks, site, message, here);
        }
        self.record_in(&self.main, &self.frame, here, ticks, site, message)
    }

    #[inline(always)]
    fn record_in(
        &self,
        lane: &Lane,
        frame: &AtomicUsize,
        here: usize,
        ticks: Ticks,
        site: u32,
        message: Message<'_>,
    ) -> Outcome {
        let ticks = Producer::enter(lane, frame, here, ticks);
        let opened =
            if lane.has_room() { Outcome::Committed } else { self.open(lane, frame, here, ticks, MIN_ROOM) };
        let outcome = match opened {
            Outcome::Committed => MessageWriter::begin(self, lane, frame, here, ticks, site).format(message),
            outcome => outcome,
        };
        compiler_fence(Ordering::SeqCst);
        frame.store(0, Ordering::Release);
        outcome
    }

    /// Writes a message of a `site` (0: no site) that needs no formatting, if the ring has room and no special case has
    /// to be handled. Returns false if it has done nothing: then the caller has to call [`record`](Producer::record).
    #[inline(always)]
    pub(crate) fn record_text_at_once(&self, ticks: Ticks, site: u32, text: &str) -> bool {
        let here = sys::stack_pointer();
        if self.frame.load(Ordering::Relaxed) != 0 {
            return false;
        }
        self.frame.store(here, Ordering::Relaxed);
        // As in `record_word_at_once`.
        compiler_fence(Ordering::SeqCst);
        let lane = &self.main;
        let is_ready = ticks.0 >= lane.last() && lane.has_room_for((HEADER + text.len()) as u64);
        if is_ready {
            // SAFETY: there is room for the header and the text.
            let end = unsafe { lane.write_message(site, ticks.0, text) };
            // 0 after a fork in a signal handler.
            if self.frame.load(Ordering::Relaxed) != 0 {
                lane.commit(end, ticks.0);
            }
        }
        compiler_fence(Ordering::SeqCst);
        self.frame.store(0, Ordering::Release);
        is_ready
    }

    /// Copies the arguments of a site into a record, or counts the record as lost if the ring has no room. Returns
    /// false if the message has to be formatted instead: the thread is inside another record or holds back calls, the
    /// arguments are too large, or this producer can no longer be used.
    #[inline(always)]
    pub(crate) fn capture<A: Arguments>(&self, ticks: Ticks, site: u32, arguments: &A) -> bool {
        let here = sys::stack_pointer();
        let size = arguments.size();
        if self.frame.load(Ordering::Relaxed) != 0 || size > MAX_CAPTURED {
            return false;
        }
        let (lane, total) = (&self.main, (HEADER + size) as u64);
        let ticks = Producer::enter(lane, &self.frame, here, ticks);
        let opened = if lane.has_room_for(total) {
            Outcome::Committed
        } else {
            self.open(lane, &self.frame, here, ticks, total)
        };
        if opened == Outcome::Committed {
            // SAFETY: there is room for `total` bytes; `MAX_CAPTURED` is less than `MAX_PAYLOAD`.
            let end = unsafe { lane.capture(site, ticks, size, |to| arguments.write(&mut Cursor::new(to))) };
            // 0 after a fork in a signal handler.
            if self.frame.load(Ordering::Relaxed) != 0 {
                lane.commit(end, ticks);
            }
        }
        compiler_fence(Ordering::SeqCst);
        self.frame.store(0, Ordering::Release);
        opened != Outcome::Gone
    }

    /// Writes a record that consists of 64-bit words: word 0 and the payload, which has at most [`MAX_CAPTURED`] bytes.
    #[inline(always)]
    pub(crate) fn record_words(&self, ticks: Ticks, word: u64, payload: &[u64]) -> Outcome {
        let here = sys::stack_pointer();
        if self.frame.load(Ordering::Relaxed) != 0 && !self.was_abandoned(here) {
            return self.record_words_inside(ticks, word, payload, here);
        }
        self.record_words_in(&self.main, &self.frame, here, ticks, word, payload)
    }

    /// Writes a record of one word if the ring has room and no special case has to be handled. Returns false if it has
    /// done nothing: then the caller has to call [`record_words`](Producer::record_words).
    #[inline(always)]
    pub(crate) fn record_word_at_once(&self, ticks: Ticks, word: u64) -> bool {
        let here = sys::stack_pointer();
        if self.frame.load(Ordering::Relaxed) != 0 {
            return false;
        }
        self.frame.store(here, Ordering::Relaxed);
        // A signal handler on this thread sees the frame before anything below, and then does not change the values
        // that are read below.
        compiler_fence(Ordering::SeqCst);
        let lane = &self.main;
        let is_ready = ticks.0 >= lane.last() && lane.has_room_for(HEADER as u64);
        if is_ready {
            // SAFETY: there is room for the header.
            let end = unsafe { lane.write_header(word, ticks.0) };
            // 0 after a fork in a signal handler.
            if self.frame.load(Ordering::Relaxed) != 0 {
                lane.commit(end, ticks.0);
            }
        }
        compiler_fence(Ordering::SeqCst);
        self.frame.store(0, Ordering::Release);
        is_ready
    }

    #[inline(always)]
    fn record_words_in(
        &self,
        lane: &Lane,
        frame: &AtomicUsize,
        here: usize,
        ticks: Ticks,
        word: u64,
        payload: &[u64],
    ) -> Outcome {
        let total = (HEADER + size_of_val(payload)) as u64;
        let ticks = Producer::enter(lane, frame, here, ticks);
        let opened = if lane.has_room_for(total) {
            Outcome::Committed
        } else {
            self.open(lane, frame, here, ticks, total)
        };
        if opened == Outcome::Committed {
            // SAFETY: there is room for `total` bytes.
            let end = unsafe { lane.write_words(word, ticks, payload) };
            // 0 after a fork in a signal handler.
            if frame.load(Ordering::Relaxed) != 0 {
                lane.commit(end, ticks);
            }
        }
        compiler_fence(Ordering::SeqCst);
        frame.store(0, Ordering::Release);
        opened
    }

    /// Writes a record of words that is made inside another record of the same thread.
    #[cold]
    #[inline(never)]
    fn record_words_inside(&self, ticks: Ticks, word: u64, payload: &[u64], here: usize) -> Outcome {
        // A block of the smallest nested ring is shorter than a deep stack.
        let fits = (HEADER + size_of_val(payload)) as u64 <= self.nested.block();
        if !fits || self.is_doubly_nested(here) {
            add(&self.nested.written().lost_full, 1);
            return Outcome::Lost;
        }
        let outcome = self.record_words_in(&self.nested, &self.nested_frame, here, ticks, word, payload);
        self.wait_for_next_tick();
        outcome
    }

    /// Begins a record: stores `here` in `frame`, and returns ticks that are not less than those of the lane's last
    /// record.
    #[inline(always)]
    fn enter(lane: &Lane, frame: &AtomicUsize, here: usize, ticks: Ticks) -> u64 {
        frame.store(here, Ordering::Relaxed);
        // A signal handler on this thread sees the frame before anything below.
        compiler_fence(Ordering::SeqCst);
        if ticks.0 >= lane.last() { ticks.0 } else { Producer::reread_clock() }
    }

    /// Reads the clock again, because the first reading is too old: a signal handler has traced between that reading
    /// and the store to `frame`, or the clock went back.
    #[cold]
    fn reread_clock() -> u64 {
        clock::now_inside().0
    }

    /// Writes a message that is recorded inside another record of the same thread.
    #[cold]
    #[inline(never)]
    fn record_inside(&self, ticks: Ticks, site: u32, message: Message<'_>, here: usize) -> Outcome {
        if self.is_doubly_nested(here) {
            add(&self.nested.written().lost_full, 1);
            return Outcome::Lost;
        }
        let outcome = self.record_in(&self.nested, &self.nested_frame, here, ticks, site, message);
        self.wait_for_next_tick();
        outcome
    }

    /// Waits until the clock shows more than the ticks of the nested record that was just made. Of two records with the
    /// same ticks, readers take the one in the main ring for the earlier one, but the next record in the main ring is
    /// the later one. Counters of some processors stand still for 40 ns, and the system's clock possibly for longer;
    /// after `MAX_REREADS` readings, this function stops waiting, and the order may be wrong.
    fn wait_for_next_tick(&self) {
        const MAX_REREADS: usize = 100;
        let last = self.nested.last();
        let _ = (0..MAX_REREADS).any(|_| clock::now_inside().0 > last);
    }

    /// Returns whether the thread is inside a nested record. A further record then has no ring, because there is no
    /// third one. `here` is the current stack pointer.
    fn is_doubly_nested(&self, here: usize) -> bool {
        let inner = self.nested_frame.load(Ordering::Relaxed);
        inner != 0 && !sys::is_deeper(inner, here)
    }

    /// Returns whether the record that `frame` marks as being written was left without ending (`longjmp`). If `frame`
    /// is [`HOLDING`], records the calls that are held back and returns true.
    #[cold]
    #[inline(never)]
    fn was_abandoned(&self, here: usize) -> bool {
        if self.frame.load(Ordering::Relaxed) == HOLDING {
            self.record_open_calls(here, Ticks(u64::MAX), 0);
            return true;
        }
        let left = sys::is_deeper(self.frame.load(Ordering::Relaxed), here);
        if left && !self.link.is_null() {
            add(&self.main.written().lost_panic, 1);
            self.nested_frame.store(0, Ordering::Relaxed);
        }
        left
    }

    /// Finds room for a new record of at least `need` bytes. Returns [`Outcome::Committed`] if there is room; otherwise
    /// the outcome of the record, which cannot be written.
    #[cold]
    #[inline(never)]
    fn open(&self, lane: &Lane, frame: &AtomicUsize, here: usize, ticks: u64, need: u64) -> Outcome {
        if self.link.is_null() {
            return Outcome::Gone;
        }
        // SAFETY: not null, so it is the link given to [`Producer::bound_to`], which outlives this.
        let link = unsafe { &*self.link };
        // A record inside another one stays in the ring of the other one: the thread cannot take another ring before
        // the outer record is done, and a ring that its thread has is drained, closed or not.
        let is_closed = || self.is_main(lane) && link.closed.load(Ordering::Acquire);
        if is_closed() {
            return Outcome::Gone;
        }
        let Some(reservation) = self.find(lane, lane.pos(), need) else {
            // A thread that has waited in a ring that was closed meanwhile takes another one.
            if self.link.is_null() || is_closed() {
                return Outcome::Gone;
            }
            add(&lane.written().lost_full, 1);
            return Outcome::Lost;
        };
        // A record that found this one left has gone on from the lane's current position.
        if frame.load(Ordering::Relaxed) != here {
            return Outcome::Lost;
        }
        lane.take(reservation);
        if self.was_closed(lane) {
            return Outcome::Gone;
        }
        if self.write_pending_wait(lane, ticks, need) { Outcome::Committed } else { Outcome::Gone }
    }

    /// Writes the record of the noted wait. Writes nothing if no wait is noted, or if there is no room for the record
    /// and for `need` bytes more, which stay free after the record. The lane is between two records; `ticks` are the
    /// ticks of the next record, or of the last one. Returns false if the ring was closed meanwhile.
    #[inline(always)]
    pub(super) fn write_pending_wait(&self, lane: &Lane, ticks: u64, need: u64) -> bool {
        let is_noted = self.waited.ns.load(Ordering::Relaxed) > 0 && std::ptr::eq(lane, &self.main);
        !is_noted || self.write_wait(lane, ticks, need)
    }

    #[cold]
    #[inline(never)]
    fn write_wait(&self, lane: &Lane, ticks: u64, need: u64) -> bool {
        let Some(wait) = self.waited.get().filter(|_| WAIT_BYTES + need <= lane.block()) else { return true };
        if !lane.has_room_for(WAIT_BYTES + need) {
            let found = self.try_find_room(lane, WAIT_BYTES + need);
            let Some(reservation) = found else { return true };
            lane.take(reservation);
            if self.was_closed(lane) {
                return false;
            }
        }
        self.waited.ns.store(0, Ordering::Relaxed);
        // SAFETY: there is room for these bytes.
        let end = unsafe { lane.write_words(wait.word(), ticks, &wait.payload()) };
        // No call of the program has made this record, so it is not counted.
        lane.publish(end);
        true
    }

    /// Returns room for `need` bytes at the lane's position; `None` if there is no room without waiting.
    fn try_find_room(&self, lane: &Lane, need: u64) -> Option<Reservation> {
        // SAFETY: as in `open`, which was asked first.
        let memory = self.reserved_end(lane, unsafe { &*self.link });
        if lane.end_of(lane.pos(), need) > memory {
            return None;
        }
        let found = lane.find(lane.pos(), need).map(|found| found.within(memory));
        found.filter(|found| found.limit >= found.start + need)
    }

    /// Notes that the thread has waited for this ring. The wait began at `start`, in nanoseconds of the monotonic
    /// clock, and at the ticks `begin`. The ring's thread calls this before its first record in the ring.
    pub(crate) fn note_wait_for_ring(&self, start: u64, begin: Ticks) {
        self.note_wait(&self.main, (start, begin), WaitCause::Ring);
    }

    /// Notes that the thread has waited for the list of modules. The wait began at `start`, in nanoseconds of the
    /// monotonic clock, and at the ticks `begin`. Makes the thread look for room at its next record: the code that
    /// looks for room writes the record of the wait before the next record.
    pub(crate) fn note_wait_for_modules(&self, start: u64, begin: Ticks) {
        self.note_wait(&self.main, (start, begin), WaitCause::Modules);
        self.revoke();
    }

    /// Counts a wait that has just ended, and notes the wait for its record. The wait began at `start`, in nanoseconds
    /// of the monotonic clock, and at the ticks `begin`.
    #[cold]
    fn note_wait(&self, lane: &Lane, (start, begin): (u64, Ticks), what: WaitCause) {
        let ns = self.waited.note(start, begin, what);
        add(&lane.written().stalls, 1);
        add(&lane.written().stall_ns, ns);
    }

    /// Returns whether `lane` is the lane of the thread's main ring, which has the records that are not inside other
    /// records. Returns false for the lane of the nested ring.
    fn is_main(&self, lane: &Lane) -> bool {
        std::ptr::eq(lane, &self.main)
    }

    /// Returns whether the flusher has closed the ring for the records of this lane. Always returns false for the
    /// nested ring. Must be called after the lane's limit was stored.
    pub(super) fn was_closed(&self, lane: &Lane) -> bool {
        if !self.is_main(lane) {
            return false;
        }
        // If the flusher closed the ring since, its `revoke` may have been overwritten by `take`. One of the two sees
        // the other: here the limit is stored before this load, there the flag is stored before the limit.
        std::sync::atomic::fence(Ordering::SeqCst);
        // SAFETY: as in `open`, which was asked first; there was no fork since.
        let closed = unsafe { &*self.link }.closed.load(Ordering::Relaxed);
        if closed {
            lane.revoke();
        }
        closed
    }

    /// Finds room of `need` bytes from the position `from` on; waits for room if the policy says so. Returns `None` if
    /// there is no room.
    #[cold]
    #[inline(never)]
    pub(super) fn find(&self, lane: &Lane, from: u64, need: u64) -> Option<Reservation> {
        // SAFETY: as in `open`, which was asked first.
        let link = unsafe { &*self.link };
        let main = self.is_main(lane);
        let memory = self.memory_end(lane, from, need)?;
        if memory < ALL_RESERVED {
            return lane.find(from, need).map(|found| found.within(memory));
        }
        let found = lane.find(from, need).or_else(|| {
            link.wake.wake();
            if self.may_wait(lane) { self.wait(lane, from, need, link) } else { None }
        })?;
        // No record waits for room in the nested ring, so the flusher has to come earlier.
        if found.pending >= lane.capacity() / if main { 2 } else { 4 } {
            link.wake.wake();
        }
        if main {
            self.dropping.store(false, Ordering::Relaxed);
        }
        Some(found)
    }

    /// Returns whether a record of this lane may wait for room. A nested record may not: the flusher may have to see
    /// the outer record first, which the wait would hold up.
    pub(super) fn may_wait(&self, lane: &Lane) -> bool {
        // SAFETY: as in `find`.
        self.is_main(lane) && unsafe { &*self.link }.policy == FullPolicy::Block
    }

    /// Waits until the memory for `need` bytes from the position `from` on is reserved. Returns the position below
    /// which the lane's memory is reserved then; [`ALL_RESERVED`] if all of the memory is reserved; `None` if the
    /// memory for `need` bytes cannot be reserved.
    pub(super) fn memory_end(&self, lane: &Lane, from: u64, need: u64) -> Option<u64> {
        // SAFETY: as in `find`.
        let link = unsafe { &*self.link };
        let (reserved, end) = (self.reserved_end(lane, link), lane.end_of(from, need));
        if end <= reserved { Some(reserved) } else { self.wait_for_memory(lane, link, end) }
    }

    /// Returns the position below which the memory of a lane is reserved now.
    fn reserved_end(&self, lane: &Lane, link: &Link) -> u64 {
        // Acquire: a thread that sees the position finds the memory reserved.
        let reserved = link.reserved.load(Ordering::Acquire);
        if self.is_main(lane) || reserved == ALL_RESERVED { reserved } else { FIRST_NESTED_BYTES }
    }

    /// Waits until the memory of the lane is reserved up to `end`, which the flusher does as soon as it has handed the
    /// ring out. Returns the position below which the memory is reserved then; `None` if reserving takes too long or
    /// fails, and in a forked child.
    ///
    /// Nested records wait, too: the flusher needs nothing from this thread to reserve memory.
    #[cold]
    fn wait_for_memory(&self, lane: &Lane, link: &Link, end: u64) -> Option<u64> {
        let _errno = sys::keep_errno();
        let (start, begin) = (sys::monotonic_ns(), clock::now_inside());
        loop {
            link.room.sleep(Duration::from_millis(1));
            if self.link.is_null() {
                return None;
            }
            let waited = sys::monotonic_ns().saturating_sub(start);
            let reserved = self.reserved_end(lane, link);
            if end <= reserved || link.closed.load(Ordering::Acquire) || waited >= MAX_MEMORY_WAIT {
                self.note_wait(&self.main, (start, begin), WaitCause::Memory);
                return (end <= reserved).then_some(reserved);
            }
        }
    }

    #[cold]
    fn wait(&self, lane: &Lane, from: u64, need: u64, link: &Link) -> Option<Reservation> {
        if self.dropping.load(Ordering::Relaxed) || link.failing.load(Ordering::Relaxed) {
            return None;
        }
        let _errno = sys::keep_errno();
        let (start, begin) = (sys::monotonic_ns(), clock::now_inside());
        let mut pause = Duration::from_millis(1);
        let reservation = loop {
            link.wake.wake();
            link.room.sleep(pause.min(link.max_stall));
            if self.link.is_null() {
                // A signal handler has forked meanwhile: this is the child, and the lane is wiped.
                return None;
            }
            pause = (pause * 2).min(Duration::from_millis(10));
            let waited = sys::monotonic_ns().saturating_sub(start);
            let reservation = lane.find(from, need);
            let useless =
                u128::from(waited) >= link.max_stall.as_nanos() || link.failing.load(Ordering::Relaxed);
            // One long wait is cheaper than many short ones, for the flusher above all: on a busy machine each wait
            // takes the processor away from it. Pieces that are not published do not count: the flusher cannot free
            // them.
            let plenty = reservation.is_some() && has_enough_room(lane.unconsumed(), lane.capacity());
            if plenty || useless || link.closed.load(Ordering::Relaxed) {
                break reservation;
            }
        };
        self.note_wait(lane, (start, begin), WaitCause::Room);
        self.dropping.store(reservation.is_none(), Ordering::Relaxed);
        reservation
    }
}

/// Returns word 0 and the payload of the record of a function's call site, after a hook has recorded the function's
/// entry: `address` lies in the function, which will return to `call_site`. The record is an incomplete call stack.
pub(crate) fn call_site_record(address: u64, call_site: u64) -> (u64, [u64; 2]) {
    // A call stack contains the addresses behind calls.
    let frames = [address + 1, call_site];
    (stack_word(Flags::NONE, size_of_val(&frames)), frames)
}

/// Returns whether a thread that waits for room in a ring of `capacity` bytes may go on, if `unconsumed` published
/// bytes wait for the flusher.
pub(crate) fn has_enough_room(unconsumed: u64, capacity: u64) -> bool {
    unconsumed <= capacity / 2
}
