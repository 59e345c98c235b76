//! The captured values of a message, with the types and names that its site records.
//!
//! Simple values, such as numbers and texts, are read from the bytes of the record. A composite value, such
//! as a struct, is represented by its `{:?}` text.

use std::borrow::Cow;

use trace_format::fields::SitePlan;
use trace_format::sites::Site;

/// The type of a captured value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    /// A signed integer of this number of bits.
    Signed(u32),
    /// An unsigned integer of this number of bits.
    Unsigned(u32),
    /// `f32`
    F32,
    /// `f64`
    F64,
    /// `bool`
    Bool,
    /// `char`
    Char,
    /// `str`
    Text,
    /// `()`
    Unit,
    /// A pointer of this number of bits.
    Pointer(u32),
    /// A value that is composed of others.
    Composite,
}

#[cfg(feature = "parquet")]
impl Type {
    /// Returns the name of the type, as in Rust if it has one there.
    #[must_use]
    pub(crate) fn name(self) -> Cow<'static, str> {
        match self {
            Type::Signed(bits) => format!("i{bits}").into(),
            Type::Unsigned(bits) => format!("u{bits}").into(),
            Type::F32 => "f32".into(),
            Type::F64 => "f64".into(),
            Type::Bool => "bool".into(),
            Type::Char => "char".into(),
            Type::Text => "str".into(),
            Type::Unit => "()".into(),
            Type::Pointer(_) => "pointer".into(),
            Type::Composite => "composite".into(),
        }
    }
}

/// A captured value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value<'a> {
    /// A signed integer.
    Signed(i128),
    /// An unsigned integer.
    Unsigned(u128),
    /// An `f32`. Its shortest decimal form differs from that of the same number as an `f64`.
    F32(f32),
    /// An `f64`.
    F64(f64),
    /// A Boolean value.
    Bool(bool),
    /// The address of a pointer.
    Pointer(u64),
    /// A text, a character, or the `{:?}` text of a composite value.
    Text(Cow<'a, str>),
}

/// A captured value of a site: its name and its type.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    /// The name of the value; its index if it has no name, or if another value has the same name.
    pub name: String,
    /// The type of the value.
    pub of: Type,
    /// The plan that renders the value as text; `None` if the value can be read directly from the bytes.
    plan: Option<SitePlan>,
}

/// The captured values of a site.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fields {
    fields: Vec<Field>,
    /// The number that [`Fields::bytes_of_numbers`] returns.
    bytes_of_numbers: Option<usize>,
}

impl Fields {
    /// Reads the types and names of a site's values. Returns no values if the site's entry is damaged.
    #[must_use]
    pub(crate) fn of(site: &Site) -> Fields {
        let mut rest = &site.descriptor[..];
        let (mut fields, mut is_behind_composite): (Vec<Field>, bool) = (Vec::new(), false);
        while !rest.is_empty() {
            let Some((of, behind)) = one_type(rest, MAX_TYPE_DEPTH) else { return Fields::default() };
            rest = behind;
            let number = fields.len();
            let given = site
                .names
                .get(number)
                .filter(|name| !name.is_empty() && fields.iter().all(|field| field.name != **name));
            let name = given.cloned().unwrap_or_else(|| number.to_string());
            is_behind_composite |= of == Type::Composite;
            let format = match of {
                Type::Composite | Type::F32 | Type::F64 | Type::Unit | Type::Pointer(_) => {
                    format!("{{{number}:?}}")
                }
                _ => format!("{{{number}}}"),
            };
            let plan = if is_behind_composite {
                let Ok(plan) = SitePlan::new(&format, &site.descriptor) else { return Fields::default() };
                Some(plan)
            } else {
                None
            };
            fields.push(Field { name, of, plan });
        }
        let bytes = fields.iter().map(|field| match field.of {
            Type::Signed(bits @ ..=64) | Type::Unsigned(bits @ ..=64) => Some(bits as usize / 8),
            Type::F32 => Some(4),
            Type::F64 => Some(8),
            _ => None,
        });
        let bytes_of_numbers = bytes.sum::<Option<usize>>().filter(|bytes| *bytes > 0);
        Fields { fields, bytes_of_numbers }
    }

    /// Returns the names and types of the values, in order.
    #[must_use]
    pub(crate) fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// Returns the length in bytes of a record's payload if all values are integers and floats of at most 64 bits,
    /// which lie one after another, little-endian. Returns `None` if there are other values, or no values.
    #[must_use]
    pub(crate) fn bytes_of_numbers(&self) -> Option<usize> {
        self.bytes_of_numbers
    }

    /// Reads the values of a record from its payload into `values`, replacing their contents. Returns whether
    /// the payload could be read.
    #[must_use]
    pub(crate) fn read<'a>(&self, payload: &'a [u8], values: &mut Vec<Value<'a>>) -> bool {
        values.clear();
        let mut rest = payload;
        for field in &self.fields {
            let value = match &field.plan {
                None => scalar(field.of, &mut rest),
                Some(plan) => {
                    let mut text = Vec::new();
                    let rendered = plan.render(payload, &mut text).ok();
                    rendered.and_then(|_| parsed(field.of, String::from_utf8_lossy(&text).into_owned()))
                }
            };
            let Some(value) = value else { return false };
            values.push(value);
        }
        true
    }
}

