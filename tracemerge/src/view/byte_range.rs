//! Finds which bytes of a file hold the lines of a period of time, without reading the other bytes. This happens after
//! the inputs are opened and before they are merged.
//!
//! The lines of a file are in order of their ticks, so a binary search finds both ends of a period; it examines about
//! thirty lines. For files whose lines are out of order see [`crate::view::breaks`].

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use memchr::memrchr2;
use trace_format::escape::is_harmless;
use trace_format::line::{Kind, Line};

use crate::file::lines::strip_line_feed;
use crate::input::boundary::{Boundary, first_from};
use crate::input::slice::TickPeriod;
use crate::input::source::{Content, SortedRange, Source};

/// Narrows a sorted range to the bytes whose lines are in `period`. The range of a rendered source, which has no bytes
/// yet, becomes the whole source if the source has lines in `period`, and empty otherwise.
#[must_use]
pub(crate) fn narrowed(range: SortedRange, source: &Source, period: TickPeriod) -> SortedRange {
    if let Content::Rendered(render) = source.content() {
        // The renderer selects lines by their ticks itself, so it only matters whether there are any in the period.
        let until = period.until.unwrap_or(u64::MAX);
        let any = render.period().is_some_and(|(first, last)| last >= period.since && first < until);
        return SortedRange { start: 0, end: if any { source.size() } else { 0 }, ..range };
    }
    if period == TickPeriod::ALL {
        return range;
    }
    let bytes = &source.bytes()[..range.end];
    // Bytes that are not a line belong to the line before them or, at the beginning of a file, to its first line.
    let (first, last) = (Boundary::before(bytes, range.start), Boundary::end(bytes));
    let place = |ticks| first_from(bytes, ticks, first, last, usize::MAX).at;
    let start = place(period.since);
    let end = period.until.map_or(range.end, place);
    SortedRange { start, end: end.max(start), ..range }
}

/// Returns the ticks of the oldest of the newest `wanted` messages of all `ranges` together; `None` if there are fewer
/// messages. Reads each range backwards from its end, and stops at the first message that is too old to be among the
/// newest.
#[must_use]
pub(crate) fn since_for_last(
    sources: &[Source],
    ranges: &[SortedRange],
    period: TickPeriod,
    wanted: usize,
) -> Option<u64> {
    let mut newest: BinaryHeap<Reverse<u64>> = BinaryHeap::new();
    for range in ranges {
        let source = &sources[range.source];
        let backwards: Box<dyn Iterator<Item = u64>> = match source.content() {
            Content::Rendered(render) => Box::new(
                render
                    .newest_first()
                    .skip_while(|ticks| period.until.is_some_and(|until| *ticks >= until))
                    .take_while(|ticks| *ticks >= period.since),
            ),
            Content::Text(bytes) => Box::new(messages_backwards(&bytes[range.start..range.end])),
        };
        for ticks in backwards {
            if newest.len() < wanted {
                newest.push(Reverse(ticks));
                continue;
            }
            match newest.peek() {
                Some(Reverse(oldest)) if ticks > *oldest => {
                    newest.pop();
                    newest.push(Reverse(ticks));
                }
                _ => break,
            }
        }
    }
    newest.peek().filter(|_| newest.len() == wanted).map(|Reverse(oldest)| *oldest)
}

/// Returns the ticks of all messages, the last message first. Skips lines that continue a message.
fn messages_backwards(bytes: &[u8]) -> impl Iterator<Item = u64> {
    let mut end = bytes.len();
    std::iter::from_fn(move || {
        while end > 0 {
            let start = memrchr2(b'\n', 0, &bytes[..end - 1]).map_or(0, |at| at + 1);
            let line = Line::parse(strip_line_feed(&bytes[start..end])).ok();
            let line = line.filter(|line| is_harmless(line.payload));
            end = start;
            if let Some(line) = line.filter(|line| !matches!(line.kind, Kind::Meta | Kind::Continuation)) {
                return Some(line.key.ticks.0);
            }
        }
        None
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::lines::{LineAt, Token, line_at, skip_bad};
    use proptest::prelude::*;

    /// Makes texts of lines in order, with bytes between them that are not lines.
    fn text() -> impl Strategy<Value = Vec<u8>> {
        let item = prop_oneof![
            5 => (0..40u64, 0..30usize).prop_map(|(ticks, length)| Ok((ticks, length))),
            1 => prop::sample::select(vec!["junk\n", "\n", "\0\0\0", "half a \0", "0000\n"]).prop_map(Err),
        ];
        prop::collection::vec(item, 0..40).prop_map(|items| {
            let mut ticks: Vec<u64> = items.iter().filter_map(|item| item.ok().map(|(t, _)| t)).collect();
            ticks.sort_unstable();
            let mut ticks = ticks.into_iter();
            let mut text = Vec::new();
            for item in items {
                match item {
                    Ok((_, length)) => {
                        let ticks = ticks.next().unwrap();
                        let kind = if length % 7 == 0 { '#' } else { ':' };
                        text.extend(format!("{ticks:016x}-00000009 {kind} {}\n", "x".repeat(length)).bytes());
                    }
                    Err(bad) => text.extend(bad.bytes()),
                }
            }
            text
        })
    }

    /// Returns the range of the source with this `number` that has the lines in `period`.
    fn range_in(number: usize, source: &Source, period: TickPeriod) -> SortedRange {
        narrowed(SortedRange { source: number, start: 0, end: source.bytes().len() }, source, period)
    }

    /// Returns all lines with their offsets, found one after the other.
    fn all_lines(bytes: &[u8]) -> Vec<(usize, LineAt)> {
        let (mut at, mut lines) = (0, Vec::new());
        loop {
            match line_at(bytes, at) {
                Token::End => return lines,
                Token::Bad => at = skip_bad(bytes, at),
                Token::Line(line) => {
                    lines.push((at, line));
                    at = line.end;
                }
            }
        }
    }

    proptest! {
        #[test]
        fn a_narrowed_range_contains_exactly_the_lines_of_the_period(bytes in text(), since in 0..42u64, until in 0..42u64) {
            let source = Source::of("a", &bytes);
            let found = range_in(0, &source, TickPeriod { since, until: Some(until) });
            let inside = |at: usize| found.start <= at && at < found.end;
            for (at, line) in all_lines(&bytes) {
                prop_assert_eq!(inside(at), since <= line.ticks && line.ticks < until);
            }
            let whole = range_in(0, &source, TickPeriod::ALL);
            prop_assert_eq!((whole.start, whole.end), (0, bytes.len()));
        }

        #[test]
        fn the_start_of_the_last_messages_agrees_with_a_full_scan(
            files in prop::collection::vec(text(), 0..4), wanted in 1..9usize
        ) {
            let sources: Vec<_> = files.iter().map(|bytes| Source::of("a", bytes)).collect();
            let ranges: Vec<_> = sources.iter().enumerate().map(|(n, s)| range_in(n, s, TickPeriod::ALL)).collect();
            let lines = files.iter().flat_map(|bytes| all_lines(bytes));
            let mut ticks: Vec<_> = lines.filter(|(_, line)| !line.meta).map(|(_, line)| line.ticks).collect();
            ticks.sort_unstable();
            let expected = ticks.len().checked_sub(wanted).map(|at| ticks[at]);
            prop_assert_eq!(since_for_last(&sources, &ranges, TickPeriod::ALL, wanted), expected);
        }
    }
}
