//! Filters the points of a pair of clocks, as a stream. A point is the bound that one message gives for the offset of
//! the two clocks. Points of wrong matches are reported; the points with the tightest limits are left out, because they
//! may be wrong matches; the other points go to the hulls. The filter needs memory for two blocks of points and for the
//! hulls.

use super::Assumptions;
use super::hull::Hull;

/// The usual duration of a block, the points that are judged together: the shortest and the longest, in seconds.
const BLOCK_SECONDS: (f64, f64) = (20.0, 300.0);
/// The duration, in seconds, after which a block ends even if it has only half of the points that a block usually has
/// at least.
const SPARSE_SECONDS: f64 = 60.0;
/// The number of points from which on a block may end, and the number at which it ends in any case.
const BLOCK_POINTS: (usize, usize) = (48, 800);
/// The greatest distance, in nanoseconds, between the bounds of two points that count as companions: points that
/// support each other.
const NEAR_NS: f64 = 60_000.0;
/// The greatest accepted probability that a block has more wrong matches than the number of points that are left out of
/// it.
const RISK: f64 = 1e-5;

/// The direction of a message between two clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// A message from the first clock to the second: it gives an upper bound for the offset between them.
    Forth,
    /// A message from the second clock to the first: it gives a lower bound for the offset between them.
    Back,
}

/// A point: the bound that one message gives for the offset of two clocks at one time.
#[derive(Clone, Copy, Debug)]
struct Point {
    s: f64,
    /// An upper bound, in nanoseconds: of the offset for a message in the direction `Forth`, of the negated offset for
    /// one in the direction [`Direction::Back`].
    u: f64,
    id: u32,
}

/// The points of one period of time, which are judged together, by the direction of their messages.
#[derive(Clone, Debug, Default)]
struct Block {
    points: [Vec<Point>; 2],
    /// The time of the first point, in seconds; `until` is the time of the last point.
    from: f64,
    until: f64,
}

impl Block {
    fn len(&self) -> usize {
        self.points[0].len() + self.points[1].len()
    }

    fn clear(&mut self) {
        self.points.iter_mut().for_each(Vec::clear);
    }
}

/// The stream of the points of two clocks, in the order of time. The points that count become the hulls, from which the
/// limits of the offset follow.
#[derive(Clone, Debug)]
pub struct PairStream {
    assumptions: Assumptions,
    /// Whether every point counts, because the points do not come from matched messages, which may be wrong.
    trusts_all: bool,
    current: Block,
    pending: Block,
    /// The middles of two blocks: of the block before the pending one, and of the pending one. The middle is the time
    /// halfway through the block, in seconds, and the estimated offset of the two clocks at that time, in nanoseconds;
    /// `None` if the block has no points.
    middles: [Option<(f64, f64)>; 2],
    /// Half of the distance between the typical upper and the typical lower bound of the offset; `None` as long as no
    /// block has had points of both directions.
    half_gap: Option<f64>,
    /// The hulls of the points that count, one for each direction.
    pub(super) hulls: [Hull; 2],
    /// The ids of the messages that contradict messages of the opposite direction.
    pub(super) wrong: Vec<u32>,
    /// The messages that claim far less delay than all others: direction, time, bound and id.
    pub(super) unsupported: Vec<(Direction, f64, f64, u32)>,
    values: Vec<f64>,
    limits: [Vec<f64>; 2],
}

impl PairStream {
    /// Makes a stream without points. With `trusts_all`, the stream considers no point wrong.
    #[must_use]
    pub fn new(assumptions: Assumptions, trusts_all: bool) -> PairStream {
        PairStream {
            assumptions,
            trusts_all,
            current: Block::default(),
            pending: Block::default(),
            middles: [None; 2],
            half_gap: None,
            hulls: Default::default(),
            wrong: Vec::new(),
            unsupported: Vec::new(),
            values: Vec::new(),
            limits: Default::default(),
        }
    }

    /// Adds the point of the message `id` at the time `s`, in seconds. `offset` is the reading of the second clock
    /// minus the reading of the first, in nanoseconds.
    #[inline]
    pub fn push(&mut self, direction: Direction, s: f64, offset: f64, id: u32) {
        let len = self.current.len();
        if len == 0 {
            (self.current.from, self.current.until) = (s, s);
        } else {
            let lasts = s - self.current.from;
            let is_full = len >= BLOCK_POINTS.1
                || len >= BLOCK_POINTS.0 && lasts >= BLOCK_SECONDS.0
                || len >= BLOCK_POINTS.0 / 2 && lasts >= SPARSE_SECONDS
                || lasts >= BLOCK_SECONDS.1;
            if is_full {
                self.end_block();
                (self.current.from, self.current.until) = (s, s);
            }
        }
        self.current.until = s;
        let u = if direction == Direction::Forth { offset } else { -offset };
        self.current.points[direction as usize].push(Point { s, u, id });
    }

