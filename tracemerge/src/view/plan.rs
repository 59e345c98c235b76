//! Which bytes of the inputs a view wants: the threads and processes, the range of time, and of that what may have the
//! last records. Times become ticks by the clocks in the traces, which are read only if they are needed.

use std::sync::Arc;

use jiff::tz::TimeZone;
use trace_format::line::Ticks;
use trace_format::wall::Wall;

use crate::input::findings::Findings;
use crate::input::inputs::{Inputs, Origin};
use crate::input::slice;
use crate::input::source::{SortedRange, Source};
use crate::time::clocks::{Clocks, anchors_in};
use crate::time::when::{WallSpan, When};
use crate::ui::error::Error;
use crate::ui::messages::{Grouped, Messages, shown, shown_name};
use crate::view::breaks::{Breaks, Wanted};
use crate::view::export::text::TimeMode;
use crate::view::range::{self, Range, part_of};
use crate::view::request::View;
use crate::view::select::Amount;

/// A `# clock` line comes every ten seconds: in a shorter time there is none but the last.
const CLOCK_INTERVAL_NS: u64 = 10_000_000_000;
/// At most this many threads are named where none is the one that was asked for.
const FEW: usize = 12;

/// The bytes of the inputs that a view wants.
#[derive(Debug)]
pub struct Plan<'v> {
    view: &'v View,
    /// For each source, the sorted parts that have what is wanted of it; none of a source that is not shown.
    pub parts: Vec<Vec<SortedRange>>,
    /// For each boot, the ticks that are wanted.
    pub spans: Vec<slice::TickSpan>,
    /// The times of the first line and of the last of all inputs; without meaning where no clock was needed.
    pub times: WallSpan,
    /// The zone of local times.
    pub zone: TimeZone,
    /// Where ticks go back, by source, as far as that is known.
    breaks: Breaks,
}

