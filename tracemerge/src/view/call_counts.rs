//! Counts calls and their times, by function and by call path.
//!
//! A thread's calls are counted from the thread's own records, which must be in order; the records of different threads
//! may arrive in any order. The exception is a span that one thread enters and another thread leaves: then
//! [`CallCounts::needs_merge`] becomes true. Groups of threads may be counted separately ([`CallCounts::part`]) and the
//! results [added](CallCounts::add).

use std::collections::HashMap;

use trace_format::escape::unescape;
use trace_format::line::{Kind, Ticks};
use trace_format::meta::Meta;
use trace_format::record::Flags;

use crate::file::fast_map::FastMap;
use crate::file::record_text::RecordText;
use crate::file::records::Records;
use crate::input::inputs::Origin;
use crate::input::other_kinds::OtherKinds;
use crate::view::by_number::ByNumber;
use crate::view::calls::{Depth, Ending, Folded, OpenCall, OpenCalls, cut};
use crate::view::function_names::{CallInfo, Called, FunctionId, KnownCalls, SharedNames, lock};
use crate::view::known_spans::{AllSums, How, KnownSpans, SpanChange};
use crate::view::latency::Latencies;
use crate::view::span_threads::SpanThreads;
use crate::view::thread_states::OffSum;
use crate::view::threads::{Thread, ThreadIds, Threads};

/// The settings of [`CallCounts`]: which counts are made.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counting {
    /// Whether the calls of each function are counted for each thread separately.
    pub by_thread: bool,
    /// Whether the time of each call path is counted.
    pub paths: bool,
    /// The depth of nesting up to which calls have paths of their own. Deeper calls are folded.
    pub depth: Depth,
    /// Whether spans are counted, which needs the records of all threads in the order of the merge.
    pub spans: bool,
}

/// Converts a text of a trace, `escaped`, to a string without escapes.
fn plain(escaped: &[u8]) -> String {
    String::from_utf8_lossy(&unescape(escaped)).into_owned()
}

/// The counts of the calls of some threads: the numbers and times of calls by function and, if that is wanted, by call
/// path.
#[derive(Debug)]
pub(crate) struct CallCounts {
    counting: Counting,
    threads: Threads,
    call_info: KnownCalls,
    /// The open calls of each thread: those that were entered and not left yet.
    open: Vec<OpenThread>,
    /// The counts of each called function: of all threads together, or of each thread if threads are counted
    /// separately.
    counted: Vec<(usize, FunctionId, Counted)>,
    /// For each thread (or for all together, at index 0) and each function, the index in `counted` plus 1; 0 if the
    /// function has no entry.
    place_of: Vec<ByNumber<u32>>,
    paths: Paths,
    /// The count of calls without a leave record. Such a call ends when the call around it ends.
    unseen: u64,
    /// The count of calls that were still open when their thread or the trace ended.
    still_open: u64,
    /// The thread that was inside the most calls of one function when the trace ended.
    recursion: Option<Recursion>,
    /// The spans, if they are counted.
    spans: Option<KnownSpans>,
    entered_spans: SpanThreads,
    /// Whether the records must come in the order of the merge: because spans are counted and a span was recorded, or
    /// because a thread has left a span that it had not entered.
    needs_merge: bool,
    /// The counts of records that are not calls.
    others: OtherRecords,
    other_kinds: OtherKinds,
}

/// The counts of records that are not calls, and of calls with additional information.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OtherRecords {
    /// The count of messages.
    pub messages: u64,
    /// The count of call stacks.
    pub stacks: u64,
    /// The count of `#` lines.
    pub metas: u64,
    /// The count of calls that belong to a span.
    pub spans: u64,
    /// The count of leave records that ended a span.
    pub ends: u64,
    /// The count of leave records that were written because a panic unwound the stack.
    pub unwinding: u64,
    /// The count of calls whose call site, the place in the source of the caller, is known.
    pub call_sites: u64,
}

/// The counts of calls with a missing record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CutCalls {
    /// The count of leave records without an enter record.
    pub unmatched: u64,
    /// The count of calls without a leave record that ended because the call around them ended.
    pub unseen: u64,
    /// The count of calls that were open when their thread or the trace ended.
    pub still_open: u64,
}

