//! The labels of threads for people: their names, made unique where necessary. A label means one thread, in every view,
//! in `tracemerge info`, and as an argument of `--thread`.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::iter::repeat;
use std::sync::Arc;

use trace_format::line::Ticks;
use trace_format::meta::Run;

use crate::find::header::names_at_ends;
use crate::input::inputs::{Inputs, Origin};

/// The number of bytes of a thread's name that the operating system keeps. A thread that was given no name
/// has the name of its creator: usually the beginning of the program's name.
const SYSTEM_NAME: usize = 15;
/// The maximum number of characters of a label, without the part that names the process.
const MAX_WIDTH: usize = 24;
/// The maximum number of rounds in which ids of threads are appended to equal labels. A second round is only needed if
/// appending an id has made a label equal to that of another thread, whose name ends in this id.
const ROUNDS: usize = 3;

/// The label of a thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Label {
    text: String,
    /// The length in bytes of the prefix of the text that names the process, including its `/`.
    process: usize,
}

impl Label {
    /// Returns an empty label, for a thread that needs none.
    #[must_use]
    pub(crate) const fn none() -> Label {
        Label { text: String::new(), process: 0 }
    }

    /// Returns the label of a thread that has the label `own` in its process.
    #[must_use]
    pub(crate) fn in_process(pid: u32, own: &str) -> Label {
        let process = format!("{pid}/");
        Label { process: process.len(), text: process + own }
    }

    /// Returns the label of another thread of the process that this label names: the same prefix, then `own`.
    #[must_use]
    pub(crate) fn with_own(&self, own: &str) -> Label {
        Label { text: format!("{}{own}", self.process_prefix()), process: self.process }
    }

    /// Returns the part of the label that names the process, with its `/`; empty if the label has none.
    #[must_use]
    pub(crate) fn process_prefix(&self) -> &str {
        &self.text[..self.process]
    }

    /// Returns the whole label: `5/worker`, or `worker` if all traces are of one process.
    #[must_use]
    pub(crate) fn full(&self) -> &str {
        &self.text
    }

    /// Returns the label without its process.
    #[must_use]
    pub(crate) fn within_process(&self) -> &str {
        &self.text[self.process..]
    }
}

impl From<String> for Label {
    fn from(text: String) -> Label {
        Label { text, process: 0 }
    }
}

/// A file of a thread, or its ring, for which a label is needed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TraceOfThread<'a> {
    /// The ticks of the first line of the file or ring.
    pub first: u64,
    /// The run that has made the file or ring, if it is known.
    pub run: Option<&'a Run>,
    /// The thread's id.
    pub tid: u64,
    /// The last name of the thread that the file records; empty if it records none.
    pub name: &'a [u8],
    /// Whether the file is a log of another program.
    pub is_log: bool,
}

impl<'a> TraceOfThread<'a> {
    /// Returns the description of an origin, whose first line has the ticks `first`.
    fn of(first: u64, origin: &'a Origin) -> TraceOfThread<'a> {
        let Origin { run, tid, name, is_log, .. } = origin;
        TraceOfThread { first, run: run.as_ref(), tid: *tid, name, is_log: *is_log }
    }
}

/// Returns the label of each origin's thread, by the thread's last name.
#[must_use]
pub(crate) fn thread_labels(inputs: &Inputs) -> Vec<Label> {
    labels(&traces_of(inputs).collect::<Vec<_>>())
}

fn traces_of(inputs: &Inputs) -> impl Iterator<Item = TraceOfThread<'_>> {
    let of_files = inputs.boots.iter().flatten().map(|source| source.ends().map_or(0, |ends| ends.0));
    let traces = of_files.chain(repeat(0)).zip(&inputs.origins);
    traces.map(|(first, origin)| TraceOfThread::of(first, origin))
}

/// A name of a thread that a trace records.
#[derive(Clone, Debug)]
pub(crate) struct RecordedName {
    /// The index of the boot whose ticks `ticks` are. Only ticks of one boot can be compared.
    pub boot: usize,
    /// The ticks from which on the thread has the name; `None` for the name in the `# thread` line of a file.
    pub ticks: Option<Ticks>,
    /// The index of the thread's origin.
    pub origin: usize,
    /// The name.
    pub name: Vec<u8>,
}

