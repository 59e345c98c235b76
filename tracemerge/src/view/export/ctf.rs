//! The Common Trace Format, version 1.8: a stream of packets for each thread, and `metadata`, a description of all
//! types of events, which is written last.
//!
//! The types of events are called classes. The messages of a site are a class whose fields are the values of a message.
//! Enter and leave records are classes with a function number as a field, and the description maps the number to a
//! name. The `#` lines with the same first word are a class. Events have the ticks of their records: the clock is
//! described by its average rate. A report of lost records is an event, and also counts as discarded events between its
//! packet and the previous one.

use std::fmt::Write as _;
use std::ops::Range;
use std::sync::Arc;

use trace_format::escape::{EscapeContext, escape_into};
use trace_format::line::Ticks;
use trace_format::meta::Meta;
use trace_format::record::Flags;
use trace_format::sites::Level;
use trace_format::wait::Wait;

use crate::file::fast_map::FastMap;
use crate::output::folder::put_part;
use crate::time::clocks::TickClock;
use crate::view::export::aspects::Aspect;
use crate::view::export::events::{Event, EventContent, EventFormat, Inventory, TypedSite, sentences};
use crate::view::export::fields::function_left;
use crate::view::export::format::{OutputContent, OutputFormat, export_events};
use crate::view::export::pids::Pids;
use crate::view::function_names::{CallInfo, FunctionId};
use crate::view::threads::TimeScale;
use crate::view::values::{Type, Value};

/// The size of the events of a packet, in bytes, at which the packet ends. Of each thread, one packet is not written
/// yet.
const MAX_PACKET_BYTES: usize = 32 << 10;
/// The size of the header of an event, in bytes.
const EVENT_START: usize = 12;
/// The magic number at the beginning of each packet.
const MAGIC: u32 = 0xc1fc_1fc1;
/// The byte range of the numbers in a packet's head that differ from packet to packet, each of 64 bits: the ticks of
/// the first and the last event, the sizes of the content and of the packet in bits, and the number of lost events.
const NUMBERS: Range<usize> = 16..56;

/// A class of events: all events with the same fields.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Class {
    /// The messages of the site with this index whose values are known: each value is a field.
    Values(usize),
    /// The messages of the site with this index whose values are not known: the text is the only field.
    Text(usize),
    /// Messages without a known site.
    Message,
    /// Call stacks.
    Stack,
    /// Enter records; the flag says whether they belong to spans. The flag of `Leave` does the same for leave records.
    Enter(bool),
    Leave(bool),
    Stall,
    Lost,
    /// All `#` lines with this first word, unless they have a class above.
    Word(String),
}

/// The unwritten packet of a thread, and the numbers for its head.
#[derive(Debug, Default)]
struct Stream {
    /// The index of the thread's clock.
    clock: usize,
    /// The bytes of the packet: the head and the events; empty before the first event of the thread.
    packet: Vec<u8>,
    /// The length of the head, whose [numbers](NUMBERS) are filled in when the packet is written.
    head: usize,
    /// The ticks of the first event of the packet; `end` is the ticks of the last event.
    begin: u64,
    end: u64,
    /// The number of the thread's records that were lost so far.
    discarded: u64,
}

/// The description of the format `ctf` for the command line.
pub(crate) static FORMAT: OutputFormat = OutputFormat {
    name: "ctf",
    about: "A directory in the Common Trace Format 1.8, for babeltrace2",
    extension: "ctf",
    content: OutputContent::Directory,
    nests_calls: false,
    times_of_day: false,
    takes_states: false,
    begins: |_| false,
    make: Some(export_events::<CtfFormat>),
};

/// The writer of the format `ctf`.
#[derive(Debug, Default)]
pub(crate) struct CtfFormat {
    streams: Vec<Stream>,
    /// The clocks, each with the ticks of the first and the last event of its threads.
    clocks: Vec<(Arc<TickClock>, u64, u64)>,
    classes: FastMap<Class, u32>,
    /// The classes of events, by their ids.
    known: Vec<Class>,
    /// For each site, by its index, the id of the class of the site's messages with values. `of_calls` has the ids of
    /// the classes of calls. Both serve to find the ids of the most frequent classes without hashing.
    of_sites: Vec<Option<u32>>,
    of_calls: [Option<u32>; 4],
    pids: Pids,
    /// The number of texts that contain a NUL; `back` is the number of events whose ticks were less than those of the
    /// previous event of the thread.
    nul: u64,
    back: u64,
}

