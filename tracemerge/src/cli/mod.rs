//! The command line, and its help.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches, Parser};

pub(crate) mod manual;
mod options;
mod views;

pub(crate) use self::options::{MergeOptions, QueryOptions, SnapshotOptions, SyncOptions};
pub(crate) use self::views::ViewCommand;
use self::views::{format_parser, view_parser};
use crate::command::diff::{Percent, columns_help as diff_columns};
use crate::ui::colour::ColourMode;
use crate::ui::console::{Stream, show_usage};
use crate::ui::error::Error;
use crate::ui::escaping::escaped_line;
use crate::ui::subcommands::{self, is_subcommand, subcommand_like};
use crate::view::calls::Depth;
use crate::view::export::format::{FORMATS, OutputFormat};
use crate::view::export::html;
use crate::view::layout::{Layout, NamedView};
use crate::view::rows::{RowForm, row_limit};

const NAME: &str = "tracemerge";

/// The name of the subcommand that shows the help of another subcommand.
const HELP: &str = "help";

const BRIEF: &str = "\
TRACER_ENABLE=1 ./app makes traces; tracemerge ./app merges them.";

const EXAMPLES: &str = "\
The places of <APP>.trace.<thread id>:
  beside APP, beside the file that APP is a symbolic link to, in $TRACER_DIR,
  in the current directory, in the temporary directory, and in the directory of
  a run of APP that is still in memory. In the last four, which applications
  share, only files that name this APP in their first line count, unless APP
  itself does not exist. (Traces copied from another machine need no APP.)

Records in memory:
  A merge first writes the records that a killed APP left in memory to its files;
  if that fails, it reads them from memory. Of a running APP, the merge contains
  all records that were traced before the merge began.

The merged runs:
  the newest run, with the processes it forked and the runs that overlap it in
  time. A note gives the number of older runs; --all-runs merges all. Of several
  APPs, the newest run of each. A directory means all traces in it, of any
  application and run. Runs of several machines at the same time are ordered by
  the wall clock, in ticks of the first machine.

The selected records:
  With an option that selects, or --time, the output is a view: it goes to standard
  output unless -o names a file. A record is a message with its continuation lines;
  it is selected as a whole. Options may be combined: --grep searches the records
  that --thread, --process, --since and --until select, --head and --last count
  those that --grep selects.
  '#' lines (begin, loss, end of a thread) belong to their thread, process and time.
  --grep and --invert leave them out. --head and --last do not count them, and show
  only the warnings between the records: losses, damage, stalls. With raw ticks
  a view is a trace again, line by line.
  --grep searches a message as it is in the trace, that is with its escapes.

TIME is one of:
  1.5s, 200ms, 1m30s      after the first line of the chosen runs; 1.5 means seconds
  -200ms                  before their last line
  14:43:52.5              local time on the day of the trace; with Z: UTC
  '2026-11-21 14:43:52'   local; with Z or an offset as +01:00 of that zone
  0x128fd9f283f, @12345   ticks; also as at the start of a line: 00000128fd9f283f
  --since includes the time, --until does not. Records outside are not even read.

TERMS of time:
  ticks   as in the trace       offset  seconds since the first line of the runs
  delta   since the record shown before
  wall    local date and time   utc     the same in UTC
  The clock readings in the traces ('# run', '# clock') convert ticks to times, with
  drift corrected. If lines of several processes are shown, PID/ then precedes each
  thread id.

--follow:
  shows the existing records, then new ones, from files and from memory, until all
  processes of all APPs have ended, or Ctrl-C (status 0). It waits for an APP that
  is not running. '# late lines=N': the next N lines are earlier than those above.
  Options of a view apply to all new records; there is no pager.
  --last 20 begins with the last 20 existing records, --since -2s with records at
  most 2 s older than the newest line now. --head ends it (status 0) after that
  number of records, --until at that time; a time of day is the first such time after
  the first line. Losses and damage in the threads and processes of --thread and --process
  are shown; if --grep leaves these lines out, stderr reports them. Times use the
  clock readings so far: a later view of the same lines may differ in the last
  digits.

--symbols:
  functions that were recorded by address get their names, from the executable and its
  debug information (see tracemerge tree --help), in the form that call sites have:
    > 0x55d5c0ffee00 parse at src/parse.rs:88
  In call stacks they are between parentheses. The output is still a trace, which can be
  read without the executable. --grep searches lines without these names.

--format NAME, for other programs:
FORMATS  All options that select apply. stderr reports records that a format cannot represent.
  In nested calls, those deeper than 64 are one frame, with their number and their time:
  '… 261,791 more calls of f'. --depth N|all shows more.

--with FILE:
  lines that begin with a time (ISO 8601, since 1970, syslog, web server, JSON)
  become messages 'FILE: LINE' of thread 0, lines without one continue them.
  --thread 0 or --thread FILE selects them, --process 0 too.
  Times without a zone are local (TZ).

