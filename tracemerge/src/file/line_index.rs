//! An index of the lines of a *plain* text. For each line, the index has the offset at which the line begins, and a
//! 64-bit word by which the lines of several texts are sorted. Vector instructions look at 64 bytes at once, and no
//! branch depends on the contents of a line, so the index takes a fraction of the time of
//! [`line_at`](crate::file::lines::line_at).
//!
//! A text is *plain* if it consists of whole lines with a thread id of eight digits and a space behind the kind, if
//! these lines have only bytes that the format allows, and if their ticks never go back. Only a plain text has an
//! index. Processors other than x86-64 find the lines one by one.
//!
//! All `unsafe` here is for vector instructions, for functions that the compiler makes with AVX2, and for memory that
//! is written before it is read. Bytes of a mapped file may change at any time: every offset is checked against the
//! text at each use, and a length is never read twice from the text.
#![allow(unsafe_code)]

use std::mem::MaybeUninit;

#[cfg(any(test, not(target_arch = "x86_64")))]
use crate::file::lines::{Token, line_at};

/// The greatest number of bytes of a text that has an index.
const MAX_BYTES: usize = 1 << 30;
/// The number of bytes of the shortest line that an index may have, with its line feed.
const SHORTEST_PLAIN: usize = HEAD + 1;
/// The number of bytes before a line's payload.
const HEAD: usize = 28;
/// The number of bits in the 64-bit word of a line that hold the rank of the line's text.
const RANK_BITS: u32 = 6;
/// The maximum number of texts whose lines can be sorted together.
pub(crate) const MAX_TEXTS: usize = 1 << RANK_BITS;

/// The encoding of lines as 64-bit words that sort in the order of a merge: the ticks of the line since `first`, the
/// rank of its text, and its number in the text. No two lines have the same word.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Numbering {
    first: u64,
    line_bits: u32,
}

impl Numbering {
    /// Returns the encoding for the lines of texts that have at most `longest` bytes each, and no ticks before `first`.
    #[must_use]
    pub(crate) fn new(first: u64, longest: usize) -> Numbering {
        Numbering { first, line_bits: usize::BITS - (longest / SHORTEST_PLAIN).leading_zeros() }
    }

    /// Returns the word of the line with the number `line` in the text with this `rank`.
    #[inline(always)]
    fn word(self, ticks: u64, rank: usize, line: usize) -> u64 {
        (ticks.wrapping_sub(self.first) << RANK_BITS | rank as u64) << self.line_bits | line as u64
    }

    /// Returns whether a word has room for `ticks`, which count from `self.first`. To check several lines at once, pass
    /// their ticks joined by a bitwise or.
    #[inline(always)]
    fn has_room(self, ticks: u64) -> bool {
        ticks.leading_zeros() >= RANK_BITS + self.line_bits
    }

    /// Returns the rank of the text to which the line of `word` belongs, and the number of the line in that text.
    #[inline(always)]
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "both are parts of the word that were a `usize` before"
    )]
    pub(crate) fn place(self, word: u64) -> (usize, usize) {
        let line = word & ((1 << self.line_bits) - 1);
        ((word >> self.line_bits) as usize & (MAX_TEXTS - 1), line as usize)
    }
}

/// The lines of a plain text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PlainLines {
    /// The number of lines: at least one.
    pub lines: usize,
    /// The ticks of the last line.
    pub last: u64,
    /// Whether one of the lines is a `#` line.
    pub has_meta: bool,
}

/// The lines of a text that has an index.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct IndexedText<'a> {
    /// The text; further bytes may follow it.
    pub bytes: &'a [u8],
    /// The offset of each line in `bytes`, and at last the offset of the text's end.
    pub starts: &'a [u32],
}

