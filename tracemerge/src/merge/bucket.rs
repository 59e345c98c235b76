//! Sorts the lines of one bucket, which is a part of a window of time: collects the stretches of all groups in the
//! bucket, sorts them by time, and passes on their lines.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::io;

use memchr::memrchr;

use crate::file::lines::{Token, line_at};
use crate::file::map::prefetch;
use crate::file::truncation;
use crate::input::source::Source;
use crate::merge::group::{Group, Run, Stretch};
use crate::output::sink::Sink;

/// The distance of prefetching: while a stretch is copied, the bytes of the stretch this many places later are fetched
/// into the cache.
const AHEAD: usize = 8;
/// The number of bytes at the beginning of a stretch that are prefetched; the processor fetches the bytes after them on
/// its own.
const LINES: usize = 512;

/// The key by which stretches are sorted: the ticks of the stretch's first line, and the stretch's index before
/// sorting.
type StretchKey = (u64, usize);

/// Passes on the lines of a bucket in the order of their ticks; lines with equal ticks come in the order of their
/// sorted ranges. `stretches` and `order` are memory that is used again for each bucket.
pub(super) fn pass_on<'g, S: Sink>(
    sources: &[Source],
    groups: &'g [Group<'_>],
    bucket: usize,
    stretches: &mut Vec<Stretch<'g>>,
    order: &mut Vec<u64>,
    out: &mut S,
) -> io::Result<()> {
    stretches.clear();
    groups.iter().for_each(|group| group.add_bucket(bucket, stretches));
    let place_in = sort(stretches, order);
    let place = |at: usize| order.get(at).map(|word| place_in(*word));
    let key = |place: usize| (stretches[place].ticks, place);
    let any_is_truncated = truncation::count() > 0;
    // The rests of stretches with other lines in between.
    let mut rests: BinaryHeap<Reverse<Rest<'_>>> = BinaryHeap::new();
    let mut at = 0;
    loop {
        let next = place(at).map(key);
        let rest = rests.peek().map(|Reverse(rest)| rest.key);
        let (place_of_stretch, run) = match rest.filter(|rest| next.is_none_or(|next| *rest < next)) {
            Some((_, place)) => (place, rests.pop().map(|Reverse(rest)| rest.run)),
            None => {
                let Some((_, place_of_stretch)) = next else { return Ok(()) };
                if let Some(Run::Lines(lines)) = place(at + AHEAD).map(|later| &stretches[later].run) {
                    prefetch(lines.as_ptr(), lines.len().min(LINES));
                }
                at += 1;
                (place_of_stretch, Some(stretches[place_of_stretch].run.clone()))
            }
        };
        let stretch = &stretches[place_of_stretch];
        let rest = rests.peek().map(|Reverse(rest)| rest.key);
        let limit = place(at).map(key).into_iter().chain(rest).min();
        let limit = limit.filter(|limit| (stretch.last(), place_of_stretch) > *limit);
        let mut push_rest = |ticks, run| rests.push(Reverse(Rest { key: (ticks, place_of_stretch), run }));
        match run {
            Some(Run::Lines(lines)) => {
                let mut these = lines;
                if let Some(limit) = limit {
                    let (bytes, ticks) = up_to(lines, limit, place_of_stretch);
                    these = &lines[..bytes];
                    ticks.into_iter().for_each(|ticks| push_rest(ticks, Run::Lines(&lines[bytes..])));
                }
                let source = stretch.source as usize;
                if any_is_truncated {
                    these = existing_part(&sources[source], these);
                }
                if !these.is_empty() {
                    out.lines(source, these)?;
                }
            }
            Some(Run::Records(records, range)) => {
                let mut end = range.end;
                if let Some(limit) = limit {
                    let is_behind = |at: &usize| (records.ticks(*at), place_of_stretch) > limit;
                    end = (range.start + 1..end).find(is_behind).unwrap_or(end);
                    if end < range.end {
                        push_rest(records.ticks(end), Run::Records(records, end..range.end));
                    }
                }
                out.records(records, range.start..end)?;
            }
            None => {}
        }
    }
}

/// The lines of a stretch that are not passed on yet, because lines of other stretches come before them.
struct Rest<'g> {
    /// The ticks of the first of these lines, and the index of the stretch.
    key: StretchKey,
    run: Run<'g>,
}

impl PartialEq for Rest<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl Eq for Rest<'_> {}

impl PartialOrd for Rest<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Rest<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key.cmp(&other.key)
    }
}

/// Sorts `stretches` by ticks and then by index: puts one number for each stretch into `order`, in that order. Returns
/// the function that extracts the stretch's index from such a number.
fn sort(stretches: &[Stretch<'_>], order: &mut Vec<u64>) -> impl Fn(u64) -> usize + use<> {
    let (mut first, mut last) = (u64::MAX, 0);
    for stretch in stretches {
        (first, last) = (first.min(stretch.ticks), last.max(stretch.ticks));
    }
    let bits = width(stretches.len() as u64);
    let mask = (1 << bits) - 1;
    #[expect(clippy::cast_possible_truncation, reason = "it was a place before")]
    let place = move |word: u64| (word & mask) as usize;
    order.clear();
    if width(last.saturating_sub(first)) + bits <= u64::BITS {
        // The ticks and the place fit into one word: words are sorted fastest.
        order.extend((0..).zip(stretches).map(|(place, stretch)| place | (stretch.ticks - first) << bits));
        order.sort_unstable();
    } else {
        order.extend(0..stretches.len() as u64);
        order.sort_by_key(|&word| stretches[place(word)].ticks);
    }
    place
}

/// Returns the number of bytes of `lines` that come before the key `limit`, and the ticks of the first line after these
/// bytes; `None` in place of the ticks if no line is left. `place` is the index of the stretch that has `lines`.
fn up_to(lines: &[u8], limit: StretchKey, place: usize) -> (usize, Option<u64>) {
    let mut at = 0;
    loop {
        match line_at(lines, at) {
            Token::Line(line) if at > 0 && (line.ticks, place) > limit => return (at, Some(line.ticks)),
            Token::Line(line) => at = line.end,
            // The lines end here, or the file has changed since they were dealt out.
            Token::End | Token::Bad => return (lines.len(), None),
        }
    }
}

/// Returns the part of `lines` that still exists in their file, which may have been truncated after the lines were
/// dealt out to buckets.
#[cold]
fn existing_part<'l>(source: &Source, lines: &'l [u8]) -> &'l [u8] {
    let (Some(end), Some(place)) = (source.truncated_at(), source.place(lines)) else { return lines };
    let left = &lines[..end.clamp(place.start, place.end) - place.start];
    &left[..memrchr(b'\n', left).map_or(0, |at| at + 1)]
}

/// Returns the number of significant bits of `number`.
fn width(number: u64) -> u32 {
    u64::BITS - number.leading_zeros()
}
