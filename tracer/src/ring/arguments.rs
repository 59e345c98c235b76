//! What a call of `trace!` gives to the ring: arguments that are copied into a record.

use trace_format::capture::Cursor;

/// The arguments of a call, ready to be copied into a record.
///
/// Implemented by tuples of what [`Arg`](crate::__macro_support::Arg) makes; not for others.
pub trait Arguments {
    /// Tells whether all arguments can be captured. If not, nothing else of this trait is used.
    const CAPTURED: bool;
    /// Tells the types of one set of arguments from those of another. A signature is not 0.
    const SIGNATURE: u32;
    /// Returns the number of bytes that [`write`](Arguments::write) writes.
    fn size(&self) -> usize;
    /// Copies the arguments.
    fn write(&self, to: &mut Cursor<'_>);
    /// Appends what the types of the arguments are.
    fn describe(descriptor: &mut Vec<u8>);
}
