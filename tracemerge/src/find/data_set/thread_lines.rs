//! The lines of a thread, which are made from the rows of a data set.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use trace_format::escape::{EscapeContext, escape_into, is_harmless};
use trace_format::function::{FunctionLine, FunctionName, FunctionPlace, escape_name};
use trace_format::line::{Kind, Prefix, Ticks};
use trace_format::record::Flags;

use super::RECORDS;
use super::limits::Bounds;
use crate::file::map::Map;
use crate::find::header::{Trace, of_bytes};
use crate::os::sys::effective_user;
use crate::ui::error::Error;

/// The columns of a record besides its thread, its ticks and its kind.
#[derive(Default)]
pub(super) struct Row<'a> {
    pub place: &'a str,
    pub message: &'a str,
    pub function: &'a str,
    pub span: Option<i64>,
}

/// A call of the thread that was entered, but not left, in the rows that were read so far.
struct OpenCall {
    function: String,
    /// The span that contains the call. If the call itself enters that span, `entered` has the same number; otherwise
    /// it is `None`.
    span: Option<i64>,
    entered: Option<u64>,
}

/// The lines of a thread while they are made.
pub(super) struct ThreadLines {
    path: PathBuf,
    host: String,
    run: String,
    tid: u64,
    /// The wanted ticks of the thread.
    bounds: Bounds,
    prefix: Prefix,
    /// The lines that are in memory, because they have not been written to the temporary `file` yet.
    lines: Vec<u8>,
    file: Option<File>,
    open: Vec<OpenCall>,
    /// The ticks of the last line; `last_row` has the ticks of the last row, even if that became no line.
    last_line: u64,
    last_row: u64,
}

impl ThreadLines {
    /// Begins the lines of the thread with this machine, run and id. `bounds` are its wanted ticks.
    pub(super) fn new(set: &Path, (host, run, tid): (&str, &str, u64), bounds: Bounds) -> ThreadLines {
        ThreadLines {
            path: set.join(RECORDS).join(format!("{run}.trace.{tid}")),
            host: host.to_owned(),
            run: run.to_owned(),
            tid,
            bounds,
            prefix: Prefix::new(tid),
            lines: Vec::new(),
            file: None,
            open: Vec::new(),
            last_line: 0,
            last_row: 0,
        }
    }

    /// Returns whether this is the thread with this machine, run and id.
    pub(super) fn is_of(&self, (host, run, tid): (&str, &str, u64)) -> bool {
        self.tid == tid && self.run == run && self.host == host
    }

    /// Returns whether lines with these ticks are wanted.
    pub(super) fn wants(&self, ticks: u64) -> bool {
        let (since, until) = self.bounds;
        ticks >= since && (ticks < until || until == u64::MAX)
    }

    /// Returns the number of bytes of the lines in memory.
    pub(super) fn bytes(&self) -> usize {
        self.lines.len()
    }

    /// Appends a record as one or more lines. Returns the number of bytes that were added.
    pub(super) fn add(&mut self, ticks: Ticks, kind: &str, row: &Row<'_>) -> usize {
        let before = self.lines.len();
        self.put(ticks, kind, row);
        (self.last_line, self.last_row) = (ticks.0, ticks.0);
        self.lines.len() - before
    }

    /// Stores the ticks of a record that becomes no line, because the trace may end at these ticks.
    pub(super) fn leave_out(&mut self, ticks: Ticks) {
        self.last_row = ticks.0;
    }

    /// Enters or leaves a call whose record becomes no line, because the call may contain later ones.
    pub(super) fn follow(&mut self, ticks: Ticks, kind: &str, row: &Row<'_>) {
        if kind == "enter" {
            self.enter(row);
        } else {
            self.leave(row);
        }
        self.leave_out(ticks);
    }

    /// Enters a call. Returns the span that the call enters; `None` if it enters none.
    fn enter(&mut self, row: &Row<'_>) -> Option<u64> {
        let around = self.open.last().and_then(|call| call.span);
        let span = row.span.filter(|_| row.span != around);
        let entered = span.map(|span| u64::from_ne_bytes(span.to_ne_bytes()));
        self.open.push(OpenCall { function: row.function.to_owned(), span: row.span, entered });
        entered
    }

    /// Leaves a call. Returns the span that the call had entered; `None` if it had entered none.
    fn leave(&mut self, row: &Row<'_>) -> Option<u64> {
        let at = self.open.iter().rposition(|call| call.function == row.function);
        at.and_then(|at| self.open.drain(at..).next()).and_then(|call| call.entered)
    }

    fn put(&mut self, ticks: Ticks, kind: &str, row: &Row<'_>) {
        match kind {
            "message" | "lock" => {
                let first = if kind == "lock" { Kind::Lock } else { Kind::Message };
                for (number, text) in row.message.split('\n').enumerate() {
                    let kind = if number == 0 { first } else { Kind::Continuation };
                    self.prefix.begin(&mut self.lines, ticks, kind);
                    escape_into(&mut self.lines, text.as_bytes(), EscapeContext::Line);
                    self.lines.push(b'\n');
                }
                return;
            }
            "enter" => {
                let span = self.enter(row);
                self.prefix.begin(&mut self.lines, ticks, Kind::Enter);
                self.put_function(row, span);
            }
            "leave" => {
                let span = self.leave(row);
                self.prefix.begin(&mut self.lines, ticks, Kind::Leave);
                self.put_function(row, span);
            }
            "stack" => {
                self.prefix.begin(&mut self.lines, ticks, Kind::Stack);
                self.put_payload(row.message);
            }
            word => {
                self.prefix.begin(&mut self.lines, ticks, Kind::Meta);
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

    /// Appends a payload. Escapes it if it contains bytes that could control a terminal, as only a data set of another
    /// program does.
    fn put_payload(&mut self, text: &str) {
        if is_harmless(text.as_bytes()) {
            self.lines.extend_from_slice(text.as_bytes());
        } else {
            escape_into(&mut self.lines, text.as_bytes(), EscapeContext::Line);
        }
    }

    /// Writes the lines in memory to the temporary file.
    ///
    /// # Errors
    /// The temporary file cannot be created or written.
    pub(super) fn write(&mut self) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(tempfile::tempfile()?),
        };
        file.write_all(&self.lines)?;
        self.lines.clear();
        Ok(())
    }

    /// Returns the trace that consists of all lines of the thread; `None` if there are no lines.
    ///
    /// # Errors
    /// There is no room for a temporary file.
    pub(super) fn finish(mut self) -> Result<Option<Trace>, Error> {
        if self.last_row > self.last_line {
            // The times of the last lines are those of the traces; this one is outside of the wanted part.
            self.add(Ticks(self.last_row), "message", &Row::default());
        }
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
