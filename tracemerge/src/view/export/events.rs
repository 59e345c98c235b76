//! Converts records to events, for the formats of other programs. Events refer to their threads and processes by index,
//! and have times, sites with typed values, and functions with matched enter and leave records.
//!
//! A format implements [`EventFormat`], and [`EventExport`] adapts it to [`Export`]. Enter and leave records are
//! matched in the same way as in the view `report`, so all formats agree with it.

use std::io;
use std::sync::Arc;

use trace_format::FIRST_WITH_OTHER_KINDS;
use trace_format::escape::unescape;
use trace_format::line::{Kind, Ticks};
use trace_format::locks::may_be_lock_record;
use trace_format::meta::Meta;
use trace_format::record::Flags;
use trace_format::sites::Site;

use crate::file::record_text::RecordText;
use crate::input::inputs::Origin;
use crate::input::other_kinds::OtherKinds;
use crate::input::site_catalog::SiteCatalog;
use crate::ui::messages::{Grouped, count};
use crate::view::calls::{CallPlace, Depth, Ended, Ending, Folded, OpenCall, OpenCalls, cut};
use crate::view::export::Export;
use crate::view::export::aspects::CallDetailCounts;
use crate::view::function_names::{
    CallInfo, Called, FunctionId, FunctionNames, KnownCalls, SharedNames, lock,
};
use crate::view::known_spans::{How, KnownSpans, Span, SpanChange, SpanKey};
use crate::view::span_threads::SpanThreads;
use crate::view::thread_states::OffTime;
use crate::view::threads::{Process, Thread, ThreadIds, Threads, TimeScale};
use crate::view::values::{Fields, Value, clear_and_reuse};
use crate::view::work_time::WorkTime;

/// A format that is written from events.
pub(crate) trait EventFormat: Send + Sync {
    /// Appends the beginning of the output, before the first event.
    fn begin(&mut self, _out: &mut Vec<u8>) {}

    /// Appends an event, which must be the next one in the order of the merge.
    fn event(&mut self, event: &Event<'_>, inventory: &Inventory, out: &mut Vec<u8>);

    /// Appends a period in which a thread was not running on a processor; `until` is the end of the period. Called
    /// before the next event of the thread, if the format [takes
    /// states](crate::view::export::format::OutputFormat::takes_states).
    fn off(
        &mut self,
        _thread: usize,
        _off: &OffTime,
        _until: u64,
        _inventory: &Inventory,
        _out: &mut Vec<u8>,
    ) {
    }

    /// Returns an empty model of spans if the format takes spans, otherwise `None`. If there is a model, the inventory
    /// keeps it up to date, [`EventFormat::span`] gets the changes of spans, and messages about spans always have their
    /// text.
    fn spans(&self) -> Option<KnownSpans> {
        None
    }

    /// Appends a change of a span; `_at` is the thread that made the change, and the time. If an enter record makes the
    /// change, this function is called before the event of that record, otherwise after the event of the record that
    /// makes it.
    fn span(
        &mut self,
        _of: (&KnownSpans, &Span),
        _change: (SpanKey, SpanChange),
        _at: (usize, u64),
        _inventory: &Inventory,
        _out: &mut Vec<u8>,
    ) {
    }

    /// Returns whether the format needs the text of a message even if the values of the message are known. Otherwise,
    /// the format gets an empty text with the values. `text` is the escaped text from the trace.
    fn takes_text_of_values(&self, _text: &[u8]) -> bool {
        true
    }

    /// Returns whether the format accepts values that are all numbers in the binary form that they have in the record.
    fn takes_bytes_of_numbers(&self) -> bool {
        false
    }

    /// Returns the clock by which events get their times; `None` if the format takes no times: then all times are 0.
    /// Events always have ticks.
    fn clock(&self) -> Option<TimeScale> {
        Some(TimeScale::Steady)
    }

    /// Returns whether the format shows nested calls. If so, calls that are nested too deeply are folded into one call,
    /// with their count in its name. The format gets the folded call when the outermost of its calls ends: an enter
    /// event, followed by the event that ends the call. The time of this enter event may be before that of the previous
    /// event, if the thread has recorded messages in between.
    fn nests_calls(&self) -> bool {
        false
    }

    /// Returns whether a new part of the output begins at the next record. Called once before each record. If the
    /// result is true, [`EventFormat::off`] gets the periods off the processor that end or continue at this record, and
    /// then [`EventFormat::end_part`] is called.
    fn begins_part(&mut self) -> bool {
        false
    }

    /// Ends a part of the output. `_before` is the first record of the next part: its thread, ticks and time.
    fn end_part(&mut self, _before: (usize, Ticks, u64), _inventory: &Inventory, _out: &mut Vec<u8>) {}

    /// Appends the end of the output, after the last event.
    fn finish(&mut self, _inventory: &Inventory, _out: &mut Vec<u8>) {}

    /// Checks that the output is not too large for other programs. Called after the output has ended.
    ///
    /// # Errors
    /// Returns an error if no program could read an output of this size. In this case, nothing of the output was
    /// written.
    fn check_size(&self) -> io::Result<()> {
        Ok(())
    }

    /// Returns a sentence for each type of information that the output omits, with its count.
    fn omissions(&self, inventory: &Inventory) -> Vec<String>;
}

/// An event of a thread: a record, or the end of calls without a record.
#[derive(Debug)]
pub(crate) struct Event<'a> {
    /// The index of the thread in the inventory.
    pub thread: usize,
    /// The ticks at which the event happened.
    pub ticks: Ticks,
    /// The time by the clock of the format, in nanoseconds since 1970.
    pub time: u64,
    /// The content of the event.
    pub what: EventContent<'a>,
}

