//! The word in which a ring's thread and the flusher note that they have stopped using the ring. The last of the two
//! frees the ring. Only the flusher may lend the ring to another thread, and only after the previous thread has stopped
//! using the ring.

#[cfg(not(loom))]
use std::sync::atomic::{AtomicU32, Ordering};

#[cfg(loom)]
use loom::sync::atomic::{AtomicU32, Ordering};

const THREAD_DETACHED: u32 = 1;
const FLUSHER_DETACHED: u32 = 2;

/// A word in which a ring's thread and the flusher each note that they no longer use the ring.
///
/// ```text
///           the thread leaves                  the flusher lends it again
///     0 ─────────────────────► THREAD_DETACHED ───────────────────────────► 0
///     │                              │ the flusher leaves: it frees the ring
///     │ the flusher leaves           ▼
///     └──► FLUSHER_DETACHED ──────► both
///                 the thread leaves: it frees the ring
/// ```
///
/// Leaving is `AcqRel`: whichever of the two frees the ring sees all that the other has done to it. After leaving,
/// neither touches the ring again. So, before the flusher lends the ring to another thread, it waits for
/// `THREAD_DETACHED`, not for the word in the ring's header that says that the thread has ended.
#[derive(Debug)]
pub(crate) struct Detachment(AtomicU32);

impl Detachment {
    /// Makes the word of a ring that its thread and the flusher both use.
    pub(crate) fn new() -> Detachment {
        Detachment(AtomicU32::new(0))
    }

    /// Marks the ring as no longer used by its thread. Returns true if the flusher does not use the ring either: then
    /// the caller has to free the ring.
    #[must_use]
    pub(crate) fn detach_thread(&self) -> bool {
        self.0.fetch_or(THREAD_DETACHED, Ordering::AcqRel) & FLUSHER_DETACHED != 0
    }

    /// Marks the ring as no longer used by the flusher. Returns true if the ring's thread does not use it either: then
    /// the caller has to free the ring.
    #[must_use]
    pub(crate) fn detach_flusher(&self) -> bool {
        self.0.fetch_or(FLUSHER_DETACHED, Ordering::AcqRel) & THREAD_DETACHED != 0
    }

    /// Returns whether the thread no longer uses the ring. Called by the flusher only.
    pub(crate) fn is_thread_detached(&self) -> bool {
        self.0.load(Ordering::Acquire) & THREAD_DETACHED != 0
    }

    /// Makes the ring ready to be lent to another thread. Called by the flusher only, after the previous thread has
    /// stopped using the ring.
    pub(crate) fn renew(&self) {
        // Relaxed: the ring goes to the next thread through the pool.
        self.0.store(0, Ordering::Relaxed);
    }
}
