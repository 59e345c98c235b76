//! Stdout as programs of tests write to it that say much at once.

use std::io::{self, Write};

/// Stdout, by a few bytes at a time: Wine 8 may end a process that writes more at once than a pipe has room for.
#[derive(Clone, Copy, Debug)]
pub struct InPieces;

impl Write for InPieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        io::stdout().write(&bytes[..bytes.len().min(4096)])
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stdout().flush()
    }
}
