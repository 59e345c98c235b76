//! The text line: `00000128fd9f283f-00000320 : CCameraView::SetOptions() entered`.
//!
//! ```text
//! 16 hex digits   '-'   at least 8 decimal digits   ' '   kind   ' '   payload
//! ticks                 thread id                         1 byte       escaped, see `escape`
//! ```
//!
//! Every physical line begins with the key, so that a file can be sorted, split and searched by line tools.
//! Hex digits are lower case, so the order of the text is the order of the ticks.

use std::fmt;

/// A value of the counter from which a run reads the time (the processor's counter, or the system's clock). The `#
/// clock` lines of a file show how long a tick takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticks(pub u64);

/// The number of hex digits that [`Ticks`] take in a line.
pub const TICKS_DIGITS: usize = 16;
/// The least number of decimal digits of a thread id in a line.
pub const TID_DIGITS: usize = 8;
/// The length of the shortest line in bytes, without its line feed: the payload is empty, and the space after the kind
/// is missing.
pub const SHORTEST: usize = TICKS_DIGITS + 1 + TID_DIGITS + 2;

/// The beginning of every line: ticks and thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Key {
    /// The ticks of the line.
    pub ticks: Ticks,
    /// The operating system's id of the thread.
    pub tid: u64,
}

/// The kind of a line, shown by one character.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// `:`, the first line of a message.
    Message,
    /// `|`, the next line of the same message; it has the same key.
    Continuation,
    /// `>`, a function was entered.
    Enter,
    /// `<`, a function was left.
    Leave,
    /// `^`, a call stack, innermost function first.
    Stack,
    /// `#`, metadata; see [`crate::meta`].
    Meta,
    /// `!`, an event of a lock or a condition; see [`crate::locks`].
    Lock,
    /// `=`, a change of a thread's state that the kernel reports; see [`crate::states`].
    State,
    /// A kind that only later versions know; see [`OtherKind`].
    Other(OtherKind),
}

/// The character of an unknown kind of line: a punctuation mark of ASCII.
///
/// A reader copies such a line unchanged. The line is neither a message nor damage. Readers count such lines apart
/// and compare the number with that in the `# end` line, so that they notice if a flipped bit has changed the kind of
/// a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OtherKind(u8);

impl OtherKind {
    /// The kind of the line that stands for a record of unknown kind in a raw file.
    pub const RECORD: OtherKind = OtherKind(b'?');

    /// Returns the character that stands for this kind.
    #[must_use]
    pub const fn byte(self) -> u8 {
        self.0
    }
}

impl Kind {
    /// All known kinds of lines.
    pub const ALL: [Kind; 8] = [
        Kind::Message,
        Kind::Continuation,
        Kind::Enter,
        Kind::Leave,
        Kind::Stack,
        Kind::Meta,
        Kind::Lock,
        Kind::State,
    ];

    /// Returns the character that stands for this kind.
    #[must_use]
    pub const fn byte(self) -> u8 {
        match self {
            Kind::Message => b':',
            Kind::Continuation => b'|',
            Kind::Enter => b'>',
            Kind::Leave => b'<',
            Kind::Stack => b'^',
            Kind::Meta => b'#',
            Kind::Lock => b'!',
            Kind::State => b'=',
            Kind::Other(kind) => kind.byte(),
        }
    }

    /// Returns the kind that a character stands for; `None` if it stands for none in any version.
    #[must_use]
    pub fn from_byte(byte: u8) -> Option<Kind> {
        let known = Kind::ALL.into_iter().find(|kind| kind.byte() == byte);
        known.or_else(|| byte.is_ascii_punctuation().then_some(Kind::Other(OtherKind(byte))))
    }
}

/// One line, without its line feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// The ticks and the thread of the line.
    pub key: Key,
    /// The kind of the line.
    pub kind: Kind,
    /// The content of the line, still escaped.
    pub payload: &'a [u8],
}

/// The reason why bytes are not a line of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineError {
    /// The line does not begin with 16 lower-case hex digits and `-`.
    NoTicks,
    /// The ticks are not followed by a thread id of 8 or more decimal digits, within 64 bits, and a space.
    NoThread,
    /// The character after the key names no kind, or is not followed by a space.
    NoKind,
}

impl fmt::Display for LineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LineError::NoTicks => "it does not begin with 16 hex digits and '-'",
            LineError::NoThread => "it has no thread id after its ticks",
            LineError::NoKind => {
                "it has no kind (one of : | > < ^ # ! =, or another mark) after its thread id"
            }
        })
    }
}

impl std::error::Error for LineError {}