/// Returns `text` as a quoted string for `metadata`. Escapes the characters that would end the string or are not
/// text.
fn quoted(text: &str) -> String {
    let mut plain = Vec::new();
    escape_into(&mut plain, text.as_bytes(), EscapeContext::Line);
    let plain = String::from_utf8_lossy(&plain);
    format!("\"{}\"", plain.replace('\\', "\\\\").replace('"', "\\\""))
}

/// Returns the name of a field in `metadata`: a leading `_`, which readers remove, and the field's name, in which each
/// character other than letters, digits and `_` is replaced by `_`.
fn field_name(name: &str) -> String {
    let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '_' };
    format!("_{}", name.chars().map(plain).collect::<String>())
}

/// Returns the name that the type of a value has in `metadata`.
fn type_of(of: Type) -> &'static str {
    match of {
        Type::Signed(8) => "int8_t",
        Type::Signed(16) => "int16_t",
        Type::Signed(32) => "int32_t",
        Type::Signed(64) => "int64_t",
        Type::Unsigned(8) => "uint8_t",
        Type::Unsigned(16) => "uint16_t",
        Type::Unsigned(32) => "uint32_t",
        Type::Unsigned(64) => "uint64_t",
        Type::F32 => "float32_t",
        Type::F64 => "float64_t",
        Type::Bool => "enum boolean",
        Type::Pointer(_) => "pointer_t",
        Type::Signed(_) | Type::Unsigned(_) | Type::Char | Type::Text | Type::Unit | Type::Composite => {
            "string"
        }
    }
}

/// Returns the number of a level by the list of LTTng, because readers show the name that LTTng has for the number. The
/// numbers of the last two levels only keep their order.
fn level_number(level: Level) -> Option<u32> {
    Some(match level {
        Level::None => return None,
        Level::Error => 3,
        Level::Warn => 4,
        Level::Info => 6,
        Level::Debug => 13,
        Level::Trace => 14,
    })
}

