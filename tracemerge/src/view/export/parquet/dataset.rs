//! Writes the tables of a data set for one run, as a stream that contains parts of files. A file is named by its table,
//! its day and its number: `records.2026-11-18.0.parquet`. The command `dataset add` moves the files to their places in
//! the set.
//!
//! Rows are in the order of the merge. A file ends at a number of rows or of bytes. If a day begins again, because the
//! wall clock was set, its rows continue the file of this day.

use std::borrow::Cow;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use parquet::errors::Result;
use trace_format::line::Ticks;
use trace_format::meta::Meta;
use trace_format::wait::WaitCause;
use trace_format::wall::Wall;

use super::chunk::Encoder;
use super::schema::{
    ColumnSpec, DATASET_CALLS, DATASET_CLOCKS, DATASET_LOSSES, DATASET_RECORDS, DATASET_RUNS, DATASET_SPANS,
    DATASET_VALUES, DATASET_WAITS, FILES_KEY, LAST_KEY, OfSubject, RUN_KEY, STATE_KEY,
};
use super::subjects::Subjects;
use super::table::{Head, Table, signed};
use super::tables::{MAX_TABLE_BYTES, MICROSECOND, encoder};
use crate::find::set_files::RUNS;
use crate::output::folder::put_part;
use crate::time::anchor::Anchor;
use crate::time::clocks::ClockReader;
use crate::view::export::Export;
use crate::view::export::events::{
    EndedCall, Event, EventContent, EventExport, EventFormat, Inventory, LockContent, sentences,
};
use crate::view::export::fields::message_of;
use crate::view::export::locks::LockRecords;
use crate::view::function_names::FunctionId;
use crate::view::known_spans::{How, KnownSpans, Span, SpanChange, SpanKey};
use crate::view::layout::{Context, Layout, Needs};
use crate::view::threads::{Thread, TimeScale};
use crate::view::values::Value;

/// The greatest number of rows of a file.
pub(crate) const MAX_ROWS: u64 = 1 << 22;
/// The size of a file, in bytes, at which the file ends.
pub(crate) const MAX_BYTES: u64 = 256 << 20;
/// The number of microseconds of a day.
const DAY: u64 = 24 * 60 * 60 * 1_000_000;

/// The layout that writes one run for a data set.
#[derive(Clone, Debug)]
pub(crate) struct DatasetLayout {
    /// The name of the machine, for the column `host`.
    pub host: String,
    /// The name of the run, for the metadata of files.
    pub run: String,
    /// The state of the run's traces, for the metadata of files. As long as the state stays the same, the run need not
    /// be read again.
    pub state: String,
}

impl Layout for DatasetLayout {
    fn needs(&self) -> Needs {
        Needs {
            times: true,
            times_of_day: true,
            sites: true,
            values: true,
            calls: true,
            labels: true,
            ..Needs::default()
        }
    }

    fn format(&self, context: &Context) -> Box<dyn Export> {
        let format = DatasetFormat::new(self.clone());
        Box::new(EventExport::new(format, context.depth, context.threads(), context.catalog.clone()))
    }
}

/// The names of all tables, in the order of [`TableName`].
pub(crate) const TABLES: [&str; 8] =
    ["records", "values", "calls", "spans", "waits", "losses", "clocks", RUNS];

/// The tables of a data set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TableName {
    Records,
    Values,
    Calls,
    Spans,
    Waits,
    Losses,
    Clocks,
    Runs,
}

impl TableName {
    /// All tables.
    pub(crate) const ALL: [TableName; 8] = [
        TableName::Records,
        TableName::Values,
        TableName::Calls,
        TableName::Spans,
        TableName::Waits,
        TableName::Losses,
        TableName::Clocks,
        TableName::Runs,
    ];

    /// Returns the table with the name `name`, if there is one.
    #[must_use]
    pub(crate) fn named(name: &str) -> Option<TableName> {
        TableName::ALL.into_iter().find(|table| table.name() == name)
    }

