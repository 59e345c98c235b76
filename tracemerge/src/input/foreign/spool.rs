//! Sorts the lines of a log in bounded memory. Lines are collected in portions of limited size. Each portion is sorted
//! and written to a temporary file without a name: to the latest file if the portion begins no earlier than that file's
//! last line, otherwise to a new file. The merge puts the lines of the files in order.

use std::fs::File;
use std::io::{self, BufWriter, Write};

/// The number of bytes of lines that form a portion, which is sorted in memory.
const PORTION: usize = if cfg!(test) { 200 } else { 64 << 20 };

/// The lines of a log while they are sorted.
#[derive(Default)]
pub(super) struct Spool {
    text: Vec<u8>,
    /// The records of the current portion: the ticks of each, and the offset in `text` at which it begins.
    records: Vec<(u64, usize)>,
    files: Vec<File>,
    /// The ticks of the last line of the latest file.
    last: u64,
}

impl Spool {
    /// Begins a record with its first line.
    ///
    /// # Errors
    /// A temporary file cannot be written.
    pub(super) fn begin(&mut self, ticks: u64, line: &[u8]) -> io::Result<()> {
        if self.text.len() >= PORTION {
            self.write()?;
        }
        self.records.push((ticks, self.text.len()));
        self.text.extend_from_slice(line);
        Ok(())
    }

    /// Adds another line to the record that was begun last.
    ///
    /// # Errors
    /// A temporary file cannot be written.
    pub(super) fn go_on(&mut self, line: &[u8]) -> io::Result<()> {
        if self.text.len() >= PORTION && !line.is_empty() {
            let ticks = self.records.last().map_or(self.last, |(ticks, _)| *ticks);
            self.write()?;
            self.records.push((ticks, 0));
        }
        self.text.extend_from_slice(line);
        Ok(())
    }

    /// Returns the temporary files, each of which is sorted. Records with the same ticks stand in the log's order.
    ///
    /// # Errors
    /// A file cannot be written.
    pub(super) fn finish(mut self) -> io::Result<Vec<File>> {
        self.write()?;
        Ok(self.files)
    }

    fn write(&mut self) -> io::Result<()> {
        let ends = self.records.iter().skip(1).map(|(_, start)| *start).chain([self.text.len()]);
        let mut records: Vec<(u64, &[u8])> = self
            .records
            .iter()
            .zip(ends)
            .map(|((ticks, start), end)| (*ticks, &self.text[*start..end]))
            .collect();
        records.sort_by_key(|(ticks, _)| *ticks);
        let (Some((first, _)), Some((last, _))) = (records.first(), records.last()) else { return Ok(()) };
        if self.files.is_empty() || *first < self.last {
            self.files.push(tempfile::tempfile()?);
        }
        if let Some(file) = self.files.last() {
            let mut out = BufWriter::with_capacity(1 << 18, file);
            for (_, text) in &records {
                out.write_all(text)?;
            }
            out.flush()?;
        }
        self.last = *last;
        self.records.clear();
        self.text.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::{Read, Seek};

    /// Spools records with the ticks `records`, and checks that each file is sorted. Returns the lines of all files,
    /// and the number of files.
    fn spooled(records: &[u64]) -> (Vec<String>, usize) {
        let mut spool = Spool::default();
        for (number, ticks) in records.iter().enumerate() {
            spool.begin(*ticks, format!("{ticks:016x} {number} first\n").as_bytes()).unwrap();
            spool.go_on(format!("{ticks:016x} {number} second\n").as_bytes()).unwrap();
        }
        let files = spool.finish().unwrap();
        let mut all = Vec::new();
        for mut file in files.iter() {
            let mut text = String::new();
            file.rewind().unwrap();
            file.read_to_string(&mut text).unwrap();
            let lines: Vec<String> = text.lines().map(str::to_owned).collect();
            assert!(lines.is_sorted_by_key(|line| line[..16].to_owned()), "{text}");
            all.extend(lines);
        }
        (all, files.len())
    }

    #[test]
    fn sorted_records_take_one_spool_file() {
        let (all, files) = spooled(&(0..100).collect::<Vec<_>>());
        assert_eq!((all.len(), files), (200, 1));
    }

    proptest! {
        #[test]
        fn a_stable_sort_of_the_spool_files_sorts_all_records(records in prop::collection::vec(0..50u64, 0..200)) {
            let (mut found, _) = spooled(&records);
            found.sort_by_key(|line| line[..16].to_owned());
            let record = |(number, ticks): (usize, &u64)| {
                ["first", "second"].map(|word| format!("{ticks:016x} {number} {word}"))
            };
            let mut expected: Vec<String> = records.iter().enumerate().flat_map(record).collect();
            expected.sort_by_key(|line| line[..16].to_owned());
            prop_assert_eq!(found, expected);
        }
    }
}
