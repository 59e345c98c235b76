//! The chosen traces, and logs of other programs, open for reading. Each is a source of lines with an origin; the
//! sources are in the order of boots.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use trace_format::line::Ticks;
use trace_format::meta::{ClockKind, Run, Waited};

use crate::find::choose::Chosen;
use crate::find::header::{Trace, thread_name};
use crate::find::liveness::liveness_check;
use crate::input::align::{Scale, align};
use crate::input::foreign;
use crate::input::source::{Source, clocks_of};
use crate::input::sync::SyncPatterns;
use crate::time::clocks::{Clocks, TickClock};
use crate::ui::error::Error;
use crate::ui::messages::Messages;

/// The origin of records: a file or a ring, with its thread and run.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    /// The run of the origin's thread, if it is known.
    pub run: Option<Run>,
    /// The id of the origin's thread.
    pub tid: u64,
    /// The thread's last name; empty if it is not known or was not read.
    pub name: Vec<u8>,
    /// The clock that converts the thread's ticks to wall time.
    pub clock: Arc<TickClock>,
    /// Whether any lines of the thread may be shown.
    pub is_shown: bool,
    /// Whether the origin is a log of another program, which has no process and no thread.
    pub is_log: bool,
    /// Whether the source records the sites of its messages.
    pub has_sites: bool,
    /// The thread's waits for the tracer. `None` if the file has no `# end` line, or if another source of the same
    /// trace (its file, for a ring) has them.
    pub waited: Option<WaitedTime>,
    /// The conversion of the lines' ticks to those of another machine; `None` if they were not converted.
    pub foreign: Option<Scale>,
}

impl Origin {
    /// Returns whether a record with these `ticks` may be older than they say: a line of a log gets the ticks 0 if it
    /// was written before the counter was 0, because ticks are not negative.
    #[must_use]
    pub(crate) const fn may_be_older(&self, ticks: Ticks) -> bool {
        self.is_log && ticks.0 == 0
    }
}

/// The time for which a thread has waited for the tracer while one file was written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaitedTime {
    /// The sums of the thread's waits.
    pub waited: Waited,
    /// The ticks of the file's first line.
    pub first: u64,
    /// The ticks of the file's last line.
    pub last: u64,
}

/// The chosen traces, open for reading.
#[derive(Debug)]
pub(crate) struct Inputs {
    /// The sources of each boot.
    pub boots: Vec<Vec<Source>>,
    /// The origins of all sources, in the same order: first those of the first boot's sources, then those of the next
    /// boot's.
    pub origins: Vec<Origin>,
    /// The ticks of the first line and of the last line of each boot.
    pub ends: Vec<(u64, u64)>,
    /// For each source, a run of the reference machine to whose ticks it was converted; `None` if it was not converted.
    pub references: Vec<Option<Run>>,
}

impl Inputs {
    /// Maps the chosen files, reads the logs `with`, and puts traces of several machines on one scale of ticks, by the
    /// messages that `sync` finds between the machines. If `with_names` is true, also reads the names of threads from
    /// the beginning and the end of each file.
    ///
    /// # Errors
    /// No file can be mapped, or a log cannot be read.
    pub(crate) fn open(
        chosen: &Chosen,
        with: &[PathBuf],
        sync: &[SyncPatterns],
        with_names: bool,
        messages: &mut Messages,
    ) -> Result<Inputs, Error> {
        let (mut boots, mut by_boot) = (Vec::new(), Vec::new());
        // Lines that a live run writes later do not count, so liveness is checked first.
        let mut is_alive = liveness_check();
        let unknown = Arc::new(TickClock::of(ClockKind::Ordered, []));
        for files in &chosen.boots {
            let (mut sources, mut origins) =
                (Vec::with_capacity(files.len()), Vec::with_capacity(files.len()));
            for (trace, opened) in files.iter().zip(Source::open_all(files, &mut is_alive)) {
                let parts = match opened {
                    Ok(parts) => parts,
                    Err(error) => {
                        messages.warn(error);
                        continue;
                    }
                };
                let name_in = |part: &Source| thread_name(&part.outline());
                let name = if with_names { parts.iter().rev().find_map(name_in) } else { None };
                let (run, tid, clock) = (trace.run.clone(), trace.tid, unknown.clone());
                let name = name.unwrap_or_default();
                let waited = trace.marks.end.as_ref().map(|end| WaitedTime {
                    waited: end.waited,
                    first: trace.first,
                    last: trace.last,
                });
                let (is_shown, is_log, has_sites) = (true, false, false);
                let origin =
                    Origin { run, tid, name, clock, is_shown, is_log, has_sites, waited, foreign: None };
                let of = |(number, part): (usize, &Source)| Origin {
                    has_sites: part.has_sites(),
                    waited: waited.filter(|_| number == 0),
                    ..origin.clone()
                };
                origins.extend(parts.iter().enumerate().map(of));
                sources.extend(parts);
            }
            boots.push(sources);
            by_boot.push(origins);
        }
        if by_boot.iter().all(Vec::is_empty) {
            return Err(Error::plain("none of the trace files can be read"));
        }
        foreign::add(with, chosen, &mut boots, messages)?;
        for (sources, origins) in boots.iter().zip(&mut by_boot) {
            let of_log = |log: &Source| {
                let name =
                    log.path.file_name().map_or_else(Vec::new, |name| name.as_encoded_bytes().to_vec());
                Origin {
                    run: None,
                    tid: 0,
                    name,
                    clock: unknown.clone(),
                    is_shown: true,
                    is_log: true,
                    has_sites: false,
                    waited: None,
                    foreign: None,
                }
            };
            let logs: Vec<Origin> = sources[origins.len()..].iter().map(of_log).collect();
            origins.extend(logs);
        }
        let origins: Vec<Origin> = by_boot.into_iter().flatten().collect();
        let references = vec![None; origins.len()];
        let ends = chosen.boots.iter().map(|files| ends(files)).collect();
        let mut inputs = Inputs { boots, origins, ends, references };
        inputs.align(sync, messages)?;
        Ok(inputs)
    }

