//! The options of a merge and of its view on the command line, and their conversion to a request.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use regex::bytes::Regex;
use trace_format::sites::Level;

use crate::command::sql::Question;
use crate::input::sync::SyncPatterns;
use crate::symbols::Settings;
use crate::time::point_of_time::When;
use crate::ui::colour;
use crate::ui::messages::Grouped;
use crate::view::calls::Depth;
use crate::view::export::fields::level_of_name;
use crate::view::export::html::{MAX_RECORDS, MIN_RECORDS};
use crate::view::export::time_column::TimeMode;
use crate::view::layout::Layout;
use crate::view::request::{Request, View};
use crate::view::rows::RowForm;
use crate::view::select::{Amount, Selection, compiled};
use crate::view::sites::{SiteSelection, SourcePlace, WantedSites};
use crate::view::wanted_threads::ThreadSelector;

/// The options of a merge, alone or after a run.
#[derive(Args, Debug)]
pub(crate) struct MergeOptions {
    /// The file to write, or - [default: APP.trace.merge]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<OsString>,
    /// Merge all runs, not only the newest
    #[arg(long, hide_short_help = true)]
    pub all_runs: bool,
    /// Merge a text log by its times, too; - is standard input; may be repeated
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub with: Vec<PathBuf>,
    /// The patterns of messages between machines
    #[command(flatten)]
    pub sync: SyncOptions,
    /// The options of the view
    #[command(flatten)]
    pub view: ViewOptions,
    /// The options for names of functions
    #[command(flatten)]
    pub symbols: SymbolOptions,
    /// Show nested calls to this depth; those below it are shown as one, with their count [default: 64]
    #[arg(long, value_name = "N|all", value_parser = depth, hide_short_help = true)]
    pub depth: Option<Depth>,
    /// With --format html: write pages of at most N records into the directory APP.pages; 10M is 10 million
    #[arg(long, value_name = "N", value_parser = records_of_page, hide_short_help = true)]
    pub split: Option<u64>,
    /// Print nothing if all is well
    #[arg(short, long, hide_short_help = true, conflicts_with = "verbose")]
    pub quiet: bool,
    /// List the files read, and the readings of the clocks
    #[arg(short, long, hide_short_help = true)]
    pub verbose: bool,
}

impl MergeOptions {
    /// Returns the request for a merge that these options and `layout` make.
    #[must_use]
    pub(crate) fn into_request(self, layout: Arc<dyn Layout>) -> Request {
        let sync = self.sync.patterns().unwrap_or_default();
        let MergeOptions { output, all_runs, with, view, symbols, depth, quiet, verbose, .. } = self;
        let (view, depth) = (view.into_view(&*layout), depth.unwrap_or_default());
        let request = Request::default();
        symbols.added_to(Request {
            output,
            all_runs,
            with,
            sync,
            view,
            quiet,
            verbose,
            depth,
            layout,
            ..request
        })
    }
}

/// The patterns of messages between machines.
#[derive(Args, Debug)]
pub(crate) struct SyncOptions {
    /// Put machines in order by messages between them: patterns of the lines at sending and at receiving, as
    /// 'sent (\S+)' 'got \1'; may be repeated
    #[arg(long, num_args = 2, value_names = ["SENT", "RECEIVED"], allow_hyphen_values = true, hide_short_help = true)]
    sync: Vec<String>,
}

impl SyncOptions {
    /// Returns the pairs of patterns.
    ///
    /// # Errors
    /// A pattern is not a regular expression, or the two patterns of a pair do not have the same groups.
    pub(crate) fn patterns(&self) -> Result<Vec<SyncPatterns>, String> {
        self.sync.chunks_exact(2).map(|two| SyncPatterns::new(&two[0], &two[1])).collect()
    }
}

/// The options of a snapshot.
#[derive(Args, Debug)]
pub(crate) struct SnapshotOptions {
    /// The file to write; - is standard output [default: APP.trace.merge]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<OsString>,
    /// The options of the view
    #[command(flatten)]
    pub view: ViewOptions,
    /// The options for names of functions
    #[command(flatten)]
    pub symbols: SymbolOptions,
    /// Print nothing if all is well
    #[arg(short, long, conflicts_with = "verbose")]
    pub quiet: bool,
    /// List the files read, and the readings of the clocks
    #[arg(short, long)]
    pub verbose: bool,
}

