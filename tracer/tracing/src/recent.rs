//! A cache of the most recent spans, by their ids in the registry. If a span is in the cache, it can be entered without
//! access to the registry.
//!
//! The registry may give the id of a span that has ended to a new span. So the cache must not return an old entry for
//! such an id. While a span lives, no other span of its registry has its id. When a new span is made, it takes the
//! cache's slot for its id, which removes the old entry for that id, even if another thread writes to the slot at the
//! same time.

use std::sync::atomic::{AtomicU64, Ordering, fence};

use crate::span::{self, NUMBER_BITS, RecordedSpan};

/// The number of slots of the cache, a power of two.
const SLOTS: usize = 1024;
/// The value of [`Slot::id`] while a thread writes the slot. No registry has so many spans.
const BUSY: u64 = u64::MAX;
/// The number of bits in [`Slot::span`] for the span's id in the trace. The bits above them contain the number of the
/// span's callsite.
const ID_BITS: u32 = u64::BITS - NUMBER_BITS;

/// An entry of the cache: a sequence lock, whose sequence number is the registry's id of the span.
///
/// ```text
///          a writer, with a compare-exchange     the same writer
///   any id ─────────────────────────────► BUSY ─────────────────► its id
/// ```
///
/// A writer that finds the slot busy does nothing: the other writer replaces the old entry.
#[derive(Debug)]
struct Slot {
    /// The registry's id of the span; 0 if the slot is empty.
    id: AtomicU64,
    span: AtomicU64,
}

/// The most recent spans of one registry.
#[derive(Debug)]
pub(crate) struct Recent(Box<[Slot]>);

impl Default for Recent {
    fn default() -> Recent {
        Recent((0..SLOTS).map(|_| Slot { id: AtomicU64::new(0), span: AtomicU64::new(0) }).collect())
    }
}

impl Recent {
    #[inline(always)]
    fn slot(&self, id: u64) -> Option<&Slot> {
        /// An odd number whose bits have no pattern (2⁶⁴ divided by the golden ratio), which spreads ids over the
        /// slots.
        const MIX: u64 = 0x9e37_79b9_7f4a_7c15;
        self.0.get((id.wrapping_mul(MIX) >> (u64::BITS - SLOTS.ilog2())) as usize)
    }

    /// Stores that the registry's id `id` belongs to the span `known` from now on; `known` is `None` if the span with
    /// this id is not recorded.
    #[inline]
    pub(crate) fn note(&self, id: u64, known: Option<RecordedSpan>) {
        let Some(slot) = self.slot(id) else { return };
        let found = slot.id.load(Ordering::Relaxed);
        let taken = || slot.id.compare_exchange(found, BUSY, Ordering::Acquire, Ordering::Relaxed).is_ok();
        // A writer that was stopped in between leaves the slot busy, and thereby empty.
        if found == BUSY || !taken() {
            return;
        }
        // A reader that sees the span below sees that the slot is busy, or a later state.
        fence(Ordering::Release);
        // A span with a larger id is not noted, and the slot is empty.
        let fits = known.filter(|known| known.id >> ID_BITS == 0);
        let (packed, id) = fits.map_or((0, 0), |known| (known.kind.number << ID_BITS | known.id, id));
        slot.span.store(packed, Ordering::Relaxed);
        // Release: a reader that sees the id sees the span.
        slot.id.store(id, Ordering::Release);
    }

    /// Returns the living span that has the id `id` in the registry; `None` if it is not in the cache.
    #[inline]
    pub(crate) fn get(&self, id: u64) -> Option<RecordedSpan> {
        let slot = self.slot(id)?;
        if slot.id.load(Ordering::Acquire) != id {
            return None;
        }
        let packed = slot.span.load(Ordering::Relaxed);
        // If the span is that of a later writer, the id below is not this one any more.
        fence(Ordering::Acquire);
        if slot.id.load(Ordering::Relaxed) != id {
            return None;
        }
        Some(RecordedSpan { id: packed & ((1 << ID_BITS) - 1), kind: span::by_number(packed >> ID_BITS)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracing_core::{Kind, Level, Metadata, callsite, metadata};

    struct Place;
    static PLACE: Place = Place;
    static METADATA: Metadata<'static> = metadata! {
        name: "place", target: "recent", level: Level::INFO, fields: &["x"], callsite: &PLACE, kind: Kind::SPAN
    };

    impl callsite::Callsite for Place {
        fn set_interest(&self, _: tracing_core::Interest) {}
        fn metadata(&self) -> &Metadata<'_> {
            &METADATA
        }
    }

    #[test]
    fn a_reused_id_belongs_to_its_newest_span() {
        let kind = span::kind(&METADATA).expect("a kind");
        let recent = Recent::default();
        assert!(recent.get(7).is_none());
        recent.note(7, Some(RecordedSpan { id: 1, kind }));
        recent.note(7, Some(RecordedSpan { id: 2, kind }));
        assert_eq!(recent.get(7).map(|known| known.id), Some(2));
        recent.note(7, Some(RecordedSpan { id: 1 << ID_BITS, kind }));
        assert!(recent.get(7).is_none(), "an id that does not fit takes the old one's place");
        recent.note(7, Some(RecordedSpan { id: 3, kind }));
        recent.note(7, None);
        assert!(recent.get(7).is_none(), "one that is not recorded takes the old one's place");
    }

    #[test]
    fn a_span_found_for_an_id_has_that_id_despite_concurrent_writes() {
        let kind = span::kind(&METADATA).expect("a kind");
        let recent = Recent::default();
        // Many ids share a slot. Each thread has ids of its own, as threads of a registry have.
        std::thread::scope(|scope| {
            for thread in 0..4u64 {
                let recent = &recent;
                scope.spawn(move || {
                    for n in 0..100_000u64 {
                        let id = 1 + thread + 4 * (n % 2000);
                        let span = n << 3 | thread;
                        recent.note(id, Some(RecordedSpan { id: span, kind }));
                        if let Some(found) = recent.get(id) {
                            assert_eq!(found.id, span);
                        }
                    }
                });
            }
        });
    }
}
