//! The times at which threads were off the processor, and the reasons, as far as the kernel has reported them
//! (`TRACER_SCHED=1`).
//!
//! The states of a run are in a file of their own. A view that shows states reads this file completely before the
//! other files, even if the view is limited to a part of the time or to some threads. The records of this file are
//! not passed to the view as records of the trace.

use std::collections::HashMap;
use std::sync::Arc;

use trace_format::line::{Kind, Line, Ticks};
use trace_format::meta::{Meta, Run};
use trace_format::states::{StateChange, THREAD_NAME, ThreadState, ThreadTotals, refusal};

use crate::file::lines::{lines_of, strip_line_feed};
use crate::input::findings::Findings;
use crate::input::inputs::{Inputs, Origin};
use crate::input::slice::{Slice, Slicer, TickPeriod};
use crate::input::source::{Content, SortedRange, Source};
use crate::ui::messages::{count, shown_name};
use crate::ui::table::Alignment::{Left, Right};
use crate::ui::table::Columns;
use crate::ui::units::duration;
use crate::view::thread_labels::{Label, thread_labels};

/// The durations for which a thread was off the processor, in nanoseconds, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OffSum {
    /// The time for which the thread waited for something, including the time until it got a processor again.
    pub waiting: u64,
    /// The time for which the thread could have gone on, but another thread had the processor.
    pub preempted: u64,
    /// The time for which it is unknown whether the thread was on a processor: the kernel has lost records, or has
    /// none of this thread.
    pub unknown: u64,
}

impl OffSum {
    /// Returns the sum of the three durations.
    #[must_use]
    pub(crate) fn all(&self) -> u64 {
        self.waiting.saturating_add(self.preempted).saturating_add(self.unknown)
    }

    /// Adds the durations of `other`.
    pub(crate) fn add(&mut self, other: &OffSum) {
        self.waiting = self.waiting.saturating_add(other.waiting);
        self.preempted = self.preempted.saturating_add(other.preempted);
        self.unknown = self.unknown.saturating_add(other.unknown);
    }

    /// Subtracts the durations of `other`, which are parts of these durations, and returns the rest.
    #[must_use]
    pub(crate) fn without(&self, other: &OffSum) -> OffSum {
        OffSum {
            waiting: self.waiting.saturating_sub(other.waiting),
            preempted: self.preempted.saturating_sub(other.preempted),
            unknown: self.unknown.saturating_sub(other.unknown),
        }
    }

    /// Returns the durations, shortened so that their sum is at most `time`. They are meant to be parts of `time`, but
    /// may exceed it, because the clock of the kernel and the clock of the records differ a little.
    #[must_use]
    pub(crate) fn within(&self, time: u64) -> OffSum {
        let waiting = self.waiting.min(time);
        let preempted = self.preempted.min(time - waiting);
        OffSum { waiting, preempted, unknown: self.unknown.min(time - waiting - preempted) }
    }

    /// Returns a text for people with each duration of at least `least` nanoseconds, as `waiting 9.80 ms, preempted
    /// 1.20 ms`; empty if there is none.
    #[must_use]
    pub(crate) fn in_words(&self, least: u64) -> String {
        let parts = [("waiting", self.waiting), ("preempted", self.preempted), ("unknown", self.unknown)];
        let parts = parts.into_iter().filter(|(_, ns)| *ns >= least.max(1));
        parts.map(|(what, ns)| format!("{what} {}", duration(ns))).collect::<Vec<_>>().join(", ")
    }

    fn of(why: Off, ns: u64) -> OffSum {
        let sum = OffSum::default();
        match why {
            Off::Waiting => OffSum { waiting: ns, ..sum },
            Off::Preempted => OffSum { preempted: ns, ..sum },
            Off::Unknown => OffSum { unknown: ns, ..sum },
        }
    }
}

/// The reason why a thread is not, or may not be, on a processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Off {
    /// The thread left the processor to wait for something.
    Waiting,
    /// The kernel took the thread off the processor.
    Preempted,
    /// The kernel has lost records.
    Unknown,
}

impl Off {
    /// Returns the name of the reason for people.
    #[must_use]
    pub(crate) fn name(self) -> &'static str {
        match self {
            Off::Waiting => "waiting",
            Off::Preempted => "preempted",
            Off::Unknown => "unknown",
        }
    }
}

/// A period for which a thread was off the processor, in nanoseconds of steady time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OffTime {
    /// The time at which the period began.
    pub begin: u64,
    /// The time at which the period ended; `u64::MAX` if it has not ended.
    pub end: u64,
    /// The reason why the thread was off the processor.
    pub why: Off,
    /// The sum of the durations of all earlier periods of the thread.
    before: OffSum,
}

