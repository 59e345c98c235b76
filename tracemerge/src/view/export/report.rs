//! The report: how often each function was called, and how long that took; and the same by call path, for
//! flame graphs.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;

use trace_format::line::Kind;
use trace_format::meta::Meta;

use crate::input::inputs::Origin;
use crate::time::clocks::TickClock;
use crate::ui::messages::{Grouped, count};
use crate::ui::table::Alignment::{Left, Right};
use crate::ui::table::Columns;
use crate::ui::units::duration;
use crate::view::calls::{Ending, LastRecords, OpenCall, OpenCalls, cut};
use crate::view::export::Export;
use crate::view::fast_map::FastMap;
use crate::view::function_names::{FunctionId, SharedNames, Told, lock};
use crate::view::latency::Latencies;
use crate::view::records::RecordText;

/// What the functions of a report are sorted by; the greatest comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReportOrder {
    /// The number of calls.
    Calls,
    /// The time from entering to leaving, of all calls together.
    #[default]
    Total,
    /// The same without the calls inside.
    Own,
    /// The longest call.
    Max,
    /// The average call.
    Average,
}

/// The form of a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReportStyle {
    /// What the functions are sorted by.
    pub order: ReportOrder,
    /// Whether each thread has a report of its own.
    pub by_thread: bool,
    /// Whether call paths are written, one in a line with its own time in nanoseconds: the form that flame
    /// graphs are made of.
    pub folded: bool,
}

/// The format that counts calls.
#[derive(Debug)]
pub struct ReportFormat {
    style: ReportStyle,
    names: SharedNames,
    /// The labels of the threads, by origin.
    labels: Vec<String>,
    /// The number of each origin's process, and that of its thread.
    processes: Vec<usize>,
    threads: Vec<usize>,
    /// The number of each thread, by its process and its id.
    by_id: HashMap<(usize, u64), usize>,
    /// The label of each thread.
    thread_labels: Vec<String>,
    open: Vec<OpenThread>,
    /// What is known of each function, by thread where that is wanted.
    functions: FastMap<(usize, FunctionId), Counted>,
    paths: Paths,
    /// The calls whose leaving no record tells.
    unseen: u64,
    /// The calls that were still open when their thread ended.
    still_open: u64,
    last: LastRecords,
}

/// The numbers of calls of which not all is known.
#[derive(Clone, Copy, Debug)]
pub struct CutCalls {
    /// Leavings whose entering no record tells.
    pub unmatched: u64,
    /// Calls whose leaving no record tells, and that have ended with a call around them.
    pub unseen: u64,
    /// Calls that were open when their thread or the trace ended.
    pub still_open: u64,
}

/// The open calls of one thread.
#[derive(Debug)]
struct OpenThread {
    calls: OpenCalls,
    /// The path of each open call.
    paths: Vec<u32>,
    process: usize,
    clock: Arc<TickClock>,
}

/// What is known of a function. Times are nanoseconds.
#[derive(Clone, Debug, Default)]
struct Counted {
    calls: u64,
    /// The time of all calls, those inside of another call of the function left out.
    total: u64,
    /// The sum of the times of all calls.
    sum: u64,
    own: u64,
    min: u64,
    max: u64,
    times: Latencies,
}

/// The paths of calls: a tree of functions.
#[derive(Debug, Default)]
struct Paths {
    /// The path around each path, or none for a thread, and the function, or the thread's number.
    nodes: Vec<(Option<u32>, u32)>,
    by_step: FastMap<(Option<u32>, u32), u32>,
    /// The time of each path, without the calls inside.
    own: Vec<u64>,
}

impl Paths {
    fn step(&mut self, around: Option<u32>, function: u32) -> u32 {
        *self.by_step.entry((around, function)).or_insert_with(|| {
            self.nodes.push((around, function));
            self.own.push(0);
            u32::try_from(self.nodes.len() - 1).unwrap_or(u32::MAX)
        })
    }
}

impl ReportFormat {
    /// Makes a report of the functions of `names`, with `labels` for the threads of all origins.
    #[must_use]
    pub fn new(style: ReportStyle, names: SharedNames, labels: Vec<String>) -> ReportFormat {
        ReportFormat {
            style,
            names,
            labels,
            processes: Vec::new(),
            threads: Vec::new(),
            by_id: HashMap::new(),
            thread_labels: Vec::new(),
            open: Vec::new(),
            functions: FastMap::default(),
            paths: Paths::default(),
            unseen: 0,
            still_open: 0,
            last: LastRecords::default(),
        }
    }

