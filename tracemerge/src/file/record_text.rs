//! A record in the form that views get: its file, its ticks, its kind, and its lines of text. A call that comes as
//! numbers from [records](crate::file::records) has no lines.

use memchr::{memchr, memchr_iter};
use trace_format::line::{Key, Kind, Line, TICKS_DIGITS, TID_DIGITS, Ticks, parse_ticks};

use crate::file::lines::{lines_of, strip_line_feed, whole_line};
use crate::file::records::Call;

/// A record with its lines of text; a record of a [`Call`] may come without lines.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordText<'a> {
    /// The index of the record's file among all files that are merged.
    pub origin: usize,
    /// The ticks of the record.
    pub ticks: Ticks,
    /// The kind of the record's first line.
    pub kind: Kind,
    /// The lines of the record, each with its line feed; empty if the record is a [call](Self::call).
    pub lines: &'a [u8],
    /// The number of lines of the record.
    pub line_count: u64,
    /// The number of the record's site; 0 if it is unknown or not requested.
    pub site: u32,
    /// The bytes of the record's captured values; `None` if they are unknown or not requested.
    pub values: Option<&'a [u8]>,
    /// The call that the record enters or leaves, if the record has no lines.
    pub call: Option<Call<'a>>,
}

impl<'a> RecordText<'a> {
    /// Returns the record that consists of `lines`.
    #[must_use]
    pub(crate) fn new(origin: usize, lines: &'a [u8]) -> RecordText<'a> {
        RecordText::of_lines(origin, lines, memchr_iter(b'\n', lines).count() as u64)
    }

    /// Returns the record that consists of `lines`, whose count is `line_count`.
    #[must_use]
    pub(crate) fn of_lines(origin: usize, lines: &'a [u8], line_count: u64) -> RecordText<'a> {
        let ticks = parse_ticks(lines).unwrap_or_default();
        RecordText {
            origin,
            ticks,
            kind: kind_of(lines).unwrap_or(Kind::Meta),
            lines,
            line_count,
            site: 0,
            values: None,
            call: None,
        }
    }

    /// Returns the lines of the record. The lines of a call have the thread id 0.
    #[must_use]
    pub(crate) fn to_lines(self) -> Vec<u8> {
        let Some(call) = &self.call else { return self.lines.to_vec() };
        let (mut payload, mut lines) = (Vec::new(), Vec::new());
        call.write_payload(&mut payload);
        let key = Key { ticks: self.ticks, tid: 0 };
        Line { key, kind: self.kind, payload: &payload }.write(&mut lines);
        lines
    }

    /// Returns the lines of the record, parsed.
    pub(crate) fn parsed(&self) -> impl Iterator<Item = Line<'a>> {
        lines_of(self.lines).filter_map(|line| Line::parse(strip_line_feed(line)).ok())
    }

    /// Returns the payload of the record's first line.
    #[must_use]
    pub(crate) fn payload(&self) -> &'a [u8] {
        let line = if self.line_count == 1 { self.lines } else { whole_line(self.lines) };
        // The space, the kind, and another space are between the key and the payload.
        let start = key_length(line).map(|key| key + 3);
        start.and_then(|start| strip_line_feed(line).get(start..)).unwrap_or_default()
    }

    /// Returns whether the record is a message that the program has traced, and not a `#` line. Only messages are
    /// counted.
    #[must_use]
    pub(crate) fn is_traced(&self) -> bool {
        self.kind != Kind::Meta
    }

    /// Returns whether the record is a `#` line that warns of missing events or of wrong times in the trace.
    #[must_use]
    pub(crate) fn is_warning(&self) -> bool {
        self.kind == Kind::Meta && self.parsed().next().is_some_and(|line| is_warning(line.payload))
    }
}

/// Returns whether a `#` line with this payload warns of missing events or of wrong times in the trace.
#[must_use]
pub(crate) fn is_warning(payload: &[u8]) -> bool {
    let word = payload.split(|&b| b == b' ').next().unwrap_or_default();
    matches!(word, b"lost" | b"damaged" | b"stall" | b"wait" | b"backward" | b"off" | b"on")
}

/// Returns the text of the key of a line: the text before its first space.
pub(crate) fn key_of(line: &[u8]) -> &[u8] {
    &line[..key_length(line).unwrap_or(line.len())]
}

/// Returns the length of the key at the beginning of a line. Tries the usual length first: few thread ids have more
/// than the minimum number of digits.
#[inline]
fn key_length(line: &[u8]) -> Option<usize> {
    const USUAL: usize = TICKS_DIGITS + 1 + TID_DIGITS;
    if line.get(USUAL) == Some(&b' ') { Some(USUAL) } else { memchr(b' ', line) }
}

/// Returns the kind of a line, which is the character after its first space.
pub(crate) fn kind_of(line: &[u8]) -> Option<Kind> {
    Kind::from_byte(*line.get(key_length(line)? + 1)?)
}
