//! The statistics of messages: how often each sort occurs, the time to the next message of its thread, and
//! the ranges of its numbers.

mod arguments;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::Arc;

use clap::Args;
use trace_format::line::{Kind, Ticks};
use trace_format::meta::Meta;
use trace_format::sites::Site;

use crate::file::record_text::RecordText;
use crate::input::inputs::Origin;
use crate::input::site_catalog::SiteCatalog;
use crate::ui::console::Content;
use crate::ui::messages::{Grouped, count};
use crate::ui::shorten::keep_start;
use crate::ui::table::Alignment::{Left, Right};
use crate::ui::units::duration;
use crate::view::calls::{CallPlace, OpenCalls, cut};
use crate::view::export::Export;
use crate::view::export::stats::arguments::{ArgumentRange, Arguments};
use crate::view::export::time_column::TimeMode;
use crate::view::function_names::{CallInfo, Function, FunctionId, KnownCalls, SharedNames, lock};
use crate::view::latency::Latencies;
use crate::view::layout::{Context, Layout, Needs, Subcommand};
use crate::view::rows::{self, Column, Row, RowForm, Value, row_limit, table};
use crate::view::sorts::{Sort, SortId, Sorts};
use crate::view::span_threads::SpanThreads;
use crate::view::threads::{Thread, ThreadIds, Threads};

/// The maximum number of characters of a message that the table shows.
const MESSAGE: usize = 60;

/// The layout of `stats`: counts of messages.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub(crate) struct StatsLayout {
    /// The form in which the rows are printed: a table, JSON or CSV.
    #[command(flatten)]
    pub form: RowForm,
    /// The number of sorts of messages in the table
    #[arg(long, value_name = "N|all", value_parser = row_limit, default_value_t = 20)]
    pub rows: usize,
}

impl Subcommand for StatsLayout {
    const NAME: &'static str = "stats";
    const ABOUT: &'static str = "Count the messages by the source lines that trace them";
    const FOLLOW: Option<&'static str> = Some("Count the records of running applications until these end");
    const HELP: &'static str = "\
Counts the messages of each call of trace!, if the traces record the call: files of
TRACER_FORMAT=raw do. Other messages are counted by their text without its numbers, and
those of calls of functions by the function: each entering and each leaving is a message.
For the source of names see tracemerge tree --help.
Shows for each sort: the number of messages, in all and in a second; the number of
threads; the time until the next message of the same thread (median, 99th percentile,
to 1 %, and maximum); the range of the arguments that are numbers.
The options select as those of a merge do (tracemerge --help).

-f counts the messages of running applications, and ends with them or by Ctrl-C. On a
terminal the table is drawn again every second; elsewhere, and for programs, it is written
at the end. Messages are counted by their text, because a followed trace does not
record the calls.

--json and --csv write the same for programs, with all sorts.

Exit status: that of a merge";

    fn rows_help() -> String {
        rows::help::<SortRow>()
    }
}

impl Layout for StatsLayout {
    fn reports_waits(&self) -> bool {
        true
    }

    fn needs(&self) -> Needs {
        Needs { times: true, sites: true, calls: true, labels: true, ..Needs::default() }
    }

    fn format(&self, context: &Context) -> Box<dyn Export> {
        Box::new(StatsFormat::new(self.clone(), context.threads(), context.catalog.clone()))
    }

    fn content(&self, _time: TimeMode, _in_colours: bool) -> Content {
        self.form.content()
    }

    fn is_summary(&self) -> bool {
        true
    }
}

/// The format of the view `stats`, which counts messages.
#[derive(Debug)]
pub(crate) struct StatsFormat {
    layout: StatsLayout,
    sorts: Sorts,
    names: SharedNames,
    call_info: KnownCalls,
    /// The counts of each sort, by the id of the sort.
    counted: Vec<Counted>,
    /// The counts of each function, by the id of the function.
    counted_calls: Vec<Counted>,
    threads: Threads,
    /// The open calls of each thread. They say which function a leave record belongs to, if the record names none.
    open: Vec<OpenCalls>,
    entered_spans: SpanThreads,
    /// The facts about the messages of each thread so far; `None` if the thread has had no message.
    messages: Vec<Option<MessagesOfThread>>,
    /// A buffer for the text of a message.
    text: String,
}

/// The facts about the messages of a thread so far.
#[derive(Clone, Copy, Debug)]
struct MessagesOfThread {
    /// The ticks of the first message and of the last.
    period: (Ticks, Ticks),
    /// The group of the last message.
    group: Group,
    /// The steady time of the last message, in nanoseconds.
    time: u64,
}

/// A group of messages that are counted together.
#[derive(Clone, Copy, Debug)]
enum Group {
    /// Messages of one sort.
    Sort(SortId),
    /// Messages about calls of one function.
    Calls(FunctionId),
}

