//! The clock of a boot: steady time and the wall clock at each tick.
//!
//! A trace records at several moments the readings of all clocks, an *anchor*: in each `# run` line, in a `# clock`
//! line every ten seconds of tracing, and in another `# clock` line before each `# end`.
//!
//! *Steady time* is the time that has really passed, in nanoseconds. Nobody sets it, so all durations, offsets and
//! rates come from it. Between two anchors it runs like the raw monotonic clock; in traces of versions 1 and 2, which
//! do not have that clock, like the wall clock, except where the wall clock deviates from the median of its rates. Its
//! value at the first anchor is the wall time there.
//!
//! The *wall clock* is the time that the machine showed. It is divided into periods, and between two of them it was set
//! ([`ClockStep`]), so it may go back there. In a period it goes through the anchors.
//!
//! All processes of one boot have the same ticks, so they share one clock, and the anchors of one process improve it
//! for the others. Anchors may be hostile: with any anchors, steady time never goes back and nothing overflows.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use trace_format::line::Ticks;
use trace_format::meta::{ClockKind, Run};
use trace_format::wall::Wall;
use trace_store::inspect;

use crate::time::anchor::{Anchor, outer_anchors};
use crate::time::scale::{NOMINAL, Point, Rate, Scale};
use crate::time::steps::{ClockStep, steps, suspended, tolerance};

/// The least distance between two anchors, in nanoseconds, from which a rate is computed. Between anchors nearer to
/// each other, the error of reading them would be larger than the drift of the clocks.
const MIN_DISTANCE_NS: u64 = 1_000_000_000;
/// The least ratio of the time between two anchors to the time that reading them has taken. With it, the error of the
/// rate between them is at most 50 millionths.
const MIN_PRECISION: u64 = 10_000;
/// The disadvantage of going back in time. A reading of the wall clock may belong to two moments, one before and one
/// after the moment of the previous reading. The earlier moment is chosen only if it is this many times nearer to that
/// of the previous reading. So a log line may come late, but a clock that was set back is still recognized.
const LATE: u64 = 10;

/// A period in which nobody has set the wall clock.
#[derive(Clone, Debug)]
struct WallPeriod {
    /// The first ticks of the period.
    from: u64,
    /// The ticks of the last reading before the period. The clock was set at an unknown moment between these ticks and
    /// `from`.
    after: u64,
    scale: Scale,
    /// The latest time that the wall clock has shown in earlier periods.
    floor: u64,
}

/// A reading of the wall clock that comes from outside the traces, for example from the line of a log, and the most
/// likely ticks at which it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WallPlace {
    /// The wall time that was read.
    pub wall: Wall,
    /// The most likely ticks at which the wall clock was read.
    pub ticks: Ticks,
    /// The index of the period of the wall clock in which it was read.
    period: usize,
    /// The distance in nanoseconds from this place to the farthest other possible place of the reading; 0 if there is
    /// none.
    pub error_ns: u64,
}

/// A straight piece of the piecewise linear function between ticks and the wall clock, for programs that convert many
/// times on their own. It holds from `from` (ticks or nanoseconds) to the beginning of the next piece, and goes through
/// the point (`ticks`, `ns`). Results less than `floor` become `floor`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClockLine {
    pub from: u64,
    pub ticks: u64,
    pub ns: u64,
    pub rate_ticks: u64,
    pub rate_ns: u64,
    pub floor: u64,
}

impl ClockLine {
    fn new(from: u64, (at, rate): (Point, Rate), floor: u64) -> ClockLine {
        let (Point { ticks, ns }, Rate { ticks: rate_ticks, ns: rate_ns, .. }) = (at, rate);
        ClockLine { from, ticks, ns, rate_ticks, rate_ns, floor }
    }
}

/// The clock of one boot for one kind of ticks. Its arithmetic is exact to a nanosecond; [`TickClock::uncertainty_ns`]
/// measures how accurate the anchors are.
#[derive(Clone, Debug)]
pub(crate) struct TickClock {
    /// All anchors, in the order of ticks.
    anchors: Vec<Anchor>,
    steady: Scale,
    /// The periods of the wall clock, at least one; the first begins at ticks 0.
    periods: Vec<WallPeriod>,
    steps: Vec<ClockStep>,
    rate_is_known: bool,
    uncertainty_ns: u64,
}

