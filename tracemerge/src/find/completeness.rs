//! Completeness: whether all files of a run are present, as far as this can be determined without reading every line.
//! Merges, views and `check` use this.
//!
//! The proofs of completeness: each file ends in an `# end` line with the number of files that the run had created by
//! then; the last `# end` of an ended run has the total number; and each file has its own number among them. If one
//! of these statements is missing, completeness is unknown. For a run in memory, its life file has the number of
//! files.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use itertools::Itertools;
use trace_format::meta::{EndReason, Run};

use crate::find::choose::Chosen;
use crate::find::header::Trace;
use crate::find::liveness;
use crate::ui::few::FirstItems;
use crate::ui::messages::{Grouped, Messages, are, count, shown, were};

/// The maximum number of missing files that messages name.
const NAMED: usize = 8;

/// The messages about files that are known to be missing, and those about facts without which more files may be
/// missing.
#[derive(Debug, Default)]
pub(crate) struct Completeness {
    missing: Vec<String>,
    unknown: Vec<String>,
}

impl Completeness {
    /// Determines the completeness of the runs whose files were chosen. For each run in memory, `made` maps the run id
    /// to two numbers: of the files that the run had created before the search, and of those that it had dropped.
    #[must_use]
    pub(crate) fn of(chosen: &Chosen, made: &HashMap<u32, (u64, u64)>) -> Completeness {
        let mut by_run: BTreeMap<(u32, u32), (&Run, Vec<&Trace>)> = BTreeMap::new();
        for trace in chosen.boots.iter().flatten() {
            if let Some(run) = &trace.run {
                by_run.entry((run.pid, run.id)).or_insert((run, Vec::new())).1.push(trace);
            }
        }
        let mut found = Completeness::default();
        for (run, traces) in by_run.into_values() {
            let alive = liveness::is_alive(run);
            if !alive {
                found.look_at_ends(&traces);
            }
            found.count_files(run, &traces, made.get(&run.id).copied(), alive);
        }
        found
    }

    /// Reports missing files as warnings, which make the exit status 1. Reports unknown facts as warnings if the user
    /// has requested a `proof`, otherwise as details.
    pub(crate) fn report_to_user(&self, proof: bool, messages: &mut Messages) {
        self.missing.iter().for_each(|text| messages.warn(text));
        for text in &self.unknown {
            if proof { messages.warn(text) } else { messages.detail(text) }
        }
    }

    /// Adds the messages about another application.
    pub(crate) fn append(&mut self, other: Completeness) {
        self.missing.extend(other.missing);
        self.unknown.extend(other.unknown);
    }

    /// Adds a message for each file of a dead run that has no `# end` line.
    fn look_at_ends(&mut self, traces: &[&Trace]) {
        let (mut lost, mut unfinished): (FirstItems<&Path>, FirstItems<&Path>) =
            (FirstItems::default(), FirstItems::default());
        // A file without its `# thread` line has been changed since the tracer wrote it. A trace read from memory has
        // its end there, or its run has died only since.
        let of_files = traces.iter().filter(|trace| trace.held.is_none());
        for trace in of_files.filter(|trace| trace.marks.thread.is_some() && trace.marks.end.is_none()) {
            if trace.marks.is_private() { lost.push(&trace.path) } else { unfinished.push(&trace.path) }
        }
        for (path, more) in lost.each() {
            self.missing.push(format!(
                "{}: no '# end' line: records that were in memory at the kill are lost, because the thread's ring \
                 was private memory of the process (ring=private){more}",
                shown(path)
            ));
        }
        for (path, more) in unfinished.each() {
            self.missing.push(format!(
                "{}: no '# end' line: the end of the thread's trace is missing, and the records in memory at a kill \
                 are gone or cannot be read{more}",
                shown(path)
            ));
        }
    }

    /// Compares the files of a run with the number of files that the run has recorded, and adds the missing ones, or
    /// the reasons why their number is not known.
    fn count_files(&mut self, run: &Run, traces: &[&Trace], counted: Option<(u64, u64)>, alive: bool) {
        let (in_memory, dropped_now) =
            (counted.map(|(made, _)| made), counted.map_or(0, |(_, dropped)| dropped));
        let files: Option<BTreeSet<u64>> = traces
            .iter()
            // A thread whose lines are all in its ring has no file yet.
            .filter(|trace| trace.held.as_ref().is_none_or(|held| !held.file().is_empty()))
            .map(|trace| trace.marks.thread.as_ref()?.file.map(u64::from))
            .collect();
        let ends = || traces.iter().filter_map(|trace| trace.marks.end.as_ref());
        let is_final = ends()
            .any(|end| end.files.is_some() && !matches!(end.reason, EndReason::Thread | EndReason::Full));
        let of_ends = ends().filter_map(|end| end.files).max();
        let process = format!("process {}, run {:08x}", run.pid, run.id);
        let Some(files) = files else {
            self.unknown.push(format!(
                "{process}: it is unknown whether trace files are missing, because some have no number (file= in \
                 the '# thread' line)"
            ));
            return;
        };
        if !is_final && in_memory.is_none() && !alive {
            self.missing.push(format!(
                "{process}: it is unknown whether trace files are missing, because none of those found has the \
                 final number of files (files= in the '# end' line)"
            ));
        }
        let made = of_ends.max(in_memory).or(files.last().copied()).unwrap_or(0);
        let dropped = traces.iter().map(|trace| trace.marks.dropped).max().unwrap_or(0).max(dropped_now);
        if dropped > 0 {
            let were = were(dropped);
            let (dropped, made) = (Grouped(dropped), Grouped(made));
            self.missing.push(format!(
                "{process}: {dropped} of its {made} trace files {were} dropped by the tracer, to keep their total size \
                 within TRACER_MAX_TOTAL"
            ));
        }
        let missing: Vec<u64> = (1..=made).filter(|file| !files.contains(file)).take(NAMED + 1).collect();
        let there = files.iter().filter(|file| (1..=made).contains(*file)).count() as u64;
        let absent = made.saturating_sub(there).saturating_sub(dropped);
        // The numbers of dropped files are not recorded.
        if dropped > 0 && absent > 0 {
            self.missing.push(format!(
                "{process}: {} more of its {made} trace files {} not here: deleted, moved, or not readable by this user",
                Grouped(absent),
                are(absent)
            ));
        } else if let Some(first) = missing.first().filter(|_| absent > 0) {
            let more = if absent > NAMED as u64 { ", ..." } else { "" };
            let numbers = if absent == 1 {
                format!("file={first}")
            } else {
                format!("file={}{more}", missing.iter().take(NAMED).join(", "))
            };
            self.missing.push(format!(
                "{process}: {} of its {} {} not here ({numbers}): deleted, moved, or not readable by this user",
                count(absent, "trace file"),
                made,
                are(absent),
            ));
        }
    }
}
