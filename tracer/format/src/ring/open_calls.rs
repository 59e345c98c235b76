//! The open calls of a ring's thread that are still too short to be recorded. They are kept in shared memory, so that
//! the stack of a thread is known however its process ends.
//!
//! If a program sets a least duration of calls (`TRACER_MIN_DURATION`), it records a call only when the call has
//! lasted that long. Until then the call is *held back* here, after the calls that were entered before it and are
//! still open. All calls that are held back were entered after every record in the ring, because the thread records
//! them before it records anything later.
//!
//! ```text
//!              hold                                     in the ring: the calls in which it was made,
//!   entered ─────────► held back, number first..end ──► then, when it is left, its end
//!                         │ left too soon: end - 1       first + 1, as soon as the record is committed
//!                         ▼
//!                      forgotten
//! ```
//!
//! Only the producer writes. The recoverer reads after the process has ended. The flusher of an exiting process reads
//! while other threads may still run: see [`OpenCalls::calls`].

#[cfg(not(loom))]
use core::sync::atomic::{AtomicU64, Ordering, fence};

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering, fence};

use crate::line::Ticks;
use crate::record::hook_enter_word;

/// The greatest number of calls that are held back until they are long enough to be recorded. If there are more, the
/// outermost one is recorded although it may be left soon.
pub const MAX_OPEN: u64 = 112;

/// A call that is held back: it is open, and has not lasted long enough yet to be recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenCall {
    /// The ticks at which the call was entered; never 0.
    pub ticks: Ticks,
    /// An address in the function.
    pub address: u64,
    /// The address that the call returns to; 0 if it is not recorded.
    pub call_site: u64,
}

/// The calls of a ring's thread that are held back. All fields are zero in rings of earlier layouts, which hold no
/// calls back.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct OpenCalls {
    /// The number of the outermost call that is held back. Numbers only grow.
    first: AtomicU64,
    /// The number of the next call that will be held back.
    end: AtomicU64,
    /// The number of the call whose move into the ring was begun last, plus 1; 0 if there was none. If the ring's head
    /// differs from `moved_at`, the record of that call is in the ring.
    moved: AtomicU64,
    /// The head of the ring when the last move of a call into the ring began.
    moved_at: AtomicU64,
    places: [Place; MAX_OPEN as usize],
}

/// The memory for one call that is held back. `ticks` are 0 while the call is being written.
#[derive(Debug)]
#[repr(C)]
struct Place {
    ticks: AtomicU64,
    address: AtomicU64,
    call_site: AtomicU64,
}

impl OpenCall {
    /// Appends the record of the call's entry as a compiler's hook makes it in a ring.
    pub fn append_to(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&hook_enter_word(self.address).to_le_bytes());
        out.extend_from_slice(&self.ticks.0.to_le_bytes());
    }
}

impl OpenCalls {
    /// Returns the list of a ring in which no call is held back.
    pub(crate) fn new() -> OpenCalls {
        let zero = || AtomicU64::new(0);
        let place = |_| Place { ticks: zero(), address: zero(), call_site: zero() };
        OpenCalls {
            first: zero(),
            end: zero(),
            moved: zero(),
            moved_at: zero(),
            places: core::array::from_fn(place),
        }
    }

    /// Returns the number of the outermost call that is held back. Only the producer may call this method, as all
    /// methods of this type except [`calls`](Self::calls).
    #[inline(always)]
    pub fn first(&self) -> u64 {
        self.first.load(Ordering::Relaxed)
    }

    /// Returns the number of calls that are held back, at most [`MAX_OPEN`].
    #[inline(always)]
    pub fn count(&self) -> u64 {
        self.end.load(Ordering::Relaxed).wrapping_sub(self.first())
    }

    /// Holds back `call`, which is now the innermost open call; returns its number. Must be called only while fewer
    /// than [`MAX_OPEN`] calls are held back.
    #[inline(always)]
    pub fn hold(&self, call: OpenCall) -> u64 {
        let number = self.end.load(Ordering::Relaxed);
        let place = self.place(number);
        // A thread that reads the place meanwhile sees that it is being written.
        place.ticks.store(0, Ordering::Relaxed);
        fence(Ordering::Release);
        place.address.store(call.address, Ordering::Relaxed);
        place.call_site.store(call.call_site, Ordering::Relaxed);
        // Release: a thread that sees the ticks sees the rest.
        place.ticks.store(call.ticks.0, Ordering::Release);
        self.end.store(number.wrapping_add(1), Ordering::Release);
        number
    }

    /// Forgets the call with this number and all calls inside it, because they were too short to be recorded.
    #[inline(always)]
    pub fn forget_from(&self, number: u64) {
        debug_assert!(number >= self.first() && number <= self.end.load(Ordering::Relaxed));
        self.end.store(number, Ordering::Release);
    }

