//! The clocks while they are aligned, and the points of each pair of clocks.

use std::collections::BTreeMap;

use super::Message;
use super::filter::{Direction, median};

/// The greatest number of periods of time into which the points of a pair are divided to fit a line through them.
const WINDOWS: usize = 40;
/// The error of a measured rate between two clocks, in nanoseconds per second, above which the rate counts as unknown.
const UNKNOWN_RATE: f64 = 100_000.0;
/// The assumed greatest drift between two clocks whose rates are unknown, in nanoseconds per second.
pub(super) const RATES_APART: f64 = 210_000.0;

/// An epoch of a clock: the readings between two successive steps of the clock. An epoch is aligned like a clock of its
/// own.
#[derive(Clone, Copy, Debug)]
pub(super) struct Epoch {
    /// The number of the epoch's clock; `None` for the true time, which all machines' wall clocks approach.
    pub clock: Option<u32>,
    /// The first reading of the epoch.
    pub from: i64,
    /// A reading of the clock, at which the epoch's nominal time is `shift`.
    pub origin: i64,
    /// The nominal time at the reading `origin`, in nanoseconds.
    pub shift: f64,
    /// The speed of nominal time: its nanoseconds per nanosecond of the clock.
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

/// All messages. The numbers of clocks in them are replaced by the indexes of epochs.
#[derive(Debug)]
pub(super) struct Messages {
    pub all: Vec<Message>,
    /// For each message, whether it was sent or received so near a step of a clock that its epoch is not certain.
    pub is_at_step: Vec<bool>,
}

impl Messages {
    /// Returns each pair of epochs (periods of a clock without a step) between which messages were sent, with these
    /// messages. The pairs are sorted by the indexes of their epochs.
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

    /// Returns the two readings of a message: the one by the clock of the epoch `a`, and the one by the clock of the
    /// other epoch.
    #[inline]
    pub(super) fn readings(&self, id: u32, a: u32) -> (i64, i64) {
        let message = &self.all[id as usize];
        if message.from == a { (message.sent, message.received) } else { (message.received, message.sent) }
    }

    /// Returns the direction of a message: `Forth` if the epoch `a` has sent it, `Back` if the other epoch has.
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
    /// The offset on the fitted line at the time 0, in nanoseconds.
    pub offset: f64,
    /// The speed at which the offset changes, in nanoseconds per second: the slope of the fitted line.
    pub slope: f64,
    /// The greatest speed, in nanoseconds per second, at which the offset may change where there are no points. The
    /// assumed change of rates comes on top.
    pub slope_range: f64,
    /// The number of points that come from messages in each direction.
    pub counts: [usize; 2],
}

impl Fit {
    /// Fits the line: divides the points into windows of time, and takes the middle of the medians of each window. The
    /// slope is the median of the slopes between all pairs of windows.
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
