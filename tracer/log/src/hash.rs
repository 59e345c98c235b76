//! A number for a place, from what `log` tells of it. Hot: it is computed for each record.

/// A hash while it is computed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hash(u64);

/// An odd number without a pattern: 2⁶⁴ divided by the golden ratio.
const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

impl Hash {
    #[inline(always)]
    pub(crate) fn of(number: u64) -> Hash {
        Hash(0).number(number.wrapping_add(1))
    }

    #[inline(always)]
    pub(crate) fn number(self, number: u64) -> Hash {
        let Hash(hash) = self;
        let mixed = (hash.rotate_left(29) ^ number).wrapping_mul(MIX);
        Hash(mixed ^ (mixed >> 32))
    }

    /// Adds a text by its address: one that is never freed. A literal may have several, which makes several places of
    /// one and mixes up none.
    #[inline(always)]
    pub(crate) fn address(self, text: &'static str) -> Hash {
        self.number(text.as_ptr().addr() as u64 ^ (text.len() as u64) << 56)
    }

    /// Adds a text by its content.
    #[inline(always)]
    pub(crate) fn text(self, text: &str) -> Hash {
        let mut rest = text.as_bytes();
        let mut hash = self.number(text.len() as u64);
        while let Some((word, behind)) = rest.split_first_chunk() {
            hash = hash.number(u64::from_le_bytes(*word));
            rest = behind;
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        hash.number(u64::from_le_bytes(last))
    }

    #[inline(always)]
    pub(crate) fn end(self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn texts_and_their_borders_are_told_apart() {
        let texts = ["", "a", "b", "aaaaaaa", "aaaaaaaa", "aaaaaaaaa", "aaaaaaab", "\0", "\0\0"];
        let mut hashes = BTreeSet::new();
        for first in texts {
            for second in texts {
                assert!(hashes.insert(Hash::of(3).text(first).text(second).end()), "{first:?} {second:?}");
            }
        }
    }
}
