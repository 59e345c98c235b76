//! A thread's side of tracing: which ring it has, how it gets one, how it gives it back.
//!
//! Runs on traced threads. Only [`trace`] is hot.
#![allow(unsafe_code, reason = "the thread's pointer to its ring; each use argued")]

use crate::ring::{Outcome, Producer};
use crate::site::Arguments;
use crate::thread_ring::ThreadRing;
use crate::{clock, state, sys};
use std::cell::Cell;
use std::fmt;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use trace_format::line::Ticks;
use trace_format::meta::EndReason;

thread_local! {
    /// This thread's producer, or null. No destructor, so it can be used as long as the thread runs.
    static CURRENT: Cell<*const Producer> = const { Cell::new(ptr::null()) };
    /// The ring that the producer belongs to, or null.
    static RING: Cell<*const ThreadRing> = const { Cell::new(ptr::null()) };
    /// This thread is inside the tracer's own cold code, or is the flusher: its records are discarded.
    static EXCLUDED: Cell<bool> = const { Cell::new(false) };
    /// This thread's records that found no ring and are told in no file yet.
    static LOST: Cell<u64> = const { Cell::new(0) };
}

/// Records of all threads that found no ring, for they were made inside the tracer itself or none could be had,
/// and that are told in no file yet: that is done when their thread gets one.
pub(crate) static WITHOUT_RING: AtomicU64 = AtomicU64::new(0);

/// Marks the calling thread as inside the tracer's own code, until dropped.
pub(crate) struct Excluded(());

impl Excluded {
    /// `None` if it already is. Then none is made: to drop one unmarks the thread.
    pub(crate) fn enter() -> Option<Excluded> {
        (!EXCLUDED.replace(true)).then(|| Excluded(()))
    }
}

impl Drop for Excluded {
    fn drop(&mut self) {
        EXCLUDED.set(false);
    }
}

/// Whether the calling thread is inside a record, or inside the tracer's own code.
pub(crate) fn is_inside() -> bool {
    let producer = CURRENT.get();
    // SAFETY: as in `trace`.
    EXCLUDED.get() || (!producer.is_null() && unsafe { &*producer }.is_inside())
}

/// Writes a record. Called where tracing is not off.
#[inline(never)]
pub(crate) fn trace(args: fmt::Arguments<'_>) {
    let ticks = clock::now();
    let producer = CURRENT.get();
    if !producer.is_null() {
        // SAFETY: a ring and its page stay mapped while a thread has them; this thread gives them up only in
        // `leave`, which sets the pointer to null.
        match unsafe { &*producer }.record(ticks, args) {
            Outcome::Committed | Outcome::Lost => return,
            Outcome::Gone => {}
        }
    }
    trace_first(args);
}

/// Copies the arguments of a site into a record; false where the message is to be formatted.
#[inline(always)]
pub(crate) fn capture<A: Arguments>(ticks: Ticks, site: u32, arguments: &A) -> bool {
    let producer = CURRENT.get();
    // SAFETY: as in `trace`.
    !producer.is_null() && unsafe { &*producer }.capture(ticks, site, arguments)
}

/// Whether the calling thread is inside the tracer's own code: its records are discarded and counted.
pub(crate) fn is_excluded() -> bool {
    EXCLUDED.get()
}

/// The first record of a thread, of a forked child, or after the ring was closed.
#[cold]
#[inline(never)]
fn trace_first(args: fmt::Arguments<'_>) {
    match attach() {
        Some(producer) => {
            producer.record(clock::now(), args);
        }
        None if state::is_off() => {}
        None => {
            LOST.set(LOST.get() + 1);
            WITHOUT_RING.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Takes a ring for the calling thread, in exchange for the one that it may have had.
fn attach() -> Option<&'static Producer> {
    // A handler that traces meanwhile is turned away here.
    let excluded = Excluded::enter()?;
    let _errno = sys::keep_errno();
    leave(&excluded, EndReason::Thread);
    let run = state::run(&excluded)?;
    let ring = run.claim()?;
    let lost = LOST.take();
    WITHOUT_RING.fetch_sub(lost, Ordering::Relaxed);
    ring.lend(sys::thread_id(), sys::thread_name(), clock::now(), lost);
    sys::call_at_thread_exit();
    RING.set(ptr::from_ref(ring));
    CURRENT.set(ring.producer());
    // SAFETY: as in `trace`: mapped while this thread has the ring.
    Some(unsafe { &*ring.producer() })
}

/// Gives up this thread's ring, if it has one, for the given reason. What is in it will be written.
pub(crate) fn leave(_: &Excluded, reason: EndReason) {
    let producer = CURRENT.replace(ptr::null());
    let ring = RING.replace(ptr::null());
    if producer.is_null() || ring.is_null() {
        return;
    }
    // SAFETY: as in `trace`; a wiped page says that this is a forked child, which has no business with the ring.
    if unsafe { &*producer }.is_wiped() {
        return;
    }
    // SAFETY: the ring is this thread's until this call hands it back.
    unsafe { ThreadRing::give_back(ring, reason) };
}

/// At the end of a thread, after its thread-locals' destructors.
pub(crate) fn on_thread_exit() {
    if let Some(excluded) = Excluded::enter() {
        leave(&excluded, EndReason::Thread);
    }
}
