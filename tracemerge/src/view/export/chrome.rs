//! The JSON of Chrome's `about:tracing` (Trace Event Format): an object with an array of events, one event in each
//! line.
//!
//! * Calls are events `B` and `E`.
//! * Messages and `#` lines are events `i`.
//! * Stalls are events `X`, on an additional track of their thread, because they overlap calls.
//! * Spans are asynchronous events `b` and `e` (nestable, with an id and the category `span`): one pair from a span's
//!   beginning to its end, and inside it one pair for each time that the span was busy.
//! * Flows are events `s`, `t` and `f`, each after an event that the flow joins to others.
//!
//! Times are microseconds with three decimals since the first event; `otherData` has the time of the first event.
//! Readers sort an `E` before a `B` of the same time, so the `E` would end another call. Therefore no two `B` or `E` of
//! a thread have the same time: the later one is delayed by a nanosecond.

use std::collections::HashSet;
use std::io::Write;

use trace_format::meta::Meta;
use trace_format::record::Flags;
use trace_format::wall::Wall;

use crate::ui::messages::count;
use crate::view::export::aspects::Aspect;
use crate::view::export::events::{Event, EventContent, EventFormat, Inventory, LockContent};
use crate::view::export::fields::{is_of_modules, keys_of, level, put_key, put_object};
use crate::view::export::flows::{self, Flow, Flows};
use crate::view::export::format::{OutputContent, OutputFormat, contains, export_events};
use crate::view::export::json::{put_number, put_string, put_value};
use crate::view::export::pids::Pids;
use crate::view::export::spans::arguments::{Argument, arguments, later_fields};
use crate::view::function_names::CallInfo;
use crate::view::known_spans::{KnownSpans, Span, SpanChange, SpanKey};
use crate::view::thread_states::OffTime;
use crate::view::values::Value;

/// The number of events above which some viewers fail.
const MAX_VIEWER_EVENTS: u64 = 100_000;
/// A constant for the thread ids of stalls' tracks: the id is the constant plus the thread's index plus 1. The constant
/// is greater than any thread id of Linux, and has fewer than 32 bits, because readers keep only 32.
const STALLS: u64 = 1 << 30;
/// A constant for the thread ids of the tracks that show when threads were off the processor: the id is the constant
/// plus the thread's index plus 1.
const STATES: u64 = 1 << 29;

/// The description of the format `chrome` for the command line.
pub(crate) static FORMAT: OutputFormat = OutputFormat {
    name: "chrome",
    about: "A timeline as JSON, for tools that read Chrome's traces",
    extension: "chrome.json",
    content: OutputContent::Json,
    nests_calls: true,
    times_of_day: false,
    takes_states: true,
    begins: |head| head.starts_with(b"{") && contains(head, b"\"displayTimeUnit\":\"ns\",\"traceEvents\":["),
    make: Some(export_events::<ChromeFormat>),
};

/// The writer of the format `chrome`.
#[derive(Debug, Default)]
pub(crate) struct ChromeFormat {
    pids: Pids,
    /// The time of the first event, in nanoseconds; `None` before it.
    first: Option<u64>,
    /// The number of events that were written.
    events: u64,
    /// For each thread, whether its name was written.
    named: Vec<bool>,
    /// For each thread, the time of the last `B` or `E`, in nanoseconds.
    last: Vec<Option<u64>>,
    /// For each thread, the end of its last stall, in nanoseconds.
    stalled_until: Vec<Option<u64>>,
    /// For each thread, whether the name of its track for times off the processor was written.
    has_states: Vec<bool>,
    /// The ids of the flows that have begun and not ended. Flows of messages come from `of_messages`.
    flows: HashSet<u64>,
    of_messages: Flows,
}

