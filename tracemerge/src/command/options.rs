//! The options of a merge, which some subcommands take as well.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use crate::view::options::View;

/// Options that merging takes, alone or after a run.
#[derive(Args, Debug)]
pub struct Options {
    /// Where to write; - is standard output [default: APP.trace.merge]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<OsString>,
    /// Merge all runs, not only the newest
    #[arg(long)]
    pub all_runs: bool,
    /// Put a text log with times between, by the wall clock; - is standard input; may be repeated
    #[arg(long, value_name = "FILE")]
    pub with: Vec<PathBuf>,
    /// What to show
    #[command(flatten)]
    pub view: View,
    /// Say nothing when all is well
    #[arg(short, long, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Say what is read, and how the clocks run
    #[arg(short, long)]
    pub verbose: bool,
}
