//! The mark of a thread that is inside the tracer's own code.
//!
//! Runs on any thread. What such a thread traces is discarded and counted.

use crate::sys;
use std::cell::Cell;

thread_local! {
    /// 0, or where the stack of the call ends that has this thread inside the tracer's own cold code: its records
    /// are discarded. A call further out in the stack proves that the marked one was left by `longjmp`, as with
    /// a producer's frame. [`NEVER_LEFT`] in the tracer's own threads.
    static EXCLUDED: Cell<usize> = const { Cell::new(0) };
}

/// A mark that no frame lies further out than.
const NEVER_LEFT: usize = usize::MAX;

/// Marks the calling thread as inside the tracer's own code, until dropped.
pub(crate) struct Excluded(());

impl Excluded {
    /// `None` if it already is. Then none is made: to drop one unmarks the thread.
    ///
    /// Inlined, so that the mark is the caller's frame, and all that it calls is deeper.
    #[inline(always)]
    pub(crate) fn enter() -> Option<Excluded> {
        let here = sys::stack_pointer();
        if is_marked(here) {
            return None;
        }
        EXCLUDED.set(here);
        Some(Excluded(()))
    }

    /// The same for a thread that is the tracer's own.
    pub(crate) fn for_good() -> Excluded {
        EXCLUDED.set(NEVER_LEFT);
        Excluded(())
    }
}

impl Drop for Excluded {
    fn drop(&mut self) {
        EXCLUDED.set(0);
    }
}

/// Whether the calling thread is inside the tracer's own code, seen from a frame that ends at `here`.
pub(crate) fn is_marked(here: usize) -> bool {
    let frame = EXCLUDED.get();
    frame != 0 && !sys::is_deeper(frame, here)
}

/// Whether the calling thread is inside the tracer's own code: its records are discarded and counted.
#[inline(always)]
pub(crate) fn is_excluded() -> bool {
    is_marked(sys::stack_pointer())
}

/// Whether the calling thread is the tracer's own: what the host's allocator traces there is no record of the host's.
pub(crate) fn is_tracers_own() -> bool {
    EXCLUDED.get() == NEVER_LEFT
}
