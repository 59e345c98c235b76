//! Functions that the user has named: those that are recorded, and those with which recording begins.
//!
//! The code runs on traced threads, in every hook of a program whose user has named functions. For an address that was
//! met before, the answer takes one load. An address that is met for the first time is looked up in the symbols of the
//! process. The symbols are read when the first address is met, and again if libraries were loaded since. Nothing is
//! freed, because threads use the results without a lock.
#![allow(unsafe_code, reason = "pointers to what is leaked; argued where they are read")]

use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use parking_lot::Mutex;
use trace_format::patterns::Patterns;

use crate::stack;
use crate::words::exclusion::Excluded;

/// A function that returns the names of a symbol: paths, without the compiler's additions.
pub type NamesOf = fn(symbol: &[u8]) -> Vec<String>;

/// The bit of functions whose calls are recorded.
pub(super) const RECORDED: u64 = 1;
/// The bit of functions that start the recording: hooks begin to record when one of them is called.
pub(super) const TRIGGER: u64 = 2;

/// The functions that the user has named: those whose calls are recorded, and those that start the recording.
#[derive(Debug)]
struct Named {
    recorded: Option<Patterns>,
    trigger: Option<Patterns>,
}

impl Named {
    fn bits(&self, names: &[String]) -> u64 {
        let recorded = self.recorded.as_ref().is_none_or(|patterns| patterns.matches_function(names));
        let trigger = self.trigger.as_ref().is_some_and(|patterns| patterns.matches_function(names));
        (if recorded { RECORDED } else { 0 }) | (if trigger { TRIGGER } else { 0 })
    }
}

/// The functions of the process, and for each its bits ([`RECORDED`], [`TRIGGER`]).
#[derive(Debug)]
struct Table {
    /// The number that [`stack::modules_generation`] returned when the symbols were read; it changes when modules are
    /// loaded or unloaded.
    generation: u64,
    /// The address ranges of the functions, with the functions' bits, sorted by the first address.
    functions: Vec<(Range<usize>, u64)>,
    /// The bits for code that lies in no known function.
    nameless: u64,
}

/// The functions that the user has named; null if there are none. The value that this points to is leaked, and never
/// changes.
static NAMED: AtomicPtr<Named> = AtomicPtr::new(ptr::null_mut());
/// The newest table of functions; null before the first one is made. The value that this points to is leaked, and never
/// changes.
static TABLE: AtomicPtr<Table> = AtomicPtr::new(ptr::null_mut());
/// The lock that a thread has while it makes a table.
static MAKING: Mutex<()> = Mutex::new(());

const KNOWN_BITS: u32 = 14;
/// A cache of addresses that were searched for. Each word is an address shifted left by two bits, with the bits of the
/// address's function ([`RECORDED`], [`TRIGGER`]) in the lowest two; 0 if there is no address. Each word is complete in
/// itself, so a thread can use it no matter which thread wrote it.
static KNOWN: [AtomicU64; 1 << KNOWN_BITS] = [const { AtomicU64::new(0) }; 1 << KNOWN_BITS];

/// Sets the functions that the user has named, for the run that begins. Returns whether there are any.
pub(super) fn set(recorded: Option<&Patterns>, trigger: Option<&Patterns>) -> bool {
    let is_any = recorded.is_some() || trigger.is_some();
    if !is_any && NAMED.load(Ordering::Relaxed).is_null() {
        // The memory for results stays untouched if the user names no functions.
        return false;
    }
    let named = Named { recorded: recorded.cloned(), trigger: trigger.cloned() };
    NAMED.store(if is_any { Box::leak(Box::new(named)) } else { ptr::null_mut() }, Ordering::Release);
    // The results of another run.
    TABLE.store(ptr::null_mut(), Ordering::Release);
    clear_known_bits();
    is_any
}

fn clear_known_bits() {
    KNOWN.iter().for_each(|known| known.store(0, Ordering::Relaxed));
}

/// Returns the bits of the function that contains `address`: [`RECORDED`], [`TRIGGER`].
#[inline(always)]
pub(super) fn bits(address: u64, names_of: NamesOf) -> u64 {
    let known = &KNOWN[(address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - KNOWN_BITS)) as usize];
    let word = known.load(Ordering::Relaxed);
    if word >> 2 == address { word & 3 } else { search(address, known, names_of) }
}

#[cold]
#[inline(never)]
fn search(address: u64, known: &AtomicU64, names_of: NamesOf) -> u64 {
    // SAFETY: null, or leaked and never changed.
    let Some(named) = (unsafe { NAMED.load(Ordering::Acquire).as_ref() }) else { return RECORDED };
    // If the mark is taken already, this is the tracer itself, or code that it calls.
    let Some(_excluded) = Excluded::enter() else { return 0 };
    let _errno = crate::sys::keep_errno();
    let table = table(named, names_of);
    let address = address as usize;
    let behind = table.functions.partition_point(|(range, _)| range.start <= address);
    let found = table.functions[..behind].last().filter(|(range, _)| range.contains(&address));
    let bits = found.map_or(table.nameless, |(_, bits)| *bits);
    known.store((address as u64) << 2 | bits, Ordering::Relaxed);
    bits
}

/// Returns the table of the modules that are loaded now; makes it if there is none.
fn table(named: &'static Named, names_of: NamesOf) -> &'static Table {
    let is_current = |table: &&Table| table.generation == stack::modules_generation();
    // SAFETY: null, or leaked and never changed.
    let newest = || unsafe { TABLE.load(Ordering::Acquire).as_ref() };
    if let Some(table) = newest().filter(is_current) {
        return table;
    }
    let _making = MAKING.lock();
    if let Some(table) = newest().filter(is_current) {
        return table;
    }
    let generation = stack::modules_generation();
    let mut all = Vec::new();
    stack::each_function(|symbol, range| all.push((range, named.bits(&names_of(symbol)))));
    trace_store::sorting::sort(&mut all, |(a, _), (b, _)| (a.start, a.end) < (b.start, b.end));
    // If the compiler has merged functions, all their names count.
    all.dedup_by(|next, before| {
        let same = next.0.start == before.0.start;
        if same {
            *before = (before.0.start..before.0.end.max(next.0.end), before.1 | next.1);
        }
        same
    });
    let nameless = named.bits(&[]);
    let table: &'static Table = Box::leak(Box::new(Table { generation, functions: all, nameless }));
    TABLE.store(ptr::from_ref(table).cast_mut(), Ordering::Release);
    // An unloaded library may have been replaced by other code at its addresses.
    clear_known_bits();
    table
}
