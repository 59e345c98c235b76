//! Numbers as digits, written eight at a time.
//!
//! The functions write at the index `at` and return the index after the number. They always write 8 or 16 bytes, even
//! if the number has fewer: later writes overwrite the rest. Functions that take a `page` return `None` if the page is
//! too short, or if they cannot write the number in the same way as std.

#[cfg(feature = "fast-floats")]
use super::shortest::shortest;

/// The greatest number of bytes of literal text in one step of a fast plan.
pub(super) const CHUNK: usize = 16;
/// The number of bytes that a step of a fast plan may write after one test for room: literal, sign, eight digits,
/// point, eight digits; or literal, `0x` and sixteen digits.
pub(super) const ROOM: usize = CHUNK + 1 + 8 + 1 + 8;
/// The greatest number of bytes that a number takes; the longest is `-0.000012345678901234567`.
pub(super) const NUMBER: usize = 26;
/// A page of zeros with room for one number.
pub(super) const NUMBER_PAGE: [u8; NUMBER + ROOM] = [0; NUMBER + ROOM];

/// Writes `bytes` at the index `at` of `room`. The compiler sees at each call that the bytes fit, and removes the
/// bounds check.
#[inline(always)]
pub(super) fn put<const N: usize>(room: &mut [u8; ROOM], at: usize, bytes: [u8; N]) {
    if let Some(place) = room.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
        *place = bytes;
    }
}

#[inline(always)]
pub(super) fn sign(room: &mut [u8; ROOM], at: usize, negative: bool) -> usize {
    put(room, at, [b'-']);
    at + usize::from(negative)
}

pub(super) fn text(page: &mut [u8], at: usize, text: &[u8]) -> Option<usize> {
    page.get_mut(at..)?.get_mut(..text.len())?.copy_from_slice(text);
    Some(at + text.len())
}

#[inline(always)]
pub(super) fn signed(page: &mut [u8], at: usize, number: i64) -> Option<usize> {
    let at = sign(page.first_chunk_mut()?, at, number < 0);
    unsigned(page, at, number.unsigned_abs())
}

/// Writes the digits of an integer from the index `at` of `page` on. Returns the index after the last digit; `None` if
/// `page` is shorter than [`ROOM`]. The digits must end within the first [`ROOM`] bytes of `page`; they do if only the
/// literal and the sign of one step are before `at`.
#[inline(always)]
pub(super) fn unsigned(page: &mut [u8], at: usize, number: u64) -> Option<usize> {
    if number < EIGHT_DIGITS {
        return Some(up_to_eight(page.first_chunk_mut()?, at, number));
    }
    more_than_eight(page, at, number)
}

#[inline(never)]
fn more_than_eight(page: &mut [u8], at: usize, number: u64) -> Option<usize> {
    let (high, low) = (number / EIGHT_DIGITS, number % EIGHT_DIGITS);
    let room = page.first_chunk_mut()?;
    let at = if high < EIGHT_DIGITS {
        up_to_eight(room, at, high)
    } else {
        let at = up_to_eight(room, at, high / EIGHT_DIGITS);
        text(page, at, &(digits(high % EIGHT_DIGITS) | ASCII_ZEROS).to_le_bytes())?
    };
    text(page, at, &(digits(low) | ASCII_ZEROS).to_le_bytes())
}

/// Writes an integer below 100,000,000.
#[inline(always)]
fn up_to_eight(room: &mut [u8; ROOM], at: usize, number: u64) -> usize {
    let digits = digits(number);
    // The last digit is written even if it is a zero.
    let zeros = (digits | 1 << 56).trailing_zeros() / 8;
    let shifted = (digits | ASCII_ZEROS) >> (zeros * 8);
    put(room, at, shifted.to_le_bytes());
    at + 8 - zeros as usize
}

/// Writes an integer in hex digits, after `0x` if `prefix` is set.
pub(super) fn hex(room: &mut [u8; ROOM], at: usize, number: u64, prefix: bool) -> usize {
    put(room, at, *b"0x");
    let at = at + 2 * usize::from(prefix);
    let digits = (64 - (number | 1).leading_zeros()).div_ceil(4);
    // The first digit goes to the first byte.
    let aligned = number << (64 - 4 * digits);
    let mut bytes = [0; 16];
    for (index, byte) in bytes.iter_mut().enumerate() {
        let digit = (aligned >> (60 - 4 * index)) as u8 & 15;
        *byte = digit + if digit < 10 { b'0' } else { b'a' - 10 };
    }
    put(room, at, bytes);
    at + digits as usize
}

