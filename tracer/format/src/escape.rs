//! Escapes, which turn any bytes into text that fits in one line, cannot control a terminal and parses back exactly.
//!
//! Rule: control bytes except tab, DEL, U+0080 to U+009F and bytes that are not UTF-8 are written as `\xNN` (two
//! lower-case hex digits per byte). A backslash before `x` and two hex digits is itself written as
//! `\x5c`. Nothing else is escaped, so Windows paths and regular expressions stay readable.
//!
//! The flusher and `tracemerge` use this module; a thread that traces never does.

const HEX: &[u8; 16] = b"0123456789abcdef";

/// The greatest number of bytes at the end of a piece of text whose meaning depends on the bytes that follow. For
/// example, `\x4` is the beginning of an escape if `1` follows.
pub const LOOKAHEAD: usize = 3;

/// The context of the text that [`escape_into`] escapes: it decides which characters are escaped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EscapeContext {
    /// The payload of a line.
    Line,
    /// A string between double quotes: `"` is escaped too.
    Quoted,
}

/// Appends `text` to `out`, escaped; a line feed becomes `\x0a`.
///
/// Cost: one pass; text in which nothing has to be escaped is copied eight bytes at a time.
pub fn escape_into(out: &mut Vec<u8>, text: &[u8], place: EscapeContext) {
    let mut rest = text;
    loop {
        rest = &rest[escape_line(out, rest, place)..];
        if rest.is_empty() {
            return;
        }
        push_byte(out, b'\n');
        rest = &rest[1..];
    }
}

/// Appends the first line of `text` to `out`, escaped: the bytes up to the first line feed, or all if there is none.
/// Returns the number of these bytes before they are escaped.
pub(crate) fn escape_line(out: &mut Vec<u8>, text: &[u8], place: EscapeContext) -> usize {
    let mut rest = text;
    loop {
        let plain = plain_prefix(rest, place);
        out.extend_from_slice(&rest[..plain]);
        rest = &rest[plain..];
        let taken = match rest.first() {
            None | Some(b'\n') => return text.len() - rest.len(),
            Some(b'\\') if !starts_escape(rest) => {
                out.push(b'\\');
                1
            }
            Some(0x80..) => escape_wide(out, rest),
            Some(&byte) => {
                push_byte(out, byte);
                1
            }
        };
        rest = &rest[taken..];
    }
}

/// Returns whether escaping leaves every byte of `text` unchanged, whatever the text around it. True only for ASCII;
/// for text with tabs the result may be false although tabs are not escaped.
#[inline]
pub(crate) fn is_plain(text: &[u8]) -> bool {
    let hit = |chunk: &[u8; 8]| has_special(u64::from_le_bytes(*chunk), false);
    match text.last_chunk() {
        // The last eight bytes are tested as a whole chunk, although some of them were tested before.
        Some(last) => {
            let mut rest = text;
            while let Some((chunk, after)) = rest.split_first_chunk() {
                if hit(chunk) {
                    return false;
                }
                rest = after;
            }
            !hit(last)
        }
        None => !text.iter().any(|&byte| is_special(byte, false)),
    }
}

/// Returns the length of the longest prefix of `text` that is ASCII and that escaping leaves unchanged.
fn plain_prefix(text: &[u8], place: EscapeContext) -> usize {
    let quote = place == EscapeContext::Quoted;
    let mut at = 0;
    while let Some(chunk) = text[at..].first_chunk::<8>() {
        if has_special(u64::from_le_bytes(*chunk), quote) {
            break;
        }
        at += 8;
    }
    at + text[at..].iter().position(|&b| is_special(b, quote)).unwrap_or(text.len() - at)
}

fn is_special(byte: u8, quote: bool) -> bool {
    (byte < 0x20 && byte != b'\t') || byte >= 0x7f || byte == b'\\' || (quote && byte == b'"')
}

