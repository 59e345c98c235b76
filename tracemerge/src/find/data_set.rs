//! The runs of a data set as traces.
//!
//! The rows of the table `records` become the lines of a file for each thread of each run, in memory or, if that is too
//! little, in temporary files without names. So every command reads a set like the traces from which it was made, as far
//! as the set has their content: functions have names instead of addresses, and messages have no sites and no values.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::file::reader::FileReader;
use parquet::record::Field;
use parquet::schema::types::Type as Schema;
use trace_format::escape::{EscapeContext, escape_into, is_harmless};
use trace_format::function::{FunctionLine, FunctionName, FunctionPlace, escape_name};
use trace_format::line::{Kind, Prefix, Ticks};
use trace_format::record::Flags;

use crate::file::map::Map;
use crate::file::parquet::{COMPACTED, RUN_KEY, guarded, keys, open};
use crate::find::header::{Trace, of_bytes};
use crate::find::set_files::{RUNS, list_files};
use crate::find::set_runs::checked_files;
use crate::os::sys::effective_user;
use crate::ui::error::Error;
use crate::ui::messages::{Messages, count, shown};

/// The table whose rows are the lines.
const RECORDS: &str = "records";
/// The number of bytes of lines in memory above which those of the largest threads are written to temporary files.
const MAX_BYTES: usize = 128 << 20;
/// The number of bytes from which on a thread counts as large.
const LARGE: usize = 64 << 10;

/// The columns that are read.
const COLUMNS: [&str; 10] =
    ["ticks", "host", "run", "tid", "kind", "place", "message", "function", "span", "record"];

/// The file of a thread while it is made.
struct ThreadLines {
    path: PathBuf,
    tid: u64,
    prefix: Prefix,
    /// The lines that are not in the file.
    lines: Vec<u8>,
    file: Option<File>,
    /// The open calls: the functions, the spans in which they are, and the spans that they enter.
    open: Vec<(String, Option<i64>, Option<u64>)>,
}

/// Returns whether a directory is a data set: its table of runs has a file with the metadata of one.
#[must_use]
pub(super) fn is_set(directory: &Path) -> bool {
    let files = list_files(directory).ok().flatten().unwrap_or_default();
    let first = files.iter().find(|place| place.table == RUNS).map(|place| place.path_in(directory));
    match first.and_then(|path| File::open(path).ok()).map(open) {
        Some(Ok(reader)) => keys(&reader).contains_key(RUN_KEY),
        // A file of a later version is refused when it is read.
        Some(Err(error)) => error.kind() == io::ErrorKind::Unsupported,
        None => false,
    }
}

/// Returns the traces in a data set.
///
/// # Errors
/// A file is damaged or of a later version, or there is no room for temporary files.
pub(super) fn traces(set: &Path, messages: &mut Messages) -> Result<Vec<Trace>, Error> {
    let failed = |error| Error::io("read the data set", set, error);
    let mut files = checked_files(set, &[RECORDS, RUNS]).map_err(failed)?.unwrap_or_default();
    files.retain(|place| place.table == RECORDS);
    // The files of a run are numbered. Only the last one of a day can be in a file of several runs.
    files.sort_by_cached_key(|place| {
        let name = place.name.trim_end_matches(".parquet");
        let (run, number) = name.rsplit_once('-').unwrap_or((name, ""));
        let is_of_several = name.starts_with(COMPACTED);
        let folder = (place.day.clone(), place.machine.clone());
        (folder, is_of_several, run.to_owned(), number.parse::<u64>().ok())
    });
    let mut all = Threads { set, by_key: HashMap::new(), threads: Vec::new(), bytes: 0, odd: 0 };
    for place in files {
        let path = place.path_in(set);
        guarded(|| all.read(&path)).map_err(|error| Error::io("read", &path, error))?;
    }
    if all.odd > 0 {
        let rows = count(all.odd, "row");
        messages.warn(format_args!(
            "left out {rows} of {}, because they have no run, no thread or no kind",
            shown(set)
        ));
    }
    let traces = all.threads.into_iter().map(ThreadLines::finish);
    Ok(traces.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
}

/// The threads whose lines were made.
struct Threads<'a> {
    set: &'a Path,
    /// The number of each thread by its machine, its run and its id.
    by_key: HashMap<(String, String, u64), usize>,
    threads: Vec<ThreadLines>,
    /// The number of bytes in memory.
    bytes: usize,
    /// The number of rows that are not records.
    odd: u64,
}

/// A record, as a row of the table has it.
#[derive(Default)]
struct Row<'a> {
    ticks: Option<i64>,
    host: &'a str,
    run: Option<&'a str>,
    tid: Option<i64>,
    kind: Option<&'a str>,
    place: &'a str,
    message: &'a str,
    function: &'a str,
    span: Option<i64>,
}

