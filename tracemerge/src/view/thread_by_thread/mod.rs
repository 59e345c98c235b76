//! Counts calls without a merge: each thread by itself, several at once.
//!
//! A call is entered and left by one thread, so the order of records of different threads makes no difference to the
//! [counts](CallCounts), and those of a raw file need not become lines. That is several times as fast. What is not
//! plainly in order is left to the merge, which knows what to say of it: damaged bytes, ticks that go back, modules that
//! came or went.

use std::sync::mpsc;
use std::{io, mem, thread};

use trace_format::line::{Kind, Line, Ticks};
use trace_format::raw::{CallOrLines, Decoder, Raw};
use trace_format::record::{Flags, RecordKind};

use crate::file::lines::{Token, line_at, lines_of, without_feed};
use crate::input::findings::Findings;
use crate::input::inputs::{Inputs, Origin};
use crate::input::slice::TickPeriod;
use crate::input::source::Content;
use crate::os::processors::map_on_all_processors;
use crate::time::clocks::ClockReader;
use crate::view::call_counts::CallCounts;
use crate::view::calls::CallPlace;
use crate::view::fast_map::FastMap;
use crate::view::function_names::{FunctionId, SharedNames, lock};
use crate::view::plan::Plan;
use crate::view::records::{RecordText, Take, each_record};

/// The number of bytes in all files below which it makes no difference how they are read.
const WORTH_IT: usize = if cfg!(test) { 0 } else { 1 << 20 };
/// The number of shares for each processor, so that one that is done sooner takes more of them.
const SHARES: usize = 4;

