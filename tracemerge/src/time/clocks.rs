//! Ticks and the wall clock: the time of day at a tick, and the ticks at a time of day.
//!
//! A trace records in several places the readings of both clocks at one moment, an *anchor*: in each `# run` line,
//! every ten seconds of tracing in a `# clock` line, and in another one before each `# end`. Between two anchors,
//! time is assumed to run evenly, so the drift of one clock against the other is corrected where it was measured.
//! Before the first anchor and behind the last, time runs at the average rate between these two.
//!
//! All processes of one boot have the same ticks, so they share one clock, and the anchors of one process improve it
//! for the others. Anchors may be hostile: with any anchors, the clock never goes back and never overflows.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use memchr::memmem;
use trace_format::escape::is_harmless;
use trace_format::line::{Kind, Line, Ticks};
use trace_format::meta::{ClockKind, Meta, Run};
use trace_format::wall::Wall;
use trace_store::inspect;

use crate::file::lines::strip_line_feed;

/// The nanoseconds within which two anchors count as one: for anchors that are nearer to each other, the error of
/// reading them would be larger than the drift.
const MIN_DISTANCE_NS: u64 = 1_000_000_000;
/// The rate of a counter whose rate is not known: one tick in a nanosecond.
const NOMINAL: Rate = Rate { ticks: 1, ns: 1, whole: 1, part: 0, left: 0 };
/// The numbers of bytes at the end of a file that are searched for its last anchor, one after the other.
const TAIL_SIZES: [usize; 3] = [16 << 10, 256 << 10, 4 << 20];
/// The text of a `# clock` line behind its thread id.
const CLOCK: &[u8] = b" # clock ticks=";

/// Ticks and the wall clock at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Anchor {
    /// The value of the processor's counter.
    pub ticks: Ticks,
    /// The time of the wall clock.
    pub wall: Wall,
}

impl Anchor {
    /// Returns the anchor in a `# run` or `# clock` line; `None` for any other line.
    #[must_use]
    pub fn of_line(line: &[u8]) -> Option<Anchor> {
        let line = Line::parse(strip_line_feed(line)).ok()?;
        if line.kind != Kind::Meta || !is_harmless(line.payload) {
            return None;
        }
        match Meta::parse(line.payload)? {
            Meta::Run(run) => Some(Anchor { ticks: run.ticks, wall: run.wall }),
            Meta::Clock { ticks, wall, .. } => Some(Anchor { ticks, wall }),
            _ => None,
        }
    }
}

/// Returns the anchors of all `# clock` lines in `bytes`, in their order. Looks at each byte once, at the
/// speed of a search.
pub fn anchors_in(bytes: &[u8]) -> impl Iterator<Item = Anchor> {
    memmem::find_iter(bytes, CLOCK).filter_map(|at| {
        let start = memchr::memrchr2(b'\n', 0, &bytes[..at]).map_or(0, |feed| feed + 1);
        let end = memchr::memchr2(b'\n', 0, &bytes[at..]).map_or(bytes.len(), |feed| at + feed);
        Anchor::of_line(&bytes[start..end])
    })
}

/// Returns the anchors in the last bytes of a file: at least the last one, if it is within its last 4 MiB.
#[must_use]
pub fn last_anchors(bytes: &[u8]) -> Vec<Anchor> {
    for tail in TAIL_SIZES {
        let start = bytes.len().saturating_sub(tail);
        let found: Vec<Anchor> = anchors_in(&bytes[start..]).collect();
        if !found.is_empty() || start == 0 {
            return found;
        }
    }
    Vec::new()
}

/// The rate of a counter: a number of ticks in a number of nanoseconds, neither of which is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rate {
    ticks: u64,
    ns: u64,
    /// Whole nanoseconds in a tick...
    whole: u64,
    /// ...and the rest of it, times two to the power of 64, rounded down; the rest is `left` nanoseconds in `ticks`.
    part: u64,
    left: u64,
}

impl Rate {
    /// Returns the rate between two anchors, the second of which is later by both clocks.
    fn between(from: Anchor, to: Anchor) -> Rate {
        let (ticks, ns) = (to.ticks.0 - from.ticks.0, to.wall.0 - from.wall.0);
        let part = (u128::from(ns % ticks) << 64) / u128::from(ticks);
        // The rest is less than a nanosecond, so this is less than two to the power of 64.
        Rate { ticks, ns, whole: ns / ticks, part: u64::try_from(part).unwrap_or(u64::MAX), left: ns % ticks }
    }

