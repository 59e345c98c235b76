//! Marks a thread as being inside the tracer's own code.
//!
//! Any thread may be marked. The records that a marked thread makes are discarded and counted.

use std::ptr;

use crate::sys;

sys::lasting_thread_local! {
    /// The stack pointer at the moment when the calling thread was marked as inside the tracer's own cold code. Null if
    /// the thread is not marked, [`NEVER_LEFT`] in the tracer's own threads. The records of a marked thread are
    /// discarded.
    ///
    /// The mark counts only for code whose stack frame is deeper than this address. If a frame further out makes a
    /// record, `longjmp` has left the marked code without removing the mark.
    static EXCLUDED: *const ();
}

/// The value of `EXCLUDED` in the tracer's own threads. The address lies further out than any stack frame, so that the
/// mark is always valid.
const NEVER_LEFT: usize = usize::MAX;

/// A guard that marks the thread that has made it as inside the tracer's own code, until the guard is dropped.
pub(crate) struct Excluded(());

impl Excluded {
    /// Marks the calling thread as inside the tracer's own code. Returns `None` if the thread is marked already: a
    /// second guard, when it is dropped, would unmark the thread too early.
    ///
    /// The thread is marked with the stack pointer. The mark is valid only for functions whose stack frames are deeper
    /// than that. This function is inlined, so the stack pointer is the caller's, and all functions that the caller
    /// calls have deeper frames.
    #[inline(always)]
    pub(crate) fn enter() -> Option<Excluded> {
        let here = sys::stack_pointer();
        if is_marked(here) {
            return None;
        }
        EXCLUDED.set(ptr::without_provenance(here));
        Some(Excluded(()))
    }

    /// Marks the calling thread, which must be one of the tracer's own threads, for its whole life.
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
    /// The stack pointer in the call of [`once`] that the calling thread is executing; null if there is none. As with
    /// [`EXCLUDED`], a frame that is further out ignores the value, because `longjmp` has then left the call.
    static HELPING: *const ();
}

/// Runs `help`, which does work that a compiler's hook needs for its record, and returns its result. Returns `None` if
/// the thread is already inside a call of this function.
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

/// Returns whether the calling thread is marked as inside the tracer's own code. `here` is the caller's stack pointer.
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
