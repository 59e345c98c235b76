//! Comma-separated values (RFC 4180): each record is a row, and the first row has the names of the columns.
//! Cells with unknown values are empty.

use crate::view::export::events::{Event, EventContent, EventFormat, Inventory};
use crate::view::export::fields::{CommonTexts, TimeText, foreign_error_ns, message_of, put_fields};
use crate::view::export::format::{OutputContent, OutputFormat, export_events};
use crate::view::export::json::put_number;
use crate::view::threads::TimeScale;

/// The description of the format `csv` for the command line.
pub(crate) static FORMAT: OutputFormat = OutputFormat {
    name: "csv",
    about: "A row of comma-separated values for each record",
    extension: "csv",
    content: OutputContent::Text,
    nests_calls: false,
    times_of_day: true,
    takes_states: false,
    begins: |head| head.starts_with(b"ticks,time,ns,pid,process,tid,thread,kind,level,target,"),
    make: Some(export_events::<CsvFormat>),
};

/// The first row: the names of the columns.
const HEAD: &[u8] = b"ticks,time,ns,pid,process,tid,thread,kind,level,target,module,file,line,function,template,message,fields,error_ns\n";

/// The writer of the format `csv`.
#[derive(Debug, Default)]
pub(crate) struct CsvFormat {
    times: TimeText,
    texts: CommonTexts,
    /// A buffer for the text of a record's fields.
    fields: Vec<u8>,
}

/// Appends a comma and then a cell with this text, in quotes if necessary.
fn put_text(text: &[u8], out: &mut Vec<u8>) {
    out.push(b',');
    put_cell(text, out);
}

/// Appends a text as a cell, in quotes if necessary.
pub(crate) fn put_cell(text: &[u8], out: &mut Vec<u8>) {
    if !text.iter().any(|byte| matches!(byte, b'"' | b',' | b'\n' | b'\r')) {
        return out.extend_from_slice(text);
    }
    out.push(b'"');
    for &byte in text {
        if byte == b'"' {
            out.push(b'"');
        }
        out.push(byte);
    }
    out.push(b'"');
}

fn put_optional(number: Option<u32>, out: &mut Vec<u8>) {
    out.push(b',');
    if let Some(number) = number {
        put_number(number.into(), out);
    }
}

impl EventFormat for CsvFormat {
    fn begin(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(HEAD);
    }

    fn clock(&self) -> Option<TimeScale> {
        Some(TimeScale::Wall)
    }

    fn event(&mut self, event: &Event<'_>, inventory: &Inventory, out: &mut Vec<u8>) {
        if let EventContent::Close(_) = event.what {
            return;
        }
        put_number(event.ticks.0, out);
        out.push(b',');
        if inventory.threads()[event.thread].may_be_older(event.ticks) {
            out.push(b',');
        } else {
            self.times.put(event.time, out);
            out.push(b',');
            put_number(event.time, out);
        }
        self.texts.put_thread(event, inventory, out, |row, out| {
            put_optional(row.pid, out);
            put_text(row.process.as_bytes(), out);
            out.push(b',');
            put_number(row.tid, out);
            put_text(row.thread.as_bytes(), out);
        });
        self.texts.put_place(event, inventory, out, |row, out| {
            for cell in [Some(row.kind), row.level, row.target, row.module, row.file] {
                put_text(cell.unwrap_or("").as_bytes(), out);
            }
            put_optional(row.line, out);
            for cell in [row.function, row.template] {
                put_text(cell.unwrap_or("").as_bytes(), out);
            }
        });
        put_text(message_of(event).unwrap_or("").as_bytes(), out);
        self.fields.clear();
        put_fields(event, inventory, &mut self.fields);
        put_text(&self.fields, out);
        out.push(b',');
        if let Some(ns) = foreign_error_ns(event, inventory) {
            put_number(ns, out);
        }
        out.push(b'\n');
    }

    fn omissions(&self, inventory: &Inventory) -> Vec<String> {
        inventory.text_omissions()
    }
}