    /// Returns the name of the table, which is also the name of its folder.
    #[must_use]
    pub(crate) fn name(self) -> &'static str {
        TABLES[self as usize]
    }

    /// Returns the two columns by which the rows of a file of the table are sorted.
    #[must_use]
    pub(crate) fn order(self) -> [&'static str; 2] {
        match self {
            TableName::Records | TableName::Losses | TableName::Clocks => ["wall", "ticks"],
            TableName::Values => ["wall", "record"],
            // A row is written when its time ends.
            TableName::Calls | TableName::Spans | TableName::Waits | TableName::Runs => ["end", "begin"],
        }
    }

    /// Returns the columns of the table.
    #[must_use]
    pub(crate) fn columns(self) -> &'static [ColumnSpec] {
        match self {
            TableName::Records => &DATASET_RECORDS,
            TableName::Values => &DATASET_VALUES,
            TableName::Calls => &DATASET_CALLS,
            TableName::Spans => &DATASET_SPANS,
            TableName::Waits => &DATASET_WAITS,
            TableName::Losses => &DATASET_LOSSES,
            TableName::Clocks => &DATASET_CLOCKS,
            TableName::Runs => &DATASET_RUNS,
        }
    }
}

/// Returns the names of all tables, with their columns.
pub(crate) fn columns_of_tables() -> impl Iterator<Item = (&'static str, &'static [ColumnSpec])> {
    TableName::ALL.into_iter().map(|table| (table.name(), table.columns()))
}

/// A file that is being written.
struct OpenFile {
    of: TableName,
    /// The day of the file's rows, as the number of days since 1970.
    day: u64,
    name: String,
    rows: u64,
    bytes: u64,
    table: Table,
}

/// An open call.
#[derive(Clone, Copy, Debug)]
struct Call {
    /// The index of the call among all calls of the run.
    number: u64,
    function: FunctionId,
    /// The span that the thread is in during the call, if any.
    span: Option<i64>,
    /// The time at which the call began, by the wall clock, in microseconds.
    begin: u64,
    /// The time at which the call began, in nanoseconds of steady time.
    begin_ns: u64,
    ticks: u64,
    /// The sum of the times of the ended calls inside this call, without waits for the tracer, in nanoseconds.
    inside_ns: u64,
    /// The time up to which this call's duration was already added to `inside_ns` of a call around it, in nanoseconds.
    counted_until: u64,
}

/// The state of a thread that is needed for the rows of its records: its open calls, its clock and its waits.
#[derive(Debug)]
struct ThreadState {
    calls: Vec<Call>,
    wall: ClockReader,
    /// The end of the thread's last wait for the tracer, in nanoseconds.
    waited_until: u64,
}

impl ThreadState {
    fn span(&self) -> Option<i64> {
        self.calls.last().and_then(|call| call.span)
    }

    fn depth(&self) -> i64 {
        i64::try_from(self.calls.len()).unwrap_or(i64::MAX)
    }

    fn wall_us(&mut self, ticks: Ticks) -> u64 {
        self.wall.at(ticks) / MICROSECOND
    }
}

/// The writer of one run for a data set.
struct DatasetFormat {
    layout: DatasetLayout,
    subjects: Subjects,
    encoder: Option<Encoder>,
    files: Vec<OpenFile>,
    /// The index in `files` of the file to which a row was added last.
    last_file: usize,
    /// The numbers of rows and of bytes at which each file ends.
    bounds: (u64, u64),
    /// For each table and day, the number of files that were begun.
    parts: Vec<(TableName, u64, u32)>,
    /// The names of all files that were begun.
    names: Vec<String>,
    threads: Vec<ThreadState>,
    locks: LockRecords,
    /// The number of calls that have begun so far.
    calls: u64,
    count: u64,
    lost: u64,
    /// The first and the last wall time of the records so far, in microseconds.
    times: Option<(u64, u64)>,
    /// The greatest ticks of the records so far.
    last: u64,
    /// The number of unsigned integers of 2^63 and more, which the tables show as negative numbers.
    negative: u64,
    /// Why the output is incomplete; `None` if it is not.
    failure: Option<String>,
}

