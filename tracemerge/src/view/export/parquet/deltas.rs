//! Integers encoded by their differences, as Parquet defines it
//! (<https://parquet.apache.org/docs/file-format/data-pages/encodings/>, "DELTA_BINARY_PACKED"): for each
//! block the least difference, and the excess of each difference over it. A part of a block uses as many bits
//! as its largest excess needs.

use std::cmp::Reverse;

use parquet::file::statistics::Statistics;

use super::hybrid::put_length;

/// The number of values of a block and of its parts.
const BLOCK: usize = 128;
const PART: usize = 32;
const PARTS: usize = BLOCK / PART;

/// An integer of 32 or 64 bits.
pub trait Integer: Copy + Ord {
    /// Returns the number with 64 bits.
    fn wide(self) -> i64;
    /// Returns the difference from an earlier number, in the type's bits.
    fn since(self, before: Self) -> i64;
    /// Returns the number with its highest bit inverted, so that comparisons order numbers as unsigned.
    #[must_use]
    fn flip_sign_bit(self) -> Self;
    /// Returns the statistics of a column with this least and this largest number.
    fn statistics(range: [Option<Self>; 2]) -> Statistics;
}

impl Integer for i32 {
    fn wide(self) -> i64 {
        self.into()
    }

    #[inline]
    fn since(self, before: Self) -> i64 {
        self.wrapping_sub(before).into()
    }

    #[inline]
    fn flip_sign_bit(self) -> Self {
        self ^ Self::MIN
    }

    fn statistics([least, largest]: [Option<Self>; 2]) -> Statistics {
        Statistics::int32(least, largest, None, Some(0), false)
    }
}

impl Integer for i64 {
    fn wide(self) -> i64 {
        self
    }

    #[inline]
    fn since(self, before: Self) -> i64 {
        self.wrapping_sub(before)
    }

    #[inline]
    fn flip_sign_bit(self) -> Self {
        self ^ Self::MIN
    }

    fn statistics([least, largest]: [Option<Self>; 2]) -> Statistics {
        Statistics::int64(least, largest, None, Some(0), false)
    }
}

/// Appends integers.
pub fn put_deltas<T: Integer>(values: &[T], out: &mut Vec<u8>) {
    for number in [BLOCK, PARTS, values.len()] {
        put_length(number as u64, out);
    }
    put_signed(values.first().map_or(0, |first| first.wide()), out);
    let behind = values.get(1..).unwrap_or_default();
    for (before, block) in values.chunks(BLOCK).zip(behind.chunks(BLOCK)) {
        let mut deltas = [0i64; BLOCK];
        let deltas = &mut deltas[..block.len()];
        for ((delta, value), before) in deltas.iter_mut().zip(block).zip(before) {
            *delta = value.since(*before);
        }
        let least = least(deltas.iter().copied()).unwrap_or(0);
        put_signed(least, out);
        let widths = out.len();
        out.extend_from_slice(&[0; PARTS]);
        for (number, part) in deltas.chunks(PART).enumerate() {
            let mut above = [0u64; PART];
            for (above, delta) in above.iter_mut().zip(part) {
                *above = delta.wrapping_sub(least) as u64;
            }
            let width = u64::BITS - above.iter().fold(0, |all, above| all | above).leading_zeros();
            out[widths + number] = width as u8;
            put_packed(&above, width, out);
        }
    }
}

/// Returns the least of some numbers. Programs are built for processors without 64-bit vector comparisons, on
/// which the usual loop without branches takes several times as long. The branch here is hardly ever taken,
/// unless the numbers decrease steadily.
#[inline]
pub fn least<T: Ord>(numbers: impl Iterator<Item = T>) -> Option<T> {
    let mut rest = numbers;
    let mut least = rest.next()?;
    while let Some(less) = rest.find(|number| *number < least) {
        least = less;
    }
    Some(least)
}

/// Returns the largest of some numbers in the same way, starting with the last one.
#[inline]
pub fn largest<T: Ord>(numbers: impl DoubleEndedIterator<Item = T>) -> Option<T> {
    least(numbers.rev().map(Reverse)).map(|Reverse(largest)| largest)
}

