//! Lock records: the events of locks and conditions on which threads wait. A lock record has a kind of its own, and its
//! text is that of a `!` line, so that no message can be mistaken for one.
//!
//! In files and rings of versions 1 and 2 these events were messages of the same form. There, if a message of a program
//! begins like a lock message and its site is not one of the tracer's locks, the first letter is written as an escape,
//! `\x6cock wait id=3`. The text stays the same, because a reader replaces escapes, but [`may_be_lock_record`] sees the
//! difference. Version 3 still writes this escape, so that a message looks the same in every version.

use std::fmt;

use crate::sites::Site;

/// An event of a lock, a condition or a futex. `P` is the type of places in the source, `FILE:LINE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockRecord<'a, P = &'a str> {
    /// The thread begins to wait for a lock.
    Wait(LockWait<'a, P>),
    /// The thread has got the lock that it waited for.
    Got {
        /// The number of the lock in its process.
        id: u64,
        /// The time waited, in nanoseconds.
        ns: u64,
    },
    /// The thread no longer waits for the lock, and has not got it.
    GaveUp {
        /// The number of the lock in its process.
        id: u64,
        /// The time waited, in nanoseconds.
        ns: u64,
    },
    /// The thread releases a lock and waits for a notification of a condition.
    ConditionWait {
        /// The number of the condition.
        id: u64,
        /// The number of the lock that the thread releases.
        lock: u64,
        /// The place in the source where the condition was made.
        made: P,
        /// The place in the source of the call that waits.
        at: P,
    },
    /// The thread that waited for a condition has its lock again.
    Woken {
        /// The number of the condition.
        id: u64,
        /// The number of the notification that has woken the thread; 0 if none has.
        by: u64,
        /// The time waited, in nanoseconds.
        ns: u64,
    },
    /// The thread that waited for a condition has its lock again, and its wait has timed out.
    Timeout {
        /// The number of the condition.
        id: u64,
        /// The number of a notification that the thread has used up although its wait timed out; 0 if there is none.
        by: u64,
        /// The time waited, in nanoseconds.
        ns: u64,
    },
    /// The thread notifies `wakes` threads that wait for a condition. The notifications are numbered, one for each
    /// thread; the first of them has the number `first`.
    Notify {
        /// The number of the condition.
        id: u64,
        /// Whether all waiting threads are notified.
        all: bool,
        /// The number of the first notification.
        first: u64,
        /// The number of threads that are notified.
        wakes: u64,
        /// The place in the source where the condition was made.
        made: P,
        /// The place in the source of the call that notifies.
        at: P,
    },
    /// The thread asks the system to let it sleep while the word at `address` does not change.
    FutexWait {
        /// The address of the futex, a word in memory.
        address: u64,
    },
    /// The thread that slept continues; `result` is the system's return value, 0 if another thread has woken it.
    FutexWoken {
        /// The address of the futex, a word in memory.
        address: u64,
        /// The time waited, in nanoseconds.
        ns: u64,
        /// The return value of the system call; 0 if another thread has woken this one.
        result: i64,
    },
    /// The thread wakes at most `most` of the threads that sleep at `address`.
    FutexWake {
        /// The address of the futex, a word in memory.
        address: u64,
        /// The greatest number of threads to wake.
        most: u64,
    },
}

/// The beginning of a thread's wait for a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockWait<'a, P = &'a str> {
    /// The number of the lock in its process.
    pub id: u64,
    /// The wanted access: `lock`, `read`, `write` or `upgradable`.
    pub wanted_access: &'a str,
    /// The place in the source where the lock was made; `?:0` if that is not known.
    pub made: P,
    /// The place in the source of the call that waits.
    pub at: P,
    /// The id of the thread that has the lock; 0 if it is not known.
    pub holder: u64,
    /// The place in the source of the call with which the holder got the lock; `?:0` if that is not known.
    pub since: P,
}

