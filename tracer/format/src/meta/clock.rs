//! The readings of the system's clocks in a `# clock` line. They were taken together with the ticks and the wall clock
//! of that line.

use super::payload::{PayloadReader, PayloadWriter};

/// The readings of the system's clocks at the moment of a `# clock` line. A reading that a system does not have or does
/// not report is `None`; in files of versions 1 and 2 every reading is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SystemClocks {
    /// The number of ticks between the two readings of the counter, one before and one after the reading of the clocks;
    /// the ticks of the line are in the middle.
    pub within: Option<u64>,
    /// The raw monotonic clock, which is never adjusted, in nanoseconds: the rate of the ticks comes from it. It
    /// stands still while the machine is suspended.
    pub raw: Option<u64>,
    /// The time since the machine was started, in nanoseconds, including the time for which it was suspended.
    pub since_boot: Option<u64>,
    /// The greatest error of the wall clock, in nanoseconds, as the system reports it.
    pub error: Option<u64>,
    /// The system's status bits of the wall clock, `STA_*` of `adjtimex`.
    pub status: Option<u32>,
    /// The state of the wall clock, `TIME_*` of `adjtimex`: 5 if it is not synchronized.
    pub state: Option<u32>,
}

impl SystemClocks {
    pub(super) fn write(&self, fields: &mut PayloadWriter<'_>) {
        let numbers = [
            ("within", self.within),
            ("raw", self.raw),
            ("since_boot", self.since_boot),
            ("error", self.error),
            ("status", self.status.map(u64::from)),
            ("state", self.state.map(u64::from)),
        ];
        for (key, number) in numbers {
            if let Some(number) = number {
                fields.number(key, number);
            }
        }
    }

    pub(super) fn parse(fields: &PayloadReader<'_>) -> SystemClocks {
        let small = |key| fields.number(key).and_then(|number| u32::try_from(number).ok());
        SystemClocks {
            within: fields.number("within"),
            raw: fields.number("raw"),
            since_boot: fields.number("since_boot"),
            error: fields.number("error"),
            status: small("status"),
            state: small("state"),
        }
    }
}
