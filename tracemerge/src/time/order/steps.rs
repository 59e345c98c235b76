//! The search for jumps of clocks. All pairs with a clock show its jump. The readings after the jump are a new epoch of
//! the clock.
//!
//! To find a jump, the offsets of a pair are divided into windows of time, and the medians of neighbouring windows are
//! compared. Second differences of the medians are used, because they do not depend on a constant rate. One pair cannot
//! show which of its clocks has jumped, so each pair votes for both, and the clock with the most votes is divided. A
//! message that was sent or received near the jump belongs to neither epoch for certain.

use std::collections::BTreeMap;

use super::filter::{Direction, median};
use super::pairs::{Epoch, Messages, Pair};

/// The size of the smallest jump that is searched for, in nanoseconds.
const LEAST_NS: f64 = 100_000.0;
/// The least ratio of a jump to the usual difference between the medians of neighbouring windows. Smaller differences
/// do not count as jumps. The first number is for windows with [`MANY`] messages or more; the second for windows with
/// fewer, whose medians vary more.
const LEAST_RATIOS: [f64; 2] = [8.0, 16.0];
/// The number of messages in a window from which on the median of the window varies little.
const MANY: usize = 32;
/// The duration of a window, in seconds.
const WINDOW_SECONDS: f64 = 10.0;
/// The number of messages before the most likely position of a jump, and the number after it, that are not used.
const UNCERTAIN: usize = 2;
/// The greatest number of jumps that are searched for.
const MOST_STEPS: usize = 1000;

/// A jump of a clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Jump {
    /// The number of the clock that jumped.
    pub clock: u32,
    /// The readings between which the clock jumped.
    pub between: (i64, i64),
    /// The size of the jump, in nanoseconds.
    pub ns: f64,
    /// The number of pairs of clocks that show the jump.
    pub pairs: usize,
}

/// A jump of the offset between two clocks. Either clock may have caused it.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    ns: f64,
    /// For each of the two clocks: its readings before and after the jump.
    between: [(i64, i64); 2],
}

/// The result of searching one pair for jumps.
#[derive(Clone, Copy, Debug)]
struct Seen {
    /// The largest jump of the offset between the pair's clocks; `None` if the pair shows none.
    largest: Option<Candidate>,
    /// The least size of a jump, in nanoseconds, that this pair would show.
    least: f64,
    /// For each of the two clocks: the readings between which this pair would show a jump.
    range: [(i64, i64); 2],
}

/// Searches for jumps of all clocks, divides the epochs at these jumps, and returns the jumps.
pub(super) fn divide(epochs: &mut Vec<Epoch>, messages: &mut Messages) -> Vec<Jump> {
    let mut found: BTreeMap<(u32, u32), Option<Seen>> = BTreeMap::new();
    let mut pairs: BTreeMap<(u32, u32), Pair> =
        messages.pairs().into_iter().map(|pair| ((pair.a, pair.b), pair)).collect();
    let mut jumps = Vec::new();
    while jumps.len() < MOST_STEPS {
        for (key, pair) in &pairs {
            if epochs[pair.a as usize].clock.is_some() && epochs[pair.b as usize].clock.is_some() {
                found.entry(*key).or_insert_with(|| look(pair, messages));
            }
        }
        let Some((epoch, between, ns, votes)) = elected(&found) else { break };
        let old = epochs[epoch as usize];
        let Some(clock) = old.clock else { break };
        jumps.push(Jump { clock, between, ns, pairs: votes });
        let new = epochs.len() as u32;
        let cut = between.0.saturating_add(between.1.saturating_sub(between.0) / 2);
        let from = cut.saturating_add(1);
        epochs.push(Epoch { from, origin: from, ..old });
        // Only the pairs of this clock change.
        let changed: Vec<(u32, u32)> =
            pairs.keys().filter(|key| key.0 == epoch || key.1 == epoch).copied().collect();
        for key in changed {
            found.remove(&key);
            let Some(pair) = pairs.remove(&key) else { continue };
            for id in pair.ids {
                let at = messages.readings(id, epoch).0;
                if at > between.0 && at < between.1 {
                    messages.is_at_step[id as usize] = true;
                    continue;
                }
                let message = &mut messages.all[id as usize];
                if at > cut {
                    let end = if message.from == epoch { &mut message.from } else { &mut message.to };
                    *end = new;
                }
                let key = (message.from.min(message.to), message.from.max(message.to));
                pairs.entry(key).or_insert_with(|| Pair { a: key.0, b: key.1, ids: Vec::new() }).ids.push(id);
            }
        }
        for pair in
            pairs.values_mut().filter(|pair| [pair.a, pair.b].iter().any(|end| [epoch, new].contains(end)))
        {
            messages.sort(pair);
        }
    }
    jumps
}