impl<'a> LockRecord<'a> {
    /// Reads the text of a lock record; `None` if the text has another form.
    #[must_use]
    pub fn parse(text: &'a str) -> Option<LockRecord<'a>> {
        let (subject, rest) = text.split_once(' ')?;
        let (verb, rest) = rest.split_once(' ')?;
        let mut fields = Fields(rest);
        if subject == "futex" {
            return LockRecord::parse_futex(verb, fields);
        }
        let id = fields.number("id")?;
        let record = match (subject, verb) {
            ("lock", "wait") => LockRecord::Wait(LockWait {
                id,
                wanted_access: fields.word("for")?,
                made: fields.quoted("made")?,
                at: fields.quoted("at")?,
                holder: fields.number("holder")?,
                since: fields.quoted("since")?,
            }),
            ("lock", "got") => LockRecord::Got { id, ns: fields.number("ns")? },
            ("lock", "gave_up") => LockRecord::GaveUp { id, ns: fields.number("ns")? },
            ("condvar", "wait") => LockRecord::ConditionWait {
                id,
                lock: fields.number("lock")?,
                made: fields.quoted("made")?,
                at: fields.quoted("at")?,
            },
            ("condvar", "woken") => {
                LockRecord::Woken { id, by: fields.number("by")?, ns: fields.number("ns")? }
            }
            ("condvar", "timeout") => {
                LockRecord::Timeout { id, by: fields.number("by")?, ns: fields.number("ns")? }
            }
            ("condvar", "notify") => {
                let to = fields.word("to")?;
                LockRecord::Notify {
                    id,
                    all: to == "all",
                    first: fields.number("first")?,
                    wakes: fields.number("wakes")?,
                    made: fields.quoted("made")?,
                    at: fields.quoted("at")?,
                }
            }
            _ => return None,
        };
        fields.0.is_empty().then_some(record)
    }

    fn parse_futex(verb: &str, mut fields: Fields<'a>) -> Option<LockRecord<'a>> {
        let address = u64::from_str_radix(fields.word("address")?.strip_prefix("0x")?, 16).ok()?;
        let record = match verb {
            "wait" => LockRecord::FutexWait { address },
            "woken" => {
                let (ns, result) = (fields.number("ns")?, fields.word("result")?.parse().ok()?);
                LockRecord::FutexWoken { address, ns, result }
            }
            "wake" => LockRecord::FutexWake { address, most: fields.number("most")? },
            _ => return None,
        };
        fields.0.is_empty().then_some(record)
    }

    /// Returns `first` and `wakes` of a notification as the tracer's own counters hold them: the number has 32 bits,
    /// and begins at 0 again after the greatest one; the count is at most 65,535.
    #[must_use]
    pub fn numbers(first: u64, wakes: u64) -> (u32, u32) {
        #[expect(clippy::cast_possible_truncation, reason = "the numbers have 32 bits")]
        (first as u32, wakes.min(0xffff) as u32)
    }
}

/// The part of a lock record's text that was not read yet: fields `key=word` or `key="text"`, separated by spaces.
struct Fields<'a>(&'a str);

impl<'a> Fields<'a> {
    /// Advances past `key` and the `=` after it; returns `None` if the text does not begin with them.
    fn key(&mut self, key: &str) -> Option<()> {
        self.0 = self.0.strip_prefix(key)?.strip_prefix('=')?;
        Some(())
    }

    fn word(&mut self, key: &str) -> Option<&'a str> {
        self.key(key)?;
        let (word, rest) = self.0.split_once(' ').unwrap_or((self.0, ""));
        self.0 = rest;
        Some(word)
    }

    fn number(&mut self, key: &str) -> Option<u64> {
        self.word(key)?.parse().ok()
    }

    /// Reads `key="text"`, and returns the text. The text ends at the first quotation mark that has a space after it,
    /// or at the last character: so a path may contain quotation marks.
    fn quoted(&mut self, key: &str) -> Option<&'a str> {
        self.key(key)?;
        let text = self.0.strip_prefix('"')?;
        let (text, rest) = text.split_once("\" ").or_else(|| Some((text.strip_suffix('"')?, "")))?;
        self.0 = rest;
        Some(text)
    }
}

