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
    /// 0, or where the stack of the call ends that has this thread inside the tracer's own cold code: its records
    /// are discarded. A call further out in the stack proves that the marked one was left by `longjmp`, as in
    /// `Producer::frame`. [`NEVER_LEFT`] in the tracer's own threads.
    static EXCLUDED: Cell<usize> = const { Cell::new(0) };
    /// This thread's records that found no ring and are told in no file yet, and the id of the run that counts them as
    /// unplaced; 0 where there was no run.
    static LOST: Cell<(u32, u64)> = const { Cell::new((0, 0)) };
}

/// Records of all threads that found no ring, for they were made inside the tracer itself or none could be had,
/// and that are told in no file yet: that is done when their thread gets one.
pub(crate) static WITHOUT_RING: AtomicU64 = AtomicU64::new(0);

/// A mark that no frame lies further out than.
const NEVER_LEFT: usize = usize::MAX;

/// How many of them files of runs that have ended have told.
static TOLD: AtomicU64 = AtomicU64::new(0);

/// Records of all threads that found no ring and that no file tells yet.
pub(crate) fn untold() -> u64 {
    // Acquire: see `attach`.
    WITHOUT_RING.load(Ordering::Acquire).saturating_sub(TOLD.load(Ordering::Relaxed))
}

/// A file of the run tells so many of them.
pub(crate) fn tell(records: u64) {
    TOLD.fetch_add(records, Ordering::Relaxed);
}

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
fn is_marked(here: usize) -> bool {
    let frame = EXCLUDED.get();
    frame != 0 && !sys::is_deeper(frame, here)
}

/// Whether the calling thread is inside a record, or inside the tracer's own code.
#[inline(always)]
pub(crate) fn is_inside() -> bool {
    let here = sys::stack_pointer();
    let producer = CURRENT.get();
    // SAFETY: as in `trace`.
    is_marked(here) || (!producer.is_null() && unsafe { &*producer }.is_inside(here))
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
#[inline(always)]
pub(crate) fn is_excluded() -> bool {
    is_marked(sys::stack_pointer())
}

/// The first record of a thread, of a forked child, or after the ring was closed.
#[cold]
#[inline(never)]
fn trace_first(args: fmt::Arguments<'_>) {
    match attach() {
        Some(producer) => {
            producer.record(clock::now(), args);
        }
        // What the host's allocator traces on a thread of the tracer's own is no record of the host's.
        None if state::is_off() || EXCLUDED.get() == NEVER_LEFT => {}
        None => {
            WITHOUT_RING.fetch_add(1, Ordering::Relaxed);
            let run = state::current().filter(|run| run.is_of_this_process() && !run.is_closed());
            let (counted_by, lost) = LOST.get();
            let id = run.map_or(0, |run| run.id);
            // What another run has counted it tells itself; what none has counted is this one's.
            let before = if [0, id].contains(&counted_by) { lost } else { 0 };
            LOST.set((id, before + 1));
            if let Some(run) = run {
                run.count_unplaced(if counted_by == 0 { before + 1 } else { 1 });
            }
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
    let (counted_by, lost) = LOST.take();
    let lost = if [0, run.id].contains(&counted_by) { lost } else { 0 };
    ring.lend(sys::thread_id(), sys::thread_name(), clock::now(), lost);
    // Behind that: killed in between, or at an exit, they are told twice rather than never. Release: who sees them gone
    // from this sum sees the ring that has them.
    WITHOUT_RING.fetch_sub(lost, Ordering::Release);
    if counted_by == run.id {
        run.placed(lost);
    }
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
