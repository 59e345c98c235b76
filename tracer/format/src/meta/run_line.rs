//! The `# run` line and its checksum, and what can still be read in a damaged `# run` line.

use std::fmt;

use crate::crc32;
use crate::line::Ticks;
use crate::meta::payload::{PayloadReader, split};
use crate::meta::reasons::{ClockKind, value_of};
use crate::wall::Wall;

/// The first version that has a checksum in its `# run` lines.
pub const FIRST_CHECKED: u32 = 2;

/// The text of the last key of a `# run` line. After it there are eight hex digits in lower case, and nothing more.
pub(super) const CHECK: &[u8] = b" check=";

pub(super) const CHECK_DIGITS: usize = 8;

/// The content of a `# run` line, and whether it is damaged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunLine {
    /// A line whose checksum is right, or whose version has none.
    Sound(Run),
    /// A line that was changed after it was written, or is malformed.
    Damaged(Claim),
}

/// The content of a damaged `# run` line. No decision may depend on it alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The reason why the line counts as damaged.
    pub why: RunDamage,
    /// The process id, if it can be read.
    pub pid: Option<u32>,
    /// The run's id, if it can be read.
    pub id: Option<u32>,
    /// The executable's path, if it can be read.
    pub exe: Option<Vec<u8>>,
}

/// The kind of damage of a `# run` line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunDamage {
    /// The line has no checksum, although its version has one.
    NoCheck,
    /// The line's checksum does not match its content.
    WrongCheck,
    /// The key of this name is missing or malformed.
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
    /// Reads the payload of a `#` line; `None` if its word is not `run`.
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

/// Checks the checksum of the payload of a `# run` line.
pub(super) fn check(payload: &[u8], fields: &PayloadReader<'_>) -> Result<(), RunDamage> {
    let place = payload.len().saturating_sub(CHECK.len() + CHECK_DIGITS);
    let (said, tail) = payload.split_at(place);
    if let Some(digits) = tail.strip_prefix(CHECK) {
        let right = format!("{:08x}", crc32::of(said));
        return if digits == right.as_bytes() { Ok(()) } else { Err(RunDamage::WrongCheck) };
    }
    // Only a line of an earlier version needs no checksum.
    let version = fields.number("version").ok_or(RunDamage::Unreadable("version"))?;
    let is_earlier = version < u64::from(FIRST_CHECKED) && fields.raw("check").is_none();
    if is_earlier { Ok(()) } else { Err(RunDamage::NoCheck) }
}

/// Reads the content of a `# run` line; fails with the key that is missing or malformed.
pub(super) fn run_of(fields: &PayloadReader<'_>) -> Result<Run, &'static str> {
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
    /// The id of the run at the root of the tree of forked processes; the run's own id if it is not the run of a
    /// forked process.
    pub root: u32,
    /// The process id.
    pub pid: u32,
    /// The executable's path, as bytes.
    pub exe: Vec<u8>,
    /// The id of this boot of the machine: only ticks of the same boot can be compared.
    pub boot: Vec<u8>,
    /// The ticks at the start of the run.
    pub ticks: Ticks,
    /// The wall clock at the moment of `ticks`.
    pub wall: Wall,
    /// The way in which ticks are read.
    pub clock: ClockKind,
}
