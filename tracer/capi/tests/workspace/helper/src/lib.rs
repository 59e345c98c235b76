//! A library.

/// Doubles a number.
///
/// ```
/// assert_eq!(helper::doubled(2), 4);
/// ```
#[inline(never)]
pub fn doubled(n: u64) -> u64 {
    std::hint::black_box(twice)(n)
}

fn twice(n: u64) -> u64 {
    n * 2
}
