//! A registry of the threads and processes of the records that a view takes. It knows to which of them an origin
//! belongs, and their labels, clocks, waits for the tracer and last signs of life.
//!
//! Threads and processes have indices, in the order in which their first records come. A thread may have several
//! origins, its files and its ring.

use std::collections::HashMap;
use std::sync::Arc;

use trace_format::line::Ticks;
use trace_format::meta::{End, Meta, Run};
use trace_format::wait::Wait;

use crate::input::align::Scale;
use crate::input::inputs::Origin;
use crate::time::clocks::{ClockReader, TickClock};
use crate::ui::messages::Grouped;
use crate::ui::units::duration;
use crate::view::function_names::{SharedNames, lock};
use crate::view::thread_labels::{Label, LabelsInTime, LaterLabels, label_of_name};
use crate::view::thread_states::ThreadStates;
use crate::view::work_time::{LongestWait, WaitSum, WorkTime};

/// The nanoseconds of a second.
const SECOND: u64 = 1_000_000_000;

/// The maximum time, in nanoseconds, by which the period between the begin and the end of a recorded wait may exceed
/// its measured duration. If it exceeds it by more, the record sums up several waits. In files of earlier tracers, the
/// difference was below one microsecond for a single wait on an idle machine; later tracers measure a wait around its
/// ticks.
const WAIT_MEASUREMENT_NS: u64 = 20_000;

/// The indices of the thread and the process to which an origin belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ThreadIds {
    /// The index of the thread.
    pub thread: usize,
    /// The index of the process.
    pub process: usize,
    /// The index of the process in `FunctionNames`, which looks up names of functions.
    pub named: usize,
}

/// A traced process, as views show it: its run, its name, its clock and its last sign of life.
#[derive(Clone, Debug)]
pub(crate) struct Process {
    /// The run of the process, if known.
    pub run: Option<Run>,
    /// The executable's file name; empty if the run is not known.
    pub name: String,
    /// The clock of the process's threads.
    clock: Arc<TickClock>,
    /// The ticks of the last sign of life of the process.
    last: Ticks,
    /// The end of the period that is shown, if the user has chosen one.
    until: Option<Ticks>,
    /// The steady time of the last line in all files of the process, if it is known before all records were read.
    #[cfg_attr(not(feature = "html"), expect(dead_code, reason = "only pages ask for it"))]
    end: Option<u64>,
}

impl Process {
    /// Returns the process id; 0 if it is not known.
    #[must_use]
    pub(crate) fn pid(&self) -> u32 {
        self.run.as_ref().map_or(0, |run| run.pid)
    }
}

/// A traced thread, as views show it: its process, its id, its label, its clock and its waits for the tracer.
#[derive(Clone, Debug)]
pub(crate) struct Thread {
    /// The index of the thread's process.
    pub process: usize,
    /// The id that the operating system has given to the thread.
    pub tid: u64,
    /// Whether this stands for a log of another program and not for a thread.
    is_log: bool,
    /// The label for people, by the current name of the thread.
    label: Arc<Label>,
    /// The label by the thread's last name, as far as it is known without reading all records.
    known_label: Arc<Label>,
    /// The name by which the thread has `known_label`; `None` if it has no name of its own.
    known_name: Option<String>,
    /// The clock of the thread's ticks, which is common to the threads of one boot.
    pub clock: Arc<TickClock>,
    /// The conversion from the clock of the thread's machine, if the thread's ticks were converted to those of
    /// another machine.
    pub foreign: Option<Scale>,
    reader: ClockReader,
    work: WorkTime,
    /// All later labels of the thread, if they are known from the beginning, and the number of them that it has already
    /// had.
    later_labels: Option<(LaterLabels, usize)>,
}

/// The kind of time that a view shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum TimeScale {
    /// Steady time, for durations and timelines: setting the wall clock does not change it.
    #[default]
    Steady,
    /// The wall clock, for times of day.
    Wall,
}

