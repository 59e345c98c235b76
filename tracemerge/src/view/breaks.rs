//! Behind *range*: files whose ticks go back, as far as that is known, and the sorted parts that they fall into.
//!
//! Only damage makes such files. In one, a search finds one of several places where a range may begin, so a view would
//! miss lines. That ticks go back is seen by the merge where it is inside of what is shown. Outside of it a few lines
//! are looked at: all within a page of it, then fewer the farther off they are, one in sixteenth parts of the file at
//! least. So a clock that was set back is seen, and what strays nearby. A line that strays far off is not: it would take
//! all bytes to be read, which `tracemerge check` does.

use std::collections::BTreeMap;
use std::ops;

use crate::file::lines::line_behind;
use crate::input::boundary::Boundary;
use crate::input::findings::Findings;
use crate::input::slice::TickSpan;
use crate::input::source::{Break, Content, SortedRange, Source, breaks};
use crate::os::processors::map_on_all_processors;
use crate::view::range::{Range, part_of};

/// So many bytes before and behind a part are looked at line by line.
const NEAR: usize = 4096;
/// What is far off is looked at in so many places at least.
const FAR: usize = 16;

/// The files that were read through because their ticks go back somewhere.
#[derive(Debug, Default)]
pub struct Breaks(BTreeMap<usize, Vec<Break>>);

/// A file, by its number among all, and the part of it that is wanted.
pub struct Wanted<'a> {
    /// The file's number among all.
    pub file: usize,
    /// The file itself.
    pub source: &'a Source,
    /// The parts of the part.
    pub parts: &'a [SortedRange],
    /// The ticks that are wanted of the file.
    pub range: Range,
}

impl<'a> Wanted<'a> {
    /// The files of all boots, in whose `spans` these `parts` of them are.
    #[must_use]
    pub fn all(
        boots: &'a [Vec<Source>],
        spans: &[TickSpan],
        parts: &'a [Vec<SortedRange>],
    ) -> Vec<Wanted<'a>> {
        let files = boots.iter().zip(spans).flat_map(|(sources, span)| {
            let range = Range { since: Some(span.since), until: span.until };
            sources.iter().map(move |source| (source, range))
        });
        let wanted = |(file, ((source, range), parts)): (usize, (_, &'a Vec<SortedRange>))| Wanted {
            file,
            source,
            parts,
            range,
        };
        files.zip(parts).enumerate().map(wanted).collect()
    }

    fn bytes(&self) -> usize {
        self.parts.iter().map(|part| part.end - part.start).sum()
    }
}

impl Breaks {
    /// The sorted parts of `file` that have what is in `range` of it. `source` is its number among those of its boot.
    #[must_use]
    pub fn parts(&self, file: usize, number: usize, source: &Source, range: Range) -> Vec<SortedRange> {
        let mut part = SortedRange { source: number, start: 0, end: source.bytes().len() };
        let Some(breaks) = self.0.get(&file) else { return vec![part_of(part, source, range)] };
        let mut parts = Vec::with_capacity(breaks.len() + 1);
        for at in breaks.iter().map(|(at, ..)| *at).chain([part.end]) {
            parts.push(part_of(SortedRange { end: at, ..part }, source, range));
            part.start = at;
        }
        parts.retain(|part| part.start < part.end);
        parts
    }

