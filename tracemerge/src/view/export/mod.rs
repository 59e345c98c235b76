//! Stage *export*: records in some format. One file for each format, behind one trait.

pub mod text;

use std::io::{self, Write};
use std::sync::Arc;

use trace_format::meta::Run;

use crate::time::clocks::TickClock;
use crate::view::records::{Record, Take};

/// A file that records are of, or a ring.
#[derive(Clone, Debug)]
pub struct Origin {
    /// The run that the thread belongs to, where that is known.
    pub run: Option<Run>,
    /// The id of the thread that the file is of.
    pub tid: u64,
    /// The thread's name; empty where it is not known.
    pub name: Vec<u8>,
    /// What its ticks are by the wall clock.
    pub clock: Arc<TickClock>,
    /// Whether anything of it may be shown.
    pub is_shown: bool,
    /// It is a log of others: of no process, and of none of its threads.
    pub is_log: bool,
}

/// A format.
pub trait Export {
    /// Begins; `origins` are all there are.
    ///
    /// # Errors
    /// `out` takes no more.
    fn begin(&mut self, origins: &[Origin], out: &mut dyn Write) -> io::Result<()>;

    /// The next record, in the order of the merge.
    ///
    /// # Errors
    /// `out` takes no more.
    fn record(&mut self, origin: &Origin, record: &Record<'_>, out: &mut dyn Write) -> io::Result<()>;

    /// There are no more.
    ///
    /// # Errors
    /// `out` takes no more.
    fn finish(&mut self, out: &mut dyn Write) -> io::Result<()>;
}

/// Records on their way into a format and out.
pub struct Exporting<'a> {
    format: &'a mut dyn Export,
    origins: &'a [Origin],
    out: &'a mut dyn Write,
    /// The number of lines that were written.
    pub lines: u64,
}

impl<'a> Exporting<'a> {
    /// Begins.
    ///
    /// # Errors
    /// `out` takes no more.
    pub fn begin(
        format: &'a mut dyn Export,
        origins: &'a [Origin],
        out: &'a mut dyn Write,
    ) -> io::Result<Exporting<'a>> {
        format.begin(origins, out)?;
        Ok(Exporting { format, origins, out, lines: 0 })
    }

    /// Ends.
    ///
    /// # Errors
    /// `out` takes no more.
    pub fn finish(self) -> io::Result<u64> {
        self.format.finish(self.out)?;
        Ok(self.lines)
    }
}

impl Take for Exporting<'_> {
    fn record(&mut self, record: &Record<'_>) -> io::Result<()> {
        self.lines += memchr::memchr_iter(b'\n', record.lines).count() as u64;
        self.format.record(&self.origins[record.origin], record, self.out)
    }
}
