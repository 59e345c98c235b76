//! The subcommand `info`: lists the traces of an application, by run and by thread, without merging them.
//!
//! It recovers the records that a killed application left in memory, as a merge does. Then it reads every file once,
//! on all processors.

mod forks;
mod machines;
mod model;
mod quality;
mod table;

use std::collections::BTreeMap;
use std::ops::Range;

use trace_format::meta::{Cause, EndReason, Run};

use crate::command::info::machines::MachineInfo;
use crate::command::info::model::{RunInfo, Sums, ThreadInfo, TraceInfo};
use crate::command::info::quality::ClockQuality;
use crate::command::thread_audit::Audit;
use crate::find::app::App;
use crate::find::choose::Choice;
use crate::find::find_traces;
use crate::find::header::{Trace, thread_name};
use crate::find::liveness::liveness_check;
use crate::input::other_kinds::OtherKinds;
use crate::input::source::Source;
use crate::input::sync::SyncPatterns;
use crate::os::processors::map_on_all_processors;
use crate::ui::console::print;
use crate::ui::error::Error;
use crate::ui::messages::{Messages, shown_name};
use crate::view::rows::{self, RowForm};
use crate::view::thread_labels::{Label, TraceOfThread, labels};

/// The options of the command `info`.
#[derive(Clone, Debug)]
pub(crate) struct InfoOptions {
    /// The choice of runs to list.
    pub choice: Choice,
    /// The form of the output: a table, JSON or comma-separated values.
    pub form: RowForm,
    /// The patterns of messages between machines.
    pub sync: Vec<SyncPatterns>,
    /// Whether comma-separated values have a row for each machine instead of each thread.
    pub machines: bool,
}

/// One of the files of a thread's trace, after it was read.
struct ReadFile<'a> {
    trace: &'a Trace,
    alive: bool,
    audit: Audit,
    bytes: u64,
    /// The thread's name, as views determine it.
    name: Vec<u8>,
    label: Label,
}

/// Writes the facts about the traces of `app` to standard output, in the form that `options` name. Comma-separated
/// values have a row for each thread or, if `options.machines`, for each machine.
///
/// # Errors
/// If there is no trace, or if standard output does not accept the text.
pub(crate) fn info(app: &App, options: &InfoOptions, messages: &mut Messages) -> Result<(), Error> {
    let text = text(app, options, messages)?;
    print(options.form.content(), text.as_bytes())
}

/// Returns the text that [`info`] writes.
///
/// # Errors
/// If there is no trace.
pub(crate) fn text(app: &App, options: &InfoOptions, messages: &mut Messages) -> Result<String, Error> {
    let InfoOptions { choice, form, .. } = *options;
    let found = find_traces(app, choice, messages)?;
    let opened = Opened::of(&found.chosen.boots, messages);
    let machines = machines::of(&opened.sources, &opened.runs, &options.sync, messages);
    if options.machines {
        return Ok(rows::csv(&machines));
    }
    let read = read_all(&opened);
    let info = describe(app, &read, machines);
    if form.csv {
        return Ok(rows::csv(info.runs.iter().flat_map(|run| &run.threads)));
    }
    if form.json { info.to_json() } else { Ok(table::of(&info)) }
}

/// The open trace files of all boots, with their runs.
#[derive(Default)]
struct Opened<'a> {
    /// For each boot, its sources. A file may consist of several sources; `runs` has the run of each source.
    sources: Vec<Vec<Source>>,
    runs: Vec<Vec<Option<Run>>>,
    /// Each trace file, with three facts: whether its run is alive, the index of its boot, and the range of its sources
    /// among the boot's sources.
    files: Vec<(&'a Trace, bool, usize, Range<usize>)>,
}