/// Whether a message records what a thread did with a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockContent {
    /// The message is no lock record.
    No,
    /// The message may be a lock record: its trace has an older version of the format, in which lock records are
    /// messages.
    Text,
    /// The message is a lock record: it has the kind that only locks write.
    Record,
}

/// The content of an event.
#[derive(Debug)]
pub(crate) enum EventContent<'a> {
    /// A message.
    Message {
        /// The index of the message's site in the inventory, if known.
        site: Option<usize>,
        /// The unescaped text; bytes that are not UTF-8 are escaped as in the trace. Empty if the format does
        /// not need the text.
        text: &'a str,
        /// The values, one for each field of the site, if they were captured.
        values: Option<&'a [Value<'a>]>,
        /// The values in the binary form of the record. These replace `values` if the format accepts bytes and all
        /// values are [numbers](Fields::bytes_of_numbers).
        bytes: Option<&'a [u8]>,
        /// Whether the message is a lock record. The text alone does not tell.
        lock: LockContent,
    },
    /// An enter record.
    Enter(&'a CallInfo),
    /// A leave record, and the calls that it ends, the innermost first. There are no such calls if the enter record is
    /// missing.
    Leave(&'a CallInfo, &'a [EndedCall]),
    /// The end of these calls, the innermost first, without a leave record of their thread. The reason is that the
    /// thread has ended, that tracing was switched off, that another thread has left the span of the last call, or that
    /// the output ends. The time of this event may be before that of the previous event.
    Close(&'a [EndedCall]),
    /// A call stack with names, in the form of a line.
    Stack(&'a str),
    /// A `#` line.
    Meta {
        /// The payload of the line as text: a word, and keys with values.
        payload: &'a str,
        /// The parsed payload, if its kind is known.
        meta: Option<&'a Meta>,
    },
}

/// A call that has ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EndedCall {
    /// The id of the function in the inventory.
    pub function: FunctionId,
    /// The time at which the call was entered, in nanoseconds of steady time.
    #[cfg_attr(
        not(any(feature = "html", feature = "parquet")),
        expect(dead_code, reason = "only pages and data sets look for the call by it")
    )]
    pub entered: u64,
    /// Whether the call has a leave record.
    pub has_leave_record: bool,
    /// Whether the call goes on although a call around it ends. In formats that nest calls, the call's slice then ends
    /// together with the enclosing call, and an enter event begins another slice for the rest of the call.
    pub goes_on: bool,
}

/// A function's name and its place in the source, unescaped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NamedFunction {
    /// The name of the function; its address if there is no name; empty if neither is known.
    pub name: String,
    /// The source file of the function; empty if it is not known.
    pub file: String,
    /// The line in the source file, if known.
    pub line: Option<u32>,
}

/// A site with the types of its values.
#[derive(Debug)]
pub(crate) struct TypedSite {
    /// The site.
    pub site: Arc<Site>,
    /// The types and names of the site's values.
    pub fields: Fields,
    /// The number of the site's messages so far.
    pub messages: u64,
    /// The number of the site's messages so far whose values could be read.
    pub with_values: u64,
}

