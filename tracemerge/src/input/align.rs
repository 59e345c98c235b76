//! Puts traces of several machines that ran at the same time on one scale of ticks, before they are merged.
//!
//! Ticks of different boots cannot be compared, so boots are merged one behind the other. But boots that overlap by the
//! wall clock belong to different machines. The lines of such machines, except the first, get the ticks that the first
//! machine had at the same wall time. The result is a trace in the ticks of the first machine. The order of lines of
//! different machines is as good as their wall clocks, unless messages between the machines prove a better order
//! (`align_by_messages`).

use std::collections::BTreeSet;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

use trace_format::line::{Kind, Line, Ticks, ticks_digits};
use trace_format::meta::{End, Meta, Run};
use trace_format::wait::Wait;

use crate::file::lines::{Token, line_at, skip_bad, strip_line_feed};
use crate::file::map::Map;
use crate::file::records::Records;
use crate::file::rendered::{LineSource, RecordNeeds};
use crate::input::align_by_messages::{Alignment, align_by_messages, steady};
use crate::input::source::{Content, Source, clocks_of};
use crate::input::sync::SyncPatterns;
use crate::time::clocks::{Clocks, TickClock};
use crate::time::order::{Order, largest_error};
use crate::ui::error::Error;
use crate::ui::messages::{Grouped, Messages, count};

/// The conversion of a file's ticks to the ticks of another machine, the reference.
#[derive(Clone, Debug)]
pub(crate) struct Scale {
    own: Arc<TickClock>,
    reference: Arc<TickClock>,
    /// The order of the clocks, as the messages between the machines prove it, and the number of the own clock in this
    /// order; `None` if the wall clocks decide instead.
    proved: Option<(Arc<Order>, u32)>,
    /// The largest possible error of a conversion by the wall clocks, in nanoseconds: the sum of the errors that the
    /// operating systems state for the own wall clock and for the reference's. `None` if one of them states no error.
    wall_error: Option<u64>,
}

impl Scale {
    /// Returns the clock of the machine on which the lines were recorded.
    #[must_use]
    pub(crate) fn own_clock(&self) -> &TickClock {
        &self.own
    }

    /// Returns the reference machine's ticks at the moment at which the own clock has `ticks`.
    #[must_use]
    pub(crate) fn convert(&self, ticks: u64) -> u64 {
        if let Some((order, clock)) = &self.proved {
            let time = order.time(*clock, steady(&self.own, Ticks(ticks)));
            return self.reference.ticks_at_steady(u64::try_from(time).unwrap_or(0)).0;
        }
        self.reference.ticks(self.own.ascending_wall(Ticks(ticks))).0
    }

    /// Returns the earliest and the latest time at which a line can have been recorded, in nanoseconds of the reference
    /// machine's steady time. `ticks` are the line's ticks after the conversion. An end is `None` if nothing limits it.
    #[must_use]
    pub(crate) fn limits(&self, ticks: Ticks) -> (Option<i64>, Option<i64>) {
        let time = self.time(ticks);
        let Some((order, clock)) = &self.proved else {
            let error = self.wall_error.map(|error| i64::try_from(error).unwrap_or(i64::MAX));
            return (
                error.map(|error| time.saturating_sub(error)),
                error.map(|error| time.saturating_add(error)),
            );
        };
        let (earliest, latest) = order.limits_at(*clock, time);
        (Some(earliest).filter(|time| *time != i64::MIN), Some(latest).filter(|time| *time != i64::MAX))
    }

    /// Returns the reference machine's steady time, in nanoseconds, when its counter has `ticks`.
    #[must_use]
    pub(crate) fn time(&self, ticks: Ticks) -> i64 {
        steady(&self.reference, ticks)
    }

