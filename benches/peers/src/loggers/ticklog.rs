//! ticklog, with its defaults (rings of 1 MiB, a line with time, level, file and line), but with
//! `Backpressure::Block` instead of dropping. It writes to a file with its own buffered `FileSink`.
//!
//! A waiting thread spins, and the background thread of ticklog always spins: it takes a whole core, even when
//! nothing is logged. On a machine with few cores, this costs throughput with many threads.

use super::{Logger, Recorder};
use crate::Outcome;
use std::path::Path;
use ticklog::{Backpressure, FileSink, Guard, Level};

// `configure!` makes these two for the logging macros, but only the root module of a crate sees them.
macro_rules! __ticklog_max_level {
    () => {
        Level::Info
    };
}
macro_rules! __ticklog_backpressure {
    () => {
        Backpressure::Block
    };
}

/// The logger ticklog, which runs until this is dropped.
pub struct Ticklog(Guard);

impl Recorder for Ticklog {
    fn start(directory: &Path) -> Outcome<Ticklog> {
        // The macro exports macros of its own.
        #[allow(missing_docs)]
        let guard = ticklog::configure! {
            sink: FileSink::new(directory.join("ticklog.log"))?,
            max_level: Level::Info,
            backpressure: Backpressure::Block,
        }?;
        Ok(Ticklog(guard))
    }

    fn finish(self) -> Outcome<()> {
        drop(self.0);
        Ok(())
    }
}

impl Logger for Ticklog {
    #[inline(always)]
    fn fixed(&self) {
        ticklog::info!("a fixed string");
    }

    #[inline(always)]
    fn numbers(&self, i: u64, int: i32, double: f64) {
        ticklog::info!("Iteration: {} int: {} double: {}", i, int, double);
    }

    #[inline(always)]
    fn text(&self, text: &str) {
        ticklog::info!("{}", text);
    }
}