    /// Gives an origin its process and its thread, when it is first met.
    fn know(&mut self, number: usize, origin: &Origin) {
        while self.processes.len() <= number {
            self.processes.push(usize::MAX);
            self.threads.push(usize::MAX);
        }
        if self.processes[number] != usize::MAX {
            return;
        }
        let process = lock(&self.names).process(origin);
        let thread = *self.by_id.entry((process, origin.tid)).or_insert_with(|| {
            let label = self.labels.get(number).cloned().unwrap_or_else(|| origin.tid.to_string());
            self.thread_labels.push(label);
            let clock = origin.clock.clone();
            self.open.push(OpenThread { calls: OpenCalls::default(), paths: Vec::new(), process, clock });
            self.open.len() - 1
        });
        (self.processes[number], self.threads[number]) = (process, thread);
    }

    /// Gives the thread of an origin its label.
    pub fn label_thread(&mut self, number: usize, origin: &Origin, label: String) {
        self.know(number, origin);
        let thread = self.threads[number];
        self.thread_labels[thread] = label;
    }

    /// Returns the numbers of calls of which not all is known.
    #[must_use]
    pub fn cut_calls(&self) -> CutCalls {
        let unmatched = self.open.iter().map(|open| open.calls.unmatched).sum();
        CutCalls { unmatched, unseen: self.unseen, still_open: self.still_open }
    }

    /// Returns the report as it would be now, without the calls that are open.
    #[must_use]
    pub fn so_far(&self) -> Option<String> {
        let mut out = Vec::new();
        self.write(&mut out);
        (!self.style.folded).then(|| String::from_utf8_lossy(&out).into_owned())
    }

    fn function(&mut self, origin: &Origin, record: &RecordText<'_>) {
        let (process, thread) = (self.processes[record.origin], self.threads[record.origin]);
        let told = lock(&self.names).told(process, record.ticks, record.payload());
        let Some(Told { called, span, .. }) = told else { return };
        let now = origin.clock.wall(record.ticks).0;
        let open = &mut self.open[thread];
        if record.kind == Kind::Enter {
            let around = open.paths.last().copied();
            let around =
                around.unwrap_or_else(|| self.paths.step(None, u32::try_from(thread).unwrap_or(u32::MAX)));
            open.paths.push(self.paths.step(Some(around), called.function));
            open.calls.enter(called.place, called.function, span, now);
        } else {
            let Some(left) = open.calls.leave(called.place, called.function, span) else { return };
            while let Some((call, ending)) = self.open[thread].calls.pop(left, now) {
                self.unseen += u64::from(ending == Ending::Unseen);
                self.end(thread, &call, now);
            }
        }
    }

    /// Counts a call that has ended, which was taken from the open ones.
    fn end(&mut self, thread: usize, call: &OpenCall, now: u64) {
        let (total, own) = call.taken(now);
        let open = &mut self.open[thread];
        if let Some(path) = open.paths.pop() {
            let sum = &mut self.paths.own[path as usize];
            *sum = sum.saturating_add(own);
        }
        // A call inside of one of the same function is a part of that one's time.
        let is_recursive = open.calls.open().iter().any(|outer| outer.function == call.function);
        let key = (if self.style.by_thread { thread } else { 0 }, call.function);
        let counted = self.functions.entry(key).or_default();
        counted.min = if counted.calls == 0 { total } else { counted.min.min(total) };
        counted.calls += 1;
        counted.total = counted.total.saturating_add(if is_recursive { 0 } else { total });
        counted.sum = counted.sum.saturating_add(total);
        counted.own = counted.own.saturating_add(own);
        counted.max = counted.max.max(total);
        counted.times.push(total);
    }

    /// Ends what is still open in a thread, as if it were left now.
    fn close(&mut self, thread: usize, now: u64) {
        while let Some((call, _)) = self.open[thread].calls.pop(0, now) {
            self.still_open += 1;
            self.end(thread, &call, now);
        }
    }

