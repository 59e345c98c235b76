//! The steps of one span: when it was busy and on which thread, for which locks it waited, and what happened while it
//! was idle.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::sync::Arc;

use trace_format::locks::{LockRecord, LockWait};

use crate::ui::messages::{Grouped, count};
use crate::ui::units::duration;
use crate::view::export::events::{Event, Inventory};
use crate::view::export::spans::chain::{Chains, Idle, Left};
use crate::view::known_spans::{SpanKey, add_off};
use crate::view::span_message::{SpanMessage, Subject};
use crate::view::thread_states::OffSum;

/// The maximum number of steps that are shown.
const MAX_STEPS: usize = 1000;
/// Two limits for the spans that were busy while the followed span was idle: the maximum number of spans whose busy
/// times are added up, and the maximum number of spans that are shown.
const OTHERS: (usize, usize) = (1000, 3);

/// A span that a thread is in.
#[derive(Debug)]
struct Inside {
    key: SpanKey,
    name: String,
    since: u64,
    /// The span that was left last, by any thread, before the thread entered this one.
    after: Option<Left>,
}

/// A wait of a thread for a lock or a condition that has not ended.
#[derive(Debug)]
struct Waiting {
    text: String,
    since: u64,
}

/// A step in the life of the followed span. Times are in nanoseconds of steady time.
#[derive(Debug)]
enum Step {
    Began,
    Fields(String),
    Busy { thread: usize, ns: u64, off: Option<OffSum> },
    Waited { text: String, ns: u64 },
    Idle { idle: Arc<Idle>, busy: Vec<(String, u64)> },
    Left,
    Closed,
}

/// The facts that are known about the followed span, the one whose steps are shown, in one process.
#[derive(Debug, Default)]
struct Followed {
    name: String,
    parent: Option<u64>,
    began: u64,
    ended: Option<u64>,
    /// The number of threads that are in the span.
    entered: u32,
    /// The steady time since when a thread is in the span, in nanoseconds; `idle_since` is the time since when no
    /// thread is in it.
    busy_since: u64,
    idle_since: u64,
    /// The other spans that were busy since `idle_since`: for each id of a span, its name and its busy time in
    /// nanoseconds.
    others: HashMap<u64, (String, u64)>,
    steps: Vec<(u64, Step)>,
    left_out: u64,
    /// The longest time in which the span was idle until a thread resumed it.
    longest: Option<Arc<Idle>>,
    /// The time for which at least one thread was in the span, in nanoseconds, without waits for the tracer; `waited`
    /// is the time of these waits.
    busy: u64,
    waited: u64,
    /// The part of `busy` for which the threads were off the processor; `None` if the trace has no states of threads.
    off: Option<OffSum>,
    polls: u64,
}

impl Followed {
    fn step(&mut self, at: u64, step: Step) {
        if self.steps.len() < MAX_STEPS { self.steps.push((at, step)) } else { self.left_out += 1 }
    }
}

/// The steps of the span with one id; if several processes have a span with this id, the steps of each.
#[derive(Debug)]
pub(super) struct Steps {
    id: u64,
    /// The beginning of the trace, from which shown times count, in nanoseconds of steady time.
    first: u64,
    followed: BTreeMap<usize, Followed>,
    /// The spans that each thread is in, the innermost last.
    inside: Vec<Vec<Inside>>,
    waiting: HashMap<usize, Waiting>,
    chains: Chains,
}

impl Steps {
    /// Makes an empty list of the steps of spans with the id `id`. Shown times count from `first`, in nanoseconds of
    /// steady time.
    pub(super) fn new(id: u64, first: u64) -> Steps {
        let (followed, inside) = (BTreeMap::new(), Vec::new());
        Steps { id, first, followed, inside, waiting: HashMap::new(), chains: Chains::default() }
    }

