//! The counters of the tracer in this process: [`Stats`].

use std::sync::atomic::Ordering;

use trace_format::meta::RingPlace;

use super::run::CounterSums;
use super::{process, ringless_records};
use crate::copies::{self, Owner};

/// Counters of the tracer's work so far in this process. The counts of threads that still run may lack their last few
/// records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Whether the process traces now.
    pub enabled: bool,
    /// The number of records that were put into rings.
    pub records: u64,
    /// The number of records that were not put into rings: the ring was full, the thread got no ring, a `Display`
    /// panicked, or the record was made inside the tracer itself.
    pub lost: u64,
    /// The number of times that a thread waited for the tracer: for room in its ring, for the ring itself or its
    /// memory, or for the list of modules (the files that are mapped as code).
    pub stalls: u64,
    /// The total time, in nanoseconds, for which threads waited for the tracer.
    pub stall_ns: u64,
    /// The number of bytes that were written to trace files.
    pub bytes_written: u64,
    /// The number of rings, in use or ready, whose records survive if the process is killed.
    pub shared_rings: u64,
    /// The number of rings, in use or ready, whose records are lost if the process is killed.
    pub private_rings: u64,
}

impl Stats {
    /// Returns the counters of the process's run. Takes a lock and looks at every thread's ring.
    pub(crate) fn of_process() -> Stats {
        if let Some(owner) = copies::joined() {
            return Stats::of_owner(owner);
        }
        let without_ring = ringless_records::without_ring();
        let mut stats = Stats { lost: without_ring, ..Stats::default() };
        let Some(run) = process::current().filter(|run| run.is_of_this_process()) else { return stats };
        let mut totals = CounterSums::default();
        {
            let rings = run.rings.lock();
            // Both locks are held together: a thread that ends moves its counters from its ring to `finished`.
            let finished = run.finished.lock();
            totals.add(*finished);
            for ring in rings.iter() {
                match ring.place {
                    RingPlace::Shared => stats.shared_rings += 1,
                    RingPlace::Private => stats.private_rings += 1,
                }
                totals.add(CounterSums::of(ring.header()));
            }
        }
        stats.enabled = !run.is_closed() && !process::is_off();
        stats.records = totals.records;
        stats.lost += totals.lost;
        stats.stalls = totals.stalls;
        stats.stall_ns = totals.stall_ns;
        stats.bytes_written = run.bytes.load(Ordering::Relaxed);
        stats
    }

    /// Returns the counters of the copy of the library that owns the process.
    fn of_owner(owner: Owner) -> Stats {
        let counters = owner.count();
        Stats {
            enabled: counters.enabled != 0 && !process::is_off(),
            records: counters.records,
            lost: counters.lost,
            stalls: counters.stalls,
            stall_ns: counters.stall_ns,
            bytes_written: counters.bytes_written,
            shared_rings: counters.shared_rings,
            private_rings: counters.private_rings,
        }
    }
}
