//! A scale: the piecewise linear function through points that states the nanoseconds of some clock at each value of a
//! counter, exact to a nanosecond.

use trace_format::line::Ticks;

/// A point of a scale: the counter's ticks, and the clock's nanoseconds at these ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Point {
    pub ticks: u64,
    pub ns: u64,
}

/// The rate of a counter: a number of ticks in a number of nanoseconds, neither of which is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rate {
    pub ticks: u64,
    pub ns: u64,
    /// The integral part of the nanoseconds per tick.
    whole: u64,
    /// The fractional part of the nanoseconds per tick, times two to the power of 64, rounded down. The exact
    /// fractional part is `left / ticks`.
    part: u64,
    left: u64,
}

/// The rate of a counter whose rate is not known: one tick per nanosecond.
pub(super) const NOMINAL: Rate = Rate { ticks: 1, ns: 1, whole: 1, part: 0, left: 0 };

impl Rate {
    /// Returns the rate between two points, of which `to` is later by both clocks.
    pub(super) fn between(from: Point, to: Point) -> Rate {
        Rate::of(to.ticks - from.ticks, to.ns - from.ns)
    }

    /// Returns the rate of `ticks` ticks in `ns` nanoseconds, neither of which is zero.
    pub(super) fn of(ticks: u64, ns: u64) -> Rate {
        let part = (u128::from(ns % ticks) << 64) / u128::from(ticks);
        // The rest is less than a nanosecond, so this is less than two to the power of 64.
        Rate { ticks, ns, whole: ns / ticks, part: u64::try_from(part).unwrap_or(u64::MAX), left: ns % ticks }
    }

    /// Returns `value * numerator / denominator`, rounded up if `up` is true and down otherwise, at most `u64::MAX`.
    /// The intermediate product does not overflow.
    pub(super) fn scale(value: u64, numerator: u64, denominator: u64, up: bool) -> u64 {
        let (product, denominator) = (u128::from(value) * u128::from(numerator), u128::from(denominator));
        let quotient = if up { product.div_ceil(denominator) } else { product / denominator };
        u64::try_from(quotient).unwrap_or(u64::MAX)
    }

    /// Returns the number of nanoseconds that `ticks` ticks take, rounded down, at most `u64::MAX`. The result equals
    /// that of [`Rate::scale`], but is computed by two multiplications and a correction in place of a division; see
    /// Granlund and Montgomery, "Division by invariant integers using multiplication" (1994).
    #[inline]
    pub(super) fn nanoseconds(self, ticks: u64) -> u64 {
        let rest = ((u128::from(ticks) * u128::from(self.part)) >> 64) as u64;
        // `part` is too small by less than one, and so is `rest`: the true value is `rest` or one more. So the
        // remainder is less than twice the divisor, and has its true value even if both products overflow.
        let remainder = ticks.wrapping_mul(self.left).wrapping_sub(rest.wrapping_mul(self.ticks));
        let is_short = if self.ticks <= u64::MAX / 2 {
            remainder >= self.ticks
        } else {
            let product = u128::from(ticks) * u128::from(self.left);
            product - u128::from(rest) * u128::from(self.ticks) >= u128::from(self.ticks)
        };
        if self.whole == 0 {
            // The rest of a tick is less than a nanosecond.
            return rest + u64::from(is_short);
        }
        let all = u128::from(ticks) * u128::from(self.whole) + u128::from(rest) + u128::from(is_short);
        u64::try_from(all).unwrap_or(u64::MAX)
    }

    /// Returns the time at `ticks` in nanoseconds, rounded down, on the straight line through the point `from` that has
    /// this rate.
    #[inline]
    pub(super) fn at(self, from: Point, ticks: u64) -> u64 {
        match ticks.checked_sub(from.ticks) {
            Some(after) => from.ns.saturating_add(self.nanoseconds(after)),
            None => from.ns.saturating_sub(Rate::scale(from.ticks - ticks, self.ns, self.ticks, true)),
        }
    }

    /// Returns the first ticks at which the time is `ns` or more, on the straight line through the point `from` that
    /// has this rate.
    fn ticks(self, from: Point, ns: u64) -> u64 {
        match ns.checked_sub(from.ns) {
            Some(after) => from.ticks.saturating_add(Rate::scale(after, self.ticks, self.ns, true)),
            None => from.ticks.saturating_sub(Rate::scale(from.ns - ns, self.ticks, self.ns, false)),
        }
    }
}

