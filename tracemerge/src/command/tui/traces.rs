//! The traces as a source of lines for the screen: only the period that is shown is merged.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use jiff::tz::TimeZone;
use trace_format::line::Ticks;

use crate::command::merge::learn_names;
use crate::file::record_text::RecordText;
use crate::find::app::App;
use crate::find::choose::Choice;
use crate::find::find_traces_of_all;
use crate::input::boundary::{Boundary, first_from};
use crate::input::inputs::{Inputs, Origin};
use crate::input::slice::TickPeriod;
use crate::input::source::{Content as Stored, Source};
use crate::merge::Stop;
use crate::output::target::Target;
use crate::time::point_of_time::{Period, When};
use crate::ui::colour::Palette;
use crate::ui::console::Content;
use crate::ui::error::Error;
use crate::ui::messages::{Messages, shown};
use crate::view::delivery::Delivery;
use crate::view::export::Export;
use crate::view::export::show::{Column, ShowFormat, ShowStyle};
use crate::view::export::time_column::{TimeColumn, TimeMode};
use crate::view::layout::{Context, Needs};
use crate::view::plan::Plan;
use crate::view::request::{Request, View};
use crate::view::thread_labels::thread_labels;

/// The number of bytes of traces that are merged at once: enough for several screens, and merged in an instant.
const PART: u64 = if cfg!(test) { 1 << 10 } else { 1 << 20 };
/// The number of bytes of traces up to which they are read completely without a request of the user: to find the
/// readings of clocks in text files, and to draw the lanes.
const READ_WHOLE: u64 = 256 << 20;
/// The maximum number of steps in the search for the end of a part.
const LOOKS: u32 = 64;

/// A position in the traces: a boot of the machine, and ticks in that boot. Boots are numbered in the order of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub boot: usize,
    pub ticks: u64,
}

/// A loaded line: its ticks, and the range of bytes that it has in the text of its part.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    /// The ticks of the line's record.
    pub ticks: u64,
    start: usize,
    end: usize,
}

/// A part of the traces that is loaded at once: all lines that the view shows of one period.
#[derive(Debug)]
pub(super) struct Part {
    pub boot: usize,
    /// The period of the part: from its first ticks to the first ticks after the part.
    pub period: Range<u64>,
    pub rows: Vec<Row>,
    text: Vec<u8>,
}

impl Part {
    /// Returns the text of a line, in which style marks stand for the styles.
    pub(super) fn text(&self, row: Row) -> &[u8] {
        self.text.get(row.start..row.end).unwrap_or_default()
    }

    /// Returns the number of bytes of memory that the part takes.
    pub(super) fn bytes(&self) -> usize {
        self.text.len() + self.rows.len() * size_of::<Row>()
    }

    /// Makes the part that shows the lines of one period of a boot. `framed` has these lines, each in the form in which
    /// [`Framed`] writes it.
    fn of(boot: usize, period: Range<u64>, framed: Vec<u8>) -> Part {
        let (mut rows, mut at) = (Vec::new(), 0);
        while let Some((head, rest)) = framed[at..].split_first_chunk::<HEAD>() {
            let (ticks, length) = head.split_at(8);
            let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |all, byte| all << 8 | u64::from(*byte));
            let length = usize::try_from(number(length)).unwrap_or(usize::MAX).min(rest.len());
            let (mut start, end) = (at + HEAD, at + HEAD + length);
            while start < end {
                let feed = memchr::memchr(b'\n', &framed[start..end]).map_or(end, |feed| start + feed);
                rows.push(Row { ticks: number(ticks), start, end: feed });
                start = feed + 1;
            }
            at = end;
        }
        Part { boot, period, rows, text: framed }
    }
}

/// The size of the head before each record, in bytes: 8 for the ticks of the record, 8 for the length of its text.
const HEAD: usize = 16;

/// A format that writes the lines of `show`, with a head of [`HEAD`] bytes before each record.
struct Framed {
    show: ShowFormat,
    /// All origins (processes and threads) of the view: with these, columns have the same width in all parts.
    origins: Arc<[Origin]>,
    text: Vec<u8>,
}

impl Export for Framed {
    fn begin(&mut self, _origins: &[Origin], out: &mut Vec<u8>) {
        self.show.begin(&self.origins, out);
    }

    fn record(&mut self, origin: &Origin, record: &RecordText<'_>, out: &mut Vec<u8>) {
        self.text.clear();
        self.show.record(origin, record, &mut self.text);
        if !self.text.is_empty() {
            out.extend_from_slice(&record.ticks.0.to_le_bytes());
            out.extend_from_slice(&(self.text.len() as u64).to_le_bytes());
            out.extend_from_slice(&self.text);
        }
    }

    fn finish(&mut self, _out: &mut Vec<u8>) {}

