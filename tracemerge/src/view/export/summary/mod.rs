//! The summary: the first look at a trace, on one screen.

mod lanes;
mod text;

use std::collections::{HashMap, HashSet};

use clap::Args;
use serde::Serialize;
use trace_format::line::Kind;
use trace_format::locks::LockRecord;
use trace_format::meta::{EndReason, Meta};

use crate::file::record_text::RecordText;
use crate::input::inputs::Origin;
use crate::ui::console::Content;
use crate::view::call_counts::{CallCounts, Counted, Counting};
use crate::view::export::Export;
use crate::view::export::summary::lanes::{Did, Lanes};
use crate::view::export::time_column::TimeMode;
use crate::view::function_names::{FunctionId, lock};
use crate::view::layout::{Context, Layout, Needs, Subcommand};
use crate::view::thread_states::Off;

/// The version of the JSON output. It increases if a field changes its meaning or is removed.
const VERSION: u32 = 1;
/// The number of functions that are listed.
const FUNCTIONS: usize = 10;

/// The layout of `summary`: a trace on one screen.
#[derive(Args, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SummaryLayout {
    /// Write JSON
    #[arg(long)]
    pub json: bool,
}

impl Subcommand for SummaryLayout {
    const NAME: &'static str = "summary";
    const ABOUT: &'static str = "Show the trace on one screen, and what to look at next";
    const FOLLOW: Option<&'static str> = None;
    const HELP: &'static str = "\
Shows which threads there are and what they did over time, the ten functions that took
longest themselves (waits for locks apart), what has not ended, what is lost, and three
commands that show more.

In the line of a thread, from the first record on the left to the last one on the right:
  #  it was in calls            -  it waited for a lock or a notification
  +  in calls at times          t  it waited for the tracer
  .  records outside of calls   p  other threads had the processor

If tracemerge run has recorded the states of threads (TRACER_SCHED=1), - is any wait: the thread
had left the processor. Without them, p is unknown, and - is a wait for a lock of the tracer's.

Examples:
  tracemerge summary ./app
  tracemerge summary --json ./app

Exit status: that of a merge";
}

impl Layout for SummaryLayout {
    fn needs(&self) -> Needs {
        Needs { times: true, calls: true, labels: true, states: true, ..Needs::default() }
    }

    fn format(&self, context: &Context) -> Box<dyn Export> {
        let counts = CallCounts::new(Counting::default(), context.threads());
        Box::new(SummaryFormat {
            layout: *self,
            apps: context.apps.clone(),
            counts,
            lanes: Lanes::new((context.time.first, context.last)),
            threads: Vec::new(),
            waiting_in: HashMap::new(),
            polls: 0,
            messages: 0,
            lost: 0,
            killed: HashSet::new(),
            silent: 0,
            has_waits: false,
            open_calls: Vec::new(),
        })
    }

    fn content(&self, _time: TimeMode, _in_colours: bool) -> Content {
        if self.json { Content::Json } else { Content::Text }
    }

    fn is_summary(&self) -> bool {
        true
    }
}

/// A wait for a lock or a notification that has not ended.
#[derive(Clone, Debug, Serialize)]
struct OpenWait {
    /// The label of the thread.
    thread: String,
    /// The lock or condition, and the place in the source where the thread waits.
    what: String,
    /// The duration of the wait up to the last sign of life of the process, in nanoseconds.
    ns: u64,
    #[serde(skip)]
    since: u64,
}

/// The activity of a thread at the time of the record that was read last.
#[derive(Clone, Debug, Default)]
struct ThreadNow {
    /// The steady time since when the thread is in calls, in nanoseconds; `None` if it is in none.
    in_calls_since: Option<u64>,
    wait: Option<OpenWait>,
}

/// A call that has not ended.
#[derive(Clone, Debug, Serialize)]
struct OpenCall {
    thread: String,
    function: String,
    ns: u64,
}

