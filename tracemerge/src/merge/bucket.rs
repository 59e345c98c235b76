//! Puts the lines of a bucket in order, those of all groups together, and passes them on.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;

use memchr::memrchr;

use crate::file::lines::{Token, line_at};
use crate::file::map::prefetch;
use crate::file::truncation;
use crate::input::source::Source;
use crate::merge::group::{Group, Stretch};
use crate::output::sink::Sink;

/// Stretch are fetched while so many others are copied...
const AHEAD: usize = 8;
/// ...so many bytes of them; what stands behind these the processor foresees.
const LINES: usize = 512;

/// What lines are sorted by: their ticks, and the place of their run.
type StretchKey = (u64, usize);

/// Passes the lines of a bucket on in the order of their ticks, those with the same in the order of sorted ranges. `runs` and
/// `order` are room for all that are in it.
pub fn pass_on<'g, S: Sink>(
    sources: &[Source],
    groups: &'g [Group<'_>],
    bucket: usize,
    runs: &mut Vec<Stretch<'g>>,
    order: &mut Vec<u64>,
    out: &mut S,
) -> io::Result<()> {
    runs.clear();
    groups.iter().for_each(|group| group.add_bucket(bucket, runs));
    let place_in = sort(runs, order);
    let place = |at: usize| order.get(at).map(|word| place_in(*word));
    let key = |place: usize| (runs[place].ticks, place);
    let any_is_truncated = truncation::count() > 0;
    // What is left of runs that others come between.
    let mut rests: BinaryHeap<Reverse<(StretchKey, &[u8])>> = BinaryHeap::new();
    let mut at = 0;
    loop {
        let next = place(at).map(key);
        let rest = rests.peek().map(|Reverse((key, _))| *key);
        let (place_of_run, lines) = match rest.filter(|rest| next.is_none_or(|next| *rest < next)) {
            Some((_, place)) => (place, rests.pop().map_or(&[][..], |Reverse((_, lines))| lines)),
            None => {
                let Some((_, place_of_run)) = next else { return Ok(()) };
                if let Some(later) = place(at + AHEAD) {
                    let lines = runs[later].lines;
                    prefetch(lines.as_ptr(), lines.len().min(LINES));
                }
                at += 1;
                (place_of_run, runs[place_of_run].lines)
            }
        };
        let run = &runs[place_of_run];
        let rest = rests.peek().map(|Reverse((key, _))| *key);
        let limit = place(at).map(key).into_iter().chain(rest).min();
        let mut these = lines;
        if let Some(limit) = limit.filter(|limit| (run.last(), place_of_run) > *limit) {
            let (bytes, ticks) = up_to(lines, limit, place_of_run);
            these = &lines[..bytes];
            rests.extend(ticks.map(|ticks| Reverse(((ticks, place_of_run), &lines[bytes..]))));
        }
        let source = run.source as usize;
        if any_is_truncated {
            these = before_truncation(&sources[source], these);
        }
        if !these.is_empty() {
            out.lines(source, these)?;
        }
    }
}

/// Puts in `order` words for all `runs`, by their ticks and then their places; returns what tells the place in a word.
fn sort(runs: &[Stretch<'_>], order: &mut Vec<u64>) -> impl Fn(u64) -> usize + use<> {
    let (mut first, mut last) = (u64::MAX, 0);
    for run in runs {
        (first, last) = (first.min(run.ticks), last.max(run.ticks));
    }
    let bits = width(runs.len() as u64);
    let mask = (1 << bits) - 1;
    #[expect(clippy::cast_possible_truncation, reason = "it was a place before")]
    let place = move |word: u64| (word & mask) as usize;
    order.clear();
    if width(last.saturating_sub(first)) + bits <= u64::BITS {
        // Ticks and place fit into one word: words are sorted fastest.
        order.extend((0..).zip(runs).map(|(place, run)| place | (run.ticks - first) << bits));
        order.sort_unstable();
    } else {
        order.extend(0..runs.len() as u64);
        order.sort_by_key(|&word| runs[place(word)].ticks);
    }
    place
}

/// How many bytes of `lines` come before `limit`, and the ticks of the line behind these.
fn up_to(lines: &[u8], limit: StretchKey, place: usize) -> (usize, Option<u64>) {
    let mut at = 0;
    loop {
        match line_at(lines, at) {
            Token::Line(line) if at > 0 && (line.ticks, place) > limit => return (at, Some(line.ticks)),
            Token::Line(line) => at = line.end,
            // The end, or the file has changed since they were dealt out.
            Token::End | Token::Bad => return (lines.len(), None),
        }
    }
}

/// Of lines of a file that may have been cut since they were dealt out, those that are there still.
#[cold]
fn before_truncation<'l>(source: &Source, lines: &'l [u8]) -> &'l [u8] {
    let (Some(end), Some(place)) = (source.truncated_at(), source.place(lines)) else { return lines };
    let left = &lines[..end.clamp(place.start, place.end) - place.start];
    &left[..memrchr(b'\n', left).map_or(0, |at| at + 1)]
}

/// The number of significant bits of `number`.
fn width(number: u64) -> u32 {
    u64::BITS - number.leading_zeros()
}