impl DatasetFormat {
    fn new(layout: DatasetLayout) -> DatasetFormat {
        DatasetFormat {
            subjects: Subjects::of_host(&layout.host),
            layout,
            encoder: None,
            files: Vec::new(),
            last_file: 0,
            bounds: (MAX_ROWS, MAX_BYTES),
            parts: Vec::new(),
            names: Vec::new(),
            threads: Vec::new(),
            locks: LockRecords::keeping(),
            calls: 0,
            count: 0,
            lost: 0,
            times: None,
            last: 0,
            negative: 0,
            failure: None,
        }
    }

    /// Returns the index in `files` of the open file of a table and a day. Begins a file if none is open.
    fn file(&mut self, of: TableName, day: u64, metadata: &[(&str, String)]) -> Result<usize> {
        let is_it = |file: &OpenFile| file.of == of && file.day == day;
        if self.files.get(self.last_file).is_some_and(is_it) {
            return Ok(self.last_file);
        }
        if let Some(known) = self.files.iter().position(is_it) {
            self.last_file = known;
            return Ok(known);
        }
        let place = self.parts.iter().position(|part| (part.0, part.1) == (of, day));
        let place = place.unwrap_or_else(|| {
            self.parts.push((of, day, 0));
            self.parts.len() - 1
        });
        let part = self.parts[place].2;
        self.parts[place].2 += 1;
        let name = format!("{}.{}.{part}.parquet", of.name(), date(day));
        self.names.push(name.clone());
        let mut all = vec![(RUN_KEY, self.layout.run.clone()), (STATE_KEY, self.layout.state.clone())];
        all.extend_from_slice(metadata);
        let table = Table::new(of.columns(), &all)?;
        self.files.push(OpenFile { of, day, name, rows: 0, bytes: 0, table });
        self.last_file = self.files.len() - 1;
        Ok(self.last_file)
    }

    /// Writes the rows of a file that are still in memory. Ends the file if it is large enough, or if `ends` is set.
    #[cold]
    fn pass_on(&mut self, number: usize, ends: bool, out: &mut Vec<u8>) -> Result<()> {
        let encoder = encoder(&mut self.encoder)?;
        let shared = &self.subjects.shared;
        let file = &mut self.files[number];
        let bytes = file.table.write(shared, encoder)?;
        file.bytes += bytes.len() as u64;
        put_part(&file.name, &bytes, out);
        if ends || file.rows >= self.bounds.0 || file.bytes >= self.bounds.1 {
            let file = self.files.swap_remove(number);
            let bytes = file.table.finish(shared, encoder)?;
            put_part(&file.name, &bytes, out);
        }
        Ok(())
    }

    /// If all files together need too much memory, writes the rows of the file that needs most.
    fn shrink(&mut self, out: &mut Vec<u8>) -> Result<()> {
        let bytes = |file: &OpenFile| file.table.bytes();
        if self.files.iter().map(bytes).sum::<usize>() < MAX_TABLE_BYTES {
            return Ok(());
        }
        let largest = (0..self.files.len()).max_by_key(|number| bytes(&self.files[*number]));
        largest.map_or(Ok(()), |largest| self.pass_on(largest, false, out))
    }

    /// Adds a row to a table.
    fn put(
        &mut self,
        (of, wall): (TableName, u64),
        head: &Head<'_>,
        subject: u32,
        texts: [Option<&str>; 2],
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let file = self.file(of, wall / DAY, &[])?;
        let open = &mut self.files[file];
        open.table.add(head, subject, texts);
        open.rows += 1;
        if open.table.is_full() { self.pass_on(file, false, out) } else { Ok(()) }
    }

    /// Returns the state of a thread. Creates the states of threads that are new.
    #[inline]
    fn meet(&mut self, thread: usize, inventory: &Inventory) -> &mut ThreadState {
        while self.threads.len() <= thread {
            let wall = inventory.threads()[self.threads.len()].clock.wall_reader();
            self.threads.push(ThreadState { calls: Vec::new(), wall, waited_until: 0 });
        }
        &mut self.threads[thread]
    }