impl From<SnapshotOptions> for Request {
    fn from(options: SnapshotOptions) -> Request {
        let SnapshotOptions { output, view, symbols, quiet, verbose } = options;
        let request = Request::default();
        let view = view.into_view(&*request.layout);
        symbols.added_to(Request { output, view, quiet, verbose, ..request })
    }
}

/// The options of a query of traces.
#[derive(Args, Debug)]
pub(crate) struct QueryOptions {
    /// Query all runs, not only the newest
    #[arg(long)]
    pub all_runs: bool,
    /// The form of the answer
    #[command(flatten)]
    pub form: RowForm,
    /// The options that select records
    #[command(flatten)]
    pub selection: SelectionOptions,
    /// The options for names of functions
    #[command(flatten)]
    pub symbols: SymbolOptions,
    /// Print nothing if all is well, except the answer
    #[arg(short, long)]
    pub quiet: bool,
}

impl QueryOptions {
    /// Returns the question `query` about `source`, with these options.
    #[must_use]
    pub(crate) fn into_question(self, source: PathBuf, query: Option<String>) -> Question {
        let QueryOptions { all_runs, form, selection, symbols, quiet } = self;
        let view = selection.into_view();
        let request = symbols.added_to(Request { all_runs, view, quiet, ..Request::default() });
        Question { source, query, form, request }
    }
}

/// The options that select records.
#[derive(Args, Debug)]
pub(crate) struct SelectionOptions {
    /// Only these threads, as 17, 'worker*' or a shown name
    #[arg(long, value_name = "TID|NAME", help_heading = SELECT)]
    pub thread: Vec<ThreadSelector>,
    /// Only these processes; may be repeated
    #[arg(long, value_name = "PID", hide_short_help = true, help_heading = SELECT)]
    pub process: Vec<u32>,
    /// Only from this time on: 1.5s, -200ms, 14:43:52, ticks
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, help_heading = SELECT)]
    pub since: Option<When>,
    /// Only records before this time
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, hide_short_help = true, help_heading = SELECT)]
    pub until: Option<When>,
    /// Only messages that match
    #[arg(long, value_name = "REGEX", allow_hyphen_values = true, value_parser = compiled, help_heading = SELECT)]
    pub grep: Option<Regex>,
    /// Only messages that do not match --grep
    #[arg(long, requires = "grep", hide_short_help = true, help_heading = SELECT)]
    pub invert: bool,
    /// Only the first N of the remaining records
    #[arg(long, value_name = "N", value_parser = amount, conflicts_with = "last", hide_short_help = true, help_heading = SELECT)]
    pub head: Option<usize>,
    /// Only the last N of the remaining records
    #[arg(long, value_name = "N", value_parser = amount, hide_short_help = true, help_heading = SELECT)]
    pub last: Option<usize>,
    /// Only messages of this module and its submodules, as app::net (recorded in raw files only); may be repeated
    #[arg(long, value_name = "PATH", hide_short_help = true, help_heading = SELECT)]
    pub module: Vec<String>,
    /// Only messages whose target or module is this one or below it (recorded in raw files only); may be repeated
    #[arg(long, value_name = "PATH", hide_short_help = true, help_heading = SELECT)]
    pub target: Vec<String>,
    /// Only messages of this level or a more urgent one: error, warn, info, debug, trace (recorded in raw files only)
    #[arg(long, value_name = "LEVEL", value_parser = level_of_name, hide_short_help = true, help_heading = SELECT)]
    pub level: Option<Level>,
    /// Only messages of this source file or line, as net.rs or net.rs:12 (recorded in raw files only); may be repeated
    #[arg(long, value_name = "FILE[:LINE]", value_parser = SourcePlace::parse, hide_short_help = true, help_heading = SELECT)]
    pub site: Vec<SourcePlace>,
}