Examples:
  TRACER_ENABLE=1 ./app          make traces
  tracemerge ./app               merge them into ./app.trace.merge
  tracemerge ./app --with access.log --with journal.txt
  tracemerge -f ./app            watch its records while it runs
  tracemerge -f ./client ./server --last 20 --grep 'error|fail' --time wall
  tracemerge ./app -o -          look at them
  tracemerge ./app --last 20     the last 20 records, on standard output
  tracemerge show                show the newest traces below the current directory
  tracemerge ./app --since -2s --time offset --thread 'worker*'
  tracemerge ./app --grep 'error|fail' --time wall
  tracemerge --format perfetto ./app           a timeline, in ./app.perfetto-trace
  tracemerge ./client ./server   both in one, into ./client.trace.merge
  tracemerge /var/traces -o all  all traces in that directory
  tracemerge run ./app --fast    both in one: run ./app --fast, then merge
  tracemerge check ./app         prove that no record is missing, or list the gaps
  tracemerge info ./app          list runs and threads, with the number of their records
  tracemerge diff good bad       compare two traces, thread by thread
  tracemerge snapshot 4711       the records of the running process 4711 so far
  tracemerge off 4711            switch its tracing off; on 4711: on again
  tracemerge clean ./app         delete the traces and the merged file
  tracemerge ./run               an application with the name of a command

Exit status:
  0  all is merged
  1  merged, but records are lost or damaged; see stderr
  2  nothing was done";

/// Returns the notes that `--help` prints after the list of all options, with the list of formats.
fn examples() -> String {
    let formats: String =
        FORMATS.iter().map(|format| format!("  {:<11} {}\n", format.name, format.about)).collect();
    EXAMPLES.replacen("FORMATS", &formats, 1)
}

const RUN_HELP: &str = "\
Sets TRACER_ENABLE=1, runs the application and waits for it; then merges its
traces and those of the processes it forked. An APP without a slash is searched in
PATH. Options of tracemerge go before APP; all arguments after APP are for APP.

A program that was compiled with -finstrument-functions gets libtracer preloaded,
so that all its functions are traced; --show tree then shows their calls.

If --show, --format or --open needs what text files do not record (levels, source lines,
typed values), the run records raw files, unless APP or TRACER_FORMAT chooses otherwise.

Interrupting from the keyboard ends APP, not tracemerge. SIGTERM and SIGHUP are
passed on to APP. A signal within half a second of APP's end does not end the merge,
nor does closing the console of Windows, which gives the merge four seconds.

Exit status:
  that of APP (128 + the number of the signal that killed it, 127 if it is not
  found, 126 if it cannot be run); if that is 0, that of the viewer or of the merge:
  0 all is merged, 1 records are lost or damaged, 2 nothing was merged";

const CLEAN_HELP: &str = "\
Deletes the trace files that APP has written beside itself and in TRACER_DIR, other
files that its runs have left beside them, the merged file APP.trace.merge, other
outputs named after APP (as APP.jsonl or APP.ctf) if tracemerge wrote them, and the
temporary files of killed merges in the directory of APP.

Trace files of APP in other directories are listed. They are deleted with --yes, or
if the answer on the terminal is y; otherwise they stay. Files of a running process
stay, and so do files of other programs of that name, and of other users.

Exit status:
  0  all are deleted, or there were none
  1  some could not be deleted, or stay in other directories
  2  nothing was done";

const CHECK_HELP: &str = "\
First recovers the records that a killed APP left in memory, as a merge does. Then
reads all traces and compares: the number of records counted in memory with those
found, the '# end' line of each thread with the lines before it, each line's time
with that of the line before. Prints the records found on standard output, with a
line for each thread if -v is given or if something is wrong, and at the end 'whole'
or 'not whole'; prints each reason on stderr.

Intended losses make a trace not whole, too: records that a flight recorder has
overwritten, or that a limit of the file size has dropped. It cannot detect a file
that was deleted after its program had ended, or a changed letter in a message.

Exit status:
  0  whole: all traced records are there
  1  not whole
  2  there is no trace";

const INFO_HELP: &str = "\
First recovers the records that a killed APP left in memory, as a merge does. Then
prints on standard output, for each run that a merge would take and for each of its
threads: records, bytes of text, the times of the first and the last message (since
the run began), how long the thread waited for room in its ring, lost records, how
it ended; and how exactly the ticks of the run convert to times. A thread's name is
the operating system's.

--json writes the same for programs: times in nanoseconds, fields described in
docs/info-json.md. Fields may be added; none is removed while `version` is the same.
--csv writes a row for each thread, with the fields of threads.

For traces of several machines, a table shows how far each machine's wall clock is ahead of that
of the reference machine, and the errors of its times: from its messages with the others, if
--sync finds these, otherwise from the errors of the wall clocks that the operating systems
state. --csv --machines writes a row for each machine.

Exit status:
  0  all is printed
  1  some files could not be read; stderr names them
  2  there is no trace";

const OPEN_HELP: &str = "\
Shows the trace as a page in the browser (--format html), if there is a display and
xdg-open. Otherwise, shows it in the terminal (tracemerge tui). If standard input or output is
no terminal, or with -o, --head or --last, it starts the first installed viewer of these: lnav,
or less, with the merged lines and times of the day, in APP.trace.utc; uftrace tui. It writes the
file as a merge with --format does, and does not delete it.

TRACEMERGE_OPEN=FORMAT names another format, one of --format or text, and
TRACEMERGE_OPEN=FORMAT:COMMAND also the command, to which the path is appended. If a page
in a browser shows a format (perfetto), it writes the file and prints the page's address.
Nothing is sent over the network.

