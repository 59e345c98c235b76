//! Between *merge* and *select*: lines put together to records, which are selected and shown as a whole.
//!
//! A record is a message with the `|` lines that continue it, or any other line by itself. The lines of a record
//! stand behind each other in the merged stream, for they have one key and are of one file; should damage have put
//! something between them, or changed the key, the rest is a record of its own. So no record is in two slices of a
//! merge, and each slice can be put together by the thread that merges it.

use std::io;

use trace_format::line::{Kind, Line, Ticks, parse_ticks};

use crate::file::lines::{lines_of, whole_line, without_feed};
use crate::output::sink::Sink;

/// One record.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// The place of its file among the origins.
    pub origin: usize,
    /// When.
    pub ticks: Ticks,
    /// The kind of the record's first line.
    pub kind: Kind,
    /// Its lines, each with its line feed.
    pub lines: &'a [u8],
}

impl<'a> Record<'a> {
    /// The record that has these lines.
    #[must_use]
    pub fn new(origin: usize, lines: &'a [u8]) -> Record<'a> {
        let ticks = parse_ticks(lines).unwrap_or_default();
        Record { origin, ticks, kind: kind_of(lines).unwrap_or(Kind::Meta), lines }
    }

    /// The lines of the record, parsed.
    pub fn parsed(&self) -> impl Iterator<Item = Line<'a>> {
        lines_of(self.lines).filter_map(|line| Line::parse(without_feed(line)).ok())
    }

    /// The number of the record's lines.
    #[must_use]
    pub fn line_count(&self) -> u64 {
        memchr::memchr_iter(b'\n', self.lines).count() as u64
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
    fn record(&mut self, record: &Record<'_>) -> io::Result<()>;
}

/// Puts lines together to records for the next stage.
#[derive(Debug)]
pub struct Records<T> {
    next: T,
    /// The number that is added to that of a source: each boot has its own.
    first_origin: usize,
    /// The last record so far, which may go on.
    pending: Vec<u8>,
    of: usize,
}

impl<T: Take> Records<T> {
    /// Passes on records to `next`; those of source 0 are of the origin `first_origin`, and so on.
    pub fn new(first_origin: usize, next: T) -> Records<T> {
        Records { next, first_origin, pending: Vec::new(), of: 0 }
    }

    /// Forgets the lines that were not passed on.
    pub fn clear(&mut self) {
        self.pending.clear();
    }

    /// Passes on the last record: there are no more lines.
    ///
    /// # Errors
    /// Where the next stage takes no more.
    pub fn end(&mut self) -> io::Result<()> {
        self.flush()
    }

    /// The next stage.
    pub fn next(&self) -> &T {
        &self.next
    }

    /// The next stage, to be changed.
    pub fn next_mut(&mut self) -> &mut T {
        &mut self.next
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let result = self.next.record(&Record::new(self.of, &self.pending));
        self.pending.clear();
        result
    }
}

impl<T: Take> Sink for Records<T> {
    fn lines(&mut self, source: usize, lines: &[u8]) -> io::Result<()> {
        let origin = self.first_origin + source;
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
        loop {
            let first = whole_line(rest).len();
            let end = first + continuation(&rest[first..], key_of(rest));
            let (record, behind) = rest.split_at(end);
            if behind.is_empty() {
                self.pending.extend_from_slice(record);
                self.of = origin;
                return Ok(());
            }
            self.next.record(&Record::new(origin, record))?;
            rest = behind;
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
    &line[..line.iter().position(|&b| b == b' ').unwrap_or(line.len())]
}

/// The kind of a line that is known to be one: the character behind its first space.
fn kind_of(line: &[u8]) -> Option<Kind> {
    let space = line.iter().position(|&b| b == b' ')?;
    Kind::from_byte(*line.get(space + 1)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Origin and lines of each record.
    type Taken = Vec<(usize, String)>;

    impl Take for Taken {
        fn record(&mut self, record: &Record<'_>) -> io::Result<()> {
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
        for cuts in 0..1 << lines.len() {
            let mut records = Records::new(0, Taken::new());
            let mut run = String::new();
            for (n, line) in lines.iter().enumerate() {
                run.push_str(line);
                if cuts >> n & 1 == 1 {
                    records.lines(0, run.as_bytes()).unwrap();
                    run.clear();
                }
            }
            records.lines(0, run.as_bytes()).unwrap();
            records.end().unwrap();
            assert_eq!(records.next, expected, "{cuts:b}");
        }
    }

    #[test]
    fn lines_of_another_file_continue_nothing() {
        let mut records = Records::new(7, Taken::new());
        records.lines(0, line(1, ':', "a").as_bytes()).unwrap();
        records.lines(1, line(1, '|', "b").as_bytes()).unwrap();
        records.end().unwrap();
        let origins: Vec<usize> = records.next.iter().map(|(origin, _)| *origin).collect();
        assert_eq!(origins, [7, 8]);
    }

    #[test]
    fn a_line_with_another_key_continues_nothing_wherever_lines_are_parted() {
        let lines = [line(1, ':', "a"), line(1, '|', "b"), line(2, '|', "c")];
        for parts in [1, 2] {
            let mut records = Records::new(0, Taken::new());
            records.lines(0, lines[..parts].concat().as_bytes()).unwrap();
            records.lines(0, lines[parts..].concat().as_bytes()).unwrap();
            records.end().unwrap();
            assert_eq!(records.next, [(0, lines[..2].concat()), (0, lines[2].clone())]);
        }
    }
}
