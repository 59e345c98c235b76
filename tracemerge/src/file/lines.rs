//! The lines in the bytes of a trace file, and the bytes that are not lines.
//!
//! Bytes are a sequence of *lines* and *bad regions*. A line has a valid key and kind and ends after its line feed,
//! or before a NUL (which the format never writes: a crash of the machine leaves it), or at the end of the bytes. It
//! has only bytes that the format allows, so a line that is passed on cannot control a terminal. A bad region extends
//! up to the next line. The functions copy nothing and keep nothing: all take the bytes and a position. The time of
//! every function is linear in the bytes that it passes over, plus the line at which it ends.

use std::iter;

use memchr::{memchr, memchr2, memmem, memrchr, memrchr2};
use trace_format::escape::{harmless_prefix, is_harmless};
use trace_format::line::{Kind, Line, SHORTEST, parse_ticks};

/// The number of bytes before a line's payload: the key, the kind and the space after it.
const HEAD: usize = SHORTEST + 1;

/// The number of bytes within which a trace has its first line; a file without a line there is not a trace.
pub(crate) const PROBE: usize = 64 * 1024;

/// Zero bytes to compare with the bytes of a hole in a file. Holes consist of pages, so one comparison skips a page.
const HOLE: &[u8] = &[0; 4096];

/// The element that begins at a position in the bytes of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    /// The end of the bytes is at the position.
    End,
    /// A bad region begins at the position.
    Bad,
    /// A line begins at the position.
    Line(LineAt),
}

/// A line that was found in the bytes of a trace: its end, and the properties that a merge needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LineAt {
    /// The offset of the end of the line, including its line feed.
    pub end: usize,
    /// The ticks of the line.
    pub ticks: u64,
    /// Whether the line is a `#` line.
    pub meta: bool,
}

/// Returns the token that begins at `at`, a position at which a line may begin.
#[inline]
#[must_use]
pub(crate) fn line_at(bytes: &[u8], at: usize) -> Token {
    let rest = &bytes[at..];
    let Some(head) = rest.first_chunk::<HEAD>() else { return parse_unusual_line(bytes, at) };
    let (Some(ticks), Some(kind)) = (parse_ticks(head), common_kind(head)) else {
        return parse_unusual_line(bytes, at);
    };
    // One pass over the bytes finds both the line's end and bytes that a line may not have.
    let payload = &rest[HEAD..];
    let length = harmless_prefix(payload);
    let end = match payload.get(length) {
        Some(b'\n') => length + 1,
        Some(0) | None => length,
        Some(_) => return Token::Bad,
    };
    Token::Line(LineAt { end: at + HEAD + end, ticks: ticks.0, meta: kind == b'#' })
}

/// Returns the kind of a line from its head, if the thread id has eight digits; `None` if the whole head must be
/// parsed.
#[inline]
fn common_kind(head: &[u8; HEAD]) -> Option<u8> {
    const ONES: u64 = u64::MAX / 255;
    let [.., t1, t2, t3, t4, t5, t6, t7, t8, b' ', kind, b' '] = *head else { return None };
    let tid = u64::from_le_bytes([t1, t2, t3, t4, t5, t6, t7, t8]);
    let high = ONES * 0xf0;
    // The digits are 0x30 to 0x39: the high half is 3, and is still 3 after adding 6.
    let digits = (tid & high) == ONES * 0x30 && (tid.wrapping_add(ONES * 6) & high) == ONES * 0x30;
    (digits && matches!(kind, b':' | b'|' | b'>' | b'<' | b'^' | b'!' | b'#')).then_some(kind)
}

/// Returns the number of bytes at the beginning of `payload` that belong to the first line: up to and including the
/// first line feed, or up to the first NUL, or all bytes.
#[inline]
fn length(payload: &[u8]) -> usize {
    match memchr2(b'\n', 0, payload) {
        Some(at) => at + usize::from(payload[at] == b'\n'),
        None => payload.len(),
    }
}

