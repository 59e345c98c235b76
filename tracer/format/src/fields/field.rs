//! One placeholder (`{...}`) of a format string, rendered in the general way: first the text of the value (the *body*),
//! then the characters that fill the body up to the width of the placeholder.

use std::fmt::{self, Debug, Display, LowerExp, UpperExp};

use super::PayloadError;
use super::composite;
use super::digits::{self, NUMBER_PAGE};
use super::value::{Value, ValueReader};
use crate::capture::descriptor::Type;
use crate::template::{Align, HexCase, Trait};

/// A placeholder for an argument in a format string, such as `{:>8}`.
#[derive(Clone, Debug)]
pub(super) struct Field {
    pub(super) argument: usize,
    pub(super) by: Trait,
    /// The case of hex digits that an `x` or `X` before `?` asks for.
    pub(super) hex: Option<HexCase>,
    pub(super) plus: bool,
    pub(super) alternate: bool,
    pub(super) zero: bool,
    pub(super) fill: char,
    pub(super) align: Option<Align>,
    pub(super) width: Size,
    pub(super) precision: Size,
}

/// The width or the precision of a placeholder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Size {
    None,
    Is(usize),
    /// The size is the value of the argument with this index, an integer of 64 bits.
    Argument(usize),
}

impl Size {
    fn get(self, values: &[&[u8]]) -> Result<Option<usize>, PayloadError> {
        match self {
            Size::None => Ok(None),
            Size::Is(number) => Ok(Some(number)),
            Size::Argument(index) => {
                let value = values.get(index).and_then(|v| v.first_chunk()).ok_or(PayloadError::Cut)?;
                let number = u16::try_from(u64::from_le_bytes(*value));
                number.map(|n| Some(n.into())).map_err(|_| PayloadError::CountTooLarge)
            }
        }
    }
}

/// The kind of text that was printed for a value, the *body*. It decides how the body is padded to the width of the
/// placeholder.
#[derive(Clone, Copy, Debug)]
enum Body {
    /// The body is a number: zeros are inserted after its sign and prefix, whose length is this number of bytes.
    Number(usize),
    Text,
    /// The body is not padded, whatever the width.
    Unpadded,
}

impl Field {
    /// Returns whether the placeholder has no width, no precision, no `+` and no case of hex digits. Then its text
    /// depends only on the trait and on `#`: without a width, fill, alignment and `0` have no effect.
    pub(super) fn is_plain(&self) -> bool {
        self.width == Size::None && self.precision == Size::None && !self.plus && self.hex.is_none()
    }

    /// Returns the precision if it is a number in the format string, and the placeholder has neither a width nor `+`.
    pub(super) fn only_precision(&self) -> Option<usize> {
        match self.precision {
            Size::Is(digits) if self.width == Size::None && !self.plus => Some(digits),
            _ => None,
        }
    }

    /// Returns whether the placeholder needs no other argument: neither its width nor its precision is one.
    pub(super) fn needs_no_other(&self) -> bool {
        !matches!(self.width, Size::Argument(_)) && !matches!(self.precision, Size::Argument(_))
    }

