//! The subcommands, each in its own file or folder. Without a subcommand, the command merges.

pub mod check;
pub mod clean;
pub mod diff;
pub mod follow;
pub mod info;
pub mod kept_records;
pub mod merge;
pub mod open;
pub mod preload;
pub mod run;
pub mod snapshot;
#[cfg(target_os = "linux")]
pub mod states;
pub mod switch;
#[cfg(test)]
mod tests;
pub mod thread_audit;
