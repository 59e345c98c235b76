//! Keeps the lines of all threads until the end of the output, so that each thread can be shown as one tree, although
//! the lines of all threads arrive mixed, in the order of time. When the lines exceed a limit of memory, they are moved
//! to a temporary file without a name.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};

use crate::view::export::time_column::TimeColumn;
use crate::view::export::tree::folded_lines::FoldedLines;
use crate::view::export::tree::held::TreeLine;

/// The maximum number of bytes of lines, of all threads together, that wait in memory.
const MOST_BYTES: usize = if cfg!(test) { 500 } else { 16 << 20 };
/// The number of bytes of output after which a part of the output ends.
const PART: usize = 1 << 20;

/// The lines of one thread that wait for the end of the output.
#[derive(Debug)]
pub(super) struct ThreadLines {
    /// The column of times for this thread's lines. Each thread has its own, because a time may be shown relative to
    /// the thread's previous line.
    time: TimeColumn,
    /// The thread's last line, to which equal lines are added.
    pub folded: FoldedLines,
    text: Vec<u8>,
    /// The parts of the temporary file that contain the thread's earlier lines, each as an offset and a length in
    /// bytes.
    in_file: Vec<(u64, usize)>,
}

/// The lines of all threads that wait for the end of the output.
#[derive(Debug, Default)]
pub(super) struct LinesByThread {
    threads: Vec<ThreadLines>,
    bytes: usize,
    file: Option<File>,
    /// The number of bytes in the temporary file.
    written: u64,
    /// The error because of which lines are missing, if there was one.
    failure: Option<io::Error>,
    /// The position of the output: the index of the thread whose lines are written next, and the number of this
    /// thread's parts of the temporary file that have been written.
    next: (usize, usize),
    /// Whether the lines of a thread have been written.
    has_begun: bool,
}

impl LinesByThread {
    /// Returns the lines of a thread; if the thread is new, adds the lines that `make` returns.
    pub(super) fn thread(&mut self, thread: usize, make: impl Fn() -> ThreadLines) -> &mut ThreadLines {
        if thread >= self.threads.len() {
            self.threads.resize_with(thread + 1, make);
        }
        &mut self.threads[thread]
    }

    /// Adds a line to the lines of a thread: `put` appends its text. If the thread is new, `make` makes its list of
    /// lines.
    pub(super) fn add(
        &mut self,
        thread: usize,
        make: impl Fn() -> ThreadLines,
        put: impl FnOnce(&mut TimeColumn, &mut Vec<u8>),
    ) {
        let ThreadLines { time, text, .. } = self.thread(thread, make);
        let before = text.len();
        put(time, text);
        self.bytes += text.len() - before;
        if self.bytes > MOST_BYTES && self.failure.is_none() {
            self.failure = self.move_to_file().err().map(of_file);
        }
    }

    /// Removes and returns the last line of each thread, which is complete because no equal line follows.
    pub(super) fn take_folded(&mut self) -> Vec<TreeLine> {
        self.threads.iter_mut().filter_map(|thread| thread.folded.take()).collect()
    }

    fn move_to_file(&mut self) -> io::Result<()> {
        let mut file = match self.file.take() {
            Some(file) => file,
            None => tempfile::tempfile()?,
        };
        for thread in self.threads.iter_mut().filter(|thread| !thread.text.is_empty()) {
            file.write_all(&thread.text)?;
            thread.in_file.push((self.written, thread.text.len()));
            self.written += thread.text.len() as u64;
            thread.text.clear();
        }
        self.bytes = 0;
        self.file = Some(file);
        Ok(())
    }

    /// Appends the next part of the output to `out`, and returns whether there may be another part. The output has the
    /// threads one after another: first the heading that `heading` returns for the thread, then the thread's lines.
    ///
    /// # Errors
    /// Returns an error if the temporary file cannot be written or read.
    pub(super) fn put_part(
        &mut self,
        heading: impl Fn(usize) -> String,
        out: &mut Vec<u8>,
    ) -> io::Result<bool> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        let end = out.len() + PART;
        while let Some(thread) = self.threads.get_mut(self.next.0) {
            if out.len() >= end {
                return Ok(true);
            }
            let has_lines = !thread.in_file.is_empty() || !thread.text.is_empty();
            if has_lines && self.next.1 == 0 {
                out.extend_from_slice(if self.has_begun { b"\n" } else { b"" });
                self.has_begun = true;
                out.extend_from_slice(heading(self.next.0).as_bytes());
            }
            match (thread.in_file.get(self.next.1), &mut self.file) {
                (Some((start, bytes)), Some(file)) => {
                    let from = out.len();
                    out.resize(from + bytes, 0);
                    file.seek(SeekFrom::Start(*start)).map_err(of_file)?;
                    file.read_exact(&mut out[from..]).map_err(of_file)?;
                    self.next.1 += 1;
                }
                _ => {
                    out.append(&mut thread.text);
                    self.next = (self.next.0 + 1, 0);
                }
            }
        }
        Ok(false)
    }
}

/// Returns an error that says that the temporary file could not be used, and why, as in `error`.
fn of_file(error: io::Error) -> io::Error {
    io::Error::new(
        error.kind(),
        format!("cannot use the temporary file for the lines of each thread: {error}"),
    )
}

impl ThreadLines {
    /// Makes an empty list of a thread's lines.
    #[must_use]
    pub(super) fn new(time: TimeColumn, folded: FoldedLines) -> ThreadLines {
        ThreadLines { time, folded, text: Vec::new(), in_file: Vec::new() }
    }
}
