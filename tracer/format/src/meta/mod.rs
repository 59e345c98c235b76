//! The `#` lines: `word key=value key="quoted" ...`, typed.
//!
//! Numbers are decimal unless a field says hex; addresses have 16 hex digits; strings are in double quotes, with the
//! escapes of [`crate::escape`] and `"` as `\x22`. A reader ignores unknown keys and words, so that
//! later versions may add some. It keeps an unknown reason by its [`Name`], so that losses and ends with new reasons
//! still count.
//!
//! The content of a `# run` line decides which files belong together, so from version 2 on it ends in a checksum; see
//! [`RunLine`].

mod cause;
mod clock;
mod module;
mod payload;
mod reasons;
mod run_line;

use crate::crc32;
use crate::kinds::SeparateCounts;
use crate::line::Ticks;
use crate::wait::Wait;
use crate::wall::Wall;

pub use self::cause::{Cause, Ended};
pub use self::clock::SystemClocks;
pub use self::module::{AddressRange, Between, Module};
pub(crate) use self::payload::{PayloadReader, PayloadWriter, split};
use self::reasons::value_of;
pub use self::reasons::{ClockKind, EndReason, LossReason, Name, RingPlace};
use self::run_line::CHECK;
pub use self::run_line::{Claim, FIRST_CHECKED, Run, RunDamage, RunLine};

/// The name of the reason for the loss of records in [dropped](Meta::Dropped) files. Only the run's own file reports
/// such losses, so no ring counts them.
pub const DROPPED: &str = "dropped";

/// The content of a `# thread` line, the second line of each file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// The thread's name as the operating system knows it.
    pub name: Vec<u8>,
    /// The memory that contains the thread's ring.
    pub ring: RingPlace,
    /// The reason why the ring is private; empty if it is not.
    pub why: Vec<u8>,
    /// The number of this file among the run's files, from 1, in the order in which the files were made; `None` if the
    /// line does not contain the number.
    pub file: Option<u32>,
}

/// The content of an `# end` line, the last line of a whole file. If more lines follow it, the program has
/// traced while it exited; then the last `# end` counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// The number of this thread's records that are in the file.
    pub records: u64,
    /// The number of this thread's records that are lost.
    pub lost: u64,
    /// The reason why the file ends.
    pub reason: EndReason,
    /// The number of files that the run had made when this file ended; if the run has ended, the number of all its
    /// files. `None` if the files were not counted.
    pub files: Option<u64>,
    /// The cause of the process's end, if the file ends with the process and the cause is known.
    pub cause: Cause,
    /// The ticks of the process's last sign of life, if the file ends with the process and these ticks are known.
    pub seen: Option<Ticks>,
    /// The numbers of lines in the file that are not counted as records.
    pub apart: SeparateCounts,
    /// The time for which the thread has waited for the tracer, according to the file's lines.
    pub waited: Waited,
}

/// The time for which a thread has waited for the tracer, in the `# end` line of its file: a reader finds the sum there
/// without reading the lines of the waits. The line does not contain the numbers if the thread has not waited, or if an
/// earlier version of the tracer has written the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waited {
    /// The sum of the times in the file's `# wait` and `# stall` lines, in nanoseconds.
    pub ns: u64,
    /// The part of `ns` in which the thread waited for something else than room in its ring: for a ring, for the ring's
    /// memory, or for the list of modules. If a recoverer has ended the file, this is only the time of the waits that
    /// the recoverer has written.
    pub for_ring_ns: u64,
}

impl Waited {
    fn write(&self, fields: &mut PayloadWriter<'_>) {
        for (key, ns) in [("waited", self.ns), ("for_ring", self.for_ring_ns)] {
            if ns > 0 {
                fields.number(key, ns);
            }
        }
    }

    fn parse(fields: &PayloadReader<'_>) -> Waited {
        let number = |key| fields.number(key).unwrap_or(0);
        Waited { ns: number("waited"), for_ring_ns: number("for_ring") }
    }
}