/// The labels that a thread gets by its later names, each with the ticks from which on the thread has it.
pub(crate) type LaterLabels = Arc<Vec<(Ticks, Arc<Label>)>>;

/// All labels that a thread has one after another, as its name changes. Some views show each record with the label that
/// its thread had at the time of the record.
#[derive(Clone, Debug, Default)]
pub(crate) struct LabelsInTime {
    /// The label by the first name that the thread was given; `None` if it is the same label that all other views show.
    pub first: Option<Arc<Label>>,
    /// The labels by later names.
    pub later: LaterLabels,
}

/// Returns whether a thread has had several names of its own. Looks only at the first and the last bytes of the
/// thread's files, so it misses a name that the thread has had in between only.
#[must_use]
pub(crate) fn has_several_names(inputs: &Inputs) -> bool {
    let mut first: HashMap<ThreadKey<'_>, String> = HashMap::new();
    traces_of(inputs).zip(inputs.boots.iter().flatten()).any(|(trace, source)| {
        let Some(run) = trace.run.filter(|_| !trace.is_log) else { return false };
        let names = names_at_ends(&source.outline());
        let mut own = names.iter().filter_map(|name| label_of_name(name, trace.tid, run));
        own.any(|own| *first.entry(key(&trace)).or_insert_with(|| own.clone()) != own)
    })
}

/// Returns for each origin all labels that its thread has one after another. `names` are all names that the inputs
/// record, and `labels` the labels that other views show.
#[must_use]
pub(crate) fn thread_labels_in_time(
    inputs: &Inputs,
    labels: &[Label],
    names: Vec<RecordedName>,
) -> Vec<LabelsInTime> {
    labels_in_time(&traces_of(inputs).collect::<Vec<_>>(), labels, names)
}

/// Returns all labels of the threads of `traces`; see [`thread_labels_in_time`]. By its last name, a thread has the
/// label that other views show. By an earlier name, the label is that name; if another thread has or had this name at
/// any time, the thread's id follows.
fn labels_in_time(
    traces: &[TraceOfThread<'_>],
    labels: &[Label],
    mut names: Vec<RecordedName>,
) -> Vec<LabelsInTime> {
    let own = |trace: &TraceOfThread<'_>, name: &[u8]| {
        label_of_name(name, trace.tid, trace.run.filter(|_| !trace.is_log)?)
    };
    let mut in_order: Vec<_> = traces.iter().collect();
    in_order.sort_by_key(|trace| trace.first);
    let named = in_order.iter().filter(|trace| !trace.name.is_empty());
    let last: HashMap<_, _> = named.map(|trace| (key(trace), own(trace, trace.name))).collect();
    // The own names of each thread, in order. The name in a `# thread` line only counts if it is the thread's first
    // name.
    let mut of_threads: HashMap<ThreadKey<'_>, Vec<(Ticks, String)>> = HashMap::new();
    names.sort_by_key(|name| (name.boot, name.ticks, traces.get(name.origin).map(|trace| trace.first)));
    for RecordedName { ticks, origin, name, .. } in names {
        let Some(trace) = traces.get(origin) else { continue };
        let Some(own) = own(trace, &name) else { continue };
        let of_thread = of_threads.entry(key(trace)).or_default();
        if ticks.is_some() || of_thread.is_empty() {
            of_thread.push((ticks.unwrap_or(Ticks(0)), own));
        }
    }
    // The threads that have or had each label, with or without their ids.
    let mut owners: HashMap<String, HashSet<ThreadKey<'_>>> = HashMap::new();
    for (trace, label) in traces.iter().zip(labels) {
        let names = of_threads.get(&key(trace)).into_iter().flatten();
        let texts = names.flat_map(|(_, own)| [own.clone(), format!("{own} {}", trace.tid)]);
        let texts = texts.map(|own| label.with_own(&own).text).chain([label.text.clone()]);
        texts.for_each(|text| _ = owners.entry(text).or_default().insert(key(trace)));
    }
    let of_trace = |(trace, label): (&TraceOfThread<'_>, &Label)| {
        let last = last.get(&key(trace)).and_then(Option::as_ref);
        let in_time = |own: &String| {
            let plain = label.with_own(own);
            let seems_an_id = plain.text.parse::<u64>().is_ok_and(|id| id != trace.tid);
            let is_shared = seems_an_id || owners.get(&plain.text).is_some_and(|threads| threads.len() > 1);
            Arc::new(match last {
                Some(last) if last == own => label.clone(),
                _ if is_shared => label.with_own(&format!("{own} {}", trace.tid)),
                _ => plain,
            })
        };
        let names = of_threads.get(&key(trace)).map_or(&[][..], |names| names);
        let first = names.first().map(|(_, own)| in_time(own)).filter(|first| **first != *label);
        let later = names.iter().skip(1).map(|(ticks, own)| (*ticks, in_time(own)));
        LabelsInTime { first, later: Arc::new(later.collect()) }
    };
    traces.iter().zip(labels).map(of_trace).collect()
}