    fn takes_calls(&self) -> bool {
        true
    }
}

/// The open traces, and the view of them.
#[derive(Debug)]
pub(super) struct Traces {
    job: (Vec<App>, Choice, Request),
    inputs: Inputs,
    view: View,
    /// The settings of the format that do not depend on the selection, such as names and labels.
    context: Context,
    /// The origins of all sources. Each is marked as shown if the view may show records of it.
    origins: Arc<[Origin]>,
    /// For each boot, the range of ticks that the view selects.
    bounds: Vec<Range<u64>>,
    times: Period,
    zone: TimeZone,
    /// Whether only the first and the last reading of the clocks in each file were read, so that times are less exact.
    has_rough_times: bool,
}

impl Traces {
    /// Finds and opens the traces of `apps` as requested.
    ///
    /// # Errors
    /// There are none, or none of them can be read, or the request selects nothing of them.
    pub(super) fn open(
        apps: &[App],
        choice: Choice,
        request: &Request,
        messages: &mut Messages,
    ) -> Result<Traces, Error> {
        let found = find_traces_of_all(apps, choice, messages)?;
        found.completeness.report_to_user(false, messages);
        let mut inputs = Inputs::open(&found.chosen, &request.with, &request.sync, true, messages)?;
        let files = found.chosen.boots.iter().flatten();
        let symbols = request.symbols.for_traces(files.map(|trace| trace.path.as_path()));
        let texts: usize = inputs.files().map(|(_, source)| source.bytes().len()).sum();
        let has_rough_times = texts as u64 > READ_WHOLE;
        // Nothing is before the first line.
        let until = has_rough_times.then_some(When::Ticks(0));
        let view = View { until, time: TimeMode::Offset, ..View::default() };
        let needs = Needs { times: true, ..Needs::default() };
        let plan = Plan::new(&mut inputs, &view, needs, messages)?;
        let (times, zone) = (plan.times, plan.zone.clone());
        let time = TimeColumn::new(request.view.time, times.steady.0, zone.clone());
        let mut context = Context::new(time, symbols);
        context.labels = thread_labels(&inputs);
        context.last = times.steady.1;
        context.palette = Some(Palette::colours());
        if !has_rough_times {
            learn_names(&mut context, &inputs, true);
        }
        let view = request.view.clone();
        let job = (apps.to_vec(), choice, request.clone());
        let (origins, bounds) = (Arc::default(), Vec::new());
        let mut traces = Traces { job, inputs, view, context, origins, bounds, times, zone, has_rough_times };
        traces.select(traces.view.clone())?;
        Ok(traces)
    }

    /// Finds and opens the traces again, because they have grown. The present view and its filters are kept.
    ///
    /// # Errors
    /// As [`Traces::open`].
    pub(super) fn reopen(&mut self) -> Result<(), Error> {
        let (apps, choice, request) = self.job();
        *self = Traces::open(&apps, choice, &request, &mut Messages::silent())?;
        Ok(())
    }

    /// Returns the present view.
    pub(super) fn view(&self) -> &View {
        &self.view
    }

    /// Returns the applications, the choice of their runs, and the request with the present view.
    pub(super) fn job(&self) -> (Vec<App>, Choice, Request) {
        let (apps, choice, request) = self.job.clone();
        (apps, choice, Request { view: self.view.clone(), ..request })
    }

    /// Returns whether the traces are so large that they are read completely only at the user's request.
    pub(super) fn are_large(&self) -> bool {
        self.inputs.files().map(|(_, source)| source.size() as u64).sum::<u64>() > READ_WHOLE
    }

    /// Returns whether times are less exact, because only the first and the last reading of the clocks in each file
    /// were read.
    pub(super) fn has_rough_times(&self) -> bool {
        self.has_rough_times
    }

    /// Selects the records to show. If that fails, the view does not change.
    ///
    /// # Errors
    /// There is no such thread, process or time.
    pub(super) fn select(&mut self, view: View) -> Result<(), Error> {
        let base = View { since: None, until: None, time: TimeMode::Ticks, ..view.clone() };
        Plan::new(&mut self.inputs, &base, Needs::default(), &mut Messages::silent())?;
        self.origins = self.inputs.origins.clone().into();
        let mut bounds = Vec::new();
        let mut first = 0;
        for (number, sources) in self.inputs.boots.iter().enumerate() {
            let clock = self.inputs.origins.get(first).map(|origin| &origin.clock);
            let ticks = |when: Option<When>| {
                let ticks = clock.zip(when).map(|(clock, when)| when.ticks(clock, self.times, &self.zone));
                ticks.transpose().map_err(Error::plain)
            };
            let (begin, end) = self.inputs.ends.get(number).copied().unwrap_or_default();
            let since = ticks(view.since)?.map_or(begin, |since| since.0.max(begin));
            let end = end.saturating_add(1);
            let until = ticks(view.until)?.map_or(end, |until| until.0.min(end));
            bounds.push(since..until.max(since));
            first += sources.len();
        }
        self.bounds = bounds;
        self.context.time.mode = view.time;
        self.context.catalog =
            view.selection.sites.as_ref().map(|sites| sites.catalog.clone()).unwrap_or_default();
        self.view = view;
        Ok(())
    }

