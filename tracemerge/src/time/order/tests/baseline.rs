//! The method of Trace Compass, for comparison: the convex hulls of each pair, the mean of its two steepest lines, and
//! pairs chained along the path with the fewest hops.

use std::collections::{BTreeMap, VecDeque};

type Point = (i64, i64);

/// Returns a positive number if `b` is to the left of the line from `p` to `a`.
fn cross(p: Point, a: Point, b: Point) -> i128 {
    let of = |x: i64, y: i64| i128::from(x) - i128::from(y);
    of(a.0, p.0) * of(b.1, p.1) - of(a.1, p.1) * of(b.0, p.0)
}

#[derive(Default)]
struct Hulls {
    /// The bounds by messages that the second machine received, and by messages that the first machine received.
    bounds: [Vec<Point>; 2],
    lines: [[Option<Point>; 2]; 2],
    result: Option<(f64, f64)>,
    failed: bool,
}

impl Hulls {
    fn add(&mut self, side: usize, point: Point) {
        let sign = if side == 0 { -1 } else { 1 };
        let line = self.lines[side];
        let is_bound = match line {
            [Some(first), Some(second)] => cross(point, first, second) * sign > 0,
            _ => true,
        };
        if is_bound {
            let bound = &mut self.bounds[side];
            while let [.., before, last] = bound[..] {
                if cross(point, before, last) * sign <= 0 {
                    break;
                }
                bound.pop();
            }
            bound.push(point);
            self.lines[side][1] = Some(point);
        }
        self.adjust(side, sign);
        let other = self.lines[1 - side];
        if other[1].is_some() && other[0].is_none_or(|first| !self.bounds[side].contains(&first)) {
            self.adjust(1 - side, -sign);
        }
        if is_bound {
            self.approximate();
        }
    }

    fn adjust(&mut self, side: usize, sign: i128) {
        let other = &self.bounds[1 - side];
        let line = &mut self.lines[side];
        let Some(end) = line[1] else { return };
        let mut at = line[0].and_then(|first| other.iter().position(|point| *point == first)).unwrap_or(0);
        let mut middle = None;
        while at + 1 < other.len() {
            let (point, next) = (other[at], other[at + 1]);
            middle = Some(point);
            if cross(point, next, end) * sign <= 0 {
                line[0] = middle;
                break;
            }
            if next.0 >= end.0 {
                line[0] = None;
                break;
            }
            at += 1;
        }
        if line[0].is_none() {
            line[0] = middle;
        }
        if line[0].is_some_and(|first| first.0 > end.0) {
            line[0] = None;
        }
    }

    fn approximate(&mut self) {
        let [most, least] = self.lines;
        if self.failed || most[0].is_none() && least[0].is_none() {
            return;
        }
        let slope = |line: [Option<Point>; 2]| match line {
            [Some(a), Some(b)] if a.0 != b.0 => (b.1 - a.1) as f64 / (b.0 - a.0) as f64,
            _ => 1.0,
        };
        let (steep, flat) = (slope(most), slope(least));
        if most[0].is_some() && least[0].is_some() && steep <= flat {
            self.failed = true;
            return;
        }
        let start = |line: [Option<Point>; 2], slope: f64| {
            line[1].map_or(0.0, |end| (end.1 - end.0) as f64 - (slope - 1.0) * end.0 as f64)
        };
        let alpha = f64::midpoint(steep, flat);
        self.result = Some((alpha, f64::midpoint(start(most, steep), start(least, flat))));
    }
}

/// Returns, for each machine, the line (slope and offset) by which its readings become readings of the first machine;
/// `None` for a machine that is not connected. `messages` has sender, receiver and both readings, in the order of
/// receiving.
pub(super) fn trace_compass(
    machines: usize,
    messages: &[(usize, usize, i64, i64)],
) -> Vec<Option<(f64, f64)>> {
    let mut pairs: BTreeMap<(usize, usize), Hulls> = BTreeMap::new();
    for &(from, to, sent, received) in messages {
        let pair = pairs.entry((from.min(to), from.max(to))).or_default();
        if from > to { pair.add(1, (received, sent)) } else { pair.add(0, (sent, received)) }
    }
    let mut links: BTreeMap<usize, Vec<(usize, f64, f64)>> = BTreeMap::new();
    for ((a, b), pair) in &pairs {
        if let Some((alpha, beta)) = pair.result {
            links.entry(*a).or_default().push((*b, 1.0 / alpha, -beta / alpha));
            links.entry(*b).or_default().push((*a, alpha, beta));
        }
    }
    let mut lines = vec![None; machines];
    lines[0] = Some((1.0, 0.0));
    let mut todo = VecDeque::from([0]);
    while let Some(machine) = todo.pop_front() {
        let Some((alpha, beta)) = lines[machine] else { continue };
        for &(next, of_next, offset) in links.get(&machine).into_iter().flatten() {
            if lines[next].is_none() {
                lines[next] = Some((alpha * of_next, alpha * offset + beta));
                todo.push_back(next);
            }
        }
    }
    lines
}
