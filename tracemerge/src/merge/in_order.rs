//! The merge of a slice in which all texts are [plain](crate::file::line_index): each line is represented by one 64-bit
//! number, its *word*. The words are merged two lists at a time; the merge of the last two lists also gathers the
//! lines. All other slices are left to the [tree](crate::merge::loser_tree), which takes lines of any form.
//!
//! In the tree, the processor has to guess at each line which range is next, and guesses wrongly about every third
//! time. Here, only the address of the next word depends on which range is next.

use std::io;

use crate::file::line_index::{IndexedText, MAX_TEXTS, Numbering, gather, index};
use crate::input::findings::Findings;
use crate::merge::cursor::note_metadata;
use crate::output::sink::Sink;

/// The lines that one sorted range has in a slice.
#[derive(Clone, Copy, Debug)]
pub(super) struct PartText<'a> {
    /// The index of the lines' source among all sources.
    pub source: usize,
    /// The bytes of the lines, followed by the bytes after them in memory: copying may read some of these further
    /// bytes, too.
    pub bytes: &'a [u8],
    /// The number of bytes at the beginning of `bytes` that belong to the lines.
    pub length: usize,
}

/// Memory that the merges of slices use one after the other.
#[derive(Debug, Default)]
pub(crate) struct InOrderRoom {
    /// For each text, the offsets of its lines.
    starts: Vec<Vec<u32>>,
    words: Vec<u64>,
    merged: Vec<u64>,
    /// The number of slices that go to the tree without being examined after a slice that had a text that is not plain;
    /// `left` is how many of them are still to come.
    pause: u32,
    left: u32,
}

/// The greatest number of slices in a row that go to the tree without being examined.
const MAX_PAUSE: u32 = 31;

/// Merges the texts of a slice if all are plain, and returns whether it has merged them. If it has not, the texts are
/// left to the tree, and neither `out` nor the findings have changed. All lines have the ticks `first` or more.
///
/// # Errors
/// The sink cannot take the lines.
pub(super) fn merge_in_order<S: Sink>(
    parts: &[PartText<'_>],
    first: u64,
    room: &mut InOrderRoom,
    out: &mut S,
    findings: &mut Findings,
) -> io::Result<bool> {
    if room.left > 0 || parts.is_empty() || parts.len() > MAX_TEXTS {
        room.left = room.left.saturating_sub(1);
        return Ok(false);
    }
    // This holds unless all texts turn out to be plain.
    room.pause = (2 * room.pause + 1).min(MAX_PAUSE);
    room.left = room.pause;
    let InOrderRoom { starts, words, merged, pause, left } = room;
    starts.resize_with(parts.len().max(starts.len()), Vec::new);
    words.clear();
    let numbering = Numbering::new(first, parts.iter().map(|part| part.length).max().unwrap_or(0));
    // The lists of words, one behind the other, each by its end.
    let (mut ends, mut with_metas) = (Vec::with_capacity(parts.len()), 0_u64);
    for (rank, (part, starts)) in parts.iter().zip(&mut *starts).enumerate() {
        let text = &part.bytes[..part.length];
        let Some(plain) = index(text, rank, numbering, starts, words) else { return Ok(false) };
        with_metas |= u64::from(plain.has_meta) << rank;
        ends.push(words.len());
    }
    (*pause, *left) = (0, 0);
    let mut texts = [IndexedText::default(); MAX_TEXTS];
    for (text, (part, starts)) in texts.iter_mut().zip(parts.iter().zip(&*starts)) {
        *text = IndexedText { bytes: part.bytes, starts };
    }
    findings.lines += words.len() as u64;
    if with_metas != 0 {
        let has_meta = |word: &u64| {
            let (rank, line) = numbering.place(*word);
            with_metas >> rank & 1 == 1 && texts[rank].is_meta(line)
        };
        let mut metas: Vec<u64> = words.iter().copied().filter(has_meta).collect();
        metas.sort_unstable();
        for (rank, line) in metas.into_iter().map(|word| numbering.place(word)) {
            note_metadata(parts[rank].source, texts[rank].lines(line, line + 1), findings);
        }
    }
    if let [part] = parts {
        out.lines(part.source, &part.bytes[..part.length])?;
        return Ok(true);
    }
    merged.resize(words.len().max(merged.len()), 0);
    while ends.len() > 2 {
        merge_neighbours(words, &mut ends, merged);
        std::mem::swap(words, merged);
    }
    let (one, other) = words[..ends[1]].split_at(ends[0]);
    if let Some(text) = out.text() {
        gather((one, other), &texts, numbering, parts.iter().map(|part| part.length).sum(), text);
        return Ok(true);
    }
    merge_two(one, other, &mut merged[..ends[1]]);
    let mut rest = &merged[..ends[1]];
    while let Some((word, _)) = rest.split_first() {
        let (rank, line) = numbering.place(*word);
        // A line's word is the word before it plus some ticks and one, so only neighbours of one text are counted.
        let is_next = |(number, word): (usize, &u64)| numbering.place(*word) == (rank, line + number);
        let lines = rest.iter().enumerate().take_while(|item| is_next(*item)).count();
        out.lines(parts[rank].source, texts[rank].lines(line, line + lines))?;
        rest = &rest[lines..];
    }
    Ok(true)
}

/// Merges each two neighbouring lists of `words`, which are sorted, into one sorted list in `merged`. `ends` has the
/// ends of the lists in `words` before the call, and the ends of the lists in `merged` after it.
fn merge_neighbours(words: &[u64], ends: &mut Vec<usize>, merged: &mut [u64]) {
    let (mut start, mut lists) = (0, 0);
    for at in (0..ends.len()).step_by(2) {
        let middle = ends[at];
        let end = ends.get(at + 1).copied().unwrap_or(middle);
        merge_two(&words[start..middle], &words[middle..end], &mut merged[start..end]);
        (ends[lists], start, lists) = (end, end, lists + 1);
    }
    ends.truncate(lists);
}

/// Merges two sorted lists of words, in which no two words are equal. Works from the beginning and from the end of the
/// lists in turn: while the processor waits for one comparison, it can do the other.
fn merge_two(mut one: &[u64], mut other: &[u64], mut merged: &mut [u64]) {
    loop {
        let steps = one.len().min(other.len());
        if steps == 0 {
            let (first, second) = merged.split_at_mut(one.len());
            first.copy_from_slice(one);
            second.copy_from_slice(other);
            return;
        }
        let (mut i, mut j) = (0, 0);
        let (mut one_end, mut other_end) = (one.len(), other.len());
        let (front, rest) = merged.split_at_mut(steps);
        let (middle, back) = rest.split_at_mut(rest.len() - steps);
        for (low, high) in front.iter_mut().zip(back.iter_mut().rev()) {
            let (a, b) = (one[i], other[j]);
            *low = a.min(b);
            i += usize::from(a < b);
            j += usize::from(a >= b);
            let (a, b) = (one[one_end - 1], other[other_end - 1]);
            *high = a.max(b);
            one_end -= usize::from(a > b);
            other_end -= usize::from(a <= b);
        }
        (one, other, merged) = (&one[i..one_end], &other[j..other_end], middle);
    }
}
