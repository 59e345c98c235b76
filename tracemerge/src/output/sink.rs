//! What takes merged lines: a file, a view, a pipe.

use std::io;

/// A sink that takes merged lines.
pub trait Sink {
    /// Takes whole lines of one source, the last with its line feed; they stand behind all that was taken before.
    ///
    /// # Errors
    /// The sink takes no more.
    fn lines(&mut self, source: usize, lines: &[u8]) -> io::Result<()>;
}

impl<W: io::Write> Sink for W {
    #[inline]
    fn lines(&mut self, _source: usize, lines: &[u8]) -> io::Result<()> {
        self.write_all(lines)
    }
}
