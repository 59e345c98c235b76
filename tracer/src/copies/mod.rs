//! The copies of this library in the process: one of them owns the process's run, and the others pass their records to
//! it.
//!
//! A program, a library that it loads and a library that is preloaded may each have linked the tracer. The copy in the
//! object that the loader has loaded first is the owner, whether it has recorded anything or not; so all copies find
//! the same owner. The other copies are its guests: they have no run, no ring and no thread, and trace when the owner
//! does.
//!
//! ```text
//!   guest: a call of trace!, a scope, a hook          owner
//!   ───────────────────────────────────────           ─────────────────────────────────────────
//!   no ring: the cold way of a record ──── Interface ► the ring of the calling thread, its files
//!   a site's first message ─────────────── Interface ► its list of sites, a number
//!   its word: on, paused ◄──────────────────── Guest ─ tracing is switched
//! ```
//!
//! Both sides call C functions of the other (`interface`), so they may be built by different compilers. Copies find
//! each other by a note in their object (`note`); a copy whose interface has another version has a run of its own,
//! and the user gets a warning. On systems other than Linux each copy has a run of its own.
#![allow(unsafe_code, reason = "calls of functions of another copy, by their contracts; each argued")]

pub(crate) mod interface;
pub(crate) mod note;

use std::ffi::c_void;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use trace_format::line::Ticks;

use crate::ring::{ByteSink, Message};
use interface::{Counters, FAILED, FORMATTED, Guest, Interface, PANICKED, Terms, Write};

/// The owner that this copy has joined as a guest; null if it has a run of its own, or has not decided.
///
/// ```text
///   null ── the first decision of this copy, before `STATE` shows the decision ──► the owner, for ever
/// ```
///
/// Relaxed: the owner's static was there before any code of this copy ran.
static JOINED: AtomicPtr<Interface> = AtomicPtr::new(ptr::null_mut());

/// Returns the owner that this copy is a guest of. This is one relaxed load.
#[inline(always)]
pub(crate) fn joined() -> Option<Owner> {
    // SAFETY: null, or a static of an object that stays loaded: see `Owner::decide`.
    unsafe { JOINED.load(Ordering::Relaxed).as_ref() }.map(Owner)
}

/// Makes this copy a guest of `owner`.
pub(crate) fn join(owner: Owner) {
    JOINED.store(ptr::from_ref(owner.0).cast_mut(), Ordering::Relaxed);
}

/// Another copy of the library, which owns the process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner(pub &'static Interface);

impl Owner {
    /// Makes the owner decide whether the process traces, unless that is decided; returns the settings for this copy.
    /// The owner's object stays loaded from then on. `every_function` says whether a compiler's hook makes the first
    /// record.
    pub(crate) fn decide(self, every_function: bool) -> Terms {
        let mut terms = Terms::default();
        // SAFETY: the result may be written.
        unsafe { (self.0.decide)(every_function, &raw mut terms) };
        terms
    }

    /// Switches the process's tracing on; returns the settings for this copy.
    pub(crate) fn start(self) -> Terms {
        let mut terms = Terms::default();
        // SAFETY: the result may be written.
        unsafe { (self.0.start)(&raw mut terms) };
        terms
    }

    /// Registers `guest`, which is notified of the current state, and whenever tracing is switched.
    pub(crate) fn listen(self, guest: &'static Guest) {
        (self.0.listen)(guest);
    }

    /// Unregisters `guest`, which is about to be unloaded.
    pub(crate) fn forget(self, guest: &'static Guest) {
        (self.0.forget)(guest);
    }

    /// Counts as lost the `records` that this copy could not pass on.
    pub(crate) fn count_lost(self, records: u64) {
        (self.0.count_lost)(records);
    }

    /// Makes a record that consists of 64-bit words: `word` is word 0, and `payload` follows.
    pub(crate) fn words(self, ticks: Ticks, word: u64, payload: &[u64]) {
        // SAFETY: `payload` has so many words.
        unsafe { (self.0.words)(ticks.0, word, payload.as_ptr(), payload.len()) };
    }

    /// Records a message of a `site` (0: no site).
    pub(crate) fn message(self, ticks: Ticks, site: u32, message: Message<'_>) {
        // SAFETY: `format` gets a pointer to `message`, which is valid during the call.
        unsafe { (self.0.message)(ticks.0, site, (&raw const message).cast(), format) };
    }

    /// Records the captured arguments of a site. Returns false if the message has to be formatted instead.
    pub(crate) fn capture(self, ticks: Ticks, site: u32, bytes: &[u8]) -> bool {
        // SAFETY: `bytes` has so many bytes.
        unsafe { (self.0.capture)(ticks.0, site, bytes.as_ptr(), bytes.len()) }
    }