    /// Returns `value * numerator / denominator`, rounded up or down, at most `u64::MAX`. The product of two
    /// 64-bit numbers does not overflow.
    fn scale(value: u64, numerator: u64, denominator: u64, up: bool) -> u64 {
        let (product, denominator) = (u128::from(value) * u128::from(numerator), u128::from(denominator));
        let quotient = if up { product.div_ceil(denominator) } else { product / denominator };
        u64::try_from(quotient).unwrap_or(u64::MAX)
    }

    /// Returns the nanoseconds in that number of ticks, rounded down, at most `u64::MAX`: the result of
    /// [`Rate::scale`], by two multiplications and a correction in place of a division. Granlund and Montgomery,
    /// "Division by invariant integers using multiplication" (1994).
    #[inline]
    fn nanoseconds(self, ticks: u64) -> u64 {
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

    fn wall(self, from: Anchor, ticks: u64) -> u64 {
        match ticks.checked_sub(from.ticks.0) {
            Some(after) => from.wall.0.saturating_add(self.nanoseconds(after)),
            None => from.wall.0.saturating_sub(Rate::scale(from.ticks.0 - ticks, self.ns, self.ticks, true)),
        }
    }

    /// Returns the first ticks that are not before `wall`.
    fn ticks(self, from: Anchor, wall: u64) -> u64 {
        match wall.checked_sub(from.wall.0) {
            Some(after) => from.ticks.0.saturating_add(Rate::scale(after, self.ticks, self.ns, true)),
            None => from.ticks.0.saturating_sub(Rate::scale(from.wall.0 - wall, self.ticks, self.ns, false)),
        }
    }
}

/// The relation of ticks and wall clock in one boot. Its arithmetic is exact to a nanosecond;
/// [`TickClock::uncertainty_ns`] measures how accurate the anchors are.
#[derive(Clone, Debug)]
pub struct TickClock {
    /// The anchors, at least one, which ascend by both clocks.
    anchors: Vec<Anchor>,
    /// The rates between neighbouring anchors.
    rates: Vec<Rate>,
    rate: Rate,
    rate_is_known: bool,
    uncertainty_ns: u64,
}

impl TickClock {
    /// Makes the clock that goes through `anchors`, in any order, of runs whose ticks are of `kind`. An
    /// anchor at which the wall clock has gone back is left out, and counts in the uncertainty.
    #[must_use]
    pub fn of(kind: ClockKind, anchors: impl IntoIterator<Item = Anchor>) -> TickClock {
        let mut all: Vec<Anchor> = anchors.into_iter().collect();
        all.sort_unstable();
        all.dedup_by_key(|anchor| anchor.ticks);
        let anchors = thinned(&ascending(&all));
        let (rate, rate_is_known) = match &anchors[..] {
            [first, .., last] => (Rate::between(*first, *last), true),
            // The system's clock counts nanoseconds.
            _ => (NOMINAL, kind == ClockKind::System && !anchors.is_empty()),
        };
        let anchors =
            if anchors.is_empty() { vec![Anchor { ticks: Ticks(0), wall: Wall(0) }] } else { anchors };
        let rates = anchors.windows(2).map(|two| Rate::between(two[0], two[1])).collect();
        let mut clock = TickClock { anchors, rates, rate, rate_is_known, uncertainty_ns: 0 };
        clock.uncertainty_ns = clock.largest_error(&all);
        clock
    }

    /// Makes the clock of `run` alone; `more` are some or all of its `# clock` lines.
    #[must_use]
    pub fn of_run(run: &Run, more: impl IntoIterator<Item = Anchor>) -> TickClock {
        let own = Anchor { ticks: run.ticks, wall: run.wall };
        let clock = TickClock::of(run.clock, more.into_iter().chain([own]));
        if clock.rate_is_known {
            return clock;
        }
        // A short run that was killed has one anchor. While the machine is up, the present is another one.
        match inspect::read_current_time(&run.boot) {
            Some((ticks, wall)) => TickClock::of(run.clock, [own, Anchor { ticks, wall }]),
            None => clock,
        }
    }

    /// Returns the time of day at `ticks`: the nanosecond in which the tick lies.
    #[must_use]
    pub fn wall(&self, ticks: Ticks) -> Wall {
        let (from, rate) = self.segment(self.anchors.partition_point(|anchor| anchor.ticks <= ticks));
        Wall(rate.wall(from, ticks.0))
    }

    /// Returns a reader of this clock for many ticks that are near each other.
    #[must_use]
    pub fn reader(self: &Arc<TickClock>) -> ClockReader {
        let (from, rate) = self.segment(0);
        ClockReader { clock: self.clone(), ticks: 0..0, from, rate }
    }