    /// Begins the call that an event enters, or adds the rows of the calls that the event ends. Returns the depth and
    /// the span for the row of the event's record.
    #[inline]
    fn take_calls(
        &mut self,
        event: &Event<'_>,
        wall: u64,
        inventory: &Inventory,
        out: &mut Vec<u8>,
    ) -> Result<(i64, Option<i64>)> {
        let thread = self.meet(event.thread, inventory);
        let span = |span: Option<u64>| span.map(signed);
        match &event.what {
            EventContent::Enter(call_info) => {
                let depth = thread.depth();
                let inside = span(call_info.span).or(thread.span());
                let function = call_info.called.function;
                thread.calls.push(Call {
                    number: 0,
                    function,
                    span: inside,
                    begin: wall,
                    begin_ns: event.time,
                    ticks: event.ticks.0,
                    inside_ns: 0,
                    counted_until: event.time,
                });
                let number = self.calls;
                self.calls += 1;
                if let Some(call) = self.threads[event.thread].calls.last_mut() {
                    call.number = number;
                }
                Ok((depth, inside))
            }
            EventContent::Leave(call_info, ended) => {
                let inside = span(call_info.span).or(thread.span());
                self.end_calls(event, wall, ended, inventory, out)?;
                Ok((self.threads[event.thread].depth(), inside))
            }
            EventContent::Close(ended) => {
                self.end_calls(event, wall, ended, inventory, out)?;
                Ok((self.threads[event.thread].depth(), None))
            }
            _ => Ok((thread.depth(), thread.span())),
        }
    }

    /// Adds a row for each call that ends with an event. `ended` has the innermost call first.
    fn end_calls(
        &mut self,
        event: &Event<'_>,
        wall: u64,
        ended: &[EndedCall],
        inventory: &Inventory,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let work = inventory.registry.work(event.thread);
        for end in ended {
            let calls = &mut self.threads[event.thread].calls;
            // Calls may end in another order than they began.
            let is_it = |call: &Call| call.function == end.function && call.begin_ns == end.entered;
            let Some(place) = calls.iter().rposition(is_it).or(calls.len().checked_sub(1)) else { break };
            let mut call = calls.remove(place);
            // A call that outlives the ended call was inside it until now.
            if let Some(outliving) = calls.get_mut(place) {
                call.inside_ns += work.between(outliving.counted_until, event.time);
                outliving.counted_until = event.time;
            }
            let whole = work.between(call.begin_ns, event.time);
            let waited = work.waits_between(call.begin_ns, event.time);
            let parent = place.checked_sub(1).and_then(|place| calls.get_mut(place));
            let parent = parent.map(|parent| {
                parent.inside_ns += work.between(call.counted_until, event.time);
                signed(parent.number)
            });
            let own = whole.saturating_sub(call.inside_ns);
            let depth = place as u64;
            let numbers =
                [call.begin, wall.max(call.begin), call.ticks, call.number, depth, whole, own, waited];
            let numbers = numbers.map(signed);
            let thread = self.subjects.thread(event, inventory);
            let ending = if end.has_leave_record { "left" } else { "cut" };
            let subject = self.subjects.of_call(end.function, ending, inventory);
            let head = Head { numbers: &numbers, optional: &[parent, call.span], thread };
            self.put((TableName::Calls, call.begin), &head, subject, [None, None], out)?;
        }
        Ok(())
    }

    /// If a `#` line reports lost records or has a reading of clocks, adds a row to the table of losses or of clocks.
    #[cold]
    fn add_meta(
        &mut self,
        (meta, payload): (&Meta, &str),
        (ticks, wall): (Ticks, u64),
        thread: u32,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let lost = match meta {
            Meta::Lost { records, reason } => Some((*records, reason.name())),
            Meta::LostOtherwise { records, reason } => Some((*records, reason.as_str())),
            _ => None,
        };
        if let Some((records, reason)) = lost {
            self.lost = self.lost.saturating_add(records);
            let numbers = [wall, ticks.0, records].map(signed);
            let head = Head { numbers: &numbers, optional: &[], thread };
            self.put((TableName::Losses, wall), &head, 0, [Some(reason), None], out)?;
        }
        let Some(reading) = Anchor::of_meta(meta) else { return Ok(()) };
        let read = reading.wall.0 / MICROSECOND;
        let numbers = [read, reading.ticks.0].map(signed);
        let head = Head { numbers: &numbers, optional: &[reading.error.map(signed)], thread };
        self.put((TableName::Clocks, read), &head, 0, [Some(payload), None], out)?;
        Ok(())
    }

