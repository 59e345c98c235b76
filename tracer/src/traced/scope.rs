//! The records of a function's entry and exit, by address or by site, and the guard that makes them.
//!
//! The code runs on traced threads; all of it is hot.

use std::fmt;
use std::future::poll_fn;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use trace_format::line::Ticks;
use trace_format::record::{Flags, RecordKind, enter_word, leave_word, scope_word};

use super::{record, stack_record};
use crate::ring::clock;
use crate::shared::numbers::{self, Numbers};
use crate::shared::process;
use crate::shared::sites::{FORMATTED, Site};

/// A guard that records that a function is left, when it is dropped.
///
/// [`scope`](crate::scope()), [`scope!`](macro@crate::scope) and `#[traced]` make one. It belongs to the thread that
/// has made it. A guard that was made while tracing was off records nothing.
#[must_use = "a scope is left where its guard is dropped: `let _scope = ..`, and not `let _ = ..`"]
pub struct Scope {
    /// Word 0 of the exit record; 0 if tracing was off when the guard was made. The bit [`IN_PANIC`] may be set.
    leave: u64,
    /// Makes the guard stay on its thread: it is not `Send`.
    _not_send: PhantomData<*const ()>,
}

/// The bit of [`Scope::leave`] that is set if the scope was entered while a panic was unwinding: then that panic is not
/// the cause of the scope's exit. No address of user space and no number of a site uses this bit.
const IN_PANIC: u64 = 1 << 62;

impl fmt::Debug for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope").field("is_recorded", &(self.leave != 0)).finish()
    }
}

impl Scope {
    /// Makes the guard of a scope that records nothing.
    #[inline(always)]
    pub fn off() -> Scope {
        Scope { leave: 0, _not_send: PhantomData }
    }

    /// Records that the function that contains `address` is entered. Only called if tracing is not off.
    #[inline(always)]
    pub(crate) fn enter(address: u64) -> Scope {
        Scope { leave: enter(address), _not_send: PhantomData }
    }
}

impl Scope {
    /// Records that the function is left. Before that, calls `values` with the ticks of the exit, so that it can record
    /// values that belong to the exit.
    #[inline(always)]
    pub fn leave_with(self, values: impl FnOnce(Ticks)) {
        let word = self.leave;
        std::mem::forget(self);
        if word != 0 {
            let ticks = clock::now();
            values(ticks);
            record::words(ticks, left(word), &[]);
        }
    }
}

impl Drop for Scope {
    #[inline(always)]
    fn drop(&mut self) {
        if self.leave != 0 {
            leave(self.leave);
        }
    }
}

/// Whether the entry of a function also records its call site. Relaxed: it is a setting of the run, and orders no
/// other memory.
static CALL_SITES: AtomicBool = AtomicBool::new(false);

/// Sets whether the entries of the run that begins also record their call sites.
pub(super) fn set_call_sites(wanted: bool) {
    CALL_SITES.store(wanted, Ordering::Relaxed);
}

/// Returns whether the entries of the run also record their call sites.
#[inline(always)]
pub(super) fn wants_call_sites() -> bool {
    CALL_SITES.load(Ordering::Relaxed)
}

/// Records that the function that contains `address` is entered. Returns word 0 of its exit record, for
/// [`Scope::leave`].
#[inline(never)]
fn enter(address: u64) -> u64 {
    let ticks = clock::now();
    record::words(ticks, enter_word(address), &[]);
    if wants_call_sites() {
        stack_record::record_call_site(ticks);
    }
    mark_panic(leave_word(address, false))
}

#[inline(never)]
fn leave(word: u64) {
    record::words(clock::now(), left(word), &[]);
}

#[inline(always)]
pub(super) fn mark_panic(leave: u64) -> u64 {
    if std::thread::panicking() { leave | IN_PANIC } else { leave }
}

/// Returns word 0 of the exit record, to which it adds whether a panic is unwinding the stack. `word` is
/// `Scope::leave`.
#[inline(always)]
pub(super) fn left(word: u64) -> u64 {
    if std::thread::panicking() && word & IN_PANIC == 0 { unwinding(word) } else { word & !IN_PANIC }
}

#[cold]
fn unwinding(word: u64) -> u64 {
    if word.to_le_bytes()[0] == RecordKind::Leave as u8 {
        leave_word(word >> 8, true)
    } else {
        word | u64::from(Flags::UNWINDING.0) << 8
    }
}

impl Site {
    /// Records that the scope of this site is entered, with the current ticks. Only called if the site is on.
    #[inline(always)]
    pub fn enter(&'static self) -> Scope {
        Scope { leave: enter_site(self).0, _not_send: PhantomData }
    }

