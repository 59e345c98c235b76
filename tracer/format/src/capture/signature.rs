//! Numbers that distinguish types, computed by the compiler.
//!
//! A signature is a hash of the content of the type's descriptor. The mixing function is the finalizer of
//! SplitMix64 with the constants of David Stafford's *Mix13*.

/// A signature while it is computed. Every step is a `const fn`; the steps correspond to the functions of
/// [`descriptor`](super::descriptor), which write the parts of a descriptor.
#[derive(Clone, Copy, Debug)]
pub struct Signature(u64);

impl Signature {
    /// Begins the signature of a type whose descriptor begins with this tag.
    #[must_use]
    pub const fn of(tag: u8) -> Signature {
        Signature(0).number(tag as u64)
    }

    /// Begins the signature of a struct without fields.
    #[must_use]
    pub const fn of_unit(name: &str) -> Signature {
        Signature(0).unit(name)
    }

    /// Begins the signature of a tuple struct with `count` fields, which follow as
    /// [`part`](Signature::part)s.
    #[must_use]
    pub const fn of_tuple(name: &str, count: usize) -> Signature {
        Signature(0).tuple(name, count)
    }

    /// Begins the signature of a struct with `count` named fields, which follow as [`name`](Signature::name)
    /// and [`part`](Signature::part).
    #[must_use]
    pub const fn of_named(name: &str, count: usize) -> Signature {
        Signature(0).named(name, count)
    }

    /// Begins the signature of an enum with `count` variants, which follow as [`unit()`](Signature::unit),
    /// [`tuple()`](Signature::tuple) and [`named`](Signature::named), the latter two with their fields.
    #[must_use]
    pub const fn variants(count: usize) -> Signature {
        Signature::of(super::descriptor::ENUM).number(count as u64)
    }

    /// Adds a variant without fields.
    #[must_use]
    pub const fn unit(self, name: &str) -> Signature {
        self.number(super::descriptor::UNIT as u64).name(name)
    }

    /// Adds a tuple variant.
    #[must_use]
    pub const fn tuple(self, name: &str, count: usize) -> Signature {
        self.number(super::descriptor::TUPLE as u64).name(name).number(count as u64)
    }

    /// Adds a variant with named fields.
    #[must_use]
    pub const fn named(self, name: &str, count: usize) -> Signature {
        self.number(super::descriptor::NAMED as u64).name(name).number(count as u64)
    }

    /// Adds the name of a field.
    #[must_use]
    pub const fn name(self, name: &str) -> Signature {
        let bytes = name.as_bytes();
        let mut hash = self.number(bytes.len() as u64);
        let mut at = 0;
        while at < bytes.len() {
            hash = hash.number(bytes[at] as u64);
            at += 1;
        }
        hash
    }

    /// Adds the signature of a type that is a part of this type.
    #[must_use]
    pub const fn part(self, signature: u32) -> Signature {
        self.number(signature as u64)
    }

    /// Adds a number of the descriptor, such as a tag or a count of fields.
    #[must_use]
    pub const fn number(self, number: u64) -> Signature {
        let mut hash = (self.0 ^ number).wrapping_add(0x9e37_79b9_7f4a_7c15);
        hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Signature(hash ^ (hash >> 31))
    }

    /// Returns the signature: never 0 and never [`u32::MAX`].
    #[must_use]
    pub const fn end(self) -> u32 {
        match (self.0 >> 32) as u32 {
            0 => 1,
            u32::MAX => u32::MAX - 1,
            signature => signature,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_values_do_not_occur() {
        assert_eq!(Signature(0).end(), 1);
        assert_eq!(Signature(u64::MAX).end(), u32::MAX - 1);
        assert_eq!(Signature(7 << 32).end(), 7);
    }
}
