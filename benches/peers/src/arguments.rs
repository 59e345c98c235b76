//! The command line, and its hidden part, with which the program runs itself.

use crate::Outcome;
use crate::functions::Way;
use crate::loggers::{Format, Peer};
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// This tracer measured beside other Rust loggers; Markdown on stdout, progress on stderr.
#[derive(Debug, Parser)]
#[command(args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
pub struct Arguments {
    /// The task of this process, if another process of this program has started it.
    #[command(subcommand)]
    pub child: Option<Child>,
    /// The plan of the measurements, if not.
    #[command(flatten)]
    pub plan: Plan,
}

/// The plan of the measurements.
#[derive(Args, Debug)]
pub struct Plan {
    /// The loggers, separated by commas; all if not given
    #[arg(long, value_enum, value_delimiter = ',')]
    peers: Vec<Peer>,
    /// The number of rounds, which measure everything; the tables have medians
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
    /// The directories to which files are written, one after the other; /dev/shm and the target directory if not
    /// given
    #[arg(long = "directory", value_name = "DIRECTORY")]
    directories: Vec<PathBuf>,
    /// Messages of a throughput run, shared by its threads
    #[arg(long, default_value_t = 4_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub messages: u64,
    /// Numbers of threads of throughput runs
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2, 4, 8])]
    pub threads: Vec<usize>,
    /// Only one of the three parts
    #[arg(long, value_enum)]
    pub only: Option<Part>,
    /// The formats in which this tracer writes its files: a row for each
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Format::Text, Format::Raw])]
    pub format: Vec<Format>,
    /// The settings for measuring calls
    #[command(flatten)]
    pub calls: Calls,
}

/// The settings for measuring calls.
#[derive(Args, Clone, Debug)]
pub struct Calls {
    /// Batches of 20 calls, for each message
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u32).range(1..))]
    pub batches: u32,
    /// The pause after a batch, in microseconds
    #[arg(long, default_value_t = 500)]
    pub pause: u64,
}

/// The parts of the program's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// The cost of a call
    Call,
    /// The cost of entering and leaving a function
    Function,
    /// Messages per second
    Throughput,
}

/// The work of a process that this program has started.
#[derive(Debug, Subcommand)]
#[command(hide = true)]
pub enum Child {
    /// Measures the clocks.
    #[command(hide = true)]
    Floors {
        #[command(flatten)]
        calls: Calls,
    },
    /// Measures calls.
    #[command(hide = true)]
    Call {
        peer: Peer,
        directory: PathBuf,
        #[command(flatten)]
        calls: Calls,
    },
    /// Measures a function that is entered and left.
    #[command(hide = true)]
    Function {
        way: Way,
        directory: PathBuf,
        #[command(flatten)]
        calls: Calls,
    },
    /// Measures throughput.
    #[command(hide = true)]
    Throughput { peer: Peer, directory: PathBuf, threads: usize, messages: u64 },
    /// Merges this tracer's files.
    #[command(hide = true)]
    Merge { output: PathBuf },
}

impl Plan {
    /// Returns the loggers, in the order of the tables.
    pub fn peers(&self) -> &[Peer] {
        if self.peers.is_empty() { Peer::value_variants() } else { &self.peers }
    }

    /// Returns the directories to which files are written.
    pub fn directories(&self) -> Outcome<Vec<PathBuf>> {
        if !self.directories.is_empty() {
            return Ok(self.directories.clone());
        }
        let memory = Some(Path::new("/dev/shm")).filter(|directory| directory.is_dir());
        let executable = std::env::current_exe()?;
        Ok(memory.into_iter().chain(executable.parent()).map(PathBuf::from).collect())
    }

    /// Returns whether `part` is wanted.
    pub fn wants(&self, part: Part) -> bool {
        self.only.is_none_or(|only| only == part)
    }
}

impl Calls {
    /// Returns the pause after a batch.
    pub fn pause(&self) -> Duration {
        Duration::from_micros(self.pause)
    }

    /// Returns these settings as arguments of a command line.
    pub fn to_arguments(&self) -> [String; 4] {
        ["--batches".into(), self.batches.to_string(), "--pause".into(), self.pause.to_string()]
    }
}
