//! Counts calls without a merge: each thread separately, several threads in parallel.
//!
//! A call is entered and left by the same thread, so the [counts](CallCounts) do not depend on the order of records of
//! different threads. This avoids the merge, which takes most of the time. The merge is needed nevertheless if a file
//! is damaged or out of order, if modules were loaded or unloaded, if spans are counted and there is a span, or if a
//! thread leaves a span that it has not entered.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError, mpsc};
use std::{io, thread};

use trace_format::line::Kind;

use crate::file::lines::{Token, line_at, whole_line};
use crate::file::record_text::{RecordText, kind_of};
use crate::file::records::Records;
use crate::file::rendered::RecordNeeds;
use crate::input::findings::Findings;
use crate::input::inputs::{Inputs, Origin};
use crate::input::slice::{Slice, Slicer, TickPeriod};
use crate::input::source::{Content, SortedRange, Source};
use crate::merge::note_records;
use crate::os::processors::map_on_all_processors;
use crate::view::call_counts::CallCounts;
use crate::view::function_names::lock;
use crate::view::lines_to_records::{RecordSink, each_record};
use crate::view::plan::Plan;
use crate::view::threads::ThreadIds;

/// The number of shares per processor into which the work is divided. With several shares, a processor that finishes
/// one early takes another one.
const SHARES: usize = 4;
/// The maximum number of batches of records that the decoding thread may be ahead of the counting thread.
const AHEAD: usize = 4;
/// The size of a batch, in bytes of text. The records of a batch are counted together.
const BATCH: usize = if cfg!(test) { 200 } else { 1 << 20 };

/// A source whose records are counted, with its process and its thread.
#[derive(Clone, Copy)]
struct ThreadSource<'a> {
    /// The index of the source among the sources of all boots; `source` is its index among those of its own boot.
    origin: usize,
    source: usize,
    ids: ThreadIds,
    /// The ticks of the first and the last line of the source.
    ends: (u64, u64),
    from: &'a Source,
    size: usize,
}

/// Adds all records of the planned files to `counts`, which must be empty. Returns for each boot what was found about
/// the files, such as damage and losses. Returns `None` if a merge is needed; the caller must then make new counts.
pub(crate) fn count(counts: &mut CallCounts, inputs: &Inputs, plan: &Plan<'_>) -> Option<Vec<Findings>> {
    if plan.periods.iter().any(|period| *period != TickPeriod::ALL) {
        return None;
    }
    let sources = sources(counts, inputs, plan)?;
    let shares = shares(&sources)?;
    let bytes = |share: &Vec<ThreadSource<'_>>| share.iter().map(|source| source.size).sum();
    let all: usize = sources.iter().map(|source| source.size).sum();
    let empty = counts.part();
    let can_help = thread::available_parallelism().is_ok_and(|all| all.get() > 1);
    let is_given_up = AtomicBool::new(false);
    // There is one part for each processor, and not for each share, because the counts of many functions fill the
    // processor's cache.
    let unused: Mutex<Vec<Part<'_>>> = Mutex::default();
    let unused_parts = || unused.lock().unwrap_or_else(PoisonError::into_inner);
    let are_sound = map_on_all_processors(&shares, bytes, |share| {
        let new = || Part { origins: &inputs.origins, counts: empty.part(), findings: Vec::new() };
        let mut part = unused_parts().pop().unwrap_or_else(new);
        // While a thread reads a source that is larger than all others together, another processor has nothing to do.
        let is_sound = share.iter().all(|source| {
            // Relaxed: the flag guards no other data, and seeing it late costs only time.
            !is_given_up.load(Ordering::Relaxed) && part.count(source, can_help && source.size > all / 2)
        });
        is_given_up.fetch_or(!is_sound, Ordering::Relaxed);
        unused_parts().push(part);
        is_sound
    });
    if are_sound.contains(&false) {
        return None;
    }
    let mut found: Vec<(usize, Findings)> = Vec::new();
    for part in unused.into_inner().unwrap_or_else(PoisonError::into_inner) {
        counts.add(part.counts);
        found.extend(part.findings);
    }
    let names = lock(counts.names());
    if sources.iter().any(|source| names.has_changes(source.ids.named)) {
        return None;
    }
    drop(names);
    found.sort_by_key(|(origin, _)| *origin);
    let mut boots = Vec::with_capacity(inputs.boots.len());
    let (mut found, mut first) = (found.into_iter().peekable(), 0);
    for sources in &inputs.boots {
        let mut of_boot = Findings::default();
        first += sources.len();
        while let Some((_, findings)) = found.next_if(|(origin, _)| *origin < first) {
            of_boot.append(findings);
        }
        boots.push(of_boot);
    }
    Some(boots)
}

