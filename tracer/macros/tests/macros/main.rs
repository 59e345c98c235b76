//! The code that the macros accept, make and refuse.

// These lints can be set at the crate's level only; `expansions_please_every_lint` has the others.
#![forbid(future_incompatible)]

mod captured_types_print_as_debug_prints;
mod expansions_please_every_lint;
mod traced_functions_mean_what_they_meant;
mod wrong_calls_are_explained_where_they_stand;