impl TimeScale {
    fn reader(self, clock: &Arc<TickClock>) -> ClockReader {
        match self {
            TimeScale::Steady => clock.steady_reader(),
            TimeScale::Wall => clock.wall_reader(),
        }
    }
}

impl Thread {
    /// Returns the label for people, which no other thread has.
    #[must_use]
    pub(crate) fn full_label(&self) -> &str {
        self.label.full()
    }

    /// Returns whether a record with these ticks may be older than the ticks say; see [`Origin::may_be_older`].
    #[must_use]
    pub(crate) const fn may_be_older(&self, ticks: Ticks) -> bool {
        self.is_log && ticks.0 == 0
    }

    /// Returns the label without its process.
    #[must_use]
    pub(crate) fn label(&self) -> &str {
        self.label.within_process()
    }
}

/// The threads and processes of the records so far.
#[derive(Clone, Debug)]
pub(crate) struct Threads {
    names: SharedNames,
    /// The label of the thread of each origin, by the index of the origin, as far as known.
    labels: Arc<Vec<Label>>,
    /// All labels that the thread of each origin has one after another, by the index of the origin; `None` if they are
    /// not known from the beginning.
    in_time: Option<Arc<Vec<LabelsInTime>>>,
    /// The end of the shown period in ticks, by the index of the origin; `None` or missing if the user has chosen none.
    untils: Arc<Vec<Option<Ticks>>>,
    /// The steady time of the last line of the process of each origin; empty if that is not known beforehand.
    ends: Arc<Vec<u64>>,
    /// The times at which threads were off the processor.
    states: Arc<ThreadStates>,
    /// For each origin, the indices of its thread and process; `None` if no record of the origin was seen yet.
    of_origin: Vec<Option<ThreadIds>>,
    /// The index of each thread. The key is the index of its process, its thread id, and the name of the log if it is a
    /// log.
    by_id: HashMap<(usize, u64, Option<Vec<u8>>), usize>,
    /// The labels that threads have got by being renamed, each with the index of the first thread that got it.
    renamed: HashMap<String, usize>,
    /// The index of each process in this registry, by its index in `names`.
    of_named: Vec<Option<usize>>,
    threads: Vec<Thread>,
    processes: Vec<Process>,
    waits: WaitSum,
    /// The steady time from which offsets count, in nanoseconds.
    first: u64,
    scale: TimeScale,
}

impl Threads {
    /// Makes a registry without threads, with `labels` for the threads of all origins.
    #[must_use]
    pub(crate) fn new(names: SharedNames, labels: Vec<Label>) -> Threads {
        Threads {
            names,
            labels: Arc::new(labels),
            in_time: None,
            untils: Arc::default(),
            ends: Arc::default(),
            states: Arc::default(),
            of_origin: Vec::new(),
            by_id: HashMap::new(),
            renamed: HashMap::new(),
            of_named: Vec::new(),
            threads: Vec::new(),
            processes: Vec::new(),
            waits: WaitSum::default(),
            first: 0,
            scale: TimeScale::default(),
        }
    }

    /// Returns a new registry without threads, with the same settings and labels as this one.
    #[must_use]
    pub(crate) fn anew(&self) -> Threads {
        let (labels, untils, states) = (self.labels.clone(), self.untils.clone(), self.states.clone());
        let (first, scale, in_time, ends) = (self.first, self.scale, self.in_time.clone(), self.ends.clone());
        Threads {
            ends,
            labels,
            in_time,
            untils,
            states,
            first,
            scale,
            ..Threads::new(self.names.clone(), Vec::new())
        }
    }

    /// Chooses the kind of time that [`Threads::time`] returns.
    #[must_use]
    pub(crate) fn by(self, scale: TimeScale) -> Threads {
        Threads { scale, ..self }
    }

    /// Sets the time from which offsets count, in nanoseconds of steady time.
    pub(crate) fn begin_at(&mut self, first: u64) {
        self.first = first;
    }

