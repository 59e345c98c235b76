//! The messages of two threads that have no counterpart: those that are not in a longest common subsequence of both
//! threads' sorts of messages.
//!
//! First, two groups of messages are left out: messages of sorts that the other thread does not have, and equal
//! messages at the beginning and at the end of both threads. In the rest, Myers' greedy algorithm finds the differences
//! if they are few: its time grows with their number. If they are many, an algorithm on rows of bits finds them, whose
//! time is known beforehand. If the budget is too small for both algorithms, the threads are compared in parts.

use std::collections::{HashMap, HashSet};

use crate::view::sorts::SortId;

/// The amount of work that exact comparisons may still do, as a number of steps on one 64-bit word of a row of bits.
///
/// The work is counted, not timed, so that the same traces have the same differences on each machine.
#[derive(Debug)]
pub(super) struct Budget(u64);

impl Budget {
    /// The work that one comparison of two traces may do, which takes a few tenths of a second.
    pub(super) const WHOLE: Budget = Budget(1 << 28);
}

/// The numbers of messages that have no counterpart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unmatched {
    /// The number of messages that are only in the first thread.
    pub only_a: usize,
    /// The number of messages that are only in the second thread.
    pub only_b: usize,
    /// Whether `only_a` and `only_b` are the least possible numbers; otherwise both may be larger than necessary.
    pub exact: bool,
}

/// The cost of a step of the greedy algorithm, in the unit of [`Budget`].
const STEP: u64 = 4;
/// The number of messages of the first thread in each part, if threads are compared in parts.
const PART: usize = 1024;

/// Counts the messages of each thread that have no counterpart in the other.
pub(super) fn unmatched(a: &[SortId], b: &[SortId], budget: &mut Budget) -> Unmatched {
    let (a, b) = without_common_ends(a, b);
    let (kept_a, kept_b) = (of_sorts_in(a, b), of_sorts_in(b, a));
    let (common, exact) = common(&kept_a, &kept_b, budget);
    Unmatched { only_a: a.len() - common, only_b: b.len() - common, exact }
}

/// Returns both sequences without their common beginning and their common end.
fn without_common_ends<'a>(a: &'a [SortId], b: &'a [SortId]) -> (&'a [SortId], &'a [SortId]) {
    let alike = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let (a, b) = (&a[alike..], &b[alike..]);
    let alike = a.iter().rev().zip(b.iter().rev()).take_while(|(a, b)| a == b).count();
    (&a[..a.len() - alike], &b[..b.len() - alike])
}

/// Returns the elements of `messages` that `other` contains, too. Their order stays the same.
fn of_sorts_in(messages: &[SortId], other: &[SortId]) -> Vec<SortId> {
    let sorts: HashSet<SortId> = other.iter().copied().collect();
    messages.iter().copied().filter(|sort| sorts.contains(sort)).collect()
}

/// Returns the length of a common subsequence of `a` and `b`, and whether it is certain that no common subsequence is
/// longer.
fn common(a: &[SortId], b: &[SortId], budget: &mut Budget) -> (usize, bool) {
    let cost = a.len().div_ceil(64) as u64 * b.len() as u64;
    let steps = cost.min(budget.0) / (2 * STEP);
    let (edits, steps) = edits(a, b, steps);
    budget.0 -= (steps * STEP).min(budget.0);
    if let Some(edits) = edits {
        return ((a.len() + b.len() - edits) / 2, true);
    }
    if cost <= budget.0 {
        budget.0 -= cost;
        return (Prefixes::of(a, b).count(), true);
    }
    (common_in_parts(a, b), false)
}