/// A thread that was inside many calls of one function when the trace ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Recursion {
    /// The index of the thread.
    pub thread: usize,
    /// The function that was called recursively.
    pub function: FunctionId,
    /// The count of the function's open calls in the thread.
    pub calls: u32,
}

/// The open calls of one thread.
#[derive(Debug, Default)]
struct OpenThread {
    calls: OpenCalls,
    /// For each open call, the index of its path in [`Paths`]; empty if paths are not counted.
    paths: Vec<u32>,
    /// For each open call, how long the thread was not running on a processor during the calls inside it; empty if the
    /// states of the thread are unknown.
    off_inside: Vec<OffSum>,
}

/// The counts of a function's calls. Times are in nanoseconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counted {
    /// The number of calls of the function.
    pub calls: u64,
    /// The sum of the times of all calls that are not inside another call of the same function.
    pub total: u64,
    /// The sum of the times of all calls, recursive calls included.
    pub sum: u64,
    /// The sum of the times of all calls, each without the calls inside it.
    pub own: u64,
    /// The part of `own` in which the thread was not running on a processor; unknown if the states of the thread are
    /// unknown.
    pub off: OffSum,
    /// The time of the shortest call.
    pub min: u64,
    /// The time of the longest call.
    pub max: u64,
    /// The distribution of the times of all calls.
    pub times: Latencies,
}

impl Counted {
    /// Returns the average time of a call, in nanoseconds; 0 if there are no calls.
    #[must_use]
    pub(crate) fn average(&self) -> u64 {
        self.sum.checked_div(self.calls).unwrap_or(0)
    }

    /// Adds a call to the counts: its `total` time, its `own` time without the calls inside it, and `off`, the part of
    /// `own` for which its thread was not running on a processor. `is_recursive` says whether the call is inside
    /// another call of the function.
    fn call(&mut self, total: u64, own: u64, off: &OffSum, is_recursive: bool) {
        self.min = if self.calls == 0 { total } else { self.min.min(total) };
        self.calls += 1;
        // The time of an outer call of the same function includes a recursive call.
        self.total = self.total.saturating_add(if is_recursive { 0 } else { total });
        self.sum = self.sum.saturating_add(total);
        self.own = self.own.saturating_add(own);
        self.off.add(off);
        self.max = self.max.max(total);
        self.times.push(total);
    }

    /// Adds `other`, the counts of another thread or of another function.
    pub(crate) fn add(&mut self, other: &Counted) {
        self.min = if self.calls == 0 { other.min } else { self.min.min(other.min) };
        self.calls += other.calls;
        self.total = self.total.saturating_add(other.total);
        self.sum = self.sum.saturating_add(other.sum);
        self.own = self.own.saturating_add(other.own);
        self.off.add(&other.off);
        self.max = self.max.max(other.max);
        self.times.add(&other.times);
    }
}

/// The call paths of all threads, as a tree: each path adds one function to the path of its parent.
#[derive(Debug, Default)]
struct Paths {
    /// For each path, the index of its parent, and its last function. The path of a thread, which has no function, has
    /// no parent, and the index of the thread in place of the function.
    nodes: Vec<(Option<u32>, u32)>,
    by_step: FastMap<(Option<u32>, u32), u32>,
    /// For each path, the time of its calls without the calls inside them, in nanoseconds, and the count of its calls.
    own: Vec<(u64, u64)>,
}

/// The step of a path that stands for all calls nested too deeply to have paths of their own. The only step after it is
/// the function that was called, however deep the call is.
const FOLDED: FunctionId = FunctionId::MAX;

impl OpenThread {
    fn new(counting: Counting) -> OpenThread {
        let mut open = OpenThread::default();
        if counting.paths {
            open.calls.overlap_up_to(counting.depth.most());
        }
        open
    }
}

impl Paths {
    fn step(&mut self, around: Option<u32>, function: u32) -> u32 {
        *self.by_step.entry((around, function)).or_insert_with(|| {
            self.nodes.push((around, function));
            self.own.push((0, 0));
            u32::try_from(self.nodes.len() - 1).unwrap_or(u32::MAX)
        })
    }

    /// Returns the index of the path of a called function. `open` has the paths of the calls that the thread has open.
    /// Only calls inside fewer than `depth` open calls have a path of their own.
    #[inline]
    fn enter(&mut self, open: &[u32], thread: usize, function: FunctionId, depth: usize) -> u32 {
        let around = match open.last() {
            // The enclosing call is folded, too.
            Some(around) if open.len() > depth => self.nodes[*around as usize].0,
            Some(around) => Some(*around),
            None => Some(self.step(None, u32::try_from(thread).unwrap_or(u32::MAX))),
        };
        let around = if open.len() == depth { Some(self.step(around, FOLDED)) } else { around };
        self.step(around, function)
    }

