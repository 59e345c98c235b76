//! The change of offsets by which no message that counts is received before it is sent. Between grid times, offsets
//! change linearly: even if they satisfy all limits at the grid times, they need not satisfy each message in between.

use super::Message;
use super::pairs::{Epoch, Messages};
use super::solution::{Order, Verdict};
use super::solve::Grid;

/// The greatest number of rounds in which offsets are changed.
const ROUNDS: usize = 6;

/// Changes the offsets, as little as possible, at the grid times near which a message is received before it is sent. A
/// message for which this does not help contradicts other messages, and is marked as wrong.
pub(super) fn repair(
    grid: &Grid,
    offsets: &mut [Vec<f64>],
    epochs: &[Epoch],
    messages: &Messages,
    order: &mut Order,
    (root, least_apart): (usize, f64),
    clocks_of: &dyn Fn(&Message) -> (u32, u32),
) {
    let is_kept = |verdict: Verdict| verdict == Verdict::Kept;
    for _ in 0..ROUNDS {
        let mut missing: Vec<Vec<(u32, u32, f64)>> = vec![Vec::new(); grid.times];
        let mut any = false;
        for (message, verdict) in messages.all.iter().zip(&order.verdicts) {
            let Some(delay) = Some(message)
                .filter(|_| is_kept(*verdict))
                .map(|message| delay(grid, offsets, epochs, message))
            else {
                continue;
            };
            if delay.ns < least_apart {
                any = true;
                for at in delay.places {
                    missing[at].push((message.from, message.to, delay.ns - least_apart));
                }
            }
        }
        if !any {
            return;
        }
        // The other messages near the same grid times are limits, too, so that the change does not reverse them.
        let is_touched: Vec<bool> = missing.iter().map(|missing| !missing.is_empty()).collect();
        for (message, verdict) in messages.all.iter().zip(&order.verdicts) {
            if is_kept(*verdict) {
                let delay = delay(grid, offsets, epochs, message);
                for at in delay.places.into_iter().filter(|at| is_touched[*at] && delay.ns >= least_apart) {
                    missing[at].push((message.from, message.to, delay.ns - least_apart));
                }
            }
        }
        for (at, missing) in missing.into_iter().enumerate().filter(|(_, missing)| !missing.is_empty()) {
            change(grid, at, &mut offsets[at], &missing, root);
        }
    }
    for (message, verdict) in messages.all.iter().zip(&mut order.verdicts) {
        if is_kept(*verdict) && delay(grid, offsets, epochs, message).ns < least_apart / 2.0 {
            *verdict = Verdict::Wrong;
            *order.contradictory.entry(clocks_of(message)).or_default() += 1;
        }
    }
}

/// The delay of a message, computed with the current offsets.
struct Delay {
    ns: f64,
    /// The indexes of the grid times whose offsets determine the delay; some may occur twice.
    places: [usize; 4],
}

fn delay(grid: &Grid, offsets: &[Vec<f64>], epochs: &[Epoch], message: &Message) -> Delay {
    let key = |epoch: u32, reading: i64| {
        let nominal = epochs[epoch as usize].nominal(reading);
        let (at, share) = grid.place(nominal * 1e-9);
        let next = (at + 1).min(grid.times - 1);
        let (from, to) = (offsets[at][epoch as usize], offsets[next][epoch as usize]);
        (nominal - (from + (to - from) * share), at, next)
    };
    let (sent, from, next) = key(message.from, message.sent);
    let (received, to, behind) = key(message.to, message.received);
    Delay { ns: received - sent, places: [from, next, to, behind] }
}

/// Changes the offsets at one grid time as little as possible, so that they satisfy all limits at that time and those
/// of the messages in `missing`, whose delays are too short.
fn change(grid: &Grid, at: usize, offsets: &mut [f64], missing: &[(u32, u32, f64)], root: usize) {
    let graph = &grid.graph;
    let mut room: Vec<f64> = graph
        .edges
        .iter()
        .zip(&grid.weights[at])
        .map(|(edge, weight)| weight - (offsets[edge.1 as usize] - offsets[edge.0 as usize]))
        .collect();
    // The limits of messages belong to the edges of their pairs.
    let mut numbers = std::collections::HashMap::new();
    for (number, edge) in graph.edges.iter().enumerate() {
        numbers.entry(*edge).or_insert(number);
    }
    for (from, to, room_of_message) in missing {
        // Receiving is later by a smaller offset of the receiver.
        if let Some(number) = numbers.get(&(*from, *to)) {
            room[*number] = room[*number].min(*room_of_message);
        }
    }
    let Some(goal) = graph.middle(&room, root) else { return };
    let mut share: f64 = 0.0;
    for (edge, room) in graph.edges.iter().zip(&room) {
        let change = goal[edge.1 as usize] - goal[edge.0 as usize];
        if *room < 0.0 && change < 0.0 {
            share = share.max(room / change);
        }
    }
    let share = share.min(1.0);
    offsets.iter_mut().zip(&goal).for_each(|(offset, goal)| *offset += share * goal);
}
