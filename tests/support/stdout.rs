//! Stdout as programs of tests write to it that say much at once.

use std::io::{self, Write};

/// Stdout, by 4 KiB at a time at most: under Wine 8 a write of 150 KB to a pipe fails now and then.
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