    /// Appends the text of this field for the next value of `reader`, which has the type `ty`. `others` are the bytes
    /// of all arguments, because one of these may be the width or the precision.
    pub(super) fn render(
        &self,
        ty: &Type,
        reader: &mut ValueReader<'_>,
        others: &[&[u8]],
        out: &mut Vec<u8>,
    ) -> Result<(), PayloadError> {
        let precision = self.precision.get(others)?;
        let Type::Scalar(scalar) = ty else { return composite::render(ty, reader, self, precision, out) };
        let mut width = self.width.get(others)?;
        let mut zero = self.zero;
        let start = out.len();
        let body = match reader.value(*scalar)? {
            Value::Integer { negative, magnitude, bits } => {
                self.integer(negative, magnitude, bits, precision, out)
            }
            Value::F32(value) => {
                let prefix = self.float_sign(value.is_sign_negative(), value.is_nan(), out);
                self.float(value.abs(), value.abs().into(), precision, out, digits::float32);
                Body::Number(prefix)
            }
            Value::F64(value) => {
                let prefix = self.float_sign(value.is_sign_negative(), value.is_nan(), out);
                self.float(value.abs(), value.abs(), precision, out, digits::float64);
                Body::Number(prefix)
            }
            Value::Bool(value) => text(if value { "true" } else { "false" }, precision, out),
            Value::Void => text("()", precision, out),
            Value::Duration(value) => self.debug(&value, precision, out),
            Value::Ip(value) => self.debug(&value, precision, out),
            Value::Socket(value) => self.debug(&value, precision, out),
            Value::Text(value) if self.by == Trait::Debug => {
                write(out, format_args!("{value:?}"));
                Body::Unpadded
            }
            Value::Char(value) if self.by == Trait::Debug => {
                write(out, format_args!("{value:?}"));
                Body::Unpadded
            }
            Value::Text(value) => text(value, precision, out),
            Value::Char(value) => text(value.encode_utf8(&mut [0; 4]), precision, out),
            Value::Address(address, bits) => {
                if self.alternate {
                    zero = true;
                    width = width.or(Some(bits as usize / 4 + 2));
                }
                let sign = self.sign(false, out);
                let hex =
                    |page: &mut [u8], address| Some(digits::hex(page.first_chunk_mut()?, 0, address, true));
                number(out, address.into(), hex, format_args!("{address:#x}"));
                Body::Number(sign + 2)
            }
        };
        match (body, width) {
            (Body::Number(prefix), Some(width)) if zero => {
                let zeros = width.saturating_sub(out.len() - start);
                fill(out, start + prefix, zeros, '0');
            }
            (Body::Number(_), Some(width)) => {
                let missing = width.saturating_sub(out.len() - start);
                self.pad(out, start, missing, Align::Right);
            }
            (Body::Text, Some(width)) => {
                // Every character has exactly one byte that is not a continuation byte.
                let text = out.get(start..).unwrap_or(&[]);
                let chars = text.iter().filter(|&&byte| byte & 0xc0 != 0x80).count();
                self.pad(out, start, width.saturating_sub(chars), Align::Left);
            }
            (Body::Unpadded, _) | (_, None) => {}
        }
        Ok(())
    }

    /// Appends a value of a type whose `Debug` std pads like a text, and whose `Display`, if there is one, prints the
    /// same text.
    #[cold]
    fn debug(&self, value: &dyn Debug, precision: Option<usize>, out: &mut Vec<u8>) -> Body {
        // Appending to a vector does not fail.
        let _ = composite::write_debug(&mut TextBuffer(out), value, self, precision);
        Body::Text
    }

    /// Appends the sign, if the format asks for one; returns its length in bytes.
    fn sign(&self, negative: bool, out: &mut Vec<u8>) -> usize {
        if negative || self.plus {
            out.push(if negative { b'-' } else { b'+' });
        }
        usize::from(negative || self.plus)
    }

    /// Appends the sign of a float, if the format asks for one; returns its length in bytes. NaN has no sign.
    fn float_sign(&self, negative: bool, no_number: bool, out: &mut Vec<u8>) -> usize {
        if no_number { 0 } else { self.sign(negative, out) }
    }

    fn integer(
        &self,
        negative: bool,
        magnitude: u128,
        bits: u128,
        precision: Option<usize>,
        out: &mut Vec<u8>,
    ) -> Body {
        let by = match (self.by, self.hex) {
            (Trait::Debug, None) => Trait::Display,
            (Trait::Debug, Some(HexCase::Lower)) => Trait::LowerHex,
            (Trait::Debug, Some(HexCase::Upper)) => Trait::UpperHex,
            (by, _) => by,
        };
        let base = match by {
            Trait::LowerHex | Trait::UpperHex => "0x",
            Trait::Octal => "0o",
            Trait::Binary => "0b",
            _ => "",
        };
        // Hex, octal and binary digits are those of the two's complement, which has no sign.
        let mut prefix = self.sign(negative && base.is_empty(), out);
        if self.alternate {
            out.extend_from_slice(base.as_bytes());
            prefix += base.len();
        }
        match (by, precision) {
            (Trait::LowerHex, _) => number(
                out,
                bits,
                |page, small| Some(digits::hex(page.first_chunk_mut()?, 0, small, false)),
                format_args!("{bits:x}"),
            ),
            (Trait::UpperHex, _) => write(out, format_args!("{bits:X}")),
            (Trait::Octal, _) => write(out, format_args!("{bits:o}")),
            (Trait::Binary, _) => write(out, format_args!("{bits:b}")),
            (Trait::LowerExp, None) => write(out, format_args!("{magnitude:e}")),
            (Trait::LowerExp, Some(precision)) => write(out, format_args!("{magnitude:.precision$e}")),
            (Trait::UpperExp, None) => write(out, format_args!("{magnitude:E}")),
            (Trait::UpperExp, Some(precision)) => write(out, format_args!("{magnitude:.precision$E}")),
            (Trait::Display | Trait::Debug | Trait::Pointer, _) => {
                number(
                    out,
                    magnitude,
                    |page, small| digits::unsigned(page, 0, small),
                    format_args!("{magnitude}"),
                );
            }
        }
        Body::Number(prefix)
    }

