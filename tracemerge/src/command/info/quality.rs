//! The quality of a run's clock: how exactly its ticks convert to times.

use trace_format::line::Ticks;
use trace_format::meta::Run;

use crate::command::info::model::{ClockInfo, StepInfo};
use crate::time::anchor::Anchor;
use crate::time::clocks::TickClock;
use crate::time::steps::ClockStep;

/// A run's clock, and the readings from which it was made.
pub(super) struct ClockQuality<'a> {
    run: Option<&'a Run>,
    /// The readings of ticks and wall clock in the files, sorted by ticks, without duplicates.
    anchors: Vec<Anchor>,
    clock: Option<TickClock>,
}

impl<'a> ClockQuality<'a> {
    /// Makes the clock of `run` from `clock_readings`, the readings of the clocks in its files.
    pub(super) fn of(run: Option<&'a Run>, clock_readings: impl Iterator<Item = Anchor>) -> ClockQuality<'a> {
        let mut anchors: Vec<Anchor> = clock_readings.collect();
        anchors.sort_unstable();
        anchors.dedup_by_key(|anchor| anchor.ticks);
        let clock = run.map(|run| TickClock::of_run(run, anchors.iter().copied()));
        ClockQuality { run, anchors, clock: clock.filter(TickClock::rate_is_known) }
    }

    /// Returns the time of the wall clock at these ticks, in nanoseconds since 1970; `None` if the clock's rate is not
    /// known.
    pub(super) fn wall(&self, ticks: u64) -> Option<u64> {
        self.clock.as_ref().map(|clock| clock.wall(Ticks(ticks)).0)
    }

    /// Returns the time at these ticks, in nanoseconds of steady time since the run began, which is negative for
    /// earlier ticks; `None` if the clock's rate is not known.
    pub(super) fn since_start(&self, ticks: u64) -> Option<i64> {
        let (clock, run) = (self.clock.as_ref()?, self.run?);
        let (start, time) = (clock.steady(run.ticks), clock.steady(Ticks(ticks)));
        let distance = i64::try_from(time.abs_diff(start)).ok()?;
        Some(if time >= start { distance } else { -distance })
    }

    /// Returns the steps of the wall clock, at which it was set or the machine was suspended.
    pub(super) fn steps(&self) -> &[ClockStep] {
        self.clock.as_ref().map_or(&[], TickClock::steps)
    }

    /// Returns the quality of the clock.
    pub(super) fn clock(&self) -> ClockInfo {
        // Between two readings the wall clock may have been set.
        let is_step = |pair: &&[Anchor]| {
            self.steps().iter().any(|step| pair[0].ticks < step.between.1 && step.between.0 < pair[1].ticks)
        };
        let rates = || self.anchors.windows(2).filter(|pair| !is_step(pair));
        let first = rates().next().and_then(|pair| rate(pair[0], pair[1]));
        let last = rates().next_back().and_then(|pair| rate(pair[0], pair[1]));
        let several = self.anchors.len() > 2;
        ClockInfo {
            kind: self.run.map(|run| run.clock.name()),
            ticks_per_second: self.clock.as_ref().map(TickClock::exact_ticks_per_second),
            readings: self.anchors.len() as u64,
            drift_ppm: first.zip(last).map(|(first, last)| (last / first - 1.0) * 1e6).filter(|_| several),
            uncertainty_ns: self.clock.as_ref().filter(|_| several).map(TickClock::uncertainty_ns),
            steps: self.steps().iter().map(StepInfo::of).collect(),
        }
    }
}

/// Returns the number of ticks in a second between two readings; `None` if the wall clock did not advance.
fn rate(from: Anchor, to: Anchor) -> Option<f64> {
    let ns = to.wall.0.checked_sub(from.wall.0).filter(|ns| *ns > 0)?;
    #[expect(clippy::cast_precision_loss, reason = "rates are shown with a few digits")]
    let rate = to.ticks.0.checked_sub(from.ticks.0)? as f64 / ns as f64;
    Some(rate * 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace_format::meta::ClockKind;
    use trace_format::wall::Wall;

    fn anchor(ticks: u64, wall: u64) -> Anchor {
        Anchor::new(Ticks(ticks), Wall(wall))
    }

    fn run(clock: ClockKind) -> Run {
        let (exe, boot) = (Vec::new(), b"another".to_vec());
        Run { version: 1, id: 1, root: 1, pid: 1, exe, boot, ticks: Ticks(1000), wall: Wall(1000), clock }
    }

    const S: u64 = 1_000_000_000;

    #[test]
    fn drift_compares_the_last_interval_with_the_first() {
        let run = run(ClockKind::Ordered);
        let anchors =
            [(0, 0), (10 * S, 10 * S), (20 * S + 100_000, 20 * S), (0, 0)].map(|(t, w)| anchor(t, w));
        let clock = ClockQuality::of(Some(&run), anchors.into_iter()).clock();
        assert_eq!((clock.readings, clock.kind), (3, Some("ordered")));
        let drift = clock.drift_ppm.unwrap();
        assert!((drift - 10.0).abs() < 1e-6, "{drift}");
        assert!(clock.uncertainty_ns.unwrap().abs_diff(50_000) < 10);
    }

    #[test]
    fn one_clock_reading_gives_no_rate_unless_ticks_are_nanoseconds() {
        let (counter, system) = (run(ClockKind::Fast), run(ClockKind::System));
        let known = ClockQuality::of(Some(&counter), [anchor(1000, 1000)].into_iter());
        assert_eq!((known.wall(1000), known.clock().ticks_per_second), (None, None));
        let known = ClockQuality::of(Some(&system), [anchor(1000, 1000)].into_iter());
        assert_eq!((known.wall(3000), known.since_start(400)), (Some(3000), Some(-600)));
        assert_eq!(known.clock().ticks_per_second, Some(1e9));
    }
}