impl TickClock {
    /// Makes the clock that goes through `anchors`, which may be in any order. The anchors come from runs whose ticks
    /// are of the kind `kind`.
    #[must_use]
    pub(crate) fn of(kind: ClockKind, anchors: impl IntoIterator<Item = Anchor>) -> TickClock {
        let mut all: Vec<Anchor> = anchors.into_iter().collect();
        // Of two anchors with the same ticks, the one with more clocks is kept.
        all.sort_unstable_by_key(|anchor| (anchor.ticks, anchor.raw.is_none(), *anchor));
        all.dedup_by_key(|anchor| anchor.ticks);
        let known = steady_scale(kind, &all);
        let rate_is_known = known.is_some();
        let start = all
            .first()
            .map_or(Point { ticks: 0, ns: 0 }, |first| Point { ticks: first.ticks.0, ns: first.wall.0 });
        let steady = known.unwrap_or_else(|| Scale::through(vec![start], NOMINAL));
        let readings = apart(&all, |anchor| anchor, steady.rate);
        let (groups, steps) = steps(&readings, |anchor| steady.at(anchor.ticks));
        let periods = periods(&groups, &steady);
        let mut clock = TickClock { anchors: all, steady, periods, steps, rate_is_known, uncertainty_ns: 0 };
        clock.uncertainty_ns = clock.largest_error();
        clock
    }

    /// Makes the clock of `run` from anchors of this run only; `more` are the anchors of some or all of its `# clock`
    /// lines.
    #[must_use]
    pub(crate) fn of_run(run: &Run, more: impl IntoIterator<Item = Anchor>) -> TickClock {
        let own = Anchor::of_run(run);
        let clock = TickClock::of(run.clock, more.into_iter().chain([own]));
        if clock.rate_is_known {
            return clock;
        }
        // A short run that was killed has one anchor. While the machine is up, the present is another one: a different
        // one each time, so it is not used to make a known rate more exact.
        match inspect::read_clocks(&run.boot).as_ref().and_then(Anchor::of_meta) {
            Some(present) => TickClock::of(run.clock, [own, present]),
            None => clock,
        }
    }

    /// Returns the anchors through which the clock goes, in the order of ticks.
    #[must_use]
    pub(crate) fn anchors(&self) -> &[Anchor] {
        &self.anchors
    }

    /// Returns the steady time at `ticks`, in nanoseconds, rounded down.
    #[must_use]
    pub(crate) fn steady(&self, ticks: Ticks) -> u64 {
        self.steady.at(ticks)
    }

    /// Returns the first ticks at which the steady time is `steady` nanoseconds or more.
    #[must_use]
    pub(crate) fn ticks_at_steady(&self, steady: u64) -> Ticks {
        self.steady.ticks(steady)
    }

    /// Returns the wall clock's time at `ticks`, rounded down to a nanosecond.
    #[must_use]
    pub(crate) fn wall(&self, ticks: Ticks) -> Wall {
        Wall(self.period(ticks.0).scale.at(ticks))
    }

    /// Returns the wall clock's time at `ticks` or, if the wall clock was set back before and has not caught up, the
    /// latest time that it had shown. So the result never goes back.
    #[must_use]
    pub(crate) fn ascending_wall(&self, ticks: Ticks) -> Wall {
        let period = self.period(ticks.0);
        Wall(period.scale.at(ticks).max(period.floor))
    }

