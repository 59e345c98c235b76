//! What programs call. What macros call for them, `macro_support`, is a module of the crate's root.

pub(crate) mod builder;
pub(crate) mod scope;
pub(crate) mod tracer;