    /// Ends the stream: judges the points that are not judged yet, and passes those that count to the hulls.
    pub fn finish(&mut self) {
        if self.current.len() >= BLOCK_POINTS.0 / 2 {
            self.end_block();
        } else if self.current.len() > 0 {
            // Few points are judged together with those before them.
            if self.pending.len() == 0 {
                self.pending.from = self.current.from;
            }
            self.pending.until = self.current.until;
            for direction in 0..2 {
                let (pending, current) = (&mut self.pending, &mut self.current);
                pending.points[direction].append(&mut current.points[direction]);
            }
            self.middles[1] = self.middle_of_pending();
        }
        self.pass_on(None);
    }

    /// Returns the lower and the upper limit of the offset at the time `t`, in nanoseconds; a limit is infinite if
    /// nothing limits that side. `rate` is the greatest speed at which the offset changes, in nanoseconds per second,
    /// where there are no points on both sides to limit it.
    #[must_use]
    pub fn limits(&self, t: f64, rate: f64) -> (f64, f64) {
        let [above, below] = &self.hulls;
        let sigma = self.assumptions.rate_change;
        (-below.largest(above, t, sigma, rate), above.largest(below, t, sigma, rate))
    }

    /// Returns the number of points that are kept in memory: the points on the hulls, and those of two blocks.
    #[must_use]
    pub fn kept_points(&self) -> usize {
        self.hulls.iter().map(|hull| hull.points().len()).sum::<usize>()
            + self.current.len()
            + self.pending.len()
    }

    /// Judges the pending block, because its neighbours are known now, and passes the block's points that count to the
    /// hulls. The current block becomes the pending one.
    fn end_block(&mut self) {
        std::mem::swap(&mut self.current, &mut self.pending);
        // The former pending block is in `current` now.
        let next = self.middle_of_pending();
        std::mem::swap(&mut self.current, &mut self.pending);
        self.pass_on(next);
        std::mem::swap(&mut self.current, &mut self.pending);
        self.middles = [self.middles[1], next];
    }

    /// Returns the middle of the pending block: its time, in seconds, and the estimated offset there, the mean of the
    /// median upper bound and the median lower bound.
    fn middle_of_pending(&mut self) -> Option<(f64, f64)> {
        let medians: [Option<f64>; 2] = [0, 1].map(|direction| {
            self.values.clear();
            self.values.extend(self.pending.points[direction].iter().map(|point| point.u));
            median(&mut self.values)
        });
        let offset = match medians {
            [Some(above), Some(minus_below)] => {
                self.half_gap = Some(f64::midpoint(above, minus_below));
                f64::midpoint(above, -minus_below)
            }
            [Some(above), None] => above - self.half_gap.unwrap_or(0.0),
            [None, Some(minus_below)] => self.half_gap.unwrap_or(0.0) - minus_below,
            [None, None] => return None,
        };
        Some((f64::midpoint(self.pending.from, self.pending.until), offset))
    }

    /// Judges the points of the pending block, and passes those that count to the hulls. `next` is the middle of the
    /// block that follows the pending one.
    fn pass_on(&mut self, next: Option<(f64, f64)>) {
        let mut block = std::mem::take(&mut self.pending);
        for points in &mut block.points {
            if !points.is_sorted_by(|a, b| a.s <= b.s) {
                points.sort_by(|a, b| a.s.total_cmp(&b.s));
            }
        }
        let curve = Curve::through(self.middles[0], self.middles[1], next);
        for (direction, sign) in [1.0, -1.0].into_iter().enumerate() {
            let limits = &mut self.limits[direction];
            limits.clear();
            limits.extend(block.points[direction].iter().map(|point| point.u - sign * curve.at(point.s)));
        }
        let least = if self.trusts_all { [f64::NEG_INFINITY; 2] } else { self.contradictions() };
        for direction in [Direction::Forth, Direction::Back] {
            self.pass_on_direction(&block, direction, least[direction as usize]);
        }
        block.clear();
        self.pending = block;
    }