impl<'a> Line<'a> {
    /// Reads a line; `bytes` must not contain the line feed. Accepts a missing space before an empty payload,
    /// because editors strip it. Accepts any bytes in the payload: [`crate::escape::is_harmless`] checks
    /// whether a line may contain them.
    ///
    /// # Errors
    /// The error says which part is missing.
    pub fn parse(bytes: &'a [u8]) -> Result<Line<'a>, LineError> {
        let ticks = parse_ticks(bytes).ok_or(LineError::NoTicks)?;
        let rest = &bytes[TICKS_DIGITS + 1..];
        let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
        if digits < TID_DIGITS || rest.get(digits) != Some(&b' ') {
            return Err(LineError::NoThread);
        }
        let tid = parse_decimal(&rest[..digits]).ok_or(LineError::NoThread)?;
        // More than 8 digits are allowed only if the number needs them, so there is one text per key.
        if digits > TID_DIGITS && rest[0] == b'0' {
            return Err(LineError::NoThread);
        }
        let (kind, payload) = match &rest[digits + 1..] {
            [kind] => (kind, &[][..]),
            [kind, b' ', payload @ ..] => (kind, payload),
            _ => return Err(LineError::NoKind),
        };
        let kind = Kind::from_byte(*kind).ok_or(LineError::NoKind)?;
        Ok(Line { key: Key { ticks, tid }, kind, payload })
    }

    /// Appends the line and its line feed to `out`. The payload must be escaped already.
    pub fn write(&self, out: &mut Vec<u8>) {
        Prefix::new(self.key.tid).begin(out, self.key.ticks, self.kind);
        out.extend_from_slice(self.payload);
        out.push(b'\n');
    }
}

fn parse_decimal(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0u64, |n, d| n.checked_mul(10)?.checked_add(u64::from(d - b'0')))
}

/// Reads the ticks at the start of a line: 16 lower-case hex digits followed by `-`. Returns `None` if the line does
/// not begin with them.
#[must_use]
#[inline(always)]
pub fn parse_ticks(line: &[u8]) -> Option<Ticks> {
    let (high, rest) = line.split_first_chunk::<8>()?;
    let (low, rest) = rest.split_first_chunk::<8>()?;
    if rest.first() != Some(&b'-') {
        return None;
    }
    Some(Ticks(u64::from(hex8(*high)?) << 32 | u64::from(hex8(*low)?)))
}

const ONES: u64 = u64::MAX / 255;

/// Reads eight lower-case hex digits at once, with byte-parallel arithmetic in one word.
#[inline(always)]
fn hex8(digits: [u8; 8]) -> Option<u32> {
    let word = u64::from_le_bytes(digits);
    let letter = word >> 6 & ONES;
    let low = word & (ONES * 0x0f);
    let value = low + letter * 9;
    // Digits have 3 as high half, letters 6; a digit's low half is 0 to 9, a letter's 1 to 6.
    let bad = (word & (ONES * 0xf0)) ^ (ONES * 0x30 + letter * 0x30)
        | (value & (ONES * 0xf0))
        | ((low + (ONES - letter) * 6) & (ONES * 0x10))
        | ((low + ONES * 0x0f) >> 4 & ONES ^ ONES) & letter;
    if bad != 0 {
        return None;
    }
    let pairs = (value << 4 | value >> 8) & 0x00ff_00ff_00ff_00ff;
    let quads = (pairs | pairs >> 8) & 0x0000_ffff_0000_ffff;
    #[expect(clippy::cast_possible_truncation, reason = "the low half is the result")]
    let all = (quads | quads >> 16) as u32;
    Some(all.swap_bytes())
}

/// Returns the 16 hex digits of `ticks`.
#[must_use]
#[inline]
pub fn ticks_digits(ticks: Ticks) -> [u8; TICKS_DIGITS] {
    let mut digits = [0; TICKS_DIGITS];
    digits[..8].copy_from_slice(&digits8(ticks.0 >> 32));
    digits[8..].copy_from_slice(&digits8(ticks.0 & 0xffff_ffff));
    digits
}

/// Returns the eight hex digits of the low half of `value`, with byte-parallel arithmetic.
#[inline]
fn digits8(value: u64) -> [u8; 8] {
    let quads = (value << 32 | value >> 16) & 0x0000_ffff_0000_ffff;
    let pairs = (quads << 16 | quads >> 8) & 0x00ff_00ff_00ff_00ff;
    let nibbles = (pairs << 8 | pairs >> 4) & (ONES * 0x0f);
    let letter = (nibbles + ONES * 6) >> 4 & ONES;
    (nibbles + ONES * u64::from(b'0') + letter * u64::from(b'a' - b'0' - 10)).to_le_bytes()
}

/// The constant part of a thread's lines, `-00000320 `, formatted once.
#[derive(Clone, Debug)]
pub struct Prefix {
    /// The bytes before the payload: room for the ticks, then `-`, the thread id, a space, the kind of a message and a
    /// space. The longest id has 20 digits.
    bytes: [u8; PREFIX],
    /// The length of the prefix in bytes, without the kind and the space after it.
    len: usize,
}

/// The length of the longest prefix in bytes.
const PREFIX: usize = TICKS_DIGITS + 24;

impl Prefix {
    /// Returns the prefix of the lines of thread `tid`.
    #[must_use]
    pub fn new(tid: u64) -> Prefix {
        let text = format!("{:TICKS_DIGITS$}-{tid:0TID_DIGITS$} : ", "");
        let mut bytes = [0; PREFIX];
        bytes[..text.len()].copy_from_slice(text.as_bytes());
        Prefix { bytes, len: text.len() - 2 }
    }