/// Returns whether any of the eight bytes of `word` may have to be escaped. The result is also true for tabs, which
/// need no escape; this only costs time.
///
/// The word is tested with the exact byte-wise "less than n" and "equal to n" of Sean Anderson's *Bit Twiddling Hacks*.
#[inline]
fn has_special(word: u64, quote: bool) -> bool {
    const ONES: u64 = u64::MAX / 255;
    const HIGH: u64 = ONES * 0x80;
    let equals = |byte: u8| {
        let x = word ^ (ONES * u64::from(byte));
        x.wrapping_sub(ONES) & !x
    };
    let below_space = word.wrapping_sub(ONES * 0x20) & !word;
    let mut hit = below_space | word | equals(0x7f) | equals(b'\\');
    if quote {
        hit |= equals(b'"');
    }
    hit & HIGH != 0
}

/// Returns the length in bytes of the longest prefix of `text` that a line may contain: UTF-8 without control
/// characters except tab (so without DEL and U+0080 to U+009F). All escaped text has this form, so bytes after the
/// prefix are damage.
///
/// Cost: one pass, sixteen bytes at a time if they are ASCII.
#[must_use]
#[inline]
pub fn harmless_prefix(text: &[u8]) -> usize {
    let mut at = 0;
    loop {
        at += ascii_prefix(&text[at..]);
        match text.get(at) {
            Some(b'\t') => at += 1,
            Some(0xc2..) => match wide_char_length(&text[at..]) {
                Some(length) => at += length,
                None => return at,
            },
            _ => return at,
        }
    }
}

/// Returns whether a line may contain all of `text`.
#[must_use]
pub fn is_harmless(text: &[u8]) -> bool {
    harmless_prefix(text) == text.len()
}

/// Returns the number of visible ASCII characters and spaces at the beginning of `text`.
#[inline]
fn ascii_prefix(text: &[u8]) -> usize {
    let mut at = 0;
    while let Some(chunk) = text[at..].first_chunk::<16>() {
        if has_unprintable(chunk) {
            let (low, high) = chunk.split_at(8);
            return at + find_unprintable(low).or_else(|| Some(8 + find_unprintable(high)?)).unwrap_or(16);
        }
        at += 16;
    }
    at + text[at..].iter().take_while(|byte| !is_unprintable(**byte)).count()
}

/// Returns whether a byte is neither a visible ASCII character nor a space.
#[inline(always)]
fn is_unprintable(byte: u8) -> bool {
    !matches!(byte, 0x20..0x7f)
}

/// Returns whether any of the bytes [is neither visible ASCII nor a space](is_unprintable). The code has no branch, so
/// the compiler can test all bytes with vector instructions.
#[inline(always)]
fn has_unprintable(chunk: &[u8; 16]) -> bool {
    chunk.iter().fold(0, |any, byte| any | u8::from(is_unprintable(*byte))) != 0
}

/// Returns the index of the first of eight bytes that [is neither visible ASCII nor a space](is_unprintable). The bytes
/// are tested as in [`has_special`]; the tests are exact up to the byte that is found.
#[inline(always)]
fn find_unprintable(bytes: &[u8]) -> Option<usize> {
    const ONES: u64 = u64::MAX / 255;
    const HIGH: u64 = ONES * 0x80;
    let word = u64::from_le_bytes(*bytes.first_chunk()?);
    let from_del = ((word & !HIGH) + ONES) | word;
    let below_space = word.wrapping_sub(ONES * 0x20) & !word;
    let hit = (from_del | below_space) & HIGH;
    (hit != 0).then(|| hit.trailing_zeros() as usize / 8)
}