const TYPES: &str = "/* CTF 1.8 */
typealias integer { size = 8; align = 8; signed = true; } := int8_t;
typealias integer { size = 16; align = 8; signed = true; } := int16_t;
typealias integer { size = 32; align = 8; signed = true; } := int32_t;
typealias integer { size = 64; align = 8; signed = true; } := int64_t;
typealias integer { size = 8; align = 8; signed = false; } := uint8_t;
typealias integer { size = 16; align = 8; signed = false; } := uint16_t;
typealias integer { size = 32; align = 8; signed = false; } := uint32_t;
typealias integer { size = 64; align = 8; signed = false; } := uint64_t;
typealias integer { size = 64; align = 8; signed = false; base = 16; } := pointer_t;
typealias floating_point { exp_dig = 8; mant_dig = 24; align = 8; } := float32_t;
typealias floating_point { exp_dig = 11; mant_dig = 53; align = 8; } := float64_t;
enum boolean : uint8_t { \"false\" = 0, \"true\" = 1 };
trace {
    major = 1; minor = 8; byte_order = le;
    packet.header := struct { uint32_t magic; uint32_t stream_id; uint64_t stream_instance_id; };
};
env { tracer_name = \"tracer\"; };
";

/// Appends a text that ends with a NUL to an event. Writes each NUL inside the text as `\x00`, and counts the text in
/// `nul` if it has any.
fn put_text(text: &str, nul: &mut u64, out: &mut Vec<u8>) {
    if text.contains('\0') {
        *nul += 1;
        out.extend_from_slice(text.replace('\0', "\\x00").as_bytes());
    } else {
        out.extend_from_slice(text.as_bytes());
    }
    out.push(0);
}

/// Appends the lowest `size` bytes of a number to an event, in little-endian order.
#[inline]
fn put_first_bytes(number: u64, size: usize, out: &mut Vec<u8>) {
    // Storing all bytes and truncating is faster than copying a variable number of bytes.
    let end = out.len() + size;
    out.extend_from_slice(&number.to_le_bytes());
    out.truncate(end);
}

/// Appends a value of the type `of` to an event. Texts that contain a NUL are counted in `nul`.
fn put_value(of: Type, value: &Value<'_>, nul: &mut u64, out: &mut Vec<u8>) {
    let size = match of {
        Type::Signed(bits) | Type::Unsigned(bits) => bits as usize / 8,
        _ => 0,
    };
    match value {
        Value::Signed(number) if size <= 8 => put_first_bytes(*number as u64, size, out),
        Value::Unsigned(number) if size <= 8 => put_first_bytes(*number as u64, size, out),
        Value::Signed(number) => put_text(&number.to_string(), nul, out),
        Value::Unsigned(number) => put_text(&number.to_string(), nul, out),
        Value::F32(number) => out.extend_from_slice(&number.to_le_bytes()),
        Value::F64(number) => out.extend_from_slice(&number.to_le_bytes()),
        Value::Bool(is_so) => out.push((*is_so).into()),
        Value::Pointer(address) => out.extend_from_slice(&address.to_le_bytes()),
        Value::Text(text) => put_text(text, nul, out),
    }
}

/// Returns the number by which an event refers to a function, as bytes; 0 means no function.
fn number_of(function: Option<FunctionId>) -> [u8; 4] {
    function.map_or(0, |function| function + 1).to_le_bytes()
}

impl CtfFormat {
    /// Begins an event: writes the event's header. Returns the buffer to which the event's fields are appended.
    #[inline(always)]
    fn begin_event(
        &mut self,
        event: &Event<'_>,
        class: &Class,
        inventory: &Inventory,
        out: &mut Vec<u8>,
    ) -> &mut Vec<u8> {
        let number = self.number_of_class(class);
        match self.streams.get(event.thread) {
            Some(stream) if !stream.packet.is_empty() && stream.packet.len() < MAX_PACKET_BYTES => {}
            _ => self.begin_packet(event, inventory, out),
        }
        let stream = &mut self.streams[event.thread];
        let ticks = event.ticks.0.max(stream.end);
        self.back += u64::from(ticks != event.ticks.0);
        if stream.packet.len() == stream.head {
            stream.begin = ticks;
        }
        stream.end = ticks;
        let mut start = [0; EVENT_START];
        start[..4].copy_from_slice(&number.to_le_bytes());
        start[4..].copy_from_slice(&ticks.to_le_bytes());
        stream.packet.extend_from_slice(&start);
        &mut stream.packet
    }

    /// Begins the first packet of a thread, or writes a full packet and begins the next one.
    #[cold]
    fn begin_packet(&mut self, event: &Event<'_>, inventory: &Inventory, out: &mut Vec<u8>) {
        let thread = event.thread;
        self.streams.resize_with(self.streams.len().max(thread + 1), Stream::default);
        if !self.streams[thread].packet.is_empty() {
            return self.end_packet(thread, out);
        }
        let (of, ticks) = (&inventory.threads()[thread], event.ticks.0);
        let clock =
            self.clocks.iter().position(|(known, ..)| Arc::ptr_eq(known, &of.clock)).unwrap_or_else(|| {
                self.clocks.push((of.clock.clone(), ticks, ticks));
                self.clocks.len() - 1
            });
        let mut packet = MAGIC.to_le_bytes().to_vec();
        packet.extend_from_slice(&u32::try_from(clock).unwrap_or(0).to_le_bytes());
        packet.extend_from_slice(&(thread as u64).to_le_bytes());
        packet.resize(NUMBERS.end, 0);
        packet.extend_from_slice(&self.pids.of(of.process, inventory).0.to_le_bytes());
        packet.extend_from_slice(&of.tid.to_le_bytes());
        put_text(&inventory.processes()[of.process].name, &mut 0, &mut packet);
        put_text(of.label(), &mut 0, &mut packet);
        let head = packet.len();
        self.streams[thread] = Stream { clock, packet, head, begin: ticks, end: ticks, discarded: 0 };
    }

    /// Returns the id of a class. Assigns an id to a new class.
    #[inline]
    fn number_of_class(&mut self, class: &Class) -> u32 {
        let known = match class {
            Class::Values(site) => self.of_sites.get(*site),
            Class::Enter(of_span) => self.of_calls.get(usize::from(*of_span)),
            Class::Leave(of_span) => self.of_calls.get(2 + usize::from(*of_span)),
            _ => None,
        };
        match known {
            Some(Some(number)) => *number,
            _ => self.number_by_hash(class),
        }
    }

    #[cold]
    fn number_by_hash(&mut self, class: &Class) -> u32 {
        if let Some(number) = self.classes.get(class) {
            return *number;
        }
        let number = u32::try_from(self.known.len()).unwrap_or(u32::MAX);
        match class {
            Class::Values(site) => {
                self.of_sites.resize(self.of_sites.len().max(site + 1), None);
                self.of_sites[*site] = Some(number);
            }
            Class::Enter(of_span) => self.of_calls[usize::from(*of_span)] = Some(number),
            Class::Leave(of_span) => self.of_calls[2 + usize::from(*of_span)] = Some(number),
            _ => {}
        }
        self.known.push(class.clone());
        self.classes.insert(class.clone(), number);
        number
    }

    /// Writes the packet of a thread, if there is one, and begins an empty packet with the same head.
    fn end_packet(&mut self, thread: usize, out: &mut Vec<u8>) {
        let Some(stream) = self.streams.get_mut(thread).filter(|stream| !stream.packet.is_empty()) else {
            return;
        };
        let bits = 8 * stream.packet.len() as u64;
        let numbers = [stream.begin, stream.end, bits, bits, stream.discarded];
        for (place, number) in stream.packet[NUMBERS].chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        let (_, first, last) = &mut self.clocks[stream.clock];
        (*first, *last) = ((*first).min(stream.begin), (*last).max(stream.end));
        put_part(&format!("stream_{thread}"), &stream.packet, out);
        stream.packet.truncate(stream.head);
        stream.begin = stream.end;
    }

    fn message(&mut self, event: &Event<'_>, inventory: &Inventory, out: &mut Vec<u8>) {
        let EventContent::Message { site, text, values, bytes, .. } = &event.what else { return };
        if let Some((site, bytes)) = site.zip(*bytes) {
            let packet = self.begin_event(event, &Class::Values(site), inventory, out);
            return packet.extend_from_slice(bytes);
        }
        let mut nul = 0;
        match (site.zip(inventory.site(*site)), values) {
            (Some((number, known)), Some(values)) => {
                let bytes = self.begin_event(event, &Class::Values(number), inventory, out);
                for (field, value) in known.fields.fields().iter().zip(*values) {
                    put_value(field.of, value, &mut nul, bytes);
                }
            }
            (Some((number, _)), None) => {
                put_text(text, &mut nul, self.begin_event(event, &Class::Text(number), inventory, out));
            }
            (None, _) => put_text(text, &mut nul, self.begin_event(event, &Class::Message, inventory, out)),
        }
        self.nul += nul;
    }

    fn enter(&mut self, event: &Event<'_>, call_info: &CallInfo, inventory: &Inventory, out: &mut Vec<u8>) {
        let mut functions = [0; 8];
        functions[..4].copy_from_slice(&number_of(Some(call_info.called.function)));
        functions[4..].copy_from_slice(&number_of(call_info.called.from));
        let Some(span) = call_info.span else {
            return self
                .begin_event(event, &Class::Enter(false), inventory, out)
                .extend_from_slice(&functions);
        };
        let bytes = self.begin_event(event, &Class::Enter(true), inventory, out);
        bytes.extend_from_slice(&functions);
        bytes.extend_from_slice(&span.to_le_bytes());
    }

    fn leave(
        &mut self,
        event: &Event<'_>,
        call_info: &CallInfo,
        function: FunctionId,
        inventory: &Inventory,
        out: &mut Vec<u8>,
    ) {
        let mut fields = [0; 7];
        fields[..4].copy_from_slice(&number_of(Some(function)));
        for (place, flag) in fields[4..].iter_mut().zip([Flags::UNWINDING, Flags::ENDED, Flags::CANCELLED]) {
            *place = call_info.left.has(flag).into();
        }
        let Some(span) = call_info.span else {
            return self.begin_event(event, &Class::Leave(false), inventory, out).extend_from_slice(&fields);
        };
        let bytes = self.begin_event(event, &Class::Leave(true), inventory, out);
        bytes.extend_from_slice(&fields);
        bytes.extend_from_slice(&span.to_le_bytes());
    }

    fn meta(
        &mut self,
        event: &Event<'_>,
        payload: &str,
        meta: Option<&Meta>,
        inventory: &Inventory,
        out: &mut Vec<u8>,
    ) {
        let (word, rest) = payload.split_once(' ').unwrap_or((payload, ""));
        let mut nul = 0;
        match meta {
            Some(Meta::Stall { ns } | Meta::Wait(Wait { ns, .. })) => {
                let bytes = self.begin_event(event, &Class::Stall, inventory, out);
                bytes.extend_from_slice(&ns.to_le_bytes());
            }
            Some(Meta::Lost { records, .. } | Meta::LostOtherwise { records, .. }) => {
                // Readers count discarded events between two packets, so the previous packet must exist, even
                // if it has no events.
                let bytes = self.begin_event(event, &Class::Lost, inventory, out);
                let start = bytes.split_off(bytes.len() - EVENT_START);
                self.end_packet(event.thread, out);
                let stream = &mut self.streams[event.thread];
                stream.discarded = stream.discarded.saturating_add(*records);
                stream.packet.extend_from_slice(&start);
                stream.packet.extend_from_slice(&records.to_le_bytes());
                put_text(rest, &mut nul, &mut stream.packet);
            }
            _ => {
                put_text(
                    rest,
                    &mut nul,
                    self.begin_event(event, &Class::Word(word.to_owned()), inventory, out),
                );
            }
        }
        self.nul += nul;
    }

    /// Returns the description of a clock for `metadata`. The times of the described clock are right at the ticks
    /// `first` and `last`, those of the clock's first and last event, and have a constant rate between them.
    fn clock(number: usize, clock: &TickClock, first: u64, last: u64) -> String {
        const SECOND: i128 = 1_000_000_000;
        let time = |ticks: u64| i128::from(clock.steady(Ticks(ticks)));
        let (ticks, ns) = (i128::from(last - first), time(last) - time(first));
        let rate = if ns > 0 { ((ticks * SECOND + ns / 2) / ns).max(1) } else { SECOND };
        // The time of ticks 0, in nanoseconds.
        let zero = time(first) - i128::from(first) * SECOND / rate;
        let (seconds, rest) = (zero.div_euclid(SECOND), zero.rem_euclid(SECOND) * rate / SECOND);
        format!(
            "clock {{\n    name = clock{number}; freq = {rate}; offset_s = {seconds}; offset = {rest};\n    \
             absolute = true;\n}};\n\
             typealias integer {{ size = 64; align = 8; signed = false; map = clock.clock{number}.value; }} := \
             ticks{number}_t;\n\
             stream {{\n    id = {number};\n    packet.context := struct {{\n        \
             ticks{number}_t timestamp_begin; ticks{number}_t timestamp_end;\n        \
             uint64_t content_size; uint64_t packet_size; uint64_t events_discarded;\n        \
             uint32_t vpid; int64_t vtid; string procname; string thread;\n    }};\n    \
             event.header := struct {{ uint32_t id; ticks{number}_t timestamp; }};\n}};\n"
        )
    }

    /// Returns three texts that describe a class in `metadata`: its name; its place in the source and its level; and
    /// its fields.
    fn class(class: &Class, inventory: &Inventory) -> (String, String, String) {
        let named = |name: &str, fields: &str| (quoted(name), String::new(), fields.to_owned());
        let of_site = |known: &TypedSite, fields: String| {
            let site = &known.site;
            let name = if site.template.is_empty() { &site.format } else { &site.template };
            let mut about = format!("model.emf.uri = {}; ", quoted(&format!("{}:{}", site.file, site.line)));
            if let Some(level) = level_number(site.level) {
                let _ = write!(about, "loglevel = {level}; ");
            }
            (quoted(name), about, fields)
        };
        let text = "string _message; ";
        match class {
            Class::Values(number) => inventory.site(Some(*number)).map(|known| {
                let (mut fields, mut names) = (String::new(), Vec::new());
                for field in known.fields.fields() {
                    let mut name = field_name(&field.name);
                    while names.contains(&name) {
                        name.push('_');
                    }
                    let _ = write!(fields, "{} {name}; ", type_of(field.of));
                    names.push(name);
                }
                of_site(known, fields)
            }),
            Class::Text(number) => inventory.site(Some(*number)).map(|known| of_site(known, text.to_owned())),
            Class::Message => Some(named("message", text)),
            Class::Stack => Some(named("stack", text)),
            Class::Enter(of_span) => {
                let fields = "enum function _function; enum function _called_from; ";
                let span = if *of_span { "uint64_t _span; " } else { "" };
                Some(named(if *of_span { "enter span" } else { "enter" }, &format!("{fields}{span}")))
            }
            Class::Leave(of_span) => {
                let fields = "enum function _function; enum boolean _unwinding; enum boolean _ended; \
                              enum boolean _cancelled; ";
                let span = if *of_span { "uint64_t _span; " } else { "" };
                Some(named(if *of_span { "leave span" } else { "leave" }, &format!("{fields}{span}")))
            }
            Class::Stall => Some(named("# stall", "uint64_t _ns; ")),
            Class::Lost => Some(named("# lost", "uint64_t _records; string _keys; ")),
            Class::Word(word) => Some(named(&format!("# {word}"), "string _keys; ")),
        }
        .unwrap_or_else(|| named("message", text))
    }

    /// Returns the number of values that have other names in the output than in the trace.
    fn renamed(&self, inventory: &Inventory) -> u64 {
        let mut renamed = 0;
        for class in &self.known {
            let Class::Values(site) = class else { continue };
            let fields = inventory.site(Some(*site)).map_or(&[][..], |known| known.fields.fields());
            let odd = fields.iter().filter(|field| field_name(&field.name)[1..] != field.name);
            renamed += odd.count() as u64;
        }
        renamed
    }

    /// Returns the contents of `metadata`, the description of all types of events.
    fn metadata(&self, inventory: &Inventory) -> String {
        let mut text = TYPES.to_owned();
        text.push_str("enum function : uint32_t {\n    \"not known\" = 0");
        for (number, function) in (1..).zip(&inventory.functions) {
            let line = function.line.map_or_else(String::new, |line| format!(":{line}"));
            let at =
                if function.file.is_empty() { String::new() } else { format!(" at {}{line}", function.file) };
            let _ = write!(text, ",\n    {} = {number}", quoted(&format!("{}{at}", function.name)));
        }
        text.push_str("\n};\n");
        for (number, (clock, first, last)) in self.clocks.iter().enumerate() {
            text.push_str(&Self::clock(number, clock, *first, *last));
            for (id, class) in self.known.iter().enumerate() {
                let (name, about, fields) = Self::class(class, inventory);
                let _ = writeln!(
                    text,
                    "event {{ id = {id}; name = {name}; stream_id = {number}; {about}fields := struct {{ {fields}}}; }};"
                );
            }
        }
        text
    }
}

impl EventFormat for CtfFormat {
    fn event(&mut self, event: &Event<'_>, inventory: &Inventory, out: &mut Vec<u8>) {
        match &event.what {
            EventContent::Message { .. } => self.message(event, inventory, out),
            EventContent::Enter(call_info) => self.enter(event, call_info, inventory, out),
            EventContent::Leave(call_info, ended) => {
                self.leave(event, call_info, function_left(call_info, ended), inventory, out);
            }
            // These calls have no leave records, and the format has events only for records.
            EventContent::Close(_) => {}
            EventContent::Stack(text) => {
                put_text(text, &mut 0, self.begin_event(event, &Class::Stack, inventory, out));
            }
            EventContent::Meta { payload, meta } => self.meta(event, payload, *meta, inventory, out),
        }
    }

    fn takes_text_of_values(&self, _text: &[u8]) -> bool {
        false
    }

    fn takes_bytes_of_numbers(&self) -> bool {
        true
    }

    fn clock(&self) -> Option<TimeScale> {
        None
    }

    fn finish(&mut self, inventory: &Inventory, out: &mut Vec<u8>) {
        for thread in 0..self.streams.len() {
            self.end_packet(thread, out);
        }
        put_part("metadata", self.metadata(inventory).as_bytes(), out);
    }

    fn omissions(&self, inventory: &Inventory) -> Vec<String> {
        let mut omissions = inventory.text_omissions();
        omissions.extend(inventory.without(&[
            Aspect::Targets,
            Aspect::Modules,
            Aspect::Functions,
            Aspect::Texts,
        ]));
        omissions.extend(self.pids.omissions());
        omissions.extend(sentences([
            (self.nul, "record", "with NUL in a text: written as \\x00"),
            (
                self.back,
                "record",
                "whose ticks go back: written with the ticks of the previous record of its thread",
            ),
            (
                self.renamed(inventory),
                "name",
                "of a value with characters other than ASCII letters and digits: replaced by _",
            ),
        ]));
        omissions
    }
}
