//! Reads a followed file: keeps the position up to which it was read, and checks that it is still the same file.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use memchr::memrchr;
use trace_format::file::Encoding;
use trace_format::line::{Kind, Line};
use trace_format::raw::{self, Raw};

use crate::file::lines::{last_ticks, strip_line_feed};
use crate::file::map::open_known;
use crate::file::raw_file::{lines_of, whole_messages};
use crate::os::sys::{FileId, file_id, read_at};

/// The number of bytes that are read from a file at once. It is also the size from which on a thread's queue is not
/// filled further.
pub(super) const PORTION: usize = 256 << 10;
/// The number of bytes before the reader's position that are compared to check that the file is still the same.
const IDENTIFYING_BYTES: usize = 256;
/// The number of bytes at the end of a file among which the last line is searched for.
const TAIL: u64 = 1 << 20;

/// The maximum number of files that are held open at once. It leaves room in processes that may open only 256 files.
const MAX_HELD: usize = 96;
/// The number of files that are held open now.
static HELD_COUNT: AtomicUsize = AtomicUsize::new(0);

/// A file that is held open, and counted in `HELD_COUNT`.
struct HeldFile(File);

impl HeldFile {
    /// Opens the file at `path`; returns `None` if the file there does not have the identity `id`, or if too many files
    /// are held open.
    fn open(path: &Path, id: &FileId) -> Option<HeldFile> {
        // Windows does not allow replacing a file that another process has open.
        if cfg!(windows) {
            return None;
        }
        let count = |held| (held < MAX_HELD).then_some(held + 1);
        HELD_COUNT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, count).ok()?;
        let file = File::open(path).ok();
        let file = file.filter(|file| file.metadata().is_ok_and(|found| file_id(path, &found) == *id));
        if file.is_none() {
            HELD_COUNT.fetch_sub(1, Ordering::Relaxed);
        }
        file.map(HeldFile)
    }
}

