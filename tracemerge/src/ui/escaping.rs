//! Text that cannot control a terminal: bytes that are not text are written as escapes, and styles as the sequences
//! that a terminal obeys.
//!
//! A style is written inside of the text as a *style mark*: a byte that no text has, and a number that only this
//! process knows. So a trace, a name or an argument cannot forge a style mark, and cannot cause a sequence that the
//! terminal obeys.

use std::hash::{BuildHasher, RandomState};
use std::io::{self, BufWriter, IoSlice, Write};
use std::sync::OnceLock;

use anstyle::Style;
use memchr::memchr2_iter;
use trace_format::escape::harmless_prefix;

use crate::ui::colour::style_of;

/// The form in which bytes that are not text are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notation {
    /// Each byte is written as `\xNN`.
    Hex,
    /// Each character is written as `\uNNNN`, as in strings of JSON.
    Json,
}

/// The byte with which a style mark begins; text in UTF-8 does not have it.
const MARK: u8 = 0xff;
/// The bit that is set in all bytes of a style mark, so that none of them is taken for a line feed.
const NO_ASCII: u8 = 0x80;
/// The number of bytes of a style mark: [`MARK`], eight bytes of a number that only this process knows, and the style's
/// number.
const MARK_BYTES: usize = 10;

/// Returns the bytes with which every style mark of this process begins: all except the style's number.
fn mark_head() -> &'static [u8; MARK_BYTES - 1] {
    static HEAD: OnceLock<[u8; MARK_BYTES - 1]> = OnceLock::new();
    HEAD.get_or_init(|| {
        let mut head = [MARK; MARK_BYTES - 1];
        let secret = RandomState::new().hash_one(MARK) | u64::from_ne_bytes([NO_ASCII; 8]);
        head[1..].copy_from_slice(&secret.to_le_bytes());
        head
    })
}

/// Appends a style mark: the text after it is shown in the style with the number `style`, see [`style_of`].
pub(crate) fn put_mark(style: u8, out: &mut Vec<u8>) {
    out.extend_from_slice(mark_head());
    out.push(style | NO_ASCII);
}

/// Returns the style of the style mark with which `text` begins; `None` if it does not begin with a mark of this
/// process.
fn marked_style(text: &[u8]) -> Option<Style> {
    let (mark, _) = text.split_first_chunk::<MARK_BYTES>()?;
    let (style, head) = mark.split_last()?;
    let number = style.checked_sub(NO_ASCII)?;
    style_of(number).filter(|_| head == mark_head())
}

/// Returns the number of bytes at the beginning of `text` that need no escapes, in whole blocks: each block contains
/// only visible ASCII characters, spaces and line feeds. Most output consists of such blocks, and the bytes of a block
/// are checked at once.
fn ascii_blocks(text: &[u8]) -> usize {
    const BLOCK: usize = 64;
    let is_plain = |byte: u8| matches!(byte, b' '..=b'~') | (byte == b'\n');
    let is_ascii = |block: &&[u8]| block.iter().fold(true, |all, byte| all & is_plain(*byte));
    text.chunks_exact(BLOCK).take_while(is_ascii).count() * BLOCK
}

/// Returns the number of bytes at the beginning of `text` that contain no control characters, except tabs and line
/// feeds, and no damaged characters. They may still contain characters that set the direction of text, which have to be
/// escaped.
fn harmless_lines(text: &[u8]) -> usize {
    let mut at = 0;
    loop {
        at += harmless_prefix(&text[at..]);
        if text.get(at) != Some(&b'\n') {
            return at;
        }
        at += 1;
    }
}

/// Returns the number of bytes of the first character in `text`, if that is an invisible character that changes the
/// positions of other characters: a mark, an embedding, an override or an isolate of direction, or a separator of
/// lines.
fn directional_char_length(text: &[u8]) -> Option<usize> {
    match text {
        [0xe2, 0x80, 0x8e | 0x8f | 0xa8..=0xae, ..] | [0xe2, 0x81, 0xa6..=0xa9, ..] => Some(3),
        [0xd8, 0x9c, ..] => Some(2),
        _ => None,
    }
}

/// Returns whether `text` is only the beginning of a UTF-8 character or of a style mark (`MARK`), so that the rest may
/// come with the next bytes.
fn is_unfinished(text: &[u8]) -> bool {
    match text {
        [MARK, ..] => text.len() < MARK_BYTES && mark_head().starts_with(text),
        // This checks the first character, and none behind it.
        _ => {
            text.len() < 4
                && std::str::from_utf8(text)
                    .is_err_and(|error| error.valid_up_to() == 0 && error.error_len().is_none())
        }
    }
}

/// A converter of any bytes to text without control characters. The bytes may come in several calls.
#[derive(Debug)]
pub(crate) struct Escaper {
    notation: Notation,
    /// The beginning of a character or of a style mark. Its other bytes will come with the next call.
    pending: Vec<u8>,
}

impl Escaper {
    /// Makes an escaper that has no text yet.
    #[must_use]
    pub(crate) fn new(notation: Notation) -> Escaper {
        Escaper { notation, pending: Vec::new() }
    }

