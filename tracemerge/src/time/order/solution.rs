//! The result of the alignment: a time for each reading of each clock, and the limits within which the true time is.

use std::collections::BTreeMap;

/// The judgement about a message that was matched from the line of its sender and the line of its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The message is trusted: it is received after it was sent.
    Kept,
    /// The message claims far less delay than all others in its direction, so it is not trusted to limit anything. But
    /// no other message contradicts it.
    Unsupported,
    /// The message contradicts other messages, so its two lines were matched wrongly.
    Wrong,
    /// The message was sent or received so near a step of a clock that it limits nothing.
    AtStep,
}

/// A jump of a clock that messages show.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Step {
    /// The number of the clock that jumped.
    pub clock: u32,
    /// The readings between which the clock jumped.
    pub between: (i64, i64),
    /// The size of the jump, in nanoseconds: negative if the clock went back.
    pub ns: i64,
    /// The number of pairs of clocks that show the jump.
    pub pairs: usize,
}

/// A knot: a reading of a clock with its time, both in nanoseconds. Between two knots the time is linear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Knot {
    /// The reading of the clock.
    pub reading: i64,
    /// The reading of the first of all clocks at the moment at which this clock shows `reading`.
    pub time: i64,
    /// The earliest and the latest time that the messages allow; `i64::MIN` or `i64::MAX` on a side that they do not
    /// limit.
    pub limits: (i64, i64),
}

/// The times of all clocks on one scale, with the limits of their errors.
#[derive(Clone, Debug, Default)]
pub(crate) struct Order {
    /// The knots of each clock, in the order of readings. Their times ascend.
    pub knots: Vec<Vec<Knot>>,
    /// The judgement about each message, in the order of the messages.
    pub verdicts: Vec<Verdict>,
    /// The jumps of clocks that were found.
    pub steps: Vec<Step>,
    /// For each pair of clocks, the number of messages that contradict other messages. Pairs without such messages are
    /// left out.
    pub contradictory: BTreeMap<(u32, u32), u64>,
    /// For each clock, the number of readings of its machine's wall clock that contradict messages or other wall
    /// clocks. Clocks without such readings are left out.
    pub contradictory_walls: BTreeMap<u32, u64>,
    /// For each clock, whether it is placed by an assumption, at least in part, because messages do not limit it on
    /// both sides.
    pub assumed: Vec<bool>,
    /// The greatest possible distance, in nanoseconds, between a limit and the straight line between the limits at two
    /// neighbouring knots.
    pub curve_ns: i64,
}

impl Order {
    /// Returns the time at a clock's reading, in nanoseconds of the first clock.
    #[must_use]
    pub(crate) fn time(&self, clock: u32, reading: i64) -> i64 {
        let (from, to) = self.around(clock, reading);
        let along = i128::from(reading) - i128::from(from.reading);
        let time = between(from, to, along, |knot| knot.time);
        i64::try_from(time).unwrap_or(if time < 0 { i64::MIN } else { i64::MAX })
    }

    /// Returns the earliest and the latest time that the messages allow for a clock's reading.
    #[must_use]
    pub(crate) fn limits(&self, clock: u32, reading: i64) -> (i64, i64) {
        let (from, to) = self.around(clock, reading);
        let along = i128::from(reading) - i128::from(from.reading);
        let limit = |of: fn(&Knot) -> i64, unlimited: i64| {
            if of(&from) == unlimited || of(&to) == unlimited {
                return unlimited;
            }
            i64::try_from(between(from, to, along, of)).unwrap_or(unlimited)
        };
        let (earliest, latest) =
            (limit(|knot| knot.limits.0, i64::MIN), limit(|knot| knot.limits.1, i64::MAX));
        let curve = self.curve_ns;
        (
            if earliest == i64::MIN { earliest } else { earliest.saturating_sub(curve) },
            if latest == i64::MAX { latest } else { latest.saturating_add(curve) },
        )
    }

    /// Returns the largest possible error, in nanoseconds, of the time at each of a clock's knots, in ascending order.
    /// Knots that are not limited on both sides are left out.
    #[must_use]
    pub(crate) fn errors(&self, clock: u32) -> Vec<u64> {
        let knots = self.knots.get(clock as usize).map_or(&[][..], |knots| knots);
        let error = |knot: &Knot| largest_error(knot.time, self.limits(clock, knot.reading));
        let mut errors: Vec<u64> = knots.iter().filter_map(error).collect();
        errors.sort_unstable();
        errors
    }

    /// Returns the earliest and the latest time that the messages allow for the reading of a clock at which the time is
    /// `time`.
    #[must_use]
    pub(crate) fn limits_at(&self, clock: u32, time: i64) -> (i64, i64) {
        self.limits(clock, self.reading_at(clock, time))
    }

    /// Returns the reading of a clock that [`Order::time`] converts to `time`, except for rounding.
    fn reading_at(&self, clock: u32, time: i64) -> i64 {
        let Some(knots) = self.knots.get(clock as usize).filter(|knots| !knots.is_empty()) else {
            return time;
        };
        let behind = knots.partition_point(|knot| knot.time <= time);
        let from = behind.saturating_sub(1).min(knots.len().saturating_sub(2));
        let (from, to) = (knots[from], knots[(from + 1).min(knots.len() - 1)]);
        let turned = |knot: Knot| Knot { reading: knot.time, time: knot.reading, ..knot };
        let along = i128::from(time) - i128::from(from.time);
        let reading = between(turned(from), turned(to), along, |knot| knot.time);
        i64::try_from(reading).unwrap_or(if reading < 0 { i64::MIN } else { i64::MAX })
    }

    /// Returns the two knots between which a clock's reading lies or, outside of all knots, the two nearest ones.
    fn around(&self, clock: u32, reading: i64) -> (Knot, Knot) {
        let same = Knot { reading, time: reading, limits: (i64::MIN, i64::MAX) };
        let Some(knots) = self.knots.get(clock as usize).filter(|knots| !knots.is_empty()) else {
            return (same, same);
        };
        let behind = knots.partition_point(|knot| knot.reading <= reading);
        let from = behind.saturating_sub(1).min(knots.len().saturating_sub(2));
        (knots[from], knots[(from + 1).min(knots.len() - 1)])
    }
}

/// Returns the distance of a time from the farther of its two limits; `None` if the time is not limited on both sides.
pub(crate) fn largest_error(time: i64, (earliest, latest): (i64, i64)) -> Option<u64> {
    let is_limited = earliest != i64::MIN && latest != i64::MAX;
    is_limited.then(|| latest.abs_diff(time).max(time.abs_diff(earliest)))
}

/// Interpolates between two knots: returns the value of `of` at the reading `along` nanoseconds after that of `from`,
/// rounded down. Continues the straight line outside of the two knots.
fn between(from: Knot, to: Knot, along: i128, of: impl Fn(&Knot) -> i64) -> i128 {
    let (start, end) = (i128::from(of(&from)), i128::from(of(&to)));
    let length = i128::from(to.reading) - i128::from(from.reading);
    if length <= 0 {
        return start + along;
    }
    start + ((end - start) * along).div_euclid(length)
}