impl Threads<'_> {
    /// Adds the rows of a file.
    fn read(&mut self, path: &Path) -> io::Result<()> {
        let reader = open(File::open(path)?)?;
        let root = reader.metadata().file_metadata().schema_descr().root_schema();
        let wanted = root.get_fields().iter().filter(|field| COLUMNS.contains(&field.name())).cloned();
        let wanted = Schema::group_type_builder(root.name()).with_fields(wanted.collect()).build();
        let rows = reader.get_row_iter(Some(wanted.map_err(io::Error::other)?)).map_err(io::Error::other)?;
        for row in rows {
            let row = row.map_err(io::Error::other)?;
            let mut of = Row::default();
            for (name, field) in row.get_column_iter() {
                match (&name[..], field) {
                    ("ticks", Field::Long(ticks)) => of.ticks = Some(*ticks),
                    ("tid", Field::Long(tid)) => of.tid = Some(*tid),
                    ("span", Field::Long(span)) => of.span = Some(*span),
                    ("host", Field::Str(text)) => of.host = text,
                    ("run", Field::Str(text)) => of.run = Some(text),
                    ("kind", Field::Str(text)) => of.kind = Some(text),
                    ("place", Field::Str(text)) => of.place = text,
                    ("message", Field::Str(text)) => of.message = text,
                    ("function", Field::Str(text)) => of.function = text,
                    _ => {}
                }
            }
            self.add(&of)?;
        }
        Ok(())
    }

    /// Adds a row.
    fn add(&mut self, row: &Row<'_>) -> io::Result<()> {
        let (Some(ticks), Some(run), Some(tid), Some(kind)) = (row.ticks, row.run, row.tid, row.kind) else {
            self.odd += 1;
            return Ok(());
        };
        let is_word = kind.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
        if !is_word || kind.is_empty() {
            self.odd += 1;
            return Ok(());
        }
        let tid = u64::from_ne_bytes(tid.to_ne_bytes());
        let key = (row.host.to_owned(), run.to_owned(), tid);
        let number = *self.by_key.entry(key).or_insert_with(|| {
            let path = self.set.join(RECORDS).join(format!("{run}.trace.{tid}"));
            let (prefix, lines, open) = (Prefix::new(tid), Vec::new(), Vec::new());
            self.threads.push(ThreadLines { path, tid, prefix, lines, file: None, open });
            self.threads.len() - 1
        });
        let thread = &mut self.threads[number];
        let before = thread.lines.len();
        thread.add(Ticks(u64::from_ne_bytes(ticks.to_ne_bytes())), kind, row);
        self.bytes += thread.lines.len() - before;
        if self.bytes > MAX_BYTES {
            for thread in &mut self.threads {
                if thread.lines.len() >= LARGE {
                    thread.write()?;
                }
            }
            let bytes = self.threads.iter().map(|thread| thread.lines.len());
            self.bytes = bytes.sum();
        }
        Ok(())
    }
}

impl ThreadLines {
    /// Appends the line, or the lines, of a record.
    fn add(&mut self, ticks: Ticks, kind: &str, row: &Row<'_>) {
        let mut begin = |kind: Kind| self.prefix.begin(&mut self.lines, ticks, kind);
        match kind {
            "message" | "lock" => {
                let first = if kind == "lock" { Kind::Lock } else { Kind::Message };
                for (number, text) in row.message.split('\n').enumerate() {
                    self.prefix.begin(
                        &mut self.lines,
                        ticks,
                        if number == 0 { first } else { Kind::Continuation },
                    );
                    escape_into(&mut self.lines, text.as_bytes(), EscapeContext::Line);
                    self.lines.push(b'\n');
                }
                return;
            }
            "enter" => {
                begin(Kind::Enter);
                let around = self.open.last().and_then(|(_, span, _)| *span);
                let own = row
                    .span
                    .filter(|_| row.span != around)
                    .map(|span| u64::from_ne_bytes(span.to_ne_bytes()));
                self.put_function(row, own);
                self.open.push((row.function.to_owned(), row.span, own));
            }
            "leave" => {
                begin(Kind::Leave);
                let at = self.open.iter().rposition(|(function, ..)| function == row.function);
                let own = at.and_then(|at| self.open.drain(at..).next()).and_then(|(.., own)| own);
                self.put_function(row, own);
            }
            "stack" => {
                begin(Kind::Stack);
                self.put_payload(row.message);
            }
            word => {
                begin(Kind::Meta);
                self.lines.extend_from_slice(word.as_bytes());
                if !row.message.is_empty() {
                    self.lines.push(b' ');
                    self.put_payload(row.message);
                }
            }
        }
        self.lines.push(b'\n');
    }

    fn put_function(&mut self, row: &Row<'_>, span: Option<u64>) {
        let (mut function, mut at) = (Vec::new(), Vec::new());
        escape_name(row.function, &mut function);
        escape_name(row.place, &mut at);
        let named = FunctionName { function: &function, at: &at, called_from: b"" };
        let line = FunctionLine { place: FunctionPlace::Site(named, 0), span, flags: Flags::NONE };
        line.write(&mut self.lines);
    }

    /// Appends a payload that is escaped, unless somebody else has made it.
    fn put_payload(&mut self, text: &str) {
        if is_harmless(text.as_bytes()) {
            self.lines.extend_from_slice(text.as_bytes());
        } else {
            escape_into(&mut self.lines, text.as_bytes(), EscapeContext::Line);
        }
    }

    /// Writes the lines in memory to the temporary file.
    fn write(&mut self) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(tempfile::tempfile()?),
        };
        file.write_all(&self.lines)?;
        self.lines.clear();
        Ok(())
    }

    /// Returns the trace of all lines; `None` if there are none.
    fn finish(mut self) -> Result<Option<Trace>, Error> {
        let failed = |error| Error::io("write a temporary file for", &self.path, error);
        if self.file.is_none() && self.lines.is_empty() {
            return Ok(None);
        }
        let map = match &self.file {
            Some(_) => {
                self.write().map_err(|error| Error::io("write a temporary file for", &self.path, error))?;
                let Some(file) = &self.file else { return Ok(None) };
                Map::of_file(file, &self.path)?
            }
            None => Map::of_memory(&self.lines).map_err(failed)?,
        };
        Ok(of_bytes(self.path, self.tid, effective_user(), Arc::new(map)))
    }
}
