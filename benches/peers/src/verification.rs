//! The check that the files have every logged message exactly once, with the right text.

use crate::Outcome;
use crate::call::MESSAGES;
use crate::message;
use crate::report::Report;
use std::fmt;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::Path;

/// The number of messages that a run logged, and the numbers of faulty messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// The number of messages that were logged.
    pub sent: u64,
    /// The number of messages that are in no file.
    pub lost: u64,
    /// The number of messages that occur once more than they were logged, or were never logged.
    pub doubled: u64,
    /// The number of messages with another text than `format!` makes of the same arguments.
    pub garbled: u64,
    /// The number of messages that came into the file after the logger's flush had returned.
    pub late: u64,
}

impl Findings {
    /// Returns whether the files have every message exactly once.
    pub fn is_complete(&self) -> bool {
        *self == Findings { sent: self.sent, ..Findings::default() }
    }

    /// Returns the sum of these findings and `other`.
    pub fn and(self, other: Findings) -> Findings {
        Findings {
            sent: self.sent + other.sent,
            lost: self.lost + other.lost,
            doubled: self.doubled + other.doubled,
            garbled: self.garbled + other.garbled,
            late: self.late + other.late,
        }
    }
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts =
            [("lost", self.lost), ("doubled", self.doubled), ("garbled", self.garbled), ("late", self.late)];
        let mut separator = "";
        for (what, count) in parts.into_iter().filter(|(_, count)| *count > 0) {
            write!(f, "{separator}{:.1} % {what}", 100.0 * count as f64 / self.sent as f64)?;
            separator = ", ";
        }
        Ok(())
    }
}

/// Compares the files in `directory` with the messages and the file lengths of `report`.
pub fn check(report: &Report, directory: &Path) -> Outcome<Findings> {
    check_with(report, directory, |path| report.files.get(path).copied().unwrap_or_default())
}

/// Compares the files in `directory`, which were made from the files of `report`, with the messages of `report`. No
/// message counts as late.
pub fn check_made(report: &Report, directory: &Path) -> Outcome<Findings> {
    check_with(report, directory, |_| u64::MAX)
}

fn check_with(report: &Report, directory: &Path, in_time: impl Fn(&Path) -> u64) -> Outcome<Findings> {
    let mut reader =
        Reader::new(MESSAGES.map(|message| report.sent.get(message).copied().unwrap_or_default()));
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        reader.read(&path, in_time(&path))?;
    }
    Ok(reader.findings())
}

/// A counter of the messages in files.
struct Reader {
    /// The number of times that each message was logged, in the order of [`MESSAGES`].
    sent: [u64; 3],
    fixed: u64,
    text: u64,
    /// Whether each message with numbers was found, by its first number.
    numbers: Vec<bool>,
    findings: Findings,
    /// A buffer for the text that a message with numbers should have.
    expected: Vec<u8>,
}

impl Reader {
    fn new(sent: [u64; 3]) -> Reader {
        let findings = Findings { sent: sent.iter().sum(), ..Findings::default() };
        let numbers = vec![false; sent[1] as usize];
        Reader { sent, fixed: 0, text: 0, numbers, findings, expected: Vec::new() }
    }

    /// Counts the messages in a file whose first `in_time` bytes were written before the logger's flush returned.
    fn read(&mut self, path: &Path, in_time: u64) -> Outcome<()> {
        let mut file = BufReader::with_capacity(1 << 20, File::open(path)?);
        let (mut line, mut position) = (Vec::new(), 0);
        while file.read_until(b'\n', &mut line)? > 0 {
            position += line.len() as u64;
            let is_message = self.line(line.strip_suffix(b"\n").unwrap_or(&line))?;
            self.findings.late += u64::from(is_message && position > in_time);
            line.clear();
        }
        Ok(())
    }

    /// Counts the message in a line. Returns whether the line has one.
    fn line(&mut self, line: &[u8]) -> Outcome<bool> {
        if let Some(start) = find(line, message::NUMBERS.as_bytes()) {
            self.numbers(&line[start..])?;
        } else if line.ends_with(message::FIXED.as_bytes()) {
            self.fixed += 1;
        } else if line.ends_with(message::TEXT.as_bytes()) {
            self.text += 1;
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    fn numbers(&mut self, text: &[u8]) -> Outcome<()> {
        let digits = text[message::NUMBERS.len()..].split(|byte| !byte.is_ascii_digit()).next();
        let i = std::str::from_utf8(digits.unwrap_or_default())?.parse().unwrap_or(u64::MAX);
        match self.numbers.get_mut(i as usize) {
            Some(found) if !*found => *found = true,
            _ => self.findings.doubled += 1,
        }
        message::write_numbers(&mut self.expected, i)?;
        self.findings.garbled += u64::from(self.expected != text);
        Ok(())
    }

    fn findings(mut self) -> Findings {
        let found = [self.fixed, self.numbers.iter().filter(|found| **found).count() as u64, self.text];
        for (sent, found) in self.sent.into_iter().zip(found) {
            self.findings.lost += sent.saturating_sub(found);
            self.findings.doubled += found.saturating_sub(sent);
        }
        self.findings
    }
}

/// Returns the offset at which `what` begins in `line`; `None` if it does not occur there.
fn find(line: &[u8], what: &[u8]) -> Option<usize> {
    line.windows(what.len()).position(|window| window == what)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(sent: [u64; 3], lines: &[&str], in_time: u64) -> Findings {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), lines.join("\n")).unwrap();
        let mut reader = Reader::new(sent);
        reader.read(file.path(), in_time).unwrap();
        reader.findings()
    }

    const ZERO: &str = "12:00 Iteration: 0 int: 7 double: 0";
    const ONE: &str = "12:01 Iteration: 1 int: 8 double: 0.3333333333333333";

    #[test]
    fn messages_found_once_are_complete() {
        let fixed = format!("12:02 {}", message::FIXED);
        let text = format!("12:03 {}", message::TEXT);
        let found = findings([2, 2, 1], &[ONE, &fixed, "# no message", ZERO, &fixed, &text], u64::MAX);
        assert!(found.is_complete(), "{found:?}");
        assert_eq!(found.sent, 5);
    }

    #[test]
    fn messages_that_are_lost_doubled_garbled_or_late_are_counted() {
        let other = "12:00 Iteration: 0 int: 7 double: 0.1";
        let early = ZERO.len() as u64 + 1;
        for (lines, in_time, expected) in [
            (&[ZERO][..], u64::MAX, Findings { sent: 2, lost: 1, ..Findings::default() }),
            (&[ZERO, ONE, ZERO], u64::MAX, Findings { sent: 2, doubled: 1, ..Findings::default() }),
            (&[other, ONE], u64::MAX, Findings { sent: 2, garbled: 1, ..Findings::default() }),
            (&[ZERO, ONE], early, Findings { sent: 2, late: 1, ..Findings::default() }),
        ] {
            assert_eq!(findings([0, 2, 0], lines, in_time), expected);
        }
    }

    #[test]
    fn lost_messages_are_shown_as_a_percentage() {
        let found = findings([0, 2, 0], &[ONE], u64::MAX);
        assert_eq!(found.to_string(), "50.0 % lost");
    }
}
