//! The clocks while they are aligned, and the points of each pair of clocks.

use std::collections::BTreeMap;

use super::Message;
use super::filter::{Direction, median};

/// The largest number of windows of time for which a line through points is fitted.
const WINDOWS: usize = 40;
/// The error of a rate, in nanoseconds per second, above which the rate of two clocks counts as unknown.
const UNKNOWN_RATE: f64 = 100_000.0;
/// The assumed bound of the drift between two clocks whose rates are unknown, in nanoseconds per second.
pub(super) const RATES_APART: f64 = 210_000.0;

/// An epoch of a clock: its readings between two of its steps. An epoch is aligned like a clock of its own.
#[derive(Clone, Copy, Debug)]
pub(super) struct Epoch {
    /// The number of the epoch's clock; `None` for the true time, which all machines' wall clocks approach.
    pub clock: Option<u32>,
    /// The first reading of the epoch.
    pub from: i64,
    /// A reading of the clock: the epoch's nominal line is given by its time there and its rate.
    pub origin: i64,
    /// The nominal time at the reading `origin`, in nanoseconds.
    pub shift: f64,
    /// The number of nanoseconds of nominal time per nanosecond of the clock.
    pub rate: f64,
}

impl Epoch {
    /// Returns the nominal time at a reading of the clock, in nanoseconds.
    #[inline]
    pub(super) fn nominal(&self, reading: i64) -> f64 {
        self.shift + reading.wrapping_sub(self.origin) as f64 * self.rate
    }
}

/// The messages between two epochs, of which `a` has the smaller index.
#[derive(Clone, Debug)]
pub(super) struct Pair {
    pub a: u32,
    pub b: u32,
    /// The ids of the messages, in the order of their readings by `a`.
    pub ids: Vec<u32>,
}

/// The messages, in which the clocks are replaced by epochs, given by their indexes.
#[derive(Debug)]
pub(super) struct Messages {
    pub all: Vec<Message>,
    /// Whether each message is so near a step of a clock that its epochs are not certain.
    pub is_at_step: Vec<bool>,
}

impl Messages {
    /// Returns the pairs of epochs that have messages, in the order of their indexes.
    pub(super) fn pairs(&self) -> Vec<Pair> {
        let mut found: BTreeMap<(u32, u32), Vec<u32>> = BTreeMap::new();
        for (id, message) in (0u32..).zip(&self.all) {
            if !self.is_at_step[id as usize] && message.from != message.to {
                let key = (message.from.min(message.to), message.from.max(message.to));
                found.entry(key).or_default().push(id);
            }
        }
        let mut pairs: Vec<Pair> = found.into_iter().map(|((a, b), ids)| Pair { a, b, ids }).collect();
        pairs.iter_mut().for_each(|pair| self.sort(pair));
        pairs
    }

    pub(super) fn sort(&self, pair: &mut Pair) {
        let a = pair.a;
        pair.ids.sort_by_key(|id| self.readings(*id, a).0);
    }

    /// Returns the readings of a message by the epoch `a` and by the other epoch.
    #[inline]
    pub(super) fn readings(&self, id: u32, a: u32) -> (i64, i64) {
        let message = &self.all[id as usize];
        if message.from == a { (message.sent, message.received) } else { (message.received, message.sent) }
    }

    /// Returns the direction of a message between the epoch `a` and the other epoch.
    #[inline]
    pub(super) fn direction(&self, id: u32, a: u32) -> Direction {
        if self.all[id as usize].from == a { Direction::Forth } else { Direction::Back }
    }

    /// Returns the points of a pair in nominal time: direction, time in seconds, offset in nanoseconds, and id of the
    /// message.
    pub(super) fn points<'a>(
        &'a self,
        pair: &'a Pair,
        epochs: &'a [Epoch],
    ) -> impl Iterator<Item = (Direction, f64, f64, u32)> + 'a {
        let (a, b) = (&epochs[pair.a as usize], &epochs[pair.b as usize]);
        pair.ids.iter().map(|&id| {
            let (of_a, of_b) = self.readings(id, pair.a);
            let at = a.nominal(of_a);
            (self.direction(id, pair.a), at * 1e-9, b.nominal(of_b) - at, id)
        })
    }
}

/// A line that is fitted through the points of a pair.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fit {
    /// The offset at the time 0, in nanoseconds.
    pub offset: f64,
    /// The rate of the offset, in nanoseconds per second.
    pub slope: f64,
    /// The largest rate that the offset may have outside of the points, not counting the change of rates that is
    /// assumed.
    pub slope_range: f64,
    /// The number of points in each direction.
    pub counts: [usize; 2],
}

impl Fit {
    /// Fits the line through the medians of the points in windows of time; its slope is the median of the slopes
    /// between windows.
    pub(super) fn through(points: &[(Direction, f64, f64, u32)]) -> Fit {
        let of = |direction| points.iter().filter(|point| point.0 == direction).count();
        let counts = [of(Direction::Forth), of(Direction::Back)];
        let (first, last) = points.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(first, last), point| {
            (first.min(point.1), last.max(point.1))
        });
        let lasts = (last - first).max(1e-9);
        let windows = (points.len() / 40).clamp(3, WINDOWS);
        let mut values = vec![[Vec::new(), Vec::new()]; windows];
        for (direction, s, y, _) in points {
            let window = ((s - first) / lasts * windows as f64) as usize;
            values[window.min(windows - 1)][*direction as usize].push(*y);
        }
        let both = counts.iter().all(|count| *count > 0);
        let middles: Vec<(f64, f64)> = values
            .iter_mut()
            .enumerate()
            .filter_map(|(at, [forth, back])| {
                let middle = match (median(forth), median(back)) {
                    (Some(above), Some(below)) => f64::midpoint(above, below),
                    (Some(one), None) | (None, Some(one)) if !both => one,
                    _ => return None,
                };
                Some((first + (at as f64 + 0.5) * lasts / windows as f64, middle))
            })
            .collect();
        let mut slopes = Vec::new();
        for (at, one) in middles.iter().enumerate() {
            slopes.extend(middles[at + 1..].iter().map(|other| (other.1 - one.1) / (other.0 - one.0)));
        }
        let slope = median(&mut slopes).unwrap_or(0.0);
        let mut offsets: Vec<f64> = middles.iter().map(|(t, middle)| middle - slope * t).collect();
        if offsets.is_empty() {
            offsets = points.iter().map(|(_, s, y, _)| y - slope * s).collect();
        }
        let offset = median(&mut offsets).unwrap_or(0.0);
        let mut strayed: Vec<f64> =
            points.iter().map(|(_, s, y, _)| (y - offset - slope * s).abs()).collect();
        let noise = 4.0 * median(&mut strayed).unwrap_or(0.0) / lasts;
        if middles.len() < 2 || noise > UNKNOWN_RATE {
            let mut offsets: Vec<f64> = points.iter().map(|(_, _, y, _)| *y).collect();
            let offset = median(&mut offsets).unwrap_or(0.0);
            return Fit { offset, slope: 0.0, slope_range: RATES_APART, counts };
        }
        Fit { offset, slope, slope_range: slope.abs() + noise, counts }
    }
}
