//! The request that a merge fulfils: the further traces that are wanted, the part of all traces that is
//! wanted, how it looks, and where it goes. The command line makes requests; nothing here knows how they were
//! written there.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::output::target::Target;
use crate::symbols::Settings;
use crate::time::point_of_time::When;
use crate::ui::colour;
use crate::ui::console::{Content, Stream};
use crate::view::calls::Depth;
use crate::view::export::format::OtherFormat;
use crate::view::export::locks::LocksStyle;
use crate::view::export::report::ReportStyle;
use crate::view::export::show::Column;
use crate::view::export::stats::StatsStyle;
use crate::view::export::time_column::TimeMode;
use crate::view::export::tree::TreeStyle;
use crate::view::select::Selection;
use crate::view::wanted_threads::ThreadIs;

/// A merge that is asked for, without the applications whose traces are merged.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The file that is written, or `-` for standard output; `None` means the default.
    pub output: Option<OsString>,
    /// Whether the traces of all runs are wanted, not only those of the newest run.
    pub all_runs: bool,
    /// The file that is written if the user names none and a view is not for standard output; `None` means the one that
    /// follows from the layout.
    pub default_output: Option<PathBuf>,
    /// The logs of other programs whose lines are put between those of the traces, by the wall clock.
    pub with: Vec<PathBuf>,
    /// The part of the traces that is wanted, and how it looks.
    pub view: View,
    /// Whether the command is silent if all is well.
    pub quiet: bool,
    /// Whether the user is told details: which files are read, and how the clocks run.
    pub verbose: bool,
    /// The layout of the output.
    pub layout: Layout,
    /// The way in which names of functions are looked up.
    pub symbols: Settings,
    /// Whether names of functions are put behind their addresses, where the output has lines of the traces.
    pub names_in_lines: bool,
    /// How many calls inside of each other a format for other programs shows, if it shows them so.
    pub depth: Depth,
    /// Whether a merge into a file ends with its last records on standard error, if that is a terminal.
    pub shows_end: bool,
}

/// The layout of the output.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Layout {
    /// The lines are those of the traces, with their times in other terms if that is asked for.
    #[default]
    Trace,
    /// The records are laid out for people, in these columns before the message.
    Show(Vec<Column>),
    /// The messages are counted by their sites.
    Stats(StatsStyle),
    /// Calls are indented below the calls that they are in.
    Tree(TreeStyle),
    /// Calls are counted by their functions.
    Report(ReportStyle),
    /// The waits for locks and conditions are counted.
    Locks(LocksStyle),
    /// The records are in a format of other programs.
    Other(OtherFormat),
}

impl Layout {
    /// Returns whether the times of records are told, whatever terms of time are asked for.
    #[must_use]
    pub fn tells_times(&self) -> bool {
        self.is_summary() || matches!(self, Layout::Other(_))
    }

    /// Returns whether the output goes to standard output unless it is sent elsewhere.
    #[must_use]
    pub fn is_shown(&self) -> bool {
        !matches!(self, Layout::Trace | Layout::Other(_))
    }

    /// Returns whether the output tells the values of messages.
    #[must_use]
    pub fn tells_values(&self) -> bool {
        matches!(self, Layout::Other(_))
    }

    /// Returns whether the output is a summary, which is there when all records have been read.
    #[must_use]
    pub fn is_summary(&self) -> bool {
        matches!(self, Layout::Stats(_) | Layout::Report(_) | Layout::Locks(_))
    }

    /// Returns whether the output tells calls of functions, whose names are looked up.
    #[must_use]
    pub fn tells_calls(&self) -> bool {
        matches!(self, Layout::Tree(_) | Layout::Report(_) | Layout::Locks(_) | Layout::Other(_))
    }

    /// Returns whether the output tells which sites the messages are of.
    #[must_use]
    pub fn tells_sites(&self) -> bool {
        match self {
            Layout::Trace | Layout::Tree(_) | Layout::Report(_) | Layout::Locks(_) => false,
            Layout::Show(columns) => columns.iter().any(|column| column.is_of_site()),
            Layout::Stats(_) | Layout::Other(_) => true,
        }
    }
}

impl Request {
    /// Returns the sort of what is written, in colours or not.
    #[must_use]
    pub fn content(&self, in_colours: bool) -> Content {
        match &self.layout {
            // Lines that have their ticks are a trace again.
            Layout::Trace if !in_colours && self.view.time == TimeMode::Ticks => Content::Data,
            Layout::Stats(style) if style.json => Content::Json,
            Layout::Other(format) => format.content(),
            _ => Content::Text,
        }
    }
}

/// A part of the traces, and the way in which it is shown. The default is the view of everything, as it
/// stands in the traces.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// The threads that are shown; if the list is empty, all threads.
    pub thread: Vec<ThreadIs>,
    /// The ids of the processes that are shown; if the list is empty, all processes.
    pub process: Vec<u32>,
    /// The time from which on records are shown.
    pub since: Option<When>,
    /// The time before which records are shown.
    pub until: Option<When>,
    /// The selection among the records of these threads and times.
    pub selection: Selection,
    /// The terms in which times are shown.
    pub time: TimeMode,
    /// The mode that says when colours are used.
    pub color: colour::ColourMode,
    /// Whether a terminal is written to directly, without a pager.
    pub no_pager: bool,
}

impl View {
    /// Returns whether a part of the traces is asked for, or another look of them. Then the output goes to
    /// standard output unless the request names a file.
    #[must_use]
    pub fn is_asked_for(&self) -> bool {
        !self.thread.is_empty()
            || !self.process.is_empty()
            || self.is_of_a_time()
            || !self.selection.is_all()
            || self.time != TimeMode::Ticks
    }

    /// Returns whether lines of the traces may be missing in what is shown.
    #[must_use]
    pub fn leaves_out(&self) -> bool {
        self.is_of_a_time() || !self.selection.is_all() || !self.thread.is_empty() || !self.process.is_empty()
    }

    /// Returns whether the view is limited to a period.
    #[must_use]
    pub fn is_of_a_time(&self) -> bool {
        self.since.is_some() || self.until.is_some()
    }

    /// Returns whether lines that go to `target` are in colours.
    #[must_use]
    pub fn colours(&self, target: &Target) -> bool {
        self.color.is_now(is_terminal(target))
    }

    /// Returns whether a pager shows the lines that go to `target`.
    #[must_use]
    pub fn pages(&self, target: &Target) -> bool {
        !self.no_pager && is_terminal(target)
    }
}

/// Returns whether `target` is a terminal.
#[must_use]
pub fn is_terminal(target: &Target) -> bool {
    matches!(target, Target::Stdout) && Stream::Output.is_terminal()
}