    /// Records the entry of a function that a hook reports.
    pub(crate) fn enter(self, ticks: Ticks, address: u64, call_site: u64) {
        (self.0.enter)(ticks.0, address, call_site);
    }

    /// Records the exit of a function that a hook reports.
    pub(crate) fn leave(self, ticks: Ticks, address: u64, inside: u64) {
        (self.0.leave)(ticks.0, address, inside);
    }

    /// Returns whether the calling thread is inside a record.
    pub(crate) fn is_inside(self) -> bool {
        (self.0.is_inside)()
    }

    /// Returns the ticks of the last record of the calling thread; `None` if the thread has made none.
    pub(crate) fn last_ticks(self) -> Option<Ticks> {
        Some((self.0.last_ticks)()).filter(|ticks| *ticks != 0).map(Ticks)
    }

    /// Adds a site, given its entry in the table of sites; returns its number and its handle, which may be null.
    pub(crate) fn new_site(self, entry: &[u8], is_captured: bool) -> (u32, *const c_void) {
        let mut number = 0;
        // SAFETY: `entry` has so many bytes, and the result may be written.
        let site = unsafe { (self.0.new_site)(entry.as_ptr(), entry.len(), is_captured, &raw mut number) };
        (number, site)
    }

    /// Returns the state of a site.
    ///
    /// # Safety
    /// [`Owner::new_site`] has returned `site`, and it is not null.
    pub(crate) unsafe fn site_state(self, site: *const c_void) -> u32 {
        // SAFETY: by the caller's promise.
        unsafe { (self.0.site_state)(site) }
    }

    /// Returns whether the filter allows records of this level and this name. The name is a module path or a target.
    pub(crate) fn is_allowed(self, name: &str, level: u8) -> bool {
        // SAFETY: `name` has so many bytes.
        unsafe { (self.0.is_allowed)(name.as_ptr(), name.len(), level) }
    }

    /// Returns the largest level that the filter allows.
    pub(crate) fn largest_level(self) -> u8 {
        (self.0.largest_level)()
    }

    /// Reserves `count` consecutive ids of a kind, spans or locks; returns the first of them.
    pub(crate) fn numbers(self, kind: u32, count: u64) -> u64 {
        (self.0.numbers)(kind, count)
    }

    /// Waits until the module table has the modules that are loaded now.
    pub(crate) fn look_at_modules(self) {
        (self.0.look_at_modules)();
    }

    /// Waits until all records that were made before are in the files.
    pub(crate) fn flush(self) -> io::Result<()> {
        match (self.0.flush)() {
            0 => Ok(()),
            number => Err(io::Error::from_raw_os_error(number)),
        }
    }

    /// Returns the counters of the run.
    pub(crate) fn count(self) -> Counters {
        let mut counters = Counters::default();
        // SAFETY: the result may be written.
        unsafe { (self.0.count)(&raw mut counters) };
        counters
    }

    /// Catches the signals that end the process.
    pub(crate) fn catch_signals(self) {
        (self.0.catch_signals)();
    }

    /// Reports that a panic of the calling thread has reached `moment`: [`interface::PANIC_BEGINS`] or a later one.
    pub(crate) fn panic(self, moment: u32) {
        (self.0.panic)(moment);
    }
}

/// Formats the message that was passed to [`Owner::message`]: passes the text to `write`, which puts it into the
/// owner's ring.
unsafe extern "C" fn format(message: *const c_void, sink: *mut c_void, write: Write) -> u32 {
    // SAFETY: the owner passes on the pointer that it got from `Owner::message`, during that call.
    let message = unsafe { *message.cast::<Message<'_>>() };
    // No panic may unwind into the owner, whose standard library may be another one.
    let mut sink = Sink { sink, write };
    let write = || match message {
        Message::Format(args) => fmt::write(&mut sink, args),
        Message::Bytes(write) => write(&mut sink),
    };
    match catch_unwind(AssertUnwindSafe(write)) {
        Ok(Ok(())) => FORMATTED,
        Ok(Err(fmt::Error)) => FAILED,
        Err(payload) => {
            // Dropping the panic's value may panic again.
            std::mem::forget(payload);
            PANICKED
        }
    }
}

/// A receiver of text, in another copy of the library. The text is a message, or the names of a function.
pub(crate) struct Sink {
    pub sink: *mut c_void,
    pub write: Write,
}

impl fmt::Write for Sink {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.write_bytes(text.as_bytes())
    }
}

impl ByteSink for Sink {
    fn write_bytes(&mut self, bytes: &[u8]) -> fmt::Result {
        // SAFETY: the sink belongs to the function, and `bytes` has so many bytes.
        let goes_on = unsafe { (self.write)(self.sink, bytes.as_ptr(), bytes.len()) };
        if goes_on { Ok(()) } else { Err(fmt::Error) }
    }
}