    fn add_call(&mut self, path: u32, own: u64) {
        let sum = &mut self.own[path as usize];
        *sum = (sum.0.saturating_add(own), sum.1 + 1);
    }

    /// Returns whether the children of the path `around` stand for calls that are too deeply nested to have paths of
    /// their own.
    fn is_folded(&self, around: Option<u32>) -> bool {
        around.is_some_and(|around| {
            self.nodes[around as usize].1 == FOLDED && self.nodes[around as usize].0.is_some()
        })
    }

    /// Adds the paths of `other`, which were counted separately, and their times. Returns the index in `self` of each
    /// path of `other`.
    fn add(&mut self, other: &Paths) -> Vec<u32> {
        let mut here: Vec<u32> = Vec::with_capacity(other.nodes.len());
        // The parent of a path always comes before the path.
        for (&(around, function), own) in other.nodes.iter().zip(&other.own) {
            let path = self.step(around.map(|around| here[around as usize]), function);
            let sum = &mut self.own[path as usize];
            *sum = (sum.0.saturating_add(own.0), sum.1 + own.1);
            here.push(path);
        }
        here
    }
}

impl CallCounts {
    /// Creates empty counts for the calls of `threads`.
    #[must_use]
    pub(crate) fn new(counting: Counting, threads: Threads) -> CallCounts {
        CallCounts {
            counting,
            call_info: KnownCalls::of(threads.names()),
            open: threads.threads().iter().map(|_| OpenThread::new(counting)).collect(),
            threads,
            counted: Vec::new(),
            place_of: Vec::new(),
            paths: Paths::default(),
            unseen: 0,
            still_open: 0,
            recursion: None,
            spans: counting.spans.then(|| KnownSpans::new(0, false)),
            entered_spans: SpanThreads::default(),
            needs_merge: false,
            others: OtherRecords::default(),
            other_kinds: OtherKinds::default(),
        }
    }

    /// Returns the names of the functions.
    #[must_use]
    pub(crate) fn names(&self) -> &SharedNames {
        self.threads.names()
    }

    /// Returns the indices of the thread and the process to which an origin of records (a file or a ring) belongs, by
    /// the origin's index `number`. Assigns them if the origin is new.
    #[inline]
    pub(crate) fn ids(&mut self, number: usize, origin: &Origin) -> ThreadIds {
        let ids = self.threads.ids(number, origin);
        if ids.thread >= self.open.len() {
            self.open.push(OpenThread::new(self.counting));
        }
        ids
    }

    /// Returns the threads whose calls are counted.
    #[must_use]
    pub(crate) fn threads(&self) -> &Threads {
        &self.threads
    }

    /// Returns the steady time at which a thread had these `ticks`, in nanoseconds.
    pub(crate) fn time(&mut self, thread: usize, ticks: Ticks) -> u64 {
        self.threads.time(thread, ticks)
    }

    /// Returns the innermost open call of a thread: the function, and the time when it was entered.
    #[must_use]
    pub(crate) fn innermost(&self, thread: usize) -> Option<(FunctionId, u64)> {
        self.open.get(thread)?.calls.open().last().map(|call| (call.function, call.entered))
    }

    /// Sets the time that offsets are measured from: the steady time of the first line of the chosen runs, in
    /// nanoseconds.
    pub(crate) fn begin_at(&mut self, first: u64) {
        self.threads.begin_at(first);
    }

    /// Sets the label of the thread to which the records of an origin (a file or a ring) belong.
    pub(crate) fn label_thread(&mut self, number: usize, origin: &Origin, label: String) {
        self.ids(number, origin);
        self.threads.learn(number, origin, label);
    }

    /// Returns the labels of the threads, by the index of the thread.
    pub(crate) fn labels(&self) -> impl ExactSizeIterator<Item = &str> {
        self.threads.threads().iter().map(Thread::full_label)
    }

