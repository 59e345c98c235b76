//! Counts calls without a merge: each thread by itself, several at once.
//!
//! A call is entered and left by one thread, so the order of records of different threads makes no difference to the
//! [counts](CallCounts), and those of a raw file need not become lines. That is several times as fast. What is not
//! plainly in order is left to the merge, which knows what to say of it: damaged bytes, ticks that go back, modules that
//! came or went.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::{io, thread};

use trace_format::line::Kind;
use trace_format::raw::Raw;

use crate::file::lines::{Token, line_at};
use crate::input::findings::Findings;
use crate::input::inputs::{Inputs, Origin};
use crate::input::slice::TickPeriod;
use crate::input::source::Content;
use crate::os::processors::map_on_all_processors;
use crate::view::call_counts::CallCounts;
use crate::view::function_names::lock;
use crate::view::lines_to_records::{RecordText, Take, each_record};
use crate::view::plan::Plan;
use crate::view::thread_by_thread::batch::{Batch, Packer};
use crate::view::thread_by_thread::reader::{Item, Reader};

mod batch;
mod reader;

/// The number of shares for each processor, so that one that is done sooner takes more of them.
const SHARES: usize = 4;
/// The number of batches that one thread may be ahead of the other.
const AHEAD: usize = 4;

/// A source of one thread, with all that is wanted of it.
#[derive(Clone, Copy)]
struct OfThread<'a> {
    /// The number of the source among all, and among those of its boot.
    origin: usize,
    source: usize,
    process: usize,
    thread: usize,
    /// The ticks of the first line and of the last.
    ends: (u64, u64),
    content: Content<'a>,
    size: usize,
}

/// Takes all records of the planned files into `counts`, which must be empty. Returns the findings of each boot; `None`
/// where a merge is needed: then the counts are to be made anew.
pub fn count(counts: &mut CallCounts, inputs: &Inputs, plan: &Plan<'_>) -> Option<Vec<Findings>> {
    if plan.periods.iter().any(|period| *period != TickPeriod::ALL) {
        return None;
    }
    let sources = sources(counts, inputs, plan)?;
    let shares = shares(&sources)?;
    let bytes = |share: &Vec<OfThread<'_>>| share.iter().map(|source| source.size).sum();
    let all: usize = sources.iter().map(|source| source.size).sum();
    let empty = counts.part();
    let can_help = thread::available_parallelism().is_ok_and(|all| all.get() > 1);
    let is_given_up = AtomicBool::new(false);
    let parts = map_on_all_processors(&shares, bytes, |share| {
        let mut part = Part { origins: &inputs.origins, counts: empty.part(), findings: Vec::new() };
        // While a source is read that has more than all others, a processor has nothing else to do.
        let is_sound = share.iter().all(|source| {
            // Relaxed: nothing else is read by it, and to see it late costs only time.
            !is_given_up.load(Ordering::Relaxed) && part.count(source, can_help && source.size > all / 2)
        });
        is_given_up.fetch_or(!is_sound, Ordering::Relaxed);
        is_sound.then_some((part.counts, part.findings))
    });
    let mut found: Vec<(usize, Findings)> = Vec::new();
    for part in parts {
        let (of_part, findings) = part?;
        counts.add(of_part);
        found.extend(findings);
    }
    let names = lock(counts.names());
    if sources.iter().any(|source| names.has_changes(source.process)) {
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

/// Returns the planned sources in the order of their first lines, in which their threads become known to `counts`;
/// `None` where a merge is needed.
fn sources<'a>(counts: &mut CallCounts, inputs: &'a Inputs, plan: &Plan<'_>) -> Option<Vec<OfThread<'a>>> {
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
            let (content, size) = (source.content(), source.size());
            let ends = source.ends()?;
            of_boot.push(OfThread { origin, source: number, process: 0, thread: 0, ends, content, size });
        }
        of_boot.sort_by_key(|source| source.ends.0);
        for source in &mut of_boot {
            (source.process, source.thread) = counts.know(source.origin, &inputs.origins[source.origin]);
        }
        first += sources.len();
        all.extend(of_boot);
    }
    Some(all)
}

