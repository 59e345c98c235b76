//! The report: how often each function was called, and how long its calls took; and the same by call path,
//! for flame graphs.

use std::fmt::Write as _;

use clap::{Args, ValueEnum};

use crate::file::record_text::RecordText;
use crate::input::inputs::Origin;
use crate::ui::messages::{Grouped, count};
use crate::ui::table::Alignment::{Left, Right};
use crate::ui::table::Columns;
use crate::ui::units::duration;
use crate::view::call_counts::{CallCounts, Counted, Counting, CutCalls, Recursion};
use crate::view::calls::Depth;
use crate::view::export::Export;
use crate::view::export::folded::write_folded;
use crate::view::function_names::{FunctionId, SharedNames, lock};
use crate::view::layout::{Context, Layout, Needs, Subcommand};

/// The sort order of the functions of a report; the greatest value comes first. The comments of the variants are
/// the help.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ReportOrder {
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
pub enum ReportForm {
    /// A table
    #[default]
    Table,
    /// Call paths, one in each line with its own time in nanoseconds: the format `folded`
    Folded,
}

/// The layout of `report`: counts of calls.
#[derive(Args, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReportLayout {
    /// The order of the functions
    #[arg(long, value_name = "WHAT", value_enum, default_value_t)]
    pub sort: ReportOrder,
    /// A report for each thread
    #[arg(long)]
    pub by_thread: bool,
    /// The form: a table, or folded call paths for flame graphs
    #[arg(long, value_name = "FORM", value_enum, default_value_t, hide = true)]
    pub format: ReportForm,
}

impl Subcommand for ReportLayout {
    const NAME: &'static str = "report";
    const ABOUT: &'static str = "Count the calls of each function, and how long they took";
    const FOLLOW: Option<&'static str> = Some("Count the calls in running applications until these end");
    const HELP: &'static str = "\
Shows for each function: the number of calls; the time of all calls (a recursive call counts
with the outermost one), the same without the calls inside, and for one call the minimum,
average, maximum and 99th percentile (to 1 %). Calls that were still running count up to
the last record of their process. For the source of names see tracemerge tree --help.

tracemerge --format folded writes a line for each call path with its own time in
nanoseconds, which tools for flame graphs read. tracemerge draws one itself:
  tracemerge --format flamegraph -o flames.svg ./app";
}

impl Layout for ReportLayout {
    fn needs(&self) -> Needs {
        Needs { times: true, calls: true, labels: true, ..Needs::default() }
    }

    fn format(&self, context: &Context) -> Box<dyn Export> {
        let Context { names, labels, depth, .. } = context.clone();
        Box::new(ReportFormat::new(*self, depth, names, labels))
    }

    fn is_summary(&self) -> bool {
        true
    }

    fn nests_calls(&self) -> bool {
        self.format == ReportForm::Folded
    }
}

/// The format that counts calls.
#[derive(Debug)]
pub struct ReportFormat {
    layout: ReportLayout,
    counts: CallCounts,
}

impl ReportFormat {
    /// Makes a report of the functions of `names`, with `labels` for the threads of all origins.
    #[must_use]
    pub fn new(layout: ReportLayout, depth: Depth, names: SharedNames, labels: Vec<String>) -> ReportFormat {
        let counting = Counting { by_thread: layout.by_thread, paths: layout.nests_calls(), depth };
        ReportFormat { layout, counts: CallCounts::new(counting, names, labels) }
    }

    fn write_table(&self, thread: usize, out: &mut Vec<u8>) {
        let mut rows: Vec<(FunctionId, &Counted)> = self.counts.functions(thread).collect();
        let names = lock(self.counts.names());
        let key = |counted: &Counted| match self.layout.sort {
            ReportOrder::Calls => counted.calls,
            ReportOrder::Total => counted.total,
            ReportOrder::Own => counted.own,
            ReportOrder::Max => counted.max,
            ReportOrder::Average => counted.average(),
        };
        rows.sort_by(|a, b| {
            let name = |function| (&names.get(function).name, names.get(function).place());
            key(b.1).cmp(&key(a.1)).then_with(|| name(a.0).cmp(&name(b.0)))
        });
        let mut columns = Columns::new(&[
            ("calls", Right),
            ("total", Right),
            ("self", Right),
            ("min", Right),
            ("avg", Right),
            ("max", Right),
            ("p99", Right),
            ("function", Left),
        ]);
        for (function, counted) in rows {
            let function = names.get(function);
            let place = if function.at.is_empty() { String::new() } else { format!("  ({})", function.at) };
            columns.row([
                Grouped(counted.calls).to_string(),
                duration(counted.total),
                duration(counted.own),
                duration(counted.min),
                duration(counted.average()),
                duration(counted.max),
                duration(counted.times.percentile(99).unwrap_or(0)),
                format!("{}{place}", function.name),
            ]);
        }
        out.extend_from_slice(columns.text("").as_bytes());
    }
}

impl Export for ReportFormat {
    fn begin(&mut self, _origins: &[Origin], _out: &mut Vec<u8>) {}

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
        self.counts.other_kinds().omissions().collect()
    }

    fn call_counts(&mut self) -> Option<&mut CallCounts> {
        Some(&mut self.counts)
    }

    fn learn_thread(&mut self, number: usize, origin: &Origin, label: String) {
        self.counts.label_thread(number, origin, label);
    }

    /// The report as of now, without the open calls; `None` for call paths.
    fn current_output(&self) -> Option<String> {
        let mut out = Vec::new();
        self.write(&mut out);
        (!self.layout.nests_calls()).then(|| String::from_utf8_lossy(&out).into_owned())
    }
}

impl ReportFormat {
    /// Writes the whole report.
    fn write(&self, out: &mut Vec<u8>) {
        let CutCalls { unmatched, unseen, still_open } = self.counts.cut_calls();
        let (calls, threads) = (self.counts.calls(), self.counts.labels().len() as u64);
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
        out.extend_from_slice(head.as_bytes());
        out.push(b'\n');
        if let Some(Recursion { thread, function, calls }) = self.counts.endless_recursion() {
            let label = self.counts.labels().nth(thread).unwrap_or_default();
            let function = lock(self.counts.names()).get(function).name.clone();
            let calls = Grouped(calls.into());
            let text = format!(
                "{label} ended inside {calls} calls of {function}. If the program does not end like this without hooks, its compiler turns these calls into jumps, which it cannot do with hooks: docs/functions.md, 'Limits'\n"
            );
            out.extend_from_slice(text.as_bytes());
        }
        if !self.layout.by_thread {
            return self.write_table(0, out);
        }
        for (thread, label) in self.counts.labels().enumerate() {
            if self.counts.functions(thread).next().is_some() {
                out.extend_from_slice(format!("\n{label}\n").as_bytes());
                self.write_table(thread, out);
            }
        }
    }
}