    /// Adds a row for the wait for the tracer that a `# wait` line reports, unless an earlier row of the thread already
    /// covers this wait.
    #[cold]
    fn add_wait_for_tracer(
        &mut self,
        (thread, cause): (usize, WaitCause),
        inventory: &Inventory,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let state = self.meet(thread, inventory);
        let last = inventory.registry.work(thread).last_wait();
        let Some((begin, end)) = last.filter(|(_, end)| *end > state.waited_until) else { return Ok(()) };
        state.waited_until = end;
        let of = [(OfSubject::Kind, Some("tracer")), (OfSubject::Cause, Some(cause.name()))];
        self.add_wait((thread, begin, end - begin), [None, None], &of, inventory, out)
    }

    /// Adds a row for each wait for a lock that was counted since the last call. `thread` is the thread of the last
    /// event, which probably is the one that waited.
    #[cold]
    fn add_waits(&mut self, thread: usize, inventory: &Inventory, out: &mut Vec<u8>) -> Result<()> {
        let mut locks = std::mem::take(&mut self.locks);
        let added = locks.take_counted(|wait| {
            let threads = inventory.threads();
            let is_it = |thread: &Thread| (thread.process, thread.tid) == wait.thread;
            let known = threads.get(thread).filter(|thread| is_it(thread)).map(|_| thread);
            let Some(thread) = known.or_else(|| threads.iter().rposition(is_it)) else { return Ok(()) };
            let of = [
                (OfSubject::Kind, Some(wait.kind)),
                (OfSubject::Made, wait.made),
                (OfSubject::Place, wait.at),
                (OfSubject::Since, wait.since),
                (OfSubject::Ending, Some(wait.ending)),
            ];
            let optional = [Some(wait.object), wait.holder].map(|number| number.map(signed));
            self.add_wait((thread, wait.begin, wait.ns), optional, &of, inventory, out)
        });
        self.locks = locks;
        added
    }

    /// Adds a row for a wait of a thread. `begin` is the beginning of the wait, in nanoseconds of steady time.
    fn add_wait(
        &mut self,
        (thread, begin, ns): (usize, u64, u64),
        optional: [Option<i64>; 2],
        of: &[(OfSubject, Option<&str>)],
        inventory: &Inventory,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        self.subjects.meet_threads(inventory);
        let subject = self.subjects.of_wait(of);
        let state = self.meet(thread, inventory);
        let clock = &inventory.threads()[thread].clock;
        let [begin, end] =
            [begin, begin.saturating_add(ns)].map(|steady| state.wall_us(clock.ticks_at_steady(steady)));
        let numbers = [begin, end.max(begin), ns].map(signed);
        let thread = u32::try_from(thread).unwrap_or(u32::MAX);
        let head = Head { numbers: &numbers, optional: &optional, thread };
        self.put((TableName::Waits, begin), &head, subject, [None, None], out)
    }

