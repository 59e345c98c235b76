//! The list of a thread's function calls that are in progress, as reported by hooks. The list is used if only some
//! calls are recorded: those that are chosen by name, by depth, or by duration.
//!
//! The code runs on traced threads, in the hooks. A call is put on the thread's list when it is entered, and taken off
//! when it is left; its entry says whether it is recorded or, if that is not known yet, the number under which the ring
//! holds it back (`trace_format::ring::open_calls`).
//!
//! ```text
//!                      not named, too deep
//!   entered ─────────────────────────────────► LEFT OUT ─┐
//!      │ every duration is wanted                        │
//!      ├─────────────────────────────────────► RECORDED ─┼─► left: recorded, if its entering was
//!      │ only long ones are                      ▲       │
//!      └─────────────────────────────────────► HELD ─────┘   left too soon: forgotten
//!                                     long enough │
//! ```
//!
//! Calls that were left by a jump are found by their stack frames, which lie deeper than the frame of a call that is
//! entered later. This order holds only within one stack, so only calls on the thread's own stack are on the list.
//! Calls on another stack (that of a coroutine, or of a handler with its own), and calls of a signal handler that has
//! interrupted this code, are recorded regardless of depth and duration.
#![allow(unsafe_code, reason = "the thread's list, in memory that is its own; each use argued")]

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, compiler_fence};
use std::time::Duration;

use trace_format::line::Ticks;
use trace_format::meta::ClockKind;
use trace_format::record::{hook_enter_word, hook_leave_word};
use trace_format::ring::open_calls::OpenCall;

use super::{record, stack_record};
use crate::ring::{Producer, clock};
use crate::shared::process;
use crate::{stack, sys};

/// The number of calls for which a thread's list has room. Calls that are nested more deeply are not recorded.
const MAX_OPEN_CALLS: usize = 1 << 18;

/// The depth, in recorded calls, beyond which calls are left out.
static MAX_DEPTH: AtomicU32 = AtomicU32::new(u32::MAX);
/// The shortest duration of recorded calls, in ticks; 0: calls of any duration are recorded.
static SHORTEST: AtomicU64 = AtomicU64::new(0);

/// Sets the greatest depth and the shortest duration, in ticks, of the calls that are recorded in the run that begins.
pub(super) fn set(max_depth: u32, shortest: u64) {
    // Both stores are relaxed: the settings do not depend on each other, and are set before the run is published.
    MAX_DEPTH.store(max_depth, Ordering::Relaxed);
    SHORTEST.store(shortest, Ordering::Relaxed);
}

/// Converts a duration to ticks of the given clock. The rate of the ticks is measured for one millisecond, which limits
/// the precision.
pub(super) fn in_ticks(duration: Duration, kind: ClockKind) -> u64 {
    if duration.is_zero() {
        return 0;
    }
    const MEASURED_NS: u64 = 1_000_000;
    let read = || (clock::pair_of(kind).0.0, sys::monotonic_ns());
    let (ticks, ns) = read();
    let (later, later_ns) = loop {
        let now = read();
        if now.1.saturating_sub(ns) >= MEASURED_NS {
            break now;
        }
        std::hint::spin_loop();
    };
    let ratio = later.saturating_sub(ticks) as f64 / later_ns.saturating_sub(ns).max(1) as f64;
    ((duration.as_nanos() as f64 * ratio) as u64).max(1)
}

/// A call in progress.
#[derive(Clone, Copy, Debug)]
struct Call {
    ticks: u64,
    /// The address that the hook has reported for the function, which lies in the function's code.
    address: u64,
    /// The stack pointer in the hook that has reported the entry of the function.
    frame: usize,
    /// [`LEFT_OUT`], [`RECORDED`], or the number under which the thread's ring holds the call back, or has held it
    /// back.
    state: u64,
}

const LEFT_OUT: u64 = u64::MAX;
const RECORDED: u64 = u64::MAX - 1;

/// The list of a thread's calls in progress. It has no destructor, so it can be used as long as the thread runs.
struct Calls {
    /// The calls on the list, the outermost one first; null before the first call.
    entries: Cell<*mut Call>,
    len: Cell<usize>,
    /// The number of calls in progress that are not on the list, because it was full when they were entered.
    beyond: Cell<usize>,
    /// The number of calls on the list that are recorded or held back.
    depth: Cell<u32>,
    /// The writing end of the thread's ring. It holds back the calls of the list that have not lasted long enough to be
    /// recorded.
    producer: Cell<*const Producer>,
    /// The era of the process ([`process::era`]) in which the calls of the list were entered.
    era: Cell<u32>,
    /// Whether the thread is about to end, so that the list is no longer used.
    is_over: Cell<bool>,
    /// The stack pointer in the hook that is changing the list at the moment; 0 if no hook is.
    frame: Cell<usize>,
}