Examples:
  tracemerge open --since -2s ./app
  TRACEMERGE_OPEN='uftrace:uftrace graph -d' tracemerge open ./app

Exit status: that of the viewer; 2 if nothing was written";

const DIFF_HELP: &str = "\
A and B are each an application (its newest run), a merged file or a trace file, or a
directory of trace files. Threads whose names are equal except for numbers are compared:
in order if each trace has one of them, otherwise as one set. Messages are the same if
the same call of trace! made them (raw traces record the call); without calls, if their
texts without numbers are equal.

Shows for each thread that differs the first difference, with the messages there, and
the number of messages without a counterpart. Then a table of all sorts of messages: their
number, and the time since the message before of the same thread, as the median and the
99th percentile (to 1 %). The largest differences come first.

If both traces have calls of functions, another table compares the functions of one name:
their calls, the time of all calls without the calls inside, and the median time of one
call, with its noise: the 95 % confidence interval of the median, from the calls of that
trace. A change is beyond the noise if the intervals of A and B are apart, which takes six
calls in each. These functions come first, the largest change before the others; then those
that only one trace has. Calls are counted as in tracemerge report. More calls make the noise
smaller; differences from run to run are not in it.

With --fail-over 10% the exit status depends on times instead of messages: it is 1 if the
median of a function, or of the time before a message, grew by more than 10 % and by more
than the noise. A message on standard error names the median that grew most.

--json writes the same for programs: times in nanoseconds, fields described in
docs/diff-json.md. Fields may be added; none is removed while `version` is the same.

{columns}
Exit status:
  0  the same messages, except for numbers, in the same order unless threads share a name;
     with --fail-over: nothing became slower by more than PERCENT
  1  they differ, or with --fail-over something became slower; or a trace is damaged
  2  nothing could be compared";

const TUI_HELP: &str = "\
Shows the merged records as tracemerge show does, at once at any size: only the part of the time
that is on the screen is merged. Above them is a lane for each thread, as in tracemerge summary.
h shows all keys, which are those of less and vim where these agree: j k Space b g G scroll,
/ and ? search, n N search again, t goes to a time, & T L filter by pattern, thread and level, [ ]
by time, F follows, y copies the line, 1 to 8 and Tab open the lines, calls to fold and unfold,
spans, what has not ended, functions, locks, messages and the summary of the selected records, q
ends. The mouse scrolls and selects. The options that select records set the filters at the start.

A filter and a search go through the records in their order: those of a large trace take seconds,
and any key ends a search. Calls that began before the loaded records do not indent lines.

Examples:
  tracemerge tui ./app
  tracemerge tui --since -2s --thread 'worker*' --time wall ./app
  tracemerge tui -f ./app

Exit status: that of a merge; 2 if standard input or output is no terminal";

const SNAPSHOT_HELP: &str = "\
Merges all records of the process PID up to now, from its files and from its memory,
into APP.trace.merge beside its executable. It does not stop the process, wait for it,
or write to it. With this a flight recorder (TRACER_FULL=overwrite) can be read while
it runs. Processes that the process has forked are not part of it.

Exit status:
  0  all is merged
  1  merged, but records are lost or damaged; see stderr
  2  nothing was done: there is no such process, it does not trace, or it belongs
     to another user";

const SWITCH_HELP: &str = "\
Switches the tracing of a process that traces, or that was started with TRACER_ENABLE=paused
and has called the tracer once. The command returns when the process has answered, mostly
within a tenth of a second. In views, calls that have not returned when tracing is switched
off end at that time. Processes that the process has forked before are not switched.

Exit status:
  0  tracing is switched
  2  nothing was done: there is no such process, it does not trace, belongs to another
     user, or does not answer";

const DATASET_HELP: &str = "\
Examples:
  tracemerge dataset add traces.set ./app        all runs of ./app
  tracemerge dataset add traces.set /var/traces  all traces in a directory
  tracemerge dataset add --machine web-01 traces.set copied/web-01
  tracemerge dataset compact traces.set          few large files from many small ones

A data set is a directory of tables in Apache Parquet, in folders by day and machine:
  traces.set/records/day=2026-11-18/machine=web-01/0000002a-812-0.parquet
  traces.set/runs/day=2026-11-18/machine=web-01/0000002a-812-0.parquet
DuckDB: select count(*) from 'traces.set/records/**/*.parquet';

A run that is in the set already is not added again; if it has grown since, its rows are replaced.
Several commands may add at the same time, and each may be killed: what it has not
finished lies beside the set, never in it, and the next command completes or deletes it.
The sets of many machines are put together by copying their files into one directory.

Exit status:
  0  all runs are in the set; or the small files are put together
  1  all that could be read is in the set; some traces are damaged or incomplete
  2  nothing was added; or a file of the set cannot be read or written";

const SQL_HELP: &str = "\
Examples:
  tracemerge sql ./app \"from slowest_calls(5)\"
  tracemerge sql --csv traces.set \"select host, count(*) from records group by all\"
  tracemerge sql ./app                           a prompt, which Ctrl-D ends
  tracemerge sql traces.set < queries.sql

