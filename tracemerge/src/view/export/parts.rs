//! Converts the files of an output that is a directory to a stream of parts of these files. Bytes are buffered for each
//! file, so that the stream has few large parts.

use crate::output::folder::put_part;

/// The size of a file's buffer, in bytes, at which the buffer is written to the stream. Each thread of the trace may
/// have a file.
const MAX_BUFFERED_BYTES: usize = 16 << 10;

/// The files of an output: for each file its name, and the bytes that are not in the stream yet.
#[derive(Debug, Default)]
pub(crate) struct Parts(Vec<(String, Vec<u8>)>);

impl Parts {
    /// Adds a file, and returns its index. The name must contain only ASCII letters, digits, `.`, `-` and `_`, and
    /// must not begin with a dot.
    pub(crate) fn add(&mut self, name: String) -> usize {
        self.0.push((name, Vec::new()));
        self.0.len() - 1
    }

    /// Returns the buffer of a file, to which the caller may append.
    pub(crate) fn of(&mut self, file: usize) -> &mut Vec<u8> {
        &mut self.0[file].1
    }

    /// Writes the buffered bytes of a file to the stream if there are enough of them.
    pub(crate) fn pass_on(&mut self, file: usize, out: &mut Vec<u8>) {
        if self.0[file].1.len() >= MAX_BUFFERED_BYTES {
            self.flush(file, out);
        }
    }

    /// Writes the buffered bytes of a file to the stream.
    pub(crate) fn flush(&mut self, file: usize, out: &mut Vec<u8>) {
        let (name, bytes) = &mut self.0[file];
        put_part(name, bytes, out);
        bytes.clear();
    }

    /// Writes the buffered bytes of all files to the stream.
    pub(crate) fn finish(&mut self, out: &mut Vec<u8>) {
        (0..self.0.len()).for_each(|file| self.flush(file, out));
    }
}
