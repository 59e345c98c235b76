//! The words for kinds and reasons in `#` lines, and words that this version does not know.

use std::fmt;

/// The way in which the ticks of a run are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClockKind {
    /// The processor's counter, read in program order, after the instructions before it.
    Ordered,
    /// The processor's counter, which the processor may read earlier or later than the program says: if one thread
    /// hands over to another, the ticks of the second may be smaller than those of the first.
    Fast,
    /// The operating system's monotonic clock, in nanoseconds.
    System,
}

impl ClockKind {
    pub(super) const NAMES: [(ClockKind, &'static str); 3] =
        [(ClockKind::Ordered, "ordered"), (ClockKind::Fast, "fast"), (ClockKind::System, "system")];

    /// Returns the name of the clock in `clock=` of a `# run` line and in the variable `TRACER_CLOCK`.
    #[must_use]
    pub fn name(self) -> &'static str {
        name_of(&ClockKind::NAMES, self)
    }
}

/// The memory that contains a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RingPlace {
    /// A shared mapping, which outlives the process.
    Shared,
    /// The process's own memory: the ring's records are lost if the process is killed.
    Private,
}

impl RingPlace {
    pub(super) const NAMES: [(RingPlace, &'static str); 2] =
        [(RingPlace::Shared, "shared"), (RingPlace::Private, "private")];

    /// Returns the name of the memory in `ring=` of a `# thread` line.
    #[must_use]
    pub fn name(self) -> &'static str {
        name_of(&RingPlace::NAMES, self)
    }
}

/// A reason why records are not in the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LossReason {
    /// The ring was full.
    Full,
    /// A `Display` panicked or was left by a `longjmp` while it formatted the message.
    Panic,
    /// The nested ring, for records made inside another record, was full.
    Nested,
    /// The message is torn: its thread or process ended, or room ran out, in its middle.
    Torn,
    /// The records in the ring itself are damaged.
    Damaged,
    /// The file had reached its limit: its older part was dropped.
    Rotated,
    /// The file was deleted or truncated from outside the tracer.
    FileRemoved,
    /// The flight recorder, which keeps the newest records only, overwrote the records.
    Overwritten,
}

impl LossReason {
    /// The number of reasons.
    pub const COUNT: usize = 8;

    /// All reasons, in the order of their numbers.
    pub const ALL: [LossReason; LossReason::COUNT] = [
        LossReason::Full,
        LossReason::Panic,
        LossReason::Nested,
        LossReason::Torn,
        LossReason::Damaged,
        LossReason::Rotated,
        LossReason::FileRemoved,
        LossReason::Overwritten,
    ];

    pub(super) const NAMES: [(LossReason, &'static str); LossReason::COUNT] = [
        (LossReason::Full, "full"),
        (LossReason::Panic, "panic"),
        (LossReason::Nested, "nested"),
        (LossReason::Torn, "torn"),
        (LossReason::Damaged, "damaged"),
        (LossReason::Rotated, "rotated"),
        (LossReason::FileRemoved, "file_removed"),
        (LossReason::Overwritten, "overwritten"),
    ];

    /// Returns the name of the reason in `reason=` of a `# lost` line.
    #[must_use]
    pub fn name(self) -> &'static str {
        name_of(&LossReason::NAMES, self)
    }
}

/// A name in a `#` line, such as a reason that only later versions know. Of a longer name, only the first
/// [`MAX_NAME_BYTES`](Name::MAX_NAME_BYTES) bytes are kept.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name {
    bytes: [u8; Name::MAX_NAME_BYTES],
    length: u8,
}

impl Name {
    /// The greatest number of bytes of a name that are kept.
    pub const MAX_NAME_BYTES: usize = 31;

    /// Returns `text` as a name; `None` if it is not a word of visible ASCII characters, or begins with `"`.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Name> {
        if text.is_empty() || !text.iter().all(u8::is_ascii_graphic) || text.first() == Some(&b'"') {
            return None;
        }
        let kept = &text[..text.len().min(Name::MAX_NAME_BYTES)];
        let mut bytes = [0; Name::MAX_NAME_BYTES];
        bytes[..kept.len()].copy_from_slice(kept);
        #[expect(clippy::cast_possible_truncation, reason = "at most the longest")]
        let length = kept.len() as u8;
        Some(Name { bytes, length })
    }

    /// Returns the name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..usize::from(self.length)]).unwrap_or_default()
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A reason why a file ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EndReason {
    /// The process exited.
    Exit,
    /// `shutdown()` was called.
    Shutdown,
    /// The thread ended.
    Thread,
    /// The process was killed; recovery wrote the line.
    Killed,
    /// A panic ended the process without an exit; recovery wrote the line.
    Panic,
    /// The file may not become longer: the thread continues in its next file.
    Full,
    /// A reason that only later versions know.
    Other(Name),
}

impl EndReason {
    pub(super) const NAMES: [(EndReason, &'static str); 6] = [
        (EndReason::Exit, "exit"),
        (EndReason::Shutdown, "shutdown"),
        (EndReason::Thread, "thread"),
        (EndReason::Killed, "killed"),
        (EndReason::Panic, "panic"),
        (EndReason::Full, "full"),
    ];

    /// Returns the name of the reason in `reason=` of an `# end` line.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            EndReason::Other(name) => name.as_str(),
            known => name_of(&EndReason::NAMES, *known),
        }
    }

    /// Returns whether the process has ended without an `exit`.
    #[must_use]
    pub fn is_death(&self) -> bool {
        matches!(self, EndReason::Killed | EndReason::Panic)
    }

    pub(super) fn parse(name: &[u8]) -> Option<EndReason> {
        value_of(&EndReason::NAMES, name).or_else(|| Name::parse(name).map(EndReason::Other))
    }
}

pub(super) fn name_of<T: PartialEq + Copy>(names: &[(T, &'static str)], value: T) -> &'static str {
    names.iter().find(|(v, _)| *v == value).map_or("", |(_, name)| name)
}

pub(super) fn value_of<T: Copy>(names: &[(T, &'static str)], name: &[u8]) -> Option<T> {
    names.iter().find(|(_, n)| n.as_bytes() == name).map(|(v, _)| *v)
}
