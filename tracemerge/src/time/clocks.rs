//! Ticks and the wall clock: what time of day a tick was, and back.
//!
//! A trace says in several places what both clocks showed at one moment, an *anchor*: in each `# run` line, every
//! ten seconds of tracing in a `# clock` line, and in another one before each `# end`. Between two anchors time is
//! taken to run evenly: so the drift of one clock against the other is corrected where it was measured. Before the
//! first anchor and behind the last it runs at the rate between these two.
//!
//! All processes of one boot have the same ticks, so they share one clock, and the anchors of one help the others.
//! Anchors are taken for hostile: any of them give a clock that never goes back and never overflows.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use memchr::memmem;
use trace_format::escape::is_harmless;
use trace_format::line::{Kind, Line, Ticks};
use trace_format::meta::{ClockKind, Meta, Run};
use trace_format::wall::Wall;
use trace_store::inspect;

use crate::file::lines::without_feed;

/// Anchors nearer to each other than this are one: how exactly they were read would count for more than drift.
const APART_NS: u64 = 1_000_000_000;
/// What a tick is worth where nobody says: one nanosecond.
const NOMINAL: Rate = Rate { ticks: 1, ns: 1 };
/// A file's last anchor is looked for in so many last bytes, then in sixteen times as many, and again.
const TAILS: [usize; 3] = [16 << 10, 256 << 10, 4 << 20];
/// How a `# clock` line goes on behind its thread id.
const CLOCK: &[u8] = b" # clock ticks=";

/// Ticks and the wall clock at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Anchor {
    /// The counter.
    pub ticks: Ticks,
    /// The wall clock.
    pub wall: Wall,
}

impl Anchor {
    /// What a `# run` or `# clock` line says; `None` for any other line.
    #[must_use]
    pub fn of_line(line: &[u8]) -> Option<Anchor> {
        let line = Line::parse(without_feed(line)).ok()?;
        if line.kind != Kind::Meta || !is_harmless(line.payload) {
            return None;
        }
        match Meta::parse(line.payload)? {
            Meta::Run(run) => Some(Anchor { ticks: run.ticks, wall: run.wall }),
            Meta::Clock { ticks, wall } => Some(Anchor { ticks, wall }),
            _ => None,
        }
    }
}

/// The anchors of all `# clock` lines in `bytes`, in their order. Looks at each byte once, at the speed of a search.
pub fn anchors_in(bytes: &[u8]) -> impl Iterator<Item = Anchor> {
    memmem::find_iter(bytes, CLOCK).filter_map(|at| {
        let start = memchr::memrchr2(b'\n', 0, &bytes[..at]).map_or(0, |feed| feed + 1);
        let end = memchr::memchr2(b'\n', 0, &bytes[at..]).map_or(bytes.len(), |feed| at + feed);
        Anchor::of_line(&bytes[start..end])
    })
}

/// The anchors in the last bytes of a file: at least the last one, if it is among its last 4 MiB.
#[must_use]
pub fn last_anchors(bytes: &[u8]) -> Vec<Anchor> {
    for tail in TAILS {
        let start = bytes.len().saturating_sub(tail);
        let found: Vec<Anchor> = anchors_in(&bytes[start..]).collect();
        if !found.is_empty() || start == 0 {
            return found;
        }
    }
    Vec::new()
}

/// The rate of a counter: a number of ticks in a number of nanoseconds; neither is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rate {
    ticks: u64,
    ns: u64,
}

impl Rate {
    /// The rate between two anchors, the second of which is later by both clocks.
    fn between(from: Anchor, to: Anchor) -> Rate {
        Rate { ticks: to.ticks.0 - from.ticks.0, ns: to.wall.0 - from.wall.0 }
    }

    /// `value * numerator / denominator`, rounded as asked, at most `u64::MAX`. The product of two 64-bit numbers fits.
    fn scale(value: u64, numerator: u64, denominator: u64, up: bool) -> u64 {
        let (product, denominator) = (u128::from(value) * u128::from(numerator), u128::from(denominator));
        let quotient = if up { product.div_ceil(denominator) } else { product / denominator };
        u64::try_from(quotient).unwrap_or(u64::MAX)
    }

    fn wall(self, from: Anchor, ticks: u64) -> u64 {
        match ticks.checked_sub(from.ticks.0) {
            Some(after) => from.wall.0.saturating_add(Rate::scale(after, self.ns, self.ticks, false)),
            None => from.wall.0.saturating_sub(Rate::scale(from.ticks.0 - ticks, self.ns, self.ticks, true)),
        }
    }

    /// The first ticks that are not before `wall`.
    fn ticks(self, from: Anchor, wall: u64) -> u64 {
        match wall.checked_sub(from.wall.0) {
            Some(after) => from.ticks.0.saturating_add(Rate::scale(after, self.ticks, self.ns, true)),
            None => from.ticks.0.saturating_sub(Rate::scale(from.wall.0 - wall, self.ticks, self.ns, false)),
        }
    }
}