/// The counts of one group of messages.
#[derive(Debug, Default)]
struct Counted {
    count: u64,
    threads: BTreeSet<usize>,
    to_next: Latencies,
    arguments: Option<Arguments>,
}

/// The statistics that the view shows. Times are in nanoseconds.
#[derive(Debug)]
struct Stats {
    /// The number of messages.
    messages: u64,
    /// The number of threads that have messages.
    threads: u64,
    /// The time from the first message to the last.
    span_ns: u64,
    /// The sorts of messages, the most frequent first.
    by_sort: Vec<SortRow>,
}

/// A row of the table: one sort of messages, or the messages about calls of one function.
#[derive(Debug)]
struct SortRow {
    message: String,
    site: Option<Arc<Site>>,
    /// The function, if the messages are about its calls.
    function: Option<Function>,
    count: u64,
    per_second: Option<f64>,
    threads: u64,
    measured: u64,
    median_ns: Option<u64>,
    p99_ns: Option<u64>,
    max_ns: Option<u64>,
    arguments: Vec<ArgumentRange>,
}

impl SortRow {
    /// Returns the source file and the line of the function, if the messages are about its calls and the place is
    /// known.
    fn place_of_function(&self) -> Option<(&str, Option<u32>)> {
        let (file, line) = self.function.as_ref()?.place().rsplit_once(':')?;
        Some((file, line.parse().ok()))
    }
}

impl Row for SortRow {
    const NAME: &'static str = "by_sort";
    const FACTS: &'static [(&'static str, &'static str)] = &[
        ("messages", "the number of messages"),
        ("threads", "the number of threads that have messages"),
        ("span_ns", "the time from the first message to the last"),
        ("sorts", "the number of sorts of messages"),
        (
            "waited_ns",
            "the time for which the tracer made threads wait, which the times to the next message leave out",
        ),
    ];
    const COLUMNS: &'static [Column<SortRow>] = &[
        Column::count("count", "count", "the number of messages", |row| row.count.into()),
        Column::text(
            "per_second",
            ("per s", Right),
            "messages in a second, on average; unknown if span_ns is 0",
            |row| row.per_second.into(),
            |row| row.per_second.map_or("-".to_owned(), rate),
        ),
        Column::count("threads", "threads", "the number of threads that have such messages", |row| {
            row.threads.into()
        }),
        Column::hidden(
            "measured",
            "the number of these messages that are followed by another message of their thread",
            |row| row.measured.into(),
        ),
        Column::time(
            "median_ns",
            "to next",
            "the time to the next message of the same thread: the median, to 1 %",
            |row| row.median_ns.into(),
        ),
        Column::time("p99_ns", "p99", "the 99th percentile of the time to the next message, to 1 %", |row| {
            row.p99_ns.into()
        }),
        Column::time("max_ns", "max", "the maximum of the time to the next message", |row| row.max_ns.into()),
        Column::text(
            "message",
            ("message", Left),
            "the template, or the function; if the site is unknown, the text with # for numbers",
            |row| row.message.as_str().into(),
            message,
        ),
        Column::hidden("has_site", "whether the site is known", |row| row.site.is_some().into()),
        Column::hidden("file", "the source file of the site or of the function", |row| {
            let of_site = row.site.as_ref().map(|site| &site.file[..]);
            of_site.or_else(|| row.place_of_function().map(|(file, _)| file)).into()
        }),
        Column::hidden("line", "the line of the site or of the function", |row| {
            let of_site = row.site.as_ref().map(|site| site.line);
            of_site.or_else(|| row.place_of_function().and_then(|(_, line)| line)).into()
        }),
        Column::hidden("module", "the module of the site", |row| {
            row.site.as_ref().map(|site| &site.module[..]).into()
        }),
        Column::hidden("function", "the function of the site, or the function that is called", |row| {
            let of_site = row.site.as_ref().map(|site| &site.function[..]);
            of_site.or_else(|| row.function.as_ref().map(|function| &function.name[..])).into()
        }),
        Column::hidden(
            "arguments",
            "name, min and max of each argument that is a number, if the site is known",
            |row| {
                let arguments = serde_json::to_value(&row.arguments);
                arguments.map_or(Value::Unknown, Value::Nested)
            },
        ),
    ];
}

impl StatsFormat {
    /// Makes a format that counts the messages of `threads` and of the sites of `catalog`, and the calls of functions.
    #[must_use]
    pub(crate) fn new(layout: StatsLayout, threads: Threads, catalog: Arc<SiteCatalog>) -> StatsFormat {
        let names = threads.names().clone();
        StatsFormat {
            layout,
            sorts: Sorts::new(catalog),
            call_info: KnownCalls::of(&names),
            names,
            counted: Vec::new(),
            counted_calls: Vec::new(),
            threads,
            open: Vec::new(),
            entered_spans: SpanThreads::default(),
            messages: Vec::new(),
            text: String::new(),
        }
    }

