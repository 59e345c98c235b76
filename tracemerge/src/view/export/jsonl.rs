//! JSON lines: each record is an object in its own line. Keys with unknown values are missing, except
//! `error_ns`: it is `null` if nothing limits the error of a foreign time, and missing if the time is not foreign.

use crate::view::export::events::{Event, EventFormat, Inventory};
use crate::view::export::fields::{TimeText, put_fields, row_of};
use crate::view::export::format::{OutputContent, OutputFormat, contains, export_events};
use crate::view::export::json::{put_number, put_string};
use crate::view::threads::TimeScale;

/// The description of the format for the command line.
pub(crate) static FORMAT: OutputFormat = OutputFormat {
    name: "jsonl",
    about: "A JSON object for each record",
    extension: "jsonl",
    content: OutputContent::Json,
    nests_calls: false,
    times_of_day: true,
    takes_states: false,
    begins: |head| head.starts_with(b"{\"ticks\":") && contains(head, b",\"ns\":"),
    make: Some(export_events::<JsonlFormat>),
};

/// The format of JSON lines.
#[derive(Debug, Default)]
pub(crate) struct JsonlFormat {
    times: TimeText,
    /// A buffer for the fields of a record.
    fields: Vec<u8>,
}

impl EventFormat for JsonlFormat {
    fn clock(&self) -> Option<TimeScale> {
        Some(TimeScale::Wall)
    }

    fn event(&mut self, event: &Event<'_>, inventory: &Inventory, out: &mut Vec<u8>) {
        self.fields.clear();
        let Some(row) = row_of(event, inventory) else { return };
        put_fields(event, inventory, &mut self.fields);
        out.extend_from_slice(b"{\"ticks\":");
        put_number(event.ticks.0, out);
        out.extend_from_slice(b",\"time\":\"");
        self.times.put(event.time, out);
        out.extend_from_slice(b"\",\"ns\":");
        put_number(event.time, out);
        if let Some(foreign) = &inventory.threads()[event.thread].foreign {
            out.extend_from_slice(b",\"error_ns\":");
            match foreign.error_ns(event.ticks) {
                Some(ns) => put_number(ns, out),
                None => out.extend_from_slice(b"null"),
            }
        }
        if let Some(pid) = row.pid {
            out.extend_from_slice(b",\"pid\":");
            put_number(pid.into(), out);
            out.extend_from_slice(b",\"process\":");
            put_string(row.process, out);
        }
        out.extend_from_slice(b",\"tid\":");
        put_number(row.tid, out);
        let mut text = |key: &[u8], value: Option<&str>| {
            if let Some(value) = value {
                out.extend_from_slice(key);
                put_string(value, out);
            }
        };
        text(b",\"thread\":", Some(row.thread));
        text(b",\"kind\":", Some(row.kind));
        text(b",\"level\":", row.level);
        text(b",\"target\":", row.target);
        text(b",\"module\":", row.module);
        text(b",\"file\":", row.file);
        if let Some(line) = row.line {
            out.extend_from_slice(b",\"line\":");
            put_number(line.into(), out);
        }
        let mut text = |key: &[u8], value: Option<&str>| {
            if let Some(value) = value {
                out.extend_from_slice(key);
                put_string(value, out);
            }
        };
        text(b",\"function\":", row.function);
        text(b",\"template\":", row.template);
        text(b",\"message\":", row.message);
        if !self.fields.is_empty() {
            out.extend_from_slice(b",\"fields\":");
            out.extend_from_slice(&self.fields);
        }
        out.extend_from_slice(b"}\n");
    }

    fn omissions(&self, inventory: &Inventory) -> Vec<String> {
        inventory.text_omissions()
    }
}
