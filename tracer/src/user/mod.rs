//! What the program's user sets, and what the user is told.
//!
//! | file | what |
//! |---|---|
//! | `config` | settings: defaults, then the builder's, then those of the environment |
//! | `filter` | which calls of `trace!` are on, by module |
//! | `teller` | one line on stderr, also for a thread that does not have the host's stderr |

pub(crate) mod config;
pub(crate) mod filter;
pub(crate) mod teller;