/// The number of bits of the places that addresses have among those that were asked for last.
const RECENT: u32 = 9;
/// No address: that of a call has 54 bits.
const NOTHING: (u64, KnownPlace) = (u64::MAX, KnownPlace { number: 0, place: CallPlace::Last, function: 0 });
/// The number of calls in a batch, and the bytes of lines: few enough for a core's cache.
const BATCH: usize = if cfg!(test) { 7 } else { 8192 };
const BATCH_BYTES: usize = 64 << 10;
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
    let parts = map_on_all_processors(&shares, bytes, |share| {
        let mut part = Part { origins: &inputs.origins, counts: empty.part(), findings: Vec::new() };
        // While a source is read that has more than all others, a processor has nothing else to do.
        let is_sound = share.iter().all(|source| part.count(source, source.size > all / 2));
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
    let size: usize = all.iter().map(|source| source.size).sum();
    (size >= WORTH_IT).then_some(all)
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

/// A record of a raw file, as it is counted.
enum Item<'a> {
    Call(Call),
    /// The lines of records that are no calls.
    Lines(&'a [u8]),
}

/// A function was entered or left.
#[derive(Clone, Copy)]
struct Call {
    /// The time of day, in nanoseconds.
    now: u64,
    place: KnownPlace,
    is_entered: bool,
}

/// A place that calls were entered at, with the function that it is in.
#[derive(Clone, Copy)]
struct KnownPlace {
    /// The number of places that were known before this one.
    number: u32,
    place: CallPlace,
    function: FunctionId,
}

/// Records of a raw file, in order, which one thread has read and another one counts. Cores pass memory to each other
/// slowly, so a call has eight bytes here.
#[derive(Default)]
struct Batch {
    /// The time of day from which the first call counts its time.
    base: u64,
    /// Of each call the nanoseconds since the one before, and the number of its place with the bit [`ENTERED`].
    calls: Vec<(u32, u32)>,
    /// The places that were not known before, in the order of their numbers.
    new: Vec<KnownPlace>,
    /// Lines, with the number of the calls before them and the end in `text`.
    lines: Vec<(usize, usize)>,
    text: Vec<u8>,
}

/// The bit in the number of a place that tells that the call is entered. A program has fewer places.
const ENTERED: u32 = 1 << 31;

/// The maker of batches.
struct Packer {
    batch: Batch,
    /// The time of the last call.
    last: u64,
    /// The number of places that batches have told.
    told: u32,
}

impl Packer {
    /// Adds an item; returns a batch that it does not fit in any longer, for which `next` gives another one.
    #[inline]
    fn push(&mut self, item: Item<'_>, next: impl FnOnce() -> Batch) -> Option<Batch> {
        let since = |last: u64, now: u64| now.checked_sub(last).and_then(|since| u32::try_from(since).ok());
        let mut full = None;
        match item {
            Item::Call(call) => {
                let after = since(self.last, call.now).filter(|_| self.batch.calls.len() < BATCH);
                let after = after.unwrap_or_else(|| {
                    full = Some(mem::replace(&mut self.batch, next()));
                    self.batch.base = call.now;
                    0
                });
                self.last = call.now;
                if call.place.number >= self.told {
                    self.told = call.place.number + 1;
                    self.batch.new.push(call.place);
                }
                let entered = if call.is_entered { ENTERED } else { 0 };
                self.batch.calls.push((after, call.place.number | entered));
            }
            Item::Lines(lines) => {
                if self.batch.text.len() >= BATCH_BYTES {
                    full = Some(mem::replace(&mut self.batch, next()));
                    self.batch.base = self.last;
                }
                self.batch.text.extend_from_slice(lines);
                self.batch.lines.push((self.batch.calls.len(), self.batch.text.len()));
            }
        }
        full
    }
}

impl Batch {
    /// Calls `take` with each item, in order; `places` are those that all batches before have told.
    fn each(&self, places: &mut Vec<KnownPlace>, mut take: impl FnMut(Item<'_>)) {
        places.extend_from_slice(&self.new);
        let (mut now, mut start) = (self.base, 0);
        let mut lines = self.lines.iter().peekable();
        for (number, &(after, place)) in self.calls.iter().enumerate() {
            while let Some((_, end)) = lines.next_if(|(before, _)| *before == number) {
                take(Item::Lines(&self.text[start..*end]));
                start = *end;
            }
            now += u64::from(after);
            let is_entered = place & ENTERED != 0;
            take(Item::Call(Call { now, place: places[(place & !ENTERED) as usize], is_entered }));
        }
        for (_, end) in lines {
            take(Item::Lines(&self.text[start..*end]));
            start = *end;
        }
    }

    fn clear(&mut self) {
        self.calls.clear();
        self.new.clear();
        self.lines.clear();
        self.text.clear();
    }
}

/// The reader of a raw file: makes items of its records.
struct Reader<'a> {
    process: usize,
    names: &'a SharedNames,
    clock: ClockReader,
    /// The places that addresses are.
    known: FastMap<u64, KnownPlace>,
    /// Of the addresses that are kept at one index, the one that was asked for last.
    recent: Vec<(u64, KnownPlace)>,
    /// The number of places so far.
    places: u32,
    /// The ticks of the last call.
    last: Ticks,
}

impl<'a> Reader<'a> {
    fn new(process: usize, origin: &Origin, names: &'a SharedNames) -> Reader<'a> {
        let (known, recent) = (FastMap::default(), vec![NOTHING; 1 << RECENT]);
        Reader { process, names, clock: origin.clock.reader(), known, recent, places: 0, last: Ticks(0) }
    }

    /// Calls `take` with all records of the file; returns whether they are plainly in order.
    fn read(&mut self, raw: Raw<'_>, mut take: impl FnMut(Item<'_>)) -> bool {
        Decoder::new(raw.tid()).calls(raw, |record| match record {
            CallOrLines::Call(record) => {
                let is_hook = record.flags().has(Flags::HOOK);
                let (address, ticks) = (record.address(), record.ticks);
                let place = self.place(ticks, address, is_hook);
                let is_entered = record.kind == RecordKind::Enter;
                let now = self.clock.wall(ticks).0;
                self.last = ticks;
                take(Item::Call(Call { now, place, is_entered }));
            }
            CallOrLines::Lines(lines) => {
                for line in lines_of(lines).filter_map(|line| Line::parse(without_feed(line)).ok()) {
                    if line.kind == Kind::Meta {
                        // Modules may become known, and with them other functions.
                        lock(self.names).take_meta(self.process, line.payload);
                        self.known.clear();
                        self.recent.fill(NOTHING);
                    }
                }
                take(Item::Lines(lines));
            }
        })
    }

    /// Returns the place that an address is, which is looked up once.
    #[inline]
    fn place(&mut self, ticks: Ticks, address: u64, is_hook: bool) -> KnownPlace {
        let key = address << 1 | u64::from(is_hook);
        // The factor is that of Fibonacci hashing: Knuth, "The Art of Computer Programming", volume 3, 6.4.
        let index = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - RECENT)) as usize;
        if self.recent[index].0 != key {
            self.recent[index] = (key, self.look_up(ticks, address, is_hook, key));
        }
        self.recent[index].1
    }

    #[cold]
    fn look_up(&mut self, ticks: Ticks, address: u64, is_hook: bool, key: u64) -> KnownPlace {
        let (names, process, places) = (self.names, self.process, &mut self.places);
        *self.known.entry(key).or_insert_with(|| {
            let called = lock(names).of_call(process, ticks, address, is_hook);
            let number = *places;
            *places += 1;
            KnownPlace { number, place: called.place, function: called.function }
        })
    }
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
                let mut packer = Packer { batch: Batch::default(), last: 0, told: 0 };
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
                let KnownPlace { place, function, .. } = call.place;
                if call.is_entered {
                    self.counts.enter(source.thread, place, function, None, call.now);
                } else {
                    self.counts.leave(source.thread, place, function, None, call.now);
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