impl TypedSite {
    /// Returns the target: the name by which the site's records are filtered.
    #[must_use]
    pub(crate) fn target(&self) -> &str {
        if self.site.target.is_empty() { &self.site.module } else { &self.site.target }
    }
}

/// The threads, processes, functions and sites of the events so far, and counts of omitted information.
#[derive(Debug)]
pub(crate) struct Inventory {
    /// The threads and processes.
    pub registry: Threads,
    /// The functions, by their ids.
    pub functions: Vec<NamedFunction>,
    /// The sites, by their indices; `None` if no message of the site has occurred yet.
    pub sites: Vec<Option<TypedSite>>,
    /// The spans, if the format takes them.
    pub spans: Option<KnownSpans>,
    /// The number of messages with bytes that are not UTF-8.
    pub not_text: u64,
    /// The number of messages whose values do not fit the types of their site.
    pub without_values: u64,
    /// The number of leave records without an enter record.
    pub unmatched: u64,
    /// The number of calls without a leave record that ended because the call around them ended.
    pub unseen: u64,
    /// The number of calls that were open when their thread or the output ended.
    pub still_open: u64,
    /// The number of calls that were folded because they were nested too deeply.
    pub folded: u64,
    /// The maximum number of nested calls that are shown; deeper calls are folded.
    pub depth: usize,
    /// The counts of calls with additional details.
    pub calls: CallDetailCounts,
    /// The counts of lines whose kind is unknown.
    pub other_kinds: OtherKinds,
}

impl Inventory {
    /// Creates an inventory without functions and sites for the threads `registry`.
    fn new(registry: Threads, depth: usize, spans: Option<KnownSpans>) -> Inventory {
        Inventory {
            registry,
            functions: Vec::new(),
            sites: Vec::new(),
            spans,
            not_text: 0,
            without_values: 0,
            unmatched: 0,
            unseen: 0,
            still_open: 0,
            folded: 0,
            depth,
            calls: CallDetailCounts::default(),
            other_kinds: OtherKinds::default(),
        }
    }

    /// Returns the threads, by their indices.
    #[must_use]
    pub(crate) fn threads(&self) -> &[Thread] {
        self.registry.threads()
    }

    /// Returns the processes, by their indices.
    #[must_use]
    pub(crate) fn processes(&self) -> &[Process] {
        self.registry.processes()
    }

    /// Returns the site with the index `number`; `None` if there is no number, or if no message of the site has
    /// occurred yet.
    #[must_use]
    pub(crate) fn site(&self, number: Option<usize>) -> Option<&TypedSite> {
        self.sites.get(number?)?.as_ref()
    }

    /// Returns the function with the id `id`.
    #[must_use]
    pub(crate) fn function(&self, id: FunctionId) -> &NamedFunction {
        &self.functions[id as usize]
    }

    /// Adds the functions that the record of a call names, and all functions with smaller ids, unless they are known.
    #[inline]
    fn learn_functions(&mut self, call_info: &CallInfo, names: &SharedNames) {
        let most = call_info.called.function.max(call_info.called.from.unwrap_or(0)) as usize;
        if self.functions.len() <= most {
            self.learn_functions_up_to(most, &lock(names));
        }
    }

    #[cold]
    fn learn_functions_up_to(&mut self, most: usize, names: &FunctionNames) {
        for id in self.functions.len()..=most {
            let function = names.get(FunctionId::try_from(id).unwrap_or(0));
            let plain = |text: &str| String::from_utf8_lossy(&unescape(text.as_bytes())).into_owned();
            let place = plain(function.place());
            let (file, line) = match place.rsplit_once(':').map(|(file, line)| (file, line.parse())) {
                Some((file, Ok(line))) => (file.to_owned(), Some(line)),
                _ => (place, None),
            };
            self.functions.push(NamedFunction { name: plain(&function.name), file, line });
        }
    }

    /// Returns the sentences about omitted or changed texts, which are the same for all formats.
    #[must_use]
    pub(crate) fn text_omissions(&self) -> Vec<String> {
        sentences([
            (self.not_text, "message", "with bytes that are not UTF-8: written as \\xNN"),
            (self.without_values, "message", "whose values cannot be read: only the text is shown"),
        ])
    }

    /// Returns the sentences about calls with a missing record and about folded calls, which are the same for all
    /// formats with nested calls.
    #[must_use]
    pub(crate) fn cut_calls(&self) -> Vec<String> {
        let mut call_info = sentences([
            (self.unmatched, "leave record", "without an enter record: left out"),
            (self.unseen, "call", "without a leave record: ended with the enclosing call"),
            (self.still_open, "call", "still running at the end: ended with the thread or the trace"),
        ]);
        call_info.extend(folded_calls(self.folded, self.depth));
        call_info
    }
}