DuckDB has to be installed: its command (https://duckdb.org/install), or its module for Python
(python3 -m pip install duckdb). The tables are those of data sets (docs/formats.md): records,
calls, spans and others; the query 'show tables;' lists them. Of an APP, the newest run is written into a
data set among the temporary files, with the records that --since, --thread and the like
select. DuckDB reads no other files, and loads no extensions.

Questions that have a name, as tables with arguments:
  functions()                     the calls of each function, as tracemerge report
  slowest_calls(n)                the slowest calls, with the functions around them
  gaps(threads, n)                the longest times without a record in threads like 'worker%'
  silences()                      the time since the last record of each thread
  lock_waits()                    which threads waited for which, as tracemerge locks
  span_names(), slowest_spans(n)  the rows of tracemerge spans, without and with --slow
  critical_path(span, run)        the spans below a span for which it waited
  templates()                     the messages of each template, and how many in a second
  before_and_after(run, run)      the functions of two runs, or of runs like '%-812'

--json and --csv write all rows; a table has 10,000 at most. Times are in UTC.

Exit status:
  0  all queries are answered
  1  a query has an error; or traces are damaged
  2  nothing was done: there is no DuckDB, or there are no traces";

const COMPLETIONS_HELP: &str = "\
Examples:
  tracemerge completions bash > ~/.local/share/bash-completion/completions/tracemerge
  tracemerge completions zsh > ~/.zfunc/_tracemerge
  tracemerge completions fish > ~/.config/fish/completions/tracemerge.fish";

const MAN_HELP: &str = "\
Examples:
  tracemerge man > ~/.local/share/man/man1/tracemerge.1
  tracemerge man run > ~/.local/share/man/man1/tracemerge-run.1";

/// The whole command line.
#[derive(Debug, Parser)]
#[command(
    name = NAME,
    version,
    about = "Merges the trace files of an application's threads by time",
    after_help = BRIEF,
    after_long_help = examples(),
    override_usage = "tracemerge [OPTIONS] <APP>...\n       tracemerge <COMMAND> [OPTIONS] ...",
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    disable_help_subcommand = true
)]
pub(crate) struct Cli {
    /// The subcommand; without one, the command merges
    #[command(subcommand)]
    pub command: Option<Subcommand>,
    /// The merge that is done without a subcommand
    #[command(flatten)]
    pub merge: Merge,
}

/// A merge: its options and its applications.
#[derive(clap::Args, Debug)]
pub(crate) struct Merge {
    /// The options of the merge
    #[command(flatten)]
    pub options: MergeOptions,
    /// Write for other programs, into APP.EXTENSION unless -o names a file
    #[arg(long, value_name = "FORMAT", value_parser = format_parser(), hide_short_help = true, conflicts_with = "time")]
    pub format: Option<&'static OutputFormat>,
    /// Show records of running applications as they arrive
    #[arg(short, long, conflicts_with_all = ["all_runs", "with", "sync", "module", "target", "level", "site", "format"])]
    pub follow: bool,
    /// The applications: executables, or directories with traces
    #[arg(value_name = "APP", required = true)]
    pub apps: Vec<PathBuf>,
}