/// The periods for which a thread was off the processor, in the order of time. They do not overlap.
#[derive(Clone, Debug, Default)]
pub(crate) struct OffTimes(Vec<OffTime>);

impl OffTimes {
    /// Appends a period off the processor. Cuts off the part that overlaps earlier periods.
    pub(crate) fn push(&mut self, begin: u64, end: u64, why: Off) {
        let (begin, before) = match self.0.last() {
            Some(last) => (begin.max(last.end), last.until(last.end)),
            None => (begin, OffSum::default()),
        };
        if begin < end {
            self.0.push(OffTime { begin, end, why, before });
        }
    }

    /// Returns the durations for which the thread was off the processor between two times.
    #[must_use]
    pub(crate) fn between(&self, from: u64, until: u64) -> OffSum {
        self.until(until.max(from)).without(&self.until(from))
    }

    /// Returns the durations for which the thread was off the processor before a time.
    fn until(&self, time: u64) -> OffSum {
        self.begun_before(time).checked_sub(1).map_or_else(OffSum::default, |last| self.0[last].until(time))
    }

    /// Returns the periods off the processor, in order.
    #[must_use]
    pub(crate) fn times(&self) -> &[OffTime] {
        &self.0
    }

    /// Returns the count of periods that have begun before `time`.
    #[must_use]
    pub(crate) fn begun_before(&self, time: u64) -> usize {
        self.0.partition_point(|off| off.begin < time)
    }

    /// Returns the periods off the processor that overlap with the time between `from` and `until`, in order.
    pub(crate) fn within(&self, from: u64, until: u64) -> impl Iterator<Item = &OffTime> {
        let first = self.0.partition_point(|off| off.end <= from);
        self.0[first..].iter().take_while(move |off| off.begin < until)
    }
}

impl OffTime {
    /// Returns the durations for which the thread was off the processor before `time`: in all earlier periods, and in
    /// this one.
    fn until(&self, time: u64) -> OffSum {
        let mut sum = self.before;
        sum.add(&OffSum::of(self.why, time.min(self.end).saturating_sub(self.begin)));
        sum
    }
}

/// A thread whose states are being read.
#[derive(Debug)]
struct Reading {
    off: OffTimes,
    /// The last state that was read of the thread: its time, and its number among the states of the process.
    last: (u64, u64),
    /// The reason why the thread is off the processor since its last state; `None` if it is on a processor.
    why: Option<Off>,
    /// The processor on which the thread's last state was recorded.
    cpu: u32,
}

/// The last gaps in the states of a process, places where the kernel has lost states: `last` over all processors, and
/// `of_cpu` for each processor. A gap is given by its number among the states of the process.
#[derive(Debug, Default)]
struct Gaps {
    last: Option<u64>,
    of_cpu: HashMap<u32, u64>,
}

impl Gaps {
    /// Returns whether states of a thread may have been lost since its last state. For a thread that was on a
    /// processor, only gaps of this processor matter; for a thread that was off, gaps of any processor, because it may
    /// have come back on any.
    fn concern(&self, thread: &Reading) -> bool {
        let gap = if thread.why.is_some() { self.last } else { self.of_cpu.get(&thread.cpu).copied() };
        gap.is_some_and(|gap| gap > thread.last.1)
    }
}

impl Reading {
    /// Adds the period from the thread's last state until `now` to its periods off the processor, unless the thread was
    /// certainly on a processor.
    fn continue_until(&mut self, now: u64, gaps: &Gaps) {
        let why = if gaps.concern(self) { Some(Off::Unknown) } else { self.why };
        if let Some(why) = why {
            self.off.push(self.last.0, now, why);
        }
    }
}

/// A process whose states are being read.
#[derive(Debug, Default)]
struct ReadingProcess {
    threads: HashMap<u64, Reading>,
    gaps: Gaps,
    /// The count of the process's states so far.
    number: u64,
}

impl ReadingProcess {
    fn take(&mut self, state: &ThreadState, now: u64) {
        self.number += 1;
        if state.change == StateChange::Gap {
            self.gaps.last = Some(self.number);
            self.gaps.of_cpu.insert(state.cpu, self.number);
            return;
        }
        let first = Reading { off: OffTimes::default(), last: (now, self.number), why: None, cpu: state.cpu };
        let thread = self.threads.entry(state.thread).or_insert(first);
        thread.continue_until(now, &self.gaps);
        (thread.last, thread.cpu) = ((now, self.number), state.cpu);
        thread.why = match state.change {
            StateChange::Left => Some(Off::Waiting),
            StateChange::Preempted => Some(Off::Preempted),
            _ => None,
        };
    }

