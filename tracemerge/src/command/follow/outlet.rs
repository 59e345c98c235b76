//! The interface of outlets: they receive the lines of each round whose order is settled.

use std::io::{self, Write};

use trace_format::line::Ticks;
use trace_format::meta::Run;

use crate::command::follow::runs::RunId;
use crate::command::follow::stream::ThreadKey;

/// The runs and threads that exist when following begins or, if there are none, when the first run starts.
#[derive(Debug)]
pub(super) struct Beginning<'a> {
    /// The runs that exist.
    pub runs: &'a [Run],
    /// For each thread, its run, the ticks of its first line, and the ticks of its last line.
    pub threads: &'a [(RunId, Ticks, Ticks)],
}

/// An outlet for the lines of followed runs, which receives them round by round. An outlet that writes lines without
/// reading them needs only [`Outlet::lines`] and [`Outlet::end_round`].
pub(super) trait Outlet {
    /// Returns whether the outlet wants no further records. Called before each round.
    fn is_over(&mut self) -> bool {
        false
    }

    /// Returns whether the outlet wants [`Outlet::begin`] to be called.
    fn wants_to_begin(&self) -> bool {
        false
    }

    /// Receives the runs and threads that exist before the first line is passed on.
    fn begin(&mut self, _found: &Beginning<'_>) {}

    /// Receives lines of one thread. If they are late, `late` is the `# late` line that precedes them; otherwise `late`
    /// is empty.
    ///
    /// # Errors
    /// If the outlet accepts no more.
    fn lines(&mut self, of: &ThreadKey, late: &[u8], lines: &[u8]) -> io::Result<()>;

    /// Ends a round: writes the lines received in it.
    ///
    /// # Errors
    /// If the outlet accepts no more.
    fn end_round(&mut self) -> io::Result<()>;

    /// Ends the last round: writes all lines that are not written yet, including those that were held back.
    ///
    /// # Errors
    /// If the outlet accepts no more.
    fn finish(&mut self) -> io::Result<()> {
        self.end_round()
    }

    /// Returns a text for the user about events of this round that are not in the shown lines; `None` if there are no
    /// such events.
    fn unseen(&mut self) -> Option<String> {
        None
    }

    /// Returns `None` if the outlet shows all lines. Otherwise returns the number of lines that it has shown, a word
    /// for what happened to them, and the number of late lines among them.
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