/// The subcommands.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Subcommand {
    /// Merge the traces, as without a command
    #[command(hide = true, override_usage = "tracemerge merge [OPTIONS] <APP>...")]
    Merge(Merge),
    /// Show a view
    #[command(flatten)]
    View(ViewCommand),
    /// Write the traces for a viewer that is installed, and start it
    #[command(override_usage = "tracemerge open [OPTIONS] <APP>...", after_long_help = OPEN_HELP)]
    Open {
        /// The options of the merge
        #[command(flatten)]
        options: MergeOptions,
        /// The applications whose traces are shown: paths of executables, or directories with traces
        #[arg(value_name = "APP", required = true)]
        apps: Vec<PathBuf>,
    },
    /// Look at the traces in the terminal: scroll, search, filter
    #[command(override_usage = "tracemerge tui [OPTIONS] [APP]...", after_long_help = TUI_HELP)]
    Tui {
        /// The options of the merge
        #[command(flatten)]
        options: MergeOptions,
        /// Begin with the last records, and show new ones as they arrive
        #[arg(short, long)]
        follow: bool,
        /// The applications: paths of executables, or directories with traces [default: the newest traces below the
        /// current directory]
        #[arg(value_name = "APP")]
        apps: Vec<PathBuf>,
    },
    /// Run the application with tracing on, then merge
    #[command(
        override_usage = "tracemerge run [OPTIONS] [--] <APP> [ARGS]...",
        after_long_help = RUN_HELP
    )]
    Run {
        /// The options of the merge
        #[command(flatten)]
        options: MergeOptions,
        /// Show this view at the end, instead of writing a merged file
        #[arg(long, value_name = "VIEW", value_parser = view_parser(), conflicts_with = "format")]
        show: Option<&'static NamedView>,
        /// Write for other programs at the end, into APP.EXTENSION unless -o names a file
        #[arg(long, value_name = "FORMAT", value_parser = format_parser(), conflicts_with = "time")]
        format: Option<&'static OutputFormat>,
        /// Open the traces in an installed viewer at the end, as tracemerge open does
        #[arg(long, conflicts_with_all = ["show", "format", "time"])]
        open: bool,
        /// The application and its arguments
        #[arg(value_name = "APP", required = true, num_args = 1.., trailing_var_arg = true)]
        command: Vec<OsString>,
    },
    /// Prove that the traces are complete, or list the gaps
    #[command(after_long_help = CHECK_HELP)]
    Check {
        /// Check all runs, not only the newest
        #[arg(long)]
        all_runs: bool,
        /// Print nothing on standard output
        #[arg(short, long, conflicts_with = "verbose")]
        quiet: bool,
        /// List every thread
        #[arg(short, long)]
        verbose: bool,
        /// The application: the path of its executable, or a directory with traces [default: the newest traces below
        /// the current directory]
        #[arg(value_name = "APP")]
        app: Option<PathBuf>,
    },
    /// List the runs and threads, with the number of their records
    #[command(after_long_help = INFO_HELP)]
    Info {
        /// List all runs, not only the newest
        #[arg(long)]
        all_runs: bool,
        #[command(flatten)]
        form: RowForm,
        #[command(flatten)]
        sync: SyncOptions,
        /// Write a row of --csv for each machine instead of each thread
        #[arg(long, requires = "csv")]
        machines: bool,
        /// The application: the path of its executable, or a directory with traces [default: the newest traces below
        /// the current directory]
        #[arg(value_name = "APP")]
        app: Option<PathBuf>,
    },
    /// Show where two traces differ
    #[command(after_long_help = DIFF_HELP.replace("{columns}", &diff_columns()))]
    Diff {
        /// Print nothing on standard output; only the exit status shows the result
        #[arg(short, long, conflicts_with_all = ["json", "csv"])]
        quiet: bool,
        #[command(flatten)]
        form: RowForm,
        /// The number of sorts of messages, and of functions, in the tables
        #[arg(long, value_name = "N|all", value_parser = row_limit, default_value_t = 20)]
        rows: usize,
        /// Exit with 1 only if a function or a message became slower by more than this, and by more than the noise
        #[arg(long, value_name = "PERCENT", value_parser = Percent::parse)]
        fail_over: Option<Percent>,
        /// A directory with binaries or their debug files, for names of functions; may be repeated
        #[arg(long = "debug-dir", value_name = "DIR")]
        debug_dirs: Vec<PathBuf>,
        /// An application, a trace, a merged file, or a directory of traces
        #[arg(value_name = "A")]
        a: PathBuf,
        /// What A is compared with: an application, a trace, a merged file, or a directory of traces
        #[arg(value_name = "B")]
        b: PathBuf,
    },
    /// Put the traces of many runs into tables, for DuckDB and Spark
    #[command(subcommand_required = true, disable_help_subcommand = true, after_long_help = DATASET_HELP)]
    Dataset {
        /// The change of the set
        #[command(subcommand)]
        command: DatasetCommand,
    },
    /// Answer queries in SQL about traces or a data set, by DuckDB
    #[command(override_usage = "tracemerge sql [OPTIONS] <APP|DIR> [QUERY]", after_long_help = SQL_HELP)]
    Sql {
        /// The options of the query
        #[command(flatten)]
        options: QueryOptions,
        /// A data set; or the application: the path of its executable, or a directory with traces
        #[arg(value_name = "APP|DIR")]
        source: PathBuf,
        /// The query [default: queries are read from the terminal, or from standard input]
        #[arg(value_name = "QUERY", allow_hyphen_values = true)]
        query: Option<String>,
    },
    /// Merge the records of a running process up to now
    #[command(after_long_help = SNAPSHOT_HELP)]
    Snapshot {
        /// The options of the snapshot
        #[command(flatten)]
        options: SnapshotOptions,
        /// The process
        #[arg(value_name = "PID")]
        pid: u32,
    },
    /// Switch tracing on in a process (started paused, or switched off)
    #[command(after_long_help = SWITCH_HELP)]
    On {
        /// Print nothing if all is well
        #[arg(short, long)]
        quiet: bool,
        /// The process
        #[arg(value_name = "PID")]
        pid: u32,
    },
    /// Switch tracing off in a running process
    #[command(after_long_help = SWITCH_HELP)]
    Off {
        /// Print nothing if all is well
        #[arg(short, long)]
        quiet: bool,
        /// The process
        #[arg(value_name = "PID")]
        pid: u32,
    },
    /// Delete the application's traces and the files written from them
    #[command(after_long_help = CLEAN_HELP)]
    Clean {
        /// Print nothing if all is well
        #[arg(short, long)]
        quiet: bool,
        /// Delete trace files in other directories, too, without asking
        #[arg(short, long)]
        yes: bool,
        /// The application: the path of its executable, or a directory with traces
        #[arg(value_name = "APP")]
        app: PathBuf,
    },
    /// Write completions for a shell to standard output
    #[command(after_help = COMPLETIONS_HELP)]
    Completions {
        /// The shell
        #[arg(value_name = "SHELL", value_enum)]
        shell: clap_complete::Shell,
    },
    /// Show the help of a command, as its option --help does
    #[command(name = HELP, hide = true)]
    Help {
        /// The command [default: all commands, and the options of a merge]
        #[arg(value_name = "COMMAND")]
        command: Option<OsString>,
    },
    /// Write the manual page to standard output
    #[command(after_help = MAN_HELP)]
    Man {
        /// The subcommand whose page to write, as 'dataset add' [default: the page of the whole command]
        #[arg(value_name = "COMMAND")]
        command: Vec<String>,
    },
}

