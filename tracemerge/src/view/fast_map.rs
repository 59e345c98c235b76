//! A map for keys that are looked up once for each record: numbers, and texts of functions.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A map that is several times as fast as the usual one for short keys. Its hashes can be foreseen: a trace that
/// was made for it could make it slow, and nothing else.
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
        while let Some((word, behind)) = rest.split_first_chunk() {
            self.add(u64::from_le_bytes(*word));
            rest = behind;
        }
        rest.iter().for_each(|byte| self.add(u64::from(*byte)));
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
        // The best bits are the highest, and the map takes the lowest.
        self.0.rotate_left(26)
    }
}
