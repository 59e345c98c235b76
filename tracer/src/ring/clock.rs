//! The process's clock, which gives records their ticks.
//!
//! The clock is read on the traced thread, inside every record. The module [`trace_store::counter`] has the counter
//! itself, and explains why its *ordered* reading has a fence.

use std::sync::atomic::{AtomicU32, Ordering};

use trace_format::line::Ticks;
use trace_format::meta::ClockKind;
use trace_format::wall::Wall;
use trace_store::counter;

use crate::words::exclusion;

/// The kind of the process's clock: [`ORDERED`] until [`set`] changes it. Relaxed: a thread that sees the change late
/// makes its records for the former run, which is being ended.
static KIND: AtomicU32 = AtomicU32::new(ORDERED);
/// The kind of clock that reads the processor's counter in program order. A site stores the kind in two bits of its
/// word. In these bits, 0 means that the site has no kind yet, so no kind has the number 0.
pub(crate) const ORDERED: u32 = 1;
pub(crate) const FAST: u32 = 2;
pub(crate) const SYSTEM: u32 = 3;

/// Sets the clock that [`now`] reads: the clock of the process's run. A process has one run at a time.
pub(crate) fn set(kind: ClockKind) {
    let kind = match kind {
        ClockKind::Ordered => ORDERED,
        ClockKind::Fast => FAST,
        ClockKind::System => SYSTEM,
    };
    KIND.store(kind, Ordering::Relaxed);
}

/// Sets the clock as [`set`] does, to the kind that [`kind`] has returned in another copy of this library.
pub(crate) fn set_kind(kind: u32) {
    if matches!(kind, ORDERED | FAST | SYSTEM) {
        KIND.store(kind, Ordering::Relaxed);
    }
}

/// Returns the kind of the clock that [`now`] reads.
#[inline(always)]
pub(crate) fn kind() -> u32 {
    KIND.load(Ordering::Relaxed)
}

/// Reads the clock of the given kind, and the wall clock at the same moment. The kind may differ from that of the clock
/// that [`now`] reads.
pub(crate) fn pair_of(kind: ClockKind) -> (Ticks, Wall) {
    counter::pair(|| match kind {
        ClockKind::Ordered => Ticks(counter::ordered()),
        ClockKind::Fast => Ticks(counter::fast()),
        ClockKind::System => Ticks(counter::system()),
    })
}

/// Reads the process's clock. The hot path calls this first, so that later instructions do not have to wait for the
/// counter.
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
/// The system's clock is read by a function of the C library. If the program has replaced this function by its own,
/// which has compiler hooks, these hooks make no record: such a record would be nested in the record that is being
/// written, and would read the clock in turn.
pub(crate) fn now_inside() -> Ticks {
    if kind() == SYSTEM { exclusion::once(now).unwrap_or_else(now) } else { now() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace_store::counter::available;

    #[test]
    fn every_clock_of_this_machine_goes_forward() {
        // This reads each clock by its kind: `set` would change the clock of the tests that run at the same time.
        for kind in [available(ClockKind::Ordered), available(ClockKind::Fast), ClockKind::System] {
            let (before, wall) = pair_of(kind);
            std::thread::sleep(std::time::Duration::from_millis(2));
            let (after, later) = pair_of(kind);
            assert!(after > before && later > wall, "{kind:?}");
        }
    }
}