impl<'a> IndexedText<'a> {
    /// Returns the bytes of the lines whose numbers are `first` or greater and less than `end`.
    #[inline]
    #[must_use]
    pub(crate) fn lines(&self, first: usize, end: usize) -> &'a [u8] {
        &self.bytes[self.starts[first] as usize..self.starts[end] as usize]
    }

    /// Returns whether a line is a `#` line.
    #[must_use]
    pub(crate) fn is_meta(&self, line: usize) -> bool {
        self.lines(line, line + 1).get(HEAD - 2) == Some(&b'#')
    }
}

/// Makes the index of `text`, whose rank among the texts of a merge is `rank`: puts the offsets of its lines and of its
/// end at the beginning of `starts`, and adds the word of each line to `words`. Returns `None` if the text is not
/// plain, or if a word has no room for its ticks; the words that were added to `words` are then not valid.
pub(crate) fn index(
    text: &[u8],
    rank: usize,
    numbering: Numbering,
    starts: &mut Vec<u32>,
    words: &mut Vec<u64>,
) -> Option<PlainLines> {
    if rank >= MAX_TEXTS || text.len() > MAX_BYTES {
        return None;
    }
    #[cfg(target_arch = "x86_64")]
    return x86_64::index(text, (rank, numbering), starts, words, x86_64::has_avx2());
    #[cfg(not(target_arch = "x86_64"))]
    index_line_by_line(text, (rank, numbering), starts, words)
}

/// Does the work of [`index`] on any processor.
#[cfg(any(test, not(target_arch = "x86_64")))]
fn index_line_by_line(
    text: &[u8],
    (rank, numbering): (usize, Numbering),
    starts: &mut Vec<u32>,
    words: &mut Vec<u64>,
) -> Option<PlainLines> {
    starts.clear();
    starts.push(0);
    let mut plain = PlainLines { lines: 0, last: numbering.first, has_meta: false };
    let (mut at, mut span) = (0, 0);
    while at < text.len() {
        let Token::Line(line) = line_at(text, at) else { return None };
        let is_plain = text[at..line.end].first_chunk::<SHORTEST_PLAIN>().is_some_and(|head| {
            // A longer thread id would have a digit there.
            head[HEAD - 3] == b' ' && head[HEAD - 1] == b' '
        });
        if !is_plain || text[line.end - 1] != b'\n' || line.ticks < plain.last {
            return None;
        }
        words.push(numbering.word(line.ticks, rank, plain.lines));
        starts.push(u32::try_from(line.end).ok()?);
        span |= line.ticks.wrapping_sub(numbering.first);
        plain.last = line.ticks;
        plain.has_meta |= line.meta;
        (at, plain.lines) = (line.end, plain.lines + 1);
    }
    (plain.lines > 0 && numbering.has_room(span)).then_some(plain)
}

