//! The writer of the HTML page: the scripts and the style of the page, and the records in blocks.

use std::collections::{BTreeMap, HashMap};
use std::io;

use trace_format::line::Ticks;
use trace_format::locks::LockRecord;
use trace_format::meta::Meta;
use trace_format::record::Flags;

use super::columns::{Block, Moment, code, put_signed, put_varint, span_kind, state};
use super::overview::Overview;
use super::pages::Division;
use super::size::Size;
use super::texts::Split;
use crate::file::fast_map::FastMap;
use crate::time::clocks::ClockReader;
use crate::ui::units::duration;
use crate::view::by_number::ByNumber;
use crate::view::export::Export;
use crate::view::export::aspects::Aspect;
use crate::view::export::events::{
    EndedCall, Event, EventContent, EventExport, EventFormat, Inventory, LockContent,
};
use crate::view::export::fields::{is_of_modules, level};
use crate::view::export::json::{put_number, put_string};
use crate::view::function_names::FunctionId;
use crate::view::known_spans::{How, KnownSpans, Span, SpanChange, SpanKey};
use crate::view::layout::Context;
use crate::view::thread_states::{Off, OffTime};
use crate::view::threads::Thread;

/// The frame of the page, into which the style, the scripts and the data are inserted.
const PAGE: &str = include_str!("page.html");
const STYLE: &str = concat!(include_str!("page.css"), include_str!("panel.css"));
/// The scripts of the worker that unpacks the blocks.
const DECODER: [&str; 3] = [include_str!("inflate.js"), include_str!("decode.js"), include_str!("texts.js")];
/// The scripts of the page, each after the scripts that it uses.
const SCRIPTS: [&str; 15] = [
    include_str!("words.js"),
    include_str!("inflate.js"),
    include_str!("model.js"),
    include_str!("statistics.js"),
    include_str!("timeline.js"),
    include_str!("drawing.js"),
    include_str!("overview.js"),
    include_str!("messages.js"),
    include_str!("tables.js"),
    include_str!("compare.js"),
    include_str!("graphs.js"),
    include_str!("calltree.js"),
    include_str!("find.js"),
    include_str!("pointer.js"),
    include_str!("page.js"),
];

/// The number of templates that limits further ones: above this number, if a text would need a new template, all words
/// of the text become arguments. Above twice this number, or if the templates have more than `MAX_TEMPLATE_BYTES`
/// bytes, the whole text becomes one argument.
const MAX_TEMPLATES: usize = 100_000;
const MAX_TEMPLATE_BYTES: usize = 16 << 20;

/// The writer of the format `html`.
pub(super) struct HtmlFormat {
    /// The steady time of the first line of the chosen runs, in nanoseconds. All times in the page are relative to it.
    first: u64,
    pub(super) lanes: Vec<Lane>,
    pub(super) content: PageContent,
    pub(super) block: Block,
    pub(super) overview: Overview,
    /// The time from the first to the last line of the chosen runs, in nanoseconds of steady time.
    pub(super) last: i64,
    size: Size,
    split: Split,
    /// The state of the division into several pages; `None` if there is only one page.
    pub(super) division: Option<Division>,
    /// The number of messages so far that are not UTF-8.
    not_text: u64,
}

/// The content of a page that is not yet complete.
#[derive(Default)]
pub(super) struct PageContent {
    /// The numbers of threads and of processes that already have their descriptions in the page.
    written: (usize, usize),
    /// The number of entries of the page's dictionary so far.
    entries: u32,
    /// The index of each function's entry in the dictionary, plus 1; 0 if the function has no entry.
    functions: ByNumber<u32>,
    /// The index of each template's entry in the dictionary, by the template's kind, its site and its text.
    templates: FastMap<Vec<u8>, u32>,
    template_bytes: usize,
    span_names: HashMap<String, u64>,
    /// The open spans, by their indices among all spans.
    pub(super) spans: BTreeMap<u64, PageSpan>,
    /// The number of spans in the page so far.
    begun_spans: u64,
    /// The number of written blocks. The blocks are kept in `data`, because the overview comes before them, and it is
    /// complete only at the end.
    blocks: usize,
    data: Vec<u8>,
}