/// Returns the least number of deletions and insertions that turn `a` into `b`, and the number of steps that the search
/// took. After more than `limit` steps, the search ends without a result.
fn edits(a: &[SortId], b: &[SortId], limit: u64) -> (Option<usize>, u64) {
    // After `n` rounds the diagonals from -n to n have been reached, which takes at least n * n / 2 steps.
    let rounds = usize::try_from((2 * limit).isqrt()).unwrap_or(usize::MAX).min(a.len() + b.len());
    // The position reached in `a` on each diagonal; diagonal 0 is in the middle.
    let mut reached = vec![0_usize; 2 * rounds + 3];
    let middle = rounds + 1;
    let mut steps = 0;
    for round in 0..=rounds {
        for diagonal in (middle - round..=middle + round).step_by(2) {
            let (below, above) = (reached[diagonal - 1], reached[diagonal + 1]);
            let down = diagonal == middle - round || (diagonal != middle + round && below < above);
            let from = if down { above } else { below + 1 };
            let (rest_a, rest_b) = (a.get(from..), b.get((from + middle).saturating_sub(diagonal)..));
            let (rest_a, rest_b) = (rest_a.unwrap_or_default(), rest_b.unwrap_or_default());
            let alike = rest_a.iter().zip(rest_b).take_while(|(a, b)| a == b).count();
            reached[diagonal] = from + alike;
            steps += 1 + alike as u64;
            let in_b = (from + alike + middle).saturating_sub(diagonal);
            if from + alike >= a.len() && in_b >= b.len() {
                return (Some(round), steps);
            }
            if steps > limit {
                return (None, steps);
            }
        }
    }
    (None, steps)
}

/// The result of comparing all prefixes of a sequence `a` with a whole sequence `b`: the length of the longest common
/// subsequence of each prefix and `b`. It is stored as one bit for each element of `a`: the bit is 0 if this length
/// grows by one when a prefix is extended by the element.
struct Prefixes {
    bits: Vec<u64>,
}

/// The positions in a sequence at which one sort of messages occurs.
enum Mask {
    /// Many positions: a bit for each element of the sequence, set where the sort occurs.
    Bits(Vec<u64>),
    /// The list of positions, if they are so few that setting their bits costs less than a call of `round`.
    Places(Vec<usize>),
}

impl Prefixes {
    /// Compares all prefixes of `a` with `b`, by Hyyrö's algorithm, which handles 64 elements of `a` at a time.
    fn of(a: &[SortId], b: &[SortId]) -> Prefixes {
        let words = a.len().div_ceil(64);
        let mut masks: HashMap<SortId, Mask> = HashMap::new();
        for (place, sort) in a.iter().enumerate() {
            let mask = masks.entry(*sort).or_insert(Mask::Places(Vec::new()));
            match mask {
                Mask::Bits(bits) => bits[place / 64] |= 1 << (place % 64),
                Mask::Places(places) => {
                    places.push(place);
                    if places.len() >= words {
                        let mut bits = vec![0; words];
                        places.iter().for_each(|place| bits[place / 64] |= 1 << (place % 64));
                        *mask = Mask::Bits(bits);
                    }
                }
            }
        }
        let (mut bits, mut scratch) = (vec![u64::MAX; words], vec![0; words]);
        for sort in b {
            match masks.get(sort) {
                Some(Mask::Bits(mask)) => round(&mut bits, mask),
                Some(Mask::Places(places)) => {
                    places.iter().for_each(|place| scratch[place / 64] |= 1 << (place % 64));
                    round(&mut bits, &scratch);
                    places.iter().for_each(|place| scratch[place / 64] = 0);
                }
                None => {}
            }
        }
        Prefixes { bits }
    }

    /// Returns the length of the longest common subsequence of both whole sequences.
    fn count(&self) -> usize {
        self.bits.iter().map(|word| word.count_zeros() as usize).sum()
    }

    /// Returns whether the length of the longest common subsequence grows by one when a prefix of the first sequence is
    /// extended by the element at this position.
    fn grows_at(&self, place: usize) -> bool {
        self.bits[place / 64] >> (place % 64) & 1 == 0
    }
}

/// Updates the bits of [`Prefixes`] for the next element of the second sequence. `mask` has a bit for each element of
/// the first sequence, which is set if the two elements are equal.
fn round(bits: &mut [u64], mask: &[u64]) {
    let mut carry = false;
    for (word, mask) in bits.iter_mut().zip(mask) {
        let (sum, over) = word.overflowing_add(*word & mask);
        let (sum, over_again) = sum.overflowing_add(u64::from(carry));
        carry = over || over_again;
        *word = sum | (*word & !mask);
    }
}

