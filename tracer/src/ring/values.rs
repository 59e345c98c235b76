//! Values that are gathered for one record, with types that are known at run time only. Bridges to other crates copy
//! them into a record, as the macros copy arguments.
//!
//! The values are gathered on traced threads, before the record begins: if a `Debug` traces while its value is
//! gathered, its record comes before this record, not inside it. Values of up to [`MAX_CAPTURED`] bytes in all are on
//! the stack; more bytes make all values move to the heap, and the message is formatted at the call.
#![allow(unsafe_code, reason = "reads those bytes of an array that were written; argued")]

use std::fmt::{self, Write as _};
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::slice;

use trace_format::capture::{Capture, Cursor, by};

use super::arguments::Arguments;
use super::producer::MAX_CAPTURED;

/// The type of a value that is gathered for a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ValueType {
    /// An `i64`.
    I64,
    /// A `u64`.
    U64,
    /// An `i128`.
    I128,
    /// A `u128`.
    U128,
    /// An `f64`.
    F64,
    /// A `bool`.
    Bool,
    /// A `char`.
    Char,
    /// A text that is a value of the program.
    Str,
    /// A text that was made by formatting another value.
    Text,
}

impl ValueType {
    /// Appends the descriptor of the type.
    pub(crate) fn describe(self, descriptor: &mut Vec<u8>) {
        match self {
            ValueType::I64 => <i64 as Capture<by::Debug>>::describe(descriptor),
            ValueType::U64 => <u64 as Capture<by::Debug>>::describe(descriptor),
            ValueType::I128 => <i128 as Capture<by::Debug>>::describe(descriptor),
            ValueType::U128 => <u128 as Capture<by::Debug>>::describe(descriptor),
            ValueType::F64 => <f64 as Capture<by::Debug>>::describe(descriptor),
            ValueType::Bool => <bool as Capture<by::Debug>>::describe(descriptor),
            ValueType::Char => <char as Capture<by::Debug>>::describe(descriptor),
            ValueType::Str | ValueType::Text => <str as Capture<by::Debug>>::describe(descriptor),
        }
    }
}