thread_local! {
    static CALLS: Calls = const {
        Calls {
            entries: Cell::new(ptr::null_mut()),
            len: Cell::new(0),
            beyond: Cell::new(0),
            depth: Cell::new(0),
            producer: Cell::new(ptr::null()),
            era: Cell::new(0),
            is_over: Cell::new(false),
            frame: Cell::new(0),
        }
    };
}

/// Handles the entry of a function that a hook reports: records it, holds the record back until the call is long
/// enough, or leaves it out.
pub(super) fn enter(ticks: Ticks, address: u64, call_site: u64, is_named: bool) {
    let here = sys::stack_pointer();
    let is_listed = CALLS.with(|calls| {
        let begun = calls.begin(here);
        if begun {
            calls.enter(here, ticks, address, call_site, is_named);
            calls.end();
        }
        begun
    });
    if !is_listed && is_named {
        record_entering(ticks, address, call_site);
    }
}

/// Records that a function is left, if its entry was recorded. The function is the one that was entered with `address`
/// or, if `address` is 0, the one that was entered last. If the call is on no list, `is_named` decides whether its end
/// is recorded.
pub(super) fn leave(ticks: Ticks, address: u64, is_named: impl FnOnce() -> bool) {
    let here = sys::stack_pointer();
    let is_listed = CALLS.with(|calls| {
        let begun = calls.begin(here);
        if begun {
            calls.leave(ticks, address);
            calls.end();
        }
        begun
    });
    if !is_listed && is_named() {
        record::word_of_hook(ticks, hook_leave_word(address));
    }
}

/// Gives back the memory of the calling thread's list, at the thread's end.
pub(super) fn release() {
    CALLS.with(|calls| {
        calls.is_over.set(true);
        let entries = calls.entries.replace(ptr::null_mut());
        calls.len.set(0);
        calls.depth.set(0);
        if !entries.is_null() {
            // SAFETY: mapped by `begin` with this size, and not shared.
            unsafe { sys::unmap(entries.cast(), MAX_OPEN_CALLS * size_of::<Call>()) };
        }
    });
}

fn record_entering(ticks: Ticks, address: u64, call_site: u64) {
    record::word_of_hook(ticks, hook_enter_word(address));
    if call_site != 0 {
        stack_record::record_call_site_of_hook(ticks, address, call_site);
    }
}

impl Calls {
    /// Marks the list as being changed. Returns false if the list cannot be used: the caller is a signal handler that
    /// has interrupted a change of the list, the stack pointer `here` is not on the thread's own stack, the thread is
    /// about to end, or there is no memory.
    #[inline(always)]
    fn begin(&self, here: usize) -> bool {
        let frame = self.frame.get();
        if (frame != 0 && !sys::is_deeper(frame, here)) || self.is_over.get() {
            return false;
        }
        self.frame.set(here);
        compiler_fence(Ordering::SeqCst);
        // Both may call functions of the C library, which the program may have replaced by functions with hooks.
        if !stack::is_own(here) || (self.entries.get().is_null() && !self.map()) {
            self.frame.set(0);
            return false;
        }
        if self.era.get() != process::era() {
            self.forget_all();
        }
        true
    }

    #[inline(always)]
    fn end(&self) {
        compiler_fence(Ordering::SeqCst);
        self.frame.set(0);
    }

    #[cold]
    fn map(&self) -> bool {
        let entries = sys::map_lazily(MAX_OPEN_CALLS * size_of::<Call>()).cast::<Call>();
        self.entries.set(entries);
        !entries.is_null()
    }

    #[cold]
    fn forget_all(&self) {
        self.era.set(process::era());
        while self.len.get() > 0 {
            self.drop_innermost();
        }
        self.beyond.set(0);
    }

    #[inline(always)]
    fn get(&self, index: usize) -> Call {
        debug_assert!(index < self.len.get());
        // SAFETY: below `len`, so it was written, in memory of the thread that is mapped as long as it uses the list.
        unsafe { self.entries.get().add(index).read() }
    }