    /// Returns the largest error of a converted time in the whole trace, in nanoseconds; `None` if nothing limits the
    /// error in a part of the trace.
    #[cfg(feature = "html")]
    #[must_use]
    pub(crate) fn largest_error_ns(&self) -> Option<u64> {
        let Some((order, clock)) = &self.proved else { return self.wall_error };
        let errors = order.errors(*clock);
        let knots = order.knots.get(*clock as usize).map_or(0, Vec::len);
        errors.last().copied().filter(|_| errors.len() == knots)
    }

    /// Returns by how many nanoseconds the time of a line may be wrong; `None` if the error has no limit on one side.
    /// `ticks` are the line's ticks after the conversion.
    #[must_use]
    pub(crate) fn error_ns(&self, ticks: Ticks) -> Option<u64> {
        let (earliest, latest) = self.limits(ticks);
        largest_error(self.time(ticks), (earliest?, latest?))
    }
}

/// The result of `align` for the traces of one boot.
#[derive(Clone, Debug, Default)]
pub(crate) struct Aligned {
    /// Whether the boot's traces are merged together with those of the previous boot, in the same ticks.
    pub joins: bool,
    /// The conversion of the ticks of the boot's first run; `None` if its ticks were not converted.
    pub scale: Option<Scale>,
    /// A run of the reference boot, to whose ticks the lines were converted; `None` if they were not converted.
    pub reference: Option<Run>,
}

/// Tells the user that the patterns of `--sync` have no effect, because all traces are of one machine.
pub(crate) fn note_one_machine(sync: &[SyncPatterns], messages: &mut Messages) {
    if !sync.is_empty() {
        messages.note(
            "--sync has no effect: it needs the traces of two machines, and all traces here are of one, which has one clock",
        );
    }
}

/// Puts the sources of boots that overlap in time into one group, and converts the ticks of a group to those of its
/// first boot. If `sync` finds messages between boots, all boots become one group. `runs` are the runs of the sources.
/// Returns the results in the order that `boots` had before the call.
///
/// # Errors
/// No space is left for the lines with converted ticks.
pub(crate) fn align(
    boots: &mut Vec<Vec<Source>>,
    runs: &[Vec<Option<Run>>],
    sync: &[SyncPatterns],
    messages: &mut Messages,
) -> Result<Vec<Aligned>, Error> {
    let mut all = vec![Aligned::default(); boots.len()];
    if boots.len() < 2 {
        note_one_machine(sync, messages);
        return Ok(all);
    }
    let files = boots.iter().zip(runs).flat_map(|(sources, runs)| runs.iter().zip(sources));
    let mut clocks = clocks_of(files.filter_map(|(run, source)| Some((run.as_ref()?, source))));
    if !sync.is_empty() {
        if let Some(alignment) = align_by_messages(boots, runs, &clocks, sync, messages) {
            return join_all(boots, runs, &clocks, &alignment);
        }
    }
    let references = join_groups(boots, runs, &clocks);
    let machines = references.iter().enumerate().filter(|(place, reference)| place != *reference).count();
    if machines > 0 {
        // The lines get other ticks, so all bytes are read anyway.
        clocks.refine(boots.iter().zip(runs).flat_map(|(sources, runs)| {
            let files = runs.iter().zip(sources);
            files.filter_map(|(run, source)| Some((run.as_ref()?, source.anchors())))
        }));
        report(&clocks, machines as u64 + 1, messages);
    }
    for (place, reference) in references.into_iter().enumerate().filter(|(place, of)| place != of) {
        let scale = rekey(&mut boots[place], &runs[place], &runs[reference], &clocks, None)?;
        all[place] = Aligned { joins: true, scale, reference: first_run(&runs[reference]).cloned() };
    }
    let mut joined: Vec<Vec<Source>> = Vec::new();
    for (sources, aligned) in std::mem::take(boots).into_iter().zip(&all) {
        match joined.last_mut() {
            Some(group) if aligned.joins => group.extend(sources),
            _ => joined.push(sources),
        }
    }
    *boots = joined;
    Ok(all)
}

