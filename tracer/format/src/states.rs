//! The states of threads as the kernel tells them: a `=` line, and a record of a kind of its own in raw files.
//!
//! ```text
//! = left thread=4711 cpu=1 raw=81204377       it has left the processor to wait for something
//! = preempted thread=4711 cpu=1 raw=81209110  it was taken off the processor, or has yielded
//! = on thread=4711 cpu=0 raw=81290001         it is on a processor again
//! = started thread=4712 cpu=0 raw=81290551    it was made
//! = ended thread=4712 cpu=0 raw=81299112      it has ended
//! = gap thread=0 cpu=1 raw=81300000 lost=430  of this processor so many records are missing before this one
//! ```
//!
//! They are in files of their own, of whoever reads the kernel: a thread of its own file tells nothing of them, so its order
//! and its counts stay as they are. The ticks of a line are `raw`, the monotonic clock that nobody steers, by the `# clock`
//! lines of the file. No call of the tracer makes them: they are counted [apart](crate::kinds::Apart).

use crate::meta::{PayloadWriter, split};
use crate::record::{Record, RecordKind};

/// What has become of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum StateChange {
    /// It has left the processor to wait for something.
    Left = 1,
    /// It was taken off the processor, or has yielded: it could go on.
    Preempted = 2,
    /// It is on a processor.
    On = 3,
    /// It was made.
    Started = 4,
    /// It has ended.
    Ended = 5,
    /// Nobody knows: records of a processor are missing.
    Gap = 6,
}

impl StateChange {
    /// All of them, with their names.
    pub const NAMES: [(StateChange, &'static str); 6] = [
        (StateChange::Left, "left"),
        (StateChange::Preempted, "preempted"),
        (StateChange::On, "on"),
        (StateChange::Started, "started"),
        (StateChange::Ended, "ended"),
        (StateChange::Gap, "gap"),
    ];

    /// Returns the name.
    #[must_use]
    pub fn name(self) -> &'static str {
        StateChange::NAMES.iter().find(|(known, _)| *known == self).map_or("", |(_, name)| name)
    }
}

/// A change of a thread's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ThreadState {
    /// The thread's id; 0 in a gap.
    pub thread: u64,
    /// What has become of it.
    pub change: StateChange,
    /// The number of the processor.
    pub cpu: u32,
    /// When it was, by the monotonic clock that nobody steers, in nanoseconds.
    pub raw: u64,
    /// The number of records that are missing, in a gap.
    pub lost: u32,
}

/// The number of bytes of a record's payload.
pub const PAYLOAD: usize = 24;

impl ThreadState {
    /// Returns word 0 of the record.
    #[must_use]
    pub const fn word(&self) -> u64 {
        (PAYLOAD as u64) << 16 | (self.change as u64) << 8 | RecordKind::State as u64
    }

    /// Returns the record's payload.
    #[must_use]
    pub const fn payload(&self) -> [u64; PAYLOAD / 8] {
        [self.thread, self.raw, self.cpu as u64 | (self.lost as u64) << 32]
    }

    /// Reads a record; `None` where it is none of a state.
    #[must_use]
    pub fn of_record(record: &Record<'_>) -> Option<ThreadState> {
        let words = record.words::<{ PAYLOAD / 8 }>().filter(|_| record.kind == RecordKind::State)?;
        let [thread, raw, last] = words;
        let (change, _) = StateChange::NAMES.iter().find(|(known, _)| *known as u8 == record.flags().0)?;
        #[expect(clippy::cast_possible_truncation, reason = "two halves of a word")]
        let (cpu, lost) = (last as u32, (last >> 32) as u32);
        Some(ThreadState { thread, change: *change, cpu, raw, lost })
    }

    /// Appends the payload of the line.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut fields = PayloadWriter::new(out, self.change.name());
        fields.number("thread", self.thread).number("cpu", u64::from(self.cpu)).number("raw", self.raw);
        if self.change == StateChange::Gap {
            fields.number("lost", u64::from(self.lost));
        }
    }

    /// Reads the payload of a line; `None` where it is none. Keys that are not known are skipped.
    #[must_use]
    pub fn parse(payload: &[u8]) -> Option<ThreadState> {
        let (name, fields) = split(payload)?;
        let (change, _) = StateChange::NAMES.iter().find(|(_, known)| known.as_bytes() == name)?;
        Some(ThreadState {
            thread: fields.number("thread")?,
            change: *change,
            cpu: fields.number("cpu")?.try_into().ok()?,
            raw: fields.number("raw")?,
            lost: fields.number("lost").unwrap_or(0).try_into().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::{Kind, Line};
    use crate::raw::{Decoder, Raw, Writer};
    use crate::record::Records;

    #[test]
    fn a_state_is_read_as_it_was_written_from_lines_and_from_raw_files() {
        for (at, (change, name)) in (1u32..).zip(StateChange::NAMES) {
            let lost = if change == StateChange::Gap { 430 } else { 0 };
            let state = ThreadState { thread: 4711, change, cpu: at, raw: 81_204_377, lost };
            let mut text = Vec::new();
            state.write(&mut text);
            assert!(text.starts_with(format!("{name} thread=4711 cpu={at} raw=81204377").as_bytes()));
            assert_eq!(ThreadState::parse(&text), Some(state));
            let words = [&[state.word(), 99][..], &state.payload()].concat();
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            // No ring has such a record; of a version that knows none it is left as it is.
            let mut ring = Records::new([&bytes, &[]], 0, 64);
            assert_eq!((ring.next(), ring.unknown()), (None, Some(RecordKind::State as u8)));
            let file = [&crate::raw::MAGIC[..], &9u64.to_le_bytes(), &bytes].concat();
            let raw = Raw::parse(&file).expect("a raw file");
            let (_, record) = raw.records(0).next().expect("a record");
            assert_eq!(ThreadState::of_record(&record), Some(state));
            let (mut copy, mut lines) = (Vec::new(), Vec::new());
            assert!(Writer::new(9).copy(&record, &crate::plans::Plans::default(), &mut copy));
            assert_eq!(copy, file);
            let found = Decoder::new(9).decode(raw, 0..file.len(), b"f", &mut lines);
            assert!(found.damaged.is_empty());
            let line = Line::parse(lines.strip_suffix(b"\n").expect("a line")).expect("a line");
            assert_eq!((line.kind, line.key.ticks.0, line.payload), (Kind::State, 99, &text[..]));
        }
        for other in
            ["", "left", "left thread=1 cpu=0", "asleep thread=1 cpu=0 raw=1", "left thread=x cpu=0 raw=1"]
        {
            assert_eq!(ThreadState::parse(other.as_bytes()), None, "{other}");
        }
    }
}
