//! The stream of one followed thread: the queue of lines that wait to be shown, and what is known about the lines that
//! were shown.
//!
//! The thread's trace is its file up to the length that its ring publishes, followed by the lines in the ring. Lines of
//! the ring are shown before the file has them; when they arrive in the file, they are recognized by ticks and content,
//! and skipped. Lines that the flusher itself makes (about losses, the clock, and the end) are taken only from the
//! file, because a ring's losses may increase before the flusher writes them.

use std::collections::VecDeque;
use std::collections::hash_map::DefaultHasher;
use std::hash::Hasher;
use std::path::Path;

use memchr::memrchr;
use trace_format::line::{Key, Kind, Line, Ticks};
use trace_format::meta::{EndReason, LossReason, Meta};
use trace_store::inspect::ThreadInMemory;

use crate::command::follow::ahead::{Ahead, LineDigest};
use crate::command::follow::file_reader::{FileReader, PORTION, Portion, ReadLines, whole_records};
use crate::command::follow::files::left_before;
use crate::command::follow::runs::RunId;
use crate::file::damage::write_damaged;
use crate::file::lines::{LineAt, Token, last_ticks, line_at, skip_bad, strip_line_feed};
use crate::input::findings::Findings;
use crate::os::sys::{FileId, file_id};

/// The identity of a thread of a run. Lines with the same ticks are shown in the order of these keys, as in a merge.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ThreadKey {
    /// The run that the thread belongs to.
    pub run: RunId,
    tid: u64,
    since: u64,
}

impl ThreadKey {
    /// Returns the key of the thread `tid` whose trace begins at the ticks `since`.
    pub(super) fn new(run: RunId, tid: u64, since: u64) -> ThreadKey {
        ThreadKey { run, tid, since }
    }

    /// Returns the process that the thread belongs to.
    pub(super) fn pid(&self) -> u32 {
        self.run.0
    }

    /// Returns the operating system's id of the thread.
    pub(super) fn tid(&self) -> u64 {
        self.tid
    }

    /// Returns the ticks of the thread's first line.
    pub(super) fn since(&self) -> Ticks {
        Ticks(self.since)
    }
}

/// Lines of one thread that were found together and wait to be shown.
struct Chunk {
    bytes: Vec<u8>,
    at: usize,
    /// The round in which the lines were found.
    round: u64,
    /// Whether the lines were read from the ring, so that they are not in a file yet.
    ahead: bool,
    /// The ticks of the last line in the chunk.
    last: u64,
}

/// The lines of a thread that is followed.
pub(super) struct Stream {
    /// The number of the stream, which counts all streams from 0.
    number: usize,
    reader: Option<FileReader>,
    /// The thread's earlier files that are not completely read yet, though they were deleted, renamed, rotated or left.
    former: VecDeque<FileReader>,
    /// The text that was read from the ring, and whether the process is alive, so that the text may continue. The text
    /// waits until the file that precedes it is read.
    ring: Option<(Vec<u8>, bool)>,
    queue: VecDeque<Chunk>,
    /// The lines that were queued from the ring and were not read from a file yet.
    ahead: Ahead,
    /// The ticks of the last line that was read from files, and the content hashes of all lines with these ticks.
    last: (u64, Vec<u64>),
    /// The value of `last` when the thread's file was left or replaced. The lines of the next file up to this one are
    /// skipped, because they were read before.
    again: Option<(u64, Vec<u64>)>,
    has_run: bool,
    has_thread: bool,
    /// Whether the last line that was read from the file is the `# end` line of the thread.
    has_ended: bool,
    /// The losses and the damage that lines state.
    findings: Findings,
    messages: MessageCount,
    key: ThreadKey,
}

/// Counts of a thread's messages, from which the number of messages is determined that could never be read.
#[derive(Default)]
struct MessageCount {
    /// The number of messages that were shown.
    shown: u64,
    /// The number of messages in earlier files, which the thread left because they were full.
    before: u64,
    /// The number of messages in the current file, as its last `# end` line states it.
    here: Option<u64>,
    /// The number of messages that the current file reports as lost, because an earlier part of the file was rotated
    /// away or an earlier file was removed.
    gone: u64,
    /// Whether the current file states that the thread left it because it was full.
    full: bool,
    /// The losses that the current file reports. They are not kept if another file replaces it, which reports them
    /// again.
    losses: Findings,
    /// The losses that earlier, full files report.
    kept: Findings,
    /// Whether lines report overwritten records, as those of a flight recorder do, which keeps only the newest records.
    overwrites: bool,
}