impl<P: fmt::Display> fmt::Display for LockRecord<'_, P> {
    /// Writes the text that [`LockRecord::parse`] reads.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LockRecord::Wait(LockWait { id, wanted_access, made, at, holder, since }) => write!(
                f,
                "lock wait id={id} for={wanted_access} made=\"{made}\" at=\"{at}\" holder={holder} since=\"{since}\""
            ),
            LockRecord::Got { id, ns } => write!(f, "lock got id={id} ns={ns}"),
            LockRecord::GaveUp { id, ns } => write!(f, "lock gave_up id={id} ns={ns}"),
            LockRecord::ConditionWait { id, lock, made, at } => {
                write!(f, "condvar wait id={id} lock={lock} made=\"{made}\" at=\"{at}\"")
            }
            LockRecord::Woken { id, by, ns } => write!(f, "condvar woken id={id} by={by} ns={ns}"),
            LockRecord::Timeout { id, by, ns } => write!(f, "condvar timeout id={id} by={by} ns={ns}"),
            LockRecord::Notify { id, all, first, wakes, made, at } => {
                let to = if *all { "all" } else { "one" };
                write!(
                    f,
                    "condvar notify id={id} to={to} first={first} wakes={wakes} made=\"{made}\" at=\"{at}\""
                )
            }
            LockRecord::FutexWait { address } => write!(f, "futex wait address={address:#x}"),
            LockRecord::FutexWoken { address, ns, result } => {
                write!(f, "futex woken address={address:#x} ns={ns} result={result}")
            }
            LockRecord::FutexWake { address, most } => {
                write!(f, "futex wake address={address:#x} most={most}")
            }
        }
    }
}

/// The beginnings of all lock messages, up to the first value.
const BEGINNINGS: [&[u8]; 10] = [
    b"lock wait id=",
    b"lock got id=",
    b"lock gave_up id=",
    b"condvar wait id=",
    b"condvar woken id=",
    b"condvar timeout id=",
    b"condvar notify id=",
    b"futex wait address=",
    b"futex woken address=",
    b"futex wake address=",
];

/// The modules of the tracer whose sites make lock records.
const MODULES: [&str; 2] = ["tracer::sync::records", "tracer_capi::futex"];

/// Returns whether `payload`, the payload of the first line of a message, has the form of a lock message. The payload
/// of any other message never has this form, because the writer escapes its first letter.
#[must_use]
pub fn may_be_lock_record(payload: &[u8]) -> bool {
    begins_like_lock_record(payload, false)
}

/// Returns whether a text begins like a lock message. `more` says whether further text will follow `text`: then the
/// result is true also if `text` ends inside the beginning of a lock message.
#[inline]
pub(crate) fn begins_like_lock_record(text: &[u8], more: bool) -> bool {
    matches!(text.first(), Some(b'l' | b'c' | b'f')) && has_beginning(text, more)
}

#[cold]
fn has_beginning(text: &[u8], more: bool) -> bool {
    BEGINNINGS.iter().any(|beginning| text.starts_with(beginning) || (more && beginning.starts_with(text)))
}

/// Returns whether the messages of a site may begin like lock messages. `literal` is the text before the first value of
/// the message, or the whole text if the message has no values.
pub(crate) fn can_begin_like_lock_record(literal: &[u8], has_values: bool) -> bool {
    (has_values && literal.is_empty()) || begins_like_lock_record(literal, has_values)
}