/// Returns the sentence about calls that were folded because they were inside `depth` others; nothing if `folded` is 0.
pub(crate) fn folded_calls(folded: u64, depth: usize) -> Vec<String> {
    let why =
        format!("inside of {} others: folded, and counted (--depth all shows them)", Grouped(depth as u64));
    sentences([(folded, "call", &why[..])])
}

/// Returns a sentence for each element whose count is not 0. An element has a count, a noun for the counted things, and
/// the rest of the sentence.
pub(crate) fn sentences<'a>(of: impl IntoIterator<Item = (u64, &'a str, &'a str)>) -> Vec<String> {
    let some = of.into_iter().filter(|(number, ..)| *number > 0);
    some.map(|(number, noun, rest)| format!("{} {rest}", count(number, noun))).collect()
}

/// The thread, the ticks and the time of a record.
#[derive(Clone, Copy, Debug)]
struct EventPosition {
    ids: ThreadIds,
    ticks: Ticks,
    /// The time by the clock of the format; 0 if the format takes no times.
    time: u64,
}

/// Adapts a format that accepts events to [`Export`].
pub(crate) struct EventExport<F> {
    format: F,
    names: SharedNames,
    call_info: KnownCalls,
    catalog: Arc<SiteCatalog>,
    inventory: Inventory,
    /// The open calls of each thread.
    open: Vec<OpenCalls>,
    entered_spans: SpanThreads,
    /// For each thread, the index of its next period off the processor that is passed to the format; `None` before the
    /// thread's first event. Periods that began before this event are skipped.
    off: Vec<Option<usize>>,
    /// A buffer for the text of a message; `values` and `ended` are buffers, too.
    text: String,
    values: Vec<Value<'static>>,
    ended: Vec<EndedCall>,
}

impl<F: EventFormat> EventExport<F> {
    /// Creates an export in this format, of the events of `threads`. If the format shows nested calls, `depth` limits
    /// them.
    pub(crate) fn new(
        format: F,
        depth: Depth,
        threads: Threads,
        catalog: Arc<SiteCatalog>,
    ) -> EventExport<F> {
        let names = threads.names().clone();
        let depth = if format.nests_calls() { depth.most() } else { Depth::All.most() };
        let threads = threads.by(format.clock().unwrap_or_default());
        let spans = format.spans();
        EventExport {
            format,
            call_info: KnownCalls::of(&names),
            names,
            catalog,
            inventory: Inventory::new(threads, depth, spans),
            open: Vec::new(),
            entered_spans: SpanThreads::default(),
            off: Vec::new(),
            text: String::new(),
            values: Vec::new(),
            ended: Vec::new(),
        }
    }

    /// Returns the thread, the ticks and the time of a record. `origin` is the file or ring that the record comes from,
    /// and `number` its index.
    #[inline]
    fn at(&mut self, number: usize, origin: &Origin, ticks: Ticks) -> EventPosition {
        let ids = self.inventory.registry.ids(number, origin);
        if ids.thread >= self.open.len() {
            let mut open = OpenCalls::default();
            open.overlap_up_to(self.inventory.depth);
            self.open.push(open);
            self.off.push(None);
        }
        let has_times = self.format.clock().is_some();
        let time = if has_times { self.inventory.registry.time(ids.thread, ticks) } else { 0 };
        EventPosition { ids, ticks, time }
    }

    /// Passes to the format each period in which a thread was not running on a processor, if the period has ended by
    /// `time` and was not passed yet.
    fn pass_off(&mut self, thread: usize, time: u64, out: &mut Vec<u8>) {
        let Some(off) = self.inventory.registry.work(thread).off().cloned() else { return };
        // Periods that began before the thread's first event are not shown.
        let next = self.off[thread].get_or_insert_with(|| off.begun_before(time));
        while let Some(of) = off.times().get(*next).filter(|of| of.end <= time) {
            *next += 1;
            self.format.off(thread, of, of.end, &self.inventory, out);
        }
    }

