//! Lines that are merged and not yet written: short stretches are copied to a buffer, long ones stay in their
//! sources.
//!
//! Copying joins many short stretches into few writes. Long stretches are written from the files' mappings, and so
//! cost no memory however long they are.

use std::io::{self, IoSlice, Write};
use std::ops::Range;

use crate::input::source::Source;
use crate::output::sink::{Batch, Sink};

/// The least number of bytes of a long stretch. Long stretches are not copied.
const LONG: usize = if cfg!(test) { 100 } else { 32 << 10 };
/// The number of parts of the output that are gathered and then written with one system call.
const AT_ONCE: usize = if cfg!(test) { 3 } else { 256 };
/// The greatest number of bytes of memory that are kept for the lines of later jobs.
const MAX_KEPT_BYTES: usize = 8 << 20;
/// The number of bytes that are copied at a time to write a mapped file that was truncated: the kernel could not read
/// the mapping directly.
const STEP: usize = 64 << 10;

/// The merged lines of one job, in order.
#[derive(Debug)]
pub(crate) struct MergedLines<'a> {
    sources: &'a [Source],
    text: Vec<u8>,
    /// The long stretches in order, each with an offset in `text`: the stretch is written before the bytes from that
    /// offset on.
    long: Vec<(usize, Long)>,
}

/// A long stretch of lines: a range of bytes of a source.
#[derive(Debug)]
struct Long {
    source: usize,
    range: Range<usize>,
}

impl<'a> MergedLines<'a> {
    /// Makes an empty list of lines.
    #[must_use]
    pub(crate) fn new(sources: &'a [Source]) -> MergedLines<'a> {
        MergedLines { sources, text: Vec::new(), long: Vec::new() }
    }

    /// Writes all lines to `out`, in order.
    ///
    /// # Errors
    /// Writing to `out` fails.
    pub(crate) fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let mut parts: Vec<&[u8]> = Vec::with_capacity(AT_ONCE + 1);
        let mut copied = 0;
        for (at, long) in &self.long {
            parts.extend([&self.text[copied..*at], &self.sources[long.source].bytes()[long.range.clone()]]);
            copied = *at;
            if parts.len() >= AT_ONCE {
                write_all(&mut parts, out)?;
            }
        }
        parts.push(&self.text[copied..]);
        write_all(&mut parts, out)
    }
}

impl Sink for MergedLines<'_> {
    fn text(&mut self) -> Option<&mut Vec<u8>> {
        Some(&mut self.text)
    }

    #[inline]
    fn lines(&mut self, source: usize, lines: &[u8]) -> io::Result<()> {
        if lines.len() >= LONG {
            if let Some(range) = self.sources[source].place(lines) {
                self.long.push((self.text.len(), Long { source, range }));
                return Ok(());
            }
        }
        self.text.extend_from_slice(lines);
        Ok(())
    }
}

impl Batch for MergedLines<'_> {
    fn clear(&mut self) {
        self.text.clear();
        self.text.shrink_to(MAX_KEPT_BYTES);
        self.long.clear();
    }

    fn merged(&self) -> usize {
        self.text.len() + self.long.iter().map(|(_, long)| long.range.len()).sum::<usize>()
    }
}

/// Writes all `parts` to `out`, and empties the list.
fn write_all(parts: &mut Vec<&[u8]>, out: &mut impl Write) -> io::Result<()> {
    let mut slices: Vec<IoSlice<'_>> = parts.drain(..).map(IoSlice::new).collect();
    let mut left = &mut slices[..];
    // Empty parts at the beginning would look like the end of the output.
    IoSlice::advance_slices(&mut left, 0);
    while !left.is_empty() {
        match out.write_vectored(left) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => IoSlice::advance_slices(&mut left, written),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if is_lost_page(&error) => {
                let length = left[0].len().min(STEP);
                // The copy handles the end of the file in this process, see `crate::file::truncation`; the kernel
                // only refuses.
                let copy = left[0][..length].to_vec();
                out.write_all(&copy)?;
                IoSlice::advance_slices(&mut left, length);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Returns whether the kernel could not read the bytes to be written, because the mapped file that contained them was
/// truncated.
fn is_lost_page(error: &io::Error) -> bool {
    #[cfg(unix)]
    return error.raw_os_error() == Some(libc::EFAULT);
    #[cfg(not(unix))]
    {
        let _ = error;
        false
    }
}