    /// Writes `bytes` to `out`: bytes that are not text as escapes, and style marks as the terminal's sequences. If
    /// `bytes` end within a character or a style mark, the beginning of it waits for the next call.
    ///
    /// # Errors
    /// The output cannot be written.
    pub(crate) fn put(&mut self, bytes: &[u8], out: &mut impl Write) -> io::Result<()> {
        if self.pending.is_empty() {
            return self.put_joined(bytes, out);
        }
        let mut joined = std::mem::take(&mut self.pending);
        joined.extend_from_slice(bytes);
        self.put_joined(&joined, out)
    }

    fn put_joined(&mut self, mut rest: &[u8], out: &mut impl Write) -> io::Result<()> {
        loop {
            let (ascii, others) = rest.split_at(ascii_blocks(rest));
            out.write_all(ascii)?;
            let (plain, odd) = others.split_at(harmless_lines(others));
            self.put_plain(plain, out)?;
            rest = odd;
            if rest.is_empty() {
                return Ok(());
            }
            if is_unfinished(rest) {
                self.pending.extend_from_slice(rest);
                return Ok(());
            }
            let taken = if let Some(style) = marked_style(rest) {
                if style.is_plain() {
                    write!(out, "{}", anstyle::Reset)?
                } else {
                    write!(out, "{style}")?
                }
                MARK_BYTES
            } else {
                let taken = if matches!(rest, [0xc2, 0x80..=0x9f, ..]) { 2 } else { 1 };
                self.put_escape(&rest[..taken], out)?;
                taken
            };
            rest = &rest[taken..];
        }
    }

    /// Writes text that is harmless except for characters that set the direction of text, which are escaped.
    fn put_plain(&self, text: &[u8], out: &mut impl Write) -> io::Result<()> {
        let mut done = 0;
        for at in memchr2_iter(0xe2, 0xd8, text) {
            if let Some(length) = directional_char_length(&text[at..]) {
                out.write_all(&text[done..at])?;
                self.put_escape(&text[at..at + length], out)?;
                done = at + length;
            }
        }
        out.write_all(&text[done..])
    }

    /// Writes one character, or one byte that belongs to no character, as an escape.
    fn put_escape(&self, bytes: &[u8], out: &mut impl Write) -> io::Result<()> {
        match self.notation {
            Notation::Hex => bytes.iter().try_for_each(|byte| write!(out, "\\x{byte:02x}")),
            Notation::Json => String::from_utf8_lossy(bytes)
                .chars()
                .try_for_each(|character| write!(out, "\\u{:04x}", u32::from(character))),
        }
    }

    /// Writes, as escapes, an incomplete character or style mark that is left after the last bytes.
    ///
    /// # Errors
    /// The output cannot be written.
    pub(crate) fn end(&mut self, out: &mut impl Write) -> io::Result<()> {
        std::mem::take(&mut self.pending).iter().try_for_each(|byte| self.put_escape(&[*byte], out))
    }
}

/// Returns `bytes` as text: bytes that are not text as escapes, and style marks as the terminal's sequences.
#[must_use]
pub(crate) fn escaped(bytes: &[u8]) -> Vec<u8> {
    let (mut escaper, mut text) = (Escaper::new(Notation::Hex), Vec::with_capacity(bytes.len()));
    // Writing to memory does not fail.
    let _ = escaper.put(bytes, &mut text).and_then(|()| escaper.end(&mut text));
    text
}

/// Returns `text` as [`escaped`] does, and as one line: line feeds are escaped, too.
#[must_use]
pub(crate) fn escaped_line(text: &str) -> String {
    let text = escaped(text.replace('\n', "\\x0a").as_bytes());
    String::from_utf8_lossy(&text).into_owned()
}

/// Returns `text` without its style marks.
#[cfg(feature = "tui")]
#[must_use]
pub(crate) fn without_marks(text: &[u8]) -> std::borrow::Cow<'_, [u8]> {
    let mut plain = Vec::new();
    let mut done = 0;
    for at in memchr::memchr_iter(MARK, text) {
        if marked_style(&text[at..]).is_some() {
            plain.extend_from_slice(&text[done..at]);
            done = at + MARK_BYTES;
        }
    }
    if done == 0 {
        return text.into();
    }
    plain.extend_from_slice(&text[done..]);
    plain.into()
}

/// Splits `text` at its style marks. Returns the pieces, escaped, each with the style in which it is shown.
#[cfg(feature = "tui")]
#[must_use]
pub(crate) fn styled_pieces(text: &[u8]) -> Vec<(Style, String)> {
    let (mut pieces, mut style, mut done) = (Vec::new(), Style::new(), 0);
    let mut put = |style, piece: &[u8]| {
        if !piece.is_empty() {
            pieces.push((style, String::from_utf8_lossy(&escaped(piece)).into_owned()));
        }
    };
    for at in memchr::memchr_iter(MARK, text) {
        if let Some(next) = marked_style(&text[at..]) {
            put(style, &text[done..at]);
            (style, done) = (next, at + MARK_BYTES);
        }
    }
    put(style, &text[done..]);
    pieces
}