/// Returns the length in bytes of the first character of `text` if it is U+00A0 or above; otherwise
/// `None`. The ranges are those of table 3-7 of the Unicode Standard.
#[inline]
fn wide_char_length(text: &[u8]) -> Option<usize> {
    match *text {
        [0xc2, 0xa0..=0xbf, ..] | [0xc3..=0xdf, 0x80..=0xbf, ..] => Some(2),
        [0xe0, 0xa0..=0xbf, 0x80..=0xbf, ..]
        | [0xe1..=0xec | 0xee | 0xef, 0x80..=0xbf, 0x80..=0xbf, ..]
        | [0xed, 0x80..=0x9f, 0x80..=0xbf, ..] => Some(3),
        [0xf0, 0x90..=0xbf, 0x80..=0xbf, 0x80..=0xbf, ..]
        | [0xf1..=0xf3, 0x80..=0xbf, 0x80..=0xbf, 0x80..=0xbf, ..]
        | [0xf4, 0x80..=0x8f, 0x80..=0xbf, 0x80..=0xbf, ..] => Some(4),
        _ => None,
    }
}

/// Returns whether `text`, which begins with a backslash, begins with an escape, `\xNN`.
fn starts_escape(text: &[u8]) -> bool {
    matches!(text, [_, b'x', a, b, ..] if a.is_ascii_hexdigit() && b.is_ascii_hexdigit())
}

/// Appends the first character of `text`, escaped if necessary, or the escape of its first byte if `text` does not
/// begin with a UTF-8 character. Returns the number of bytes of `text` that it has written.
fn escape_wide(out: &mut Vec<u8>, text: &[u8]) -> usize {
    let longest = &text[..text.len().min(4)];
    let valid = match std::str::from_utf8(longest) {
        Ok(s) => s,
        // The error guarantees that the bytes before it are valid.
        Err(e) => std::str::from_utf8(&longest[..e.valid_up_to()]).unwrap_or(""),
    };
    match valid.chars().next() {
        Some('\u{80}'..='\u{9f}') => {
            push_byte(out, text[0]);
            push_byte(out, text[1]);
            2
        }
        Some(c) => {
            let len = c.len_utf8();
            out.extend_from_slice(&text[..len]);
            len
        }
        None => {
            push_byte(out, text[0]);
            1
        }
    }
}