impl ChromeFormat {
    /// Begins an event of a thread with the phase `phase`: writes the keys that all events have.
    fn put(&mut self, (thread, phase, wall): (usize, char, u64), inventory: &Inventory, out: &mut Vec<u8>) {
        let of = &inventory.threads()[thread];
        let pid = self.pids.of(of.process, inventory).0;
        let wall = match (phase, self.last[thread]) {
            ('B' | 'E', Some(last)) => wall.max(last + 1),
            _ => wall,
        };
        if matches!(phase, 'B' | 'E') {
            self.last[thread] = Some(wall);
        }
        self.begin_event_of((pid, of.tid), (phase, wall), out);
    }

    fn begin_event_of(&mut self, (pid, tid): (u32, u64), (phase, wall): (char, u64), out: &mut Vec<u8>) {
        out.extend_from_slice(if self.events == 0 { b"\n" } else { b",\n" });
        self.events += 1;
        out.extend_from_slice(b"{\"ph\":\"");
        out.push(phase as u8);
        out.extend_from_slice(b"\",\"pid\":");
        put_number(pid.into(), out);
        out.extend_from_slice(b",\"tid\":");
        put_number(tid, out);
        out.extend_from_slice(b",\"ts\":");
        let first = self.first.unwrap_or(wall);
        if wall < first {
            out.push(b'-');
        }
        put_microseconds(wall.abs_diff(first), out);
    }

    /// Begins the output if this is the first event. Writes the names of the event's process and thread if they were
    /// not written yet.
    fn introduce(&mut self, (number, time): (usize, u64), inventory: &Inventory, out: &mut Vec<u8>) {
        if self.first.is_none() {
            self.first = Some(time);
            let _ = write!(out, "{{\"otherData\":{{\"start\":\"{}\"}},", Wall(time));
            out.extend_from_slice(b"\"displayTimeUnit\":\"ns\",\"traceEvents\":[");
        }
        self.named.resize(self.named.len().max(inventory.threads().len()), false);
        self.stalled_until.resize(self.named.len(), None);
        self.has_states.resize(self.named.len(), false);
        self.last.resize(self.named.len(), None);
        if std::mem::replace(&mut self.named[number], true) {
            return;
        }
        let thread = &inventory.threads()[number];
        let (_, is_new) = self.pids.of(thread.process, inventory);
        let process = &inventory.processes()[thread.process].name[..];
        let is_named = is_new && !process.is_empty();
        for (what, name) in
            [is_named.then_some(("process_name", process)), Some(("thread_name", thread.label()))]
                .into_iter()
                .flatten()
        {
            self.put((number, 'M', time), inventory, out);
            put_name(what, out);
            put_args([("name", name)].into_iter(), out, put_string);
            out.push(b'}');
        }
    }

    /// Writes an event of a flow: the last written event of a thread, at this time, is a part of the flow.
    fn flow(&mut self, (thread, wall): (usize, u64), flow: Flow, inventory: &Inventory, out: &mut Vec<u8>) {
        let (phase, id) = match flow {
            Flow::Passes(id) => (if self.flows.insert(id) { 's' } else { 't' }, id),
            Flow::Ends(id) if self.flows.remove(&id) => ('f', id),
            // The flow has no other event.
            Flow::Ends(_) => return,
            Flow::Began { id, thread, wall } => {
                self.flows.insert(id);
                return self.put_flow((thread, wall), ('s', id), inventory, out);
            }
        };
        self.put_flow((thread, wall), (phase, id), inventory, out);
    }

    fn put_flow(
        &mut self,
        (thread, wall): (usize, u64),
        (phase, id): (char, u64),
        inventory: &Inventory,
        out: &mut Vec<u8>,
    ) {
        self.put((thread, phase, wall), inventory, out);
        // Writing to memory does not fail. With `bp`, readers attach the flow to the event before, and not to the
        // event after.
        let _ = write!(out, ",\"id\":\"{id:#x}\",\"bp\":\"e\",\"cat\":\"flow\",\"name\":\"flow\"}}");
    }

