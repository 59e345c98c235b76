//! The tally, which counts the messages in the lines of a thread's file.

use crate::line::{Kind, Line, Ticks};
use crate::meta::{LossReason, Meta};

/// A counter of a thread's messages, which reads the thread's lines. Entries and exits of functions, call stacks and
/// lock records count as messages of one line.
///
/// After a message whose end is missing, the file has the line `# lost records=1 reason=torn` with the message's ticks.
/// That line counts the torn message as lost, so the tally does not count it as a message. A message whose beginning is
/// not in the file is reported by the same line, with ticks that are greater than those of the line before. (If the
/// clock's steps are coarse, the ticks may be equal, and then the message before that line is taken for torn.)
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    closed: u64,
    open: Option<Ticks>,
}

impl Tally {
    /// Adds the next line, which must be whole, to the count.
    pub fn line(&mut self, line: &Line<'_>) {
        if line.kind == Kind::Continuation {
            return;
        }
        self.closed += u64::from(self.open.is_some() && !self.is_torn_by(line));
        // A record that is not a message is one line, which is whole.
        self.closed += u64::from(matches!(line.kind, Kind::Enter | Kind::Leave | Kind::Stack | Kind::Lock));
        self.open = (line.kind == Kind::Message).then_some(line.key.ticks);
    }

    /// Returns whether the next line reports that the message before it is torn.
    #[must_use]
    pub fn is_torn_by(&self, line: &Line<'_>) -> bool {
        self.open == Some(line.key.ticks)
            && line.kind == Kind::Meta
            && Meta::parse(line.payload) == Some(Meta::Lost { records: 1, reason: LossReason::Torn })
    }

    /// Returns the number of messages in the lines that were counted so far.
    #[must_use]
    pub fn messages(&self) -> u64 {
        self.closed + u64::from(self.open.is_some())
    }

    /// Handles the last line of a text that is cut off inside this line. If `line` continues the last message, that
    /// message is not whole, and is no longer counted.
    pub fn ends_in(&mut self, line: &Line<'_>) {
        if line.kind == Kind::Continuation {
            self.open = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(lines: &[(u64, &str)]) -> u64 {
        let mut tally = Tally::default();
        for (ticks, text) in lines {
            let line = format!("{ticks:016x}-00000320 {text}");
            tally.line(&Line::parse(line.as_bytes()).expect("a line"));
        }
        tally.messages()
    }

    #[test]
    fn a_torn_message_counts_as_lost_and_not_as_a_message() {
        const TORN: &str = "# lost records=1 reason=torn";
        assert_eq!(tally(&[]), 0);
        assert_eq!(tally(&[(1, ": a"), (2, ": b"), (2, "| more")]), 2);
        assert_eq!(tally(&[(1, ": a"), (1, "| more"), (1, TORN), (2, ": b")]), 1);
        assert_eq!(tally(&[(1, ": a"), (2, TORN), (2, ": b")]), 2, "of one whose beginning is elsewhere");
        assert_eq!(tally(&[(1, ": a"), (1, "# lost records=1 reason=full")]), 1);
        assert_eq!(tally(&[(1, ": a"), (1, "# lost records=2 reason=torn")]), 1);
        assert_eq!(tally(&[(1, "> 0x1"), (1, TORN), (1, "^ 0x1 0x2"), (2, "< 0x1")]), 3);
        assert_eq!(tally(&[(1, TORN), (1, ": a"), (1, TORN), (1, TORN)]), 0);
    }
}