/// A value that was gathered for a record.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// An `i64`.
    I64(i64),
    /// A `u64`.
    U64(u64),
    /// An `i128`.
    I128(i128),
    /// A `u128`.
    U128(u128),
    /// An `f64`.
    F64(f64),
    /// A `bool`.
    Bool(bool),
    /// A `char`.
    Char(char),
    /// A text that is a value of the program.
    Str(&'a str),
    /// A text that was made by formatting another value.
    Text(&'a str),
}

/// The last characters of the text of a value whose `Debug` or `Display` has panicked.
pub(crate) const PANICKED: &str = "<panicked>";

/// The 16-bit length that stands before a long text, to say that the real length follows as a `u64`. Only values on the
/// heap have such texts.
const LONG: u16 = u16::MAX;

/// The maximum number of values in [`Values`] itself; if there are more, all values and their types are on the heap.
const MAX_INLINE_TYPES: usize = 32;

/// Values for one record.
///
/// A value is added with a *key*, a number that distinguishes it from the other values of the same position in the
/// source: values with the same keys and types in the same order have the same [`shape`](Values::shape).
pub struct Values {
    /// The values, in the layout of [`trace_format::capture`]. The first `length` bytes are initialized.
    bytes: [MaybeUninit<u8>; MAX_CAPTURED],
    length: usize,
    types: [ValueType; MAX_INLINE_TYPES],
    count: usize,
    shape: u64,
    /// The bytes and types of all values, if there is no room for them in `bytes` and `types`; otherwise `None`.
    moved: Option<Box<HeapValues>>,
}

#[derive(Debug, Default)]
struct HeapValues {
    bytes: Vec<u8>,
    types: Vec<ValueType>,
}

impl fmt::Debug for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl Default for Values {
    fn default() -> Values {
        Values::new()
    }
}

impl Values {
    /// Makes an empty set of values. The call initializes some sixty bytes.
    #[inline(always)]
    #[must_use]
    pub const fn new() -> Values {
        Values {
            bytes: [MaybeUninit::uninit(); MAX_CAPTURED],
            length: 0,
            types: [ValueType::I64; MAX_INLINE_TYPES],
            count: 0,
            shape: 0,
            moved: None,
        }
    }

    /// Adds an `i64` with this key.
    #[inline]
    pub fn i64(&mut self, key: u64, value: i64) {
        self.begin(key, ValueType::I64);
        self.put(value.to_le_bytes());
    }

    /// Adds a `u64` with this key.
    #[inline]
    pub fn u64(&mut self, key: u64, value: u64) {
        self.begin(key, ValueType::U64);
        self.put(value.to_le_bytes());
    }

    /// Adds an `i128` with this key.
    #[inline]
    pub fn i128(&mut self, key: u64, value: i128) {
        self.begin(key, ValueType::I128);
        self.put(value.to_le_bytes());
    }

    /// Adds a `u128` with this key.
    #[inline]
    pub fn u128(&mut self, key: u64, value: u128) {
        self.begin(key, ValueType::U128);
        self.put(value.to_le_bytes());
    }

    /// Adds an `f64` with this key.
    #[inline]
    pub fn f64(&mut self, key: u64, value: f64) {
        self.begin(key, ValueType::F64);
        self.put(value.to_le_bytes());
    }

    /// Adds a `bool` with this key.
    #[inline]
    pub fn bool(&mut self, key: u64, value: bool) {
        self.begin(key, ValueType::Bool);
        self.put([u8::from(value)]);
    }

    /// Adds a `char` with this key.
    #[inline]
    pub fn char(&mut self, key: u64, value: char) {
        self.begin(key, ValueType::Char);
        self.put(u32::from(value).to_le_bytes());
    }

    /// Adds a text that is a value of the program, with this key.
    #[inline]
    pub fn str(&mut self, key: u64, value: &str) {
        self.begin(key, ValueType::Str);
        self.put_text(value);
    }

    /// Formats `value` now, and adds the text with this key.
    ///
    /// A panic of a `Debug` or `Display` does not leave this function: the text ends where the panic began, followed by
    /// `<panicked>`.
    #[inline]
    pub fn text(&mut self, key: u64, value: fmt::Arguments<'_>) {
        self.begin(key, ValueType::Text);
        match value.as_str() {
            Some(text) => self.put_text(text),
            None => self.put_formatted(value),
        }
    }

    /// Returns a number that all values with these keys and types share; values with other keys or types have the same
    /// number with a probability of one in 2⁶⁴.
    #[inline(always)]
    #[must_use]
    pub fn shape(&self) -> u64 {
        self.shape
    }

    /// Returns the types of the values, in their order.
    #[must_use]
    pub fn types(&self) -> &[ValueType] {
        match &self.moved {
            Some(moved) => &moved.types,
            None => &self.types[..self.count],
        }
    }

    /// Returns the values in their order.
    pub fn iter(&self) -> impl Iterator<Item = Value<'_>> {
        let mut rest = Rest(self.bytes());
        self.types().iter().map_while(move |value_type| rest.value(*value_type))
    }

    #[inline(always)]
    fn bytes(&self) -> &[u8] {
        match &self.moved {
            Some(moved) => &moved.bytes,
            // SAFETY: the first `length` bytes are initialized: only `put_slice` raises it, by the number of
            // bytes that it has written there.
            None => unsafe { slice::from_raw_parts(self.bytes.as_ptr().cast(), self.length) },
        }
    }

    #[inline(always)]
    fn begin(&mut self, key: u64, value_type: ValueType) {
        /// An odd number without a pattern: 2⁶⁴ divided by the golden ratio.
        const MIX: u64 = 0x9e37_79b9_7f4a_7c15;
        let here = key.wrapping_mul(16).wrapping_add(1 + value_type as u64);
        self.shape = (self.shape.rotate_left(23) ^ here).wrapping_mul(MIX);
        if self.moved.is_none() && self.count < MAX_INLINE_TYPES {
            self.types[self.count] = value_type;
            self.count += 1;
        } else {
            self.move_to_heap().types.push(value_type);
        }
    }

    #[inline(always)]
    fn put<const N: usize>(&mut self, bytes: [u8; N]) {
        self.put_slice(&bytes);
    }

    #[inline(always)]
    fn put_slice(&mut self, bytes: &[u8]) {
        let end = self.length + bytes.len();
        match self.bytes.get_mut(self.length..end) {
            Some(here) if self.moved.is_none() => {
                for (to, from) in here.iter_mut().zip(bytes) {
                    to.write(*from);
                }
                self.length = end;
            }
            _ => self.move_to_heap().bytes.extend_from_slice(bytes),
        }
    }

    #[inline(always)]
    fn put_text(&mut self, text: &str) {
        match u16::try_from(text.len()) {
            Ok(length) if length < LONG => self.put(length.to_le_bytes()),
            _ => {
                let bytes = &mut self.move_to_heap().bytes;
                bytes.extend_from_slice(&LONG.to_le_bytes());
                bytes.extend_from_slice(&(text.len() as u64).to_le_bytes());
            }
        }
        self.put_slice(text.as_bytes());
    }

    #[inline(never)]
    fn put_formatted(&mut self, value: fmt::Arguments<'_>) {
        let start = self.bytes().len();
        self.put([0; 2]);
        // An error that a `Debug` itself returns ends the text where it is.
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| self.write_fmt(value))) {
            // Dropping the panic's value may panic again.
            std::mem::forget(payload);
            self.put_slice(PANICKED.as_bytes());
        }
        let length = self.bytes().len() - start - 2;
        match u16::try_from(length) {
            Ok(length) if length < LONG => self.replace(start, length),
            _ => {
                self.replace(start, LONG);
                let at = start + 2;
                self.move_to_heap().bytes.splice(at..at, (length as u64).to_le_bytes());
            }
        }
    }

    /// Writes the 16-bit `length` over the two bytes at the index `at`, which must have been written before.
    fn replace(&mut self, at: usize, length: u16) {
        let [low, high] = length.to_le_bytes();
        match &mut self.moved {
            Some(moved) => moved.bytes[at..at + 2].copy_from_slice(&[low, high]),
            None => {
                self.bytes[at].write(low);
                self.bytes[at + 1].write(high);
            }
        }
    }

    /// Returns the values on the heap, to which the first call moves them.
    #[cold]
    #[inline(never)]
    fn move_to_heap(&mut self) -> &mut HeapValues {
        let moved = match self.moved.take() {
            Some(moved) => moved,
            None => Box::new(HeapValues { bytes: self.bytes().to_vec(), types: self.types().to_vec() }),
        };
        self.moved.insert(moved)
    }
}

