//! One of the two compared traces: its threads, and the messages of each thread.

use std::cell::OnceCell;
use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use trace_format::file::Encoding;
use trace_format::line::{Kind, Line, Ticks};
use trace_format::meta::{Meta, Run};
use trace_format::name::parse_trace_file_suffix;
use trace_format::raw::SiteNumbers;

use crate::command::diff::call_counter;
use crate::file::lines::{Token, first_line, line_at, skip_bad, strip_line_feed};
use crate::file::map::Map;
use crate::file::record_text::RecordText;
use crate::find::app::App;
use crate::find::choose::Choice;
use crate::find::find_traces;
use crate::find::liveness::liveness_check;
use crate::input::slice::as_text;
use crate::input::source::Source;
use crate::symbols::Settings;
use crate::time::anchor::Anchor;
use crate::time::clocks::{Clocks, TickClock};
use crate::ui::error::Error;
use crate::ui::few::FirstItems;
use crate::ui::messages::{Messages, are, count, shown, shown_name};
use crate::view::call_counts::CallCounts;
use crate::view::latency::Latencies;
use crate::view::sorts::{SortId, Sorts};

/// The text between an executable's name and a thread id in the name of a trace file.
const INFIX: &[u8] = b".trace.";
/// The size of the parts, in bytes, into which a text is divided to find the number of a line quickly.
const COUNTED: usize = 1 << 16;

/// The sources of a compared trace before they are read.
pub(super) struct UnreadInput {
    given: PathBuf,
    sources: Vec<OpenSource>,
}

/// A source of the compared trace, with the sites of its messages.
struct OpenSource {
    source: Source,
    /// The offset of each message whose site is known, and the number of the site.
    sites: Vec<(u64, u32)>,
    /// Whether the source records the sites of its messages.
    has_sites: bool,
    /// For each part of `COUNTED` bytes of the text, the number of lines before it; empty until a line number is
    /// requested.
    lines_before: OnceCell<Vec<usize>>,
}

/// A compared trace, after its messages were read.
pub(super) struct Input {
    /// The path of the compared trace, as the user wrote it.
    pub given: PathBuf,
    sources: Vec<OpenSource>,
    /// The threads that have messages, ordered by the ticks of their first messages.
    pub threads: Vec<ThreadMessages>,
    /// The measurements of each sort of messages, indexed by the number of the sort.
    measured: Vec<SortMeasurements>,
    /// The clock of the first run, which converts ticks to times, if its rate is known.
    clock: Option<Arc<TickClock>>,
    /// The clocks of all runs.
    clocks: Clocks,
    /// The ticks of the first message of the trace.
    first: u64,
    /// Whether the trace has records of entering or leaving functions.
    pub has_calls: bool,
    /// The lines of the tables of mapped modules, each with its run.
    modules: Vec<(Option<Run>, Vec<u8>)>,
}

/// The measurements of the messages of one sort.
#[derive(Clone, Debug, Default)]
pub(super) struct SortMeasurements {
    /// The number of messages of this sort.
    pub count: u64,
    /// For each message of this sort, the time since the previous message of the same thread, in ticks.
    pub latencies: Latencies,
}

/// The messages of a thread.
pub(super) struct ThreadMessages {
    /// The operating system's id of the thread.
    pub tid: u64,
    /// The name of the thread; `None` for a process's first thread, whose name is that of the executable.
    pub name: Option<Vec<u8>>,
    /// The sort of each message of the thread, in the order of the messages.
    pub sorts: Vec<SortId>,
    /// The position of each message, at the same index as its sort in `sorts`.
    places: Vec<MessagePlace>,
    /// The ticks of the thread's first message.
    began: u64,
    /// The ticks of the last message that was read.
    last: u64,
}

/// The position of a message: its source, and its offset there.
#[derive(Clone, Copy)]
struct MessagePlace {
    source: u32,
    at: u64,
}

