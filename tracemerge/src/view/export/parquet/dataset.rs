//! The tables of a data set, for one run. Each file is a part of the stream, named by its table, its day and its number:
//! `records.2026-11-18.0.parquet`. The command `dataset add` gives the files their places in the set.
//!
//! Rows are in the order of the merge. A file ends at a number of rows or of bytes; a day that comes again, because the
//! wall clock was set, continues its file.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use parquet::errors::Result;
use trace_format::meta::Meta;
use trace_format::wall::Wall;

use super::chunk::Encoder;
use super::schema::{ColumnSpec, DATASET_RECORDS, DATASET_RUNS, FILES_KEY, LAST_KEY, RUN_KEY, STATE_KEY};
use super::subjects::Subjects;
use super::table::{Head, Table, signed};
use super::tables::{MAX_TABLE_BYTES, MICROSECOND, encoder};
use crate::output::folder::put_part;
use crate::view::export::Export;
use crate::view::export::events::{Event, EventContent, EventExport, EventFormat, Inventory, sentences};
use crate::view::export::fields::message_of;
use crate::view::layout::{Context, Layout, Needs};
use crate::view::threads::TimeScale;

/// The greatest number of rows of a file.
const MAX_ROWS: u64 = 1 << 22;
/// The number of bytes after which a file ends.
const MAX_BYTES: u64 = 256 << 20;
/// The microseconds of a day.
const DAY: u64 = 24 * 60 * 60 * 1_000_000;

/// The layout of one run's part of a data set.
#[derive(Clone, Debug)]
pub(crate) struct DatasetLayout {
    /// The name of the machine, for the column `host`.
    pub host: String,
    /// The name of the run, for the metadata of files.
    pub run: String,
    /// The state of the run's traces, for the metadata of the file in the table of runs: as long as it is the same, the
    /// run need not be read again.
    pub state: String,
}

impl Layout for DatasetLayout {
    fn needs(&self) -> Needs {
        Needs { times: true, times_of_day: true, sites: true, calls: true, labels: true, ..Needs::default() }
    }

    fn format(&self, context: &Context) -> Box<dyn Export> {
        let format = DatasetFormat::new(self.clone());
        Box::new(EventExport::new(format, context.depth, context.threads(), context.catalog.clone()))
    }
}

/// The name of the table of runs.
pub(crate) const RUNS: &str = "runs";
/// The names of all tables.
pub(crate) const TABLES: [&str; 2] = ["records", RUNS];

/// The tables of a data set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TableName {
    Records,
    Runs,
}

impl TableName {
    fn name(self) -> &'static str {
        match self {
            TableName::Records => "records",
            TableName::Runs => RUNS,
        }
    }

    fn columns(self) -> &'static [ColumnSpec] {
        match self {
            TableName::Records => &DATASET_RECORDS,
            TableName::Runs => &DATASET_RUNS,
        }
    }
}

/// A file that is being written.
struct OpenFile {
    of: TableName,
    /// The days since 1970.
    day: u64,
    name: String,
    rows: u64,
    bytes: u64,
    table: Table,
}

/// The open calls of a thread, as far as rows have something of them.
#[derive(Debug, Default)]
struct OpenSpans {
    /// For each open call the span that is entered inside it, if any.
    calls: Vec<Option<i64>>,
}

impl OpenSpans {
    fn span(&self) -> Option<i64> {
        self.calls.last().copied().flatten()
    }
}