    /// Takes a `#` line.
    fn meta(&mut self, origin: &Origin, record: &RecordText<'_>, payload: &[u8]) {
        lock(&self.names).take_meta(self.processes[record.origin], payload);
        if let Some((_, ticks)) = Meta::parse(payload).and_then(|meta| cut(&meta, record.ticks)) {
            self.close(self.threads[record.origin], origin.clock.wall(ticks).0);
        }
    }

    fn write_table(&self, thread: usize, out: &mut Vec<u8>) {
        let mut rows: Vec<(FunctionId, &Counted)> = self
            .functions
            .iter()
            .filter(|((of, _), _)| *of == thread)
            .map(|((_, function), counted)| (*function, counted))
            .collect();
        let names = lock(&self.names);
        let key = |counted: &Counted| match self.style.order {
            ReportOrder::Calls => counted.calls,
            ReportOrder::Total => counted.total,
            ReportOrder::Own => counted.own,
            ReportOrder::Max => counted.max,
            ReportOrder::Average => average(counted),
        };
        rows.sort_by(|a, b| {
            key(b.1).cmp(&key(a.1)).then_with(|| names.get(a.0).name.cmp(&names.get(b.0).name))
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
                duration(average(counted)),
                duration(counted.max),
                duration(counted.times.percentile(99).unwrap_or(0)),
                format!("{}{place}", function.name),
            ]);
        }
        out.extend_from_slice(columns.text("").as_bytes());
    }

    /// Writes each path with its time: `main;serve;parse 1234`.
    fn write_folded(&self, out: &mut Vec<u8>) {
        let names = lock(&self.names);
        let mut lines: Vec<String> = Vec::new();
        for (number, own) in (0u32..).zip(&self.paths.own).filter(|(_, own)| **own > 0) {
            let (mut steps, mut at) = (Vec::new(), Some(number));
            while let Some(node) = at {
                let (around, function) = self.paths.nodes[node as usize];
                let text = match around {
                    Some(_) => names.get(function).name.replace(';', ":"),
                    None => self.thread_labels.get(function as usize).cloned().unwrap_or_default(),
                };
                steps.push(text);
                at = around;
            }
            steps.reverse();
            lines.push(format!("{} {own}", steps.join(";")));
        }
        lines.sort();
        for line in lines {
            out.extend_from_slice(line.as_bytes());
            out.push(b'\n');
        }
    }
}

fn average(counted: &Counted) -> u64 {
    counted.sum.checked_div(counted.calls).unwrap_or(0)
}

impl Export for ReportFormat {
    fn begin(&mut self, _origins: &[Origin], _out: &mut Vec<u8>) {}

    fn record(&mut self, origin: &Origin, record: &RecordText<'_>, _out: &mut Vec<u8>) {
        self.know(record.origin, origin);
        self.last.see(self.processes[record.origin], record.ticks);
        match record.kind {
            Kind::Enter | Kind::Leave => self.function(origin, record),
            Kind::Meta => {
                if let Some(line) = record.parsed().next() {
                    self.meta(origin, record, line.payload);
                }
            }
            _ => {}
        }
    }

    fn finish(&mut self, out: &mut Vec<u8>) {
        for thread in 0..self.open.len() {
            let OpenThread { process, clock, .. } = &self.open[thread];
            let now = clock.wall(self.last.of(*process)).0;
            self.close(thread, now);
        }
        if self.style.folded { self.write_folded(out) } else { self.write(out) }
    }
}

impl ReportFormat {
    /// Writes the whole report.
    fn write(&self, out: &mut Vec<u8>) {
        let calls: u64 = self.functions.values().map(|counted| counted.calls).sum();
        let CutCalls { unmatched, unseen, still_open } = self.cut_calls();
        let mut head = format!("{} of {}", count(calls, "call"), count(self.open.len() as u64, "thread"));
        for (number, what) in [
            (still_open, "still running at the end"),
            (unseen, "whose leaving no record tells"),
            (unmatched, "whose entering no record tells"),
        ] {
            if number > 0 {
                let _ = write!(head, ", {} {what}", Grouped(number));
            }
        }
        out.extend_from_slice(head.as_bytes());
        out.push(b'\n');
        if !self.style.by_thread {
            return self.write_table(0, out);
        }
        for (thread, label) in self.thread_labels.iter().enumerate() {
            if self.functions.keys().any(|(of, _)| *of == thread) {
                out.extend_from_slice(format!("\n{label}\n").as_bytes());
                self.write_table(thread, out);
            }
        }
    }
}