/// Returns whether a site is in the tracer's own code that records locks, so that its messages are lock messages.
pub(crate) fn is_lock_site(site: &Site) -> bool {
    MODULES.contains(&&*site.module)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::escape::unescape;
    use crate::fields::SitePlan;
    use crate::line::{Line, Ticks};
    use crate::plans::Plans;
    use crate::render::LineWriter;

    const WAIT: &str = r#"lock wait id=1 for=lock made="a:1" at="b:2" holder=0 since="?:0""#;

    fn site(module: &str, format: &str, descriptor: &[u8]) -> Site {
        let (module, format) = (module.to_owned(), format.to_owned());
        Site { id: 1, module, format, descriptor: descriptor.to_vec(), ..Site::default() }
    }

    fn plan(site: &Site) -> SitePlan {
        let mut plans = Plans::default();
        assert!(plans.add(site));
        plans.get(1).unwrap().clone()
    }

    /// Returns the payload of the line of a message of this plan.
    fn payload(plan: &SitePlan, values: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        assert!(LineWriter::new(7).captured(Ticks(1), plan, values, &mut out));
        Line::parse(out.strip_suffix(b"\n").unwrap()).unwrap().payload.to_vec()
    }

    #[test]
    fn lock_text_of_other_modules_is_escaped() {
        let is_lock = payload(&plan(&site(MODULES[0], WAIT, b"")), b"");
        assert_eq!(is_lock, WAIT.as_bytes());
        assert!(may_be_lock_record(&is_lock));
        for module in ["app", "tracer", "app::tracer::sync::records", "tracer::sync::records_of_mine"] {
            let of_others = payload(&plan(&site(module, WAIT, b"")), b"");
            assert!(!may_be_lock_record(&of_others), "{module}");
            assert_eq!(unescape(&of_others), WAIT.as_bytes(), "the text is the same");
        }
    }

    #[test]
    fn other_texts_are_written_unchanged() {
        for text in ["lock the door", "lock", "lockers", "condvar", "futex address", "colour", ""] {
            let plan = plan(&site("app", text, b""));
            assert_eq!(payload(&plan, b""), text.as_bytes());
        }
    }

    #[test]
    fn a_partial_beginning_is_enough_if_the_text_continues() {
        for beginning in BEGINNINGS {
            for end in 1..beginning.len() {
                assert!(begins_like_lock_record(&beginning[..end], true));
                assert!(!begins_like_lock_record(&beginning[..end], false));
            }
            assert!(begins_like_lock_record(beginning, false));
        }
        assert!(!begins_like_lock_record(b"lock x", true));
        assert!(can_begin_like_lock_record(b"", true) && !can_begin_like_lock_record(b"", false));
        assert!(!can_begin_like_lock_record(b"x=", true) && can_begin_like_lock_record(b"lo", true));
    }

    #[test]
    fn only_messages_of_locks_are_parsed() {
        let wait = r#"lock wait id=3 for=read made="?:0" at="C:\my src\a.rs:7" holder=12 since="src/b.rs:9""#;
        let expected = LockWait {
            id: 3,
            wanted_access: "read",
            made: "?:0",
            at: r"C:\my src\a.rs:7",
            holder: 12,
            since: "src/b.rs:9",
        };
        assert_eq!(LockRecord::parse(wait), Some(LockRecord::Wait(expected)));
        assert_eq!(LockRecord::parse("lock got id=3 ns=17"), Some(LockRecord::Got { id: 3, ns: 17 }));
        let notify = r#"condvar notify id=1 to=all first=4 wakes=2 made="a:1" at="b:2""#;
        let expected = LockRecord::Notify { id: 1, all: true, first: 4, wakes: 2, made: "a:1", at: "b:2" };
        assert_eq!(LockRecord::parse(notify), Some(expected));
        let woken = LockRecord::parse("futex woken address=0x7f01 ns=5 result=-110");
        assert_eq!(woken, Some(LockRecord::FutexWoken { address: 0x7f01, ns: 5, result: -110 }));
        for other in [
            "futex wait address=7f01",
            "",
            "lock",
            "lock the door",
            "lock got id=3",
            "lock got id=3 ns=17 more=1",
            "lock got id=x ns=1",
        ] {
            assert_eq!(LockRecord::parse(other), None, "{other}");
        }
        assert_eq!(LockRecord::parse(&wait[..wait.len() - 1]), None, "a text without its end");
    }

    #[test]
    fn written_records_are_read_back() {
        let (made, at, id, ns) = ("src/a b.rs:3", "?:0", 7, u64::MAX);
        let wait = LockWait { id, wanted_access: "write", made, at, holder: 12, since: "x\"y.rs:1" };
        for record in [
            LockRecord::Wait(wait),
            LockRecord::Got { id, ns },
            LockRecord::GaveUp { id, ns },
            LockRecord::ConditionWait { id, lock: 3, made, at },
            LockRecord::Woken { id, by: 0, ns },
            LockRecord::Timeout { id, by: 9, ns },
            LockRecord::Notify { id, all: false, first: 4, wakes: 1, made, at },
            LockRecord::FutexWait { address: 0x7f00 },
            LockRecord::FutexWoken { address: 1, ns, result: -110 },
            LockRecord::FutexWake { address: 0, most: 3 },
        ] {
            assert_eq!(LockRecord::parse(&record.to_string()), Some(record));
        }
    }
}
