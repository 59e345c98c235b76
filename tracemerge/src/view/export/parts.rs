//! The files of a format that is a directory, as a stream of their parts: bytes are gathered by file, and go to
//! the stream when there are enough of them.

use crate::output::folder::put_part;

/// The number of bytes of a file from which on they go to the stream. Each thread may have a file.
const ENOUGH: usize = 16 << 10;

/// The files of an output, and their bytes that are not in the stream yet.
#[derive(Debug, Default)]
pub struct Parts(Vec<(String, Vec<u8>)>);

impl Parts {
    /// Adds a file; returns its number. The name has ASCII letters, digits, `.`, `-` and `_` only, and no dot in
    /// front.
    pub fn add(&mut self, name: String) -> usize {
        self.0.push((name, Vec::new()));
        self.0.len() - 1
    }

    /// Returns the bytes of a file that are not in the stream yet, for more to be appended.
    pub fn of(&mut self, file: usize) -> &mut Vec<u8> {
        &mut self.0[file].1
    }

    /// Puts the bytes of a file into the stream if there are enough of them.
    pub fn pass_on(&mut self, file: usize, out: &mut Vec<u8>) {
        if self.0[file].1.len() >= ENOUGH {
            self.flush(file, out);
        }
    }

    /// Puts the bytes of a file into the stream.
    pub fn flush(&mut self, file: usize, out: &mut Vec<u8>) {
        let (name, bytes) = &mut self.0[file];
        put_part(name, bytes, out);
        bytes.clear();
    }

    /// Puts all bytes into the stream.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        (0..self.0.len()).for_each(|file| self.flush(file, out));
    }
}