    /// Returns the counts of calls with a missing record.
    #[must_use]
    pub(crate) fn cut_calls(&self) -> CutCalls {
        let unmatched = self.open.iter().map(|open| open.calls.unmatched).sum();
        CutCalls { unmatched, unseen: self.unseen, still_open: self.still_open }
    }

    /// Returns the thread that was inside the most calls of one function when the trace ended, if there were
    /// more such calls than a program is likely to make on purpose.
    #[must_use]
    pub(crate) fn endless_recursion(&self) -> Option<Recursion> {
        /// The least number of open calls that counts as an endless recursion. A recursion that ends is
        /// seldom this deep. An endless one is deeper when its stack overflows (8 MiB, or 2 MiB in threads of
        /// Rust), unless each call needs more than 2 KiB.
        const MIN_ENDLESS_CALLS: u32 = 1_000;
        self.recursion.filter(|recursion| recursion.calls >= MIN_ENDLESS_CALLS)
    }

    fn update_recursion(&mut self, seen: Option<Recursion>) {
        // Of equally deep recursions, takes the one of the first thread, whatever the order in which threads are read.
        let order = |of: &Recursion| (of.calls, std::cmp::Reverse(of.thread));
        self.recursion = self.recursion.into_iter().chain(seen).max_by_key(order);
    }

    /// Returns whether the records must come in the order of the merge: because spans are counted and a span was
    /// recorded, or because a thread has left a span that another thread may have entered.
    #[must_use]
    pub(crate) fn needs_merge(&self) -> bool {
        self.needs_merge
    }

    /// Returns the sums of the spans that have ended; `None` if spans are not counted.
    #[must_use]
    pub(crate) fn spans(&self) -> Option<AllSums> {
        self.spans.as_ref().map(KnownSpans::sums)
    }

    /// Returns how many lines of each unknown kind there were.
    #[must_use]
    pub(crate) fn other_kinds(&self) -> &OtherKinds {
        &self.other_kinds
    }

    /// Returns the counts of records that are not calls.
    #[must_use]
    pub(crate) fn others(&self) -> OtherRecords {
        self.others
    }

    /// Returns the functions with their counts, in no particular order. The first number is the index of the thread if
    /// threads are counted separately, otherwise 0.
    pub(crate) fn each_function(&self) -> impl Iterator<Item = (usize, FunctionId, &Counted)> {
        self.counted.iter().map(|(thread, function, counted)| (*thread, *function, counted))
    }

    /// Returns the count of all calls that have ended.
    #[must_use]
    pub(crate) fn calls(&self) -> u64 {
        self.counted.iter().map(|(.., counted)| counted.calls).sum()
    }

    /// Returns whether the records contained no calls: neither an ended call nor a leave record without an enter
    /// record.
    #[must_use]
    pub(crate) fn has_no_calls(&self) -> bool {
        self.calls() == 0 && self.cut_calls().unmatched == 0
    }

    /// Calls `take` with each path. The arguments are:
    /// * the index of the thread
    /// * the functions of the path, the outermost first
    /// * if the path stands for folded calls inside the last function, the counts of these calls
    /// * the time of the path's calls without the calls inside them, in nanoseconds, and (unless the calls are folded)
    ///   the count of these calls
    pub(crate) fn each_path(&self, mut take: impl FnMut(usize, &[FunctionId], Option<&Folded>, (u64, u64))) {
        let Paths { nodes, own, .. } = &self.paths;
        let mut folded: HashMap<u32, (Folded, u64)> = HashMap::new();
        for (&(around, function), &(own, calls)) in nodes.iter().zip(own) {
            if let Some(around) = around.filter(|_| self.paths.is_folded(around)) {
                let (of_path, sum) = folded.entry(around).or_default();
                of_path.add(function, calls);
                *sum = sum.saturating_add(own);
            }
        }
        let mut steps = Vec::new();
        for (number, (&path, &(own, calls))) in (0..).zip(nodes.iter().zip(own)) {
            let folded = folded.get(&number);
            let own = folded.map_or(own, |(_, sum)| *sum);
            if self.paths.is_folded(path.0) {
                continue;
            }
            steps.clear();
            let mut at = path;
            while let (Some(around), function) = at {
                steps.push(function);
                at = nodes[around as usize];
            }
            steps.reverse();
            let functions = &steps[..steps.len() - usize::from(folded.is_some())];
            take(at.1 as usize, functions, folded.map(|(folded, _)| folded), (own, calls));
        }
    }