    /// Sets all labels that the thread of each origin has one after another, by the index of the origin, if they are
    /// known from the beginning. Records then do not rename threads.
    #[must_use]
    pub(crate) fn named_in_time(self, in_time: Option<Arc<Vec<LabelsInTime>>>) -> Threads {
        Threads { in_time, ..self }
    }

    /// Gives a thread the label that it has at `ticks`, if its later labels are known from the beginning. Returns
    /// whether its label changes. For one thread, `ticks` must not decrease from call to call.
    #[inline]
    pub(crate) fn label_at(&mut self, thread: usize, ticks: Ticks) -> bool {
        let of = &mut self.threads[thread];
        let Some((labels, had)) = &mut of.later_labels else { return false };
        let before = *had;
        while let Some((_, label)) = labels.get(*had).filter(|(from, _)| *from <= ticks) {
            of.label = label.clone();
            *had += 1;
        }
        *had > before
    }

    /// Sets the end of the shown period of each origin. A call or span that has not ended is shown up to this end at
    /// most.
    #[must_use]
    pub(crate) fn until(self, untils: Vec<Option<Ticks>>) -> Threads {
        Threads { untils: Arc::new(untils), ..self }
    }

    /// Sets the steady time of the last line of the process of each origin, for [`Threads::may_go_on`].
    #[must_use]
    pub(crate) fn ending_at(self, ends: Vec<u64>) -> Threads {
        Threads { ends: Arc::new(ends), ..self }
    }

    /// Sets the times at which threads were off the processor.
    #[must_use]
    pub(crate) fn with_states(self, states: Arc<ThreadStates>) -> Threads {
        Threads { states, ..self }
    }

    /// Returns the times at which threads were off the processor.
    #[must_use]
    pub(crate) fn states(&self) -> &Arc<ThreadStates> {
        &self.states
    }

    /// Returns the names of the functions.
    #[must_use]
    pub(crate) fn names(&self) -> &SharedNames {
        &self.names
    }

    /// Returns the threads, by their indices.
    #[must_use]
    pub(crate) fn threads(&self) -> &[Thread] {
        &self.threads
    }

    /// Returns the processes, by their indices.
    #[must_use]
    pub(crate) fn processes(&self) -> &[Process] {
        &self.processes
    }

    /// Returns the indices of the thread and the process to which the origin with the index `number` belongs. Assigns
    /// them if the origin is new.
    #[inline]
    pub(crate) fn ids(&mut self, number: usize, origin: &Origin) -> ThreadIds {
        if let Some(Some(ids)) = self.of_origin.get(number) {
            if Arc::ptr_eq(&self.threads[ids.thread].clock, &origin.clock) {
                return *ids;
            }
        }
        self.meet(number, origin)
    }

    /// Assigns indices to the thread and the process of an origin. If the origin is known, takes its new clock,
    /// because clocks are read again while traces are followed.
    #[cold]
    fn meet(&mut self, number: usize, origin: &Origin) -> ThreadIds {
        let clock = origin.clock.clone();
        if let Some(Some(ids)) = self.of_origin.get(number) {
            let thread = &mut self.threads[ids.thread];
            (thread.reader, thread.clock) = (self.scale.reader(&clock), clock.clone());
            self.processes[ids.process].clock = clock;
            return *ids;
        }
        let named = lock(&self.names).process(origin);
        self.of_named.resize(self.of_named.len().max(named + 1), None);
        let process = *self.of_named[named].get_or_insert_with(|| {
            let run = origin.run.clone();
            let exe = run.as_ref().map_or(&[][..], |run| &run.exe);
            let name = exe.rsplit(|byte| *byte == b'/' || *byte == b'\\').next().unwrap_or_default();
            let name = String::from_utf8_lossy(name).into_owned();
            let until = self.untils.get(number).copied().flatten();
            let end = self.ends.get(number).copied();
            self.processes.push(Process { run, name, clock: clock.clone(), last: Ticks(0), until, end });
            self.processes.len() - 1
        });
        let log = origin.is_log.then(|| origin.name.clone());
        let thread = *self.by_id.entry((process, origin.tid, log)).or_insert_with(|| {
            let label = self.labels.get(number).cloned();
            let known_label = Arc::new(label.unwrap_or_else(|| Label::from(origin.tid.to_string())));
            let in_time = self.in_time.as_ref().map(|all| all.get(number).cloned().unwrap_or_default());
            let first = in_time.as_ref().and_then(|in_time| in_time.first.clone());
            let label = first.unwrap_or_else(|| known_label.clone());
            let reader = self.scale.reader(&clock);
            let off = origin.run.as_ref().and_then(|run| self.states.of(run, origin.tid));
            let work = WorkTime::with_states(off);
            let run = origin.run.as_ref().filter(|_| !origin.is_log);
            let known_name = run.and_then(|run| label_of_name(&origin.name, origin.tid, run));
            let tid = origin.tid;
            let later_labels = in_time.map(|in_time| (in_time.later, 0));
            self.threads.push(Thread {
                process,
                tid,
                is_log: origin.is_log,
                label,
                known_label,
                known_name,
                clock,
                foreign: origin.foreign.clone(),
                reader,
                work,
                later_labels,
            });
            self.threads.len() - 1
        });
        self.of_origin.resize(self.of_origin.len().max(number + 1), None);
        let ids = ThreadIds { thread, process, named };
        self.of_origin[number] = Some(ids);
        ids
    }

