//! A tournament tree of losers, which finds the sorted input with the smallest key among many.
//!
//! Leaf `i` of `k` counts as node `k + i`, but is not stored; the parent of node `n` is `n / 2`. Nodes 1 to `k - 1`
//! hold the loser of the match played there, and node 0 holds the overall winner. So if the winner's key changes, only
//! the matches between its leaf and the root are played again: `log2 k` comparisons, and no look at any other leaf. A
//! node holds the key itself, so a match touches no other memory.

/// The key by which the merge orders a line: its ticks, then the rank of its input. Keys of lines of different inputs
/// are never equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TreeKey(u128);

impl TreeKey {
    /// The key of an input that has no more lines: it is after every other key.
    pub(crate) const EXHAUSTED: TreeKey = TreeKey(u128::MAX);

    /// Returns the key of a line with these ticks of the input `rank`. No machine has `u64::MAX` inputs, so the key is
    /// never [`Self::EXHAUSTED`].
    #[inline]
    #[must_use]
    pub(crate) fn new(ticks: u64, rank: usize) -> TreeKey {
        TreeKey(u128::from(ticks) << 64 | rank as u128)
    }

    /// Returns the rank of the key's input; without meaning in [`Self::EXHAUSTED`].
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the rank is the low half")]
    fn rank(self) -> usize {
        self.0 as u64 as usize
    }
}

/// A tournament tree of losers, as the module describes it.
#[derive(Debug)]
pub(crate) struct LoserTree {
    nodes: Vec<TreeKey>,
}

impl LoserTree {
    /// Makes a tree, in which all matches are played. `keys[i]` must be the key of the first line of input `i`, or
    /// [`TreeKey::EXHAUSTED`].
    #[must_use]
    pub(crate) fn new(keys: &[TreeKey]) -> LoserTree {
        let leaves = keys.len();
        let mut nodes = vec![TreeKey::EXHAUSTED; leaves.max(1)];
        // The winners of the matches below, by node; each leaf wins its own place.
        let mut winners = vec![TreeKey::EXHAUSTED; leaves];
        winners.extend_from_slice(keys);
        for node in (1..leaves).rev() {
            let (left, right) = (winners[2 * node], winners[2 * node + 1]);
            winners[node] = left.min(right);
            nodes[node] = left.max(right);
        }
        nodes[0] = winners.get(1).copied().unwrap_or(TreeKey::EXHAUSTED);
        LoserTree { nodes }
    }

    /// Returns the rank of the input with the smallest key; `None` if all inputs are exhausted.
    #[inline]
    #[must_use]
    pub(crate) fn winner(&self) -> Option<usize> {
        (self.nodes[0] != TreeKey::EXHAUSTED).then(|| self.nodes[0].rank())
    }

    /// Returns the smallest key of all inputs except `winner`. That key lost its match against the winner's key, so it
    /// is in a node between the winner's leaf and the root.
    #[inline]
    #[must_use]
    pub(crate) fn runner_up(&self, winner: usize) -> TreeKey {
        let mut best = TreeKey::EXHAUSTED;
        let mut node = (self.nodes.len() + winner) / 2;
        while node > 0 {
            best = best.min(self.nodes[node]);
            node /= 2;
        }
        best
    }

    /// Replaces the winner's key by the key of the next line of its input, and plays the matches between its leaf and
    /// the root again.
    #[inline]
    pub(crate) fn replace(&mut self, winner: usize, next: TreeKey) {
        let mut key = next;
        let mut node = (self.nodes.len() + winner) / 2;
        while node > 0 {
            let other = self.nodes[node];
            self.nodes[node] = key.max(other);
            key = key.min(other);
            node /= 2;
        }
        self.nodes[0] = key;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use itertools::Itertools;
    use proptest::prelude::*;

    fn merged(inputs: &[Vec<u64>]) -> Vec<(u64, usize)> {
        let key = |rank: usize, at: usize| {
            inputs[rank].get(at).map_or(TreeKey::EXHAUSTED, |&t| TreeKey::new(t, rank))
        };
        let mut at = vec![0; inputs.len()];
        let mut tree = LoserTree::new(&(0..inputs.len()).map(|rank| key(rank, 0)).collect_vec());
        let mut out = Vec::new();
        while let Some(rank) = tree.winner() {
            let naive = (0..inputs.len()).filter(|&r| r != rank).map(|r| key(r, at[r])).min();
            assert_eq!(tree.runner_up(rank), naive.unwrap_or(TreeKey::EXHAUSTED));
            out.push((inputs[rank][at[rank]], rank));
            at[rank] += 1;
            tree.replace(rank, key(rank, at[rank]));
        }
        out
    }

    #[test]
    fn no_input_and_the_largest_ticks_are_merged() {
        assert_eq!(merged(&[]), []);
        assert_eq!(merged(&[vec![u64::MAX], vec![], vec![u64::MAX]]), [(u64::MAX, 0), (u64::MAX, 2)]);
    }

    proptest! {
        #[test]
        fn the_loser_tree_agrees_with_the_merge_of_itertools(
            mut inputs in prop::collection::vec(prop::collection::vec(0..20u64, 0..12), 0..40)
        ) {
            inputs.iter_mut().for_each(|input| input.sort_unstable());
            let naive = inputs.iter().enumerate()
                .map(|(rank, input)| input.iter().map(move |&ticks| (ticks, rank)))
                .kmerge().collect_vec();
            prop_assert_eq!(merged(&inputs), naive);
        }
    }
}
