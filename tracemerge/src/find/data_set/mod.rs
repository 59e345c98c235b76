//! The runs of a data set as traces.
//!
//! The rows of the table `records` become lines, in one file for each thread of each run. These files are in memory or,
//! if that is too little, temporary files without names. So every command reads a set like the traces from which it was
//! made, as far as the set has their content: functions have names instead of addresses, and messages have no sites and
//! no values. If a command wants only a part of the set (see [`limits`]), row groups outside of the part are not read,
//! and only the rows in the part become lines.

mod columns;
mod limits;
mod thread_lines;

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::Path;

use parquet::file::reader::{FileReader, RowGroupReader};
use trace_format::line::Ticks;

use crate::file::parquet::{COMPACTED, RUN_KEY, guarded, keys, open};
use crate::find::data_set::columns::{BATCH, Column};
use crate::find::data_set::limits::{Extent, Limits, NOTHING, RowKind};
use crate::find::data_set::thread_lines::{Row, ThreadLines};
use crate::find::header::Trace;
use crate::find::part::Part;
use crate::find::set_files::{RUNS, list_files};
use crate::find::set_runs::checked_files;
use crate::ui::error::Error;
use crate::ui::messages::{Messages, count, shown};

/// The name of the table whose rows become lines.
const RECORDS: &str = "records";
/// The number of bytes of lines in memory above which the lines of the largest threads are written to temporary files.
const MAX_BYTES: usize = 128 << 20;
/// The minimum size of a large thread's lines in memory, in bytes: only the lines of large threads are written to
/// files.
const LARGE: usize = 64 << 10;

/// Returns whether a directory is a data set: its table of runs has a file with the metadata of a data set.
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

/// Returns the traces in a data set, as far as `part` may need their lines.
///
/// # Errors
/// A file is damaged or of a later version, or there is no room for temporary files.
pub(super) fn traces(set: &Path, part: &Part, messages: &mut Messages) -> Result<Vec<Trace>, Error> {
    let failed = |error| Error::io("read the data set", set, error);
    let mut files = checked_files(set, &[RECORDS, RUNS]).map_err(failed)?.unwrap_or_default();
    let limits = Limits::of(part, set, &files);
    files.retain(|place| place.table == RECORDS);
    // The files of a run are numbered. Only the last one of a day can be in a file of several runs.
    files.sort_by_cached_key(|place| {
        let name = place.name.trim_end_matches(".parquet");
        let (run, number) = name.rsplit_once('-').unwrap_or((name, ""));
        let is_of_several = name.starts_with(COMPACTED);
        let folder = (place.day.clone(), place.machine.clone());
        (folder, is_of_several, run.to_owned(), number.parse::<u64>().ok())
    });
    let mut all = Threads {
        set,
        limits: &limits,
        by_key: HashMap::new(),
        threads: Vec::new(),
        last: 0,
        bytes: 0,
        odd: 0,
    };
    for place in files {
        let path = place.path_in(set);
        guarded(|| all.read(&path)).map_err(|error| Error::io("read", &path, error))?;
    }
    if all.odd > 0 {
        let rows = count(all.odd, "row");
        messages.warn(format_args!("{rows} of {} without a run, a thread or a kind: left out", shown(set)));
    }
    let traces = all.threads.into_iter().map(ThreadLines::finish);
    Ok(traces.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
}

/// The threads of a data set, while their lines are made from rows.
struct Threads<'a> {
    set: &'a Path,
    limits: &'a Limits,
    /// The index of each thread in `threads`, by the thread's machine, run and id.
    by_key: HashMap<(String, String, u64), usize>,
    threads: Vec<ThreadLines>,
    /// The index in `threads` of the thread to which the last row belongs.
    last: usize,
    /// The number of bytes of lines in memory.
    bytes: usize,
    /// The number of rows that are left out because they lack ticks, a run, a thread or a kind.
    odd: u64,
}

/// The columns of a row group.
struct Columns {
    ticks: Column,
    host: Column,
    run: Column,
    tid: Column,
    kind: Column,
    /// The boot of each row's thread. This column, `pid` and `thread` show whether the thread is wanted.
    boot: Column,
    pid: Column,
    thread: Column,
    /// The function of a call. This column and `span` are read for all calls, even for those that become no lines.
    function: Column,
    span: Column,
    /// The position of the call in the source. This column and `message` are read only for rows that become lines.
    place: Column,
    message: Column,
}

impl Columns {
    fn open(group: &dyn RowGroupReader) -> io::Result<Columns> {
        let open = |name| Column::open(group, name).map_err(io::Error::other);
        Ok(Columns {
            ticks: open("ticks")?,
            host: open("host")?,
            run: open("run")?,
            tid: open("tid")?,
            kind: open("kind")?,
            boot: open("boot")?,
            pid: open("pid")?,
            thread: open("thread")?,
            function: open("function")?,
            span: open("span")?,
            place: open("place")?,
            message: open("message")?,
        })
    }

    fn of_heads(&mut self) -> [&mut Column; 8] {
        let Columns { ticks, host, run, tid, kind, boot, pid, thread, .. } = self;
        [ticks, host, run, tid, kind, boot, pid, thread]
    }
}

