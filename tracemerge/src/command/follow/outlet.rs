//! The interface of what takes the lines of a round, once their order is settled.

use std::io::{self, Write};

use trace_format::line::Ticks;
use trace_format::meta::Run;

use crate::command::follow::runs::RunId;
use crate::command::follow::stream::ThreadKey;

/// The runs and threads that exist when following begins, or when the first of them come.
#[derive(Debug)]
pub struct Beginning<'a> {
    /// The runs that exist.
    pub runs: &'a [Run],
    /// The run of each thread, and the ticks of its first line and of its last.
    pub threads: &'a [(RunId, Ticks, Ticks)],
}

/// An outlet for the lines that are passed on, round by round. Only [`Outlet::lines`] and
/// [`Outlet::end_round`] concern an outlet that does not look into the lines.
pub trait Outlet {
    /// Returns whether nothing is wanted of what is traced from here on. Asked before each round.
    fn is_over(&mut self) -> bool {
        false
    }

    /// Returns whether [`Outlet::begin`] is wanted.
    fn wants_to_begin(&self) -> bool {
        false
    }

    /// Tells which runs and threads there are, before the first of their lines.
    fn begin(&mut self, _found: &Beginning<'_>) {}

    /// Takes lines of one thread. `late` stands before them if they come too late for their place, otherwise
    /// it is empty.
    ///
    /// # Errors
    /// The outlet takes no more.
    fn lines(&mut self, of: &ThreadKey, late: &[u8], lines: &[u8]) -> io::Result<()>;

    /// Ends a round: has everything written.
    ///
    /// # Errors
    /// The outlet takes no more.
    fn end_round(&mut self) -> io::Result<()>;

    /// Ends the last round: has everything written that was held back.
    ///
    /// # Errors
    /// The outlet takes no more.
    fn finish(&mut self) -> io::Result<()> {
        self.end_round()
    }

    /// The words for what happened in this round and the shown lines do not tell.
    fn unseen(&mut self) -> Option<String> {
        None
    }

    /// The number of lines that were shown, with a word for what was done with them, and of those among them that
    /// were late, if the outlet does not show all lines.
    fn shown(&mut self) -> Option<(u64, &'static str, u64)> {
        None
    }
}

/// A writer is the outlet of all lines as they are.
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
