//! The `#` lines: `word key=value key="quoted" ...`, typed.
//!
//! Numbers are decimal unless a field says hex; strings stand between double quotes and are escaped as
//! [`crate::escape`] says, with `"` as `\x22`. A reader ignores keys and words that it does not know, so
//! that later versions may add some.

use crate::escape::{Place, escape_into, unescape};
use crate::line::Ticks;
use crate::wall::Wall;

/// How the ticks of a run are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClockKind {
    /// The processor's counter, not before what stands ahead of it in the program.
    Ordered,
    /// The processor's counter as the processor likes; hand-overs may look reversed.
    Fast,
    /// The operating system's monotonic clock, in nanoseconds.
    System,
}

impl ClockKind {
    const NAMES: [(ClockKind, &'static str); 3] =
        [(ClockKind::Ordered, "ordered"), (ClockKind::Fast, "fast"), (ClockKind::System, "system")];

    /// The name in `clock=` and in `TRACER_CLOCK`.
    #[must_use]
    pub fn name(self) -> &'static str {
        name_of(&ClockKind::NAMES, self)
    }
}

/// Where a ring lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RingPlace {
    /// In a shared mapping, which outlives the process.
    Shared,
    /// In the process's own memory: what is in it is gone when the process is killed.
    Private,
}

impl RingPlace {
    const NAMES: [(RingPlace, &'static str); 2] =
        [(RingPlace::Shared, "shared"), (RingPlace::Private, "private")];

    /// The name in `ring=`.
    #[must_use]
    pub fn name(self) -> &'static str {
        name_of(&RingPlace::NAMES, self)
    }
}

/// Why records are not in the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LossReason {
    /// The ring was full.
    Full,
    /// A `Display` panicked or was left by a `longjmp` while it formatted the message.
    Panic,
    /// The small ring for records made inside another record was full.
    Nested,
    /// The message was cut off: its thread or process ended, or room ran out, in its middle.
    Torn,
    /// The records in the ring itself are damaged.
    Damaged,
    /// The file had reached its limit: its older part was dropped.
    Rotated,
    /// The file was deleted, or cut short, by somebody else.
    FileRemoved,
    /// The flight recorder keeps the newest records only.
    Overwritten,
}

impl LossReason {
    /// How many reasons there are.
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

    /// The name in `reason=`.
    #[must_use]
    pub fn name(self) -> &'static str {
        name_of(&LossReason::NAMES, self)
    }
}

/// Why a file ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EndReason {
    /// The process exited.
    Exit,
    /// `shutdown()` was called.
    Shutdown,
    /// The thread ended.
    Thread,
    /// The process was killed; written by recovery.
    Killed,
}

impl EndReason {
    const NAMES: [(EndReason, &'static str); 4] = [
        (EndReason::Exit, "exit"),
        (EndReason::Shutdown, "shutdown"),
        (EndReason::Thread, "thread"),
        (EndReason::Killed, "killed"),
    ];

    /// The name in `reason=`.
    #[must_use]
    pub fn name(self) -> &'static str {
        name_of(&EndReason::NAMES, self)
    }
}

