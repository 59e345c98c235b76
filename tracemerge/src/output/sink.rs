//! The interfaces of the sinks that take merged lines, such as a file, a view or a pipe, and of the batches
//! in which lines go from one thread to another.

use std::io;
use std::ops::Range;

use crate::file::records::Records;

/// A receiver of merged lines.
pub(crate) trait Sink {
    /// Receives whole lines of the source with the index `source`. The last line also ends with a line feed. The lines
    /// come after all lines that were received before. All lines of one source with the same key come in one call.
    ///
    /// # Errors
    /// The sink cannot take the lines.
    fn lines(&mut self, source: usize, lines: &[u8]) -> io::Result<()>;

    /// Returns the text to which callers may append lines in place of calling [`Sink::lines`]; `None` if the sink has
    /// no such text.
    #[inline]
    fn text(&mut self) -> Option<&mut Vec<u8>> {
        None
    }

    /// Receives a range of `records`, each of which has the index of its source. The records come after all lines and
    /// records that were received before. Only the sinks of merges that want
    /// [records](crate::file::rendered::RecordNeeds) get records.
    ///
    /// # Errors
    /// The sink cannot take the records, or takes no records at all.
    fn records(&mut self, _records: &Records, _range: Range<usize>) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Merged lines on their way from the thread that merges them to the thread that writes them.
pub(crate) trait Batch: Sink + Send {
    /// Drops all lines. Keeps the lines' memory for later lines, unless it is much.
    fn clear(&mut self);

    /// Returns the number of bytes of the lines that were merged into the batch.
    fn merged(&self) -> usize;
}

impl<W: io::Write> Sink for W {
    #[inline]
    fn lines(&mut self, _source: usize, lines: &[u8]) -> io::Result<()> {
        self.write_all(lines)
    }
}
