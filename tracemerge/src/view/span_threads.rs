//! The threads that are inside each span. If one thread enters a span and another one leaves it, which Rust's guards
//! do not permit, the span ends on the thread that has entered it, in every view.

use std::collections::BTreeMap;

use crate::file::fast_map::FastMap;
use crate::view::known_spans::SpanKey;

/// The threads that are inside each span. For each thread, it counts how often the thread has entered the span and not
/// yet left it. It needs the records of all threads in the order of the merge.
#[derive(Debug, Default)]
pub(crate) struct SpanThreads {
    inside: FastMap<SpanKey, BTreeMap<usize, u32>>,
}

impl SpanThreads {
    /// Takes note that a thread enters a span.
    pub(crate) fn enter(&mut self, key: SpanKey, thread: usize) {
        *self.inside.entry(key).or_default().entry(thread).or_default() += 1;
    }

    /// Takes note that `thread` leaves a span, and returns the thread on which the call of the span ends: `thread` if
    /// it is in the span, otherwise the first thread that is, or `thread` if none is. `has_open` returns whether a
    /// thread has an open call of the span; a thread without one is no longer in the span, because its call has ended
    /// without a leave record.
    pub(crate) fn leave(&mut self, key: SpanKey, thread: usize, has_open: impl Fn(usize) -> bool) -> usize {
        let Some(inside) = self.inside.get_mut(&key) else { return thread };
        let mut of = if inside.contains_key(&thread) && has_open(thread) { Some(thread) } else { None };
        while let (None, Some((&first, _))) = (of, inside.first_key_value()) {
            if has_open(first) {
                of = Some(first);
            } else {
                inside.remove(&first);
            }
        }
        if let Some(times) = of.and_then(|of| inside.get_mut(&of)) {
            *times -= 1;
            if *times == 0 {
                of.map(|of| inside.remove(&of));
            }
        }
        if inside.is_empty() {
            self.inside.remove(&key);
        }
        of.unwrap_or(thread)
    }
}
