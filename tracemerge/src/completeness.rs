//! Whether all of a run is there, as far as that can be known without reading every line: for merges, views and `check`
//! alike.
//!
//! What proves it: each file ends in an `# end` that says how many files the run had made by then; the one that was
//! written when the run had ended says how many in all; and each file says which of them it is. Where one of these statements is missing, it is not known.
//! Of a run that is in memory, its life file says how many files there are.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use itertools::Itertools;
use trace_format::line::{Kind, Line};
use trace_format::meta::{End, EndReason, Meta, RingPlace, Run, Thread};
use trace_format::raw::Raw;
use trace_format::record::RecordKind;

use crate::choose::Chosen;
use crate::findings::Few;
use crate::header::Trace;
use crate::liveness;
use crate::messages::{Messages, count, shown};

/// So many missing files are named.
const NAMED: usize = 8;

/// What a file says at its beginning and at its end of the run that it is a part of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// Its second line.
    pub thread: Option<Thread>,
    /// Its last line, if that is an `# end`.
    pub end: Option<End>,
}

impl Marks {
    /// Of a text file, or of text that goes on where a file ends.
    #[must_use]
    pub fn of_text(bytes: &[u8]) -> Marks {
        let thread = bytes.split(|&b| b == b'\n').take(2).find_map(|line| match meta(line)? {
            Meta::Thread(thread) => Some(thread),
            _ => None,
        });
        let whole = bytes.strip_suffix(b"\n");
        let last = whole.map(|text| memchr::memrchr(b'\n', text).map_or(text, |feed| &text[feed + 1..]));
        let end =
            last.and_then(meta).and_then(|meta| if let Meta::End(end) = meta { Some(end) } else { None });
        Marks { thread, end }
    }

    /// Of a raw file.
    #[must_use]
    pub fn of_raw(raw: Raw<'_>) -> Marks {
        let parsed = |kind, payload| (kind == RecordKind::Meta).then(|| Meta::parse(payload)).flatten();
        let mut first = raw.records(0).take(2).map(|(_, record)| parsed(record.kind, record.payload));
        let thread =
            first.find_map(|meta| if let Some(Meta::Thread(thread)) = meta { Some(thread) } else { None });
        let end = match raw.last_record().and_then(|record| parsed(record.kind, record.payload)) {
            Some(Meta::End(end)) => Some(end),
            _ => None,
        };
        Marks { thread, end }
    }

    /// Goes on with text that stands behind the file.
    #[must_use]
    pub fn followed_by(self, rest: &[u8]) -> Marks {
        if rest.is_empty() {
            return self;
        }
        let rest = Marks::of_text(rest);
        Marks { thread: self.thread.or(rest.thread), end: rest.end }
    }

    fn is_private(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| thread.ring == RingPlace::Private)
    }
}

fn meta(line: &[u8]) -> Option<Meta> {
    let line = Line::parse(line).ok().filter(|line| line.kind == Kind::Meta)?;
    Meta::parse(line.payload)
}

/// What is known not to be there, and what is not known.
#[derive(Debug, Default)]
pub struct Completeness {
    missing: Vec<String>,
    unknown: Vec<String>,
}

impl Completeness {
    /// Of the runs whose files were chosen; `made` is how many files runs in memory had made before these were looked for,
    /// by the runs' ids.
    #[must_use]
    pub fn of(chosen: &Chosen, made: &HashMap<u32, u64>) -> Completeness {
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

    /// Says what is missing, with status 1, and what is not known: with status 1 to those who asked for a proof.
    pub fn tell(&self, proof: bool, messages: &mut Messages) {
        self.missing.iter().for_each(|text| messages.warn(text));
        for text in &self.unknown {
            if proof { messages.warn(text) } else { messages.detail(text) }
        }
    }

    /// Adds what was found of other applications.
    pub fn append(&mut self, other: Completeness) {
        self.missing.extend(other.missing);
        self.unknown.extend(other.unknown);
    }

    /// Of a run that is dead.
    fn look_at_ends(&mut self, traces: &[&Trace]) {
        let (mut lost, mut cut): (Few<&Path>, Few<&Path>) = (Few::default(), Few::default());
        // What does not say which thread it is of was not left by the tracer as it is.
        // What was read from memory has its end there, or its run has died only since.
        let of_files = traces.iter().filter(|trace| trace.held.is_none());
        for trace in of_files.filter(|trace| trace.marks.thread.is_some() && trace.marks.end.is_none()) {
            if trace.marks.is_private() { lost.push(&trace.path) } else { cut.push(&trace.path) }
        }
        for (path, more) in lost.each() {
            self.missing.push(format!(
                "{}: no '# end' line; ring=private: what was in memory at the kill is unknown{more}",
                shown(path)
            ));
        }
        for (path, more) in cut.each() {
            self.missing.push(format!(
                "{}: no '# end' line: the end of the thread's trace is missing, and what was in memory at a kill \
                 is gone or may not be read{more}",
                shown(path)
            ));
        }
    }

    /// Compares how many files there are with how many the run says that it has made.
    fn count_files(&mut self, run: &Run, traces: &[&Trace], in_memory: Option<u64>, alive: bool) {
        let files: Option<BTreeSet<u64>> = traces
            .iter()
            // What is in a ring only has no file yet.
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
                "{process}: not every file says which of the run's files it is: whether others are missing is unknown"
            ));
            return;
        };
        if !is_final && in_memory.is_none() && !alive {
            self.missing.push(format!(
                "{process}: none of its files here says how many there are in the end: whether others are missing is \
                 unknown"
            ));
        }
        let made = of_ends.max(in_memory).or(files.last().copied()).unwrap_or(0);
        let missing: Vec<u64> = (1..=made).filter(|file| !files.contains(file)).take(NAMED + 1).collect();
        if let Some(first) = missing.first() {
            let absent = made.saturating_sub(files.range(1..=made).count() as u64);
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
                if absent == 1 { "is" } else { "are" },
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_and_the_last_line_are_read() {
        let key = "0000000000000007-00000320";
        let text = format!(
            "{key} # run version=1\n{key} # thread name=\"a\" ring=private why=\"b\" file=3\n{key} : one\n\
             {key} # end records=1 lost=0 reason=exit files=4\n"
        );
        let marks = Marks::of_text(text.as_bytes());
        assert_eq!(marks.thread.as_ref().and_then(|thread| thread.file), Some(3));
        assert!(marks.is_private());
        assert_eq!(marks.end.as_ref().and_then(|end| end.files), Some(4));
        let cut = Marks::of_text(&text.as_bytes()[..text.len() - 1]);
        assert_eq!((cut.thread.is_some(), cut.end), (true, None));
        let goes_on = marks.followed_by(format!("{key} : two\n").as_bytes());
        assert_eq!((goes_on.thread.is_some(), goes_on.end), (true, None));
        assert_eq!(Marks::of_text(b""), Marks::default());
    }
}