/// A message as the comparison shows it.
pub(super) struct ShownMessage {
    /// The path of the file that contains the message.
    pub path: PathBuf,
    /// The number of the message's first line in that file, from 1.
    pub line: usize,
    /// The time since the first message of the trace, in nanoseconds, if it is known.
    pub since: Option<u64>,
    /// The first line of the message, still escaped.
    pub text: Vec<u8>,
}

impl UnreadInput {
    /// Opens the traces that `given` names. `numbers` assigns a number to each site of a message, if the traces record
    /// sites.
    ///
    /// # Errors
    /// If there are no traces, or if they cannot be read.
    pub(super) fn open(
        given: PathBuf,
        numbers: &SiteNumbers,
        messages: &mut Messages,
    ) -> Result<UnreadInput, Error> {
        let open = |source: Source| {
            let (has_sites, mut sites) = (source.has_sites(), Vec::new());
            let source = as_text(source, numbers, &mut |at, site| sites.push((at, site)))?;
            Ok(OpenSource { source, sites, has_sites, lines_before: OnceCell::new() })
        };
        let sources = sources(&given, messages)?.into_iter().map(open).collect::<Result<_, Error>>()?;
        Ok(UnreadInput { given, sources })
    }

    /// Returns the number of sources that record the sites of their messages, and the number of all sources.
    pub(super) fn count_with_sites(&self) -> (usize, usize) {
        (self.sources.iter().filter(|source| source.has_sites).count(), self.sources.len())
    }
}

impl Input {
    /// Reads all messages. If `by_site`, messages of the same site have the same sort; otherwise messages of the same
    /// shape (their text without numbers) have the same sort.
    ///
    /// # Errors
    /// If there are neither messages nor calls of functions.
    pub(super) fn read(
        opened: UnreadInput,
        by_site: bool,
        sorts: &mut Sorts,
        messages: &mut Messages,
    ) -> Result<Input, Error> {
        let UnreadInput { given, sources } = opened;
        let mut reader = InputReader {
            sorts,
            by_site,
            threads: Vec::new(),
            measured: Vec::new(),
            open: HashMap::new(),
            runs: Vec::new(),
            damaged: FirstItems::default(),
            unread_runs: Vec::new(),
            has_calls: false,
            modules: BTreeSet::new(),
        };
        for (number, source) in sources.iter().enumerate() {
            reader.read(u32::try_from(number).unwrap_or(u32::MAX), source);
        }
        for ((file, offset, bytes), more) in reader.damaged.each() {
            let (file, bytes, are) = (shown_name(file), count(*bytes, "byte"), are(*bytes));
            messages.warn(format_args!(
                "'{file}': {bytes} at offset {offset} {are} not a trace line, and not compared{more}"
            ));
        }
        for source in reader.unread_runs.iter().filter_map(|number| sources.get(*number as usize)) {
            messages.warn(format_args!(
                "{}: a '# run' line is damaged; the run of the lines after it is unknown",
                shown(&source.source.path)
            ));
        }
        let InputReader { mut threads, measured, runs, has_calls, modules, .. } = reader;
        threads.retain(|thread| !thread.sorts.is_empty());
        if threads.is_empty() && !has_calls {
            let given = shown(&given);
            return Err(Error::plain(format!("{given} has neither messages nor calls of functions")));
        }
        threads.sort_by_key(|thread| (thread.began, thread.tid));
        let clocks = Clocks::through(runs.iter().map(|(run, anchors)| (run, anchors.iter().copied())));
        let clock = runs.first().and_then(|(run, _)| clocks.of(run)).filter(|clock| clock.rate_is_known());
        let clock = clock.cloned();
        let first = threads.iter().map(|thread| thread.began).min().unwrap_or(0);
        let run = |of: Option<usize>| of.map(|of| runs[of].0.clone());
        let modules = modules.into_iter().map(|(of, payload)| (run(of), payload)).collect();
        Ok(Input { given, sources, threads, measured, clock, clocks, first, has_calls, modules })
    }

