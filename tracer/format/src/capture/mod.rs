//! Arguments as they are copied into a record: raw now, formatted later.
//!
//! The traced thread copies the bytes of the arguments. The site's *descriptor* describes these bytes; the arguments'
//! types write it once for each site. [`SitePlan`](crate::fields::SitePlan) makes text from both.
//!
//! # Bytes
//!
//! All numbers are little-endian and unaligned, one value after the other:
//!
//! | value | bytes |
//! |---|---|
//! | integer, float | its own bytes; `usize` and `isize` in the width of the process |
//! | `bool`, `char` | 1, 4 |
//! | pointer | its address, in the width of the process |
//! | text | length u16, UTF-8 |
//! | `Duration` | seconds u64, nanoseconds u32 |
//! | IP address | u8: 4 or 6; its 4 or 16 bytes, the most significant first |
//! | socket address | IP address, port u16; of IPv6: flow information u32, scope u32 |
//! | `()`, struct, tuple | the fields in order |
//! | `Option`, `Result` | u8: 0 for `None` or `Ok`, 1 for `Some` or `Err`; then its content |
//! | enum | u16: index of the variant; its fields in order |
//! | slice | count u16, elements |
//! | array | elements |
//!
//! An element of a slice or array that would take no byte (`()`, a unit struct) takes one, which is 0. So a few
//! bytes cannot stand for a great many values.
//!
//! [`descriptor`] describes the form of the descriptor.

mod builtin;
mod composite;
pub mod descriptor;
pub mod signature;
mod system;
#[cfg(test)]
pub(crate) mod tests;

/// Markers for the ways in which a value is formatted later: one for each trait of [`std::fmt`].
pub mod by {
    /// Marks a value that `{}` formats without a precision.
    pub enum Display {}
    /// Marks a value that `{}` formats with a precision; some versions of std ignore the precision for some types.
    pub enum PreciseDisplay {}
    /// Marks a value that `{:?}` formats without a width.
    pub enum Debug {}
    /// Marks a value that `{:?}` formats with a width, a fill or `0`; only for types that std pads as a whole.
    pub enum PaddedDebug {}
    /// Marks a value that `{:x}` formats.
    pub enum LowerHex {}
    /// Marks a value that `{:X}` formats.
    pub enum UpperHex {}
    /// Marks a value that `{:o}` formats.
    pub enum Octal {}
    /// Marks a value that `{:b}` formats.
    pub enum Binary {}
    /// Marks a value that `{:e}` formats.
    pub enum LowerExp {}
    /// Marks a value that `{:E}` formats.
    pub enum UpperExp {}
    /// Marks a value that `{:p}` formats.
    pub enum Pointer {}
    /// Marks an argument that is a width or a precision of another one: `usize` only.
    pub enum Count {}

    /// The ways to format a value that also work for references and boxes of the value: all except [`Pointer`] and
    /// [`Count`].
    pub trait OfValue {}
    /// The ways to format an integer.
    pub trait OfInteger: OfValue {}
    /// The ways to format a float.
    pub trait OfFloat: OfValue {}
    /// The ways to format text, a character or a `bool`.
    pub trait OfText: OfValue {}
    /// The ways to format a value that only `{:?}` prints.
    pub trait OfDebug: OfValue {}
    /// The ways to format a pointer.
    pub trait OfPointer {}

    macro_rules! mark {
        ($($by:ident: $($of:ident)*;)*) => { $($(impl $of for $by {})*)* };
    }

    mark! {
        Display: OfValue OfInteger OfFloat OfText;
        PreciseDisplay: OfValue OfInteger OfFloat OfText;
        Debug: OfValue OfInteger OfFloat OfText OfDebug OfPointer;
        PaddedDebug: OfValue OfInteger OfFloat OfText OfDebug OfPointer;
        LowerHex: OfValue OfInteger;
        UpperHex: OfValue OfInteger;
        Octal: OfValue OfInteger;
        Binary: OfValue OfInteger;
        LowerExp: OfValue OfInteger OfFloat;
        UpperExp: OfValue OfInteger OfFloat;
        Pointer: OfPointer;
    }
}

/// The result of [`Capture::size`] for a value that no record can hold.
pub const TOO_LONG: usize = usize::MAX;