impl Drop for HeldFile {
    fn drop(&mut self) {
        HELD_COUNT.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A reader of a followed file, with its position in the file.
pub(super) struct FileReader {
    /// The path of the file.
    pub path: PathBuf,
    /// The identity of the file in the file system.
    pub id: FileId,
    /// The reader's position: the number of bytes that were read.
    pub read: u64,
    /// The last bytes that were read. If the file has other bytes there, another file has replaced it, which may have
    /// got the same inode number.
    before: Vec<u8>,
    /// The offset up to which the file is to be read.
    pub goal: u64,
    /// The file, which stays open until it is read up to the goal.
    pub open_file: Option<File>,
    /// The file, held open as long as a process may write to it, so that it can be read even after it was renamed or
    /// deleted.
    held: Option<HeldFile>,
    /// Whether no process will write to the file any more. If so, the end of the file ends its last line.
    pub finished: bool,
}

impl FileReader {
    /// Returns a reader at the beginning of a file.
    pub(super) fn new(path: &Path, id: FileId, goal: u64, finished: bool) -> FileReader {
        let (before, open_file) = (Vec::new(), None);
        let held = if finished { None } else { HeldFile::open(path, &id) };
        FileReader { path: path.to_owned(), id, read: 0, before, goal, open_file, held, finished }
    }

    /// Returns the open file, if there is one.
    fn file(&self) -> Option<&File> {
        self.open_file.as_ref().or(self.held.as_ref().map(|held| &held.0))
    }

    /// Returns the length of the file that is held open, even if it was renamed; `None` if no file is held open.
    pub(super) fn held_length(&self) -> Option<u64> {
        self.held.as_ref().and_then(|held| held.0.metadata().ok()).map(|found| found.len())
    }

    /// Closes the held file, because no process will write to it any more.
    pub(super) fn release(&mut self) {
        self.held = None;
    }

    /// Reads the next lines of a file to which no process will write any more; returns `None` at its end.
    pub(super) fn rest(&mut self) -> Option<Vec<u8>> {
        if self.read >= self.goal {
            return None;
        }
        let Portion::Lines(ReadLines { mut lines, mut tail, read, rest, more }) = self.portion() else {
            return None;
        };
        self.advance(&read);
        if !more {
            self.advance(&rest);
            lines.append(&mut tail);
            if lines.last().is_some_and(|last| *last != b'\n') {
                lines.push(b'\n');
            }
            self.goal = self.read;
        }
        Some(lines)
    }

    /// Reads the next lines after the reader's position: at least one line, if the file has one there.
    pub(super) fn portion(&self) -> Portion {
        let by_name;
        let file = match self.file() {
            Some(file) => file,
            None => {
                let Ok((file, metadata)) = open_known(&self.path) else { return Portion::Gone };
                if file_id(&self.path, &metadata) != self.id {
                    return Portion::Gone;
                }
                by_name = file;
                &by_name
            }
        };
        let known = self.read - self.before.len() as u64;
        match read_from(file, known, self.before.len()) {
            Some(before) if before == self.before => {}
            Some(_) => return Portion::Replaced,
            None => return Portion::Gone,
        }
        let lines = match read_from(file, 0, raw::MAGIC.len()).map(|magic| Encoding::of(&magic)) {
            Some(Encoding::Text) => self.text(file),
            Some(Encoding::Raw) => self.records(file),
            None => None,
        };
        // A file that was cut inside a line or record, before its goal, has nothing more to read.
        let lines = lines.filter(|lines| !lines.more || !lines.read.is_empty());
        lines.map_or(Portion::Gone, Portion::Lines)
    }

    fn text(&self, file: &File) -> Option<ReadLines> {
        let left = usize::try_from(self.goal - self.read).unwrap_or(usize::MAX);
        let mut portion = left.min(PORTION);
        loop {
            let read = read_from(file, self.read, portion).filter(|read| !read.is_empty())?;
            let more = read.len() < left;
            let whole = whole_records(&read, more);
            if read.len() < portion || !more || whole > 0 {
                // A file that is shorter than expected has no more for now.
                let (lines, tail) =
                    read.split_at(if more && whole == 0 { whole_lines(&read) } else { whole });
                let (lines, tail) = (lines.to_vec(), tail.to_vec());
                return Some(ReadLines { read: lines.clone(), rest: tail.clone(), lines, tail, more });
            }
            // The message is long.
            portion = left.min(portion.saturating_mul(4));
        }
    }

    /// Reads the lines of a raw file after the reader's position. The bytes are read from the start of a block, because
    /// each block defines the sites of its own records.
    fn records(&self, file: &File) -> Option<ReadLines> {
        let start = self.read / raw::BLOCK * raw::BLOCK;
        let from = usize::try_from(self.read - start).ok()?;
        let left = usize::try_from(self.goal - start).unwrap_or(usize::MAX);
        let mut portion = left.min(PORTION + from);
        loop {
            let all = read_from(file, start, portion).filter(|all| all.len() > from)?;
            let whole = whole_messages(&all).max(from);
            if all.len() < portion || portion == left || whole > from {
                let more = all.len() < left;
                let lines = lines_of(&all, from..whole, &self.path);
                let tail = if more { Vec::new() } else { lines_of(&all, whole..all.len(), &self.path) };
                let (read, rest) = (all[from..whole].to_vec(), all[whole..].to_vec());
                return Some(ReadLines { lines, tail, read, rest, more });
            }
            // The message is long.
            portion = left.min(portion.saturating_mul(4));
        }
    }

    /// Returns the ticks of the last line before the goal; `None` if the bytes before the goal that are searched
    /// contain no line.
    pub(super) fn newest(&self) -> Option<u64> {
        let by_name;
        let file = match self.file() {
            Some(file) => file,
            None => {
                by_name = open_known(&self.path).ok()?.0;
                &by_name
            }
        };
        let raw = Encoding::of(&read_from(file, 0, raw::MAGIC.len())?) == Encoding::Raw;
        let start = if raw {
            self.goal.checked_sub(1)? / raw::BLOCK * raw::BLOCK
        } else {
            self.goal.saturating_sub(TAIL)
        };
        let tail = read_from(file, start, usize::try_from(self.goal - start).ok()?)?;
        if raw { Raw::parse(&tail)?.last().map(|ticks| ticks.0) } else { last_ticks(&tail) }
    }

    /// Moves the reader's position past `bytes`, which were read there.
    pub(super) fn advance(&mut self, bytes: &[u8]) {
        self.read += bytes.len() as u64;
        self.before.extend_from_slice(&bytes[bytes.len().saturating_sub(IDENTIFYING_BYTES)..]);
        self.before.drain(..self.before.len().saturating_sub(IDENTIFYING_BYTES));
    }

    /// Moves the reader's position back to the beginning of the file.
    pub(super) fn restart_reading(&mut self) {
        self.read = 0;
        self.before.clear();
    }
}

/// Returns the length of the part of `bytes` that consists of whole lines.
fn whole_lines(bytes: &[u8]) -> usize {
    memrchr(b'\n', bytes).map_or(0, |at| at + 1)
}

/// Returns the length of the part of `bytes` that consists of whole messages. A message is not whole if an incomplete
/// line at the end continues it; such a message is longer than its ring, and is seen before it is complete. If there is
/// `more` to read, the last message may also continue there, so it does not count as whole.
pub(super) fn whole_records(bytes: &[u8], more: bool) -> usize {
    let end = whole_lines(bytes);
    let kind = |line: &[u8]| Line::parse(strip_line_feed(line)).ok().map(|line| line.kind);
    let is_at_end = end == bytes.len() && !more;
    if is_at_end || kind(&bytes[end..]).is_some_and(|kind| kind != Kind::Continuation) {
        return end;
    }
    let mut start = end;
    while start > 0 {
        let before = whole_lines(&bytes[..start - 1]);
        match kind(&bytes[before..start]) {
            Some(Kind::Continuation) => start = before,
            Some(Kind::Meta) | None => break,
            Some(_) => return before,
        }
    }
    // The beginning of the message is not in these bytes.
    end
}

/// The outcome of reading a part of a file.
pub(super) enum Portion {
    /// The next lines of the file were read.
    Lines(ReadLines),
    /// The file does not exist any more, or has fewer bytes than were read before.
    Gone,
    /// Another file has replaced the file, and has got the same inode number.
    Replaced,
}

/// The lines of a part of a file, and the bytes they were made of.
pub(super) struct ReadLines {
    /// The whole lines.
    pub lines: Vec<u8>,
    /// The text after the whole lines, which is the beginning of an incomplete message; empty if there is more to read.
    pub tail: Vec<u8>,
    /// The bytes of the file from which the whole lines were made.
    pub read: Vec<u8>,
    /// The bytes of the file after the whole lines.
    pub rest: Vec<u8>,
    /// Whether there is more to read before the goal, the offset up to which the file is to be read.
    pub more: bool,
}

/// Reads at most `bytes` bytes from the offset `at`; `None` if the file cannot be read there.
fn read_from(file: &File, at: u64, bytes: usize) -> Option<Vec<u8>> {
    let mut read = vec![0; bytes];
    let got = read_at(file, &mut read, at).ok()?;
    read.truncate(got);
    Some(read)
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace_format::meta::{ClockKind, Meta, Run};

    #[test]
    fn a_file_that_is_cut_inside_a_line_or_record_is_read_up_to_there() {
        let run = Run {
            version: trace_format::VERSION,
            id: 16,
            root: 16,
            pid: 5,
            exe: b"/bin/app".to_vec(),
            boot: b"6c1e".to_vec(),
            ticks: trace_format::line::Ticks(1),
            wall: trace_format::wall::Wall(1),
            clock: ClockKind::Ordered,
        };
        let mut payload = Vec::new();
        Meta::Run(run).write(&mut payload);
        let text = [b"0000000000000001-00000009 # ", &payload[..], b"\n"].concat();
        let word = 7 | (payload.len() as u64) << 16;
        let mut raw =
            [&raw::MAGIC[..], &9u64.to_le_bytes(), &word.to_le_bytes(), &1u64.to_le_bytes()].concat();
        raw.extend_from_slice(&payload);
        raw.resize(raw.len().next_multiple_of(8), 0);
        let directory = tempfile::tempdir().unwrap();
        for whole in [text, raw] {
            let path = directory.path().join("app.trace.9");
            std::fs::write(&path, [&whole[..], &[0x30, 0x30]].concat()).unwrap();
            let id = file_id(&path, &std::fs::metadata(&path).unwrap());
            let mut reader = FileReader::new(&path, id, whole.len() as u64 + 100, false);
            let Portion::Lines(lines) = reader.portion() else { panic!("a line") };
            assert!(lines.more && lines.read.len() == whole.len());
            reader.advance(&lines.read);
            assert!(matches!(reader.portion(), Portion::Gone));
            assert!(reader.rest().is_none());
        }
    }

    #[test]
    fn a_message_that_may_continue_is_incomplete() {
        let line = |kind: char, end: &str| format!("0000000000000001-00000009 {kind} text{end}");
        let (message, more, meta) = (line(':', "\n"), line('|', "\n"), line('#', "\n"));
        let open = line('|', "");
        for (whole, rest) in [
            (vec![], vec![]),
            (vec![&message, &more, &more], vec![]),
            (vec![&message, &more], vec![line(':', "")]),
            (vec![&message, &meta], vec![line('#', "")]),
            (vec![&message, &meta], vec![message.clone(), open.clone()]),
            (vec![&meta], vec![message.clone(), more.clone(), more.clone(), open.clone()]),
            (vec![&more], vec![message.clone(), open[..20].to_owned()]),
            // The beginning of the message is unknown.
            (vec![&more, &more], vec![open.clone()]),
            (vec![&meta], vec![open.clone()]),
        ] {
            let whole: String = whole.into_iter().map(String::as_str).collect();
            let bytes = whole.clone() + &rest.concat();
            assert_eq!(whole_records(bytes.as_bytes(), false), whole.len(), "{whole}");
            if !rest.is_empty() {
                assert_eq!(whole_records(bytes.as_bytes(), true), whole.len(), "{whole}");
            }
        }
        assert_eq!(whole_records((meta.clone() + &message + &more).as_bytes(), true), meta.len());
        assert_eq!(whole_records((message.clone() + &meta).as_bytes(), true), message.len() + meta.len());
    }
}
