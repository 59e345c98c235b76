//! The view `report`: how often each function was called, and how long its calls took; or the same by call path, for
//! flame graphs. The calls are counted in [`call_counts`](crate::view::call_counts).

use std::fmt::Write as _;

use clap::{Args, ValueEnum};

use crate::file::record_text::RecordText;
use crate::input::inputs::Origin;
use crate::ui::console::Content;
use crate::ui::messages::{Grouped, count};
use crate::ui::table::Alignment::Left;
use crate::ui::units::duration;
use crate::view::call_counts::{CallCounts, Counted, Counting, CutCalls, Recursion};
use crate::view::calls::{Depth, NO_CALLS};
use crate::view::export::Export;
use crate::view::export::folded::write_folded;
use crate::view::export::spans::rows::SpanRow;
use crate::view::export::time_column::TimeMode;
use crate::view::function_names::{Function, FunctionId, lock};
use crate::view::layout::{Context, Layout, Needs, Subcommand};
use crate::view::rows::{self, ALL_ROWS, Column, Row, RowForm, Value, row_limit, table_with_sums};
use crate::view::thread_states::{OffSum, table_of_totals};
use crate::view::threads::Threads;

/// The sort order of the functions of a report; the greatest value comes first. The comments of the variants are
/// the help.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReportOrder {
    /// The time of all calls, with the calls inside
    #[default]
    Total,
    /// The time of all calls, without the calls inside
    #[value(name = "self")]
    Own,
    /// The number of calls
    Calls,
    /// The average time of a call
    #[value(name = "avg")]
    Average,
    /// The time of the longest call
    Max,
}

/// The form of a report: the earlier meaning of `report --format`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReportForm {
    /// A table
    #[default]
    Table,
    /// Call paths, one in each line with its time in nanoseconds without the calls inside: the format `folded`
    Folded,
}

/// The default number of functions in a table.
const ROWS: usize = 20;

/// The layout of `report`: counts of calls.
#[derive(Args, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReportLayout {
    /// The order of the functions
    #[arg(long, value_name = "WHAT", value_enum, default_value_t)]
    pub sort: ReportOrder,
    /// A report for each thread
    #[arg(long)]
    pub by_thread: bool,
    /// The number of functions in the table (with --by-thread: in each table); all: also those whose calls took no time
    #[arg(long, value_name = "N|all", value_parser = row_limit, default_value_t = ROWS)]
    pub rows: usize,
    /// The form: a table, or folded call paths for flame graphs
    #[arg(long, value_name = "FORM", value_enum, default_value_t, hide = true, conflicts_with_all = ["json", "csv"])]
    pub format: ReportForm,
    /// The form in which the rows are printed: a table, JSON or CSV.
    #[command(flatten)]
    pub form: RowForm,
}

impl Default for ReportLayout {
    fn default() -> ReportLayout {
        let (sort, format, form) = Default::default();
        ReportLayout { sort, by_thread: false, rows: ROWS, format, form }
    }
}

impl Subcommand for ReportLayout {
    const NAME: &'static str = "report";
    const ABOUT: &'static str = "Count the calls of each function, and how long they took";
    const FOLLOW: Option<&'static str> = Some("Count the calls in running applications until these end");
    const HELP: &'static str = "\
Shows for each function: the number of calls; the time of all calls (a recursive call counts
with the outermost one), the same without the calls inside, and for one call the minimum,
average, maximum and 99th percentile (to 1 %). Calls that were still running count up to
the last sign of life of their process. For the source of names see tracemerge tree --help.
The last row has the sums of all functions, also of those that are not shown: those beyond
--rows, and those whose calls took no time at all, which --rows all shows, too.
If there are spans, a second table has their wall and busy times by name: tracemerge spans
shows more of them.
If tracemerge run has recorded the states of threads (TRACER_SCHED=1), self is divided into
the time on a processor (cpu), waiting for something, and preempted by other threads.

tracemerge --format folded writes a line for each call path with its time in nanoseconds,
without the calls inside, for programs that draw flame graphs. tracemerge draws one itself:
  tracemerge --format flamegraph -o flames.svg ./app

--json and --csv write the same for programs, with all functions.";

    fn rows_help() -> String {
        format!("{}\nFields of spans:\n{}", rows::help::<FunctionRow>(), rows::list_of_columns::<SpanRow>())
    }
}

