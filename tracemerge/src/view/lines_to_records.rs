//! Joins lines to records, which are selected and shown as a whole. It stands between the stages *merge* and
//! *select*.
//!
//! A record is here a message with the `|` lines that continue it, or any other line by itself. The lines of
//! a record stand behind each other in the merged stream, for they have one key and are of one file. If
//! damage has put something between them, or has changed a key, the rest is a record of its own. So no record
//! is in two slices of a merge, and the thread that merges a slice can join its lines.

use std::io;

use memchr::{memchr, memchr_iter};
use trace_format::line::{Kind, Line, TICKS_DIGITS, TID_DIGITS, Ticks, parse_ticks};
use trace_format::mark::take_mark;

use crate::file::lines::{lines_of, whole_line, without_feed};
use crate::file::marked_values::{put_bytes_of, take_values};
use crate::output::sink::Sink;

/// A record with its lines of text.
#[derive(Clone, Copy, Debug)]
pub struct RecordText<'a> {
    /// The place of the record's file among the origins.
    pub origin: usize,
    /// The ticks of the record.
    pub ticks: Ticks,
    /// The kind of the record's first line.
    pub kind: Kind,
    /// The lines of the record, each with its line feed.
    pub lines: &'a [u8],
    /// The number of lines of the record.
    pub line_count: u64,
    /// The mark of the site that the record is of; 0 where that is not known.
    pub site: u32,
    /// The bytes of the record's captured values; `None` where they are not known, or were not asked for.
    pub values: Option<&'a [u8]>,
}

impl<'a> RecordText<'a> {
    /// Makes the record that has these lines.
    #[must_use]
    pub fn new(origin: usize, lines: &'a [u8]) -> RecordText<'a> {
        RecordText::of_lines(origin, lines, memchr_iter(b'\n', lines).count() as u64)
    }

    fn of_lines(origin: usize, lines: &'a [u8], line_count: u64) -> RecordText<'a> {
        let ticks = parse_ticks(lines).unwrap_or_default();
        RecordText {
            origin,
            ticks,
            kind: kind_of(lines).unwrap_or(Kind::Meta),
            lines,
            line_count,
            site: 0,
            values: None,
        }
    }

    /// Returns the record, of a source that marks messages, without the mark before its text, which tells its
    /// site, and if the source puts values behind marks, without these. Its lines and values are put together in
    /// `buffer`. What is no message has no mark.
    #[must_use]
    pub fn without_mark<'b>(&self, has_values: bool, buffer: &'b mut Vec<u8>) -> RecordText<'b>
    where
        'a: 'b,
    {
        // The space, the kind, and another space are between the key and the text.
        let start = key_length(self.lines).map(|key| key + 3).filter(|_| self.kind == Kind::Message);
        let Some(start) = start else { return *self };
        let (site, marked) = take_mark(self.lines.get(start..).unwrap_or_default());
        let (digits, text) = if has_values { take_values(marked) } else { (None, marked) };
        buffer.clear();
        buffer.extend_from_slice(&self.lines[..start]);
        buffer.extend_from_slice(text);
        let end = buffer.len();
        if let Some(digits) = digits {
            put_bytes_of(digits, buffer);
        }
        let (lines, values) = buffer.split_at(end);
        RecordText { lines, site, values: digits.map(|_| values), ..*self }
    }

    /// Returns the lines of the record, parsed.
    pub fn parsed(&self) -> impl Iterator<Item = Line<'a>> {
        lines_of(self.lines).filter_map(|line| Line::parse(without_feed(line)).ok())
    }

    /// Returns the payload of the record's first line.
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        let line = if self.line_count == 1 { self.lines } else { whole_line(self.lines) };
        // The space, the kind, and another space are between the key and the payload.
        let start = key_length(line).map(|key| key + 3);
        start.and_then(|start| without_feed(line).get(start..)).unwrap_or_default()
    }

    /// Returns whether the record is a message, which the program has traced, and not a `#` line. Only
    /// messages are counted.
    #[must_use]
    pub fn is_traced(&self) -> bool {
        self.kind != Kind::Meta
    }

    /// Returns whether the record is a `#` line which warns that the trace is not all that happened, or not
    /// when it happened.
    #[must_use]
    pub fn is_warning(&self) -> bool {
        self.kind == Kind::Meta && self.parsed().next().is_some_and(|line| is_warning(line.payload))
    }
}