    /// Forgets all calls, because another thread has the ring.
    pub fn clear(&self) {
        self.end.store(self.first(), Ordering::Release);
    }

    /// Returns the outermost call that is held back.
    #[inline(always)]
    pub fn outermost(&self) -> Option<OpenCall> {
        (self.count() > 0).then(|| self.read(self.first())).flatten()
    }

    /// Announces that the record of the outermost call will be the next one in the ring. `head` is the ring's head
    /// before that record is committed.
    pub fn begin_move(&self, head: u64) {
        self.moved_at.store(head, Ordering::Relaxed);
        // Release: a thread that sees the number sees the head.
        self.moved.store(self.first().wrapping_add(1), Ordering::Release);
    }

    /// Forgets the outermost call, because its record is in the ring now, or lost. [`begin_move`](Self::begin_move) has
    /// announced the record.
    pub fn end_move(&self) {
        self.first.store(self.first().wrapping_add(1), Ordering::Release);
    }

    /// Returns the calls that are held back, the outermost first, except one that is in the ring already. `head` is the
    /// ring's head.
    ///
    /// The result is exact if the producer has stopped. If the producer still runs, each returned call was open at some
    /// moment: this method reads the ticks of a call before and after its other fields, and takes the call only if both
    /// readings are equal.
    #[must_use]
    pub fn calls(&self, head: u64) -> Vec<OpenCall> {
        let (mut first, end) = (self.first.load(Ordering::Acquire), self.end.load(Ordering::Acquire));
        let is_in_ring = self.moved.load(Ordering::Acquire) == first.wrapping_add(1)
            && self.moved_at.load(Ordering::Relaxed) != head;
        first = first.wrapping_add(u64::from(is_in_ring));
        // In a hostile ring the numbers may have any values.
        let is_list = end.checked_sub(first).is_some_and(|count| count <= MAX_OPEN);
        let numbers = if is_list { first..end } else { 0..0 };
        let mut calls: Vec<OpenCall> = Vec::new();
        for call in numbers.map_while(|number| self.read(number)) {
            // If the thread still runs, a place may have a later call than the places after it.
            if calls.last().is_none_or(|outer| outer.ticks <= call.ticks) {
                calls.push(call);
            }
        }
        calls
    }

    fn read(&self, number: u64) -> Option<OpenCall> {
        let place = self.place(number);
        let ticks = place.ticks.load(Ordering::Acquire);
        let (address, call_site) =
            (place.address.load(Ordering::Relaxed), place.call_site.load(Ordering::Relaxed));
        // The loads above are before the one below.
        fence(Ordering::Acquire);
        let is_whole = ticks != 0 && place.ticks.load(Ordering::Relaxed) == ticks;
        is_whole.then_some(OpenCall { ticks: Ticks(ticks), address, call_site })
    }

    #[inline(always)]
    fn place(&self, number: u64) -> &Place {
        &self.places[(number % MAX_OPEN) as usize]
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn call(ticks: u64) -> OpenCall {
        OpenCall { ticks: Ticks(ticks), address: ticks * 256, call_site: 0 }
    }

    #[test]
    fn calls_are_held_back_until_they_are_left_or_moved() {
        let open = OpenCalls::new();
        let numbers: Vec<u64> = (1..=MAX_OPEN).map(|ticks| open.hold(call(ticks))).collect();
        assert_eq!(open.calls(0), (1..=MAX_OPEN).map(call).collect::<Vec<_>>());
        open.forget_from(numbers[3]);
        assert_eq!(open.calls(0), [call(1), call(2), call(3)]);
        open.begin_move(80);
        assert_eq!(open.outermost(), Some(call(1)));
        assert_eq!(open.calls(80).len(), 3, "killed before the record is committed");
        assert_eq!(open.calls(96), [call(2), call(3)], "killed after that");
        open.end_move();
        assert_eq!(open.calls(96), [call(2), call(3)]);
        open.begin_move(96);
        assert_eq!((open.calls(96).len(), open.calls(112).len()), (2, 1));
        open.end_move();
        open.hold(call(9));
        assert_eq!(open.calls(112), [call(3), call(9)]);
        open.clear();
        assert_eq!((open.count(), open.calls(112)), (0, vec![]));
    }

    #[test]
    fn invalid_numbers_give_no_calls() {
        let open = OpenCalls::new();
        open.end.store(u64::MAX, Ordering::Relaxed);
        assert_eq!(open.calls(0), []);
        open.moved_at.store(8, Ordering::Relaxed);
        open.first.store(u64::MAX, Ordering::Relaxed);
        assert_eq!(open.calls(0), [], "the next number is none");
        open.first.store(u64::MAX - 3, Ordering::Relaxed);
        assert_eq!(open.calls(0), [], "of three, none was written");
    }
}
