//! Traces as sources of lines, and the search for the position in a source at which given ticks begin. Logs of other
//! programs and traces of other machines become sources, too.

pub(crate) mod align;
mod align_by_messages;
pub(crate) mod boundary;
pub(crate) mod findings;
pub(crate) mod foreign;
pub(crate) mod inputs;
pub(crate) mod machines;
pub(crate) mod other_kinds;
pub(crate) mod site_catalog;
pub(crate) mod slice;
pub(crate) mod source;
pub(crate) mod sync;
