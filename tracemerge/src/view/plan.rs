//! For views: the chosen files with whose they are, their clocks, and the parts of them that are wanted.

use std::iter;
use std::path::PathBuf;
use std::sync::Arc;

use jiff::tz::TimeZone;
use trace_format::line::{Line, Ticks};
use trace_format::meta::{ClockKind, Meta, Run};
use trace_format::wall::Wall;

use crate::file::lines::without_feed;
use crate::find::choose::Chosen;
use crate::find::header::Trace;
use crate::find::liveness::asking_once;
use crate::input::align::align;
use crate::input::findings::Findings;
use crate::input::foreign;
use crate::input::slice;
use crate::input::source::{SortedRange, Source};
use crate::time::clocks::{Clocks, TickClock, anchors_in};
use crate::time::when::{WallSpan, When};
use crate::ui::error::Error;
use crate::ui::messages::{Grouped, Messages, shown, shown_name};
use crate::view::breaks::{Breaks, Wanted};
use crate::view::export::Origin;
use crate::view::export::text::TimeMode;
use crate::view::options::View;
use crate::view::range::{self, Range, part_of};
use crate::view::records::lines_of;

/// A `# clock` line comes every ten seconds: in a shorter time there is none but the last.
const CLOCK_INTERVAL_NS: u64 = 10_000_000_000;
/// So many threads are named where none is the one that was asked for.
const FEW: usize = 12;

/// The chosen files, open.
pub struct Opened {
    /// By boot.
    pub boots: Vec<Vec<Source>>,
    /// Whose they are, those of all boots behind each other.
    pub origins: Vec<Origin>,
    /// From when to when all of them are; without meaning where no clock was needed.
    pub span: WallSpan,
    /// The zone of local times.
    pub zone: TimeZone,
    /// By boot, the ticks that are wanted.
    pub ranges: Vec<slice::TickSpan>,
    /// By boot, the ticks of the first line and of the last.
    ends: Vec<(u64, u64)>,
    /// Of each file, a run of the boot whose ticks its lines have, where that is not its own.
    references: Vec<Option<Run>>,
    /// Where ticks go back, by file, as far as that is known.
    breaks: Breaks,
}

/// Of each file the sorted pieces that have what is wanted of it.
pub type Plan = Vec<Vec<SortedRange>>;

impl Opened {
    /// Maps the files, and reads the logs `with`.
    ///
    /// # Errors
    /// Where no file can be mapped, or a log cannot be read.
    pub fn new(chosen: &Chosen, with: &[PathBuf], messages: &mut Messages) -> Result<Opened, Error> {
        let (mut boots, mut by_boot) = (Vec::new(), Vec::new());
        let mut is_alive = asking_once();
        let unknown = Arc::new(TickClock::of(ClockKind::Ordered, []));
        for files in &chosen.boots {
            let (mut sources, mut origins) = (Vec::new(), Vec::new());
            for (trace, opened) in files.iter().zip(Source::open_all(files, &mut is_alive)) {
                let parts = match opened {
                    Ok(parts) => parts,
                    Err(error) => {
                        messages.warn(error);
                        continue;
                    }
                };
                let name = parts.iter().find_map(|part| thread_name(&part.outline())).unwrap_or_default();
                let (run, tid, clock) = (trace.run.clone(), trace.tid, unknown.clone());
                let origin = Origin { run, tid, name, clock, is_shown: true, is_log: false };
                origins.extend(iter::repeat_n(origin, parts.len()));
                sources.extend(parts);
            }
            boots.push(sources);
            by_boot.push(origins);
        }
        if by_boot.iter().all(Vec::is_empty) {
            return Err(Error::plain("none of the trace files can be read"));
        }
        foreign::add(with, chosen, &mut boots, messages)?;
        for (sources, origins) in boots.iter().zip(&mut by_boot) {
            let logs = sources[origins.len()..].iter().map(|log| {
                let name =
                    log.path.file_name().map_or_else(Vec::new, |name| name.as_encoded_bytes().to_vec());
                Origin { run: None, tid: 0, name, clock: unknown.clone(), is_shown: true, is_log: true }
            });
            let logs: Vec<_> = logs.collect();
            origins.extend(logs);
        }
        let origins: Vec<Origin> = by_boot.into_iter().flatten().collect();
        let mut opened = Opened {
            boots,
            references: vec![None; origins.len()],
            breaks: Breaks::default(),
            origins,
            span: WallSpan { first: Wall(0), last: Wall(0) },
            zone: TimeZone::system(),
            ranges: Vec::new(),
            ends: chosen.boots.iter().map(|files| ends(files)).collect(),
        };
        opened.align(messages)?;
        Ok(opened)
    }

