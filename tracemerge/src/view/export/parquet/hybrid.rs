//! Encodes lists of small numbers in the hybrid of run lengths and bit packing of Parquet: runs of equal numbers, and
//! groups of packed numbers (<https://parquet.apache.org/docs/file-format/data-pages/encodings/>, "RLE").

/// The number of packed numbers in a group. A run has at least this length, unless it is at the end.
const GROUP: usize = 8;

/// Returns the number of bits that the numbers from 0 to `largest` need: at least one.
pub(super) fn bits(largest: usize) -> u8 {
    (usize::BITS - largest.leading_zeros()).max(1) as u8
}

/// For each row, one bit that says whether the row has a value. The first row has the lowest bit of the first byte.
#[derive(Debug, Default)]
pub(super) struct Bits {
    bytes: Vec<u8>,
    count: usize,
}

impl Bits {
    /// Appends the bits of `rows`. The number of rows that were appended before must be a multiple of eight.
    pub(super) fn extend<T: Copy>(&mut self, rows: &[T], is_there: impl Fn(T) -> bool) {
        let byte = |group: &[T]| group.iter().rev().fold(0, |byte, row| byte << 1 | u8::from(is_there(*row)));
        self.bytes.extend(rows.chunks(GROUP).map(byte));
        self.count += rows.len();
    }

    /// Returns the number of rows.
    #[must_use]
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Removes all rows.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.count = 0;
    }

    /// Appends all bits, in the form of [`put_hybrid`] with a width of 1.
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        let mut rest = &self.bytes[..];
        let mut left = self.count;
        let is_run = |byte: u8| byte == 0 || byte == u8::MAX;
        while let Some(first) = rest.first() {
            let bytes = if is_run(*first) {
                let run = rest.iter().take_while(|byte| *byte == first).count();
                put_run(u32::from(*first & 1), left.min(run * GROUP), 1, out);
                run
            } else {
                let packed = rest.iter().take_while(|byte| !is_run(**byte)).count();
                put_length((packed as u64) << 1 | 1, out);
                out.extend_from_slice(&rest[..packed]);
                packed
            };
            rest = &rest[bytes..];
            left = left.saturating_sub(bytes * GROUP);
        }
    }
}

/// Appends numbers of `width` bits, as runs of equal numbers and groups of packed numbers.
pub(super) fn put_hybrid(numbers: &[u32], width: u8, out: &mut Vec<u8>) {
    let is_run = |group: &[u32]| group.iter().all(|number| *number == group[0]);
    let mut rest = numbers;
    while let Some(first) = rest.first() {
        let run = rest.iter().take_while(|number| *number == first).count();
        if run >= GROUP || run == rest.len() {
            put_run(*first, run, width, out);
            rest = &rest[run..];
            continue;
        }
        // The first group is not a run. Only the last group of all may be short.
        let groups = rest.chunks(GROUP).take_while(|group| !is_run(group)).count();
        let packed = &rest[..rest.len().min(groups * GROUP)];
        put_length((groups as u64) << 1 | 1, out);
        packed.chunks(GROUP).for_each(|group| put_packed(group, width, out));
        rest = &rest[packed.len()..];
    }
}

/// Works like [`put_hybrid`] for numbers of at most eight bits, and is faster: processes the numbers of a group as one
/// word of 64 bits.
pub(super) fn put_hybrid_of_bytes(numbers: &[u8], width: u8, out: &mut Vec<u8>) {
    let word = |group: &[u8]| group.first_chunk().map_or(0, |group| u64::from_le_bytes(*group));
    let is_run = |group: u64| group == group.rotate_left(8);
    let (mut rest, last) = numbers.split_at(numbers.len() / GROUP * GROUP);
    loop {
        let mut groups = rest.chunks_exact(GROUP).map(word);
        if let Some(first) = groups.clone().next().filter(|first| is_run(*first)) {
            let run = GROUP * groups.take_while(|group| *group == first).count();
            put_run(first as u32 & 0xff, run, width, out);
            rest = &rest[run..];
            continue;
        }
        let packed = groups.position(is_run).unwrap_or(rest.len() / GROUP);
        // The last group of all is short, and is filled with 0.
        let has_last = packed * GROUP == rest.len() && !last.is_empty();
        let count = packed + usize::from(has_last);
        if count == 0 {
            return;
        }
        put_length((count as u64) << 1 | 1, out);
        rest[..packed * GROUP]
            .chunks_exact(GROUP)
            .for_each(|group| put_packed_bytes(word(group), width, out));
        if has_last {
            let mut group = [0; GROUP];
            group[..last.len()].copy_from_slice(last);
            return put_packed_bytes(word(&group), width, out);
        }
        rest = &rest[packed * GROUP..];
    }
}

