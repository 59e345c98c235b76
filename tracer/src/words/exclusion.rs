//! The mark of a thread that is inside the tracer's own code.
//!
//! Runs on any thread. The records of such a thread are discarded and counted.

use std::ptr;

use crate::sys;

sys::lasting_thread_local! {
    /// The end of the stack of the call that has put this thread inside the tracer's own cold code, or null. The
    /// thread's records are discarded meanwhile. A call further out in the stack proves that the marked one was left
    /// by `longjmp`, as with a producer's frame. [`NEVER_LEFT`] in the tracer's own threads.
    static EXCLUDED: *const ();
}

/// The mark that lies further out than any frame.
const NEVER_LEFT: usize = usize::MAX;

/// A mark of the calling thread as inside the tracer's own code, until it is dropped.
pub(crate) struct Excluded(());

impl Excluded {
    /// Marks the calling thread. Returns `None` if it is marked already, without making a mark: dropping one unmarks
    /// the thread.
    ///
    /// Inlined, so that the mark is the caller's frame, and all its calls are deeper.
    #[inline(always)]
    pub(crate) fn enter() -> Option<Excluded> {
        let here = sys::stack_pointer();
        if is_marked(here) {
            return None;
        }
        EXCLUDED.set(ptr::without_provenance(here));
        Some(Excluded(()))
    }

    /// Marks the calling thread, which is the tracer's own, for good.
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
    /// The end of the stack of the call that has put this thread inside of [`once`], or null. It is checked like the
    /// mark above.
    static HELPING: *const ();
}

/// Runs `help`, which a hook of a compiler needs for its record. Returns `None` if the thread is inside of such a
/// call already.
///
/// `help` may call functions of the C library, which a program may have replaced by its own, with hooks: these would
/// need the same help, without end.
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

/// Returns whether the calling thread is inside the tracer's own code, seen from a frame that ends at `here`.
pub(crate) fn is_marked(here: usize) -> bool {
    let frame = EXCLUDED.get().addr();
    frame != 0 && !sys::is_deeper(frame, here)
}

/// Returns whether the calling thread is inside the tracer's own code: its records are discarded and counted.
#[inline(always)]
pub(crate) fn is_excluded() -> bool {
    is_marked(sys::stack_pointer())
}

/// Returns whether the calling thread is the tracer's own: records of the host's allocator there are not the host's.
pub(crate) fn is_tracer_thread() -> bool {
    EXCLUDED.get().addr() == NEVER_LEFT
}
