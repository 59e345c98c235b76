//! What is asked of a merge: which traces beside those of the applications, which part of them, how it looks, where it
//! goes. The command line makes requests; nothing here knows how they were written there.

use std::ffi::OsString;
use std::path::PathBuf;

use globset::{Glob, GlobMatcher};

use crate::output::target::Target;
use crate::time::when::When;
use crate::ui::colour;
use crate::ui::colour::stdout_is_terminal;
use crate::view::export::text::TimeMode;
use crate::view::select::Selection;

/// A merge that is asked for, without the applications whose traces are merged.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The file that is written, or `-` for standard output; `None` is the usual one.
    pub output: Option<OsString>,
    /// Whether the traces of all runs are wanted, not only those of the newest.
    pub all_runs: bool,
    /// Logs of other programs, whose lines are put between by the wall clock.
    pub with: Vec<PathBuf>,
    /// The part of the traces that is wanted, and how it looks.
    pub view: View,
    /// Whether nothing is said where all is well.
    pub quiet: bool,
    /// Whether details are told: which files are read, and how the clocks run.
    pub verbose: bool,
}

/// A part of the traces, and how it is shown. The default is the view of everything, as it stands in the traces.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// The threads that are shown; all if there is none here.
    pub thread: Vec<ThreadIs>,
    /// The processes that are shown; all if there is none here.
    pub process: Vec<u32>,
    /// The time from which on records are shown.
    pub since: Option<When>,
    /// The time before which records are shown.
    pub until: Option<When>,
    /// The records of these threads and times that are shown.
    pub selection: Selection,
    /// The terms in which times are shown.
    pub time: TimeMode,
    /// When colours are used.
    pub color: colour::ColourMode,
    /// Whether a terminal is written to directly, without a pager.
    pub no_pager: bool,
}

impl View {
    /// Whether a part of the traces is asked for, or another look of them. Then the output goes to standard output
    /// unless the request names a file.
    #[must_use]
    pub fn is_asked_for(&self) -> bool {
        !self.thread.is_empty()
            || !self.process.is_empty()
            || self.is_of_a_time()
            || !self.selection.is_all()
            || self.time != TimeMode::Ticks
    }

    /// Whether only a range of time is asked for.
    #[must_use]
    pub fn is_of_a_time(&self) -> bool {
        self.since.is_some() || self.until.is_some()
    }

    /// Whether a thread is shown, of the process `pid` if that is known.
    #[must_use]
    pub fn wants(&self, pid: Option<u32>, tid: u64, name: &[u8]) -> bool {
        (self.process.is_empty() || pid.is_some_and(|pid| self.process.contains(&pid)))
            && (self.thread.is_empty() || self.thread.iter().any(|thread| thread.is(tid, name)))
    }

    /// Whether lines are in colours where they go to `target`.
    #[must_use]
    pub fn colours(&self, target: &Target) -> bool {
        self.color.is_now(is_terminal(target))
    }

    /// Whether a pager shows what goes to `target`.
    #[must_use]
    pub fn pages(&self, target: &Target) -> bool {
        !self.no_pager && is_terminal(target)
    }
}

/// Whether a person reads what goes to `target`.
#[must_use]
pub fn is_terminal(target: &Target) -> bool {
    matches!(target, Target::Stdout) && stdout_is_terminal()
}

/// A thread, as it is asked for.
#[derive(Clone, Debug)]
pub enum ThreadIs {
    /// The thread that has this id.
    Id(u64),
    /// All threads whose names match this pattern.
    Called(GlobMatcher),
}

impl ThreadIs {
    /// Takes an id, or a pattern for a name.
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

    /// Whether this asks for the thread with that id and name.
    #[must_use]
    pub fn is(&self, tid: u64, name: &[u8]) -> bool {
        match self {
            ThreadIs::Id(id) => *id == tid,
            ThreadIs::Called(glob) => glob.is_match(&*String::from_utf8_lossy(name)),
        }
    }
}
