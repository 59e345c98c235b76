//! Draws flame graphs from folded stacks, by the crate `inferno`.

use inferno::flamegraph::{self, Options};

use crate::file::record_text::RecordText;
use crate::input::inputs::Origin;
use crate::view::call_counts::CallCounts;
use crate::view::calls::Depth;
use crate::view::export::Export;
use crate::view::export::folded::FoldedFormat;
use crate::view::threads::Threads;

const TOO_LONG: &str =
    "no graph: all calls together would have taken more than 584 years, so ticks in the trace are damaged";

/// The writer of the format `flamegraph`. The width of the graph is the time of all threads together, and the graph has
/// one frame for each call path. The needed memory grows with the number of paths.
#[derive(Debug)]
pub(super) struct FlamegraphFormat {
    folded: FoldedFormat,
    /// Why no graph could be drawn; `None` if there is one.
    failure: Option<String>,
}

impl FlamegraphFormat {
    /// Creates the writer for the calls of `threads`. `depth` limits the length of call paths.
    #[must_use]
    pub(super) fn new(depth: Depth, threads: Threads) -> FlamegraphFormat {
        FlamegraphFormat { folded: FoldedFormat::new(depth, threads), failure: None }
    }
}

impl Export for FlamegraphFormat {
    fn begin(&mut self, origins: &[Origin], out: &mut Vec<u8>) {
        self.folded.begin(origins, out);
    }

    fn record(&mut self, origin: &Origin, record: &RecordText<'_>, out: &mut Vec<u8>) {
        self.folded.record(origin, record, out);
    }

    fn finish(&mut self, out: &mut Vec<u8>) {
        let mut folded = Vec::new();
        self.folded.finish(&mut folded);
        let folded = String::from_utf8_lossy(&folded);
        let fits = fits(&folded);
        let mut options = Options::default();
        options.count_name = "ns".to_owned();
        options.title = "Calls by thread and path".to_owned();
        // The same names have the same colours each time.
        options.hash = true;
        // If there are no stacks, the image says that there is nothing to show.
        let drawn = flamegraph::from_lines(&mut options, folded.lines().filter(|_| fits), out);
        self.failure = match drawn {
            _ if !fits => Some(TOO_LONG.to_owned()),
            Err(error) => Some(format!("no graph: {error}")),
            Ok(()) => None,
        };
    }

    fn takes_calls(&self) -> bool {
        true
    }

    fn call_counts(&mut self) -> Option<&mut CallCounts> {
        self.folded.call_counts()
    }

    fn omissions(&self) -> Vec<String> {
        self.failure.iter().cloned().chain(self.folded.omissions()).collect()
    }
}

/// Returns whether the sum of the times of these stacks fits into the integer type of `inferno`, which does not check
/// for an overflow.
fn fits(folded: &str) -> bool {
    let mut numbers = folded.lines().filter_map(|line| line.rsplit_once(' ')?.1.parse::<usize>().ok());
    numbers.try_fold(0_usize, usize::checked_add).is_some()
}

#[cfg(test)]
mod tests {
    use super::fits;

    #[test]
    fn an_overflowing_sum_of_times_is_detected() {
        assert!(fits("main;a 18446744073709551614\nmain;b 1\n"));
        assert!(!fits("main;a 18446744073709551614\nmain;b 1\nmain;c 1\n"));
    }
}