impl MessageCount {
    /// Stores the numbers of messages and of losses that a `#` line of a file states. `payload` is the line's payload,
    /// and `number` is the number of the stream.
    fn take(&mut self, number: usize, payload: &[u8]) {
        self.losses.metadata(number, payload);
        match Meta::parse(payload) {
            Some(Meta::Lost { records, reason: LossReason::Rotated | LossReason::FileRemoved }) => {
                self.gone = self.gone.saturating_add(records);
            }
            Some(Meta::Lost { reason: LossReason::Overwritten, .. }) => self.overwrites = true,
            Some(Meta::End(end)) => {
                self.here = Some(end.records);
                self.full = end.reason == EndReason::Full;
                if self.full {
                    self.before = self.before.saturating_add(end.records);
                }
            }
            _ => {}
        }
    }

    /// Ends the counts of the current file, because the thread continues in another one.
    fn begin_file(&mut self) {
        let losses = std::mem::take(&mut self.losses);
        if std::mem::take(&mut self.full) {
            self.kept.append(losses);
        }
        (self.here, self.gone) = (None, 0);
    }

    /// Returns the number of messages that were in files and were gone before they could be read; 0 if it is unknown.
    fn unseen(&self) -> u64 {
        let Some(here) = self.here.filter(|_| !self.overwrites) else { return 0 };
        self.before.saturating_add(here).saturating_add(self.gone).saturating_sub(self.shown)
    }
}

impl Stream {
    /// Returns a stream of a thread that has not been read yet.
    pub(super) fn new(key: &ThreadKey, number: usize) -> Stream {
        Stream {
            number,
            reader: None,
            former: VecDeque::new(),
            ring: None,
            queue: VecDeque::new(),
            ahead: Ahead::default(),
            last: (0, Vec::new()),
            again: None,
            has_run: false,
            has_thread: false,
            has_ended: false,
            findings: Findings::default(),
            messages: MessageCount::default(),
            key: key.clone(),
        }
    }

    /// Returns the path of the thread's file.
    pub(super) fn path(&self) -> &Path {
        self.reader.as_ref().map_or(Path::new(""), |reader| &reader.path)
    }

    /// Returns the number of the stream, which counts all streams from 0.
    pub(super) fn number(&self) -> usize {
        self.number
    }

    /// Returns the losses and the damage that the thread's lines state.
    pub(super) fn findings(&self) -> Findings {
        let mut all = self.findings.clone();
        all.append(self.messages.kept.clone());
        all.append(self.messages.losses.clone());
        all
    }

    /// Returns the number of messages that were rotated away or deleted before they could be read.
    pub(super) fn unseen(&self) -> u64 {
        self.messages.unseen()
    }

    /// Takes over what was read from the thread's ring: the text in the ring, and the file that precedes it. `alive`
    /// says whether the process is alive.
    pub(super) fn look(&mut self, thread: ThreadInMemory, alive: bool) {
        let file = thread.file.and_then(|file| Some((file.file.metadata().ok()?, file)));
        if let Some((metadata, file)) = file {
            let id = file_id(&file.path, &metadata);
            if !self.reads(&id) {
                // A thread may fill several files between two looks.
                for (path, id, length) in left_before(&file.path, &self.key, |id| self.reads(id)) {
                    self.continue_in(&path, id, length, true);
                }
            }
            self.continue_in(&file.path, id, file.length, false);
            if let Some(reader) = &mut self.reader {
                // The text of the ring follows this file's bytes, even if the file's name changes meanwhile.
                reader.open_file = Some(file.file);
            }
        } else if let (Some(gone), Some(reader)) = (thread.gone, &mut self.reader) {
            // The file has no name any more, but it is held open.
            let is_same = reader.id == FileId::Inode(gone.device, gone.inode);
            if is_same && reader.held_length().is_some_and(|length| length >= gone.length) {
                reader.goal = gone.length.max(reader.read);
            }
        }
        self.ring = Some((thread.text, alive));
    }

    /// Returns whether nothing more has to be read of the file with the identity `id`, if the thread has no ring. This
    /// is so if the process has exited and the file is set to be read to its end; or if the process is alive and the
    /// file was read to its `# end` line, after which lines follow only when the process exits.
    pub(super) fn is_done(&self, id: &FileId, alive: bool) -> bool {
        let current = self.reader.as_ref().filter(|reader| reader.id == *id);
        current.is_some_and(|reader| reader.finished || (alive && self.has_ended))
    }

