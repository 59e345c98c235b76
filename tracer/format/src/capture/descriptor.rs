//! The descriptor, which describes the types of captured values: its writer, for the types, and its parser, for
//! the renderer.
//!
//! It is in prefix notation: a tag, then the parts that the tag needs. The tags of primitive types are the
//! letters that Rust's v0 symbol mangling gives them; numbers are little-endian; a name is a length of 16
//! bits and UTF-8.
//!
//! | tag | type | followed by |
//! |---|---|---|
//! | `a` `s` `l` `x` `n` | `i8` `i16` `i32` `i64` `i128` | |
//! | `h` `t` `m` `y` `o` | `u8` `u16` `u32` `u64` `u128` | |
//! | `f` `d` `b` `c` `e` `u` | `f32` `f64` `bool` `char` `str` `()` | |
//! | `p` `P` | a pointer of 32, of 64 bits | |
//! | `D` | `Duration` | |
//! | `I` `K` | an IP address, a socket address | |
//! | `O` | `Option` | type |
//! | `R` | `Result` | type of `Ok`, type of `Err` |
//! | `S` | slice | type |
//! | `A` | array | count u32, type |
//! | `U` | unit struct | name |
//! | `T` | tuple struct; a tuple has an empty name | name, count u16, types |
//! | `N` | struct with named fields | name, count u16, for each: name, type |
//! | `E` | enum | count u16, for each variant one of `U`, `T`, `N` |
//!
//! The arguments of a site are one type after the other, up to the end.

use std::fmt;

pub(crate) const I8: u8 = b'a';
pub(crate) const I16: u8 = b's';
pub(crate) const I32: u8 = b'l';
pub(crate) const I64: u8 = b'x';
pub(crate) const I128: u8 = b'n';
pub(crate) const U8: u8 = b'h';
pub(crate) const U16: u8 = b't';
pub(crate) const U32: u8 = b'm';
pub(crate) const U64: u8 = b'y';
pub(crate) const U128: u8 = b'o';
pub(crate) const F32: u8 = b'f';
pub(crate) const F64: u8 = b'd';
pub(crate) const BOOL: u8 = b'b';
pub(crate) const CHAR: u8 = b'c';
pub(crate) const STR: u8 = b'e';
pub(crate) const VOID: u8 = b'u';
pub(crate) const POINTER_32: u8 = b'p';
pub(crate) const POINTER_64: u8 = b'P';
pub(crate) const DURATION: u8 = b'D';
pub(crate) const IP: u8 = b'I';
pub(crate) const SOCKET: u8 = b'K';
pub(crate) const OPTION: u8 = b'O';
pub(crate) const RESULT: u8 = b'R';
pub(crate) const SLICE: u8 = b'S';
pub(crate) const ARRAY: u8 = b'A';
pub(crate) const UNIT: u8 = b'U';
pub(crate) const TUPLE: u8 = b'T';
pub(crate) const NAMED: u8 = b'N';
pub(crate) const ENUM: u8 = b'E';

/// The types and tags of pointers, `usize` and `isize`, whose width depends on the platform of this process.
#[cfg(target_pointer_width = "32")]
mod width {
    pub(crate) use super::{I32 as ISIZE, POINTER_32 as POINTER, U32 as USIZE};
    pub(crate) type Isize = i32;
    pub(crate) type Usize = u32;
}
#[cfg(not(target_pointer_width = "32"))]
mod width {
    pub(crate) use super::{I64 as ISIZE, POINTER_64 as POINTER, U64 as USIZE};
    pub(crate) type Isize = i64;
    pub(crate) type Usize = u64;
}
pub(crate) use width::*;

/// The greatest depth of types within types; the limit keeps a hostile descriptor from exhausting the stack.
pub const MAX_DEPTH: usize = 64;

/// Appends the description of a struct or variant without fields.
pub fn unit(to: &mut Vec<u8>, name: &str) {
    to.push(UNIT);
    self::name(to, name);
}

/// Appends the description of a tuple struct or variant; the caller appends the types of its `count` fields.
pub fn tuple(to: &mut Vec<u8>, name: &str, count: u16) {
    to.push(TUPLE);
    self::name(to, name);
    to.extend(count.to_le_bytes());
}

/// Appends the description of a struct or variant with `count` named fields; the caller appends the [`name`] and the
/// type of each field.
pub fn named(to: &mut Vec<u8>, name: &str, count: u16) {
    to.push(NAMED);
    self::name(to, name);
    to.extend(count.to_le_bytes());
}

/// Appends the name of a field. A name of more than 65,535 bytes, which the compiler does not accept, becomes
/// empty.
pub fn name(to: &mut Vec<u8>, name: &str) {
    let (length, name) = u16::try_from(name.len()).map_or((0, ""), |length| (length, name));
    to.extend(length.to_le_bytes());
    to.extend(name.as_bytes());
}

/// Appends the description of an enum; the caller appends its `count` variants: [`unit()`], [`tuple()`] or [`named`].
pub fn variants(to: &mut Vec<u8>, count: u16) {
    to.push(ENUM);
    to.extend(count.to_le_bytes());
}

/// A type whose values are captured, read from a descriptor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    Scalar(Scalar),
    Option(Box<Type>),
    Result(Box<[Type; 2]>),
    Slice(Box<Type>),
    Array(u32, Box<Type>),
    Struct(Composite),
    Enum(Box<[Composite]>),
}

