//! The view `show`, for people: the time, the name of the thread and the message in columns. It omits `#` lines, except
//! those that warn.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;

use anstyle::Style;
use clap::{Args, ValueEnum};
use regex::bytes::Regex;
use trace_format::line::{Kind, Ticks};
use trace_format::meta::Meta;
use trace_format::sites::Site;

use crate::file::record_text::{RecordText, is_warning};
use crate::input::inputs::Origin;
use crate::input::site_catalog::{PerSite, SiteCatalog};
use crate::ui::colour::Palette;
use crate::ui::shorten::keep_end;
use crate::ui::units::duration;
use crate::view::calls::Depth;
use crate::view::export::Export;
use crate::view::export::call_lines::{CallLines, StackLines, indentation};
use crate::view::export::fields::level;
use crate::view::export::in_words::in_words;
use crate::view::export::paint::{paint, write_found};
use crate::view::export::time_column::{TimeColumn, TimeMode};
use crate::view::layout::{Context, Layout, Needs, Subcommand};
use crate::view::neighbours::Neighbours;
use crate::view::threads::Threads;

/// A column before the message. The comments of the variants are the help.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Column {
    /// The time, in the terms of --time
    Time,
    /// Seconds since the record shown before
    Delta,
    /// The thread: its name, and its id if names are not unique
    Thread,
    /// The process id
    Process,
    /// The level of the message (recorded in raw files only)
    Level,
    /// The target of the message, or its module (recorded in raw files only)
    Target,
    /// The module that traced the message (recorded in raw files only)
    Module,
    /// The source file and line that traced the message (recorded in raw files only)
    Site,
    /// The function that traced the message (recorded in raw files only)
    Function,
}

impl Column {
    /// The columns that are shown by default.
    pub(crate) const USUAL: [Column; 2] = [Column::Time, Column::Thread];

    /// Returns whether the column tells from where in the program a message comes, which only raw files record.
    #[must_use]
    pub(crate) fn is_of_site(self) -> bool {
        matches!(self, Column::Level | Column::Target | Column::Module | Column::Site | Column::Function)
    }

    /// Returns the width, in characters, of a column whose texts vary in length.
    fn width(self) -> usize {
        match self {
            Column::Level => 5,
            Column::Site => 24,
            _ => 28,
        }
    }
}

/// The layout of `show`: records for people, in columns.
#[derive(Args, Clone, Debug)]
pub(crate) struct ShowLayout {
    /// The columns before the message, from the left
    #[arg(long, value_name = "COLUMNS", value_enum, value_delimiter = ',', default_values_t = Column::USUAL)]
    pub columns: Vec<Column>,
    /// All functions of call stacks, also those of panics, of the runtime and of the tracer
    #[arg(long)]
    pub full: bool,
    /// Mark records with ~ if the record before is of another machine and may have been made later
    #[arg(long)]
    pub order: bool,
}

impl Default for ShowLayout {
    fn default() -> ShowLayout {
        ShowLayout { columns: Column::USUAL.to_vec(), full: false, order: false }
    }
}

impl Subcommand for ShowLayout {
    const NAME: &'static str = "show";
    const ABOUT: &'static str = "Show the traces to people, with times and names of threads";
    const FOLLOW: Option<&'static str> = Some("Show records of running applications as they arrive");
    const HELP: &'static str = "\
Shows the records in columns: the time, the thread, the message. Threads have their
names; the first one of a process is 'main', those without a name are numbered. Of the
'#' lines only warnings are shown. '-> f' is a thread that enters the function f, and '<- f'
one that leaves it; the lines between are indented by the number of the thread's open calls
(a depth beyond 40 is a number: '[41] -> f'). Calls that began before the first shown record
do not count. After lost records, lines may be too deep until a call around them is left.
Call stacks begin at the user's functions and end at main or at the function of the thread;
--full also shows those of panics, of the runtime and of the tracer.
Records of locks and calls are in words; --grep searches them as they are in the trace.
The options select as those of a merge do (tracemerge --help). --time sets the terms of
times; the default is seconds since the first line.
The columns 'level', 'target', 'module', 'site' and 'function' are empty for files of
TRACER_FORMAT=text, which do not record them.
In traces of several machines, a time of another machine than the first has its greatest
error beside it ('±12 us'; '±?' if nothing limits it). --order marks a record with '~' if the
record before is of another machine and the intervals of the two times do not decide which
was made first, and counts such records at the end.

Examples:
  tracemerge show ./app
  tracemerge show --columns time,delta,thread,site --last 100 ./app
  tracemerge show --site worker.rs --time wall ./app

Exit status: that of a merge";
}