    /// Looks at places outside of what is wanted, and inside too if that may not be read to its end. Whoever shows to go
    /// back is read through. Returns whether any was.
    pub fn look_around(&mut self, wanted: &[Wanted<'_>], inside: bool) -> bool {
        // A few places of each are not worth a thread.
        self.read(
            wanted,
            |_| 0,
            |wanted| {
                let [part] = wanted.parts else { return false };
                let (bytes, Range { since, until }) = (wanted.source.bytes(), wanted.range);
                let is_before = |ticks| since.is_none_or(|since| ticks < since);
                let is_behind = |ticks| until.is_none_or(|until| ticks >= until);
                // The merge searches, too, in the part.
                part_of(*part, wanted.source, wanted.range) != *part
                    || !ascends(bytes, 0..part.start, Side::End, is_before)
                    || !ascends(bytes, part.end..bytes.len(), Side::Start, is_behind)
                    || inside && !ascends(bytes, part.start..part.end, Side::Start, |_| true)
            },
        )
    }

    /// Reads all that is wanted. Files that go back there are read through. Returns whether there was any.
    pub fn look_through(&mut self, wanted: &[Wanted<'_>]) -> bool {
        self.read(
            wanted,
            |wanted| wanted.bytes(),
            |wanted| {
                let bytes = wanted.source.bytes();
                wanted.parts.iter().any(|part| !breaks(&bytes[part.start..part.end]).is_empty())
            },
        )
    }

    /// Reads those files through that are `suspect`, but none again; to find that out takes so many `bytes`.
    fn read(
        &mut self,
        wanted: &[Wanted<'_>],
        bytes: impl Fn(&Wanted<'_>) -> usize,
        suspect: impl Fn(&Wanted<'_>) -> bool + Sync,
    ) -> bool {
        let is_text = |source: &Source| matches!(source.content(), Content::Text(_));
        let is_new = |wanted: &&Wanted<'_>| !self.0.contains_key(&wanted.file) && is_text(wanted.source);
        let new: Vec<&Wanted<'_>> = wanted.iter().filter(is_new).collect();
        let are_suspect = map_on_all_processors(&new, |wanted| bytes(wanted), |wanted| suspect(wanted));
        let suspects = new.into_iter().zip(are_suspect).filter(|(_, is_suspect)| *is_suspect);
        let suspects: Vec<&Wanted<'_>> = suspects.map(|(wanted, _)| wanted).collect();
        let found =
            map_on_all_processors(&suspects, |file| file.source.size(), |file| breaks(file.source.bytes()));
        self.0.extend(suspects.iter().map(|wanted| wanted.file).zip(found));
        !suspects.is_empty()
    }

    /// Tells `findings` where `file` goes back, which is number `source` there.
    pub fn tell(&self, file: usize, source: usize, findings: &mut Findings) {
        for &(at, before, after) in self.0.get(&file).into_iter().flatten() {
            findings.broken(source, at, before, after);
        }
    }
}

/// The side of a region that matters more.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Start,
    End,
}

/// Whether the lines in a region, which begins where a line does or at the beginning of the file, are as they should and
/// do not go back, as far as those tell that are looked at: the nearer to `side`, the more. Passes over no byte twice.
fn ascends(bytes: &[u8], region: ops::Range<usize>, side: Side, fits: impl Fn(u64) -> bool) -> bool {
    if region.is_empty() {
        return true;
    }
    let far = region.len() / FAR;
    let mut ticks = 0;
    let mut found = Boundary::before(bytes, region.start).ticks.map(|ticks| (region.start, ticks));
    while let Some((at, next)) = found.filter(|(at, _)| *at < region.end) {
        if next < ticks || !fits(next) {
            return false;
        }
        ticks = next;
        let (off, nearer) = match side {
            Side::Start => (at - region.start, at - region.start),
            Side::End => (region.end - at, (region.end - at) / 2),
        };
        let step = if off <= NEAR { 0 } else { nearer.min(far) };
        // No line begins at the end of the region that is still a part of it.
        found = line_behind(bytes, at + step, region.end - 1);
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

    fn wanted<'a>(source: &'a Source, parts: &'a [SortedRange], range: Range) -> [Wanted<'a>; 1] {
        [Wanted { file: 0, source, parts, range }]
    }

    proptest! {
        /// Whatever is within a page is seen, so nothing is missed.
        #[test]
        fn parts_have_exactly_the_lines_in_the_range(
            ticks in prop::collection::vec(0..30u64, 0..60), since in 0..32u64, until in 0..32u64
        ) {
            let source = Source::of("a", &text(ticks.clone()));
            let range = Range { since: Some(since), until: Some(until) };
            let mut breaks = Breaks::default();
            let mut parts = breaks.parts(0, 0, &source, range);
            for _ in 0..3 {
                let found = breaks.look_around(&wanted(&source, &parts, range), false)
                    || breaks.look_through(&wanted(&source, &parts, range));
                if !found {
                    break;
                }
                parts = breaks.parts(0, 0, &source, range);
            }
            // What the merge searches again in them is all of them.
            prop_assert!(parts.iter().all(|part| part_of(*part, &source, range) == *part));
            let shown: Vec<u8> =
                parts.iter().flat_map(|part| &source.bytes()[part.start..part.end]).copied().collect();
            let expected = text(ticks.iter().copied().filter(|ticks| since <= *ticks && *ticks < until));
            prop_assert_eq!(String::from_utf8(shown).unwrap(), String::from_utf8(expected).unwrap());
            if ticks.is_sorted() {
                prop_assert!(breaks.0.is_empty());
            }
        }
    }

    #[test]
    fn far_off_what_is_large_is_seen_and_what_is_small_is_not() {
        let sound: Vec<u64> = (1000..31_000).collect();
        let range = Range { since: Some(9000), until: Some(9100) };
        let is_seen = |ticks: &[u64]| {
            let source = Source::of("a", &text(ticks.iter().copied()));
            let mut breaks = Breaks::default();
            let parts = breaks.parts(0, 0, &source, range);
            breaks.look_around(&wanted(&source, &parts, range), false)
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
    fn a_gigantic_line_is_passed_over_once() {
        let long = format!("{:016x}-00000009 : {}\n", 7, "x".repeat(1 << 20)).into_bytes();
        let bytes = [text(0..7), long, text(8..20)].concat();
        for (side, near) in [(Side::Start, 2), (Side::End, 19)] {
            assert!(ascends(&bytes, 0..bytes.len(), side, |_| true));
            assert!(!ascends(&bytes, 0..bytes.len(), side, |ticks| ticks != near));
        }
    }
}
