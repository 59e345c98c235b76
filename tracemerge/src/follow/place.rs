//! A file that is followed: how far it is read, and whether it is still the same.

use std::fs::File;
use std::path::{Path, PathBuf};

use crate::sys::{FileId, file_id, read_at};

/// So much of a file is read at once, and a queue with as much is not filled further.
pub const PORTION: usize = 256 << 10;
/// So many bytes before the place that a file is read to are known again.
const KNOWN: usize = 256;
/// A file, and how far it is read.
pub struct Place {
    /// Where it is.
    pub path: PathBuf,
    /// Which file it is.
    pub id: FileId,
    /// So much of it is read ...
    pub read: u64,
    /// The bytes before that. A file that replaces another may get the number of the one before.
    before: Vec<u8>,
    /// ... and so much is to be.
    pub goal: u64,
    /// The file itself, until it is read up to there.
    pub opened: Option<File>,
    /// Nothing will be written to it any more: its end is the end of a line.
    pub finished: bool,
}

impl Place {
    /// A file of which nothing is read yet.
    pub fn new(path: &Path, id: FileId, goal: u64, finished: bool) -> Place {
        Place { path: path.to_owned(), id, read: 0, before: Vec::new(), goal, opened: None, finished }
    }

    /// Bytes from where it is read to, at least a line if there is one.
    pub fn portion(&self) -> Portion {
        let by_name;
        let file = match &self.opened {
            Some(file) => file,
            None => {
                let Ok(file) = File::open(&self.path) else { return Portion::Gone };
                if file.metadata().map_or(true, |metadata| file_id(&self.path, &metadata) != self.id) {
                    return Portion::Gone;
                }
                by_name = file;
                &by_name
            }
        };
        let known = self.before.len();
        let left = usize::try_from(self.goal - self.read).unwrap_or(usize::MAX - known);
        let mut portion = left.min(PORTION);
        loop {
            let mut bytes = vec![0; known + portion];
            let Ok(got) = read_at(file, &mut bytes, self.read - known as u64) else { return Portion::Gone };
            bytes.truncate(got);
            if !bytes.starts_with(&self.before) {
                return Portion::Replaced;
            }
            bytes.drain(..known);
            if bytes.is_empty() {
                return Portion::Gone;
            }
            if bytes.len() < portion || portion == left || bytes.contains(&b'\n') {
                return Portion::Bytes(bytes);
            }
            // A long line.
            portion = left.min(portion.saturating_mul(4));
        }
    }

    /// These bytes are read.
    pub fn advance(&mut self, bytes: &[u8]) {
        self.read += bytes.len() as u64;
        self.before.extend_from_slice(&bytes[bytes.len().saturating_sub(KNOWN)..]);
        self.before.drain(..self.before.len().saturating_sub(KNOWN));
    }

    /// It is to be read from its beginning.
    pub fn begin_anew(&mut self) {
        self.read = 0;
        self.before.clear();
    }
}

/// A part of a file.
pub enum Portion {
    /// These bytes.
    Bytes(Vec<u8>),
    /// It is not there, or shorter.
    Gone,
    /// It is not the file that was read before, though it has its number.
    Replaced,
}
