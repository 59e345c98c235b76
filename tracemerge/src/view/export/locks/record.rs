//! The messages by which the locks of `tracer::sync` tell who waits for whom. Their form is in `docs/trace-format.md`.

/// A message of a lock or of a condition. Places are `FILE:LINE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockRecord<'a> {
    /// The thread begins to wait for a lock.
    Wait(LockWait<'a>),
    /// The thread has got the lock that it waited for.
    Got { id: u64, ns: u64 },
    /// The thread waits for the lock no longer, and has not got it.
    GaveUp { id: u64, ns: u64 },
    /// The thread lets go of a lock and waits for a notification.
    ConditionWait { id: u64, lock: u64, made: &'a str, at: &'a str },
    /// The thread has the lock again; the notification with the number `by` has woken it, or none (0).
    Woken { id: u64, by: u64, ns: u64 },
    /// The same, and the time was over.
    Timeout { id: u64, by: u64, ns: u64 },
    /// The thread notifies those who wait, which are so many (`wakes`); the first notification has the number `first`.
    Notify { id: u64, first: u64, wakes: u64, made: &'a str, at: &'a str },
    /// The thread asks the system to let it sleep as long as the word at `address` does not change.
    FutexWait { address: u64 },
    /// The thread goes on; `result` is what the system has returned, 0 where another thread has woken it.
    FutexWoken { address: u64, ns: u64, result: i64 },
    /// The thread wakes `most` of those at most that sleep at `address`.
    FutexWake { address: u64, most: u64 },
}

/// A thread begins to wait for a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockWait<'a> {
    /// The number of the lock in its process.
    pub id: u64,
    /// What the thread wants to do with it: `lock`, `read`, `write` or `upgradable`.
    pub wish: &'a str,
    /// The place where the lock was made; `?:0` where that is not known.
    pub made: &'a str,
    /// The place of the call that waits.
    pub at: &'a str,
    /// The id of the thread that has the lock; 0 where it is not known.
    pub holder: u64,
    /// The place of the call by which that thread got it; `?:0` where that is not known.
    pub since: &'a str,
}

impl<'a> LockRecord<'a> {
    /// Returns what a message tells of a lock; `None` for all other messages.
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
                wish: fields.word("for")?,
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
                fields.word("to")?;
                LockRecord::Notify {
                    id,
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

    /// Returns the first of the numbers of a notification for `wakes` threads, and how many there are: behind the greatest of
    /// 32 bits comes 0. No more threads are believed in than can be counted.
    pub fn numbers(first: u64, wakes: u64) -> (u32, u32) {
        #[expect(clippy::cast_possible_truncation, reason = "the numbers have 32 bits")]
        (first as u32, wakes.min(0xffff) as u32)
    }
}

/// The fields that were not read yet: `key=word` or `key="text"`, with spaces between them.
struct Fields<'a>(&'a str);

impl<'a> Fields<'a> {
    /// Takes the next key, which must be this one, with its `=`.
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

    /// Takes a text in quotation marks, which ends before a space or the end. A path may have a quotation mark in it.
    fn quoted(&mut self, key: &str) -> Option<&'a str> {
        self.key(key)?;
        let text = self.0.strip_prefix('"')?;
        let (text, rest) = text.split_once("\" ").or_else(|| Some((text.strip_suffix('"')?, "")))?;
        self.0 = rest;
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_locks_are_read_and_no_others() {
        let wait = r#"lock wait id=3 for=read made="?:0" at="C:\my src\a.rs:7" holder=12 since="src/b.rs:9""#;
        let expected = LockWait {
            id: 3,
            wish: "read",
            made: "?:0",
            at: r"C:\my src\a.rs:7",
            holder: 12,
            since: "src/b.rs:9",
        };
        assert_eq!(LockRecord::parse(wait), Some(LockRecord::Wait(expected)));
        assert_eq!(LockRecord::parse("lock got id=3 ns=17"), Some(LockRecord::Got { id: 3, ns: 17 }));
        let notify = r#"condvar notify id=1 to=all first=4 wakes=2 made="a:1" at="b:2""#;
        let expected = LockRecord::Notify { id: 1, first: 4, wakes: 2, made: "a:1", at: "b:2" };
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
}