    /// Reads the trace again to count the calls of functions. Returns the counts, and messages about files that are
    /// missing and would be needed for the names of functions. These messages are no warnings, because the counts are
    /// complete without names.
    pub(super) fn call_counts(&self, symbols: &Settings) -> (CallCounts, Vec<String>) {
        let sources = self.sources.iter().map(|source| &source.source);
        call_counter::count(sources, &self.clocks, &self.modules, symbols)
    }

    /// Returns whether the rates of all clocks are known, so that times can be compared.
    pub(super) fn has_times(&self) -> bool {
        self.clock.is_some() && self.clocks.each().all(|(_, clock)| clock.rate_is_known())
    }

    /// Returns the measurements of the messages of a sort; `None` if the trace has no message of this sort.
    pub(super) fn measured(&self, sort: SortId) -> Option<&SortMeasurements> {
        self.measured.get(sort as usize).filter(|measured| measured.count > 0)
    }

    fn line(&self, place: MessagePlace) -> Option<Line<'_>> {
        let source = self.sources.get(place.source as usize)?;
        let bytes = source.source.bytes();
        let at = usize::try_from(place.at).ok()?;
        match line_at(bytes, at) {
            Token::Line(line) => Line::parse(strip_line_feed(&bytes[at..line.end])).ok(),
            Token::Bad | Token::End => None,
        }
    }

    /// Returns the message with the index `number` among the messages of a thread.
    pub(super) fn message(&self, thread: &ThreadMessages, number: usize) -> Option<ShownMessage> {
        let place = *thread.places.get(number)?;
        let (line, source) = (self.line(place)?, self.sources.get(place.source as usize)?);
        let number = source.lines_before(usize::try_from(place.at).ok()?) + 1;
        let since = self.ns(line.key.ticks.0.saturating_sub(self.first));
        Some(ShownMessage {
            path: source.source.path.clone(),
            line: number,
            since,
            text: line.payload.to_vec(),
        })
    }

    /// Returns the number of nanoseconds that `ticks` ticks take; `None` if the rate of the clock is unknown.
    pub(super) fn ns(&self, ticks: u64) -> Option<u64> {
        let clock = self.clock.as_ref()?;
        let time = |ticks| clock.steady(Ticks(ticks));
        Some(time(self.first.saturating_add(ticks)).saturating_sub(time(self.first)))
    }
}

impl OpenSource {
    /// Returns the number of lines that end before the offset `at`.
    fn lines_before(&self, at: usize) -> usize {
        let bytes = self.source.bytes();
        let feeds = |part: &[u8]| memchr::memchr_iter(b'\n', part).count();
        let parts = self.lines_before.get_or_init(|| {
            let mut lines = 0;
            let count = |part: &[u8]| {
                let before = lines;
                lines += feeds(part);
                before
            };
            bytes.chunks(COUNTED).map(count).collect()
        });
        let part = at / COUNTED;
        parts.get(part).map_or(0, |before| before + feeds(&bytes[part * COUNTED..at.min(bytes.len())]))
    }
}