    /// Puts traces of several machines on one scale of ticks, and combines the sources of such machines as those of one
    /// boot.
    fn align(&mut self, sync: &[SyncPatterns], messages: &mut Messages) -> Result<(), Error> {
        if self.boots.len() < 2 && sync.is_empty() {
            return Ok(());
        }
        let mut at = 0;
        let mut runs = Vec::with_capacity(self.boots.len());
        for sources in &self.boots {
            let origins = &self.origins[at..at + sources.len()];
            at += sources.len();
            runs.push(origins.iter().map(|origin| origin.run.clone()).collect::<Vec<_>>());
        }
        let all = align(&mut self.boots, &runs, sync, messages)?;
        let (mut ends, mut at): (Vec<(u64, u64)>, _) = (Vec::new(), 0);
        for ((aligned, runs), &(first, last)) in all.into_iter().zip(&runs).zip(&self.ends) {
            self.references[at..at + runs.len()].fill(aligned.reference.clone());
            for origin in &mut self.origins[at..at + runs.len()] {
                origin.foreign.clone_from(&aligned.scale);
            }
            at += runs.len();
            let convert = |ticks: u64| aligned.scale.as_ref().map_or(ticks, |scale| scale.convert(ticks));
            let (first, last) = (convert(first), convert(last));
            match ends.last_mut() {
                Some(group) if aligned.joins => *group = (group.0.min(first), group.1.max(last)),
                _ => ends.push((first, last)),
            }
        }
        self.ends = ends;
        Ok(())
    }

    /// Leaves out calls that certainly took less than `ns` nanoseconds and contain no records, in those sources in
    /// which this is cheap. The clocks of the origins must be set before.
    pub(crate) fn leave_out_shorter_calls(&mut self, ns: u64) {
        for (origin, source) in self.origins.iter().zip(self.boots.iter_mut().flatten()) {
            source.leave_out_shorter_calls(origin.clock.ticks_within(ns));
        }
    }

    /// Returns the sources of all boots, in order, each with its origin.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&Origin, &Source)> + Clone {
        self.origins.iter().zip(self.boots.iter().flatten())
    }

    /// Reads the clocks of the sources. Skips sources whose ticks were converted to those of a reference machine: their
    /// clock lines no longer show readings of their own clock.
    #[must_use]
    pub(crate) fn own_clocks(&self) -> Clocks {
        let own = self.files().zip(&self.references).filter(|(_, reference)| reference.is_none());
        clocks_of(own.filter_map(|((origin, source), _)| Some((origin.run.as_ref()?, source))))
    }

    /// Shortens each source whose file was truncated to the bytes that the file still has, and stores its new length in
    /// `ends`, by path. Returns whether a file was truncated since the last call.
    pub(crate) fn give_up_truncated(&mut self, ends: &mut BTreeMap<PathBuf, usize>) -> bool {
        let mut any = false;
        for source in self.boots.iter_mut().flatten() {
            if source.end_where_truncated() {
                ends.insert(source.path.clone(), source.bytes().len());
                any = true;
            }
        }
        any
    }
}

/// Returns the ticks of the first line and of the last line of all `files`.
fn ends(files: &[Trace]) -> (u64, u64) {
    let first = files.iter().map(|trace| trace.first).min();
    let last = files.iter().map(|trace| trace.last).max();
    (first.unwrap_or(0), last.unwrap_or(u64::MAX))
}
