//! The messages to the user and how they look: the exit status, errors, colours, columns, units, and
//! the words of the command line that they name.

pub mod cause;
pub mod colour;
pub mod error;
pub mod few;
pub mod messages;
pub mod subcommands;
pub mod table;
pub mod units;
