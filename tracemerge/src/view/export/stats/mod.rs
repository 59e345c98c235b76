//! The statistics of messages: how often each sort occurs, the time to the next message of its thread, and
//! the ranges of its numbers.

mod arguments;

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write;
use std::sync::Arc;

use clap::Args;
use serde::Serialize;
use trace_format::wall::Wall;

use crate::file::record_text::RecordText;
use crate::input::inputs::Origin;
use crate::input::site_catalog::SiteCatalog;
use crate::ui::console::Content;
use crate::ui::messages::{Grouped, count};
use crate::ui::table::Alignment::{Left, Right};
use crate::ui::table::Columns;
use crate::ui::units::duration;
use crate::view::export::Export;
use crate::view::export::stats::arguments::{ArgumentRange, Arguments};
use crate::view::export::time_column::TimeMode;
use crate::view::latency::Latencies;
use crate::view::layout::{Context, Layout, Needs, Subcommand};
use crate::view::sorts::{Sort, SortId, Sorts};

/// The version of the layout of the JSON. It increases if a field changes its meaning or is removed; new
/// fields may be added at any time.
const VERSION: u32 = 1;
/// The maximum number of characters of a message in the table.
const MESSAGE: usize = 60;

/// The layout of `stats`: counts of messages.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct StatsLayout {
    /// Write JSON
    #[arg(long)]
    pub json: bool,
    /// The number of sorts of messages in the table
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub rows: usize,
}

impl Subcommand for StatsLayout {
    const NAME: &'static str = "stats";
    const ABOUT: &'static str = "Count the messages by the places that trace them";
    const FOLLOW: Option<&'static str> = Some("Count the records of running applications until these end");
    const HELP: &'static str = "\
Counts the messages of each call of trace!, if the traces record the call: files of
TRACER_FORMAT=raw do. Other messages are counted by their text without its numbers.
Shows for each sort: the number of messages, in all and in a second; the number of
threads; the time until the next message of the same thread (median, 99th percentile,
to 1 %, and maximum); the range of the arguments that are numbers.
The options select as those of a merge do (tracemerge --help).

-f counts the messages of running applications, and ends with them or by Ctrl-C. On a
terminal the table is drawn again every second; elsewhere, and as JSON, it is written
at the end. Messages are counted by their text, because a followed trace does not
record the calls.

--json writes the same for programs: times in nanoseconds, fields described in
docs/stats-json.md. Fields may be added; none is removed while `version` is the same.

Exit status: that of a merge";
}

impl Layout for StatsLayout {
    fn needs(&self) -> Needs {
        Needs { times: true, sites: true, ..Needs::default() }
    }

    fn format(&self, context: &Context) -> Box<dyn Export> {
        Box::new(StatsFormat::new(self.clone(), context.catalog.clone()))
    }

    fn content(&self, _time: TimeMode, _in_colours: bool) -> Content {
        if self.json { Content::Json } else { Content::Text }
    }

    fn is_summary(&self) -> bool {
        true
    }
}

/// The format that counts messages.
#[derive(Debug)]
pub struct StatsFormat {
    layout: StatsLayout,
    sorts: Sorts,
    /// The counts of each sort.
    counted: Vec<Counted>,
    /// The number of the thread of each origin.
    threads: Vec<usize>,
    /// The numbers of the known threads.
    numbers: HashMap<ThreadId, usize>,
    /// The sort and the time of the last message of each thread.
    last: Vec<Option<(SortId, Wall)>>,
    /// The times of the first and the last message.
    period: Option<(Wall, Wall)>,
    /// A buffer for the text of a message.
    text: String,
}

/// The identity of a thread: its run (boot, pid and id), its id, and for a log, the name of the log.
type ThreadId = (Option<(Vec<u8>, u32, u32)>, u64, Option<Vec<u8>>);

/// The counts of one sort of messages.
#[derive(Debug, Default)]
struct Counted {
    count: u64,
    threads: BTreeSet<usize>,
    to_next: Latencies,
    arguments: Option<Arguments>,
}

