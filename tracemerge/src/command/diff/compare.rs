//! Pairs of threads that are compared with each other, and the places where their messages differ.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use similar::{Algorithm, DiffOp, capture_diff_slices_deadline};

use crate::command::diff::input::{Input, ThreadMessages};
use crate::view::shape::ShapeId;

/// The time that finding the differences of one thread may take; then they are told less exactly.
const PATIENCE: Duration = Duration::from_secs(2);

/// Two threads that have the same part in both traces, or one that has none in the other.
pub struct Pair<'a> {
    /// The thread in the first trace.
    pub a: Option<&'a ThreadMessages>,
    /// The thread in the second trace.
    pub b: Option<&'a ThreadMessages>,
    /// The number of messages with which both begin.
    pub alike: usize,
    /// The number of messages that are only in the first trace.
    pub only_a: usize,
    /// The number of messages that are only in the second trace.
    pub only_b: usize,
}

impl Pair<'_> {
    /// Returns whether both threads have the same messages in the same order.
    pub fn is_same(&self) -> bool {
        self.a.is_some() && self.b.is_some() && self.only_a == 0 && self.only_b == 0
    }
}

/// A thread's part in its trace: its name, and how many threads had that before. A process's first thread has
/// no name.
type ThreadRole<'a> = (Option<&'a [u8]>, usize);

/// Pairs all threads of both traces: those of the first in their order, then those that only the second has.
pub fn pairs<'a>(a: &'a Input, b: &'a Input) -> Vec<Pair<'a>> {
    let (of_a, of_b) = (parts(a), parts(b));
    let by_part: BTreeMap<ThreadRole<'_>, &ThreadMessages> = of_b.iter().copied().collect();
    let known: BTreeSet<ThreadRole<'_>> = of_a.iter().map(|(part, _)| *part).collect();
    let first = of_a.iter().map(|(part, thread)| pair(Some(thread), by_part.get(part).copied()));
    let second =
        of_b.iter().filter(|(part, _)| !known.contains(part)).map(|(_, thread)| pair(None, Some(thread)));
    first.chain(second).collect()
}

fn parts(input: &Input) -> Vec<(ThreadRole<'_>, &ThreadMessages)> {
    let mut seen: BTreeMap<Option<&[u8]>, usize> = BTreeMap::new();
    let part = |thread| {
        let thread: &ThreadMessages = thread;
        let before = seen.entry(thread.name.as_deref()).or_default();
        *before += 1;
        ((thread.name.as_deref(), *before - 1), thread)
    };
    input.threads.iter().map(part).collect()
}

fn pair<'a>(a: Option<&'a ThreadMessages>, b: Option<&'a ThreadMessages>) -> Pair<'a> {
    let shapes = |thread: Option<&'a ThreadMessages>| thread.map_or(&[][..], |thread| &thread.shapes[..]);
    let (of_a, of_b) = (shapes(a), shapes(b));
    let alike = of_a.iter().zip(of_b).take_while(|(a, b)| a == b).count();
    let (only_a, only_b) = only(&of_a[alike..], &of_b[alike..]);
    Pair { a, b, alike, only_a, only_b }
}

/// The number of messages of each side that have no counterpart in the other.
fn only(a: &[ShapeId], b: &[ShapeId]) -> (usize, usize) {
    let deadline = Instant::now().checked_add(PATIENCE);
    let mut only = (0, 0);
    for change in capture_diff_slices_deadline(Algorithm::Myers, a, b, deadline) {
        let (_, in_a, in_b) = change.as_tag_tuple();
        if !matches!(change, DiffOp::Equal { .. }) {
            only = (only.0 + in_a.len(), only.1 + in_b.len());
        }
    }
    only
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The length of the longest common subsequence, by the book.
    fn common(a: &[u32], b: &[u32]) -> usize {
        let mut row = vec![0; b.len() + 1];
        for x in a {
            let mut corner = 0;
            for (at, y) in b.iter().enumerate() {
                let above = row[at + 1];
                row[at + 1] = if x == y { corner + 1 } else { above.max(row[at]) };
                corner = above;
            }
        }
        row[b.len()]
    }

    proptest! {
        #[test]
        fn what_has_no_counterpart_is_what_is_not_in_a_longest_common_sequence(
            a in prop::collection::vec(0..4u32, 0..40),
            b in prop::collection::vec(0..4u32, 0..40),
        ) {
            let common = common(&a, &b);
            prop_assert_eq!(only(&a, &b), (a.len() - common, b.len() - common));
        }
    }
}
