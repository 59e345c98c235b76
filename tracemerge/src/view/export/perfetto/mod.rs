//! The protocol buffers of Perfetto (`perfetto_trace.proto`): a sequence of packets for each thread, with interned
//! names.
//!
//! * Calls are slices on the track of their thread.
//! * Messages are instants: the template is the name, and the values are debug annotations.
//! * Flows join the polls of a span, and a notification with the threads that it wakes.
//! * Each span also has a track of its own, from its beginning to its end, with a slice for each time that it was busy.
//! * Losses and other `#` lines are instants of the category `tracer`.
//! * Stalls are slices on a track of their own, because they overlap calls.
//! * The times at which a thread was not running on a processor have a track of their own, too.
//!
//! All times are those of the wall clock, as a clock snapshot states.

mod protobuf;

use std::collections::BTreeSet;

use trace_format::meta::Meta;
use trace_format::record::Flags;

use self::protobuf::{
    SmallBuffer, put_bytes, put_fixed, put_message, put_number, put_signed, put_text, tag_of_bytes,
    tag_of_number,
};
use crate::file::fast_map::FastMap;
use crate::view::by_number::ByNumber;
use crate::view::export::aspects::Aspect;
use crate::view::export::events::{
    EndedCall, Event, EventContent, EventFormat, Inventory, LockContent, TypedSite,
};
use crate::view::export::fields::{Key, is_of_modules, keys_of, level};
use crate::view::export::flows::{self, Flow, Flows};
use crate::view::export::format::{OutputContent, OutputFormat, export_events};
use crate::view::export::pids::Pids;
use crate::view::export::spans::arguments::{Argument, arguments, later_fields};
use crate::view::function_names::CallInfo;
use crate::view::known_spans::{KnownSpans, Span, SpanChange, SpanKey};
use crate::view::thread_states::OffTime;
use crate::view::values::Value;

/// The field numbers of `perfetto_trace.proto`, by message type.
mod field {
    pub(super) const PACKET: u64 = 1;
    pub(super) mod packet {
        pub(crate) const CLOCK_SNAPSHOT: u64 = 6;
        pub(crate) const TIMESTAMP: u64 = 8;
        pub(crate) const SEQUENCE: u64 = 10;
        pub(crate) const TRACK_EVENT: u64 = 11;
        pub(crate) const INTERNED: u64 = 12;
        pub(crate) const FLAGS: u64 = 13;
        pub(crate) const DEFAULTS: u64 = 59;
        pub(crate) const TRACK: u64 = 60;
    }
    pub(super) mod event {
        pub(crate) const CATEGORY_ID: u64 = 3;
        pub(crate) const ANNOTATION: u64 = 4;
        pub(crate) const TYPE: u64 = 9;
        pub(crate) const NAME_ID: u64 = 10;
        pub(crate) const TRACK: u64 = 11;
        pub(crate) const NAME: u64 = 23;
        pub(crate) const LOCATION_ID: u64 = 34;
        pub(crate) const FLOW: u64 = 47;
        pub(crate) const LAST_OF_FLOW: u64 = 48;
    }
    pub(super) mod interned {
        pub(crate) const CATEGORY: u64 = 1;
        pub(crate) const NAME: u64 = 2;
        pub(crate) const ANNOTATION_NAME: u64 = 3;
        pub(crate) const LOCATION: u64 = 4;
    }
    pub(super) mod annotation {
        pub(crate) const NAME_ID: u64 = 1;
        pub(crate) const BOOL: u64 = 2;
        pub(crate) const UNSIGNED: u64 = 3;
        pub(crate) const SIGNED: u64 = 4;
        pub(crate) const DOUBLE: u64 = 5;
        pub(crate) const TEXT: u64 = 6;
        pub(crate) const POINTER: u64 = 7;
    }
    pub(super) mod track {
        pub(crate) const UUID: u64 = 1;
        pub(crate) const NAME: u64 = 2;
        pub(crate) const PROCESS: u64 = 3;
        pub(crate) const THREAD: u64 = 4;
        pub(crate) const PARENT: u64 = 5;
    }
    pub(super) mod process {
        pub(crate) const PID: u64 = 1;
        pub(crate) const NAME: u64 = 6;
    }
    pub(super) mod thread {
        pub(crate) const PID: u64 = 1;
        pub(crate) const TID: u64 = 2;
        pub(crate) const NAME: u64 = 5;
    }
}