/// The use that is made of a row of the table `records`.
#[derive(Clone, Copy)]
enum Use {
    /// The row is left out: it lacks ticks, a run, a thread or a kind.
    Nothing,
    /// The row becomes a line of the thread with this index.
    Line(usize),
    /// The row enters or leaves a call of the thread with this index, and becomes no line. It is followed, because the
    /// call may contain later ones.
    Call(usize),
    /// The row belongs to the thread with this index and becomes no line. Only its ticks are used: the trace may end
    /// there.
    Time(usize),
}

impl Threads<'_> {
    /// Adds the lines of a file of the table `records`.
    fn read(&mut self, path: &Path) -> io::Result<()> {
        let reader = open(File::open(path)?)?;
        let groups = reader.num_row_groups();
        for number in 0..groups {
            let group = reader.get_row_group(number).map_err(io::Error::other)?;
            let extent = if self.limits.are_none() {
                Extent::Wanted(false)
            } else {
                self.limits.extent(&*group, number + 1 == groups)
            };
            if let Extent::Wanted(with_calls) = extent {
                self.read_group(&*group, with_calls)?;
            }
        }
        Ok(())
    }

    /// Adds the lines of the wanted rows of a row group, and of the other rows that are always kept. `with_calls` says
    /// whether calls are followed in rows that are not wanted.
    fn read_group(&mut self, group: &dyn RowGroupReader, with_calls: bool) -> io::Result<()> {
        let mut columns = Columns::open(group)?;
        let mut left = usize::try_from(group.metadata().num_rows()).unwrap_or(0);
        let mut uses = Vec::with_capacity(BATCH);
        while left > 0 {
            let rows = left.min(BATCH);
            left -= rows;
            columns.of_heads().into_iter().try_for_each(|column| column.read(rows))?;
            uses.clear();
            for _ in 0..rows {
                uses.push(self.use_of_row(&mut columns, with_calls)?);
            }
            let has_lines = uses.iter().any(|of| matches!(of, Use::Line(_)));
            let has_calls = has_lines || uses.iter().any(|of| matches!(of, Use::Call(_)));
            let Columns { function, span, place, message, .. } = &mut columns;
            for (column, is_read) in
                [(function, has_calls), (span, has_calls), (place, has_lines), (message, has_lines)]
            {
                if is_read { column.read(rows)? } else { column.skip(rows)? }
            }
            let Columns { ticks, kind, function, span, place, message, .. } = &mut columns;
            ticks.rewind();
            kind.rewind();
            for of in &uses {
                let (ticks, kind) = (ticks.integer().unwrap_or(0), kind.text()?.unwrap_or_default());
                let ticks = Ticks(u64::from_ne_bytes(ticks.to_ne_bytes()));
                let mut row = Row::default();
                if has_calls {
                    (row.function, row.span) = (function.text()?.unwrap_or_default(), span.integer());
                }
                if has_lines {
                    row.place = place.text()?.unwrap_or_default();
                    row.message = message.text()?.unwrap_or_default();
                }
                match *of {
                    Use::Nothing => {}
                    Use::Line(thread) => self.bytes += self.threads[thread].add(ticks, kind, &row),
                    Use::Call(thread) => self.threads[thread].follow(ticks, kind, &row),
                    Use::Time(thread) => self.threads[thread].leave_out(ticks),
                }
            }
            self.make_room()?;
        }
        Ok(())
    }

    /// Decides how the next row is used. `with_calls` says whether calls are followed in rows that are not wanted.
    fn use_of_row(&mut self, columns: &mut Columns, with_calls: bool) -> io::Result<Use> {
        let Columns { ticks, host, run, tid, kind, boot, pid, thread, .. } = columns;
        let (ticks, host, run) = (ticks.integer(), host.text()?.unwrap_or_default(), run.text()?);
        let (tid, kind, boot) = (tid.integer(), kind.text()?.unwrap_or_default(), boot.text()?);
        let (pid, label) = (pid.integer(), thread.text()?.unwrap_or_default());
        let is_word = kind.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
        let (Some(ticks), Some(run), Some(tid), true) = (ticks, run, tid, is_word && !kind.is_empty()) else {
            self.odd += 1;
            return Ok(Use::Nothing);
        };
        let key = (host, run, u64::from_ne_bytes(tid.to_ne_bytes()));
        if !self.threads.get(self.last).is_some_and(|thread| thread.is_of(key)) {
            let owned = (host.to_owned(), run.to_owned(), key.2);
            self.last = *self.by_key.entry(owned).or_insert_with(|| {
                let bounds = if self.limits.wants_thread(pid, tid, label) {
                    self.limits.bounds(boot)
                } else {
                    NOTHING
                };
                self.threads.push(ThreadLines::new(self.set, key, bounds));
                self.threads.len() - 1
            });
        }
        let ticks = u64::from_ne_bytes(ticks.to_ne_bytes());
        Ok(match RowKind::of(kind) {
            _ if self.threads[self.last].wants(ticks) => Use::Line(self.last),
            RowKind::Statement => Use::Line(self.last),
            RowKind::Call if with_calls => Use::Call(self.last),
            _ => Use::Time(self.last),
        })
    }

    /// Writes the lines of large threads to temporary files, if all lines take more than `MAX_BYTES` in memory.
    fn make_room(&mut self) -> io::Result<()> {
        if self.bytes <= MAX_BYTES {
            return Ok(());
        }
        for thread in self.threads.iter_mut().filter(|thread| thread.bytes() >= LARGE) {
            thread.write()?;
        }
        self.bytes = self.threads.iter().map(ThreadLines::bytes).sum();
        Ok(())
    }
}