    /// Returns whether the file with the identity `id` is the one that is being read.
    pub(super) fn reads(&self, id: &FileId) -> bool {
        self.reader.as_ref().is_some_and(|reader| reader.id == *id)
    }

    /// Makes the reader read the file up to its present length, because the thread has no ring: its whole trace is in
    /// the file.
    pub(super) fn read_to_end_of(&mut self, path: &Path, id: &FileId, finished: bool) {
        let found = std::fs::metadata(path).ok().filter(|metadata| file_id(path, metadata) == *id);
        let held = || self.reader.as_ref().filter(|reader| reader.id == *id)?.held_length();
        if let Some(length) = found.map(|metadata| metadata.len()).or_else(held) {
            self.continue_in(path, id.clone(), length, finished);
            self.ring = None;
        }
    }

    fn continue_in(&mut self, path: &Path, id: FileId, goal: u64, finished: bool) {
        match &mut self.reader {
            Some(reader) if reader.id == id && reader.read <= goal => {
                (reader.goal, reader.finished) = (goal, finished);
                if reader.path != path {
                    path.clone_into(&mut reader.path);
                }
            }
            reader => {
                let next = FileReader::new(path, id, goal, finished);
                if let Some(former) = reader.replace(next) {
                    self.leave(former);
                }
            }
        }
    }

    /// Leaves a file, because the thread continues in another one. If the file has bytes that were not read yet, it
    /// becomes a former file, whose remaining bytes are read before the new file: no process writes to it any more.
    fn leave(&mut self, mut former: FileReader) {
        let is_other = self.reader.as_ref().is_some_and(|reader| reader.id != former.id);
        let length = former.held_length().unwrap_or(former.goal);
        self.again = Some(self.last.clone());
        if is_other && length > former.read {
            former.goal = length;
            self.former.push_back(former);
        } else {
            self.messages.begin_file();
        }
    }

    /// Returns the ticks of the last line of the thread that exists now, whether it was read or not.
    pub(super) fn newest(&self) -> Option<u64> {
        let in_ring = || last_ticks(&self.ring.as_ref()?.0);
        let in_file = || self.reader.as_ref().filter(|reader| reader.read < reader.goal)?.newest();
        let queued = self.queue.iter().map(|chunk| chunk.last).max();
        in_ring().or_else(in_file).max(queued)
    }

    /// Adds lines to the queue: from the file or, if the file is completely read, from the ring. Returns whether there
    /// is more to read.
    pub(super) fn fill(&mut self, round: u64) -> bool {
        if self.queue.iter().map(|chunk| chunk.bytes.len() - chunk.at).sum::<usize>() >= PORTION {
            return self.has_more();
        }
        let Some(mut tail) = self.fill_from_file(round) else { return true };
        if let Some((text, alive)) = self.ring.take() {
            tail.extend_from_slice(&text);
            let end = if alive { whole_records(&tail, false) } else { tail.len() };
            self.take_ring(&tail[..end], alive, round);
        }
        false
    }

    /// Adds lines of the file to the queue. Returns the incomplete line at the end of the file; `None` if there are
    /// more lines to read before it.
    fn fill_from_file(&mut self, round: u64) -> Option<Vec<u8>> {
        if let Some(former) = self.former.front_mut() {
            match former.rest() {
                Some(lines) => self.take_file(&lines, round),
                None => {
                    self.former.pop_front();
                    self.again = Some(self.last.clone());
                    self.messages.begin_file();
                }
            }
            return None;
        }
        let Some(reader) = &mut self.reader else { return Some(Vec::new()) };
        if reader.read >= reader.goal {
            reader.open_file = None;
            if reader.finished || self.has_ended {
                reader.release();
            }
            return Some(Vec::new());
        }
        let ReadLines { mut lines, mut tail, read, rest, more } = match reader.portion() {
            Portion::Lines(lines) => lines,
            Portion::Gone => {
                // The file has another name now, or was replaced: the next read of the ring or the directory shows
                // which.
                (reader.goal, reader.open_file) = (reader.read, None);
                return Some(Vec::new());
            }
            Portion::Replaced => {
                reader.restart_reading();
                self.again = Some(self.last.clone());
                self.messages.begin_file();
                return None;
            }
        };
        reader.advance(&read);
        if !more {
            if reader.finished && !tail.is_empty() {
                reader.advance(&rest);
                lines.append(&mut tail);
                lines.push(b'\n');
            }
            (reader.goal, reader.open_file) = (reader.read, None);
        }
        self.take_file(&lines, round);
        (!more).then_some(tail)
    }

