//! The fast way: arguments in their order, most of them numbers and text by `{}`.
//!
//! The message is written into a page of zeros that is as long as the message can be. Each piece of it is written
//! as 8 or 16 bytes, whatever its length, and the next piece overwrites what does not count. So there is no call
//! of `memcpy`, one test for room per argument, and no branch that depends on the length of a number.

use super::field::Field;
use super::value::Reader;
use super::{MAX_MESSAGE, Plan};
use crate::capture::descriptor::{Scalar, Type};
use crate::template::Trait;

/// The steps of a site that shows each argument once, in their order.
#[derive(Clone, Debug)]
pub(super) struct FastPlan {
    runs: Box<[Run]>,
}

/// Steps, then perhaps a field that goes the general way.
#[derive(Clone, Debug)]
struct Run {
    steps: Box<[Step]>,
    /// Bytes of a page: what the steps write at most, and [`ROOM`]; but for the texts among the arguments.
    page: usize,
    /// Whether there are texts.
    texts: bool,
    /// The field's number.
    then: Option<usize>,
}

/// A piece of literal text, then perhaps an argument.
#[derive(Clone, Copy, Debug)]
struct Step {
    literal: [u8; CHUNK],
    /// How much of it counts.
    length: u8,
    show: Show,
}

#[derive(Clone, Copy, Debug)]
enum Show {
    Nothing,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    F32,
    F64,
    DebugF32,
    DebugF64,
    /// With so many digits after the point.
    FixedF32(u8),
    FixedF64(u8),
    Bool,
    Char,
    Str,
    /// Hex digits; with `0x` before them?
    Hex8(bool),
    Hex16(bool),
    Hex32(bool),
    Hex64(bool),
}

/// A step's share of literal text.
const CHUNK: usize = 16;
/// Bytes that a step may write without asking: literal, sign, eight digits, point, eight digits; or literal, `0x`
/// and sixteen digits.
const ROOM: usize = CHUNK + 1 + 8 + 1 + 8;
/// What a number takes at most; the longest is `-0.000012345678901234567`.
const NUMBER: usize = 26;
/// A page for one number.
pub(super) const NUMBER_PAGE: [u8; NUMBER + ROOM] = [0; NUMBER + ROOM];

impl FastPlan {
    /// `None` where a field is not at the place of its argument, or needs another one.
    pub(super) fn new(arguments: &[Type], fields: &[(Box<[u8]>, Field)], tail: &[u8]) -> Option<FastPlan> {
        if arguments.len() != fields.len() {
            return None;
        }
        let mut runs = Vec::new();
        let mut steps = Vec::new();
        for (at, (ty, (literal, field))) in arguments.iter().zip(fields).enumerate() {
            if field.argument != at || !field.needs_no_other() {
                return None;
            }
            let show = simple(ty, field);
            add(&mut steps, literal, show.unwrap_or(Show::Nothing));
            if show.is_none() {
                runs.push(Run::new(std::mem::take(&mut steps), Some(at)));
            }
        }
        add(&mut steps, tail, Show::Nothing);
        runs.push(Run::new(steps, None));
        Some(FastPlan { runs: runs.into() })
    }

    /// Appends the message, of which `plan` has types and fields. `None` where something is odd: then what was
    /// appended has no meaning.
    #[inline]
    pub(super) fn render(&self, plan: &Plan, payload: &[u8], out: &mut Vec<u8>) -> Option<()> {
        let start = out.len();
        let mut reader = Reader::new(payload);
        for run in &self.runs {
            reader = run.render(reader, out)?;
            if let Some(index) = run.then {
                reader = render_field(plan, index, reader, out)?;
                if out.len() - start > MAX_MESSAGE {
                    return None;
                }
            }
        }
        reader.end().ok()
    }
}

/// Appends a field in the general way. The reader comes and goes by value, so that it stays in registers elsewhere.
#[inline(never)]
fn render_field<'p>(
    plan: &Plan,
    index: usize,
    mut reader: Reader<'p>,
    out: &mut Vec<u8>,
) -> Option<Reader<'p>> {
    let (ty, (_, field)) = (plan.arguments.get(index)?, plan.steps.get(index)?);
    field.render(ty, &mut reader, &[], out).ok()?;
    Some(reader)
}