/// Merges two sorted lists of words, each of which stands for a line (see [`Numbering`]), and appends these lines to
/// `out`. `texts[rank]` is the text with this rank, and `bytes` is the total length of the lines.
pub(crate) fn gather(
    words: (&[u64], &[u64]),
    texts: &[IndexedText<'_>; MAX_TEXTS],
    numbering: Numbering,
    bytes: usize,
    out: &mut Vec<u8>,
) {
    out.reserve(bytes + WIDE);
    #[cfg(target_arch = "x86_64")]
    if x86_64::has_avx2() {
        // SAFETY: the processor has the instructions with which the function was made.
        unsafe { x86_64::gather_avx2(words, texts, numbering, out) };
        return;
    }
    gather_into(words, texts, numbering, out);
}

/// The number of bytes that are copied at once, even if a line is shorter: the next line then overwrites the excess
/// bytes.
const WIDE: usize = 128;

/// Does the work of [`gather`] in the spare capacity of `out`. Panics if the capacity is too small.
#[inline(always)]
fn gather_into(
    (mut first, mut second): (&[u64], &[u64]),
    texts: &[IndexedText<'_>; MAX_TEXTS],
    numbering: Numbering,
    out: &mut Vec<u8>,
) {
    let room = out.spare_capacity_mut();
    let mut at = 0;
    let mut put = |word: u64| {
        let (rank, line) = numbering.place(word);
        let text = &texts[rank];
        let (start, end) = (text.starts[line] as usize, text.starts[line + 1] as usize);
        let length = end - start;
        let (from, to) = (&text.bytes[start..], &mut room[at..]);
        for copied in (0..length).step_by(WIDE) {
            let (from, to) = (&from[copied..], &mut to[copied..]);
            match (from.first_chunk::<WIDE>(), to.first_chunk_mut::<WIDE>()) {
                // SAFETY: both places have `WIDE` bytes. They do not overlap, because one is in a text and the other
                // in room that is borrowed exclusively.
                (Some(from), Some(to)) => unsafe {
                    std::ptr::copy_nonoverlapping(from.as_ptr(), to.as_mut_ptr().cast::<u8>(), WIDE);
                },
                _ => {
                    let length = length - copied;
                    copy_exactly(&from[..length.min(WIDE)], &mut to[..length.min(WIDE)]);
                }
            }
        }
        at += length;
    };
    loop {
        let steps = first.len().min(second.len());
        let (mut i, mut j) = (0, 0);
        for _ in 0..steps {
            let (one, other) = (first[i], second[j]);
            put(one.min(other));
            i += usize::from(one < other);
            j += usize::from(one >= other);
        }
        if steps == 0 {
            break;
        }
        (first, second) = (&first[i..], &second[j..]);
    }
    first.iter().chain(second).for_each(|word| put(*word));
    let length = out.len() + at;
    // SAFETY: the loop has written the bytes up to here, line after line, in the room behind the vector's elements.
    unsafe { out.set_len(length) };
}

/// Copies bytes to memory of the same length. This is a function of its own, so that the compiler does not combine it
/// with the copies of a fixed length, which it compiles without a call.
#[cold]
#[inline(never)]
fn copy_exactly(from: &[u8], to: &mut [MaybeUninit<u8>]) {
    to.iter_mut().zip(from).for_each(|(to, from)| {
        to.write(*from);
    });
}

#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use std::arch::x86_64::*;

    use trace_format::escape::harmless_prefix;

    use super::{HEAD, IndexedText, MAX_TEXTS, Numbering, PlainLines, SHORTEST_PLAIN, gather_into};
    use crate::file::map::prefetch;

    /// The number of bytes that are examined together.
    const BLOCK: usize = 64;
    /// The greatest number of line feeds in a block of plain lines.
    const MAX_FEEDS: usize = BLOCK.div_ceil(SHORTEST_PLAIN);
    /// The distance in bytes from the examined block to the later bytes that the processor is told to load in advance.
    const AHEAD: usize = 1024;

    /// Returns whether the processor has all instructions that the functions `index_avx2` and `gather_avx2` use.
    #[inline]
    pub(super) fn has_avx2() -> bool {
        is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
    }

    /// Two sets of bytes of a block. Each set has one bit for each byte, the lowest bit for the first byte.
    struct Marks {
        /// The bytes that are line feeds.
        feeds: u64,
        /// The bytes that are neither line feeds nor visible ASCII characters nor spaces.
        unusual: u64,
    }

    /// Makes the index of `text`, see [`super::index`], 64 bytes at a time.
    pub(super) fn index(
        text: &[u8],
        place: (usize, Numbering),
        starts: &mut Vec<u32>,
        words: &mut Vec<u64>,
        has_avx2: bool,
    ) -> Option<PlainLines> {
        // If no line is plain, the first one says so.
        if !head(text.first_chunk()?).is_plain {
            return None;
        }
        let most = text.len() / SHORTEST_PLAIN + 1 + MAX_FEEDS;
        if starts.len() < most {
            starts.resize(most, 0);
        }
        starts[0] = 0;
        if has_avx2 {
            // SAFETY: the processor has the instructions with which the function was made.
            return unsafe { index_avx2(text, place, starts, words) };
        }
        index_by(text, place, starts, words, marks_sse2)
    }

    /// Does the work of [`index`] after its first checks, with the instructions of AVX2.
    ///
    /// # Safety
    /// [`has_avx2`] must have returned true.
    #[target_feature(enable = "avx2,bmi1,bmi2")]
    unsafe fn index_avx2(
        text: &[u8],
        place: (usize, Numbering),
        starts: &mut [u32],
        words: &mut Vec<u64>,
    ) -> Option<PlainLines> {
        index_by(text, place, starts, words, marks_avx2)
    }

    #[inline(always)]
    fn index_by(
        text: &[u8],
        place: (usize, Numbering),
        starts: &mut [u32],
        words: &mut Vec<u64>,
        marks: impl Fn(&[u8; BLOCK]) -> Marks,
    ) -> Option<PlainLines> {
        let lines = line_ends(text, &mut starts[1..], marks)?;
        heads(text, &starts[..=lines], place, words)
    }

    /// Does the work of [`super::gather_into`], with the instructions of AVX2.
    ///
    /// # Safety
    /// [`has_avx2`] must have returned true.
    #[target_feature(enable = "avx2,bmi1,bmi2")]
    pub(super) unsafe fn gather_avx2(
        words: (&[u64], &[u64]),
        texts: &[IndexedText<'_>; MAX_TEXTS],
        numbering: Numbering,
        out: &mut Vec<u8>,
    ) {
        gather_into(words, texts, numbering, out);
    }

    /// Finds the ends of all lines of `text`, which must end with a line feed, and checks the bytes of the lines.
    /// Returns the number of lines; `None` if the text is not plain.
    #[inline(always)]
    fn line_ends(text: &[u8], ends: &mut [u32], marks: impl Fn(&[u8; BLOCK]) -> Marks) -> Option<usize> {
        let (mut lines, mut harmless_until) = (0, 0);
        let mut last = [b' '; BLOCK];
        for at in (0..text.len()).step_by(BLOCK) {
            let rest = &text[at..];
            prefetch(rest.as_ptr().wrapping_add(AHEAD), 1);
            let block = rest.first_chunk().unwrap_or_else(|| {
                last[..rest.len()].copy_from_slice(rest);
                &last
            });
            let Marks { mut feeds, unusual } = marks(block);
            if unusual != 0 {
                harmless_until = check_unusual(text, at, unusual, harmless_until)?;
            }
            // No branch depends on the number of line feeds: an entry that is not an end is overwritten by the next.
            for end in ends.get_mut(lines..)?.first_chunk_mut::<MAX_FEEDS>()? {
                *end = at as u32 + feeds.trailing_zeros() + 1;
                lines += usize::from(feeds != 0);
                feeds &= feeds.wrapping_sub(1);
            }
            if feeds != 0 {
                return None;
            }
        }
        let is_ended = lines > 0 && ends[lines - 1] as usize == text.len();
        is_ended.then_some(lines)
    }

    /// Checks the bytes that are marked in `unusual`, in the block that begins at `at`. The text before
    /// `harmless_until` was checked earlier. Returns the new end of the checked text; `None` if a line has a byte that
    /// the format does not allow.
    #[cold]
    #[inline(never)]
    fn check_unusual(text: &[u8], at: usize, mut unusual: u64, mut harmless_until: usize) -> Option<usize> {
        while unusual != 0 {
            let unusual_at = at + unusual.trailing_zeros() as usize;
            unusual &= unusual - 1;
            if unusual_at >= harmless_until {
                harmless_until = unusual_at + harmless_prefix(&text[unusual_at..]);
                if text.get(harmless_until) != Some(&b'\n') {
                    return None;
                }
            }
        }
        Some(harmless_until)
    }

    #[inline(always)]
    fn marks_avx2(block: &[u8; BLOCK]) -> Marks {
        let mut marks = Marks { feeds: 0, unusual: 0 };
        for (half, shift) in block.chunks_exact(32).zip([0, 32]) {
            // SAFETY: the half has the 32 bytes that are read. Only a function made with AVX2 has this code inside.
            unsafe {
                let bytes = _mm256_loadu_si256(half.as_ptr().cast());
                let feeds = _mm256_movemask_epi8(_mm256_cmpeq_epi8(bytes, _mm256_set1_epi8(10)));
                // As signed numbers, DEL becomes the smallest, and the bytes from 0x80 on are negative.
                let above = _mm256_add_epi8(bytes, _mm256_set1_epi8(1));
                let usual = _mm256_movemask_epi8(_mm256_cmpgt_epi8(above, _mm256_set1_epi8(0x20)));
                marks.feeds |= u64::from(feeds as u32) << shift;
                marks.unusual |= u64::from(!(usual | feeds) as u32) << shift;
            }
        }
        marks
    }

    #[inline(always)]
    fn marks_sse2(block: &[u8; BLOCK]) -> Marks {
        let mut marks = Marks { feeds: 0, unusual: 0 };
        for (quarter, shift) in block.chunks_exact(16).zip([0, 16, 32, 48]) {
            // SAFETY: the quarter has the 16 bytes that are read, and every x86-64 has SSE2.
            unsafe {
                let bytes = _mm_loadu_si128(quarter.as_ptr().cast());
                let feeds = _mm_movemask_epi8(_mm_cmpeq_epi8(bytes, _mm_set1_epi8(10)));
                let above = _mm_add_epi8(bytes, _mm_set1_epi8(1));
                let usual = _mm_movemask_epi8(_mm_cmpgt_epi8(above, _mm_set1_epi8(0x20)));
                marks.feeds |= u64::from(feeds as u16) << shift;
                marks.unusual |= u64::from(!(usual | feeds) as u16) << shift;
            }
        }
        marks
    }

    /// The ticks and the kind at the beginning of a line.
    struct Head {
        ticks: u64,
        kind: u8,
        /// Whether a plain line can have this head.
        is_plain: bool,
    }

    /// Parses the ticks and the kind at the beginning of a line, and checks whether a plain line can begin so.
    #[inline(always)]
    fn head(head: &[u8; HEAD]) -> Head {
        // The least and the greatest byte at each place behind the ticks; those of the kind are checked by `KINDS`.
        const LEAST: [u8; 16] = *b"\0\0\0\0-00000000 \0 ";
        const GREATEST: [u8; 16] = *b"\xff\xff\xff\xff-99999999 \xff ";
        let kind = head[HEAD - 2];
        // SAFETY: the head has the 16 bytes that are read at each of two places, and so have the constants. Every
        // x86-64 has SSE2.
        unsafe {
            let digits = _mm_loadu_si128(head.as_ptr().cast());
            let is_letter = _mm_cmpgt_epi8(digits, _mm_set1_epi8(b'9' as i8));
            let to_letters = _mm_and_si128(is_letter, _mm_set1_epi8((b'a' - b'9' - 1) as i8));
            let values = _mm_sub_epi8(digits, _mm_add_epi8(_mm_set1_epi8(b'0' as i8), to_letters));
            let least = _mm_and_si128(is_letter, _mm_set1_epi8(10));
            let greatest = _mm_add_epi8(_mm_set1_epi8(9), _mm_and_si128(is_letter, _mm_set1_epi8(6)));
            let are_digits = is_between(values, least, greatest);
            // Two digits make a byte, the first one its high half.
            let pairs = _mm_or_si128(_mm_slli_epi16(values, 4), _mm_srli_epi16(values, 8));
            let pairs = _mm_and_si128(pairs, _mm_set1_epi16(0xff));
            let ticks = (_mm_cvtsi128_si64(_mm_packus_epi16(pairs, pairs)) as u64).swap_bytes();
            let rest = _mm_loadu_si128(head.as_ptr().add(HEAD - 16).cast());
            let least = _mm_loadu_si128(LEAST.as_ptr().cast());
            let greatest = _mm_loadu_si128(GREATEST.as_ptr().cast());
            let are_right = _mm_and_si128(are_digits, is_between(rest, least, greatest));
            let is_plain = (_mm_movemask_epi8(are_right) == 0xffff) & KINDS[usize::from(kind)];
            Head { ticks, kind, is_plain }
        }
    }

    /// Returns which of `bytes` lie between `least` and `greatest`, both included.
    ///
    /// # Safety
    /// Every x86-64 has SSE2.
    #[inline(always)]
    unsafe fn is_between(bytes: __m128i, least: __m128i, greatest: __m128i) -> __m128i {
        // SAFETY: see above.
        unsafe { _mm_cmpeq_epi8(_mm_min_epu8(_mm_max_epu8(bytes, least), greatest), bytes) }
    }

    /// For each value of a byte, whether it can be the kind of a line.
    static KINDS: [bool; 256] = {
        let (mut kinds, mut byte) = ([false; 256], 0);
        while byte < kinds.len() {
            kinds[byte] = (byte as u8).is_ascii_punctuation();
            byte += 1;
        }
        kinds
    };

    /// Checks the head of each line, and adds the line's word to `words`. `starts` has the beginning of each line,
    /// and the end of the text.
    #[inline(always)]
    fn heads(
        text: &[u8],
        starts: &[u32],
        (rank, numbering): (usize, Numbering),
        words: &mut Vec<u64>,
    ) -> Option<PlainLines> {
        let (end, starts) = starts.split_last()?;
        let (mut before, mut is_plain, mut has_meta, mut span) = (numbering.first, true, false, 0);
        let made = words.len();
        words.resize(made + starts.len(), 0);
        for (line, (word, start)) in words[made..].iter_mut().zip(starts).enumerate() {
            let head = head(text.get(*start as usize..)?.first_chunk()?);
            is_plain &= head.is_plain & (head.ticks >= before);
            has_meta |= head.kind == b'#';
            span |= head.ticks.wrapping_sub(numbering.first);
            before = head.ticks;
            *word = numbering.word(head.ticks, rank, line);
        }
        let is_last_whole = (*end as usize - *starts.last()? as usize) >= SHORTEST_PLAIN;
        (is_plain && is_last_whole && numbering.has_room(span)).then_some(PlainLines {
            lines: starts.len(),
            last: before,
            has_meta,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace_format::line::Kind;

    type Index = Option<(PlainLines, Vec<u32>, Vec<u64>)>;

    /// Makes the index in each way that this processor knows, and expects the same of all.
    fn indexed(text: &[u8], first: u64) -> Index {
        let numbering = Numbering::new(first, text.len());
        let (mut starts, mut words) = (Vec::new(), Vec::new());
        let found = index_line_by_line(text, (3, numbering), &mut starts, &mut words);
        let expected = found.map(|plain| (plain, starts, words));
        #[cfg(target_arch = "x86_64")]
        for has_avx2 in [false, x86_64::has_avx2()] {
            let (mut starts, mut words) = (vec![7; 3], Vec::new());
            let found = x86_64::index(text, (3, numbering), &mut starts, &mut words, has_avx2);
            let found = found.map(|plain| {
                starts.truncate(plain.lines + 1);
                (plain, starts, words)
            });
            assert_eq!(found, expected, "{}", String::from_utf8_lossy(text));
        }
        expected
    }

    fn lines() -> Vec<u8> {
        let texts =
            ["", "x", "a line of some words", "gr\u{f6}\u{df}e\t\u{4f60}\u{597d} \u{1f980}", "# not a kind"];
        let kinds = Kind::ALL.map(Kind::byte).map(char::from);
        let line = |at: usize| {
            let (text, ticks) =
                (texts[at % texts.len()].repeat(1 + at % 4), 0x0128_fd9f_283f + at as u64 / 2);
            format!("{ticks:016x}-{:08} {} {text}\n", 90 + at, kinds[at % kinds.len()])
        };
        (0..9).map(line).collect::<String>().into_bytes()
    }

    #[test]
    fn an_index_has_the_places_the_words_and_the_metadata_of_all_lines() {
        let text = b"000000000000000a-00000001 : x\n000000000000000c-00000002 # clock\n";
        let numbering = Numbering::new(9, text.len());
        let (plain, starts, words) = indexed(text, 9).unwrap();
        assert_eq!(plain, PlainLines { lines: 2, last: 12, has_meta: true });
        assert_eq!(starts, [0, 30, 64]);
        assert_eq!(words.iter().map(|word| numbering.place(*word)).collect::<Vec<_>>(), [(3, 0), (3, 1)]);
        let index = IndexedText { bytes: text, starts: &starts };
        assert_eq!((index.is_meta(0), index.is_meta(1)), (false, true));
        assert_eq!(index.lines(0, 1), &text[..30]);
    }

    #[test]
    fn every_byte_of_a_text_decides_in_every_way_equally_whether_it_is_plain() {
        let text = lines();
        assert!(indexed(&text, 0).is_some());
        let (mut plain, mut other) = (0, 0);
        let mut see = |text: &[u8]| match indexed(text, 0x0128_fd9f_283f) {
            Some(_) => plain += 1,
            None => other += 1,
        };
        for at in 0..text.len() {
            for byte in *b"\0\n\r\t\x1b -/09:`afgz\x7f\x80\x9b\xa0\xc2\xe4\xf0\xff" {
                let mut changed = text.clone();
                changed[at] = byte;
                see(&changed);
                changed.insert(at, text[at]);
                see(&changed);
            }
            see(&text[..at]);
            see(&text[at..]);
            see(&[&text[..at], &text[at + 1..]].concat());
        }
        assert!(plain > 1000 && other > 1000, "{plain} {other}");
    }

    #[test]
    fn ticks_before_the_first_and_ticks_without_room_have_no_index() {
        let text = |ticks: u64| format!("{ticks:016x}-00000001 : x\n").into_bytes();
        assert!(indexed(&text(0), 0).is_some());
        assert!(indexed(&text(8), 9).is_none());
        assert!(indexed(&text(0), u64::MAX).is_none());
        assert!(indexed(&text(u64::MAX), u64::MAX).is_some());
        // Six bits are for the rank, and one for the number of the line.
        assert!(indexed(&text((1 << 57) - 1), 0).is_some());
        assert!(indexed(&text(1 << 57), 0).is_none());
    }

    #[test]
    fn lines_of_any_length_are_gathered() {
        let lengths = [0, 1, 90, 99, 100, 101, 127, 128, 129, 227, 228, 229, 500, 0, 3];
        let file = |rank: usize| {
            let line = |(at, length): (usize, &usize)| {
                let (ticks, text) = (at * 3 + rank * rank, "x".repeat(length + rank));
                format!("{ticks:016x}-{rank:08} : {text}\n")
            };
            lengths.iter().enumerate().map(line).collect::<Vec<_>>()
        };
        let (one, other) = (file(0), file(1));
        let mut expected = [&one[..], &other].concat();
        expected.sort();
        let files = [one.concat(), other.concat()];
        let numbering = Numbering::new(0, files[1].len());
        let (mut starts, mut words) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
        for rank in 0..2 {
            let text = files[rank].as_bytes();
            index(text, rank, numbering, &mut starts[rank], &mut words[rank]).unwrap();
        }
        let mut texts = [IndexedText::default(); MAX_TEXTS];
        for rank in 0..2 {
            texts[rank] = IndexedText { bytes: files[rank].as_bytes(), starts: &starts[rank] };
        }
        let bytes = files.concat().len();
        let mut out = b"before\n".to_vec();
        gather((&words[0], &words[1]), &texts, numbering, bytes, &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), format!("before\n{}", expected.concat()));
        let mut out = Vec::with_capacity(bytes);
        gather_into((&words[0], &words[1]), &texts, numbering, &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), expected.concat());
    }
}
