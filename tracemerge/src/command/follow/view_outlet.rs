//! The outlet that shows a view of the followed records: a part of them, or another layout. Its stages receive the
//! lines round by round.
//!
//! The outlet itself selects threads, processes and times, because the traces are not complete when following begins.
//! The selected lines then pass the stages *records*, *select*, *late* and *export*. A record never continues in the
//! next round, so at the end of each round all records are passed on.

use std::collections::{HashMap, HashSet};
use std::io::{self, Write};
use std::sync::Arc;
use std::time::SystemTime;

use jiff::tz::TimeZone;
use trace_format::line::{Line, parse_ticks};
use trace_format::meta::{ClockKind, Meta, Run};
use trace_format::wall::Wall;

use crate::command::follow::late_record_marker::LateRecordMarker;
use crate::command::follow::outlet::{Beginning, Outlet};
use crate::command::follow::stream::ThreadKey;
use crate::command::follow::times::{FollowEnd, Times, wall_as_ticks};
use crate::file::lines::{lines_of, metas_in, strip_line_feed};
use crate::file::record_text::RecordText;
use crate::find::header::{names_in, thread_name};
use crate::input::inputs::Origin;
use crate::output::redrawn::Redrawn;
use crate::output::sink::Sink;
use crate::time::anchor::anchors_in;
use crate::time::clocks::{TickClock, wall_clock};
use crate::time::point_of_time::{Period, When};
use crate::ui::colour::Palette;
use crate::ui::error::Error;
use crate::ui::messages::count;
use crate::view::export::Export;
use crate::view::export::named_lines::NamedLines;
use crate::view::export::time_column::{TimeColumn, TimeMode};
use crate::view::function_names::{SharedNames, lock};
use crate::view::layout::Context;
use crate::view::lines_to_records::{RecordJoiner, RecordSink};
use crate::view::request::{Request, View};
use crate::view::select::{Limit, Matching, Selection, limit_reached};
use crate::view::thread_labels::{Label, ThreadLabels, is_inherited};
use crate::view::wanted_threads::NamedThread;

/// The number of rounds after which following has reached the present: the first round finds the records that existed
/// at the beginning, and by the end of the second they are passed on.
const CATCH_UP_ROUNDS: u32 = 2;

/// The options of the followed view.
pub(super) struct FollowedView<'a> {
    view: &'a View,
    selection: Selection,
    zone: TimeZone,
    until: Option<FollowEnd>,
}

impl FollowedView<'_> {
    /// Returns the options of `view` for a trace that is followed.
    ///
    /// # Errors
    /// If an option does not apply to a trace that is still being written.
    pub(super) fn new(view: &View) -> Result<FollowedView<'_>, Error> {
        let zone = TimeZone::system();
        let began = wall_clock(SystemTime::now());
        let period = Period { first: began, last: Wall(u64::MAX), steady: (began.0, u64::MAX) };
        for (option, when) in [("--since", view.since), ("--until", view.until)] {
            if let Some(Err(why)) = when.map(|when| when.ticks(&wall_as_ticks(), period, &zone)) {
                return Err(Error::plain(format!("{option}: {why}")));
            }
        }
        if let Some(When::BeforeLast(_)) = view.until {
            return Err(Error::plain(
                "--until with a time before the last line ends before --follow begins: leave --follow out to see the \
                 lines up to then, or name a future time",
            ));
        }
        let until = view.until.map(|when| FollowEnd::new(when, zone.clone(), began));
        Ok(FollowedView { view, selection: view.selection.clone(), zone, until })
    }

    /// Returns whether the requested time has ended before any run has begun.
    pub(super) fn is_over(&self) -> bool {
        self.until.as_ref().is_some_and(FollowEnd::is_over_before_start)
    }
}

/// The facts that the view knows about a thread, besides the thread's origin.
struct ThreadFacts {
    /// Whether the thread has got a label, which may change with the thread's name.
    is_labelled: bool,
    /// The ticks from which on the thread's lines are requested.
    since: u64,
    /// The ticks from which on the thread's lines are not requested any more.
    until: u64,
}

/// The outlet that shows a view.
pub(super) struct ViewOutlet<'a> {
    wanted: &'a FollowedView<'a>,
    needs_clock: bool,
    times: Times,
    /// The period of the lines that existed when following began; `None` before that.
    period: Option<Period>,
    processes: HashSet<(Vec<u8>, u32, u32)>,
    numbers: HashMap<ThreadKey, usize>,
    known: Vec<ThreadFacts>,
    text: Vec<u8>,
    labels: ThreadLabels,
    /// The names of functions, if they are needed.
    names: Option<SharedNames>,
    /// Whether a line after the end of the requested time has arrived.
    is_past: bool,
    rounds: u32,
    records: RecordJoiner<LossCounter<Matching<'a, Limit<LateRecordMarker<TextOutput>>>>>,
}

