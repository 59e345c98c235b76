//! The calling thread's ring: the variables that hold it, and the code by which the thread gives it up. The code runs
//! on traced threads.
#![allow(unsafe_code, reason = "the thread's pointer to its ring; each use argued")]

use std::ptr;

use trace_format::meta::EndReason;

use super::call_stack;
use crate::ring::Producer;
use crate::shared::thread_ring::ThreadRing;
use crate::sys::{self, lasting_thread_local};
use crate::words::exclusion::Excluded;

lasting_thread_local! {
    /// The writing end of the calling thread's ring, or null.
    pub(super) static CURRENT: near *const Producer;
}
lasting_thread_local! {
    /// The calling thread's ring, or null.
    pub(super) static RING: *const ThreadRing;
}

/// Gives up this thread's ring, if it has one, for the given reason. The flusher will write the ring's contents.
pub(crate) fn leave(_: &Excluded, reason: EndReason) {
    let producer = CURRENT.replace(ptr::null());
    let ring = RING.replace(ptr::null());
    if producer.is_null() || ring.is_null() {
        return;
    }
    // SAFETY: mapped while this thread has the ring; a wiped page shows that this is a forked child, which must not
    // touch the ring.
    if unsafe { &*producer }.is_wiped() {
        return;
    }
    // SAFETY: the ring is this thread's until `give_back` hands it back.
    unsafe {
        // The thread may have got another name since it took the ring.
        (*ring).note_name(sys::thread_name());
        ThreadRing::give_back(ring, reason);
    }
}

/// Gives up the thread's ring at the thread's end, after the destructors of its thread-locals.
pub(crate) fn on_thread_exit() {
    call_stack::release();
    #[cfg(all(feature = "unwind", target_os = "linux", target_arch = "x86_64"))]
    crate::stack::on_return::release();
    if let Some(excluded) = Excluded::enter() {
        leave(&excluded, EndReason::Thread);
    }
}