/// The payload of one metadata line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Meta {
    /// The run that the file belongs to.
    Run(Run),
    /// The thread that the file belongs to.
    Thread(Thread),
    /// The thread has another name than in the lines before.
    Name {
        /// The ticks from which on the thread is known to have the name.
        ticks: Ticks,
        /// The new name as the operating system knows it.
        name: Vec<u8>,
    },
    /// The counter and the wall clock at one moment.
    Clock {
        /// The ticks at which the clocks were read.
        ticks: Ticks,
        /// The reading of the wall clock.
        wall: Wall,
        /// The readings of the system's other clocks at the same moment.
        system: SystemClocks,
    },
    /// Records are missing at this point of the file.
    Lost {
        /// The number of missing records.
        records: u64,
        /// The reason why the records are missing.
        reason: LossReason,
    },
    /// Records are missing at this point of the file, for a reason that only later versions know.
    LostOtherwise {
        /// The number of missing records.
        records: u64,
        /// The name of the reason why the records are missing.
        reason: Name,
    },
    /// The thread made the first record of its run.
    Start {
        /// The time that the program's threads have spent in the start of the run, in nanoseconds: until the decision
        /// whether the process traces, and until the first record had a ring.
        ns: u64,
    },
    /// The thread has waited for the tracer for a time that no `# wait` line reports. In files of versions 1 and 2, the
    /// thread has waited for room in its ring.
    Stall {
        /// The time waited since the last line of this kind, in nanoseconds.
        ns: u64,
    },
    /// The thread has waited because of the tracer; the wait ended at this line.
    Wait(Wait),
    /// The counter of the thread's processor went back. Lines have the ticks of the line before this one until the
    /// counter has passed those ticks again.
    Backward {
        /// The number of ticks by which the counter went back.
        ticks: u64,
    },
    /// Tracing of the process was paused or resumed: calls that were open at the pause may have been left without a
    /// record.
    Switched {
        /// Whether the process records from here on.
        on: bool,
        /// The ticks at the switch; the thread's last record may be much older.
        ticks: Ticks,
    },
    /// The process's effective user id changed: later files of the run belong to the new user.
    Credentials {
        /// The number of the new user.
        uid: u32,
    },
    /// A file is mapped as code.
    Module(Module),
    /// The module at these addresses was unloaded.
    Unloaded {
        /// The addresses of the module.
        range: AddressRange,
        /// The two readings between which the module was unloaded.
        gone: Between,
    },
    /// Modules were loaded and unloaded between two readings of the list of modules, so their addresses are unknown.
    Missed {
        /// The number of modules that were loaded and unloaded.
        modules: u64,
        /// The two readings between which the modules were loaded and unloaded.
        there: Between,
    },
    /// Files of the run were dropped to keep their total size within the limit. The file with this line also reports
    /// the records of the dropped files as lost, with the reason [`DROPPED`].
    Dropped {
        /// The number of files that were dropped.
        files: u64,
    },
    /// The end of the file.
    End(End),
    /// A line that `tracemerge` writes in place of bytes that are not a trace line.
    Damaged {
        /// The name of the file in which the damaged bytes were found.
        file: Vec<u8>,
        /// The position of the damaged bytes in `file`, in bytes.
        offset: u64,
        /// The number of damaged bytes.
        bytes: u64,
        /// The damaged bytes, at most the first 256.
        text: Vec<u8>,
    },
}

impl Meta {
    /// Appends the payload of the metadata line.
    pub fn write(&self, out: &mut Vec<u8>) {
        let start = out.len();
        match self {
            Meta::Run(run) => {
                let mut fields = PayloadWriter::new(out, "run");
                fields.number("version", u64::from(run.version)).bare("id", &format!("{:08x}", run.id));
                fields.bare("root", &format!("{:08x}", run.root)).number("pid", u64::from(run.pid));
                fields.quoted("exe", &run.exe).quoted("boot", &run.boot).number("ticks", run.ticks.0);
                fields.bare("wall", &run.wall.to_string()).bare("clock", run.clock.name());
                if run.version >= FIRST_CHECKED {
                    let check = crc32::of(&out[start..]);
                    out.extend_from_slice(CHECK);
                    out.extend_from_slice(format!("{check:08x}").as_bytes());
                }
            }
            Meta::Thread(thread) => {
                let mut fields = PayloadWriter::new(out, "thread");
                fields.quoted("name", &thread.name).bare("ring", thread.ring.name());
                if !thread.why.is_empty() {
                    fields.quoted("why", &thread.why);
                }
                if let Some(file) = thread.file {
                    fields.number("file", u64::from(file));
                }
            }
            Meta::Name { ticks, name } => {
                PayloadWriter::new(out, "name").number("ticks", ticks.0).quoted("name", name);
            }
            Meta::Clock { ticks, wall, system } => {
                let mut fields = PayloadWriter::new(out, "clock");
                fields.number("ticks", ticks.0).bare("wall", &wall.to_string());
                system.write(&mut fields);
            }
            Meta::Lost { records, reason } => {
                PayloadWriter::new(out, "lost").number("records", *records).bare("reason", reason.name());
            }
            Meta::LostOtherwise { records, reason } => {
                PayloadWriter::new(out, "lost").number("records", *records).bare("reason", reason.as_str());
            }
            Meta::Start { ns } => {
                PayloadWriter::new(out, "start").number("ns", *ns);
            }
            Meta::Stall { ns } => {
                PayloadWriter::new(out, "stall").number("ns", *ns);
            }
            Meta::Wait(wait) => wait.write(out),
            Meta::Backward { ticks } => {
                PayloadWriter::new(out, "backward").number("ticks", *ticks);
            }
            Meta::Switched { on, ticks } => {
                PayloadWriter::new(out, if *on { "on" } else { "off" }).number("ticks", ticks.0);
            }
            Meta::Credentials { uid } => {
                PayloadWriter::new(out, "credentials").number("uid", u64::from(*uid));
            }
            Meta::Module(module) => module.write(out),
            Meta::Unloaded { range, gone } => {
                let mut fields = PayloadWriter::new(out, "unloaded");
                range.write(&mut fields);
                gone.write(&mut fields);
            }
            Meta::Missed { modules, there } => {
                there.write(PayloadWriter::new(out, "missed").number("modules", *modules));
            }
            Meta::Dropped { files } => {
                PayloadWriter::new(out, "dropped").number("files", *files);
            }
            Meta::End(end) => {
                let mut fields = PayloadWriter::new(out, "end");
                fields.number("records", end.records).number("lost", end.lost);
                fields.bare("reason", end.reason.name());
                if let Some(files) = end.files {
                    fields.number("files", files);
                }
                end.cause.write(&mut fields);
                if let Some(seen) = end.seen {
                    fields.number("seen", seen.0);
                }
                end.apart.write(&mut fields);
                end.waited.write(&mut fields);
            }
            Meta::Damaged { file, offset, bytes, text } => {
                let mut fields = PayloadWriter::new(out, "damaged");
                fields.quoted("file", file).number("offset", *offset).number("bytes", *bytes);
                fields.quoted("text", text);
            }
        }
    }

