//! Standard output for programs of tests that print much at once.

use std::io::{self, Write};

/// Stdout, written in pieces of at most 4 KiB: under Wine 8, a write of 150 KB to a pipe sometimes fails.
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
