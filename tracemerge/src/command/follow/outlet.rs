//! Where lines go when it is settled which comes next.

use std::io::{self, Write};

use trace_format::line::Ticks;
use trace_format::meta::Run;

use crate::command::follow::runs::RunId;
use crate::command::follow::stream::ThreadKey;

/// What there is when following begins, or when the first of it comes.
#[derive(Debug)]
pub struct Beginning<'a> {
    /// The runs.
    pub runs: &'a [Run],
    /// Of each thread its run, and the ticks of its first line and of its last.
    pub threads: &'a [(RunId, Ticks, Ticks)],
}

/// What takes the lines that are passed on, round by round. All but [`Outlet::lines`] and [`Outlet::end_round`] is for
/// those that look at them.
pub trait Outlet {
    /// A round is about to begin: whether nothing is wanted of what is traced from here on.
    fn is_over(&mut self) -> bool {
        false
    }

    /// Whether [`Outlet::begin`] is wanted.
    fn wants_to_begin(&self) -> bool {
        false
    }

    /// Something is there, and no line of it was passed on yet.
    fn begin(&mut self, _found: &Beginning<'_>) {}

    /// Takes lines of one thread. `late` stands before them if they come too late for their place, otherwise it is
    /// empty.
    ///
    /// # Errors
    /// The outlet takes no more.
    fn lines(&mut self, of: &ThreadKey, late: &[u8], lines: &[u8]) -> io::Result<()>;

    /// A round has ended: has everything written.
    ///
    /// # Errors
    /// The outlet takes no more.
    fn end_round(&mut self) -> io::Result<()>;

    /// There are no more rounds: has everything written that was held back.
    ///
    /// # Errors
    /// The outlet takes no more.
    fn finish(&mut self) -> io::Result<()> {
        self.end_round()
    }

    /// What the user has to be told of this round and does not see in the lines.
    fn unseen(&mut self) -> Option<String> {
        None
    }

    /// How many lines it shows, and how many of them were late, where these are not all.
    fn shown(&mut self) -> Option<(u64, u64)> {
        None
    }
}

/// All lines as they are.
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
