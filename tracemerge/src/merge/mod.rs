//! The merge, in which many sorted ranges become one stream of lines, in constant memory.
//!
//! Lines are ordered by ticks, then by the rank of their sorted range, then by their position in that range. The
//! merge passes on the lines unchanged, as stretches of the files that are as long as possible. It looks at every
//! line once on the way.
//!
//! Few sorted ranges are merged by [slices](Slices) of time, many by [windows](Windows). Both are [work](MergeWork)
//! that consists of many jobs, which [threads](workers) share.
//!
//! The next stage is a [`Sink`](crate::output::sink::Sink): it gets only whole lines, each with its source.

mod bucket;
mod cursor;
mod group;
mod in_order;
pub(crate) mod loser_tree;
pub(crate) mod merged_lines;
mod slices;
mod windows;
mod work;
pub(crate) mod workers;

use std::io;
use std::path::PathBuf;

pub(crate) use self::cursor::note_records;
pub(crate) use self::slices::Slices;
pub(crate) use self::windows::Windows;
pub(crate) use self::work::{MergeWork, Room, Turn, forget, run_without_output, unless_truncated};

/// The least number of sorted ranges for which a merge goes by [windows](Windows), not by [slices](Slices).
pub(crate) const MIN_WINDOW_RANGES: usize = 48;

/// The reason why a merge stopped early.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The output cannot be written.
    Write(io::Error),
    /// Ticks go back inside a sorted range, so the lines that were written are not in order.
    Backward {
        /// The path of the file that has the sorted range.
        path: PathBuf,
    },
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Stop {
        Stop::Write(error)
    }
}

#[cfg(test)]
mod tests;
