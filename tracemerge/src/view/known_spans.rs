//! The spans that are open, and the sums over the spans that have ended: the model of spans that all views share. It
//! needs the records of all threads in the order of the merge.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};

use trace_format::record::Flags;

use crate::view::function_names::CallInfo;
use crate::view::latency::Latencies;
use crate::view::span_message::{SpanMessage, Subject};
use crate::view::thread_states::OffSum;
use crate::view::work_time::WorkTime;

/// The index of a process, and the id of a span in it.
pub(crate) type SpanKey = (usize, u64);

/// The maximum number of different names of spans, and of pairs of a name and the name of the span that opened it.
/// Spans with further names are counted together.
const MAX_NAMES: usize = 1000;
/// The maximum length of the text of a span's fields. Further characters are left out.
const MAX_FIELDS: usize = 500;
/// The name for spans whose names are not kept, because there are more than [`MAX_NAMES`].
const OTHERS: &str = "(spans with other names)";

/// The way in which a span has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// The program has closed the span, or the span's function has returned.
    Ended,
    /// The program has dropped the span's future before the span's end.
    Cancelled,
    /// The span has not ended.
    Open,
}

impl How {
    /// Returns the name of the argument that marks a slice of a span that has ended in this way; `None` for
    /// [`How::Ended`].
    pub(crate) fn flag(self) -> Option<&'static str> {
        match self {
            How::Ended => None,
            How::Cancelled => Some("cancelled"),
            How::Open => Some("cut off"),
        }
    }

    /// Returns the word for this ending in the output for people and programs.
    pub(crate) fn name(self) -> &'static str {
        match self {
            How::Ended => "ended",
            How::Cancelled => "cancelled",
            How::Open => "open",
        }
    }
}

/// A change of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SpanChange {
    /// The span is new.
    Began,
    /// A thread has entered the span, and no other thread was in it.
    Busy,
    /// The last thread that was in the span has left it.
    Idle,
    /// The span has ended. [`KnownSpans::get`] returns it until [`KnownSpans::end`] is called.
    Ended(How),
}

/// A span. Times are in nanoseconds of steady time.
#[derive(Clone, Debug)]
pub(crate) struct Span {
    /// The span's number among all spans of all processes, in the order in which they began.
    pub number: u64,
    /// The index of the thread that has begun the span.
    pub thread: usize,
    /// The index of the span's name in the names of [`KnownSpans`].
    name: u32,
    /// The index of the name of the span that opened this one, if there was one.
    opened_by: Option<u32>,
    /// The id of the span that opened this one, if there was one.
    pub parent: Option<u64>,
    pub began: u64,
    /// The count of threads that are in the span; `since` is the time since when at least one thread is in it.
    entered: u32,
    since: u64,
    /// The time for which at least one thread was in the span, without waits for the tracer.
    pub busy: u64,
    /// The part of the span's busy time in which threads were off the processor; `None` if the trace has no states of
    /// threads.
    pub off: Option<OffSum>,
    /// The time for which the span's threads waited for the tracer: it counts neither as busy nor as idle.
    waited: u64,
    /// The number of times that a thread entered the span when no other thread was in it.
    pub polls: u64,
    fields: Option<Box<str>>,
    /// The length in bytes of the text of the fields that the span had at its beginning.
    first_fields: usize,
}

impl Span {
    /// Returns the values of the span's fields, such as `path="/" size=3`, as far as they are kept.
    pub(crate) fn fields(&self) -> &str {
        self.fields.as_deref().unwrap_or("")
    }

    /// Returns the length in bytes of the text of the fields that the span had at its beginning.
    pub(crate) fn first_fields(&self) -> usize {
        self.first_fields
    }

    /// Returns whether a thread is in the span.
    pub(crate) fn is_busy(&self) -> bool {
        self.entered > 0
    }

    /// Returns the time for which no thread was in the span, if the span has lasted for `wall` nanoseconds.
    pub(crate) fn idle(&self, wall: u64) -> u64 {
        wall.saturating_sub(self.busy).saturating_sub(self.waited)
    }
}

