//! Stage *export*: records in some format. One file for each format, behind one trait.

pub mod text;

use std::io::{self, Write};

use crate::input::inputs::Origin;
use crate::view::records::{RecordText, Take};

/// The number of bytes that are written at once.
const BUFFER: usize = 64 << 10;

/// A format. What it makes is appended to memory, which is written from time to time.
pub trait Export: Send + Sync {
    /// Begins the output, which may have records of all `origins`.
    fn begin(&mut self, origins: &[Origin], out: &mut Vec<u8>);

    /// Appends the next record, in the order of the merge.
    fn record(&mut self, origin: &Origin, record: &RecordText<'_>, out: &mut Vec<u8>);

    /// Ends the output: there are no more records.
    fn finish(&mut self, out: &mut Vec<u8>);

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
    /// What is not written yet.
    text: Vec<u8>,
    /// The number of lines that were written.
    pub lines: u64,
}

impl<'a> Exporting<'a> {
    /// Passes on to `out` what `format` makes of records of `origins`. The format must have begun.
    pub fn new(format: &'a mut dyn Export, origins: &'a [Origin], out: &'a mut dyn Write) -> Exporting<'a> {
        Exporting { format, origins, out, text: Vec::new(), lines: 0 }
    }

    /// Writes what is not written yet; returns the number of lines.
    ///
    /// # Errors
    /// The output takes no more.
    pub fn finish(self) -> io::Result<u64> {
        self.out.write_all(&self.text)?;
        Ok(self.lines)
    }
}

impl Take for Exporting<'_> {
    fn record(&mut self, record: &RecordText<'_>) -> io::Result<()> {
        self.lines += record.line_count;
        self.format.record(&self.origins[record.origin], record, &mut self.text);
        if self.text.len() >= BUFFER {
            self.out.write_all(&self.text)?;
            self.text.clear();
        }
        Ok(())
    }
}