/// Returns for each boot the index of the boot to whose ticks its lines are converted: the first boot of a group of
/// boots that overlap in time by the wall clock. If a boot overlaps no other one, this is its own index.
pub(super) fn join_groups(boots: &[Vec<Source>], runs: &[Vec<Option<Run>>], clocks: &Clocks) -> Vec<usize> {
    let periods: Vec<_> =
        boots.iter().zip(runs).map(|(sources, runs)| period(sources, runs, clocks)).collect();
    references(&periods)
}

/// Returns for each boot the index of the first boot in its group, to whose ticks its lines are converted. `periods`
/// are the wall times of the boots, sorted by their beginnings. A boot that begins before the group of the previous
/// boot has ended belongs to that group; otherwise it begins a new group.
fn references(periods: &[Option<(u64, u64)>]) -> Vec<usize> {
    let (mut reference, mut end) = (0, None);
    let mut references = Vec::with_capacity(periods.len());
    for (place, period) in periods.iter().enumerate() {
        let joins = period.zip(end).is_some_and(|((first, _), end)| first <= end);
        if !joins {
            reference = place;
        }
        references.push(reference);
        end = period.map(|(_, last)| end.filter(|_| joins).map_or(last, |end: u64| end.max(last)));
    }
    references
}

/// Converts the ticks of all boots to those of the reference boot in `alignment`, and puts their sources into one
/// group, so that `boots` has one element afterwards. Sources whose clock is not known keep their ticks.
fn join_all(
    boots: &mut Vec<Vec<Source>>,
    runs: &[Vec<Option<Run>>],
    clocks: &Clocks,
    alignment: &Alignment,
) -> Result<Vec<Aligned>, Error> {
    let reference = alignment.reference;
    let mut all = Vec::with_capacity(boots.len());
    for (place, number) in alignment.numbers.iter().enumerate() {
        let mut aligned = Aligned { joins: place > 0, ..Aligned::default() };
        if place != reference {
            let proved = number.map(|number| (alignment.order.clone(), number));
            aligned.scale = rekey(&mut boots[place], &runs[place], &runs[reference], clocks, proved)?;
            aligned.reference = first_run(&runs[reference]).cloned();
        }
        all.push(aligned);
    }
    *boots = vec![std::mem::take(boots).into_iter().flatten().collect()];
    Ok(all)
}

fn first_run(runs: &[Option<Run>]) -> Option<&Run> {
    runs.iter().flatten().next()
}

/// Returns the wall times of the first and of the last line of a boot; `None` if the boot's clock is not known.
fn period(sources: &[Source], runs: &[Option<Run>], clocks: &Clocks) -> Option<(u64, u64)> {
    let clock = clocks.of(first_run(runs)?).filter(|clock| clock.rate_is_known())?;
    let ends = || sources.iter().filter_map(Source::ends);
    let (first, last) = (ends().map(|ends| ends.0).min()?, ends().map(|ends| ends.1).max()?);
    Some((clock.wall(Ticks(first)).0, clock.wall(Ticks(last)).0))
}

/// Converts the ticks of `sources`, which belong to the `runs` of one boot, to the ticks of another boot, whose runs
/// are `references`. Returns the conversion for the first run; `None` if a clock is not known.
fn rekey(
    sources: &mut [Source],
    runs: &[Option<Run>],
    references: &[Option<Run>],
    clocks: &Clocks,
    proved: Option<(Arc<Order>, u32)>,
) -> Result<Option<Scale>, Error> {
    let Some(reference) = first_run(references).and_then(|run| clocks.of(run)) else { return Ok(None) };
    let mut scale = None;
    for (source, run) in sources.iter_mut().zip(runs) {
        // A file that does not name its run uses the clock of its neighbours.
        let Some(own) = run.as_ref().or(first_run(runs)).and_then(|run| clocks.of(run)) else { continue };
        let wall_error =
            stated_error(own).zip(stated_error(reference)).map(|(own, other)| own.saturating_add(other));
        let (own, reference) = (own.clone(), reference.clone());
        let converted = Scale { own, reference, proved: proved.clone(), wall_error };
        if let Content::Text(text) = source.content() {
            let map = convert_to_file(text, &converted)
                .map_err(|error| Error::io("write a temporary file for the lines of", &source.path, error))?;
            *source = Source::of_map(&source.path, map);
        } else {
            let scale = converted.clone();
            source.change(|own| Box::new(ScaledSource { own, scale }));
        }
        scale.get_or_insert(converted);
    }
    Ok(scale)
}

