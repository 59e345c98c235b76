//! The points that limit the offset of two clocks, and the limits that follow from them at any time.
//!
//! Let `theta(s)` be the offset of two clocks at the time `s`, and let its second derivative be at most `sigma`. If a
//! point limits `theta(s) <= u`, then `theta(s) + sigma s²/2 <= u + sigma s²/2 = v`, and the left side is convex. Of
//! all points `(s, v)` only their lower convex hull matters, for all times at once. Moving the origin of time, or
//! changing the line of a clock, adds a line to `v`, which changes no hull.
//!
//! Limits from below are limits of `-theta` from above, so one type serves both.

/// A point that limits an offset from above.
#[derive(Clone, Copy, Debug)]
pub(super) struct HullPoint {
    /// The time of the point, in seconds.
    pub s: f64,
    /// The upper bound for the offset, in nanoseconds.
    pub u: f64,
    /// The bound plus `sigma s²/2`.
    lifted: f64,
    /// The number of points near this one that limit the offset almost as much: a wrong match has no such companions.
    pub companions: u32,
    /// The id of the message.
    pub id: u32,
}

/// The number of points before a time, and the number after it, that determine the limit at that time, together with as
/// many points of the opposite direction.
const NEAR: usize = 6;

/// The lower convex hull of points lifted by `sigma s²/2`, in the order of time.
#[derive(Clone, Debug, Default)]
pub(super) struct Hull {
    points: Vec<HullPoint>,
}

impl Hull {
    /// Adds a point. Leaves the point out if it is earlier than the last point, or is at the same time and limits the
    /// offset less. Leaving out a point is always allowed: the limits are then only less exact.
    #[inline]
    pub(super) fn push(&mut self, sigma: f64, s: f64, u: f64, id: u32) {
        let lifted = u + sigma * s * s / 2.0;
        if self.points.last().is_some_and(|last| last.s >= s) {
            match self.points.last() {
                Some(last) if last.s == s && lifted < last.lifted => _ = self.points.pop(),
                _ => return,
            }
        }
        while let [.., before, last] = &self.points[..] {
            let is_above = (last.lifted - before.lifted) * (s - before.s)
                >= (lifted - before.lifted) * (last.s - before.s);
            if !is_above {
                break;
            }
            self.points.pop();
        }
        self.points.push(HullPoint { s, u, lifted, companions: u32::MAX, id });
    }

    /// Returns the points on the hull, in the order of time.
    pub(super) fn points(&self) -> &[HullPoint] {
        &self.points
    }

    /// Returns the points on the hull whose time is `from` or later, in the order of time.
    pub(super) fn since(&mut self, from: f64) -> &mut [HullPoint] {
        let start = self.points.partition_point(|point| point.s < from);
        &mut self.points[start..]
    }

    /// Removes the point with the index `at`. Points that were left out because of it do not come back, so the limits
    /// may be looser than necessary.
    pub(super) fn remove(&mut self, at: usize) -> HullPoint {
        self.points.remove(at)
    }

    /// Returns the number of the points on the hull before the time `t`.
    pub(super) fn before(&self, t: f64) -> usize {
        self.points.partition_point(|point| point.s < t)
    }

    /// Returns the largest offset at the time `t`, in nanoseconds, that this hull and the hull of the opposite
    /// direction allow; infinity if nothing limits it. `rho` is the greatest speed at which the offset changes where
    /// the points do not limit it.
    pub(super) fn largest(&self, opposite: &Hull, t: f64, sigma: f64, rho: f64) -> f64 {
        let behind = self.before(t);
        let limit = |point: &HullPoint| {
            let x = point.s - t;
            (x, point.u + sigma * x * x / 2.0)
        };
        let mut best = f64::INFINITY;
        if let (Some(left), Some(right)) =
            (behind.checked_sub(1).map(|at| &self.points[at]), self.points.get(behind))
        {
            let ((x1, u1), (x2, u2)) = (limit(left), limit(right));
            best = (u1 * x2 - u2 * x1) / (x2 - x1);
        }
        let start = behind.saturating_sub(NEAR);
        let near = &self.points[start..self.points.len().min(behind + NEAR)];
        let of_opposite = opposite.before(t);
        let (earlier, later) = opposite.points.split_at(of_opposite);
        let earlier = &earlier[earlier.len().saturating_sub(NEAR)..];
        let later = &later[..later.len().min(NEAR)];
        for point in near {
            let (x, u) = limit(point);
            best = best.min(u + rho * x.abs());
            // A limit of the opposite direction further away on the same side keeps the offset from turning off.
            for far in if x < 0.0 { earlier } else { later } {
                let (y, minus_l) = limit(far);
                if y.abs() > x.abs() {
                    best = best.min(u + (u + minus_l) * x / (y - x));
                }
            }
        }
        best
    }
}