    /// Passes the last period in which a thread was not running on a processor to the format, cut off at `time`, if it
    /// has not ended by then. Called when the output, or a part of it, ends at `time`.
    fn pass_last_off(&mut self, thread: usize, time: u64, out: &mut Vec<u8>) {
        self.pass_off(thread, time, out);
        let Some(off) = self.inventory.registry.work(thread).off().cloned() else { return };
        let next = self.off[thread].unwrap_or(usize::MAX);
        if let Some(of) = off.times().get(next).filter(|of| of.begin < time) {
            self.format.off(thread, of, time, &self.inventory, out);
        }
    }

    /// Ends a part of the output before the record at the position `at`.
    #[cold]
    fn end_part(&mut self, at: EventPosition, out: &mut Vec<u8>) {
        for thread in 0..self.open.len() {
            self.pass_last_off(thread, at.time, out);
        }
        self.format.end_part((at.ids.thread, at.ticks, at.time), &self.inventory, out);
    }

    /// Returns the index of the site whose records have the number `mark`.
    fn site(&mut self, mark: u32) -> Option<usize> {
        let number = (mark as usize).checked_sub(1)?;
        if self.inventory.sites.get(number).is_none_or(Option::is_none) {
            let site = self.catalog.site(mark)?;
            let fields = Fields::of(&site);
            self.inventory.sites.resize_with(self.inventory.sites.len().max(number + 1), || None);
            self.inventory.sites[number] = Some(TypedSite { site, fields, messages: 0, with_values: 0 });
        }
        Some(number)
    }

    fn message(&mut self, record: &RecordText<'_>, at: EventPosition, lock: LockContent, out: &mut Vec<u8>) {
        let EventPosition { ids: ThreadIds { thread, .. }, ticks, time } = at;
        let site = self.site(record.site);
        let known = site.and_then(|site| self.inventory.sites.get_mut(site)?.as_mut());
        if let (Some(known), Some(bytes), true) = (known, record.values, self.format.takes_bytes_of_numbers())
        {
            if known.fields.bytes_of_numbers() == Some(bytes.len()) {
                known.messages += 1;
                known.with_values += 1;
                let what = EventContent::Message {
                    site,
                    text: "",
                    values: None,
                    bytes: Some(bytes),
                    lock: LockContent::No,
                };
                return self.format.event(&Event { thread, ticks, time, what }, &self.inventory, out);
            }
        }
        let mut text = std::mem::take(&mut self.text);
        let mut values: Vec<Value<'_>> = std::mem::take(&mut self.values);
        let known = record.values.zip(self.inventory.site(site));
        let read = known.map(|(payload, known)| known.fields.read(payload, &mut values));
        self.inventory.without_values += u64::from(read == Some(false));
        let has_values = read == Some(true);
        if let Some(Some(known)) = site.and_then(|site| self.inventory.sites.get_mut(site)) {
            known.messages += 1;
            known.with_values += u64::from(has_values && !values.is_empty());
        }
        text.clear();
        let may_be_about_span = self.inventory.spans.is_some() && KnownSpans::may_take(record.payload());
        if !has_values || may_be_about_span || self.format.takes_text_of_values(record.payload()) {
            self.inventory.not_text += u64::from(!text_of(record, &mut text));
        }
        let values_read = has_values.then_some(&values[..]);
        let what = EventContent::Message { site, text: &text, values: values_read, bytes: None, lock };
        self.format.event(&Event { thread, ticks, time, what }, &self.inventory, out);
        if let Some(spans) = self.inventory.spans.as_mut().filter(|_| may_be_about_span) {
            if let Some((key, change)) = spans.message((at.ids.process, thread), &text, time) {
                self.change_span((key, change), (thread, time), out);
            }
        }
        self.values = clear_and_reuse(values);
        self.text = text;
    }

    /// Passes a change of a span to the format.
    fn change_span(
        &mut self,
        (key, change): (SpanKey, SpanChange),
        (thread, time): (usize, u64),
        out: &mut Vec<u8>,
    ) {
        let Some(spans) = &self.inventory.spans else { return };
        if let Some(span) = spans.get(key) {
            self.format.span((spans, span), (key, change), (thread, time), &self.inventory, out);
        }
        if let (SpanChange::Ended(how), Some(spans)) = (change, &mut self.inventory.spans) {
            spans.end(key, time, how);
        }
    }