/// Empties `values`, and returns the vector with its memory, for values with another lifetime.
#[must_use]
pub(crate) fn clear_and_reuse<'a>(mut values: Vec<Value<'_>>) -> Vec<Value<'a>> {
    values.clear();
    // The standard library collects the iterator in place, which keeps the allocation.
    values.into_iter().map_while(|_| None).collect()
}

/// The maximum depth of types nested in types.
const MAX_TYPE_DEPTH: usize = 64;

/// Reads the type at the beginning of a descriptor. Returns it with the rest of the descriptor. The tags are those of
/// [`trace_format::capture::descriptor`].
fn one_type(descriptor: &[u8], depth: usize) -> Option<(Type, &[u8])> {
    let inner = depth.checked_sub(1)?;
    let (tag, rest) = descriptor.split_first()?;
    let skip = |rest| Some(one_type(rest, inner)?.1);
    let composite = |rest| Some((Type::Composite, rest));
    Some((
        match tag {
            b'a' => Type::Signed(8),
            b's' => Type::Signed(16),
            b'l' => Type::Signed(32),
            b'x' => Type::Signed(64),
            b'n' => Type::Signed(128),
            b'h' => Type::Unsigned(8),
            b't' => Type::Unsigned(16),
            b'm' => Type::Unsigned(32),
            b'y' => Type::Unsigned(64),
            b'o' => Type::Unsigned(128),
            b'f' => Type::F32,
            b'd' => Type::F64,
            b'b' => Type::Bool,
            b'c' => Type::Char,
            b'e' => Type::Text,
            b'u' => Type::Unit,
            b'p' => Type::Pointer(32),
            b'P' => Type::Pointer(64),
            // Durations and addresses are shown as their texts.
            b'D' | b'I' | b'K' => return composite(rest),
            b'O' | b'S' => return composite(skip(rest)?),
            b'R' => return composite(skip(skip(rest)?)?),
            b'A' => return composite(skip(rest.get(4..)?)?),
            b'E' => {
                let (mut count, mut rest) = number(rest)?;
                while count > 0 {
                    rest = shape(rest, inner)?;
                    count -= 1;
                }
                return composite(rest);
            }
            _ => return composite(shape(descriptor, inner)?),
        },
        rest,
    ))
}

/// Skips the description of a struct, a tuple or a variant at the beginning of a descriptor. Returns the rest of the
/// descriptor.
fn shape(descriptor: &[u8], depth: usize) -> Option<&[u8]> {
    let (tag, rest) = descriptor.split_first()?;
    let rest = name(rest)?;
    if *tag == b'U' {
        return Some(rest);
    }
    let (count, mut rest) = number(rest).filter(|_| matches!(tag, b'T' | b'N'))?;
    for _ in 0..count {
        let of_type = if *tag == b'N' { name(rest)? } else { rest };
        rest = one_type(of_type, depth)?.1;
    }
    Some(rest)
}

fn number(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (number, rest) = bytes.split_first_chunk()?;
    Some((usize::from(u16::from_le_bytes(*number)), rest))
}

fn name(bytes: &[u8]) -> Option<&[u8]> {
    let (length, rest) = number(bytes)?;
    rest.get(length..)
}

/// Reads a value that is not composite from the beginning of `rest`, and advances `rest` behind it.
fn scalar<'a>(of: Type, rest: &mut &'a [u8]) -> Option<Value<'a>> {
    fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
        let (bytes, behind) = rest.split_first_chunk()?;
        *rest = behind;
        Some(*bytes)
    }
    Some(match of {
        Type::Signed(8) => Value::Signed(i8::from_le_bytes(take(rest)?).into()),
        Type::Signed(16) => Value::Signed(i16::from_le_bytes(take(rest)?).into()),
        Type::Signed(32) => Value::Signed(i32::from_le_bytes(take(rest)?).into()),
        Type::Signed(64) => Value::Signed(i64::from_le_bytes(take(rest)?).into()),
        Type::Signed(_) => Value::Signed(i128::from_le_bytes(take(rest)?)),
        Type::Unsigned(8) => Value::Unsigned(u8::from_le_bytes(take(rest)?).into()),
        Type::Unsigned(16) => Value::Unsigned(u16::from_le_bytes(take(rest)?).into()),
        Type::Unsigned(32) => Value::Unsigned(u32::from_le_bytes(take(rest)?).into()),
        Type::Unsigned(64) => Value::Unsigned(u64::from_le_bytes(take(rest)?).into()),
        Type::Unsigned(_) => Value::Unsigned(u128::from_le_bytes(take(rest)?)),
        Type::F32 => Value::F32(f32::from_le_bytes(take(rest)?)),
        Type::F64 => Value::F64(f64::from_le_bytes(take(rest)?)),
        Type::Bool => Value::Bool(take::<1>(rest)? != [0]),
        Type::Pointer(32) => Value::Pointer(u32::from_le_bytes(take(rest)?).into()),
        Type::Pointer(_) => Value::Pointer(u64::from_le_bytes(take(rest)?)),
        Type::Char => Value::Text(char::from_u32(u32::from_le_bytes(take(rest)?))?.to_string().into()),
        Type::Text => {
            let (length, behind) = number(rest)?;
            let (text, behind) = behind.split_at_checked(length)?;
            *rest = behind;
            Value::Text(std::str::from_utf8(text).ok()?.into())
        }
        Type::Unit => Value::Text("()".into()),
        Type::Composite => return None,
    })
}