/// Appends the escape of a byte, `\xNN`.
pub(crate) fn push_byte(out: &mut Vec<u8>, byte: u8) {
    out.extend_from_slice(&[b'\\', b'x', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
}

/// Appends to `out` the bytes from which [`escape_into`] has made `text`.
pub fn unescape_into(out: &mut Vec<u8>, text: &[u8]) {
    let mut rest = text;
    while let Some(at) = rest.iter().position(|&b| b == b'\\') {
        out.extend_from_slice(&rest[..at]);
        rest = &rest[at..];
        if starts_escape(rest) {
            out.push(hex_value(rest[2]) << 4 | hex_value(rest[3]));
            rest = &rest[4..];
        } else {
            out.push(b'\\');
            rest = &rest[1..];
        }
    }
    out.extend_from_slice(rest);
}

/// Returns the unescaped bytes of `text` in a new vector; see [`unescape_into`].
#[must_use]
pub fn unescape(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    unescape_into(&mut out, text);
    out
}

/// Returns the value of a hex digit of either case; 0 for any other byte.
fn hex_value(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        b'a'..=b'f' => digit - b'a' + 10,
        b'A'..=b'F' => digit - b'A' + 10,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn escaped(text: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        escape_into(&mut out, text, EscapeContext::Line);
        out
    }

    #[test]
    fn plain_text_and_windows_paths_are_not_escaped() {
        for text in ["", "hello\tworld", r"C:\tmp\xyz\new", "größe 你好 🦀", r"\d+\x", r"\x4"] {
            assert_eq!(escaped(text.as_bytes()), text.as_bytes());
        }
    }

    #[test]
    fn controls_invalid_bytes_and_ambiguous_backslashes_become_hex() {
        assert_eq!(escaped(b"a\x1b[31m\r\n\x7f"), br"a\x1b[31m\x0d\x0a\x7f");
        assert_eq!(escaped(b"\xff\xc3"), br"\xff\xc3");
        assert_eq!(escaped("\u{85}".as_bytes()), br"\xc2\x85");
        assert_eq!(escaped(br"\x41"), br"\x5cx41");
        assert_eq!(escaped(br"\xAF"), br"\x5cxAF");
    }

    #[test]
    fn short_byte_sequences_are_judged_as_by_the_standard_library() {
        let judge = |bytes: &[u8]| {
            let naive =
                std::str::from_utf8(bytes).is_ok_and(|t| !t.chars().any(|c| c.is_control() && c != '\t'));
            assert_eq!(is_harmless(bytes), naive, "{bytes:x?}");
        };
        // Miri takes a millisecond for each of the million cases.
        let step = if cfg!(miri) { 17 } else { 1 };
        let bytes = || (0..=255u8).step_by(step);
        for (a, b) in bytes().flat_map(|a| bytes().map(move |b| (a, b))) {
            for place in 0..9 {
                let mut text = *b"plain text";
                text[place..place + 2].copy_from_slice(&[a, b]);
                judge(&text);
            }
            for (c, d) in [(0x7f, 0x80), (0x80, 0x80), (0xbf, 0xbf), (0xc0, 0x80), (0x80, b' ')] {
                judge(&[a, b, c]);
                judge(&[a, b, c, d]);
            }
        }
    }

    #[test]
    fn a_quote_is_escaped_only_between_quotes() {
        let mut out = Vec::new();
        escape_into(&mut out, br#"say "hi" to all of them"#, EscapeContext::Quoted);
        assert_eq!(out, br"say \x22hi\x22 to all of them");
        assert_eq!(escaped(br#"say "hi""#), br#"say "hi""#);
    }

    proptest! {
        #[test]
        fn unescape_undoes_escape(text in bytes(), quoted: bool) {
            let mut out = Vec::new();
            escape_into(&mut out, &text, if quoted { EscapeContext::Quoted } else { EscapeContext::Line });
            prop_assert!(std::str::from_utf8(&out).is_ok());
            prop_assert!(!out.iter().any(|&b| (b < 0x20 && b != b'\t') || b == 0x7f));
            prop_assert!(!quoted || !out.contains(&b'"'));
            prop_assert_eq!(unescape(&out), text);
        }

        #[test]
        fn escaped_text_is_harmless(text in bytes(), quoted: bool) {
            let mut out = Vec::new();
            escape_into(&mut out, &text, if quoted { EscapeContext::Quoted } else { EscapeContext::Line });
            prop_assert!(is_harmless(&out));
        }

        #[test]
        fn the_harmless_prefix_agrees_with_the_standard_library(text in bytes(), cut in 0..50usize) {
            let text = &text[..cut.min(text.len())];
            let valid = match std::str::from_utf8(text) {
                Ok(text) => text,
                Err(error) => std::str::from_utf8(&text[..error.valid_up_to()]).unwrap(),
            };
            let naive = valid.chars().take_while(|c| !c.is_control() || *c == '\t').map(char::len_utf8).sum::<usize>();
            prop_assert_eq!(harmless_prefix(text), naive);
        }

        #[test]
        fn the_fast_scan_agrees_with_the_byte_test(text in bytes(), quote: bool) {
            let place = if quote { EscapeContext::Quoted } else { EscapeContext::Line };
            let naive = text.iter().position(|&b| is_special(b, quote)).unwrap_or(text.len());
            prop_assert_eq!(plain_prefix(&text, place), naive);
        }
    }

    /// Generates bytes with many backslashes, `x`, digits, controls and non-ASCII characters.
    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        let byte = prop_oneof![
            Just(b'\\'),
            Just(b'x'),
            Just(b'"'),
            prop::sample::select(b"04aAfF\t".to_vec()),
            any::<u8>(),
            0x20..0x7fu8,
        ];
        let mixed = (any::<String>(), any::<u8>(), "[\u{70}-\u{a8}]{0,9}");
        prop_oneof![
            prop::collection::vec(byte, 0..40),
            any::<String>().prop_map(String::into_bytes),
            mixed.prop_map(|(a, b, c)| [a.as_bytes(), &[b], c.as_bytes()].concat()),
        ]
    }
}
