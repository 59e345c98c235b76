//! The `#` lines: `word key=value key="quoted" ...`, typed.
//!
//! Numbers are decimal unless a field says hex; strings stand between double quotes and are escaped as
//! [`crate::escape`] says, with `"` as `\x22`. A reader ignores keys and words that it does not know, so that
//! later versions may add some. A reason that it does not know is kept by its [`Name`]: a loss is a loss, and
//! an end an end, whatever the reason.
//!
//! The content of a `# run` line decides what is shown, so from version 2 on it ends in a checksum; see
//! [`RunLine`].

use std::fmt;

use crate::crc32;
use crate::escape::{EscapeContext, escape_into, unescape};
use crate::line::Ticks;
use crate::wall::Wall;

/// The way in which the ticks of a run are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClockKind {
    /// The processor's counter, read not before the instructions that stand ahead of it in the program.
    Ordered,
    /// The processor's counter, read when the processor likes; hand-overs may look reversed.
    Fast,
    /// The operating system's monotonic clock, in nanoseconds.
    System,
}

impl ClockKind {
    const NAMES: [(ClockKind, &'static str); 3] =
        [(ClockKind::Ordered, "ordered"), (ClockKind::Fast, "fast"), (ClockKind::System, "system")];

    /// Returns the name in `clock=` and in `TRACER_CLOCK`.
    #[must_use]
    pub fn name(self) -> &'static str {
        name_of(&ClockKind::NAMES, self)
    }
}

/// The place where a ring lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RingPlace {
    /// A shared mapping, which outlives the process.
    Shared,
    /// The process's own memory: the records in it are gone when the process is killed.
    Private,
}

impl RingPlace {
    const NAMES: [(RingPlace, &'static str); 2] =
        [(RingPlace::Shared, "shared"), (RingPlace::Private, "private")];

    /// Returns the name in `ring=`.
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
    /// The file was deleted, or truncated, by somebody else.
    FileRemoved,
    /// The flight recorder, which keeps the newest records only, overwrote them.
    Overwritten,
}

impl LossReason {
    /// The number of reasons.
    pub const COUNT: usize = 8;

    /// All reasons, in their order.
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

    const NAMES: [(LossReason, &'static str); LossReason::COUNT] = [
        (LossReason::Full, "full"),
        (LossReason::Panic, "panic"),
        (LossReason::Nested, "nested"),
        (LossReason::Torn, "torn"),
        (LossReason::Damaged, "damaged"),
        (LossReason::Rotated, "rotated"),
        (LossReason::FileRemoved, "file_removed"),
        (LossReason::Overwritten, "overwritten"),
    ];

    /// Returns the name in `reason=`.
    #[must_use]
    pub fn name(self) -> &'static str {
        name_of(&LossReason::NAMES, self)
    }
}

/// The name of a reason that only later versions know: as it is written, but for a part beyond
/// [`LONGEST`](Name::LONGEST) bytes, which is left out.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name {
    bytes: [u8; Name::LONGEST],
    length: u8,
}

impl Name {
    /// The greatest length of a kept name in bytes.
    pub const LONGEST: usize = 31;

    /// Returns the name that `text` is; `None` where that is not a word of visible ASCII characters.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Name> {
        if text.is_empty() || !text.iter().all(u8::is_ascii_graphic) || text.first() == Some(&b'"') {
            return None;
        }
        let kept = &text[..text.len().min(Name::LONGEST)];
        let mut bytes = [0; Name::LONGEST];
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
    /// The process was killed; the line was written by recovery.
    Killed,
    /// The file may not become longer: the thread goes on in its next one.
    Full,
    /// A reason that only later versions know.
    Other(Name),
}

impl EndReason {
    const NAMES: [(EndReason, &'static str); 5] = [
        (EndReason::Exit, "exit"),
        (EndReason::Shutdown, "shutdown"),
        (EndReason::Thread, "thread"),
        (EndReason::Killed, "killed"),
        (EndReason::Full, "full"),
    ];

    /// Returns the name in `reason=`.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            EndReason::Other(name) => name.as_str(),
            known => name_of(&EndReason::NAMES, *known),
        }
    }

    fn parse(name: &[u8]) -> Option<EndReason> {
        value_of(&EndReason::NAMES, name).or_else(|| Name::parse(name).map(EndReason::Other))
    }
}