    /// Puts traces of several machines on one scale.
    fn align(&mut self, messages: &mut Messages) -> Result<(), Error> {
        let mut at = 0;
        let mut runs = Vec::with_capacity(self.boots.len());
        for sources in &self.boots {
            let origins = &self.origins[at..at + sources.len()];
            at += sources.len();
            runs.push(origins.iter().map(|origin| origin.run.clone()).collect::<Vec<_>>());
        }
        let all = align(&mut self.boots, &runs, messages)?;
        let (mut ends, mut at): (Vec<(u64, u64)>, _) = (Vec::new(), 0);
        for ((aligned, runs), &(first, last)) in all.into_iter().zip(&runs).zip(&self.ends) {
            self.references[at..at + runs.len()].fill(aligned.reference);
            at += runs.len();
            match (ends.last_mut(), &aligned.scale) {
                (Some(group), Some(scale)) if aligned.joins => {
                    *group = (group.0.min(scale.convert(first)), group.1.max(scale.convert(last)));
                }
                _ => ends.push((first, last)),
            }
        }
        self.ends = ends;
        Ok(())
    }

    /// The parts of each file that have what is wanted; none of a file that is not.
    ///
    /// # Errors
    /// Where there is no such thread, process or time.
    pub fn plan(&mut self, view: &View, messages: &mut Messages) -> Result<Plan, Error> {
        self.select(view)?;
        let shows_times = view.time != TimeMode::Ticks;
        let mut whens = [view.since, view.until].into_iter().flatten();
        let pieces = if shows_times || whens.any(When::needs_clock) {
            self.plan_by_clocks(view, shows_times, messages)?
        } else {
            self.cut(view)?
        };
        self.show_only(&pieces);
        for ((origin, source), pieces) in self.files().zip(&pieces).filter(|(_, pieces)| !pieces.is_empty()) {
            let bytes: usize = pieces.iter().map(|piece| piece.end - piece.start).sum();
            messages.detail(format_args!(
                "{}: thread {} '{}', {} of {} bytes",
                shown(&source.path),
                origin.tid,
                shown_name(&origin.name),
                Grouped(bytes as u64),
                Grouped(source.size() as u64),
            ));
        }
        Ok(pieces)
    }

    /// Reads what is planned, and plans anew if ticks go back there.
    ///
    /// # Errors
    /// There is no such thread, process or time.
    pub fn look_through(&mut self, view: &View, pieces: &mut Plan) -> Result<(), Error> {
        loop {
            if !self.breaks.look_through(&Wanted::all(&self.boots, &self.ranges, pieces)) {
                return Ok(());
            }
            self.select(view)?;
            *pieces = self.cut(view)?;
            self.show_only(pieces);
        }
    }

    /// Tells `findings` of a boot, the first of whose files is `at`, where ticks of its files are known to go back.
    pub fn tell_breaks(&self, at: usize, sources: &[Source], findings: &mut Findings) {
        (0..sources.len()).for_each(|number| self.breaks.tell(at + number, number, findings));
    }

    /// Of what nothing is in `pieces` is not shown.
    fn show_only(&mut self, pieces: &[Vec<SortedRange>]) {
        for (origin, pieces) in self.origins.iter_mut().zip(pieces) {
            origin.is_shown = pieces.iter().any(|piece| piece.start < piece.end);
        }
    }

    /// Reads the clocks first.
    fn plan_by_clocks(
        &mut self,
        view: &View,
        shows_times: bool,
        messages: &mut Messages,
    ) -> Result<Plan, Error> {
        let of_runs =
            self.files().filter_map(|(origin, source)| Some((origin.run.as_ref()?, source.outline())));
        let mut clocks = Clocks::read(of_runs, |_| None);
        self.set(&clocks);
        let mut pieces = self.cut(view)?;
        // What is shown will be read anyway, so the clock lines in it may be, too.
        if shows_times && self.span.last.0.saturating_sub(self.span.first.0) > CLOCK_INTERVAL_NS {
            let files = self.files().zip(&self.references).zip(&pieces);
            // The clock lines of another machine are no readings of this one's ticks.
            let parts = files.filter(|((_, reference), _)| reference.is_none());
            let parts = parts.filter_map(|(((origin, source), _), pieces)| {
                let text =
                    |piece: &SortedRange| source.bytes().get(piece.start..piece.end).unwrap_or_default();
                Some((origin.run.as_ref()?, pieces.iter().flat_map(move |piece| anchors_in(text(piece)))))
            });
            clocks.refine(parts);
            self.set(&clocks);
            pieces = self.cut(view)?;
        }
        tell_clocks(&clocks, messages);
        Ok(pieces)
    }

    /// Each file and whose it is.
    fn files(&self) -> impl Iterator<Item = (&Origin, &Source)> {
        self.origins.iter().zip(self.boots.iter().flatten())
    }

