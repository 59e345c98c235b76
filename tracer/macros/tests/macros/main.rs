//! The code that the macros accept, make and refuse.

// These lints can be set at the crate's level only; `expansions_pass_every_lint` has the others.
#![forbid(future_incompatible)]

mod captured_types_print_like_debug;
mod expansions_pass_every_lint;
mod traced_functions_keep_their_meaning;
mod wrong_calls_are_explained_at_their_places;