/// Appends numbers of `width` bits each, the lowest bits first.
fn put_packed(numbers: &[u64; PART], width: u32, out: &mut Vec<u8>) {
    if width == 0 {
        return;
    }
    let (mut words, mut filled) = (0u128, 0);
    for number in numbers {
        words |= u128::from(*number) << filled;
        filled += width;
        if filled >= u64::BITS {
            out.extend_from_slice(&(words as u64).to_le_bytes());
            words >>= u64::BITS;
            filled -= u64::BITS;
        }
    }
    // The total length is a multiple of 32 bits.
    if filled > 0 {
        out.extend_from_slice(&(words as u32).to_le_bytes());
    }
}

/// Appends a number with its sign in the lowest bit.
fn put_signed(number: i64, out: &mut Vec<u8>) {
    put_length((number << 1 ^ number >> 63) as u64, out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Reads integers as the specification says, one bit after the other.
    fn read(mut bytes: &[u8]) -> Vec<i64> {
        fn length(bytes: &mut &[u8]) -> u64 {
            let (mut number, mut shift) = (0, 0);
            loop {
                let byte = bytes[0];
                *bytes = &bytes[1..];
                number |= u64::from(byte & 0x7f) << shift;
                shift += 7;
                if byte < 0x80 {
                    return number;
                }
            }
        }
        fn signed(bytes: &mut &[u8]) -> i64 {
            let number = length(bytes);
            (number >> 1) as i64 ^ -((number & 1) as i64)
        }
        let [block, parts, count] = [(); 3].map(|()| length(&mut bytes) as usize);
        let part = block / parts;
        let mut values = vec![signed(&mut bytes)];
        while values.len() < count {
            let least = signed(&mut bytes);
            let (widths, rest) = bytes.split_at(parts);
            bytes = rest;
            for width in widths.iter().map(|width| usize::from(*width)) {
                if values.len() >= count {
                    break;
                }
                for number in 0..part {
                    let bit = |at: usize| u64::from(bytes[at / 8] >> (at % 8) & 1);
                    let above = (0..width).fold(0, |above, at| above | bit(number * width + at) << at);
                    let last = values.last().copied().unwrap_or(0);
                    values.push(last.wrapping_add(least).wrapping_add(above as i64));
                }
                bytes = &bytes[width * part / 8..];
            }
        }
        assert!(bytes.is_empty());
        values.truncate(count);
        values
    }

    fn written<T: Integer>(values: &[T]) -> Vec<u8> {
        let mut out = Vec::new();
        put_deltas(values, &mut out);
        out
    }

    proptest! {
        #[test]
        fn integers_are_read_as_the_specification_says(
            seed in prop::collection::vec((any::<i64>(), 0u32..64), 1..400)
        ) {
            let wide: Vec<i64> = seed.iter().map(|(number, shift)| number >> shift).collect();
            prop_assert_eq!(&read(&written(&wide)), &wide);
            let narrow: Vec<i32> = wide.iter().map(|number| *number as i32).collect();
            let found: Vec<i32> = read(&written(&narrow)).into_iter().map(|number| number as i32).collect();
            prop_assert_eq!(found, narrow);
        }
    }

    proptest! {
        #[test]
        fn the_least_and_the_largest_are_found(numbers in prop::collection::vec(any::<i8>(), 0..20)) {
            prop_assert_eq!(least(numbers.iter()), numbers.iter().min());
            prop_assert_eq!(largest(numbers.iter()), numbers.iter().max());
        }
    }

    #[test]
    fn evenly_growing_numbers_take_a_few_bytes_per_block() {
        let even: Vec<i64> = (0..12_800).map(|number| 0x0128_fd9f_283f + number * 120).collect();
        let bytes = written(&even);
        assert!(bytes.len() < 100 * 7 + 16, "{}", bytes.len());
        assert_eq!(read(&bytes), even);
    }
}
