//! The interface of outlets, which take the lines of a round once their order is settled.

use std::io::{self, Write};

use trace_format::line::Ticks;
use trace_format::meta::Run;

use crate::command::follow::runs::RunId;
use crate::command::follow::stream::ThreadKey;

/// The runs and threads that exist when following begins, or when the first of them start.
#[derive(Debug)]
pub(super) struct Beginning<'a> {
    /// The runs that exist.
    pub runs: &'a [Run],
    /// The run of each thread, and the ticks of its first and of its last line.
    pub threads: &'a [(RunId, Ticks, Ticks)],
}

/// An outlet for the lines that are passed on, round by round. An outlet that does not read the lines needs only
/// [`Outlet::lines`] and [`Outlet::end_round`].
pub(super) trait Outlet {
    /// Returns whether no further records are wanted. Called before each round.
    fn is_over(&mut self) -> bool {
        false
    }

    /// Returns whether [`Outlet::begin`] is wanted.
    fn wants_to_begin(&self) -> bool {
        false
    }

    /// Receives the runs and threads that exist, before the first of their lines.
    fn begin(&mut self, _found: &Beginning<'_>) {}

    /// Receives lines of one thread. `late` is the line `# late` that precedes them if they come too late; otherwise it
    /// is empty.
    ///
    /// # Errors
    /// If the outlet accepts no more.
    fn lines(&mut self, of: &ThreadKey, late: &[u8], lines: &[u8]) -> io::Result<()>;

    /// Ends a round: writes all lines.
    ///
    /// # Errors
    /// If the outlet accepts no more.
    fn end_round(&mut self) -> io::Result<()>;

    /// Ends the last round: writes all lines, including those that were held back.
    ///
    /// # Errors
    /// If the outlet accepts no more.
    fn finish(&mut self) -> io::Result<()> {
        self.end_round()
    }

    /// Returns a text about events of this round that the shown lines do not contain.
    fn unseen(&mut self) -> Option<String> {
        None
    }

    /// Returns the number of lines that were shown, with a word for what happened to them, and the number of late lines
    /// among them, if the outlet does not show all lines.
    fn shown(&mut self) -> Option<(u64, &'static str, u64)> {
        None
    }
}

/// A writer is an outlet that writes all lines unchanged.
impl<W: Write> Outlet for W {
    fn lines(&mut self, _of: &ThreadKey, late: &[u8], lines: &[u8]) -> io::Result<()> {
        if !late.is_empty() {
            self.write_all(late)?;
        }
        self.write_all(lines)
    }

    fn end_round(&mut self) -> io::Result<()> {
        Write::flush(self)
    }
}