    fn message(&mut self, event: &Event<'_>, inventory: &Inventory, out: &mut Vec<u8>) {
        let EventContent::Message { text, lock, .. } = &event.what else { return };
        self.put((event.thread, 'i', event.time), inventory, out);
        out.extend_from_slice(b",\"s\":\"t\"");
        Self::put_message(&event.what, inventory, out);
        if *lock != LockContent::No {
            let (at, process) = ((event.thread, event.time), inventory.threads()[event.thread].process);
            let mut flows = std::mem::take(&mut self.of_messages);
            flows.of_message(text, process, at, |flow| self.flow(at, flow, inventory, out));
            self.of_messages = flows;
        }
    }

    /// Appends the contents of a message, and ends its event.
    fn put_message(what: &EventContent<'_>, inventory: &Inventory, out: &mut Vec<u8>) {
        let EventContent::Message { site, text, values, .. } = what else { return };
        let Some(known) = inventory.site(*site) else {
            put_name(text, out);
            out.extend_from_slice(b",\"cat\":\"message\"}");
            return;
        };
        let of = &known.site;
        put_name(if of.template.is_empty() { &of.format } else { &of.template }, out);
        out.extend_from_slice(b",\"cat\":");
        match level(of.level) {
            Some(level) => put_string(&format!("{},{level}", known.target()), out),
            None => put_string(known.target(), out),
        }
        match values {
            Some(values) => {
                let named = known.fields.fields().iter().map(|field| &field.name[..]).zip(*values);
                put_args(named, out, put_value);
            }
            None => put_args([("message", *text)].into_iter(), out, put_string),
        }
        out.push(b'}');
    }

    /// Forgets the flow of a span if a leave record says that the span has ended: no further event belongs to the flow.
    fn end_flow(&mut self, call_info: &CallInfo, process: usize) {
        let has_ended = call_info.left.has(Flags::ENDED) || call_info.left.has(Flags::CANCELLED);
        if let Some(Flow::Passes(id)) =
            call_info.span.filter(|_| has_ended).map(|span| flows::of_span(span, process))
        {
            self.flows.remove(&id);
        }
    }

    fn meta(
        &mut self,
        event: &Event<'_>,
        payload: &str,
        meta: Option<&Meta>,
        inventory: &Inventory,
        out: &mut Vec<u8>,
    ) {
        match meta {
            Some(Meta::Run(_) | Meta::Thread(_) | Meta::Name { .. } | Meta::Clock { .. }) => return,
            meta if is_of_modules(meta) => return,
            Some(Meta::Stall { ns }) => return self.stall(event, (event.time, *ns), inventory, out),
            Some(Meta::Wait(wait)) => {
                let end = inventory.threads()[event.thread].clock.steady(wait.end);
                return self.stall(event, (end, wait.ns), inventory, out);
            }
            _ => {}
        }
        let (word, rest) = payload.split_once(' ').unwrap_or((payload, ""));
        self.put((event.thread, 'i', event.time), inventory, out);
        out.extend_from_slice(b",\"s\":\"t\",\"cat\":\"tracer\"");
        put_name(word, out);
        put_args(keys_of(rest), out, put_key);
        out.push(b'}');
    }

    fn stall(
        &mut self,
        event: &Event<'_>,
        (until, ns): (u64, u64),
        inventory: &Inventory,
        out: &mut Vec<u8>,
    ) {
        let thread = &inventory.threads()[event.thread];
        let of = (self.pids.of(thread.process, inventory).0, STALLS + event.thread as u64 + 1);
        let last = self.stalled_until[event.thread].replace(until);
        if last.is_none() {
            self.name_track(of, event.time, &format!("stalls of {}", thread.label()), out);
        }
        let from = until.saturating_sub(ns).max(last.unwrap_or(0)).min(until);
        self.begin_slice(of, (from, until), "stall", out);
        out.extend_from_slice(b",\"cat\":\"tracer\"");
        put_args([("ns", ns)].into_iter(), out, put_number);
        out.push(b'}');
    }