/// The format that sums up a trace.
#[derive(Debug)]
struct SummaryFormat {
    layout: SummaryLayout,
    /// The applications as the user wrote them, for the commands that the summary proposes.
    apps: Vec<String>,
    counts: CallCounts,
    lanes: Lanes,
    threads: Vec<ThreadNow>,
    /// For each function, the nanoseconds for which threads waited for locks or notifications while it was their
    /// innermost function.
    waiting_in: HashMap<FunctionId, u64>,
    polls: u64,
    messages: u64,
    lost: u64,
    /// The indices of the processes that were killed.
    killed: HashSet<usize>,
    /// The number of notifications that reached no waiting thread.
    silent: u64,
    /// Whether a thread has waited for a lock or a notification.
    has_waits: bool,
    open_calls: Vec<OpenCall>,
}

/// The facts about a thread in the output for programs.
#[derive(Debug, Serialize)]
struct ThreadRow {
    thread: String,
    records: u64,
    in_calls_ns: u64,
    waiting_ns: u64,
    tracer_ns: u64,
    /// The time for which other threads had the processor; `None` if the trace has no states of the thread.
    preempted_ns: Option<u64>,
    lane: String,
}

/// The facts about a function in the output for programs.
#[derive(Debug, Serialize)]
struct FunctionRow {
    function: String,
    place: String,
    calls: u64,
    self_ns: u64,
    waiting_ns: u64,
    max_ns: u64,
}

/// All facts of the summary. Times are in nanoseconds.
#[derive(Debug, Serialize)]
struct Summary {
    version: u32,
    processes: u64,
    threads: Vec<ThreadRow>,
    records: u64,
    messages: u64,
    calls: u64,
    polls: u64,
    lost: u64,
    /// The number of processes that were killed.
    killed: u64,
    span_ns: u64,
    tracer_ns: u64,
    functions: Vec<FunctionRow>,
    more_functions: u64,
    open_calls: Vec<OpenCall>,
    open_waits: Vec<OpenWait>,
    silent_notifications: u64,
    #[serde(skip)]
    has_waits: bool,
    next: Vec<String>,
}

impl SummaryFormat {
    /// Begins or ends the thread's open wait as a lock record says, or counts a notification that reached no waiting
    /// thread.
    fn lock(&mut self, thread: usize, now: u64, payload: &[u8]) {
        let Some(record) = std::str::from_utf8(payload).ok().and_then(LockRecord::parse) else { return };
        let what = match record {
            LockRecord::Wait(wait) => format!("lock {} at {}", wait.id, wait.at),
            LockRecord::ConditionWait { id, at, .. } => format!("condition {id} at {at}"),
            LockRecord::FutexWait { address } => format!("the word {address:#x}"),
            LockRecord::Notify { wakes, .. } => {
                self.silent += u64::from(wakes == 0);
                return;
            }
            LockRecord::FutexWake { .. } => return,
            LockRecord::Got { .. }
            | LockRecord::GaveUp { .. }
            | LockRecord::Woken { .. }
            | LockRecord::Timeout { .. }
            | LockRecord::FutexWoken { .. } => return self.end_wait(thread, now),
        };
        let label = self.counts.threads().threads()[thread].full_label().to_owned();
        self.threads[thread].wait = Some(OpenWait { thread: label, what, ns: 0, since: now });
    }

    fn end_wait(&mut self, thread: usize, now: u64) {
        if let Some(wait) = self.threads[thread].wait.take() {
            self.count_wait(thread, wait.since, now);
        }
    }

    /// Adds a wait of a thread to its lane, and to the waits of the function that the thread is in. Adds nothing if the
    /// trace has the thread's states, which already contain all of its waits.
    fn count_wait(&mut self, thread: usize, since: u64, now: u64) {
        self.has_waits = true;
        // The thread's states contain all of its waits.
        if self.counts.threads().work(thread).off().is_some() {
            return;
        }
        self.lanes.fill(thread, since, now, Did::Wait);
        if let Some((function, _)) = self.counts.innermost(thread) {
            *self.waiting_in.entry(function).or_default() += now.saturating_sub(since);
        }
    }