fn name_of<T: PartialEq + Copy>(names: &[(T, &'static str)], value: T) -> &'static str {
    names.iter().find(|(v, _)| *v == value).map_or("", |(_, name)| name)
}

fn value_of<T: Copy>(names: &[(T, &'static str)], name: &[u8]) -> Option<T> {
    names.iter().find(|(_, n)| n.as_bytes() == name).map(|(v, _)| *v)
}

/// The first version that has a checksum in its `# run` lines.
pub const FIRST_CHECKED: u32 = 2;

/// The last key of a `# run` line; eight hex digits in lower case follow, and nothing more.
const CHECK: &[u8] = b" check=";
const CHECK_DIGITS: usize = 8;

/// The content of a `# run` line, and whether it can be believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunLine {
    /// A line whose checksum is right, or whose version has none.
    Sound(Run),
    /// A line that is not as it was written.
    Damaged(Claim),
}

/// The content of a damaged `# run` line: nothing may be decided by it alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The damage that was found.
    pub why: RunDamage,
    /// The process id, if it can be read.
    pub pid: Option<u32>,
    /// The run's id, if it can be read.
    pub id: Option<u32>,
    /// The executable's path, if it can be read.
    pub exe: Option<Vec<u8>>,
}

/// The damage of a `# run` line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunDamage {
    /// The line has no checksum, and its version has one.
    NoCheck,
    /// The line's checksum is that of another line.
    WrongCheck,
    /// The key of this name is missing, or has an impossible value.
    Unreadable(&'static str),
}

impl fmt::Display for RunDamage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunDamage::NoCheck => f.write_str("it does not end in a checksum"),
            RunDamage::WrongCheck => f.write_str("its checksum is wrong"),
            RunDamage::Unreadable(key) => write!(f, "its {key}= cannot be read"),
        }
    }
}

impl RunLine {
    /// Reads the payload of a `#` line; `None` where its word is not `run`.
    #[must_use]
    pub fn parse(payload: &[u8]) -> Option<RunLine> {
        let (word, fields) = split(payload)?;
        if word != b"run" {
            return None;
        }
        let read = check(payload, &fields).and_then(|()| run_of(&fields).map_err(RunDamage::Unreadable));
        Some(match read {
            Ok(run) => RunLine::Sound(run),
            Err(why) => RunLine::Damaged(Claim {
                why,
                pid: fields.number("pid").and_then(|pid| pid.try_into().ok()),
                id: fields.hex("id"),
                exe: fields.string("exe"),
            }),
        })
    }
}

/// Checks whether the payload of a `# run` line is as it was written, as far as its checksum tells.
fn check(payload: &[u8], fields: &PayloadReader<'_>) -> Result<(), RunDamage> {
    let place = payload.len().saturating_sub(CHECK.len() + CHECK_DIGITS);
    let (said, tail) = payload.split_at(place);
    if let Some(digits) = tail.strip_prefix(CHECK) {
        let right = format!("{:08x}", crc32::of(said));
        return if digits == right.as_bytes() { Ok(()) } else { Err(RunDamage::WrongCheck) };
    }
    // Only a line that can be of an earlier version needs no checksum.
    let version = fields.number("version").ok_or(RunDamage::Unreadable("version"))?;
    let is_earlier = version < u64::from(FIRST_CHECKED) && fields.raw("check").is_none();
    if is_earlier { Ok(()) } else { Err(RunDamage::NoCheck) }
}

/// Reads the content of a `# run` line; fails with the key that is missing or malformed.
fn run_of(fields: &PayloadReader<'_>) -> Result<Run, &'static str> {
    let short = |key| fields.number(key).and_then(|number| u32::try_from(number).ok()).ok_or(key);
    let hex = |key| fields.hex(key).ok_or(key);
    let string = |key| fields.string(key).ok_or(key);
    Ok(Run {
        version: short("version")?,
        id: hex("id")?,
        root: hex("root")?,
        pid: short("pid")?,
        exe: string("exe")?,
        boot: string("boot")?,
        ticks: Ticks(fields.number("ticks").ok_or("ticks")?),
        wall: fields.bare("wall").and_then(Wall::parse).ok_or("wall")?,
        clock: fields.bare("clock").and_then(|name| value_of(&ClockKind::NAMES, name)).ok_or("clock")?,
    })
}

/// The content of a `# run` line, the first line of each file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// The version of the text format.
    pub version: u32,
    /// The run's random id, 8 hex digits.
    pub id: u32,
    /// The id of the run at the root of the tree of forked processes; the run's own id where no process
    /// forked.
    pub root: u32,
    /// The process id.
    pub pid: u32,
    /// The executable's path, as bytes.
    pub exe: Vec<u8>,
    /// The id of this boot of the machine: ticks compare only within one.
    pub boot: Vec<u8>,
    /// The ticks at the start of the run.
    pub ticks: Ticks,
    /// The wall clock at the moment of `ticks`.
    pub wall: Wall,
    /// The way in which ticks are read.
    pub clock: ClockKind,
}