    /// Writes an event of a span, on a track that no thread uses. `span` is the index of the span among all spans.
    fn put_of_span(
        &mut self,
        (thread, span): (usize, u64),
        (phase, time): (char, u64),
        name: &str,
        values: &[Argument<'_>],
        inventory: &Inventory,
        out: &mut Vec<u8>,
    ) {
        self.put((thread, phase, time), inventory, out);
        // Writing to memory does not fail.
        let _ = write!(out, ",\"id\":\"{span:#x}\",\"cat\":\"span\"");
        put_name(name, out);
        if !values.is_empty() {
            put_args(values.iter().map(|(name, value)| (&name[..], value)), out, put_value);
        }
        out.push(b'}');
    }

    fn name_track(&mut self, of: (u32, u64), time: u64, name: &str, out: &mut Vec<u8>) {
        self.begin_event_of(of, ('M', time), out);
        put_name("thread_name", out);
        put_args([("name", name)].into_iter(), out, put_string);
        out.push(b'}');
    }

    /// Begins an event that has a duration: writes its keys up to its name.
    fn begin_slice(&mut self, of: (u32, u64), (from, until): (u64, u64), name: &str, out: &mut Vec<u8>) {
        self.begin_event_of(of, ('X', from), out);
        out.extend_from_slice(b",\"dur\":");
        put_microseconds(until - from, out);
        put_name(name, out);
    }
}

fn put_name(name: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b",\"name\":");
    put_string(name, out);
}

fn put_args<'a, T>(
    fields: impl Iterator<Item = (&'a str, T)>,
    out: &mut Vec<u8>,
    put: impl FnMut(T, &mut Vec<u8>),
) {
    out.extend_from_slice(b",\"args\":");
    put_object(fields, out, put);
}

/// Appends a time in nanoseconds as a number of microseconds.
fn put_microseconds(ns: u64, out: &mut Vec<u8>) {
    put_number(ns / 1000, out);
    let point = out.len();
    // Writes the remainder as three digits after a `1`, and replaces the `1` by the decimal point.
    put_number(1000 + ns % 1000, out);
    out[point] = b'.';
}

impl EventFormat for ChromeFormat {
    fn event(&mut self, event: &Event<'_>, inventory: &Inventory, out: &mut Vec<u8>) {
        self.introduce((event.thread, event.time), inventory, out);
        let (thread, wall) = (event.thread, event.time);
        let (ended, left) = match &event.what {
            EventContent::Message { .. } => return self.message(event, inventory, out),
            EventContent::Enter(call_info) => {
                let function = inventory.function(call_info.called.function);
                self.put((thread, 'B', wall), inventory, out);
                put_name(&function.name, out);
                out.extend_from_slice(b",\"cat\":\"function\"");
                let place = format!("{}:{}", function.file, function.line.unwrap_or(0));
                let place = (!function.file.is_empty()).then_some(("at", Value::Text(place.into())));
                let span = call_info.span.map(|span| ("span", Value::Unsigned(span.into())));
                let from = call_info.called.from.map(|from| inventory.function(from));
                let from = from.map(|from| format!("{}:{}", from.file, from.line.unwrap_or(0)));
                let from = from.map(|from| ("called from", Value::Text(from.into())));
                let process = inventory.threads()[thread].process;
                let known = inventory.spans.as_ref().zip(call_info.span);
                let known = known.and_then(|(spans, span)| Some((spans, spans.get((process, span))?)));
                let of_span = known.map_or_else(Vec::new, |(spans, span)| arguments(spans, span));
                let of_span = of_span.iter().map(|(name, value)| (&name[..], value.clone()));
                let known = place.into_iter().chain(span).chain(of_span).chain(from);
                put_args(known, out, |value, out| put_value(&value, out));
                out.push(b'}');
                if let Some(span) = call_info.span {
                    let at = (thread, self.last[thread].unwrap_or(wall));
                    self.flow(at, flows::of_span(span, inventory.threads()[thread].process), inventory, out);
                }
                return;
            }
            EventContent::Leave(call_info, ended) => {
                self.end_flow(call_info, inventory.threads()[thread].process);
                (*ended, Some(call_info.left))
            }
            EventContent::Close(ended) => (*ended, None),
            EventContent::Stack(text) => {
                self.put((thread, 'i', wall), inventory, out);
                out.extend_from_slice(b",\"s\":\"t\",\"cat\":\"tracer\",\"name\":\"call stack\"");
                put_args([("stack", *text)].into_iter(), out, put_string);
                return out.push(b'}');
            }
            EventContent::Meta { payload, meta } => return self.meta(event, payload, *meta, inventory, out),
        };
        for call in ended {
            self.put((thread, 'E', wall), inventory, out);
            let has = |flag| call.has_leave_record && left.is_some_and(|left| left.has(flag));
            let flags = [
                ("cut off", !call.has_leave_record && !call.goes_on),
                ("goes on", call.goes_on),
                ("unwinding", has(Flags::UNWINDING)),
                ("ended", has(Flags::ENDED)),
                ("cancelled", has(Flags::CANCELLED)),
            ];
            if flags.iter().any(|(_, is_so)| *is_so) {
                let flags = flags.into_iter().filter(|(_, is_so)| *is_so);
                put_args(flags, out, |_, out| out.extend_from_slice(b"true"));
            }
            out.push(b'}');
        }
    }

