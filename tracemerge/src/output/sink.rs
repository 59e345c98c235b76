//! What takes merged lines: a file, a view, a pipe; and what carries them from one thread to another.

use std::io;

/// A sink that takes merged lines.
pub trait Sink {
    /// Takes whole lines of one source, the last with its line feed; they stand behind all that was taken before.
    ///
    /// # Errors
    /// The sink takes no more.
    fn lines(&mut self, source: usize, lines: &[u8]) -> io::Result<()>;
}

/// Merged lines on their way from the thread that merges them to the one that writes them.
pub trait Batch: Sink + Send {
    /// Drops all lines, and keeps the memory unless it is much.
    fn clear(&mut self);

    /// Takes note that the last line of a job was passed on.
    ///
    /// # Errors
    /// The batch takes no more.
    fn end(&mut self) -> io::Result<()>;

    /// The number of bytes that were merged into the batch.
    fn merged(&self) -> usize;
}

impl<W: io::Write> Sink for W {
    #[inline]
    fn lines(&mut self, _source: usize, lines: &[u8]) -> io::Result<()> {
        self.write_all(lines)
    }
}
