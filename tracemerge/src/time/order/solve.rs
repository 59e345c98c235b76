//! The alignment of clocks: calls the other modules one after the other, from messages to times.

use super::assume::assume;
use super::centre::centre;
use super::contradictions::{compare_unsupported, give_up_contradictions};
use super::filter::PairStream;
use super::graph::Graph;
use super::nominal::set_nominal;
use super::pairs::{Epoch, Fit, Messages, Pair};
use super::repair::repair;
use super::solution::{Order, Step, Verdict};
use super::steps::{Jump, divide};
use super::times::Times;
use super::{Assumptions, Message, WallReading};

/// The least and the greatest usual distance, in seconds, between two neighbouring grid times, at which the offsets of
/// all clocks are computed. In a very long trace the distance is greater, so that there are not too many grid times.
const GRID_SECONDS: (f64, f64) = (1.0, 10.0);
/// The number of grid times that is not exceeded as long as their distance is less than the greatest usual one.
const GRID_TIMES: f64 = 600.0;
/// The greatest number of limits that are kept, for all pairs and grid times together.
const MOST_LIMITS: f64 = 32e6;
/// The error, in nanoseconds, that is assumed for a wall clock whose system states none. It is only used to choose an
/// offset for clocks that messages do not limit, and proves nothing.
const ASSUMED_WALL_ERROR: i64 = 1_000_000_000;

/// The limits of all pairs at the grid times: times at equal distances, for which offsets are computed.
pub(super) struct Grid {
    /// The first grid time, in seconds.
    pub from: f64,
    /// The distance between two neighbouring grid times, in seconds.
    pub step: f64,
    pub times: usize,
    pub graph: Graph,
    /// For each grid time, the weight of each edge of the graph, which is a limit of an offset in nanoseconds.
    pub weights: Vec<Vec<f64>>,
}

impl Grid {
    pub(super) fn time(&self, at: usize) -> f64 {
        self.from + at as f64 * self.step
    }

    /// Returns the position of `t` on the grid: the index of the last grid time that is not after `t`, but never that
    /// of the grid's end, and the fraction of the way from that grid time to the next one, from 0 to 1.
    pub(super) fn place(&self, t: f64) -> (usize, f64) {
        let place = (t - self.from) / self.step;
        let at = (place.max(0.0) as usize).min(self.times.saturating_sub(2));
        (at, place - at as f64)
    }
}

