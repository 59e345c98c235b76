//! The fast way to make a message of captured arguments: for sites that show their arguments in order, most of them
//! numbers and text with `{}`.
//!
//! The steps write the message into a page of zeros that is as long as the message can be. They write each piece as 8
//! or 16 bytes, whatever its length, and the next piece overwrites the surplus bytes. So there is no call of
//! `memcpy`, one test for room per argument, and no branch that depends on the length of a number.

use super::digits::{
    CHUNK, NUMBER, POWERS, ROOM, fixed, float32, float64, hex, put, sign, signed, text, unsigned,
};
use super::field::Field;
use super::value::ValueReader;
use super::{MAX_MESSAGE, SitePlan};
use crate::capture::descriptor::{Scalar, Type};
use crate::escape::{EscapeContext, escape_into, is_plain};
use crate::template::Trait;

/// The steps that make the message of a site that shows each argument once, in order.
#[derive(Clone, Debug)]
pub(super) struct FastPlan {
    runs: Box<[Segment]>,
    /// Whether the plan has only one segment, and no literal text in it needs escapes. Then only texts and characters
    /// among the arguments may need escapes.
    clean: bool,
}

/// A list of steps, and the field that follows them if no step can write that field.
#[derive(Clone, Debug)]
struct Segment {
    steps: Box<[Step]>,
    /// The greatest number of bytes that the steps write, not counting arguments that are texts, plus [`ROOM`].
    page: usize,
    /// Whether the steps show arguments that are texts.
    texts: bool,
    /// The index of the field that follows the steps, if a field follows.
    then: Option<usize>,
}

/// One step of a fast plan: writes a piece of literal text, then an argument if there is one.
#[derive(Clone, Copy, Debug)]
struct Step {
    literal: [u8; CHUNK],
    /// The number of bytes of text in `literal`; the rest is padding.
    length: u8,
    show: Conversion,
}

#[derive(Clone, Copy, Debug)]
enum Conversion {
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
    /// An `f32` with this number of digits after the point.
    FixedF32(u8),
    FixedF64(u8),
    Bool,
    Char,
    Str,
    /// An integer of 8 bits in hex digits, after `0x` if the flag is true.
    Hex8(bool),
    Hex16(bool),
    Hex32(bool),
    Hex64(bool),
}

impl FastPlan {
    /// Returns the fast plan of a site; `None` if the fields do not show the arguments in order, each once, or if the
    /// width or the precision of a field is an argument.
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
            add(&mut steps, literal, show.unwrap_or(Conversion::Nothing));
            if show.is_none() {
                runs.push(Segment::new(std::mem::take(&mut steps), Some(at)));
            }
        }
        add(&mut steps, tail, Conversion::Nothing);
        runs.push(Segment::new(steps, None));
        let clean = runs.len() == 1 && fields.iter().all(|(literal, _)| is_clean(literal)) && is_clean(tail);
        Some(FastPlan { runs: runs.into(), clean })
    }

    /// Writes the message to the beginning of `page`; returns its length in bytes. Returns `None` if the message needs
    /// escapes, if a value cannot be read or cannot be written in the fast way, or if `page` is too short: then the
    /// written bytes have no meaning.
    #[inline(always)]
    pub(super) fn write_plain(&self, payload: &[u8], page: &mut [u8]) -> Option<usize> {
        let [run] = &*self.runs else { return None };
        if !self.clean {
            return None;
        }
        let mut reader = ValueReader::new(payload);
        let length = run.write::<true>(&mut reader, page)?;
        reader.end().ok()?;
        Some(length)
    }

    /// Appends the message; `plan` has the types and fields of the site. Returns `None` if a value cannot be read, or
    /// cannot be written in the fast way: then the appended bytes have no meaning.
    #[inline]
    pub(super) fn render(&self, plan: &SitePlan, payload: &[u8], out: &mut Vec<u8>) -> Option<()> {
        let start = out.len();
        let mut reader = ValueReader::new(payload);
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

/// Appends the text of a field that no step can write. Takes the reader by value and returns it, so that the caller can
/// keep its reader in registers.
#[inline(never)]
fn render_field<'p>(
    plan: &SitePlan,
    index: usize,
    mut reader: ValueReader<'p>,
    out: &mut Vec<u8>,
) -> Option<ValueReader<'p>> {
    let (ty, (_, field)) = (plan.arguments.get(index)?, plan.steps.get(index)?);
    field.render(ty, &mut reader, &[], out).ok()?;
    Some(reader)
}