impl Layout for ReportLayout {
    fn reports_waits(&self) -> bool {
        true
    }

    fn needs(&self) -> Needs {
        Needs { times: true, calls: true, labels: true, states: true, ..Needs::default() }
    }

    fn format(&self, context: &Context) -> Box<dyn Export> {
        Box::new(ReportFormat::new(*self, context.depth, context.threads()))
    }

    fn content(&self, _time: TimeMode, _in_colours: bool) -> Content {
        self.form.content()
    }

    fn is_summary(&self) -> bool {
        true
    }

    fn nests_calls(&self) -> bool {
        self.format == ReportForm::Folded
    }
}

/// A row of a report: a function with its counts. Times are in nanoseconds.
#[derive(Debug)]
struct FunctionRow {
    /// The label of the thread, if the report counts each thread separately.
    thread: Option<String>,
    function: Function,
    calls: u64,
    total: u64,
    own: u64,
    /// The parts of the function's own time: on a processor, and off it (waiting or preempted); `None` if the trace has
    /// no states of threads.
    states: Option<(u64, OffSum)>,
    min: u64,
    average: u64,
    max: u64,
    p99: u64,
}

impl Row for FunctionRow {
    const NAME: &'static str = "functions";
    const FACTS: &'static [(&'static str, &'static str)] = &[
        ("calls", "the number of calls"),
        ("threads", "the number of threads"),
        ("still_running", "the number of calls that were running at the end"),
        ("without_leave", "the number of calls without a leave record"),
        ("without_enter", "the number of leave records without a call"),
        ("waited_ns", "the time for which the tracer made threads wait, which the times of calls leave out"),
        ("spans", "an array of the spans by name: the columns below"),
    ];
    const COLUMNS: &'static [Column<FunctionRow>] = &[
        Column::hidden("thread", "with --by-thread, the thread as the table names it", |row| {
            row.thread.as_deref().into()
        }),
        Column::count("calls", "calls", "the number of calls", |row| row.calls.into()),
        Column::time(
            "total_ns",
            "total",
            "the time of all calls; a recursive call counts with the outermost",
            |row| row.total.into(),
        ),
        Column::time("self_ns", "self", "the time of all calls without the calls inside", |row| {
            row.own.into()
        }),
        Column::known_time("cpu_ns", "cpu", "the part of self in which the thread had a processor", |row| {
            row.states.map(|(cpu, _)| cpu).into()
        }),
        Column::known_time(
            "waiting_ns",
            "waiting",
            "the part of self in which the thread waited for something",
            |row| row.states.map(|(_, off)| off.waiting).into(),
        ),
        Column::known_time(
            "preempted_ns",
            "preempted",
            "the part of self in which another thread had the processor",
            |row| row.states.map(|(_, off)| off.preempted).into(),
        ),
        Column::time("min_ns", "min", "the shortest call", |row| row.min.into()),
        Column::time("average_ns", "avg", "the average call", |row| row.average.into()),
        Column::time("max_ns", "max", "the longest call", |row| row.max.into()),
        Column::time("p99_ns", "p99", "the 99th percentile, with an error of at most 1 %", |row| {
            row.p99.into()
        }),
        Column::text(
            "function",
            ("function", Left),
            "the name; an address if there is none",
            |row| row.function.name.as_str().into(),
            |row| match &row.function.at[..] {
                "" => row.function.name.clone(),
                at => format!("{}  ({at})", row.function.name),
            },
        ),
        Column::hidden("place", "the source file and the line, such as src/parse.rs:88", |row| {
            Some(row.function.place()).filter(|place| !place.is_empty()).into()
        }),
    ];
}

/// The writer of the view `report`.
#[derive(Debug)]
pub(crate) struct ReportFormat {
    layout: ReportLayout,
    counts: CallCounts,
}

impl ReportFormat {
    /// Creates the writer of a report about the calls of `threads`.
    #[must_use]
    pub(crate) fn new(layout: ReportLayout, depth: Depth, threads: Threads) -> ReportFormat {
        let paths = layout.nests_calls();
        let counting = Counting { by_thread: layout.by_thread, paths, depth, spans: !paths };
        ReportFormat { layout, counts: CallCounts::new(counting, threads) }
    }

