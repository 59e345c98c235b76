//! The subcommands, one file or folder each; merging is the one that is done if none is named.

pub mod audit;
pub mod check;
pub mod clean;
pub mod diff;
pub mod follow;
pub mod info;
pub mod merge;
pub mod run;
pub mod snapshot;
#[cfg(test)]
mod tests;
