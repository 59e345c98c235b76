//! A map for keys that are looked up once for each record: numbers, and the texts of functions.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A map that is several times as fast as the standard one for short keys. Its hashes are predictable: a trace that
/// was made for this could make it slow, but nothing else.
pub type FastMap<K, V> = HashMap<K, V, BuildHasherDefault<FastHasher>>;

/// The hash of the Rust compiler's own maps ("Fx"): a rotation and a multiplication for each word.
#[derive(Clone, Copy, Debug, Default)]
pub struct FastHasher(u64);

impl FastHasher {
    #[inline]
    fn add(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
    }
}

impl Hasher for FastHasher {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        // Four words at once, because a step for each word would have to wait for the step before.
        while let Some((block, behind)) = rest.split_first_chunk::<32>() {
            let word = |at: usize| block[at..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
            let mixed = |at: usize, by: u64| word(at).wrapping_mul(by).rotate_left(29);
            self.add(
                mixed(0, 0x9e37_79b9_7f4a_7c15)
                    ^ mixed(8, 0xbf58_476d_1ce4_e5b9)
                    ^ mixed(16, 0x94d0_49bb_1331_11eb)
                    ^ mixed(24, 0xd6e8_feb8_6659_fd93),
            );
            rest = behind;
        }
        while let Some((word, behind)) = rest.split_first_chunk() {
            self.add(u64::from_le_bytes(*word));
            rest = behind;
        }
        if !rest.is_empty() {
            // The last chunk may include bytes that were hashed already: one step is faster than one for each byte.
            let last = bytes.last_chunk().map(|word| u64::from_le_bytes(*word));
            self.add(last.unwrap_or_else(|| rest.iter().fold(0, |word, byte| word << 8 | u64::from(*byte))));
        }
    }

    #[inline]
    fn write_u32(&mut self, number: u32) {
        self.add(u64::from(number));
    }

    #[inline]
    fn write_u64(&mut self, number: u64) {
        self.add(number);
    }

    #[inline]
    fn write_usize(&mut self, number: usize) {
        self.add(number as u64);
    }

    #[inline]
    fn finish(&self) -> u64 {
        // The highest bits are the best, and the map uses the lowest.
        self.0.rotate_left(26)
    }
}
