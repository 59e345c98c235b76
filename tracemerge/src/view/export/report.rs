//! The report: how often each function was called, and how long its calls took; and the same by call path,
//! for flame graphs.

use std::fmt::Write as _;

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

/// The sort order of the functions of a report; the greatest value comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReportOrder {
    /// The number of calls.
    Calls,
    /// The total time of all calls, from entering to leaving.
    #[default]
    Total,
    /// The total time without the calls inside.
    Own,
    /// The longest call.
    Max,
    /// The average call.
    Average,
}

/// The form of a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReportStyle {
    /// The sort order of the functions.
    pub order: ReportOrder,
    /// Whether each thread has a report of its own.
    pub by_thread: bool,
    /// Whether call paths are written instead, one in each line with its own time in nanoseconds: the input
    /// of flame graph tools.
    pub folded: bool,
    /// The depth limit of these call paths.
    pub depth: Depth,
}

/// The format that counts calls.
#[derive(Debug)]
pub struct ReportFormat {
    style: ReportStyle,
    counts: CallCounts,
}

impl ReportFormat {
    /// Makes a report of the functions of `names`, with `labels` for the threads of all origins.
    #[must_use]
    pub fn new(style: ReportStyle, names: SharedNames, labels: Vec<String>) -> ReportFormat {
        let counting = Counting { by_thread: style.by_thread, paths: style.folded, depth: style.depth };
        ReportFormat { style, counts: CallCounts::new(counting, names, labels) }
    }

    /// Sets the label of the thread of an origin.
    pub fn label_thread(&mut self, number: usize, origin: &Origin, label: String) {
        self.counts.label_thread(number, origin, label);
    }

    /// Returns the report as of now, without the open calls; `None` for call paths.
    #[must_use]
    pub fn current_output(&self) -> Option<String> {
        let mut out = Vec::new();
        self.write(&mut out);
        (!self.style.folded).then(|| String::from_utf8_lossy(&out).into_owned())
    }

    fn write_table(&self, thread: usize, out: &mut Vec<u8>) {
        let mut rows: Vec<(FunctionId, &Counted)> = self.counts.functions(thread).collect();
        let names = lock(self.counts.names());
        let key = |counted: &Counted| match self.style.order {
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
        if self.style.folded { write_folded(&self.counts, out) } else { self.write(out) }
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
        if !self.style.by_thread {
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
