//! Finds the bytes of the inputs that a view needs: the bytes of its threads and processes, then among these the
//! bytes in its period, and then the bytes that may contain the last records. The clocks in the traces convert times
//! into ticks, and are read only if the view needs times.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use jiff::tz::TimeZone;
use trace_format::line::Ticks;
use trace_format::meta::{ClockKind, Run};
use trace_format::wall::Wall;

use crate::find::header::{names_at_ends, names_in};
use crate::input::findings::Findings;
use crate::input::inputs::{Inputs, Origin};
use crate::input::slice::TickPeriod;
use crate::input::source::{SortedRange, Source};
use crate::time::anchor::anchors_in;
use crate::time::clocks::{Clocks, TickClock};
use crate::time::point_of_time::{Period, When};
use crate::ui::error::Error;
use crate::ui::messages::{Grouped, Messages, count, shown, shown_name};
use crate::ui::units::duration;
use crate::view::breaks::{Breaks, WantedRanges};
use crate::view::byte_range::{narrowed, since_for_last};
use crate::view::export::time_column::TimeMode;
use crate::view::layout::Needs;
use crate::view::request::View;
use crate::view::select::Amount;
use crate::view::thread_labels::{Label, is_inherited, label_of_name, thread_labels};
use crate::view::thread_states::has_states;
use crate::view::wanted_threads::{NamedThread, ThreadSelector};

/// The nanoseconds between two `# clock` lines of a run. If the inputs cover a shorter period, they have no such lines
/// besides the last one of each run.
const CLOCK_INTERVAL_NS: u64 = 10_000_000_000;
/// The maximum number of steps of the wall clock that are listed for one clock.
const NAMED_STEPS: usize = 3;
/// The maximum number of threads that are listed if no thread matches the request.
const NAMED_THREADS: usize = 12;

/// The bytes of the inputs that a view needs.
#[derive(Debug)]
pub(crate) struct Plan<'v> {
    view: &'v View,
    /// Whether the plan leaves out states of threads, because the layout gets them [apart from the
    /// records](crate::view::thread_states).
    leaves_out_states: bool,
    /// The sorted ranges of each source that contain its wanted lines; a source that is not shown has none.
    pub ranges: Vec<Vec<SortedRange>>,
    /// The wanted period of each boot, in ticks of this boot.
    pub periods: Vec<TickPeriod>,
    /// The times of the first and the last line of all inputs; meaningless if no clock was needed.
    pub times: Period,
    /// Whether the output has times of day, which depend on how the wall clock was set.
    shows_times_of_day: bool,
    /// The time zone of local times.
    pub zone: TimeZone,
    /// The breaks of the sources that are known so far.
    breaks: Breaks,
}