impl Run {
    fn new(steps: Vec<Step>, then: Option<usize>) -> Run {
        let page =
            steps.iter().map(|step| usize::from(step.length) + step.show.bound()).sum::<usize>() + ROOM;
        let texts = steps.iter().any(|step| matches!(step.show, Show::Str));
        Run { steps: steps.into(), page, texts, then }
    }

    #[inline(always)]
    fn render<'p>(&self, mut reader: Reader<'p>, out: &mut Vec<u8>) -> Option<Reader<'p>> {
        let start = out.len();
        // A length that the compiler knows is filled without a call.
        match self.page + if self.texts { reader.remaining() } else { 0 } {
            0..=64 => out.extend_from_slice(&[0; 64]),
            65..=128 => out.extend_from_slice(&[0; 128]),
            129..=256 => out.extend_from_slice(&[0; 256]),
            page => out.resize(start + page, 0),
        }
        let mut rest = out.get_mut(start..)?;
        for step in &self.steps {
            let at = step.write(&mut reader, rest)?;
            rest = rest.get_mut(at..)?;
        }
        let unused = rest.len();
        out.truncate(out.len() - unused);
        Some(reader)
    }
}

fn add(steps: &mut Vec<Step>, literal: &[u8], show: Show) {
    let mut chunks = literal.chunks(CHUNK).peekable();
    let mut push = |chunk: &[u8], show| {
        let mut padded = [0; CHUNK];
        for (to, from) in padded.iter_mut().zip(chunk) {
            *to = *from;
        }
        steps.push(Step { literal: padded, length: chunk.len() as u8, show });
    };
    while let Some(chunk) = chunks.next() {
        let last = chunks.peek().is_none();
        push(chunk, if last { show } else { Show::Nothing });
    }
    if literal.is_empty() && !matches!(show, Show::Nothing) {
        push(&[], show);
    }
}

impl Show {
    /// Bytes that the text of a value has at most.
    fn bound(self) -> usize {
        match self {
            // Text is counted apart: it is part of the payload.
            Show::Nothing | Show::Str => 0,
            Show::I8 | Show::U8 | Show::Char | Show::Hex8(_) => 4,
            Show::I16 | Show::U16 | Show::Hex16(_) | Show::Bool => 6,
            Show::I32 | Show::U32 | Show::Hex32(_) => 11,
            Show::I64 | Show::U64 | Show::Hex64(_) => 20,
            Show::F32 | Show::F64 | Show::DebugF32 | Show::DebugF64 => NUMBER,
            Show::FixedF32(_) | Show::FixedF64(_) => NUMBER,
        }
    }
}

fn simple(ty: &Type, field: &Field) -> Option<Show> {
    let Type::Scalar(scalar) = ty else { return None };
    if let (Some(digits), Trait::Display) = (field.only_precision(), field.by) {
        let digits = u8::try_from(digits).ok().filter(|&digits| usize::from(digits) < POWERS.len())?;
        return match scalar {
            Scalar::F32 => Some(Show::FixedF32(digits)),
            Scalar::F64 => Some(Show::FixedF64(digits)),
            _ => None,
        };
    }
    if !field.is_plain() {
        return None;
    }
    match (field.by, scalar) {
        (Trait::LowerHex, Scalar::I8 | Scalar::U8) => Some(Show::Hex8(field.alternate)),
        (Trait::LowerHex, Scalar::I16 | Scalar::U16) => Some(Show::Hex16(field.alternate)),
        (Trait::LowerHex, Scalar::I32 | Scalar::U32) => Some(Show::Hex32(field.alternate)),
        (Trait::LowerHex, Scalar::I64 | Scalar::U64) => Some(Show::Hex64(field.alternate)),
        (Trait::Pointer | Trait::Debug, Scalar::Pointer32) if !field.alternate => Some(Show::Hex32(true)),
        (Trait::Pointer | Trait::Debug, Scalar::Pointer64) if !field.alternate => Some(Show::Hex64(true)),
        (Trait::Display | Trait::Debug, Scalar::I8) => Some(Show::I8),
        (Trait::Display | Trait::Debug, Scalar::I16) => Some(Show::I16),
        (Trait::Display | Trait::Debug, Scalar::I32) => Some(Show::I32),
        (Trait::Display | Trait::Debug, Scalar::I64) => Some(Show::I64),
        (Trait::Display | Trait::Debug, Scalar::U8) => Some(Show::U8),
        (Trait::Display | Trait::Debug, Scalar::U16) => Some(Show::U16),
        (Trait::Display | Trait::Debug, Scalar::U32) => Some(Show::U32),
        (Trait::Display | Trait::Debug, Scalar::U64) => Some(Show::U64),
        (Trait::Display, Scalar::F32) => Some(Show::F32),
        (Trait::Display, Scalar::F64) => Some(Show::F64),
        (Trait::Debug, Scalar::F32) => Some(Show::DebugF32),
        (Trait::Debug, Scalar::F64) => Some(Show::DebugF64),
        (Trait::Display | Trait::Debug, Scalar::Bool) => Some(Show::Bool),
        (Trait::Display, Scalar::Char) => Some(Show::Char),
        (Trait::Display, Scalar::Str) => Some(Show::Str),
        _ => None,
    }
}