    /// Records that the scope of this site is entered. Also returns the ticks of that record, with which the caller can
    /// record values that belong to it.
    #[inline(always)]
    pub fn enter_with(&'static self) -> (Scope, Ticks) {
        let (leave, ticks) = enter_site(self);
        (Scope { leave, _not_send: PhantomData }, ticks)
    }

    /// Returns the number of the site, and has the site put into the table for readers.
    #[inline(always)]
    pub(super) fn number_in_table(&'static self) -> u32 {
        if self.word() == FORMATTED {
            self.request_entry(None);
        }
        self.number()
    }
}

#[inline(never)]
fn enter_site(site: &'static Site) -> (u64, Ticks) {
    let ticks = clock::now();
    let number = site.number_in_table();
    record::words(ticks, scope_word(number, Flags::NONE), &[]);
    if wants_call_sites() {
        stack_record::record_call_site(ticks);
    }
    (mark_panic(scope_word(number, Flags::LEAVE)), ticks)
}

/// One call of an asynchronous function. It is a span, which is entered and left each time that the function is polled.
#[derive(Debug)]
pub struct AsyncCall {
    site: &'static Site,
    /// The id of the span; 0 if it was never recorded.
    id: u64,
    /// Whether [`begin`](AsyncCall::begin) has entered the span for the current poll, so that the poll must not enter
    /// it.
    is_entered: bool,
    is_over: bool,
}

impl AsyncCall {
    /// Makes the span for one call of an async function; `site` is the site in that function.
    #[must_use]
    pub fn new(site: &'static Site) -> AsyncCall {
        AsyncCall { site, id: 0, is_entered: false, is_over: false }
    }

    /// If the span's site is on, records that the span is entered, and then calls `values` with the ticks of that
    /// record.
    pub fn begin(&mut self, values: impl FnOnce(Ticks)) {
        if self.site.is_on(self.site.word()) {
            values(self.enter());
            self.is_entered = true;
        }
    }

    /// Runs the body of the function. The span is entered before each poll of the body, and left after the poll. When
    /// the body has returned, calls `returned` with the body's result and with the ticks at which the span is left for
    /// the last time; only then records that the span is left.
    pub async fn run<F: Future>(
        mut self,
        mut body: Pin<&mut F>,
        returned: impl FnOnce(Ticks, &F::Output),
    ) -> F::Output {
        let mut returned = Some(returned);
        poll_fn(move |context| self.poll(&mut returned, || body.as_mut().poll(context))).await
    }

    fn poll<T>(
        &mut self,
        returned: &mut Option<impl FnOnce(Ticks, &T)>,
        poll: impl FnOnce() -> Poll<T>,
    ) -> Poll<T> {
        if !std::mem::take(&mut self.is_entered) {
            if !self.site.is_on(self.site.word()) {
                let polled = poll();
                self.is_over |= polled.is_ready();
                return polled;
            }
            self.enter();
        }
        let guard = PollGuard { leave: mark_panic(self.word(Flags::LEAVE)), id: self.id };
        // If the poll panics, the call is over: it is not polled again.
        self.is_over = true;
        let polled = poll();
        self.is_over = polled.is_ready();
        if let (Poll::Ready(value), Some(returned)) = (&polled, returned.take_if(|_| self.is_over)) {
            let ticks = clock::now();
            returned(ticks, value);
            record::words(ticks, left(guard.leave) | u64::from(Flags::ENDED.0) << 8, &[self.id]);
            std::mem::forget(guard);
        }
        polled
    }

    fn enter(&mut self) -> Ticks {
        if self.id == 0 {
            self.id = numbers::take(Numbers::Spans, 1);
        }
        let ticks = clock::now();
        record::words(ticks, self.word(Flags::NONE), &[self.id]);
        ticks
    }

    fn word(&self, flags: Flags) -> u64 {
        scope_word(self.site.number_in_table(), flags.with(Flags::ID))
    }
}

impl Drop for AsyncCall {
    fn drop(&mut self) {
        if self.id != 0 && !self.is_over && !process::is_off() {
            self.enter();
            record::words(clock::now(), self.word(Flags::LEAVE.with(Flags::CANCELLED)), &[self.id]);
        }
    }
}

/// A guard that records that a span is left, when it is dropped.
struct PollGuard {
    leave: u64,
    id: u64,
}

impl Drop for PollGuard {
    fn drop(&mut self) {
        record::words(clock::now(), left(self.leave), &[self.id]);
    }
}