    /// Sets the label of the thread of an origin.
    pub(crate) fn learn(&mut self, number: usize, origin: &Origin, label: String) {
        let ThreadIds { thread, .. } = self.ids(number, origin);
        let thread = &mut self.threads[thread];
        thread.label = Arc::new(Label::from(label));
        thread.known_label = thread.label.clone();
        let run = origin.run.as_ref();
        thread.known_name = run.and_then(|run| label_of_name(&origin.name, origin.tid, run));
    }

    /// Returns the time at which a thread had these `ticks`, in nanoseconds since 1970. Durations are differences of
    /// steady times, without the [waits](Threads::work) between them.
    #[inline]
    pub(crate) fn time(&mut self, thread: usize, ticks: Ticks) -> u64 {
        self.threads[thread].reader.at(ticks)
    }

    /// Returns the work time of a thread: its waits for the tracer, which durations leave out, and its periods off the
    /// processor.
    #[inline]
    #[must_use]
    pub(crate) fn work(&self, thread: usize) -> &WorkTime {
        &self.threads[thread].work
    }

    /// Takes note of a `#` line of a thread: renames the thread, adds a wait of the thread for the tracer, or updates
    /// the last sign of life of its process. A sign of life may be later than the last record of the process: the
    /// clocks were read then, or the process was seen then.
    pub(crate) fn take_meta(&mut self, ids: ThreadIds, meta: &Meta) {
        match meta {
            Meta::Clock { ticks, .. } | Meta::End(End { seen: Some(ticks), .. }) => {
                self.see(ids.process, *ticks);
            }
            Meta::Wait(wait) => {
                self.see(ids.process, wait.end);
                self.take_wait(ids.thread, wait);
            }
            Meta::Name { name, .. } if self.in_time.is_none() => self.rename(ids.thread, name),
            Meta::Stall { ns } => {
                self.waits.add(&WaitSum { without_place: *ns, ..WaitSum::default() });
            }
            _ => {}
        }
    }

    /// Renames a thread: gives it the label of its new name, with its id if another thread already has this label.
    #[cold]
    fn rename(&mut self, number: usize, name: &[u8]) {
        let thread = &self.threads[number];
        let Some(run) = &self.processes[thread.process].run else { return };
        let (tid, known) = (thread.tid, &thread.known_label);
        let Some(own) = label_of_name(name, tid, run) else { return };
        let label = if thread.known_name.as_ref() == Some(&own) {
            known.as_ref().clone()
        } else {
            let plain = known.with_own(&own);
            let is_taken = self.labels.contains(&plain)
                || self.renamed.get(plain.full()).is_some_and(|other| *other != number);
            if is_taken { known.with_own(&format!("{own} {tid}")) } else { plain }
        };
        self.renamed.entry(label.full().to_owned()).or_insert(number);
        self.threads[number].label = Arc::new(label);
    }