    /// Returns the first ticks that are not before `wall`.
    #[must_use]
    pub fn ticks(&self, wall: Wall) -> Ticks {
        // Nothing is before the epoch, not even ticks for which the rate would give such a time.
        if wall == Wall(0) {
            return Ticks(0);
        }
        let (from, rate) = self.segment(self.anchors.partition_point(|anchor| anchor.wall < wall));
        Ticks(rate.ticks(from, wall.0))
    }

    /// Returns a number of ticks. A period of fewer ticks takes less than `ns` nanoseconds by this clock, at any
    /// time.
    #[must_use]
    pub fn ticks_within(&self, ns: u64) -> u64 {
        // Each of the two times is rounded by less than a nanosecond, and so is each side of an anchor.
        let ns = ns.saturating_sub(4);
        let rates = self.rates.iter().chain([&self.rate]);
        rates.map(|rate| Rate::scale(ns, rate.ticks, rate.ns, false)).min().unwrap_or(0)
    }

    /// Returns whether the rate was measured. If not, a tick counts as a nanosecond, and only the start of the run is
    /// right.
    #[must_use]
    pub fn rate_is_known(&self) -> bool {
        self.rate_is_known
    }

    /// Returns the number of ticks in a second, on average.
    #[must_use]
    pub fn ticks_per_second(&self) -> u64 {
        Rate::scale(1_000_000_000, self.rate.ticks, self.rate.ns, false)
    }

    /// Returns the largest error, in nanoseconds, that this clock would make at one of its anchors without that
    /// anchor. The number does not include the error of the machine's wall clock itself.
    #[must_use]
    pub fn uncertainty_ns(&self) -> u64 {
        self.uncertainty_ns
    }

    /// Returns the anchor and the rate that hold behind the first `behind` anchors.
    fn segment(&self, behind: usize) -> (Anchor, Rate) {
        let at = behind.saturating_sub(1);
        let rate = if behind == 0 { None } else { self.rates.get(at) };
        (self.anchors[at.min(self.anchors.len() - 1)], rate.copied().unwrap_or(self.rate))
    }

    fn largest_error(&self, all: &[Anchor]) -> u64 {
        let left_out = all.iter().map(|anchor| self.wall(anchor.ticks).0.abs_diff(anchor.wall.0));
        let between = self.anchors.windows(3).map(|three| {
            Rate::between(three[0], three[2]).wall(three[0], three[1].ticks.0).abs_diff(three[1].wall.0)
        });
        left_out.chain(between).max().unwrap_or(0)
    }
}

/// A reader of a clock, which remembers the anchors around its last reading.
#[derive(Clone, Debug)]
pub struct ClockReader {
    clock: Arc<TickClock>,
    /// The ticks for which this anchor and this rate hold.
    ticks: Range<u64>,
    from: Anchor,
    rate: Rate,
}

impl ClockReader {
    /// Returns the time of day at `ticks`, as [`TickClock::wall`] does.
    #[inline]
    #[must_use]
    pub fn wall(&mut self, ticks: Ticks) -> Wall {
        if !self.ticks.contains(&ticks.0) {
            self.seek(ticks);
        }
        Wall(self.rate.wall(self.from, ticks.0))
    }