/// The relation of ticks and wall clock in one boot. Exact to a nanosecond in its arithmetic; how true it is,
/// [`Clock::uncertainty_ns`] says.
#[derive(Clone, Debug)]
pub struct Clock {
    /// At least one, ascending by both clocks.
    anchors: Vec<Anchor>,
    rate: Rate,
    rate_is_known: bool,
    uncertainty_ns: u64,
}

impl Clock {
    /// The clock that goes through `anchors`, in any order, of runs whose ticks are of `kind`. An anchor by which the
    /// wall clock went back is left out, and counts in the uncertainty.
    #[must_use]
    pub fn of(kind: ClockKind, anchors: impl IntoIterator<Item = Anchor>) -> Clock {
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
        let mut clock = Clock { anchors, rate, rate_is_known, uncertainty_ns: 0 };
        clock.uncertainty_ns = clock.largest_error(&all);
        clock
    }

    /// The clock of `run` alone, of whose `# clock` lines `more` has some or all.
    #[must_use]
    pub fn of_run(run: &Run, more: impl IntoIterator<Item = Anchor>) -> Clock {
        let own = Anchor { ticks: run.ticks, wall: run.wall };
        let clock = Clock::of(run.clock, more.into_iter().chain([own]));
        if clock.rate_is_known {
            return clock;
        }
        // A short run that was killed has one anchor. While the machine is up, the present is another one.
        match inspect::now_in(&run.boot) {
            Some((ticks, wall)) => Clock::of(run.clock, [own, Anchor { ticks, wall }]),
            None => clock,
        }
    }

    /// The time of day at `ticks`: the nanosecond in which it lies.
    #[must_use]
    pub fn wall(&self, ticks: Ticks) -> Wall {
        let (from, rate) = self.segment(self.anchors.partition_point(|anchor| anchor.ticks <= ticks));
        Wall(rate.wall(from, ticks.0))
    }

    /// The first ticks that are not before `wall`.
    #[must_use]
    pub fn ticks(&self, wall: Wall) -> Ticks {
        // Nothing is before the epoch, not even ticks from which the rate leads there.
        if wall == Wall(0) {
            return Ticks(0);
        }
        let (from, rate) = self.segment(self.anchors.partition_point(|anchor| anchor.wall < wall));
        Ticks(rate.ticks(from, wall.0))
    }

    /// Whether the rate was measured. If not, a tick is taken for a nanosecond, and only the start of the run is right.
    #[must_use]
    pub fn rate_is_known(&self) -> bool {
        self.rate_is_known
    }

    /// How many ticks a second has, over all.
    #[must_use]
    pub fn ticks_per_second(&self) -> u64 {
        Rate::scale(1_000_000_000, self.rate.ticks, self.rate.ns, false)
    }

    /// How far the anchors stray, in nanoseconds: the largest error that this clock would make at one of them if it
    /// did not know it. Says nothing of how wrong the machine's wall clock itself was.
    #[must_use]
    pub fn uncertainty_ns(&self) -> u64 {
        self.uncertainty_ns
    }

    /// The anchor and the rate that rule where `behind` of the anchors are behind.
    fn segment(&self, behind: usize) -> (Anchor, Rate) {
        match behind.checked_sub(1).map(|at| &self.anchors[at..]) {
            None => (self.anchors[0], self.rate),
            Some([from, to, ..]) => (*from, Rate::between(*from, *to)),
            Some(rest) => (rest.first().copied().unwrap_or(self.anchors[0]), self.rate),
        }
    }

    fn largest_error(&self, all: &[Anchor]) -> u64 {
        let left_out = all.iter().map(|anchor| self.wall(anchor.ticks).0.abs_diff(anchor.wall.0));
        let between = self.anchors.windows(3).map(|three| {
            Rate::between(three[0], three[2]).wall(three[0], three[1].ticks.0).abs_diff(three[1].wall.0)
        });
        left_out.chain(between).max().unwrap_or(0)
    }
}

