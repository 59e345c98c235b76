//! The part of a data set that a command wants. The rest is not read, as far as the metadata of the set's files show
//! that it is not wanted.
//!
//! Only lines that no view of the wanted part needs are left out. These lines of a thread are always kept: `#` lines,
//! calls that enter spans, and the time of the last line.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::Path;

use jiff::tz::TimeZone;
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::reader::{FileReader, RowGroupReader};
use trace_format::line::Ticks;
use trace_format::meta::{Meta, Run};

use super::columns::{BATCH, Column, dictionary, integers, is_empty, only_text};
use crate::file::parquet::{guarded, open};
use crate::find::part::Part;
use crate::find::set_files::FilePlace;
use crate::time::anchor::Anchor;
use crate::time::clocks::{Clocks, TickClock};
use crate::time::point_of_time::{Period, When};

/// The number of nanoseconds by which the wanted period is extended on both sides. It is more than the difference
/// between the clocks of this module and those of the view, which are computed from different readings.
const AROUND_NS: u64 = 1_000_000_000;

/// The wanted ticks of a boot: the first wanted ticks, and the first ticks after the wanted ones.
pub(super) type Bounds = (u64, u64);
const EVERYTHING: Bounds = (0, u64::MAX);
/// The bounds of a thread that is not wanted.
pub(super) const NOTHING: Bounds = (u64::MAX, 0);

/// The wanted part of a set: the ticks, processes and threads to read, in the types of the set's columns.
#[derive(Debug, Default)]
pub(super) struct Limits {
    /// The wanted ticks of each boot; `None` if all are wanted.
    by_boot: Option<HashMap<String, Bounds>>,
    processes: Vec<i64>,
    threads: Vec<i64>,
    /// The ids of the wanted threads as text: a thread whose label contains such a text may be wanted, too.
    numbers: Vec<String>,
}

/// The part of a row group that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// Nothing of the row group is read.
    Nothing,
    /// The wanted rows, and the other rows that are always kept. If the flag is true, calls are followed even in rows
    /// that are not wanted, because they may enter spans.
    Wanted(bool),
}

impl Limits {
    /// Returns the limits for reading `part` of the set at `set`, which consists of `files`.
    pub(super) fn of(part: &Part, set: &Path, files: &[FilePlace]) -> Limits {
        let has_period = part.since.is_some() || part.until.is_some();
        // If a file cannot be read, all rows are wanted, and reading them shows the error.
        let by_boot = has_period
            .then(|| guarded(|| Ok(bounds_of_boots(part, set, files).ok().flatten())).ok().flatten());
        Limits {
            by_boot: by_boot.flatten(),
            processes: part.processes.iter().map(|pid| i64::from(*pid)).collect(),
            threads: part.threads.iter().map(|tid| i64::from_ne_bytes(tid.to_ne_bytes())).collect(),
            numbers: part.threads.iter().map(u64::to_string).collect(),
        }
    }

    /// Returns whether there are no limits, so that all rows are wanted.
    pub(super) fn are_none(&self) -> bool {
        self.by_boot.is_none() && self.processes.is_empty() && self.threads.is_empty()
    }

    /// Returns the wanted ticks of a boot.
    pub(super) fn bounds(&self, boot: Option<&str>) -> Bounds {
        let of_boot = self.by_boot.as_ref().zip(boot).and_then(|(bounds, boot)| bounds.get(boot));
        of_boot.copied().unwrap_or(EVERYTHING)
    }

    /// Returns whether a thread may be wanted, given its process id, its id and its label.
    pub(super) fn wants_thread(&self, pid: Option<i64>, tid: i64, label: &str) -> bool {
        let of_process = self.processes.is_empty() || pid.is_none_or(|pid| self.processes.contains(&pid));
        of_process && (self.threads.is_empty() || self.threads.contains(&tid) || self.has_number(label))
    }

    /// Returns whether a label contains the id of a wanted thread.
    fn has_number(&self, label: &str) -> bool {
        self.numbers.iter().any(|number| label.contains(&number[..]))
    }