fn name_of<T: PartialEq + Copy>(names: &[(T, &'static str)], value: T) -> &'static str {
    names.iter().find(|(v, _)| *v == value).map_or("", |(_, name)| name)
}

fn value_of<T: Copy>(names: &[(T, &'static str)], name: &[u8]) -> Option<T> {
    names.iter().find(|(_, n)| n.as_bytes() == name).map(|(v, _)| *v)
}

/// `# run ...`: the first line of each file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Version of the text format.
    pub version: u32,
    /// The run's random id, 8 hex digits.
    pub id: u32,
    /// The id of the run at the root of the tree of forked processes; its own where nobody forked.
    pub root: u32,
    /// The process.
    pub pid: u32,
    /// The executable's path, as bytes.
    pub exe: Vec<u8>,
    /// The id of this boot of the machine: ticks compare only within one.
    pub boot: Vec<u8>,
    /// Ticks at the start of the run ...
    pub ticks: Ticks,
    /// ... and the wall clock at the same moment.
    pub wall: Wall,
    /// How ticks are read.
    pub clock: ClockKind,
}

/// `# thread ...`: the second line of each file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// The thread's name as the operating system knows it.
    pub name: Vec<u8>,
    /// Where its ring lives.
    pub ring: RingPlace,
    /// Why the ring is private, where it is.
    pub why: Vec<u8>,
}

/// `# end ...`: the last line of a whole file. More lines after it mean that the program still traced while
/// it exited; then the last `# end` counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// Records of this thread that are in the file.
    pub records: u64,
    /// Records of this thread that are not.
    pub lost: u64,
    /// Why it ends.
    pub reason: EndReason,
}

/// One metadata line's payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Meta {
    /// What run the file is of.
    Run(Run),
    /// What thread the file is of.
    Thread(Thread),
    /// The counter and the wall clock at one moment.
    Clock {
        /// The counter.
        ticks: Ticks,
        /// The wall clock.
        wall: Wall,
    },
    /// Records that are missing here.
    Lost {
        /// How many.
        records: u64,
        /// Why.
        reason: LossReason,
    },
    /// The thread waited for room in its ring.
    Stall {
        /// For how long in all since the last such line, in nanoseconds.
        ns: u64,
    },
    /// The counter of the thread's processor went back; lines keep the ticks of the line before this one until it
    /// has caught up.
    Backward {
        /// By how many ticks.
        ticks: u64,
    },
    /// The end of the file.
    End(End),
    /// Written by `tracemerge` in the place of bytes that are no trace line.
    Damaged {
        /// Where they were found.
        file: Vec<u8>,
        /// At which byte of that file.
        offset: u64,
        /// How many bytes they were.
        bytes: u64,
        /// The first of them.
        text: Vec<u8>,
    },
}

impl Meta {
    /// Appends the payload of the line.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Meta::Run(run) => {
                let mut fields = Fields::new(out, "run");
                fields.number("version", u64::from(run.version)).bare("id", &format!("{:08x}", run.id));
                fields.bare("root", &format!("{:08x}", run.root)).number("pid", u64::from(run.pid));
                fields.quoted("exe", &run.exe).quoted("boot", &run.boot).number("ticks", run.ticks.0);
                fields.bare("wall", &run.wall.to_string()).bare("clock", run.clock.name());
            }
            Meta::Thread(thread) => {
                let mut fields = Fields::new(out, "thread");
                fields.quoted("name", &thread.name).bare("ring", thread.ring.name());
                if !thread.why.is_empty() {
                    fields.quoted("why", &thread.why);
                }
            }
            Meta::Clock { ticks, wall } => {
                Fields::new(out, "clock").number("ticks", ticks.0).bare("wall", &wall.to_string());
            }
            Meta::Lost { records, reason } => {
                Fields::new(out, "lost").number("records", *records).bare("reason", reason.name());
            }
            Meta::Stall { ns } => {
                Fields::new(out, "stall").number("ns", *ns);
            }
            Meta::Backward { ticks } => {
                Fields::new(out, "backward").number("ticks", *ticks);
            }
            Meta::End(end) => {
                let mut fields = Fields::new(out, "end");
                fields.number("records", end.records).number("lost", end.lost);
                fields.bare("reason", end.reason.name());
            }
            Meta::Damaged { file, offset, bytes, text } => {
                let mut fields = Fields::new(out, "damaged");
                fields.quoted("file", file).number("offset", *offset).number("bytes", *bytes);
                fields.quoted("text", text);
            }
        }
    }

    /// Reads a payload; `None` for an unknown word or where a needed key is missing or malformed.
    #[must_use]
    pub fn parse(payload: &[u8]) -> Option<Meta> {
        let (word, fields) = split(payload)?;
        Some(match word {
            b"run" => Meta::Run(Run {
                version: fields.number("version")?.try_into().ok()?,
                id: fields.hex("id")?,
                root: fields.hex("root")?,
                pid: fields.number("pid")?.try_into().ok()?,
                exe: fields.string("exe")?,
                boot: fields.string("boot")?,
                ticks: Ticks(fields.number("ticks")?),
                wall: Wall::parse(fields.bare("wall")?)?,
                clock: value_of(&ClockKind::NAMES, fields.bare("clock")?)?,
            }),
            b"thread" => Meta::Thread(Thread {
                name: fields.string("name")?,
                ring: value_of(&RingPlace::NAMES, fields.bare("ring")?)?,
                why: fields.string("why").unwrap_or_default(),
            }),
            b"clock" => Meta::Clock {
                ticks: Ticks(fields.number("ticks")?),
                wall: Wall::parse(fields.bare("wall")?)?,
            },
            b"lost" => Meta::Lost {
                records: fields.number("records")?,
                reason: value_of(&LossReason::NAMES, fields.bare("reason")?)?,
            },
            b"stall" => Meta::Stall { ns: fields.number("ns")? },
            b"backward" => Meta::Backward { ticks: fields.number("ticks")? },
            b"end" => Meta::End(End {
                records: fields.number("records")?,
                lost: fields.number("lost")?,
                reason: value_of(&EndReason::NAMES, fields.bare("reason")?)?,
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

/// Writes `word key=value ...`.
struct Fields<'a>(&'a mut Vec<u8>);

impl<'a> Fields<'a> {
    fn new(out: &'a mut Vec<u8>, word: &str) -> Fields<'a> {
        out.extend_from_slice(word.as_bytes());
        Fields(out)
    }

    fn bare(&mut self, key: &str, value: &str) -> &mut Self {
        self.0.push(b' ');
        self.0.extend_from_slice(key.as_bytes());
        self.0.push(b'=');
        self.0.extend_from_slice(value.as_bytes());
        self
    }

    fn number(&mut self, key: &str, value: u64) -> &mut Self {
        self.bare(key, &value.to_string())
    }

    fn quoted(&mut self, key: &str, value: &[u8]) -> &mut Self {
        self.bare(key, "\"");
        escape_into(self.0, value, Place::Quoted);
        self.0.push(b'"');
        self
    }
}

/// The `key=value` part of a payload, looked up by key. Payloads are short: a search per key is cheap.
struct Values<'a>(&'a [u8]);

fn split(payload: &[u8]) -> Option<(&[u8], Values<'_>)> {
    let end = payload.iter().position(|&b| b == b' ').unwrap_or(payload.len());
    (end > 0).then(|| (&payload[..end], Values(&payload[end..])))
}

impl<'a> Values<'a> {
    /// The raw value of `key`, quotes included.
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

    fn bare(&self, key: &str) -> Option<&'a [u8]> {
        self.raw(key).filter(|value| value.first() != Some(&b'"'))
    }

    fn text(&self, key: &str) -> Option<&'a str> {
        std::str::from_utf8(self.bare(key)?).ok()
    }

    fn number(&self, key: &str) -> Option<u64> {
        self.text(key)?.parse().ok()
    }

    fn hex(&self, key: &str) -> Option<u32> {
        let text = self.text(key)?;
        (text.len() == 8).then(|| u32::from_str_radix(text, 16).ok())?
    }

    fn string(&self, key: &str) -> Option<Vec<u8>> {
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
        let rings = prop::sample::select(RingPlace::NAMES.map(|(v, _)| v).to_vec());
        prop_oneof![
            any_run().prop_map(Meta::Run),
            (any::<Vec<u8>>(), rings, any::<Vec<u8>>()).prop_map(|(name, ring, why)| Meta::Thread(Thread {
                name,
                ring,
                why
            })),
            any::<(u64, u64)>().prop_map(|(t, w)| Meta::Clock { ticks: Ticks(t), wall: Wall(w) }),
            (any::<u64>(), losses).prop_map(|(records, reason)| Meta::Lost { records, reason }),
            any::<u64>().prop_map(|ns| Meta::Stall { ns }),
            any::<u64>().prop_map(|ticks| Meta::Backward { ticks }),
            (any::<u64>(), any::<u64>(), ends).prop_map(|(records, lost, reason)| Meta::End(End {
                records,
                lost,
                reason
            })),
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
        Meta::Thread(Thread { name, ring: RingPlace::Shared, why: vec![] }).write(&mut out);
        assert_eq!(out, br#"thread name="worker \x223\x22" ring=shared"#);
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
        fn any_bytes_are_parsed_without_panic(bytes: Vec<u8>, word in "(run|thread|clock|lost|end) ") {
            let _ = Meta::parse(&bytes);
            let _ = Meta::parse(&[word.as_bytes(), &bytes].concat());
        }
    }
}
