//! The clocks of followed runs, which convert ticks to times. They become more exact as further readings of the clocks
//! arrive.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::SystemTime;

use jiff::tz::TimeZone;
use trace_format::line::Ticks;
use trace_format::meta::{ClockKind, Run};
use trace_format::wall::Wall;
use trace_store::inspect::read_clocks;

use crate::time::anchor::Anchor;
use crate::time::clocks::{TickClock, wall_clock};
use crate::time::point_of_time::{Period, When};

/// The least time between two readings from traces that are both kept, in nanoseconds.
const MIN_DISTANCE_NS: u64 = 1_000_000_000;
/// The time after the last kept reading from which on a reading of the present time is kept, too, in nanoseconds.
const KEPT_NS: u64 = 10_000_000_000;
/// The number of readings that are kept, the latest ones: lines that are shown are rarely older.
const READINGS: usize = 64;
/// How far the wall clock must be past the end of following before the end counts as reached, in nanoseconds: the clock
/// may be wrong by this much.
const MAX_CLOCK_ERROR_NS: u64 = 1_000_000;

/// The readings of the clocks of one boot, for the runs whose ticks come from the same clock.
struct BootReadings {
    run: Run,
    first: Anchor,
    last: VecDeque<Anchor>,
    clock: Arc<TickClock>,
    /// The first requested ticks, once they are settled: further readings of the clock do not change them any more.
    since: Option<u64>,
}

impl BootReadings {
    fn new(run: &Run) -> BootReadings {
        let first = Anchor::of_run(run);
        let clock = Arc::new(TickClock::of(run.clock, [first]));
        BootReadings { run: run.clone(), first, last: VecDeque::new(), clock, since: None }
    }

    /// Keeps `reading` if it is at least `apart` nanoseconds away from the last kept reading. Drops the oldest readings
    /// if there are too many.
    fn keep(&mut self, reading: Anchor, apart: u64) {
        let last = self.last.back().unwrap_or(&self.first);
        if reading.wall.0.abs_diff(last.wall.0) >= apart {
            self.last.push_back(reading);
            while self.last.len() > READINGS {
                self.last.pop_front();
            }
        }
    }

    fn read(&mut self) {
        // The system's clock has a known rate, and its ticks are not those of the counter.
        let counts = self.run.clock != ClockKind::System;
        let now =
            counts.then(|| read_clocks(&self.run.boot)).flatten().and_then(|clocks| Anchor::of_meta(&clocks));
        if let Some(now) = now {
            self.keep(now, KEPT_NS);
        }
        let readings = [self.first].into_iter().chain(self.last.iter().copied()).chain(now);
        self.clock = Arc::new(TickClock::of(self.run.clock, readings));
    }
}

/// The clocks of all runs that are followed.
#[derive(Default)]
pub(super) struct Times(BTreeMap<(Vec<u8>, bool), BootReadings>);

impl Times {
    /// Adds the reading of the clocks in a `# run` line.
    pub(super) fn learn_run(&mut self, run: &Run) {
        let boot = self.0.entry(key(run)).or_insert_with(|| BootReadings::new(run));
        boot.keep(Anchor::of_run(run), MIN_DISTANCE_NS);
    }

    /// Adds a reading of the clocks from a trace of `run`.
    pub(super) fn learn(&mut self, run: &Run, reading: Anchor) {
        if let Some(boot) = self.0.get_mut(&key(run)) {
            boot.keep(reading, MIN_DISTANCE_NS);
        }
    }

    /// Reads the present time of all clocks.
    pub(super) fn read(&mut self) {
        self.0.values_mut().for_each(BootReadings::read);
    }

    /// Returns the clock of `run` or, if it has none, the clock of any other run.
    pub(super) fn of(&self, run: Option<&Run>) -> Option<&Arc<TickClock>> {
        let own = run.and_then(|run| self.0.get(&key(run)));
        own.or_else(|| self.0.values().next()).map(|boot| &boot.clock)
    }

    /// Returns the ticks from which on the records of `run` are requested: the first ticks that are not before `when`.
    /// `period` contains the lines that existed when following began. Ticks in this period are settled: they do not
    /// change when more readings of the clock arrive.
    pub(super) fn since(&mut self, when: When, run: Option<&Run>, period: Period, zone: &TimeZone) -> u64 {
        let own = run.map(key).filter(|key| self.0.contains_key(key));
        let Some(key) = own.or_else(|| self.0.keys().next().cloned()) else { return 0 };
        let Some(boot) = self.0.get_mut(&key) else { return 0 };
        if let Some(since) = boot.since {
            return since;
        }
        let ticks = when.ticks(&boot.clock, period, zone).unwrap_or_default();
        boot.since = (ticks <= boot.clock.ticks_at_steady(period.steady.1)).then_some(ticks.0);
        ticks.0
    }
}

fn key(run: &Run) -> (Vec<u8>, bool) {
    (run.boot.clone(), run.clock == ClockKind::System)
}

/// The time at which following ends.
#[derive(Clone, Debug)]
pub(super) struct FollowEnd {
    when: When,
    zone: TimeZone,
    /// The time when following began.
    began: Wall,
}