/// A pair of epochs with the limits that their messages set.
pub(super) struct Link {
    pub pair: Pair,
    pub stream: PairStream,
    /// The greatest speed at which the offset changes, in nanoseconds per second, where messages do not limit it.
    pub rho: f64,
    pub kind: LinkKind,
    /// The number of the pair's points that were given up.
    pub given_up: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LinkKind {
    /// The limits come from messages of a program.
    Messages,
    /// The limits come from the wall clock of a machine whose system states the error of that clock.
    Wall,
    /// The limits come from the wall clock of a machine whose system does not state the error of that clock.
    AssumedWall,
    /// The limits are between two epochs of one clock.
    SameClock,
}

/// Finds the times of the clocks with the numbers 0 to `clocks` - 1 from the messages between them. Each reading of a
/// wall clock counts as two messages, one from and one to a clock that shows the true time.
#[must_use]
pub(crate) fn solve(
    clocks: u32,
    input: &[Message],
    walls: &[WallReading],
    assumptions: &Assumptions,
) -> Order {
    let mut all: Vec<Message> = input.to_vec();
    let wall_clock = clocks;
    let states_error: Vec<bool> = (0..clocks)
        .map(|clock| walls.iter().any(|wall| wall.clock == clock && wall.error.is_some()))
        .collect();
    for wall in walls.iter().filter(|wall| wall.clock < clocks) {
        let error = match wall.error {
            Some(error) => error,
            None if states_error[wall.clock as usize] => continue,
            None => ASSUMED_WALL_ERROR,
        };
        let (earliest, latest) = (wall.wall.saturating_sub(error), wall.wall.saturating_add(error));
        all.push(Message { from: wall_clock, to: wall.clock, sent: earliest, received: wall.at });
        all.push(Message { from: wall.clock, to: wall_clock, sent: wall.at, received: latest });
    }
    let is_at_step = all.iter().map(|message| message.from.max(message.to) > wall_clock).collect();
    let mut messages = Messages { all, is_at_step };
    let mut epochs: Vec<Epoch> = (0..=clocks)
        .map(|clock| Epoch {
            clock: (clock < clocks).then_some(clock),
            from: i64::MIN,
            origin: 0,
            shift: 0.0,
            rate: 1.0,
        })
        .collect();
    let jumps = divide(&mut epochs, &mut messages);
    join_epochs(&epochs, &mut messages, &jumps);
    let root = set_origins(&mut epochs, &messages);
    let pairs = messages.pairs();
    set_nominal(&mut epochs, &messages, &pairs, root, |epoch| epoch == wall_clock);
    let mut links = links(pairs, &messages, &epochs, assumptions, &|epoch| {
        states_error.get(epochs[epoch as usize].clock? as usize).copied()
    });
    let mut grid = make_grid(&links, &messages, &epochs);
    let mut order = Order { verdicts: vec![Verdict::Kept; messages.all.len()], ..Order::default() };
    for (number, link) in links.iter_mut().enumerate() {
        for id in std::mem::take(&mut link.stream.wrong) {
            order.verdicts[id as usize] = Verdict::Wrong;
            *order.contradictory.entry(clocks_of(&link.pair, &epochs)).or_default() += 1;
        }
        set_weights(&mut grid, number, link);
    }
    give_up_contradictions(&mut grid, &mut links, &mut order, &epochs);
    compare_unsupported(&grid, &links, &mut order, &epochs);
    // Wall clocks limit offsets, and are no messages that anybody sees.
    for (verdict, message) in order.verdicts.iter_mut().zip(&messages.all) {
        if message.from == wall_clock || message.to == wall_clock {
            *verdict = Verdict::Unsupported;
        }
    }
    for (verdict, at_step) in order.verdicts.iter_mut().zip(&messages.is_at_step) {
        if *at_step {
            *verdict = Verdict::AtStep;
        }
    }
    let limits: Vec<[Vec<f64>; 2]> = grid
        .weights
        .iter()
        .map(|weights| {
            // Without contradictions there is no error.
            let distances = |forward| {
                let none = || vec![f64::INFINITY; grid.graph.nodes];
                grid.graph.distances(weights, root, forward).unwrap_or_else(|_| none())
            };
            let least = distances(false).into_iter().map(|distance| -distance).collect();
            [least, distances(true)]
        })
        .collect();
    let is_assumed = assume(&mut grid, &links, root, assumptions);
    let mut offsets: Vec<Vec<f64>> = Vec::with_capacity(grid.times);
    for weights in &grid.weights {
        let near = offsets.last().cloned().unwrap_or_else(|| vec![0.0; epochs.len()]);
        offsets.push(centre(&grid.graph, weights, root, &near));
    }
    repair(
        &grid,
        &mut offsets,
        &epochs,
        &messages,
        &mut order,
        (root, assumptions.least_apart),
        &|message: &Message| clocks_of(&Pair { a: message.from, b: message.to, ids: Vec::new() }, &epochs),
    );
    order.verdicts.truncate(input.len());
    order.assumed = (0..clocks)
        .map(|clock| {
            epochs.iter().zip(&is_assumed).any(|(epoch, assumed)| epoch.clock == Some(clock) && *assumed)
        })
        .collect();
    order.steps = jumps
        .iter()
        .map(|jump| Step { clock: jump.clock, between: jump.between, ns: jump.ns as i64, pairs: jump.pairs })
        .collect();
    order.steps.sort_by_key(|step| (step.clock, step.between));
    order.curve_ns = (assumptions.rate_change * grid.step * grid.step / 8.0).ceil() as i64 + 2;
    let times =
        Times { grid: &grid, offsets: &offsets, limits: &limits, epochs: &epochs, root, links: &links };
    order.knots = (0..clocks).map(|clock| times.knots(clock, &jumps)).collect();
    // No message that counts may be received before it is sent: this is checked once more with the times that are
    // shown.
    for (at, message) in input.iter().enumerate() {
        let is_reversed = order.verdicts[at] == Verdict::Kept
            && message.from.max(message.to) < clocks
            && order.time(message.to, message.received)
                < order
                    .time(message.from, message.sent)
                    .saturating_add((assumptions.least_apart / 2.0) as i64);
        if is_reversed {
            order.verdicts[at] = Verdict::Wrong;
            let clocks = (message.from.min(message.to), message.from.max(message.to));
            *order.contradictory.entry(clocks).or_default() += 1;
        }
    }
    order
}

/// Returns the numbers of the two clocks of a pair, the smaller first; the true time has the largest number.
pub(super) fn clocks_of(pair: &Pair, epochs: &[Epoch]) -> (u32, u32) {
    let of = |epoch: u32| epochs[epoch as usize].clock.unwrap_or(u32::MAX);
    (of(pair.a).min(of(pair.b)), of(pair.a).max(of(pair.b)))
}

/// Adds, for each jump of a clock, a message from the epoch before the jump to the epoch after it, because readings
/// before the jump were made before those after it.
fn join_epochs(epochs: &[Epoch], messages: &mut Messages, jumps: &[Jump]) {
    let epoch_at = |clock: u32, reading: i64| {
        let own =
            (0u32..).zip(epochs).filter(|(_, epoch)| epoch.clock == Some(clock) && epoch.from <= reading);
        own.max_by_key(|(_, epoch)| epoch.from).map(|(number, _)| number)
    };
    for jump in jumps {
        let (before, behind) = jump.between;
        if let (Some(from), Some(to)) = (epoch_at(jump.clock, before), epoch_at(jump.clock, behind)) {
            messages.all.push(Message { from, to, sent: before, received: behind });
            messages.is_at_step.push(false);
        }
    }
}

/// Sets the origin of each epoch's nominal line to the epoch's first reading. Returns the index of the epoch to whose
/// time all other epochs are aligned: of the first clock's epochs, the one with the most messages.
fn set_origins(epochs: &mut [Epoch], messages: &Messages) -> usize {
    let mut first: Vec<Option<i64>> = vec![None; epochs.len()];
    let mut counts = vec![0u64; epochs.len()];
    for (message, _) in messages.all.iter().zip(&messages.is_at_step).filter(|(_, at_step)| !**at_step) {
        for (epoch, reading) in [(message.from, message.sent), (message.to, message.received)] {
            let first = &mut first[epoch as usize];
            *first = Some(first.map_or(reading, |first| first.min(reading)));
            counts[epoch as usize] += 1;
        }
    }
    for (epoch, first) in epochs.iter_mut().zip(first) {
        epoch.origin = first.unwrap_or(epoch.from.max(0));
    }
    let of_first = (0..epochs.len()).filter(|epoch| epochs[*epoch].clock == Some(0));
    of_first.max_by_key(|epoch| (counts[*epoch], usize::MAX - epoch)).unwrap_or(0)
}

/// Makes a link for each pair of epochs. A filter judges the points of the pair; the points that count become the hulls
/// of the link.
fn links(
    pairs: Vec<Pair>,
    messages: &Messages,
    epochs: &[Epoch],
    assumptions: &Assumptions,
    states_error: &dyn Fn(u32) -> Option<bool>,
) -> Vec<Link> {
    let link = |pair: Pair| {
        let kind = match (epochs[pair.a as usize].clock, epochs[pair.b as usize].clock) {
            (Some(a), Some(b)) if a == b => LinkKind::SameClock,
            (Some(_), Some(_)) => LinkKind::Messages,
            _ if states_error(pair.a).or(states_error(pair.b)).unwrap_or(false) => LinkKind::Wall,
            _ => LinkKind::AssumedWall,
        };
        let mut stream = PairStream::new(*assumptions, kind != LinkKind::Messages);
        let points: Vec<_> = messages.points(&pair, epochs).collect();
        for (direction, s, offset, id) in &points {
            stream.push(*direction, *s, *offset, *id);
        }
        stream.finish();
        let rho = Fit::through(&points).slope_range + assumptions.rate_range;
        Link { pair, stream, rho, kind, given_up: 0 }
    };
    pairs.into_iter().map(link).collect()
}

fn make_grid(links: &[Link], messages: &Messages, epochs: &[Epoch]) -> Grid {
    let (mut from, mut until) = (f64::INFINITY, f64::NEG_INFINITY);
    for link in links {
        let epoch = &epochs[link.pair.a as usize];
        for id in [link.pair.ids.first(), link.pair.ids.last()].into_iter().flatten() {
            let s = epoch.nominal(messages.readings(*id, link.pair.a).0) * 1e-9;
            (from, until) = (from.min(s), until.max(s));
        }
    }
    if from > until {
        (from, until) = (0.0, 0.0);
    }
    let lasts = until - from;
    let edges = 2 * (links.len() + epochs.len());
    let least = (lasts * edges as f64 / MOST_LIMITS).max(lasts / 100_000.0);
    let step = (lasts / GRID_TIMES).clamp(GRID_SECONDS.0, GRID_SECONDS.1).max(least);
    let times = (lasts / step).ceil() as usize + 2;
    let edges = links.iter().flat_map(|link| [(link.pair.a, link.pair.b), (link.pair.b, link.pair.a)]);
    let graph = Graph { nodes: epochs.len(), edges: edges.collect() };
    let weights = vec![vec![f64::INFINITY; graph.edges.len()]; times];
    Grid { from, step, times, graph, weights }
}

/// Computes the limits of the pair with the index `number` at all grid times.
pub(super) fn set_weights(grid: &mut Grid, number: usize, link: &Link) {
    if link.kind == LinkKind::AssumedWall {
        return;
    }
    for at in 0..grid.times {
        let t = grid.time(at);
        let (least, most) = link.stream.limits(t, link.rho);
        grid.weights[at][2 * number] = most;
        grid.weights[at][2 * number + 1] = -least;
    }
}
