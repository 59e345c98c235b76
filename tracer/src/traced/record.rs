//! A record on its way to its thread's ring, and the way in which a thread gets a ring.
//!
//! The functions run on traced threads. Only [`trace`] is hot.
#![allow(unsafe_code, reason = "the thread's pointer to its ring; each use argued")]

use std::cell::Cell;
use std::fmt;
use std::ptr;

use trace_format::capture::Cursor;
use trace_format::line::Ticks;
use trace_format::meta::EndReason;

use super::own_ring::{CURRENT, RING, leave};
use super::{fork, guest};
use crate::copies::{self, Owner};
use crate::ring::{Arguments, MAX_CAPTURED, Message, Outcome, Producer, clock};
use crate::shared::thread_name::ThreadName;
use crate::shared::{process, ringless_records};
use crate::stack;
use crate::sys;
use crate::user::config;
use crate::words::exclusion::{self, Excluded};

/// The room on the stack, in bytes, that a thread takes to get its ring and make a short record there. If there is
/// less, as on a small stack for signal handlers, the record is counted as lost.
const RING_STACK_BYTES: usize = if cfg!(debug_assertions) { 4 << 10 } else { 2 << 10 };

thread_local! {
    /// The number of records that this thread could not put into a ring and that no file reports yet, after the id of
    /// the run that has counted them (0 if there was no run).
    static LOST: Cell<(u32, u64)> = const { Cell::new((0, 0)) };
}

/// Returns whether the calling thread is inside a record, or inside the tracer's own code.
#[inline(always)]
pub(crate) fn is_inside() -> bool {
    let here = sys::stack_pointer();
    let producer = CURRENT.get();
    if copies::joined().is_some_and(Owner::is_inside) {
        return true;
    }
    // SAFETY: as in `trace_at`.
    exclusion::is_marked(here) || (!producer.is_null() && unsafe { &*producer }.is_inside(here))
}

/// Writes a message of the site with the number `site` (0: no site). Only called if tracing is not off.
#[inline(never)]
pub(crate) fn trace(site: u32, args: fmt::Arguments<'_>) {
    let ticks = clock::now();
    if let Some(text) = args.as_str() {
        let producer = CURRENT.get();
        // SAFETY: as in `trace_at`.
        if !producer.is_null() && unsafe { &*producer }.record_text_at_once(ticks, site, text) {
            return;
        }
    }
    trace_at(ticks, site, args);
}

/// Writes a message of the site with the number `site` (0: no site), whose call was at `ticks`.
#[inline(always)]
pub(crate) fn trace_at<'a>(ticks: Ticks, site: u32, message: impl Into<Message<'a>>) {
    let message = message.into();
    let producer = CURRENT.get();
    if !producer.is_null() {
        // SAFETY: a ring and its page stay mapped while a thread has them; this thread gives them up only in
        // `leave`, which sets the pointer to null.
        match unsafe { &*producer }.record(ticks, site, message) {
            Outcome::Committed | Outcome::Lost => return,
            Outcome::Gone => {}
        }
    }
    record_first(ticks, producer, &mut |to, ticks| match to {
        RecordReceiver::Ring(producer) => record_in_new_ring(producer, ticks, site, message),
        RecordReceiver::Owner(owner) => {
            owner.message(ticks, site, message);
            Outcome::Committed
        }
    });
}

/// Writes a message as [`Producer::record`] does. This is a separate function for the first record of a thread, so that
/// the usual path is short.
#[cold]
#[inline(never)]
fn record_in_new_ring(producer: &Producer, ticks: Ticks, site: u32, message: Message<'_>) -> Outcome {
    producer.record(ticks, site, message)
}

/// Writes a record that is already encoded as words of eight bytes: word 0, which says what the record is, and the
/// payload. Only called if tracing is not off.
#[inline(always)]
pub(crate) fn words(ticks: Ticks, word: u64, payload: &[u64]) {
    if let Err(producer) = words_in_ring(ticks, word, payload) {
        first_words(ticks, producer, word, payload);
    }
}

/// Writes a record of one word, made by a hook of the compiler. Only called if tracing is not off.
///
/// A program may call this twice for each function call, so every unusual case is a tail call: a tail call needs no
/// state to be kept, neither in registers nor on the stack.
#[inline(always)]
pub(crate) fn word_of_hook(ticks: Ticks, word: u64) {
    let producer = CURRENT.get();
    // SAFETY: as in `trace_at`.
    let is_done = !producer.is_null() && unsafe { &*producer }.record_word_at_once(ticks, word);
    if !is_done {
        unusual_word_of_hook(ticks.0, word);
    }
}

#[cold]
#[inline(never)]
extern "C" fn unusual_word_of_hook(ticks: u64, word: u64) {
    let ticks = Ticks(ticks);
    if let Err(producer) = words_in_ring(ticks, word, &[]) {
        config::expect_every_function();
        first_words(ticks, producer, word, &[]);
    }
}

