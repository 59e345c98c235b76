//! Times from one message to the next, in a histogram whose classes are less than one percent wide.

/// The number of bits that the class of a number keeps behind its first one.
const BITS: u32 = 7;
/// The number of classes in a row.
const ROW: usize = 1 << BITS;

/// A histogram of distances in ticks.
#[derive(Clone, Debug, Default)]
pub struct Latencies {
    /// The numbers of distances by class: numbers below 128 are a row, and then those of each length in bits.
    rows: Vec<Option<Box<[u64; ROW]>>>,
    count: u64,
    most: u64,
}

impl Latencies {
    /// Takes a distance.
    #[inline]
    pub fn push(&mut self, ticks: u64) {
        let (row, class) = place(ticks);
        self.row(row)[class] += 1;
        self.count += 1;
        self.most = self.most.max(ticks);
    }

    /// Takes the distances of another histogram.
    pub fn add(&mut self, other: &Latencies) {
        for (number, others) in other.rows.iter().enumerate() {
            let Some(others) = others else { continue };
            self.row(number).iter_mut().zip(&others[..]).for_each(|(count, more)| *count += more);
        }
        self.count += other.count;
        self.most = self.most.max(other.most);
    }

    #[inline]
    fn row(&mut self, number: usize) -> &mut [u64; ROW] {
        if number >= self.rows.len() {
            self.rows.resize(number + 1, None);
        }
        self.rows[number].get_or_insert_with(|| Box::new([0; ROW]))
    }

    /// The number of distances.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The greatest distance; `None` where there are no distances.
    pub fn most(&self) -> Option<u64> {
        (self.count > 0).then_some(self.most)
    }

    /// The least distance that `percent` of all do not exceed, as its class has it; `None` where there are no
    /// distances.
    pub fn percentile(&self, percent: u64) -> Option<u64> {
        let wanted = (u128::from(self.count) * u128::from(percent)).div_ceil(100).max(1);
        let mut sum = 0;
        let rows = self.rows.iter().enumerate();
        let classes = rows.filter_map(|(row, counts)| Some((row, counts.as_ref()?)));
        let mut classes =
            classes.flat_map(|(row, counts)| (0..).zip(&counts[..]).map(move |found| (row, found)));
        classes.find_map(|(row, (class, count))| {
            sum += u128::from(*count);
            (sum >= wanted).then(|| least(row, class))
        })
    }
}

/// Returns the row of a number, and its class there.
#[inline]
fn place(ticks: u64) -> (usize, usize) {
    let dropped = ticks.checked_ilog2().unwrap_or(0).saturating_sub(BITS);
    let class = (ticks >> dropped) as usize;
    // Only numbers below 128 have no bit there.
    (dropped as usize + class / ROW, class % ROW)
}

/// Returns the least number of a class.
fn least(row: usize, class: u64) -> u64 {
    if row == 0 { class } else { (class + ROW as u64) << (row - 1) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn percentiles_are_those_of_the_sorted_numbers(
            mut numbers in prop::collection::vec(prop_oneof![0..300u64, any::<u64>()], 1..300),
            percent in 1..=100u64,
        ) {
            let mut latencies = Latencies::default();
            numbers.iter().for_each(|number| latencies.push(*number));
            numbers.sort_unstable();
            let rank = (numbers.len() * percent as usize).div_ceil(100) - 1;
            let (exact, found) = (numbers[rank], latencies.percentile(percent).unwrap());
            prop_assert!(found <= exact && exact - found <= exact / 128, "{found} for {exact}");
        }
    }
}
