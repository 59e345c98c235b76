//! The process's clock: which reading of the counter its records get.
//!
//! Runs on the traced thread, inside every record. The counter itself, and why its *ordered* reading has a
//! fence, is in [`trace_store::counter`].

use std::sync::atomic::{AtomicU32, Ordering};

use trace_format::line::Ticks;
use trace_format::meta::ClockKind;
use trace_format::wall::Wall;
use trace_store::counter;

use crate::words::exclusion;

/// The kind of the process's clock: [`ORDERED`], or what [`set`] was told. Relaxed: whoever sees a new kind
/// too late makes records for a run that is being ended.
static KIND: AtomicU32 = AtomicU32::new(ORDERED);
/// The kind that reads the counter in program order. Kinds have two bits in the word of a site, where 0 is
/// none: so a site without a number is of no kind.
pub(crate) const ORDERED: u32 = 1;
pub(crate) const FAST: u32 = 2;
pub(crate) const SYSTEM: u32 = 3;

/// Decides which clock [`now`] reads. There is one run at a time.
pub(crate) fn set(kind: ClockKind) {
    let kind = match kind {
        ClockKind::Ordered => ORDERED,
        ClockKind::Fast => FAST,
        ClockKind::System => SYSTEM,
    };
    KIND.store(kind, Ordering::Relaxed);
}

/// Decides as [`set`] does, by what [`kind`] has returned in another copy of this library.
pub(crate) fn set_kind(kind: u32) {
    if matches!(kind, ORDERED | FAST | SYSTEM) {
        KIND.store(kind, Ordering::Relaxed);
    }
}

/// Returns which clock [`now`] reads.
#[inline(always)]
pub(crate) fn kind() -> u32 {
    KIND.load(Ordering::Relaxed)
}

/// Reads the clock of that kind and the wall clock at one moment, whichever clock [`now`] reads.
pub(crate) fn pair_of(kind: ClockKind) -> (Ticks, Wall) {
    counter::pair(|| match kind {
        ClockKind::Ordered => Ticks(counter::ordered()),
        ClockKind::Fast => Ticks(counter::fast()),
        ClockKind::System => Ticks(counter::system()),
    })
}

/// Reads the process's clock. On the hot path that is done before anything else: what follows does not wait
/// for the counter.
#[inline(always)]
pub(crate) fn now() -> Ticks {
    Ticks(match kind() {
        ORDERED => counter::ordered(),
        FAST => counter::fast(),
        _ => counter::system(),
    })
}

/// Reads the process's clock while a record is being written.
///
/// The system's clock is read by a function of the C library. If the program has put a function with hooks in its place, the
/// hook makes no record: that record would be nested in the one that is being written, and would read the clock in turn.
pub(crate) fn now_inside() -> Ticks {
    if kind() == SYSTEM { exclusion::once(now).unwrap_or_else(now) } else { now() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace_store::counter::available;

    #[test]
    fn every_clock_of_this_machine_goes_forward() {
        // Asked for by its kind: `set` would change the clock under the tests that run beside this one.
        for kind in [available(ClockKind::Ordered), available(ClockKind::Fast), ClockKind::System] {
            let (before, wall) = pair_of(kind);
            std::thread::sleep(std::time::Duration::from_millis(2));
            let (after, later) = pair_of(kind);
            assert!(after > before && later > wall, "{kind:?}");
        }
    }
}