    /// Returns the count of calls that are folded in paths.
    #[must_use]
    pub(crate) fn folded_calls(&self) -> u64 {
        let nodes = self.paths.nodes.iter().zip(&self.paths.own);
        let folded = nodes.filter(|((around, _), _)| self.paths.is_folded(*around));
        folded.map(|(_, (_, calls))| calls).sum()
    }

    /// Returns the depth up to which calls have paths of their own.
    #[must_use]
    pub(crate) fn depth(&self) -> Depth {
        self.counting.depth
    }

    /// Adds the next records of a thread. All come from one origin (a file or a ring), whose index is `number`.
    pub(crate) fn records(&mut self, number: usize, origin: &Origin, records: &Records) {
        let ThreadIds { thread, process, .. } = self.ids(number, origin);
        for at in 0..records.len() {
            let call = records.plain_call(at);
            let met = call.and_then(|call| Some((call, *self.call_info.met(records.serial(), call.2)?)));
            // Many calls follow each other, and most are at places that were met before.
            let Some(((ticks, is_entered, _), call_info)) = met else {
                self.record(origin, &RecordText { origin: number, ..records.get(at) });
                continue;
            };
            self.call(thread, is_entered, &call_info, ticks);
            self.threads.see(process, ticks);
        }
    }

    /// Adds an enter or leave record of a thread. Returns the thread whose call begins or ends: usually `thread`, or
    /// the thread that has entered the span, if another thread leaves the span.
    #[inline]
    fn call(&mut self, thread: usize, is_entered: bool, call_info: &CallInfo, ticks: Ticks) -> usize {
        let &CallInfo { called, span, left } = call_info;
        let now = self.threads.time(thread, ticks);
        if is_entered {
            if let Some(span) = span {
                self.enter_span(thread, span, call_info, now);
            }
            self.enter(thread, called, span, now);
            return thread;
        }
        let thread = span.map_or(thread, |span| self.leave_span(thread, span, call_info, now));
        self.others.ends += u64::from(left.has(Flags::ENDED) || left.has(Flags::CANCELLED));
        self.others.unwinding += u64::from(left.has(Flags::UNWINDING));
        self.leave(thread, called, span, now);
        thread
    }

    #[cold]
    fn enter_span(&mut self, thread: usize, span: u64, call_info: &CallInfo, now: u64) {
        let process = self.threads.threads()[thread].process;
        self.entered_spans.enter((process, span), thread);
        let Some(spans) = &mut self.spans else { return };
        let names = self.threads.names();
        let name = || plain(lock(names).get(call_info.called.function).name.as_bytes());
        self.needs_merge = true;
        spans.enter((process, span), name, thread, now);
    }

    /// Ends a thread's stay in a span, and the span itself if the leave record says so. Returns the thread whose open
    /// call of the span ends now.
    #[cold]
    fn leave_span(&mut self, thread: usize, span: u64, call_info: &CallInfo, now: u64) -> usize {
        let key = (self.threads.threads()[thread].process, span);
        let has_open = |of: usize| self.open[of].calls.has_open_at(call_info.called.place, Some(span));
        self.needs_merge |= !has_open(thread);
        let of = self.entered_spans.leave(key, thread, has_open);
        let Some(spans) = &mut self.spans else { return of };
        spans.leave(key, (of, self.threads.work(of)), now);
        if let Some(how) = KnownSpans::ending(call_info) {
            spans.end(key, now, how);
        }
        of
    }

    /// If a message says that a span begins, ends or gets further fields, updates the span.
    #[cold]
    fn message_of_span(&mut self, ids: ThreadIds, record: &RecordText<'_>) {
        let now = self.threads.time(ids.thread, record.ticks);
        let Some(spans) = &mut self.spans else { return };
        match spans.message((ids.process, ids.thread), &plain(record.payload()), now) {
            Some((_, SpanChange::Began)) => self.needs_merge = true,
            Some((key, SpanChange::Ended(how))) => spans.end(key, now, how),
            _ => {}
        }
    }

    /// Ends the spans that are still open, each at the last sign of life of its process.
    fn end_spans(&mut self) {
        let Some(spans) = &mut self.spans else { return };
        for (thread, of) in self.threads.threads().iter().enumerate() {
            let end = self.threads.last_time(of.process);
            for span in spans.inside(thread) {
                spans.leave((of.process, span), (thread, self.threads.work(thread)), end);
            }
        }
        for key in spans.open_spans() {
            spans.end(key, self.threads.last_time(key.0), How::Open);
        }
    }