impl Layout for ShowLayout {
    fn needs(&self) -> Needs {
        Needs {
            sites: self.columns.iter().any(|column| column.is_of_site()),
            labels: true,
            labels_in_time: true,
            calls: true,
            ..Needs::default()
        }
    }

    fn default_time(&self) -> TimeMode {
        TimeMode::Offset
    }

    fn format(&self, context: &Context) -> Box<dyn Export> {
        let Context { time, catalog, palette, found, .. } = context.clone();
        let columns = self.columns.clone();
        let style = ShowStyle { columns, full: self.full, order: self.order, time, catalog, palette, found };
        Box::new(ShowFormat::new(style, context.threads()))
    }
}

/// The options for the lines of the view `show`.
#[derive(Clone, Debug)]
pub(crate) struct ShowStyle {
    /// The columns before the message, from the left.
    pub columns: Vec<Column>,
    /// Whether call stacks are shown with all functions, including those of panics, of the runtime and of the tracer.
    pub full: bool,
    /// Whether a record is marked if it may have been made before the record that is shown before it.
    pub order: bool,
    /// The form of the times at the beginning of lines.
    pub time: TimeColumn,
    /// The sites to which the records refer.
    pub catalog: Arc<SiteCatalog>,
    /// The colours of the output; `None` if it has no colours.
    pub palette: Option<Palette>,
    /// A pattern whose matches in messages are highlighted.
    pub found: Option<Regex>,
}

/// The writer of the view `show`.
#[derive(Debug)]
pub(crate) struct ShowFormat {
    style: ShowStyle,
    calls: CallLines,
    palette: Palette,
    /// The column that shows the seconds since the previous record.
    delta: TimeColumn,
    /// The width of the column of threads, in characters.
    thread_width: usize,
    /// Whether the process id is shown before the label of each thread.
    names_processes: bool,
    /// Whether the output has records of other machines than the first one, whose times have errors.
    has_foreign: bool,
    /// The comparison of each record with the one before it, for records of different machines.
    neighbours: Neighbours,
    sites: PerSite<SiteColumns>,
    /// The lines about switching tracing off or on that are held back until the time of the switch. The key is the
    /// ticks of the switch, and a number that distinguishes lines with the same ticks.
    held: BTreeMap<(Ticks, usize), HeldSwitch>,
    /// The number of lines that were held back so far.
    switches: usize,
    /// A buffer for the text of one column.
    cell: Vec<u8>,
}

/// A line that says that tracing was switched off or on. It is held back and shown at the time of the switch, because
/// its own ticks may be much earlier.
#[derive(Debug)]
struct HeldSwitch {
    origin: Origin,
    number: usize,
    lines: Vec<u8>,
}

/// The number of held-back lines above which all of them are written, to limit memory. There is one such line for each
/// thread and switch.
const MAX_HELD: usize = 1 << 16;

/// Returns the ticks at which tracing was switched off or on, if the record reports this and comes from the first
/// machine, whose ticks need no conversion.
fn switched_at(origin: &Origin, record: &RecordText<'_>) -> Option<Ticks> {
    let is_meta = record.kind == Kind::Meta && origin.foreign.is_none();
    match Meta::parse(record.parsed().next().filter(|_| is_meta)?.payload)? {
        Meta::Switched { ticks, .. } => Some(ticks),
        _ => None,
    }
}

/// The width, in characters, of the error that is shown after a time.
const ERROR_WIDTH: usize = 8;

/// The texts that the columns show for the messages of a site.
#[derive(Clone, Debug)]
struct SiteColumns {
    level: String,
    target: String,
    module: String,
    site: String,
    function: String,
}

impl SiteColumns {
    fn of(site: &Site) -> SiteColumns {
        // Most files have the same directories, so only the file's name is shown.
        let file = site.file.rsplit(['/', '\\']).next().unwrap_or_default();
        let target = if site.target.is_empty() { &site.module } else { &site.target };
        SiteColumns {
            level: fitted(level(site.level).unwrap_or_default(), Column::Level.width()),
            target: fitted(target, Column::Target.width()),
            module: fitted(&site.module, Column::Module.width()),
            site: fitted(&format!("{file}:{}", site.line), Column::Site.width()),
            function: fitted(&site.function, Column::Function.width()),
        }
    }
}