    /// Returns the position at which the selected records begin, and the position after the last of them.
    pub(super) fn ends(&self) -> (Place, Place) {
        let boot = self.bounds.len().saturating_sub(1);
        let (first, last) = (self.bounds.first(), self.bounds.last());
        let ticks = first.map_or(0, |bounds| bounds.start);
        (Place { boot: 0, ticks }, Place { boot, ticks: last.map_or(0, |bounds| bounds.end) })
    }

    /// Returns the position in the traces at the time `when`.
    ///
    /// # Errors
    /// The time does not exist.
    pub(super) fn place_of(&self, when: When) -> Result<Place, String> {
        let mut first = 0;
        let mut place = self.ends().1;
        for (boot, sources) in self.inputs.boots.iter().enumerate() {
            let Some(origin) = self.inputs.origins.get(first) else { break };
            let ticks = when.ticks(&origin.clock, self.times, &self.zone)?.0;
            if ticks < self.bounds[boot].end {
                place = Place { boot, ticks: ticks.max(self.bounds[boot].start) };
                break;
            }
            first += sources.len();
        }
        Ok(place)
    }

    /// Returns the time of a position in the traces.
    pub(super) fn when(&self, place: Place) -> When {
        // Ticks mean other times in other boots.
        if self.bounds.len() == 1 {
            return When::Ticks(place.ticks);
        }
        let (time, (first, _)) = self.steady(place);
        When::AfterFirst(time.saturating_sub(first))
    }

    /// Returns whether at least one source records the sites of its messages.
    pub(super) fn has_sites(&self) -> bool {
        self.origins.iter().any(|origin| origin.has_sites)
    }

    /// Returns the steady time of a position in the traces, and those of the first and of the last line, in
    /// nanoseconds.
    pub(super) fn steady(&self, place: Place) -> (u64, (u64, u64)) {
        let first = self.inputs.boots.iter().take(place.boot).map(Vec::len).sum::<usize>();
        let origin = self.inputs.origins.get(first);
        let time = origin.map_or(0, |origin| origin.clock.steady(Ticks(place.ticks)));
        (time, self.times.steady)
    }

    /// Returns how many bytes the shown sources of a boot have before `ticks`.
    fn bytes_before(&self, boot: usize, ticks: u64) -> u64 {
        let first = self.inputs.boots.iter().take(boot).map(Vec::len).sum::<usize>();
        let of = |(source, origin): (&Source, &Origin)| match source.content() {
            _ if !origin.is_shown => 0,
            Stored::Rendered(render) => render.bytes_before(ticks),
            Stored::Text(bytes) => {
                let (low, high) = (Boundary::before(bytes, 0), Boundary::end(bytes));
                first_from(bytes, ticks, low, high, usize::MAX).at as u64
            }
        };
        let sources = self.inputs.boots.get(boot).into_iter().flatten();
        sources.zip(self.origins.iter().skip(first)).map(of).sum()
    }

    /// Returns the percentage of the traces' bytes that come before a position.
    pub(super) fn percent(&self, place: Place) -> u64 {
        let of_boot = |boot: usize, ticks: u64| {
            let bounds = &self.bounds[boot];
            let before = self.bytes_before(boot, bounds.start);
            self.bytes_before(boot, ticks.clamp(bounds.start, bounds.end)).saturating_sub(before)
        };
        let all: u64 = (0..self.bounds.len()).map(|boot| of_boot(boot, u64::MAX)).sum();
        let before: u64 = (0..place.boot).map(|boot| of_boot(boot, u64::MAX)).sum();
        let here = if place.boot < self.bounds.len() { of_boot(place.boot, place.ticks) } else { 0 };
        (before + here).saturating_mul(100).checked_div(all).unwrap_or(100)
    }

    /// Returns the period to load next after a position: a boot and a range of its ticks; `None` at the end of the
    /// traces.
    pub(super) fn behind(&self, place: Place) -> Option<(usize, Range<u64>)> {
        let boot = (place.boot..self.bounds.len()).find(|boot| {
            let bounds = &self.bounds[*boot];
            !bounds.is_empty() && (*boot > place.boot || place.ticks < bounds.end)
        })?;
        let bounds = &self.bounds[boot];
        let start = if boot == place.boot { place.ticks.max(bounds.start) } else { bounds.start };
        let target = self.bytes_before(boot, start).saturating_add(PART);
        let (low, high) = self.split(boot, start..bounds.end, target);
        Some((boot, start..if low > start { low } else { high }))
    }