/// A span that is open in the page.
pub(super) struct PageSpan {
    pub(super) key: SpanKey,
    /// The index of the span among the spans of the page.
    number: u64,
    /// The size of the span's fields that are already in the page, in bytes of text.
    fields: usize,
    /// The thread that entered the span while no other thread was in the span, and the time of its entry, in
    /// nanoseconds; `None` if no thread is in the span.
    pub(super) busy: Option<(usize, u64)>,
}

/// The state of a thread while its records are put into the page: its clock, its open calls and its waits.
pub(super) struct Lane {
    wall: ClockReader,
    /// The functions of the open calls, and the moments at which they were entered.
    pub(super) open: Vec<(FunctionId, Moment)>,
    /// The end of the thread's last wait for the tracer, in nanoseconds.
    waited_until: u64,
    /// The thread's current wait for a lock or a notification, if it waits for one.
    pub(super) lock_wait: Option<LockWait>,
}

/// A wait for a lock or a notification that has not ended.
#[derive(Clone, Copy)]
pub(super) struct LockWait {
    begin: u64,
    is_lock: bool,
    /// The thread that has the lock, if it is known.
    holder: Option<usize>,
}

/// Creates the writer of a single page.
pub(super) fn make(context: &Context) -> Box<dyn Export> {
    make_divided(context, None)
}

/// Creates the writer of one page, or of several pages if there is a `division`.
pub(super) fn make_divided(context: &Context, division: Option<Division>) -> Box<dyn Export> {
    let last = context.last.saturating_sub(context.time.first);
    let format = HtmlFormat {
        first: context.time.first,
        lanes: Vec::new(),
        content: PageContent::default(),
        block: Block::default(),
        overview: if division.is_some() { Overview::beginning_at(0) } else { Overview::new(last) },
        last: last as i64,
        size: Size::default(),
        split: Split::default(),
        division,
        not_text: 0,
    };
    Box::new(EventExport::new(format, context.depth, context.threads(), context.catalog.clone()))
}

/// Returns the text of the page before its data, with style and scripts, and the text after its data.
fn parts() -> (String, &'static str) {
    let (head, tail) = PAGE.split_once("<!--data-->").unwrap_or((PAGE, ""));
    let script = |source: &&str| format!("<script>\n{}</script>\n", without_comments(source));
    let scripts: String = SCRIPTS.iter().map(script).collect();
    let head = head.replace("/*style*/", &without_comments(STYLE));
    let head = head.replace("/*decoder*/", &without_comments(&DECODER.concat()));
    (head.replace("<!--scripts-->", &scripts), tail)
}

/// Returns a script or a style without indentation, and without comments that take whole lines.
fn without_comments(source: &str) -> String {
    let lines = source.lines().map(str::trim_start);
    lines.filter(|line| !line.is_empty() && !line.starts_with("//")).flat_map(|line| [line, "\n"]).collect()
}

/// Returns the byte that stands for the kind of a message: a lock record or another message.
fn kind_of(lock: LockContent) -> u8 {
    if lock == LockContent::Record { b'!' } else { b':' }
}

impl HtmlFormat {
    /// Converts a steady time to nanoseconds since the first line, as all times in the page are.
    pub(super) fn since_first(&self, time: u64) -> i64 {
        time.wrapping_sub(self.first) as i64
    }

    /// Converts a time of the page, in nanoseconds since the first line, to steady time.
    pub(super) fn since_epoch(&self, time: i64) -> u64 {
        self.first.wrapping_add(time as u64)
    }

    fn lane(&mut self, thread: usize, inventory: &Inventory) -> &mut Lane {
        for thread in &inventory.threads()[self.lanes.len()..] {
            let wall = thread.clock.wall_reader();
            self.lanes.push(Lane { wall, open: Vec::new(), waited_until: 0, lock_wait: None });
        }
        &mut self.lanes[thread]
    }