/// Opens the traces that `given` names: the traces in a directory, a data set, a single file that is a trace, or the
/// newest traces of an application.
fn sources(given: &Path, messages: &mut Messages) -> Result<Vec<Source>, Error> {
    let metadata = fs::metadata(given);
    let app = App::or_directory(given.to_owned())?;
    if app.is_directory() && !app.is_data_set() {
        let entries = fs::read_dir(given).map_err(|error| Error::io("look for traces in", given, error))?;
        let mut paths: Vec<PathBuf> =
            entries.flatten().map(|entry| entry.path()).filter(|path| is_trace(path)).collect();
        paths.sort();
        if paths.is_empty() {
            return Err(Error::plain(format!(
                "{} has no files called <APP>.trace.<thread id>",
                shown(given)
            )));
        }
        let open = |path| open(path).map_err(|error| messages.warn(error)).ok();
        return Ok(paths.into_iter().filter_map(open).collect());
    }
    let is_trace = |map: &Map| first_line(map).is_some() || Encoding::of(map) == Encoding::Raw;
    if metadata.as_ref().is_ok_and(fs::Metadata::is_file) && is_trace(&Map::open(given)?) {
        return Ok(vec![open(given.to_owned())?]);
    }
    let found = find_traces(&app, Choice::Newest, messages)?;
    let mut is_alive = liveness_check();
    let mut sources = Vec::new();
    for trace in found.chosen.boots.iter().flatten() {
        match Source::open(trace, is_alive(trace)) {
            Ok(parts) => sources.extend(parts),
            Err(error) => messages.warn(error),
        }
    }
    Ok(sources)
}

fn open(path: PathBuf) -> Result<Source, Error> {
    Source::of_trace_file(path)
}

fn is_trace(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.as_encoded_bytes()).unwrap_or_default();
    let at = memchr::memmem::rfind(name, INFIX);
    at.is_some_and(|at| parse_trace_file_suffix(&name[at..]).is_some())
}

struct InputReader<'a> {
    sorts: &'a mut Sorts,
    /// Whether messages of the same site have the same sort, instead of messages of the same shape.
    by_site: bool,
    threads: Vec<ThreadMessages>,
    /// The measurements of each sort.
    measured: Vec<SortMeasurements>,
    /// For each thread id, the index in `threads` of the latest thread that had the id, and the index in `runs` of that
    /// thread's run.
    open: HashMap<u64, (usize, Option<usize>)>,
    /// The runs, with all their clock readings.
    runs: Vec<(Run, Vec<Anchor>)>,
    /// The ranges of bytes that are not valid lines, each with its file, its offset and its length.
    damaged: FirstItems<(Vec<u8>, u64, u64)>,
    /// The indices of the sources with a `# run` line that cannot be parsed or has a wrong checksum.
    unread_runs: Vec<u32>,
    has_calls: bool,
    /// The lines of the tables of mapped modules, each with the index of its run. A set, because the file of each
    /// thread may repeat them.
    modules: BTreeSet<(Option<usize>, Vec<u8>)>,
}

/// A message of which further lines may follow.
struct PendingMessage<'a> {
    thread: usize,
    place: MessagePlace,
    ticks: u64,
    /// The lines of the message that were read so far.
    lines: &'a [u8],
    /// The number of the message's site; 0 if it is unknown.
    site: u32,
}

