//! The data about a lock that records contain: its number, the position in the source where it was made, its holder,
//! and the call by which the holder has got it.
//!
//! The functions run on traced threads. [`LockFacts::hold`] and [`LockFacts::release`] are hot: each is one store.
#![allow(unsafe_code, reason = "the place of a call, from the number that it is kept as; argued")]

use std::cell::Cell;
use std::panic::Location;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use super::records;
use crate::shared::numbers::{self, Numbers};
use crate::shared::process;
use crate::sys;

/// A position in the program's source.
pub(super) type SourceLocation = &'static Location<'static>;

/// Returns whether locks make no records now, because tracing is off or was left out at compile time.
#[inline(always)]
pub(super) fn is_off() -> bool {
    cfg!(feature = "compile-out") || process::is_off()
}

/// The number by which records identify a lock or a condition variable. It is 0 until a record first needs the number.
#[derive(Debug)]
pub(super) struct Number(AtomicU64);

impl Number {
    pub(super) const fn new() -> Number {
        Number(AtomicU64::new(0))
    }

    /// Returns the number. The first call assigns a new number, which is unique in the process.
    pub(super) fn get(&self) -> u64 {
        // Relaxed: the number orders no other memory.
        let known = self.0.load(Ordering::Relaxed);
        if known != 0 {
            return known;
        }
        let new = numbers::take(Numbers::Locks, 1);
        self.0
            .compare_exchange(0, new, Ordering::Relaxed, Ordering::Relaxed)
            .map_or_else(|other| other, |_| new)
    }
}

thread_local! {
    /// The system's id of the thread; 0 until it is first asked for.
    static THREAD: Cell<u32> = const { Cell::new(0) };
}

/// Returns the id of the calling thread.
#[inline(always)]
fn thread() -> u32 {
    let known = THREAD.get();
    if known == 0 { query_thread_id() } else { known }
}

/// Asks the system for the id of the calling thread, which differs in a forked child. Returns 0 if the id has more than
/// 32 bits.
#[cold]
#[inline(never)]
fn query_thread_id() -> u32 {
    let id = u32::try_from(sys::thread_id()).unwrap_or(0);
    THREAD.set(id);
    id
}

/// A variable from whose address the distances of source positions are counted. In one executable or library, all
/// source positions are less than 16 GiB away from the variable.
static BASE: u64 = 0;

/// Returns the distance in memory of `place` from [`BASE`], in steps of eight bytes; 0 if it is too far away, or not a
/// whole number of steps.
#[inline(always)]
fn steps_to(place: SourceLocation) -> u32 {
    let bytes = (ptr::from_ref(place).expose_provenance()).wrapping_sub(ptr::from_ref(&BASE).addr());
    match i32::try_from(bytes as isize >> 3) {
        Ok(steps) if bytes & 7 == 0 => steps as u32,
        _ => 0,
    }
}

/// Returns the source position for which [`steps_to`] has returned `steps`; `None` for 0.
fn place_at(steps: u32) -> Option<SourceLocation> {
    if steps == 0 {
        return None;
    }
    let bytes = (steps as i32 as isize) << 3;
    let address = ptr::from_ref(&BASE).addr().wrapping_add_signed(bytes);
    // SAFETY: `steps` was returned by `steps_to` for a place, and is not 0, so this is the address of that place: it
    // was divided by eight without a remainder, and fitted. The place was exposed there, is never freed and never
    // changed.
    unsafe { ptr::with_exposed_provenance::<Location<'static>>(address).as_ref() }
}

/// The thread that holds a lock, and the position of the call by which it has got the lock.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Holder {
    /// The id of the thread; 0 if it is not known.
    pub(super) thread: u32,
    pub(super) since: Option<SourceLocation>,
}

/// The data about one lock that records contain.
#[derive(Debug)]
pub(super) struct LockFacts {
    number: Number,
    /// The id of the thread that holds the lock, in the lower half, and the position of its call ([`steps_to`]) in the
    /// upper half.
    ///
    /// ```text
    ///        hold(), right after the lock is taken
    ///   0 ───────────────────────────────► (call, thread)
    ///     ◄───────────────────────────────
    ///        release(), right before it is released
    /// ```
    ///
    /// If the lock is exclusive, only its holder writes here. Each reader overwrites the word when it has got the lock,
    /// and clears the word before it releases the lock, if the word still is its own. As this is one word, no thread
    /// sees the id of one holder with the call of another one. Relaxed: the word orders no other memory.
    holder: AtomicU64,
    made: Option<SourceLocation>,
}

