//! What was merged and is not written yet: a buffer of short runs of lines, and long ones where they are.
//!
//! Copying short runs together makes few writes of many; long runs are written from the files' mappings, and so cost
//! no memory however long they are.

use std::io::{self, IoSlice, Write};
use std::ops::Range;

use crate::input::source::Source;
use crate::output::sink::Sink;

/// A run of so many bytes is not copied.
const LONG: usize = if cfg!(test) { 100 } else { 32 << 10 };
/// The number of parts that are written with one system call.
const AT_ONCE: usize = if cfg!(test) { 3 } else { 256 };
/// So much memory is kept.
const KEPT: usize = 8 << 20;
/// What a mapping cannot give any more is copied in such steps.
const STEP: usize = 64 << 10;

/// Merged lines, in order.
#[derive(Debug)]
pub struct MergedLines<'a> {
    sources: &'a [Source],
    text: Vec<u8>,
    /// Where long runs go, by offset in `text`.
    long: Vec<(usize, Long)>,
}

/// Bytes of a source.
#[derive(Debug)]
struct Long {
    source: usize,
    range: Range<usize>,
}

impl<'a> MergedLines<'a> {
    /// None yet.
    #[must_use]
    pub fn new(sources: &'a [Source]) -> MergedLines<'a> {
        MergedLines { sources, text: Vec::new(), long: Vec::new() }
    }

    /// Forgets the lines, and keeps the memory unless it is much.
    pub fn clear(&mut self) {
        self.text.clear();
        self.text.shrink_to(KEPT);
        self.long.clear();
    }

    /// Writes the lines.
    ///
    /// # Errors
    /// The errors of `out`.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
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

/// Writes all `parts`, and forgets them.
fn write_all(parts: &mut Vec<&[u8]>, out: &mut impl Write) -> io::Result<()> {
    let mut slices: Vec<IoSlice<'_>> = parts.drain(..).map(IoSlice::new).collect();
    let mut left = &mut slices[..];
    // Parts without bytes at the beginning would look like an end of the output.
    IoSlice::advance_slices(&mut left, 0);
    while !left.is_empty() {
        match out.write_vectored(left) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => IoSlice::advance_slices(&mut left, written),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if is_lost_page(&error) => {
                let length = left[0].len().min(STEP);
                // The copy meets the file's end as this process does, see `crate::file::truncation`; the kernel only refuses.
                let copy = left[0][..length].to_vec();
                out.write_all(&copy)?;
                IoSlice::advance_slices(&mut left, length);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Whether the kernel could not read what is to be written: a mapped file has become shorter.
fn is_lost_page(error: &io::Error) -> bool {
    #[cfg(unix)]
    return error.raw_os_error() == Some(libc::EFAULT);
    #[cfg(not(unix))]
    {
        let _ = error;
        false
    }
}