/// Does the work of [`line_at`] if the line is short, has a long thread id, or is not a line.
#[cold]
#[inline(never)]
fn parse_unusual_line(bytes: &[u8], at: usize) -> Token {
    let rest = &bytes[at..];
    if rest.is_empty() {
        return Token::End;
    }
    // A bad line may be long, but a key is not: the end is searched only after a valid key.
    if parse_ticks(rest).is_none() {
        return Token::Bad;
    }
    let end = length(rest);
    match Line::parse(strip_line_feed(&rest[..end])) {
        Ok(line) if is_harmless(line.payload) => {
            let meta = line.kind == trace_format::line::Kind::Meta;
            Token::Line(LineAt { end: at + end, ticks: line.key.ticks.0, meta })
        }
        Ok(_) | Err(_) => Token::Bad,
    }
}

/// Returns a physical line without its line feed.
#[must_use]
pub(crate) fn strip_line_feed(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\n").unwrap_or(line)
}

/// Returns the physical line at the beginning of `lines`, including its line feed.
#[must_use]
pub(crate) fn whole_line(lines: &[u8]) -> &[u8] {
    &lines[..memchr(b'\n', lines).map_or(lines.len(), |at| at + 1)]
}

/// Returns the physical lines in `lines`, each with its line feed.
pub(crate) fn lines_of(mut lines: &[u8]) -> impl Iterator<Item = &[u8]> {
    iter::from_fn(move || {
        let line = whole_line(lines);
        lines = &lines[line.len()..];
        (!line.is_empty()).then_some(line)
    })
}

/// Returns the offset of the first line at or after `at`, or the end of the bytes if there is none.
///
/// Lines begin after line feeds, and after NULs: a hole may end where a line begins.
#[must_use]
pub(crate) fn skip_bad(bytes: &[u8], at: usize) -> usize {
    skip_bad_until(bytes, at, bytes.len())
}

/// Does the work of [`skip_bad`], but gives up at `limit`: then it returns `limit` or more.
fn skip_bad_until(bytes: &[u8], mut at: usize, limit: usize) -> usize {
    while at < limit && ticks_at(bytes, at).is_none() {
        let Some(stop) = memchr2(b'\n', 0, &bytes[at..]) else { return bytes.len() };
        at += stop;
        at += blank(&bytes[at..]);
    }
    at
}

/// Returns the ticks of the line at `at`; `None` if no line begins there.
#[inline]
#[must_use]
pub(crate) fn ticks_at(bytes: &[u8], at: usize) -> Option<u64> {
    match line_at(bytes, at) {
        Token::Line(line) => Some(line.ticks),
        Token::Bad | Token::End => None,
    }
}

/// Finds the first line that begins after `at` and not after `limit`; returns its offset and its ticks. `at` may be in
/// the middle of a line: the result is always a line that reading from the beginning would find, too.
#[must_use]
pub(crate) fn next_line_after(bytes: &[u8], at: usize, limit: usize) -> Option<(usize, u64)> {
    let stop = at + memchr2(b'\n', 0, bytes.get(at..limit)?)?;
    let line = skip_bad_until(bytes, stop + blank(&bytes[stop..]), limit + 1);
    (line <= limit && line < bytes.len()).then_some(())?;
    Some((line, ticks_at(bytes, line)?))
}

/// Returns the number of line feeds and NULs at the beginning of `bytes`.
fn blank(bytes: &[u8]) -> usize {
    let zeros = bytes.chunks_exact(HOLE.len()).take_while(|chunk| *chunk == HOLE).count() * HOLE.len();
    zeros + bytes[zeros..].iter().position(|&b| b != b'\n' && b != 0).unwrap_or(bytes.len() - zeros)
}

/// Returns the offset of the first line; `None` if the first [`PROBE`] bytes have none.
#[must_use]
pub(crate) fn first_line(bytes: &[u8]) -> Option<usize> {
    let mut end = bytes.len().min(PROBE);
    // An incomplete character at the border would look like a bad byte.
    while end + 4 > PROBE && end > 0 && bytes.get(end).is_some_and(|byte| matches!(byte, 0x80..=0xbf)) {
        end -= 1;
    }
    let window = &bytes[..end];
    let at = skip_bad(window, 0);
    (at < window.len()).then_some(at)
}

/// Returns the ticks of the first line; `None` if the first [`PROBE`] bytes have none.
#[must_use]
pub(crate) fn first_ticks(bytes: &[u8]) -> Option<u64> {
    match line_at(bytes, first_line(bytes)?) {
        Token::Line(line) => Some(line.ticks),
        Token::Bad | Token::End => None,
    }
}

