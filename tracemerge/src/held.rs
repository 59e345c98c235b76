//! A thread whose ring was read: its file up to the published length, and the text that the ring holds for it.

use std::path::PathBuf;

use tracer::inspect::ThreadInMemory;

use crate::error::Error;
use crate::lines::{first_ticks, last_ticks, without_torn_tail};
use crate::map::Map;

/// What a thread had traced when its ring was read, in two parts that each consist of lines.
#[derive(Debug)]
pub struct Held {
    /// The ring's file, which stands for the text in messages.
    pub ring: PathBuf,
    /// Ticks of the first line of the thread's file.
    pub since: u64,
    /// Messages that are in the ring and not in the file.
    pub records: u64,
    /// Messages that the thread had put into its ring in all, at least.
    pub committed: u64,
    map: Map,
    /// Where the lines of the file end that are whole.
    whole: usize,
    /// What follows, the rest of the file's last line included.
    rest: Vec<u8>,
}

impl Held {
    /// Maps the thread's file and puts the text behind it. Of a thread that may go on, what is not yet a whole line is
    /// left out: so the merge has a prefix of the thread.
    ///
    /// # Errors
    /// Where the file cannot be mapped.
    pub fn new(thread: ThreadInMemory, alive: bool) -> Result<Held, Error> {
        let (map, length) = match &thread.file {
            Some(file) => (Map::of_file(&file.file, &file.path)?, file.length),
            None => (Map::nothing(), 0),
        };
        let length = usize::try_from(length).unwrap_or(usize::MAX).min(map.len());
        let whole = if thread.continues { without_torn_tail(&map[..length]).len() } else { length };
        let mut rest = [&map[whole..length], &thread.text].concat();
        if alive {
            rest.truncate(without_torn_tail(&rest).len());
        }
        let ThreadInMemory { since, ring, records, committed, .. } = thread;
        Ok(Held { ring, since: since.0, records, committed, map, whole, rest })
    }

    /// The lines of the file.
    #[inline]
    #[must_use]
    pub fn file(&self) -> &[u8] {
        &self.map[..self.whole]
    }

    /// See [`Map::cut`].
    #[must_use]
    pub fn cut(&self) -> Option<usize> {
        self.map.cut()
    }

    /// The lines behind them.
    #[inline]
    #[must_use]
    pub fn rest(&self) -> &[u8] {
        &self.rest
    }

    /// The ticks of the first and of the last line; `None` where there is no line.
    #[must_use]
    pub fn range(&self) -> Option<(u64, u64)> {
        let first = first_ticks(self.file()).or_else(|| first_ticks(self.rest()))?;
        let last = last_ticks(self.rest()).or_else(|| last_ticks(self.file()))?;
        Some((first, last))
    }
}
