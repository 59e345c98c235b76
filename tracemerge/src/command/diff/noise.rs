//! The noise of a median: how far another median would be from it if other measurements of the same kind had been made.
//!
//! The noise is a 95 % confidence interval of the median, of a kind that needs no assumption about the distribution of
//! the measurements: its ends are two of the sorted measurements, whose ranks depend only on the number of
//! measurements. The source is J.-Y. Le Boudec, *Performance Evaluation of Computer and Communication Systems* (EPFL
//! Press, 2010), theorem 2.1 and table A.1: exact ranks by the binomial distribution for up to 70 measurements, and its
//! normal approximation for more. The measurements should not depend on each other. Those of one run often do, so
//! differences between runs may be larger than this noise.

use crate::view::latency::Latencies;

/// The greatest number of measurements for which the ranks are exact.
const MAX_EXACT: u64 = 70;
/// The probability that the true median is beyond one given end of the confidence interval.
const TAIL: f64 = 0.025;
/// Half of the quantile of the normal distribution that belongs to the probability [`TAIL`].
const HALF_QUANTILE: f64 = 0.980;

/// A median, with its noise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Median {
    /// The median.
    pub median: u64,
    /// The 95 % confidence interval of the median, its *noise*; `None` if there are fewer than six measurements.
    pub noise: Option<(u64, u64)>,
}

/// The change from a median to another one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Change {
    /// The difference of the two medians, in per cent of the first median.
    pub percent: f64,
    /// Whether the difference is larger than the noise of both medians: their confidence intervals do not overlap.
    /// `None` if one of the intervals is unknown.
    pub is_significant: Option<bool>,
}

impl Median {
    /// Returns the median of measurements, with an error of up to 1 %, and its noise; `None` if there are no
    /// measurements.
    pub(super) fn of(times: &Latencies) -> Option<Median> {
        let median = times.percentile(50)?;
        let noise = ranks(times.count()).and_then(|(low, high)| {
            let (low, high) = (times.of_rank(low.into())?, times.of_rank(high.into())?);
            Some((*low.start(), (*high.end()).min(times.most()?)))
        });
        Some(Median { median, noise })
    }

    /// Returns the median and its noise in another unit, to which `convert` converts; `None` if the median cannot be
    /// converted.
    pub(super) fn converted(self, convert: impl Fn(u64) -> Option<u64>) -> Option<Median> {
        let noise = self.noise.and_then(|(low, high)| convert(low).zip(convert(high)));
        Some(Median { median: convert(self.median)?, noise })
    }

    /// Returns the greater distance between the median and an end of its confidence interval, in per cent of the
    /// median.
    pub(super) fn noise_percent(&self) -> Option<f64> {
        let (low, high) = self.noise?;
        let distance = self.median.saturating_sub(low).max(high.saturating_sub(self.median));
        Some(float(distance) / float(self.median.max(1)) * 100.0)
    }

    /// Returns the change from this median to a `later` one. A median of 0 counts as 1.
    pub(super) fn change_to(&self, later: &Median) -> Change {
        let (from, to) = (float(self.median.max(1)), float(later.median.max(1)));
        let noise = self.noise.zip(later.noise);
        Change {
            percent: (to / from - 1.0) * 100.0,
            is_significant: noise.map(|(a, b)| a.1 < b.0 || b.1 < a.0),
        }
    }
}

impl Change {
    /// Returns the size of the change, a number that grows with the ratio of the medians. An increase by a factor and a
    /// decrease by the same factor have the same size.
    pub(super) fn size(&self) -> f64 {
        (1.0 + self.percent / 100.0).ln().abs()
    }
}

/// Returns the ranks, from 1, of the two measurements that bound the 95 % confidence interval of the median, among
/// `count` measurements in ascending order; `None` if there are too few measurements.
fn ranks(count: u64) -> Option<(u64, u64)> {
    if count > MAX_EXACT {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 27 and `count`")]
        let low = (float(count) / 2.0 - HALF_QUANTILE * float(count).sqrt()).floor() as u64;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 27 and `count`")]
        let high = (float(count) / 2.0 + 1.0 + HALF_QUANTILE * float(count).sqrt()).ceil() as u64;
        return Some((low, high));
    }
    // Each measurement is below the median with a probability of one half, so their number is that of heads in `count`
    // tosses of a coin: the probability of exactly `below` of them, and of at most so many.
    let (mut exactly, mut at_most, mut below) = (0.5_f64.powi(i32::try_from(count).ok()?), 0.0, 0);
    while below < count && at_most + exactly <= TAIL {
        at_most += exactly;
        exactly *= float(count - below) / float(below + 1);
        below += 1;
    }
    (below > 0).then(|| (below, count + 1 - below))
}

#[expect(clippy::cast_precision_loss, reason = "an estimate")]
fn float(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ranks_are_those_of_the_table_in_the_book() {
        let expected = [
            (0, None),
            (1, None),
            (5, None),
            (6, Some((1, 6))),
            (8, Some((1, 8))),
            (9, Some((2, 8))),
            (10, Some((2, 9))),
            (20, Some((6, 15))),
            (50, Some((18, 33))),
            (70, Some((27, 44))),
            (71, Some((27, 45))),
            (1_000, Some((469, 532))),
            (10_000, Some((4_902, 5_099))),
        ];
        for (count, expected) in expected {
            assert_eq!(ranks(count), expected, "{count}");
        }
    }

    fn median(times: impl IntoIterator<Item = u64>) -> Median {
        let mut latencies = Latencies::default();
        times.into_iter().for_each(|time| latencies.push(time));
        Median::of(&latencies).unwrap()
    }

    #[test]
    fn the_noise_is_between_two_of_the_sorted_times() {
        // Numbers below 256 are exact. The second and the ninth of ten are 20 and 90.
        let of_ten = median((1..=10).map(|n| 10 * n));
        assert_eq!(of_ten, Median { median: 50, noise: Some((20, 90)) });
        assert_eq!(of_ten.noise_percent(), Some(80.0));
        assert_eq!(median([7, 9, 8]), Median { median: 8, noise: None });
        assert_eq!(Median::of(&Latencies::default()), None);
        // The class of 1,000 is that of 1,000 to 1,003; no time is greater than 1,001.
        assert_eq!(median([1_000, 1_001].repeat(5)), Median { median: 1_000, noise: Some((1_000, 1_001)) });
    }

    #[test]
    fn a_change_is_significant_if_the_intervals_are_apart() {
        let of = |median, low, high| Median { median, noise: Some((low, high)) };
        let (a, b) = (of(100, 90, 110), of(150, 111, 160));
        assert_eq!(a.change_to(&b), Change { percent: 50.0, is_significant: Some(true) });
        assert_eq!(b.change_to(&a).is_significant, Some(true));
        assert!((a.change_to(&b).size() - b.change_to(&a).size()).abs() < 1e-9);
        assert_eq!(a.change_to(&of(150, 110, 160)).is_significant, Some(false));
        assert_eq!(a.change_to(&Median { median: 150, noise: None }).is_significant, None);
        assert_eq!(of(0, 0, 0).change_to(&of(3, 3, 3)).percent, 200.0);
    }
}