    /// Adds a row for each value of a message.
    fn add_values(
        &mut self,
        (site, values): (usize, &[Value<'_>]),
        (wall, thread): (u64, u32),
        inventory: &Inventory,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let Some(known) = inventory.site(Some(site)) else { return Ok(()) };
        let subjects = self.subjects.of_values(site, known);
        let numbers = [signed(wall), signed(self.count)];
        for (value, subject) in values.iter().zip(subjects.iter()) {
            let (integer, float, truth, text) = columns_of(value);
            let is_large = |number: u128| i64::try_from(number).is_err() && u64::try_from(number).is_ok();
            self.negative += u64::from(matches!(value, Value::Unsigned(number) if is_large(*number)));
            let head = Head { numbers: &numbers, optional: &[integer, float, truth], thread };
            self.put((TableName::Values, wall), &head, *subject, [text.as_deref(), None], out)?;
        }
        Ok(())
    }

    /// Adds the rows of an event to the tables.
    fn add(&mut self, event: &Event<'_>, inventory: &Inventory, out: &mut Vec<u8>) -> Result<()> {
        let wall = self.meet(event.thread, inventory).wall_us(event.ticks);
        let (depth, span) = self.take_calls(event, wall, inventory, out)?;
        let Some(subject) = self.subjects.subject(event, inventory, || Ok(None))? else { return Ok(()) };
        let thread = self.subjects.thread(event, inventory);
        if let EventContent::Message { site: Some(site), values: Some(values), .. } = &event.what {
            self.add_values((*site, values), (wall, thread), inventory, out)?;
        }
        if let EventContent::Message { lock: LockContent::Record | LockContent::Text, .. }
        | EventContent::Stack(_)
        | EventContent::Meta { .. } = &event.what
        {
            self.locks.take(event, inventory);
            self.add_waits(event.thread, inventory, out)?;
        }
        let numbers = [signed(wall), signed(event.ticks.0), depth, signed(self.count)];
        let head = Head { numbers: &numbers, optional: &[span], thread };
        self.count += 1;
        self.times = Some(self.times.map_or((wall, wall), |(first, last)| (first.min(wall), last.max(wall))));
        self.last = self.last.max(event.ticks.0);
        if let EventContent::Meta { meta: Some(meta), payload, .. } = &event.what {
            self.add_meta((meta, payload), (event.ticks, wall), thread, out)?;
            if let Meta::Wait(wait) = meta {
                self.add_wait_for_tracer((event.thread, wait.what), inventory, out)?;
            }
        }
        self.put((TableName::Records, wall), &head, subject, [message_of(event), None], out)
    }

    /// Adds the row of a span that ends at the time `now`, in the way `how`.
    fn add_span(
        &mut self,
        (names, span, key): (&KnownSpans, &Span, SpanKey),
        how: How,
        now: u64,
        inventory: &Inventory,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        self.subjects.meet_threads(inventory);
        let thread = u32::try_from(span.thread).unwrap_or(u32::MAX);
        let state = self.meet(span.thread, inventory);
        let clock = &inventory.threads()[span.thread].clock;
        let [begin, end] = [span.began, now].map(|steady| state.wall_us(clock.ticks_at_steady(steady)));
        let whole = now.saturating_sub(span.began);
        let numbers = [begin, end.max(begin), key.1, whole, span.busy, span.idle(whole), span.polls];
        let numbers = numbers.map(signed);
        let (name, _) = names.names_of(span);
        let subject = self.subjects.of_span(how.name());
        let head = Head { numbers: &numbers, optional: &[span.parent.map(signed)], thread };
        let fields = Some(span.fields()).filter(|fields| !fields.is_empty());
        self.put((TableName::Spans, begin), &head, subject, [Some(name), fields], out)
    }

    fn end_files(&mut self, out: &mut Vec<u8>) -> Result<()> {
        while !self.files.is_empty() {
            self.pass_on(self.files.len() - 1, true, out)?;
        }
        Ok(())
    }

    /// Ends all files. Then writes the row of the run in the table of runs, by which the data set knows the run.
    fn end(&mut self, inventory: &Inventory, out: &mut Vec<u8>) -> Result<()> {
        self.locks.count_open(inventory);
        self.add_waits(0, inventory, out)?;
        self.end_files(out)?;
        let run_of = |thread: usize| {
            let process = inventory.threads().get(thread).map(|thread| thread.process)?;
            inventory.processes().get(process)?.run.as_ref()
        };
        let mut known = (0..inventory.threads().len()).filter_map(|thread| Some((thread, run_of(thread)?)));
        let Some((thread, run)) = known.next() else { return Ok(()) };
        self.subjects.meet_threads(inventory);
        let begun = run.wall.0 / MICROSECOND;
        let (first, last) = self.times.unwrap_or((begun, begun));
        let metadata = [(LAST_KEY, self.last.to_string()), (FILES_KEY, self.names.join(" "))];
        let file = self.file(TableName::Runs, begun / DAY, &metadata)?;
        let numbers = [first, last, self.count, self.lost].map(signed);
        let thread = u32::try_from(thread).unwrap_or(u32::MAX);
        self.files[file].table.add(&Head { numbers: &numbers, optional: &[], thread }, 0, [None, None]);
        self.files[file].rows += 1;
        self.pass_on(file, true, out)
    }
}

/// Returns a value for one of four columns, and `None` for the others: an integer, the bits of a floating-point number,
/// a truth value, or a text.
fn columns_of<'a>(value: &'a Value<'_>) -> (Option<i64>, Option<i64>, Option<i64>, Option<Cow<'a, str>>) {
    let of_float = |number: f64| (None, Some(signed(number.to_bits())), None, None);
    let of_text = |text| (None, None, None, Some(text));
    match value {
        Value::Signed(number) => match i64::try_from(*number) {
            Ok(number) => (Some(number), None, None, None),
            Err(_) => of_text(number.to_string().into()),
        },
        Value::Unsigned(number) => match u64::try_from(*number) {
            Ok(number) => (Some(signed(number)), None, None, None),
            Err(_) => of_text(number.to_string().into()),
        },
        Value::Pointer(address) => (Some(signed(*address)), None, None, None),
        Value::F32(number) => of_float(f64::from(*number)),
        Value::F64(number) => of_float(*number),
        Value::Bool(is_so) => (None, None, Some(i64::from(*is_so)), None),
        Value::Text(text) => of_text(Cow::Borrowed(text)),
    }
}

/// Returns the date of a day, given as the number of days since 1970, such as `2026-11-18`.
fn date(day: u64) -> String {
    let seconds = i64::try_from(day).unwrap_or(0).saturating_mul(24 * 60 * 60);
    let time = Timestamp::from_second(seconds).unwrap_or(Timestamp::UNIX_EPOCH);
    time.to_zoned(TimeZone::UTC).date().to_string()
}

/// Returns the date of a time in UTC, such as `2026-11-18`.
#[must_use]
pub(crate) fn date_of(wall: Wall) -> String {
    date(wall.0 / MICROSECOND / DAY)
}

impl EventFormat for DatasetFormat {
    // Durations need steady time. The times of day in rows come from the clocks of the threads.
    fn clock(&self) -> Option<TimeScale> {
        Some(TimeScale::Steady)
    }

