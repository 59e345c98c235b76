//! A histogram of durations, such as the times from each message to the next. Each bucket of the histogram, its
//! *class*, is less than one percent wide.

use std::ops::RangeInclusive;

/// The number of bits that determine the class of a distance, besides its highest set bit. They follow the highest set
/// bit; all lower bits are ignored.
const BITS: u32 = 7;
/// The number of classes in a row of the histogram.
const ROW: usize = 1 << BITS;

/// A histogram of distances between two times, such as durations in nanoseconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Latencies {
    /// The number of distances in each class. The first row is for distances below 128; each further row is for
    /// distances that are one bit longer. An element holds only the lower 32 bits of its number, so that more elements
    /// fit into a processor's cache.
    rows: Vec<Option<Box<[u32; ROW]>>>,
    /// The overflows of elements of `rows`: for each overflow of the lower 32 bits, the row and the class.
    carries: Vec<(usize, usize)>,
    count: u64,
    least: u64,
    most: u64,
}

impl Latencies {
    /// Adds the distance `ticks`.
    #[inline]
    pub(crate) fn push(&mut self, ticks: u64) {
        let (row, class) = place(ticks);
        let count = &mut self.row(row)[class];
        *count = count.wrapping_add(1);
        if *count == 0 {
            self.carries.push((row, class));
        }
        self.include(1, ticks, ticks);
    }

    /// Adds the distances of another histogram.
    pub(crate) fn add(&mut self, other: &Latencies) {
        for (number, others) in other.rows.iter().enumerate() {
            let Some(others) = others else { continue };
            let mut is_carried = false;
            for (count, more) in self.row(number).iter_mut().zip(&others[..]) {
                *count = count.wrapping_add(*more);
                is_carried |= *count < *more;
            }
            if is_carried {
                let counts = self.row(number);
                let carried = (0..ROW).filter(|class| counts[*class] < others[*class]);
                let carried: Vec<_> = carried.map(|class| (number, class)).collect();
                self.carries.extend(carried);
            }
        }
        self.carries.extend_from_slice(&other.carries);
        self.include(other.count, other.least, other.most);
    }

    /// Adds `count` distances to the count, and updates the least and the greatest distance; `least` and `most` are
    /// those of the added ones.
    #[inline]
    fn include(&mut self, count: u64, least: u64, most: u64) {
        if count > 0 {
            self.least = if self.count == 0 { least } else { self.least.min(least) };
            self.most = self.most.max(most);
            self.count += count;
        }
    }

    #[inline]
    fn row(&mut self, number: usize) -> &mut [u32; ROW] {
        if number >= self.rows.len() {
            self.rows.resize(number + 1, None);
        }
        self.rows[number].get_or_insert_with(|| Box::new([0; ROW]))
    }

    /// Returns the count of distances.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Returns the greatest distance; `None` if there are no distances.
    pub(crate) fn most(&self) -> Option<u64> {
        (self.count > 0).then_some(self.most)
    }

    /// Returns the percentile `percent` of the distances: the lower end of the class that contains it, or the least
    /// distance if that is greater. The result is less than 1 % too small. Returns `None` if there are no distances.
    pub(crate) fn percentile(&self, percent: u64) -> Option<u64> {
        let rank = (u128::from(self.count) * u128::from(percent)).div_ceil(100).max(1);
        self.of_rank(rank).map(|class| self.least.max(*class.start()))
    }

    /// Returns the class that contains the distance with the rank `rank`, as the least and the greatest distance of the
    /// class. The least distance has the rank 1. Returns `None` if there are fewer distances.
    pub(crate) fn of_rank(&self, rank: u128) -> Option<RangeInclusive<u64>> {
        let mut sum = 0;
        let rows = self.rows.iter().enumerate();
        let classes = rows.filter_map(|(row, counts)| Some((row, counts.as_ref()?)));
        let mut classes =
            classes.flat_map(|(row, counts)| counts.iter().enumerate().map(move |found| (row, found)));
        classes.find_map(|(row, (class, count))| {
            let carried = self.carries.iter().filter(|of| **of == (row, class)).count() as u128;
            sum += u128::from(*count) + (carried << u32::BITS);
            (sum >= rank).then(|| class_of(row, class as u64))
        })
    }
}

/// Returns the row of the histogram for a distance, and the index of the distance's class in this row.
#[inline]
fn place(ticks: u64) -> (usize, usize) {
    let dropped = ticks.checked_ilog2().unwrap_or(0).saturating_sub(BITS);
    let class = (ticks >> dropped) as usize;
    // `class / ROW` is 0 only for numbers below 128.
    (dropped as usize + class / ROW, class % ROW)
}

/// Returns the least and the greatest distance that belong to a class.
fn class_of(row: usize, class: u64) -> RangeInclusive<u64> {
    let shift = row.saturating_sub(1);
    let least = if row == 0 { class } else { (class + ROW as u64) << shift };
    least..=least + ((1 << shift) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_class_counts_beyond_32_bits() {
        let (mut many, mut all) = (Latencies::default(), Latencies::default());
        many.push(5);
        many.row(0)[5] = u32::MAX;
        many.count = u64::from(u32::MAX);
        (0..3).for_each(|_| all.add(&many));
        (0..10).for_each(|_| all.push(9));
        assert_eq!(all.count(), 3 * u64::from(u32::MAX) + 10);
        assert_eq!([50, 99, 100].map(|percent| all.percentile(percent)), [Some(5), Some(5), Some(9)]);
    }

    proptest! {
        #[test]
        fn percentiles_agree_with_the_sorted_numbers(
            mut numbers in prop::collection::vec(prop_oneof![0..300u64, any::<u64>()], 1..300),
            percent in 1..=100u64,
        ) {
            let mut latencies = Latencies::default();
            numbers.iter().for_each(|number| latencies.push(*number));
            numbers.sort_unstable();
            let rank = (numbers.len() * percent as usize).div_ceil(100) - 1;
            let (exact, found) = (numbers[rank], latencies.percentile(percent).unwrap());
            prop_assert!(found <= exact && exact - found <= exact / 128, "{found} for {exact}");
            prop_assert!((numbers[0]..=latencies.most().unwrap()).contains(&found));
            let mut sum = Latencies::default();
            sum.add(&Latencies::default());
            sum.add(&latencies);
            prop_assert_eq!(sum.percentile(percent), Some(found));
            let class = latencies.of_rank(rank as u128 + 1).unwrap();
            prop_assert!(class.contains(&exact) && class.end() - class.start() <= exact / 128, "{class:?}");
            prop_assert_eq!(latencies.of_rank(numbers.len() as u128 + 1), None);
        }
    }
}
