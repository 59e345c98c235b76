//! Stage *merge*: many sorted pieces to one stream of lines, in constant memory.
//!
//! Order: ticks, then the piece's rank, then the position in the piece. The lines themselves are passed on
//! untouched, as parts of the files, as many neighbours at once as may be. Every line is looked at once on the way.
//!
//! Few pieces are merged by [slices](Slices) of time, many by [windows](Windows). Both are [work](MergeWork) of many jobs: here
//! one is done after the other, in [`crate::merge::workers`] several threads share them.
//!
//! The next stage is a [`Sink`]: it gets whole lines only, and is told which source they are of.

pub mod attempt;
mod bucket;
mod cursor;
mod group;
pub mod loser_tree;
pub mod merged_lines;
mod slices;
mod windows;
mod work;
pub mod workers;

use std::io;
use std::path::PathBuf;

pub use self::slices::Slices;
pub use self::windows::Windows;
pub use self::work::{MergeWork, Room, Turn, forget, silently, unless_truncated};
use crate::input::findings::Findings;
use crate::input::slice::TickSpan;
use crate::input::source::{SortedRange, Source};
use crate::output::sink::Sink;

/// From so many pieces on, lines are dealt out to buckets by time.
pub const MANY: usize = 48;

/// Why a merge stopped early.
#[derive(Debug)]
pub enum Stop {
    /// The output takes no more.
    Write(io::Error),
    /// Ticks go backwards inside a piece: what was written is not in order.
    Backward {
        /// In this file.
        path: PathBuf,
    },
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Stop {
        Stop::Write(error)
    }
}

/// Merges what `pieces`, whose ranks are their places, have in `span` into `out`, in this thread.
///
/// # Errors
/// See [`Stop`]; then what was written and found has no meaning.
pub fn merge<S: Sink>(
    sources: &[Source],
    pieces: &[SortedRange],
    span: TickSpan,
    out: &mut S,
    findings: &mut Findings,
) -> Result<(), Stop> {
    let found = if pieces.len() < MANY {
        work::all(Slices::new(sources, pieces, span), sources, out)?
    } else {
        work::all(Windows::new(sources, pieces, span, 1), sources, out)?
    };
    findings.append(found);
    Ok(())
}

#[cfg(test)]
mod tests;