    fn spans(&self) -> Option<KnownSpans> {
        Some(KnownSpans::new(0, true))
    }

    fn span(
        &mut self,
        (names, span): (&KnownSpans, &Span),
        (key, change): (SpanKey, SpanChange),
        (_, now): (usize, u64),
        inventory: &Inventory,
        out: &mut Vec<u8>,
    ) {
        let SpanChange::Ended(how) = change else { return };
        if self.failure.is_some() {
            return;
        }
        if let Err(error) = self.add_span((names, span, key), how, now, inventory, out) {
            self.failure = Some(format!("the spans after record {} are missing: {error}", self.count));
        }
    }

    fn event(&mut self, event: &Event<'_>, inventory: &Inventory, out: &mut Vec<u8>) {
        if self.failure.is_some() {
            return;
        }
        let mut added = self.add(event, inventory, out);
        // Summing up the tables' memory costs a little, and a few more records than allowed do no harm.
        if added.is_ok() && self.count % 1024 == 0 {
            added = self.shrink(out);
        }
        if let Err(error) = added {
            self.failure = Some(format!("the records after record {} are missing: {error}", self.count));
        }
    }

    fn finish(&mut self, inventory: &Inventory, out: &mut Vec<u8>) {
        // A run whose records are incomplete gets no entry in the table of runs, and so is not added to the data set.
        if self.failure.is_some() {
            return;
        }
        if let Err(error) = self.end(inventory, out) {
            self.failure.get_or_insert(format!("the tables are incomplete: {error}"));
        }
    }