/// The changes of a data set.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum DatasetCommand {
    /// Add all runs of applications; replace the rows of a run that has grown
    #[command(after_long_help = DATASET_HELP)]
    Add {
        /// The name of the machine on which the applications ran [default: the name of this machine]
        #[arg(long, value_name = "NAME")]
        machine: Option<String>,
        /// Print nothing if all is well
        #[arg(short, long)]
        quiet: bool,
        /// The directory of the set, which is made if it does not exist
        #[arg(value_name = "DIR")]
        directory: PathBuf,
        /// The applications: paths of executables, or directories with traces
        #[arg(value_name = "APP", required = true)]
        apps: Vec<PathBuf>,
    },
    /// Put small files together: those of days that are over, and of days with more than 100 files
    #[command(after_long_help = DATASET_HELP)]
    Compact {
        /// Print nothing if all is well
        #[arg(short, long)]
        quiet: bool,
        /// The directory of the set
        #[arg(value_name = "DIR")]
        directory: PathBuf,
    },
    /// Read runs of a set on standard input, and write their clocks
    #[command(hide = true)]
    Clocks,
}

/// Parses the command line, whose first word is the command's own name.
///
/// # Errors
/// If the command line is wrong, or if it asks for help.
pub(crate) fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Cli, clap::Error> {
    let command = Cli::command();
    subcommands::learn(command.get_subcommands().map(clap::Command::get_name));
    let args: Vec<OsString> = args.into_iter().collect();
    let matches = command.try_get_matches_from(&args);
    let mut matches = matches.map_err(|error| {
        let better = command_behind_options(&args, &error).or_else(|| misspelt_command(&args, &error));
        better.unwrap_or(error)
    })?;
    let cli = Cli::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut Cli::command()))?;
    if let Some(Subcommand::Help { command }) = cli.command {
        return Err(help_of(command));
    }
    let refused = |text| Err(Cli::command().error(ErrorKind::ArgumentConflict, text));
    let sync = match &cli.command {
        Some(Subcommand::Info { sync, .. }) => Some(sync),
        _ => merge_options(&cli).map(|options| &options.sync),
    };
    if let Some(Err(text)) = sync.map(SyncOptions::patterns) {
        return Err(Cli::command().error(ErrorKind::ValueValidation, format!("--sync: {text}")));
    }
    if let Some(what) = without_depth(&cli) {
        let nest = FORMATS.iter().filter(|format| format.nests_calls).map(|format| format.name);
        let nest = nest.collect::<Vec<_>>().join(", ");
        return refused(format!(
            "--depth has no effect on {what}: only the formats {nest} and the view tree show nested calls"
        ));
    }
    if let Some(what) = without_split(&cli) {
        return refused(format!("--split has no effect on {what}: it divides the pages of --format html"));
    }
    let first = cli.merge.apps.first().filter(|_| cli.command.is_none()).and_then(|first| first.to_str());
    match first {
        // After an option, the name of a subcommand is taken for an application.
        Some(name) if is_subcommand(name) && cli.merge.apps.len() > 1 => {
            refused(format!("options go after the command '{name}'; for an application write ./{name}"))
        }
        _ => Ok(cli),
    }
}

/// Returns the help of `command`, or of the whole command line if it is `None`; an error if there is no such command.
fn help_of(command: Option<OsString>) -> clap::Error {
    let unknown = |word: &OsString| !word.to_str().is_some_and(is_subcommand);
    if let Some(word) = command.as_ref().filter(|word| unknown(word)) {
        let meant = subcommand_like(Path::new(word));
        let meant = meant.map_or_else(String::new, |name| format!("; did you mean '{name}'?"));
        let text = format!("there is no command '{}'{meant}", word.to_string_lossy());
        return Cli::command().error(ErrorKind::InvalidSubcommand, text);
    }
    let words = [Some(NAME.into()), command, Some("--help".into())];
    let help = Cli::command().try_get_matches_from(words.into_iter().flatten());
    help.err().unwrap_or_else(|| Cli::command().error(ErrorKind::MissingSubcommand, "there is no help"))
}

/// Returns a better error than `error`, which reports an unknown option, if the only mistake in the command line is
/// that options are before the name of the command.
fn command_behind_options(args: &[OsString], error: &clap::Error) -> Option<clap::Error> {
    let is_unknown = error.kind() == ErrorKind::UnknownArgument;
    let is_option = |word: &OsString| word.as_encoded_bytes().starts_with(b"-");
    args.get(1).filter(|word| is_unknown && is_option(word))?;
    let (at, name) = args.iter().enumerate().skip(2).find_map(|(at, word)| {
        let name = word.to_str().filter(|word| is_subcommand(word))?;
        Some((at, name))
    })?;
    let mut ordered = args.to_vec();
    ordered[1..=at].rotate_right(1);
    Cli::command().try_get_matches_from(&ordered).ok()?;
    let words: Vec<_> = ordered[1..].iter().map(|word| word.to_string_lossy()).collect();
    let text = format!("options go after the command '{name}': {NAME} {}", words.join(" "));
    Some(Cli::command().error(ErrorKind::UnknownArgument, text))
}