    /// Returns the table, and after it a line about the threads' waits for the tracer if there were any.
    fn text_of(&self, stats: &Stats) -> String {
        let mut text = text(stats, self.layout.rows);
        self.threads.waits_in_words().iter().for_each(|waits| text.extend([waits, "\n"]));
        text
    }

    /// Returns the group in which a message is counted.
    fn group(&mut self, ids: ThreadIds, record: &RecordText<'_>) -> Group {
        let function = match record.kind {
            Kind::Enter | Kind::Leave => self.function(ids, record),
            _ => None,
        };
        function.map_or_else(|| Group::Sort(self.sorts.of(record)), Group::Calls)
    }

    /// Returns the function that a record enters or leaves, if the record names a function or ends an open call.
    fn function(&mut self, ids: ThreadIds, record: &RecordText<'_>) -> Option<FunctionId> {
        let CallInfo { called, span, .. } = *self.call_info.call_info(&self.names, ids.named, record)?;
        if record.kind == Kind::Enter {
            span.iter().for_each(|span| self.entered_spans.enter((ids.process, *span), ids.thread));
            self.open[ids.thread].enter(called.place, called.function, span, 0);
            return Some(called.function);
        }
        let of = span.map_or(ids.thread, |span| {
            let has_open = |of: usize| self.open[of].has_open_at(called.place, Some(span));
            self.entered_spans.leave((ids.process, span), ids.thread, has_open)
        });
        let (open, work) = (&mut self.open[of], self.threads.work(of));
        let left = open.leave(called.place, called.function, span);
        let ended = left.and_then(|left| std::iter::from_fn(|| open.pop(left, 0, work)).last());
        let named = (called.place != CallPlace::Last).then_some(called.function);
        ended.map(|(call, _)| call.function).or(named)
    }

    fn counted(&mut self, group: Group) -> &mut Counted {
        let (counted, number) = match group {
            Group::Sort(sort) => (&mut self.counted, sort as usize),
            Group::Calls(function) => (&mut self.counted_calls, function as usize),
        };
        if counted.len() <= number {
            counted.resize_with(number + 1, Counted::default);
        }
        &mut counted[number]
    }

    fn stats(&self) -> Stats {
        let known = self.threads.threads().iter().zip(&self.messages);
        let of_thread = |(thread, messages): (&Thread, &Option<MessagesOfThread>)| {
            let (first, last) = messages.as_ref()?.period;
            Some((thread.clock.steady(first), thread.clock.steady(last)))
        };
        let periods: Vec<(u64, u64)> = known.filter_map(of_thread).collect();
        let first = periods.iter().map(|period| period.0).min().unwrap_or(0);
        let last = periods.iter().map(|period| period.1).max().unwrap_or(0);
        let span_ns = last.saturating_sub(first);
        let sorts = (0..).map(Group::Sort).zip(&self.counted);
        let calls = (0..).map(Group::Calls).zip(&self.counted_calls);
        let met = sorts.chain(calls).filter(|(_, counted)| counted.count > 0);
        let mut by_sort: Vec<SortRow> =
            met.map(|(group, counted)| self.row(group, counted, span_ns)).collect();
        by_sort.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.message.cmp(&b.message)));
        Stats {
            messages: by_sort.iter().map(|row| row.count).sum(),
            threads: periods.len() as u64,
            span_ns,
            by_sort,
        }
    }

    fn row(&self, group: Group, counted: &Counted, span_ns: u64) -> SortRow {
        let (message, site, function) = match group {
            Group::Calls(function) => {
                let function = lock(&self.names).get(function).clone();
                (function.name.clone(), None, Some(function))
            }
            Group::Sort(sort) => {
                let site = match self.sorts.get(sort) {
                    Some(Sort::Site(site)) => Some(site.clone()),
                    _ => None,
                };
                (self.sorts.text(sort), site, None)
            }
        };
        let Counted { count, threads, to_next, arguments } = counted;
        #[expect(clippy::cast_precision_loss, reason = "an average is shown")]
        let per_second = (span_ns > 0).then(|| *count as f64 * 1e9 / span_ns as f64);
        SortRow {
            message,
            site,
            function,
            count: *count,
            per_second,
            threads: threads.len() as u64,
            measured: to_next.count(),
            median_ns: to_next.percentile(50),
            p99_ns: to_next.percentile(99),
            max_ns: to_next.most(),
            arguments: arguments.as_ref().map(Arguments::ranges).unwrap_or_default(),
        }
    }
}