impl fmt::Write for Values {
    #[inline]
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.put_slice(text.as_bytes());
        Ok(())
    }
}

/// Values on the stack are captured unchanged. Values that were moved to the heap are not captured: there are too many
/// of them, they have too many bytes, or a text among them is too long.
impl Arguments for Values {
    const CAPTURED: bool = true;
    /// A placeholder: the signature of values with types known at run time depends on their keys and types, see
    /// [`Values::shape`].
    const SIGNATURE: u32 = 1;

    #[inline(always)]
    fn size(&self) -> usize {
        if self.moved.is_none() { self.length } else { usize::MAX }
    }

    #[inline(always)]
    fn write(&self, to: &mut Cursor<'_>) {
        to.put_slice(self.bytes());
    }

    fn describe(_: &mut Vec<u8>) {}
}

/// The bytes of the values that are still to be read.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (here, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*here)
    }

    fn text(&mut self) -> Option<&'a str> {
        let length = match u16::from_le_bytes(self.array()?) {
            LONG => usize::try_from(u64::from_le_bytes(self.array()?)).ok()?,
            length => usize::from(length),
        };
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        std::str::from_utf8(text).ok()
    }

    fn value(&mut self, value_type: ValueType) -> Option<Value<'a>> {
        Some(match value_type {
            ValueType::I64 => Value::I64(i64::from_le_bytes(self.array()?)),
            ValueType::U64 => Value::U64(u64::from_le_bytes(self.array()?)),
            ValueType::I128 => Value::I128(i128::from_le_bytes(self.array()?)),
            ValueType::U128 => Value::U128(u128::from_le_bytes(self.array()?)),
            ValueType::F64 => Value::F64(f64::from_le_bytes(self.array()?)),
            ValueType::Bool => Value::Bool(self.array()? != [0]),
            ValueType::Char => Value::Char(char::from_u32(u32::from_le_bytes(self.array()?))?),
            ValueType::Str => Value::Str(self.text()?),
            ValueType::Text => Value::Text(self.text()?),
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    enum Owned {
        I64(i64),
        U64(u64),
        I128(i128),
        U128(u128),
        F64(f64),
        Bool(bool),
        Char(char),
        Str(String),
        Text(String),
    }

    fn owned() -> impl Strategy<Value = Owned> {
        prop_oneof![
            any::<i64>().prop_map(Owned::I64),
            any::<u64>().prop_map(Owned::U64),
            any::<i128>().prop_map(Owned::I128),
            any::<u128>().prop_map(Owned::U128),
            // NaN is not equal to itself.
            any::<i32>().prop_map(|n| Owned::F64(f64::from(n) / 7.0)),
            any::<bool>().prop_map(Owned::Bool),
            any::<char>().prop_map(Owned::Char),
            ".{0,80}".prop_map(Owned::Str),
            ("[a-z]{1,4}", 0usize..300).prop_map(|(text, times)| Owned::Text(text.repeat(times))),
        ]
    }

    fn add(values: &mut Values, key: u64, value: &Owned) {
        match value {
            Owned::I64(value) => values.i64(key, *value),
            Owned::U64(value) => values.u64(key, *value),
            Owned::I128(value) => values.i128(key, *value),
            Owned::U128(value) => values.u128(key, *value),
            Owned::F64(value) => values.f64(key, *value),
            Owned::Bool(value) => values.bool(key, *value),
            Owned::Char(value) => values.char(key, *value),
            Owned::Str(value) => values.str(key, value),
            Owned::Text(value) => values.text(key, format_args!("{value}")),
        }
    }

    fn borrowed(value: &Owned) -> Value<'_> {
        match value {
            Owned::I64(value) => Value::I64(*value),
            Owned::U64(value) => Value::U64(*value),
            Owned::I128(value) => Value::I128(*value),
            Owned::U128(value) => Value::U128(*value),
            Owned::F64(value) => Value::F64(*value),
            Owned::Bool(value) => Value::Bool(*value),
            Owned::Char(value) => Value::Char(*value),
            Owned::Str(value) => Value::Str(value),
            Owned::Text(value) => Value::Text(value),
        }
    }

    proptest! {
        #[test]
        fn added_values_are_kept_even_beyond_the_stack(all in prop::collection::vec(owned(), 0..60)) {
            let mut values = Values::new();
            for (key, value) in all.iter().enumerate() {
                add(&mut values, key as u64, value);
            }
            let expected: Vec<_> = all.iter().map(borrowed).collect();
            prop_assert_eq!(values.iter().collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn texts_of_any_length_are_whole() {
        for length in [0, 1, 1021, 1022, 1023, 1024, 65_533, 65_534, 65_535, 65_536, 200_000] {
            let text = "x".repeat(length);
            let mut values = Values::new();
            values.text(0, format_args!("{text}{}", ""));
            values.str(1, &text);
            values.bool(2, true);
            let expected = [Value::Text(&text), Value::Str(&text), Value::Bool(true)];
            assert_eq!(values.iter().collect::<Vec<_>>(), expected, "{length}");
        }
    }

    #[test]
    fn a_panic_while_formatting_ends_only_its_own_text() {
        struct Panics;
        impl fmt::Display for Panics {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("half ")?;
                panic!("in a Display")
            }
        }
        let mut values = Values::new();
        values.text(0, format_args!("{Panics}"));
        values.i64(1, -1);
        assert_eq!(values.iter().collect::<Vec<_>>(), [Value::Text("half <panicked>"), Value::I64(-1)]);
    }

    #[test]
    fn shapes_differ_by_keys_and_types_and_their_order() {
        let shape = |add: &dyn Fn(&mut Values)| {
            let mut values = Values::new();
            add(&mut values);
            values.shape()
        };
        let shapes = [
            shape(&|_| {}),
            shape(&|v| v.i64(0, 1)),
            shape(&|v| v.u64(0, 1)),
            shape(&|v| v.i64(1, 1)),
            shape(&|v| v.str(0, "")),
            shape(&|v| v.text(0, format_args!(""))),
            shape(&|v| (v.i64(0, 1), v.i64(1, 1)).0),
            shape(&|v| (v.i64(1, 1), v.i64(0, 1)).0),
        ];
        let different: std::collections::BTreeSet<_> = shapes.iter().collect();
        assert_eq!(different.len(), shapes.len());
        assert_eq!(shape(&|v| v.i64(0, 1)), shape(&|v| v.i64(0, 2)), "a value is not part of the shape");
    }
}
