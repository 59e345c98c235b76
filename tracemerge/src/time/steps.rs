//! Steps of the wall clock: the moments at which it was set, or at which the machine was suspended.

use std::fmt;

use trace_format::line::Ticks;
use trace_format::wall::Wall;

use crate::time::anchor::Anchor;
use crate::ui::units::duration;

/// The greatest difference, in nanoseconds, between the times that two clocks measure from one reading to the next,
/// without a step of the wall clock. `TOLERANCE_PPM` adds to it for long times.
const TOLERANCE_NS: u64 = 1_000_000;
/// The further difference between the times that two clocks measure, in nanoseconds per million nanoseconds, that is
/// not a step. Linux corrects the wall clock by at most 500 millionths, on top of a frequency error of at most 500
/// millionths (`adjtimex(2)`).
const TOLERANCE_PPM: u64 = 1_200;
/// The shortest suspension that is reported, in nanoseconds.
const SUSPENDED_NS: u64 = 100_000_000;

/// The reason of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StepCause {
    /// Somebody has set the wall clock.
    Set,
    /// The machine was suspended.
    Suspended,
}

impl StepCause {
    /// Returns the name of the cause in output for other programs.
    #[must_use]
    pub(crate) fn name(self) -> &'static str {
        match self {
            StepCause::Set => "set",
            StepCause::Suspended => "suspended",
        }
    }
}

/// A step of the wall clock between two readings of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClockStep {
    /// The reason of the step.
    pub cause: StepCause,
    /// The nanoseconds by which the wall clock was set (negative: back), or for which the machine was suspended.
    pub ns: i64,
    /// The ticks of the last reading before the step, and of the first reading after it. Ticks between them count as
    /// before the step.
    pub between: (Ticks, Ticks),
    /// The wall clock's time at the last reading before the step.
    pub before: Wall,
    /// The wall clock's time at the first reading after the step.
    pub after: Wall,
}

impl fmt::Display for ClockStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Readings of two clocks are a moment apart: a step of an hour is not one of 59 minutes.
        let ns = self.ns.unsigned_abs();
        let length = duration(if ns < MINUTE { ns } else { ns.saturating_add(SECOND / 2) / SECOND * SECOND });
        match (self.cause, self.ns < 0) {
            (StepCause::Suspended, _) => write!(f, "the machine was suspended for {length}")?,
            (StepCause::Set, false) => write!(f, "the wall clock was set forward by {length}")?,
            (StepCause::Set, true) => write!(f, "the wall clock was set back by {length}")?,
        }
        write!(f, ", after the wall clock showed {} and before it showed {}", self.before, self.after)
    }
}

const SECOND: u64 = 1_000_000_000;
const MINUTE: u64 = 60 * SECOND;

/// Returns `later` - `earlier`, or the nearest value that an `i64` can have.
fn difference(later: u64, earlier: u64) -> i64 {
    i64::try_from(i128::from(later) - i128::from(earlier)).unwrap_or(if later > earlier {
        i64::MAX
    } else {
        i64::MIN
    })
}

/// Returns the largest difference between the times that two clocks measure in `ns` nanoseconds without a step of the
/// wall clock.
pub(super) fn tolerance(ns: u64) -> u64 {
    TOLERANCE_NS.saturating_add(ns / 1_000_000 * TOLERANCE_PPM)
}

/// Returns the nanoseconds for which the machine was suspended between two anchors; 0 if it was not suspended, or if
/// the anchors lack the clocks that show it.
pub(super) fn suspended(from: &Anchor, to: &Anchor) -> u64 {
    let asleep = |anchor: &Anchor| anchor.since_boot?.checked_sub(anchor.raw?);
    let time = asleep(from).zip(asleep(to)).map_or(0, |(from, to)| to.saturating_sub(from));
    // Readings of the two clocks are a moment apart.
    if time < TOLERANCE_NS { 0 } else { time }
}

/// Finds the steps of the wall clock between neighbours of `anchors`, which are in order. `steady` returns the steady
/// time at an anchor, in nanoseconds. Returns the anchors in groups, and all steps; the wall clock stepped between two
/// groups. An anchor that shows a step which the next anchor does not show is left out, because the reading of that
/// anchor was interrupted.
pub(super) fn steps(
    anchors: &[Anchor],
    steady: impl Fn(&Anchor) -> u64,
) -> (Vec<Vec<Anchor>>, Vec<ClockStep>) {
    // How much the wall clock gains between two anchors, if that is more than its usual drift.
    let jump = |from: &Anchor, to: &Anchor| {
        let time = steady(to).saturating_sub(steady(from));
        let gain = difference(to.wall.0, from.wall.0).saturating_sub(i64::try_from(time).unwrap_or(i64::MAX));
        if gain.unsigned_abs() <= tolerance(time) { 0 } else { gain }
    };
    let (mut groups, mut found): (Vec<Vec<Anchor>>, Vec<ClockStep>) = (Vec::new(), Vec::new());
    for (at, anchor) in anchors.iter().enumerate() {
        let Some(before) = groups.last().and_then(|group| group.last()).copied() else {
            groups.push(vec![*anchor]);
            continue;
        };
        let gain = jump(&before, anchor);
        // Only traces that do not say how close the readings are need this guess.
        let is_wrong = gain != 0
            && anchor.within == 0
            && anchors.get(at + 1).is_some_and(|next| jump(&before, next) == 0);
        if is_wrong {
            continue;
        }
        let asleep = suspended(&before, anchor);
        let without = gain.saturating_sub(i64::try_from(asleep).unwrap_or(i64::MAX));
        let is_sleep = without.unsigned_abs() <= tolerance(asleep);
        let set = if asleep == 0 {
            gain
        } else if gain == 0 || is_sleep {
            0
        } else {
            without
        };
        let between = (before.ticks, anchor.ticks);
        let step = |cause, ns| ClockStep { cause, ns, between, before: before.wall, after: anchor.wall };
        if asleep >= SUSPENDED_NS {
            found.push(step(StepCause::Suspended, i64::try_from(asleep).unwrap_or(i64::MAX)));
        }
        if set != 0 {
            found.push(step(StepCause::Set, set));
        }
        if gain != 0 {
            groups.push(Vec::new());
        }
        groups.last_mut().into_iter().for_each(|group| group.push(*anchor));
    }
    (groups, found)
}