/// Returns a text of exactly `width` characters: pads a shorter text with blanks, and cuts off the beginning of a
/// longer one.
fn fitted(text: &str, width: usize) -> String {
    let text: String = text.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
    format!("{:<width$}", keep_end(&text, width))
}

/// Appends the maximum error of a record's time if the record comes from another machine than the first one, otherwise
/// blanks.
fn write_error(origin: &Origin, ticks: Ticks, cell: &mut Vec<u8>) {
    let text = origin.foreign.as_ref().map_or_else(String::new, |foreign| {
        foreign.error_ns(ticks).map_or_else(|| "±?".to_owned(), |ns| format!("±{}", duration(ns)))
    });
    // Writing to memory does not fail.
    let _ = write!(cell, " {text:<ERROR_WIDTH$}");
}

impl ShowFormat {
    /// Creates the writer in this `style`, for records of `threads`.
    #[must_use]
    pub(crate) fn new(style: ShowStyle, threads: Threads) -> ShowFormat {
        let mut delta = style.time.clone();
        delta.mode = TimeMode::Delta;
        ShowFormat {
            palette: style.palette.unwrap_or_default(),
            delta,
            calls: CallLines::new(threads, StackLines::new(style.full, Depth::Usual)),
            thread_width: 0,
            names_processes: false,
            has_foreign: false,
            neighbours: Neighbours::default(),
            sites: PerSite::new(style.catalog.clone()),
            held: BTreeMap::new(),
            switches: 0,
            cell: Vec::new(),
            style,
        }
    }

    /// Writes the held-back lines whose time has come: those before the `next` record, which has this origin and these
    /// ticks. If there is no next record, or if it is of another boot, writes all held-back lines.
    fn release(&mut self, next: Option<(&Origin, Ticks)>, out: &mut Vec<u8>) {
        let boot = |origin: &Origin| origin.run.as_ref().map(|run| run.boot.clone());
        while let Some(first) = self.held.first_entry() {
            let at = first.key().0;
            if next.is_some_and(|(origin, ticks)| ticks < at && boot(origin) == boot(&first.get().origin)) {
                return;
            }
            let HeldSwitch { origin, number, lines } = first.remove();
            self.write(&origin, &RecordText { ticks: at, ..RecordText::new(number, &lines) }, out);
        }
    }

    /// Writes the columns before the message, and returns their width in characters.
    fn write_columns(&mut self, origin: &Origin, record: &RecordText<'_>, out: &mut Vec<u8>) -> usize {
        let mut width = 0;
        if self.style.order {
            let mark = if self.neighbours.take(origin, record.ticks) { b"~ " } else { b"  " };
            out.extend_from_slice(mark);
            width += mark.len();
        }
        let columns = std::mem::take(&mut self.style.columns);
        for column in &columns {
            self.cell.clear();
            let style = self.write_cell(*column, origin, record);
            let text = String::from_utf8_lossy(&self.cell);
            width += text.chars().count() + 2;
            let end = text.trim_end().len();
            paint(out, style, |out| out.extend_from_slice(&self.cell[..end]));
            out.extend_from_slice(&self.cell[end..]);
            out.extend_from_slice(b"  ");
        }
        self.style.columns = columns;
        width
    }

    /// Writes one column of a record into the buffer `cell`, and returns the style of the column.
    fn write_cell(&mut self, column: Column, origin: &Origin, record: &RecordText<'_>) -> Style {
        let cell = &mut self.cell;
        match column {
            Column::Time => {
                self.style.time.write_of(origin, record.ticks, cell);
                if self.has_foreign {
                    write_error(origin, record.ticks, cell);
                }
                return self.palette.time;
            }
            Column::Delta => {
                self.delta.write(&origin.clock, record.ticks, cell);
                return self.palette.time;
            }
            Column::Thread => {
                let name = self.calls.label(record.origin, origin);
                let width = self.thread_width;
                // Writing to memory does not fail.
                let _ = match origin.run.as_ref().filter(|_| self.names_processes) {
                    Some(run) => write!(cell, "{}/{name:<width$}", run.pid),
                    None => write!(cell, "{name:<width$}"),
                };
                return self.palette.thread(origin.tid);
            }
            Column::Process => {
                let _ = match &origin.run {
                    Some(run) => write!(cell, "{:>7}", run.pid),
                    None => write!(cell, "{:>7}", "-"),
                };
            }
            Column::Level | Column::Target | Column::Module | Column::Site | Column::Function => {
                let site = self.sites.get(record.site, SiteColumns::of).map(|site| &*site);
                let text = site.map_or("", |site| match column {
                    Column::Level => &site.level,
                    Column::Target => &site.target,
                    Column::Module => &site.module,
                    Column::Site => &site.site,
                    _ => &site.function,
                });
                let width = column.width();
                let _ = write!(cell, "{text:<width$}");
            }
        }
        self.palette.meta
    }

