//! The arguments of a call of `trace!`, which are copied into a record. The code of the call is made by
//! `macros/src/call.rs`, and [`trace_format::capture`] writes the bytes of a value.

use trace_format::capture::Cursor;

/// The arguments of a call, ready to be copied into a record.
///
/// The trait is implemented for the values that [`Arg`](crate::__macro_support::Arg) makes, for tuples of such values,
/// and for arguments that come from bridges or from guests. It must not be implemented by programs.
pub trait Arguments {
    /// True if all arguments can be captured. If not, nothing else of this trait is used.
    const CAPTURED: bool;
    /// The signature of the arguments' types: different types have different signatures. It is never 0.
    const SIGNATURE: u32;
    /// Returns the number of bytes that [`write`](Arguments::write) writes.
    fn size(&self) -> usize;
    /// Copies the arguments into the payload of a record.
    fn write(&self, to: &mut Cursor<'_>);
    /// Appends the descriptors of the arguments' types.
    fn describe(descriptor: &mut Vec<u8>);
}