#[cold]
#[inline(never)]
fn first_words(ticks: Ticks, producer: *const Producer, word: u64, payload: &[u64]) {
    record_first(ticks, producer, &mut |to, ticks| match to {
        RecordReceiver::Ring(producer) => producer.record_words(ticks, word, payload),
        RecordReceiver::Owner(owner) => {
            owner.words(ticks, word, payload);
            Outcome::Committed
        }
    });
}

/// Writes a record that is encoded as words of eight bytes into the thread's ring. Fails if the thread has no ring, or
/// its ring takes no more records. The error is the writing end of the thread's ring, or null.
#[inline(always)]
fn words_in_ring(ticks: Ticks, word: u64, payload: &[u64]) -> Result<(), *const Producer> {
    let producer = CURRENT.get();
    if !producer.is_null() {
        // SAFETY: as in `trace_at`.
        match unsafe { &*producer }.record_words(ticks, word, payload) {
            Outcome::Committed | Outcome::Lost => return Ok(()),
            Outcome::Gone => {}
        }
    }
    Err(producer)
}

/// Notes in the thread's ring, if it has one, how long the thread has waited for the list of modules. The wait began at
/// `start`, in nanoseconds of the monotonic clock, and at the ticks `begin`. Not called inside of a record.
pub(super) fn note_wait_for_modules(start: u64, begin: Ticks) {
    // SAFETY: as in `trace_at`.
    if let Some(producer) = unsafe { CURRENT.get().as_ref() }.filter(|producer| producer.is_usable()) {
        producer.note_wait_for_modules(start, begin);
    }
}

/// Returns the writing end of the thread's ring, or null.
#[inline(always)]
pub(super) fn current() -> *const Producer {
    CURRENT.get()
}

/// Returns the writing end of the calling thread's ring, and the ticks for a record whose call was at `ticks`. If the
/// thread has no ring, takes one now; returns `None` if that is impossible. Only called if tracing is not off.
#[inline(always)]
pub(super) fn producer(ticks: Ticks) -> Option<(&'static Producer, Ticks)> {
    let producer = CURRENT.get();
    // SAFETY: as in `trace_at`. In a forked child it is of no use.
    match unsafe { producer.as_ref() }.filter(|producer| !producer.is_wiped()) {
        Some(producer) => Some((producer, ticks)),
        None => first_producer(ticks, producer),
    }
}

#[cold]
#[inline(never)]
fn first_producer(ticks: Ticks, found: *const Producer) -> Option<(&'static Producer, Ticks)> {
    attach(ticks, found)
}

/// Returns the ticks of the calling thread's last record; `None` if the thread has no ring. While the thread is making
/// a record, returns the ticks of the last record that was nested in another one.
pub(crate) fn last_ticks() -> Option<Ticks> {
    let producer = CURRENT.get();
    if producer.is_null() {
        return copies::joined().and_then(Owner::last_ticks);
    }
    // SAFETY: as in `trace_at`.
    Some(unsafe { &*producer }.last_ticks(sys::stack_pointer()))
}

/// Copies the arguments of a site into a record. Returns false if the message must be formatted.
#[inline(always)]
pub(crate) fn capture<A: Arguments>(ticks: Ticks, site: u32, arguments: &A) -> bool {
    let producer = CURRENT.get();
    if producer.is_null() {
        return capture_for_owner(ticks, site, arguments);
    }
    // SAFETY: as in `trace_at`.
    unsafe { &*producer }.capture(ticks, site, arguments)
}

/// Does what [`capture`] does, for a thread that has no ring in this copy of the library: the thread has a ring in the
/// copy that owns the process, or none yet.
#[cold]
#[inline(never)]
fn capture_for_owner<A: Arguments>(ticks: Ticks, site: u32, arguments: &A) -> bool {
    /// A size in bytes that suffices for the arguments of most calls. A larger buffer would take longer to fill with
    /// zeros.
    const TYPICAL_MAX_BYTES: usize = 128;
    match copies::joined() {
        None => false,
        Some(owner) => {
            let write = |bytes: &mut [u8]| arguments.write(&mut Cursor::new(bytes));
            let size = arguments.size();
            if size <= TYPICAL_MAX_BYTES {
                pass_to_owner::<TYPICAL_MAX_BYTES>(owner, ticks, site, size, &write)
            } else {
                pass_to_owner::<MAX_CAPTURED>(owner, ticks, site, size, &write)
            }
        }
    }
}

/// Passes `size` bytes of arguments, which `write` writes, to the copy of the library that owns the process. Returns
/// false if `size` is greater than `MOST`, or if the message must be formatted. The function is not inlined, so that
/// only threads that pass arguments to an owner need the room on the stack.
#[cold]
#[inline(never)]
fn pass_to_owner<const MOST: usize>(
    owner: Owner,
    ticks: Ticks,
    site: u32,
    size: usize,
    write: &dyn Fn(&mut [u8]),
) -> bool {
    [0; MOST].get_mut(..size).is_some_and(|bytes| {
        write(bytes);
        owner.capture(ticks, site, bytes)
    })
}

