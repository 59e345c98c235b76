//! Assumed limits for clocks whose offset the messages limit on one side only, or not at all. They only choose an
//! offset for such clocks, and prove nothing.

use super::Assumptions;
use super::graph::Cycle;
use super::solve::{Grid, Link, LinkKind};

/// The greatest difference, in nanoseconds, that is assumed between the times of two clocks which nothing connects.
const UNPLACED_NS: f64 = 500_000.0;
/// The least distance, in nanoseconds, that an assumed limit keeps from the limit on the opposite side.
const ROOM_NS: f64 = 2_000.0;

/// Adds assumed limits, as edges of the graph, for clocks that messages limit on one side only, or not at all. Returns,
/// for each epoch, whether it needed an assumption. The first assumption that is possible is used:
///
/// 1. A link with messages in one direction only has an assumed least delay in the other.
/// 2. A wall clock of unknown error is right within an assumed error.
/// 3. The first readings of all clocks were at about the same time.
///
/// An assumption that contradicts other limits is relaxed until it contradicts none.
pub(super) fn assume(grid: &mut Grid, links: &[Link], root: usize, assumptions: &Assumptions) -> Vec<bool> {
    let nodes = grid.graph.nodes;
    let mut is_assumed = vec![false; nodes];
    let first_own = grid.graph.edges.len();
    for node in (0..nodes).filter(|node| *node != root) {
        grid.graph.edges.push((root as u32, node as u32));
        grid.graph.edges.push((node as u32, root as u32));
    }
    let graph = &grid.graph;
    // Whether a clock has a limit from which others follow.
    let leads_away = |weights: &[f64], node: u32, forward: bool| {
        let edges = graph.edges.iter().zip(weights);
        edges
            .into_iter()
            .any(|(edge, weight)| weight.is_finite() && if forward { edge.0 == node } else { edge.1 == node })
    };
    for at in 0..grid.times {
        let t = grid.from + at as f64 * grid.step;
        let weights = &mut grid.weights[at];
        weights.resize(graph.edges.len(), f64::INFINITY);
        let assumed_weight = |weights: &[f64], edge: usize| {
            let of_link = edge / 2;
            if edge >= first_own {
                return Some(UNPLACED_NS);
            }
            match links[of_link].kind {
                LinkKind::Messages => {
                    Some(assumptions.least_delay - weights[edge ^ 1]).filter(|weight| weight.is_finite())
                }
                LinkKind::AssumedWall => {
                    let (least, most) = links[of_link].stream.limits(t, links[of_link].rho);
                    Some(if edge % 2 == 0 { most } else { -least }).filter(|weight| weight.is_finite())
                }
                LinkKind::Wall | LinkKind::SameClock => None,
            }
        };
        for forward in [true, false] {
            let none = |_: Cycle| vec![f64::INFINITY; nodes];
            let mut distances = graph.distances(weights, root, forward).unwrap_or_else(none);
            while distances.iter().any(|distance| distance.is_infinite()) {
                // The first edge, by the order of the stages, that leads from the reached clocks to another one.
                let leads_on = |edge: &usize| {
                    let (from, to) = graph.edges[*edge];
                    let (near, far) = if forward { (from, to) } else { (to, from) };
                    weights[*edge].is_infinite()
                        && distances[near as usize].is_finite()
                        && distances[far as usize].is_infinite()
                };
                let stage = |edge: &usize| match links.get(edge / 2).map(|link| link.kind) {
                    Some(LinkKind::Messages) if *edge < first_own => 0,
                    Some(_) if *edge < first_own => 1,
                    _ => 2,
                };
                let found = (0..graph.edges.len())
                    .filter(leads_on)
                    .filter_map(|edge| Some((edge, assumed_weight(weights, edge)?)))
                    .min_by_key(|(edge, _)| stage(edge));
                let Some((edge, weight)) = found else { break };
                let (from, to) = graph.edges[edge];
                let back = if leads_away(weights, to, true) {
                    graph.distances(weights, to as usize, true).unwrap_or_else(none)[from as usize]
                } else {
                    f64::INFINITY
                };
                weights[edge] = weight.max(ROOM_NS - back);
                let (near, far) = if forward { (from, to) } else { (to, from) };
                is_assumed[far as usize] = true;
                distances[far as usize] = distances[near as usize] + weights[edge];
                if leads_away(weights, far, forward) {
                    distances = graph.distances(weights, root, forward).unwrap_or_else(none);
                }
            }
        }
    }
    is_assumed
}