/// The content of a `# thread` line, the second line of each file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// The thread's name as the operating system knows it.
    pub name: Vec<u8>,
    /// The place where the thread's ring lives.
    pub ring: RingPlace,
    /// The reason why the ring is private; empty where it is not.
    pub why: Vec<u8>,
    /// The number of this file among the run's files, from 1, in the order in which they were made; `None`
    /// where the line does not give it.
    pub file: Option<u32>,
}

/// The content of an `# end` line, the last line of a whole file. More lines after it mean that the program
/// still traced while it exited; then the last `# end` counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// The number of this thread's records that are in the file.
    pub records: u64,
    /// The number of this thread's records that are lost.
    pub lost: u64,
    /// The reason why the file ends.
    pub reason: EndReason,
    /// The number of files that the run had made by then; where the run has ended, of all its files. `None`
    /// where the files were not counted.
    pub files: Option<u64>,
}

/// The payload of one metadata line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Meta {
    /// The run that the file belongs to.
    Run(Run),
    /// The thread that the file belongs to.
    Thread(Thread),
    /// The counter and the wall clock at one moment.
    Clock {
        /// The ticks at that moment.
        ticks: Ticks,
        /// The wall clock at that moment.
        wall: Wall,
    },
    /// Records that are missing here.
    Lost {
        /// The number of missing records.
        records: u64,
        /// The reason why they are missing.
        reason: LossReason,
    },
    /// Records that are missing here, for a reason that only later versions know.
    LostOtherwise {
        /// The number of missing records.
        records: u64,
        /// The name of the reason.
        reason: Name,
    },
    /// The thread waited for room in its ring.
    Stall {
        /// The time waited since the last such line, in nanoseconds.
        ns: u64,
    },
    /// The counter of the thread's processor went back; lines keep the ticks of the line before this one
    /// until it has caught up.
    Backward {
        /// The number of ticks by which the counter went back.
        ticks: u64,
    },
    /// The process's effective user id changed to this: later files of the run belong to that user.
    Credentials {
        /// The user's number.
        uid: u32,
    },
    /// The end of the file.
    End(End),
    /// A line that `tracemerge` writes in the place of bytes that are no trace line.
    Damaged {
        /// The name of the file in which the bytes were found.
        file: Vec<u8>,
        /// The position of the bytes in that file, in bytes.
        offset: u64,
        /// The number of the bytes.
        bytes: u64,
        /// The first of the bytes.
        text: Vec<u8>,
    },
}