impl<'a> ViewOutlet<'a> {
    /// Returns an outlet that shows the view `wanted` in `out`, in the layout that `request` specifies. `terminal` says
    /// whether `out` is a terminal, and `colours` whether the output has colours. `anew` says whether no run existed
    /// when following began; then there are no earlier records, of which only the last might be requested.
    pub(super) fn new(
        wanted: &'a FollowedView<'a>,
        request: &Request,
        anew: bool,
        (terminal, colours): (bool, bool),
        out: Box<dyn Write>,
    ) -> io::Result<ViewOutlet<'a>> {
        let FollowedView { view, selection, zone, until } = wanted;
        let layout = &request.layout;
        let time = TimeColumn::new(view.time, 0, zone.clone());
        let context = Context {
            depth: request.depth,
            palette: colours.then(Palette::colours),
            on_terminal: terminal,
            found: selection.pattern.clone().filter(|_| !selection.invert),
            ..Context::new(time, request.symbols.clone())
        };
        let names = context.names.clone();
        let format = layout.format(&context);
        let names_in_lines = request.puts_names_into_lines();
        let format: Box<dyn Export> =
            if names_in_lines { Box::new(NamedLines::new(format, names.clone())) } else { format };
        let has_names = layout.needs().calls || names_in_lines;
        let redrawn = (terminal && format.current_output().is_some()).then(Redrawn::default);
        let (origins, made) = (Vec::new(), Vec::new());
        let verb = if layout.is_summary() { "counted" } else { "shown" };
        let shown = TextOutput { format, origins, made, out, lines: 0, verb, redrawn };
        let mut limit = Limit::new(selection.amount, LateRecordMarker::new(shown));
        if anew {
            limit.release()?;
        }
        let next = Matching::new(selection, limit);
        let losses = LossCounter { next, watches: selection.pattern.is_some(), lost: 0, damaged: 0 };
        let since = view.since.is_some_and(When::needs_clock);
        Ok(ViewOutlet {
            wanted,
            needs_clock: since || until.is_some() || view.time != TimeMode::Ticks || layout.needs().times,
            times: Times::default(),
            period: None,
            processes: HashSet::new(),
            numbers: HashMap::new(),
            known: Vec::new(),
            text: Vec::new(),
            labels: ThreadLabels::default(),
            names: has_names.then_some(names),
            is_past: false,
            rounds: 0,
            records: RecordJoiner::new(losses),
        })
    }

    fn limit(&mut self) -> &mut Limit<LateRecordMarker<TextOutput>> {
        self.records.next_mut().next.next_mut()
    }

    fn shown_mut(&mut self) -> &mut TextOutput {
        self.limit().next_mut().next_mut()
    }

    /// Returns the number of a thread. A new thread gets the next number; `lines` are its first lines.
    fn number(&mut self, of: &ThreadKey, lines: &[u8]) -> usize {
        if let Some(&number) = self.numbers.get(of) {
            self.name(number, of, lines);
            return number;
        }
        let run = run_in(lines);
        if let Some(run) = run.as_ref().filter(|_| self.needs_clock) {
            self.times.learn_run(run);
        }
        let clock = Arc::new(TickClock::of(ClockKind::Ordered, []));
        let origin = Origin {
            run,
            tid: of.tid(),
            name: Vec::new(),
            clock,
            is_shown: false,
            is_log: false,
            has_sites: false,
            waited: None,
            foreign: None,
        };
        self.shown_mut().origins.push(origin);
        let number = self.known.len();
        self.known.push(ThreadFacts { is_labelled: false, since: 0, until: u64::MAX });
        self.numbers.insert(of.clone(), number);
        self.name(number, of, lines);
        self.set_times(number);
        number
    }

    /// Reads the thread's names from `lines`, if they contain any, and determines whether the thread is shown. A thread
    /// that was selected by an earlier name stays selected.
    fn name(&mut self, number: usize, of: &ThreadKey, lines: &[u8]) {
        let name = thread_name(lines);
        let known = &mut self.known[number];
        let was_labelled = known.is_labelled;
        if was_labelled && name.is_none() {
            return;
        }
        known.is_labelled = true;
        let view = self.wanted.view;
        let shown = self.records.next_mut().next.next_mut().next_mut().next_mut();
        let origin = &mut shown.origins[number];
        origin.name = name.unwrap_or_default();
        let own = self.labels.label(origin);
        let label = Label::in_process(of.pid(), &own);
        let mut names = names_in(metas_in(lines));
        names.retain(|name| !origin.run.as_ref().is_some_and(|run| is_inherited(name, run)));
        names.push(origin.name.clone());
        let thread = NamedThread { pid: Some(of.pid()), tid: of.tid(), names: &names, label: &label };
        origin.is_shown = (was_labelled && origin.is_shown) || view.wants(&[thread]) == [true];
        shown.format.learn_thread(number, &shown.origins[number], own);
        let run = shown.origins[number].run.clone().filter(|_| shown.origins[number].is_shown);
        if let Some(run) = run {
            self.show_processes(&run);
        }
    }

    /// Reads from `lines` which modules are mapped, for the names of functions. The view may leave these lines out.
    fn learn_modules(&mut self, number: usize, lines: &[u8]) {
        let Some(names) = self.names.clone() else { return };
        let mut names = lock(&names);
        let process = names.process(&self.shown_mut().origins[number]);
        metas_in(lines).for_each(|payload| names.take_meta(process, payload));
    }

    fn show_processes(&mut self, run: &Run) {
        self.processes.insert((run.boot.clone(), run.pid, run.id));
        if self.processes.len() > 1 {
            self.shown_mut().format.show_processes();
        }
    }

    /// Sets the clock of a thread to the clock of its run, and determines from which ticks on, and up to which, the
    /// thread's lines are requested.
    fn set_times(&mut self, number: usize) {
        let Some(period) = self.period else { return };
        let origin = &mut self.records.next_mut().next.next_mut().next_mut().next_mut().origins[number];
        if let Some(clock) = self.times.of(origin.run.as_ref()) {
            origin.clock = Arc::clone(clock);
        }
        let known = &mut self.known[number];
        if let Some(since) = self.wanted.view.since {
            known.since = self.times.since(since, origin.run.as_ref(), period, &self.wanted.zone);
        }
        if let Some(until) = &self.wanted.until {
            known.until = until.ticks(&origin.clock, period.first).0;
        }
    }

    /// Puts the lines that are in the requested range of time into `self.text`.
    fn keep_wanted(&mut self, number: usize, lines: &[u8]) {
        let ThreadFacts { since, until, .. } = self.known[number];
        self.text.clear();
        for line in lines_of(lines) {
            let ticks = parse_ticks(line).unwrap_or_default().0;
            self.is_past |= ticks >= until;
            if since <= ticks && ticks < until {
                self.text.extend_from_slice(line);
            }
        }
    }
}

