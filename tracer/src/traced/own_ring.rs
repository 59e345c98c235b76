//! The calling thread's ring: where it is kept, and how it is given up.
//!
//! Runs on traced threads.
#![allow(unsafe_code, reason = "the thread's pointer to its ring; each use argued")]

use std::cell::Cell;
use std::ptr;

use trace_format::meta::EndReason;

use super::call_stack;
use crate::ring::Producer;
use crate::shared::thread_ring::ThreadRing;
use crate::sync::exclusion::Excluded;
use crate::sys;

thread_local! {
    /// The calling thread's producer, or null. It has no destructor, so it can be used as long as the thread
    /// runs.
    pub(super) static CURRENT: Cell<*const Producer> = const { Cell::new(ptr::null()) };
    /// The ring that the producer belongs to, or null.
    pub(super) static RING: Cell<*const ThreadRing> = const { Cell::new(ptr::null()) };
}

/// Gives up this thread's ring, if it has one, for the given reason. What is in it will be written.
pub(crate) fn leave(_: &Excluded, reason: EndReason) {
    let producer = CURRENT.replace(ptr::null());
    let ring = RING.replace(ptr::null());
    sys::forget_ring();
    if producer.is_null() || ring.is_null() {
        return;
    }
    // SAFETY: mapped while this thread has the ring; a wiped page says that this is a forked child, which has
    // no business with the ring.
    if unsafe { &*producer }.is_wiped() {
        return;
    }
    // SAFETY: the ring is this thread's until this call hands it back.
    unsafe { ThreadRing::give_back(ring, reason) };
}

/// Gives the calling thread's ring to its variables again, where those were taken away before the thread's end and
/// something traces that comes later. Returns its producer, if there is such a ring.
pub(super) fn find_again() -> Option<&'static Producer> {
    let ring = sys::kept_ring().cast::<ThreadRing>();
    if ring.is_null() || !RING.get().is_null() {
        return None;
    }
    RING.set(ring);
    // SAFETY: a ring is mapped while a thread has it, and this one gives it up only where none is kept any more.
    let producer = unsafe { &*ring }.producer();
    CURRENT.set(producer);
    // SAFETY: mapped as long as the ring.
    Some(unsafe { &*producer })
}

/// Gives up the thread's ring at the thread's end, after the destructors of its thread-locals.
pub(crate) fn on_thread_exit() {
    call_stack::release();
    if sys::VARIABLES_LAST {
        if let Some(excluded) = Excluded::enter() {
            leave(&excluded, EndReason::Thread);
        }
        return;
    }
    // A variable that is used now is made anew, and never freed.
    let ring = sys::kept_ring().cast::<ThreadRing>();
    sys::forget_ring();
    if !ring.is_null() {
        // SAFETY: the thread has the ring, and nothing of the thread traces any more.
        unsafe { ThreadRing::give_back(ring, EndReason::Thread) };
    }
}