    /// Returns the most likely ticks at which a reader of the wall clock, such as the writer of a log, has read `wall`.
    /// `before` is the result for the reader's previous reading, if there is one.
    ///
    /// Several periods of the wall clock may have shown `wall`: the clock was set at an unknown moment between two
    /// anchors, and each of the two periods around that moment may have filled the whole time between the anchors. Of
    /// the possible periods, the result lies in the period of `before` or, if `wall` is earlier than the time of
    /// `before`, as near to `before` as possible.
    #[must_use]
    pub(crate) fn place(&self, wall: Wall, before: Option<WallPlace>) -> WallPlace {
        let places = || {
            self.periods_with_ends().enumerate().filter_map(|(number, (period, end))| {
                let ticks = period.scale.ticks(wall.0);
                let is_shown = period.after <= ticks.0 && (ticks.0 > 0 || period.scale.at(ticks) <= wall.0);
                (is_shown && (ticks.0 < end || end == u64::MAX)).then_some((number, ticks))
            })
        };
        let distance = |(number, ticks): &(usize, Ticks)| match before {
            Some(before) if *number == before.period && before.wall <= wall => 0,
            Some(before) if *ticks < before.ticks => (before.ticks.0 - ticks.0).saturating_mul(LATE),
            Some(before) => ticks.0 - before.ticks.0,
            None => 0,
        };
        let (period, found) = places().min_by_key(distance).unwrap_or_else(|| {
            // A time that the clock was set to skip; times of a log may be rounded down.
            let from = self.ticks(wall).0;
            let number = self.periods.partition_point(|period| period.from <= from).saturating_sub(1);
            (number, Ticks(self.periods[number].after))
        });
        // If the line before is in the wrong one of two periods, it is too late.
        let earliest = before.filter(|before| before.period <= period && before.wall <= wall);
        let ticks = earliest.map_or(found, |before| before.ticks.max(found));
        let error = places().map(|(_, other)| self.steady(other).abs_diff(self.steady(ticks))).max();
        WallPlace { wall, ticks, period, error_ns: error.unwrap_or(0) }
    }

    /// Returns the periods of the wall clock, each with the first ticks after it.
    fn periods_with_ends(&self) -> impl Iterator<Item = (&WallPeriod, u64)> {
        let ends = self.periods.iter().skip(1).map(|next| next.from).chain([u64::MAX]);
        self.periods.iter().zip(ends)
    }

    /// Returns the first ticks at which the wall clock shows `wall` or a later time.
    #[must_use]
    pub(crate) fn ticks(&self, wall: Wall) -> Ticks {
        for (period, end) in self.periods_with_ends() {
            let ticks = period.scale.ticks(wall.0).0.max(period.from);
            if ticks < end || end == u64::MAX {
                return Ticks(ticks);
            }
        }
        Ticks(u64::MAX)
    }

    /// Returns the straight pieces that make up [`TickClock::ascending_wall`]. At the ticks t, a piece has the value
    /// `ns + floor((t - ticks) * rate_ns / rate_ticks)`. The ticks `u64::MAX` are not covered.
    #[must_use]
    pub(crate) fn lines_to_wall(&self) -> Vec<ClockLine> {
        let mut lines = Vec::new();
        for (period, end) in self.periods_with_ends() {
            let all: Vec<_> = period.scale.lines().collect();
            for (number, (from, _, at, rate)) in all.iter().enumerate() {
                let until = all.get(number + 1).map_or(u64::MAX, |next| next.0).min(end);
                let from = (*from).max(period.from);
                if from < until {
                    lines.push(ClockLine::new(from, (*at, *rate), period.floor));
                }
            }
        }
        lines
    }

    /// Returns the straight pieces that make up [`TickClock::ticks`]. At the nanosecond n, a piece has the value `ticks
    /// + ceil((n - ns) * rate_ticks / rate_ns)`. The nanoseconds 0 and `u64::MAX` are not covered.
    #[must_use]
    pub(crate) fn lines_to_ticks(&self) -> Vec<ClockLine> {
        let (mut lines, mut begin) = (Vec::new(), 0);
        for (period, end) in self.periods_with_ends() {
            // The first nanosecond whose ticks are not in the period any more.
            let is_inside = |ns: u64| period.scale.ticks(ns).0.max(period.from) < end;
            let (mut low, mut high) = (begin, u64::MAX);
            while low < high && end < u64::MAX {
                let middle = low.midpoint(high);
                if is_inside(middle) { low = middle + 1 } else { high = middle }
            }
            let all: Vec<_> = period.scale.lines().collect();
            for (number, (_, from, at, rate)) in all.iter().enumerate() {
                let until = all.get(number + 1).map_or(u64::MAX, |next| next.1).min(high);
                let from = (*from).max(begin);
                if from < until {
                    lines.push(ClockLine::new(from, (*at, *rate), period.from));
                }
            }
            begin = high;
        }
        lines
    }

