//! The options of a merge and of its view on the command line, and the request that they make.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};
use regex::bytes::{Regex, RegexBuilder};
use trace_format::duration;
use trace_format::sites::Level;

use crate::symbols::Settings;
use crate::time::point_of_time::When;
use crate::ui::colour;
use crate::view::calls::Depth;
use crate::view::export::fields::level as name_of_level;
use crate::view::export::format::OtherFormat;
use crate::view::export::report::{ReportOrder, ReportStyle};
use crate::view::export::show::Column;
use crate::view::export::time_column::TimeMode;
use crate::view::export::tree::TreeStyle;
use crate::view::request::{Layout, Request, View};
use crate::view::select::{Amount, Selection};
use crate::view::sites::{SiteSelection, SourcePlace, WantedSites};
use crate::view::wanted_threads::ThreadSelector;

/// The options of a merge, alone or after a run.
#[derive(Args, Debug)]
pub struct MergeOptions {
    /// The file to write, or - [default: APP.trace.merge]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<OsString>,
    /// Merge all runs, not only the newest
    #[arg(long, hide_short_help = true)]
    pub all_runs: bool,
    /// Merge a text log by its times, too; - is standard input; may be repeated
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub with: Vec<PathBuf>,
    /// The options of the view
    #[command(flatten)]
    pub view: ViewOptions,
    /// Print nothing if all is well
    #[arg(short, long, conflicts_with = "verbose")]
    pub quiet: bool,
    /// List the files read, and the readings of the clocks
    #[arg(short, long, hide_short_help = true)]
    pub verbose: bool,
}

impl From<MergeOptions> for Request {
    fn from(options: MergeOptions) -> Request {
        let MergeOptions { output, all_runs, with, view, quiet, verbose } = options;
        Request { output, all_runs, with, view: view.into(), quiet, verbose, ..Request::default() }
    }
}

/// The options that select the records to show, and their layout. With any of them except colours and pager, the
/// output goes to standard output.
#[derive(Args, Debug)]
pub struct ViewOptions {
    /// Only these threads, as 17 or 'worker*'
    #[arg(long, value_name = "TID|NAME", value_parser = ThreadSelector::parse, help_heading = SELECT)]
    pub thread: Vec<ThreadSelector>,
    /// Only these processes; may be repeated
    #[arg(long, value_name = "PID", hide_short_help = true, help_heading = SELECT)]
    pub process: Vec<u32>,
    /// Only from this time on: 1.5s, -200ms, 14:43:52, ticks
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, help_heading = SELECT)]
    pub since: Option<When>,
    /// Only records before this time
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, help_heading = SELECT)]
    pub until: Option<When>,
    /// Only messages that match
    #[arg(long, value_name = "REGEX", allow_hyphen_values = true, value_parser = pattern, help_heading = SELECT)]
    pub grep: Option<Regex>,
    /// Only messages that do not match --grep
    #[arg(long, requires = "grep", hide_short_help = true, help_heading = SELECT)]
    pub invert: bool,
    /// Only the first N of the remaining records
    #[arg(long, value_name = "N", value_parser = amount, conflicts_with = "last", hide_short_help = true, help_heading = SELECT)]
    pub head: Option<usize>,
    /// Only the last N of the remaining records
    #[arg(long, value_name = "N", value_parser = amount, help_heading = SELECT)]
    pub last: Option<usize>,
    /// Only messages of this module and its submodules, as app::net; of raw files; may be repeated
    #[arg(long, value_name = "PATH", hide_short_help = true, help_heading = SELECT)]
    pub module: Vec<String>,
    /// Only messages of this target and those below it, or of such a module; of raw files; may be repeated
    #[arg(long, value_name = "PATH", hide_short_help = true, help_heading = SELECT)]
    pub target: Vec<String>,
    /// Only messages of this level or a more urgent one: error, warn, info, debug or trace; of raw files
    #[arg(long, value_name = "LEVEL", value_parser = level, hide_short_help = true, help_heading = SELECT)]
    pub level: Option<Level>,
    /// Only messages of this source file or line, as net.rs or net.rs:12; of raw files; may be repeated
    #[arg(long, value_name = "FILE[:LINE]", value_parser = SourcePlace::parse, hide_short_help = true, help_heading = SELECT)]
    pub site: Vec<SourcePlace>,
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