impl FollowEnd {
    /// Returns the end of following that `when` names, for following that began at `began`.
    pub(super) fn new(when: When, zone: TimeZone, began: Wall) -> FollowEnd {
        FollowEnd { when, zone, began }
    }

    /// Returns the ticks of `clock` at the end of following: the first ones that are not before it. `first` is the time
    /// at which the lines of the runs begin.
    pub(super) fn ticks(&self, clock: &TickClock, first: Wall) -> Ticks {
        // The trace has no end yet: a time of day is in the future.
        let steady = (clock.steady(clock.ticks(first)), u64::MAX);
        let period = Period { first, last: Wall(u64::MAX), steady };
        self.when.ticks(clock, period, &self.zone).unwrap_or(Ticks(u64::MAX))
    }

    /// Returns whether the end of following has passed, for runs with this clock. `first` is the time at which the
    /// lines of the runs begin.
    pub(super) fn is_over(&self, clock: &TickClock, first: Wall) -> bool {
        let until = clock.wall(self.ticks(clock, first));
        wall_clock(SystemTime::now()).0 >= until.0.saturating_add(MAX_CLOCK_ERROR_NS)
    }

    /// Returns whether the end of following has passed before any run has begun. Returns false if the end depends on
    /// the runs, so that it is not known yet.
    pub(super) fn is_over_before_start(&self) -> bool {
        matches!(self.when, When::Instant(_) | When::Local(_) | When::OfDay(..))
            && self.is_over(&wall_as_ticks(), self.began)
    }
}

/// Returns a clock whose ticks are nanoseconds since 1970.
pub(super) fn wall_as_ticks() -> TickClock {
    TickClock::of(ClockKind::System, [Anchor::new(Ticks(0), Wall(0))])
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;
    /// The nanoseconds of 2026-11-20, 15:11:02 UTC.
    const BEGAN: Wall = Wall(1_795_187_462 * S);

    /// Returns a run whose ticks are nanoseconds since it began.
    fn run(boot: &str) -> Run {
        let (exe, boot) = (b"/app".to_vec(), boot.as_bytes().to_vec());
        let (ticks, wall, clock) = (Ticks(0), BEGAN, ClockKind::Ordered);
        Run { version: 1, id: 1, root: 1, pid: 1, exe, boot, ticks, wall, clock }
    }

    #[test]
    fn new_clock_readings_do_not_change_the_times_of_existing_lines() {
        let mut times = Times::default();
        let run = run("another boot");
        times.learn_run(&run);
        let last = Wall(BEGAN.0 + 4 * S);
        let period = Period { first: BEGAN, last, steady: (BEGAN.0, last.0) };
        let since = |times: &mut Times, after| {
            times.since(When::AfterFirst(after), Some(&run), period, &TimeZone::UTC)
        };
        // Future times become more exact later; those of existing lines do not change.
        assert_eq!(since(&mut times, 6 * S), 6 * S);
        times.learn(&run, Anchor::new(Ticks(20 * S), Wall(BEGAN.0 + 10 * S)));
        times.read();
        assert_eq!(since(&mut times, 6 * S), 12 * S);
        assert_eq!(since(&mut times, 3 * S), 6 * S);
        times.learn(&run, Anchor::new(Ticks(90 * S), Wall(BEGAN.0 + 12 * S)));
        times.read();
        assert_eq!(since(&mut times, 3 * S), 6 * S);
    }

    #[test]
    fn the_number_of_kept_clock_readings_is_bounded() {
        let mut times = Times::default();
        let run = run("another boot");
        times.learn_run(&run);
        for second in 1..1000 {
            times.learn(&run, Anchor::new(Ticks(second * S), Wall(BEGAN.0 + second * S)));
            times.learn(&run, Anchor::new(Ticks(second * S + 9), Wall(BEGAN.0 + second * S + 9)));
        }
        times.read();
        let boot = times.0.values().next().unwrap();
        assert_eq!(boot.last.len(), READINGS);
        // The first reading is kept.
        assert_eq!(times.of(Some(&run)).unwrap().wall(Ticks(0)), BEGAN);
        assert_eq!(times.of(Some(&run)).unwrap().wall(Ticks(999 * S)), Wall(BEGAN.0 + 999 * S));
    }

    #[test]
    fn an_end_time_of_day_is_in_the_future() {
        let clock = wall_as_ticks();
        let until = |text: &str| {
            let until = FollowEnd::new(text.parse().unwrap(), TimeZone::UTC, BEGAN);
            until.ticks(&clock, BEGAN).0
        };
        assert_eq!(until("16:11:02"), BEGAN.0 + 3600 * S);
        assert_eq!(until("14:11:02"), BEGAN.0 + 23 * 3600 * S);
        assert_eq!(until("2s"), BEGAN.0 + 2 * S);
    }

    #[test]
    fn a_run_not_yet_begun_is_over_once_its_end_time_has_passed() {
        let over = |text: &str| {
            let until = FollowEnd::new(text.parse().unwrap(), TimeZone::UTC, wall_clock(SystemTime::now()));
            until.is_over_before_start()
        };
        assert!(over("2020-01-01T00:00:00Z"));
        assert!(!over("2200-01-01T00:00:00Z"));
        assert!(!over("0s"), "nobody knows when it will begin");
    }
}