impl Outlet for ViewOutlet<'_> {
    fn is_over(&mut self) -> bool {
        if self.needs_clock {
            self.times.read();
            (0..self.known.len()).for_each(|number| self.set_times(number));
        }
        let Some(until) = &self.wanted.until else { return false };
        match (self.period, self.times.of(None)) {
            (Some(period), Some(clock)) => until.is_over(clock, period.first),
            _ => until.is_over_before_start(),
        }
    }

    fn wants_to_begin(&self) -> bool {
        self.period.is_none()
    }

    fn begin(&mut self, found: &Beginning<'_>) {
        found.runs.iter().for_each(|run| self.times.learn_run(run));
        self.times.read();
        let mut period = Period::NONE;
        for (id, begins, ends) in found.threads {
            let run = found.runs.iter().find(|run| (run.pid, run.id) == *id);
            let Some(clock) = self.times.of(run) else { continue };
            period.include(clock, (*begins, *ends));
        }
        self.period = Some(period);
        self.shown_mut().format.begin_at(period.steady.0);
        // Runs of which only some threads or none are shown are distinguished when their lines arrive.
        let View { thread, process, .. } = self.wanted.view;
        let shown = |run: &&Run| thread.is_empty() && (process.is_empty() || process.contains(&run.pid));
        found.runs.iter().filter(shown).for_each(|run| self.show_processes(run));
    }

    fn lines(&mut self, of: &ThreadKey, _late: &[u8], lines: &[u8]) -> io::Result<()> {
        let number = self.number(of, lines);
        if self.needs_clock {
            let run = self.shown_mut().origins[number].run.clone();
            anchors_in(lines).zip(run.iter().cycle()).for_each(|(anchor, run)| self.times.learn(run, anchor));
        }
        self.learn_modules(number, lines);
        if !self.shown_mut().origins[number].is_shown {
            return Ok(());
        }
        let View { since, until, .. } = self.wanted.view;
        if since.is_none() && until.is_none() {
            return self.records.lines(number, lines);
        }
        self.keep_wanted(number, lines);
        self.records.lines(number, &self.text)
    }

    fn end_round(&mut self) -> io::Result<()> {
        self.records.end()?;
        if self.period.is_some() && self.rounds < CATCH_UP_ROUNDS {
            self.rounds += 1;
            if self.rounds == CATCH_UP_ROUNDS {
                self.limit().release()?;
            }
        }
        self.limit().next_mut().flush()?;
        self.shown_mut().end_round()?;
        if self.is_past || self.limit().is_full() { Err(limit_reached()) } else { Ok(()) }
    }

    fn finish(&mut self) -> io::Result<()> {
        self.rounds = CATCH_UP_ROUNDS;
        if !self.limit().is_full() {
            self.records.end()?;
            self.limit().release()?;
        }
        self.limit().next_mut().flush()?;
        self.shown_mut().finish()
    }

    fn unseen(&mut self) -> Option<String> {
        let losses = self.records.next_mut();
        let (lost, damaged) = (std::mem::take(&mut losses.lost), std::mem::take(&mut losses.damaged));
        let lost = (lost > 0).then(|| format!("{} lost", count(lost, "record")));
        let damaged = (damaged > 0).then(|| format!("{} damaged", count(damaged, "place")));
        let what: Vec<String> = lost.into_iter().chain(damaged).collect();
        let lines = "--grep does not show the '#' lines that report this";
        (!what.is_empty()).then(|| format!("{}; {lines}", what.join(", ")))
    }

    fn shown(&mut self) -> Option<(u64, &'static str, u64)> {
        let late = self.limit().next_mut();
        let (late, shown) = (late.lines, late.next_mut());
        Some((shown.lines, shown.verb, late))
    }
}

