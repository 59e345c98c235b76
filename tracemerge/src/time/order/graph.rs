//! Shortest paths over clocks. An edge of the weight `w` from `i` to `j` says that the offset of `j` is at most the
//! offset of `i` plus `w`. A shortest path is the tightest statement that follows from several edges, and a cycle of
//! negative weight is a contradiction.

/// The difference of length, in nanoseconds, up to which a path does not count as shorter than another one. It allows
/// for rounding.
const ROUNDING: f64 = 1e-3;

/// The edges between clocks: the pair with the index `p` has the edges `2 p`, from its first clock to its second, and
/// `2 p + 1` in the opposite direction.
#[derive(Clone, Debug, Default)]
pub(super) struct Graph {
    pub nodes: usize,
    pub edges: Vec<(u32, u32)>,
}

/// The indexes of the edges of a contradiction, in any order.
pub(super) type Cycle = Vec<usize>;

impl Graph {
    /// Returns the length of the shortest path from `root` to each node or, if `forward` is false, from each node to
    /// `root`; infinity if there is no path.
    ///
    /// # Errors
    /// There is a cycle of negative weight on such a path. The error is that cycle.
    pub(super) fn distances(&self, weights: &[f64], root: usize, forward: bool) -> Result<Vec<f64>, Cycle> {
        let mut distances = vec![f64::INFINITY; self.nodes];
        distances[root] = 0.0;
        self.relax(weights, &mut distances, forward)?;
        Ok(distances)
    }

    /// Checks that the edges have no cycle of negative weight.
    ///
    /// # Errors
    /// There is such a cycle. The error is that cycle.
    pub(super) fn check(&self, weights: &[f64]) -> Result<(), Cycle> {
        self.relax(weights, &mut vec![0.0; self.nodes], true)
    }

    /// Shortens `distances` along the edges until no edge shortens one any more.
    ///
    /// # Errors
    /// There is a cycle of negative weight. The error is that cycle.
    fn relax(&self, weights: &[f64], distances: &mut [f64], forward: bool) -> Result<(), Cycle> {
        let mut by: Vec<u32> = vec![u32::MAX; self.nodes];
        let ends = |edge: usize| {
            let (from, to) = self.edges[edge];
            if forward { (from as usize, to as usize) } else { (to as usize, from as usize) }
        };
        let mut shortened = None;
        for _ in 0..=self.nodes {
            shortened = None;
            for (edge, weight) in weights.iter().enumerate() {
                let (from, to) = ends(edge);
                let length = distances[from] + weight;
                if length < distances[to] - ROUNDING {
                    distances[to] = length;
                    by[to] = edge as u32;
                    shortened = Some(to);
                }
            }
            if shortened.is_none() {
                return Ok(());
            }
        }
        // A node that is still shortened is on a cycle, or behind one.
        let mut node = shortened.unwrap_or(0);
        for _ in 0..self.nodes {
            match by[node] {
                u32::MAX => break,
                edge => node = ends(edge as usize).0,
            }
        }
        let (first, mut cycle) = (node, Vec::new());
        while by[node] != u32::MAX && cycle.len() <= self.nodes {
            cycle.push(by[node] as usize);
            node = ends(by[node] as usize).0;
            if node == first {
                break;
            }
        }
        Err(cycle)
    }

    /// Returns offsets that satisfy the limits of all edges, with 0 for `root`. The offset of each node is the middle
    /// between its largest and its least possible offset. Returns `None` if the limits contradict each other.
    pub(super) fn middle(&self, weights: &[f64], root: usize) -> Option<Vec<f64>> {
        let most = self.distances(weights, root, true).ok()?;
        let least = self.distances(weights, root, false).ok()?;
        let middle = |(most, least): (f64, f64)| {
            if most.is_finite() && least.is_finite() { f64::midpoint(most, -least) } else { 0.0 }
        };
        Some(most.into_iter().zip(least).map(middle).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn shortest_paths_and_contradictions_are_those_of_all_paths(
            edges in proptest::collection::vec((0..5u32, 0..5u32, -20..100i32), 1..14),
        ) {
            let edges: Vec<_> = edges.into_iter().filter(|edge| edge.0 != edge.1).collect();
            let graph = Graph { nodes: 5, edges: edges.iter().map(|edge| (edge.0, edge.1)).collect() };
            let weights: Vec<f64> = edges.iter().map(|edge| f64::from(edge.2)).collect();
            // Floyd and Warshall.
            let mut all = [[f64::INFINITY; 5]; 5];
            (0..5).for_each(|at| all[at][at] = 0.0);
            for (from, to, weight) in &edges {
                let (from, to) = (*from as usize, *to as usize);
                all[from][to] = all[from][to].min(f64::from(*weight));
            }
            for over in 0..5 {
                for from in 0..5 {
                    for to in 0..5 {
                        all[from][to] = all[from][to].min(all[from][over] + all[over][to]);
                    }
                }
            }
            let contradicts = (0..5).any(|at| all[at][at] < 0.0);
            match graph.check(&weights) {
                Ok(()) => {
                    prop_assert!(!contradicts);
                    prop_assert_eq!(&graph.distances(&weights, 0, true).unwrap()[..], &all[0][..]);
                    let back: Vec<f64> = all.iter().map(|row| row[0]).collect();
                    prop_assert_eq!(&graph.distances(&weights, 0, false).unwrap()[..], &back[..]);
                }
                Err(cycle) => {
                    prop_assert!(contradicts);
                    prop_assert!(cycle.iter().map(|edge| weights[*edge]).sum::<f64>() < 0.0);
                    let count = |node: u32, end: fn(&(u32, u32)) -> u32| {
                        cycle.iter().filter(|edge| end(&graph.edges[**edge]) == node).count()
                    };
                    for node in 0..5 {
                        prop_assert_eq!(count(node, |edge| edge.0), count(node, |edge| edge.1));
                    }
                }
            }
        }
    }
}