    /// Writes a record.
    fn write(&mut self, origin: &Origin, record: &RecordText<'_>, out: &mut Vec<u8>) {
        let of_calls = self.calls.take(origin, record);
        if !record.is_traced() && !record.is_warning() {
            return;
        }
        let columns = self.write_columns(origin, record, out);
        let indentation = indentation(of_calls.depth);
        let begin = |out: &mut Vec<u8>, number: usize| {
            if number > 0 {
                out.resize(out.len() + columns + indentation.len(), b' ');
            } else {
                out.extend_from_slice(indentation.as_bytes());
            }
        };
        let (found, style) = (self.style.found.as_ref(), self.palette.found);
        if let Some(lines) = &of_calls.lines {
            for (number, line) in lines.iter().enumerate() {
                begin(out, number);
                write_found(out, found, style, line.as_bytes());
                out.push(b'\n');
            }
            return;
        }
        for (number, line) in record.parsed().enumerate() {
            begin(out, number);
            match line.kind {
                Kind::Meta if is_warning(line.payload) => paint(out, self.palette.warning, |out| {
                    out.extend_from_slice(b"# ");
                    out.extend_from_slice(&in_words(&line));
                }),
                _ => write_found(out, found, style, &in_words(&line)),
            }
            out.push(b'\n');
        }
    }
}

impl Export for ShowFormat {
    fn begin(&mut self, origins: &[Origin], _out: &mut Vec<u8>) {
        self.has_foreign = origins.iter().any(|origin| origin.is_shown && origin.foreign.is_some());
        let shown = origins.iter().enumerate().filter(|(_, origin)| origin.is_shown);
        let widths = shown.map(|(number, origin)| self.calls.label(number, origin).chars().count());
        self.thread_width = widths.max().unwrap_or(0);
    }

    fn record(&mut self, origin: &Origin, record: &RecordText<'_>, out: &mut Vec<u8>) {
        if !self.held.is_empty() {
            self.release(Some((origin, record.ticks)), out);
        }
        if let Some(ticks) = switched_at(origin, record).filter(|ticks| *ticks > record.ticks) {
            let held =
                HeldSwitch { origin: origin.clone(), number: record.origin, lines: record.lines.to_vec() };
            self.held.insert((ticks, self.switches), held);
            self.switches += 1;
            if self.held.len() > MAX_HELD {
                self.release(None, out);
            }
            return;
        }
        self.write(origin, record, out);
    }

    fn finish(&mut self, out: &mut Vec<u8>) {
        self.release(None, out);
    }

    fn end_round(&mut self, out: &mut Vec<u8>) {
        self.release(None, out);
    }

    fn omissions(&self) -> Vec<String> {
        let of_order = self.neighbours.in_words();
        self.calls.stacks().omission().into_iter().chain(of_order).collect()
    }

    fn begin_at(&mut self, first: u64) {
        self.style.time.first = first;
    }

    fn show_processes(&mut self) {
        self.names_processes = true;
    }

    fn learn_thread(&mut self, number: usize, origin: &Origin, label: String) {
        self.thread_width = self.thread_width.max(label.chars().count());
        self.calls.learn_thread(number, origin, label);
    }