    /// Returns a reader of steady time that is fast for many ticks near each other.
    #[must_use]
    pub(crate) fn steady_reader(self: &Arc<TickClock>) -> ClockReader {
        ClockReader::new(self, false)
    }

    /// Returns a reader of the wall clock that is fast for many ticks near each other.
    #[must_use]
    pub(crate) fn wall_reader(self: &Arc<TickClock>) -> ClockReader {
        ClockReader::new(self, true)
    }

    /// Returns a number of ticks so small that every period of fewer ticks takes less than `ns` nanoseconds of steady
    /// time.
    #[must_use]
    pub(crate) fn ticks_within(&self, ns: u64) -> u64 {
        // Each of the two times is rounded by less than a nanosecond, and so is each side of an anchor.
        self.steady.fewest_ticks(ns.saturating_sub(4))
    }

    /// Returns whether the rate of the ticks was measured. If it was not, one tick counts as one nanosecond, and only
    /// times at the start of the run are right.
    #[must_use]
    pub(crate) fn rate_is_known(&self) -> bool {
        self.rate_is_known
    }

    /// Returns the average number of ticks in a second, rounded down.
    #[must_use]
    pub(crate) fn ticks_per_second(&self) -> u64 {
        Rate::scale(1_000_000_000, self.steady.rate.ticks, self.steady.rate.ns, false)
    }

    /// Returns the average number of ticks in a second, with its fraction.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "rates are shown with a few digits")]
    pub(crate) fn exact_ticks_per_second(&self) -> f64 {
        self.steady.rate.ticks as f64 / self.steady.rate.ns as f64 * 1e9
    }

    /// Returns the steps at which the wall clock was set or the machine was suspended, in the order of ticks.
    #[must_use]
    pub(crate) fn steps(&self) -> &[ClockStep] {
        &self.steps
    }

    /// Returns the error of the wall clock's times, in nanoseconds, as the anchors show it: the largest error that the
    /// time at one of the anchors would have if that anchor were left out. The error of the machine's wall clock itself
    /// is not included.
    #[must_use]
    pub(crate) fn uncertainty_ns(&self) -> u64 {
        self.uncertainty_ns
    }

    fn period(&self, ticks: u64) -> &WallPeriod {
        &self.periods[self.periods.partition_point(|period| period.from <= ticks).saturating_sub(1)]
    }

    fn largest_error(&self) -> u64 {
        let is_in_step = |anchor: &Anchor| {
            self.steps.iter().any(|step| (step.between.0..step.between.1).contains(&anchor.ticks))
        };
        let left_out = self.anchors.iter().filter(|anchor| !is_in_step(anchor));
        let left_out = left_out.map(|anchor| self.wall(anchor.ticks).0.abs_diff(anchor.wall.0));
        left_out.chain(self.periods.iter().map(|period| period.scale.largest_error())).max().unwrap_or(0)
    }
}

/// Makes the scale of steady time through `all` anchors, which are in order. Returns `None` if there are no two
/// readings from which the rate is known.
fn steady_scale(kind: ClockKind, all: &[Anchor]) -> Option<Scale> {
    let first = all.first()?;
    if kind == ClockKind::System {
        // The system's clock counts nanoseconds.
        return Some(Scale::through(vec![Point { ticks: first.ticks.0, ns: first.wall.0 }], NOMINAL));
    }
    let mut with_raw: Vec<(Anchor, u64)> =
        all.iter().filter_map(|anchor| Some((*anchor, anchor.raw?))).collect();
    // Readings near each other, as at the end of the threads of a process, have no exact rate.
    let span = |first: &Anchor, last: &Anchor| last.ticks.0 - first.ticks.0;
    let of_raw = with_raw.first().zip(with_raw.last()).map_or(0, |(first, last)| span(&first.0, &last.0));
    if of_raw < all.last().map_or(0, |last| span(first, last)) / 2 {
        with_raw.clear();
    }
    // Some counters go on while the machine is suspended, and the raw clock does not.
    let was_awake = |from: &Anchor, to: &Anchor| suspended(from, to) == 0;
    of_readings(&with_raw, was_awake, |from, to, _| was_awake(from, to)).or_else(|| {
        let by_wall: Vec<(Anchor, u64)> = all.iter().map(|anchor| (*anchor, anchor.wall.0)).collect();
        let is_usual = |from: &Anchor, to: &Anchor, expected| {
            to.wall.0.abs_diff(from.wall.0.saturating_add(expected)) <= tolerance(expected)
        };
        of_readings(&by_wall, |_, _| true, is_usual)
    })
}