    /// Returns the period to load next before a position: a boot and a range of its ticks; `None` at the beginning of
    /// the traces.
    pub(super) fn before(&self, place: Place) -> Option<(usize, Range<u64>)> {
        let boot = (0..self.bounds.len().min(place.boot + 1)).rev().find(|boot| {
            let bounds = &self.bounds[*boot];
            !bounds.is_empty() && (*boot < place.boot || place.ticks > bounds.start)
        })?;
        let bounds = &self.bounds[boot];
        let end = if boot == place.boot { place.ticks.min(bounds.end) } else { bounds.end };
        let target = self.bytes_before(boot, end).saturating_sub(PART);
        let (low, high) = self.split(boot, bounds.start..end, target);
        Some((boot, if high < end { high } else { low }..end))
    }

    /// Finds the ticks in a period of a boot before which the shown sources have about `target` bytes. Returns these
    /// ticks twice; if no ticks are near enough to the target, the closest ones found below and above it.
    fn split(&self, boot: usize, period: Range<u64>, target: u64) -> (u64, u64) {
        let (mut low, mut high) = (period.start, period.end);
        let (mut below, mut above) = (self.bytes_before(boot, low), self.bytes_before(boot, high));
        // Half a part more is not worth another part.
        if above <= target.saturating_add(PART / 2) && above.saturating_sub(below) <= PART + PART / 2 {
            return if below >= target { (low, low) } else { (high, high) };
        }
        for look in 0..LOOKS {
            if high - low <= 1 {
                break;
            }
            let room = high - low;
            let wanted = target.saturating_sub(below) as f64 / above.saturating_sub(below).max(1) as f64;
            let step = if look % 3 == 2 { room / 2 } else { (room as f64 * wanted.clamp(0.0, 1.0)) as u64 };
            let middle = low + step.clamp(1, room - 1);
            let bytes = self.bytes_before(boot, middle);
            if bytes.abs_diff(target) <= PART / 4 {
                return (middle, middle);
            }
            if bytes < target { (low, below) = (middle, bytes) } else { (high, above) = (middle, bytes) }
        }
        (low, high)
    }

    /// Merges the lines that a boot has in a period of ticks, and returns them as a part.
    ///
    /// # Errors
    /// A file changes while it is read.
    pub(super) fn load(&mut self, boot: usize, period: Range<u64>) -> Result<Part, Error> {
        let (since, until) = (Some(When::Ticks(period.start)), Some(When::Ticks(period.end)));
        let view = View { since, until, time: TimeMode::Ticks, ..self.view.clone() };
        let mut plan = Plan::new(&mut self.inputs, &view, Needs::default(), &mut Messages::silent())?;
        let style = ShowStyle {
            columns: Column::USUAL.to_vec(),
            full: false,
            order: false,
            time: self.context.time.clone(),
            catalog: self.context.catalog.clone(),
            palette: self.context.palette,
            found: None,
        };
        let (context, origins) = (&self.context, &self.origins);
        let format = || {
            let show = ShowFormat::new(style.clone(), context.threads());
            Box::new(Framed { show, origins: origins.clone(), text: Vec::new() }) as Box<dyn Export>
        };
        let mut is_checked = false;
        loop {
            // The ticks of other boots mean other times.
            let mut first = 0;
            for (number, sources) in self.inputs.boots.iter().enumerate() {
                let here = first..first + sources.len();
                first = here.end;
                if number != boot {
                    plan.ranges[here].fill(Vec::new());
                    plan.periods[number] = TickPeriod { since: 0, until: Some(0) };
                }
            }
            let mut framed = Vec::new();
            let delivery = Delivery {
                inputs: &mut self.inputs,
                plan: &mut plan,
                selection: &view.selection,
                format: &format,
                target: &Target::Stdout,
                content: Content::Text,
                paged: false,
            };
            match delivery.write_into(&mut framed) {
                Ok(()) => {
                    self.inputs.give_up_truncated(&mut BTreeMap::new());
                    return Ok(Part::of(boot, period, framed));
                }
                Err(Stop::Backward { .. }) if !is_checked => {
                    is_checked = true;
                    plan.check_all_bytes(&mut self.inputs)?;
                }
                Err(Stop::Backward { path }) => {
                    return Err(Error::plain(format!(
                        "{} was changed while it was read: run the command again",
                        shown(&path)
                    )));
                }
                Err(Stop::Write(error)) => return Err(Error::plain(error.to_string())),
            }
        }
    }
}