impl InputReader<'_> {
    fn read(&mut self, number: u32, source: &OpenSource) {
        let bytes = source.source.bytes();
        let (mut at, mut begun): (usize, Option<PendingMessage<'_>>) = (0, None);
        let mut sites = source.sites.iter().peekable();
        loop {
            let line = match line_at(bytes, at) {
                Token::End => break,
                Token::Bad => {
                    let end = skip_bad(bytes, at);
                    let file = source.source.path.as_os_str().as_encoded_bytes().to_vec();
                    self.damaged.push((file, at as u64, (end - at) as u64));
                    at = end;
                    continue;
                }
                Token::Line(line) => line,
            };
            let start = std::mem::replace(&mut at, line.end);
            let Ok(line) = Line::parse(strip_line_feed(&bytes[start..line.end])) else { continue };
            match line.kind {
                Kind::Continuation => {
                    if let Some(PendingMessage { place, lines, .. }) = &mut begun {
                        *lines = &bytes[usize::try_from(place.at).unwrap_or(start)..at];
                    }
                }
                Kind::Message | Kind::Lock => {
                    self.end(begun.take());
                    let thread = self.thread(&line);
                    let place = MessagePlace { source: number, at: start as u64 };
                    let (ticks, lines) = (line.key.ticks.0, &bytes[start..at]);
                    let site = sites.next_if(|(at, _)| *at == place.at).map_or(0, |(_, site)| *site);
                    begun = Some(PendingMessage { thread, place, ticks, lines, site });
                }
                Kind::Meta => {
                    self.end(begun.take());
                    self.meta(number, &line);
                }
                Kind::Enter | Kind::Leave => {
                    self.has_calls = true;
                    self.end(begun.take());
                }
                _ => self.end(begun.take()),
            }
        }
        self.end(begun);
    }

    fn end(&mut self, begun: Option<PendingMessage<'_>>) {
        let Some(PendingMessage { thread, place, ticks, lines, site }) = begun else { return };
        let site = if self.by_site { site } else { 0 };
        let record = RecordText { site, ..RecordText::new(0, lines) };
        let sort = self.sorts.of(&record);
        if self.measured.len() <= sort as usize {
            self.measured.resize_with(sort as usize + 1, SortMeasurements::default);
        }
        let (measured, thread) = (&mut self.measured[sort as usize], &mut self.threads[thread]);
        measured.count += 1;
        if thread.sorts.is_empty() {
            thread.began = ticks;
        } else {
            measured.latencies.push(ticks.saturating_sub(thread.last));
        }
        thread.last = ticks;
        thread.sorts.push(sort);
        thread.places.push(place);
    }

    fn thread(&mut self, line: &Line<'_>) -> usize {
        let (thread, _) = *self.open.entry(line.key.tid).or_insert_with(|| {
            self.threads.push(ThreadMessages::new(line.key.tid));
            (self.threads.len() - 1, None)
        });
        thread
    }

    fn meta(&mut self, number: u32, line: &Line<'_>) {
        let tid = line.key.tid;
        match Meta::parse(line.payload) {
            Some(Meta::Run(run)) => {
                let anchor = Anchor::of_run(&run);
                let known = self.runs.iter().position(|(known, _)| *known == run);
                let of = known.unwrap_or_else(|| {
                    self.runs.push((run, Vec::new()));
                    self.runs.len() - 1
                });
                self.runs[of].1.push(anchor);
                // This is another thread with that id, unless this is a further file of the same thread.
                if self.open.get(&tid).is_none_or(|(_, before)| *before != Some(of)) {
                    self.threads.push(ThreadMessages::new(tid));
                    self.open.insert(tid, (self.threads.len() - 1, Some(of)));
                }
            }
            Some(Meta::Thread(thread)) => {
                let Some((number, of)) = self.open.get(&tid) else { return };
                let is_first = of.is_some_and(|of| u64::from(self.runs[of].0.pid) == tid);
                self.threads[*number].name = Some(thread.name).filter(|_| !is_first);
            }
            Some(clocks @ Meta::Clock { .. }) => {
                if let Some((_, Some(of))) = self.open.get(&tid) {
                    self.runs[*of].1.extend(Anchor::of_meta(&clocks));
                }
            }
            Some(Meta::Module(_) | Meta::Unloaded { .. } | Meta::Missed { .. }) => {
                let run = self.open.get(&tid).and_then(|(_, run)| *run);
                self.modules.insert((run, line.payload.to_vec()));
            }
            // A damaged `# run` line affects only the clock here.
            None if line.payload.starts_with(b"run ") => self.unread_runs.push(number),
            // A merge has replaced damaged bytes by this line.
            Some(Meta::Damaged { file, offset, bytes, .. }) => self.damaged.push((file, offset, bytes)),
            _ => {}
        }
    }
}

impl ThreadMessages {
    /// Returns a thread without messages.
    pub(super) fn new(tid: u64) -> ThreadMessages {
        // Lines of other logs that were merged with the traces belong to no thread.
        let name = (tid == 0).then(|| b"other logs".to_vec());
        ThreadMessages { tid, name, sorts: Vec::new(), places: Vec::new(), began: 0, last: 0 }
    }
}
