//! The states of threads as the kernel reports them: a `=` line, and a record of a kind of its own in raw files.
//!
//! ```text
//! = left thread=4711 cpu=1 raw=81204377       the thread has left the processor to wait for something
//! = preempted thread=4711 cpu=1 raw=81209110  it was taken off the processor, or has yielded
//! = on thread=4711 cpu=0 raw=81290001         it is on a processor again
//! = started thread=4712 cpu=0 raw=81290551    it was created
//! = ended thread=4712 cpu=0 raw=81299112      it has ended
//! = gap thread=0 cpu=1 raw=81300000 lost=430  `lost` records of this processor are missing before this one
//! ```
//!
//! If the kernel refuses to report states, the file has the reason, and the sums of times that every user may read:
//!
//! ```text
//! # no_states why="perf_event_open: Permission denied"
//! # totals thread=4711 name="worker" ran=18300000 ready=19300000 blocked=212000000
//! ```
//!
//! These lines are in files of their own, which the reader of the kernel's records writes. A thread's own file does
//! not contain them, so its order and its counts do not change. The ticks of a line are the time `raw` of the raw
//! monotonic clock, converted with the `# clock` lines of the file. No call of the tracer makes these lines, so they
//! are counted [apart](crate::kinds::SeparateCounts).

use crate::meta::{PayloadWriter, split};
use crate::record::{Record, RecordKind};

/// The name in the `# thread` line of a file with the states of threads. The file itself belongs to no thread.
pub const THREAD_NAME: &[u8] = b"tracer-states";

/// The kind of a change of a thread's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum StateChange {
    /// The thread has left the processor to wait for something.
    Left = 1,
    /// The thread was taken off the processor although it is ready to run, or has yielded.
    Preempted = 2,
    /// The thread is on a processor.
    On = 3,
    /// The thread was created.
    Started = 4,
    /// The thread has ended.
    Ended = 5,
    /// Changes are not known here, because records of a processor are missing.
    Gap = 6,
}

impl StateChange {
    /// All changes, with their names.
    pub const NAMES: [(StateChange, &'static str); 6] = [
        (StateChange::Left, "left"),
        (StateChange::Preempted, "preempted"),
        (StateChange::On, "on"),
        (StateChange::Started, "started"),
        (StateChange::Ended, "ended"),
        (StateChange::Gap, "gap"),
    ];

    /// Returns the name of the change, the first word of a `=` line.
    #[must_use]
    pub fn name(self) -> &'static str {
        StateChange::NAMES.iter().find(|(known, _)| *known == self).map_or("", |(_, name)| name)
    }
}

/// A change of a thread's state, with its time and its processor; or a gap, where such changes are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ThreadState {
    /// The thread's id; 0 in a gap.
    pub thread: u64,
    /// The change of the thread's state.
    pub change: StateChange,
    /// The number of the processor on which the change happened; in a gap, of the processor whose records are missing.
    pub cpu: u32,
    /// The time of the change, in nanoseconds of the raw monotonic clock.
    pub raw: u64,
    /// The number of records that are missing, in a gap.
    pub lost: u32,
}

/// The number of bytes of the payload of a [`RecordKind::State`].
pub const PAYLOAD: usize = 24;

impl ThreadState {
    /// Returns word 0 of the record of this state.
    #[must_use]
    pub const fn word(&self) -> u64 {
        (PAYLOAD as u64) << 16 | (self.change as u64) << 8 | RecordKind::State as u64
    }

    /// Returns the payload of the record of this state, as words.
    #[must_use]
    pub const fn payload(&self) -> [u64; PAYLOAD / 8] {
        [self.thread, self.raw, self.cpu as u64 | (self.lost as u64) << 32]
    }