    #[cold]
    fn take_wait(&mut self, thread: usize, wait: &Wait) {
        let (begin, end) = (self.time(thread, wait.begin), self.time(thread, wait.end));
        // If a wait took much less time than passed between its ticks, there were several waits, and the thread has
        // also worked between the first and the last one.
        let is_one_wait = end.saturating_sub(begin).saturating_sub(wait.ns) <= WAIT_MEASUREMENT_NS;
        let begin = if is_one_wait { begin } else { end.saturating_sub(wait.ns) };
        let ns = self.threads[thread].work.wait(begin, end);
        self.waits.add_wait(LongestWait { ns, begin: wait.begin, thread });
    }

    /// Returns the sum of the waits of all threads for the tracer.
    #[must_use]
    pub(crate) fn waits(&self) -> &WaitSum {
        &self.waits
    }

    /// Returns a line for people about the waits that durations leave out; `None` if there were none.
    #[must_use]
    pub(crate) fn waits_in_words(&self) -> Option<String> {
        let WaitSum { waits, ns, longest, without_place } = self.waits;
        let inside = (without_place > 0).then(|| duration(without_place));
        let Some(LongestWait { ns: most, begin, thread }) = longest else {
            let inside = inside?;
            return Some(format!(
                "these numbers include {inside} in which the tracer made threads wait, because the trace does not \
                 record when that was"
            ));
        };
        let Thread { clock, label, .. } = &self.threads[thread];
        let offset = clock.steady(begin).saturating_sub(self.first);
        let place = format!("{}.{:09}s in {}", offset / SECOND, offset % SECOND, label.full());
        let how = match waits {
            1 => format!("a thread wait once, at {place}"),
            _ => format!("threads wait {} times, the longest {} at {place}", Grouped(waits), duration(most)),
        };
        let inside = inside.map_or_else(String::new, |inside| {
            format!(
                "; they include {inside} of further waits, because the trace does not record when these were"
            )
        });
        let all = duration(ns);
        Some(format!("these numbers leave out {all} in which the tracer made {how}{inside}"))
    }

    /// Makes the last sign of life of a process at least as late as `ticks`, the ticks of a record.
    #[inline]
    pub(crate) fn see(&mut self, process: usize, ticks: Ticks) {
        let last = &mut self.processes[process].last;
        *last = (*last).max(ticks);
    }

    /// Returns the ticks of the last sign of life of a process. Calls and spans without an end record have lasted
    /// until then, as far as is known.
    #[must_use]
    pub(crate) fn last(&self, process: usize) -> Ticks {
        let Process { last, until, .. } = &self.processes[process];
        until.map_or(*last, |until| until.min(*last))
    }

    /// Returns the steady time of the last sign of life of a process, in nanoseconds.
    #[must_use]
    pub(crate) fn last_time(&self, process: usize) -> u64 {
        self.processes[process].clock.steady(self.last(process))
    }

    /// Returns whether a process may have records at the time `time`, in nanoseconds of steady time, or later.
    #[cfg(feature = "html")]
    #[must_use]
    pub(crate) fn may_go_on(&self, process: usize, time: u64) -> bool {
        self.processes[process].end.is_none_or(|end| end >= time)
    }

    /// Adds what another registry of the same threads and processes has learned from other records: waits and last
    /// signs of life.
    pub(crate) fn add(&mut self, other: &Threads) {
        // The calls that are still open end in this registry, so it needs the waits of their threads.
        for (thread, of_other) in self.threads.iter_mut().zip(&other.threads) {
            if of_other.work.last_wait() > thread.work.last_wait() {
                thread.work = of_other.work.clone();
            }
        }
        for (process, of_other) in self.processes.iter_mut().zip(&other.processes) {
            process.last = process.last.max(of_other.last);
        }
        self.waits.add(&other.waits);
    }
}
