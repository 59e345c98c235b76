//! The rotation of trace files: drops the older half of a file that has reached its limit, up to the beginning of a
//! line, and counts what the dropped half contained.
//!
//! The newer half is written to a new file beside the old file, and then the new file takes the old file's name. If the
//! process is killed at any step, one of the two files is complete, and recovery finds it, because the slot in the
//! ring's header names it.

mod raw;

use std::fs::File;
use std::io::{self, BufRead, BufReader, Seek, SeekFrom, Write};

use trace_format::file::Encoding;
use trace_format::line::{Kind, Line, Ticks};
use trace_format::meta::{LossReason, Meta};
use trace_format::render::FileTotals;
use trace_format::tally::Tally;

use super::trace_file::TraceFile;
use super::trace_place::TracePlace;
use crate::reading::read_at_most;
use crate::sys;

/// The number of bytes at the beginning of a line that are examined. The `#` lines that are counted here are shorter.
const MAX_LINE_BYTES: usize = 256;
/// The number of bytes of the kept half that are copied at once.
const COPIED_AT_ONCE: u64 = 256 * 1024;

/// The counts of what the dropped half of a file contained.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Dropped {
    /// The position in the file, in bytes, where the kept half begins.
    pub bytes: u64,
    /// The number of messages in the dropped half.
    pub messages: u64,
    /// The numbers of lost records that `# lost` lines in the dropped half report, one for each [`LossReason`], in its
    /// order.
    pub lost: [u64; LossReason::COUNT],
    /// The time, in nanoseconds, for which the thread waited for the tracer according to the dropped half.
    pub stall_ns: u64,
    /// The ticks of the last line in the dropped half.
    pub last: Ticks,
    /// The number of waits for the tracer that the dropped half reports.
    pub waits: u64,
    /// Whether the dropped half contains lines of the module table.
    pub modules: bool,
}

impl Dropped {
    /// Finds the line at which the kept half begins: the first line, at the position `from` or after it, that is not
    /// the continuation of a message. Returns the counts of everything before that line.
    fn find(file: &mut File, from: u64, length: u64) -> io::Result<Dropped> {
        file.seek(SeekFrom::Start(0))?;
        let mut reader = BufReader::with_capacity(1 << 16, file);
        let (mut dropped, mut tally) = (Dropped::default(), Tally::default());
        let mut line = Vec::with_capacity(MAX_LINE_BYTES);
        while dropped.bytes < length {
            let (bytes, whole) = read_head(&mut reader, &mut line)?;
            let parsed = Line::parse(&line).ok();
            // The line that reports a torn message follows the message, and stays with it.
            let begins =
                parsed.is_some_and(|line| line.kind != Kind::Continuation && !tally.is_torn_by(&line));
            if bytes == 0 || (begins && whole && dropped.bytes >= from) {
                break;
            }
            dropped.bytes += bytes;
            match parsed {
                Some(line) if whole => {
                    tally.line(&line);
                    dropped.last = line.key.ticks;
                    if line.kind == Kind::Meta {
                        dropped.count_meta(line.payload);
                    }
                }
                Some(line) => tally.ends_in(&line),
                None => {}
            }
        }
        dropped.bytes = dropped.bytes.min(length);
        dropped.messages = tally.messages();
        Ok(dropped)
    }

    fn count_meta(&mut self, payload: &[u8]) {
        self.modules |= payload.starts_with(b"module ");
        match Meta::parse(payload) {
            Some(Meta::Lost { records, reason }) => self.lost(reason, records),
            // A slot has no field for reasons that only later versions know: these losses count as dropped together
            // with their line.
            Some(Meta::LostOtherwise { records, .. }) => self.lost(LossReason::Rotated, records),
            Some(Meta::Stall { ns }) => self.stall_ns = self.stall_ns.saturating_add(ns),
            Some(Meta::Wait(wait)) => {
                self.waits += 1;
                self.stall_ns = self.stall_ns.saturating_add(wait.ns);
            }
            _ => {}
        }
    }