/// The options that select the records to show, and their layout. With any of them except colours and pager, the
/// output goes to standard output.
#[derive(Args, Debug)]
pub(crate) struct ViewOptions {
    /// The options that select records
    #[command(flatten)]
    pub selection: SelectionOptions,
    /// The terms of times: ticks, offset, delta, wall or utc
    #[arg(long, value_name = "TERMS", value_enum, hide_possible_values = true, help_heading = SELECT)]
    pub time: Option<TimeMode>,
    /// The use of colours
    #[arg(long, value_name = "WHEN", value_enum, default_value_t, hide_short_help = true, help_heading = SELECT)]
    pub color: colour::ColourMode,
    /// Write to a terminal directly, not through $PAGER or less
    #[arg(long, hide_short_help = true, help_heading = SELECT)]
    pub no_pager: bool,
}

/// The options for names of functions, which are the same for all views.
#[derive(Args, Debug)]
pub(crate) struct SymbolOptions {
    /// Put the names of functions after their addresses in lines of the traces, too; the output is still a trace
    #[arg(long, hide_short_help = true, help_heading = SYMBOLS)]
    pub symbols: bool,
    /// Show addresses instead of names
    #[arg(long, conflicts_with = "symbols", hide_short_help = true, help_heading = SYMBOLS)]
    pub no_symbols: bool,
    /// A directory with binaries or their debug files, for names of functions; may be repeated
    #[arg(long, value_name = "DIR", hide_short_help = true, help_heading = SYMBOLS)]
    pub debug_dir: Vec<PathBuf>,
}

impl SymbolOptions {
    /// Returns `request` with these options.
    fn added_to(self, request: Request) -> Request {
        let SymbolOptions { symbols, no_symbols, debug_dir: debug_dirs } = self;
        let names_in_lines = !no_symbols && (symbols || !debug_dirs.is_empty());
        let settings = Settings { names: !no_symbols, debug_dirs, ..Settings::default() };
        Request { symbols: settings, names_in_lines, ..request }
    }
}

/// Reads the value of `--depth`: a depth of nested calls, or `all`.
fn depth(text: &str) -> Result<Depth, String> {
    if text == "all" {
        return Ok(Depth::All);
    }
    let most = text.parse().map(Depth::AtMost);
    most.map_err(|_| "expected a depth of nested calls, such as 20, or all".to_owned())
}

/// Reads the value of `--split`: a number of records on a page, such as 10M, 500K or 20000.
fn records_of_page(text: &str) -> Result<u64, String> {
    let (digits, unit) = match text.strip_suffix(['K', 'k']) {
        Some(digits) => (digits, 1000),
        None => text.strip_suffix(['M', 'm']).map_or((text, 1), |digits| (digits, 1_000_000)),
    };
    let number = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
    number.filter(|number| (MIN_RECORDS..=MAX_RECORDS).contains(number)).ok_or_else(|| {
        let (least, most) = (Grouped(MIN_RECORDS), Grouped(MAX_RECORDS));
        format!("expected a number of records from {least} to {most}, such as 10M or 500K")
    })
}

const SYMBOLS: &str = "Names of functions";

const SELECT: &str = "Selection and display";

impl SelectionOptions {
    /// Returns the view of the records that these options select.
    fn into_view(self) -> View {
        let SelectionOptions { thread, process, since, until, grep, invert, head, last, .. } = self;
        let SelectionOptions { module: modules, target: targets, level, site: places, .. } = self;
        let amount = match (head, last) {
            (Some(wanted), _) => Amount::First(wanted),
            (None, Some(wanted)) => Amount::Last(wanted),
            (None, None) => Amount::All,
        };
        let wanted = WantedSites { modules, targets, level, places };
        let sites = (!wanted.is_all()).then(|| SiteSelection { wanted, ..SiteSelection::default() });
        let selection = Selection { pattern: grep, invert, amount, sites };
        View { thread, process, since, until, selection, ..View::default() }
    }
}

impl ViewOptions {
    /// Returns the view that these options request. Without `--time`, the layout determines the form of times.
    fn into_view(self, layout: &dyn Layout) -> View {
        let ViewOptions { selection, time, color, no_pager } = self;
        let time = time.unwrap_or_else(|| layout.default_time());
        View { time, color, no_pager, ..selection.into_view() }
    }
}

/// Reads the value of `--head` or `--last`: a number of records.
fn amount(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| "expected a number of records, such as 20".to_owned())
}