    /// Returns the rows of the report: a list for each thread, or one list for all threads together, in the chosen
    /// order.
    fn rows(&self) -> Vec<Vec<FunctionRow>> {
        let names = lock(self.counts.names());
        let labels: Vec<&str> =
            if self.layout.by_thread { self.counts.labels().collect() } else { Vec::new() };
        let has_states = !self.counts.threads().states().is_empty();
        let row = |thread: usize, function: FunctionId, counted: &Counted| FunctionRow {
            thread: labels.get(thread).map(|label| (*label).to_owned()),
            function: names.get(function).clone(),
            calls: counted.calls,
            total: counted.total,
            own: counted.own,
            states: has_states.then(|| (counted.own.saturating_sub(counted.off.all()), counted.off)),
            min: counted.min,
            average: counted.average(),
            max: counted.max,
            p99: counted.times.percentile(99).unwrap_or(0),
        };
        let mut tables: Vec<Vec<FunctionRow>> = Vec::new();
        tables.resize_with(labels.len().max(1), Vec::new);
        for (thread, function, counted) in self.counts.each_function() {
            tables[thread].push(row(thread, function, counted));
        }
        let key = |row: &FunctionRow| match self.layout.sort {
            ReportOrder::Calls => row.calls,
            ReportOrder::Total => row.total,
            ReportOrder::Own => row.own,
            ReportOrder::Max => row.max,
            ReportOrder::Average => row.average,
        };
        for rows in &mut tables {
            rows.sort_by(|a, b| {
                let by_name = || a.function.name.cmp(&b.function.name);
                let by_place = || a.function.place().cmp(b.function.place());
                key(b).cmp(&key(a)).then_with(by_name).then_with(by_place)
            });
        }
        tables
    }
}

impl Export for ReportFormat {
    fn begin(&mut self, _origins: &[Origin], _out: &mut Vec<u8>) {}

    fn begin_at(&mut self, first: u64) {
        self.counts.begin_at(first);
    }

    fn record(&mut self, origin: &Origin, record: &RecordText<'_>, _out: &mut Vec<u8>) {
        self.counts.record(origin, record);
    }

    fn finish(&mut self, out: &mut Vec<u8>) {
        self.counts.finish();
        if self.layout.nests_calls() { write_folded(&self.counts, out) } else { self.write(out) }
    }

    fn takes_calls(&self) -> bool {
        true
    }

    fn omissions(&self) -> Vec<String> {
        let no_calls = self.counts.has_no_calls().then(|| NO_CALLS.to_owned());
        self.counts.other_kinds().omissions().chain(no_calls).collect()
    }

    fn call_counts(&mut self) -> Option<&mut CallCounts> {
        Some(&mut self.counts)
    }

    fn learn_thread(&mut self, number: usize, origin: &Origin, label: String) {
        self.counts.label_thread(number, origin, label);
    }

    /// Returns the report about the records so far, without the open calls. Returns `None` if the report has call
    /// paths, or if it is in a form for programs.
    fn current_output(&self) -> Option<String> {
        let mut out = Vec::new();
        self.write(&mut out);
        let changes = !self.layout.nests_calls() && self.layout.form.is_table();
        changes.then(|| String::from_utf8_lossy(&out).into_owned())
    }
}

impl ReportFormat {
    /// Returns the first of `rows` as a table, with the sums of all rows.
    fn table(&self, rows: &[FunctionRow]) -> String {
        let sum =
            |of: fn(&FunctionRow) -> u64| Value::Count(rows.iter().map(of).fold(0, u64::saturating_add));
        // The other times would count a call again in the calls around it.
        let sums = [
            ("calls", sum(|row| row.calls)),
            ("self_ns", sum(|row| row.own)),
            ("cpu_ns", sum(|row| row.states.map_or(0, |(cpu, _)| cpu))),
            ("waiting_ns", sum(|row| row.states.map_or(0, |(_, off)| off.waiting))),
            ("preempted_ns", sum(|row| row.states.map_or(0, |(_, off)| off.preempted))),
            ("function", Value::from("all functions")),
        ];
        let sums = if rows.is_empty() { &[] } else { &sums[..] };
        let took_time = |row: &&FunctionRow| self.layout.rows == ALL_ROWS || row.total > 0 || row.own > 0;
        let without_time = rows.len() - rows.iter().filter(took_time).count();
        let mut text = table_with_sums(rows.iter().filter(took_time).take(self.layout.rows), sums, "");
        let more = (rows.len() - without_time).saturating_sub(self.layout.rows) as u64;
        let hidden =
            [(more, "more function", ""), (without_time as u64, "function", " whose calls took no time")];
        for (number, noun, which) in hidden.into_iter().filter(|(number, ..)| *number > 0) {
            let number = count(number, noun);
            let _ = writeln!(text, "and {number}{which}: tracemerge report --rows all shows them");
        }
        text
    }