/// The options for the lookup of function names.
#[derive(Args, Debug)]
pub struct SymbolOptions {
    /// A directory with binaries or their debug files; may be repeated
    #[arg(long, value_name = "DIR", help_heading = SYMBOLS)]
    pub debug_dir: Vec<PathBuf>,
    /// Show addresses instead of names
    #[arg(long, help_heading = SYMBOLS)]
    pub no_symbols: bool,
}

impl From<SymbolOptions> for Settings {
    fn from(options: SymbolOptions) -> Settings {
        let SymbolOptions { debug_dir, no_symbols } = options;
        Settings { names: !no_symbols, debug_dirs: debug_dir, ..Settings::default() }
    }
}

/// The option for the depth of nested calls.
#[derive(Args, Clone, Copy, Debug)]
pub struct DepthOption {
    /// The depth of nested calls; deeper ones are shown as one, with their number [default: 64]
    #[arg(long, value_name = "N|all", value_parser = depth, hide_short_help = true)]
    pub depth: Option<Depth>,
}

/// Reads a depth of nested calls.
fn depth(text: &str) -> Result<Depth, String> {
    if text == "all" {
        return Ok(Depth::All);
    }
    let most = text.parse().map(Depth::AtMost);
    most.map_err(|_| "expected a depth of nested calls, such as 20, or all".to_owned())
}

/// The options that put names of functions into lines.
#[derive(Args, Debug)]
pub struct LineSymbolOptions {
    /// Put the names of functions after their addresses; the output is still a trace
    #[arg(long, hide_short_help = true, help_heading = SYMBOLS)]
    pub symbols: bool,
    /// A directory with binaries or their debug files; may be repeated
    #[arg(long, value_name = "DIR", requires = "symbols", hide_short_help = true, help_heading = SYMBOLS)]
    pub debug_dir: Vec<PathBuf>,
}

impl LineSymbolOptions {
    /// Adds the options to a request.
    #[must_use]
    pub fn added_to(self, request: Request) -> Request {
        let LineSymbolOptions { symbols: names_in_lines, debug_dir: debug_dirs } = self;
        Request { symbols: Settings { debug_dirs, ..Settings::default() }, names_in_lines, ..request }
    }
}

const SYMBOLS: &str = "Names of functions";

const SELECT: &str = "Selection and display";

impl From<ViewOptions> for View {
    fn from(options: ViewOptions) -> View {
        let ViewOptions { thread, process, since, until, grep, invert, head, last, .. } = options;
        let ViewOptions { module: modules, target: targets, level, site: places, .. } = options;
        let ViewOptions { time, color, no_pager, .. } = options;
        let amount = match (head, last) {
            (Some(wanted), _) => Amount::First(wanted),
            (None, Some(wanted)) => Amount::Last(wanted),
            (None, None) => Amount::All,
        };
        let wanted = WantedSites { modules, targets, level, places };
        let sites = (!wanted.is_all()).then(|| SiteSelection { wanted, ..SiteSelection::default() });
        let selection = Selection { pattern: grep, invert, amount, sites };
        let time = time.unwrap_or_default();
        View { thread, process, since, until, selection, time, color, no_pager }
    }
}

/// Reads a level.
fn level(text: &str) -> Result<Level, String> {
    let levels = [Level::Error, Level::Warn, Level::Info, Level::Debug, Level::Trace];
    let named = levels
        .into_iter()
        .find(|level| name_of_level(*level).is_some_and(|name| name.eq_ignore_ascii_case(text)));
    named.ok_or_else(|| "expected a level: error, warn, info, debug or trace".to_owned())
}

/// Compiles a pattern in which `^` and `$` are the ends of each line of a message.
fn pattern(text: &str) -> Result<Regex, String> {
    RegexBuilder::new(text).multi_line(true).build().map_err(|error| error.to_string())
}

/// Checks a pattern for the names of functions.
pub fn function_pattern(text: &str) -> Result<String, String> {
    regex::Regex::new(text).map(|_| text.to_owned()).map_err(|error| error.to_string())
}