    /// Adds the step that a message about the followed span reports: its beginning, new values of fields, or its end.
    pub(super) fn message(&mut self, event: &Event<'_>, process: usize, message: &SpanMessage<'_>) {
        let (now, key) = (event.time, (process, message.id));
        match message.subject {
            Subject::New(_) => self.chains.begin(key, message.name, now),
            Subject::Closed => self.chains.end(key),
            Subject::Recorded | Subject::FollowsFrom(_) => {}
        }
        if message.id != self.id {
            return;
        }
        let followed = self.followed.entry(process).or_default();
        match message.subject {
            Subject::New(parent) => {
                let (name, began) = (message.name.to_owned(), now);
                *followed = Followed { name, parent, began, idle_since: now, ..Followed::default() };
                followed.step(now, Step::Began);
            }
            Subject::Closed => {
                followed.ended = Some(now);
                followed.step(now, Step::Closed);
            }
            Subject::Recorded | Subject::FollowsFrom(_) => {}
        }
        if !message.fields.is_empty() {
            followed.step(now, Step::Fields(message.fields.to_owned()));
        }
    }

    /// Takes note that a thread enters a span. If the span is the followed one, its idle time ends.
    pub(super) fn enter(&mut self, event: &Event<'_>, key: SpanKey, name: &str, inventory: &Inventory) {
        let now = event.time;
        if self.inside.len() <= event.thread {
            self.inside.resize_with(event.thread + 1, Vec::new);
        }
        self.chains.begin(key, name, now);
        let enclosing = self.inside[event.thread].last().map(|inside| (inside.since, inside.after));
        let (idle, after) = self.chains.enter(key, now, enclosing);
        if key.1 == self.id {
            self.followed.entry(key.0).or_insert_with(|| {
                let steps = vec![(now, Step::Began)];
                Followed { name: name.to_owned(), began: now, idle_since: now, steps, ..Followed::default() }
            });
            if let Some(idle) = idle {
                self.end_idling(key.0, idle, inventory);
            }
            if let Some(followed) = self.followed.get_mut(&key.0) {
                followed.entered += 1;
                if followed.entered == 1 {
                    (followed.busy_since, followed.polls) = (now, followed.polls + 1);
                }
            }
        }
        self.inside[event.thread].push(Inside { key, name: name.to_owned(), since: now, after });
    }

    /// Ends the time for which the followed span of a process was idle.
    fn end_idling(&mut self, process: usize, idle: Arc<Idle>, inventory: &Inventory) {
        let (since, now) = (idle.since, idle.since + idle.ns);
        let mut inside: Vec<(u64, String, u64)> = Vec::new();
        for (thread, spans) in self.inside.iter().enumerate() {
            let others = spans.iter().filter(|inside| inside.key.0 == process && inside.key.1 != self.id);
            inside.extend(others.map(|other| {
                let busy = inventory.registry.work(thread).between(other.since.max(since), now);
                (other.key.1, other.name.clone(), busy)
            }));
        }
        let Some(followed) = self.followed.get_mut(&process) else { return };
        for (id, name, busy) in inside {
            add_busy(followed, id, &name, busy);
        }
        let mut busy: Vec<(String, u64)> = std::mem::take(&mut followed.others).into_values().collect();
        busy.sort_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
        busy.retain(|(_, ns)| *ns > 0);
        busy.truncate(OTHERS.1);
        if followed.longest.as_ref().is_none_or(|longest| longest.ns < idle.ns) {
            followed.longest = Some(idle.clone());
        }
        followed.step(since, Step::Idle { idle, busy });
    }

    /// Takes note that a thread leaves a span, and that the span ends if `ends` is set.
    pub(super) fn leave(&mut self, event: &Event<'_>, key: SpanKey, ends: bool, inventory: &Inventory) {
        let now = event.time;
        // If the thread has not entered the span, another thread has.
        let of_thread = |thread: usize| {
            let at = self.inside.get(thread)?.iter().rposition(|inside| inside.key == key)?;
            Some((thread, at))
        };
        let is_busy = || inventory.spans.as_ref()?.get(key).filter(|span| span.is_busy());
        let on_another = || is_busy().and_then(|_| (0..self.inside.len()).find_map(of_thread));
        let found = of_thread(event.thread).or_else(on_another);
        let Some((thread, at)) = found else { return };
        let Inside { name, since, .. } = self.inside[thread].remove(at);
        self.chains.leave(key, now, ends);
        let work = inventory.registry.work(thread);
        let Some(followed) = self.followed.get_mut(&key.0) else { return };
        if key.1 != self.id {
            if followed.entered == 0 {
                add_busy(followed, key.1, &name, work.between(since.max(followed.idle_since), now));
            }
            return;
        }
        let ns = work.between(since, now);
        let off = work.off_between(since, now).map(|off| off.within(ns));
        followed.step(since, Step::Busy { thread, ns, off });
        followed.entered = followed.entered.saturating_sub(1);
        if followed.entered == 0 {
            let waited = work.waits_between(since, now);
            followed.waited += waited;
            let busy = now.saturating_sub(followed.busy_since).saturating_sub(waited);
            add_off(&mut followed.off, (off.map(|off| off.within(busy)), busy), followed.busy);
            followed.busy += busy;
            followed.idle_since = now;
        }
        if ends {
            followed.ended = Some(now);
            followed.step(now, Step::Left);
        }
    }