/// Returns whether a `#` line with this payload warns that the trace is not all that happened, or not when it
/// happened.
#[must_use]
pub fn is_warning(payload: &[u8]) -> bool {
    let word = payload.split(|&b| b == b' ').next().unwrap_or_default();
    matches!(word, b"lost" | b"damaged" | b"stall" | b"wait" | b"backward" | b"off" | b"on")
}

/// A stage that takes records.
pub trait Take {
    /// Takes a record, which stands behind all records that were taken before.
    ///
    /// # Errors
    /// The stage takes no more.
    fn record(&mut self, record: &RecordText<'_>) -> io::Result<()>;
}

/// A sink that joins lines to records for the next stage, even if the lines of a record come one by one. The
/// number of a source is that of its origin.
#[derive(Debug)]
pub struct RecordJoiner<T> {
    next: T,
    /// The lines of the last record so far, which may go on.
    pending: Vec<u8>,
    /// The origin of that last record.
    origin: usize,
}

impl<T: Take> RecordJoiner<T> {
    /// Makes a sink that passes on its records to `next`.
    pub fn new(next: T) -> RecordJoiner<T> {
        RecordJoiner { next, pending: Vec::new(), origin: 0 }
    }

    /// Passes on the last record, which no more lines continue.
    ///
    /// # Errors
    /// The next stage takes no more.
    pub fn end(&mut self) -> io::Result<()> {
        self.flush()
    }