/// Returns the largest error that the operating system states for the machine's wall clock, in nanoseconds; `None` if
/// it states no error.
pub(crate) fn stated_error(clock: &TickClock) -> Option<u64> {
    clock.anchors().iter().filter_map(|anchor| anchor.error).max()
}

/// A source that renders its lines, and whose ticks are converted to those of another machine.
#[derive(Debug)]
struct ScaledSource {
    own: Box<dyn LineSource>,
    scale: Scale,
}

impl ScaledSource {
    /// Returns the smallest of the source's own ticks whose conversion is `ticks` or more.
    fn own_ticks(&self, ticks: u64) -> u64 {
        let Some((first, last)) = self.own.period() else { return ticks };
        let (mut low, mut high) = (first, last.saturating_add(1));
        while low < high {
            let middle = low.midpoint(high);
            if self.scale.convert(middle) < ticks { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// Converts a range of the reference machine's ticks to a range of the source's own ticks.
    fn own_times(&self, from: u64, until: Option<u64>) -> (u64, Option<u64>) {
        (if from == 0 { 0 } else { self.own_ticks(from) }, until.map(|until| self.own_ticks(until)))
    }
}

impl LineSource for ScaledSource {
    fn period(&self) -> Option<(u64, u64)> {
        let (first, last) = self.own.period()?;
        Some((self.scale.convert(first), self.scale.convert(last)))
    }

    fn bytes_before(&self, ticks: u64) -> u64 {
        if ticks == u64::MAX { self.own.size() } else { self.own.bytes_before(self.own_ticks(ticks)) }
    }

    fn outline(&self) -> Vec<u8> {
        convert_lines(&self.own.outline(), &self.scale)
    }

    fn each_meta(&self, take: &mut dyn FnMut(&[u8])) {
        self.own.each_meta(&mut |payload| {
            // Names are placed among the lines, by their ticks.
            let name = payload.starts_with(b"name ").then(|| convert_meta(payload, &self.scale)).flatten();
            take(name.as_deref().unwrap_or(payload));
        });
    }

    fn newest_first(&self) -> Box<dyn Iterator<Item = u64> + '_> {
        Box::new(self.own.newest_first().map(|ticks| self.scale.convert(ticks)))
    }

    fn has_sites(&self) -> bool {
        self.own.has_sites()
    }

    fn leave_out_shorter_calls(&mut self, ticks: u64) {
        self.own.leave_out_shorter_calls(ticks);
    }

    fn lines(&self, from: u64, until: Option<u64>, out: &mut Vec<u8>, damaged: &mut dyn FnMut(usize, usize)) {
        let (from, until) = self.own_times(from, until);
        let mut lines = Vec::new();
        self.own.lines(from, until, &mut lines, damaged);
        out.append(&mut convert_lines(&lines, &self.scale));
    }

    fn records(
        &self,
        (from, until): (u64, Option<u64>),
        wanted: &RecordNeeds,
        out: &mut Records,
        damaged: &mut dyn FnMut(usize, usize),
    ) -> bool {
        let start = out.len();
        let is_in_order = self.own.records(self.own_times(from, until), wanted, out, damaged);
        out.change_ticks(start, |ticks| self.scale.convert(ticks), |lines| convert_lines(lines, &self.scale));
        is_in_order
    }
}

/// Returns `lines` after the conversion of their ticks.
fn convert_lines(lines: &[u8], scale: &Scale) -> Vec<u8> {
    let mut out = Vec::with_capacity(lines.len());
    // Writing to memory does not fail.
    let _ = rewrite(lines, scale, &mut out);
    out
}

/// Converts the ticks of `lines`, writes the result into a temporary file without a name, and maps this file.
fn convert_to_file(lines: &[u8], scale: &Scale) -> io::Result<Map> {
    let mut out = BufWriter::with_capacity(1 << 20, tempfile::tempfile()?);
    rewrite(lines, scale, &mut out)?;
    let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
    Map::of_file(&file, Path::new("")).map_err(io::Error::other)
}

fn rewrite(bytes: &[u8], scale: &Scale, out: &mut impl Write) -> io::Result<()> {
    let mut at = 0;
    loop {
        let end = match line_at(bytes, at) {
            Token::End => return Ok(()),
            Token::Bad => {
                let end = skip_bad(bytes, at);
                out.write_all(&bytes[at..end])?;
                end
            }
            Token::Line(line) => {
                out.write_all(&ticks_digits(Ticks(scale.convert(line.ticks))))?;
                let text = &bytes[at..line.end];
                match line.meta.then(|| anchor_line(text, scale)).flatten() {
                    Some(text) => out.write_all(&text)?,
                    None => out.write_all(&text[trace_format::line::TICKS_DIGITS..])?,
                }
                line.end
            }
        };
        at = end;
    }
}

/// Converts the ticks in the payload of a `#` line. Returns the line without its own ticks, with which a line begins.
/// Returns `None` if the payload has no ticks to convert.
fn anchor_line(text: &[u8], scale: &Scale) -> Option<Vec<u8>> {
    let line = Line::parse(strip_line_feed(text)).ok()?;
    let (payload, mut out) = (convert_meta(line.payload, scale)?, Vec::new());
    Line { key: line.key, kind: Kind::Meta, payload: &payload }.write(&mut out);
    let end = if text.ends_with(b"\n") { out.len() } else { out.len() - 1 };
    Some(out[trace_format::line::TICKS_DIGITS..end].to_vec())
}

/// Returns the payload of a `#` line after the conversion of the ticks in it; `None` if it has no ticks to convert.
fn convert_meta(payload: &[u8], scale: &Scale) -> Option<Vec<u8>> {
    let convert = |ticks: Ticks| Ticks(scale.convert(ticks.0));
    let meta = match Meta::parse(payload)? {
        Meta::Run(run) => Meta::Run(Run { ticks: convert(run.ticks), ..run }),
        Meta::Clock { ticks, wall, system } => Meta::Clock { ticks: convert(ticks), wall, system },
        Meta::Switched { on, ticks } => Meta::Switched { on, ticks: convert(ticks) },
        Meta::Name { ticks, name } => Meta::Name { ticks: convert(ticks), name },
        Meta::Wait(wait) => Meta::Wait(Wait { begin: convert(wait.begin), end: convert(wait.end), ..wait }),
        Meta::End(end) if end.seen.is_some() => Meta::End(End { seen: end.seen.map(convert), ..end }),
        _ => return None,
    };
    let mut converted = Vec::new();
    meta.write(&mut converted);
    Some(converted)
}

/// Reports that lines with different scales of ticks were put on one scale. The scales are those of several machines,
/// or of two clocks of one machine.
fn report(clocks: &Clocks, scales: u64, messages: &mut Messages) {
    let strayed = clocks.each().map(|(_, clock)| clock.uncertainty_ns()).max().unwrap_or(0);
    let strayed = Grouped(strayed);
    let boots: BTreeSet<&[u8]> = clocks.each().map(|(run, _)| &run.boot[..]).collect();
    if boots.len() == 1 {
        return messages.note(format_args!(
            "the runs were recorded with two clocks, the processor's counter and the system's (TRACER_CLOCK): \
             their lines are put in order by the wall clock, with the ticks of the first run. If the wall clock \
             was not set meanwhile, lines are at most {strayed} ns out of order"
        ));
    }
    messages.note(format_args!(
        "{} traced at the same time: their lines are put in order by the wall clock, with the ticks of the first \
         machine. Each wall clock strayed by at most {strayed} ns against its machine's counter; the traces do not \
         record how far apart the machines' wall clocks were",
        count(scales, "machine"),
    ));
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace_format::meta::ClockKind;
    use trace_format::meta::SystemClocks;
    use trace_format::wall::Wall;

    const S: u64 = 1_000_000_000;

    /// Makes the trace of a machine whose clock has `rate` ticks per nanosecond and the ticks `first` at the wall time
    /// `wall`, with a message each second.
    fn machine(boot: &str, first: u64, rate: u64, wall: u64, seconds: u64) -> (Run, Source) {
        let run = Run {
            version: 1,
            id: 1,
            root: 1,
            pid: 7,
            exe: b"/app".to_vec(),
            boot: boot.into(),
            ticks: Ticks(first),
            wall: Wall(wall),
            clock: ClockKind::Ordered,
        };
        let mut text = Vec::new();
        let mut put = |ticks: u64, kind, payload: &[u8]| {
            let key = trace_format::line::Key { ticks: Ticks(ticks), tid: 9 };
            Line { key, kind, payload }.write(&mut text);
        };
        let mut payload = Vec::new();
        Meta::Run(run.clone()).write(&mut payload);
        put(first, Kind::Meta, &payload);
        for n in 0..=seconds {
            put(first + n * S * rate, Kind::Message, format!("{boot} {n}").as_bytes());
        }
        let last = first + seconds * S * rate;
        payload.clear();
        Meta::Clock { ticks: Ticks(last), wall: Wall(wall + seconds * S), system: SystemClocks::default() }
            .write(&mut payload);
        put(last, Kind::Meta, &payload);
        (run, Source::of(boot, &text))
    }

    fn aligned(machines: Vec<(Run, Source)>) -> (Vec<Vec<Source>>, Vec<Aligned>) {
        let (runs, mut boots): (Vec<_>, Vec<_>) =
            machines.into_iter().map(|(run, source)| (vec![Some(run)], vec![source])).unzip();
        let all = align(&mut boots, &runs, &[], &mut Messages::new(true)).unwrap();
        (boots, all)
    }

    #[test]
    fn overlapping_machines_get_the_ticks_of_the_first() {
        let machines = vec![
            machine("a", 5000, 3, 100 * S, 10),
            machine("b", 77, 2, 104 * S, 10),
            machine("c", 1, 1, 200 * S, 3),
        ];
        let before: Vec<Vec<u8>> = machines.iter().map(|(_, source)| source.bytes().to_vec()).collect();
        let (boots, all) = aligned(machines);
        assert_eq!(boots.iter().map(Vec::len).collect::<Vec<_>>(), [2, 1]);
        assert_eq!(all.iter().map(|aligned| aligned.joins).collect::<Vec<_>>(), [false, true, false]);
        assert_eq!(boots[0][0].bytes(), before[0]);
        assert_eq!(boots[1][0].bytes(), before[2]);
        // Lines of b get the ticks that lines of a would have four seconds later.
        let (_, expected) = machine("b", 5000 + 4 * S * 3, 3, 104 * S, 10);
        assert_eq!(String::from_utf8_lossy(boots[0][1].bytes()), String::from_utf8_lossy(expected.bytes()));
        assert_eq!(all[1].scale.as_ref().unwrap().convert(77), 5000 + 12 * S);
    }

    #[test]
    fn machines_that_do_not_overlap_are_not_aligned() {
        let (boots, all) =
            aligned(vec![machine("a", 5000, 3, 100 * S, 10), machine("b", 77, 2, 111 * S, 10)]);
        assert_eq!(boots.len(), 2);
        assert!(all.iter().all(|aligned| !aligned.joins));
    }
}