impl<'v> Plan<'v> {
    /// Plans which bytes of `inputs` the `view` needs, and marks the inputs that are shown. Also sets the clocks of the
    /// inputs if times are needed: by the view, or by its layout, whose needs are `needs`.
    ///
    /// # Errors
    /// Returns an error if the traces have no thread or process that fits the view, or if a time of the view does not
    /// exist.
    pub(crate) fn new(
        inputs: &mut Inputs,
        view: &'v View,
        needs: Needs,
        messages: &mut Messages,
    ) -> Result<Plan<'v>, Error> {
        let times = Period { first: Wall(0), last: Wall(0), steady: (0, 0) };
        let (ranges, periods, breaks) = (Vec::new(), Vec::new(), Breaks::default());
        let shows_times_of_day = needs.times_of_day || matches!(view.time, TimeMode::Wall | TimeMode::Utc);
        let zone = TimeZone::system();
        let leaves_out_states = needs.states;
        let mut plan =
            Plan { view, leaves_out_states, ranges, periods, times, shows_times_of_day, zone, breaks };
        plan.select_threads(inputs)?;
        let shows_times = needs.times || view.time != TimeMode::Ticks;
        let mut whens = [view.since, view.until].into_iter().flatten();
        if shows_times || whens.any(When::needs_clock) {
            plan.plan_by_clocks(inputs, shows_times, messages)?;
        } else {
            plan.plan_ranges(inputs)?;
        }
        plan.show_only_planned(inputs);
        Ok(plan)
    }

    /// Reads all planned bytes. If some of them are out of order, plans again with this knowledge. Afterwards every
    /// planned range is sorted.
    ///
    /// # Errors
    /// Returns an error if the traces have no thread or process that fits the view, or if a time of the view does not
    /// exist.
    pub(crate) fn check_all_bytes(&mut self, inputs: &mut Inputs) -> Result<(), Error> {
        while self.breaks.check_all_bytes(&WantedRanges::all(&inputs.boots, &self.periods, &self.ranges)) {
            self.plan_again(inputs)?;
        }
        Ok(())
    }

    /// Plans again after files were truncated, and forgets the known breaks, which may be gone.
    ///
    /// # Errors
    /// Returns an error if the traces have no thread or process that fits the view, or if a time of the view does not
    /// exist.
    pub(crate) fn restart_plan(&mut self, inputs: &mut Inputs) -> Result<(), Error> {
        self.breaks = Breaks::default();
        self.plan_again(inputs)
    }

    /// Marks those of the `inputs` that the view shows: those of the threads and processes that the user wants.
    fn select_threads(&self, inputs: &mut Inputs) -> Result<(), Error> {
        let view = self.view;
        let labels = if view.thread.is_empty() { Vec::new() } else { thread_labels(inputs) };
        let mut names = if view.thread.is_empty() {
            vec![Vec::new(); inputs.origins.len()]
        } else {
            names_of(inputs, |source| names_at_ends(&source.outline()))
        };
        if !view.has_each_of(&named_threads(inputs, &names, &labels)) {
            // A thread may have been renamed anywhere in its file. All bytes are read only if a wanted name fits no
            // thread so far.
            names = names_of(inputs, |source| {
                let mut payloads = Vec::new();
                source.each_meta(&mut |payload| {
                    if payload.starts_with(b"name ") {
                        payloads.push(payload.to_vec());
                    }
                });
                names_in(payloads.iter().map(Vec::as_slice))
            });
        }
        let mut wanted = view.wants(&named_threads(inputs, &names, &labels));
        // If a thread was renamed, some of its files may have an earlier name.
        let of_threads: HashSet<&str> =
            labels.iter().zip(&wanted).filter(|of| *of.1).map(|of| of.0.full()).collect();
        wanted
            .iter_mut()
            .zip(&labels)
            .for_each(|(wanted, label)| *wanted |= of_threads.contains(label.full()));
        inputs.origins.iter_mut().zip(wanted).for_each(|(origin, wanted)| origin.is_shown = wanted);
        if inputs.origins.iter().any(|origin| origin.is_shown) {
            let sources = inputs.boots.iter().flatten();
            for (origin, source) in inputs.origins.iter_mut().zip(sources).filter(|_| self.leaves_out_states)
            {
                origin.is_shown &= !has_states(origin, source);
            }
            return Ok(());
        }
        let threads = some_threads(&inputs.origins, &thread_labels(inputs));
        let no_pattern = view.thread.iter().find_map(ThreadSelector::no_pattern);
        let why = no_pattern.map_or_else(String::new, |why| format!(" ({why})"));
        Err(Error::plain(format!(
            "no thread or process fits --thread and --process{why}; the traces have {threads}"
        )))
    }

    fn plan_again(&mut self, inputs: &mut Inputs) -> Result<(), Error> {
        self.select_threads(inputs)?;
        self.plan_ranges(inputs)?;
        self.show_only_planned(inputs);
        Ok(())
    }

    /// Returns the end of the wanted period of each source, in ticks of the source's boot.
    #[must_use]
    pub(crate) fn untils(&self, inputs: &Inputs) -> Vec<Option<Ticks>> {
        let boots = inputs.boots.iter().zip(&self.periods);
        boots.flat_map(|(sources, period)| sources.iter().map(|_| period.until.map(Ticks))).collect()
    }

    /// Adds the breaks that are known in the `sources` of one boot to the boot's `findings`. `first` is the index of
    /// the boot's first source among the sources of all boots.
    pub(crate) fn add_known_breaks(&self, first: usize, sources: &[Source], findings: &mut Findings) {
        (0..sources.len()).for_each(|number| self.breaks.record_breaks(first + number, number, findings));
    }

    /// Prints how much of each source is planned, if the user wants details.
    pub(crate) fn show_details(&self, inputs: &Inputs, messages: &mut Messages) {
        for ((origin, source), ranges) in inputs.files().zip(&self.ranges) {
            if ranges.is_empty() {
                continue;
            }
            let bytes: usize = ranges.iter().map(|range| range.end - range.start).sum();
            messages.detail(format_args!(
                "{}: thread {} '{}', {} of {} bytes",
                shown(&source.path),
                origin.tid,
                shown_name(&origin.name),
                Grouped(bytes as u64),
                Grouped(source.size() as u64),
            ));
        }
    }

    /// Tells the user that no records were found, and from when to when the traces last.
    pub(crate) fn show_times(&self, inputs: &Inputs, messages: &Messages) {
        let Period { first, last, steady } = self.times;
        if steady.0 < steady.1 {
            let length = duration(steady.1 - steady.0);
            messages.note(format_args!("no records found; the traces are from {first} to {last} ({length})"));
            return;
        }
        let first = inputs.ends.iter().map(|ends| ends.0).min().unwrap_or(0);
        let last = inputs.ends.iter().map(|ends| ends.1).max().unwrap_or(0);
        messages.note(format_args!("no records found; the traces are from ticks {first:#x} to {last:#x}"));
    }

    /// Marks a source as not shown if none of its bytes are planned.
    fn show_only_planned(&self, inputs: &mut Inputs) {
        for (origin, ranges) in inputs.origins.iter_mut().zip(&self.ranges) {
            origin.is_shown = ranges.iter().any(|range| range.start < range.end);
        }
    }

    /// Reads the clocks of the traces, sets the clocks of the inputs, and plans the ranges.
    fn plan_by_clocks(
        &mut self,
        inputs: &mut Inputs,
        shows_times: bool,
        messages: &mut Messages,
    ) -> Result<(), Error> {
        let mut clocks = inputs.own_clocks();
        self.set_clocks(inputs, &clocks);
        self.plan_ranges(inputs)?;
        // The merge reads the planned bytes anyway, so reading all clock lines in them costs little more.
        let (first, last) = self.times.steady;
        if shows_times && last.saturating_sub(first) > CLOCK_INTERVAL_NS {
            let files = inputs.files().zip(&inputs.references).zip(&self.ranges);
            let own = files.filter(|((_, reference), _)| reference.is_none());
            let anchors = own.filter_map(|(((origin, source), _), ranges)| {
                let text =
                    |range: &SortedRange| source.bytes().get(range.start..range.end).unwrap_or_default();
                Some((origin.run.as_ref()?, ranges.iter().flat_map(move |range| anchors_in(text(range)))))
            });
            clocks.refine(anchors);
            self.set_clocks(inputs, &clocks);
            self.plan_ranges(inputs)?;
        }
        // The clocks of other machines, each once.
        let mut others = BTreeMap::new();
        for origin in &inputs.origins {
            if let (Some(run), Some(foreign)) = (&origin.run, &origin.foreign) {
                others
                    .entry((&run.boot, run.clock == ClockKind::System))
                    .or_insert((run, foreign.own_clock()));
            }
        }
        report_clocks(clocks.each().chain(others.into_values()), self.shows_times_of_day, messages);
        Ok(())
    }

    /// Sets the clock of each source, and finds the times of the first and of the last line of all inputs.
    fn set_clocks(&mut self, inputs: &mut Inputs, clocks: &Clocks) {
        let (mut times, mut at) = (Period::NONE, 0);
        for (sources, ends) in inputs.boots.iter().zip(&inputs.ends) {
            let here = at..at + sources.len();
            at = here.end;
            let (origins, references) = (&mut inputs.origins[here.clone()], &inputs.references[here]);
            // A file that does not name its run gets the clock of another run of its boot.
            let known = origins.iter().find_map(|origin| origin.run.clone());
            for (origin, reference) in origins.iter_mut().zip(references) {
                let run = reference.as_ref().or(origin.run.as_ref()).or(known.as_ref());
                if let Some(clock) = run.and_then(|run| clocks.of(run)) {
                    origin.clock = Arc::clone(clock);
                }
                times.include(&origin.clock, (Ticks(ends.0), Ticks(ends.1)));
            }
        }
        self.times = times;
    }

    /// Plans the ranges. If a source turns out to be out of order near its wanted lines, splits it into sorted ranges
    /// and plans again.
    fn plan_ranges(&mut self, inputs: &Inputs) -> Result<(), Error> {
        let has_ends = self.view.has_period() || self.view.selection.amount != Amount::All;
        let may_end_early = matches!(self.view.selection.amount, Amount::First(_));
        loop {
            self.select_ranges(inputs)?;
            // If all lines are wanted, the merge itself notices whether they are in order.
            if !has_ends {
                return Ok(());
            }
            let wanted = WantedRanges::all(&inputs.boots, &self.periods, &self.ranges);
            if !self.breaks.check_edges(&wanted, may_end_early) {
                return Ok(());
            }
        }
    }

    /// Selects the ranges of each shown source that lie in the wanted period. If only the last records are wanted,
    /// narrows the ranges to the bytes that may contain these.
    fn select_ranges(&mut self, inputs: &Inputs) -> Result<(), Error> {
        self.ranges.clear();
        self.periods.clear();
        for sources in &inputs.boots {
            let mut of_boot = TickPeriod::ALL;
            for (number, source) in sources.iter().enumerate() {
                let file = self.ranges.len();
                let origin = &inputs.origins[file];
                let ticks = |when: Option<When>, option| {
                    let ticks =
                        when.map(|when| when.ticks(&origin.clock, self.times, &self.zone)).transpose();
                    ticks
                        .map(|ticks| ticks.map(|ticks| ticks.0))
                        .map_err(|why| Error::plain(format!("{option}: {why}")))
                };
                let since = ticks(self.view.since, "--since")?.unwrap_or(0);
                let period = TickPeriod { since, until: ticks(self.view.until, "--until")? };
                of_boot = period;
                let ranges = origin.is_shown.then(|| self.breaks.ranges(file, number, source, period));
                self.ranges.push(ranges.unwrap_or_default());
            }
            self.periods.push(of_boot);
        }
        if let (Amount::Last(wanted), false) =
            (self.view.selection.amount, self.view.selection.filters_messages())
        {
            self.narrow_to_last(inputs, wanted);
        }
        Ok(())
    }

    /// Leaves out bytes that cannot contain any of the last `wanted` records. Does nothing if there are several boots,
    /// because their ticks cannot be compared.
    fn narrow_to_last(&mut self, inputs: &Inputs, wanted: usize) {
        let ([sources], [of_boot]) = (&inputs.boots[..], &mut self.periods[..]) else { return };
        let all: Vec<SortedRange> = self.ranges.iter().flatten().copied().collect();
        let Some(since) = since_for_last(sources, &all, *of_boot, wanted) else { return };
        of_boot.since = since;
        for range in self.ranges.iter_mut().flatten() {
            *range = narrowed(*range, &sources[range.source], TickPeriod { since, until: None });
        }
    }
}

