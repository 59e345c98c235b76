//! The messages to the user and their form: the exit status, errors, colours, columns, units, and the words of the
//! command line that they name; and the console, which writes all of them.

pub mod cause;
pub mod colour;
pub mod console;
pub mod error;
pub mod escaping;
pub mod few;
pub mod messages;
pub mod shorten;
pub mod subcommands;
pub mod table;
pub mod units;
