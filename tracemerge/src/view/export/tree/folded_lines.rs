//! Equal calls that follow each other, as one line with their count.

use std::io::Write as _;

use crate::ui::messages::Grouped;
use crate::view::export::tree::held::TreeLine;

/// The last line, if it shows a whole call, to which equal lines that follow are added.
#[derive(Debug, Default)]
pub(super) struct FoldedLines {
    /// Whether equal lines are folded.
    folds: bool,
    last: Option<TreeLine>,
    /// The number of calls for which the last line stands.
    number: u64,
}

impl FoldedLines {
    /// Makes an empty list; `folds` decides whether equal lines are folded.
    #[must_use]
    pub(super) fn new(folds: bool) -> FoldedLines {
        FoldedLines { folds, last: None, number: 0 }
    }

    /// Makes an empty list that folds equal lines if this list does.
    #[must_use]
    pub(super) fn without_lines(&self) -> FoldedLines {
        FoldedLines::new(self.folds)
    }

    /// Adds a line. Returns the lines that are complete, in order.
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

    /// Removes and returns the last line, which is complete because no equal line follows.
    pub(super) fn take(&mut self) -> Option<TreeLine> {
        let mut line = self.last.take()?;
        if self.number > 1 {
            // Writing to memory does not fail.
            let _ = write!(line.text, "  \u{d7}{}", Grouped(self.number));
        }
        Some(line)
    }
}