const SLICE_BEGIN: u64 = 1;
const SLICE_END: u64 = 2;
const INSTANT: u64 = 3;
const STATE_CLEARED: u64 = 1;
const NEEDS_STATE: u8 = 2;
/// The id of the wall clock in a clock snapshot. `BOOTTIME` is the id of the clock that readers use by default.
const REALTIME: u64 = 1;
const BOOTTIME: u64 = 6;
/// The maximum size of an event, in bytes, for which the length of the event's packet certainly fits into one byte.
const SHORT: u8 = 0x7f - SmallBuffer::ROOM as u8;
/// The id of the sequence of packets that belong to no thread.
const COMMON: u64 = 1;
/// An interned name in the sequence of a thread: what the name is used for, and its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Interned {
    Category(u64),
    Name(u64),
    AnnotationName(u64),
}

/// The facts that were already written for a thread.
#[derive(Debug, Default)]
struct Sequence {
    /// Whether the packets that describe the thread were written.
    is_introduced: bool,
    /// The encoded fields that all packets with events of the thread have in common.
    common: SmallBuffer,
    /// The interned names that were already written to the sequence.
    told: KnownNames,
    /// The end of the thread's last stall, in nanoseconds; `None` if the description of the track of stalls was not
    /// written.
    stalled_until: Option<u64>,
    /// Whether the description of the track for times off the processor was written.
    has_states: bool,
}

impl Sequence {
    /// Writes a packet with an event of the thread. All interned names in the event must have been written before.
    #[inline]
    fn write(&self, wall: u64, event: &[u8], out: &mut Vec<u8>) {
        let Some(length) = u8::try_from(event.len()).ok().filter(|length| *length <= SHORT) else {
            return put_packet(out, |out| {
                put_number(field::packet::TIMESTAMP, wall, out);
                out.extend_from_slice(self.common.bytes());
                put_bytes(field::packet::TRACK_EVENT, event, out);
            });
        };
        let mut head = SmallBuffer::default();
        head.push(&[tag_of_bytes(field::PACKET), 0, tag_of_number(field::packet::TIMESTAMP)]);
        head.push_varint(wall);
        head.push_buffer(&self.common);
        head.push(&[tag_of_bytes(field::packet::TRACK_EVENT), length]);
        head.set_length(1, length);
        head.append_to(out);
        out.extend_from_slice(event);
    }
}

/// The interned names that were written to a sequence: those of functions, those of sites, and all others.
#[derive(Debug, Default)]
struct KnownNames {
    functions: ByNumber<bool>,
    sites: ByNumber<bool>,
    others: BTreeSet<Interned>,
}

/// The facts that all messages of a site have in common.
#[derive(Debug, Default)]
struct KnownSite {
    /// The encoded fields of an event for the categories, the name and the place in the source.
    fields: Vec<u8>,
    /// For each value of a message, the id of the value's name.
    values: Vec<u64>,
}

/// Adds a number to a set. Returns whether the number is new.
fn is_new(set: &mut ByNumber<bool>, number: usize) -> bool {
    // The numbers of functions and sites have 32 bits.
    !std::mem::replace(set.get_mut(u32::try_from(number).unwrap_or(u32::MAX)), true)
}