/// The sums over all spans that have one name and were opened by spans of one name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sums {
    pub cancelled: u64,
    pub open: u64,
    pub polls: u64,
    pub wall: Latencies,
    pub busy: Latencies,
    pub idle: Latencies,
    /// The sum of the wall times, in nanoseconds; `busy_total` is the sum of the busy times.
    pub total: u64,
    pub busy_total: u64,
    /// The part of the busy times for which threads were off the processor; `None` if the trace has no states of
    /// threads.
    pub off: Option<OffSum>,
}

impl Sums {
    /// Adds the sums over spans of another name.
    pub(crate) fn add(&mut self, other: &Sums) {
        self.cancelled += other.cancelled;
        self.open += other.open;
        self.polls += other.polls;
        self.wall.add(&other.wall);
        self.busy.add(&other.busy);
        self.idle.add(&other.idle);
        self.total = self.total.saturating_add(other.total);
        add_off(&mut self.off, (other.off, other.busy_total), self.busy_total);
        self.busy_total = self.busy_total.saturating_add(other.busy_total);
    }
}

/// Adds `off`, the times off the processor within the busy time `busy`, to `sum`, those within the busy time `before`.
/// If only one of `off` and `sum` is known, the whole busy time of the other one is added as time of unknown state.
/// Busy times are in nanoseconds.
pub(crate) fn add_off(sum: &mut Option<OffSum>, (off, busy): (Option<OffSum>, u64), before: u64) {
    let unknown = |ns| OffSum { unknown: ns, ..OffSum::default() };
    if sum.is_some() || off.is_some() {
        sum.get_or_insert(unknown(before)).add(&off.unwrap_or(unknown(busy)));
    }
}

/// A single span that took long.
#[derive(Clone, Debug)]
pub(crate) struct SlowSpan {
    pub key: SpanKey,
    pub name: String,
    pub opened_by: Option<String>,
    pub fields: String,
    pub span: Span,
    pub wall: u64,
    pub how: How,
}

/// The sums over spans by their name and the name of the span that opened them, and the slowest spans.
#[derive(Debug, Default)]
pub(crate) struct AllSums {
    pub by_name: Vec<(String, Option<String>, Sums)>,
    pub slowest: Vec<SlowSpan>,
}

/// The model of the spans so far: those that are open, and the sums over those that have ended.
#[derive(Debug)]
pub(crate) struct KnownSpans {
    names: Vec<String>,
    numbers: HashMap<String, u32>,
    /// The count of spans that have begun so far.
    begun: u64,
    keeps_fields: bool,
    open: HashMap<SpanKey, Span>,
    /// For each thread, the ids of the spans that it is in, the innermost last, and the times at which it has entered
    /// them.
    inside: Vec<Vec<(u64, u64)>>,
    sums: BTreeMap<(u32, Option<u32>), Sums>,
    /// The maximum count of slowest spans that are kept. `slowest` has the wall time of each, and its number in the
    /// order in which spans ended.
    slow: usize,
    slowest: BinaryHeap<Reverse<(u64, usize)>>,
    kept: HashMap<usize, SlowSpan>,
    ended: usize,
}

impl KnownSpans {
    /// Makes an empty model of spans that keeps the `slow` slowest spans. It keeps the fields of spans if `slow` is not
    /// 0, or if `keeps_fields` is set.
    pub(crate) fn new(slow: usize, keeps_fields: bool) -> KnownSpans {
        KnownSpans {
            names: vec![OTHERS.to_owned()],
            numbers: HashMap::new(),
            begun: 0,
            keeps_fields: keeps_fields || slow > 0,
            open: HashMap::new(),
            inside: Vec::new(),
            sums: BTreeMap::new(),
            slow,
            slowest: BinaryHeap::new(),
            kept: HashMap::new(),
            ended: 0,
        }
    }