    fn enter(&self, here: usize, ticks: Ticks, address: u64, call_site: u64, is_named: bool) {
        // A deeper call was left without a hook. An inlined function has the frame of the function into which it is
        // inlined.
        while self.len.get() > 0 && self.get(self.len.get() - 1).frame < here {
            self.drop_innermost();
        }
        if self.len.get() == MAX_OPEN_CALLS {
            return self.beyond.set(self.beyond.get() + 1);
        }
        let is_recorded = is_named && self.depth.get() < MAX_DEPTH.load(Ordering::Relaxed);
        let state = match SHORTEST.load(Ordering::Relaxed) {
            _ if !is_recorded => LEFT_OUT,
            0 => RECORDED,
            shortest => self.hold(ticks, address, call_site, shortest),
        };
        let call = Call { ticks: ticks.0, address, frame: here, state };
        // SAFETY: below `MAX_OPEN_CALLS`, for which there is memory.
        unsafe { self.entries.get().add(self.len.get()).write(call) };
        self.len.set(self.len.get() + 1);
        self.depth.set(self.depth.get() + u32::from(is_recorded));
        if state == RECORDED {
            record_entering(ticks, address, call_site);
        }
    }

    /// Makes the thread's ring hold a call back until the call has lasted `shortest` ticks. Returns the value for
    /// `Call::state`: the number under which the ring holds the call back, or `RECORDED` if it cannot.
    fn hold(&self, ticks: Ticks, address: u64, call_site: u64, shortest: u64) -> u64 {
        let Some((producer, ticks)) = record::producer(ticks) else { return RECORDED };
        if !ptr::eq(producer, self.producer.get()) {
            self.continue_with_ring(producer);
        }
        let call = OpenCall { ticks, address, call_site };
        let before = Ticks(ticks.0.saturating_sub(shortest));
        producer.hold(call, before).unwrap_or(RECORDED)
    }

    /// Makes the list continue with another ring, in a forked child or after another run has begun. Calls that the
    /// former ring still holds back are recorded nowhere.
    #[cold]
    fn continue_with_ring(&self, producer: &Producer) {
        self.producer.set(producer);
        for index in 0..self.len.get() {
            let call = self.get(index);
            if call.state < RECORDED {
                // SAFETY: below `len`.
                unsafe { self.entries.get().add(index).write(Call { state: LEFT_OUT, ..call }) };
                self.depth.set(self.depth.get() - 1);
            }
        }
    }

    /// Takes the innermost call off the list, because the call was left without a report by a hook.
    #[cold]
    fn drop_innermost(&self) {
        self.beyond.set(0);
        let call = self.take();
        if let Some(producer) = self.holder(&call) {
            producer.forget_from(call.state);
        }
    }

    #[inline(always)]
    fn take(&self) -> Call {
        let call = self.get(self.len.get() - 1);
        self.len.set(self.len.get() - 1);
        self.depth.set(self.depth.get() - u32::from(call.state != LEFT_OUT));
        call
    }

    /// Returns the writing end of the thread's ring if this ring still holds `call` back, and `None` otherwise.
    #[inline(always)]
    fn holder(&self, call: &Call) -> Option<&'static Producer> {
        if call.state >= RECORDED || !ptr::eq(self.producer.get(), record::current()) {
            return None;
        }
        // SAFETY: the thread's own producer, which is mapped while the thread has it.
        unsafe { self.producer.get().as_ref() }.filter(|producer| producer.holds(call.state))
    }

    fn leave(&self, ticks: Ticks, address: u64) {
        if self.beyond.get() > 0 {
            return self.beyond.set(self.beyond.get() - 1);
        }
        let Some(innermost) = self.len.get().checked_sub(1) else { return };
        if address != 0 && self.get(innermost).address != address {
            // The calls inside of it were left without a hook. A call that was entered before hooks were on is on no
            // list.
            let Some(index) = (0..innermost).rev().find(|&index| self.get(index).address == address) else {
                return;
            };
            while self.len.get() > index + 1 {
                self.drop_innermost();
            }
        }
        let call = self.take();
        if call.state == LEFT_OUT {
            return;
        }
        if let Some(producer) = self.holder(&call) {
            if ticks.0.saturating_sub(call.ticks) < SHORTEST.load(Ordering::Relaxed) {
                return producer.forget_from(call.state);
            }
            producer.record_all_open_calls();
        } else if call.state != RECORDED && !ptr::eq(self.producer.get(), record::current()) {
            // The record of the call's entry is in the ring of another run.
            return;
        }
        record::word_of_hook(ticks, hook_leave_word(call.address));
    }
}