    /// Checks after a record whether the thread is in calls. If the thread has just left its outermost call, adds the
    /// time for which it was in calls to its lane.
    fn follow_calls(&mut self, thread: usize, now: u64) {
        let in_calls_since = &mut self.threads[thread].in_calls_since;
        match (self.counts.innermost(thread).is_some(), *in_calls_since) {
            (true, None) => *in_calls_since = Some(now),
            (false, Some(since)) => {
                *in_calls_since = None;
                self.lanes.fill(thread, since, now, Did::Work);
            }
            _ => {}
        }
    }

    fn meta(&mut self, thread: usize, meta: &Meta) {
        match meta {
            Meta::Wait(wait) => {
                let clock = &self.counts.threads().threads()[thread].clock;
                let (begin, end) = (clock.steady(wait.begin), clock.steady(wait.end));
                self.lanes.fill(thread, begin.max(end.saturating_sub(wait.ns)), end, Did::Tracer);
            }
            Meta::Lost { records, .. } | Meta::LostOtherwise { records, .. } => {
                self.lost = self.lost.saturating_add(*records);
            }
            Meta::End(end) if end.reason == EndReason::Killed => {
                self.killed.insert(self.counts.threads().threads()[thread].process);
            }
            _ => {}
        }
    }

    /// Returns the time of the last sign of life of a thread's process.
    fn end_of(&self, thread: usize) -> u64 {
        let threads = self.counts.threads();
        threads.last_time(threads.threads()[thread].process)
    }

    /// Adds the periods in which a thread was off the processor to its lane.
    fn fill_off(&mut self, thread: usize) {
        let Some(off) = self.counts.threads().work(thread).off().cloned() else { return };
        let (first, last) = self.lanes.period();
        for of in off.within(first, last) {
            let did = match of.why {
                Off::Waiting => Did::Wait,
                Off::Preempted => Did::Preempted,
                Off::Unknown => continue,
            };
            self.lanes.fill(thread, of.begin.max(first), of.end.min(last), did);
        }
    }

    /// Adds the waits and calls that have not ended to the lanes and to the lists of the summary. Their durations count
    /// until the last sign of life of their processes.
    fn note_open(&mut self) {
        for thread in 0..self.threads.len() {
            self.fill_off(thread);
            let end = self.end_of(thread);
            if let Some(wait) = self.threads[thread].wait.clone() {
                let ns = end.saturating_sub(wait.since);
                self.count_wait(thread, wait.since, end);
                self.threads[thread].wait = Some(OpenWait { ns, ..wait });
            }
            if let Some(since) = self.threads[thread].in_calls_since {
                self.lanes.fill(thread, since, end, Did::Work);
            }
            let label = self.counts.threads().threads()[thread].full_label().to_owned();
            if let Some((function, entered)) = self.counts.innermost(thread) {
                let function = lock(self.counts.names()).get(function).name.clone();
                self.open_calls.push(OpenCall { thread: label, function, ns: end.saturating_sub(entered) });
            }
        }
    }

    fn functions(&self) -> (Vec<FunctionRow>, u64) {
        let names = lock(self.counts.names());
        let row = |(_, id, counted): (usize, FunctionId, &Counted)| {
            let function = names.get(id);
            let waiting_ns =
                self.waiting_in.get(&id).copied().unwrap_or(0).saturating_add(counted.off.waiting);
            FunctionRow {
                function: function.name.clone(),
                place: function.place().to_owned(),
                calls: counted.calls,
                self_ns: counted.own.saturating_sub(waiting_ns),
                waiting_ns,
                max_ns: counted.max,
            }
        };
        let mut rows: Vec<FunctionRow> = self.counts.each_function().map(row).collect();
        rows.sort_by(|one, other| {
            other
                .self_ns
                .cmp(&one.self_ns)
                .then_with(|| (&one.function, &one.place).cmp(&(&other.function, &other.place)))
        });
        let more = rows.len().saturating_sub(FUNCTIONS) as u64;
        rows.truncate(FUNCTIONS);
        (rows, more)
    }

