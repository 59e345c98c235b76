//! Between *merge* and *select*: lines put together to records, which are selected and shown as a whole.
//!
//! A record is a message with the `|` lines that continue it, or any other line by itself. The lines of a record
//! stand behind each other in the merged stream, for they have one key and are of one file; should damage have put
//! something between them, or changed the key, the rest is a record of its own. So no record is in two slices of a
//! merge, and each slice can be put together by the thread that merges it.

use std::io;

use memchr::{memchr, memchr_iter};
use trace_format::line::{Kind, Line, TICKS_DIGITS, TID_DIGITS, Ticks, parse_ticks};

use crate::file::lines::{lines_of, whole_line, without_feed};
use crate::output::sink::Sink;

/// One record.
#[derive(Clone, Copy, Debug)]
pub struct RecordText<'a> {
    /// The place of its file among the origins.
    pub origin: usize,
    /// When.
    pub ticks: Ticks,
    /// The kind of the record's first line.
    pub kind: Kind,
    /// Its lines, each with its line feed.
    pub lines: &'a [u8],
    /// The number of its lines.
    pub line_count: u64,
}

impl<'a> RecordText<'a> {
    /// The record that has these lines.
    #[must_use]
    pub fn new(origin: usize, lines: &'a [u8]) -> RecordText<'a> {
        RecordText::of_lines(origin, lines, memchr_iter(b'\n', lines).count() as u64)
    }

    fn of_lines(origin: usize, lines: &'a [u8], line_count: u64) -> RecordText<'a> {
        let ticks = parse_ticks(lines).unwrap_or_default();
        RecordText { origin, ticks, kind: kind_of(lines).unwrap_or(Kind::Meta), lines, line_count }
    }

    /// The lines of the record, parsed.
    pub fn parsed(&self) -> impl Iterator<Item = Line<'a>> {
        lines_of(self.lines).filter_map(|line| Line::parse(without_feed(line)).ok())
    }

    /// Whether the program has traced it, so that it counts: it is not a `#` line.
    #[must_use]
    pub fn is_traced(&self) -> bool {
        self.kind != Kind::Meta
    }

    /// Whether it is a `#` line that says that the trace is not all that happened, or not when.
    #[must_use]
    pub fn is_warning(&self) -> bool {
        self.kind == Kind::Meta && self.parsed().next().is_some_and(|line| is_warning(line.payload))
    }
}

/// Whether the payload of a `#` line says that the trace is not all that happened, or not when.
#[must_use]
pub fn is_warning(payload: &[u8]) -> bool {
    let word = payload.split(|&b| b == b' ').next().unwrap_or_default();
    matches!(word, b"lost" | b"damaged" | b"stall" | b"backward")
}

/// A stage that takes records.
pub trait Take {
    /// Takes a record, which stands behind all that were taken before.
    ///
    /// # Errors
    /// The stage takes no more.
    fn record(&mut self, record: &RecordText<'_>) -> io::Result<()>;
}

/// Puts lines that come in parts together to records for the next stage; sources are origins.
#[derive(Debug)]
pub struct RecordJoiner<T> {
    next: T,
    /// The last record so far, which may go on.
    pending: Vec<u8>,
    of: usize,
}

impl<T: Take> RecordJoiner<T> {
    /// Passes on records to `next`.
    pub fn new(next: T) -> RecordJoiner<T> {
        RecordJoiner { next, pending: Vec::new(), of: 0 }
    }

    /// Passes on the last record: there are no more lines.
    ///
    /// # Errors
    /// Where the next stage takes no more.
    pub fn end(&mut self) -> io::Result<()> {
        self.flush()
    }

    /// The next stage.
    pub fn next_mut(&mut self) -> &mut T {
        &mut self.next
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let result = each_record(self.of, &self.pending, &mut self.next);
        self.pending.clear();
        result
    }
}

impl<T: Take> Sink for RecordJoiner<T> {
    fn lines(&mut self, origin: usize, lines: &[u8]) -> io::Result<()> {
        let mut rest = lines;
        if self.of == origin && !self.pending.is_empty() {
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
        self.of = origin;
        each_record(origin, &rest[..last], &mut self.next)
    }
}

/// Passes on each record of `lines` to `next`; all of them are of one origin.
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

/// Where the last record of `lines` begins.
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

/// The bytes that `lines` begins with that are `|` lines with this key.
fn continuation(lines: &[u8], key: &[u8]) -> usize {
    let continues = |line: &&[u8]| kind_of(line) == Some(Kind::Continuation) && key_of(line) == key;
    lines_of(lines).take_while(continues).map(<[u8]>::len).sum()
}

/// The key of a line that is known to be one, as it is written: all before the first space.
fn key_of(line: &[u8]) -> &[u8] {
    &line[..key_length(line).unwrap_or(line.len())]
}

/// The length of that key. Few thread ids have more digits than they must have.
#[inline]
fn key_length(line: &[u8]) -> Option<usize> {
    const USUAL: usize = TICKS_DIGITS + 1 + TID_DIGITS;
    if line.get(USUAL) == Some(&b' ') { Some(USUAL) } else { memchr(b' ', line) }
}

/// The kind of a line that is known to be one: the character behind its first space.
fn kind_of(line: &[u8]) -> Option<Kind> {
    Kind::from_byte(*line.get(key_length(line)? + 1)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Origin and lines of each record.
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
            let mut run = String::new();
            for (n, line) in lines.iter().enumerate() {
                run.push_str(line);
                if parted >> n & 1 == 1 {
                    records.lines(0, run.as_bytes()).unwrap();
                    run.clear();
                }
            }
            records.lines(0, run.as_bytes()).unwrap();
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
        for parts in [1, 2] {
            let mut records = RecordJoiner::new(Taken::new());
            records.lines(0, lines[..parts].concat().as_bytes()).unwrap();
            records.lines(0, lines[parts..].concat().as_bytes()).unwrap();
            records.end().unwrap();
            assert_eq!(records.next, [(0, lines[..2].concat()), (0, lines[2].clone())]);
        }
    }
}