/// Returns the sources to be counted. In each boot they are in the order of their first lines, and `counts` meets their
/// threads in this order. Returns `None` if a merge is needed.
fn sources<'a>(
    counts: &mut CallCounts,
    inputs: &'a Inputs,
    plan: &Plan<'_>,
) -> Option<Vec<ThreadSource<'a>>> {
    let mut all = Vec::new();
    let mut first = 0;
    for sources in &inputs.boots {
        let mut of_boot = Vec::new();
        for (number, source) in sources.iter().enumerate() {
            let origin = first + number;
            let range = match &plan.ranges[origin][..] {
                [] => continue,
                [range] if (range.start, range.end) == (0, source.size()) => range,
                _ => return None,
            };
            if range.start == range.end {
                continue;
            }
            let size = source.size();
            let ends = source.ends()?;
            of_boot.push(ThreadSource {
                origin,
                source: number,
                ids: ThreadIds { thread: 0, process: 0, named: 0 },
                ends,
                from: source,
                size,
            });
        }
        of_boot.sort_by_key(|source| source.ends.0);
        for source in &mut of_boot {
            source.ids = counts.ids(source.origin, &inputs.origins[source.origin]);
        }
        first += sources.len();
        all.extend(of_boot);
    }
    Some(all)
}

/// Distributes the sources to shares, so that all sources of a thread come one after another in one share. Returns
/// `None` if sources of one thread overlap in time.
fn shares<'a>(sources: &[ThreadSource<'a>]) -> Option<Vec<Vec<ThreadSource<'a>>>> {
    let mut threads: Vec<Vec<ThreadSource<'a>>> = Vec::new();
    for source in sources {
        threads.resize(threads.len().max(source.ids.thread + 1), Vec::new());
        let of_thread = &mut threads[source.ids.thread];
        if of_thread.last().is_some_and(|before| before.ends.1 > source.ends.0) {
            return None;
        }
        of_thread.push(*source);
    }
    let size = |of_thread: &Vec<ThreadSource<'_>>| of_thread.iter().map(|source| source.size).sum::<usize>();
    threads.sort_by_key(|of_thread| std::cmp::Reverse(size(of_thread)));
    let number = thread::available_parallelism().map_or(1, |all| all.get() * SHARES);
    let mut shares: Vec<(usize, Vec<ThreadSource<'a>>)> = vec![(0, Vec::new()); number.min(threads.len())];
    for of_thread in threads {
        let least = shares.iter_mut().min_by_key(|share| share.0)?;
        least.0 += size(&of_thread);
        least.1.extend(of_thread);
    }
    Some(shares.into_iter().map(|share| share.1).collect())
}

/// The counts that one worker has made from the shares it has taken.
struct Part<'a> {
    origins: &'a [Origin],
    counts: CallCounts,
    /// For each source that was counted, its index among the sources of all boots, and what was found about it, such as
    /// damage.
    findings: Vec<(usize, Findings)>,
}