    /// Adds a record with the code `code` to the block. Returns the record's time by all clocks.
    pub(super) fn put(&mut self, event: &Event<'_>, code: u64, inventory: &Inventory) -> Moment {
        let wall = self.lane(event.thread, inventory).wall.at(event.ticks);
        let moment = Moment { ticks: event.ticks.0, time: self.since_first(event.time), wall };
        if self.division.is_none() {
            self.size.add(moment.time);
        }
        self.block.record(event.thread, moment, code);
        moment
    }

    /// Begins a new entry of the dictionary, whose first letter is `kind`. Returns the index of the entry.
    fn begin_entry(&mut self, kind: u8) -> u32 {
        let entries = &mut self.block.entries;
        entries.extend_from_slice(if entries.is_empty() { b"[\"" } else { b",[\"" });
        entries.extend_from_slice(&[kind, b'"']);
        self.content.entries += 1;
        self.content.entries - 1
    }

    /// Appends these texts to the entry that was begun last, and ends the entry.
    fn end_entry(&mut self, texts: &[&str]) {
        for text in texts {
            self.block.entries.push(b',');
            put_string(text, &mut self.block.entries);
        }
        self.block.entries.push(b']');
    }

    pub(super) fn function(&mut self, function: FunctionId, inventory: &Inventory) -> u32 {
        let known = self.content.functions.get(function);
        if known > 0 {
            return known - 1;
        }
        let named = inventory.function(function);
        let entry = self.begin_entry(b'f');
        let line = named.line.map_or_else(String::new, |line| format!(":{line}"));
        self.end_entry(&[&named.name, &format!("{}{line}", named.file)]);
        *self.content.functions.get_mut(function) = entry + 1;
        entry
    }

    /// Adds a record that has a text, such as a message. `site` is the index of its site plus 1, or 0.
    fn text(&mut self, event: &Event<'_>, kind: u8, (site, text): (usize, &str), inventory: &Inventory) {
        let mut split = std::mem::take(&mut self.split);
        let head = [&[kind][..], &site.to_le_bytes()].concat();
        split.begin(&head);
        split.split(text, false);
        let is_known = |of: &HtmlFormat, split: &Split| of.content.templates.contains_key(&split.template);
        if !self.has_room(MAX_TEMPLATES) && !is_known(self, &split) {
            split.begin(&head);
            split.split(text, true);
            if !self.has_room(2 * MAX_TEMPLATES) && !is_known(self, &split) {
                split.take_whole(head.len(), text);
            }
        }
        let known = self.content.templates.get(&split.template).copied();
        let entry = known.unwrap_or_else(|| {
            let template = String::from_utf8_lossy(&split.template[head.len()..]).into_owned();
            self.content.template_bytes += split.template.len();
            let entry = self.begin_entry(kind);
            self.content.templates.insert(split.template.clone(), entry);
            match inventory.site(site.checked_sub(1)) {
                None => self.end_entry(&[&template]),
                Some(known) => {
                    let of = &known.site;
                    let place =
                        if of.file.is_empty() { String::new() } else { format!("{}:{}", of.file, of.line) };
                    let level = level(of.level).unwrap_or("");
                    self.end_entry(&[&template, level, known.target(), &place, &of.function]);
                }
            }
            entry
        });
        self.put(event, code::FIRST + u64::from(entry), inventory);
        self.overview.message(event.thread, self.since_first(event.time));
        self.block.arguments(entry, &split.numbers, &split.lengths, &split.words);
        self.split = split;
    }

    /// Returns whether there is room for another template: there are fewer than `most`, and their size is below the
    /// limit.
    fn has_room(&self, most: usize) -> bool {
        self.content.templates.len() < most && self.content.template_bytes < MAX_TEMPLATE_BYTES
    }