/// Appends a run of `count` equal numbers of `width` bits.
pub(super) fn put_run(number: u32, count: usize, width: u8, out: &mut Vec<u8>) {
    put_length((count as u64) << 1, out);
    out.extend_from_slice(&number.to_le_bytes()[..usize::from(width.div_ceil(8))]);
}

/// Appends a group of eight numbers in packed form: `width` bits (at most eight) for each number. `group` has a byte
/// for each number.
#[inline]
fn put_packed_bytes(group: u64, width: u8, out: &mut Vec<u8>) {
    // Joins neighbours, then pairs, then groups of four.
    let gap = 8 - u32::from(width);
    let twos = group & 0x00ff_00ff_00ff_00ff | (group & 0xff00_ff00_ff00_ff00) >> gap;
    let fours = twos & 0x0000_ffff_0000_ffff | (twos & 0xffff_0000_ffff_0000) >> (2 * gap);
    let packed = fours & 0xffff_ffff | (fours >> 32) << (32 - 4 * gap);
    let end = out.len() + usize::from(width);
    // Appending all bytes and truncating is faster than copying a variable number of bytes.
    out.extend_from_slice(&packed.to_le_bytes());
    out.truncate(end);
}

/// Appends a group of at most eight numbers in packed form: `width` bits for each number, the lowest bits first. The
/// numbers that are missing count as 0.
fn put_packed(group: &[u32], width: u8, out: &mut Vec<u8>) {
    let (mut word, mut filled) = (0u64, 0);
    for at in 0..GROUP {
        word |= u64::from(group.get(at).copied().unwrap_or(0)) << filled;
        filled += u32::from(width);
        while filled >= 32 {
            out.extend_from_slice(&word.to_le_bytes()[..4]);
            word >>= 32;
            filled -= 32;
        }
    }
    out.extend_from_slice(&word.to_le_bytes()[..filled.div_ceil(8) as usize]);
}

/// Appends a number as a varint: seven bits in each byte, the lowest bits first.
pub(super) fn put_length(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads numbers as the specification says, one after the other.
    fn read(mut bytes: &[u8], width: u8, count: usize) -> Vec<u32> {
        let mut numbers = Vec::new();
        while numbers.len() < count {
            let (mut length, mut shift) = (0u64, 0);
            loop {
                let byte = bytes[0];
                bytes = &bytes[1..];
                length |= u64::from(byte & 0x7f) << shift;
                shift += 7;
                if byte < 0x80 {
                    break;
                }
            }
            let (runs, size) = (length >> 1, usize::from(width.div_ceil(8)));
            if length & 1 == 0 {
                let number = (0..size).fold(0, |number, at| number | u32::from(bytes[at]) << (8 * at));
                numbers.extend((0..runs).map(|_| number));
                bytes = &bytes[size..];
            } else {
                let bit = |at: usize| u32::from(bytes[at / 8] >> (at % 8) & 1);
                for at in 0..runs as usize * GROUP {
                    let number = (0..usize::from(width))
                        .fold(0, |number, place| number | bit(at * usize::from(width) + place) << place);
                    numbers.push(number);
                }
                bytes = &bytes[runs as usize * usize::from(width)..];
            }
        }
        assert!(bytes.is_empty());
        assert!(numbers[count..].iter().all(|number| *number == 0), "what fills the last group is 0");
        numbers.truncate(count);
        numbers
    }

    #[test]
    fn numbers_are_read_as_the_specification_says() {
        // Numbers of any width, in consecutive runs of all lengths.
        let mut seed = 0x9e37_79b9_7f4a_7c15u64;
        let mut random = |below: u64| {
            seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            (seed >> 33) % below
        };
        for width in 1..=20u8 {
            for _ in 0..50 {
                let mut numbers = Vec::new();
                for _ in 0..random(12) {
                    let (number, run) = (random(1 << width) as u32, 1 + random(20));
                    numbers.extend((0..run).map(|_| number));
                    numbers.extend((0..random(30)).map(|_| random(1 << width) as u32));
                }
                let mut bytes = Vec::new();
                put_hybrid(&numbers, width, &mut bytes);
                assert_eq!(read(&bytes, width, numbers.len()), numbers, "{width} bits");
                if width == 1 {
                    let mut bits = Bits::default();
                    bits.extend(&numbers, |number| number == 1);
                    bytes.clear();
                    bits.put(&mut bytes);
                    assert_eq!(read(&bytes, 1, bits.count()), numbers);
                }
                if width <= 8 {
                    let small: Vec<u8> = numbers.iter().map(|number| *number as u8).collect();
                    bytes.clear();
                    put_hybrid_of_bytes(&small, width, &mut bytes);
                    assert_eq!(read(&bytes, width, numbers.len()), numbers, "{width} bits of bytes");
                }
            }
        }
    }
}
