//! Stage *export*: records in some format. One file for each format, behind one trait.

pub mod text;

use std::io::{self, Write};

use crate::input::inputs::Origin;
use crate::view::records::{Record, Take};

/// A format. The thread that writes calls it in the order of the merge.
pub trait Export: Send + Sync {
    /// Begins the output, which may have records of all `origins`.
    ///
    /// # Errors
    /// `out` takes no more.
    fn begin(&mut self, origins: &[Origin], out: &mut dyn Write) -> io::Result<()>;

    /// Writes the next record.
    ///
    /// # Errors
    /// `out` takes no more.
    fn record(&mut self, origin: &Origin, record: &Record<'_>, out: &mut dyn Write) -> io::Result<()>;

    /// Ends the output: there are no more records.
    ///
    /// # Errors
    /// `out` takes no more.
    fn finish(&mut self, out: &mut dyn Write) -> io::Result<()>;

    /// Whether records are written as they stand in the traces, and nothing else is.
    fn is_verbatim(&self) -> bool {
        false
    }

    /// Returns what makes copies of this format, once it has begun, for threads that format records each by itself. `None`
    /// where what is written of a record depends on those before it.
    fn copies(&self) -> Option<Copies<'_>> {
        None
    }
}

/// Makes copies of a format.
pub type Copies<'a> = Box<dyn Fn() -> Box<dyn Export> + Sync + 'a>;

/// Records on their way into a format and out.
pub struct Exporting<'a> {
    format: &'a mut dyn Export,
    origins: &'a [Origin],
    out: &'a mut dyn Write,
    /// The number of lines that were written.
    pub lines: u64,
}

impl<'a> Exporting<'a> {
    /// Passes on to `out` what `format` makes of records of `origins`. The format must have begun.
    pub fn new(format: &'a mut dyn Export, origins: &'a [Origin], out: &'a mut dyn Write) -> Exporting<'a> {
        Exporting { format, origins, out, lines: 0 }
    }
}

impl Take for Exporting<'_> {
    fn record(&mut self, record: &Record<'_>) -> io::Result<()> {
        self.lines += record.line_count();
        self.format.record(&self.origins[record.origin], record, self.out)
    }
}