    fn has_more(&self) -> bool {
        self.ring.is_some()
            || !self.former.is_empty()
            || self.reader.as_ref().is_some_and(|reader| reader.read < reader.goal)
    }

    /// Returns the ticks up to which the lines of the thread have been read; they are not less than the ticks of the
    /// first line of the queue. Returns `None` if all existing lines have been read.
    pub(super) fn known_until(&self) -> Option<u64> {
        // If one record was made inside another, the inner one may come first: the last line need not have the
        // largest ticks.
        let last = self.queue.iter().map(|chunk| chunk.last).chain(self.front()).max();
        self.has_more().then_some(last.unwrap_or(0))
    }

    /// Returns the ticks of the first queued line that was read from the ring and is not in the thread's file yet;
    /// `None` if there is no such line.
    pub(super) fn first_ahead(&self) -> Option<u64> {
        let chunk = self.queue.iter().find(|chunk| chunk.ahead)?;
        chunk.line().map(|line| line.ticks)
    }

    /// Returns the ticks up to which lines are due to be shown: the largest ticks of queued lines that were found in
    /// rounds before `round`; `None` if there are no such lines.
    pub(super) fn due(&self, round: u64) -> Option<u64> {
        self.queue.iter().filter(|chunk| chunk.round < round).map(|chunk| chunk.last).max()
    }

    /// Returns the ticks of the first line of the queue.
    pub(super) fn front(&self) -> Option<u64> {
        self.queue.front()?.line().map(|line| line.ticks)
    }

    /// Removes the first line from the queue, and calls `show` with the line and its line feed.
    pub(super) fn pop(&mut self, show: impl FnOnce(&[u8])) {
        let Some(chunk) = self.queue.front_mut() else { return };
        if let Some(line) = chunk.line() {
            show(&chunk.bytes[chunk.at..line.end]);
            chunk.at = line.end;
        }
        if chunk.line().is_none() {
            self.queue.pop_front();
        }
    }

    fn take_file(&mut self, bytes: &[u8], round: u64) {
        let mut fresh = Vec::with_capacity(bytes.len());
        let mut at = 0;
        loop {
            match line_at(bytes, at) {
                Token::End => break,
                Token::Bad => {
                    let end = skip_bad(bytes, at);
                    self.damage(&bytes[at..end], &mut fresh);
                    at = end;
                }
                Token::Line(line) => {
                    let text = &bytes[at..line.end];
                    self.has_ended = line.meta && word(text) == Some(b"end");
                    if line.meta {
                        self.messages.take(self.number, payload(text));
                    }
                    if self.is_new_in_file(text, line) {
                        self.note(text, line);
                        fresh.extend_from_slice(text);
                        // The line ended at a NUL.
                        if !text.ends_with(b"\n") {
                            fresh.push(b'\n');
                        }
                    }
                    at = line.end;
                }
            }
        }
        self.push(fresh, round, false);
    }

    fn is_new_in_file(&mut self, text: &[u8], line: LineAt) -> bool {
        let digest = digest(text, line.ticks);
        if let Some((until, passed)) = &mut self.again {
            if line.ticks < *until {
                return false;
            }
            if line.ticks > *until {
                self.again = None;
            } else if let Some(known) = passed.iter().position(|content| *content == digest.1) {
                passed.swap_remove(known);
                return false;
            }
        }
        if self.last.0 != line.ticks {
            self.last = (line.ticks, Vec::new());
        }
        self.last.1.push(digest.1);
        if line.meta && !self.is_first_of_kind(text) {
            return false;
        }
        !self.ahead.take(digest)
    }

    /// Returns false if a `# run` or `# thread` line repeats an earlier one: of each of the two, a thread has one in
    /// all its files together. Returns true for any other line.
    fn is_first_of_kind(&mut self, text: &[u8]) -> bool {
        match word(text) {
            Some(b"run") => !std::mem::replace(&mut self.has_run, true),
            Some(b"thread") => !std::mem::replace(&mut self.has_thread, true),
            _ => true,
        }
    }