/// The format of one run's part of a data set.
struct DatasetFormat {
    layout: DatasetLayout,
    subjects: Subjects,
    encoder: Option<Encoder>,
    files: Vec<OpenFile>,
    /// The number of the file in which the last row is.
    last_file: usize,
    /// The number of files so far of each table and day.
    parts: Vec<(TableName, u64, u32)>,
    /// The names of the finished and the open files.
    names: Vec<String>,
    open: Vec<OpenSpans>,
    count: u64,
    lost: u64,
    /// The first and the last time, in microseconds.
    times: Option<(u64, u64)>,
    /// The last ticks.
    last: u64,
    /// The reason for which the output is incomplete.
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
            parts: Vec::new(),
            names: Vec::new(),
            open: Vec::new(),
            count: 0,
            lost: 0,
            times: None,
            last: 0,
            failure: None,
        }
    }

    /// Returns the open file of a table and a day. Begins one if there is none.
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
        let mut all = vec![(RUN_KEY, self.layout.run.clone())];
        all.extend_from_slice(metadata);
        let table = Table::new(of.columns(), &all)?;
        self.files.push(OpenFile { of, day, name, rows: 0, bytes: 0, table });
        self.last_file = self.files.len() - 1;
        Ok(self.last_file)
    }

    /// Writes the rows of a file that are not written yet. Ends the file if it is large enough.
    #[cold]
    fn pass_on(&mut self, number: usize, ends: bool, out: &mut Vec<u8>) -> Result<()> {
        let encoder = encoder(&mut self.encoder)?;
        let shared = &self.subjects.shared;
        let file = &mut self.files[number];
        let bytes = file.table.write(shared, encoder)?;
        file.bytes += bytes.len() as u64;
        put_part(&file.name, &bytes, out);
        if ends || file.rows >= MAX_ROWS || file.bytes >= MAX_BYTES {
            let file = self.files.swap_remove(number);
            let bytes = file.table.finish(shared, encoder)?;
            put_part(&file.name, &bytes, out);
        }
        Ok(())
    }

    /// Writes the rows of the largest file, if all files together need too much memory.
    fn shrink(&mut self, out: &mut Vec<u8>) -> Result<()> {
        let bytes = |file: &OpenFile| file.table.bytes();
        if self.files.iter().map(bytes).sum::<usize>() < MAX_TABLE_BYTES {
            return Ok(());
        }
        let largest = (0..self.files.len()).max_by_key(|number| bytes(&self.files[*number]));
        largest.map_or(Ok(()), |largest| self.pass_on(largest, false, out))
    }

    /// Takes the calls that an event begins or ends. Returns the depth and the span of its record.
    #[inline]
    fn take_calls(&mut self, event: &Event<'_>) -> (i64, Option<i64>) {
        if self.open.len() <= event.thread {
            self.open.resize_with(event.thread + 1, OpenSpans::default);
        }
        let open = &mut self.open[event.thread];
        let depth = |open: &OpenSpans| i64::try_from(open.calls.len()).unwrap_or(i64::MAX);
        let span = |span: Option<u64>| span.map(signed);
        match &event.what {
            EventContent::Enter(call_info) => {
                let at = depth(open);
                let inside = span(call_info.span).or(open.span());
                open.calls.push(inside);
                (at, inside)
            }
            EventContent::Leave(call_info, ended) => {
                let inside = span(call_info.span).or(open.span());
                open.calls.truncate(open.calls.len().saturating_sub(ended.len()));
                (depth(open), inside)
            }
            EventContent::Close(ended) => {
                open.calls.truncate(open.calls.len().saturating_sub(ended.len()));
                (depth(open), None)
            }
            _ => (depth(open), open.span()),
        }
    }

    /// Adds a record.
    fn add(&mut self, event: &Event<'_>, inventory: &Inventory, out: &mut Vec<u8>) -> Result<()> {
        let (depth, span) = self.take_calls(event);
        let Some(subject) = self.subjects.subject(event, inventory, || Ok(None))? else { return Ok(()) };
        let thread = self.subjects.thread(event, inventory);
        let wall = event.time / MICROSECOND;
        let numbers = [signed(wall), signed(event.ticks.0), depth];
        let head = Head { numbers: &numbers, optional: &[span], thread };
        let file = self.file(TableName::Records, wall / DAY, &[])?;
        let open = &mut self.files[file];
        open.table.add(&head, subject, [message_of(event), None]);
        open.rows += 1;
        self.count += 1;
        self.times = Some(self.times.map_or((wall, wall), |(first, last)| (first.min(wall), last.max(wall))));
        self.last = self.last.max(event.ticks.0);
        if let EventContent::Meta {
            meta: Some(Meta::Lost { records, .. } | Meta::LostOtherwise { records, .. }),
            ..
        } = &event.what
        {
            self.lost = self.lost.saturating_add(*records);
        }
        if open.table.is_full() { self.pass_on(file, false, out) } else { Ok(()) }
    }

    /// Ends all files, and writes that of the table of runs, which the set needs to know the run.
    fn end(&mut self, inventory: &Inventory, out: &mut Vec<u8>) -> Result<()> {
        while !self.files.is_empty() {
            self.pass_on(self.files.len() - 1, true, out)?;
        }
        let run_of = |thread: usize| {
            let process = inventory.threads().get(thread).map(|thread| thread.process)?;
            inventory.processes().get(process)?.run.as_ref()
        };
        let mut known = (0..inventory.threads().len()).filter_map(|thread| Some((thread, run_of(thread)?)));
        let Some((thread, run)) = known.next() else { return Ok(()) };
        self.subjects.meet_threads(inventory);
        let begun = run.wall.0 / MICROSECOND;
        let (first, last) = self.times.unwrap_or((begun, begun));
        let metadata = [
            (STATE_KEY, self.layout.state.clone()),
            (LAST_KEY, self.last.to_string()),
            (FILES_KEY, self.names.join(" ")),
        ];
        let file = self.file(TableName::Runs, begun / DAY, &metadata)?;
        let numbers = [first, last, self.count, self.lost].map(signed);
        let thread = u32::try_from(thread).unwrap_or(u32::MAX);
        self.files[file].table.add(&Head { numbers: &numbers, optional: &[], thread }, 0, [None, None]);
        self.files[file].rows += 1;
        self.pass_on(file, true, out)
    }
}

/// Returns the date of a day since 1970, such as `2026-11-18`.
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
    fn clock(&self) -> Option<TimeScale> {
        Some(TimeScale::Wall)
    }

    fn event(&mut self, event: &Event<'_>, inventory: &Inventory, out: &mut Vec<u8>) {
        if self.failure.is_some() {
            return;
        }
        let mut added = self.add(event, inventory, out);
        // The sum costs a little, and a few records more do no harm.
        if added.is_ok() && self.count % 1024 == 0 {
            added = self.shrink(out);
        }
        if let Err(error) = added {
            self.failure = Some(format!("the records after record {} are missing: {error}", self.count));
        }
    }

    fn finish(&mut self, inventory: &Inventory, out: &mut Vec<u8>) {
        // A run whose records are not all there gets no entry in the table of runs, and so is not added.
        if self.failure.is_some() {
            return;
        }
        if let Err(error) = self.end(inventory, out) {
            self.failure.get_or_insert(format!("the tables are incomplete: {error}"));
        }
    }

    fn omissions(&self, inventory: &Inventory) -> Vec<String> {
        let mut omissions: Vec<String> = self.failure.iter().cloned().collect();
        omissions.extend(sentences([(
            inventory.not_text,
            "message",
            "with bytes that are not UTF-8: written as \\xNN",
        )]));
        omissions
    }
}