impl<'a> Opened<'a> {
    /// Opens all files, and reports those that cannot be opened.
    fn of(boots: &'a [Vec<Trace>], messages: &mut Messages) -> Opened<'a> {
        let mut opened = Opened::default();
        let mut is_alive = liveness_check();
        for (boot, traces) in boots.iter().enumerate() {
            let (mut sources, mut runs) = (Vec::new(), Vec::new());
            for trace in traces {
                let (alive, begin) = (is_alive(trace), sources.len());
                match Source::open(trace, alive) {
                    Ok(parts) => sources.extend(parts),
                    Err(error) => {
                        messages.warn(error);
                        continue;
                    }
                }
                runs.resize(sources.len(), trace.run.clone());
                opened.files.push((trace, alive, boot, begin..sources.len()));
            }
            opened.sources.push(sources);
            opened.runs.push(runs);
        }
        opened
    }
}

fn read_all<'a>(opened: &Opened<'a>) -> Vec<ReadFile<'a>> {
    let files: Vec<(&'a Trace, bool, &[Source])> = opened
        .files
        .iter()
        .map(|(trace, alive, boot, parts)| (*trace, *alive, &opened.sources[*boot][parts.clone()]))
        .collect();
    let bytes = |(_, _, parts): &(&Trace, bool, &[Source])| size(parts);
    let audits = map_on_all_processors(&files, bytes, |(_, _, parts)| Audit::of(parts));
    let read = files.into_iter().zip(audits);
    let file = |((trace, alive, parts), audit): ((&'a Trace, bool, &[Source]), Audit)| {
        let name = parts.iter().rev().find_map(|part| thread_name(&part.outline())).unwrap_or_default();
        let (bytes, label) = (size(parts) as u64, Label::default());
        ReadFile { trace, alive, audit, bytes, name, label }
    };
    let mut read: Vec<ReadFile<'a>> = read.map(file).collect();
    let traces = read.iter().map(|file| TraceOfThread {
        first: file.trace.first,
        run: file.trace.run.as_ref(),
        tid: file.trace.tid,
        name: &file.name,
        is_log: false,
    });
    let labels = labels(&traces.collect::<Vec<_>>());
    read.iter_mut().zip(labels).for_each(|(file, label)| file.label = label);
    read
}

fn size(parts: &[Source]) -> usize {
    parts.iter().map(Source::size).sum()
}

fn describe(app: &App, read: &[ReadFile<'_>], machines: Vec<MachineInfo>) -> TraceInfo {
    let mut runs = Vec::new();
    let mut rest = read;
    // The files of a run are adjacent.
    while let Some(first) = rest.first() {
        let is_same = |trace: &Trace| trace.run == first.trace.run && trace.owner == first.trace.owner;
        let same = rest.iter().take_while(|read| is_same(read.trace)).count();
        let (files, others) = rest.split_at(same);
        rest = others;
        runs.push(of_run(first.trace.run.as_ref(), files));
    }
    let trees = forks::trees(&mut runs);
    let mut sums = Sums::default();
    runs.iter().for_each(|run: &RunInfo| sums.add(&run.sums));
    let first_wall_ns = runs.iter().filter_map(|run| run.first_wall_ns).min();
    let last_wall_ns = runs.iter().filter_map(|run| run.last_wall_ns).max();
    // Steady times of runs begin as the wall times at which these began.
    let steady = |run: &RunInfo, ns: Option<i64>| run.start_wall_ns?.checked_add_signed(ns?);
    let first = runs.iter().filter_map(|run| steady(run, run.first_ns)).min();
    let last = runs.iter().filter_map(|run| steady(run, run.last_ns)).max();
    TraceInfo {
        version: model::VERSION,
        app: shown_name(app.given.as_os_str().as_encoded_bytes()),
        first_wall_ns,
        last_wall_ns,
        span_ns: first.zip(last).map(|(first, last)| last.saturating_sub(first)),
        threads: runs.iter().map(|run| run.threads.len() as u64).sum(),
        trees,
        machines,
        runs,
        sums,
    }
}

fn of_run(run: Option<&Run>, files: &[ReadFile<'_>]) -> RunInfo {
    let known = ClockQuality::of(run, files.iter().flat_map(|file| file.audit.anchors.iter().copied()));
    // The first ticks distinguish a thread from a later one with the same number.
    let mut by_thread: BTreeMap<(u64, u64), Vec<&ReadFile<'_>>> = BTreeMap::new();
    for file in files {
        by_thread.entry((file.trace.first, file.trace.tid)).or_default().push(file);
    }
    let mut sums = Sums::default();
    let mut threads = Vec::new();
    for files in by_thread.values() {
        let thread = of_thread(run, files, &known);
        sums.add(&thread.sums);
        // A file of thread states is no thread's.
        if !files.iter().all(|file| file.trace.marks.has_states()) {
            threads.push(thread);
        }
    }
    let alive = files.iter().any(|file| file.alive);
    // Threads that ended with the process all record the same cause; others do not record one.
    let ends = files.iter().filter_map(|file| file.audit.end.as_ref());
    let cause = ends.fold(Cause::default(), |known, end| known.or(end.cause));
    let first_ns = threads.iter().filter_map(|thread| thread.first_ns).min();
    let last_ns = threads.iter().filter_map(|thread| thread.last_ns).max();
    RunInfo {
        run: run.map(|run| format!("{:08x}", run.id)),
        root: run.map(|run| format!("{:08x}", run.root)),
        root_pid: None,
        pid: run.map(|run| run.pid),
        exe: run.map(|run| shown_name(&run.exe)),
        boot: run.map(|run| shown_name(&run.boot)),
        format_version: run.map(|run| run.version),
        state: if alive { "alive" } else { state(&threads) },
        panic_tid: cause.panic,
        signal: cause.signal.map(|signal| signal.to_string()),
        status: cause.status,
        cause,
        start_wall_ns: run.map(|run| run.wall.0),
        start_ns: files.iter().find_map(|file| file.audit.start_ns),
        first_ns,
        last_ns,
        first_wall_ns: threads.iter().filter_map(|thread| thread.first_wall_ns).min(),
        last_wall_ns: threads.iter().filter_map(|thread| thread.last_wall_ns).max(),
        span_ns: first_ns.zip(last_ns).map(|(first, last)| u64::try_from(last - first).unwrap_or(0)),
        clock: known.clock(),
        sums,
        threads,
    }
}

/// Returns a word for the state of a run that is not alive: `killed`, `ended` or `unknown`, depending on how its
/// threads' traces end.
fn state(threads: &[ThreadInfo]) -> &'static str {
    let mut ends = threads.iter().filter_map(|thread| thread.end.as_deref());
    let deaths = [EndReason::Killed, EndReason::Panic];
    if ends.clone().any(|end| deaths.iter().any(|death| end == death.name())) {
        "killed"
    } else if ends.next().is_some() {
        "ended"
    } else {
        "unknown"
    }
}

fn of_thread(run: Option<&Run>, files: &[&ReadFile<'_>], known: &ClockQuality<'_>) -> ThreadInfo {
    let last = files.last();
    let audit = last.map(|file| &file.audit);
    let first_ticks = files.iter().filter_map(|file| Some(file.audit.range?.0)).min();
    let last_ticks = files.iter().filter_map(|file| Some(file.audit.range?.1)).max();
    // Each loss is recorded in one of a thread's files.
    let mut lost_by_reason: BTreeMap<String, u64> = BTreeMap::new();
    for (reason, lost) in files.iter().flat_map(|file| file.audit.losses()) {
        *lost_by_reason.entry(reason.to_owned()).or_default() += lost;
    }
    let mut other_kinds = OtherKinds::default();
    files.iter().for_each(|file| other_kinds.add(&file.audit.other_kinds));
    let thread = files.iter().find_map(|file| file.audit.thread.as_ref());
    let sum = |number: fn(&ReadFile<'_>) -> u64| files.iter().map(|file| number(file)).sum();
    let offset = |ticks| known.since_start(ticks);
    ThreadInfo {
        run: run.map(|run| format!("{:08x}", run.id)),
        pid: run.map(|run| run.pid),
        alive: files.iter().any(|file| file.alive),
        tid: last.map_or(0, |file| file.trace.tid),
        name: thread.map_or_else(String::new, |thread| shown_name(&thread.name)),
        label: last.map_or_else(String::new, |file| file.label.full().to_owned()),
        ring: thread.map(|thread| thread.ring.name()),
        end: audit.and_then(|audit| audit.end.as_ref()).map(|end| end.reason.name().to_owned()),
        first_ns: first_ticks.and_then(offset),
        last_ns: last_ticks.and_then(offset),
        first_wall_ns: first_ticks.and_then(|ticks| known.wall(ticks)),
        last_wall_ns: last_ticks.and_then(|ticks| known.wall(ticks)),
        sums: Sums {
            files: files.len() as u64,
            records: sum(|file| file.audit.records),
            bytes: sum(|file| file.bytes),
            stalls: sum(|file| file.audit.stalls),
            stall_ns: sum(|file| file.audit.stall_ns),
            lost: sum(|file| file.audit.all_lost()),
            lost_by_reason,
            damaged: sum(|file| file.audit.damaged.count),
            other_kinds,
        },
    }
}
