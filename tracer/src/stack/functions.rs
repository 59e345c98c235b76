//! Finds the ranges of the code of functions, given the names or the addresses of the functions.
//!
//! The functions run on any thread, but not in signal handlers: they read files and allocate memory.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// The ranges of code of the functions that a search has found.
#[derive(Debug, Default)]
pub(crate) struct Functions {
    /// The ranges, sorted and without overlap.
    ranges: Vec<Range<usize>>,
    /// A cache of return addresses that were looked up, used if there are many ranges. The highest bit of each word
    /// says whether the word's address belongs to one of the functions. A word is right no matter which thread wrote
    /// it.
    memory: Vec<AtomicU64>,
}

/// The maximum number of ranges that a lookup compares one by one; if there are more, a cache is faster.
const MAX_LINEAR_RANGES: usize = 4;
/// The number of addresses in the cache of [`Functions`]; a power of two.
const CACHED_ADDRESSES: usize = 512;
const YES: u64 = 1 << 63;

impl PartialEq for Functions {
    fn eq(&self, other: &Functions) -> bool {
        self.ranges == other.ranges
    }
}

impl Functions {
    /// Makes the functions with these ranges of code, which may overlap.
    fn new(mut ranges: Vec<Range<usize>>) -> Functions {
        ranges.retain(|range| !range.is_empty());
        trace_store::sorting::sort(&mut ranges, |a, b| (a.start, a.end) < (b.start, b.end));
        // If the compiler has merged functions, several names have one range.
        ranges.dedup_by(|next, before| {
            let overlap = next.start < before.end;
            if overlap {
                before.end = before.end.max(next.end);
            }
            overlap
        });
        let remembered = if ranges.len() > MAX_LINEAR_RANGES { CACHED_ADDRESSES } else { 0 };
        Functions { ranges, memory: (0..remembered).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Finds all functions of the process that have this name. A name is the path of a function, or the last segments
    /// of the path.
    pub(crate) fn named(name: &str) -> Functions {
        Functions::new(imp::named(name))
    }

    /// Finds the function with this address, and its copies in other compilation units. Finds no function if the
    /// function is only a jump to another one, because such a function never has a frame.
    pub(crate) fn at(address: usize) -> Functions {
        Functions::new(imp::at(address))
    }

    /// Returns whether no function was found.
    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Returns whether `frame`, a return address that a walk has found, belongs to one of these functions.
    #[inline(always)]
    pub(crate) fn have(&self, frame: usize) -> bool {
        let place = frame.wrapping_sub(1);
        if self.memory.is_empty() {
            return self.ranges.iter().any(|range| place.wrapping_sub(range.start) < range.end - range.start);
        }
        let word = &self.memory[(frame ^ frame >> 9) % CACHED_ADDRESSES];
        let known = word.load(Ordering::Relaxed);
        if known & !YES == frame as u64 { known & YES != 0 } else { self.search(place, word) }
    }

    #[cold]
    #[inline(never)]
    fn search(&self, place: usize, word: &AtomicU64) -> bool {
        let behind = self.ranges.partition_point(|range| range.start <= place);
        let is_inside = behind > 0 && self.ranges[behind - 1].contains(&place);
        word.store((place + 1) as u64 | if is_inside { YES } else { 0 }, Ordering::Relaxed);
        is_inside
    }
}

/// Calls `on_function` with the symbol and the range of code of each function of the process that is in a symbol table.
/// Never calls it if no names are available.
pub(crate) fn each(mut on_function: impl FnMut(&[u8], Range<usize>)) {
    imp::each(&mut on_function);
}

/// Returns the names by which a function with this symbol may be called: paths, without the compiler's additions.
pub(crate) fn names(symbol: &[u8]) -> Vec<String> {
    imp::names(symbol)
}

/// Returns a number that changes when a module is loaded or unloaded.
pub(crate) fn generation() -> u64 {
    imp::generation()
}

/// The search in the symbol tables. The module `imp`, of which each system has its own, finds where the code of a
/// function ends.
#[cfg(any(
    all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")),
    all(windows, target_arch = "x86_64")
))]
mod search {
    use std::ops::Range;

    use super::imp::{own, whole};
    use crate::stack::symbols;

    pub(super) use symbols::names;

    pub(super) fn each(on_function: &mut dyn FnMut(&[u8], Range<usize>)) {
        symbols::for_each(|symbol, range| {
            if let Some(range) = whole(range) {
                on_function(symbol, range);
            }
        });
    }

    pub(super) fn named(name: &str) -> Vec<Range<usize>> {
        let mut ranges = Vec::new();
        symbols::for_each(|symbol, range| {
            if symbols::has_name(symbol, name) {
                ranges.extend(whole(range));
            }
        });
        ranges
    }

    pub(super) fn at(address: usize) -> Vec<Range<usize>> {
        let Some(own) = own(address) else { return Vec::new() };
        let mut names = Vec::new();
        symbols::for_each(|symbol, range| {
            if range.start == own.start {
                names.push(symbol.to_vec());
            }
        });
        let mut ranges = vec![own];
        symbols::for_each(|symbol, range| {
            if names.iter().any(|name| name == symbol) {
                ranges.extend(whole(range));
            }
        });
        ranges
    }
}

#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod imp {
    use std::ops::Range;

    pub(super) use super::search::{at, each, named, names};
    use crate::stack::module::Module;
    pub(super) use crate::stack::module::generation;
    use crate::stack::symbols;
    use crate::stack::tables::Entry;

    /// Returns the range of code of the function that `address` leads to, perhaps through a linker's stub; `None` if
    /// the function only jumps to another one.
    pub(super) fn own(address: usize) -> Option<Range<usize>> {
        let address = symbols::resolve_stub(address);
        whole(address..address).filter(|own| own.start == address && !symbols::is_a_jump(own))
    }

    /// Returns `range`, the range of a symbol. If this range is empty, because the symbol has no size, returns the
    /// range that the unwind tables give for the function at this address.
    pub(super) fn whole(range: Range<usize>) -> Option<Range<usize>> {
        if !range.is_empty() {
            return Some(range);
        }
        let entry = Module::with_code(range.start).and_then(|module| Entry::find(&module, range.start));
        Some(entry.map_or(range, |entry| entry.range()))
    }
}

#[cfg(all(windows, target_arch = "x86_64"))]
mod imp {
    use std::ops::Range;

    pub(super) use super::search::{at, each, named, names};
    use crate::stack::pdata::Function;
    pub(super) use crate::stack::pdata::generation;

    /// Returns the range of code of the function that begins at `address`. A function that only jumps to another one
    /// has no entry in the unwind tables.
    pub(super) fn own(address: usize) -> Option<Range<usize>> {
        Function::with(address).map(|function| function.range()).filter(|range| range.start == address)
    }

    /// Returns the range of code of the function at the beginning of a symbol's range, according to the unwind tables.
    pub(super) fn whole(range: Range<usize>) -> Option<Range<usize>> {
        own(range.start)
    }
}

#[cfg(not(any(
    all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")),
    all(windows, target_arch = "x86_64")
)))]
mod imp {
    use std::ops::Range;

    pub(super) fn named(_: &str) -> Vec<Range<usize>> {
        Vec::new()
    }

    pub(super) fn names(_: &[u8]) -> Vec<String> {
        Vec::new()
    }

    pub(super) fn each(_: &mut dyn FnMut(&[u8], Range<usize>)) {}

    pub(super) fn at(_: usize) -> Vec<Range<usize>> {
        Vec::new()
    }

    pub(super) fn generation() -> u64 {
        0
    }
}