/// Writes an `f64` without its sign, as `{}` does, or as `{:?}` does if `debug` is set. Returns `None` for values that
/// std may write with an exponent, or in another way than this function.
#[inline(always)]
pub(super) fn float64(page: &mut [u8], at: usize, value: f64, debug: bool) -> Option<usize> {
    // If a decimal of at most 15 digits parses as `value`, it is the only one, and so the shortest: floats are denser
    // than such decimals. To search for one, scale `value` to an integer: adding 2^52, where a float has no room for
    // a fraction, rounds, and leaves the integer in the lowest bits. The integer and 1e8 are both exact, so their
    // quotient is the value as which the decimal parses.
    if value < 1e7 {
        const SHIFT: f64 = (1u64 << 52) as f64;
        let shifted = value * 1e8 + SHIFT;
        if (shifted - SHIFT) / 1e8 == value && !(debug && value < 1e-4 && value != 0.0) {
            let scaled = shifted.to_bits() & ((1 << 52) - 1);
            return Some(eight_decimals(page.first_chunk_mut()?, at, scaled, debug));
        }
    }
    let in_range = (1e-5..1e16).contains(&value) && !(debug && value < 1e-4);
    if in_range { shortest(page, at, value, value, debug) } else { None }
}

/// Writes an `f32` without its sign; see [`float64`].
pub(super) fn float32(page: &mut [u8], at: usize, value: f32, debug: bool) -> Option<usize> {
    let in_range = (1e-3..1e12).contains(&value) || value == 0.0;
    if in_range { shortest(page, at, value, value.into(), debug) } else { None }
}

/// Writes a decimal number below 100,000,000 with up to eight digits after the point. `scaled` is the number times
/// 100,000,000.
#[inline(always)]
fn eight_decimals(room: &mut [u8; ROOM], at: usize, scaled: u64, debug: bool) -> usize {
    let at = up_to_eight(room, at, scaled / EIGHT_DIGITS);
    let digits = digits(scaled % EIGHT_DIGITS);
    let zeros = digits.leading_zeros() as usize / 8;
    let decimals = (8 - zeros).max(usize::from(debug));
    put(room, at, [b'.']);
    let at = at + usize::from(decimals != 0);
    put(room, at, (digits | ASCII_ZEROS).to_le_bytes());
    at + decimals
}

/// Returns `None` and writes nothing: without the feature `fast-floats`, the caller lets std write the float. A program
/// that shows floats contains std's code for them anyway.
#[cfg(not(feature = "fast-floats"))]
fn shortest<F>(_: &mut [u8], _: usize, _: F, _: f64, _: bool) -> Option<usize> {
    None
}

/// Writes a float without its sign, with `precision` digits after the point, as `{:.3}` does: rounds the exact value to
/// the nearest decimal and, if two are equally near, to the even one. Returns `None` for a value that is large, too
/// precise, or not a number.
pub(super) fn fixed(page: &mut [u8], at: usize, value: f64, precision: usize) -> Option<usize> {
    let scale = *POWERS.get(precision)?;
    let bits = value.to_bits();
    let fraction = bits & ((1 << 52) - 1);
    // The value is `mantissa / 2^shift`.
    let (mantissa, shift) = match (bits >> 52) as u32 {
        0 => (fraction, 1074),
        exponent => (fraction | 1 << 52, 1075u32.checked_sub(exponent).filter(|&shift| shift > 0)?),
    };
    let exact = u128::from(mantissa) * u128::from(scale);
    let scaled = if shift < 128 {
        let (floor, half) = (exact >> shift, 1 << (shift - 1));
        let rest = exact - (floor << shift);
        floor + u128::from(rest > half || (rest == half && floor & 1 == 1))
    } else {
        // `exact` is below 2^103, and so the quotient is far below a half.
        0
    };
    let scaled = u64::try_from(scaled).ok()?;
    let at = unsigned(page, at, scaled / scale)?;
    if precision == 0 {
        return Some(at);
    }
    let decimals = scaled % scale;
    let mut all = [b'.'; 17];
    *all.get_mut(1..)?.first_chunk_mut()? = (digits(decimals / EIGHT_DIGITS) | ASCII_ZEROS).to_le_bytes();
    *all.get_mut(9..)?.first_chunk_mut()? = (digits(decimals % EIGHT_DIGITS) | ASCII_ZEROS).to_le_bytes();
    // The point goes before the first digit that counts.
    *all.get_mut(16 - precision)? = b'.';
    text(page, at, all.get(16 - precision..)?)
}

/// The powers of ten with which the mantissa of a float can be multiplied without overflow in 128 bits.
pub(super) const POWERS: [u64; 16] = {
    let mut powers = [1; 16];
    let mut at = 1;
    while at < powers.len() {
        powers[at] = powers[at - 1] * 10;
        at += 1;
    }
    powers
};

const EIGHT_DIGITS: u64 = 100_000_000;
const ASCII_ZEROS: u64 = u64::from_le_bytes([b'0'; 8]);

/// Returns the eight decimal digits of a number below 100,000,000, one in each byte, as values from 0 to 9. The first
/// digit is in the lowest byte.
///
/// All digits are made at once, by multiplication with reciprocals: Paul Khuong, *How to print integers really fast*
/// (2017).
#[inline(always)]
fn digits(number: u64) -> u64 {
    let fours = (number / 10_000) | (number % 10_000) << 32;
    let hundreds = ((fours * 10_486) >> 20) & 0x0000_007f_0000_007f;
    let twos = hundreds | (fours - hundreds * 100) << 16;
    let tens = ((twos * 103) >> 10) & 0x000f_000f_000f_000f;
    tens | (twos - tens * 10) << 8
}
