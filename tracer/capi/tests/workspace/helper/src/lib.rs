//! A library, which the package `app` uses.

/// Doubles a number.
///
/// ```
/// assert_eq!(helper::doubled(2), 4);
/// ```
#[inline(never)]
pub fn doubled(n: u64) -> u64 {
    std::hint::black_box(twice)(n)
}

/// Triples a number. The compiler does not inline such a function into another crate, but a linker that optimizes
/// does.
pub fn tripled(n: u64) -> u64 {
    added(n, n + n)
}

#[inline(never)]
fn added(a: u64, b: u64) -> u64 {
    std::hint::black_box(a + b)
}

fn twice(n: u64) -> u64 {
    n * 2
}