    /// Returns the part of a row group that is read. If the row group is the last one of its file (`is_last`), it is
    /// always read, because it shows the time of each thread's last line.
    pub(super) fn extent(&self, group: &dyn RowGroupReader, is_last: bool) -> Extent {
        let of = group.metadata();
        let has_spans = !is_empty(of, "span");
        if is_last || !self.excludes(group) {
            return Extent::Wanted(has_spans);
        }
        let Some(kinds) = dictionary(group, "kind") else { return Extent::Wanted(has_spans) };
        let may_go = |kind: &String| match RowKind::of(kind) {
            RowKind::Plain => true,
            RowKind::Call => !has_spans,
            RowKind::Statement => false,
        };
        if kinds.iter().all(may_go) { Extent::Nothing } else { Extent::Wanted(has_spans) }
    }

    /// Returns whether the statistics of a row group show that no row is wanted.
    fn excludes(&self, group: &dyn RowGroupReader) -> bool {
        let of = group.metadata();
        let none_between = |wanted: &[i64], name| {
            let limits = integers(of, name);
            !wanted.is_empty()
                && limits.is_some_and(|(least, greatest)| {
                    wanted.iter().all(|wanted| !(least..=greatest).contains(wanted))
                })
        };
        if none_between(&self.processes, "pid") {
            return true;
        }
        let has_no_label = || {
            dictionary(group, "thread")
                .is_some_and(|labels| labels.iter().all(|label| !self.has_number(label)))
        };
        if none_between(&self.threads, "tid") && has_no_label() {
            return true;
        }
        let (since, until) = self.bounds(only_text(of, "boot"));
        ticks_of(of).is_some_and(|(first, last)| last < since || first >= until)
    }
}

/// The kind of a row, which decides whether the row can be left out if it is not wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowKind {
    /// A row that can be left out: the meaning of the other rows does not depend on it.
    Plain,
    /// A row for entering or leaving a call. The call may enter a span that contains later calls.
    Call,
    /// A statement about the thread, the run or the clocks.
    Statement,
}

impl RowKind {
    pub(super) fn of(kind: &str) -> RowKind {
        match kind {
            "message" | "lock" | "stack" => RowKind::Plain,
            "enter" | "leave" => RowKind::Call,
            _ => RowKind::Statement,
        }
    }
}

/// Returns the smallest and the largest ticks of a row group, according to its statistics.
fn ticks_of(group: &RowGroupMetaData) -> Option<Bounds> {
    let (first, last) = integers(group, "ticks")?;
    // Ticks from 2^63 on stand as negative numbers.
    (first >= 0).then(|| (first.unsigned_abs(), last.unsigned_abs()))
}

/// Returns the wanted ticks of each boot; `None` if they cannot be determined from the files.
fn bounds_of_boots(
    part: &Part,
    set: &Path,
    files: &[FilePlace],
) -> io::Result<Option<HashMap<String, Bounds>>> {
    let mut runs = HashMap::new();
    for place in files.iter().filter(|place| place.table == "clocks") {
        read_clocks(&place.path_in(set), &mut runs)?;
    }
    let mut ends = HashMap::<String, Bounds>::new();
    for place in files.iter().filter(|place| place.table == super::RECORDS) {
        let reader = open(File::open(place.path_in(set))?)?;
        for group in reader.metadata().row_groups() {
            let Some((boot, (first, last))) = only_text(group, "boot").zip(ticks_of(group)) else {
                return Ok(None);
            };
            let of_boot = ends.entry(boot.to_owned()).or_insert((first, last));
            *of_boot = (of_boot.0.min(first), of_boot.1.max(last));
        }
    }
    let known: Vec<(Run, Vec<Anchor>)> =
        runs.into_values().filter_map(|(run, anchors)| Some((run?, anchors))).collect();
    let all = |anchors: &[Anchor]| anchors.to_vec();
    let outer =
        |anchors: &[Anchor]| anchors.iter().min().into_iter().chain(anchors.iter().max()).copied().collect();
    let all = bounds_by(part, &ends, &clocks_through(&known, all));
    let outer = bounds_by(part, &ends, &clocks_through(&known, outer));
    // A view takes the outer readings of each file, and the others near the wanted lines.
    Ok(all.zip(outer).map(|(all, outer)| {
        let both = |(boot, (since, until)): (String, Bounds)| {
            let (other_since, other_until) = outer.get(&boot).copied().unwrap_or(EVERYTHING);
            (boot, (since.min(other_since), until.max(other_until)))
        };
        all.into_iter().map(both).collect()
    }))
}