/// A piecewise linear function: the straight lines between neighbouring points. Before the first point and after the
/// last point, time runs at the average rate.
#[derive(Clone, Debug)]
pub(super) struct Scale {
    /// The points, at least one; ticks and nanoseconds ascend.
    points: Vec<Point>,
    /// The rates between neighbouring points.
    rates: Vec<Rate>,
    /// The average rate, which holds outside of the points.
    pub rate: Rate,
}

impl Scale {
    /// Makes the scale through `points`, of which there is at least one, with ascending ticks and nanoseconds. Outside
    /// of the points, time runs at `rate`.
    pub(super) fn through(points: Vec<Point>, rate: Rate) -> Scale {
        let rates = points.windows(2).map(|two| Rate::between(two[0], two[1])).collect();
        Scale { points, rates, rate }
    }

    /// Returns the time at `ticks` in nanoseconds, rounded down.
    pub(super) fn at(&self, ticks: Ticks) -> u64 {
        let (from, rate) = self.segment(self.behind(ticks.0));
        rate.at(from, ticks.0)
    }

    /// Returns the first ticks at which the time is `ns` or more.
    pub(super) fn ticks(&self, ns: u64) -> Ticks {
        // No time is before 0, not even at ticks for which the rate would give such a time.
        if ns == 0 {
            return Ticks(0);
        }
        let (from, rate) = self.segment(self.points.partition_point(|point| point.ns < ns));
        Ticks(rate.ticks(from, ns))
    }

    /// Returns the number of ticks that `ns` nanoseconds take at least, wherever on the scale they are.
    pub(super) fn fewest_ticks(&self, ns: u64) -> u64 {
        let rates = self.rates.iter().chain([&self.rate]);
        rates.map(|rate| Rate::scale(ns, rate.ticks, rate.ns, false)).min().unwrap_or(0)
    }

    /// Returns the straight line of the scale that holds at `ticks`: a point on the line, its rate, and the range of
    /// ticks for which it holds.
    pub(super) fn line(&self, ticks: u64) -> (Point, Rate, std::ops::Range<u64>) {
        let behind = self.behind(ticks);
        let start = behind.checked_sub(1).map_or(0, |before| self.points[before].ticks);
        let end = self.points.get(behind).map_or(u64::MAX, |point| point.ticks);
        let (from, rate) = self.segment(behind);
        (from, rate, start..end)
    }

    /// Returns the straight lines of the scale, in order. Each has the first ticks and the first nanosecond for which
    /// it holds, a point on it, and its rate.
    pub(super) fn lines(&self) -> impl Iterator<Item = (u64, u64, Point, Rate)> {
        (0..=self.points.len()).map(|behind| {
            let before = behind.checked_sub(1).map(|before| self.points[before]);
            let (from, rate) = self.segment(behind);
            let holds = before.map_or((0, 0), |before| (before.ticks, before.ns.saturating_add(1)));
            (holds.0, holds.1, from, rate)
        })
    }

    /// Returns the largest error, in nanoseconds, that the scale would have at one of its points if that point were
    /// left out.
    pub(super) fn largest_error(&self) -> u64 {
        let between = self.points.windows(3).map(|three| {
            Rate::between(three[0], three[2]).at(three[0], three[1].ticks).abs_diff(three[1].ns)
        });
        between.max().unwrap_or(0)
    }

    /// Returns the number of points at or before `ticks`.
    fn behind(&self, ticks: u64) -> usize {
        self.points.partition_point(|point| point.ticks <= ticks)
    }

    /// Returns the line of the scale that begins behind the first `behind` points: a point on the line, and its rate.
    fn segment(&self, behind: usize) -> (Point, Rate) {
        let at = behind.saturating_sub(1);
        let rate = if behind == 0 { None } else { self.rates.get(at) };
        (self.points[at.min(self.points.len() - 1)], rate.copied().unwrap_or(self.rate))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn nanoseconds_equal_the_result_of_a_division(ticks in 1..=u64::MAX, ns in 1..=u64::MAX, value: u64, shift in 0..64u32) {
            let (ticks, value) = ((ticks >> shift).max(1), value >> (shift / 2));
            for ns in [ns, (ns >> shift).max(1), ticks, ticks - 1 + u64::from(ticks == 1)] {
                prop_assert_eq!(Rate::of(ticks, ns).nanoseconds(value), Rate::scale(value, ns, ticks, false));
            }
        }
    }
}