impl Segment {
    fn new(steps: Vec<Step>, then: Option<usize>) -> Segment {
        let page =
            steps.iter().map(|step| usize::from(step.length) + step.show.bound()).sum::<usize>() + ROOM;
        let texts = steps.iter().any(|step| matches!(step.show, Conversion::Str));
        Segment { steps: steps.into(), page, texts, then }
    }

    #[inline(always)]
    fn render<'p>(&self, mut reader: ValueReader<'p>, out: &mut Vec<u8>) -> Option<ValueReader<'p>> {
        let start = out.len();
        // If the compiler knows the length, it fills the page without a call.
        match self.page + if self.texts { reader.remaining() } else { 0 } {
            0..=64 => out.extend_from_slice(&[0; 64]),
            65..=128 => out.extend_from_slice(&[0; 128]),
            129..=256 => out.extend_from_slice(&[0; 256]),
            page => out.resize(start + page, 0),
        }
        let length = self.write::<false>(&mut reader, out.get_mut(start..)?)?;
        out.truncate(start + length);
        Some(reader)
    }

    /// Writes the text of the steps to the beginning of `page`; returns its length in bytes. Returns `None` if a value
    /// cannot be read or cannot be written in the fast way, if `page` is too short, or if `PLAIN` is set and the text
    /// needs escapes.
    #[inline(always)]
    fn write<const PLAIN: bool>(&self, reader: &mut ValueReader<'_>, page: &mut [u8]) -> Option<usize> {
        let whole = page.len();
        let mut rest = page;
        for step in &self.steps {
            let at = step.write::<PLAIN>(reader, rest)?;
            rest = rest.get_mut(at..)?;
        }
        Some(whole - rest.len())
    }
}

/// Returns whether escaping leaves `text` unchanged, whatever text follows.
fn is_clean(text: &[u8]) -> bool {
    let mut escaped = Vec::new();
    escape_into(&mut escaped, text, EscapeContext::Line);
    escaped == text && !text.contains(&b'\\')
}

fn add(steps: &mut Vec<Step>, literal: &[u8], show: Conversion) {
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
        push(chunk, if last { show } else { Conversion::Nothing });
    }
    if literal.is_empty() && !matches!(show, Conversion::Nothing) {
        push(&[], show);
    }
}

impl Conversion {
    /// Returns the greatest number of bytes that the conversion writes for a value; 0 if the value is a text, because
    /// only the value itself has its length.
    fn bound(self) -> usize {
        match self {
            // Text is counted separately: it is part of the payload.
            Conversion::Nothing | Conversion::Str => 0,
            Conversion::I8 | Conversion::U8 | Conversion::Char | Conversion::Hex8(_) => 4,
            Conversion::I16 | Conversion::U16 | Conversion::Hex16(_) | Conversion::Bool => 6,
            Conversion::I32 | Conversion::U32 | Conversion::Hex32(_) => 11,
            Conversion::I64 | Conversion::U64 | Conversion::Hex64(_) => 20,
            Conversion::F32 | Conversion::F64 | Conversion::DebugF32 | Conversion::DebugF64 => NUMBER,
            Conversion::FixedF32(_) | Conversion::FixedF64(_) => NUMBER,
        }
    }
}

fn simple(ty: &Type, field: &Field) -> Option<Conversion> {
    let Type::Scalar(scalar) = ty else { return None };
    if let (Some(digits), Trait::Display) = (field.only_precision(), field.by) {
        let digits = u8::try_from(digits).ok().filter(|&digits| usize::from(digits) < POWERS.len())?;
        return match scalar {
            Scalar::F32 => Some(Conversion::FixedF32(digits)),
            Scalar::F64 => Some(Conversion::FixedF64(digits)),
            _ => None,
        };
    }
    if !field.is_plain() {
        return None;
    }
    match (field.by, scalar) {
        (Trait::LowerHex, Scalar::I8 | Scalar::U8) => Some(Conversion::Hex8(field.alternate)),
        (Trait::LowerHex, Scalar::I16 | Scalar::U16) => Some(Conversion::Hex16(field.alternate)),
        (Trait::LowerHex, Scalar::I32 | Scalar::U32) => Some(Conversion::Hex32(field.alternate)),
        (Trait::LowerHex, Scalar::I64 | Scalar::U64) => Some(Conversion::Hex64(field.alternate)),
        (Trait::Pointer | Trait::Debug, Scalar::Pointer32) if !field.alternate => {
            Some(Conversion::Hex32(true))
        }
        (Trait::Pointer | Trait::Debug, Scalar::Pointer64) if !field.alternate => {
            Some(Conversion::Hex64(true))
        }
        (Trait::Display | Trait::Debug, Scalar::I8) => Some(Conversion::I8),
        (Trait::Display | Trait::Debug, Scalar::I16) => Some(Conversion::I16),
        (Trait::Display | Trait::Debug, Scalar::I32) => Some(Conversion::I32),
        (Trait::Display | Trait::Debug, Scalar::I64) => Some(Conversion::I64),
        (Trait::Display | Trait::Debug, Scalar::U8) => Some(Conversion::U8),
        (Trait::Display | Trait::Debug, Scalar::U16) => Some(Conversion::U16),
        (Trait::Display | Trait::Debug, Scalar::U32) => Some(Conversion::U32),
        (Trait::Display | Trait::Debug, Scalar::U64) => Some(Conversion::U64),
        (Trait::Display, Scalar::F32) => Some(Conversion::F32),
        (Trait::Display, Scalar::F64) => Some(Conversion::F64),
        (Trait::Debug, Scalar::F32) => Some(Conversion::DebugF32),
        (Trait::Debug, Scalar::F64) => Some(Conversion::DebugF64),
        (Trait::Display | Trait::Debug, Scalar::Bool) => Some(Conversion::Bool),
        (Trait::Display, Scalar::Char) => Some(Conversion::Char),
        (Trait::Display, Scalar::Str) => Some(Conversion::Str),
        _ => None,
    }
}

