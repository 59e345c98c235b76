//! Tables of values by small numbers, such as function numbers. A table stores values in an array as long as the
//! array is dense enough, and all other values in a map. Each of thousands of threads has such a table, and a thread
//! may use only the last of a million functions.

use crate::file::fast_map::FastMap;

/// The largest ratio of the length of a table's array to the number of stored values.
const PLACES: usize = 16;
/// A constant that is added to the number of stored values before their product with [`PLACES`] limits the length of
/// the array, so that a table with few values has an array, too.
const MAX_EXTRA_LENGTH: usize = 8;

/// A table of values by number. A number for which no value was stored has the default value.
#[derive(Clone, Debug, Default)]
pub(crate) struct ByNumber<T> {
    dense: Vec<T>,
    sparse: FastMap<u32, T>,
    /// The count of different numbers that were beyond the end of the array when a value was first stored for them.
    met: usize,
}

impl<T: Copy + Default> ByNumber<T> {
    /// Returns the value that is stored for `number`, or the default value if none is stored.
    #[inline]
    #[must_use]
    pub(crate) fn get(&self, number: u32) -> T {
        match self.dense.get(number as usize) {
            Some(value) => *value,
            None => self.sparse.get(&number).copied().unwrap_or_default(),
        }
    }

    /// Returns a mutable reference to the value for `number`. Stores the default value first if none is stored.
    #[inline]
    pub(crate) fn get_mut(&mut self, number: u32) -> &mut T {
        if number as usize >= self.dense.len() {
            return self.beyond(number);
        }
        &mut self.dense[number as usize]
    }

    #[cold]
    fn beyond(&mut self, number: u32) -> &mut T {
        let (length, most) = (self.dense.len(), PLACES * (self.met + MAX_EXTRA_LENGTH));
        self.met += usize::from(!self.sparse.contains_key(&number));
        if (number as usize) >= most {
            return self.sparse.entry(number).or_default();
        }
        self.dense.resize((number as usize + 1).max(most.min(2 * length)), T::default());
        if !self.sparse.is_empty() {
            for (number, place) in (0..).zip(&mut self.dense).skip(length) {
                *place = self.sparse.remove(&number).unwrap_or_default();
            }
        }
        &mut self.dense[number as usize]
    }

    /// Returns the numbers that may have a stored value, with their values.
    pub(crate) fn each(&self) -> impl Iterator<Item = (u32, T)> {
        let dense = (0..).zip(self.dense.iter().copied());
        dense.chain(self.sparse.iter().map(|(number, value)| (*number, *value)))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_table_agrees_with_a_map_in_bounded_memory(
            numbers in prop::collection::vec(prop_oneof![0u32..100, 0u32..100_000, any::<u32>()], 0..300)
        ) {
            let (mut table, mut map) = (ByNumber::<u32>::default(), HashMap::new());
            for (value, number) in (1..).zip(numbers) {
                *table.get_mut(number) += value;
                *map.entry(number).or_insert(0) += value;
                prop_assert!(table.dense.len() <= PLACES * (map.len() + MAX_EXTRA_LENGTH));
            }
            for (number, value) in &map {
                prop_assert_eq!(table.get(*number), *value);
            }
            let found: HashMap<u32, u32> = table.each().filter(|(_, value)| *value > 0).collect();
            prop_assert_eq!(found, map);
        }
    }
}