    /// Begins a wait of a thread whose innermost span is the followed one, or ends such a wait, as a lock record says.
    pub(super) fn lock(
        &mut self,
        event: &Event<'_>,
        process: usize,
        record: &LockRecord<'_>,
        inventory: &Inventory,
    ) {
        let is_in_it =
            |inside: &Vec<Inside>| inside.last().is_some_and(|inside| inside.key == (process, self.id));
        match record {
            LockRecord::Wait(wait) if self.inside.get(event.thread).is_some_and(is_in_it) => {
                let text = self.holder(process, wait, inventory);
                self.waiting.insert(event.thread, Waiting { text, since: event.time });
            }
            LockRecord::ConditionWait { id, at, .. }
                if self.inside.get(event.thread).is_some_and(is_in_it) =>
            {
                let text = format!("condition {id} at {at}");
                self.waiting.insert(event.thread, Waiting { text, since: event.time });
            }
            LockRecord::Got { ns, .. }
            | LockRecord::GaveUp { ns, .. }
            | LockRecord::Woken { ns, .. }
            | LockRecord::Timeout { ns, .. } => {
                let Some(Waiting { text, since }) = self.waiting.remove(&event.thread) else { return };
                if let Some(followed) = self.followed.get_mut(&process) {
                    followed.step(since, Step::Waited { text, ns: *ns });
                }
            }
            _ => {}
        }
    }

    /// Returns a text for a wait: the lock, the thread that holds it, and the innermost span that the holder is in.
    fn holder(&self, process: usize, wait: &LockWait<'_>, inventory: &Inventory) -> String {
        let mut text = format!("lock {} at {}", wait.id, wait.at);
        let thread = inventory
            .threads()
            .iter()
            .position(|thread| thread.process == process && thread.tid == wait.holder);
        match thread {
            Some(thread) => {
                let _ = write!(text, ", behind {}", inventory.threads()[thread].label());
                if let Some(inside) = self.inside.get(thread).and_then(|inside| inside.last()) {
                    let _ = write!(text, " in {} #{}", inside.name, inside.key.1);
                }
            }
            None if wait.holder > 0 => {
                let _ = write!(text, ", behind thread {}", wait.holder);
            }
            None => {}
        }
        text
    }

    /// Writes the steps of each span with the followed id.
    pub(super) fn write(&self, inventory: &Inventory, ends: &[u64], out: &mut Vec<u8>) {
        let mut text = String::new();
        if self.followed.is_empty() {
            let _ = writeln!(
                text,
                "no span has the number {}: tracemerge spans --slow 10 lists spans with numbers",
                self.id
            );
        }
        for (process, followed) in &self.followed {
            if !text.is_empty() {
                text.push('\n');
            }
            if inventory.processes().len() > 1 {
                let _ = write!(text, "process {}: ", inventory.processes()[*process].pid());
            }
            let end = ends.get(*process).copied().unwrap_or(0);
            self.write_span((*process, followed), inventory, end, &mut text);
        }
        out.extend_from_slice(text.as_bytes());
    }