/// Returns the clocks of all boots. They are computed from those readings of each thread that `some` selects.
fn clocks_through(threads: &[(Run, Vec<Anchor>)], some: impl Fn(&[Anchor]) -> Vec<Anchor>) -> Clocks {
    Clocks::through(threads.iter().map(|(run, anchors)| (run, some(anchors))))
}

/// Returns the wanted ticks of each boot according to `clocks`; `None` if they cannot be determined, for example
/// because a boot has no clock or a time may have several ticks. `ends` are the ticks of the first and of the last row
/// of each boot.
fn bounds_by(
    part: &Part,
    ends: &HashMap<String, Bounds>,
    clocks: &Clocks,
) -> Option<HashMap<String, Bounds>> {
    let mut by_boot = HashMap::<String, &TickClock>::new();
    for (run, clock) in clocks.each() {
        let boot = String::from_utf8_lossy(&run.boot).into_owned();
        // If the wall clock was set, or if runs of a boot have different clocks, a time may have several places.
        if by_boot.insert(boot, clock).is_some() || !clock.steps().is_empty() {
            return None;
        }
    }
    if ends.keys().any(|boot| !by_boot.contains_key(boot)) {
        return None;
    }
    let mut period = Period::NONE;
    for (boot, (first, last)) in ends {
        if let Some(clock) = by_boot.get(boot) {
            period.include(clock, (Ticks(*first), Ticks(*last)));
        }
    }
    let zone = TimeZone::system();
    let mut bounds = HashMap::new();
    for (boot, clock) in by_boot {
        let ticks = |when: Option<When>| when.map(|when| when.ticks(clock, period, &zone)).transpose();
        // The plan of the view reports the error.
        let (Ok(since), Ok(until)) = (ticks(part.since), ticks(part.until)) else { return None };
        let earlier = |ticks| clock.ticks_at_steady(clock.steady(ticks).saturating_sub(AROUND_NS)).0;
        let later = |ticks| clock.ticks_at_steady(clock.steady(ticks).saturating_add(AROUND_NS)).0;
        bounds.insert(boot, (since.map_or(0, earlier), until.map_or(u64::MAX, later)));
    }
    Some(bounds)
}

/// The run and the clock readings of each thread of a set. The key is the machine, the name of the run, and the thread
/// id.
type Readings = HashMap<(String, String, Option<i64>), (Option<Run>, Vec<Anchor>)>;

/// Adds the clock readings in a file of the table `clocks` to `runs`.
fn read_clocks(path: &Path, runs: &mut Readings) -> io::Result<()> {
    let reader = open(File::open(path)?)?;
    for number in 0..reader.num_row_groups() {
        let group = reader.get_row_group(number).map_err(io::Error::other)?;
        let open = |name| Column::open(&*group, name).map_err(io::Error::other);
        let (mut host, mut run, mut tid, mut reading) =
            (open("host")?, open("run")?, open("tid")?, open("reading")?);
        let mut left = usize::try_from(group.metadata().num_rows()).unwrap_or(0);
        while left > 0 {
            let rows = left.min(BATCH);
            left -= rows;
            [&mut host, &mut run, &mut tid, &mut reading]
                .into_iter()
                .try_for_each(|column| column.read(rows))?;
            for _ in 0..rows {
                let (host, run, tid, reading) = (host.text()?, run.text()?, tid.integer(), reading.text()?);
                let Some(meta) = reading.and_then(|reading| Meta::parse(reading.as_bytes())) else {
                    continue;
                };
                let [host, run] = [host, run].map(|text| text.unwrap_or_default().to_owned());
                let key = (host, run, tid);
                let of_run: &mut (Option<Run>, Vec<Anchor>) = runs.entry(key).or_default();
                of_run.1.extend(Anchor::of_meta(&meta));
                if let Meta::Run(run) = meta {
                    of_run.0 = Some(run);
                }
            }
        }
    }
    Ok(())
}
