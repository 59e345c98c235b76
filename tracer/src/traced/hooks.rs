//! Records the entries and exits of functions that compilers' hooks report. Every function of the program calls the
//! hooks.
//!
//! The code runs on traced threads; all of it is hot. The functions here are called by exported functions, which have
//! the names that compilers give to their hooks.

use std::sync::atomic::{AtomicU32, Ordering};

use trace_format::line::Ticks;
use trace_format::meta::ClockKind;
use trace_format::record::{hook_enter_word, hook_leave_word};
use trace_store::counter;

use super::chosen::{self, NamesOf};
use super::{call_stack, decision, guest, record, stack_record};
use crate::copies;
use crate::ring::clock;
use crate::shared::process;
#[cfg(all(feature = "unwind", target_os = "linux", target_arch = "x86_64"))]
use crate::stack::{
    Registers,
    on_return::{self, Return},
};
use crate::user::config::{self, Config};
use crate::words::exclusion;

/// The way in which hooks record, as a set of bits, each of which stands for a further step. 0: each call is recorded
/// with the ticks of the plain counter, and nothing else is done.
///
/// ```text
///              a run begins                     a function of TRACER_TRIGGER is called
/// UNDECIDED ─────────────────► its settings ────────────────────────────────────────────► without WAITING
///                                   ▲                                                            │
///                                   └──────────────────── another run begins ────────────────────┘
///            another copy of the library owns the process
/// UNDECIDED ─────────────────────────────────────────────► HANDED_OVER, for ever
/// ```
///
/// Relaxed: the word is set before the run is published, and a thread that sees the change late makes a record of a run
/// that is being ended.
static HOOK_MODE: AtomicU32 = AtomicU32::new(UNDECIDED);

/// The bit that is set until a run has set the way in which hooks record.
const UNDECIDED: u32 = 1;
/// The bit that makes hooks record the call site of each function, too.
const CALL_SITES: u32 = 2;
/// The bit that makes hooks record only some of the calls; `call_stack` chooses them.
const CHOSEN: u32 = 4;
/// The bit that is set if the user has named functions: those whose calls are recorded, or those that start the
/// recording.
const NAMED: u32 = 8;
/// The bit that is set until a function of `TRACER_TRIGGER` is called: until then nothing is recorded.
const WAITING: u32 = 16;
/// The bit that is set if another copy of the library owns the process: the settings are then those of that copy.
const HANDED_OVER: u32 = 32;
/// The bit that makes hooks read another clock than the plain counter.
const OTHER_CLOCK: u32 = 64;

/// Reads the clock. Returns `None` if this call was made while the clock was being read: the system's clock is read by
/// a function of the C library, which the program may have replaced by one that has hooks. That call is the tracer's
/// and not the program's, so it is not counted as lost. (A hook in a signal handler that interrupts the reading cannot
/// be distinguished from that call.)
#[inline(always)]
fn now() -> Option<Ticks> {
    if clock::kind() == clock::SYSTEM { read_system() } else { Some(clock::now()) }
}

#[inline(never)]
fn read_system() -> Option<Ticks> {
    exclusion::once(clock::now)
}

/// Sets how hooks record in the run that begins. The argument `shortest` is what the function [`shortest`] returns for
/// the same settings.
pub(super) fn set(config: &Config, shortest: u64) {
    let named = chosen::set(config.functions.as_ref(), config.trigger.as_ref());
    call_stack::set(config.max_depth, shortest);
    let is_chosen = config.functions.is_some() || config.max_depth < u32::MAX || shortest > 0;
    let bits = [
        (config.call_sites, CALL_SITES),
        (is_chosen, CHOSEN),
        (named, NAMED),
        (config.trigger.is_some(), WAITING),
        (config.clock != ClockKind::Fast, OTHER_CLOCK),
    ];
    let way = bits.iter().filter(|(is_set, _)| *is_set).fold(0, |way, (_, bit)| way | bit);
    HOOK_MODE.store(way, Ordering::Relaxed);
}

/// Makes each hook pass its records to the copy of the library that owns the process.
pub(super) fn hand_over() {
    HOOK_MODE.store(HANDED_OVER, Ordering::Relaxed);
}

/// Returns the shortest duration of calls that are recorded, in ticks. If the user has set a duration, the rate of the
/// clock's ticks is measured for the conversion, which takes a millisecond.
pub(super) fn shortest(config: &Config) -> u64 {
    call_stack::in_ticks(config.min_duration, config.clock)
}

/// Records that the function that contains `address` is entered. `call_site` is the address to which it will return.
///
/// While tracing is off, this costs one relaxed load. Only the usual case, in which hooks read the plain counter and
/// record each call, is handled in this function. Every other case is a tail call, so that no registers have to be
/// saved.
#[inline(always)]
pub fn enter(address: u64, call_site: u64, names_of: NamesOf) {
    if process::is_off() {
        return;
    }
    match HOOK_MODE.load(Ordering::Relaxed) {
        0 => record::word_of_hook(Ticks(counter::fast()), hook_enter_word(address)),
        way => enter_by_clock(way, address, call_site, names_of),
    }
}

#[allow(improper_ctypes_definitions, reason = "called by Rust only")]
#[inline(never)]
extern "C" fn enter_by_clock(way: u32, address: u64, call_site: u64, names_of: NamesOf) {
    if let Some(ticks) = now() {
        enter_with_mode(ticks, way, address, call_site, names_of);
    }
}