impl<'v> Plan<'v> {
    /// Plans what `view` wants of `inputs`, gives these their clocks if times are needed, and notes in them what of them
    /// is shown.
    ///
    /// # Errors
    /// Where there is no such thread, process or time.
    pub fn new(inputs: &mut Inputs, view: &'v View, messages: &mut Messages) -> Result<Plan<'v>, Error> {
        let times = WallSpan { first: Wall(0), last: Wall(0) };
        let (parts, spans, breaks) = (Vec::new(), Vec::new(), Breaks::default());
        let mut plan = Plan { view, parts, spans, times, zone: TimeZone::system(), breaks };
        select(inputs, view)?;
        let shows_times = view.time != TimeMode::Ticks;
        let mut whens = [view.since, view.until].into_iter().flatten();
        if shows_times || whens.any(When::needs_clock) {
            plan.plan_by_clocks(inputs, shows_times, messages)?;
        } else {
            plan.plan_parts(inputs)?;
        }
        plan.show_only_planned(inputs);
        Ok(plan)
    }

    /// Reads what is planned, and plans anew where that is not in order: from then on every part is.
    ///
    /// # Errors
    /// Where there is no such thread, process or time.
    pub fn look_through(&mut self, inputs: &mut Inputs) -> Result<(), Error> {
        while self.breaks.look_through(&Wanted::all(&inputs.boots, &self.spans, &self.parts)) {
            self.plan_anew(inputs)?;
        }
        Ok(())
    }

    /// Plans anew because files have become shorter: nothing is known of them any more.
    ///
    /// # Errors
    /// Where there is no such thread, process or time.
    pub fn begin_anew(&mut self, inputs: &mut Inputs) -> Result<(), Error> {
        self.breaks = Breaks::default();
        self.plan_anew(inputs)
    }

    fn plan_anew(&mut self, inputs: &mut Inputs) -> Result<(), Error> {
        select(inputs, self.view)?;
        self.plan_parts(inputs)?;
        self.show_only_planned(inputs);
        Ok(())
    }

    /// Tells `findings` of a boot where ticks of its sources are known to go back; the first of these is number `first`
    /// of all.
    pub fn tell_breaks(&self, first: usize, sources: &[Source], findings: &mut Findings) {
        (0..sources.len()).for_each(|number| self.breaks.tell(first + number, number, findings));
    }

    /// Tells in detail what is planned of each source.
    pub fn tell_details(&self, inputs: &Inputs, messages: &mut Messages) {
        for ((origin, source), parts) in inputs.files().zip(&self.parts) {
            if parts.is_empty() {
                continue;
            }
            let bytes: usize = parts.iter().map(|part| part.end - part.start).sum();
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

    /// Notes that sources of which nothing is planned are not shown.
    fn show_only_planned(&self, inputs: &mut Inputs) {
        for (origin, parts) in inputs.origins.iter_mut().zip(&self.parts) {
            origin.is_shown = parts.iter().any(|part| part.start < part.end);
        }
    }

    /// Reads the clocks and gives them to the inputs, then plans the parts.
    fn plan_by_clocks(
        &mut self,
        inputs: &mut Inputs,
        shows_times: bool,
        messages: &mut Messages,
    ) -> Result<(), Error> {
        let of_runs =
            inputs.files().filter_map(|(origin, source)| Some((origin.run.as_ref()?, source.outline())));
        let mut clocks = Clocks::read(of_runs, |_| None);
        self.set_clocks(inputs, &clocks);
        self.plan_parts(inputs)?;
        // What is shown will be read anyway, so the clock lines in it may be, too.
        if shows_times && self.times.last.0.saturating_sub(self.times.first.0) > CLOCK_INTERVAL_NS {
            let files = inputs.files().zip(&inputs.references).zip(&self.parts);
            // The clock lines of another machine are no readings of this one's ticks.
            let texts = files.filter(|((_, reference), _)| reference.is_none());
            let texts = texts.filter_map(|(((origin, source), _), parts)| {
                let text = |part: &SortedRange| source.bytes().get(part.start..part.end).unwrap_or_default();
                Some((origin.run.as_ref()?, parts.iter().flat_map(move |part| anchors_in(text(part)))))
            });
            clocks.refine(texts);
            self.set_clocks(inputs, &clocks);
            self.plan_parts(inputs)?;
        }
        tell_clocks(&clocks, messages);
        Ok(())
    }

    /// Gives each source its clock, and finds out from when to when the inputs are.
    fn set_clocks(&mut self, inputs: &mut Inputs, clocks: &Clocks) {
        let (mut first, mut last, mut at) = (Wall(u64::MAX), Wall(0), 0);
        for (sources, ends) in inputs.boots.iter().zip(&inputs.ends) {
            let here = at..at + sources.len();
            at = here.end;
            let (origins, references) = (&mut inputs.origins[here.clone()], &inputs.references[here]);
            // A file that does not name its run goes by the clock of its neighbours.
            let known = origins.iter().find_map(|origin| origin.run.clone());
            for (origin, reference) in origins.iter_mut().zip(references) {
                let run = reference.as_ref().or(origin.run.as_ref()).or(known.as_ref());
                if let Some(clock) = run.and_then(|run| clocks.of(run)) {
                    origin.clock = Arc::clone(clock);
                }
                first = first.min(origin.clock.wall(Ticks(ends.0)));
                last = last.max(origin.clock.wall(Ticks(ends.1)));
            }
        }
        self.times = WallSpan { first, last };
    }

    /// Plans the parts, and splits sources that show not to be in order around what is wanted of them.
    fn plan_parts(&mut self, inputs: &Inputs) -> Result<(), Error> {
        let has_ends = self.view.is_of_a_time() || self.view.selection.amount != Amount::All;
        let may_end_early = matches!(self.view.selection.amount, Amount::First(_));
        loop {
            self.select_ranges(inputs)?;
            // Where everything is wanted, the merge itself sees whether it is in order.
            if !has_ends {
                return Ok(());
            }
            let wanted = Wanted::all(&inputs.boots, &self.spans, &self.parts);
            if !self.breaks.look_around(&wanted, may_end_early) {
                return Ok(());
            }
        }
    }

    /// Selects of each shown source what is in the range of time, and of that what may have the last records.
    fn select_ranges(&mut self, inputs: &Inputs) -> Result<(), Error> {
        self.parts.clear();
        self.spans.clear();
        for sources in &inputs.boots {
            let mut of_boot = slice::TickSpan::ALL;
            for (number, source) in sources.iter().enumerate() {
                let file = self.parts.len();
                let origin = &inputs.origins[file];
                let ticks = |when: Option<When>, option| {
                    let ticks =
                        when.map(|when| when.ticks(&origin.clock, self.times, &self.zone)).transpose();
                    ticks
                        .map(|ticks| ticks.map(|ticks| ticks.0))
                        .map_err(|why| Error::plain(format!("{option}: {why}")))
                };
                let since = ticks(self.view.since, "--since")?;
                let range = Range { since, until: ticks(self.view.until, "--until")? };
                of_boot = slice::TickSpan { since: range.since.unwrap_or(0), until: range.until };
                let parts = origin.is_shown.then(|| self.breaks.parts(file, number, source, range));
                self.parts.push(parts.unwrap_or_default());
            }
            self.spans.push(of_boot);
        }
        if let (Amount::Last(wanted), None) = (self.view.selection.amount, &self.view.selection.pattern) {
            self.shorten_to_last(inputs, wanted);
        }
        Ok(())
    }

    /// Leaves out what is before the last `wanted` records, where there is only one boot to look at.
    fn shorten_to_last(&mut self, inputs: &Inputs, wanted: usize) {
        let ([sources], [of_boot]) = (&inputs.boots[..], &mut self.spans[..]) else { return };
        let all: Vec<SortedRange> = self.parts.iter().flatten().copied().collect();
        let Some(since) = range::since_for_last(sources, &all, *of_boot, wanted) else { return };
        of_boot.since = since;
        for part in self.parts.iter_mut().flatten() {
            *part = part_of(*part, &sources[part.source], Range { since: Some(since), until: None });
        }
    }
}

/// Notes which of the inputs are of threads and processes that `view` asks for.
fn select(inputs: &mut Inputs, view: &View) -> Result<(), Error> {
    for origin in &mut inputs.origins {
        // Who names a log wants to see it beside whatever is selected.
        let pid = origin.run.as_ref().map(|run| run.pid);
        origin.is_shown = origin.is_log || view.wants(pid, origin.tid, &origin.name);
    }
    if inputs.origins.iter().any(|origin| origin.is_shown && !origin.is_log) {
        return Ok(());
    }
    let threads = some_threads(&inputs.origins);
    Err(Error::plain(format!("there is no such thread or process here; there are {threads}")))
}

/// Names some of the threads that there are.
fn some_threads(origins: &[Origin]) -> String {
    let thread = |origin: &Origin| {
        let pid = origin.run.as_ref().map_or_else(|| "?".to_owned(), |run| run.pid.to_string());
        format!("{} '{}' of process {pid}", origin.tid, shown_name(&origin.name))
    };
    let threads = origins.iter().filter(|origin| !origin.is_log);
    let mut all: Vec<String> = threads.map(thread).collect();
    all.sort();
    all.dedup();
    let more = all.len().saturating_sub(FEW);
    let named = all.into_iter().take(FEW).collect::<Vec<_>>().join(", ");
    if more > 0 { format!("{named}, and {} more", Grouped(more as u64)) } else { named }
}

/// Says what is doubtful, and in detail what is known.
fn tell_clocks(clocks: &Clocks, messages: &mut Messages) {
    for (run, clock) in clocks.each() {
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
                "process {} has told the wall clock only once ('# run'), so nobody knows how long a tick is; \
                 taken for a nanosecond",
                run.pid
            ));
        }
    }
}
