//! The settings that the program's user can make, and the messages to the user.
//!
//! | file | contents |
//! |---|---|
//! | `config` | settings: defaults, then the builder's, then those of the environment |
//! | `filter` | the calls of `trace!` that are on, by module |
//! | `relay` | one line on stderr, also for a thread that does not have the host's stderr |

pub(crate) mod config;
pub(crate) mod filter;
pub(crate) mod relay;