    /// Adds the end of the calls `ended`, the innermost first. `left` has the flags of the leave record, if a leave
    /// record ends the calls.
    pub(super) fn end(
        &mut self,
        event: &Event<'_>,
        ended: &[EndedCall],
        left: Option<Flags>,
        inventory: &Inventory,
    ) {
        let first = self.first;
        let open = &mut self.lane(event.thread, inventory).open;
        // A call may outlive the calls around it, so the ended call is not always the innermost one.
        let mut place_of = |call: &EndedCall| {
            let entered = (call.function, call.entered.wrapping_sub(first) as i64);
            let at = open.iter().rposition(|(function, moment)| (*function, moment.time) == entered)?;
            open.remove(at);
            Some((open.len() - at) as u64)
        };
        let ended: Vec<(u64, bool)> =
            ended.iter().filter_map(|call| Some((place_of(call)?, call.has_leave_record))).collect();
        let flags = left.unwrap_or(Flags::NONE);
        // If the process has no further records, an earlier page has already ended its calls.
        if ended.is_empty() {
            return;
        }
        if ended == [(0, true)] && flags == Flags::NONE {
            self.put(event, code::LEAVE, inventory);
            return;
        }
        self.put(event, code::END, inventory);
        let bits = [
            // If another thread has left the call, `left` is `None`, but the call has a leave record.
            left.is_none() && ended.iter().all(|(_, has_leave_record)| !has_leave_record),
            flags.has(Flags::UNWINDING),
            flags.has(Flags::ENDED),
            flags.has(Flags::CANCELLED),
        ];
        let flags = (0..).zip(bits).map(|(bit, is_set)| u64::from(is_set) << bit).sum();
        put_varint(flags, &mut self.block.more);
        put_varint(ended.len() as u64, &mut self.block.more);
        for (place, has_leave_record) in ended {
            put_varint(place << 1 | u64::from(has_leave_record), &mut self.block.more);
        }
    }

    /// Passes the number of open calls of the event's thread to the overview, after a call has begun or ended.
    pub(super) fn calls_changed(&mut self, event: &Event<'_>) {
        let (time, count) = (self.since_first(event.time), self.lanes[event.thread].open.len());
        self.overview.open_calls(event.thread, time, count);
    }

    /// Begins or ends the thread's wait for a lock or a notification, if the lock record `text` says so.
    fn lock_record(&mut self, event: &Event<'_>, text: &str, inventory: &Inventory) {
        let process = inventory.threads()[event.thread].process;
        let holder = |tid: u64| {
            inventory.threads().iter().position(|thread| thread.process == process && thread.tid == tid)
        };
        let lane = self.lane(event.thread, inventory);
        let begins = |is_lock, holder| LockWait { begin: event.time, is_lock, holder };
        let ns = match LockRecord::parse(text) {
            Some(LockRecord::Wait(wait)) => {
                lane.lock_wait = Some(begins(true, holder(wait.holder)));
                return;
            }
            Some(LockRecord::ConditionWait { .. } | LockRecord::FutexWait { .. }) => {
                lane.lock_wait = Some(begins(false, None));
                return;
            }
            Some(
                LockRecord::Got { ns, .. }
                | LockRecord::GaveUp { ns, .. }
                | LockRecord::Woken { ns, .. }
                | LockRecord::Timeout { ns, .. }
                | LockRecord::FutexWoken { ns, .. },
            ) => ns,
            _ => return,
        };
        if let Some(wait) = lane.lock_wait.take() {
            self.put_lock_wait(
                event.thread,
                LockWait { begin: event.time.saturating_sub(ns), ..wait },
                event.time,
            );
        }
    }

    pub(super) fn put_lock_wait(&mut self, thread: usize, wait: LockWait, end: u64) {
        let (begin, duration) = (self.since_first(wait.begin), end.saturating_sub(wait.begin));
        if wait.is_lock {
            self.block.lock_wait(thread, (begin, duration), wait.holder);
        } else {
            self.block.state(thread, state::CONDITION, begin, duration);
        }
    }

