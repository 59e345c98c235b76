//! JSON lines: each record is an object in its own line. Keys with unknown values are missing. The key `error_ns` is
//! only there if a time was converted from the clock of another machine; it is `null` if nothing limits the error of
//! this time.

use crate::view::export::events::{Event, EventContent, EventFormat, Inventory};
use crate::view::export::fields::{CommonTexts, Row, TimeText, message_of, put_fields};
use crate::view::export::format::{OutputContent, OutputFormat, contains, export_events};
use crate::view::export::json::{put_number, put_string};
use crate::view::threads::TimeScale;

/// The description of the format `jsonl` for the command line.
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

/// The writer of the format `jsonl`.
#[derive(Debug, Default)]
pub(crate) struct JsonlFormat {
    times: TimeText,
    texts: CommonTexts,
}

impl EventFormat for JsonlFormat {
    fn clock(&self) -> Option<TimeScale> {
        Some(TimeScale::Wall)
    }

    fn event(&mut self, event: &Event<'_>, inventory: &Inventory, out: &mut Vec<u8>) {
        if let EventContent::Close(_) = event.what {
            return;
        }
        let thread = &inventory.threads()[event.thread];
        out.extend_from_slice(b"{\"ticks\":");
        put_number(event.ticks.0, out);
        if !thread.may_be_older(event.ticks) {
            out.extend_from_slice(b",\"time\":\"");
            self.times.put(event.time, out);
            out.extend_from_slice(b"\",\"ns\":");
            put_number(event.time, out);
        }
        if let Some(foreign) = &thread.foreign {
            out.extend_from_slice(b",\"error_ns\":");
            match foreign.error_ns(event.ticks) {
                Some(ns) => put_number(ns, out),
                None => out.extend_from_slice(b"null"),
            }
        }
        self.texts.put_thread(event, inventory, out, put_thread);
        self.texts.put_place(event, inventory, out, put_place);
        if let Some(message) = message_of(event) {
            out.extend_from_slice(b",\"message\":");
            put_string(message, out);
        }
        let end = out.len();
        out.extend_from_slice(b",\"fields\":");
        let fields = out.len();
        put_fields(event, inventory, out);
        if out.len() == fields {
            out.truncate(end);
        }
        out.extend_from_slice(b"}\n");
    }

    fn omissions(&self, inventory: &Inventory) -> Vec<String> {
        inventory.text_omissions()
    }
}

/// Appends the members of the JSON object that depend only on the thread, each after a comma.
fn put_thread(row: &Row<'_>, out: &mut Vec<u8>) {
    if let Some(pid) = row.pid {
        out.extend_from_slice(b",\"pid\":");
        put_number(pid.into(), out);
        put_text(b",\"process\":", Some(row.process), out);
    }
    out.extend_from_slice(b",\"tid\":");
    put_number(row.tid, out);
    put_text(b",\"thread\":", Some(row.thread), out);
}

/// Appends the kind of the record, and the members of the JSON object that depend only on its function or its site,
/// each after a comma.
fn put_place(row: &Row<'_>, out: &mut Vec<u8>) {
    put_text(b",\"kind\":", Some(row.kind), out);
    put_text(b",\"level\":", row.level, out);
    put_text(b",\"target\":", row.target, out);
    put_text(b",\"module\":", row.module, out);
    put_text(b",\"file\":", row.file, out);
    if let Some(line) = row.line {
        out.extend_from_slice(b",\"line\":");
        put_number(line.into(), out);
    }
    put_text(b",\"function\":", row.function, out);
    put_text(b",\"template\":", row.template, out);
}

/// Appends `key`, which includes its punctuation, and the text as a JSON string; nothing if there is no text.
fn put_text(key: &[u8], text: Option<&str>, out: &mut Vec<u8>) {
    if let Some(text) = text {
        out.extend_from_slice(key);
        put_string(text, out);
    }
}