    fn enter_span(&mut self, call_info: &CallInfo, at: EventPosition, out: &mut Vec<u8>) {
        let EventPosition { ids: ThreadIds { thread, process, .. }, time, .. } = at;
        let Some((span, spans)) = call_info.span.zip(self.inventory.spans.as_mut()) else { return };
        let name = || self.inventory.functions[call_info.called.function as usize].name.clone();
        let (begins, is_busy) = spans.enter((process, span), name, thread, time);
        for change in [(begins, SpanChange::Began), (is_busy, SpanChange::Busy)] {
            if change.0 {
                self.change_span(((process, span), change.1), (thread, time), out);
            }
        }
    }

    /// Ends the stay of the thread `of` in a span, and passes the changes of the span to the format. `at` is the
    /// position of the leave record, which another thread may have made.
    fn leave_span(&mut self, call_info: &CallInfo, of: usize, at: EventPosition, out: &mut Vec<u8>) {
        let EventPosition { ids: ThreadIds { thread, process, .. }, time, .. } = at;
        let Some((span, spans)) = call_info.span.zip(self.inventory.spans.as_mut()) else { return };
        let work = self.inventory.registry.work(of);
        if spans.leave((process, span), (of, work), time) {
            self.change_span(((process, span), SpanChange::Idle), (thread, time), out);
        }
        if let Some(how) = KnownSpans::ending(call_info) {
            self.change_span(((process, span), SpanChange::Ended(how)), (thread, time), out);
        }
    }

    /// Ends the spans that are still open, each at the last sign of life of its process.
    fn end_spans(&mut self, out: &mut Vec<u8>) {
        for thread in 0..self.open.len() {
            let inside = self.inventory.spans.as_ref().map_or_else(Vec::new, |spans| spans.inside(thread));
            let process = self.inventory.threads()[thread].process;
            let end = self.inventory.registry.last_time(process);
            for span in inside {
                let Some(spans) = self.inventory.spans.as_mut() else { return };
                if spans.leave((process, span), (thread, self.inventory.registry.work(thread)), end) {
                    self.change_span(((process, span), SpanChange::Idle), (thread, end), out);
                }
            }
        }
        let open = self.inventory.spans.as_ref().map_or_else(Vec::new, KnownSpans::open_spans);
        for key in open {
            let thread = self.inventory.spans.as_ref().and_then(|spans| Some(spans.get(key)?.thread));
            let end = self.inventory.registry.last_time(key.0);
            self.change_span((key, SpanChange::Ended(How::Open)), (thread.unwrap_or(0), end), out);
        }
    }

    fn function(&mut self, record: &RecordText<'_>, at: EventPosition, out: &mut Vec<u8>) {
        let EventPosition { ids: ThreadIds { thread, process, named }, ticks, time } = at;
        let call_info = self.call_info.call_info(&self.names, named, record);
        let Some(call_info) = call_info else { return };
        self.inventory.learn_functions(call_info, &self.names);
        let called = &call_info.called;
        if record.kind == Kind::Enter {
            let open = &mut self.open[thread];
            open.enter(called.place, called.function, call_info.span, time);
            self.inventory.calls.entered(call_info);
            let (call_info, depth) = (*call_info, open.open().len());
            if let Some(span) = call_info.span {
                self.entered_spans.enter((process, span), thread);
            }
            self.enter_span(&call_info, at, out);
            if depth <= self.inventory.depth {
                let what = EventContent::Enter(&call_info);
                self.format.event(&Event { thread, ticks, time, what }, &self.inventory, out);
            }
            return;
        }
        let has_open = |of: usize| self.open[of].has_open_at(called.place, call_info.span);
        let of = call_info.span.map(|span| self.entered_spans.leave((process, span), thread, has_open));
        let of = of.unwrap_or(thread);
        let left = self.open[of].leave(called.place, called.function, call_info.span);
        self.inventory.unmatched += u64::from(left.is_none());
        self.inventory.calls.left(call_info);
        let call_info = *call_info;
        let mut ended = std::mem::take(&mut self.ended);
        let mut outliving = Vec::new();
        if let Some(left) = left {
            if self.format.nests_calls() {
                outliving.extend_from_slice(self.open[of].outliving(left));
            }
            self.end_calls(of, left, (ticks, time), &mut ended, out);
        }
        if !outliving.is_empty() {
            ended = with_outliving(&ended, &outliving, self.open[of].order());
        }
        if of != thread {
            let what = EventContent::Close(&ended);
            self.format.event(&Event { thread: of, ticks, time, what }, &self.inventory, out);
            ended.clear();
        }
        // If no call has ended, the record belongs to a call inside folded calls.
        if left.is_none() || of != thread || !ended.is_empty() {
            let what = EventContent::Leave(&call_info, &ended);
            self.format.event(&Event { thread, ticks, time, what }, &self.inventory, out);
        }
        for call in outliving {
            let called =
                Called { place: CallPlace::Site(call.function, 0), function: call.function, from: None };
            let call_info = CallInfo { called, span: call.span, left: Flags::NONE };
            let what = EventContent::Enter(&call_info);
            self.format.event(&Event { thread: of, ticks, time, what }, &self.inventory, out);
        }
        ended.clear();
        self.ended = ended;
        self.leave_span(&call_info, of, at, out);
    }

