//! Counts the handles of spans, so that [`Subscriber`](crate::Subscriber) knows when a span has no handle left. The
//! first handle of each span is not counted.
//!
//! Most spans are never cloned. So nothing is stored for a span with one handle, and no lock is taken while no span of
//! the process has more than one.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::patience::lock;

/// The number of parts into which the table of counts is divided; each part has its own lock.
const SHARDS: usize = 16;

/// The number of handles of each span in addition to its first one, by the span's id in `tracing`.
#[derive(Debug, Default)]
pub(crate) struct Clones {
    /// The sum of the counts of all spans, or a greater number while a count is changing: it is increased before a
    /// handle is counted, and decreased after a handle was removed. So a thread that drops a handle does not read 0
    /// here while its span has another handle, because that handle was counted when it was made. Relaxed: no other data
    /// depends on the number.
    count: AtomicU64,
    shards: [Mutex<HashMap<u64, u64>>; SHARDS],
}

impl Clones {
    /// Counts one more handle of the span `id`. If the lock cannot be taken in time (see [`lock`]), the handle is not
    /// counted, and the end of the span will be recorded too early.
    pub(crate) fn add(&self, id: u64) {
        let Some(mut handles) = lock(self.shard(id)) else { return };
        self.count.fetch_add(1, Ordering::Relaxed);
        *handles.entry(id).or_default() += 1;
    }

    /// Removes one handle of the span `id` from the count; returns whether this was the span's last handle.
    #[inline]
    pub(crate) fn take(&self, id: u64) -> bool {
        self.count.load(Ordering::Relaxed) == 0 || self.take_counted(id)
    }

    #[cold]
    fn take_counted(&self, id: u64) -> bool {
        let Some(mut handles) = lock(self.shard(id)) else { return false };
        let Entry::Occupied(mut counted) = handles.entry(id) else { return true };
        *counted.get_mut() -= 1;
        if *counted.get() == 0 {
            counted.remove();
        }
        self.count.fetch_sub(1, Ordering::Relaxed);
        false
    }

    fn shard(&self, id: u64) -> &Mutex<HashMap<u64, u64>> {
        &self.shards[id as usize % SHARDS]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_handle_is_recognized_whichever_thread_drops_it() {
        let (clones, last) = (Clones::default(), AtomicU64::new(0));
        let (here, count) = (&clones, &last);
        std::thread::scope(|scope| {
            for span in 0..50u64 {
                // One handle that was made, and three clones, each dropped by a thread of its own.
                (0..3).for_each(|_| clones.add(span));
                for _ in 0..4 {
                    scope.spawn(move || count.fetch_add(u64::from(here.take(span)), Ordering::Relaxed));
                }
            }
        });
        assert_eq!(last.into_inner(), 50);
        assert_eq!(clones.count.into_inner(), 0);
        assert!(clones.shards.iter().all(|shard| shard.lock().is_ok_and(|handles| handles.is_empty())));
    }

    #[test]
    fn a_span_that_was_never_cloned_has_one_handle() {
        let clones = Clones::default();
        assert!(clones.take(7));
        clones.add(8);
        assert!(clones.take(7), "another span has two");
        assert!(!clones.take(8) && clones.take(8));
    }
}