    fn takes_calls(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use jiff::tz::TimeZone;
    use trace_format::meta::ClockKind;

    use super::*;
    use crate::view::thread_labels::Label;
    use trace_format::wall::Wall;

    use crate::symbols::Settings;
    use crate::time::anchor::Anchor;
    use crate::time::clocks::TickClock;
    use crate::ui::escaping::escaped;
    use crate::view::function_names::FunctionNames;

    fn origin(tid: u64) -> Origin {
        let anchor = Anchor::new(Ticks(0), Wall(0));
        Origin {
            run: None,
            tid,
            name: Vec::new(),
            clock: Arc::new(TickClock::of(ClockKind::System, [anchor])),
            is_shown: true,
            is_log: false,
            has_sites: true,
            waited: None,
            foreign: None,
        }
    }

    fn style(columns: &[Column]) -> ShowStyle {
        ShowStyle {
            columns: columns.to_vec(),
            full: false,
            order: false,
            time: TimeColumn::new(TimeMode::Offset, 0, TimeZone::UTC),
            catalog: Arc::default(),
            palette: None,
            found: None,
        }
    }

    fn shown(style: ShowStyle, records: &[(usize, &str, u32)]) -> String {
        let origins = [origin(7), origin(8)];
        let names = FunctionNames::new(Settings::default());
        let labels = ["main", "worker 17"].map(|label| Label::from(label.to_owned()));
        let threads = Threads::new(Arc::new(Mutex::new(names)), labels.to_vec());
        let (mut show, mut out) = (ShowFormat::new(style, threads), Vec::new());
        show.begin(&origins, &mut out);
        for (at, lines, site) in records {
            let record = RecordText { site: *site, ..RecordText::new(*at, lines.as_bytes()) };
            show.record(&origins[*at], &record, &mut out);
        }
        show.finish(&mut out);
        String::from_utf8(escaped(&out)).unwrap()
    }

    const FIRST: &str = "0000000000000001-00000007 : one\n0000000000000001-00000007 | two\n";
    const SECOND: &str = "000000003b9aca02-00000008 : three\n";

    #[test]
    fn columns_and_the_lines_of_a_message_are_aligned() {
        let run = "0000000000000000-00000007 # thread name=\"x\"\n";
        let lost = "0000000000000003-00000008 # lost records=2 reason=full\n";
        let text = shown(style(&Column::USUAL), &[(0, run, 0), (0, FIRST, 0), (1, lost, 0), (1, SECOND, 0)]);
        assert_eq!(
            text,
            "     0.000000001  main       one\n                             two\n     0.000000003  worker 17  # \
             lost records=2 reason=full\n     1.000000002  worker 17  three\n"
        );
    }

    #[test]
    fn a_line_about_a_switch_is_at_the_time_of_the_switch() {
        let switch = |word: &str, ticks: u64| format!("0000000000000001-00000007 # {word} ticks={ticks}\n");
        let (off, on) = (switch("off", 900_000_000), switch("on", 2_000_000_000));
        let text = shown(style(&Column::USUAL), &[(0, FIRST, 0), (0, &off, 0), (0, &on, 0), (1, SECOND, 0)]);
        let lines: Vec<Vec<&str>> =
            text.lines().map(|line| line.split_whitespace().filter(|word| *word != "17").collect()).collect();
        let times: Vec<&str> = lines.iter().map(|words| words[0]).collect();
        assert_eq!(times, ["0.000000001", "two", "0.900000000", "1.000000002", "2.000000000"], "{text}");
        assert!(lines[2].ends_with(&["switched", "off"]) && lines[4].ends_with(&["on", "again"]), "{text}");
    }

    #[test]
    fn a_message_shows_its_call_site_and_function() {
        let style = style(&[Column::Delta, Column::Site, Column::Function]);
        let function = "app::inner::Worker<alloc::vec::Vec<u8>>::run".to_owned();
        let site = Site { file: "src/a.rs".to_owned(), line: 12, function, ..Site::default() };
        let mark = style.catalog.number(&site);
        let text = shown(style, &[(0, FIRST, mark), (1, SECOND, 0)]);
        assert_eq!(
            text,
            "     0.000000000  a.rs:12                   \u{2026}r<alloc::vec::Vec<u8>>::run  one\n{:74}two\n     \
             1.000000001  {:24}  {:28}  three\n"
                .replace("{:74}", &" ".repeat(74))
                .replace("{:24}", &" ".repeat(24))
                .replace("{:28}", &" ".repeat(28))
        );
    }

    #[test]
    fn colours_paint_texts_and_not_the_space_between_columns() {
        let style = ShowStyle { palette: Some(Palette::colours()), ..style(&Column::USUAL) };
        let text = shown(style, &[(0, FIRST, 0)]);
        assert!(text.contains("main\x1b[0m       one\n"), "{text:?}");
    }
}
