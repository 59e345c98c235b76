//! Traces as sources of lines, and where times lie in them; logs of others, and traces of other machines, made such.

pub mod align;
pub mod boundary;
pub mod findings;
pub mod foreign;
pub mod slice;
pub mod source;
