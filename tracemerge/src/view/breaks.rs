//! The files that are known to be non-monotonic, and the sorted ranges into which their breaks divide them.
//!
//! A file becomes non-monotonic only by damage. A search for a period in such a file finds only one of several places
//! at which the period may begin, so a view would miss lines. The merge notices breaks inside the bytes that it shows.
//! Outside those bytes, this module samples lines: all lines within a page, then fewer lines with growing distance, but
//! at least one in each sixteenth of a region. So it notices a clock that was set back, and a stray line nearby. It
//! does not notice a stray line far away: that would require reading all bytes, as `tracemerge check` does.

use std::collections::BTreeMap;
use std::ops;

use crate::file::lines::next_line_after;
use crate::input::boundary::Boundary;
use crate::input::findings::Findings;
use crate::input::slice::TickPeriod;
use crate::input::source::{Break, Content, SortedRange, Source, breaks};
use crate::os::processors::map_on_all_processors;
use crate::view::byte_range::narrowed;

/// The number of bytes right before and right after a wanted range in which every line is examined.
const NEAR_BYTES: usize = 4096;
/// The least number of lines that [`ascends`] examines in a region of a file. In a larger region, the examined lines
/// are further apart.
const MIN_EXAMINED_LINES: usize = 16;

/// The breaks of files, by the index of the file among all files. Only files that were read completely are here; a file
/// is read completely if its ticks are found to go back somewhere.
#[derive(Debug, Default)]
pub(crate) struct Breaks(BTreeMap<usize, Vec<Break>>);

/// A file, and the ranges of its bytes that a view needs.
pub(crate) struct WantedRanges<'a> {
    /// The index of the file among the files of all boots.
    pub file: usize,
    /// The source that has the file's lines.
    pub source: &'a Source,
    /// The sorted ranges of the file that have the wanted lines.
    pub ranges: &'a [SortedRange],
    /// The period that contains the ticks of the wanted lines.
    pub period: TickPeriod,
}

impl<'a> WantedRanges<'a> {
    /// Returns the wanted ranges of all files. `periods` has the wanted ticks of each boot, and `ranges` the wanted
    /// ranges of each file, in the order of `boots`.
    #[must_use]
    pub(crate) fn all(
        boots: &'a [Vec<Source>],
        periods: &[TickPeriod],
        ranges: &'a [Vec<SortedRange>],
    ) -> Vec<WantedRanges<'a>> {
        let files = boots
            .iter()
            .zip(periods)
            .flat_map(|(sources, period)| sources.iter().map(move |source| (source, *period)));
        let wanted = |(file, ((source, period), ranges)): (usize, (_, &'a Vec<SortedRange>))| WantedRanges {
            file,
            source,
            ranges,
            period,
        };
        files.zip(ranges).enumerate().map(wanted).collect()
    }

    /// Returns the number of bytes in the wanted ranges.
    fn bytes(&self) -> usize {
        self.ranges.iter().map(|range| range.end - range.start).sum()
    }
}

impl Breaks {
    /// Returns the sorted ranges of `file` that contain the lines in `period`. `number` is the index of the file's
    /// `source` among those of its boot.
    #[must_use]
    pub(crate) fn ranges(
        &self,
        file: usize,
        number: usize,
        source: &Source,
        period: TickPeriod,
    ) -> Vec<SortedRange> {
        let mut rest = SortedRange { source: number, start: 0, end: source.bytes().len() };
        let Some(breaks) = self.0.get(&file) else { return vec![narrowed(rest, source, period)] };
        let mut ranges = Vec::with_capacity(breaks.len() + 1);
        for end in breaks.iter().map(|(at, ..)| *at).chain([rest.end]) {
            ranges.push(narrowed(SortedRange { end, ..rest }, source, period));
            rest.start = end;
        }
        ranges.retain(|range| range.start < range.end);
        ranges
    }