    fn write_span(
        &self,
        (process, followed): (usize, &Followed),
        inventory: &Inventory,
        end: u64,
        text: &mut String,
    ) {
        let Followed { name, parent, began, ended, entered, busy, polls, .. } = followed;
        let wall = ended.unwrap_or(end).saturating_sub(*began);
        let still_busy = if *entered > 0 { end.saturating_sub(followed.busy_since) } else { 0 };
        let mut off = followed.off;
        if still_busy > 0 {
            let is_in_it =
                |inside: &Vec<Inside>| inside.iter().any(|inside| inside.key == (process, self.id));
            let thread = self.inside.iter().position(is_in_it);
            let work = thread.map(|thread| inventory.registry.work(thread));
            let still_off = work.and_then(|work| work.off_between(followed.busy_since, end));
            add_off(&mut off, (still_off.map(|off| off.within(still_busy)), still_busy), *busy);
        }
        let busy = busy + still_busy;
        let _ = write!(text, "{name} #{}", self.id);
        if let Some(parent) = parent {
            let _ = write!(text, ", opened by #{parent}");
        }
        let state = if ended.is_some() { "" } else { ", has not ended" };
        let idle = duration(wall.saturating_sub(busy).saturating_sub(followed.waited));
        let _ = writeln!(
            text,
            ": {}, busy {}{} in {}, idle {idle}{state}",
            duration(wall),
            duration(busy),
            off.map_or_else(String::new, |off| {
                let parts = off.in_words(1);
                let comma = if parts.is_empty() { "" } else { ", " };
                format!(" (cpu {}{comma}{parts})", duration(busy.saturating_sub(off.all())))
            }),
            count(*polls, "poll"),
        );
        for (at, step) in &followed.steps {
            let _ = write!(text, "{}  ", self.offset(*at));
            let label = |thread: usize| inventory.threads()[thread].label();
            let _ = match step {
                Step::Began => writeln!(text, "{:>9}  begins", ""),
                Step::Fields(fields) => writeln!(text, "{:>9}  {fields}", ""),
                Step::Busy { thread, ns, off } => {
                    let off = off.map_or_else(String::new, |off| off.in_words(1));
                    let off = if off.is_empty() { off } else { format!("  [{off}]") };
                    writeln!(text, "{:>9}  busy on {}{off}", duration(*ns), label(*thread))
                }
                Step::Waited { text: lock, ns } => {
                    writeln!(text, "{:>9}    waited for {lock}", duration(*ns))
                }
                Step::Idle { idle, busy } => {
                    let mut line = format!("{:>9}  idle", duration(idle.ns));
                    if let Some((name, before)) = &idle.after {
                        let _ = write!(
                            line,
                            "; the span was resumed {} after a thread left {name}",
                            duration(*before)
                        );
                    }
                    let busy: Vec<String> =
                        busy.iter().map(|(name, ns)| format!("{name} {}", duration(*ns))).collect();
                    if !busy.is_empty() {
                        let _ = write!(line, "; meanwhile busy: {}", busy.join(", "));
                    }
                    writeln!(text, "{line}")
                }
                Step::Left => writeln!(text, "{:>9}  ends", ""),
                Step::Closed => writeln!(text, "{:>9}  is closed", ""),
            };
        }
        if ended.is_none() && *entered == 0 {
            let _ = writeln!(
                text,
                "{:>16}  {:>9}  idle until the end",
                "",
                duration(end.saturating_sub(followed.idle_since))
            );
        }
        if followed.left_out > 0 {
            let _ = writeln!(text, "… and {} more steps", Grouped(followed.left_out));
        }
        let idle_at_end =
            if ended.is_none() && *entered == 0 { end.saturating_sub(followed.idle_since) } else { 0 };
        let longest = followed.longest.as_ref().filter(|longest| longest.ns >= idle_at_end);
        let chain = longest.map_or_else(Vec::new, |longest| longest.chain(duration));
        if !chain.is_empty() {
            let _ = writeln!(
                text,
                "the longest idle time, and what the spans waited for, as far as the records say:"
            );
        }
        for (time, line) in chain {
            let (at, ns) = time.map_or_else(Default::default, |(at, ns)| (self.offset(at), duration(ns)));
            let _ = writeln!(text, "{at:>16}  {ns:>9}  {line}");
        }
    }

    /// Returns a time in nanoseconds of steady time as seconds since the beginning of the trace.
    fn offset(&self, at: u64) -> String {
        let offset = at.saturating_sub(self.first);
        format!("{:>6}.{:09}", offset / 1_000_000_000, offset % 1_000_000_000)
    }
}

/// Adds `ns` nanoseconds to the busy time of another span, one that was busy while the followed span was idle.
fn add_busy(followed: &mut Followed, id: u64, name: &str, ns: u64) {
    if followed.others.len() < OTHERS.0 || followed.others.contains_key(&id) {
        followed.others.entry(id).or_insert_with(|| (format!("{name} #{id}"), 0)).1 += ns;
    }
}
