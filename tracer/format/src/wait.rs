//! A wait of the tracer: a thread stood still because of the tracer, and not because of its own work.
//!
//! A wait is one record in the trace of the thread that has waited. It is made when the wait has ended: a record of a
//! kind of its own in a ring, a `# wait` line in files. No call of the tracer has made the record, so it is counted
//! [apart](crate::kinds::SeparateCounts).

use crate::line::Ticks;
use crate::meta::{PayloadReader, PayloadWriter};
use crate::record::{Record, RecordKind};

/// The reason why a thread has waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum WaitCause {
    /// The thread's ring was full: the flusher was slower than the thread.
    Room = 0,
    /// The flusher had not reserved the part of the ring's memory yet that the next record needed.
    Memory = 1,
    /// The thread had to get a ring for its first record.
    Ring = 2,
    /// The list of the process's modules was read, before or after the thread loaded or unloaded modules.
    Modules = 3,
}

impl WaitCause {
    /// All reasons, with their names.
    pub const NAMES: [(WaitCause, &'static str); 4] = [
        (WaitCause::Room, "room"),
        (WaitCause::Memory, "memory"),
        (WaitCause::Ring, "ring"),
        (WaitCause::Modules, "modules"),
    ];

    /// Returns the name of the reason, as in `for=` of a `# wait` line.
    #[must_use]
    pub fn name(self) -> &'static str {
        WaitCause::NAMES.iter().find(|(known, _)| *known == self).map_or("", |(_, name)| name)
    }
}

/// A wait that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Wait {
    /// The ticks at which the wait began.
    pub begin: Ticks,
    /// The ticks at which the wait ended. Several waits are recorded as one if no record could be written between them;
    /// then these are the ticks at which the last one ended.
    pub end: Ticks,
    /// The time that the thread has waited, in nanoseconds.
    pub ns: u64,
    /// The reason for the wait.
    pub what: WaitCause,
}

/// The number of bytes of the payload of a [`RecordKind::Wait`].
pub const PAYLOAD: usize = 24;

impl Wait {
    /// Returns word 0 of the record of this wait.
    #[must_use]
    pub const fn word(&self) -> u64 {
        (PAYLOAD as u64) << 16 | (self.what as u64) << 8 | RecordKind::Wait as u64
    }

    /// Returns the payload of the record of this wait, as words.
    #[must_use]
    pub const fn payload(&self) -> [u64; PAYLOAD / 8] {
        [self.begin.0, self.end.0, self.ns]
    }

    /// Reads a record; `None` if it is not the record of a wait.
    #[must_use]
    pub fn of_record(record: &Record<'_>) -> Option<Wait> {
        let [begin, end, ns] = record.words().filter(|_| record.kind == RecordKind::Wait)?;
        let (what, _) = WaitCause::NAMES.iter().find(|(what, _)| *what as u8 == record.flags().0)?;
        Some(Wait { begin: Ticks(begin), end: Ticks(end), ns, what: *what })
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let mut fields = PayloadWriter::new(out, "wait");
        fields.number("begin", self.begin.0).number("end", self.end.0).number("ns", self.ns);
        fields.bare("for", self.what.name());
    }

    pub(crate) fn parse(fields: &PayloadReader<'_>) -> Option<Wait> {
        let name = fields.bare("for")?;
        let (what, _) = WaitCause::NAMES.iter().find(|(_, known)| known.as_bytes() == name)?;
        let (begin, end) = (Ticks(fields.number("begin")?), Ticks(fields.number("end")?));
        Some(Wait { begin, end, ns: fields.number("ns")?, what: *what })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Records;

    #[test]
    fn a_wait_record_is_read_back() {
        for (what, _) in WaitCause::NAMES {
            let wait = Wait { begin: Ticks(7), end: Ticks(u64::MAX), ns: 12, what };
            let words = [&[wait.word(), 99][..], &wait.payload()].concat();
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            let record = Records::new([&bytes, &[]], 0, 64).next().expect("a record");
            assert_eq!((Wait::of_record(&record), record.ticks), (Some(wait), Ticks(99)));
            assert!(!record.counts() && !record.begins());
            // Another length or another flag is damage.
            for bit in [8 + 2, 16 + 3] {
                let mut bytes = bytes.clone();
                bytes[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(Records::new([&bytes, &[]], 0, 64).next(), None, "{bit}");
            }
        }
    }
}