/// Returns the names by which the user may select the thread of each origin: those that `read` finds in its source,
/// these names as views show them, and the last name. Leaves out found names that the thread only has from its program.
fn names_of(inputs: &Inputs, read: impl Fn(&Source) -> Vec<Vec<u8>>) -> Vec<Vec<Vec<u8>>> {
    let sources = inputs.boots.iter().flatten();
    let names = inputs.origins.iter().zip(sources).map(|(origin, source)| {
        let mut names = if origin.is_log { Vec::new() } else { read(source) };
        names.retain(|name| !origin.run.as_ref().is_some_and(|run| is_inherited(name, run)));
        // Views shorten long names, and show a name that several threads have with the thread's id.
        let run = origin.run.as_ref();
        let shown = names.iter().filter_map(|name| label_of_name(name, origin.tid, run?));
        let shown: Vec<_> = shown.flat_map(|name| [format!("{name} {}", origin.tid), name]).collect();
        names.extend(shown.into_iter().map(String::into_bytes));
        names.push(origin.name.clone());
        names
    });
    names.collect()
}

fn named_threads<'a>(
    inputs: &'a Inputs,
    names: &'a [Vec<Vec<u8>>],
    labels: &'a [Label],
) -> Vec<NamedThread<'a>> {
    static NO_LABEL: Label = Label::none();
    let threads = inputs.origins.iter().zip(names).enumerate().map(|(number, (origin, names))| {
        // The user selects a log in the way in which its lines are shown: as thread 0 of process 0.
        let pid = origin.run.as_ref().map(|run| run.pid).or(origin.is_log.then_some(0));
        NamedThread { pid, tid: origin.tid, names, label: labels.get(number).unwrap_or(&NO_LABEL) }
    });
    threads.collect()
}