    /// Adds a record, which must be the next one of its thread. Returns the thread whose calls may have changed:
    /// usually the thread of the record, or the thread that has entered the span, if another thread leaves the span.
    pub(crate) fn record(&mut self, origin: &Origin, record: &RecordText<'_>) -> usize {
        let ids = self.ids(record.origin, origin);
        let ThreadIds { thread, process, named } = ids;
        self.threads.see(process, record.ticks);
        match record.kind {
            Kind::Enter | Kind::Leave => {
                let call_info = self.call_info.call_info(self.threads.names(), named, record);
                if let Some(call_info) = call_info.copied() {
                    return self.call(thread, record.kind == Kind::Enter, &call_info, record.ticks);
                }
            }
            Kind::Meta => {
                self.others.metas += 1;
                if let Some(line) = record.parsed().next() {
                    lock(self.threads.names()).take_meta(named, line.payload);
                    let Some(meta) = Meta::parse(line.payload) else { return thread };
                    self.threads.take_meta(ids, &meta);
                    if matches!(meta, Meta::Lost { .. }) {
                        self.open[thread].calls.note_loss();
                    }
                    if let Some((_, ticks)) = cut(&meta, record.ticks) {
                        self.close(thread, ticks);
                    }
                }
            }
            Kind::Message if self.spans.is_some() && KnownSpans::may_take(record.payload()) => {
                self.others.messages += 1;
                self.message_of_span(ids, record);
            }
            Kind::Message | Kind::Continuation | Kind::Lock => self.others.messages += 1,
            Kind::Stack => self.others.stacks += 1,
            Kind::State => self.other_kinds.see_state(),
            Kind::Other(kind) => self.other_kinds.see(kind),
        }
        thread
    }

    /// Adds the enter record of a call by a thread. `now` is the time of the record, in nanoseconds.
    #[inline]
    fn enter(&mut self, thread: usize, called: Called, span: Option<u64>, now: u64) {
        let open = &mut self.open[thread];
        if self.counting.paths {
            let path = self.paths.enter(&open.paths, thread, called.function, self.counting.depth.most());
            open.paths.push(path);
        }
        if self.threads.work(thread).off().is_some() {
            open.off_inside.push(OffSum::default());
        }
        open.calls.enter(called.place, called.function, span, now);
        self.others.spans += u64::from(span.is_some());
        self.others.call_sites += u64::from(called.from.is_some());
    }

    /// Adds the leave record of a call by a thread. `now` is the time of the record, in nanoseconds.
    #[inline]
    fn leave(&mut self, thread: usize, called: Called, span: Option<u64>, now: u64) {
        let open = &mut self.open[thread];
        let Some(left) = open.calls.leave(called.place, called.function, span) else { return };
        if !open.calls.outliving(left).is_empty() {
            self.overlap(thread, left, now);
        }
        while let Some((call, ending)) = self.open[thread].calls.pop(left, now, self.threads.work(thread)) {
            self.unseen += u64::from(ending == Ending::Unseen);
            self.end(thread, &call, now);
        }
    }

    /// Handles a call that is left while calls inside it continue: reorders the values that are stored for each open
    /// call, and adds the time that the continuing calls have taken so far to the inner times of the ending calls
    /// around them.
    #[cold]
    fn overlap(&mut self, thread: usize, left: usize, now: u64) {
        let OpenThread { calls, paths, off_inside } = &mut self.open[thread];
        calls.reorder(left, paths);
        calls.reorder(left, off_inside);
        let work = self.threads.work(thread);
        for (outliving, around) in calls.overlaps(left) {
            let off = work.off_between(calls.open()[outliving].counted_until(), now);
            if let Some((around, off)) = off_inside.get_mut(around).zip(off) {
                around.add(&off);
            }
        }
        calls.count_overlaps(left, now, work);
    }

    /// Ends the calls that are open after the last record.
    pub(crate) fn finish(&mut self) {
        for thread in 0..self.open.len() {
            let last = self.threads.last(self.threads.threads()[thread].process);
            let deepest = self.open[thread].calls.most_open();
            self.update_recursion(deepest.map(|(function, calls)| Recursion { thread, function, calls }));
            self.close(thread, last);
        }
        self.end_spans();
    }

