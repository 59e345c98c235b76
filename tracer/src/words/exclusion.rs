//! The mark of a thread that is inside the tracer's own code.
//!
//! Any thread may be marked. The records of a marked thread are discarded and counted.

use std::ptr;

use crate::sys;

sys::lasting_thread_local! {
    /// The address at which the stack ended in the call that marked this thread as inside the tracer's own cold code;
    /// null if the thread is not marked, [`NEVER_LEFT`] in the tracer's own threads. The records of a marked thread are
    /// discarded. The mark no longer counts in a frame that is further out than the marked call: then `longjmp` has
    /// left that call.
    static EXCLUDED: *const ();
}

/// The mark of the tracer's own threads: an address that lies further out than any frame, so that the mark always
/// counts.
const NEVER_LEFT: usize = usize::MAX;

/// A guard that marks the thread that has made it as inside the tracer's own code, until the guard is dropped.
pub(crate) struct Excluded(());

impl Excluded {
    /// Marks the calling thread as inside the tracer's own code. Returns `None` if the thread is marked already: a
    /// second guard, when it is dropped, would unmark the thread too early.
    ///
    /// The mark is an address, the stack pointer, and counts in deeper frames only. This function is inlined, so the
    /// address is that of the end of the caller's frame, and the frames of all functions that the caller calls are
    /// deeper.
    #[inline(always)]
    pub(crate) fn enter() -> Option<Excluded> {
        let here = sys::stack_pointer();
        if is_marked(here) {
            return None;
        }
        EXCLUDED.set(ptr::without_provenance(here));
        Some(Excluded(()))
    }

    /// Marks the calling thread, which is one of the tracer's own, for its whole life: the mark counts in each of its
    /// frames.
    pub(crate) fn mark_permanently() -> Excluded {
        EXCLUDED.set(ptr::without_provenance(NEVER_LEFT));
        Excluded(())
    }
}

impl Drop for Excluded {
    fn drop(&mut self) {
        EXCLUDED.set(ptr::null());
    }
}

sys::lasting_thread_local! {
    /// The address at which the stack ended in the call of [`once`] that this thread is inside of; null if there is
    /// none. Like [`EXCLUDED`], it does not count in a frame that is further out.
    static HELPING: *const ();
}

/// Runs `help`, work that a compiler's hook needs for its record, and returns the result. Returns `None` if the thread
/// is already inside a call of this function.
///
/// `help` may call functions of the C library, which a program may have replaced by functions with hooks. Without this
/// check, these hooks would need the same work again, without end.
#[inline(always)]
pub(crate) fn once<T>(help: impl FnOnce() -> T) -> Option<T> {
    let (here, helped) = (sys::stack_pointer(), HELPING.get().addr());
    if helped != 0 && !sys::is_deeper(helped, here) {
        return None;
    }
    HELPING.set(ptr::without_provenance(here));
    let result = help();
    HELPING.set(ptr::null());
    Some(result)
}

/// Returns whether the calling thread is marked as inside the tracer's own code. `here` is the address at which the
/// stack of the caller's frame ends.
pub(crate) fn is_marked(here: usize) -> bool {
    let frame = EXCLUDED.get().addr();
    frame != 0 && !sys::is_deeper(frame, here)
}

/// Returns whether the calling thread is inside the tracer's own code: its records are discarded and counted.
#[inline(always)]
pub(crate) fn is_excluded() -> bool {
    is_marked(sys::stack_pointer())
}

/// Returns whether the calling thread is one of the tracer's own. Records that the host's allocator makes on such a
/// thread do not belong to the host.
pub(crate) fn is_tracer_thread() -> bool {
    EXCLUDED.get().addr() == NEVER_LEFT
}