/// Makes a piecewise linear scale through `readings`, which are anchors, each with its time in nanoseconds by one of
/// the clocks. Some neighbours do not determine the rate between them: those that `is_sound` rejects, and those between
/// which the clock goes back. Between these, time runs at the median rate of all neighbours that `is_counted` accepts.
/// `is_sound` also gets the number of nanoseconds between the two neighbours at that median rate.
fn of_readings(
    readings: &[(Anchor, u64)],
    is_counted: impl Fn(&Anchor, &Anchor) -> bool,
    is_sound: impl Fn(&Anchor, &Anchor, u64) -> bool,
) -> Option<Scale> {
    // Short times between readings have inexact rates, so these only serve to leave out readings.
    let by_length = median_rate(readings, &is_counted, |ticks| ticks)?;
    let kept = apart(readings, |(anchor, _)| anchor, by_length);
    let median = median_rate(&kept, &is_counted, |_| 1).unwrap_or(by_length);
    let (first, _) = kept.first()?;
    let mut before = Point { ticks: first.ticks.0, ns: first.wall.0 };
    let mut points = vec![before];
    for two in kept.windows(2) {
        let ((from, earlier), (to, later)) = (two[0], two[1]);
        let expected = median.nanoseconds(to.ticks.0 - from.ticks.0);
        let measured = later.checked_sub(earlier).filter(|ns| *ns > 0);
        let ns = measured.filter(|_| is_sound(&from, &to, expected)).unwrap_or(expected);
        let point = Point { ticks: to.ticks.0, ns: before.ns.saturating_add(ns) };
        if point.ns > before.ns {
            points.push(point);
            before = point;
        }
    }
    let rate = match &points[..] {
        [first, .., last] => Rate::between(*first, *last),
        _ => median,
    };
    Some(Scale::through(points, rate))
}

/// Returns the weighted median of the rates between neighbouring readings that `is_counted` accepts; `None` if there
/// are no such neighbours. `weight` returns the weight of a rate, given the number of ticks over which it was measured.
fn median_rate(
    readings: &[(Anchor, u64)],
    is_counted: impl Fn(&Anchor, &Anchor) -> bool,
    weight: impl Fn(u64) -> u64,
) -> Option<Rate> {
    let rate = |two: &[(Anchor, u64)]| {
        let ticks = two[1].0.ticks.0.checked_sub(two[0].0.ticks.0).filter(|ticks| *ticks > 0)?;
        Some((ticks, two[1].1.checked_sub(two[0].1).filter(|ns| *ns > 0)?))
    };
    let mut rates: Vec<(u64, u64)> =
        readings.windows(2).filter(|two| is_counted(&two[0].0, &two[1].0)).filter_map(rate).collect();
    let product = |ticks: u64, ns: u64| u128::from(ticks) * u128::from(ns);
    rates.sort_by(|a, b| product(a.0, b.1).cmp(&product(b.0, a.1)));
    let all: u128 = rates.iter().map(|(ticks, _)| u128::from(weight(*ticks))).sum();
    let mut so_far = 0;
    rates.into_iter().find_map(|(ticks, ns)| {
        so_far += u128::from(weight(ticks));
        (so_far * 2 >= all).then(|| Rate::of(ticks, ns))
    })
}