/// Returns a better error than `error`, which reports an unknown option, if the first word of the command line is no
/// command but resembles the name of one.
fn misspelt_command(args: &[OsString], error: &clap::Error) -> Option<clap::Error> {
    let word = args.get(1).filter(|_| error.kind() == ErrorKind::UnknownArgument)?;
    let meant = subcommand_like(Path::new(word)).filter(|meant| *meant != word.as_os_str())?;
    let word = word.to_string_lossy();
    let text =
        format!("'{word}' is neither a command nor an application with traces; did you mean '{meant}'?");
    Some(Cli::command().error(ErrorKind::InvalidSubcommand, text))
}

/// Returns a name for the requested output if the command line sets `--depth` although this output shows no nested
/// calls; otherwise `None`.
fn without_depth(cli: &Cli) -> Option<&'static str> {
    let of_format = |depth: Option<Depth>, format: Option<&'static OutputFormat>| {
        depth?;
        format.map_or(Some("lines of traces"), |format| (!format.nests_calls).then_some(format.name))
    };
    let of_layout = |depth: Option<Depth>, layout: &dyn Layout| {
        depth?;
        let what = if layout.has_lines_of_traces() { "lines of traces" } else { "a table" };
        (!layout.nests_calls()).then_some(what)
    };
    match &cli.command {
        None => of_format(cli.merge.options.depth, cli.merge.format),
        Some(Subcommand::Merge(merge)) => of_format(merge.options.depth, merge.format),
        Some(Subcommand::View(of)) => of_layout(of.options.depth, &*of.layout),
        Some(Subcommand::Run { options, show: Some(view), .. }) => {
            view.by_default().map_or(None, |layout| of_layout(options.depth, &*layout))
        }
        Some(Subcommand::Run { options, format, .. }) => of_format(options.depth, *format),
        _ => None,
    }
}

/// Returns a name for the requested output if the command line sets `--split` although this output is no HTML page;
/// otherwise `None`.
fn without_split(cli: &Cli) -> Option<&'static str> {
    merge_options(cli)?.split?;
    let of_format = |format: Option<&'static OutputFormat>| match format {
        Some(format) => (*format != html::FORMAT).then_some(format.name),
        None => Some("lines of traces"),
    };
    match &cli.command {
        None => of_format(cli.merge.format),
        Some(Subcommand::Merge(merge)) => of_format(merge.format),
        Some(Subcommand::Run { show: None, open: false, format, .. }) => of_format(*format),
        Some(_) => Some("this view"),
    }
}

/// Returns the options of the merge that `cli` requests, if it requests one.
fn merge_options(cli: &Cli) -> Option<&MergeOptions> {
    match &cli.command {
        None => Some(&cli.merge.options),
        Some(Subcommand::Merge(merge)) => Some(&merge.options),
        Some(Subcommand::View(of)) => Some(&of.options),
        Some(
            Subcommand::Open { options, .. }
            | Subcommand::Tui { options, .. }
            | Subcommand::Run { options, .. },
        ) => Some(options),
        Some(_) => None,
    }
}