    /// Reads a payload; `None` if its word is unknown, if a required key is missing or malformed, or if the checksum
    /// of a `# run` line is wrong.
    #[must_use]
    pub fn parse(payload: &[u8]) -> Option<Meta> {
        let (word, fields) = split(payload)?;
        Some(match word {
            b"run" => match RunLine::parse(payload)? {
                RunLine::Sound(run) => Meta::Run(run),
                RunLine::Damaged(_) => return None,
            },
            b"thread" => Meta::Thread(Thread {
                name: fields.string("name")?,
                ring: value_of(&RingPlace::NAMES, fields.bare("ring")?)?,
                why: fields.string("why").unwrap_or_default(),
                file: fields.number("file").and_then(|file| file.try_into().ok()),
            }),
            b"name" => Meta::Name { ticks: Ticks(fields.number("ticks")?), name: fields.string("name")? },
            b"clock" => Meta::Clock {
                ticks: Ticks(fields.number("ticks")?),
                wall: Wall::parse(fields.bare("wall")?)?,
                system: SystemClocks::parse(&fields),
            },
            b"lost" => {
                let (records, name) = (fields.number("records")?, fields.bare("reason")?);
                match value_of(&LossReason::NAMES, name) {
                    Some(reason) => Meta::Lost { records, reason },
                    None => Meta::LostOtherwise { records, reason: Name::parse(name)? },
                }
            }
            b"start" => Meta::Start { ns: fields.number("ns")? },
            b"stall" => Meta::Stall { ns: fields.number("ns")? },
            b"wait" => Meta::Wait(Wait::parse(&fields)?),
            b"backward" => Meta::Backward { ticks: fields.number("ticks")? },
            b"on" | b"off" => Meta::Switched { on: word == b"on", ticks: Ticks(fields.number("ticks")?) },
            b"credentials" => Meta::Credentials { uid: fields.number("uid")?.try_into().ok()? },
            b"module" => Meta::Module(Module::of(&fields)?),
            b"unloaded" => Meta::Unloaded { range: AddressRange::of(&fields)?, gone: Between::of(&fields)? },
            b"missed" => Meta::Missed { modules: fields.number("modules")?, there: Between::of(&fields)? },
            b"dropped" => Meta::Dropped { files: fields.number("files")? },
            b"end" => Meta::End(End {
                records: fields.number("records")?,
                lost: fields.number("lost")?,
                reason: EndReason::parse(fields.bare("reason")?)?,
                files: fields.number("files"),
                cause: Cause::parse(&fields),
                seen: fields.number("seen").map(Ticks),
                apart: SeparateCounts::parse(&fields),
                waited: Waited::parse(&fields),
            }),
            b"damaged" => Meta::Damaged {
                file: fields.string("file")?,
                offset: fields.number("offset")?,
                bytes: fields.number("bytes")?,
                text: fields.string("text")?,
            },
            _ => return None,
        })
    }
}

#[cfg(test)]
pub(crate) mod tests;