    /// Leaves out other threads and processes than are asked for.
    fn select(&mut self, view: &View) -> Result<(), Error> {
        for origin in &mut self.origins {
            // Who names a log wants to see it beside whatever is selected.
            let pid = origin.run.as_ref().map(|run| run.pid);
            origin.is_shown = origin.is_log || view.wants(pid, origin.tid, &origin.name);
        }
        if self.origins.iter().any(|origin| origin.is_shown && !origin.is_log) {
            return Ok(());
        }
        Err(Error::plain(format!(
            "there is no such thread or process here; there are {}",
            self.some_threads()
        )))
    }

    fn some_threads(&self) -> String {
        let thread = |origin: &Origin| {
            let pid = origin.run.as_ref().map_or_else(|| "?".to_owned(), |run| run.pid.to_string());
            format!("{} '{}' of process {pid}", origin.tid, shown_name(&origin.name))
        };
        let threads = self.origins.iter().filter(|origin| !origin.is_log);
        let mut all: Vec<String> = threads.map(thread).collect();
        all.sort();
        all.dedup();
        let more = all.len().saturating_sub(FEW);
        let named = all.into_iter().take(FEW).collect::<Vec<_>>().join(", ");
        if more > 0 { format!("{named}, and {} more", Grouped(more as u64)) } else { named }
    }

    /// Gives each file its clock, and finds out from when to when they are.
    fn set(&mut self, clocks: &Clocks) {
        let (mut first, mut last, mut at) = (Wall(u64::MAX), Wall(0), 0);
        for (sources, ends) in self.boots.iter().zip(&self.ends) {
            let here = at..at + sources.len();
            at = here.end;
            let (origins, references) = (&mut self.origins[here.clone()], &self.references[here]);
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
        self.span = WallSpan { first, last };
    }

    /// [`cut_out`](Opened::cut_out), with files split that show not to be sorted.
    fn cut(&mut self, view: &View) -> Result<Plan, Error> {
        loop {
            let pieces = self.cut_out(view)?;
            let wanted = Wanted::all(&self.boots, &self.ranges, &pieces);
            if !self.breaks.look_around(&wanted, view.head.is_some()) {
                return Ok(pieces);
            }
        }
    }

    /// Cuts out of each wanted file what is in the range of time, and of that what may have the last records.
    fn cut_out(&mut self, view: &View) -> Result<Plan, Error> {
        let mut pieces = Vec::with_capacity(self.origins.len());
        self.ranges.clear();
        for sources in &self.boots {
            let mut of_boot = slice::TickSpan::ALL;
            for (number, source) in sources.iter().enumerate() {
                let file = pieces.len();
                let origin = &self.origins[file];
                let ticks = |when: Option<When>, option| {
                    let ticks = when.map(|when| when.ticks(&origin.clock, self.span, &self.zone)).transpose();
                    ticks
                        .map(|ticks| ticks.map(|ticks| ticks.0))
                        .map_err(|why| Error::plain(format!("{option}: {why}")))
                };
                let range =
                    Range { since: ticks(view.since, "--since")?, until: ticks(view.until, "--until")? };
                of_boot = slice::TickSpan { since: range.since.unwrap_or(0), until: range.until };
                let parts = origin.is_shown.then(|| self.breaks.parts(file, number, source, range));
                pieces.push(parts.unwrap_or_default());
            }
            self.ranges.push(of_boot);
        }
        if let (Some(wanted), None) = (view.last, &view.grep) {
            self.cut_to_last(&mut pieces, wanted);
        }
        Ok(pieces)
    }

    /// Leaves out of `pieces` what is before the last `wanted` records, where there is only one boot to look at.
    fn cut_to_last(&mut self, pieces: &mut [Vec<SortedRange>], wanted: usize) {
        let ([sources], [of_boot]) = (&self.boots[..], &mut self.ranges[..]) else { return };
        let all: Vec<SortedRange> = pieces.iter().flatten().copied().collect();
        let Some(since) = range::since_for_last(sources, &all, *of_boot, wanted) else { return };
        of_boot.since = since;
        for piece in pieces.iter_mut().flatten() {
            *piece = part_of(*piece, &sources[piece.source], Range { since: Some(since), until: None });
        }
    }
}

/// The ticks of the first line and of the last.
fn ends(files: &[Trace]) -> (u64, u64) {
    let first = files.iter().map(|trace| trace.first).min();
    let last = files.iter().map(|trace| trace.last).max();
    (first.unwrap_or(0), last.unwrap_or(u64::MAX))
}

/// The name in the second line of a file.
pub fn thread_name(bytes: &[u8]) -> Option<Vec<u8>> {
    lines_of(bytes).take(2).find_map(|line| {
        match Meta::parse(Line::parse(without_feed(line)).ok()?.payload)? {
            Meta::Thread(thread) => Some(thread.name),
            _ => None,
        }
    })
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
