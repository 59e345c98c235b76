//! The torture: random settings, faults and kills against one equation, made = in files + reported lost.
//!
//! [`plan`] makes everything of a trial from one number, and [`texts`] defines the records of the program. The
//! program counts them in [`counters`], which survive a kill. [`trial`] follows the plan, and [`oracle`] compares
//! the counters with the files. The traced program is `tests/programs/torture.rs`.

pub mod counters;
pub mod oracle;
pub mod plan;
pub mod texts;
pub mod trial;

/// SplitMix64, the generator of Steele, Lea and Flood, "Fast splittable pseudorandom number generators"
/// (OOPSLA 2014): small, and the same on every machine.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Returns the sequence of this seed.
    #[must_use]
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// Returns the next number.
    #[must_use]
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number from `from` to below `to`.
    #[must_use]
    pub fn below(&mut self, from: u64, to: u64) -> u64 {
        from + self.number() % (to - from)
    }

    /// Returns a number from `from` to below `to`; each order of magnitude is as likely as another.
    #[must_use]
    pub fn magnitude(&mut self, from: u64, to: u64) -> u64 {
        let share = (self.number() >> 11) as f64 / (1u64 << 53) as f64;
        (from as f64 * (to as f64 / from as f64).powf(share)) as u64
    }

    /// Returns true with a probability of `of_hundred` percent.
    #[must_use]
    pub fn percent(&mut self, of_hundred: u64) -> bool {
        self.number() % 100 < of_hundred
    }

    /// Returns one of these values.
    #[must_use]
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[(self.number() % from.len() as u64) as usize]
    }
}