    fn take_ring(&mut self, bytes: &[u8], alive: bool, round: u64) {
        let mut fresh = Vec::new();
        let mut ahead = std::mem::take(&mut self.ahead);
        let mut look = ahead.look(round);
        let mut at = 0;
        while let Token::Line(line) = line_at(bytes, at) {
            let text = &bytes[at..line.end];
            at = line.end;
            // A wait is a record of the thread, so its place is in the ring.
            if line.meta && word(text) != Some(b"wait") {
                let first = matches!(word(text), Some(b"run" | b"thread"));
                if if first { self.is_first_of_kind(text) } else { !alive } {
                    self.messages.losses.metadata(self.number, payload(text));
                    fresh.extend_from_slice(text);
                }
                continue;
            }
            if look.is_new(digest(text, line.ticks)) {
                self.note(text, line);
                fresh.extend_from_slice(text);
            }
        }
        look.end();
        self.ahead = ahead;
        if !fresh.is_empty() && !fresh.ends_with(b"\n") {
            fresh.push(b'\n');
        }
        self.push(fresh, round, true);
    }

    /// Counts a line that will be shown as a shown message, if a message begins with it.
    fn note(&mut self, text: &[u8], line: LineAt) {
        self.messages.shown += u64::from(!line.meta && !is_continuation(text));
    }

    /// Adds a `# damaged` line to `fresh` in place of `bytes`, which are not a line. The new line has the ticks of the
    /// line before.
    fn damage(&mut self, bytes: &[u8], fresh: &mut Vec<u8>) {
        let ticks = self.last.0.max(self.key.since);
        let offset = self.reader.as_ref().map_or(0, |reader| reader.read);
        let offset = usize::try_from(offset).unwrap_or(usize::MAX);
        self.findings.damaged(self.number, offset, bytes.len());
        let key = Key { ticks: Ticks(ticks), tid: self.key.tid };
        write_damaged(key, self.path(), offset, bytes, fresh);
    }

    fn push(&mut self, bytes: Vec<u8>, round: u64, ahead: bool) {
        let start = memrchr(b'\n', bytes.strip_suffix(b"\n").unwrap_or(&bytes)).map_or(0, |at| at + 1);
        if let Token::Line(line) = line_at(&bytes, start) {
            self.queue.push_back(Chunk { bytes, at: 0, round, ahead, last: line.ticks });
        }
    }
}

impl Chunk {
    fn line(&self) -> Option<LineAt> {
        match line_at(&self.bytes, self.at) {
            Token::Line(line) => Some(line),
            Token::Bad | Token::End => None,
        }
    }
}

fn digest(text: &[u8], ticks: u64) -> LineDigest {
    let mut hasher = DefaultHasher::new();
    hasher.write(without_number(strip_line_feed(text)));
    (ticks, hasher.finish())
}

/// Returns the payload of a line; an empty one if the line has none.
fn payload(text: &[u8]) -> &[u8] {
    Line::parse(strip_line_feed(text)).map_or(&[], |line| line.payload)
}

/// Returns whether a line continues the message before it.
fn is_continuation(text: &[u8]) -> bool {
    Line::parse(strip_line_feed(text)).is_ok_and(|line| line.kind == Kind::Continuation)
}

/// Returns the first word of a `#` line.
fn word(text: &[u8]) -> Option<&[u8]> {
    payload(text).split(|&b| b == b' ').next()
}

/// Returns a `# thread` line without the file's number in it. In a ring's text, this line has no number, because there
/// is no file yet.
fn without_number(line: &[u8]) -> &[u8] {
    let end = line.iter().rposition(|byte| !byte.is_ascii_digit()).map_or(0, |last| last + 1);
    let is_thread = || memchr::memmem::find(line, b" # thread ").is_some_and(|at| at < 40);
    match line[..end].strip_suffix(b" file=") {
        Some(before) if is_thread() => before,
        _ => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_invalid_in_a_trace_are_shown_as_damage() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("app.trace.9");
        let line = |ticks: u64, text: &str| format!("{ticks:016x}-00000009 : {text}\n");
        let lines = [line(1, "before"), line(2, "\u{1b}[31m"), line(3, "behind")];
        std::fs::write(&path, lines.concat()).unwrap();
        let id = file_id(&path, &std::fs::metadata(&path).unwrap());
        let mut stream = Stream::new(&ThreadKey::new((5, 1), 9, 1), 0);
        stream.read_to_end_of(&path, &id, true);
        assert!(!stream.fill(1));
        let mut shown = Vec::new();
        while stream.front().is_some() {
            stream.pop(|line| shown.push(String::from_utf8(line.to_vec()).unwrap()));
        }
        assert_ne!(stream.findings(), Findings::default());
        assert_eq!(shown.len(), 3, "{shown:?}");
        assert_eq!([&shown[0], &shown[2]], [&lines[0], &lines[2]]);
        assert!(shown[1].contains("-00000009 # damaged ") && shown[1].contains(r"\x1b[31m"), "{shown:?}");
    }
}