    fn off(&mut self, thread: usize, off: &OffTime, until: u64, inventory: &Inventory, out: &mut Vec<u8>) {
        let of = &inventory.threads()[thread];
        let track = (self.pids.of(of.process, inventory).0, STATES + thread as u64 + 1);
        if !std::mem::replace(&mut self.has_states[thread], true) {
            self.name_track(track, off.begin, &format!("off the processor: {}", of.label()), out);
        }
        self.begin_slice(track, (off.begin, until), off.why.name(), out);
        out.extend_from_slice(b",\"cat\":\"state\"}");
    }

    fn spans(&self) -> Option<KnownSpans> {
        Some(KnownSpans::new(0, true))
    }

    fn span(
        &mut self,
        (spans, span): (&KnownSpans, &Span),
        (key, change): (SpanKey, SpanChange),
        (thread, time): (usize, u64),
        inventory: &Inventory,
        out: &mut Vec<u8>,
    ) {
        self.introduce((thread, time), inventory, out);
        let of = (thread, span.number);
        match change {
            SpanChange::Began => {
                let name = format!("{} #{}", spans.names_of(span).0, key.1);
                let mut values: Vec<Argument<'_>> = vec![("span".into(), Value::Unsigned(key.1.into()))];
                values.extend(arguments(spans, span));
                self.put_of_span(of, ('b', time), &name, &values, inventory, out);
            }
            SpanChange::Busy => {
                let label = inventory.threads()[thread].label();
                let values = [("thread".into(), Value::Text(label.into()))];
                self.put_of_span(of, ('b', time), "busy", &values, inventory, out);
            }
            SpanChange::Idle => self.put_of_span(of, ('e', time), "busy", &[], inventory, out),
            SpanChange::Ended(how) => {
                if span.is_busy() {
                    self.put_of_span(of, ('e', time), "busy", &[], inventory, out);
                }
                let name = format!("{} #{}", spans.names_of(span).0, key.1);
                let mut values = later_fields(span);
                values.extend(how.flag().map(|name| (name.into(), Value::Bool(true))));
                self.put_of_span(of, ('e', time), &name, &values, inventory, out);
            }
        }
    }

    fn nests_calls(&self) -> bool {
        true
    }

    fn finish(&mut self, _inventory: &Inventory, out: &mut Vec<u8>) {
        if self.first.is_none() {
            out.extend_from_slice(b"{\"traceEvents\":[");
        }
        out.extend_from_slice(b"\n]}\n");
    }

    fn omissions(&self, inventory: &Inventory) -> Vec<String> {
        let mut omissions = inventory.text_omissions();
        omissions.extend(inventory.cut_calls());
        omissions.extend(inventory.without(&[Aspect::Texts, Aspect::Modules, Aspect::Places]));
        omissions.extend(self.pids.omissions());
        if self.events > MAX_VIEWER_EVENTS {
            let events = count(self.events, "event");
            omissions.push(format!(
                "{events}: maybe too many for viewers that parse the whole file; --format perfetto is smaller"
            ));
        }
        omissions
    }
}
