//! Counts the calls of functions in a compared trace, with the code of the view `report`. A merged file contains the
//! lines of many threads, so the thread of each line is looked up here.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use trace_format::line::{Kind, Line};
use trace_format::meta::{ClockKind, Meta, Run};

use crate::file::fast_map::FastMap;
use crate::file::lines::{Token, line_at, skip_bad, strip_line_feed};
use crate::file::record_text::RecordText;
use crate::input::inputs::Origin;
use crate::input::source::Source;
use crate::symbols::Settings;
use crate::time::clocks::{Clocks, TickClock};
use crate::view::call_counts::{CallCounts, Counting};
use crate::view::function_names::{FunctionNames, lock};
use crate::view::threads::Threads;

/// Counts the calls in the text of `sources`. `modules` are the lines of the tables of mapped modules, each with its
/// run. Returns the counts, and messages about files that are missing and would be needed for the names of functions.
pub(super) fn count<'s>(
    sources: impl Iterator<Item = &'s Source> + Clone,
    clocks: &Clocks,
    modules: &[(Option<Run>, Vec<u8>)],
    symbols: &Settings,
) -> (CallCounts, Vec<String>) {
    let settings = symbols.for_traces(sources.clone().map(|source| source.path.as_path()));
    let names = Arc::new(Mutex::new(FunctionNames::new(settings)));
    let counts = CallCounts::new(Counting::default(), Threads::new(names.clone(), Vec::new()));
    let unknown = clocks.each().next().and_then(|(run, _)| clocks.of(run)).cloned();
    let mut counter = Counter {
        counts,
        clocks,
        unknown: unknown.unwrap_or_else(|| Arc::new(TickClock::of(ClockKind::Ordered, []))),
        origins: Vec::new(),
        known: HashMap::new(),
        now: FastMap::default(),
    };
    for (run, payload) in modules {
        let mut names = lock(&names);
        let process = names.process(&counter.origin(run.clone(), 0));
        names.take_meta(process, payload);
    }
    // A thread may have several files.
    let mut sources: Vec<&Source> = sources.collect();
    sources.sort_by_key(|source| source.ends());
    sources.iter().for_each(|source| counter.read(source.bytes()));
    counter.counts.finish();
    let mut notes = lock(&names).take_warnings();
    notes.extend(lock(&names).take_notes());
    (counter.counts, notes)
}

/// A key that identifies a run: its boot, its process id and its run id.
type RunKey = (Vec<u8>, u32, u32);

struct Counter<'a> {
    counts: CallCounts,
    clocks: &'a Clocks,
    /// The clock that is used for lines whose run is unknown.
    unknown: Arc<TickClock>,
    origins: Vec<Origin>,
    /// The index in `origins` of each thread, by the thread's run and id.
    known: HashMap<(Option<RunKey>, u64), usize>,
    /// For each thread id, the index in `origins` of the latest thread that had the id.
    now: FastMap<u64, usize>,
}

impl Counter<'_> {
    fn read(&mut self, bytes: &[u8]) {
        let mut at = 0;
        loop {
            match line_at(bytes, at) {
                Token::End => return,
                Token::Bad => at = skip_bad(bytes, at),
                Token::Line(line) => {
                    let start = std::mem::replace(&mut at, line.end);
                    self.line(&bytes[start..at]);
                }
            }
        }
    }

    fn line(&mut self, text: &[u8]) {
        let Ok(line) = Line::parse(strip_line_feed(text)) else { return };
        let tid = line.key.tid;
        if line.kind == Kind::Meta && line.payload.starts_with(b"run ") {
            if let Some(Meta::Run(run)) = Meta::parse(line.payload) {
                let number = self.number(Some(run), tid);
                self.now.insert(tid, number);
            }
        }
        let number = match self.now.get(&tid) {
            Some(number) => *number,
            None => {
                let number = self.number(None, tid);
                *self.now.entry(tid).or_insert(number)
            }
        };
        if line.kind != Kind::Continuation {
            self.counts.record(&self.origins[number], &RecordText::of_lines(number, text, 1));
        }
    }

    /// Returns the index in `origins` of a thread; if the thread is new, adds it.
    fn number(&mut self, run: Option<Run>, tid: u64) -> usize {
        let key = (run.as_ref().map(|run| (run.boot.clone(), run.pid, run.id)), tid);
        if let Some(number) = self.known.get(&key) {
            return *number;
        }
        let origin = self.origin(run, tid);
        self.origins.push(origin);
        *self.known.entry(key).or_insert(self.origins.len() - 1)
    }

    fn origin(&self, run: Option<Run>, tid: u64) -> Origin {
        let clock = run.as_ref().and_then(|run| self.clocks.of(run)).unwrap_or(&self.unknown).clone();
        let (name, is_shown, is_log, has_sites) = (Vec::new(), true, false, false);
        Origin { run, tid, name, clock, is_shown, is_log, has_sites, waited: None, foreign: None }
    }
}
