//! Values that consist of other values. The `Debug` helpers of std print them; this module only tells the helpers the
//! structure, one value after the other.

use std::cell::Cell;
use std::fmt::{self, Debug, Write};

use super::field::Field;
use super::value::ValueReader;
use super::{MAX_MESSAGE, PayloadError};
use crate::capture::descriptor::{Composite, FieldTypes, Scalar, Type};
use crate::template::HexCase;

/// Appends the text of a value of type `ty` as `{:?}` prints it with the flags of `field`.
pub(super) fn render(
    ty: &Type,
    reader: &mut ValueReader<'_>,
    field: &Field,
    precision: Option<usize>,
    out: &mut Vec<u8>,
) -> Result<(), PayloadError> {
    let source = PayloadSource { reader: Cell::new(*reader), error: Cell::new(None) };
    let shown = Decoded { ty, source: &source };
    let mut out = Bounded { out, room: MAX_MESSAGE, error: &source.error };
    let written = write_debug(&mut out, &shown, field, precision);
    *reader = source.reader.get();
    // The implementation that failed has left its error in the source.
    written.map_err(|fmt::Error| source.error.get().unwrap_or(PayloadError::NoValue))
}

/// Prints a value with the flags of `field`. The function has one `write!` for each combination of flags, because a
/// program cannot make a `Formatter` with given flags.
pub(super) fn write_debug(
    to: &mut dyn Write,
    value: &dyn Debug,
    field: &Field,
    precision: Option<usize>,
) -> fmt::Result {
    macro_rules! by_precision {
        ($flags:literal, $by:literal) => {
            match precision {
                None => write!(to, concat!("{:", $flags, $by, "}"), value),
                Some(precision) => write!(to, concat!("{:", $flags, ".*", $by, "}"), precision, value),
            }
        };
    }
    macro_rules! by_flags {
        ($by:literal) => {
            match (field.plus, field.alternate) {
                (false, false) => by_precision!("", $by),
                (false, true) => by_precision!("#", $by),
                (true, false) => by_precision!("+", $by),
                (true, true) => by_precision!("+#", $by),
            }
        };
    }
    match field.hex {
        None => by_flags!("?"),
        Some(HexCase::Lower) => by_flags!("x?"),
        Some(HexCase::Upper) => by_flags!("X?"),
    }
}

/// A buffer that collects text, up to a greatest length in bytes; longer text is an error.
struct Bounded<'a> {
    out: &'a mut Vec<u8>,
    room: usize,
    error: &'a Cell<Option<PayloadError>>,
}

impl Write for Bounded<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.room = self.room.checked_sub(text.len()).ok_or_else(|| {
            self.error.set(Some(PayloadError::TooLong));
            fmt::Error
        })?;
        self.out.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

/// A reader of the bytes of one argument. The `Debug` helpers of std read values from it while they print them; if a
/// value cannot be read, it keeps the error.
struct PayloadSource<'p> {
    reader: Cell<ValueReader<'p>>,
    error: Cell<Option<PayloadError>>,
}

impl<'p> PayloadSource<'p> {
    fn read<T>(
        &self,
        read: impl FnOnce(&mut ValueReader<'p>) -> Result<T, PayloadError>,
    ) -> Result<T, fmt::Error> {
        let mut reader = self.reader.get();
        let result = read(&mut reader);
        self.reader.set(reader);
        result.map_err(|e| {
            self.error.set(Some(e));
            fmt::Error
        })
    }
}

/// The next value in a [`PayloadSource`], and its type `ty`. The value is read while `Debug` prints it.
struct Decoded<'a, 'p> {
    ty: &'a Type,
    source: &'a PayloadSource<'p>,
}

/// The next value in a [`PayloadSource`], an element of a slice or array. An element without bytes is stored as one
/// byte, which is skipped.
struct Element<'a, 'p>(Decoded<'a, 'p>);

impl<'a, 'p> Decoded<'a, 'p> {
    fn of(&self, ty: &'a Type) -> Decoded<'a, 'p> {
        Decoded { ty, source: self.source }
    }

