//! The request that a merge fulfils: additional traces, the wanted part of all traces, its appearance, and
//! its destination. The command line makes requests; this module does not know the syntax of the options.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use crate::find::part::Part;
use crate::input::sync::SyncPatterns;
use crate::output::target::Target;
use crate::symbols::Settings;
use crate::time::point_of_time::When;
use crate::ui::colour;
use crate::ui::console::{Content, Stream};
use crate::view::calls::Depth;
use crate::view::export::text::TraceLayout;
use crate::view::export::time_column::TimeMode;
use crate::view::layout::Layout;
use crate::view::select::Selection;
use crate::view::wanted_threads::ThreadSelector;

/// A requested merge, without the applications whose traces are merged.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// The file that is written, or `-` for standard output; `None` means the default output.
    pub output: Option<OsString>,
    /// Whether the traces of all runs are wanted, not only the newest run.
    pub all_runs: bool,
    /// The output file if the user names none and the view does not go to standard output; `None` means the
    /// file that follows from the layout.
    pub default_output: Option<PathBuf>,
    /// The logs of other programs, whose lines are inserted into the traces by the wall clock.
    pub with: Vec<PathBuf>,
    /// The patterns of messages that machines send to each other. By these messages, the traces of the machines are put
    /// in order.
    pub sync: Vec<SyncPatterns>,
    /// The wanted part of the traces, and its appearance.
    pub view: View,
    /// Whether the command prints nothing on success.
    pub quiet: bool,
    /// Whether the command prints details: which files are read, and how the clocks run.
    pub verbose: bool,
    /// The layout of the output.
    pub layout: Arc<dyn Layout>,
    /// The way in which names of functions are looked up.
    pub symbols: Settings,
    /// Whether names of functions are inserted after their addresses, if the output has lines of the traces.
    pub names_in_lines: bool,
    /// The depth to which nested calls are shown, if the layout shows nested calls.
    pub depth: Depth,
    /// The view that a merge into a file prints on standard error at its end, if that is a terminal.
    pub closing_view: ClosingView,
}

/// The view that a merge into a file prints at its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ClosingView {
    /// No view.
    #[default]
    Nothing,
    /// The last records of the merge, in the form of `show`.
    LastRecords,
    /// The summary of the merged traces.
    Summary,
}

impl Default for Request {
    fn default() -> Request {
        Request {
            output: None,
            all_runs: false,
            default_output: None,
            with: Vec::new(),
            sync: Vec::new(),
            view: View::default(),
            quiet: false,
            verbose: false,
            layout: Arc::new(TraceLayout),
            symbols: Settings::default(),
            names_in_lines: false,
            depth: Depth::default(),
            closing_view: ClosingView::Nothing,
        }
    }
}

impl Request {
    /// Returns whether names of functions are put into lines of the traces.
    #[must_use]
    pub(crate) fn puts_names_into_lines(&self) -> bool {
        self.names_in_lines && self.layout.has_lines_of_traces()
    }

    /// Returns the wanted part of the traces, as far as the request alone tells it. If messages put machines in order,
    /// or if logs are inserted, this is everything, because any trace may be needed for that.
    #[must_use]
    pub(crate) fn part(&self) -> Part {
        if !self.sync.is_empty() || !self.with.is_empty() {
            return Part::default();
        }
        let View { thread, process, since, until, .. } = &self.view;
        let threads: Option<Vec<u64>> = thread.iter().map(ThreadSelector::id).collect();
        let (since, until, processes) = (*since, *until, process.clone());
        Part { since, until, processes, threads: threads.unwrap_or_default() }
    }

    /// Returns the type of the output's content, with or without colours.
    #[must_use]
    pub(crate) fn content(&self, in_colours: bool) -> Content {
        self.layout.content(self.view.time, in_colours)
    }
}

/// A part of the traces, and its appearance. The default is the view of everything, unchanged.
#[derive(Clone, Debug, Default)]
pub(crate) struct View {
    /// The threads that are shown; if the list is empty, all threads.
    pub thread: Vec<ThreadSelector>,
    /// The ids of the processes that are shown; if the list is empty, all processes.
    pub process: Vec<u32>,
    /// The time of the first records that are shown.
    pub since: Option<When>,
    /// The time of the first records that are no longer shown.
    pub until: Option<When>,
    /// The selection among the records of the shown threads, processes and times.
    pub selection: Selection,
    /// The form in which times are shown.
    pub time: TimeMode,
    /// The mode that decides whether colours are used.
    pub color: colour::ColourMode,
    /// Whether the output goes directly to a terminal, without a pager.
    pub no_pager: bool,
}

impl View {
    /// Returns whether the user requests a part of the traces, or another appearance. If so, the output goes
    /// to standard output unless the request names a file.
    #[must_use]
    pub(crate) fn is_asked_for(&self) -> bool {
        !self.thread.is_empty()
            || !self.process.is_empty()
            || self.has_period()
            || !self.selection.is_all()
            || self.time != TimeMode::Ticks
    }

    /// Returns whether the view may leave out lines of the traces.
    #[must_use]
    pub(crate) fn leaves_out(&self) -> bool {
        self.has_period() || !self.selection.is_all() || !self.thread.is_empty() || !self.process.is_empty()
    }

    /// Returns the options with which the user selects records by their thread, their process or their content, and
    /// not by their time or by a limit of their count.
    #[must_use]
    pub(crate) fn selecting_options(&self) -> Vec<&'static str> {
        let sites = self.selection.sites.as_ref().map(|sites| &sites.wanted);
        let options = [
            ("--thread", !self.thread.is_empty()),
            ("--process", !self.process.is_empty()),
            ("--grep", self.selection.pattern.is_some()),
            ("--invert", self.selection.invert),
            ("--module", sites.is_some_and(|wanted| !wanted.modules.is_empty())),
            ("--target", sites.is_some_and(|wanted| !wanted.targets.is_empty())),
            ("--level", sites.is_some_and(|wanted| wanted.level.is_some())),
            ("--site", sites.is_some_and(|wanted| !wanted.places.is_empty())),
        ];
        options.into_iter().filter(|(_, is_given)| *is_given).map(|(option, _)| option).collect()
    }

    /// Returns whether the view is limited to a period.
    #[must_use]
    pub(crate) fn has_period(&self) -> bool {
        self.since.is_some() || self.until.is_some()
    }

    /// Returns whether the lines written to `target` are in colours.
    #[must_use]
    pub(crate) fn colours(&self, target: &Target) -> bool {
        self.color.is_now(is_terminal(target))
    }

    /// Returns whether a pager shows the lines written to `target`.
    #[must_use]
    pub(crate) fn pages(&self, target: &Target) -> bool {
        !self.no_pager && is_terminal(target)
    }
}

/// Returns whether `target` is a terminal.
#[must_use]
pub(crate) fn is_terminal(target: &Target) -> bool {
    matches!(target, Target::Stdout) && Stream::Output.is_terminal()
}