/// Returns a text with some of the existing threads, for the message that no thread matches.
fn some_threads(origins: &[Origin], labels: &[Label]) -> String {
    let thread = |(origin, label): (&Origin, &Label)| {
        let label = shown_name(label.within_process().as_bytes());
        if origin.is_log {
            return format!("{} '{label}', a log", origin.tid);
        }
        let pid = origin.run.as_ref().map_or_else(|| "?".to_owned(), |run| run.pid.to_string());
        format!("{} '{label}' of process {pid}", origin.tid)
    };
    let mut all: Vec<String> = origins.iter().zip(labels).map(thread).collect();
    all.sort();
    all.dedup();
    let more = all.len().saturating_sub(NAMED_THREADS);
    let named = all.into_iter().take(NAMED_THREADS).collect::<Vec<_>>().join(", ");
    if more > 0 { format!("{named}, and {} more", Grouped(more as u64)) } else { named }
}

/// Warns of clocks whose rate is unknown. If the user wants details, also prints the rates of all other clocks.
fn report_clocks<'a>(
    clocks: impl Iterator<Item = (&'a Run, &'a TickClock)>,
    shows_times_of_day: bool,
    messages: &mut Messages,
) {
    for (run, clock) in clocks {
        let steps = if shows_times_of_day { clock.steps() } else { &[] };
        for step in steps.iter().take(NAMED_STEPS) {
            messages.note(format_args!("{step}; durations and offsets are not affected"));
        }
        if steps.len() > NAMED_STEPS {
            let more = count((steps.len() - NAMED_STEPS) as u64, "further time");
            messages.note(format_args!("the wall clock was set, or the machine was suspended, {more}"));
        }
        let boot = shown_name(&run.boot);
        if clock.rate_is_known() {
            let rate = clock.ticks_per_second();
            let error = Grouped(clock.uncertainty_ns());
            messages.detail(format_args!(
                "boot {boot}: {} ticks a second; the wall clock strayed by at most {error} ns",
                Grouped(rate)
            ));
        } else {
            messages.warn(format_args!(
                "process {} recorded the wall clock only once ('# run'), so the length of a tick is unknown; \
                 assuming one nanosecond",
                run.pid
            ));
        }
    }
}