/// Selects, from `readings` in order, readings that are so far apart that the drift between them exceeds the errors of
/// reading. Selects at least two if there are several. Of readings near each other, prefers the one that took less
/// time.
fn apart<R: Copy>(readings: &[R], anchor: impl Fn(&R) -> &Anchor, rate: Rate) -> Vec<R> {
    let [first, others @ .., last] = readings else { return readings.to_vec() };
    let is_far = |from: &R, to: &R| {
        let (from, to) = (anchor(from), anchor(to));
        let ticks = to.ticks.0 - from.ticks.0;
        let read = from.within.saturating_add(to.within).saturating_mul(MIN_PRECISION);
        ticks >= read && rate.nanoseconds(ticks) >= MIN_DISTANCE_NS
    };
    let mut kept = vec![*first];
    for reading in others {
        let Some(before) = kept.last_mut() else { break };
        if is_far(before, reading) {
            kept.push(*reading);
        } else if anchor(reading).within < anchor(before).within / 2 {
            *before = *reading;
        }
    }
    // The last reading was made at the end of the trace. It is better than one near it, unless it took longer.
    let is_worse = |near: &R| anchor(last).within > anchor(near).within.max(1);
    while kept.len() > 1 && kept.last().is_some_and(|near| !is_far(near, last) && !is_worse(near)) {
        kept.pop();
    }
    if kept.len() == 1 || kept.last().is_some_and(|near| is_far(near, last)) {
        kept.push(*last);
    }
    kept
}

/// Makes the periods of the wall clock, one for each group of anchors. The wall clock was set between two groups.
fn periods(groups: &[Vec<Anchor>], steady: &Scale) -> Vec<WallPeriod> {
    let (mut periods, mut last): (Vec<WallPeriod>, u64) = (Vec::new(), 0);
    for group in groups {
        let mut points: Vec<Point> = Vec::with_capacity(group.len());
        for anchor in group {
            let point = Point { ticks: anchor.ticks.0, ns: anchor.wall.0 };
            if points.last().is_none_or(|last| last.ticks < point.ticks && last.ns < point.ns) {
                points.push(point);
            }
        }
        let rate = match &points[..] {
            [first, .., last] if last.ns - first.ns >= MIN_DISTANCE_NS => Rate::between(*first, *last),
            _ => steady.rate,
        };
        let Some(first) = points.first() else { continue };
        let from = if periods.is_empty() { 0 } else { first.ticks };
        let after = std::mem::replace(&mut last, group.last().map_or(0, |anchor| anchor.ticks.0));
        let floor = periods
            .last()
            .map_or(0, |before| before.scale.at(Ticks(from.saturating_sub(1))).max(before.floor));
        periods.push(WallPeriod { from, after, scale: Scale::through(points, rate), floor });
    }
    if periods.is_empty() {
        periods.push(WallPeriod { from: 0, after: 0, scale: steady.clone(), floor: 0 });
    }
    periods
}

/// A reader of a clock. It remembers the straight piece of the clock's scale that its last reading used, so that
/// further readings nearby are fast.
#[derive(Clone, Debug)]
pub(crate) struct ClockReader {
    clock: Arc<TickClock>,
    reads_wall: bool,
    /// The range of ticks in which the point `from` and the rate `rate` hold.
    ticks: Range<u64>,
    from: Point,
    rate: Rate,
}

impl ClockReader {
    fn new(clock: &Arc<TickClock>, reads_wall: bool) -> ClockReader {
        ClockReader {
            clock: clock.clone(),
            reads_wall,
            ticks: 0..0,
            from: Point { ticks: 0, ns: 0 },
            rate: NOMINAL,
        }
    }

    /// Returns the time at `ticks`, in nanoseconds: the result of [`TickClock::steady`] or of [`TickClock::wall`].
    #[inline]
    #[must_use]
    pub(crate) fn at(&mut self, ticks: Ticks) -> u64 {
        if !self.ticks.contains(&ticks.0) {
            self.seek(ticks);
        }
        self.rate.at(self.from, ticks.0)
    }

