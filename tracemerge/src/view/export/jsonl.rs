//! JSON lines: each record is an object in its own line. Keys with unknown values are missing, except
//! `error_ns`: it is `null` if nothing limits the error of a foreign time, and missing if the time is not foreign.

use crate::view::export::events::{Event, EventContent, EventFormat, Inventory, LockContent};
use crate::view::export::fields::{TimeText, function_left, message_of, put_fields, row_of};
use crate::view::export::format::{OutputContent, OutputFormat, contains, export_events};
use crate::view::export::json::{put_number, put_string};
use crate::view::threads::{Thread, TimeScale};

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

/// The format of JSON lines. The members of an object that depend on the thread only, or on the function or the site
/// only, are made once.
#[derive(Debug, Default)]
pub(crate) struct JsonlFormat {
    times: TimeText,
    /// The members of each thread, with the label that they show: a thread may be renamed.
    threads: Vec<(String, Vec<u8>)>,
    /// The members of the enter records, and those of the leave records, of each function.
    functions: [Vec<Vec<u8>>; 2],
    /// The members of the messages of each site.
    sites: Vec<Vec<u8>>,
}

impl EventFormat for JsonlFormat {
    fn clock(&self) -> Option<TimeScale> {
        Some(TimeScale::Wall)
    }

    fn event(&mut self, event: &Event<'_>, inventory: &Inventory, out: &mut Vec<u8>) {
        let texts = match &event.what {
            EventContent::Close(_) => return,
            EventContent::Message { site: Some(site), lock, .. } if *lock != LockContent::Record => {
                Some((&mut self.sites, *site))
            }
            EventContent::Enter(call_info) => {
                Some((&mut self.functions[0], call_info.called.function as usize))
            }
            EventContent::Leave(call_info, ended) => {
                Some((&mut self.functions[1], function_left(call_info, ended) as usize))
            }
            EventContent::Message { .. } | EventContent::Stack(_) | EventContent::Meta { .. } => None,
        };
        let thread = &inventory.threads()[event.thread];
        out.extend_from_slice(b"{\"ticks\":");
        put_number(event.ticks.0, out);
        out.extend_from_slice(b",\"time\":\"");
        self.times.put(event.time, out);
        out.extend_from_slice(b"\",\"ns\":");
        put_number(event.time, out);
        if let Some(foreign) = &thread.foreign {
            out.extend_from_slice(b",\"error_ns\":");
            match foreign.error_ns(event.ticks) {
                Some(ns) => put_number(ns, out),
                None => out.extend_from_slice(b"null"),
            }
        }
        self.threads.resize_with(self.threads.len().max(event.thread + 1), Default::default);
        let (label, members) = &mut self.threads[event.thread];
        if members.is_empty() || label != thread.label() {
            thread.label().clone_into(label);
            members.clear();
            put_thread(thread, inventory, members);
        }
        out.extend_from_slice(members);
        match texts {
            Some((texts, index)) => {
                texts.resize_with(texts.len().max(index + 1), Vec::new);
                if texts[index].is_empty() {
                    put_place(event, inventory, &mut texts[index]);
                }
                out.extend_from_slice(&texts[index]);
            }
            None => put_place(event, inventory, out),
        }
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

/// Appends the members that depend on the thread only, each after a comma.
fn put_thread(thread: &Thread, inventory: &Inventory, out: &mut Vec<u8>) {
    let process = &inventory.processes()[thread.process];
    if let Some(run) = &process.run {
        out.extend_from_slice(b",\"pid\":");
        put_number(run.pid.into(), out);
        put_text(b",\"process\":", Some(&process.name), out);
    }
    out.extend_from_slice(b",\"tid\":");
    put_number(thread.tid, out);
    put_text(b",\"thread\":", Some(thread.label()), out);
}

/// Appends the kind of the event, and the members that depend on its function or its site only, each after a comma.
fn put_place(event: &Event<'_>, inventory: &Inventory, out: &mut Vec<u8>) {
    let Some(row) = row_of(event, inventory) else { return };
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

/// Appends `key` and a text, if there is a text.
fn put_text(key: &[u8], text: Option<&str>, out: &mut Vec<u8>) {
    if let Some(text) = text {
        out.extend_from_slice(key);
        put_string(text, out);
    }
}