    /// Ends the open calls of a thread except the outermost `left` ones, and appends them to `ended`, the innermost
    /// first. Before folded calls end, passes an enter event for them to the format.
    fn end_calls(
        &mut self,
        thread: usize,
        left: usize,
        (ticks, time): (Ticks, u64),
        ended: &mut Vec<EndedCall>,
        out: &mut Vec<u8>,
    ) {
        while let Some(Ended { call, ending, folded }) =
            self.open[thread].pop_shown(left, (time, &WorkTime::WITHOUT_WAITS), self.inventory.depth, 0)
        {
            let has_leave_record = ending == Ending::Left;
            let function = match folded {
                Some(folded) => {
                    self.inventory.unseen += folded.unseen;
                    self.enter_folded(thread, ticks, call.entered, &folded, out)
                }
                None => {
                    self.inventory.unseen += u64::from(!has_leave_record);
                    call.function
                }
            };
            ended.push(EndedCall { function, entered: call.entered, has_leave_record, goes_on: false });
        }
    }

    /// Passes an enter event for folded calls to the format. Returns the id of the function whose name stands for these
    /// calls.
    #[cold]
    fn enter_folded(
        &mut self,
        thread: usize,
        ticks: Ticks,
        time: u64,
        folded: &Folded,
        out: &mut Vec<u8>,
    ) -> FunctionId {
        self.inventory.folded += folded.calls();
        let function = lock(&self.names).folded(folded);
        let called = Called { place: CallPlace::Site(function, 0), function, from: None };
        let call_info = CallInfo { called, span: None, left: Flags::NONE };
        self.inventory.learn_functions(&call_info, &self.names);
        let what = EventContent::Enter(&call_info);
        self.format.event(&Event { thread, ticks, time, what }, &self.inventory, out);
        function
    }

    /// Ends all open calls of a thread.
    fn close(&mut self, thread: usize, (ticks, time): (Ticks, u64), out: &mut Vec<u8>) {
        let (mut ended, unseen) = (Vec::new(), self.inventory.unseen);
        self.inventory.still_open += self.open[thread].open().len() as u64;
        self.end_calls(thread, 0, (ticks, time), &mut ended, out);
        self.inventory.unseen = unseen;
        if !ended.is_empty() {
            ended.iter_mut().for_each(|call| call.has_leave_record = false);
            let what = EventContent::Close(&ended);
            self.format.event(&Event { thread, ticks, time, what }, &self.inventory, out);
        }
    }

    #[cold]
    fn stack(&mut self, record: &RecordText<'_>, at: EventPosition, out: &mut Vec<u8>) {
        let EventPosition { ids: ThreadIds { thread, named, .. }, ticks, time } = at;
        let Some(line) = record.parsed().next() else { return };
        let mut with_names = Vec::new();
        if !lock(&self.names).write_named(named, ticks, &line, &mut with_names) {
            with_names.clear();
            with_names.extend_from_slice(line.payload);
        }
        let text = String::from_utf8_lossy(&with_names);
        let what = EventContent::Stack(&text);
        self.format.event(&Event { thread, ticks, time, what }, &self.inventory, out);
    }

    #[cold]
    fn meta(&mut self, record: &RecordText<'_>, at: EventPosition, out: &mut Vec<u8>) {
        let EventPosition { ids: ThreadIds { thread, named, .. }, ticks, time } = at;
        let payload = record.payload();
        lock(&self.names).take_meta(named, payload);
        let meta = Meta::parse(payload);
        meta.iter().for_each(|meta| self.inventory.registry.take_meta(at.ids, meta));
        if matches!(meta, Some(Meta::Lost { .. })) {
            self.open[thread].note_loss();
        }
        let text = String::from_utf8_lossy(payload);
        let what = EventContent::Meta { payload: &text, meta: meta.as_ref() };
        self.format.event(&Event { thread, ticks, time, what }, &self.inventory, out);
        if let Some((_, ticks)) = meta.and_then(|meta| cut(&meta, ticks)) {
            let time = self.inventory.registry.time(thread, ticks);
            self.close(thread, (ticks, time), out);
        }
    }
}

