//! What a call of `trace!` gives to the ring: arguments that are copied into a record.

use trace_format::capture::Cursor;

/// The arguments of a call, ready to be copied into a record.
///
/// Implemented by tuples of what [`Arg`](crate::__macro_support::Arg) makes; not for others.
pub trait Arguments {
    /// Whether all of them can be captured. If not, nothing else of this trait is used.
    const CAPTURED: bool;
    /// Tells the types of one set of arguments from another. Not 0.
    const SIGNATURE: u32;
    /// Bytes that [`write`](Arguments::write) writes.
    fn size(&self) -> usize;
    /// Copies them.
    fn write(&self, to: &mut Cursor<'_>);
    /// Appends what their types are.
    fn describe(descriptor: &mut Vec<u8>);
}