    fn meta(&mut self, event: &Event<'_>, payload: &str, meta: Option<&Meta>, inventory: &Inventory) {
        match meta {
            Some(Meta::Run(_) | Meta::Thread(_) | Meta::Name { .. } | Meta::Clock { .. }) => {}
            meta if is_of_modules(meta) => {}
            Some(Meta::Stall { ns }) => {
                self.put(event, code::STALL, inventory);
                put_varint(*ns, &mut self.block.more);
            }
            Some(Meta::Wait(_)) => {
                let Some((begin, end)) = inventory.registry.work(event.thread).last_wait() else { return };
                let lane = self.lane(event.thread, inventory);
                if std::mem::replace(&mut lane.waited_until, end) < end {
                    self.put(event, code::WAIT, inventory);
                    for time in [begin, end] {
                        put_signed(time.wrapping_sub(event.time) as i64, &mut self.block.more);
                    }
                }
            }
            _ => self.text(event, b'#', (0, payload), inventory),
        }
    }

    /// Writes the block if it is full.
    pub(super) fn end_full_block(&mut self, inventory: &Inventory) {
        if self.block.is_full() {
            self.write_block(Vec::new(), inventory);
        }
    }

    /// Writes the last block of a page, with `facts` and with the facts that each page has once.
    fn write_last_block(&mut self, mut facts: Facts, inventory: &Inventory) {
        let times = (0..inventory.processes().len())
            .map(|process| self.since_first(inventory.registry.last_time(process)).to_string());
        let lasts = times.collect::<Vec<_>>().join(",").into_bytes();
        let mut notes = Vec::new();
        for (number, note) in self.notes(inventory).iter().enumerate() {
            notes.extend_from_slice(if number == 0 { b"" } else { b"," });
            put_string(note, &mut notes);
        }
        facts.extend([("lasts", lasts), ("notes", notes)]);
        self.write_block(facts, inventory);
    }

    /// Writes the block, with `facts` and with the facts about new threads and processes.
    pub(super) fn write_block(&mut self, mut facts: Facts, inventory: &Inventory) {
        let written = self.content.written;
        let (mut lanes, mut processes) = (Vec::new(), Vec::new());
        for thread in &inventory.threads()[written.0..] {
            let texts = [thread.label(), &format!("{}", thread.tid)];
            begin_list(&texts, &mut lanes);
            lanes.push(b',');
            put_number(thread.process as u64, &mut lanes);
            lanes.push(b']');
        }
        for (number, process) in inventory.processes().iter().enumerate().skip(written.1) {
            // All threads of a process are on one machine, so any of them will do.
            let thread = inventory.threads().iter().find(|thread| thread.process == number);
            let error =
                thread.and_then(|thread| thread.foreign.as_ref()).map_or_else(String::new, |foreign| {
                    foreign
                        .largest_error_ns()
                        .map_or_else(|| "±?".to_owned(), |ns| format!("±{}", duration(ns)))
                });
            begin_list(&[&process.name, &process.pid().to_string(), &error], &mut processes);
            processes.push(b']');
        }
        self.content.written = (inventory.threads().len(), inventory.processes().len());
        facts.extend([("lanes", lanes), ("processes", processes)]);
        self.content.blocks += 1;
        self.block.write(&facts, &mut self.content.data);
        if self.size.is_too_large() {
            self.content.data = Vec::new();
        }
    }

    /// Ends the page at the time `end`, and begins an empty page. `facts` are added to the last block of the ended
    /// page. Returns the ended page in three pieces, in order.
    pub(super) fn end_page(&mut self, facts: Facts, end: i64, inventory: &Inventory) -> [Vec<u8>; 3] {
        self.write_last_block(facts, inventory);
        let content = std::mem::take(&mut self.content);
        let (head, tail) = parts();
        let mut head = head.into_bytes();
        // If there is only one block, the browser shows it as soon as it would show an overview.
        if content.blocks > 1 {
            self.overview.write(end, inventory.threads().iter().map(Thread::label), &mut head);
        }
        [head, content.data, tail.into()]
    }

