//! The format of text: unchanged lines of the traces, or lines with their times in another form, with or
//! without colours.
//!
//! Without colours and with raw ticks, every line is unchanged, byte for byte, and the output is a trace
//! again.

use std::collections::HashSet;
use std::io::Write;

use regex::bytes::Regex;
use trace_format::line::{Kind, Line, TICKS_DIGITS, TID_DIGITS};

use crate::file::lines::{lines_of, whole_line};
use crate::file::record_text::{RecordText, is_warning};
use crate::input::inputs::Origin;
use crate::ui::colour::Palette;
use crate::ui::console::Content;
use crate::view::export::paint::{paint, write_found};
use crate::view::export::time_column::{TimeColumn, TimeMode};
use crate::view::export::{Copies, Export};
use crate::view::layout::{Context, Destination, Layout, Needs};

/// The layout of a merge: the lines of the traces, with their times in another form if that is requested.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TraceLayout;

impl Layout for TraceLayout {
    fn needs(&self) -> Needs {
        Needs::default()
    }

    fn format(&self, context: &Context) -> Box<dyn Export> {
        let Context { time, palette, found, .. } = context.clone();
        Box::new(TextFormat::new(TextStyle { time, palette, found }))
    }

    fn destination(&self) -> Destination {
        Destination::Merged
    }

    fn content(&self, time: TimeMode, in_colours: bool) -> Content {
        // Lines with ticks are a valid trace again.
        if !in_colours && time == TimeMode::Ticks { Content::Data } else { Content::Text }
    }

    fn has_lines_of_traces(&self) -> bool {
        true
    }
}

/// The style of the lines: the form of times, and colours.
#[derive(Clone, Debug)]
pub(crate) struct TextStyle {
    /// The form in which times stand at the beginning of a line.
    pub time: TimeColumn,
    /// The colours of the output; `None` if it has no colours.
    pub palette: Option<Palette>,
    /// A pattern whose matches are highlighted.
    pub found: Option<Regex>,
}

/// The format of a merge, which writes the lines of the traces.
#[derive(Clone, Debug)]
pub(crate) struct TextFormat {
    style: TextStyle,
    palette: Palette,
    /// Whether the process is named before each thread, because several processes are shown.
    names_processes: bool,
    /// A buffer for the time of a record, kept from one record to the next.
    time: Vec<u8>,
}

impl TextFormat {
    /// Makes a format with this `style`.
    #[must_use]
    pub(crate) fn new(style: TextStyle) -> TextFormat {
        let palette = style.palette.unwrap_or_default();
        TextFormat { style, palette, names_processes: false, time: Vec::new() }
    }

    /// Writes the process id and `/`, which precede the thread if several processes are shown.
    fn write_process(&self, origin: &Origin, out: &mut Vec<u8>) {
        if self.names_processes && self.style.time.mode != TimeMode::Ticks {
            let unknown = if origin.is_log { "-" } else { "?" };
            // Writing to memory does not fail.
            let _ = match &origin.run {
                Some(run) => write!(out, "{}/", run.pid),
                None => write!(out, "{unknown}/"),
            };
        }
    }

    /// Writes a line in colours, beginning with `time`.
    fn write_painted(&self, time: &[u8], origin: &Origin, line: &Line<'_>, out: &mut Vec<u8>) {
        let Palette { meta, warning, .. } = self.palette;
        paint(out, self.palette.time, |out| out.extend_from_slice(time));
        out.push(if self.style.time.mode == TimeMode::Ticks { b'-' } else { b' ' });
        paint(out, self.palette.thread(line.key.tid), |out| {
            self.write_process(origin, out);
            let _ = write!(out, "{:0TID_DIGITS$}", line.key.tid);
        });
        out.extend_from_slice(&[b' ', line.kind.byte(), b' ']);
        match line.kind {
            Kind::Meta if is_warning(line.payload) => {
                paint(out, warning, |out| out.extend_from_slice(line.payload));
            }
            Kind::Meta => paint(out, meta, |out| out.extend_from_slice(line.payload)),
            _ => write_found(out, self.style.found.as_ref(), self.palette.found, line.payload),
        }
        out.push(b'\n');
    }
}

impl Export for TextFormat {
    fn begin(&mut self, origins: &[Origin], _out: &mut Vec<u8>) {
        let shown = origins.iter().filter(|origin| origin.is_shown);
        let processes = shown
            .filter(|origin| !origin.is_log)
            .map(|origin| origin.run.as_ref().map(|run| (&run.boot, run.pid, run.id)));
        self.names_processes = processes.collect::<HashSet<_>>().len() > 1;
    }

    fn record(&mut self, origin: &Origin, record: &RecordText<'_>, out: &mut Vec<u8>) {
        if self.is_verbatim() {
            return out.extend_from_slice(record.lines);
        }
        if self.style.palette.is_some() {
            let mut time = std::mem::take(&mut self.time);
            time.clear();
            self.style.time.write_of(origin, record.ticks, &mut time);
            record.parsed().for_each(|line| self.write_painted(&time, origin, &line, out));
            self.time = time;
            return;
        }
        let start = out.len();
        self.style.time.write_of(origin, record.ticks, out);
        out.push(b' ');
        self.write_process(origin, out);
        let head = start..out.len();
        let (first, more) = match record.line_count {
            1 => (record.lines, &[][..]),
            _ => record.lines.split_at(whole_line(record.lines).len()),
        };
        out.extend_from_slice(behind_ticks(first));
        for line in lines_of(more) {
            out.extend_from_within(head.clone());
            out.extend_from_slice(behind_ticks(line));
        }
    }

    fn finish(&mut self, _out: &mut Vec<u8>) {}

    fn is_verbatim(&self) -> bool {
        self.style.time.mode == TimeMode::Ticks && self.style.palette.is_none()
    }

    fn begin_at(&mut self, first: u64) {
        self.style.time.first = first;
    }

    fn show_processes(&mut self) {
        self.names_processes = true;
    }

    fn copies(&self) -> Option<Copies<'_>> {
        let is_independent = self.style.time.mode != TimeMode::Delta;
        is_independent.then(|| Box::new(|| Box::new(self.clone()) as Box<dyn Export>) as Copies<'_>)
    }
}

/// Returns a line without its ticks and the byte after them.
fn behind_ticks(line: &[u8]) -> &[u8] {
    line.get(TICKS_DIGITS + 1..).unwrap_or_default()
}

#[cfg(test)]
mod tests;
