//! A thread and the flusher part from a ring: the second of the two may free it, and only the flusher may
//! lend it again, once its thread has let go.

#[cfg(not(loom))]
use std::sync::atomic::{AtomicU32, Ordering};

#[cfg(loom)]
use loom::sync::atomic::{AtomicU32, Ordering};

const THREAD_LEFT: u32 = 1;
const FLUSHER_LEFT: u32 = 2;

/// A word that says which of the two that know a ring have done with it.
///
/// ```text
///           the thread leaves                  the flusher lends it again
///     0 ───────────────────────► THREAD_LEFT ─────────────────────────────► 0
///     │                              │ the flusher leaves: it frees the ring
///     │ the flusher leaves           ▼
///     └────► FLUSHER_LEFT ────────► both
///                 the thread leaves: it frees the ring
/// ```
///
/// Leaving is `AcqRel`: who frees the ring sees all that the other has done to it. After leaving, neither
/// touches the ring again, so `THREAD_LEFT`, not the word in the ring that says its thread has ended, is what
/// the flusher waits for before it lends the ring again.
#[derive(Debug)]
pub(crate) struct Parting(AtomicU32);

impl Parting {
    /// Makes the word of a ring that both use.
    pub(crate) fn new() -> Parting {
        Parting(AtomicU32::new(0))
    }

    /// Notes that the thread has done with the ring. Returns true where the flusher has, too: then the caller
    /// frees it.
    #[must_use]
    pub(crate) fn thread_leaves(&self) -> bool {
        self.0.fetch_or(THREAD_LEFT, Ordering::AcqRel) & FLUSHER_LEFT != 0
    }

    /// Notes that the flusher has done with the ring. Returns true where its thread has, too: then the caller
    /// frees it.
    #[must_use]
    pub(crate) fn flusher_leaves(&self) -> bool {
        self.0.fetch_or(FLUSHER_LEFT, Ordering::AcqRel) & THREAD_LEFT != 0
    }

    /// Returns whether the thread has done with the ring. For the flusher.
    pub(crate) fn has_thread_left(&self) -> bool {
        self.0.load(Ordering::Acquire) & THREAD_LEFT != 0
    }

    /// Makes the ring ready to be lent again. For the flusher, after the last thread has left.
    pub(crate) fn renew(&self) {
        // Relaxed: the ring goes to the next thread through the pool.
        self.0.store(0, Ordering::Relaxed);
    }
}