/// Reads a [duration]; returns nanoseconds.
pub fn nanoseconds(text: &str) -> Result<u64, String> {
    duration::parse_ns(text).ok_or_else(|| format!("expected {}", duration::EXPECTED))
}

/// The view of calls at the end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CallView {
    /// The tree of calls, as by `tracemerge tree`
    Tree,
    /// The calls of each function, as by `tracemerge report`
    Report,
}

impl CallView {
    /// Adds the view to a request, with calls up to this depth.
    #[must_use]
    pub fn added_to(self, depth: Depth, mut request: Request) -> Request {
        request.layout = match self {
            CallView::Tree => Layout::Tree(TreeStyle { depth, ..TreeStyle::default() }),
            CallView::Report => Layout::Report(ReportStyle::default()),
        };
        request
    }
}

impl ValueEnum for ReportOrder {
    fn value_variants<'a>() -> &'a [ReportOrder] {
        use ReportOrder::{Average, Calls, Max, Own, Total};
        &[Total, Own, Calls, Average, Max]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let (name, help) = match self {
            ReportOrder::Total => ("total", "The time of all calls, with the calls inside"),
            ReportOrder::Own => ("self", "The time of all calls, without the calls inside"),
            ReportOrder::Calls => ("calls", "The number of calls"),
            ReportOrder::Average => ("avg", "The average time of a call"),
            ReportOrder::Max => ("max", "The time of the longest call"),
        };
        Some(PossibleValue::new(name).help(help))
    }
}

impl ValueEnum for OtherFormat {
    fn value_variants<'a>() -> &'a [OtherFormat] {
        OtherFormat::ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let (name, help) = self.named();
        Some(PossibleValue::new(name).help(help))
    }
}

/// Reads a number of records.
fn amount(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| "expected a number of records, such as 20".to_owned())
}

impl ValueEnum for TimeMode {
    fn value_variants<'a>() -> &'a [TimeMode] {
        &[TimeMode::Ticks, TimeMode::Offset, TimeMode::Delta, TimeMode::Wall, TimeMode::Utc]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let (name, help) = match self {
            TimeMode::Ticks => ("ticks", "Raw ticks, as in the trace"),
            TimeMode::Offset => ("offset", "Seconds since the first line of the chosen runs"),
            TimeMode::Delta => ("delta", "Seconds since the record shown before"),
            TimeMode::Wall => ("wall", "Local date and time"),
            TimeMode::Utc => ("utc", "Date and time in UTC"),
        };
        Some(PossibleValue::new(name).help(help))
    }
}

impl ValueEnum for Column {
    fn value_variants<'a>() -> &'a [Column] {
        &[
            Column::Time,
            Column::Delta,
            Column::Thread,
            Column::Process,
            Column::Level,
            Column::Target,
            Column::Module,
            Column::Site,
            Column::Function,
        ]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let (name, help) = match self {
            Column::Time => ("time", "The time, in the terms of --time"),
            Column::Delta => ("delta", "Seconds since the record shown before"),
            Column::Thread => ("thread", "The thread: its name, and its id if names are not unique"),
            Column::Process => ("process", "The process id"),
            Column::Level => ("level", "The level of the message; of raw files"),
            Column::Target => ("target", "The target of the message, or its module; of raw files"),
            Column::Module => ("module", "The module that traced the message; of raw files"),
            Column::Site => ("site", "The source file and line that traced it; of raw files"),
            Column::Function => ("function", "The function that traced it; of raw files"),
        };
        Some(PossibleValue::new(name).help(help))
    }
}

impl ValueEnum for colour::ColourMode {
    fn value_variants<'a>() -> &'a [colour::ColourMode] {
        &[colour::ColourMode::Auto, colour::ColourMode::Always, colour::ColourMode::Never]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let (name, help) = match self {
            colour::ColourMode::Auto => ("auto", "On a terminal, unless NO_COLOR is set"),
            colour::ColourMode::Always => ("always", "Always"),
            colour::ColourMode::Never => ("never", "Never"),
        };
        Some(PossibleValue::new(name).help(help))
    }
}