/// A buffered writer that escapes its text if it has an [`Escaper`].
#[derive(Debug)]
pub(crate) struct EscapingWriter<W: Write> {
    out: BufWriter<W>,
    escaper: Option<Escaper>,
}

impl<W: Write> EscapingWriter<W> {
    /// Makes a writer to `out`, with a buffer of `buffer` bytes. It escapes nothing if there is no `notation`.
    pub(crate) fn new(out: W, buffer: usize, notation: Option<Notation>) -> EscapingWriter<W> {
        EscapingWriter { out: BufWriter::with_capacity(buffer, out), escaper: notation.map(Escaper::new) }
    }

    /// Writes the bytes that are still in the buffer, and returns the output.
    ///
    /// # Errors
    /// The output cannot be written; the bytes that it has not taken are thrown away.
    pub(crate) fn finish(mut self) -> io::Result<W> {
        if let Some(escaper) = &mut self.escaper {
            escaper.end(&mut self.out)?;
        }
        self.out.into_inner().map_err(|error| {
            let (error, out) = error.into_parts();
            // A plain drop would write the bytes once more.
            drop(out.into_parts());
            error
        })
    }

    /// Throws away the bytes that are still in the buffer.
    pub(crate) fn abandon(self) {
        // A plain drop would write these bytes.
        drop(self.out.into_parts());
    }
}

impl<W: Write> Write for EscapingWriter<W> {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.escaper {
            None => self.out.write(bytes),
            Some(escaper) => escaper.put(bytes, &mut self.out).map(|()| bytes.len()),
        }
    }

    #[inline]
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.escaper {
            None => self.out.write_all(bytes),
            Some(escaper) => escaper.put(bytes, &mut self.out),
        }
    }

    /// Writes several buffers, `parts`. Without an escaper, flushes the internal buffer, and passes all parts directly
    /// to the output. With an escaper, writes only the first part that is not empty, as the trait permits. If the
    /// system cannot read a page of a part, it writes fewer bytes, and this process finds the failure when it reads the
    /// page itself.
    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        if self.escaper.is_some() {
            let part = parts.iter().find(|part| !part.is_empty());
            return part.map_or(Ok(0), |part| self.write(part));
        }
        self.out.flush()?;
        self.out.get_mut().write_vectored(parts)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(notation: Notation, pieces: &[&[u8]]) -> String {
        let (mut escaper, mut out) = (Escaper::new(notation), Vec::new());
        pieces.iter().for_each(|piece| escaper.put(piece, &mut out).unwrap());
        escaper.end(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    /// Returns whether a character may go to a terminal, according to the standard library and to Unicode's list of
    /// `Bidi_Control` characters.
    fn is_harmless(character: char) -> bool {
        let directs = matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        let separates = matches!(character, '\u{2028}' | '\u{2029}');
        !(directs || separates || character.is_control() && !matches!(character, '\n' | '\t'))
    }

    proptest! {
        #[test]
        fn no_bytes_control_the_terminal_however_they_are_split(
            bytes in prop::collection::vec(prop_oneof![any::<u8>(), prop::sample::select(b"\x1b\xc2\x9b\xe2\x80\xae\xff".to_vec())], 0..60),
            cut in 1usize..9
        ) {
            let pieces: Vec<&[u8]> = bytes.chunks(cut).collect();
            let out = text(Notation::Hex, &pieces);
            prop_assert!(out.chars().all(is_harmless), "{out:?}");
            prop_assert_eq!(out, text(Notation::Hex, &[&bytes]));
        }

        #[test]
        fn harmless_text_is_left_alone_and_json_keeps_its_meaning(all: String) {
            let plain: String = all.chars().filter(|character| is_harmless(*character)).collect();
            prop_assert_eq!(&text(Notation::Hex, &[plain.as_bytes()]), &plain);
            let json = serde_json::to_string(&all).unwrap();
            let shown = text(Notation::Json, &[json.as_bytes()]);
            prop_assert!(shown.chars().all(is_harmless));
            prop_assert_eq!(serde_json::from_str::<String>(&shown).unwrap(), all);
        }
    }

    #[test]
    fn an_incomplete_character_does_not_delay_those_before_it() {
        assert_eq!(text(Notation::Hex, &[b"\0 \xc2"]), "\\x00 \\xc2");
    }

    #[test]
    fn a_style_is_shown_and_cannot_be_forged() {
        let mut marked = b"a".to_vec();
        put_mark(1, &mut marked);
        marked.extend_from_slice(b"b");
        let all = text(Notation::Hex, &[&marked]);
        assert!(all.starts_with('a') && all.ends_with('b') && all.contains('\x1b'), "{all:?}");
        for cut in 1..marked.len() {
            assert_eq!(text(Notation::Hex, &[&marked[..cut], &marked[cut..]]), all);
        }
        for at in 1..MARK_BYTES {
            let mut forged = marked.clone();
            forged[at] ^= 0x40;
            assert!(!text(Notation::Hex, &[&forged]).contains('\x1b'));
        }
        assert_eq!(escaped_line("a\nb\x1b"), r"a\x0ab\x1b");
    }
}
