//! A layout is the form in which a view shows records. Each layout is one type in one file or folder of
//! [`export`](crate::view::export), with its options, its help, its needs, and the format that it makes. [`VIEWS`]
//! lists the layouts that are subcommands, and [`FORMATS`](crate::view::export::format::FORMATS) those that are
//! formats for other programs. All other code uses layouts only through the trait [`Layout`].

use std::fmt;
use std::sync::{Arc, Mutex};

use clap::{ArgMatches, Args, Command};
use regex::bytes::Regex;
use trace_format::line::Ticks;

use crate::input::site_catalog::SiteCatalog;
use crate::symbols::Settings;
use crate::ui::colour::Palette;
use crate::ui::console::Content;
use crate::view::calls::Depth;
use crate::view::export::Export;
use crate::view::export::format::OutputFormat;
use crate::view::export::locks::LocksLayout;
use crate::view::export::rates::RatesLayout;
use crate::view::export::report::ReportLayout;
use crate::view::export::show::ShowLayout;
use crate::view::export::spans::SpansLayout;
use crate::view::export::stats::StatsLayout;
use crate::view::export::summary::SummaryLayout;
use crate::view::export::time_column::{TimeColumn, TimeMode};
use crate::view::export::tree::TreeLayout;
use crate::view::function_names::{FunctionNames, SharedNames};
use crate::view::thread_labels::{Label, LabelsInTime};
use crate::view::thread_states::ThreadStates;
use crate::view::threads::Threads;

/// The views that are subcommands, in the order in which help lists them.
pub(crate) static VIEWS: [NamedView; 8] = [
    NamedView::of::<SummaryLayout>(),
    NamedView::of::<ShowLayout>(),
    NamedView::of::<StatsLayout>(),
    NamedView::of::<RatesLayout>(),
    NamedView::of::<TreeLayout>(),
    NamedView::of::<ReportLayout>(),
    NamedView::of::<SpansLayout>(),
    NamedView::of::<LocksLayout>(),
];

/// The form in which a view shows records.
pub(crate) trait Layout: fmt::Debug + Send + Sync {
    /// Returns what the layout needs besides the lines of the records.
    fn needs(&self) -> Needs;

    /// Makes the format, which turns records into output.
    fn format(&self, context: &Context) -> Box<dyn Export>;

    /// Returns the default destination of the output.
    fn destination(&self) -> Destination {
        Destination::Shown
    }

    /// Returns the form in which times are shown, unless the user chooses one.
    fn default_time(&self) -> TimeMode {
        TimeMode::Ticks
    }

    /// Returns the type of the output's content if times are shown in the form `_time`.
    fn content(&self, _time: TimeMode, _in_colours: bool) -> Content {
        Content::Text
    }

    /// Returns whether the output is a summary, which is complete only after all records have been read.
    fn is_summary(&self) -> bool {
        false
    }

    /// Returns whether the output itself says how long threads have waited for the tracer.
    fn reports_waits(&self) -> bool {
        false
    }

    /// Returns whether the output has nested calls, whose depth the user may limit.
    fn nests_calls(&self) -> bool {
        false
    }

    /// Returns whether the output has lines of the traces, in which addresses may be followed by names.
    fn has_lines_of_traces(&self) -> bool {
        false
    }

    /// Returns the duration in nanoseconds below which calls are left out if all records are shown.
    fn min_duration(&self) -> u64 {
        0
    }
}

/// The facts that a layout needs besides the lines of the records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Needs {
    /// Whether the layout needs wall-clock times or durations, in whatever form times are shown.
    pub times: bool,
    /// Whether the layout shows times of day. If so, the user is told where the wall clock was set.
    pub times_of_day: bool,
    /// Whether the layout needs the sites of messages, which only raw files record.
    pub sites: bool,
    /// Whether the layout needs the typed values of messages, which only raw files record.
    pub values: bool,
    /// Whether the layout needs the calls of functions, with names that are looked up.
    pub calls: bool,
    /// Whether the layout needs the labels of threads.
    pub labels: bool,
    /// Whether the layout shows each record with the label that its thread had when it made the record.
    pub labels_in_time: bool,
    /// Whether the layout needs the times at which threads were off the processor. It gets these apart from the
    /// records.
    pub states: bool,
    /// Whether the layout needs the time of each process's last line before it gets the records.
    pub ends: bool,
}

/// The default destination of an output.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Destination {
    /// The merged file beside the application.
    Merged,
    /// Standard output.
    Shown,
    /// A file or a directory with the extension of this format beside the application.
    Exported(&'static OutputFormat),
}