/// Parses the text of a value of the type `of`.
fn parsed(of: Type, text: String) -> Option<Value<'static>> {
    Some(match of {
        Type::Signed(_) => Value::Signed(text.parse().ok()?),
        Type::Unsigned(_) => Value::Unsigned(text.parse().ok()?),
        Type::F32 => Value::F32(text.parse().ok()?),
        Type::F64 => Value::F64(text.parse().ok()?),
        Type::Bool => Value::Bool(text == "true"),
        Type::Pointer(_) => Value::Pointer(u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()?),
        Type::Char | Type::Text | Type::Unit | Type::Composite => Value::Text(text.into()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(descriptor: &[u8], names: &[&str]) -> Site {
        let names = names.iter().map(|&name| name.to_owned()).collect();
        Site { id: 1, descriptor: descriptor.to_vec(), names, ..Site::default() }
    }

    #[test]
    fn scalars_are_read_before_and_after_composite_values() {
        let scalars: (&[u8], Vec<u8>) = (
            b"lyfdbcePn",
            [
                &(-7i32).to_le_bytes()[..],
                &u64::MAX.to_le_bytes(),
                &0.1f32.to_le_bytes(),
                &1e300f64.to_le_bytes(),
                &[1],
                &u32::from('ü').to_le_bytes(),
                &[3, 0],
                b"a b",
                &0xbeefu64.to_le_bytes(),
                &i128::MIN.to_le_bytes(),
            ]
            .concat(),
        );
        let expected = [
            Value::Signed(-7),
            Value::Unsigned(u64::MAX.into()),
            Value::F32(0.1),
            Value::F64(1e300),
            Value::Bool(true),
            Value::Text("ü".into()),
            Value::Text("a b".into()),
            Value::Pointer(0xbeef),
            Value::Signed(i128::MIN),
        ];
        let fields = Fields::of(&site(scalars.0, &["a", "", "a", "d"]));
        let names: Vec<&str> = fields.fields().iter().map(|field| &field.name[..]).collect();
        assert_eq!(names, ["a", "1", "2", "d", "4", "5", "6", "7", "8"]);
        let mut values = Vec::new();
        assert!(fields.read(&scalars.1, &mut values));
        assert_eq!(values, expected);

        // The same values after `Some(5u8)`: a tag of one byte, and the value.
        let (descriptor, payload) = ([b"Oh", scalars.0].concat(), [&[1, 5][..], &scalars.1].concat());
        let mut values = clear_and_reuse(values);
        assert!(Fields::of(&site(&descriptor, &[])).read(&payload, &mut values));
        assert_eq!(values[0], Value::Text("Some(5)".into()));
        assert_eq!(values[1..], expected);
    }

    #[test]
    fn every_kind_of_composite_type_is_skipped() {
        let named = b"N\x01\0P\x02\0\x01\0xl\x01\0ye";
        let all =
            [&b"SRhe"[..], b"A\x03\0\0\0OD", b"E\x02\0U\x01\0AT\x01\0B\x01\0c", b"T\0\0\x02\0he", named]
                .concat();
        let fields = Fields::of(&site(&all, &[]));
        assert_eq!(fields.fields().len(), 5);
        assert!(fields.fields().iter().all(|field| field.of == Type::Composite));
        for end in 1..all.len() {
            let _ = Fields::of(&site(&all[..end], &[]));
        }
        assert!(Fields::of(&site(&[b'O'; 100], &[])).fields().is_empty());
    }

    #[test]
    fn durations_and_addresses_are_texts() {
        let duration = [&2u64.to_le_bytes()[..], &500_000_000u32.to_le_bytes()].concat();
        let payload = [&[7][..], &duration, &[4, 127, 0, 0, 1], &[4, 127, 0, 0, 1, 80, 0], &[8]].concat();
        let fields = Fields::of(&site(b"hDIKh", &["a", "time", "ip", "peer", "b"]));
        let mut values = Vec::new();
        assert!(fields.read(&payload, &mut values));
        let text = |text: &'static str| Value::Text(text.into());
        let expected =
            [Value::Unsigned(7), text("2.5s"), text("127.0.0.1"), text("127.0.0.1:80"), Value::Unsigned(8)];
        assert_eq!(values, expected);
    }
}