impl Meta {
    /// Appends the payload of the line.
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
            Meta::Clock { ticks, wall } => {
                PayloadWriter::new(out, "clock").number("ticks", ticks.0).bare("wall", &wall.to_string());
            }
            Meta::Lost { records, reason } => {
                PayloadWriter::new(out, "lost").number("records", *records).bare("reason", reason.name());
            }
            Meta::LostOtherwise { records, reason } => {
                PayloadWriter::new(out, "lost").number("records", *records).bare("reason", reason.as_str());
            }
            Meta::Stall { ns } => {
                PayloadWriter::new(out, "stall").number("ns", *ns);
            }
            Meta::Backward { ticks } => {
                PayloadWriter::new(out, "backward").number("ticks", *ticks);
            }
            Meta::Credentials { uid } => {
                PayloadWriter::new(out, "credentials").number("uid", u64::from(*uid));
            }
            Meta::End(end) => {
                let mut fields = PayloadWriter::new(out, "end");
                fields.number("records", end.records).number("lost", end.lost);
                fields.bare("reason", end.reason.name());
                if let Some(files) = end.files {
                    fields.number("files", files);
                }
            }
            Meta::Damaged { file, offset, bytes, text } => {
                let mut fields = PayloadWriter::new(out, "damaged");
                fields.quoted("file", file).number("offset", *offset).number("bytes", *bytes);
                fields.quoted("text", text);
            }
        }
    }

    /// Reads a payload; `None` for an unknown word, where a needed key is missing or malformed, and for a
    /// `# run` line whose checksum is not right.
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
            b"clock" => Meta::Clock {
                ticks: Ticks(fields.number("ticks")?),
                wall: Wall::parse(fields.bare("wall")?)?,
            },
            b"lost" => {
                let (records, name) = (fields.number("records")?, fields.bare("reason")?);
                match value_of(&LossReason::NAMES, name) {
                    Some(reason) => Meta::Lost { records, reason },
                    None => Meta::LostOtherwise { records, reason: Name::parse(name)? },
                }
            }
            b"stall" => Meta::Stall { ns: fields.number("ns")? },
            b"backward" => Meta::Backward { ticks: fields.number("ticks")? },
            b"credentials" => Meta::Credentials { uid: fields.number("uid")?.try_into().ok()? },
            b"end" => Meta::End(End {
                records: fields.number("records")?,
                lost: fields.number("lost")?,
                reason: EndReason::parse(fields.bare("reason")?)?,
                files: fields.number("files"),
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

/// A writer of `word key=value ...`.
pub(crate) struct PayloadWriter<'a>(&'a mut Vec<u8>);

impl<'a> PayloadWriter<'a> {
    pub(crate) fn new(out: &'a mut Vec<u8>, word: &str) -> PayloadWriter<'a> {
        out.extend_from_slice(word.as_bytes());
        PayloadWriter(out)
    }

    pub(crate) fn bare(&mut self, key: &str, value: &str) -> &mut Self {
        self.0.push(b' ');
        self.0.extend_from_slice(key.as_bytes());
        self.0.push(b'=');
        self.0.extend_from_slice(value.as_bytes());
        self
    }

    pub(crate) fn number(&mut self, key: &str, value: u64) -> &mut Self {
        self.bare(key, &value.to_string())
    }

    pub(crate) fn quoted(&mut self, key: &str, value: &[u8]) -> &mut Self {
        self.bare(key, "\"");
        escape_into(self.0, value, EscapeContext::Quoted);
        self.0.push(b'"');
        self
    }
}

/// The `key=value` part of a payload, in which values are looked up by key. Payloads are short: a search per
/// key is cheap.
pub(crate) struct PayloadReader<'a>(&'a [u8]);

/// Splits a payload into its word and the text after it.
pub(crate) fn split(payload: &[u8]) -> Option<(&[u8], PayloadReader<'_>)> {
    let end = payload.iter().position(|&b| b == b' ').unwrap_or(payload.len());
    (end > 0).then(|| (&payload[..end], PayloadReader(&payload[end..])))
}

impl<'a> PayloadReader<'a> {
    /// Returns the raw value of `key`, quotes included.
    fn raw(&self, key: &str) -> Option<&'a [u8]> {
        let mut rest = self.0;
        while let [b' ', after @ ..] = rest {
            let equals = after.iter().position(|&b| b == b'=')?;
            let (name, value) = (&after[..equals], &after[equals + 1..]);
            let len = match value {
                [b'"', text @ ..] => text.iter().position(|&b| b == b'"')? + 2,
                _ => value.iter().position(|&b| b == b' ').unwrap_or(value.len()),
            };
            if name == key.as_bytes() {
                return Some(&value[..len]);
            }
            rest = &value[len..];
        }
        None
    }

    pub(crate) fn bare(&self, key: &str) -> Option<&'a [u8]> {
        self.raw(key).filter(|value| value.first() != Some(&b'"'))
    }

    fn text(&self, key: &str) -> Option<&'a str> {
        std::str::from_utf8(self.bare(key)?).ok()
    }

    pub(crate) fn number(&self, key: &str) -> Option<u64> {
        self.text(key)?.parse().ok()
    }

    pub(crate) fn hex(&self, key: &str) -> Option<u32> {
        let text = self.text(key)?;
        (text.len() == 8).then(|| u32::from_str_radix(text, 16).ok())?
    }

    pub(crate) fn string(&self, key: &str) -> Option<Vec<u8>> {
        match self.raw(key)? {
            [b'"', text @ .., b'"'] => Some(unescape(text)),
            _ => None,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    pub(crate) fn any_run() -> impl Strategy<Value = Run> {
        let ids = (any::<u32>(), any::<u32>(), any::<u32>(), any::<u32>());
        let texts = (any::<Vec<u8>>(), any::<String>());
        let clock = prop::sample::select(vec![ClockKind::Ordered, ClockKind::Fast, ClockKind::System]);
        (ids, texts, any::<u64>(), any::<u64>(), clock).prop_map(
            |((version, id, root, pid), (exe, boot), ticks, wall, clock)| Run {
                version,
                id,
                root,
                pid,
                exe,
                boot: boot.into_bytes(),
                ticks: Ticks(ticks),
                wall: Wall(wall),
                clock,
            },
        )
    }

    fn any_meta() -> impl Strategy<Value = Meta> {
        let losses = prop::sample::select(LossReason::NAMES.map(|(v, _)| v).to_vec());
        let ends = prop::sample::select(EndReason::NAMES.map(|(v, _)| v).to_vec());
        let name = || "[!#-~]{1,31}".prop_map(|name| Name::parse(name.as_bytes()).unwrap());
        let unknown = |name: &Name| !LossReason::NAMES.iter().any(|(_, known)| *known == name.as_str());
        let ends =
            prop_oneof![ends, name().prop_map(|name| EndReason::parse(name.as_str().as_bytes()).unwrap())];
        let rings = prop::sample::select(RingPlace::NAMES.map(|(v, _)| v).to_vec());
        prop_oneof![
            any_run().prop_map(Meta::Run),
            (any::<Vec<u8>>(), rings, any::<Vec<u8>>(), any::<Option<u32>>())
                .prop_map(|(name, ring, why, file)| Meta::Thread(Thread { name, ring, why, file })),
            any::<u32>().prop_map(|uid| Meta::Credentials { uid }),
            any::<(u64, u64)>().prop_map(|(t, w)| Meta::Clock { ticks: Ticks(t), wall: Wall(w) }),
            (any::<u64>(), losses).prop_map(|(records, reason)| Meta::Lost { records, reason }),
            (any::<u64>(), name().prop_filter("a known one", unknown))
                .prop_map(|(records, reason)| Meta::LostOtherwise { records, reason }),
            any::<u64>().prop_map(|ns| Meta::Stall { ns }),
            any::<u64>().prop_map(|ticks| Meta::Backward { ticks }),
            (any::<u64>(), any::<u64>(), ends, any::<Option<u64>>())
                .prop_map(|(records, lost, reason, files)| Meta::End(End { records, lost, reason, files })),
            any::<(Vec<u8>, u64, u64, Vec<u8>)>().prop_map(|(file, offset, bytes, text)| Meta::Damaged {
                file,
                offset,
                bytes,
                text
            }),
        ]
    }

    #[test]
    fn the_lines_of_the_documentation_are_written_so() {
        let mut out = Vec::new();
        Meta::Lost { records: 12, reason: LossReason::Full }.write(&mut out);
        assert_eq!(out, b"lost records=12 reason=full");
        out.clear();
        let name = br#"worker "3""#.to_vec();
        Meta::Thread(Thread { name, ring: RingPlace::Shared, why: vec![], file: None }).write(&mut out);
        assert_eq!(out, br#"thread name="worker \x223\x22" ring=shared"#);
    }

    fn written(meta: &Meta) -> Vec<u8> {
        let mut out = Vec::new();
        meta.write(&mut out);
        out
    }

    fn some_run(version: u32) -> Run {
        Run {
            version,
            id: 0x9f0c_23d1,
            root: 0x9f0c_23d1,
            pid: 800,
            exe: b"/srv/app".to_vec(),
            boot: b"6c1e".to_vec(),
            ticks: Ticks(1_275_565_779_000),
            wall: Wall(1_795_187_462_000_000_000),
            clock: ClockKind::Ordered,
        }
    }

    #[test]
    fn a_run_line_has_a_checksum_from_version_2_on() {
        let said = |version| {
            format!(
                "run version={version} id=9f0c23d1 root=9f0c23d1 pid=800 exe=\"/srv/app\" boot=\"6c1e\" \
                 ticks=1275565779000 wall=2026-11-20T15:11:02.000000000Z clock=ordered"
            )
        };
        assert_eq!(written(&Meta::Run(some_run(1))), said(1).as_bytes());
        // The checksum was computed by Python's zlib.
        assert_eq!(written(&Meta::Run(some_run(2))), format!("{} check=93262037", said(2)).as_bytes());
        for payload in [said(2), said(9), format!("{} check=93262037", said(1)), said(1) + " check=1"] {
            let Some(RunLine::Damaged(claim)) = RunLine::parse(payload.as_bytes()) else {
                panic!("{payload}")
            };
            assert_eq!((claim.pid, claim.id), (Some(800), Some(0x9f0c_23d1)), "{payload}");
            assert_eq!(Meta::parse(payload.as_bytes()), None, "{payload}");
        }
        assert_eq!(RunLine::parse(b"stall ns=5"), None);
        let why = |payload: &[u8]| match RunLine::parse(payload) {
            Some(RunLine::Damaged(claim)) => claim.why,
            other => panic!("{other:?}"),
        };
        assert_eq!(why(b"run version=1 id=9f0c23d1"), RunDamage::Unreadable("root"));
        assert_eq!(why(b"run version=one"), RunDamage::Unreadable("version"));
        assert_eq!(why(said(2).as_bytes()), RunDamage::NoCheck);
    }

    #[test]
    fn no_run_line_is_read_of_which_one_bit_is_another() {
        let payload = written(&Meta::Run(some_run(2)));
        for (at, bit) in (0..payload.len()).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
            let mut changed = payload.clone();
            changed[at] ^= 1 << bit;
            assert_eq!(Meta::parse(&changed), None, "{}", String::from_utf8_lossy(&changed));
        }
    }

    #[test]
    fn a_loss_is_a_loss_and_an_end_an_end_whatever_the_reason() {
        let reason = Name::parse(b"of_a_later_version").unwrap();
        let lost = Meta::parse(b"lost records=12 reason=of_a_later_version at=5");
        assert_eq!(lost, Some(Meta::LostOtherwise { records: 12, reason }));
        let end = Meta::parse(b"end records=3 lost=12 reason=of_a_later_version");
        assert_eq!(
            end,
            Some(Meta::End(End { records: 3, lost: 12, reason: EndReason::Other(reason), files: None }))
        );
        let long = [b"lost records=1 reason=", &[b'x'; 100][..]].concat();
        let Some(Meta::LostOtherwise { records: 1, reason }) = Meta::parse(&long) else { panic!("a loss") };
        assert_eq!(reason.as_str(), "x".repeat(Name::LONGEST));
        for no_word in ["", "\"x\"", "\u{e9}", "\u{1b}[31m"] {
            assert_eq!(Meta::parse(format!("lost records=1 reason={no_word}").as_bytes()), None, "{no_word}");
        }
    }

    #[test]
    fn unknown_keys_are_skipped_and_missing_ones_are_an_error() {
        assert_eq!(Meta::parse(b"stall later=\"a b=c\" ns=5 x=y"), Some(Meta::Stall { ns: 5 }));
        for text in [
            "",
            "stall",
            "stall ns=",
            "stall ns=\"5\"",
            "stall ns=-1",
            "stall  ns=5",
            "unknown a=1",
            "stall ns=99999999999999999999",
            "clock ticks=1 wall=yesterday",
            "thread name=\"open ring=shared",
        ] {
            assert_eq!(Meta::parse(text.as_bytes()), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn metadata_parses_back(meta in any_meta()) {
            let mut out = Vec::new();
            meta.write(&mut out);
            prop_assert!(!out.contains(&b'\n'));
            prop_assert_eq!(Meta::parse(&out), Some(meta));
        }

        #[test]
        fn no_run_line_is_read_of_which_a_few_bits_are_others(
            run in any_run(), changes in prop::collection::vec((any::<prop::sample::Index>(), 0..8u8), 1..4)
        ) {
            let run = Run { version: run.version.max(FIRST_CHECKED), ..run };
            let payload = written(&Meta::Run(run));
            let mut changed = payload.clone();
            for (at, bit) in &changes {
                changed[at.index(payload.len())] ^= 1 << bit;
            }
            // Two changes may be of one bit; with three it may become a line of version 1 that has no
            // checksum.
            if changed != payload && !changed.windows(9).any(|part| part.starts_with(b"version=") && part[8] < b'2') {
                prop_assert_eq!(Meta::parse(&changed), None);
            }
        }

        #[test]
        fn any_bytes_are_parsed_without_panic(bytes: Vec<u8>, word in "(run|thread|clock|lost|end) ") {
            let _ = Meta::parse(&bytes);
            let _ = Meta::parse(&[word.as_bytes(), &bytes].concat());
        }
    }
}