    /// Appends a float that has no sign, by `shortest` or [`digits::fixed`] if they can write it, otherwise as std
    /// does. `wide` is the same number as an `f64`.
    fn float<F>(
        &self,
        value: F,
        wide: f64,
        precision: Option<usize>,
        out: &mut Vec<u8>,
        shortest: Shortest<F>,
    ) where
        F: Copy + Display + Debug + LowerExp + UpperExp,
    {
        let debug = self.by == Trait::Debug;
        let mut page = NUMBER_PAGE;
        let fast = match (self.by, precision) {
            (Trait::LowerExp | Trait::UpperExp, _) => None,
            (_, Some(precision)) => digits::fixed(&mut page, 0, wide, precision),
            (_, None) => shortest(&mut page, 0, value, debug),
        };
        if let Some(text) = fast.and_then(|end| page.get(..end)) {
            out.extend_from_slice(text);
            return;
        }
        match (self.by, precision) {
            (Trait::LowerExp, None) => write(out, format_args!("{value:e}")),
            (Trait::LowerExp, Some(precision)) => write(out, format_args!("{value:.precision$e}")),
            (Trait::UpperExp, None) => write(out, format_args!("{value:E}")),
            (Trait::UpperExp, Some(precision)) => write(out, format_args!("{value:.precision$E}")),
            (_, Some(precision)) => write(out, format_args!("{value:.precision$}")),
            (Trait::Debug, None) => write(out, format_args!("{value:?}")),
            (_, None) => write(out, format_args!("{value}")),
        }
    }

    /// Adds `missing` fill characters around the body that begins at the index `start` of `out`, as the alignment says;
    /// `default` is the alignment if the placeholder has none.
    fn pad(&self, out: &mut Vec<u8>, start: usize, missing: usize, default: Align) {
        let before = match self.align.unwrap_or(default) {
            Align::Left => 0,
            Align::Center => missing / 2,
            Align::Right => missing,
        };
        fill(out, start, before, self.fill);
        fill(out, out.len(), missing - before, self.fill);
    }
}

type Shortest<F> = fn(&mut [u8], usize, F, bool) -> Option<usize>;

/// Appends an integer. The function `fast` writes it if it fits in 64 bits; if it does not fit, or `fast` returns
/// `None`, the integer is printed by `general`.
fn number(
    out: &mut Vec<u8>,
    number: u128,
    fast: impl FnOnce(&mut [u8], u64) -> Option<usize>,
    general: fmt::Arguments<'_>,
) {
    let mut page = NUMBER_PAGE;
    let end = u64::try_from(number).ok().and_then(|small| fast(&mut page, small));
    match end.and_then(|end| page.get(..end)) {
        Some(text) => out.extend_from_slice(text),
        None => write(out, general),
    }
}

fn text(text: &str, precision: Option<usize>, out: &mut Vec<u8>) -> Body {
    let cut = precision.and_then(|chars| text.char_indices().nth(chars)).map_or(text.len(), |(at, _)| at);
    out.extend_from_slice(text.get(..cut).unwrap_or(text).as_bytes());
    Body::Text
}

/// Inserts the character `with` `count` times at the index `at` of `out`, which is not beyond the end of `out`.
fn fill(out: &mut Vec<u8>, at: usize, count: usize, with: char) {
    let before = out.len();
    let mut bytes = [0; 4];
    let bytes = with.encode_utf8(&mut bytes).as_bytes();
    match bytes {
        [byte] => out.resize(before + count, *byte),
        _ => (0..count).for_each(|_| out.extend_from_slice(bytes)),
    }
    let added = out.len() - before;
    if let Some(tail) = out.get_mut(at..).filter(|tail| tail.len() > added && added > 0) {
        tail.rotate_right(added);
    }
}

/// Appends the text that std makes from the arguments.
fn write(out: &mut Vec<u8>, text: fmt::Arguments<'_>) {
    // Appending to a vector does not fail.
    let _ = fmt::Write::write_fmt(&mut TextBuffer(out), text);
}

/// A vector of bytes to which text is appended.
struct TextBuffer<'a>(&'a mut Vec<u8>);

impl fmt::Write for TextBuffer<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}