impl Step {
    /// Writes literal and argument to the beginning of `page`; gives where they end.
    #[inline(always)]
    fn write(&self, reader: &mut Reader<'_>, page: &mut [u8]) -> Option<usize> {
        let room = page.first_chunk_mut::<ROOM>()?;
        put(room, 0, self.literal);
        let at = usize::from(self.length).min(CHUNK);
        macro_rules! read {
            ($type:ty) => {
                <$type>::from_le_bytes(reader.take().ok()?)
            };
        }
        match self.show {
            Show::Nothing => Some(at),
            Show::I8 => signed(page, at, read!(i8).into()),
            Show::I16 => signed(page, at, read!(i16).into()),
            Show::I32 => signed(page, at, read!(i32).into()),
            Show::I64 => signed(page, at, read!(i64)),
            Show::U8 => unsigned(page, at, read!(u8).into()),
            Show::U16 => unsigned(page, at, read!(u16).into()),
            Show::U32 => unsigned(page, at, read!(u32).into()),
            Show::U64 => unsigned(page, at, read!(u64)),
            Show::F32 | Show::DebugF32 => {
                let value = read!(f32);
                let at = sign(room, at, value.is_sign_negative());
                float32(page, at, value.abs(), matches!(self.show, Show::DebugF32))
            }
            Show::F64 => {
                let value = read!(f64);
                let at = sign(room, at, value.is_sign_negative());
                float64(page, at, value.abs(), false)
            }
            Show::DebugF64 => {
                let value = read!(f64);
                let at = sign(room, at, value.is_sign_negative());
                float64(page, at, value.abs(), true)
            }
            Show::FixedF32(digits) => {
                let value = read!(f32);
                let at = sign(room, at, value.is_sign_negative());
                fixed(page, at, value.abs().into(), digits.into())
            }
            Show::FixedF64(digits) => {
                let value = read!(f64);
                let at = sign(room, at, value.is_sign_negative());
                fixed(page, at, value.abs(), digits.into())
            }
            Show::Bool => {
                let (text, length) = if reader.flag().ok()? { (b"true\0", 4) } else { (b"false", 5) };
                put(room, at, *text);
                Some(at + length)
            }
            Show::Char => {
                let mut bytes = [0; 4];
                let length = reader.char().ok()?.encode_utf8(&mut bytes).len();
                put(room, at, bytes);
                Some(at + length)
            }
            Show::Str => text(page, at, reader.text().ok()?.as_bytes()),
            Show::Hex8(prefix) => Some(hex(room, at, read!(u8).into(), prefix)),
            Show::Hex16(prefix) => Some(hex(room, at, read!(u16).into(), prefix)),
            Show::Hex32(prefix) => Some(hex(room, at, read!(u32).into(), prefix)),
            Show::Hex64(prefix) => Some(hex(room, at, read!(u64), prefix)),
        }
    }
}

// All that follow write at a place and give the place after it; those that take a page, `None` where it ends.

/// Writes `bytes`. The compiler sees that there is room wherever this is used, and takes the test away.
#[inline(always)]
fn put<const N: usize>(room: &mut [u8; ROOM], at: usize, bytes: [u8; N]) {
    if let Some(place) = room.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
        *place = bytes;
    }
}

#[inline(always)]
fn sign(room: &mut [u8; ROOM], at: usize, negative: bool) -> usize {
    put(room, at, [b'-']);
    at + usize::from(negative)
}

