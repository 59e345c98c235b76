//! Folds lines of equal calls that follow each other into one line with their count.

use std::io::Write as _;

use crate::ui::messages::Grouped;
use crate::view::export::tree::held::TreeLine;

/// The last line of the tree, if it shows a whole call. It is held back, because equal lines that follow are folded
/// into it.
#[derive(Debug, Default)]
pub(super) struct FoldedLines {
    /// Whether equal lines are folded.
    folds: bool,
    last: Option<TreeLine>,
    /// The number of calls for which the last line stands.
    number: u64,
}

impl FoldedLines {
    /// Starts without a line; `folds` says whether equal lines are folded.
    #[must_use]
    pub(super) fn new(folds: bool) -> FoldedLines {
        FoldedLines { folds, last: None, number: 0 }
    }

    /// Starts without a line, and folds equal lines if `self` does.
    #[must_use]
    pub(super) fn without_lines(&self) -> FoldedLines {
        FoldedLines::new(self.folds)
    }

    /// Adds a line. Returns the lines to which no equal line can be added any more, in order.
    pub(super) fn add(&mut self, line: TreeLine) -> [Option<TreeLine>; 2] {
        // Only lines that show a whole call are folded. If a call has separate lines for its beginning and its end,
        // other lines are between them.
        let is_whole_call = line.taken.is_some() && !line.text.trim_ascii_start().starts_with(b"} ");
        if !self.folds || !is_whole_call {
            return [self.take(), Some(line)];
        }
        match &mut self.last {
            Some(last) if last.thread == line.thread && last.text == line.text => {
                last.taken = last.taken.zip(line.taken).map(|(all, taken)| all.saturating_add(taken));
                self.number += 1;
                [None, None]
            }
            _ => {
                let complete = self.take();
                (self.last, self.number) = (Some(line), 1);
                [complete, None]
            }
        }
    }

    /// Removes and returns the line that was held back, with the count of its calls if it stands for several.
    pub(super) fn take(&mut self) -> Option<TreeLine> {
        let mut line = self.last.take()?;
        if self.number > 1 {
            // Writing to memory does not fail.
            let _ = write!(line.text, "  \u{d7}{}", Grouped(self.number));
        }
        Some(line)
    }
}