/// Deals out the sources: all of a thread are in one share, one behind the other. `None` where those of a thread are not
/// of one time after the other.
fn shares<'a>(sources: &[OfThread<'a>]) -> Option<Vec<Vec<OfThread<'a>>>> {
    let mut threads: Vec<Vec<OfThread<'a>>> = Vec::new();
    for source in sources {
        threads.resize(threads.len().max(source.thread + 1), Vec::new());
        let of_thread = &mut threads[source.thread];
        if of_thread.last().is_some_and(|before| before.ends.1 > source.ends.0) {
            return None;
        }
        of_thread.push(*source);
    }
    let size = |of_thread: &Vec<OfThread<'_>>| of_thread.iter().map(|source| source.size).sum::<usize>();
    threads.sort_by_key(|of_thread| std::cmp::Reverse(size(of_thread)));
    let number = thread::available_parallelism().map_or(1, |all| all.get() * SHARES);
    let mut shares: Vec<(usize, Vec<OfThread<'a>>)> = vec![(0, Vec::new()); number.min(threads.len())];
    for of_thread in threads {
        let least = shares.iter_mut().min_by_key(|share| share.0)?;
        least.0 += size(&of_thread);
        least.1.extend(of_thread);
    }
    Some(shares.into_iter().map(|share| share.1).collect())
}

/// The counts of a share.
struct Part<'a> {
    origins: &'a [Origin],
    counts: CallCounts,
    /// The findings in each source, by its number among all.
    findings: Vec<(usize, Findings)>,
}

impl Part<'_> {
    /// Takes the records of a source, which another thread reads if `has_help`; returns false where a merge is needed.
    fn count(&mut self, source: &OfThread<'_>, has_help: bool) -> bool {
        self.findings.push((source.origin, Findings::default()));
        let render = match source.content {
            Content::Text(bytes) => {
                return is_in_order(bytes)
                    && each_record(source.origin, bytes, &mut Lines(self, source)).is_ok();
            }
            Content::Rendered(render) => render,
        };
        let Some(raw) = render.raw() else { return false };
        let names = self.counts.names().clone();
        let mut reader = Reader::new(source.process, &self.origins[source.origin], &names);
        let is_sound = match has_help.then(|| self.count_with_help(source, &mut reader, raw)).flatten() {
            Some(is_sound) => is_sound,
            None => reader.read(raw, |item| self.take(source, item)),
        };
        self.counts.see(source.process, reader.last);
        self.counts.see_unwinding(reader.unwinding);
        is_sound
    }

    /// Takes the records of a raw file that another thread reads; returns whether they are plainly in order. `None`: there
    /// is no other thread.
    fn count_with_help(
        &mut self,
        source: &OfThread<'_>,
        reader: &mut Reader<'_>,
        raw: Raw<'_>,
    ) -> Option<bool> {
        let (full, batches) = mpsc::sync_channel::<Batch>(AHEAD);
        let (empty, used) = mpsc::channel::<Batch>();
        thread::scope(|scope| {
            let read = move || {
                let mut packer = Packer::default();
                let is_sound = reader.read(raw, |item| {
                    if let Some(batch) = packer.push(item, || used.try_recv().unwrap_or_default()) {
                        // Nobody receives where counting has panicked, which ends this scope.
                        let _ = full.send(batch);
                    }
                });
                let _ = full.send(packer.batch);
                is_sound
            };
            let reading = thread::Builder::new().spawn_scoped(scope, read).ok()?;
            let mut places = Vec::new();
            for mut batch in batches {
                batch.each(&mut places, |item| self.take(source, item));
                batch.clear();
                let _ = empty.send(batch);
            }
            Some(reading.join().unwrap_or(false))
        })
    }

    #[inline]
    fn take(&mut self, source: &OfThread<'_>, item: Item<'_>) {
        match item {
            Item::Call(call) => {
                let (thread, called) = (source.thread, call.place.called);
                if call.is_entered {
                    self.counts.enter(thread, called, None, call.now);
                } else {
                    self.counts.leave(thread, called, None, call.now);
                }
                self.found().lines += 1;
            }
            Item::Lines(lines) => {
                // The stage takes all.
                let _ = each_record(source.origin, lines, &mut Lines(self, source));
            }
        }
    }

    /// The findings in the source that is being read.
    #[inline]
    fn found(&mut self) -> &mut Findings {
        let last = self.findings.len() - 1;
        &mut self.findings[last].1
    }
}

/// The stage that counts what lines tell.
struct Lines<'p, 'a, 's>(&'p mut Part<'a>, &'p OfThread<'s>);

impl Take for Lines<'_, '_, '_> {
    fn record(&mut self, record: &RecordText<'_>) -> io::Result<()> {
        let Lines(part, source) = self;
        if record.kind == Kind::Meta {
            part.found().metadata(source.source, record.payload());
        }
        part.found().lines += record.line_count;
        part.counts.record(&part.origins[record.origin], record);
        Ok(())
    }
}

/// Returns whether all of a text is lines, and their ticks do not go back.
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