    /// Adds the times of an ended call, which was already removed from the open calls, to the counts of its function
    /// and of its path.
    #[inline]
    fn end(&mut self, thread: usize, call: &OpenCall, now: u64) {
        let (total, own) = call.taken(now, self.threads.work(thread));
        let open = &mut self.open[thread];
        if let Some(path) = open.paths.pop() {
            self.paths.add_call(path, own);
        }
        let is_recursive = open.calls.has_open(call.function);
        let off = self.own_off(thread, call, now, own);
        let thread = if self.counting.by_thread { thread } else { 0 };
        self.counted(thread, call.function).call(total, own, &off, is_recursive);
    }

    /// Returns the part of a call's own time for which its thread was not running on a processor.
    #[inline]
    fn own_off(&mut self, thread: usize, call: &OpenCall, now: u64, own: u64) -> OffSum {
        let Some(total) = self.threads.work(thread).off_between(call.entered, now) else {
            return OffSum { unknown: own, ..OffSum::default() };
        };
        let OpenThread { calls, off_inside, .. } = &mut self.open[thread];
        let inside = off_inside.pop().unwrap_or_default();
        if let Some(around) = calls.around().and_then(|around| off_inside.get_mut(around)) {
            let counted = self.threads.work(thread).off_between(call.entered, call.counted_until());
            around.add(&total.without(&counted.unwrap_or_default()));
        }
        total.without(&inside).within(own)
    }

    /// Returns the counts of a function's calls in a thread; `thread` must be 0 if threads are counted together.
    #[inline]
    fn counted(&mut self, thread: usize, function: FunctionId) -> &mut Counted {
        let place = match self.place_of.get(thread).map_or(0, |of_thread| of_thread.get(function)) {
            0 => self.begin_counting(thread, function),
            place => place as usize - 1,
        };
        &mut self.counted[place].2
    }

    #[cold]
    fn begin_counting(&mut self, thread: usize, function: FunctionId) -> usize {
        self.counted.push((thread, function, Counted::default()));
        self.place_of.resize(self.place_of.len().max(thread + 1), ByNumber::default());
        *self.place_of[thread].get_mut(function) = u32::try_from(self.counted.len()).unwrap_or(0);
        self.counted.len() - 1
    }

    /// Ends all open calls of a thread, as if they returned at the time of these ticks.
    fn close(&mut self, thread: usize, ticks: Ticks) {
        let now = self.threads.time(thread, ticks);
        while let Some((call, _)) = self.open[thread].calls.pop(0, now, self.threads.work(thread)) {
            self.still_open += 1;
            self.end(thread, &call, now);
        }
    }

    /// Returns empty counts with the same settings, which know no threads yet.
    #[must_use]
    pub(crate) fn anew(&self) -> CallCounts {
        CallCounts::new(self.counting, self.threads.anew())
    }

    /// Returns empty counts with the same settings and the same threads, which keep their indices.
    #[must_use]
    pub(crate) fn part(&self) -> CallCounts {
        CallCounts::new(self.counting, self.threads.clone())
    }

    /// Adds the counts of a [part](CallCounts::part). No two parts may have taken records of the same thread.
    pub(crate) fn add(&mut self, part: CallCounts) {
        for (thread, function, counted) in &part.counted {
            self.counted(*thread, *function).add(counted);
        }
        let paths = self.paths.add(&part.paths);
        for (open, of_part) in self.open.iter_mut().zip(part.open) {
            let unmatched = open.calls.unmatched + of_part.calls.unmatched;
            if !of_part.calls.open().is_empty() {
                open.calls = of_part.calls;
                open.off_inside = of_part.off_inside;
                open.paths = of_part.paths.iter().map(|path| paths[*path as usize]).collect();
            }
            open.calls.unmatched = unmatched;
        }
        self.unseen += part.unseen;
        self.still_open += part.still_open;
        self.update_recursion(part.recursion);
        self.threads.add(&part.threads);
        self.other_kinds.add(&part.other_kinds);
        self.others.messages += part.others.messages;
        self.others.stacks += part.others.stacks;
        self.others.metas += part.others.metas;
        self.others.spans += part.others.spans;
        self.others.ends += part.others.ends;
        self.others.unwinding += part.others.unwinding;
        self.others.call_sites += part.others.call_sites;
    }
}