impl Step {
    /// Writes the literal text and the argument to the beginning of `page`; returns the length of both in bytes.
    #[inline(always)]
    fn write<const PLAIN: bool>(&self, reader: &mut ValueReader<'_>, page: &mut [u8]) -> Option<usize> {
        let room = page.first_chunk_mut::<ROOM>()?;
        put(room, 0, self.literal);
        let at = usize::from(self.length).min(CHUNK);
        macro_rules! read {
            ($type:ty) => {
                <$type>::from_le_bytes(reader.take().ok()?)
            };
        }
        match self.show {
            Conversion::Nothing => Some(at),
            Conversion::I8 => signed(page, at, read!(i8).into()),
            Conversion::I16 => signed(page, at, read!(i16).into()),
            Conversion::I32 => signed(page, at, read!(i32).into()),
            Conversion::I64 => signed(page, at, read!(i64)),
            Conversion::U8 => unsigned(page, at, read!(u8).into()),
            Conversion::U16 => unsigned(page, at, read!(u16).into()),
            Conversion::U32 => unsigned(page, at, read!(u32).into()),
            Conversion::U64 => unsigned(page, at, read!(u64)),
            Conversion::F32 | Conversion::DebugF32 => {
                let value = read!(f32);
                let at = sign(room, at, value.is_sign_negative());
                float32(page, at, value.abs(), matches!(self.show, Conversion::DebugF32))
            }
            Conversion::F64 => {
                let value = read!(f64);
                let at = sign(room, at, value.is_sign_negative());
                float64(page, at, value.abs(), false)
            }
            Conversion::DebugF64 => {
                let value = read!(f64);
                let at = sign(room, at, value.is_sign_negative());
                float64(page, at, value.abs(), true)
            }
            Conversion::FixedF32(digits) => {
                let value = read!(f32);
                let at = sign(room, at, value.is_sign_negative());
                fixed(page, at, value.abs().into(), digits.into())
            }
            Conversion::FixedF64(digits) => {
                let value = read!(f64);
                let at = sign(room, at, value.is_sign_negative());
                fixed(page, at, value.abs(), digits.into())
            }
            Conversion::Bool => {
                let (text, length) = if reader.flag().ok()? { (b"true\0", 4) } else { (b"false", 5) };
                put(room, at, *text);
                Some(at + length)
            }
            Conversion::Char => {
                let mut bytes = [0; 4];
                let length = reader.char().ok()?.encode_utf8(&mut bytes).len();
                if PLAIN && !is_plain(bytes.get(..length)?) {
                    return None;
                }
                put(room, at, bytes);
                Some(at + length)
            }
            // Plain text is ASCII, and so UTF-8.
            Conversion::Str if PLAIN => {
                text(page, at, reader.text_bytes().ok().filter(|text| is_plain(text))?)
            }
            Conversion::Str => text(page, at, reader.text().ok()?.as_bytes()),
            Conversion::Hex8(prefix) => Some(hex(room, at, read!(u8).into(), prefix)),
            Conversion::Hex16(prefix) => Some(hex(room, at, read!(u16).into(), prefix)),
            Conversion::Hex32(prefix) => Some(hex(room, at, read!(u32).into(), prefix)),
            Conversion::Hex64(prefix) => Some(hex(room, at, read!(u64), prefix)),
        }
    }
}