/// The description of the format `perfetto` for the command line.
pub(crate) static FORMAT: OutputFormat = OutputFormat {
    name: "perfetto",
    about: "A timeline for Perfetto, https://ui.perfetto.dev",
    extension: "perfetto-trace",
    content: OutputContent::Binary,
    nests_calls: true,
    times_of_day: false,
    takes_states: true,
    begins: |head| matches!(head, [0x0a, _, 0x50, 0x01, 0x40, ..]),
    make: Some(export_events::<PerfettoFormat>),
};

/// The writer of the format `perfetto`.
#[derive(Debug, Default)]
pub(crate) struct PerfettoFormat {
    sequences: Vec<Sequence>,
    pids: Pids,
    /// The ids of the interned texts.
    texts: FastMap<String, u64>,
    has_clock: bool,
    /// For each function, by its id, the encoded enter event without the fields that differ from call to call; empty if
    /// no call of the function was written.
    enter_events: Vec<Vec<u8>>,
    /// For each site, by its index, what its messages have in common.
    sites: Vec<KnownSite>,
    /// The state for finding the flows to which messages belong.
    flows: Flows,
    /// The processes for which the description of the track around their spans' tracks was written.
    with_spans: BTreeSet<usize>,
    /// A buffer for the new interned names of a packet; `event` is a buffer for the event that is being made.
    interned: Vec<u8>,
    event: Vec<u8>,
}

/// Returns the id of the track of a process. The ids of all other tracks differ from it.
fn process_track(process: usize) -> u64 {
    1 << 32 | process as u64
}

fn thread_track(thread: usize) -> u64 {
    2 << 32 | thread as u64
}

fn stall_track(thread: usize) -> u64 {
    3 << 32 | thread as u64
}

fn states_track(thread: usize) -> u64 {
    4 << 32 | thread as u64
}

/// Returns the id of the track that contains the tracks of a process's spans.
fn spans_track(process: usize) -> u64 {
    5 << 32 | process as u64
}

fn span_track(number: u64) -> u64 {
    1 << 40 | number
}

/// Returns the id of a function's name. The ids of all other names differ from it.
fn name_of_function(function: u32) -> u64 {
    u64::from(function) * 4 + 1
}

fn name_of_site(site: usize) -> u64 {
    site as u64 * 4 + 2
}

fn name_of_text(text: u64) -> u64 {
    text * 4 + 3
}

impl PerfettoFormat {
    /// Writes the descriptions of the clock and of an event's process and thread, unless they were written before.
    fn introduce(&mut self, (number, time): (usize, u64), inventory: &Inventory, out: &mut Vec<u8>) {
        if !std::mem::replace(&mut self.has_clock, true) {
            put_packet(out, |out| {
                put_number(field::packet::SEQUENCE, COMMON, out);
                put_number(field::packet::TIMESTAMP, time, out);
                put_message(field::packet::CLOCK_SNAPSHOT, out, |out| {
                    for clock in [BOOTTIME, REALTIME] {
                        put_message(1, out, |out| {
                            put_number(1, clock, out);
                            put_number(2, time, out);
                        });
                    }
                });
            });
        }
        if self.sequences.len() < inventory.threads().len() {
            self.sequences.resize_with(inventory.threads().len(), Sequence::default);
        }
        if std::mem::replace(&mut self.sequences[number].is_introduced, true) {
            return;
        }
        let common = &mut self.sequences[number].common;
        common.push(&[tag_of_number(field::packet::SEQUENCE)]);
        common.push_varint(sequence_of(number));
        common.push(&[tag_of_number(field::packet::FLAGS), NEEDS_STATE]);
        let thread = &inventory.threads()[number];
        let process = &inventory.processes()[thread.process];
        let (pid, is_new) = self.pids.of(thread.process, inventory);
        if is_new {
            put_track(process_track(thread.process), None, out, |out| {
                put_message(field::track::PROCESS, out, |out| {
                    put_signed(field::process::PID, pid.into(), out);
                    if !process.name.is_empty() {
                        put_text(field::process::NAME, &process.name, out);
                    }
                });
            });
        }
        // A log of another program is a track, not a thread.
        let is_log = process.run.is_none() && thread.tid == 0;
        put_packet(out, |out| {
            put_number(field::packet::SEQUENCE, sequence_of(number), out);
            put_number(field::packet::FLAGS, STATE_CLEARED, out);
            put_message(field::packet::DEFAULTS, out, |out| {
                put_message(field::packet::TRACK_EVENT, out, |out| {
                    put_number(field::event::TRACK, thread_track(number), out);
                });
            });
            put_message(field::packet::TRACK, out, |out| {
                put_number(field::track::UUID, thread_track(number), out);
                put_number(field::track::PARENT, process_track(thread.process), out);
                if is_log {
                    return put_text(field::track::NAME, thread.label(), out);
                }
                put_message(field::track::THREAD, out, |out| {
                    put_signed(field::thread::PID, pid.into(), out);
                    put_signed(field::thread::TID, thread.tid as i64, out);
                    put_text(field::thread::NAME, thread.label(), out);
                });
            });
        });
    }