/// The statistics, as written by `--json`. The names of the fields are part of the interface. Times are in
/// nanoseconds.
#[derive(Debug, Serialize)]
struct Stats {
    /// The version of this layout.
    version: u32,
    /// The number of messages.
    messages: u64,
    /// The number of threads that have messages.
    threads: u64,
    /// The time from the first message to the last.
    span_ns: u64,
    /// The number of sorts of messages.
    sorts: u64,
    /// The sorts of messages, the most frequent first.
    by_sort: Vec<SortStats>,
}

/// One sort of messages.
#[derive(Debug, Serialize)]
struct SortStats {
    /// The template of the messages; if no site is known, their text with `#` for numbers.
    message: String,
    /// Whether the site of the messages is known.
    has_site: bool,
    /// The source file, the line and the function of the site.
    file: Option<String>,
    line: Option<u32>,
    module: Option<String>,
    function: Option<String>,
    /// The number of messages.
    count: u64,
    /// The number of messages per second, on average over the whole period of the statistics.
    per_second: Option<f64>,
    /// The number of threads that have such messages.
    threads: u64,
    /// The number of messages that are followed by another message of their thread.
    measured: u64,
    /// The time to the following message: the median, with an error of at most 1 %.
    median_ns: Option<u64>,
    /// The 99th percentile of these times, with an error of at most 1 %.
    p99_ns: Option<u64>,
    /// The greatest of these times.
    max_ns: Option<u64>,
    /// The ranges of the arguments that are numbers.
    arguments: Vec<ArgumentRange>,
}

impl StatsFormat {
    /// Makes a format that counts the messages of the sites of `catalog`.
    #[must_use]
    pub fn new(layout: StatsLayout, catalog: Arc<SiteCatalog>) -> StatsFormat {
        StatsFormat {
            layout,
            sorts: Sorts::new(catalog),
            counted: Vec::new(),
            threads: Vec::new(),
            numbers: HashMap::new(),
            last: Vec::new(),
            period: None,
            text: String::new(),
        }
    }

    /// Adds the next origin, whose records may follow.
    fn add_origin(&mut self, origin: &Origin) {
        let run = origin.run.as_ref().map(|run| (run.boot.clone(), run.pid, run.id));
        let log = origin.is_log.then(|| origin.name.clone());
        let next = self.numbers.len();
        let number = *self.numbers.entry((run, origin.tid, log)).or_insert(next);
        self.threads.push(number);
        self.last.resize(self.numbers.len(), None);
    }

