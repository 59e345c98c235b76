//! Standard output: what is written there arrives, or there is an error.

use std::fmt;
use std::io::{self, IoSlice, Write};
use std::path::Path;

use crate::os::sys::standard_output;
use crate::ui::error::Error;

/// Standard output. It was not written without an error before it was flushed without one.
pub struct StandardOutput(Box<dyn Write>);

impl StandardOutput {
    /// Opens standard output.
    ///
    /// # Errors
    /// There is none: it was closed when this process was started.
    pub fn open() -> io::Result<StandardOutput> {
        standard_output().map(|output| StandardOutput(Box::new(output)))
    }
}

impl fmt::Debug for StandardOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StandardOutput")
    }
}

impl Write for StandardOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.write_vectored(parts)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Writes all of `text` to standard output. A reader that has gone away wants no more, which is no error.
///
/// # Errors
/// Standard output does not take all of it.
pub fn print(text: &[u8]) -> Result<(), Error> {
    let write = || {
        let mut output = StandardOutput::open()?;
        output.write_all(text)?;
        output.flush()
    };
    match write() {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(cannot_print(error)),
        _ => Ok(()),
    }
}

/// Returns an error which says that standard output cannot be written.
#[must_use]
pub fn cannot_print(error: io::Error) -> Error {
    Error::io("write to standard output", Path::new("-"), error)
}
