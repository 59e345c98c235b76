//! Writes floats that need more than fifteen digits, with as few digits as identify the float. The crate `zmij` finds
//! these digits. The crate is faster than std, but adds 20 KB to a program; so `tracemerge` links it, and traced
//! programs do not.

/// Writes a float in the range for which neither std nor zmij writes an exponent. `wide` is the same
/// number as an `f64`.
#[inline(never)]
pub(super) fn shortest<F: zmij::Float>(
    page: &mut [u8],
    at: usize,
    value: F,
    wide: f64,
    debug: bool,
) -> Option<usize> {
    let mut buffer = zmij::Buffer::new();
    let all = buffer.format_finite(value).as_bytes();
    // A binary fraction of n bits has n decimals, and the last one is a 5. If all decimals except that 5
    // suffice, the value lies in the middle between two decimals, and std and zmij do not agree on which to
    // take. Most values have more bits than the 21 decimals that the smallest can have.
    let bits = fraction_bits(wide);
    if bits <= 22 {
        let decimals = all.iter().rev().position(|&byte| byte == b'.')? as i32;
        if bits == decimals + 1 {
            return None;
        }
    }
    let all = all.strip_suffix(b".0").filter(|_| !debug).unwrap_or(all);
    let to = page.get_mut(at..)?;
    // The beginning and the end, which overlap, are copied without a call.
    match (all.first_chunk::<16>(), all.last_chunk::<16>()) {
        (Some(first), Some(last)) => {
            *to.first_chunk_mut()? = *first;
            *to.get_mut(all.len() - 16..)?.first_chunk_mut()? = *last;
        }
        _ => to.get_mut(..all.len())?.copy_from_slice(all),
    }
    Some(at + all.len())
}

/// Returns the number of bits that a float needs after the binary point; 0 or less for an integer. The value must not
/// be subnormal.
fn fraction_bits(value: f64) -> i32 {
    let bits = value.to_bits();
    let exponent = (bits >> 52 & 0x7ff) as i32 - 1023;
    // The implicit bit ends the search.
    52 - exponent - (bits | 1 << 52).trailing_zeros() as i32
}