    /// Returns the id of each thread with its periods off the processor. A period whose end was not recorded ends at
    /// `u64::MAX`.
    fn end(self) -> impl Iterator<Item = (u64, OffTimes)> {
        self.threads.into_iter().map(move |(tid, mut thread)| {
            thread.continue_until(u64::MAX, &self.gaps);
            (tid, thread.off)
        })
    }
}

/// The key of a thread: its process id, the id of the run, and the thread's own id.
type ThreadKey = (u32, u32, u64);

/// Begins, ends and reasons of periods off the processor, for tests.
#[cfg(test)]
pub(crate) type MadeTimes<'a> = &'a [(u64, u64, Off)];

/// The states of the threads of all runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct ThreadStates {
    threads: HashMap<ThreadKey, Arc<OffTimes>>,
    /// The maximum error of the kernel's times, compared with the times of the records, in nanoseconds.
    error: u64,
    /// The number of records that the kernel has lost.
    lost: u64,
    /// The reason for which the kernel has refused to report states, if it has.
    refused: Option<String>,
    /// The totals of threads, with the threads' labels. The kernel counts totals even if it refuses to report states.
    totals: Vec<(String, ThreadTotals)>,
}

/// The names of the tracer's own threads.
const OWN_THREADS: [&[u8]; 2] = [b"tracer-flusher", b"tracer-relay"];

/// Returns whether a source has the states of a run's threads: its thread has the name that stands for states, and
/// has made no records itself. The names of the inputs' threads must be known.
#[must_use]
pub(crate) fn has_states(origin: &Origin, source: &Source) -> bool {
    if origin.is_log || origin.name != THREAD_NAME {
        return false;
    }
    let mut records = None;
    source.each_meta(&mut |payload| {
        if let Some(Meta::End(end)) = Meta::parse(payload) {
            records = Some(end.records);
        }
    });
    records == Some(0)
}

impl ThreadStates {
    /// Reads the states of all inputs, whose clocks and names of threads must be known.
    #[must_use]
    pub(crate) fn read(inputs: &Inputs) -> ThreadStates {
        let mut states = ThreadStates::default();
        for (origin, source) in inputs.files().filter(|(origin, source)| has_states(origin, source)) {
            let Some(run) = &origin.run else { continue };
            let totals = states.read_run(run, origin, source);
            if totals.is_empty() {
                continue;
            }
            let labels = thread_labels(inputs);
            let traces: Vec<_> = inputs.origins.iter().zip(&labels).collect();
            let own = traces.iter().find(|(of, _)| std::ptr::eq(*of, origin));
            let own = own.map_or(const { &Label::none() }, |(_, label)| *label);
            states.totals.extend(with_labels(totals, (run, own), &traces));
        }
        states
    }

    /// Reads the states of a run. Returns the totals of the run's threads, which the source has if the kernel has
    /// refused to report states.
    fn read_run(&mut self, run: &Run, origin: &Origin, source: &Source) -> Vec<ThreadTotals> {
        let mut totals = Vec::new();
        let mut clock = origin.clock.steady_reader();
        let mut process = ReadingProcess::default();
        each_line(source, &mut |line| match line.kind {
            Kind::State => {
                let Some(state) = ThreadState::parse(line.payload) else { return };
                process.take(&state, clock.at(line.key.ticks));
                self.lost = self.lost.saturating_add(state.lost.into());
            }
            Kind::Meta => {
                if let Some(why) = refusal(line.payload) {
                    let why = String::from_utf8_lossy(&why).into_owned();
                    self.refused.get_or_insert(why);
                }
                totals.extend(ThreadTotals::parse(line.payload));
                if let Some(Meta::Clock { ticks, system, .. }) = Meta::parse(line.payload) {
                    // The clocks were read within a period whose middle is at these ticks.
                    let half = system.within.unwrap_or(0).div_ceil(2);
                    let error = clock.at(Ticks(ticks.0.saturating_add(half))).saturating_sub(clock.at(ticks));
                    self.error = self.error.max(error);
                }
            }
            _ => {}
        });
        let key = |tid| (run.pid, run.id, tid);
        self.threads.extend(process.end().map(|(tid, off)| (key(tid), Arc::new(off))));
        totals
    }

