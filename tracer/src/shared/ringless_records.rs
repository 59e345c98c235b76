//! The count of records that found no ring, or no file, until a file reports them.
//!
//! Any thread counts its own; the flusher reports all.
#![allow(unsafe_code, reason = "gives back a reference that was put in as a pointer")]

use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// The number of records of all threads that found no ring, because they were made inside the tracer itself or because
/// no ring could be had, or that found no file. A thread that gets a ring later moves the number of its own records
/// from here to the ring's count.
static WITHOUT_RING: AtomicU64 = AtomicU64::new(0);

/// The number of records without a ring that files of ended runs report.
static REPORTED_RECORDS: AtomicU64 = AtomicU64::new(0);

/// Returns the number of records of all threads that found no ring and that no file reports yet.
pub(crate) fn unreported_count() -> u64 {
    // Acquire: see [`move_to_ring`].
    WITHOUT_RING.load(Ordering::Acquire).saturating_sub(REPORTED_RECORDS.load(Ordering::Relaxed))
}

/// Adds `records`, which found no ring, to the number of records without a ring that a file reports.
pub(crate) fn count_reported(records: u64) {
    REPORTED_RECORDS.fetch_add(records, Ordering::Relaxed);
}

/// Adds `records`, which found no ring, to the count of records of all threads that found no ring.
pub(crate) fn count_without_ring(records: u64) {
    WITHOUT_RING.fetch_add(records, Ordering::Relaxed);
}

/// Returns the number of records that found no ring and are in no ring's count.
pub(crate) fn without_ring() -> u64 {
    WITHOUT_RING.load(Ordering::Relaxed)
}

/// Subtracts `records` from the count of records that found no ring, because they were added to the count in their
/// thread's ring, which the thread's file reports.
///
/// Release: a thread that sees the records gone from this count sees the ring that has them.
pub(crate) fn move_to_ring(records: u64) {
    WITHOUT_RING.fetch_sub(records, Ordering::Release);
}

/// A run's count of records that found no ring. It begins in this process's memory, `here`, and moves to a page that
/// outlives the process, `there`.
///
/// Any thread adds to the page or, if it sees no page, to `here`. The flusher sets the page, with Release, and moves
/// the count from `here` to the page. A thread that has seen no page may add to `here` after the move; so the count is
/// the sum of both. If the page's file is removed, the count moves to another page in the same way, and the sum
/// includes the former page, too. All other accesses are relaxed: the numbers are read when the threads have ended, or
/// are a moment old.
#[derive(Debug, Default)]
pub(crate) struct RinglessCounter {
    here: AtomicU64,
    there: AtomicPtr<AtomicU64>,
    former: AtomicPtr<AtomicU64>,
}

impl RinglessCounter {
    fn there(&self) -> Option<&'static AtomicU64> {
        // SAFETY: null, or from a reference that is good for ever.
        unsafe { self.there.load(Ordering::Acquire).as_ref() }
    }

    pub(super) fn add(&self, records: u64) {
        self.there().unwrap_or(&self.here).fetch_add(records, Ordering::Relaxed);
    }

    pub(super) fn subtract(&self, records: u64) {
        // Records that were counted in one place may be subtracted in the other: the sum wraps as each of them does.
        self.there().unwrap_or(&self.here).fetch_sub(records, Ordering::Relaxed);
    }

    pub(super) fn count(&self) -> u64 {
        // SAFETY: as in `there`.
        let former = unsafe { self.former.load(Ordering::Acquire).as_ref() };
        let of = |page: Option<&AtomicU64>| page.map_or(0, |count| count.load(Ordering::Relaxed));
        self.here.load(Ordering::Relaxed).wrapping_add(of(self.there())).wrapping_add(of(former))
    }

    pub(super) fn move_to(&self, place: &'static AtomicU64) {
        let former = self.there.swap(ptr::from_ref(place).cast_mut(), Ordering::AcqRel);
        let before = self.former.swap(former, Ordering::AcqRel);
        place.fetch_add(self.here.swap(0, Ordering::Relaxed), Ordering::Relaxed);
        for page in [former, before] {
            // SAFETY: as in `there`.
            if let Some(page) = unsafe { page.as_ref() } {
                place.fetch_add(page.swap(0, Ordering::Relaxed), Ordering::Relaxed);
            }
        }
    }
}
