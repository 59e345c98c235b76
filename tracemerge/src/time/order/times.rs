//! The times of readings, computed from the offsets at grid times.

use std::collections::BTreeMap;

use super::pairs::Epoch;
use super::solution::Knot;
use super::solve::{Grid, Link};
use super::steps::Jump;

/// The offsets and limits of all epochs at grid times, from which the times of all readings follow.
pub(super) struct Times<'a> {
    pub grid: &'a Grid,
    pub offsets: &'a [Vec<f64>],
    pub limits: &'a [[Vec<f64>; 2]],
    pub epochs: &'a [Epoch],
    pub root: usize,
    pub links: &'a [Link],
}

impl Times<'_> {
    /// Returns the knot at a reading of an epoch's clock: the reading with its time and its limits.
    fn knot(&self, epoch: usize, reading: i64) -> Knot {
        let nominal = self.epochs[epoch].nominal(reading);
        let (at, share) = self.grid.place(nominal * 1e-9);
        let next = (at + 1).min(self.grid.times - 1);
        let along = |from: f64, to: f64| {
            if from.is_finite() && to.is_finite() { from + (to - from) * share } else { f64::NAN }
        };
        let origin = self.epochs[self.root].origin;
        let time = |offset: f64| origin.saturating_add((nominal - offset).floor() as i64);
        let offset = along(self.offsets[at][epoch], self.offsets[next][epoch]);
        let least = along(self.limits[at][0][epoch], self.limits[next][0][epoch]);
        let most = along(self.limits[at][1][epoch], self.limits[next][1][epoch]);
        // The time axes of pairs differ by the offsets.
        let axes = self.links.first().map_or(0.0, |link| link.rho) * 1e-9 * offset.abs() * 2.0;
        let earliest = if most.is_nan() { i64::MIN } else { time(most + axes) };
        let latest = if least.is_nan() { i64::MAX } else { time(least - axes).saturating_add(1) };
        Knot { reading, time: time(offset), limits: (earliest, latest) }
    }

    /// Returns the knots of a clock, which are readings with their times, in the order of readings.
    pub(super) fn knots(&self, clock: u32, jumps: &[Jump]) -> Vec<Knot> {
        let mut own: Vec<usize> =
            (0..self.epochs.len()).filter(|epoch| self.epochs[*epoch].clock == Some(clock)).collect();
        own.sort_by_key(|epoch| self.epochs[*epoch].from);
        let mut knots: BTreeMap<i64, Knot> = BTreeMap::new();
        for (place, &epoch) in own.iter().enumerate() {
            let from = self.epochs[epoch].from;
            let until = own.get(place + 1).map_or(i64::MAX, |next| self.epochs[*next].from.saturating_sub(1));
            let line = &self.epochs[epoch];
            for at in 0..self.grid.times {
                let reading = (self.grid.time(at) * 1e9 - line.shift) / line.rate;
                let reading = line.origin.saturating_add(reading.round() as i64);
                if (from..=until).contains(&reading) {
                    knots.insert(reading, self.knot(epoch, reading));
                }
            }
            for reading in [from, until]
                .into_iter()
                .filter(|reading| own.len() > 1 && !matches!(*reading, i64::MIN | i64::MAX))
            {
                knots.insert(reading, self.knot(epoch, reading));
            }
        }
        // Near a jump a reading may belong to either epoch: its time is between those of the two sides.
        for jump in jumps.iter().filter(|jump| jump.clock == clock) {
            let (before, behind) = jump.between;
            let near =
                |reading: i64| own.iter().rev().find(|epoch| self.epochs[**epoch].from <= reading).copied();
            let (Some(old), Some(new)) = (near(before), near(behind)) else { continue };
            let inner: Vec<i64> = knots.range(before..=behind).map(|(reading, _)| *reading).collect();
            inner.iter().for_each(|reading| _ = knots.remove(reading));
            for (reading, epoch) in [(before, old), (behind, new)] {
                knots.insert(reading, self.knot(epoch, reading));
            }
            if behind.saturating_sub(before) < 4 {
                continue;
            }
            for (reading, epoch) in [(before.saturating_add(1), old), (behind.saturating_sub(1), new)] {
                let (one, other) = (self.knot(old, reading), self.knot(new, reading));
                let limits = (one.limits.0.min(other.limits.0), one.limits.1.max(other.limits.1));
                knots.insert(reading, Knot { limits, ..self.knot(epoch, reading) });
            }
        }
        let mut latest = i64::MIN;
        let mut all: Vec<Knot> = knots.into_values().collect();
        for knot in &mut all {
            knot.time = knot.time.max(latest);
            latest = knot.time;
        }
        all
    }
}
