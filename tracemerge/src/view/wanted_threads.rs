//! The wanted threads and processes, as the user names them.

use globset::{Glob, GlobMatcher};

use crate::view::request::View;

impl View {
    /// Returns whether the thread with this id and name is shown. `pid` is the id of its process, if known.
    #[must_use]
    pub fn wants(&self, pid: Option<u32>, tid: u64, name: &[u8]) -> bool {
        (self.process.is_empty() || pid.is_some_and(|pid| self.process.contains(&pid)))
            && (self.thread.is_empty() || self.thread.iter().any(|thread| thread.is(tid, name)))
    }
}

/// A thread, or several threads, as the user names them.
#[derive(Clone, Debug)]
pub enum ThreadSelector {
    /// The thread that has this id.
    Id(u64),
    /// All threads whose names match this pattern.
    Called(GlobMatcher),
}

impl ThreadSelector {
    /// Parses a thread id, or a pattern for thread names.
    ///
    /// # Errors
    /// Returns an error with the reason if the text is not a valid pattern.
    pub fn parse(text: &str) -> Result<ThreadSelector, String> {
        if let Ok(tid) = text.parse() {
            return Ok(ThreadSelector::Id(tid));
        }
        Glob::new(text)
            .map(|glob| ThreadSelector::Called(glob.compile_matcher()))
            .map_err(|error| error.to_string())
    }

    /// Returns whether the thread with this id and name is wanted.
    #[must_use]
    pub fn is(&self, tid: u64, name: &[u8]) -> bool {
        match self {
            ThreadSelector::Id(id) => *id == tid,
            ThreadSelector::Called(glob) => glob.is_match(&*String::from_utf8_lossy(name)),
        }
    }
}