    fn name(&mut self, name: &str) -> u32 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        if self.names.len() > MAX_NAMES {
            return 0;
        }
        let number = u32::try_from(self.names.len()).unwrap_or(0);
        self.names.push(name.to_owned());
        self.numbers.insert(name.to_owned(), number);
        number
    }

    /// Returns the span with this key, if it is open.
    pub(crate) fn get(&self, key: SpanKey) -> Option<&Span> {
        self.open.get(&key)
    }

    /// Returns the name of a span, and the name of the span that opened it.
    pub(crate) fn names_of(&self, span: &Span) -> (&str, Option<&str>) {
        let text = |number: u32| &self.names[number as usize][..];
        (text(span.name), span.opened_by.map(text))
    }

    /// Returns whether a message with this text, escaped or not, may be about a span.
    pub(crate) fn may_take(text: &[u8]) -> bool {
        SpanMessage::has_level(text) && memchr::memmem::find(text, b": span=").is_some()
    }

    /// Begins a span, or adds values of its fields, if a message of a thread says so. Returns the span that the
    /// message begins or ends; `None` if there is none. If the message ends the span, the caller has to call
    /// [`KnownSpans::end`].
    pub(crate) fn message(
        &mut self,
        (process, thread): (usize, usize),
        text: &str,
        now: u64,
    ) -> Option<(SpanKey, SpanChange)> {
        let message = SpanMessage::parse(text)?;
        let key = (process, message.id);
        match message.subject {
            Subject::New(parent) => {
                self.begin(key, message.name, parent, (thread, now));
                self.add_fields(key, message.fields);
                if let Some(span) = self.open.get_mut(&key) {
                    span.first_fields = span.fields().len();
                }
                Some((key, SpanChange::Began))
            }
            Subject::Recorded => {
                self.add_fields(key, message.fields);
                None
            }
            Subject::FollowsFrom(_) => None,
            Subject::Closed => self.open.get(&key).map(|_| (key, SpanChange::Ended(How::Ended))),
        }
    }

    /// Begins a span that `parent` has opened.
    fn begin(&mut self, key: SpanKey, name: &str, parent: Option<u64>, (thread, now): (usize, u64)) {
        let name = self.name(name);
        let opened_by = parent.and_then(|parent| self.open.get(&(key.0, parent))).map(|parent| parent.name);
        self.begun += 1;
        let span = Span {
            number: self.begun,
            thread,
            name,
            opened_by,
            parent,
            began: now,
            entered: 0,
            since: 0,
            busy: 0,
            off: None,
            waited: 0,
            polls: 0,
            fields: None,
            first_fields: 0,
        };
        self.open.insert(key, span);
    }

    /// Adds the values of fields of a span.
    fn add_fields(&mut self, key: SpanKey, fields: &str) {
        if !self.keeps_fields || fields.is_empty() {
            return;
        }
        let Some(span) = self.open.get_mut(&key) else { return };
        let mut text = span.fields.take().map_or_else(String::new, |known| format!("{known} "));
        text.extend(fields.chars().take(MAX_FIELDS.saturating_sub(text.len())));
        span.fields = Some(text.into_boxed_str());
    }

    /// Takes note that a thread enters a span. If the span is not known, it begins now: it is opened by the innermost
    /// span that the thread is in, and has the name that `name` returns. Returns whether the span begins now, and
    /// whether no other thread was in the span.
    pub(crate) fn enter(
        &mut self,
        key: SpanKey,
        name: impl FnOnce() -> String,
        thread: usize,
        now: u64,
    ) -> (bool, bool) {
        if self.inside.len() <= thread {
            self.inside.resize_with(thread + 1, Vec::new);
        }
        let begins = !self.open.contains_key(&key);
        if begins {
            let parent = self.inside[thread].last().map(|(span, _)| *span);
            self.begin(key, &name(), parent, (thread, now));
        }
        self.inside[thread].push((key.1, now));
        let Some(span) = self.open.get_mut(&key) else { return (false, false) };
        span.entered += 1;
        if span.entered == 1 {
            span.since = now;
            span.polls += 1;
        }
        (begins, span.entered == 1)
    }

    /// Takes note that a thread leaves a span; `work` has the thread's waits for the tracer. Returns whether the last
    /// thread has now left the span.
    pub(crate) fn leave(&mut self, key: SpanKey, (thread, work): (usize, &WorkTime), now: u64) -> bool {
        let inside = self.inside.get_mut(thread);
        // Spans may be left in another order than they were entered in.
        let entered = inside.and_then(|inside| {
            inside.iter().rposition(|(span, _)| *span == key.1).map(|at| inside.remove(at).1)
        });
        let Some(span) = self.open.get_mut(&key).filter(|span| span.entered > 0) else { return false };
        span.entered -= 1;
        if span.entered == 0 {
            let waited = entered.map_or(0, |entered| work.waits_between(entered, now));
            span.waited += waited;
            let busy = now.saturating_sub(span.since).saturating_sub(waited);
            let off = entered.and_then(|entered| work.off_between(entered, now)).map(|off| off.within(busy));
            add_off(&mut span.off, (off, busy), span.busy);
            span.busy += busy;
        }
        span.entered == 0
    }

    /// Returns the way in which the leave record of `call` ends the call's span, if it does.
    pub(crate) fn ending(call: &CallInfo) -> Option<How> {
        match call.left {
            left if left.has(Flags::CANCELLED) => Some(How::Cancelled),
            left if left.has(Flags::ENDED) => Some(How::Ended),
            _ => None,
        }
    }

    /// Returns the spans that a thread is in, the innermost first.
    pub(crate) fn inside(&self, thread: usize) -> Vec<u64> {
        self.inside.get(thread).into_iter().flatten().rev().map(|(span, _)| *span).collect()
    }

    /// Returns the spans that are open, sorted by process and id.
    pub(crate) fn open_spans(&self) -> Vec<SpanKey> {
        let mut open: Vec<SpanKey> = self.open.keys().copied().collect();
        open.sort_unstable();
        open
    }

    /// Ends a span: it is no longer open, and counts in the sums.
    pub(crate) fn end(&mut self, key: SpanKey, now: u64, how: How) {
        let Some(mut span) = self.open.remove(&key) else { return };
        if span.entered > 0 {
            let busy = now.saturating_sub(span.since);
            add_off(&mut span.off, (None, busy), span.busy);
            span.busy += busy;
        }
        let wall = now.saturating_sub(span.began);
        let pair = (span.name, span.opened_by);
        let is_one_too_many = self.sums.len() >= MAX_NAMES && !self.sums.contains_key(&pair);
        let sums = self.sums.entry(if is_one_too_many { (0, None) } else { pair }).or_default();
        sums.cancelled += u64::from(how == How::Cancelled);
        sums.open += u64::from(how == How::Open);
        sums.polls += span.polls;
        sums.total = sums.total.saturating_add(wall);
        sums.wall.push(wall);
        sums.busy.push(span.busy);
        add_off(&mut sums.off, (span.off, span.busy), sums.busy_total);
        sums.busy_total = sums.busy_total.saturating_add(span.busy);
        sums.idle.push(span.idle(wall));
        self.ended += 1;
        if self.slow == 0 {
            return;
        }
        let is_slow = self.slowest.peek().is_none_or(|Reverse((least, _))| wall > *least);
        if self.slowest.len() < self.slow || is_slow {
            self.slowest.push(Reverse((wall, self.ended)));
            let text = |number: u32| self.names[number as usize].clone();
            let (name, opened_by) = (text(span.name), span.opened_by.map(text));
            let fields = span.fields.take().map_or_else(String::new, String::from);
            self.kept.insert(self.ended, SlowSpan { key, name, opened_by, fields, span, wall, how });
        }
        if self.slowest.len() > self.slow {
            if let Some(Reverse((_, number))) = self.slowest.pop() {
                self.kept.remove(&number);
            }
        }
    }

    /// Returns all sums over the spans that have ended.
    pub(crate) fn sums(&self) -> AllSums {
        let text = |number: u32| self.names[number as usize].clone();
        let by_name = self.sums.iter();
        let mut by_name: Vec<_> = by_name
            .map(|((name, opened_by), sums)| (text(*name), opened_by.map(text), sums.clone()))
            .collect();
        by_name.sort_by(|one, other| {
            other.2.total.cmp(&one.2.total).then_with(|| (&one.0, &one.1).cmp(&(&other.0, &other.1)))
        });
        let mut slowest: Vec<(usize, SlowSpan)> =
            self.kept.iter().map(|(number, slow)| (*number, slow.clone())).collect();
        slowest.sort_by_key(|(number, slow)| (Reverse(slow.wall), *number));
        AllSums { by_name, slowest: slowest.into_iter().map(|(_, slow)| slow).collect() }
    }
}