    fn list(&self, count: usize, ty: &'a Type, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let element = Element(self.of(ty));
        let mut list = f.debug_list();
        for _ in 0..count {
            if self.source.error.get().is_some() {
                return Err(fmt::Error);
            }
            list.entry(&element);
        }
        list.finish()
    }

    /// Prints a struct, variant or tuple as `derive(Debug)` does.
    fn shape(&self, shape: &'a Composite, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &shape.fields {
            FieldTypes::None => f.write_str(&shape.name),
            FieldTypes::Tuple(types) => {
                let mut tuple = f.debug_tuple(&shape.name);
                for ty in types {
                    tuple.field(&self.of(ty));
                }
                tuple.finish()
            }
            FieldTypes::Named(fields) => {
                let mut named = f.debug_struct(&shape.name);
                for (name, ty) in fields {
                    named.field(name, &self.of(ty));
                }
                named.finish()
            }
        }
    }
}

impl Debug for Decoded<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.ty {
            Type::Scalar(scalar) => self.source.fmt_scalar(*scalar, f),
            Type::Option(some) => {
                if self.source.read(ValueReader::flag)? {
                    f.debug_tuple("Some").field(&self.of(some)).finish()
                } else {
                    f.write_str("None")
                }
            }
            Type::Result(either) => {
                let is_err = self.source.read(ValueReader::flag)?;
                let name = if is_err { "Err" } else { "Ok" };
                f.debug_tuple(name).field(&self.of(&either[usize::from(is_err)])).finish()
            }
            Type::Slice(ty) => self.list(self.source.read(ValueReader::length)?, ty, f),
            Type::Array(count, ty) => self.list(usize::try_from(*count).unwrap_or(usize::MAX), ty, f),
            Type::Struct(shape) => self.shape(shape, f),
            Type::Enum(variants) => {
                let variant =
                    |r: &mut ValueReader<'_>| variants.get(r.length()?).ok_or(PayloadError::NoValue);
                self.shape(self.source.read(variant)?, f)
            }
        }
    }
}

impl PayloadSource<'_> {
    /// Prints the next value, a scalar, by the `Debug` of the value's own type. Hex digits of a negative number depend
    /// on the width of that type.
    fn fmt_scalar(&self, scalar: Scalar, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        macro_rules! number {
            ($type:ty) => {
                <$type>::from_le_bytes(self.read(ValueReader::take)?).fmt(f)
            };
        }
        match scalar {
            Scalar::I8 => number!(i8),
            Scalar::I16 => number!(i16),
            Scalar::I32 => number!(i32),
            Scalar::I64 => number!(i64),
            Scalar::I128 => number!(i128),
            Scalar::U8 => number!(u8),
            Scalar::U16 => number!(u16),
            Scalar::U32 => number!(u32),
            Scalar::U64 => number!(u64),
            Scalar::U128 => number!(u128),
            Scalar::F32 => number!(f32),
            Scalar::F64 => number!(f64),
            Scalar::Bool => self.read(ValueReader::flag)?.fmt(f),
            Scalar::Char => self.read(ValueReader::char)?.fmt(f),
            Scalar::Str => self.read(ValueReader::text)?.fmt(f),
            Scalar::Void => ().fmt(f),
            Scalar::Duration => self.read(ValueReader::duration)?.fmt(f),
            Scalar::Ip => self.read(ValueReader::ip)?.fmt(f),
            Scalar::Socket => self.read(ValueReader::socket)?.fmt(f),
            Scalar::Pointer32 => fmt_address(u32::from_le_bytes(self.read(ValueReader::take)?).into(), 32, f),
            Scalar::Pointer64 => fmt_address(u64::from_le_bytes(self.read(ValueReader::take)?), 64, f),
        }
    }
}

/// Prints a pointer of `bits` bits, which may differ from the width of this process's pointers.
fn fmt_address(address: u64, bits: usize, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let digits = if f.alternate() { bits / 4 + 2 } else { 0 };
    if f.sign_plus() { write!(f, "{address:+#0digits$x}") } else { write!(f, "{address:#0digits$x}") }
}

impl Debug for Element<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let source = self.0.source;
        let before = source.reader.get().remaining();
        self.0.fmt(f)?;
        source.read(|r| r.end_element(before))
    }
}