    fn stats(&self) -> Stats {
        let span_ns = self.period.map_or(0, |(first, last)| last.0.saturating_sub(first.0));
        let sort = |(id, counted): (u32, &Counted)| self.sort(id, counted, span_ns);
        let mut by_sort: Vec<SortStats> = (0..).zip(&self.counted).map(sort).collect();
        by_sort.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.message.cmp(&b.message)));
        Stats {
            version: VERSION,
            messages: self.counted.iter().map(|counted| counted.count).sum(),
            threads: self.last.iter().flatten().count() as u64,
            span_ns,
            sorts: by_sort.len() as u64,
            by_sort,
        }
    }

    fn sort(&self, id: SortId, counted: &Counted, span_ns: u64) -> SortStats {
        let site = match self.sorts.get(id) {
            Some(Sort::Site(site)) => Some(site),
            _ => None,
        };
        let Counted { count, threads, to_next, arguments } = counted;
        #[expect(clippy::cast_precision_loss, reason = "an average is shown")]
        let per_second = (span_ns > 0).then(|| *count as f64 * 1e9 / span_ns as f64);
        SortStats {
            message: self.sorts.text(id),
            has_site: site.is_some(),
            file: site.map(|site| site.file.clone()),
            line: site.map(|site| site.line),
            module: site.map(|site| site.module.clone()),
            function: site.map(|site| site.function.clone()),
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
    fn begin(&mut self, origins: &[Origin], _out: &mut Vec<u8>) {
        origins.iter().for_each(|origin| self.add_origin(origin));
    }

    fn record(&mut self, origin: &Origin, record: &RecordText<'_>, _out: &mut Vec<u8>) {
        if !record.is_traced() {
            return;
        }
        let (sort, wall) = (self.sorts.of(record), origin.clock.wall(record.ticks));
        let thread = self.threads[record.origin];
        if self.counted.len() <= sort as usize {
            self.counted.resize_with(sort as usize + 1, Counted::default);
        }
        if let Some((before, since)) = self.last[thread].replace((sort, wall)) {
            self.counted[before as usize].to_next.push(wall.0.saturating_sub(since.0));
        }
        let (first, last) = self.period.unwrap_or((wall, wall));
        self.period = Some((Wall(first.0.min(wall.0)), Wall(last.0.max(wall.0))));
        let counted = &mut self.counted[sort as usize];
        counted.count += 1;
        counted.threads.insert(thread);
        let Some(Sort::Site(site)) = self.sorts.get(sort) else { return };
        self.text.clear();
        for (number, line) in record.parsed().enumerate() {
            if number > 0 {
                self.text.push('\n');
            }
            self.text.push_str(&String::from_utf8_lossy(line.payload));
        }
        counted.arguments.get_or_insert_with(|| Arguments::of(site)).take(&self.text);
    }

    fn finish(&mut self, out: &mut Vec<u8>) {
        let stats = self.stats();
        if self.layout.json {
            // Writing to memory does not fail.
            let _ = serde_json::to_writer_pretty(&mut *out, &stats);
            out.push(b'\n');
        } else {
            out.extend_from_slice(table(&stats, self.layout.rows).as_bytes());
        }
    }

    fn learn_thread(&mut self, number: usize, origin: &Origin, _label: String) {
        if number == self.threads.len() {
            self.add_origin(origin);
        }
    }

    /// The table of the current counts; `None` for JSON, which is written only at the end.
    fn current_output(&self) -> Option<String> {
        (!self.layout.json).then(|| table(&self.stats(), self.layout.rows))
    }
}

fn table(stats: &Stats, rows: usize) -> String {
    let mut text = format!(
        "{} of {} in {}, {}\n",
        count(stats.messages, "message"),
        count(stats.threads, "thread"),
        duration(stats.span_ns),
        count(stats.sorts, "sort"),
    );
    if stats.by_sort.is_empty() {
        return text;
    }
    let mut columns = Columns::new(&[
        ("count", Right),
        ("per s", Right),
        ("threads", Right),
        ("to next", Right),
        ("p99", Right),
        ("max", Right),
        ("message", Left),
    ]);
    let time = |ns: Option<u64>| ns.map_or("-".to_owned(), duration);
    for sort in stats.by_sort.iter().take(rows) {
        columns.row([
            Grouped(sort.count).to_string(),
            sort.per_second.map_or("-".to_owned(), rate),
            Grouped(sort.threads).to_string(),
            time(sort.median_ns),
            time(sort.p99_ns),
            time(sort.max_ns),
            message(sort),
        ]);
    }
    text.push_str(&columns.text(""));
    let more = stats.sorts.saturating_sub(rows as u64);
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
fn message(sort: &SortStats) -> String {
    let line: String =
        sort.message.chars().map(|c| if c.is_control() { ' ' } else { c }).take(MESSAGE).collect();
    let mut text = line;
    if sort.message.chars().count() > MESSAGE {
        text.push('\u{2026}');
    }
    for ArgumentRange { name, min, max } in &sort.arguments {
        let _ =
            if min == max { write!(text, "  {name}={min}") } else { write!(text, "  {name}={min}..{max}") };
    }
    if let (Some(file), Some(line)) = (&sort.file, sort.line) {
        let file = file.rsplit(['/', '\\']).next().unwrap_or_default();
        let _ = write!(text, "  ({file}:{line})");
    }
    text
}
