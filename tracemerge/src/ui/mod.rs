//! The messages to the user and their form: the exit status, errors, colours, columns, units, and the names of the
//! subcommands in them; and the console, which writes all messages.

#[cfg(any(feature = "html", feature = "tui"))]
pub(crate) mod base64;
pub(crate) mod cause;
pub(crate) mod colour;
pub(crate) mod console;
pub(crate) mod error;
pub(crate) mod escaping;
pub(crate) mod few;
pub(crate) mod messages;
#[cfg(feature = "tui")]
pub(crate) mod screen;
pub(crate) mod shorten;
pub(crate) mod subcommands;
pub(crate) mod table;
pub(crate) mod units;