fn text(page: &mut [u8], at: usize, text: &[u8]) -> Option<usize> {
    page.get_mut(at..)?.get_mut(..text.len())?.copy_from_slice(text);
    Some(at + text.len())
}

#[inline(always)]
fn signed(page: &mut [u8], at: usize, number: i64) -> Option<usize> {
    let at = sign(page.first_chunk_mut()?, at, number < 0);
    unsigned(page, at, number.unsigned_abs())
}

/// Writes a number. `at` is at most the length of a literal and a sign.
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

/// Writes a number below 100,000,000.
#[inline(always)]
fn up_to_eight(room: &mut [u8; ROOM], at: usize, number: u64) -> usize {
    let digits = digits(number);
    // The last digit stays, whatever it is.
    let zeros = (digits | 1 << 56).trailing_zeros() / 8;
    let shifted = (digits | ASCII_ZEROS) >> (zeros * 8);
    put(room, at, shifted.to_le_bytes());
    at + 8 - zeros as usize
}

/// Writes hex digits, after `0x` if asked for.
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

/// Writes a float without its sign, as `{}` or `{:?}` does. `None` for what these write in other ways, too.
#[inline(always)]
pub(super) fn float64(page: &mut [u8], at: usize, value: f64, debug: bool) -> Option<usize> {
    // A decimal of at most 15 digits that is read as `value` is the only one, and so the shortest: floats are
    // denser than such decimals. To look for one, scale `value` to an integer; beside 2^52 there is no room for a
    // fraction, so adding that rounds, and leaves the integer in the lowest bits. It and 1e8 are exact, so their
    // quotient is what the decimal is read as.
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

/// The same for the other type.
pub(super) fn float32(page: &mut [u8], at: usize, value: f32, debug: bool) -> Option<usize> {
    let in_range = (1e-3..1e12).contains(&value) || value == 0.0;
    if in_range { shortest(page, at, value, value.into(), debug) } else { None }
}

/// Writes `scaled / 100_000_000`, which is below 100,000,000.
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

/// Writes a float that is in the range where neither std nor zmij writes an exponent. `wide` is the same number.
#[inline(never)]
fn shortest<F: zmij::Float>(page: &mut [u8], at: usize, value: F, wide: f64, debug: bool) -> Option<usize> {
    let mut buffer = zmij::Buffer::new();
    let all = buffer.format_finite(value).as_bytes();
    // A binary fraction of so many bits has as many decimals, of which the last is a 5. Where all but that 5 suffice,
    // the value lies in the middle between two decimals, and std and zmij do not agree on which to take.
    let decimals = all.iter().rev().position(|&byte| byte == b'.')? as i32;
    if fraction_bits(wide) == decimals + 1 {
        return None;
    }
    text(page, at, all.strip_suffix(b".0").filter(|_| !debug).unwrap_or(all))
}

/// Bits after the point that a float needs; not more than 0 for an integer. Subnormals are not asked for.
fn fraction_bits(value: f64) -> i32 {
    let bits = value.to_bits();
    let exponent = (bits >> 52 & 0x7ff) as i32 - 1023;
    // The implicit bit ends the search.
    52 - exponent - (bits | 1 << 52).trailing_zeros() as i32
}

/// Writes a float without its sign, with so many digits after the point, as `{:.3}` does: rounded to the nearest
/// decimal by its exact value, to the even one of two. `None` for what is large, too precise, or no number.
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
        // `exact` is below 2^103, and so this far below a half.
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

/// Powers of ten, by which the mantissa of a float can be multiplied in 128 bits.
const POWERS: [u64; 16] = {
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

/// The eight digits of a number below 100,000,000, the first in the lowest byte.
///
/// All at once, by multiplication with reciprocals: Paul Khuong, *How to print integers really fast* (2017).
#[inline(always)]
fn digits(number: u64) -> u64 {
    let fours = (number / 10_000) | (number % 10_000) << 32;
    let hundreds = ((fours * 10_486) >> 20) & 0x0000_007f_0000_007f;
    let twos = hundreds | (fours - hundreds * 100) << 16;
    let tens = ((twos * 103) >> 10) & 0x000f_000f_000f_000f;
    tens | (twos - tens * 10) << 8
}
