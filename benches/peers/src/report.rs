//! The report of a measuring process to the process that has started it: lines on stdout, which this module writes and
//! reads.

use crate::Outcome;
use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// The figures of a measurement, and which messages and files it has written.
#[derive(Debug, Default, PartialEq)]
pub struct Report {
    /// The figures, by the message (or the function, or the clock) and by the name of the figure.
    pub figures: BTreeMap<(String, String), f64>,
    /// The number of times that each message was logged.
    pub sent: BTreeMap<String, u64>,
    /// The lengths of the files in bytes at the moment at which the logger's flush had returned.
    pub files: BTreeMap<PathBuf, u64>,
}

impl Report {
    /// Adds the figure `name` of `message`.
    pub fn figure(&mut self, message: &str, name: &str, value: f64) {
        self.figures.insert((message.into(), name.into()), value);
    }

    /// Stores the present lengths of the files in `directory`.
    pub fn note_files(&mut self, directory: &Path) -> Outcome<()> {
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            self.files.insert(entry.path(), entry.metadata()?.len());
        }
        Ok(())
    }

    /// Reads a report that [`Display`](fmt::Display) has written; other lines may stand between its lines.
    pub fn parse(text: &str) -> Outcome<Report> {
        let mut report = Report::default();
        for line in text.lines() {
            match line.split('\t').collect::<Vec<_>>()[..] {
                ["figure", message, name, value] => report.figure(message, name, value.parse()?),
                ["sent", message, count] => _ = report.sent.insert(message.into(), count.parse()?),
                ["file", length, path] => _ = report.files.insert(path.into(), length.parse()?),
                _ => {}
            }
        }
        Ok(report)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for ((message, name), value) in &self.figures {
            writeln!(f, "figure\t{message}\t{name}\t{value}")?;
        }
        for (message, count) in &self.sent {
            writeln!(f, "sent\t{message}\t{count}")?;
        }
        for (path, length) in &self.files {
            writeln!(f, "file\t{length}\t{}", path.display())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read_back() {
        let mut report = Report::default();
        report.figure("lfence; rdtsc", "p99.9", 0.1 + 0.2);
        report.sent.insert("numbers".into(), 4_000_000);
        report.files.insert("/somewhere/a file".into(), 77);
        let text = format!("noise\n{report}");
        assert_eq!(Report::parse(&text).unwrap(), report);
    }
}