    /// Returns the id of a text. Assigns an id to a new text.
    fn text(&mut self, text: &str) -> u64 {
        if let Some(number) = self.texts.get(text) {
            return *number;
        }
        let number = self.texts.len() as u64 + 1;
        self.texts.insert(text.to_owned(), number);
        number
    }

    /// Adds a text to the interned names of a thread's sequence, unless it is there. `of` says what the text is used
    /// for.
    fn intern(&mut self, thread: usize, of: Interned, text: &str) {
        if !self.sequences[thread].told.others.insert(of) {
            return;
        }
        let (field, id) = match of {
            Interned::Category(id) => (field::interned::CATEGORY, id),
            Interned::Name(id) => (field::interned::NAME, id),
            Interned::AnnotationName(id) => (field::interned::ANNOTATION_NAME, id),
        };
        put_named(field, id, text, &mut self.interned);
    }

    /// Appends the category `text` to the event in the buffer.
    fn category(&mut self, thread: usize, text: &str) {
        let id = self.text(text);
        self.intern(thread, Interned::Category(id), text);
        put_number(field::event::CATEGORY_ID, id, &mut self.event);
    }

    /// Appends the name `text` to the event in the buffer. Every different name stays in memory, so there must be only
    /// a few.
    fn name(&mut self, thread: usize, text: &str) {
        let id = name_of_text(self.text(text));
        self.intern(thread, Interned::Name(id), text);
        put_number(field::event::NAME_ID, id, &mut self.event);
    }

    /// Appends an annotation with the name `name` to the event in the buffer. `put` appends the value.
    fn annotation(&mut self, thread: usize, name: &str, put: impl FnOnce(&mut Vec<u8>)) {
        let id = self.text(name);
        self.intern(thread, Interned::AnnotationName(id), name);
        put_annotation(id, &mut self.event, put);
    }

