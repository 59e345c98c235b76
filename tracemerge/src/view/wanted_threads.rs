//! The threads and processes that are wanted, as the user names them.

use globset::{Glob, GlobMatcher};

use crate::view::request::View;

impl View {
    /// Returns whether the thread with this id and name is shown. Its process has the id `pid`, if that is
    /// known.
    #[must_use]
    pub fn wants(&self, pid: Option<u32>, tid: u64, name: &[u8]) -> bool {
        (self.process.is_empty() || pid.is_some_and(|pid| self.process.contains(&pid)))
            && (self.thread.is_empty() || self.thread.iter().any(|thread| thread.is(tid, name)))
    }
}

/// A thread, or several, as the user asks for them.
#[derive(Clone, Debug)]
pub enum ThreadIs {
    /// The thread that has this id.
    Id(u64),
    /// All threads whose names match this pattern.
    Called(GlobMatcher),
}

impl ThreadIs {
    /// Parses a thread id, or a pattern for thread names.
    ///
    /// # Errors
    /// The text is no pattern; the error says why.
    pub fn parse(text: &str) -> Result<ThreadIs, String> {
        if let Ok(tid) = text.parse() {
            return Ok(ThreadIs::Id(tid));
        }
        Glob::new(text)
            .map(|glob| ThreadIs::Called(glob.compile_matcher()))
            .map_err(|error| error.to_string())
    }

    /// Returns whether the thread with this id and name is asked for.
    #[must_use]
    pub fn is(&self, tid: u64, name: &[u8]) -> bool {
        match self {
            ThreadIs::Id(id) => *id == tid,
            ThreadIs::Called(glob) => glob.is_match(&*String::from_utf8_lossy(name)),
        }
    }
}