    /// Returns a line for people that explains the columns for the states of threads; `None` if the trace has no such
    /// states.
    fn states_in_words(&self, rows: &[Vec<FunctionRow>]) -> Option<String> {
        let mut line = self.counts.threads().states().in_words()?;
        let unknown = rows.iter().flatten().filter_map(|row| row.states).map(|(_, off)| off.unknown);
        let unknown = unknown.fold(0, u64::saturating_add);
        if unknown > 0 {
            let _ = write!(
                line,
                "; {} of self are neither in cpu nor in waiting nor in preempted",
                duration(unknown)
            );
        }
        Some(line)
    }

    /// Writes the whole report.
    fn write(&self, out: &mut Vec<u8>) {
        let CutCalls { unmatched, unseen, still_open } = self.counts.cut_calls();
        let (calls, threads) = (self.counts.calls(), self.counts.labels().len() as u64);
        let rows = self.rows();
        if !self.layout.form.is_table() {
            let facts = [calls, threads, still_open, unseen, unmatched, self.counts.threads().waits().ns];
            let spans = SpanRow::all(self.counts.spans().unwrap_or_default());
            let facts: Vec<Value> =
                facts.map(Value::Count).into_iter().chain([Value::of_rows(&spans)]).collect();
            return self.layout.form.write(&facts, &rows.into_iter().flatten().collect::<Vec<_>>(), out);
        }
        let mut head = format!("{} of {}", count(calls, "call"), count(threads, "thread"));
        for (number, what) in [
            (still_open, "still running at the end"),
            (unseen, "without a leave record"),
            (unmatched, "without an enter record"),
        ] {
            if number > 0 {
                let _ = write!(head, ", {} {what}", Grouped(number));
            }
        }
        let threads = self.counts.threads();
        for line in [Some(head), threads.waits_in_words(), self.states_in_words(&rows)].into_iter().flatten()
        {
            out.extend_from_slice(line.as_bytes());
            out.push(b'\n');
        }
        if !threads.states().totals().is_empty() {
            out.extend_from_slice(b"it has counted for each thread, in all:\n");
            out.extend_from_slice(table_of_totals(threads.states().totals(), ROWS).as_bytes());
        }
        if let Some(Recursion { thread, function, calls }) = self.counts.endless_recursion() {
            let label = self.counts.labels().nth(thread).unwrap_or_default();
            let function = lock(self.counts.names()).get(function).name.clone();
            let calls = Grouped(calls.into());
            let text = format!(
                "{label} ended inside {calls} calls of {function}. If the program does not end like this without hooks, its compiler turns these calls into jumps, which it cannot do with hooks: docs/functions.md, 'Limits'\n"
            );
            out.extend_from_slice(text.as_bytes());
        }
        for rows in &rows {
            match rows.first().and_then(|row| row.thread.as_ref()) {
                Some(label) => out.extend_from_slice(format!("\n{label}\n").as_bytes()),
                None if self.layout.by_thread => continue,
                None => {}
            }
            out.extend_from_slice(self.table(rows).as_bytes());
        }
        self.write_spans(out);
    }

    /// Writes a table of the spans, if there are any.
    fn write_spans(&self, out: &mut Vec<u8>) {
        let spans = SpanRow::all(self.counts.spans().unwrap_or_default());
        if spans.is_empty() {
            return;
        }
        let mut text = format!("\n{}", rows::table(spans.iter().take(self.layout.rows), ""));
        let more = spans.len().saturating_sub(self.layout.rows) as u64;
        if more > 0 {
            let more = count(more, "more span name");
            let _ = writeln!(text, "and {more}: tracemerge report --rows all shows them");
        }
        out.extend_from_slice(text.as_bytes());
    }
}