impl Export for StatsFormat {
    fn begin(&mut self, _origins: &[Origin], _out: &mut Vec<u8>) {}

    fn begin_at(&mut self, first: u64) {
        self.threads.begin_at(first);
    }

    fn record(&mut self, origin: &Origin, record: &RecordText<'_>, _out: &mut Vec<u8>) {
        let ids = self.threads.ids(record.origin, origin);
        let thread = ids.thread;
        if self.messages.len() <= thread {
            self.messages.resize(thread + 1, None);
            self.open.resize_with(thread + 1, OpenCalls::default);
        }
        if !record.is_traced() {
            let payload = record.payload();
            lock(&self.names).take_meta(ids.named, payload);
            let Some(meta) = Meta::parse(payload) else { return };
            if matches!(meta, Meta::Lost { .. }) {
                self.open[thread].note_loss();
            }
            if cut(&meta, record.ticks).is_some() {
                self.open[thread] = OpenCalls::default();
            }
            return self.threads.take_meta(ids, &meta);
        }
        let (group, time) = (self.group(ids, record), self.threads.time(thread, record.ticks));
        let mut period = (record.ticks, record.ticks);
        if let Some(before) = self.messages[thread] {
            let gap = self.threads.work(thread).between(before.time, time);
            self.counted(before.group).to_next.push(gap);
            period = (before.period.0.min(record.ticks), before.period.1.max(record.ticks));
        }
        self.messages[thread] = Some(MessagesOfThread { period, group, time });
        let counted = self.counted(group);
        counted.count += 1;
        counted.threads.insert(thread);
        let Group::Sort(sort) = group else { return };
        let Some(Sort::Site(site)) = self.sorts.get(sort) else { return };
        self.text.clear();
        for (number, line) in record.parsed().enumerate() {
            if number > 0 {
                self.text.push('\n');
            }
            self.text.push_str(&String::from_utf8_lossy(line.payload));
        }
        let counted = &mut self.counted[sort as usize];
        counted.arguments.get_or_insert_with(|| Arguments::of(site)).take(&self.text);
    }

    fn finish(&mut self, out: &mut Vec<u8>) {
        let stats = self.stats();
        if self.layout.form.is_table() {
            return out.extend_from_slice(self.text_of(&stats).as_bytes());
        }
        let sorts = stats.by_sort.len() as u64;
        let facts = [stats.messages, stats.threads, stats.span_ns, sorts, self.threads.waits().ns];
        let facts = facts.map(Value::Count);
        self.layout.form.write(&facts, &stats.by_sort, out);
    }

    fn learn_thread(&mut self, number: usize, origin: &Origin, label: String) {
        self.threads.learn(number, origin, label);
    }

    /// Returns the table of the current counts; `None` if the output is JSON or CSV, which is written only at the end.
    fn current_output(&self) -> Option<String> {
        self.layout.form.is_table().then(|| self.text_of(&self.stats()))
    }
}

fn text(stats: &Stats, rows: usize) -> String {
    let sorts = stats.by_sort.len();
    let mut text = format!(
        "{} of {} in {}, {}\n",
        count(stats.messages, "message"),
        count(stats.threads, "thread"),
        duration(stats.span_ns),
        count(sorts as u64, "sort"),
    );
    if stats.by_sort.is_empty() {
        return text;
    }
    text.push_str(&table(stats.by_sort.iter().take(rows), ""));
    let more = sorts.saturating_sub(rows) as u64;
    if more > 0 {
        let _ = writeln!(text, "and {} of messages; --rows shows more", count(more, "more sort"));
    }
    text
}

fn rate(per_second: f64) -> String {
    if per_second < 10.0 {
        return format!("{per_second:.2}");
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a positive count is shown")]
    Grouped(per_second.round() as u64).to_string()
}

/// Returns the text of a sort on one line, with its place and the ranges of its arguments.
fn message(sort: &SortRow) -> String {
    let line: String = sort.message.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    // The character that stands for the left-out rest is not counted in `MESSAGE`.
    let columns = if line.chars().count() > MESSAGE { MESSAGE + 1 } else { MESSAGE };
    let mut text = keep_start(&line, columns).into_owned();
    for ArgumentRange { name, min, max } in &sort.arguments {
        let _ =
            if min == max { write!(text, "  {name}={min}") } else { write!(text, "  {name}={min}..{max}") };
    }
    if let Some(function) = sort.function.as_ref().filter(|function| !function.at.is_empty()) {
        let _ = write!(text, "  ({})", function.at);
    }
    if let Some(site) = &sort.site {
        let file = site.file.rsplit(['/', '\\']).next().unwrap_or_default();
        let _ = write!(text, "  ({file}:{})", site.line);
    }
    text
}