    fn omissions(&self, inventory: &Inventory) -> Vec<String> {
        let mut omissions: Vec<String> = self.failure.iter().cloned().collect();
        omissions.extend(sentences([
            (inventory.not_text, "message", "with bytes that are not UTF-8: written as \\xNN"),
            (self.negative, "integer", "of 2^63 and more: written with 2^64 less"),
        ]));
        omissions
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use bytes::Bytes;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::RowAccessor;

    use super::super::schema::{OF_THREAD, OfThread};
    use super::super::table::ROWS;
    use super::*;
    use crate::output::folder::take_part;

    /// Returns the files that a run of so many records has, by their names, if files end at `bounds`. The records are
    /// of two days in turns.
    fn files_of(records: u64, bounds: (u64, u64)) -> BTreeMap<String, Vec<u8>> {
        let text = |text: &str| text.to_owned();
        let layout = DatasetLayout { host: text("m-1"), run: text("1-1"), state: text("state") };
        let mut format = DatasetFormat { bounds, ..DatasetFormat::new(layout) };
        let words = &mut format.subjects.shared.words;
        let known = words.text(Some("known"));
        let mut thread = [known; OF_THREAD];
        [OfThread::Pid, OfThread::Tid].iter().for_each(|of| thread[*of as usize] = words.integer(Some(9)));
        format.subjects.shared.threads.push(thread);
        let (subject, mut out, mut files) = (format.subjects.of_span("message"), Vec::new(), BTreeMap::new());
        for record in 0..records {
            // Numbers that do not compress.
            let noise = record.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let noise = (noise ^ noise >> 32).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let wall = DAY * (record % 2) + record;
            let numbers = [wall, noise, 0, record].map(signed);
            let head = Head { numbers: &numbers, optional: &[None], thread: 0 };
            let message = format!("record {record}");
            format.put((TableName::Records, wall), &head, subject, [Some(&message), None], &mut out).unwrap();
        }
        format.end_files(&mut out).unwrap();
        let mut stream = &out[..];
        while let Some((name, bytes)) = take_part(&mut stream) {
            let name = String::from_utf8(name.to_vec()).unwrap();
            files.entry(name).or_insert_with(Vec::new).extend_from_slice(bytes);
        }
        assert_eq!(files.keys().collect::<BTreeSet<_>>(), format.names.iter().collect());
        files
    }

    #[test]
    fn files_end_at_their_bounds_and_have_each_row_once() {
        let group = ROWS as u64;
        // A group has more than a million bytes.
        for (rows, bytes) in [(2 * group, MAX_BYTES), (MAX_ROWS, 3 << 19)] {
            let records = 5 * group + 10;
            let files = files_of(records, (rows, bytes));
            let mut found = BTreeMap::new();
            for (name, content) in &files {
                let reader = SerializedFileReader::new(Bytes::from(content.clone())).unwrap();
                let of_groups = reader.metadata().row_groups();
                assert!((1..=2).contains(&of_groups.len()), "{name}: {} row groups", of_groups.len());
                // Without its last row group, the file is within both bounds.
                let before = &of_groups[..of_groups.len() - 1];
                let size: i64 = before.iter().map(|group| group.compressed_size()).sum();
                let count: i64 = before.iter().map(|group| group.num_rows()).sum();
                assert!(
                    size.cast_unsigned() < bytes && count.cast_unsigned() < rows,
                    "{name}: {size} {count}"
                );
                let columns = reader.metadata().file_metadata().schema_descr().columns();
                let column = |name: &str| columns.iter().position(|column| column.name() == name).unwrap();
                let (number, message) = (column("record"), column("message"));
                for row in reader.get_row_iter(None).unwrap() {
                    let row = row.unwrap();
                    let record = row.get_long(number).unwrap();
                    assert_eq!(row.get_string(message).unwrap(), &format!("record {record}"));
                    *found.entry(record.cast_unsigned()).or_insert(0) += 1;
                }
            }
            assert!(found.into_iter().eq((0..records).map(|record| (record, 1))));
            // Each day has three groups, the last of which has the rest.
            let names = |day| (0..2).map(move |part| format!("records.{}.{part}.parquet", date(day)));
            assert_eq!(files.into_keys().collect::<Vec<_>>(), names(0).chain(names(1)).collect::<Vec<_>>());
        }
    }
}