/// The stage before *select*: it counts the losses and the damage that lines report, because the pattern of `--grep`
/// may leave out these lines.
struct LossCounter<T> {
    next: T,
    watches: bool,
    lost: u64,
    damaged: u64,
}

impl<T: RecordSink> RecordSink for LossCounter<T> {
    fn record(&mut self, record: &RecordText<'_>) -> io::Result<()> {
        if self.watches && record.is_warning() {
            match record.parsed().next().and_then(|line| Meta::parse(line.payload)) {
                Some(Meta::Lost { records, .. } | Meta::LostOtherwise { records, .. }) => {
                    self.lost = self.lost.saturating_add(records);
                }
                Some(Meta::Damaged { .. }) => self.damaged += 1,
                _ => {}
            }
        }
        self.next.record(record)
    }
}

/// The last stage: it writes records as text.
struct TextOutput {
    format: Box<dyn Export>,
    origins: Vec<Origin>,
    /// The text that is written next.
    made: Vec<u8>,
    out: Box<dyn Write>,
    lines: u64,
    /// A word for what happened to the lines: `shown`, or `counted` if the view is a summary.
    verb: &'static str,
    /// The area on the terminal in which the output so far is drawn again and again, if the layout needs one.
    redrawn: Option<Redrawn>,
}

impl TextOutput {
    /// Writes the output of the round, or draws all output so far again.
    fn end_round(&mut self) -> io::Result<()> {
        if let Some(redrawn) = self.redrawn.as_mut().filter(|redrawn| redrawn.is_due()) {
            self.format.current_output().into_iter().for_each(|text| redrawn.draw(text));
        }
        self.made.clear();
        self.format.end_round(&mut self.made);
        self.out.write_all(&self.made)?;
        self.out.flush()
    }

    /// Writes the output that the format has kept for the end.
    fn finish(&mut self) -> io::Result<()> {
        self.redrawn = None;
        self.made.clear();
        self.format.finish(&mut self.made);
        self.out.write_all(&self.made)?;
        self.out.flush()
    }
}

impl RecordSink for TextOutput {
    fn record(&mut self, record: &RecordText<'_>) -> io::Result<()> {
        self.lines += record.line_count;
        self.made.clear();
        self.format.record(&self.origins[record.origin], record, &mut self.made);
        self.out.write_all(&self.made)
    }
}

/// Returns the run in the first line of a thread's trace.
fn run_in(lines: &[u8]) -> Option<Run> {
    match Meta::parse(Line::parse(strip_line_feed(lines_of(lines).next()?)).ok()?.payload)? {
        Meta::Run(run) => Some(run),
        _ => None,
    }
}