/// Returns the ended calls together with the calls that have outlived the last ended call, the innermost first. `order`
/// has the former indices of the outliving calls, followed by those of the ended calls.
#[cold]
fn with_outliving(ended: &[EndedCall], outliving: &[OpenCall], order: &[usize]) -> Vec<EndedCall> {
    let mut others = ended.iter();
    let mut all = Vec::with_capacity(order.len());
    for place in (0..order.len()).rev() {
        let outlives = order.iter().position(|of| *of == place).and_then(|at| outliving.get(at));
        match outlives {
            Some(call) => {
                let (function, entered) = (call.function, call.entered);
                all.push(EndedCall { function, entered, has_leave_record: false, goes_on: true });
            }
            None => all.extend(others.next().copied()),
        }
    }
    all
}

/// Appends the text of a message, with a line feed between its lines. Returns whether the text is UTF-8. A line that is
/// not UTF-8 is appended with its escapes, as in the trace.
fn text_of(record: &RecordText<'_>, text: &mut String) -> bool {
    if record.line_count == 1 {
        return put_text(record.payload(), text);
    }
    let mut is_text = true;
    for (number, line) in record.parsed().enumerate() {
        if number > 0 {
            text.push('\n');
        }
        is_text &= put_text(line.payload, text);
    }
    is_text
}

fn put_text(escaped: &[u8], text: &mut String) -> bool {
    let plain = memchr::memchr(b'\\', escaped).map(|_| unescape(escaped));
    match std::str::from_utf8(plain.as_deref().unwrap_or(escaped)) {
        Ok(plain) => {
            text.push_str(plain);
            true
        }
        Err(_) => {
            text.push_str(&String::from_utf8_lossy(escaped));
            false
        }
    }
}

impl<F: EventFormat> Export for EventExport<F> {
    fn begin(&mut self, _origins: &[Origin], out: &mut Vec<u8>) {
        self.format.begin(out);
    }

    fn record(&mut self, origin: &Origin, record: &RecordText<'_>, out: &mut Vec<u8>) {
        let at = self.at(record.origin, origin, record.ticks);
        if self.format.begins_part() {
            self.end_part(at, out);
        }
        self.inventory.registry.see(at.ids.process, at.ticks);
        self.pass_off(at.ids.thread, at.time, out);
        match record.kind {
            Kind::Message | Kind::Continuation => {
                // A torn message without its beginning, or a line of a log, may look like a lock record by chance.
                let is_log = origin.is_log || self.inventory.threads()[at.ids.thread].tid == 0;
                let whole_of_trace = record.kind == Kind::Message && !is_log;
                let is_text = whole_of_trace && may_be_lock_record(record.payload());
                let run = self.inventory.processes()[at.ids.process].run.as_ref();
                // If the run is not known, its version may be an earlier one.
                let is_earlier = || run.is_none_or(|run| run.version < FIRST_WITH_OTHER_KINDS);
                let lock = if is_text && is_earlier() { LockContent::Text } else { LockContent::No };
                self.message(record, at, lock, out);
            }
            Kind::Lock => self.message(record, at, LockContent::Record, out),
            Kind::Enter | Kind::Leave => self.function(record, at, out),
            Kind::Stack => self.stack(record, at, out),
            Kind::Meta => self.meta(record, at, out),
            Kind::State => self.inventory.other_kinds.see_state(),
            Kind::Other(kind) => self.inventory.other_kinds.see(kind),
        }
    }

    fn finish(&mut self, out: &mut Vec<u8>) {
        for thread in 0..self.open.len() {
            let ticks = self.inventory.registry.last(self.inventory.threads()[thread].process);
            let time = self.inventory.registry.time(thread, ticks);
            self.close(thread, (ticks, time), out);
            self.pass_last_off(thread, time, out);
        }
        self.end_spans(out);
        self.format.finish(&self.inventory, out);
    }

    fn further_part(&mut self, _: &mut Vec<u8>) -> io::Result<bool> {
        self.format.check_size().map(|()| false)
    }

    fn takes_calls(&self) -> bool {
        true
    }

    fn omissions(&self) -> Vec<String> {
        let others = self.inventory.other_kinds.omissions();
        others.chain(self.format.omissions(&self.inventory)).collect()
    }
}
