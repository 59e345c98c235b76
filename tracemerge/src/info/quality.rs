//! What a run's ticks are worth in time, and how well that is known: from the moments that its files have by both clocks.

use trace_format::meta::{ClockKind, Run};
use trace_format::wall::Wall;

use super::report::ClockReport;

/// What the system's clock counts.
const NS_PER_SECOND: f64 = 1e9;

/// A run's clock.
pub struct Clock {
    kind: Option<ClockKind>,
    /// Ticks and wall clock, by ticks; each moment once.
    moments: Vec<(u64, u64)>,
}

impl Clock {
    /// Of the moments that the run's files tell.
    pub fn of<'a>(run: Option<&Run>, told: impl Iterator<Item = &'a (u64, Wall)>) -> Clock {
        let mut moments: Vec<(u64, u64)> = told.map(|(ticks, wall)| (*ticks, wall.0)).collect();
        moments.sort_unstable();
        moments.dedup_by_key(|(ticks, _)| *ticks);
        Clock { kind: run.map(|run| run.clock), moments }
    }

    /// Nanoseconds by the wall clock for each tick.
    fn ns_per_tick(&self) -> Option<f64> {
        match (self.kind, &self.moments[..]) {
            (Some(ClockKind::System), _) => Some(1.0),
            (_, [first, .., last]) => rate(*first, *last),
            _ => None,
        }
    }

    /// How long it is from the one to the other; negative where `to` is earlier.
    pub fn ns_between(&self, from: u64, to: u64) -> Option<i64> {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_precision_loss,
            reason = "a trace spans no centuries"
        )]
        self.ns_per_tick().map(|rate| (to.wrapping_sub(from) as i64 as f64 * rate).round() as i64)
    }

    /// The wall clock at `ticks`: on the line between the moments on both sides, or from the nearest one on.
    pub fn wall(&self, ticks: u64) -> Option<u64> {
        let after = self.moments.partition_point(|(known, _)| *known <= ticks);
        let (known, wall) = *self.moments.get(after.saturating_sub(1))?;
        let between = || rate(*self.moments.get(after.checked_sub(1)?)?, *self.moments.get(after)?);
        let rate = between().or_else(|| self.ns_per_tick());
        if known == ticks {
            return Some(wall);
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_precision_loss,
            reason = "a trace spans no centuries"
        )]
        let distance = (ticks.wrapping_sub(known) as i64 as f64 * rate?).round() as i64;
        wall.checked_add_signed(distance)
    }

    /// What is known of it.
    pub fn report(&self) -> ClockReport {
        let rate_of = |pair: Option<&[(u64, u64)]>| pair.and_then(|pair| rate(pair[0], pair[1]));
        let several = self.moments.len() > 2;
        let first = rate_of(self.moments.windows(2).next());
        let last = rate_of(self.moments.windows(2).last());
        // A faster counter needs less time for a tick.
        let drift = first.zip(last).map(|(first, last)| (first / last - 1.0) * 1e6);
        ClockReport {
            kind: self.kind.map(ClockKind::name),
            ticks_per_second: self.ns_per_tick().map(|ns| NS_PER_SECOND / ns),
            readings: self.moments.len() as u64,
            drift_ppm: drift.filter(|_| several),
            uncertainty_ns: self.uncertainty(),
        }
    }

    fn uncertainty(&self) -> Option<u64> {
        let [(ticks, wall), .., last] = self.moments[..] else { return None };
        let rate = rate((ticks, wall), last)?;
        #[expect(clippy::cast_precision_loss, reason = "a trace spans no centuries")]
        let off = |moment: &(u64, u64)| {
            let expected = (moment.0 - ticks) as f64 * rate;
            (moment.1 as i64 - wall as i64) as f64 - expected
        };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is a distance")]
        let most = self.moments.iter().map(|moment| off(moment).abs()).fold(0.0, f64::max).ceil() as u64;
        Some(most)
    }
}

/// Nanoseconds for each tick between two moments; `None` where the wall clock did not go on.
fn rate((ticks, wall): (u64, u64), (later, later_wall): (u64, u64)) -> Option<f64> {
    #[expect(clippy::cast_precision_loss, reason = "a trace spans no centuries")]
    let rate = later_wall.checked_sub(wall)? as f64 / later.checked_sub(ticks)? as f64;
    (rate.is_finite() && rate > 0.0).then_some(rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(moments: &[(u64, u64)]) -> Clock {
        let moments: Vec<_> = moments.iter().map(|(ticks, wall)| (*ticks, Wall(*wall))).collect();
        Clock::of(None, moments.iter())
    }

    #[test]
    fn a_moment_between_two_lies_on_the_line_between_them() {
        let clock = clock(&[(3000, 2000), (1000, 1000), (3000, 2000), (4000, 2600)]);
        assert_eq!(
            [1000, 2000, 3500, 5000].map(|ticks| clock.wall(ticks)),
            [1000, 1500, 2300, 3133].map(Some)
        );
        assert_eq!(clock.wall(0), Some(467), "before the first, with the speed of all");
        assert_eq!(clock.ns_between(4000, 1000), Some(-1600));
    }

    #[test]
    fn quality_is_told_by_how_far_moments_are_from_a_constant_speed() {
        let report = clock(&[(0, 0), (1_000_000, 1_000_000), (2_000_000, 2_000_010)]).report();
        assert_eq!((report.readings, report.uncertainty_ns), (3, Some(5)));
        let drift = report.drift_ppm.unwrap();
        assert!((drift + 10.0).abs() < 0.01, "{drift}");
        let one = clock(&[(5, 7)]).report();
        assert_eq!((one.readings, one.ticks_per_second, one.uncertainty_ns), (1, None, None));
        assert_eq!(clock(&[(5, 7)]).wall(5), Some(7));
        assert_eq!(clock(&[(5, 7)]).wall(6), None, "what a tick is worth is not known");
    }
}