    /// Writes to the beginning of `page` the bytes that [`begin`](Prefix::begin) would append; returns their
    /// number, or `None` if there is no room for the longest prefix.
    #[inline(always)]
    pub(crate) fn put(&self, page: &mut [u8], ticks: Ticks, kind: Kind) -> Option<usize> {
        // The number of bytes is constant, so the compiler makes no call.
        *page.first_chunk_mut()? = self.bytes;
        *page.first_chunk_mut()? = ticks_digits(ticks);
        *page.get_mut(self.len)? = kind.byte();
        Some(self.len + 2)
    }

    /// Appends the key, the kind and a space: everything before a payload.
    #[inline]
    pub fn begin(&self, out: &mut Vec<u8>, ticks: Ticks, kind: Kind) {
        let at = out.len();
        out.extend_from_slice(&self.bytes[..self.len]);
        out[at..at + TICKS_DIGITS].copy_from_slice(&ticks_digits(ticks));
        out.extend_from_slice(&[kind.byte(), b' ']);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_line_of_the_original_article_is_read() {
        let text = b"00000128fd9f283f-00000320 : CCameraView::SetOptions() entered";
        let line = Line::parse(text).unwrap();
        assert_eq!(line.key, Key { ticks: Ticks(0x0128_fd9f_283f), tid: 320 });
        assert_eq!(line.kind, Kind::Message);
        assert_eq!(line.payload, b"CCameraView::SetOptions() entered");
    }

    #[test]
    fn each_missing_part_is_reported() {
        let cases: [(&[u8], LineError); 12] = [
            (b"", LineError::NoTicks),
            (b"0000", LineError::NoTicks),
            (b"00000128FD9F283F-00000320 : upper case", LineError::NoTicks),
            (b"00000128fd9f283g-00000320 : no hex", LineError::NoTicks),
            (b"00000128fd9f283f 00000320 : no dash", LineError::NoTicks),
            (b"00000128fd9f283f-320 : short", LineError::NoThread),
            (b"00000128fd9f283f-00000320: no space", LineError::NoThread),
            (b"00000128fd9f283f-000000320 : padded too far", LineError::NoThread),
            (b"00000128fd9f283f-99999999999999999999 : too large", LineError::NoThread),
            (b"00000128fd9f283f-00000320 ", LineError::NoKind),
            (b"00000128fd9f283f-00000320 x what", LineError::NoKind),
            (b"00000128fd9f283f-00000320 :no space", LineError::NoKind),
        ];
        for (text, error) in cases {
            assert_eq!(Line::parse(text), Err(error), "{}", String::from_utf8_lossy(text));
        }
    }

    #[test]
    fn kinds_of_later_versions_are_accepted() {
        for byte in 0..=u8::MAX {
            let line = [b"00000128fd9f283f-00000320 ", &[byte][..], b" what"].concat();
            let kind = Line::parse(&line).ok().map(|line| line.kind);
            assert_eq!(kind.is_some(), byte.is_ascii_punctuation(), "{byte:#x}");
            assert_eq!(kind, Kind::from_byte(byte));
            let is_known = Kind::ALL.iter().any(|kind| kind.byte() == byte);
            assert_eq!(matches!(kind, Some(Kind::Other(_))), kind.is_some() && !is_known, "{byte:#x}");
            assert!(kind.is_none_or(|kind| kind.byte() == byte));
        }
    }

    #[test]
    fn a_stripped_space_after_an_empty_message_is_accepted() {
        let line = Line::parse(b"00000128fd9f283f-00000320 :").unwrap();
        assert_eq!(line.payload, b"");
        assert_eq!(SHORTEST, b"00000128fd9f283f-00000320 :".len());
    }

    #[test]
    fn hex_digits_are_judged_as_by_char() {
        for place in 0..8 {
            for byte in 0..=255u8 {
                let mut digits = *b"01239abf";
                digits[place] = byte;
                let lower_hex = byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
                let expected = lower_hex
                    .then(|| u32::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap());
                assert_eq!(hex8(digits), expected, "{byte:#x} at {place}");
            }
        }
    }

    proptest! {
        #[test]
        fn a_line_of_every_kind_parses_back(
            ticks: u64, tid: u64, kind in prop::sample::select(Kind::ALL.to_vec()), payload in "[^\n]*"
        ) {
            let key = Key { ticks: Ticks(ticks), tid };
            let line = Line { key, kind, payload: payload.as_bytes() };
            let mut out = Vec::new();
            line.write(&mut out);
            let expected = format!("{ticks:016x}-{tid:08} {} {payload}\n", char::from(kind.byte()));
            prop_assert_eq!(&out, expected.as_bytes());
            prop_assert_eq!(Line::parse(&out[..out.len() - 1]), Ok(line));
        }

        #[test]
        fn any_bytes_are_parsed_without_panic(bytes: Vec<u8>) {
            let _ = Line::parse(&bytes);
        }
    }
}
