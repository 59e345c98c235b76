//! The reader of captured bytes, which returns values.

use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::time::Duration;

use super::PayloadError;
use crate::capture::descriptor::{Composite, FieldTypes, Scalar, Type};

/// A reader of a payload, with the bytes that are not read yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct ValueReader<'p> {
    rest: &'p [u8],
    /// The number of further values that may be skipped before the payload counts as too long.
    values: u32,
}

/// The greatest number of values in one payload, including values inside other values. The length of the payload alone
/// sets no limit, because a struct may have any number of fields without bytes.
const MAX_VALUES: u32 = 1 << 24;

/// A value that does not consist of other values.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value<'p> {
    Integer {
        negative: bool,
        magnitude: u128,
        /// The value in two's complement, with as many bits as its type has.
        bits: u128,
    },
    F32(f32),
    F64(f64),
    Bool(bool),
    Char(char),
    Text(&'p str),
    Void,
    Duration(Duration),
    Ip(IpAddr),
    Socket(SocketAddr),
    /// An address, and its number of bits.
    Address(u64, u32),
}

impl<'p> ValueReader<'p> {
    #[inline(always)]
    pub(super) fn new(bytes: &'p [u8]) -> ValueReader<'p> {
        ValueReader { rest: bytes, values: MAX_VALUES }
    }

    /// Returns an error if the payload has bytes that were not read.
    #[inline(always)]
    pub(super) fn end(&self) -> Result<(), PayloadError> {
        if self.rest.is_empty() { Ok(()) } else { Err(PayloadError::Excess) }
    }

    #[inline(always)]
    pub(super) fn remaining(&self) -> usize {
        self.rest.len()
    }

    #[inline(always)]
    pub(super) fn take<const N: usize>(&mut self) -> Result<[u8; N], PayloadError> {
        let (bytes, rest) = self.rest.split_first_chunk().ok_or(PayloadError::Cut)?;
        self.rest = rest;
        Ok(*bytes)
    }

    #[inline(always)]
    fn take_slice(&mut self, length: usize) -> Result<&'p [u8], PayloadError> {
        let (bytes, rest) = self.rest.split_at_checked(length).ok_or(PayloadError::Cut)?;
        self.rest = rest;
        Ok(bytes)
    }

    /// Reads a length, a count or the number of a variant.
    #[inline(always)]
    pub(super) fn length(&mut self) -> Result<usize, PayloadError> {
        Ok(usize::from(u16::from_le_bytes(self.take()?)))
    }

    /// Reads one byte that is 0 or 1.
    #[inline(always)]
    pub(super) fn flag(&mut self) -> Result<bool, PayloadError> {
        match self.take()? {
            [0] => Ok(false),
            [1] => Ok(true),
            _ => Err(PayloadError::NoValue),
        }
    }