    /// Returns the next stage.
    pub fn next_mut(&mut self) -> &mut T {
        &mut self.next
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let result = each_record(self.origin, &self.pending, &mut self.next);
        self.pending.clear();
        result
    }
}

impl<T: Take> Sink for RecordJoiner<T> {
    fn lines(&mut self, origin: usize, lines: &[u8]) -> io::Result<()> {
        let mut rest = lines;
        if self.origin == origin && !self.pending.is_empty() {
            let more = continuation(rest, key_of(&self.pending));
            self.pending.extend_from_slice(&rest[..more]);
            rest = &rest[more..];
        }
        if rest.is_empty() {
            return Ok(());
        }
        self.flush()?;
        let last = last_record(rest);
        self.pending.extend_from_slice(&rest[last..]);
        self.origin = origin;
        each_record(origin, &rest[..last], &mut self.next)
    }
}

/// Passes on each record of `lines`, all of one `origin`, to `next`.
///
/// # Errors
/// The next stage takes no more.
pub fn each_record(origin: usize, mut lines: &[u8], next: &mut impl Take) -> io::Result<()> {
    while !lines.is_empty() {
        let (mut end, mut count) = (whole_line(lines).len(), 1);
        while kind_of(&lines[end..]) == Some(Kind::Continuation) && key_of(&lines[end..]) == key_of(lines) {
            end += whole_line(&lines[end..]).len();
            count += 1;
        }
        next.record(&RecordText::of_lines(origin, &lines[..end], count))?;
        lines = &lines[end..];
    }
    Ok(())
}

/// Returns the offset at which the last record of `lines` begins.
fn last_record(lines: &[u8]) -> usize {
    let mut start = lines.len();
    loop {
        let before = lines[..start.saturating_sub(1)].iter().rposition(|&b| b == b'\n');
        let line = before.map_or(0, |feed| feed + 1);
        let is_joined = line > 0 && kind_of(&lines[line..]) == Some(Kind::Continuation);
        start = line;
        if !is_joined {
            return start;
        }
    }
}

/// Returns the number of bytes of the `|` lines with this key at the beginning of `lines`.
fn continuation(lines: &[u8], key: &[u8]) -> usize {
    let continues = |line: &&[u8]| kind_of(line) == Some(Kind::Continuation) && key_of(line) == key;
    lines_of(lines).take_while(continues).map(<[u8]>::len).sum()
}

/// Returns the text of the key of a line: all before its first space.
fn key_of(line: &[u8]) -> &[u8] {
    &line[..key_length(line).unwrap_or(line.len())]
}

/// Returns the length of the text of a line's key. Few thread ids have more digits than they must have.
#[inline]
fn key_length(line: &[u8]) -> Option<usize> {
    const USUAL: usize = TICKS_DIGITS + 1 + TID_DIGITS;
    if line.get(USUAL) == Some(&b' ') { Some(USUAL) } else { memchr(b' ', line) }
}

/// Returns the kind of a line, which the character behind its first space tells.
fn kind_of(line: &[u8]) -> Option<Kind> {
    Kind::from_byte(*line.get(key_length(line)? + 1)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stage that keeps the origin and the lines of each record.
    type Taken = Vec<(usize, String)>;

    impl Take for Taken {
        fn record(&mut self, record: &RecordText<'_>) -> io::Result<()> {
            self.push((record.origin, String::from_utf8_lossy(record.lines).into_owned()));
            Ok(())
        }
    }

    fn line(ticks: u64, kind: char, text: &str) -> String {
        format!("{ticks:016x}-00000009 {kind} {text}\n")
    }

    #[test]
    fn messages_alone_have_marks() {
        let mut buffer = Vec::new();
        let mut taken = |kind: char| {
            let line = line(1, kind, "7 dwarfs");
            let record = RecordText::new(0, line.as_bytes());
            let found = record.without_mark(false, &mut buffer);
            (found.site, String::from_utf8_lossy(found.payload()).into_owned())
        };
        assert_eq!(taken(':'), (7, "dwarfs".to_owned()));
        for kind in ['>', '<', '^', '#'] {
            assert_eq!(taken(kind), (0, "7 dwarfs".to_owned()), "{kind}");
        }
    }

    #[test]
    fn a_message_and_what_continues_it_are_one_record_however_the_lines_arrive() {
        let lines = [
            line(1, '#', "run"),
            line(2, ':', "a"),
            line(2, '|', "b"),
            line(2, '|', ""),
            line(3, ':', "c"),
            line(3, '|', "d"),
        ];
        let expected = vec![(0, lines[0].clone()), (0, lines[1..4].concat()), (0, lines[4..].concat())];
        for parted in 0..1 << lines.len() {
            let mut records = RecordJoiner::new(Taken::new());
            let mut together = String::new();
            for (n, line) in lines.iter().enumerate() {
                together.push_str(line);
                if parted >> n & 1 == 1 {
                    records.lines(0, together.as_bytes()).unwrap();
                    together.clear();
                }
            }
            records.lines(0, together.as_bytes()).unwrap();
            records.end().unwrap();
            assert_eq!(records.next, expected, "{parted:b}");
        }
    }

    #[test]
    fn lines_of_another_file_continue_nothing() {
        let mut records = RecordJoiner::new(Taken::new());
        records.lines(0, line(1, ':', "a").as_bytes()).unwrap();
        records.lines(1, line(1, '|', "b").as_bytes()).unwrap();
        records.end().unwrap();
        let origins: Vec<usize> = records.next.iter().map(|(origin, _)| *origin).collect();
        assert_eq!(origins, [0, 1]);
    }

    #[test]
    fn a_line_with_another_key_continues_nothing_wherever_lines_are_parted() {
        let lines = [line(1, ':', "a"), line(1, '|', "b"), line(2, '|', "c")];
        for at in [1, 2] {
            let mut records = RecordJoiner::new(Taken::new());
            records.lines(0, lines[..at].concat().as_bytes()).unwrap();
            records.lines(0, lines[at..].concat().as_bytes()).unwrap();
            records.end().unwrap();
            assert_eq!(records.next, [(0, lines[..2].concat()), (0, lines[2].clone())]);
        }
    }
}