    fn summary(&self) -> Summary {
        let threads = self.counts.threads();
        let (functions, more_functions) = self.functions();
        let open_waits: Vec<OpenWait> =
            self.threads.iter().filter_map(|thread| thread.wait.clone()).collect();
        let mut rows: Vec<ThreadRow> = threads
            .threads()
            .iter()
            .enumerate()
            .filter(|(number, _)| self.lanes.records.get(*number).is_some_and(|records| *records > 0))
            .map(|(number, thread)| {
                let [in_calls_ns, waits_ns, tracer_ns, _] = self.lanes.sums[number];
                let (first, last) = self.lanes.period();
                let off = threads.work(number).off_between(first, last);
                let waiting_ns = off.map_or(waits_ns, |off| off.waiting);
                let preempted_ns = off.map(|off| off.preempted);
                let records = self.lanes.records[number];
                let (thread, lane) = (thread.full_label().to_owned(), self.lanes.text(number));
                ThreadRow { thread, records, in_calls_ns, waiting_ns, tracer_ns, preempted_ns, lane }
            })
            .collect();
        rows.sort_by(|one, other| {
            (other.in_calls_ns, other.records)
                .cmp(&(one.in_calls_ns, one.records))
                .then_with(|| one.thread.cmp(&other.thread))
        });
        let mut summary = Summary {
            version: VERSION,
            processes: threads.processes().len() as u64,
            records: rows.iter().map(|row| row.records).sum(),
            threads: rows,
            messages: self.messages,
            calls: self.counts.calls(),
            polls: self.polls,
            lost: self.lost,
            killed: self.killed.len() as u64,
            span_ns: self.lanes.span(),
            tracer_ns: threads.waits().ns,
            functions,
            more_functions,
            open_calls: self.open_calls.clone(),
            open_waits,
            silent_notifications: self.silent,
            has_waits: self.has_waits,
            next: Vec::new(),
        };
        summary.next = text::next_commands(&summary, &self.apps);
        summary
    }
}

impl Export for SummaryFormat {
    fn begin(&mut self, _origins: &[Origin], _out: &mut Vec<u8>) {}

    fn record(&mut self, origin: &Origin, record: &RecordText<'_>, _out: &mut Vec<u8>) {
        let thread = self.counts.ids(record.origin, origin).thread;
        if self.threads.len() <= thread {
            self.threads.resize(thread + 1, ThreadNow::default());
        }
        let now = self.counts.time(thread, record.ticks);
        // A wait counts for the function that waited, so it has to end before the function's call may.
        if record.kind == Kind::Lock {
            self.lock(thread, now, record.payload());
        }
        let changed = self.counts.record(origin, record);
        self.follow_calls(changed, now);
        match record.kind {
            Kind::Meta => {
                if let Some(meta) = Meta::parse(record.payload()) {
                    self.meta(thread, &meta);
                }
                return;
            }
            Kind::Message => self.messages += 1,
            _ => {}
        }
        self.lanes.record(thread, now);
    }

    fn finish(&mut self, out: &mut Vec<u8>) {
        self.note_open();
        self.counts.finish();
        self.polls = self.counts.others().spans;
        let summary = self.summary();
        if self.layout.json {
            // Writing to memory does not fail.
            let _ = serde_json::to_writer_pretty(&mut *out, &summary);
            return out.push(b'\n');
        }
        out.extend_from_slice(text::of(&summary, &self.apps, self.counts.threads()).as_bytes());
    }

    fn takes_calls(&self) -> bool {
        true
    }

    fn omissions(&self) -> Vec<String> {
        self.counts.other_kinds().omissions().collect()
    }
}

#[cfg(test)]
mod tests;
