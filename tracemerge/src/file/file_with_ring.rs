//! The trace of a thread whose ring was read: the thread's file, up to the length that the ring states, and the records
//! of the ring as text. The file may be raw; the records of the ring are always text.

use std::path::PathBuf;

use trace_format::file::Encoding;
use trace_format::raw::Raw;
use trace_store::inspect::ThreadInMemory;

use crate::file::lines::{first_ticks, last_ticks, without_torn_tail};
use crate::file::map::Map;
use crate::file::raw_file::{lines_of, whole_messages};
use crate::ui::error::Error;

/// The trace of a thread at the time when its ring was read: whole messages of its file, and the lines that follow
/// them.
#[derive(Debug)]
pub(crate) struct FileWithRing {
    /// The path of the ring. Messages to the user name it if they are about the text of the ring.
    pub ring: PathBuf,
    /// The ticks of the first line of the thread's file.
    pub since: u64,
    /// The number of messages that are in the ring and not in the file.
    pub records: u64,
    /// A lower bound of the number of messages that the thread has put into its ring in total.
    pub committed: u64,
    map: Map,
    /// The length of the part of the file that consists of whole lines or, in a raw file, of whole messages.
    whole: usize,
    /// The lines that follow the first `whole` bytes of the file: its last message, if this continues in the ring, and
    /// then the text of the ring.
    rest: Vec<u8>,
}

impl FileWithRing {
    /// Maps the thread's file and appends the ring's text. If the thread is `alive`, leaves out an incomplete last
    /// line, so that the merge has a prefix of the thread's trace.
    ///
    /// # Errors
    /// If the file cannot be mapped.
    pub(crate) fn new(thread: ThreadInMemory, alive: bool) -> Result<FileWithRing, Error> {
        let (map, length) = match &thread.file {
            Some(file) => (Map::of_file(&file.file, &file.path)?, file.length),
            None => (Map::nothing(), 0),
        };
        let length = usize::try_from(length).unwrap_or(usize::MAX).min(map.len());
        let bytes = &map[..length];
        let (whole, mut rest) = match (Encoding::of(bytes), thread.continues) {
            (_, false) => (length, Vec::new()),
            (Encoding::Text, true) => {
                let whole = without_torn_tail(bytes).len();
                (whole, bytes[whole..].to_vec())
            }
            (Encoding::Raw, true) => {
                let whole = whole_messages(bytes);
                (whole, lines_of(bytes, whole..length, &thread.ring))
            }
        };
        rest.extend_from_slice(&thread.text);
        if alive {
            rest.truncate(without_torn_tail(&rest).len());
        }
        let ThreadInMemory { since, ring, records, committed, .. } = thread;
        Ok(FileWithRing { ring, since: since.0, records, committed, map, whole, rest })
    }

    /// Returns the bytes of the file, lines or records, up to the end of the last whole message.
    #[inline]
    #[must_use]
    pub(crate) fn file(&self) -> &[u8] {
        &self.map[..self.whole]
    }

    /// Returns the offset at which the file was truncated, see [`Map::truncated_at`].
    #[must_use]
    pub(crate) fn truncated_at(&self) -> Option<usize> {
        self.map.truncated_at()
    }

    /// Returns the lines that follow [`file`](Self::file): the incomplete last message of the file, and the text of the
    /// ring.
    #[inline]
    #[must_use]
    pub(crate) fn rest(&self) -> &[u8] {
        &self.rest
    }

    /// Returns the ticks of the first line and of the last; `None` if there is no line.
    #[must_use]
    pub(crate) fn range(&self) -> Option<(u64, u64)> {
        let raw = Raw::parse(self.file());
        let of_file = match raw {
            Some(raw) => raw.first().zip(raw.last()).map(|((first, _), last)| (first.0, last.0)),
            None => first_ticks(self.file()).zip(last_ticks(self.file())),
        };
        let of_rest = first_ticks(self.rest()).zip(last_ticks(self.rest()));
        let first = of_file.or(of_rest)?.0;
        let last = of_rest.or(of_file)?.1;
        Some((first, last))
    }
}