impl Part<'_> {
    /// Counts the records of a source. If `has_help` is set, a second thread decodes them meanwhile. Returns false if a
    /// merge is needed.
    fn count(&mut self, source: &ThreadSource<'_>, has_help: bool) -> bool {
        self.findings.push((source.origin, Findings::default()));
        if let Content::Text(bytes) = source.from.content() {
            if !is_in_order(bytes) {
                return false;
            }
        }
        if let Some(is_sound) = has_help.then(|| self.count_with_decoder_thread(source)).flatten() {
            return is_sound;
        }
        let (mut batches, mut records) = (Batches::of(source), Records::default());
        while !self.counts.needs_merge() && batches.next(&mut records) {
            self.take(source, &records);
        }
        batches.is_sound && !self.counts.needs_merge()
    }

    /// Counts the records of a source while a second thread decodes them. Returns false if a merge is needed, and
    /// `None` if the second thread could not be started.
    fn count_with_decoder_thread(&mut self, source: &ThreadSource<'_>) -> Option<bool> {
        let (full, ready) = mpsc::sync_channel::<Records>(AHEAD);
        let (empty, used) = mpsc::channel::<Records>();
        thread::scope(|scope| {
            let decode = move || {
                let mut batches = Batches::of(source);
                loop {
                    let mut records = used.try_recv().unwrap_or_default();
                    // The receiver is gone if counting has stopped early.
                    if !batches.next(&mut records) || full.send(records).is_err() {
                        return batches.is_sound;
                    }
                }
            };
            let decoding = thread::Builder::new().spawn_scoped(scope, decode).ok()?;
            for records in ready {
                self.take(source, &records);
                if self.counts.needs_merge() {
                    break;
                }
                let _ = empty.send(records);
            }
            Some(decoding.join().unwrap_or(false) && !self.counts.needs_merge())
        })
    }

    fn take(&mut self, source: &ThreadSource<'_>, records: &Records) {
        let last = self.findings.len() - 1;
        note_records(records, 0..records.len(), &mut self.findings[last].1);
        self.counts.records(source.origin, &self.origins[source.origin], records);
    }
}

/// An iteration over the records of a source in batches.
struct Batches<'a> {
    source: &'a ThreadSource<'a>,
    /// The text that was not read yet.
    text: &'a [u8],
    /// The slices of time that were not read yet, if the source is not text.
    slices: Slicer<'a>,
    /// Whether the records so far are undamaged and in order.
    is_sound: bool,
}

impl<'a> Batches<'a> {
    fn of(source: &'a ThreadSource<'a>) -> Batches<'a> {
        let sources = std::slice::from_ref(source.from);
        let (text, ranges) = match source.from.content() {
            Content::Text(bytes) => (bytes, &[][..]),
            Content::Rendered(_) => (&[][..], &[SortedRange { source: 0, start: 0, end: 0 }][..]),
        };
        let slices = Slicer::new(sources, ranges, TickPeriod::ALL, &mut Findings::default()).of_records();
        Batches { source, text, slices, is_sound: true }
    }

    /// Reads the next records into `records`. Returns whether there were any records, and all records so far are
    /// undamaged and in order.
    fn next(&mut self, records: &mut Records) -> bool {
        records.clear();
        if let Content::Rendered(render) = self.source.from.content() {
            let wanted = RecordNeeds { calls: true, ..RecordNeeds::default() };
            let Some(Slice { period: TickPeriod { since, until }, .. }) = self.slices.next() else {
                return false;
            };
            records.begin_source(self.source.source);
            let mut is_damaged = false;
            let is_in_order = render.records((since, until), &wanted, records, &mut |_, _| is_damaged = true);
            self.is_sound = is_in_order && !is_damaged;
            return self.is_sound;
        }
        let (batch, rest) = self.text.split_at(end_of_batch(self.text));
        self.text = rest;
        // The stage accepts all records.
        let _ = each_record(self.source.source, batch, &mut BatchWriter(records));
        !batch.is_empty()
    }
}

/// A stage that puts records into a batch.
struct BatchWriter<'r>(&'r mut Records);

impl RecordSink for BatchWriter<'_> {
    fn record(&mut self, record: &RecordText<'_>) -> io::Result<()> {
        self.0.push_record(record, true);
        Ok(())
    }
}

/// Returns the offset at which the next batch of lines ends. A line that continues a message belongs to the batch of
/// the line before it.
fn end_of_batch(text: &[u8]) -> usize {
    let mut end = text.get(BATCH..).map_or(text.len(), |rest| BATCH + whole_line(rest).len());
    while kind_of(&text[end..]) == Some(Kind::Continuation) {
        end += whole_line(&text[end..]).len();
    }
    end
}

/// Returns whether a text consists only of lines, and their ticks do not go back.
fn is_in_order(bytes: &[u8]) -> bool {
    let (mut at, mut last) = (0, 0);
    loop {
        match line_at(bytes, at) {
            Token::End => return true,
            Token::Line(line) if line.ticks >= last && bytes[line.end - 1] == b'\n' => {
                (at, last) = (line.end, line.ticks);
            }
            Token::Line(_) | Token::Bad => return false,
        }
    }
}

#[cfg(test)]
mod tests;