/// A struct, a variant or a tuple, with its name and fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Composite {
    pub(crate) name: Box<str>,
    pub(crate) fields: FieldTypes,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FieldTypes {
    None,
    Tuple(Box<[Type]>),
    Named(Box<[(Box<str>, Type)]>),
}

macro_rules! scalars {
    ($($name:ident $tag:ident;)*) => {
        /// A type that is a single value.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Scalar { $($name,)* }

        impl Scalar {
            #[cfg(test)]
            pub(crate) const ALL: &[Scalar] = &[$(Scalar::$name,)*];

            pub(crate) const fn from_tag(tag: u8) -> Option<Scalar> {
                match tag {
                    $($tag => Some(Scalar::$name),)*
                    _ => None,
                }
            }

            #[cfg(test)]
            pub(crate) const fn tag(self) -> u8 {
                match self { $(Scalar::$name => $tag,)* }
            }
        }
    };
}

scalars! {
    I8 I8; I16 I16; I32 I32; I64 I64; I128 I128;
    U8 U8; U16 U16; U32 U32; U64 U64; U128 U128;
    F32 F32; F64 F64; Bool BOOL; Char CHAR; Str STR; Void VOID;
    Pointer32 POINTER_32; Pointer64 POINTER_64;
    Duration DURATION; Ip IP; Socket SOCKET;
}

/// The reason why bytes are not a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DescriptorError {
    /// The descriptor ends within a type.
    Cut,
    /// A type begins with this byte, which is not a tag.
    UnknownTag(u8),
    /// A name is not UTF-8.
    NotText,
    /// Types are nested deeper than [`MAX_DEPTH`].
    TooDeep,
}

impl fmt::Display for DescriptorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DescriptorError::Cut => f.write_str("it ends in the middle of a type"),
            DescriptorError::UnknownTag(tag) => write!(f, "the byte {tag:#04x} is not the tag of a type"),
            DescriptorError::NotText => f.write_str("a name in it is not UTF-8"),
            DescriptorError::TooDeep => write!(f, "its types are nested more than {MAX_DEPTH} deep"),
        }
    }
}

impl std::error::Error for DescriptorError {}

/// Reads the types of a site's arguments from its descriptor.
pub(crate) fn parse(descriptor: &[u8]) -> Result<Vec<Type>, DescriptorError> {
    let mut parser = DescriptorParser { rest: descriptor };
    let mut types = Vec::new();
    while !parser.rest.is_empty() {
        types.push(parser.parse(MAX_DEPTH)?);
    }
    Ok(types)
}

struct DescriptorParser<'a> {
    rest: &'a [u8],
}

impl<'a> DescriptorParser<'a> {
    fn bytes<const N: usize>(&mut self) -> Result<[u8; N], DescriptorError> {
        let (bytes, rest) = self.rest.split_first_chunk().ok_or(DescriptorError::Cut)?;
        self.rest = rest;
        Ok(*bytes)
    }

    fn count(&mut self) -> Result<usize, DescriptorError> {
        Ok(usize::from(u16::from_le_bytes(self.bytes()?)))
    }

    fn name(&mut self) -> Result<Box<str>, DescriptorError> {
        let length = self.count()?;
        let (name, rest) = self.rest.split_at_checked(length).ok_or(DescriptorError::Cut)?;
        self.rest = rest;
        Ok(std::str::from_utf8(name).map_err(|_| DescriptorError::NotText)?.into())
    }

    /// Reads a type whose parts may be nested `depth` deep; the type itself counts as one level.
    fn parse(&mut self, depth: usize) -> Result<Type, DescriptorError> {
        let inner = depth.checked_sub(1).ok_or(DescriptorError::TooDeep)?;
        let [tag] = self.bytes()?;
        if let Some(scalar) = Scalar::from_tag(tag) {
            return Ok(Type::Scalar(scalar));
        }
        Ok(match tag {
            OPTION => Type::Option(self.parse(inner)?.into()),
            RESULT => Type::Result([self.parse(inner)?, self.parse(inner)?].into()),
            SLICE => Type::Slice(self.parse(inner)?.into()),
            ARRAY => Type::Array(u32::from_le_bytes(self.bytes()?), self.parse(inner)?.into()),
            ENUM => {
                let count = self.count()?;
                let shape = |_| {
                    let [tag] = self.bytes()?;
                    self.shape(tag, inner)
                };
                Type::Enum((0..count).map(shape).collect::<Result<_, _>>()?)
            }
            tag => Type::Struct(self.shape(tag, inner)?),
        })
    }

    /// Reads the name and the fields of a struct or variant, which follow its `tag`.
    fn shape(&mut self, tag: u8, depth: usize) -> Result<Composite, DescriptorError> {
        if !matches!(tag, UNIT | TUPLE | NAMED) {
            return Err(DescriptorError::UnknownTag(tag));
        }
        let name = self.name()?;
        let fields = match tag {
            UNIT => FieldTypes::None,
            TUPLE => {
                let count = self.count()?;
                FieldTypes::Tuple((0..count).map(|_| self.parse(depth)).collect::<Result<_, _>>()?)
            }
            _ => {
                let count = self.count()?;
                let field = |_| Ok((self.name()?, self.parse(depth)?));
                FieldTypes::Named((0..count).map(field).collect::<Result<_, DescriptorError>>()?)
            }
        };
        Ok(Composite { name, fields })
    }
}