/// As many of `anchors`, which ascend by ticks, as ascend by the wall clock as well: the longest such selection.
fn ascending(anchors: &[Anchor]) -> Vec<Anchor> {
    // ends[n] is where the selection of n + 1 anchors ends whose last wall time is the smallest.
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

/// The first, the last, and of those between what is far enough from its neighbours.
fn thinned(anchors: &[Anchor]) -> Vec<Anchor> {
    let [first, between @ .., last] = anchors else { return anchors.to_vec() };
    let mut kept = vec![*first];
    for anchor in between {
        let near = |a: Wall, b: Wall| b.0 - a.0 < APART_NS;
        if !kept.last().is_some_and(|kept| near(kept.wall, anchor.wall)) && !near(anchor.wall, last.wall) {
            kept.push(*anchor);
        }
    }
    kept.push(*last);
    kept
}

/// The clocks of all runs of a merge: one for each boot and kind of ticks.
#[derive(Debug, Default)]
pub struct Clocks(BTreeMap<(Vec<u8>, bool), (Run, Arc<Clock>)>);

impl Clocks {
    /// Reads the anchors of files that are of these runs and have these bytes: the run's own, and the last of each
    /// file; of the `# clock` lines between only what `more` finds in the bytes.
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
            let clock = Clock::of_run(&run, anchors);
            (run, Arc::new(clock))
        };
        Clocks(anchors.into_iter().map(|(key, found)| (key, clock(found))).collect())
    }

    /// Has the clocks go through further anchors of these runs.
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
                *clock = Arc::new(Clock::of(run.clock, clock.anchors.iter().copied().chain(anchors)));
            }
        }
    }

    /// The clock of `run`; `None` where no file was of its boot.
    #[must_use]
    pub fn of(&self, run: &Run) -> Option<&Arc<Clock>> {
        self.0.get(&key(run)).map(|(_, clock)| clock)
    }

    /// A run of each boot, and its clock.
    pub fn each(&self) -> impl Iterator<Item = (&Run, &Clock)> {
        self.0.values().map(|(run, clock)| (run, &**clock))
    }
}

fn key(run: &Run) -> (Vec<u8>, bool) {
    (run.boot.clone(), run.clock == ClockKind::System)
}

/// A time of the system's clock, as traces have it.
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

    fn clock(anchors: &[(u64, u64)]) -> Clock {
        Clock::of(ClockKind::Ordered, anchors.iter().map(|&(ticks, wall)| anchor(ticks, wall)))
    }

    const S: u64 = 1_000_000_000;

    #[test]
    fn time_runs_evenly_between_anchors_and_at_the_common_rate_outside() {
        // Two ticks a nanosecond, then four: three and a third over all.
        let clock = clock(&[(1000, 50 * S), (1000 + 20 * S, 60 * S), (1000 + 100 * S, 80 * S)]);
        let wall = |ticks| clock.wall(Ticks(ticks)).0;
        assert_eq!(wall(1000), 50 * S);
        assert_eq!(wall(1000 + 10 * S), 55 * S);
        assert_eq!(wall(1000 + 60 * S), 70 * S);
        assert_eq!(wall(1000 + 200 * S), 110 * S);
        assert_eq!(wall(0), 50 * S - 300);
        assert_eq!(clock.ticks(Wall(70 * S)).0, 1000 + 60 * S);
        // Without the middle anchor, 6 s would have passed there, not 10.
        assert_eq!(clock.uncertainty_ns(), 4 * S);
    }

    #[test]
    fn one_anchor_has_no_rate_unless_ticks_are_nanoseconds() {
        assert!(!clock(&[(5, 7)]).rate_is_known());
        assert!(!clock(&[]).rate_is_known());
        assert!(!clock(&[(5, 7), (6, 7)]).rate_is_known());
        let system = Clock::of(ClockKind::System, [anchor(5, 70)]);
        assert!(system.rate_is_known());
        assert_eq!(system.wall(Ticks(15)), Wall(80));
        assert!(!Clock::of(ClockKind::System, []).rate_is_known());
    }

    #[test]
    fn an_anchor_by_which_the_wall_clock_goes_back_is_left_out_and_counted() {
        let clock = clock(&[(0, 100 * S), (10 * S, 110 * S), (20 * S, 3 * S), (30 * S, 130 * S)]);
        assert_eq!(clock.wall(Ticks(20 * S)).0, 120 * S);
        assert_eq!(clock.uncertainty_ns(), 117 * S);
    }

    #[test]
    fn anchors_that_are_close_do_not_bend_the_clock() {
        let close = [(0, 100 * S), (9_999_999_000, 110 * S), (10 * S, 110 * S + 999)];
        assert_eq!(clock(&close).wall(Ticks(20 * S)).0, 120 * S + 1998);
        assert_eq!(clock(&close).anchors.len(), 2);
    }

    #[test]
    fn anchors_are_found_in_lines_and_not_in_messages() {
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
        fn any_anchors_give_a_clock_that_goes_forward_and_back_again(
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
        fn any_bytes_are_searched_without_harm(bytes: Vec<u8>) {
            let _ = last_anchors(&[&bytes[..], b" # clock ticks=", &bytes].concat());
        }
    }

    fn edgy() -> impl Strategy<Value = u64> {
        prop_oneof![any::<u64>(), 0..5u64, (u64::MAX - 5)..=u64::MAX, (0..100u64).prop_map(|s| s * S)]
    }
}
