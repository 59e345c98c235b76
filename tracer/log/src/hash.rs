//! The hash that identifies a place in the source, from the data that `log` has about the place. Hot: the hash is
//! computed for each record.

/// The intermediate state of a hash that identifies a place in the source.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hash(u64);

/// The factor that mixes the bits of a hash: 2⁶⁴ divided by the golden ratio, an odd number without a pattern.
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

    /// Adds a text that is never freed to the hash: adds its address instead of its bytes. If the compiler gives one
    /// literal several addresses, one place in the source counts as several, but two places never count as one.
    #[inline(always)]
    pub(crate) fn address(self, text: &'static str) -> Hash {
        self.number(text.as_ptr().addr() as u64 ^ (text.len() as u64) << 56)
    }

    /// Adds the bytes of a text to the hash.
    #[inline(always)]
    pub(crate) fn text(self, text: &str) -> Hash {
        let bytes = text.as_bytes();
        // With the length known, the words below distinguish a text from others. The last word may repeat bytes of
        // the one before it: copying only the bytes that are left would be a call.
        let hash = self.number(bytes.len() as u64);
        if let Some(last) = bytes.last_chunk() {
            let words = bytes.chunks_exact(8).filter_map(|word| word.first_chunk());
            let hash = words.fold(hash, |hash, word| hash.number(u64::from_le_bytes(*word)));
            return hash.number(u64::from_le_bytes(*last));
        }
        let word = match (bytes.first_chunk(), bytes.last_chunk()) {
            (Some(first), Some(last)) => {
                u64::from(u32::from_le_bytes(*first)) | u64::from(u32::from_le_bytes(*last)) << 32
            }
            _ => bytes.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)),
        };
        hash.number(word)
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
    fn texts_and_their_boundaries_are_distinguished() {
        let texts = [
            "",
            "a",
            "b",
            "\0",
            "\0\0",
            "ab",
            "ba",
            "abc",
            "cba",
            "abcd",
            "abcde",
            "abcdefg",
            "gfedcba",
            "aaaaaaa",
            "aaaaaaaa",
            "aaaaaaab",
            "baaaaaaa",
            "aaaaaaaaa",
            "aaaaaaaab",
            "baaaaaaaa",
            "aaaabaaaa",
            "aaaaaaaaaaaaaaaa",
            "aaaaaaaaaaaaaaab",
        ];
        let mut hashes = BTreeSet::new();
        for first in texts {
            for second in texts {
                assert!(hashes.insert(Hash::of(3).text(first).text(second).end()), "{first:?} {second:?}");
            }
        }
    }
}
