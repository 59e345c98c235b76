//! Matched messages that contradict other messages. They are given up, which means that they limit nothing any more,
//! and are reported.

use std::collections::HashMap;

use super::filter::Direction;
use super::graph::Cycle;
use super::pairs::Epoch;
use super::solution::{Order, Verdict};
use super::solve::{Grid, Link, LinkKind, clocks_of, set_weights};

/// The greatest number of points that are given up: for each pair of clocks, and in all.
const MOST_GIVEN_UP: (usize, usize) = (1000, 20_000);
/// The number of points before the time of a contradiction, and the number after it, one of which is given up: the
/// point with the fewest companions, points nearby that limit the offset almost as much.
const NEAR: usize = 4;
/// The greatest number of unsupported messages that are compared with the limits of all clocks. An unsupported message
/// claims far less delay than the other messages in its direction.
const MOST_COMPARED: usize = 5000;

/// Gives up points until no limits contradict each other: first within pairs of clocks, then over loops of several
/// clocks. If too many points would have to be given up, drops the limits at the times of the contradiction.
pub(super) fn give_up_contradictions(
    grid: &mut Grid,
    links: &mut [Link],
    order: &mut Order,
    epochs: &[Epoch],
) {
    let mut in_all = 0;
    for number in 0..links.len() {
        loop {
            let width = |at: usize| grid.weights[at][2 * number] + grid.weights[at][2 * number + 1];
            let narrowest = (0..grid.times).min_by(|a, b| width(*a).total_cmp(&width(*b))).unwrap_or(0);
            if width(narrowest) >= 0.0 {
                break;
            }
            let cycle = vec![2 * number, 2 * number + 1];
            in_all += 1;
            if links[number].given_up >= MOST_GIVEN_UP.0
                || in_all > MOST_GIVEN_UP.1
                || give_up_one(grid, links, order, epochs, &cycle, narrowest).is_none()
            {
                let edges = [2 * number, 2 * number + 1];
                for weights in &mut grid.weights {
                    if weights[edges[0]] + weights[edges[1]] < 0.0 {
                        edges.iter().for_each(|edge| weights[*edge] = f64::INFINITY);
                    }
                }
                break;
            }
            set_weights(grid, number, &links[number]);
        }
    }
    loop {
        let mut changed: Vec<usize> = Vec::new();
        for at in 0..grid.times {
            while let Err(cycle) = grid.graph.check(&grid.weights[at]) {
                if cycle.iter().any(|edge| changed.contains(&(edge / 2))) {
                    break;
                }
                in_all += 1;
                let given_up = if in_all > MOST_GIVEN_UP.1 {
                    None
                } else {
                    give_up_one(grid, links, order, epochs, &cycle, at)
                };
                match given_up {
                    Some(number) => {
                        changed.push(number);
                        break;
                    }
                    None => cycle.iter().for_each(|edge| grid.weights[at][*edge] = f64::INFINITY),
                }
            }
        }
        if changed.is_empty() {
            return;
        }
        for number in changed {
            set_weights(grid, number, &links[number]);
        }
    }
}

/// The order in which points are given up: points of wall clocks first, then those with fewer companions (points nearby
/// that limit the offset almost as much), then those nearer in time to the contradiction.
type Rank = (bool, u32, f64);

/// Gives up one point, the bound from one message, to resolve the contradiction `cycle` near the grid time `at`. The
/// point limits one of the edges in `cycle`. A point of a wall clock is preferred, then the one with the fewest
/// companions, which are points nearby that limit the offset almost as much. Returns the index of the point's pair;
/// `None` if there is no such point.
fn give_up_one(
    grid: &Grid,
    links: &mut [Link],
    order: &mut Order,
    epochs: &[Epoch],
    cycle: &Cycle,
    at: usize,
) -> Option<usize> {
    let t = grid.time(at);
    let mut best: Option<(Rank, usize, usize, usize)> = None;
    for edge in cycle {
        let (number, direction) = (edge / 2, edge % 2);
        let link = &links[number];
        if link.kind == LinkKind::SameClock || link.given_up >= MOST_GIVEN_UP.0 {
            continue;
        }
        let hull = &link.stream.hulls[direction];
        let behind = hull.before(t);
        for place in behind.saturating_sub(NEAR)..(behind + NEAR).min(hull.points().len()) {
            let point = hull.points()[place];
            let rank = (link.kind == LinkKind::Messages, point.companions, (point.s - t).abs());
            let is_less =
                |best: &Rank| (rank.0, rank.1).cmp(&(best.0, best.1)).then(rank.2.total_cmp(&best.2)).is_lt();
            if best.as_ref().is_none_or(|best| is_less(&best.0)) {
                best = Some((rank, number, direction, place));
            }
        }
    }
    let (_, number, direction, place) = best?;
    let link = &mut links[number];
    link.given_up += 1;
    let point = link.stream.hulls[direction].remove(place);
    let (a, b) = clocks_of(&link.pair, epochs);
    if link.kind == LinkKind::Messages {
        order.verdicts[point.id as usize] = Verdict::Wrong;
        *order.contradictory.entry((a, b)).or_default() += 1;
    } else {
        *order.contradictory_walls.entry(a).or_default() += 1;
    }
    Some(number)
}

/// Judges the unsupported messages, which claim far less delay than the others in their direction: marks as wrong those
/// that contradict the limits of all clocks together, and the others as unsupported.
pub(super) fn compare_unsupported(grid: &Grid, links: &[Link], order: &mut Order, epochs: &[Epoch]) {
    let mut known: HashMap<(usize, u32), Vec<f64>> = HashMap::new();
    let mut compared = 0;
    for link in links {
        for &(direction, s, u, id) in &link.stream.unsupported {
            order.verdicts[id as usize] = Verdict::Unsupported;
            compared += 1;
            if compared > MOST_COMPARED {
                continue;
            }
            let at = grid.place(s + grid.step / 2.0).0;
            // The message says that the offset of `to` is at most that of `from` plus `u`.
            let (from, to) = match direction {
                Direction::Forth => (link.pair.a, link.pair.b),
                Direction::Back => (link.pair.b, link.pair.a),
            };
            let back = known.entry((at, to)).or_insert_with(|| {
                let none = |_: Cycle| vec![f64::INFINITY; grid.graph.nodes];
                grid.graph.distances(&grid.weights[at], to as usize, true).unwrap_or_else(none)
            });
            if u < -back[from as usize] - link.rho * grid.step {
                order.verdicts[id as usize] = Verdict::Wrong;
                *order.contradictory.entry(clocks_of(&link.pair, epochs)).or_default() += 1;
            }
        }
    }
}