    /// Returns the sentences about the trace that are shown in the page.
    fn notes(&self, inventory: &Inventory) -> Vec<String> {
        let waits = inventory.registry.waits_in_words();
        let states = inventory.registry.states().in_words();
        let of_page = self.division.as_ref().and_then(Division::note);
        of_page.into_iter().chain(waits).chain(states).chain(self.omissions(inventory)).collect()
    }

    /// Writes the start of a span's change: its type, the span's index in the page, the time and the thread.
    fn put_span(&mut self, kind: u64, number: u64, (thread, time): (usize, i64)) {
        let block = &mut self.block;
        put_varint(kind, &mut block.spans);
        put_varint(number, &mut block.spans);
        put_signed(time.wrapping_sub(block.last_span), &mut block.spans);
        put_varint(thread as u64, &mut block.spans);
        block.last_span = time;
    }

    fn put_fields(&mut self, fields: &str) {
        put_varint(fields.len() as u64, &mut self.block.spans);
        self.block.fields.extend_from_slice(fields.as_bytes());
    }

    /// Begins a span in the page.
    pub(super) fn begin_span(
        &mut self,
        (spans, span): (&KnownSpans, &Span),
        key: SpanKey,
        busy: Option<(usize, u64)>,
    ) {
        let begun = (span.thread, self.since_first(span.began));
        self.content.begun_spans += 1;
        let number = self.content.begun_spans;
        self.content.spans.insert(span.number, PageSpan { key, number, fields: span.fields().len(), busy });
        self.put_span(span_kind::BEGAN, number, begun);
        let name = spans.names_of(span).0;
        let next = self.content.span_names.len() as u64;
        let known = self.content.span_names.get(name).copied();
        let name = known.unwrap_or_else(|| {
            self.content.span_names.insert(name.to_owned(), next);
            let names = &mut self.block.span_names;
            names.extend_from_slice(if names.is_empty() { b"" } else { b"," });
            put_string(name, names);
            next
        });
        let parent = span.parent.and_then(|parent| spans.get((key.0, parent)));
        let parent = parent.and_then(|parent| self.content.spans.get(&parent.number));
        let parent = parent.map_or(0, |parent| parent.number);
        put_varint(name, &mut self.block.spans);
        put_varint(key.1, &mut self.block.spans);
        put_varint(parent, &mut self.block.spans);
        self.put_fields(span.fields());
        if let Some((thread, since)) = busy {
            self.put_span(span_kind::BUSY, number, (thread, self.since_first(since)));
        }
    }

    /// Ends a span in the page, with the fields that were added to it since it began. `kind` is the type of the change:
    /// an end, or the change to the next page.
    pub(super) fn end_span(&mut self, span: &Span, (thread, time): (usize, u64), kind: u64) {
        let Some(of) = self.content.spans.remove(&span.number) else { return };
        self.put_span(kind, of.number, (thread, self.since_first(time)));
        self.put_fields(span.fields().get(of.fields..).unwrap_or(""));
    }
}