    #[cold]
    fn seek(&mut self, ticks: Ticks) {
        let clock = &self.clock;
        let (mut limits, mut scale) = (0..u64::MAX, &clock.steady);
        if self.reads_wall {
            let period = clock.period(ticks.0);
            let behind = clock.periods.partition_point(|period| period.from <= ticks.0);
            (limits.start, scale) = (period.from, &period.scale);
            limits.end = clock.periods.get(behind).map_or(u64::MAX, |next| next.from);
        }
        let (from, rate, ticks) = scale.line(ticks.0);
        (self.from, self.rate) = (from, rate);
        self.ticks = ticks.start.max(limits.start)..ticks.end.min(limits.end);
    }
}

/// The clocks of all runs of a merge: one for each boot and each kind of ticks.
#[derive(Debug, Default)]
pub(crate) struct Clocks(BTreeMap<(Vec<u8>, bool), (Run, Arc<TickClock>)>);

impl Clocks {
    /// Makes the clocks of files, each given with its run and its bytes. Reads the anchor of the run, and the anchors
    /// at the beginning and at the end of the file.
    pub(crate) fn read<'a, B: AsRef<[u8]>>(files: impl IntoIterator<Item = (&'a Run, B)>) -> Clocks {
        Clocks::through(files.into_iter().map(|(run, bytes)| (run, outer_anchors(bytes.as_ref()))))
    }

    /// Makes the clocks of runs, each given with some or all anchors of its `# clock` lines.
    pub(crate) fn through<'a, A: IntoIterator<Item = Anchor>>(
        runs: impl IntoIterator<Item = (&'a Run, A)>,
    ) -> Clocks {
        let mut clocks = Clocks::default();
        let mut found: BTreeMap<_, (Run, Vec<Anchor>)> = BTreeMap::new();
        for (run, more) in runs {
            let (_, anchors) = found.entry(key(run)).or_insert_with(|| (run.clone(), Vec::new()));
            anchors.push(Anchor::of_run(run));
            anchors.extend(more);
        }
        for (key, (run, anchors)) in found {
            let clock = TickClock::of_run(&run, anchors);
            clocks.0.insert(key, (run, Arc::new(clock)));
        }
        clocks
    }

    /// Makes the clocks go through further anchors, each given with its run.
    pub(crate) fn refine<'a, A: IntoIterator<Item = Anchor>>(
        &mut self,
        more: impl IntoIterator<Item = (&'a Run, A)>,
    ) {
        let mut found: BTreeMap<_, Vec<Anchor>> = BTreeMap::new();
        for (run, anchors) in more {
            found.entry(key(run)).or_default().extend(anchors);
        }
        for (key, anchors) in found {
            if let Some((run, clock)) = self.0.get_mut(&key).filter(|_| !anchors.is_empty()) {
                *clock = Arc::new(TickClock::of(run.clock, clock.anchors.iter().copied().chain(anchors)));
            }
        }
    }

    /// Returns the clock of `run`; `None` if no file has a run with the same boot and the same kind of ticks.
    #[must_use]
    pub(crate) fn of(&self, run: &Run) -> Option<&Arc<TickClock>> {
        self.0.get(&key(run)).map(|(_, clock)| clock)
    }

    /// Returns the clock of a boot's runs whose ticks are of `kind`; `None` if no file has such a run.
    #[must_use]
    pub(crate) fn of_clock(&self, boot: &[u8], kind: ClockKind) -> Option<&Arc<TickClock>> {
        self.0.get(&(boot.to_vec(), kind == ClockKind::System)).map(|(_, clock)| clock)
    }

    /// Returns whether the known anchors of any boot show that the wall clock was set or the machine was suspended.
    #[must_use]
    pub(crate) fn have_steps(&self) -> bool {
        self.0.values().any(|(_, clock)| !clock.steps.is_empty())
    }

    /// Returns a run for each boot and each kind of ticks, with its clock.
    pub(crate) fn each(&self) -> impl Iterator<Item = (&Run, &TickClock)> {
        self.0.values().map(|(run, clock)| (run, &**clock))
    }
}

fn key(run: &Run) -> (Vec<u8>, bool) {
    (run.boot.clone(), run.clock == ClockKind::System)
}

/// Converts a time of the operating system's clock to the type that traces use for the wall clock.
pub(crate) fn wall_clock(time: SystemTime) -> Wall {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    Wall(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests;