    fn lost(&mut self, reason: LossReason, records: u64) {
        let sum = &mut self.lost[reason as usize];
        *sum = sum.saturating_add(records);
    }
}

/// Counts what a whole file contains; ignores an incomplete record or line at its end.
pub(super) fn content(file: &mut File, encoding: Encoding) -> io::Result<FileTotals> {
    let bytes = file.metadata()?.len();
    let all = match encoding {
        Encoding::Text => Dropped::find(file, u64::MAX, bytes)?,
        Encoding::Raw => raw::find(file, u64::MAX, bytes)?.0,
    };
    Ok(FileTotals { records: all.messages, lost: all.lost, stall_ns: all.stall_ns, bytes })
}

/// Reads a line of any length, including its line feed, and stores its first [`MAX_LINE_BYTES`] bytes, without the line
/// feed, in `line`. Returns the number of bytes read, and whether the line ended with a line feed.
fn read_head(reader: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<(u64, bool)> {
    line.clear();
    let mut bytes = 0;
    loop {
        let buffer = reader.fill_buf()?;
        if buffer.is_empty() {
            return Ok((bytes, false));
        }
        let feed = buffer.iter().position(|&b| b == b'\n');
        let text = &buffer[..feed.unwrap_or(buffer.len())];
        line.extend_from_slice(&text[..text.len().min(MAX_LINE_BYTES - line.len())]);
        let used = feed.map_or(buffer.len(), |at| at + 1);
        reader.consume(used);
        bytes += used as u64;
        if feed.is_some() {
            return Ok((bytes, true));
        }
    }
}

impl TraceFile {
    /// Replaces the file by a new one without the older half, so that about half of `most`, the limit in bytes,
    /// remains. `first` returns the lines with which the new file begins. `publish` is called when the new file is
    /// complete, before it gets the old file's name.
    ///
    /// # Errors
    /// No new file can be made, or it cannot get its name. The old file is unchanged; if `publish` was called, the
    /// caller must undo its effect.
    pub(super) fn rotate(
        &mut self,
        place: &TracePlace,
        (tid, run): (u64, u32),
        most: u64,
        first: impl FnOnce(&Dropped) -> Vec<u8>,
        publish: impl FnOnce(&TraceFile, &Dropped),
    ) -> io::Result<()> {
        let named = |error: io::Error, path| {
            io::Error::new(error.kind(), format!("cannot drop the older half of {path:?}: {error}"))
        };
        let result = self.newer_half(place, (tid, run), most, first);
        // The reading has moved the position of the descriptor.
        let back = self.file.seek(SeekFrom::Start(self.length));
        let (mut new, dropped) =
            result.and_then(|new| back.map(|_| new)).map_err(|e| named(e, &self.path))?;
        publish(&new, &dropped);
        new.take_name_of(self, place, tid, run).map_err(|e| named(e, &self.path))?;
        *self = new;
        if sys::OPEN_FILES_KEEP_NAMES {
            place.remove(place.aside_path(tid, run));
        }
        Ok(())
    }

    fn newer_half(
        &mut self,
        place: &TracePlace,
        (tid, run): (u64, u32),
        most: u64,
        first: impl FnOnce(&Dropped) -> Vec<u8>,
    ) -> io::Result<(TraceFile, Dropped)> {
        let from = self.length - most.min(self.length) / 2;
        let path = place.unfinished_path(tid, run);
        // A failed attempt may have left a file; only this run uses this name.
        place.free_file_name(&path)?;
        let (dropped, length, file) = match place.encoding {
            Encoding::Text => {
                let dropped = Dropped::find(&mut self.file, from, self.length)?;
                let mut file = sys::create_private_file(&path)?;
                let length = self.copy_lines(&dropped, &first(&dropped), &mut file)?;
                (dropped, length, file)
            }
            Encoding::Raw => {
                let (dropped, plans) = raw::find(&mut self.file, from, self.length)?;
                let mut file = sys::create_private_file(&path)?;
                let kept = dropped.bytes..self.length;
                let length = raw::copy(&mut self.file, tid, kept, &plans, first(&dropped), &mut file)?;
                (dropped, length, file)
            }
        };
        Ok((place.opened(file, path, self.number, length)?, dropped))
    }

    /// Writes `first`, and after it the kept half of this file, into `new`. Returns the length of `new` in bytes.
    fn copy_lines(&mut self, dropped: &Dropped, first: &[u8], new: &mut File) -> io::Result<u64> {
        new.write_all(first)?;
        self.file.seek(SeekFrom::Start(dropped.bytes))?;
        let kept = self.length - dropped.bytes;
        let mut rest = kept;
        while rest > 0 {
            let part = read_at_most(&self.file, rest.min(COPIED_AT_ONCE))?;
            if part.is_empty() {
                return Err(truncated_error());
            }
            new.write_all(&part)?;
            rest -= part.len() as u64;
        }
        Ok(first.len() as u64 + kept)
    }
}

fn truncated_error() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the file was truncated meanwhile")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropped_text_ends_at_a_message_boundary_and_is_counted() {
        let key = "0000000000000007-00000320";
        let long = "x".repeat(100_000);
        let old = format!(
            "{key} # run version=1\n{key} : one\n{key} # lost records=3 reason=full\n{key} # stall ns=5\n\
             {key} # lost records=4 reason=of_a_later_version\n\
             {key} : {long}\n{key} | second line\n{key} | third line\n"
        );
        let kept = format!("{key} : kept\n{key} # lost records=9 reason=full\n");
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(old.as_bytes()).unwrap();
        file.write_all(kept.as_bytes()).unwrap();
        let length = (old.len() + kept.len()) as u64;
        let mut lost = [0; LossReason::COUNT];
        lost[LossReason::Full as usize] = 3;
        lost[LossReason::Rotated as usize] = 4;
        let expected = Dropped {
            bytes: old.len() as u64,
            messages: 2,
            lost,
            stall_ns: 5,
            waits: 0,
            last: Ticks(7),
            modules: false,
        };
        // The long message and its further lines are not cut, wherever the half begins.
        for from in [old.len() - 100_000, old.len() - 60, old.len()] {
            assert_eq!(Dropped::find(&mut file, from as u64, length).unwrap(), expected, "{from}");
        }
        // The line that reports a torn message is not cut off from the message.
        let torn = format!("{key} : torn\n{key} # lost records=1 reason=torn\n");
        let mut with_torn = tempfile::tempfile().unwrap();
        with_torn.write_all(format!("{torn}{kept}{key} : un\n{key} | finish").as_bytes()).unwrap();
        let dropped = Dropped::find(&mut with_torn, 10, (torn.len() + kept.len()) as u64).unwrap();
        let one_torn = (torn.len() as u64, 0, 1);
        let in_torn = |dropped: &Dropped| dropped.lost[LossReason::Torn as usize];
        assert_eq!((dropped.bytes, dropped.messages, in_torn(&dropped)), one_torn);
        assert_eq!(
            content(&mut with_torn, Encoding::Text).unwrap().records,
            1,
            "that at the end is not whole"
        );
        let all = Dropped::find(&mut file, length - 3, length).unwrap();
        assert_eq!((all.bytes, all.messages, all.lost[0]), (length, 3, 12));
        file.seek(SeekFrom::End(0)).unwrap();
        file.write_all(format!("{key} : not all there").as_bytes()).unwrap();
        let bytes = file.metadata().unwrap().len();
        lost[LossReason::Full as usize] = 12;
        let expected = FileTotals { records: 3, lost, stall_ns: 5, bytes };
        assert_eq!(content(&mut file, Encoding::Text).unwrap(), expected);
    }
}
