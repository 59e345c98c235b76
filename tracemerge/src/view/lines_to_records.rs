//! Joins lines into records, which are selected and shown as a whole. This happens between the stages *merge* and
//! *select*.
//!
//! A record here is a message with the `|` lines that continue it, or any other single line. The lines of a record
//! Here, a record is a message with the `|` lines that continue it, or any other single line. The lines of a record
//! follow each other in the merged stream, because they have the same key (the text before the first space) and come
//! from the same file. If damage has put something between them, or has changed the key of a line, the remaining lines
//! are a record of their own. So no record is in two slices of a merge, and the thread that merges a slice can join its
//! lines.

use std::io;

use trace_format::line::Kind;

use crate::file::lines::{lines_of, whole_line};
use crate::file::record_text::{RecordText, key_of, kind_of};
use crate::output::sink::Sink;

/// A stage that accepts records.
pub(crate) trait RecordSink {
    /// Accepts a record, which must come after all records that were accepted before.
    ///
    /// # Errors
    /// Returns an error if the stage accepts no more records.
    fn record(&mut self, record: &RecordText<'_>) -> io::Result<()>;
}

/// A sink that joins lines into records for the next stage. The lines of a record may arrive one by one. The source
/// index that comes with the lines must be the index of their origin.
#[derive(Debug)]
pub(crate) struct RecordJoiner<T> {
    next: T,
    /// The lines of the last record so far, which more lines may continue.
    pending: Vec<u8>,
    /// The index of the origin of the lines in `pending`.
    origin: usize,
}

impl<T: RecordSink> RecordJoiner<T> {
    /// Makes a sink that passes on its records to `next`.
    pub(crate) fn new(next: T) -> RecordJoiner<T> {
        RecordJoiner { next, pending: Vec::new(), origin: 0 }
    }

    /// Passes on the last record, which is held back because more lines could continue it. Must be called after the
    /// last line.
    ///
    /// # Errors
    /// Returns an error if the next stage accepts no more records.
    pub(crate) fn end(&mut self) -> io::Result<()> {
        self.flush()
    }

    /// Returns the stage to which records are passed on.
    pub(crate) fn next_mut(&mut self) -> &mut T {
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

impl<T: RecordSink> Sink for RecordJoiner<T> {
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

/// Passes on each record of `lines` to `next`. All lines are of the origin with the index `origin`.
///
/// # Errors
/// Returns an error if the next stage accepts no more records.
pub(crate) fn each_record(origin: usize, mut lines: &[u8], next: &mut impl RecordSink) -> io::Result<()> {
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

/// Returns the length in bytes of those `|` lines at the beginning of `lines` that have the key `key`.
fn continuation(lines: &[u8], key: &[u8]) -> usize {
    let continues = |line: &&[u8]| kind_of(line) == Some(Kind::Continuation) && key_of(line) == key;
    lines_of(lines).take_while(continues).map(<[u8]>::len).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stage that keeps the origin and the lines of each record.
    type Taken = Vec<(usize, String)>;

    impl RecordSink for Taken {
        fn record(&mut self, record: &RecordText<'_>) -> io::Result<()> {
            self.push((record.origin, String::from_utf8_lossy(record.lines).into_owned()));
            Ok(())
        }
    }

    fn line(ticks: u64, kind: char, text: &str) -> String {
        format!("{ticks:016x}-00000009 {kind} {text}\n")
    }

    #[test]
    fn a_message_and_its_continuation_lines_form_one_record() {
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
    fn lines_of_another_file_do_not_continue_a_message() {
        let mut records = RecordJoiner::new(Taken::new());
        records.lines(0, line(1, ':', "a").as_bytes()).unwrap();
        records.lines(1, line(1, '|', "b").as_bytes()).unwrap();
        records.end().unwrap();
        let origins: Vec<usize> = records.next.iter().map(|(origin, _)| *origin).collect();
        assert_eq!(origins, [0, 1]);
    }

    #[test]
    fn lines_with_another_key_do_not_continue_a_message() {
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