    /// Makes the states of threads of a run from the begins, ends and reasons of their periods off the processor.
    #[cfg(test)]
    pub(crate) fn made(run: &Run, threads: &[(u64, MadeTimes<'_>)]) -> ThreadStates {
        let mut states = ThreadStates::default();
        for (tid, times) in threads {
            let mut off = OffTimes::default();
            times.iter().for_each(|(begin, end, why)| off.push(*begin, *end, *why));
            states.threads.insert((run.pid, run.id, *tid), Arc::new(off));
        }
        states
    }

    /// Returns whether there are no states of any thread.
    #[must_use]
    pub(crate) fn is_empty(&self) -> bool {
        self.threads.is_empty()
    }

    /// Returns the periods for which a thread was off the processor; `None` if the kernel has reported nothing about
    /// this thread.
    #[must_use]
    pub(crate) fn of(&self, run: &Run, tid: u64) -> Option<Arc<OffTimes>> {
        self.threads.get(&(run.pid, run.id, tid)).cloned()
    }

    /// Returns the reason for which the kernel has refused to report any states, if it has.
    #[must_use]
    pub(crate) fn refused(&self) -> Option<String> {
        self.refused.as_ref().filter(|_| self.is_empty()).map(|why| shown_name(why.as_bytes()))
    }

    /// Returns the totals of threads, with the threads' labels, if the kernel has reported no states.
    #[must_use]
    pub(crate) fn totals(&self) -> &[(String, ThreadTotals)] {
        if self.is_empty() { &self.totals } else { &[] }
    }

    /// Returns a line for people about the accuracy of the states and about missing states, or about the reason for
    /// which there are none; `None` if there is nothing to say.
    #[must_use]
    pub(crate) fn in_words(&self) -> Option<String> {
        let lost = match self.lost {
            0 => String::new(),
            lost => {
                format!("; the kernel has lost {}, so states near these are unknown", count(lost, "switch"))
            }
        };
        if let Some(why) = self.refused() {
            return Some(format!("the kernel has recorded no states of threads: {why}"));
        }
        let error = duration(self.error);
        (!self.is_empty())
            .then(|| format!("times off the processor are those of the kernel, \u{b1}{error}{lost}"))
    }
}

/// Returns a table of at most `most` threads with their labels and the kernel's totals.
#[must_use]
pub(crate) fn table_of_totals(totals: &[(String, ThreadTotals)], most: usize) -> String {
    let mut columns = Columns::new(&[("ran", Right), ("ready", Right), ("blocked", Right), ("thread", Left)]);
    for (label, ThreadTotals { ran, ready, blocked, .. }) in totals.iter().take(most) {
        let [ran, ready, blocked] = [ran, ready, blocked].map(|ns| duration(*ns));
        columns.row([ran, ready, blocked, label.clone()]);
    }
    let mut text = columns.text("  ");
    let more = totals.len().saturating_sub(most) as u64;
    if more > 0 {
        text.push_str(&format!("  and {}\n", count(more, "more thread")));
    }
    text
}

/// Adds the labels of the threads to the totals of a run's threads, and leaves out the tracer's own threads. `own` is
/// the label of the trace that has the totals.
fn with_labels(
    totals: Vec<ThreadTotals>,
    (run, own): (&Run, &Label),
    traces: &[(&Origin, &Label)],
) -> impl Iterator<Item = (String, ThreadTotals)> {
    let totals = totals.into_iter().filter(|thread| !OWN_THREADS.contains(&&*thread.name));
    totals.map(move |thread| {
        let is_same = |origin: &Origin| {
            let of = origin.run.as_ref().is_some_and(|of| (of.pid, of.id) == (run.pid, run.id));
            of && origin.tid == thread.thread && !origin.is_log
        };
        let label = match traces.iter().find(|(origin, _)| is_same(origin)) {
            Some((_, label)) => label.full().to_owned(),
            None if thread.thread == u64::from(run.pid) => own.with_own("main").full().to_owned(),
            None => {
                let name = String::from_utf8_lossy(&thread.name);
                own.with_own(&format!("{name} {}", thread.thread)).full().to_owned()
            }
        };
        (label, thread)
    })
}

/// Calls `take` with each line of a source.
fn each_line(source: &Source, take: &mut dyn FnMut(Line<'_>)) {
    let mut each = |lines: &[u8]| {
        let parsed = lines_of(lines).filter_map(|line| Line::parse(strip_line_feed(line)).ok());
        parsed.for_each(&mut *take);
    };
    let render = match source.content() {
        Content::Text(bytes) => return each(bytes),
        Content::Rendered(render) => render,
    };
    let ranges = [SortedRange { source: 0, start: 0, end: 0 }];
    let sources = std::slice::from_ref(source);
    let mut lines = Vec::new();
    for slice in Slicer::new(sources, &ranges, TickPeriod::ALL, &mut Findings::default()) {
        let Slice { period: TickPeriod { since, until }, .. } = slice;
        lines.clear();
        render.lines(since, until, &mut lines, &mut |_, _| {});
        each(&lines);
    }
}

#[cfg(test)]
mod tests {
    use trace_format::meta::ClockKind;

    use super::*;
    use crate::time::clocks::TickClock;
    use StateChange::{Ended, Gap, Left, On, Preempted, Started};

    /// Returns the periods for which thread 7 was off the processor: begin, end and reason.
    fn off(states: &[(u64, StateChange, u64, u32)]) -> Vec<(u64, u64, Off)> {
        let mut process = ReadingProcess::default();
        for &(now, change, thread, cpu) in states {
            let lost = u32::from(change == Gap);
            process.take(&ThreadState { thread, change, cpu, raw: now, lost }, now);
        }
        let found: HashMap<u64, OffTimes> = process.end().collect();
        let times = found.get(&7).map_or(&[][..], OffTimes::times);
        times.iter().map(|off| (off.begin, off.end, off.why)).collect()
    }

    #[test]
    fn a_thread_is_off_from_its_leaving_until_it_is_on_again() {
        let found = off(&[
            (10, Started, 7, 0),
            (15, On, 7, 0),
            (20, Left, 7, 0),
            (21, Left, 8, 0),
            (30, On, 7, 1),
            (40, Preempted, 7, 1),
            (45, On, 7, 0),
            (60, Ended, 7, 0),
        ]);
        assert_eq!(found, [(20, 30, Off::Waiting), (40, 45, Off::Preempted)]);
    }

    #[test]
    fn a_thread_that_was_off_at_the_end_has_not_come_back() {
        assert_eq!(off(&[(20, Left, 7, 0), (25, On, 8, 0)]), [(20, u64::MAX, Off::Waiting)]);
    }

    #[test]
    fn a_gap_makes_the_state_unknown_until_the_next_one() {
        // The gap does not concern the thread that is on the other processor.
        let on = [(5, On, 7, 1), (10, Gap, 0, 0), (20, Left, 7, 1), (30, On, 7, 1)];
        assert_eq!(off(&on), [(20, 30, Off::Waiting)]);
        let on_the_same = [(5, On, 7, 0), (10, Gap, 0, 0), (20, Left, 7, 0), (30, On, 7, 1)];
        assert_eq!(off(&on_the_same), [(5, 20, Off::Unknown), (20, 30, Off::Waiting)]);
        // A thread that was off may have come back on any processor.
        let was_off = [(5, Left, 7, 1), (10, Gap, 0, 0), (20, On, 7, 1)];
        assert_eq!(off(&was_off), [(5, 20, Off::Unknown)]);
        let to_the_end = [(5, Left, 7, 1), (10, Gap, 0, 0)];
        assert_eq!(off(&to_the_end), [(5, u64::MAX, Off::Unknown)]);
    }

    #[test]
    fn durations_off_the_processor_never_exceed_the_time_of_a_call() {
        let sum = OffSum { waiting: 70, preempted: 50, unknown: 9 };
        assert_eq!(sum.within(1000), sum);
        assert_eq!(sum.within(100), OffSum { waiting: 70, preempted: 30, unknown: 0 });
        assert_eq!(sum.within(60), OffSum { waiting: 60, preempted: 0, unknown: 0 });
    }

    #[test]
    fn a_thread_of_the_program_may_have_the_name_of_a_file_of_states() {
        let clock = Arc::new(TickClock::of(ClockKind::Ordered, []));
        let origin = |name: &[u8]| Origin {
            run: None,
            tid: 9,
            name: name.to_vec(),
            clock: clock.clone(),
            is_shown: true,
            is_log: false,
            has_sites: false,
            waited: None,
            foreign: None,
        };
        let source = |records: u64| {
            let line = |ticks: u64, text: &str| format!("{ticks:016x}-00000009 {text}\n");
            let end = line(2, &format!("# end records={records} lost=0 reason=thread"));
            Source::of("app.trace.9", (line(1, "= on thread=9 cpu=0 raw=1") + &end).as_bytes())
        };
        assert!(has_states(&origin(THREAD_NAME), &source(0)));
        assert!(!has_states(&origin(THREAD_NAME), &source(3)));
        assert!(!has_states(&origin(b"worker"), &source(0)));
    }
}