/// The facts that a block has besides its columns, such as the names of new threads: for each fact its name, and a list
/// in JSON.
pub(super) type Facts = Vec<(&'static str, Vec<u8>)>;

/// Appends the beginning of a JSON list that has these texts, after a comma unless `out` is empty.
fn begin_list(texts: &[&str], out: &mut Vec<u8>) {
    out.extend_from_slice(if out.is_empty() { b"[" } else { b",[" });
    for (number, text) in texts.iter().enumerate() {
        out.extend_from_slice(if number == 0 { b"" } else { b"," });
        put_string(text, out);
    }
}

impl EventFormat for HtmlFormat {
    fn event(&mut self, event: &Event<'_>, inventory: &Inventory, _: &mut Vec<u8>) {
        match &event.what {
            EventContent::Message { site, text, lock, .. } => {
                let is_text = std::mem::replace(&mut self.not_text, inventory.not_text) == inventory.not_text;
                let kind = if is_text { kind_of(*lock) } else { b'~' };
                if *lock != LockContent::No {
                    self.lock_record(event, text, inventory);
                }
                self.text(event, kind, (site.map_or(0, |site| site + 1), text), inventory);
            }
            EventContent::Enter(call_info) => {
                let function = call_info.called.function;
                let entry = self.function(function, inventory);
                let moment = self.put(event, code::FIRST + u64::from(entry), inventory);
                self.lanes[event.thread].open.push((function, moment));
                self.calls_changed(event);
            }
            EventContent::Leave(told, ended) => {
                // A leave record without an enter record ends no call.
                if !ended.is_empty() {
                    self.end(event, ended, Some(told.left), inventory);
                    self.calls_changed(event);
                }
            }
            EventContent::Close(ended) => {
                self.end(event, ended, None, inventory);
                self.calls_changed(event);
            }
            EventContent::Stack(text) => self.text(event, b'^', (0, text), inventory),
            EventContent::Meta { payload, meta } => self.meta(event, payload, *meta, inventory),
        }
        self.end_full_block(inventory);
    }

    fn off(&mut self, thread: usize, off: &OffTime, until: u64, _: &Inventory, _: &mut Vec<u8>) {
        let begin = self.since_first(off.begin);
        let kind = match off.why {
            Off::Waiting => state::WAITING,
            Off::Preempted => state::PREEMPTED,
            Off::Unknown => state::UNKNOWN,
        };
        self.block.state(thread, kind, begin, until.saturating_sub(off.begin));
    }

    fn spans(&self) -> Option<KnownSpans> {
        Some(KnownSpans::new(0, true))
    }

    fn span(
        &mut self,
        (spans, span): (&KnownSpans, &Span),
        (key, change): (SpanKey, SpanChange),
        (thread, time): (usize, u64),
        _: &Inventory,
        _: &mut Vec<u8>,
    ) {
        let kind = match change {
            SpanChange::Began => return self.begin_span((spans, span), key, None),
            SpanChange::Busy => span_kind::BUSY,
            SpanChange::Idle => span_kind::IDLE,
            SpanChange::Ended(how) => {
                let kind = match how {
                    How::Ended => span_kind::ENDED,
                    How::Cancelled => span_kind::CANCELLED,
                    How::Open => span_kind::OPEN,
                };
                return self.end_span(span, (thread, time), kind);
            }
        };
        let Some(of) = self.content.spans.get_mut(&span.number) else { return };
        of.busy = (change == SpanChange::Busy).then_some((thread, time));
        let number = of.number;
        self.put_span(kind, number, (thread, self.since_first(time)));
    }

    fn begins_part(&mut self) -> bool {
        self.division.as_mut().is_some_and(Division::begins_page)
    }

    fn end_part(&mut self, before: (usize, Ticks, u64), inventory: &Inventory, out: &mut Vec<u8>) {
        self.divide(before, inventory, out);
    }

    fn finish(&mut self, inventory: &Inventory, out: &mut Vec<u8>) {
        // Waits that have not ended have lasted until the last sign of life.
        for thread in 0..self.lanes.len() {
            if let Some(wait) = self.lanes[thread].lock_wait.take() {
                let process = inventory.threads()[thread].process;
                self.put_lock_wait(thread, wait, inventory.registry.last_time(process));
            }
        }
        if self.division.is_some() {
            return self.finish_pages(inventory, out);
        }
        let pieces = self.end_page(Vec::new(), self.last, inventory);
        if !self.size.is_too_large() {
            pieces.iter().for_each(|piece| out.extend_from_slice(piece));
        }
    }

    fn check_size(&self) -> io::Result<()> {
        if self.size.is_too_large() { Err(io::Error::other(self.size.advice())) } else { Ok(()) }
    }

    fn omissions(&self, inventory: &Inventory) -> Vec<String> {
        let mut omissions = inventory.text_omissions();
        omissions.extend(inventory.cut_calls());
        omissions.extend(inventory.without(&[Aspect::Modules, Aspect::Values, Aspect::CallSites]));
        omissions
    }
}
