//! The cause of a process's end, such as a signal. An `# end` line states the reason why the file ends and, if the
//! process has ended, also this cause.

use super::payload::{PayloadReader, PayloadWriter};
use super::reasons::{EndReason, Name};
use crate::line::Ticks;

/// The cause of a process's end, as far as it is known: from the program's panic hook, the exit itself, or the parent
/// that has waited for the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Cause {
    /// The id of the thread whose panic ended the process.
    pub panic: Option<u64>,
    /// The name of the signal that ended the process, such as `SIGKILL`; its number if it has no name.
    pub signal: Option<Name>,
    /// The status with which the process exited.
    pub status: Option<u32>,
}

impl Cause {
    /// Returns whether nothing is known about the cause.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        *self == Cause::default()
    }

    /// Returns this cause, with missing parts taken from `other`.
    #[must_use]
    pub fn or(self, other: Cause) -> Cause {
        Cause {
            panic: self.panic.or(other.panic),
            signal: self.signal.or(other.signal),
            status: self.status.or(other.status),
        }
    }

    pub(super) fn write(&self, fields: &mut PayloadWriter<'_>) {
        if let Some(tid) = self.panic {
            fields.number("panic", tid);
        }
        if let Some(signal) = &self.signal {
            fields.bare("signal", signal.as_str());
        }
        if let Some(status) = self.status {
            fields.number("status", u64::from(status));
        }
    }

    pub(super) fn parse(fields: &PayloadReader<'_>) -> Cause {
        Cause {
            panic: fields.number("panic"),
            signal: fields.bare("signal").and_then(Name::parse),
            status: fields.number("status").and_then(|status| status.try_into().ok()),
        }
    }
}

/// The reason why a file ends, and the cause of the process's end if the file ends with the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ended {
    /// The reason why the file ends.
    pub reason: EndReason,
    /// The cause of the process's end, if the file ends with the process.
    pub cause: Cause,
    /// The ticks of the process's last sign of life, if the file ends with the process.
    pub seen: Option<Ticks>,
}

impl From<EndReason> for Ended {
    fn from(reason: EndReason) -> Ended {
        Ended { reason, cause: Cause::default(), seen: None }
    }
}