    /// Reads the bytes of a text, which need not be UTF-8.
    #[inline(always)]
    pub(super) fn text_bytes(&mut self) -> Result<&'p [u8], PayloadError> {
        let length = self.length()?;
        self.take_slice(length)
    }

    #[inline(always)]
    pub(super) fn text(&mut self) -> Result<&'p str, PayloadError> {
        std::str::from_utf8(self.text_bytes()?).map_err(|_| PayloadError::NoValue)
    }

    #[inline(always)]
    pub(super) fn char(&mut self) -> Result<char, PayloadError> {
        char::from_u32(u32::from_le_bytes(self.take()?)).ok_or(PayloadError::NoValue)
    }

    #[inline(never)]
    pub(super) fn duration(&mut self) -> Result<Duration, PayloadError> {
        let seconds = u64::from_le_bytes(self.take()?);
        let nanoseconds = u32::from_le_bytes(self.take()?);
        if nanoseconds > 999_999_999 {
            Err(PayloadError::NoValue)
        } else {
            Ok(Duration::new(seconds, nanoseconds))
        }
    }

    #[inline(never)]
    pub(super) fn ip(&mut self) -> Result<IpAddr, PayloadError> {
        match self.take()? {
            [4] => Ok(self.take::<4>()?.into()),
            [6] => Ok(self.take::<16>()?.into()),
            _ => Err(PayloadError::NoValue),
        }
    }

    #[inline(never)]
    pub(super) fn socket(&mut self) -> Result<SocketAddr, PayloadError> {
        let ip = self.ip()?;
        let port = u16::from_le_bytes(self.take()?);
        let IpAddr::V6(ip) = ip else { return Ok(SocketAddr::new(ip, port)) };
        let mut number = || Ok(u32::from_le_bytes(self.take()?));
        Ok(SocketAddrV6::new(ip, port, number()?, number()?).into())
    }

    pub(super) fn value(&mut self, scalar: Scalar) -> Result<Value<'p>, PayloadError> {
        macro_rules! integer {
            ($type:ty, $unsigned:ty) => {{
                let value = <$type>::from_le_bytes(self.take()?);
                let bits = u128::from(value as $unsigned);
                #[allow(unused_comparisons)]
                let negative = value < 0;
                let magnitude = if negative { (value as i128).unsigned_abs() } else { bits };
                Value::Integer { negative, magnitude, bits }
            }};
        }
        Ok(match scalar {
            Scalar::I8 => integer!(i8, u8),
            Scalar::I16 => integer!(i16, u16),
            Scalar::I32 => integer!(i32, u32),
            Scalar::I64 => integer!(i64, u64),
            Scalar::I128 => integer!(i128, u128),
            Scalar::U8 => integer!(u8, u8),
            Scalar::U16 => integer!(u16, u16),
            Scalar::U32 => integer!(u32, u32),
            Scalar::U64 => integer!(u64, u64),
            Scalar::U128 => integer!(u128, u128),
            Scalar::F32 => Value::F32(f32::from_le_bytes(self.take()?)),
            Scalar::F64 => Value::F64(f64::from_le_bytes(self.take()?)),
            Scalar::Bool => Value::Bool(self.flag()?),
            Scalar::Char => Value::Char(self.char()?),
            Scalar::Str => Value::Text(self.text()?),
            Scalar::Void => Value::Void,
            Scalar::Duration => Value::Duration(self.duration()?),
            Scalar::Ip => Value::Ip(self.ip()?),
            Scalar::Socket => Value::Socket(self.socket()?),
            Scalar::Pointer32 => Value::Address(u32::from_le_bytes(self.take()?).into(), 32),
            Scalar::Pointer64 => Value::Address(u64::from_le_bytes(self.take()?), 64),
        })
    }

    /// Reads the bytes of one value of the type `ty`; decodes only the parts that determine the length of the value.
    pub(super) fn bytes_of(&mut self, ty: &Type) -> Result<&'p [u8], PayloadError> {
        let before = self.rest;
        self.skip(ty)?;
        Ok(before.get(..before.len() - self.rest.len()).unwrap_or(before))
    }

    fn skip(&mut self, ty: &Type) -> Result<(), PayloadError> {
        self.values = self.values.checked_sub(1).ok_or(PayloadError::TooLong)?;
        match ty {
            Type::Scalar(scalar) => {
                let length = match scalar {
                    Scalar::Str => self.length()?,
                    Scalar::Void => 0,
                    Scalar::I8 | Scalar::U8 | Scalar::Bool => 1,
                    Scalar::I16 | Scalar::U16 => 2,
                    Scalar::I32 | Scalar::U32 | Scalar::F32 | Scalar::Char | Scalar::Pointer32 => 4,
                    Scalar::I64 | Scalar::U64 | Scalar::F64 | Scalar::Pointer64 => 8,
                    Scalar::I128 | Scalar::U128 => 16,
                    Scalar::Duration => 12,
                    Scalar::Ip => return self.ip().map(drop),
                    Scalar::Socket => return self.socket().map(drop),
                };
                self.take_slice(length)?;
                Ok(())
            }
            Type::Option(some) => {
                if self.flag()? {
                    self.skip(some)?;
                }
                Ok(())
            }
            Type::Result(either) => {
                let is_err = usize::from(self.flag()?);
                self.skip(&either[is_err])
            }
            Type::Slice(element) => {
                let count = self.length()?;
                self.skip_elements(count, element)
            }
            Type::Array(count, element) => {
                self.skip_elements(usize::try_from(*count).unwrap_or(usize::MAX), element)
            }
            Type::Struct(shape) => self.skip_fields(shape),
            Type::Enum(variants) => {
                let index = self.length()?;
                self.skip_fields(variants.get(index).ok_or(PayloadError::NoValue)?)
            }
        }
    }

    fn skip_elements(&mut self, count: usize, ty: &Type) -> Result<(), PayloadError> {
        for _ in 0..count {
            let before = self.remaining();
            self.skip(ty)?;
            self.end_element(before)?;
        }
        Ok(())
    }

    /// Ends the reading of an element of a slice or array; `before` is the number of bytes that remained when it began.
    /// Skips one byte if the element has read none, because such an element is stored as one byte.
    pub(super) fn end_element(&mut self, before: usize) -> Result<(), PayloadError> {
        if self.remaining() == before {
            self.take::<1>()?;
        }
        Ok(())
    }

    fn skip_fields(&mut self, shape: &Composite) -> Result<(), PayloadError> {
        match &shape.fields {
            FieldTypes::None => Ok(()),
            FieldTypes::Tuple(types) => types.iter().try_for_each(|ty| self.skip(ty)),
            FieldTypes::Named(fields) => fields.iter().try_for_each(|(_, ty)| self.skip(ty)),
        }
    }
}
