//! Traces as sources of lines, and the boundaries of times in them. Logs of other programs and traces of other
//! machines become sources, too.

pub mod align;
pub mod boundary;
pub mod findings;
pub mod foreign;
pub mod inputs;
pub mod other_kinds;
pub mod site_catalog;
pub mod slice;
pub mod source;