    #[cold]
    fn seek(&mut self, ticks: Ticks) {
        let anchors = &self.clock.anchors;
        let behind = anchors.partition_point(|anchor| anchor.ticks <= ticks);
        let start = behind.checked_sub(1).map_or(0, |before| anchors[before].ticks.0);
        let end = anchors.get(behind).map_or(u64::MAX, |anchor| anchor.ticks.0);
        (self.ticks, (self.from, self.rate)) = (start..end, self.clock.segment(behind));
    }
}

/// Returns the longest selection of `anchors`, which ascend by ticks, that ascends by the wall clock as well.
fn ascending(anchors: &[Anchor]) -> Vec<Anchor> {
    // ends[n] is the last anchor of the selection of n + 1 anchors whose last wall time is the smallest.
    let (mut ends, mut before): (Vec<usize>, Vec<Option<usize>>) = (Vec::new(), Vec::new());
    for (at, anchor) in anchors.iter().enumerate() {
        let length = ends.partition_point(|&end| anchors[end].wall < anchor.wall);
        before.push(length.checked_sub(1).map(|shorter| ends[shorter]));
        match ends.get_mut(length) {
            Some(end) => *end = at,
            None => ends.push(at),
        }
    }
    let mut chain: Vec<Anchor> =
        std::iter::successors(ends.last().copied(), |&at| before[at]).map(|at| anchors[at]).collect();
    chain.reverse();
    chain
}

/// Returns the first anchor, the last, and those between that are far enough from their neighbours.
fn thinned(anchors: &[Anchor]) -> Vec<Anchor> {
    let [first, between @ .., last] = anchors else { return anchors.to_vec() };
    let mut kept = vec![*first];
    for anchor in between {
        let near = |a: Wall, b: Wall| b.0 - a.0 < MIN_DISTANCE_NS;
        if !kept.last().is_some_and(|kept| near(kept.wall, anchor.wall)) && !near(anchor.wall, last.wall) {
            kept.push(*anchor);
        }
    }
    kept.push(*last);
    kept
}

/// The clocks of all runs of a merge: one for each boot and kind of ticks.
#[derive(Debug, Default)]
pub struct Clocks(BTreeMap<(Vec<u8>, bool), (Run, Arc<TickClock>)>);

impl Clocks {
    /// Reads the anchors of files, each given with its run and its bytes: the anchor of the run, the last
    /// ones in the file, and those that `more` finds in the bytes.
    pub fn read<'a, B: AsRef<[u8]>, A: IntoIterator<Item = Anchor>>(
        files: impl IntoIterator<Item = (&'a Run, B)>,
        more: impl Fn(&[u8]) -> A,
    ) -> Clocks {
        let mut anchors: BTreeMap<_, (Run, Vec<Anchor>)> = BTreeMap::new();
        for (run, bytes) in files {
            let (_, anchors) = anchors.entry(key(run)).or_insert_with(|| (run.clone(), Vec::new()));
            anchors.push(Anchor { ticks: run.ticks, wall: run.wall });
            anchors.extend(last_anchors(bytes.as_ref()));
            anchors.extend(more(bytes.as_ref()));
        }
        let clock = |(run, anchors): (Run, Vec<Anchor>)| {
            let clock = TickClock::of_run(&run, anchors);
            (run, Arc::new(clock))
        };
        Clocks(anchors.into_iter().map(|(key, found)| (key, clock(found))).collect())
    }

    /// Makes the clocks go through further anchors of these runs.
    pub fn refine<'a, A: IntoIterator<Item = Anchor>>(
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

    /// Returns the clock of `run`; `None` if no file was of its boot.
    #[must_use]
    pub fn of(&self, run: &Run) -> Option<&Arc<TickClock>> {
        self.0.get(&key(run)).map(|(_, clock)| clock)
    }

    /// Returns the clock of a boot's runs whose ticks are of `kind`; `None` if no file was of such a run.
    #[must_use]
    pub fn of_clock(&self, boot: &[u8], kind: ClockKind) -> Option<&Arc<TickClock>> {
        self.0.get(&(boot.to_vec(), kind == ClockKind::System)).map(|(_, clock)| clock)
    }