/// Returns the length of a common subsequence, which may not be the longest one. Each part of `a` is compared only with
/// the messages of `b` that follow the matches of the parts before it.
fn common_in_parts(a: &[SortId], mut b: &[SortId]) -> usize {
    let mut common = 0;
    let parts = a.len().div_ceil(PART);
    for (number, part) in a.chunks(PART).enumerate() {
        let window = if number + 1 == parts { b } else { &b[..b.len().min(2 * PART)] };
        // The last part may be compared with many messages; comparing it with distant ones would cost more than the
        // result is worth.
        let window = &window[..window.len().min(8 * PART)];
        let prefixes = Prefixes::of(window, part);
        if number + 1 == parts {
            return common + prefixes.count();
        }
        // The part ends at the position with the best ratio of messages with a counterpart to those without.
        let (mut length, mut best) = (0, None);
        let mut at_same_length = (0, 0);
        for place in 0..window.len() {
            length += usize::from(prefixes.grows_at(place));
            let (score, end) = ((2 * length).checked_sub(place + 1), (place + 1, length));
            if score.is_some_and(|score| score > 0 && best.is_none_or(|(most, _)| score > most)) {
                best = score.map(|score| (score, end));
            }
            if place < part.len() {
                at_same_length = end;
            }
        }
        let (taken, found) = best.map_or(at_same_length, |(_, end)| end);
        common += found;
        b = &b[taken..];
    }
    common
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns the length of the longest common subsequence, by the textbook algorithm.
    fn longest(a: &[u32], b: &[u32]) -> usize {
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

    fn sequence(sorts: u32, length: usize) -> impl Strategy<Value = Vec<u32>> {
        prop::collection::vec(prop_oneof![0..4u32, 0..sorts], 0..length)
    }

    proptest! {
        #[test]
        fn unmatched_messages_are_those_outside_a_longest_common_sequence(
            a in sequence(40, 300), b in sequence(40, 300), budget in 0..40_000u64,
        ) {
            let common = longest(&a, &b);
            let found = unmatched(&a, &b, &mut Budget(1 << 28));
            let expected = Unmatched { only_a: a.len() - common, only_b: b.len() - common, exact: true };
            prop_assert_eq!(found, expected);
            // With less work the result is the same, or is marked as possibly too large.
            let found = unmatched(&a, &b, &mut Budget(budget));
            prop_assert!(!found.exact || found == expected);
            prop_assert!(found.only_a >= expected.only_a && found.only_a <= a.len());
            prop_assert_eq!(found.only_a + b.len(), found.only_b + a.len());
        }

        #[test]
        fn both_exact_algorithms_find_the_longest_common_sequence(a in sequence(200, 400), b in sequence(200, 400)) {
            let common = longest(&a, &b);
            prop_assert_eq!(Prefixes::of(&a, &b).count(), common);
            prop_assert_eq!(edits(&a, &b, u64::from(u32::MAX)).0, Some(a.len() + b.len() - 2 * common));
        }
    }

    /// Numbers that look as if they were random.
    fn numbers(seed: u64) -> impl Iterator<Item = u32> {
        std::iter::successors(Some(seed), |n| Some(n.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1)))
            .map(|n| (n >> 40) as u32 % 1000)
    }

    #[test]
    fn long_threads_are_compared_in_parts() {
        let a: Vec<u32> = numbers(1).take(50_000).collect();
        // Each tenth message is missing, and a row of others is in the middle.
        let mut b: Vec<u32> =
            a.iter().enumerate().filter(|(n, _)| n % 10 != 3).map(|(_, sort)| *sort).collect();
        b.splice(20_000..20_000, numbers(5).take(700));
        let found = unmatched(&a, &b, &mut Budget(1000));
        assert!(!found.exact);
        // The parts in which the row begins and ends may be lost.
        let (least, most) = (5_000, 5_000 + 2 * PART);
        assert!((least..=most).contains(&found.only_a), "{found:?}");
        assert_eq!(found.only_a + b.len(), found.only_b + a.len());
    }

    #[test]
    fn work_is_deducted_from_the_budget() {
        let (a, b): (Vec<u32>, Vec<u32>) =
            (numbers(1).take(6_400).collect(), numbers(2).take(6_000).collect());
        let mut budget = Budget(2 * 100 * 6_000);
        assert!(unmatched(&a, &b, &mut budget).exact);
        assert!(!unmatched(&a, &b, &mut budget).exact);
        // Threads that are almost equal are still compared exactly.
        let mut c = a.clone();
        c.remove(3_000);
        assert_eq!(unmatched(&a, &c, &mut budget), Unmatched { only_a: 1, only_b: 0, exact: true });
    }
}
