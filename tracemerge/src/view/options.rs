//! The options of a view: what of the traces is shown, and how.

use clap::Args;
use globset::{Glob, GlobMatcher};
use regex::bytes::{Regex, RegexBuilder};

use crate::time::when::When;
use crate::ui::colour;
use crate::view::export::text::TimeMode;

/// What of the traces is shown, and how. Any of it but colours and pager has the output go to standard output.
#[derive(Args, Clone, Debug, Default)]
pub struct View {
    /// Only these threads: an id, or a pattern for the name, as 'worker*'; may be repeated
    #[arg(long, value_name = "TID|NAME", value_parser = ThreadIs::parse, help_heading = SELECT)]
    pub thread: Vec<ThreadIs>,
    /// Only these processes; may be repeated
    #[arg(long, value_name = "PID", help_heading = SELECT)]
    pub process: Vec<u32>,
    /// Only from this time on: 1.5s, -200ms, 14:43:52, ticks; see below
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, help_heading = SELECT)]
    pub since: Option<When>,
    /// Only what is before this time
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, help_heading = SELECT)]
    pub until: Option<When>,
    /// Only messages in which this regular expression is found
    #[arg(long, value_name = "REGEX", allow_hyphen_values = true, value_parser = pattern, help_heading = SELECT)]
    pub grep: Option<Regex>,
    /// Only messages in which it is not
    #[arg(long, requires = "grep", help_heading = SELECT)]
    pub invert: bool,
    /// Only the first N records of what is left
    #[arg(long, value_name = "N", conflicts_with = "last", help_heading = SELECT)]
    pub head: Option<usize>,
    /// Only the last N records of what is left
    #[arg(long, value_name = "N", help_heading = SELECT)]
    pub last: Option<usize>,
    /// In which terms the time of each line is shown
    #[arg(long, value_name = "TERMS", value_enum, default_value_t, help_heading = SHOW)]
    pub time: TimeMode,
    /// Whether to use colours
    #[arg(long, value_name = "WHEN", value_enum, default_value_t, help_heading = SHOW)]
    pub color: colour::ColourMode,
    /// Write to a terminal directly, not through $PAGER or less
    #[arg(long, help_heading = SHOW)]
    pub no_pager: bool,
}

const SELECT: &str = "What is shown";
const SHOW: &str = "How it is shown";

impl View {
    /// Whether a part of the traces is asked for, or another look of them.
    #[must_use]
    pub fn is_asked_for(&self) -> bool {
        !self.thread.is_empty()
            || !self.process.is_empty()
            || self.since.is_some()
            || self.until.is_some()
            || self.grep.is_some()
            || self.head.is_some()
            || self.last.is_some()
            || self.time != TimeMode::Ticks
    }

    /// Whether that thread is to be shown, of that process if it is known.
    #[must_use]
    pub fn wants(&self, pid: Option<u32>, tid: u64, name: &[u8]) -> bool {
        (self.process.is_empty() || pid.is_some_and(|pid| self.process.contains(&pid)))
            && (self.thread.is_empty() || self.thread.iter().any(|thread| thread.is(tid, name)))
    }
}

/// A thread, as it is asked for.
#[derive(Clone, Debug)]
pub enum ThreadIs {
    /// By its id.
    Id(u64),
    /// By a pattern for its name.
    Called(GlobMatcher),
}

impl ThreadIs {
    fn parse(text: &str) -> Result<ThreadIs, String> {
        if let Ok(tid) = text.parse() {
            return Ok(ThreadIs::Id(tid));
        }
        Glob::new(text)
            .map(|glob| ThreadIs::Called(glob.compile_matcher()))
            .map_err(|error| error.to_string())
    }

    /// Whether it is that thread.
    #[must_use]
    pub fn is(&self, tid: u64, name: &[u8]) -> bool {
        match self {
            ThreadIs::Id(id) => *id == tid,
            ThreadIs::Called(glob) => glob.is_match(&*String::from_utf8_lossy(name)),
        }
    }
}

/// `^` and `$` are the ends of each line of a message.
fn pattern(text: &str) -> Result<Regex, String> {
    RegexBuilder::new(text).multi_line(true).build().map_err(|error| error.to_string())
}
