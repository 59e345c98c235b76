//! The subcommands of `tracemerge`, each in its own file or folder. Without a subcommand, `tracemerge` merges traces.

pub(crate) mod check;
pub(crate) mod clean;
pub(crate) mod dataset;
pub(crate) mod diff;
pub(crate) mod follow;
pub(crate) mod info;
pub(crate) mod kept_records;
pub(crate) mod merge;
pub(crate) mod open;
pub(crate) mod preload;
pub(crate) mod run;
pub(crate) mod snapshot;
pub(crate) mod sql;
#[cfg(target_os = "linux")]
pub(crate) mod states;
pub(crate) mod switch;
#[cfg(test)]
mod tests;
pub(crate) mod thread_audit;
pub(crate) mod tui;
