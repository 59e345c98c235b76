//! The functions that programs call. The functions that the macros call on behalf of programs are in `macro_support`, a
//! module of the crate's root.

pub mod bridge;
pub(crate) mod builder;
#[cfg(feature = "unwind")]
pub(crate) mod called_from;
pub mod foreign;
mod on_return;
pub(crate) mod scope;
pub(crate) mod tracer;