/// A type whose values are copied into a record as bytes, and formatted later in the way `By`.
///
/// User types implement it only with `derive(Capture)`, beside `derive(Debug)`: the formatted value is the same
/// as that of `Debug`. The derive makes code like this:
///
/// ```
/// # use trace_format::capture::{Capture, Cursor, by, descriptor, signature::Signature};
/// enum Shape<T> {
///     Empty,
///     Circle(T),
///     Rect { width: T, height: f64 },
/// }
///
/// impl<T: Capture<by::Debug>> Capture<by::Debug> for Shape<T> {
///     const SIGNATURE: u32 = Signature::variants(3)
///         .unit("Empty")
///         .tuple("Circle", 1)
///         .part(<T as Capture<by::Debug>>::SIGNATURE)
///         .named("Rect", 2)
///         .name("width")
///         .part(<T as Capture<by::Debug>>::SIGNATURE)
///         .name("height")
///         .part(<f64 as Capture<by::Debug>>::SIGNATURE)
///         .end();
///
///     fn describe(to: &mut Vec<u8>) {
///         descriptor::variants(to, 3);
///         descriptor::unit(to, "Empty");
///         descriptor::tuple(to, "Circle", 1);
///         <T as Capture<by::Debug>>::describe(to);
///         descriptor::named(to, "Rect", 2);
///         descriptor::name(to, "width");
///         <T as Capture<by::Debug>>::describe(to);
///         descriptor::name(to, "height");
///         <f64 as Capture<by::Debug>>::describe(to);
///     }
///
///     #[inline(always)]
///     fn size(&self) -> usize {
///         match self {
///             Shape::Empty => 2usize,
///             Shape::Circle(a) => 2usize.saturating_add(Capture::<by::Debug>::size(a)),
///             Shape::Rect { width: a, height: b } => 2usize
///                 .saturating_add(Capture::<by::Debug>::size(a))
///                 .saturating_add(Capture::<by::Debug>::size(b)),
///         }
///     }
///
///     #[inline(always)]
///     fn write(&self, to: &mut Cursor<'_>) {
///         match self {
///             Shape::Empty => to.put(0u16.to_le_bytes()),
///             Shape::Circle(a) => {
///                 to.put(1u16.to_le_bytes());
///                 Capture::<by::Debug>::write(a, to);
///             }
///             Shape::Rect { width: a, height: b } => {
///                 to.put(2u16.to_le_bytes());
///                 Capture::<by::Debug>::write(a, to);
///                 Capture::<by::Debug>::write(b, to);
///             }
///         }
///     }
/// }
/// ```
///
/// A struct does the same without `variants` and without the index of the variant; an enum without variants
/// matches on `*self {}`. Names are given without `r#`. A type that contains itself has no finite descriptor;
/// the compiler refuses the cycle in `SIGNATURE`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be captured raw",
    note = "`#[derive(Capture)]` makes a type capturable if all its fields are"
)]
pub trait Capture<By> {
    /// The number that distinguishes types: types with different descriptors have different signatures, except with
    /// a probability of one in four thousand million. It is never 0 and never [`u32::MAX`].
    const SIGNATURE: u32;

    /// The number of captured bytes of a value if it is the same for all values of the type; slices of such values are
    /// written faster.
    #[doc(hidden)]
    const SIZE: Option<usize> = None;

    /// Appends the descriptor of the bytes that [`write`](Capture::write) writes.
    fn describe(descriptor: &mut Vec<u8>);

    /// Returns the number of bytes that [`write`](Capture::write) writes; more than
    /// [`MAX_PAYLOAD`](crate::record::MAX_PAYLOAD) if it cannot write the value.
    fn size(&self) -> usize;

    /// Writes the bytes of the value to `to`.
    fn write(&self, to: &mut Cursor<'_>);
}

/// Copies `from` to `to`, which must have the same length.
///
/// On Windows, it copies short slices with two moves that may overlap: a call of the C library's `memcpy` goes
/// through another module there, and under Wine takes as long as half a record.
#[inline(always)]
fn copy(to: &mut [u8], from: &[u8]) {
    let copied = match from.len() {
        8..=16 if cfg!(windows) => copy_ends::<8>(to, from),
        17..=32 if cfg!(windows) => copy_ends::<16>(to, from),
        33..=64 if cfg!(windows) => copy_ends::<32>(to, from),
        _ => None,
    };
    if copied.is_none() {
        to.copy_from_slice(from);
    }
}

/// Copies the first `N` and the last `N` bytes of `from` to `to`, which has the same length. Returns `None` if the
/// length is less than `N`.
#[inline(always)]
fn copy_ends<const N: usize>(to: &mut [u8], from: &[u8]) -> Option<()> {
    let (first, last) = (from.first_chunk::<N>()?, from.last_chunk::<N>()?);
    *to.first_chunk_mut::<N>()? = *first;
    *to.last_chunk_mut::<N>()? = *last;
    Some(())
}

/// A writer of captured bytes into the room that a record has for them.
///
/// If there is no room for a value, neither it nor any later value is written, and [`is_full`](Cursor::is_full)
/// returns true.
#[derive(Debug)]
pub struct Cursor<'a> {
    rest: &'a mut [u8],
    full: bool,
}

impl<'a> Cursor<'a> {
    /// Returns a cursor that writes to the beginning of `to`.
    #[inline(always)]
    #[must_use]
    pub fn new(to: &'a mut [u8]) -> Cursor<'a> {
        Cursor { rest: to, full: false }
    }

    /// Writes the array `bytes`. The call compiles to one store if the compiler knows the room.
    #[inline(always)]
    pub fn put<const N: usize>(&mut self, bytes: [u8; N]) {
        match std::mem::take(&mut self.rest).split_first_chunk_mut::<N>() {
            Some((here, rest)) => {
                *here = bytes;
                self.rest = rest;
            }
            None => self.full = true,
        }
    }

    /// Writes the slice `bytes`.
    #[inline(always)]
    pub fn put_slice(&mut self, bytes: &[u8]) {
        if let Some(here) = self.take(bytes.len()) {
            copy(here, bytes);
        }
    }

    /// Returns the next `length` bytes of the room, for the caller to fill, and advances past them. Returns `None` if
    /// the room has fewer bytes.
    #[inline(always)]
    fn take(&mut self, length: usize) -> Option<&'a mut [u8]> {
        let parts = std::mem::take(&mut self.rest).split_at_mut_checked(length);
        self.full |= parts.is_none();
        let (here, rest) = parts?;
        self.rest = rest;
        Some(here)
    }

    /// Writes a length of 16 bits; if the length does not fit into 16 bits, the cursor becomes full.
    #[inline(always)]
    pub fn put_length(&mut self, length: usize) {
        match u16::try_from(length) {
            Ok(length) => self.put(length.to_le_bytes()),
            Err(_) => {
                self.rest = &mut [];
                self.full = true;
            }
        }
    }

    /// Returns the number of bytes of the remaining room.
    #[inline(always)]
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// Returns whether a value was not written because there was no room.
    #[inline(always)]
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.full
    }
}
