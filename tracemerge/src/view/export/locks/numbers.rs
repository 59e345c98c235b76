//! A map whose keys are numbers that come in ranges, such as the numbers of the threads that one notification wakes. A
//! range with a common value takes one entry, however many numbers it has.

use std::collections::BTreeMap;

/// A map from numbers of 32 bits to values, which stores one entry for each range of numbers with a common value.
#[derive(Clone, Debug)]
pub(crate) struct Numbers<T> {
    /// The ranges, by their first numbers: for each its last number, and the value of all its numbers. No two ranges
    /// overlap.
    ranges: BTreeMap<u32, (u32, T)>,
}

impl<T> Default for Numbers<T> {
    fn default() -> Numbers<T> {
        Numbers { ranges: BTreeMap::new() }
    }
}

impl<T: Copy> Numbers<T> {
    /// Sets the value of `count` numbers, from `first` on, and replaces their earlier values. The number after
    /// `u32::MAX` is 0.
    pub(crate) fn insert(&mut self, first: u32, count: u32, value: T) {
        let Some(more) = count.checked_sub(1) else { return };
        match first.checked_add(more) {
            Some(last) => self.put(first, last, value),
            None => {
                self.put(first, u32::MAX, value);
                self.put(0, first.wrapping_add(more), value);
            }
        }
    }

    fn put(&mut self, first: u32, last: u32, value: T) {
        while let Some((&start, &(end, before))) =
            self.ranges.range(..=last).next_back().filter(|(_, (end, _))| *end >= first)
        {
            self.ranges.remove(&start);
            self.keep(start, end, first, last, before);
        }
        self.ranges.insert(first, (last, value));
    }

    /// Inserts the range from `start` to `end`, without the numbers from `first` to `last`, with the value `value`.
    fn keep(&mut self, start: u32, end: u32, first: u32, last: u32, value: T) {
        if let Some(before) = first.checked_sub(1).filter(|before| start <= *before) {
            self.ranges.insert(start, (before, value));
        }
        if let Some(behind) = last.checked_add(1).filter(|behind| *behind <= end) {
            self.ranges.insert(behind, (end, value));
        }
    }

    /// Removes and returns the value of a number; `None` if the number has no value.
    pub(crate) fn remove(&mut self, number: u32) -> Option<T> {
        let (&start, &(end, value)) = self.ranges.range(..=number).next_back()?;
        if end < number {
            return None;
        }
        self.ranges.remove(&start);
        self.keep(start, end, number, number, value);
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn ranges_agree_with_a_map_of_single_numbers(
            steps in prop::collection::vec((any::<bool>(), 0u32..40, 0u32..12), 0..120)
        ) {
            let (mut ranges, mut each) = (Numbers::default(), HashMap::new());
            for (value, (inserts, number, count)) in steps.into_iter().enumerate() {
                // Numbers around the greatest one.
                let number = number.wrapping_sub(20);
                if inserts {
                    ranges.insert(number, count, value);
                    each.extend((0..count).map(|more| (number.wrapping_add(more), value)));
                } else {
                    prop_assert_eq!(ranges.remove(number), each.remove(&number));
                }
                prop_assert!(ranges.ranges.len() <= 2 * (value + 1));
            }
            for number in (0..60u32).map(|number| number.wrapping_sub(20)) {
                prop_assert_eq!(ranges.remove(number), each.remove(&number));
            }
        }
    }
}