/// Does what [`enter`] does, for a hook that was called at `ticks` in another copy of the library. Must only be called
/// if tracing is not off.
#[inline(always)]
pub(super) fn enter_at(ticks: Ticks, address: u64, call_site: u64, names_of: NamesOf) {
    enter_with_mode(ticks, HOOK_MODE.load(Ordering::Relaxed), address, call_site, names_of);
}

/// Records that a function is left: the one that was entered with `address` or, if `address` is 0, the one that was
/// entered last. `inside` is an address in the function.
#[inline(always)]
pub fn leave(address: u64, inside: u64, names_of: NamesOf) {
    if process::is_off() {
        return;
    }
    match HOOK_MODE.load(Ordering::Relaxed) {
        way if way & !(CALL_SITES | NAMED) == 0 => {
            record::word_of_hook(Ticks(counter::fast()), hook_leave_word(address));
        }
        way => leave_by_clock(way, address, inside, names_of),
    }
}

#[allow(improper_ctypes_definitions, reason = "called by Rust only")]
#[inline(never)]
extern "C" fn leave_by_clock(way: u32, address: u64, inside: u64, names_of: NamesOf) {
    if let Some(ticks) = now() {
        leave_with_mode(ticks, way, address, inside, names_of);
    }
}

/// Does what [`leave`] does, for a hook that was called at `ticks` in another copy of the library. Must only be called
/// if tracing is not off.
#[inline(always)]
pub(super) fn leave_at(ticks: Ticks, address: u64, inside: u64, names_of: NamesOf) {
    leave_with_mode(ticks, HOOK_MODE.load(Ordering::Relaxed), address, inside, names_of);
}

/// Records that a function is entered, and arranges that `left` is called when the function returns. `from` holds the
/// registers in that function. This is for compilers that put hooks only at the beginning of functions. `left` must
/// call [`leave`] with the address that it gets.
///
/// If the place of the return address is unknown, or the function runs on a stack that is not the thread's own, the
/// function is recorded as left at once.
#[cfg(all(feature = "unwind", target_os = "linux", target_arch = "x86_64"))]
#[inline(always)]
pub fn enter_until_return(from: Registers, names_of: NamesOf, left: fn(address: u64)) {
    if process::is_off() {
        return;
    }
    let address = from.pc as u64 - 1;
    let found = on_return::find(from, left);
    enter(address, found.as_ref().map_or(0, Return::call_site), names_of);
    if copies::joined().is_some() {
        // The slots of awaited returns are given back at the thread's end. Without a ring of this copy, the thread
        // must be registered for that here.
        crate::sys::call_at_thread_exit();
    }
    let is_awaited =
        found.is_some_and(|found| !process::is_off() && on_return::await_function(found, address));
    if !is_awaited {
        leave(address, address, names_of);
    }
}

fn enter_with_mode(ticks: Ticks, way: u32, address: u64, call_site: u64, names_of: NamesOf) {
    let is_first = way & UNDECIDED != 0;
    let Some(way) = (if is_first { decided() } else { Some(way) }) else { return };
    if way & HANDED_OVER != 0 {
        if let Some(owner) = copies::joined() {
            guest::begin_recording();
            guest::set_names_function(names_of);
            // The clock is the owner's since the decision.
            owner.enter(if is_first { clock::now() } else { ticks }, address, call_site);
        }
        return;
    }
    let bits = if way & NAMED == 0 { chosen::RECORDED } else { chosen::bits(address, names_of) };
    if way & WAITING != 0 {
        if bits & chosen::TRIGGER == 0 {
            return;
        }
        HOOK_MODE.fetch_and(!WAITING, Ordering::Relaxed);
    }
    let call_site = if way & CALL_SITES == 0 { 0 } else { call_site };
    if way & CHOSEN != 0 {
        return call_stack::enter(ticks, address, call_site, bits & chosen::RECORDED != 0);
    }
    record::word_of_hook(ticks, hook_enter_word(address));
    if call_site != 0 {
        stack_record::record_call_site_of_hook(ticks, address, call_site);
    }
}

fn leave_with_mode(ticks: Ticks, way: u32, address: u64, inside: u64, names_of: NamesOf) {
    if way & HANDED_OVER != 0 {
        if let Some(owner) = copies::joined() {
            owner.leave(ticks, address, inside);
        }
    } else if way & (CHOSEN | WAITING) == 0 {
        record::word_of_hook(ticks, hook_leave_word(address));
    } else if way & WAITING == 0 {
        let is_named = || way & NAMED == 0 || chosen::bits(inside, names_of) & chosen::RECORDED != 0;
        call_stack::leave(ticks, address, is_named);
    }
}

/// Decides whether the process traces, at its first record; then returns the way in which hooks record ([`HOOK_MODE`]),
/// or `None` if it does not trace.
#[cold]
#[inline(never)]
fn decided() -> Option<u32> {
    config::expect_every_function();
    // If the decision is impossible, inside of the tracer itself, the record goes on to be counted as lost.
    (decision::is_on() || !process::is_off()).then(|| HOOK_MODE.load(Ordering::Relaxed) & !UNDECIDED)
}