/// The facts about records and output from which a layout makes its format.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    /// The names of functions.
    pub names: SharedNames,
    /// The applications, as the user wrote them; empty if a view does not need them.
    pub apps: Vec<String>,
    /// The steady time of the last line of the chosen runs, in nanoseconds.
    pub last: u64,
    /// The label of the thread of each origin, by the index of the origin; empty if labels are not needed, or become
    /// known later.
    pub labels: Vec<Label>,
    /// The labels that the thread of each origin has one after another, by the index of the origin; `None` if they are
    /// not needed, or become known later.
    pub labels_in_time: Option<Arc<Vec<LabelsInTime>>>,
    /// The end of the wanted period in ticks, for each origin; empty if the user has set no end.
    pub untils: Vec<Option<Ticks>>,
    /// The steady time of the last line of the process of each origin; empty if it is not needed.
    pub ends: Vec<u64>,
    /// The times at which threads were off the processor; empty if they are not needed.
    pub states: Arc<ThreadStates>,
    /// The sites to which the records refer.
    pub catalog: Arc<SiteCatalog>,
    /// The depth to which nested calls are shown.
    pub depth: Depth,
    /// The form in which times stand at the beginning of a line.
    pub time: TimeColumn,
    /// The colours of the output; `None` if it has no colours.
    pub palette: Option<Palette>,
    /// Whether a person reads the output on a terminal.
    pub on_terminal: bool,
    /// A pattern whose matches are highlighted.
    pub found: Option<Regex>,
}

impl Context {
    /// Returns a registry of the threads, without any thread yet.
    #[must_use]
    pub(crate) fn threads(&self) -> Threads {
        let mut threads = Threads::new(self.names.clone(), self.labels.clone())
            .named_in_time(self.labels_in_time.clone())
            .until(self.untils.clone())
            .ending_at(self.ends.clone());
        threads = threads.with_states(self.states.clone());
        threads.begin_at(self.time.first);
        threads
    }

    /// Makes a context without colours, labels, sites and limits. `time` is the form in which times stand at the
    /// beginning of a line.
    #[must_use]
    pub(crate) fn new(time: TimeColumn, symbols: Settings) -> Context {
        Context {
            names: Arc::new(Mutex::new(FunctionNames::new(symbols))),
            apps: Vec::new(),
            last: 0,
            labels: Vec::new(),
            labels_in_time: None,
            untils: Vec::new(),
            ends: Vec::new(),
            states: Arc::default(),
            catalog: Arc::default(),
            depth: Depth::default(),
            time,
            palette: None,
            on_terminal: false,
            found: None,
        }
    }
}

/// A layout that has a subcommand. Its fields are the subcommand's own options.
pub(crate) trait Subcommand: Layout + Args + 'static {
    /// The name of the subcommand.
    const NAME: &'static str;
    /// The description of the subcommand in the list of subcommands.
    const ABOUT: &'static str;
    /// The text after the subcommand's list of options.
    const HELP: &'static str;
    /// The help of the option `--follow`; `None` if the view cannot follow running applications.
    const FOLLOW: Option<&'static str>;
    /// The names of the subcommand's own options with which `--follow` cannot be combined.
    const NOT_FOLLOWED: &'static [&'static str] = &[];

    /// Returns the help about the rows for programs; empty if there are none.
    #[must_use]
    fn rows_help() -> String {
        String::new()
    }
}

/// A [`Subcommand`] as a value: its texts and functions, from which the command line is assembled.
#[derive(Debug)]
pub(crate) struct NamedView {
    /// The name of the subcommand.
    pub name: &'static str,
    /// The description of the subcommand in the list of subcommands.
    pub about: &'static str,
    /// The text after the subcommand's list of options.
    pub help: &'static str,
    /// The help of the option `--follow`; `None` if the view cannot follow running applications.
    pub follow: Option<&'static str>,
    /// The names of the subcommand's own options with which `--follow` cannot be combined.
    pub not_followed: &'static [&'static str],
    /// The function that returns the help about the rows for programs.
    pub rows_help: fn() -> String,
    /// The function that adds the subcommand's options to a command.
    pub options: fn(Command) -> Command,
    /// The function that makes the layout from the parsed options.
    pub layout: fn(&ArgMatches) -> Result<Arc<dyn Layout>, clap::Error>,
}

impl NamedView {
    const fn of<L: Subcommand>() -> NamedView {
        NamedView {
            name: L::NAME,
            about: L::ABOUT,
            help: L::HELP,
            follow: L::FOLLOW,
            not_followed: L::NOT_FOLLOWED,
            rows_help: L::rows_help,
            options: L::augment_args,
            layout: |matches| Ok(Arc::new(L::from_arg_matches(matches)?)),
        }
    }

    /// Returns the layout whose options all have their defaults.
    ///
    /// # Errors
    /// Returns an error if an option has no default.
    pub(crate) fn by_default(&self) -> Result<Arc<dyn Layout>, clap::Error> {
        self.with_options(&[])
    }

    /// Returns the layout with these options.
    ///
    /// # Errors
    /// Returns an error if there is no such option.
    pub(crate) fn with_options(&self, options: &[&str]) -> Result<Arc<dyn Layout>, clap::Error> {
        let words = [self.name].into_iter().chain(options.iter().copied());
        (self.layout)(&(self.options)(Command::new(self.name)).try_get_matches_from(words)?)
    }
}
