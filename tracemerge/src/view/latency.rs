//! Times from one message to the next, in a histogram whose classes are less than one percent wide.

use crate::view::fast_map::FastMap;

/// The number of bits that the class of a number keeps behind its first one.
const BITS: u32 = 7;

/// A histogram of distances in ticks.
#[derive(Clone, Debug, Default)]
pub struct Latencies {
    classes: FastMap<u64, u64>,
    count: u64,
    most: u64,
}

impl Latencies {
    /// Takes a distance.
    pub fn push(&mut self, ticks: u64) {
        *self.classes.entry(class(ticks)).or_default() += 1;
        self.count += 1;
        self.most = self.most.max(ticks);
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
        let mut classes: Vec<_> = self.classes.iter().collect();
        classes.sort_unstable();
        let mut sum = 0;
        classes.into_iter().find_map(|(class, count)| {
            sum += u128::from(*count);
            (sum >= wanted).then_some(*class)
        })
    }
}

/// Returns the number without its last bits.
fn class(ticks: u64) -> u64 {
    let dropped = ticks.checked_ilog2().unwrap_or(0).saturating_sub(BITS);
    ticks >> dropped << dropped
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