/// The receiver of a record: the ring of the calling thread, or the copy of the library that owns the process.
enum RecordReceiver<'a> {
    Ring(&'a Producer),
    /// The copy of the library that owns the process.
    Owner(Owner),
}

/// Writes a record if the calling thread has no usable ring: its first record, the first one in a forked child, the
/// first one after the ring was closed, or any record if another copy of the library owns the process. `ticks` are the
/// ticks of the call, `producer` is the writing end of the ring that the call has found, and `record` writes the
/// record.
#[cold]
#[inline(never)]
fn record_first(
    ticks: Ticks,
    producer: *const Producer,
    record: &mut dyn FnMut(RecordReceiver<'_>, Ticks) -> Outcome,
) {
    if let Some(owner) = copies::joined() {
        return hand_over(owner, ticks, record);
    }
    let mut attached = attach(ticks, producer);
    if let Some(owner) = copies::joined() {
        // From now on the clock is the owner's.
        return hand_over(owner, clock::now(), record);
    }
    if let Some((producer, ticks)) = attached {
        match record(RecordReceiver::Ring(producer), ticks) {
            Outcome::Committed | Outcome::Lost => return,
            // The ring was closed since it was handed out.
            Outcome::Gone => attached = attach(ticks, producer),
        }
    }
    match attached {
        Some((producer, ticks)) => {
            record(RecordReceiver::Ring(producer), ticks);
        }
        // A record of the host's allocator on one of the tracer's own threads is not the host's.
        None if process::is_off() || exclusion::is_tracer_thread() => {}
        None => {
            ringless_records::count_without_ring(1);
            let run = process::running();
            let (counted_by, lost) = LOST.get();
            let id = run.map_or(0, |run| run.id);
            // Records that another run has counted are reported by that run; records that no run has counted are this
            // one's.
            let before = if [0, id].contains(&counted_by) { lost } else { 0 };
            LOST.set((id, before + 1));
            if let Some(run) = run {
                run.count_ringless(if counted_by == 0 { before + 1 } else { 1 });
            }
        }
    }
}

/// Passes the record to the copy of the library that owns the process.
fn hand_over(owner: Owner, ticks: Ticks, record: &mut dyn FnMut(RecordReceiver<'_>, Ticks) -> Outcome) {
    // The end of a function's scope may come here while tracing is off.
    if !process::is_off() {
        guest::begin_recording();
        record(RecordReceiver::Owner(owner), ticks);
    }
}

/// Takes a ring for the calling thread, and gives up the ring that the thread may have had. Returns the writing end of
/// the new ring, and the ticks for the record that the thread is about to make: `called` if possible, no matter how
/// long it took to start the run and get the ring.
fn attach(called: Ticks, found: *const Producer) -> Option<(&'static Producer, Ticks)> {
    // A signal handler that traces meanwhile is refused here.
    let excluded = Excluded::enter()?;
    let _errno = sys::keep_errno();
    if !stack::has_room(RING_STACK_BYTES) {
        return None;
    }
    let current = CURRENT.get();
    let is_first = current == found;
    // SAFETY: as in `trace_at`.
    if let Some(taken) = unsafe { current.as_ref() }.filter(|producer| !is_first && producer.is_usable()) {
        // A signal handler that traces has taken a ring since the call found none.
        return Some((taken, clock::now()));
    }
    leave(&excluded, EndReason::Thread);
    let run = fork::run_of_this_process(&excluded)?;
    let asked = sys::monotonic_ns();
    let (ring, has_waited) = run.claim()?;
    let (counted_by, lost) = LOST.take();
    let lost = if [0, run.id].contains(&counted_by) { lost } else { 0 };
    let ticks = first_ticks(called, is_first, run.began.0, clock::now());
    let tid = sys::thread_id();
    ring.lend(tid, &ThreadName::of_this_thread(tid), ticks, lost);
    let ns = sys::monotonic_ns().saturating_sub(asked);
    let is_start = run.note_start(tid, ticks, ns);
    // After the ring counts them: if the process is killed or exits in between, they are reported twice rather than
    // never.
    ringless_records::move_to_ring(lost);
    if counted_by == run.id {
        run.subtract_ringless(lost);
    }
    sys::call_at_thread_exit();
    RING.set(ptr::from_ref(ring));
    CURRENT.set(ring.producer());
    // SAFETY: as in `trace_at`: mapped while this thread has the ring.
    let producer = unsafe { &*ring.producer() };
    // If this wait is the cost of the run's start, it is reported as that.
    if has_waited && !is_start {
        producer.note_wait_for_ring(asked, ticks);
    }
    Some((producer, ticks))
}

/// Returns the ticks for the first record in a ring:
///
/// - usually the ticks of its call (`called`), but not earlier than the run's beginning (`began`), because the file
///   begins with the `# run` line;
/// - `now` if a signal handler has traced since the call (`is_first` is false), or if the call has read another clock
///   than the run's.
fn first_ticks(called: Ticks, is_first: bool, began: Ticks, now: Ticks) -> Ticks {
    if is_first && called <= now { called.max(began) } else { now }
}