    /// Appends an annotation for each of these values to the event in the buffer.
    fn values(&mut self, thread: usize, values: &[Argument<'_>]) {
        for (name, value) in values {
            let id = self.text(name);
            self.intern(thread, Interned::AnnotationName(id), name);
            put_value(id, value, &mut self.event);
        }
    }

    /// Marks the event in the buffer as a part of a flow.
    fn flow(&mut self, flow: Flow) {
        match flow {
            Flow::Passes(id) => put_fixed(field::event::FLOW, id, &mut self.event),
            Flow::Ends(id) => put_fixed(field::event::LAST_OF_FLOW, id, &mut self.event),
            // The flow begins with an earlier event, not with this one.
            Flow::Began { .. } => {}
        }
    }

    /// Finds the flows of a message. For each flow that begins with an earlier event, which is already in the output,
    /// writes an extra event with the time and the thread of the earlier one. Returns the message's roles in its flows.
    fn flows_of(
        &mut self,
        event: &Event<'_>,
        text: &str,
        inventory: &Inventory,
        out: &mut Vec<u8>,
    ) -> Vec<Flow> {
        let (mut own, mut flows) = (Vec::new(), std::mem::take(&mut self.flows));
        let process = inventory.threads()[event.thread].process;
        flows.of_message(text, process, (event.thread, event.time), |flow| match flow {
            Flow::Began { id, thread, wall } => {
                self.begin_event(INSTANT);
                self.category(thread, "tracer");
                self.name(thread, "notified");
                put_fixed(field::event::FLOW, id, &mut self.event);
                self.write(thread, wall, out);
            }
            Flow::Passes(_) | Flow::Ends(_) => own.push(flow),
        });
        self.flows = flows;
        own
    }

    /// Writes the event in the buffer, and the new interned names before it.
    fn write(&mut self, thread: usize, wall: u64, out: &mut Vec<u8>) {
        if self.interned.is_empty() {
            return self.sequences[thread].write(wall, &self.event, out);
        }
        put_packet(out, |out| {
            put_number(field::packet::TIMESTAMP, wall, out);
            out.extend_from_slice(self.sequences[thread].common.bytes());
            put_bytes(field::packet::INTERNED, &self.interned, out);
            put_bytes(field::packet::TRACK_EVENT, &self.event, out);
        });
        self.interned.clear();
    }

    fn begin_event(&mut self, of: u64) {
        self.event.clear();
        put_number(field::event::TYPE, of, &mut self.event);
    }

    fn message(&mut self, event: &Event<'_>, inventory: &Inventory, out: &mut Vec<u8>) {
        let EventContent::Message { site, text, values, lock, .. } = &event.what else { return };
        let thread = event.thread;
        let flows =
            if *lock != LockContent::No { self.flows_of(event, text, inventory, out) } else { Vec::new() };
        self.begin_event(INSTANT);
        flows.into_iter().for_each(|flow| self.flow(flow));
        let Some((number, known)) = site.zip(inventory.site(*site)) else {
            self.category(thread, "message");
            put_text(field::event::NAME, text, &mut self.event);
            return self.write(thread, event.time, out);
        };
        self.site(thread, number, known);
        match values {
            Some(values) => {
                for (id, value) in self.sites[number].values.iter().zip(*values) {
                    put_value(*id, value, &mut self.event);
                }
            }
            None => {
                self.annotation(thread, "message", |out| put_text(field::annotation::TEXT, text, out));
            }
        }
        self.write(thread, event.time, out);
    }

    /// Appends the categories, the name and the place of a site to the event in the buffer. Also interns the names of
    /// the site's values.
    fn site(&mut self, thread: usize, number: usize, known: &TypedSite) {
        if !is_new(&mut self.sequences[thread].told.sites, number) {
            return self.event.extend_from_slice(&self.sites[number].fields);
        }
        let start = self.event.len();
        self.category(thread, known.target());
        if let Some(level) = level(known.site.level) {
            self.category(thread, level);
        }
        let (id, site) = (name_of_site(number), &known.site);
        let name = if site.template.is_empty() { &site.format } else { &site.template };
        put_named(field::interned::NAME, id, name, &mut self.interned);
        put_location(id, &site.file, &site.function, Some(site.line), &mut self.interned);
        put_number(field::event::NAME_ID, id, &mut self.event);
        put_number(field::event::LOCATION_ID, id, &mut self.event);
        let mut values = Vec::new();
        for field in known.fields.fields() {
            let id = self.text(&field.name);
            self.intern(thread, Interned::AnnotationName(id), &field.name);
            values.push(id);
        }
        self.sites.resize_with(self.sites.len().max(number + 1), KnownSite::default);
        self.sites[number] = KnownSite { fields: self.event[start..].to_vec(), values };
    }

    fn enter(&mut self, event: &Event<'_>, told: &CallInfo, inventory: &Inventory, out: &mut Vec<u8>) {
        let (thread, number) = (event.thread, told.called.function as usize);
        if !is_new(&mut self.sequences[thread].told.functions, number) {
            let entering = &self.enter_events[number];
            if told.span.is_none() && told.called.from.is_none() {
                return self.sequences[thread].write(event.time, entering, out);
            }
            self.event.clear();
            self.event.extend_from_slice(entering);
        } else {
            self.begin_event(SLICE_BEGIN);
            self.category(thread, "function");
            let (id, function) =
                (name_of_function(told.called.function), inventory.function(told.called.function));
            put_named(field::interned::NAME, id, &function.name, &mut self.interned);
            put_location(id, &function.file, &function.name, function.line, &mut self.interned);
            put_number(field::event::NAME_ID, id, &mut self.event);
            put_number(field::event::LOCATION_ID, id, &mut self.event);
            self.enter_events.resize_with(self.enter_events.len().max(number + 1), Vec::new);
            self.enter_events[number].clone_from(&self.event);
        }
        if let Some(span) = told.span {
            self.flow(flows::of_span(span, inventory.threads()[thread].process));
            self.annotation(thread, "span", |out| put_number(field::annotation::UNSIGNED, span, out));
            let spans = inventory.spans.as_ref();
            let known = spans
                .and_then(|spans| Some((spans, spans.get((inventory.threads()[thread].process, span))?)));
            let known = known.map_or_else(Vec::new, |(spans, span)| arguments(spans, span));
            self.values(thread, &known);
        }
        if let Some(from) = told.called.from {
            let from = inventory.function(from);
            let place = format!("{}:{}", from.file, from.line.unwrap_or(0));
            self.annotation(thread, "called from", |out| put_text(field::annotation::TEXT, &place, out));
        }
        self.write(thread, event.time, out);
    }

    fn end(&mut self, event: &Event<'_>, ended: &[EndedCall], left: Flags, out: &mut Vec<u8>) {
        for call in ended {
            self.begin_event(SLICE_END);
            if !call.has_leave_record {
                let name = if call.goes_on { "goes on" } else { "cut off" };
                self.annotation(event.thread, name, |out| put_number(field::annotation::BOOL, 1, out));
            }
            let told = if call.has_leave_record { left } else { Flags::NONE };
            if told != Flags::NONE {
                for (flag, name) in [
                    (Flags::UNWINDING, "unwinding"),
                    (Flags::ENDED, "ended"),
                    (Flags::CANCELLED, "cancelled"),
                ] {
                    if told.has(flag) {
                        self.annotation(event.thread, name, |out| {
                            put_number(field::annotation::BOOL, 1, out);
                        });
                    }
                }
            }
            self.write(event.thread, event.time, out);
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
        let thread = event.thread;
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
        self.begin_event(INSTANT);
        self.category(thread, "tracer");
        self.name(thread, word);
        for (name, value) in keys_of(rest) {
            self.annotation(thread, name, |out| match value {
                Key::Number(number) => put_number(field::annotation::UNSIGNED, number, out),
                Key::Yes => put_number(field::annotation::BOOL, 1, out),
                Key::Text(text) => put_text(field::annotation::TEXT, &text, out),
            });
        }
        self.write(thread, event.time, out);
    }

    /// Writes a wait of the thread for the tracer: a slice of `ns` nanoseconds that ends at `until`.
    fn stall(
        &mut self,
        event: &Event<'_>,
        (until, ns): (u64, u64),
        inventory: &Inventory,
        out: &mut Vec<u8>,
    ) {
        let (thread, track) = (event.thread, stall_track(event.thread));
        let known = &mut self.sequences[thread].stalled_until;
        let last = known.replace(until);
        if last.is_none() {
            let name = format!("stalls of {}", inventory.threads()[thread].label());
            put_named_track(track, &name, process_track(inventory.threads()[thread].process), out);
        }
        // The time before the end of the previous stall already belongs to that stall.
        let from = until.saturating_sub(ns).max(last.unwrap_or(0)).min(until);
        self.begin_slice(thread, track, ("tracer", "stall"));
        self.annotation(thread, "ns", |out| put_number(field::annotation::UNSIGNED, ns, out));
        self.end_slice(thread, track, (from, until), out);
    }

    /// Makes, in the buffer, the event that begins a slice on the track `track`.
    fn begin_slice(&mut self, thread: usize, track: u64, (category, name): (&str, &str)) {
        self.begin_event(SLICE_BEGIN);
        put_number(field::event::TRACK, track, &mut self.event);
        self.category(thread, category);
        self.name(thread, name);
    }

    /// Writes the event in the buffer, which begins a slice, at the time `from`, and the event that ends the slice at
    /// `until`.
    fn end_slice(&mut self, thread: usize, track: u64, (from, until): (u64, u64), out: &mut Vec<u8>) {
        self.write(thread, from, out);
        self.begin_end(track);
        self.write(thread, until, out);
    }

    /// Makes, in the buffer, the event that ends a slice on the track `track`.
    fn begin_end(&mut self, track: u64) {
        self.begin_event(SLICE_END);
        put_number(field::event::TRACK, track, &mut self.event);
    }
}

fn sequence_of(thread: usize) -> u64 {
    thread as u64 + COMMON + 1
}

fn put_packet(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    put_message(field::PACKET, out, write);
}

/// Appends a packet with the description of a track. `write` appends further fields of the description.
fn put_track(uuid: u64, parent: Option<u64>, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    put_packet(out, |out| {
        put_number(field::packet::SEQUENCE, COMMON, out);
        put_message(field::packet::TRACK, out, |out| {
            put_number(field::track::UUID, uuid, out);
            if let Some(parent) = parent {
                put_number(field::track::PARENT, parent, out);
            }
            write(out);
        });
    });
}

/// Appends a packet with the description of a track that has a name, inside the track `parent`.
fn put_named_track(uuid: u64, name: &str, parent: u64, out: &mut Vec<u8>) {
    put_track(uuid, Some(parent), out, |out| put_text(field::track::NAME, name, out));
}

/// Appends an interned name with its id. `field` says what the name is used for.
fn put_named(field: u64, id: u64, text: &str, out: &mut Vec<u8>) {
    put_message(field, out, |out| {
        put_number(1, id, out);
        put_text(2, text, out);
    });
}

fn put_location(id: u64, file: &str, function: &str, line: Option<u32>, out: &mut Vec<u8>) {
    put_message(field::interned::LOCATION, out, |out| {
        put_number(1, id, out);
        put_text(2, file, out);
        put_text(3, function, out);
        put_number(4, line.unwrap_or(0).into(), out);
    });
}

/// Appends an annotation to an event; `name` is the id of the annotation's name, and `put` appends its value.
fn put_annotation(name: u64, event: &mut Vec<u8>, put: impl FnOnce(&mut Vec<u8>)) {
    put_message(field::event::ANNOTATION, event, |out| {
        put_number(field::annotation::NAME_ID, name, out);
        put(out);
    });
}

/// Appends an annotation with the value `value` to an event; `name` is the id of the annotation's name.
fn put_value(name: u64, value: &Value<'_>, event: &mut Vec<u8>) {
    use field::annotation::{BOOL, DOUBLE, NAME_ID, POINTER, SIGNED, TEXT, UNSIGNED};
    let mut few = SmallBuffer::default();
    few.push(&[tag_of_bytes(field::event::ANNOTATION), 0, tag_of_number(NAME_ID)]);
    few.push_varint(name);
    let mut number = |field, number| {
        few.push(&[tag_of_number(field)]);
        few.push_varint(number);
    };
    match value {
        Value::Signed(wide) if i64::try_from(*wide).is_ok() => number(SIGNED, *wide as u64),
        Value::Unsigned(wide) if u64::try_from(*wide).is_ok() => number(UNSIGNED, *wide as u64),
        Value::Bool(is_so) => number(BOOL, (*is_so).into()),
        Value::Pointer(address) => number(POINTER, *address),
        Value::F32(float) => few.push_double(DOUBLE, (*float).into()),
        Value::F64(float) => few.push_double(DOUBLE, *float),
        Value::Signed(wide) => {
            return put_annotation(name, event, |out| put_text(TEXT, &wide.to_string(), out));
        }
        Value::Unsigned(wide) => {
            return put_annotation(name, event, |out| put_text(TEXT, &wide.to_string(), out));
        }
        Value::Text(text) => return put_annotation(name, event, |out| put_text(TEXT, text, out)),
    }
    few.set_length(1, 0);
    few.append_to(event);
}

impl EventFormat for PerfettoFormat {
    fn event(&mut self, event: &Event<'_>, inventory: &Inventory, out: &mut Vec<u8>) {
        self.introduce((event.thread, event.time), inventory, out);
        match &event.what {
            EventContent::Message { .. } => self.message(event, inventory, out),
            EventContent::Enter(told) => self.enter(event, told, inventory, out),
            EventContent::Leave(told, ended) => self.end(event, ended, told.left, out),
            EventContent::Close(ended) => self.end(event, ended, Flags::NONE, out),
            EventContent::Stack(text) => {
                self.begin_event(INSTANT);
                self.category(event.thread, "tracer");
                self.name(event.thread, "call stack");
                self.annotation(event.thread, "stack", |out| put_text(field::annotation::TEXT, text, out));
                self.write(event.thread, event.time, out);
            }
            EventContent::Meta { payload, meta } => self.meta(event, payload, *meta, inventory, out),
        }
    }

    fn off(&mut self, thread: usize, off: &OffTime, until: u64, inventory: &Inventory, out: &mut Vec<u8>) {
        let track = states_track(thread);
        if !std::mem::replace(&mut self.sequences[thread].has_states, true) {
            let of = &inventory.threads()[thread];
            let name = format!("off the processor: {}", of.label());
            put_named_track(track, &name, process_track(of.process), out);
        }
        self.begin_slice(thread, track, ("state", off.why.name()));
        self.end_slice(thread, track, (off.begin, until), out);
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
        let track = span_track(span.number);
        match change {
            SpanChange::Began => {
                if self.with_spans.insert(key.0) {
                    put_named_track(spans_track(key.0), "spans", process_track(key.0), out);
                }
                let (name, _) = spans.names_of(span);
                put_named_track(track, &format!("{name} #{}", key.1), spans_track(key.0), out);
                self.begin_slice(thread, track, ("span", name));
                self.annotation(thread, "span", |out| put_number(field::annotation::UNSIGNED, key.1, out));
                self.values(thread, &arguments(spans, span));
            }
            SpanChange::Busy => {
                self.begin_slice(thread, track, ("span", "busy"));
                let label = inventory.threads()[thread].label();
                self.annotation(thread, "thread", |out| put_text(field::annotation::TEXT, label, out));
            }
            SpanChange::Idle => self.begin_end(track),
            SpanChange::Ended(how) => {
                if span.is_busy() {
                    self.begin_end(track);
                    self.write(thread, time, out);
                }
                self.begin_end(track);
                self.values(thread, &later_fields(span));
                if let Some(name) = how.flag() {
                    self.annotation(thread, name, |out| put_number(field::annotation::BOOL, 1, out));
                }
            }
        }
        self.write(thread, time, out);
    }

    fn nests_calls(&self) -> bool {
        true
    }

    /// Returns whether the text may be about a condition, because the flows of such a message are derived from its
    /// text.
    fn takes_text_of_values(&self, text: &[u8]) -> bool {
        flows::may_be_about_condition(text)
    }

    fn omissions(&self, inventory: &Inventory) -> Vec<String> {
        let mut omissions = inventory.text_omissions();
        omissions.extend(inventory.cut_calls());
        omissions.extend(inventory.without(&[Aspect::Texts, Aspect::Modules]));
        omissions.extend(self.pids.omissions());
        omissions
    }
}