/// The evidence of a pair that shows no jump: the least size of a jump that the pair would show, in nanoseconds, and
/// the readings of the clock between which it would show one.
type Opposed = (f64, (i64, i64));

/// Returns the epoch with the most votes for a jump, the readings between which its clock jumped, the size of the jump
/// in nanoseconds, and the number of pairs that voted for it. A pair that would show such a jump, and shows none, votes
/// against it.
fn elected(found: &BTreeMap<(u32, u32), Option<Seen>>) -> Option<(u32, (i64, i64), f64, usize)> {
    let mut votes: BTreeMap<u32, Vec<Vote>> = BTreeMap::new();
    let mut against: BTreeMap<u32, Vec<Opposed>> = BTreeMap::new();
    for (&(a, b), seen) in found {
        let Some(seen) = seen else { continue };
        match seen.largest {
            Some(Candidate { ns, between }) => {
                votes.entry(a).or_default().push(Vote { between: between[0], ns: -ns });
                votes.entry(b).or_default().push(Vote { between: between[1], ns });
            }
            None => {
                against.entry(a).or_default().push((seen.least, seen.range[0]));
                against.entry(b).or_default().push((seen.least, seen.range[1]));
            }
        }
    }
    let mut best: Option<(u32, Vec<Vote>, (isize, f64))> = None;
    for (epoch, mut own) in votes {
        own.sort_by_key(|vote| vote.between.0);
        for one in &own {
            let group: Vec<Vote> = own.iter().filter(|other| one.is_same(other)).copied().collect();
            let size = group.iter().map(|vote| vote.ns.abs()).sum::<f64>() / group.len() as f64;
            let is_against = |(least, range): &&Opposed| {
                size > *least && range.0 < one.between.0 && one.between.1 < range.1
            };
            let against = against.get(&epoch).map_or(0, |all| all.iter().filter(is_against).count());
            let rank = (group.len() as isize - against as isize, size);
            if best.as_ref().is_none_or(|best| rank >= best.2) {
                best = Some((epoch, group, rank));
            }
        }
    }
    let (epoch, group, _) = best?;
    let latest = group.iter().map(|vote| vote.between.0).max()?;
    let earliest = group.iter().map(|vote| vote.between.1).min()?;
    let least = group.iter().map(|vote| vote.between.0).min()?;
    let most = group.iter().map(|vote| vote.between.1).max()?;
    let mut sizes: Vec<f64> = group.iter().map(|vote| vote.ns).collect();
    let ns = median(&mut sizes)?;
    // The clearer the jump, the better each pair knows its place.
    let between = if ns.abs() > 2e6 && latest < earliest { (latest, earliest) } else { (least, most) };
    Some((epoch, between, ns, group.len()))
}

/// The vote of a pair for a jump of one of its clocks.
#[derive(Clone, Copy, Debug)]
struct Vote {
    between: (i64, i64),
    ns: f64,
}

impl Vote {
    /// Returns whether `later` is a vote for the same jump: whether the two jumps are near in time, and of a similar
    /// size.
    fn is_same(&self, later: &Vote) -> bool {
        let size = self.ns.abs().max(later.ns.abs());
        let apart = later.between.0 as f64 - self.between.0 as f64;
        (0.0..=2e9 * WINDOW_SECONDS + size).contains(&apart) && (self.ns - later.ns).abs() <= 0.5 * size
    }
}