    /// Reads a record; `None` if it is not the record of a state.
    #[must_use]
    pub fn of_record(record: &Record<'_>) -> Option<ThreadState> {
        let words = record.words::<{ PAYLOAD / 8 }>().filter(|_| record.kind == RecordKind::State)?;
        let [thread, raw, last] = words;
        let (change, _) = StateChange::NAMES.iter().find(|(known, _)| *known as u8 == record.flags().0)?;
        #[expect(clippy::cast_possible_truncation, reason = "two halves of a word")]
        let (cpu, lost) = (last as u32, (last >> 32) as u32);
        Some(ThreadState { thread, change: *change, cpu, raw, lost })
    }

    /// Appends the payload of the `=` line.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut fields = PayloadWriter::new(out, self.change.name());
        fields.number("thread", self.thread).number("cpu", u64::from(self.cpu)).number("raw", self.raw);
        if self.change == StateChange::Gap {
            fields.number("lost", u64::from(self.lost));
        }
    }

    /// Reads the payload of a line; `None` if it is not the payload of a `=` line. Skips unknown keys.
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

/// Appends the payload of the `#` line that has the reason why a file has no states.
pub fn write_refusal(why: &[u8], out: &mut Vec<u8>) {
    PayloadWriter::new(out, "no_states").quoted("why", why);
}

/// Returns the reason why a file has no states; `None` if `payload`, that of a `#` line, does not contain the reason.
#[must_use]
pub fn refusal(payload: &[u8]) -> Option<Vec<u8>> {
    let (_, fields) = split(payload).filter(|(word, _)| *word == b"no_states")?;
    fields.string("why")
}

/// The times that a thread has spent in each state, in nanoseconds, up to the last time that they were read. The kernel
/// lets every user read these times, also if it refuses to report changes of states.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadTotals {
    /// The thread's id.
    pub thread: u64,
    /// The name that the thread had when it was read last.
    pub name: Vec<u8>,
    /// The time for which the thread was on a processor, in nanoseconds.
    pub ran: u64,
    /// The time for which the thread could have run, but no processor was free, in nanoseconds.
    pub ready: u64,
    /// The time for which the thread waited for something, in nanoseconds.
    pub blocked: u64,
}

impl ThreadTotals {
    /// Appends the payload of the `# totals` line.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut fields = PayloadWriter::new(out, "totals");
        fields.number("thread", self.thread).quoted("name", &self.name);
        fields.number("ran", self.ran).number("ready", self.ready).number("blocked", self.blocked);
    }

    /// Reads the payload of a `# totals` line; `None` if it is the payload of another line. Skips unknown keys.
    #[must_use]
    pub fn parse(payload: &[u8]) -> Option<ThreadTotals> {
        let (_, fields) = split(payload).filter(|(word, _)| *word == b"totals")?;
        Some(ThreadTotals {
            thread: fields.number("thread")?,
            name: fields.string("name")?,
            ran: fields.number("ran")?,
            ready: fields.number("ready")?,
            blocked: fields.number("blocked")?,
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
    fn a_state_is_read_back_from_lines_and_raw_files() {
        for (at, (change, name)) in (1u32..).zip(StateChange::NAMES) {
            let lost = if change == StateChange::Gap { 430 } else { 0 };
            let state = ThreadState { thread: 4711, change, cpu: at, raw: 81_204_377, lost };
            let mut text = Vec::new();
            state.write(&mut text);
            assert!(text.starts_with(format!("{name} thread=4711 cpu={at} raw=81204377").as_bytes()));
            assert_eq!(ThreadState::parse(&text), Some(state));
            let words = [&[state.word(), 99][..], &state.payload()].concat();
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            // No ring has such a record; a reader leaves a ring with one to later versions.
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

    #[test]
    fn a_refusal_and_totals_are_read_back() {
        let (mut text, why) = (Vec::new(), b"no \"events\"\nhere");
        write_refusal(why, &mut text);
        assert_eq!((refusal(&text), ThreadTotals::parse(&text)), (Some(why.to_vec()), None));
        let totals = ThreadTotals { thread: 7, name: b"a \"b\"".to_vec(), ran: 1, ready: 2, blocked: 3 };
        text.clear();
        totals.write(&mut text);
        assert_eq!((ThreadTotals::parse(&text), refusal(&text)), (Some(totals), None));
    }
}