/// The key of a run: the process id, the id of the run and its boot; `None` if the run is not known.
type RunKey<'a> = Option<(u32, u32, &'a [u8])>;
/// The key of a thread: its run, its id, and for a log of another program its name. Several files may belong to one
/// thread.
type ThreadKey<'a> = (RunKey<'a>, u64, &'a [u8]);

fn key<'a>(trace: &TraceOfThread<'a>) -> ThreadKey<'a> {
    let run = trace.run.map(|run| (run.pid, run.id, &run.boot[..]));
    (run, trace.tid, if trace.is_log { trace.name } else { &[] })
}

/// Returns the label of the thread of each trace:
/// - The first thread of a process is `main`.
/// - Threads without a name of their own are numbered in the order in which they begin.
/// - A thread with a name has this name, the last one if it was renamed. The thread's id follows if several threads
///   have the same name, or if the name looks like the id of a thread.
/// - If several processes are shown, the process id and `/` come first; if some processes have the same id, the process
///   id is followed by the id of the run.
#[must_use]
pub(crate) fn labels(traces: &[TraceOfThread<'_>]) -> Vec<Label> {
    let mut in_order: Vec<&TraceOfThread<'_>> = traces.iter().collect();
    in_order.sort_by_key(|trace| (trace.first, key(trace)));
    let mut threads: Vec<TraceOfThread<'_>> = Vec::new();
    let mut numbers: HashMap<ThreadKey<'_>, usize> = HashMap::new();
    for trace in in_order {
        let number = *numbers.entry(key(trace)).or_insert_with(|| {
            threads.push(*trace);
            threads.len() - 1
        });
        if !trace.name.is_empty() {
            threads[number].name = trace.name;
        }
    }
    let runs: BTreeSet<RunKey<'_>> = threads.iter().map(|thread| key(thread).0).collect();
    let runs: Vec<(u32, u32, &[u8])> = runs.into_iter().flatten().collect();
    let mut of_pid: BTreeMap<u32, usize> = BTreeMap::new();
    runs.iter().for_each(|(pid, ..)| *of_pid.entry(*pid).or_default() += 1);
    let mut unnamed: HashMap<RunKey<'_>, u32> = HashMap::new();
    let labels = threads.iter().map(|thread| {
        let own = own_label(thread, unnamed.entry(key(thread).0).or_default());
        let process = match thread.run {
            Some(run) if of_pid.get(&run.pid).is_some_and(|runs| *runs > 1) => {
                format!("{}-{:08x}/", run.pid, run.id)
            }
            Some(run) if runs.len() > 1 => format!("{}/", run.pid),
            _ => String::new(),
        };
        Label { process: process.len(), text: process + &own }
    });
    let mut labels: Vec<Label> = labels.collect();
    for _ in 0..ROUNDS {
        let mut times: HashMap<String, u32> = HashMap::new();
        labels.iter().for_each(|label| *times.entry(label.text.clone()).or_default() += 1);
        for (label, thread) in labels.iter_mut().zip(&threads) {
            let seems_an_id = label.text.parse::<u64>().is_ok_and(|id| id != thread.tid);
            if seems_an_id || times.get(&label.text).is_some_and(|times| *times > 1) {
                label.text.push_str(&format!(" {}", thread.tid));
            }
        }
    }
    let of = |trace: &TraceOfThread<'_>| numbers.get(&key(trace)).map(|number| labels[*number].clone());
    traces.iter().map(|trace| of(trace).unwrap_or_default()).collect()
}

/// Labels that are given while threads become known one after another. A thread keeps its label until it is renamed. So
/// if a later thread of the process has the same name, only the later one gets its id after the name.
#[derive(Debug, Default)]
pub(crate) struct ThreadLabels {
    /// The count of unnamed threads of each process so far, by process id.
    unnamed: HashMap<Option<u32>, u32>,
    /// The id of the thread that has or had each label of a process.
    given: HashMap<(Option<u32>, String), u64>,
    /// The name and the label of each thread of a process, by process id and thread id.
    of_thread: HashMap<(Option<u32>, u64), (Vec<u8>, String)>,
}

impl ThreadLabels {
    /// Returns the label of an origin's thread, without its process.
    pub(crate) fn label(&mut self, origin: &Origin) -> String {
        let Origin { run, tid, name, .. } = origin;
        let pid = run.as_ref().map(|run| run.pid);
        if let Some((_, label)) = self.of_thread.get(&(pid, *tid)).filter(|(known, _)| known == name) {
            return label.clone();
        }
        let own = own_label(&TraceOfThread::of(0, origin), self.unnamed.entry(pid).or_default());
        let label = match *self.given.entry((pid, own.clone())).or_insert(*tid) {
            other if other != *tid => format!("{own} {tid}"),
            _ => own,
        };
        self.of_thread.insert((pid, *tid), (name.clone(), label.clone()));
        label
    }
}

/// Returns the label that a thread gets by the name `name`, without the process. Returns `None` if the thread has the
/// name only from its program, or if the thread is the first one of its process, which is always `main`.
#[must_use]
pub(crate) fn label_of_name(name: &[u8], tid: u64, run: &Run) -> Option<String> {
    let is_own = !name.is_empty() && !is_inherited(name, run) && tid != u64::from(run.pid);
    is_own.then(|| shortened(&String::from_utf8_lossy(name)))
}

/// Returns the label of a thread in its process; `unnamed` counts the unnamed threads of the process.
fn own_label(thread: &TraceOfThread<'_>, unnamed: &mut u32) -> String {
    let name = String::from_utf8_lossy(thread.name);
    if thread.is_log {
        return shortened(&name);
    }
    match thread.run {
        Some(run) if u64::from(run.pid) == thread.tid => "main".to_owned(),
        Some(run) if is_inherited(thread.name, run) => {
            *unnamed += 1;
            format!("thread {unnamed}")
        }
        _ if name.is_empty() => thread.tid.to_string(),
        _ => shortened(&name),
    }
}

/// Returns whether `name` is not a thread's own name, because the thread was given none. Such a thread has the name of
/// its program; on Windows, where threads inherit no name, its name is empty.
#[must_use]
pub(crate) fn is_inherited(name: &[u8], run: &Run) -> bool {
    if run.exe.get(1) == Some(&b':') || run.exe.starts_with(b"\\\\") {
        return name.is_empty();
    }
    let program = run.exe.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    name == &program[..program.len().min(SYSTEM_NAME)]
}

/// Returns a name that fits into a column and that a terminal shows unchanged: without control characters, and
/// shortened if necessary.
fn shortened(name: &str) -> String {
    let name: String = name.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
    if name.chars().count() <= MAX_WIDTH {
        return name;
    }
    name.chars().take(MAX_WIDTH - 1).chain(['\u{2026}']).collect()
}

#[cfg(test)]
mod tests {
    use trace_format::meta::ClockKind;
    use trace_format::wall::Wall;

    use super::*;
    use crate::time::clocks::TickClock;

    fn origin(pid: u32, tid: u64, name: &str) -> Origin {
        let run = Run {
            version: 2,
            id: pid,
            root: pid,
            pid,
            exe: b"/srv/a_program_with_a_long_name".to_vec(),
            boot: b"b".to_vec(),
            ticks: Ticks(0),
            wall: Wall(0),
            clock: ClockKind::System,
        };
        Origin {
            run: Some(run),
            tid,
            name: name.as_bytes().to_vec(),
            clock: Arc::new(TickClock::of(ClockKind::System, [])),
            is_shown: true,
            is_log: false,
            has_sites: false,
            waited: None,
            foreign: None,
        }
    }

    fn labels_of(origins: &[(u64, Origin)]) -> Vec<String> {
        let traces: Vec<TraceOfThread<'_>> =
            origins.iter().map(|(first, origin)| TraceOfThread::of(*first, origin)).collect();
        labels(&traces).iter().map(|label| label.full().to_owned()).collect()
    }

    #[test]
    fn threads_are_labelled_by_their_names_if_these_are_unique() {
        let inherited = "a_program_with_";
        let origins = [
            (9, origin(5, 7, inherited)),
            (1, origin(5, 5, inherited)),
            (4, origin(5, 8, inherited)),
            (5, origin(5, 10, "worker")),
            (6, origin(5, 11, "worker")),
            (7, origin(5, 12, "logger")),
            (8, origin(5, 12, "logger")),
            (8, origin(5, 13, "")),
        ];
        let expected = ["thread 2", "main", "thread 1", "worker 10", "worker 11", "logger", "logger", "13"];
        assert_eq!(labels_of(&origins), expected);
    }

    #[test]
    fn unnamed_windows_threads_are_numbered() {
        let of_windows = |tid, name| {
            let origin = origin(5, tid, name);
            let run = origin.run.map(|run| Run { exe: br"C:\app.exe".to_vec(), ..run });
            Origin { run, ..origin }
        };
        let origins = [(1, of_windows(6, "main")), (2, of_windows(7, "")), (3, of_windows(8, ""))];
        assert_eq!(labels_of(&origins), ["main", "thread 1", "thread 2"]);
        let mut labels = ThreadLabels::default();
        let mut of = |tid| labels.label(&of_windows(tid, ""));
        assert_eq!([of(7), of(8), of(7)], ["thread 1", "thread 2", "thread 1"]);
    }

    #[test]
    fn labels_of_several_processes_include_the_process() {
        let log = Origin { run: None, tid: 0, is_log: true, ..origin(5, 0, "access.log") };
        let origins = [(1, origin(5, 5, "x")), (2, origin(6, 6, "x")), (3, origin(6, 7, "x")), (1, log)];
        assert_eq!(labels_of(&origins), ["5/main", "6/main", "6/x", "access.log"]);
    }

    #[test]
    fn threads_keep_their_labels_as_others_become_known() {
        let mut labels = ThreadLabels::default();
        let mut of = |tid, name: &str| labels.label(&origin(5, tid, name));
        assert_eq!(of(5, "x"), "main");
        assert_eq!([of(7, "worker"), of(8, "worker"), of(7, "worker")], ["worker", "worker 8", "worker"]);
        assert_eq!([of(9, "a_program_with_"), of(10, "a_program_with_")], ["thread 1", "thread 2"]);
        assert_eq!(of(9, "a_program_with_"), "thread 1");
    }

    #[test]
    fn a_renamed_thread_has_its_last_name() {
        let origins = [(3, origin(5, 7, "new")), (1, origin(5, 7, "old")), (4, origin(5, 7, ""))];
        assert_eq!(labels_of(&origins), ["new", "new", "new"]);
        let mut labels = ThreadLabels::default();
        let mut of = |tid, name: &str| labels.label(&origin(5, tid, name));
        assert_eq!([of(7, "old"), of(7, "new"), of(8, "old"), of(7, "old")], ["old", "new", "old 8", "old"]);
    }

    /// A trace: the ticks of its first line, its origin, and its names. The first name is that in its `# thread` line.
    type Named<'a> = (u64, Origin, &'a [&'a str]);

    /// Returns the labels in time of each trace. The first label is missing if other views show it, too.
    fn in_time(made: &[Named<'_>]) -> Vec<Vec<String>> {
        let traces: Vec<TraceOfThread<'_>> =
            made.iter().map(|(first, origin, _)| TraceOfThread::of(*first, origin)).collect();
        let names = made.iter().enumerate().flat_map(|(origin, (.., names))| {
            names.iter().zip(0..).map(move |(name, n)| RecordedName {
                boot: 0,
                ticks: (n > 0).then_some(Ticks(10 * n)),
                origin,
                name: name.as_bytes().to_vec(),
            })
        });
        let in_time = labels_in_time(&traces, &labels(&traces), names.collect());
        let texts = in_time.iter().map(|LabelsInTime { first, later }| {
            let later = later.iter().map(|(_, label)| label.full().to_owned());
            first.iter().map(|first| first.full().to_owned()).chain(later).collect()
        });
        texts.collect()
    }

    #[test]
    fn the_labels_of_a_renamed_thread_are_unique_among_all_names() {
        let inherited = "a_program_with_";
        let made: [Named<'_>; 6] = [
            (1, origin(5, 7, "old"), &["old"]),
            (3, origin(5, 7, "new"), &["new"]),
            (2, origin(5, 8, "late"), &[inherited, "late"]),
            (4, origin(5, 9, "worker"), &["encode", "worker"]),
            (5, origin(5, 10, "decode"), &["worker", "decode"]),
            (6, origin(5, 11, "worker"), &["worker"]),
        ];
        // Thread 8 has had no other name of its own than `late`, and `worker 11` is the label of thread 11 in all
        // views.
        let expected: [&[&str]; 6] =
            [&["old"], &["old"], &[], &["encode", "worker 9"], &["worker 10", "decode"], &[]];
        assert_eq!(in_time(&made), expected);
    }

    #[test]
    fn an_earlier_name_of_several_threads_always_has_an_id() {
        let made: [Named<'_>; 4] = [
            (1, origin(5, 6, "back"), &["outer", "inner", "back"]),
            (2, origin(5, 7, "back"), &["inner", "outer", "inner", "back"]),
            // The name `7` seems to be an id, and `inner 7` is the other thread's name with its id.
            (3, origin(5, 8, "x"), &["7", "inner 7", "x"]),
            (4, origin(5, 9, "y"), &["9", "y"]),
        ];
        let expected: [&[&str]; 4] = [
            &["outer 6", "inner 6", "back 6"],
            &["inner 7", "outer 7", "inner 7", "back 7"],
            &["7 8", "inner 7 8", "x"],
            &["9", "y"],
        ];
        assert_eq!(in_time(&made), expected);
    }

    #[test]
    fn each_thread_has_a_label_of_its_own_that_is_no_id_of_another_thread() {
        let origins = [
            (1, origin(5, 10, "worker")),
            (2, origin(5, 11, "worker")),
            (3, origin(5, 12, "worker 10")),
            (4, origin(5, 13, "12")),
            (5, origin(5, 5, "x")),
            (6, origin(5, 14, "main")),
        ];
        let expected = ["worker 10 10", "worker 11", "worker 10 12", "12 13", "main 5", "main 14"];
        assert_eq!(labels_of(&origins), expected);
        let of_run = |id| {
            let origin = origin(1, 1, "x");
            Origin { run: origin.run.map(|run| Run { id, ..run }), ..origin }
        };
        let origins = [(1, of_run(0xab)), (2, of_run(0xcd)), (3, origin(7, 7, "x"))];
        assert_eq!(labels_of(&origins), ["1-000000ab/main", "1-000000cd/main", "7/main"]);
    }

    #[test]
    fn a_label_fits_its_column_and_cannot_control_the_terminal() {
        assert_eq!(labels_of(&[(1, origin(5, 6, "\x1b[2Jx"))]), ["?[2Jx"]);
        assert_eq!(labels_of(&[(1, origin(5, 6, &"x".repeat(40)))])[0].chars().count(), MAX_WIDTH);
    }
}