/// Searches a pair's offsets for the largest jump. Returns `None` if the pair has too few messages.
fn look(pair: &Pair, messages: &Messages) -> Option<Seen> {
    let first = messages.readings(*pair.ids.first()?, pair.a);
    let points: Vec<(f64, f64, Direction)> = pair
        .ids
        .iter()
        .map(|&id| {
            let (a, b) = messages.readings(id, pair.a);
            let (a, b) = (a.wrapping_sub(first.0), b.wrapping_sub(first.1));
            (a as f64 * 1e-9, b.wrapping_sub(a) as f64, messages.direction(id, pair.a))
        })
        .collect();
    let lasts = points.last()?.0.max(1e-9);
    let share = (points.len() as f64 * WINDOW_SECONDS / lasts) as usize;
    let window = (points.len() / 8).min(share).max(8) / 4 * 4;
    if points.len() < 3 * window {
        return None;
    }
    let flat = flattened(&points, window);
    let step = window / 4;
    let places: Vec<usize> = (window..=points.len() - window).step_by(step).collect();
    let mut values = Vec::new();
    let mut middle = |range: std::ops::Range<usize>| {
        values.clear();
        values.extend_from_slice(&flat[range]);
        median(&mut values).unwrap_or(0.0)
    };
    let first_differences: Vec<f64> =
        places.iter().map(|&at| middle(at..at + window) - middle(at - window..at)).collect();
    let second = |at: usize| {
        let before = at.checked_sub(4).map(|at| first_differences[at]);
        let behind = first_differences.get(at + 4).copied();
        let around = match (before, behind) {
            (Some(before), Some(behind)) => f64::midpoint(before, behind),
            (before, behind) => before.or(behind).unwrap_or(0.0),
        };
        let jump = first_differences[at] - around;
        // Beside the jump of a neighbour there is none.
        if jump.abs() > first_differences[at].abs() { first_differences[at] } else { jump }
    };
    let all: Vec<f64> = (0..places.len()).map(second).collect();
    let mut sizes: Vec<f64> = all.iter().map(|jump| jump.abs()).collect();
    let usual = median(&mut sizes)?;
    let (at, jump) = all.iter().copied().enumerate().max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()))?;
    let least = LEAST_NS.max(LEAST_RATIOS[usize::from(window < MANY)] * usual);
    let readings = |at: usize| messages.readings(pair.ids[at], pair.a);
    let (first, last) = (readings(window), readings(points.len() - window));
    let mut seen = Seen { largest: None, least, range: [(first.0, last.0), (first.1, last.1)] };
    if jump.abs() <= least {
        return Some(seen);
    }
    // The place where the values before fit the old level best, and those behind it the new one.
    let range = places[at] - window..places[at] + window;
    let old = middle(range.start..range.start + window * 3 / 4);
    let new = middle(range.end - window * 3 / 4..range.end);
    let (mut sum, mut best, mut last_old) = (0i64, i64::MIN, range.start);
    for place in range {
        sum += if (flat[place] - new).abs() < (flat[place] - old).abs() { -1 } else { 1 };
        if sum > best {
            (best, last_old) = (sum, place);
        }
    }
    let before = readings(last_old.saturating_sub(UNCERTAIN));
    let behind = readings((last_old + 1 + UNCERTAIN).min(pair.ids.len() - 1));
    let between = [(before.0, behind.0), (before.1, behind.1)];
    if (new - old).abs() > least / 2.0 {
        seen.largest = Some(Candidate { ns: new - old, between });
    }
    Some(seen)
}

/// Returns the offsets of points after subtracting their median rate, and the median difference between the two
/// directions.
fn flattened(points: &[(f64, f64, Direction)], window: usize) -> Vec<f64> {
    let of = |direction| points.iter().filter(move |point| point.2 == direction);
    let differences = |values: &[(f64, f64)]| {
        let mut slopes: Vec<f64> = (window..values.len())
            .step_by((window / 4).max(1))
            .map(|at| {
                (values[at].1 - values[at - window].1) / (values[at].0 - values[at - window].0).max(1e-9)
            })
            .collect();
        median(&mut slopes).unwrap_or(0.0)
    };
    let all: Vec<(f64, f64)> = points.iter().map(|(s, y, _)| (*s, *y)).collect();
    let slope = differences(&all);
    // The gap of the directions: the median of the gaps of neighbours.
    let mut gaps: Vec<f64> = points
        .windows(2)
        .filter(|two| two[0].2 != two[1].2)
        .map(|two| (two[0].1 - two[1].1) * if two[0].2 == Direction::Forth { 1.0 } else { -1.0 })
        .collect();
    let gap = if of(Direction::Forth).next().is_some() { median(&mut gaps).unwrap_or(0.0) } else { 0.0 };
    points
        .iter()
        .map(|(s, y, direction)| y - slope * s + if *direction == Direction::Back { gap } else { 0.0 })
        .collect()
}