/// Shows `said`, the error or the help that is the result of parsing the command line `args`.
///
/// # Errors
/// Returns an error if standard output does not accept the help.
pub(crate) fn show(said: clap::Error, args: &[OsString]) -> Result<(), Error> {
    let stream = if said.use_stderr() { Stream::Error } else { Stream::Output };
    // The parser repeats unknown words. These are escaped before, so that all colours are the parser's own.
    let harmless: Vec<OsString> =
        args.iter().map(|word| escaped_line(&word.to_string_lossy()).into()).collect();
    let again = if harmless == args { Some(said) } else { parse(harmless).err() };
    let Some(said) = again else {
        stream.write_message("error: an argument is invalid; see tracemerge --help");
        return Ok(());
    };
    let text = said.render();
    let in_colours = ColourMode::Auto.is_now(stream.is_terminal());
    show_usage(stream, &if in_colours { text.ansi().to_string() } else { text.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> Result<Cli, clap::Error> {
        super::parse([&["tracemerge"], args].concat().into_iter().map(OsString::from))
    }

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    /// The number of lines that a screen of 80 columns has on any but the smallest terminal.
    const SCREEN: usize = 45;

    #[test]
    fn short_help_fits_on_a_screen_and_long_help_lists_all_options() {
        let mut command = Cli::command().term_width(80);
        let short = command.render_help().to_string();
        assert!(short.lines().count() <= SCREEN, "{} lines\n{short}", short.lines().count());
        assert!(short.lines().all(|line| line.chars().count() <= 80), "{short}");
        let long = command.render_long_help().to_string();
        for option in command.get_arguments().filter_map(clap::Arg::get_long) {
            assert!(long.contains(&format!("--{option}")), "{option}");
        }
    }

    #[test]
    fn run_accepts_a_call_view_to_show() {
        let Some(Subcommand::Run { show, command, .. }) =
            parse(&["run", "--show", "tree", "./app", "--show", "x"]).unwrap().command
        else {
            panic!()
        };
        assert_eq!(
            (show.map(|view| view.name), command),
            (Some("tree"), ["./app", "--show", "x"].map(OsString::from).to_vec())
        );
        assert!(parse(&["run", "--show", "nothing", "./app"]).is_err());
    }

    #[test]
    fn threads_one_after_the_other_cannot_be_followed() {
        assert!(parse(&["tree", "--by-thread", "./app"]).is_ok() && parse(&["tree", "-f", "./app"]).is_ok());
        assert!(parse(&["tree", "--by-thread", "-f", "./app"]).is_err());
    }

    #[test]
    fn options_after_the_application_belong_to_it() {
        for args in [
            &["run", "-o", "x", "./app", "-o", "y", "--", "-q"][..],
            &["run", "-o", "x", "--", "./app", "-o", "y", "--", "-q"],
        ] {
            let Some(Subcommand::Run { options, command, .. }) = parse(args).unwrap().command else {
                panic!()
            };
            assert_eq!(command, ["./app", "-o", "y", "--", "-q"]);
            assert_eq!(options.output, Some("x".into()));
            assert!(!options.quiet);
        }
    }

    #[test]
    fn an_application_named_like_a_subcommand_is_given_as_a_path() {
        assert!(parse(&["./run"]).unwrap().command.is_none());
        assert_eq!(parse(&["./help"]).unwrap().merge.apps, [PathBuf::from("./help")]);
        assert_eq!(parse(&["a", "b"]).unwrap().merge.apps.len(), 2);
    }

    #[test]
    fn commands_that_read_need_no_application_and_others_do() {
        for command in
            ["summary", "show", "stats", "rates", "tree", "report", "spans", "locks", "check", "info"]
        {
            parse(&[command]).unwrap();
        }
        for command in ["merge", "open", "run", "clean", "diff"] {
            parse(&[command]).unwrap_err();
        }
    }

    #[test]
    fn help_of_a_command_is_that_of_its_option() {
        let said = |args: &[&str]| {
            let said = parse(args).unwrap_err();
            (said.kind(), said.render().to_string())
        };
        assert_eq!(said(&["help"]), said(&["--help"]));
        for command in Cli::command().get_subcommands().map(clap::Command::get_name) {
            assert_eq!(said(&["help", command]), said(&[command, "--help"]), "{command}");
        }
        let (kind, text) = said(&["help", "lokcs"]);
        assert_eq!(kind, ErrorKind::InvalidSubcommand);
        assert!(text.contains("there is no command 'lokcs'; did you mean 'locks'?"), "{text}");
    }

    #[test]
    fn each_option_and_argument_of_each_command_has_a_help_text() {
        let mut command = Cli::command();
        command.build();
        for command in std::iter::once(&command).chain(command.get_subcommands()) {
            for argument in command.get_arguments() {
                let help = argument.get_help().or(argument.get_long_help()).map(ToString::to_string);
                assert!(help.is_some_and(|help| help.len() > 3), "{} {argument:?}", command.get_name());
            }
        }
    }

    #[test]
    fn merging_has_its_own_subcommand() {
        let parsed = parse(&["merge", "-q", "app", "--last", "3"]).unwrap();
        let Some(Subcommand::Merge(merge)) = parsed.command else { panic!() };
        assert_eq!(merge.apps, [PathBuf::from("app")]);
        assert!(merge.options.quiet);
    }

    #[test]
    fn invalid_arguments_are_rejected() {
        for args in [
            &[][..],
            &["run"],
            &["clean"],
            &["--wrong", "a"],
            &["run", "--wrong", "a"],
            &["-o"],
            &["clean", "a", "b"],
            &["--head", "1", "--last", "1", "a"],
            &["--invert", "a"],
            &["--grep", "(", "a"],
            &["--since", "yesterday", "a"],
            &["--time", "sundial", "a"],
            &["-q", "-v", "a"],
            &["completions"],
            &["diff", "a"],
            &["diff", "--fail-over", "slow", "a", "b"],
            &["--follow", "--all-runs", "a"],
            &["--follow", "--with", "x", "a"],
            &["check", "-q", "-v", "a"],
            &["snapshot"],
            &["snapshot", "app"],
            &["snapshot", "-1"],
            &["-q", "run", "a", "b"],
            &["merge"],
            &["open"],
            &["tree", "--depth", "deep", "a"],
            &["--depth", "9", "a"],
            &["--depth", "9", "--format", "csv", "a"],
            &["report", "--depth", "all", "a"],
            &["run", "--show", "report", "--depth", "9", "a"],
            &["show", "--depth", "9", "a"],
            &["tree", "--min-duration", "10", "a"],
            &["tree", "--function", "(", "a"],
            &["report", "--sort", "name", "a"],
            &["stats", "--rows", "x", "a"],
            &["show", "--columns", "colour", "a"],
            &["-f", "--site", "a.rs", "b"],
            &["--format", "xml", "a"],
            &["--format", "csv", "-f", "a"],
            &["--format", "csv", "--time", "wall", "a"],
            &["--symbols", "--no-symbols", "a"],
            &["run", "--show", "tree", "--format", "csv", "a"],
            &["stats", "-f", "--module", "a", "b"],
        ] {
            assert_eq!(parse(args).unwrap_err().exit_code(), 2, "{args:?}");
        }
    }
}