impl LockFacts {
    /// Makes the data about a new lock. `made` is the position in the source where it was made, if that is known.
    pub(super) const fn new(made: Option<SourceLocation>) -> LockFacts {
        LockFacts { number: Number::new(), holder: AtomicU64::new(0), made }
    }

    /// Returns the lock's number.
    pub(super) fn number(&self) -> u64 {
        self.number.get()
    }

    /// Stores the calling thread as the lock's holder since the call at `place`.
    #[inline(always)]
    pub(super) fn hold(&self, place: SourceLocation) {
        let word = u64::from(steps_to(place)) << 32 | u64::from(thread());
        self.holder.store(word, Ordering::Relaxed);
    }

    /// Clears the stored holder of an exclusive lock. The holder is the calling thread, which is about to release the
    /// lock.
    #[inline(always)]
    pub(super) fn release(&self) {
        self.holder.store(0, Ordering::Relaxed);
    }

    /// Clears the stored holder of a lock if that is the calling thread: a reader that is about to release the lock.
    #[inline(always)]
    pub(super) fn release_shared(&self) {
        let word = self.holder.load(Ordering::Relaxed);
        // A reader that comes in between is then not known, but no reader that has gone is shown.
        if word != 0 && word as u32 == THREAD.get() {
            self.release();
        }
    }

    /// Returns the holder of the lock.
    fn holder(&self) -> Holder {
        let word = self.holder.load(Ordering::Relaxed);
        Holder { thread: word as u32, since: place_at((word >> 32) as u32) }
    }

    /// Records that the calling thread waits for the lock in the call at `place`; `wanted_access` is the operation:
    /// `lock`, `read`, `write`, `upgradable`.
    #[cold]
    #[inline(never)]
    pub(super) fn wait(&self, wanted_access: &'static str, place: SourceLocation) -> Waiting {
        query_thread_id();
        let number = self.number();
        records::wait(number, wanted_access, self.made, place, self.holder());
        Waiting { number, since: Instant::now() }
    }

    /// Calls `take`, which waits for the lock, and records the beginning and the end of the wait. Returns the result of
    /// `take`.
    #[cold]
    #[inline(never)]
    pub(super) fn wait_until<R>(
        &self,
        wanted_access: &'static str,
        place: SourceLocation,
        take: impl FnOnce() -> R,
    ) -> R {
        let waiting = self.wait(wanted_access, place);
        let taken = take();
        waiting.got();
        taken
    }
}

/// A wait for a lock that is in progress. The beginning of the wait was recorded.
#[derive(Debug)]
#[must_use]
pub(super) struct Waiting {
    number: u64,
    since: Instant,
}

impl Waiting {
    /// Records that the thread has got the lock.
    pub(super) fn got(self) {
        records::got(self.number, nanoseconds_since(self.since));
    }

    /// Records that the thread has stopped waiting without getting the lock, because its timeout was over.
    #[cfg(feature = "parking_lot")]
    pub(super) fn gave_up(self) {
        records::gave_up(self.number, nanoseconds_since(self.since));
    }
}

/// Returns the nanoseconds that have passed since `moment`, at most `u64::MAX`, which is more than five hundred years.
pub(super) fn nanoseconds_since(moment: Instant) -> u64 {
    u64::try_from(moment.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_holder_of_a_lock_and_its_place_are_known_until_release() {
        let facts = LockFacts::new(None);
        assert_eq!((facts.holder().thread, facts.holder().since), (0, None));
        let here = Location::caller();
        facts.hold(here);
        assert_eq!(u64::from(facts.holder().thread), sys::thread_id());
        assert_eq!(facts.holder().since, Some(here));
        std::thread::scope(|scope| {
            scope.spawn(|| facts.release_shared());
        });
        assert_eq!(facts.holder().since, Some(here), "another reader goes");
        facts.release_shared();
        assert_eq!((facts.holder().thread, facts.holder().since), (0, None));
    }

    #[test]
    fn a_place_that_cannot_be_encoded_is_none() {
        // No memory is read: a place that cannot be expressed is 0, and 0 is not a place.
        assert_eq!(place_at(0), None);
        let here = Location::caller();
        assert!(ptr::eq(place_at(steps_to(here)).unwrap(), here));
    }

    #[test]
    fn numbers_differ_and_stay() {
        let (a, b) = (Number::new(), Number::new());
        let first = a.get();
        assert!(first != 0 && b.get() != first && a.get() == first);
    }
}