    /// Examines a few lines outside the wanted ranges, and a few lines `inside` them if the merge may stop before
    /// their end. Reads a file completely if these lines are out of order. Returns whether it has read any file
    /// completely.
    pub(crate) fn check_edges(&mut self, wanted: &[WantedRanges<'_>], inside: bool) -> bool {
        self.read(
            wanted,
            // A few lines of each file do not justify a thread.
            |_| 0,
            |wanted| {
                let [range] = wanted.ranges else { return false };
                let (bytes, TickPeriod { since, until }) = (wanted.source.bytes(), wanted.period);
                let is_before = |ticks| ticks < since;
                let is_behind = |ticks| until.is_none_or(|until| ticks >= until);
                // The merge searches the range for the period again, and must find all of it.
                narrowed(*range, wanted.source, wanted.period) != *range
                    || !ascends(bytes, 0..range.start, Side::End, is_before)
                    || !ascends(bytes, range.end..bytes.len(), Side::Start, is_behind)
                    || inside && !ascends(bytes, range.start..range.end, Side::Start, |_| true)
            },
        )
    }

    /// Reads all bytes of the wanted ranges, and reads a file completely if it is non-monotonic there. Returns
    /// whether it has read any file completely.
    pub(crate) fn check_all_bytes(&mut self, wanted: &[WantedRanges<'_>]) -> bool {
        self.read(
            wanted,
            |wanted| wanted.bytes(),
            |wanted| {
                let bytes = wanted.source.bytes();
                wanted.ranges.iter().any(|range| !breaks(&bytes[range.start..range.end]).is_empty())
            },
        )
    }

    /// Completely reads each file for which `suspect` returns true, unless the file was read before. `bytes` returns
    /// how many bytes of a file `suspect` reads. Returns whether any file was read completely.
    fn read(
        &mut self,
        wanted: &[WantedRanges<'_>],
        bytes: impl Fn(&WantedRanges<'_>) -> usize,
        suspect: impl Fn(&WantedRanges<'_>) -> bool + Sync,
    ) -> bool {
        let is_text = |source: &Source| matches!(source.content(), Content::Text(_));
        let is_new =
            |wanted: &&WantedRanges<'_>| !self.0.contains_key(&wanted.file) && is_text(wanted.source);
        let new: Vec<&WantedRanges<'_>> = wanted.iter().filter(is_new).collect();
        let are_suspect = map_on_all_processors(&new, |wanted| bytes(wanted), |wanted| suspect(wanted));
        let suspects = new.into_iter().zip(are_suspect).filter(|(_, is_suspect)| *is_suspect);
        let suspects: Vec<&WantedRanges<'_>> = suspects.map(|(wanted, _)| wanted).collect();
        let found =
            map_on_all_processors(&suspects, |file| file.source.size(), |file| breaks(file.source.bytes()));
        self.0.extend(suspects.iter().map(|wanted| wanted.file).zip(found));
        !suspects.is_empty()
    }

    /// Records the breaks of `file` in `findings`, where the file has the source index `source`.
    pub(crate) fn record_breaks(&self, file: usize, source: usize, findings: &mut Findings) {
        for &(at, before, after) in self.0.get(&file).into_iter().flatten() {
            findings.broken(source, at, before, after);
        }
    }
}

/// The end of a region of bytes near which more lines are examined than elsewhere in the region.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Start,
    End,
}

/// Returns whether the ticks in a region satisfy `fits` and do not go back, judged by a sample of its lines.
/// Nearer to `side`, more lines are examined. The region must begin at the beginning of a line or of the
/// file. Scans no byte twice.
fn ascends(bytes: &[u8], region: ops::Range<usize>, side: Side, fits: impl Fn(u64) -> bool) -> bool {
    if region.is_empty() {
        return true;
    }
    let longest_step = region.len() / MIN_EXAMINED_LINES;
    let mut ticks = 0;
    let mut found = Boundary::before(bytes, region.start).ticks.map(|ticks| (region.start, ticks));
    while let Some((at, next)) = found.filter(|(at, _)| *at < region.end) {
        if next < ticks || !fits(next) {
            return false;
        }
        ticks = next;
        let (distance, step) = match side {
            Side::Start => (at - region.start, at - region.start),
            Side::End => (region.end - at, (region.end - at) / 2),
        };
        let step = if distance <= NEAR_BYTES { 0 } else { step.min(longest_step) };
        // A line that begins at the end of the region is outside the region.
        found = next_line_after(bytes, at + step, region.end - 1);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(ticks: impl IntoIterator<Item = u64>) -> Vec<u8> {
        let line = |ticks| format!("{ticks:016x}-00000009 : at {ticks}\n").into_bytes();
        ticks.into_iter().flat_map(line).collect()
    }

    fn wanted<'a>(
        source: &'a Source,
        ranges: &'a [SortedRange],
        period: TickPeriod,
    ) -> [WantedRanges<'a>; 1] {
        [WantedRanges { file: 0, source, ranges, period }]
    }

    proptest! {
        /// The files are smaller than a page, so every break in them is noticed.
        #[test]
        fn ranges_contain_exactly_the_lines_of_the_period(
            ticks in prop::collection::vec(0..30u64, 0..60), since in 0..32u64, until in 0..32u64
        ) {
            let source = Source::of("a", &text(ticks.clone()));
            let period = TickPeriod { since, until: Some(until) };
            let mut breaks = Breaks::default();
            let mut ranges = breaks.ranges(0, 0, &source, period);
            for _ in 0..3 {
                let found = breaks.check_edges(&wanted(&source, &ranges, period), false)
                    || breaks.check_all_bytes(&wanted(&source, &ranges, period));
                if !found {
                    break;
                }
                ranges = breaks.ranges(0, 0, &source, period);
            }
            // The merge searches the ranges for the period again, and must find all of them.
            prop_assert!(ranges.iter().all(|range| narrowed(*range, &source, period) == *range));
            let shown: Vec<u8> =
                ranges.iter().flat_map(|range| &source.bytes()[range.start..range.end]).copied().collect();
            let expected = text(ticks.iter().copied().filter(|ticks| since <= *ticks && *ticks < until));
            prop_assert_eq!(String::from_utf8(shown).unwrap(), String::from_utf8(expected).unwrap());
            if ticks.is_sorted() {
                prop_assert!(breaks.0.is_empty());
            }
        }
    }

    #[test]
    fn a_long_step_back_is_found_from_afar_and_a_stray_line_only_nearby() {
        let sound: Vec<u64> = (1000..31_000).collect();
        let period = TickPeriod { since: 9000, until: Some(9100) };
        let is_seen = |ticks: &[u64]| {
            let source = Source::of("a", &text(ticks.iter().copied()));
            let mut breaks = Breaks::default();
            let ranges = breaks.ranges(0, 0, &source, period);
            breaks.check_edges(&wanted(&source, &ranges, period), false)
        };
        assert!(!is_seen(&sound));
        let set_back = [&sound[..20_000], &sound[10_000..20_000]].concat();
        assert!(is_seen(&set_back));
        let stray_nearby = [&sound[..8120], &[9010], &sound[8120..]].concat();
        assert!(is_seen(&stray_nearby));
        let stray_far_off = [&sound[..20_001], &[9010], &sound[20_001..]].concat();
        assert!(!is_seen(&stray_far_off));
    }

    #[test]
    fn a_gigantic_line_is_skipped_once() {
        let long = format!("{:016x}-00000009 : {}\n", 7, "x".repeat(1 << 20)).into_bytes();
        let bytes = [text(0..7), long, text(8..20)].concat();
        for (side, near) in [(Side::Start, 2), (Side::End, 19)] {
            assert!(ascends(&bytes, 0..bytes.len(), side, |_| true));
            assert!(!ascends(&bytes, 0..bytes.len(), side, |ticks| ticks != near));
        }
    }
}