    /// Returns a run of each boot, with its clock.
    pub fn each(&self) -> impl Iterator<Item = (&Run, &TickClock)> {
        self.0.values().map(|(run, clock)| (run, &**clock))
    }
}

fn key(run: &Run) -> (Vec<u8>, bool) {
    (run.boot.clone(), run.clock == ClockKind::System)
}

/// Converts a time of the system's clock to the form in traces.
pub fn wall_clock(time: SystemTime) -> Wall {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    Wall(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn anchor(ticks: u64, wall: u64) -> Anchor {
        Anchor { ticks: Ticks(ticks), wall: Wall(wall) }
    }

    fn clock(anchors: &[(u64, u64)]) -> TickClock {
        TickClock::of(ClockKind::Ordered, anchors.iter().map(|&(ticks, wall)| anchor(ticks, wall)))
    }

    const S: u64 = 1_000_000_000;

    #[test]
    fn time_is_interpolated_between_anchors_and_extrapolated_outside() {
        // The rate is two ticks a nanosecond at first, then four: three and a third on average.
        let clock = clock(&[(1000, 50 * S), (1000 + 20 * S, 60 * S), (1000 + 100 * S, 80 * S)]);
        let wall = |ticks| clock.wall(Ticks(ticks)).0;
        assert_eq!(wall(1000), 50 * S);
        assert_eq!(wall(1000 + 10 * S), 55 * S);
        assert_eq!(wall(1000 + 60 * S), 70 * S);
        assert_eq!(wall(1000 + 200 * S), 110 * S);
        assert_eq!(wall(0), 50 * S - 300);
        let mut reader = Arc::new(clock.clone()).reader();
        for ticks in [0, 999, 1000, 1001, 1000 + 20 * S, 1000 + 100 * S, u64::MAX, 1000 + 60 * S, 5] {
            assert_eq!(reader.wall(Ticks(ticks)), clock.wall(Ticks(ticks)), "{ticks}");
        }
        assert_eq!(clock.ticks(Wall(70 * S)).0, 1000 + 60 * S);
        // Without the middle anchor, 6 s would have passed there, not 10.
        assert_eq!(clock.uncertainty_ns(), 4 * S);
    }

    #[test]
    fn one_anchor_has_no_rate_unless_ticks_are_nanoseconds() {
        assert!(!clock(&[(5, 7)]).rate_is_known());
        assert!(!clock(&[]).rate_is_known());
        assert!(!clock(&[(5, 7), (6, 7)]).rate_is_known());
        let system = TickClock::of(ClockKind::System, [anchor(5, 70)]);
        assert!(system.rate_is_known());
        assert_eq!(system.wall(Ticks(15)), Wall(80));
        assert!(!TickClock::of(ClockKind::System, []).rate_is_known());
    }

    #[test]
    fn an_anchor_that_sets_the_wall_clock_back_is_skipped_and_counted() {
        let clock = clock(&[(0, 100 * S), (10 * S, 110 * S), (20 * S, 3 * S), (30 * S, 130 * S)]);
        assert_eq!(clock.wall(Ticks(20 * S)).0, 120 * S);
        assert_eq!(clock.uncertainty_ns(), 117 * S);
    }

    #[test]
    fn close_anchors_do_not_distort_the_clock() {
        let close = [(0, 100 * S), (9_999_999_000, 110 * S), (10 * S, 110 * S + 999)];
        assert_eq!(clock(&close).wall(Ticks(20 * S)).0, 120 * S + 1998);
        assert_eq!(clock(&close).anchors.len(), 2);
    }

    #[test]
    fn anchors_are_found_in_metadata_and_not_in_messages() {
        let line = b"00000000000000ff-00000009 # clock ticks=255 wall=2026-11-20T15:11:02.123456789Z\n";
        let message =
            b"00000000000000ff-00000009 : x # clock ticks=255 wall=2026-11-20T15:11:02.123456789Z\n";
        let found: Vec<_> = anchors_in(&[&message[..], line, message, line].concat()).collect();
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].ticks, Ticks(255));
        let far = [&line[..], &message.repeat(1000)].concat();
        assert_eq!(last_anchors(&far).len(), 1);
    }

    proptest! {
        #[test]
        fn any_anchors_give_a_monotonic_and_invertible_clock(
            anchors in prop::collection::vec((edgy(), edgy()), 0..12),
            mut ticks in prop::collection::vec(edgy(), 2..20),
        ) {
            let clock = clock(&anchors);
            ticks.sort_unstable();
            for pair in ticks.windows(2) {
                prop_assert!(clock.wall(Ticks(pair[0])) <= clock.wall(Ticks(pair[1])));
            }
            for wall in ticks {
                let first = clock.ticks(Wall(wall));
                if first.0 < u64::MAX {
                    prop_assert!(clock.wall(first).0 >= wall);
                }
                if first.0 > 0 {
                    prop_assert!(clock.wall(Ticks(first.0 - 1)).0 < wall);
                }
            }
        }

        #[test]
        fn any_bytes_are_searched_for_anchors_without_panic(bytes: Vec<u8>) {
            let _ = last_anchors(&[&bytes[..], b" # clock ticks=", &bytes].concat());
        }
    }

    fn edgy() -> impl Strategy<Value = u64> {
        prop_oneof![any::<u64>(), 0..5u64, (u64::MAX - 5)..=u64::MAX, (0..100u64).prop_map(|s| s * S)]
    }

    proptest! {
        #[test]
        fn nanoseconds_equal_the_result_of_a_division(ticks in 1..=u64::MAX, ns in 1..=u64::MAX, value: u64, shift in 0..64u32) {
            let (ticks, value) = ((ticks >> shift).max(1), value >> (shift / 2));
            for ns in [ns, (ns >> shift).max(1), ticks, ticks - 1 + u64::from(ticks == 1)] {
                let rate = Rate::between(anchor(0, 0), anchor(ticks, ns));
                prop_assert_eq!(rate.nanoseconds(value), Rate::scale(value, ns, ticks, false));
            }
        }
    }
}