    /// Returns, for each direction, a threshold: matched messages of the block whose bounds are lower are wrong. The
    /// thresholds are chosen so that the other messages allow a common offset, and as few messages as possible are
    /// wrong.
    fn contradictions(&mut self) -> [f64; 2] {
        let least = |limits: &[f64]| limits.iter().copied().fold(f64::INFINITY, f64::min);
        let [above, minus_below] = &self.limits;
        if above.is_empty() || minus_below.is_empty() || least(above) >= -least(minus_below) {
            return [f64::NEG_INFINITY; 2];
        }
        let mut above = above.clone();
        let mut below: Vec<f64> = minus_below.iter().map(|limit| -limit).collect();
        above.sort_by(f64::total_cmp);
        below.sort_by(f64::total_cmp);
        let mut all: Vec<f64> = above.iter().chain(&below).copied().collect();
        all.sort_by(f64::total_cmp);
        let (mut best, mut chosen) = ((usize::MAX, 0.0), 0.0);
        for two in all.windows(2) {
            let middle = f64::midpoint(two[0], two[1]);
            let cost = above.partition_point(|limit| *limit < middle) + below.len()
                - below.partition_point(|limit| *limit <= middle);
            let gap = two[1] - two[0];
            if cost < best.0 || cost == best.0 && gap > best.1 {
                (best, chosen) = ((cost, gap), middle);
            }
        }
        [chosen, -chosen]
    }

    fn pass_on_direction(&mut self, block: &Block, direction: Direction, least: f64) {
        let (points, limits) = (&block.points[direction as usize], &self.limits[direction as usize]);
        let Some(first) = points.first() else { return };
        let (mut edge, mut trusted) = (f64::NEG_INFINITY, f64::NEG_INFINITY);
        if !self.trusts_all && points.len() > 1 {
            let values = &mut self.values;
            values.clear();
            values.extend_from_slice(limits);
            let len = values.len();
            if len >= 8 {
                let (below, middle, _) = values.select_nth_unstable_by(len / 2, f64::total_cmp);
                let middle = *middle;
                let at = (len / 20).max(1).min(below.len() - 1);
                let low = *below.select_nth_unstable_by(at, f64::total_cmp).1;
                edge = low - (middle - low);
            }
            values.retain(|limit| *limit >= edge && *limit >= least);
            let trim = not_trusted(values.len(), self.assumptions.wrong_share);
            if (1..values.len()).contains(&trim) {
                trusted = *values.select_nth_unstable_by(trim, f64::total_cmp).1;
            }
        }
        let hull = &mut self.hulls[direction as usize];
        for (point, limit) in points.iter().zip(limits) {
            if *limit < least {
                self.wrong.push(point.id);
            } else if *limit < edge {
                self.unsupported.push((direction, point.s, point.u, point.id));
            } else if *limit >= trusted {
                hull.push(self.assumptions.rate_change, point.s, point.u, point.id);
            }
        }
        let curve = |at: usize| limits[at];
        for kept in hull.since(first.s) {
            let at = points.partition_point(|point| point.s < kept.s);
            let Some(own) = points.get(at) else { continue };
            let own = curve(at) + (kept.u - own.u);
            kept.companions = limits.iter().filter(|limit| **limit - own < NEAR_NS).count() as u32;
        }
    }
}

/// Returns how many of `points` points are left out, namely those with the lowest bounds: so many that a greater number
/// of wrong matches among the points is very unlikely. `share` is the assumed share of wrong matches.
fn not_trusted(points: usize, share: f64) -> usize {
    // The probabilities of so many wrong matches, summed up from none on.
    let mut probability = (1.0 - share).powi(i32::try_from(points).unwrap_or(i32::MAX));
    let mut rest = 1.0 - probability;
    let mut wrong = 0;
    while rest > RISK && wrong < points {
        probability *= (points - wrong) as f64 / (wrong + 1) as f64 * share / (1.0 - share);
        rest -= probability;
        wrong += 1;
    }
    wrong.max(1).min(points)
}

/// An estimate of the offset over time: two straight lines through the middles of three successive blocks.
#[derive(Clone, Copy, Debug)]
struct Curve {
    at: (f64, f64),
    slopes: [f64; 2],
}

impl Curve {
    fn through(before: Option<(f64, f64)>, at: Option<(f64, f64)>, next: Option<(f64, f64)>) -> Curve {
        let Some(at) = at else { return Curve { at: (0.0, 0.0), slopes: [0.0; 2] } };
        let slope = |other: Option<(f64, f64)>| {
            other.filter(|other| other.0 != at.0).map(|other| (other.1 - at.1) / (other.0 - at.0))
        };
        let (before, next) = (slope(before), slope(next));
        let slopes = [before.or(next).unwrap_or(0.0), next.or(before).unwrap_or(0.0)];
        Curve { at, slopes }
    }

    #[inline]
    fn at(&self, s: f64) -> f64 {
        let x = s - self.at.0;
        self.at.1 + x * self.slopes[usize::from(x > 0.0)]
    }
}

/// Returns the median of `values`, whose order it changes; `None` if there are none.
pub(super) fn median(values: &mut [f64]) -> Option<f64> {
    let middle = values.len() / 2;
    (!values.is_empty()).then(|| *values.select_nth_unstable_by(middle, f64::total_cmp).1)
}