/// Returns the ticks of the last line, which is searched from the end; `None` if there is no line.
#[must_use]
pub(crate) fn last_ticks(bytes: &[u8]) -> Option<u64> {
    let mut end = bytes.len();
    loop {
        let zeros =
            bytes[..end].rchunks_exact(HOLE.len()).take_while(|chunk| *chunk == HOLE).count() * HOLE.len();
        end = bytes[..end - zeros].iter().rposition(|&b| b != b'\n' && b != 0)? + 1;
        let start = memrchr2(b'\n', 0, &bytes[..end]).map_or(0, |at| at + 1);
        if let Token::Line(line) = line_at(bytes, start) {
            return Some(line.ticks);
        }
        end = start;
    }
}

/// Returns the bytes without an incomplete last line, which has no line feed yet.
#[must_use]
pub(crate) fn without_torn_tail(bytes: &[u8]) -> &[u8] {
    &bytes[..memrchr(b'\n', bytes).map_or(0, |at| at + 1)]
}

/// Returns the payloads of the `#` lines of a text, in order.
pub(crate) fn metas_in(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut behind = 0;
    memmem::find_iter(text, b" # ").filter_map(move |at| {
        // A match further on in a line does not begin another line.
        let before = text.get(behind..at)?;
        let start = memrchr(b'\n', before).map_or(behind, |feed| behind + feed + 1);
        behind = memchr(b'\n', &text[at..]).map_or(text.len(), |feed| at + feed);
        let line = Line::parse(&text[start..behind]).ok()?;
        (line.kind == Kind::Meta).then_some(line.payload)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GOOD: &[u8] = b"00000128fd9f283f-00000320 : hello\n";

    fn line(end: usize, meta: bool) -> Token {
        Token::Line(LineAt { end, ticks: 0x0128_fd9f_283f, meta })
    }

    #[test]
    fn a_line_ends_at_a_line_feed_a_nul_or_the_end_of_the_file() {
        assert_eq!(line_at(GOOD, 0), line(GOOD.len(), false));
        assert_eq!(line_at(&GOOD[..30], 0), line(30, false));
        assert_eq!(line_at(b"00000128fd9f283f-00000320 : he\0lo\n", 0), line(30, false));
        assert_eq!(line_at(b"00000128fd9f283f-00000320 #\n", 0), line(28, true));
        assert_eq!(line_at(b"00000128fd9f283f-4294967296 # x\n", 0), line(32, true));
        assert_eq!(line_at(GOOD, GOOD.len()), Token::End);
    }

    #[test]
    fn a_bad_region_ends_at_the_next_line() {
        for bad in
            [&b"junk\n"[..], b"\n", b"\0\0\0", b"half a\0\0\0", b"a\nb\n\n\0c\n", b"00000128fd9f283f-\n"]
        {
            let bytes = [bad, GOOD].concat();
            assert_eq!(line_at(&bytes, 0), Token::Bad);
            assert_eq!(skip_bad(&bytes, 0), bad.len());
            assert_eq!(skip_bad(bad, 0), bad.len());
        }
        let holes = [&[0; 10_000][..], GOOD].concat();
        assert_eq!(skip_bad(&holes, 0), 10_000);
    }

    #[test]
    fn a_line_with_disallowed_bytes_is_bad() {
        for bad in ["\u{1b}[31m", "\r", "\u{7f}", "\u{9b}31m", "\u{80}", "\u{1}"].map(str::as_bytes) {
            let line = [&GOOD[..30], bad, b" and more\n"].concat();
            assert_eq!(line_at(&line, 0), Token::Bad, "{bad:x?}");
            assert_eq!(skip_bad(&[&line, GOOD].concat(), 0), line.len(), "{bad:x?}");
            assert_eq!(last_ticks(&line), None, "{bad:x?}");
        }
        for bad in [&b"\xff"[..], b"\xc3", b"\xe4\xbd", b"\xc0\x80", b"\xed\xa0\x80"] {
            assert_eq!(line_at(&[&GOOD[..30], bad, b"\n"].concat(), 0), Token::Bad, "{bad:x?}");
        }
        for text in ["\ttabs\tand \\x1b", "größe 你好 🦀", "\u{a0}", "\u{2028}"] {
            let good = [&GOOD[..30], text.as_bytes(), b"\n"].concat();
            assert_eq!(line_at(&good, 0), line(good.len(), false), "{text}");
        }
    }

    #[test]
    fn a_first_line_longer_than_the_probe_is_found() {
        for shift in 0..4 {
            let text = "x".repeat(shift) + &"🦀".repeat(PROBE / 3);
            let line = [&GOOD[..28], text.as_bytes(), b"\n"].concat();
            assert_eq!(first_line(&line), Some(0), "{shift}");
        }
    }

    #[test]
    fn the_last_ticks_are_found_before_trailing_damage() {
        let other: &[u8] = b"00000128fd9f2840-00000320 : last";
        assert_eq!(last_ticks(&[GOOD, other].concat()), Some(0x0128_fd9f_2840));
        assert_eq!(last_ticks(&[GOOD, other, b"\njunk\n\n\0\0\0\njunk"].concat()), Some(0x0128_fd9f_2840));
        assert_eq!(last_ticks(b""), None);
        assert_eq!(last_ticks(b"junk\n\0"), None);
    }

    #[test]
    fn a_torn_tail_is_left_out() {
        assert_eq!(without_torn_tail(&[GOOD, b"0000"].concat()), GOOD);
        assert_eq!(without_torn_tail(GOOD), GOOD);
        assert_eq!(without_torn_tail(b"0000"), b"");
    }

    proptest! {
        #[test]
        fn the_fast_line_check_agrees_with_the_parser(bytes in hostile()) {
            let end = bytes.iter().position(|&b| b == b'\n' || b == 0).unwrap_or(bytes.len());
            let allowed = |line: &Line<'_>| {
                std::str::from_utf8(line.payload).is_ok_and(|t| !t.chars().any(|c| c.is_control() && c != '\t'))
            };
            let parsed = Line::parse(&bytes[..end]).ok().filter(allowed);
            match line_at(&bytes, 0) {
                Token::Line(line) => {
                    prop_assert_eq!(parsed.map(|p| p.key.ticks.0), Some(line.ticks));
                    prop_assert_eq!(line.end, end + usize::from(bytes.get(end) == Some(&b'\n')));
                }
                Token::Bad => prop_assert_eq!(parsed, None),
                Token::End => prop_assert!(bytes.is_empty()),
            }
        }

        #[test]
        fn the_next_line_is_found_from_any_offset(
            parts in prop::collection::vec(hostile(), 0..6), limit in 0..400usize
        ) {
            let bytes = parts.concat();
            let (mut at, mut walked) = (0, Vec::new());
            while at < bytes.len() {
                match line_at(&bytes, at) {
                    Token::Line(line) => {
                        walked.push((at, line.ticks));
                        at = line.end;
                    }
                    Token::Bad | Token::End => at = skip_bad(&bytes, at),
                }
            }
            let limit = limit.min(bytes.len());
            for at in 0..bytes.len() {
                let expected = walked.iter().copied().find(|(line, _)| *line > at && *line <= limit);
                prop_assert_eq!(next_line_after(&bytes, at, limit), expected, "behind {}", at);
            }
        }

        #[test]
        fn lines_and_bad_regions_cover_any_bytes(bytes: Vec<u8>) {
            let mut at = 0;
            loop {
                let next = match line_at(&bytes, at) {
                    Token::End => break,
                    Token::Bad => skip_bad(&bytes, at),
                    Token::Line(line) => line.end,
                };
                prop_assert!(next > at && next <= bytes.len());
                at = next;
            }
            let _ = last_ticks(&bytes);
        }
    }

    /// Returns a strategy for good lines with a few bytes changed, truncated at any position.
    fn hostile() -> impl Strategy<Value = Vec<u8>> {
        let byte = prop_oneof![Just(0), Just(b'\n'), Just(0x1b), Just(0xc2), Just(0x9b), any::<u8>()];
        let changes = prop::collection::vec((0..40usize, byte), 0..3);
        let tid = prop_oneof![Just(320u64), any::<u64>()];
        (tid, changes, 0..60usize).prop_map(|(tid, changes, length)| {
            let mut bytes = format!("00000128fd9f283f-{tid:08} : hello, world\n").into_bytes();
            for (at, byte) in changes {
                if let Some(place) = bytes.get_mut(at) {
                    *place = byte;
                }
            }
            bytes.truncate(length);
            bytes
        })
    }
}
