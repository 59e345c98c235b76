//! Rewrites machine-written lines of traces in words for people: the records of locks, and the lines that say that
//! tracing was switched off or on, or that the thread waited for the tracer.

use std::borrow::Cow;

use trace_format::line::{Kind, Line};
use trace_format::locks::{LockRecord, LockWait};
use trace_format::meta::Meta;
use trace_format::wait::WaitCause;

use crate::ui::messages::count;
use crate::ui::units::duration;

/// Returns the payload of a line, in words if it is a machine-written line of a known kind, otherwise unchanged.
#[must_use]
pub(crate) fn in_words<'a>(line: &Line<'a>) -> Cow<'a, [u8]> {
    let words = match line.kind {
        Kind::Meta => match Meta::parse(line.payload) {
            Some(Meta::Switched { on: false, .. }) => Some("tracing was switched off".to_owned()),
            Some(Meta::Switched { on: true, .. }) => Some("tracing was switched on again".to_owned()),
            Some(Meta::Wait(wait)) => {
                let cause = match wait.what {
                    WaitCause::Room => "room",
                    WaitCause::Memory => "memory",
                    WaitCause::Ring => "a ring",
                    WaitCause::Modules => "the list of modules",
                };
                Some(format!("the tracer made the thread wait {} for {cause}", duration(wait.ns)))
            }
            _ => None,
        },
        Kind::Lock => std::str::from_utf8(line.payload).ok().and_then(LockRecord::parse).map(of_lock),
        _ => None,
    };
    words.map_or(Cow::Borrowed(line.payload), |words| Cow::Owned(words.into_bytes()))
}

/// Describes the event that a lock record reports, in words.
fn of_lock(record: LockRecord<'_>) -> String {
    match record {
        LockRecord::Wait(LockWait { id, wanted_access, made, at, holder, since }) => {
            let access = if wanted_access == "lock" { String::new() } else { format!(" ({wanted_access})") };
            let holder = match holder {
                0 => String::new(),
                holder => format!(", which thread {holder} got at {since}"),
            };
            format!("waits at {at} for lock {id}{access} made at {made}{holder}")
        }
        LockRecord::Got { id, ns } => format!("got lock {id} after {}", duration(ns)),
        LockRecord::GaveUp { id, ns } => format!("gave up waiting for lock {id} after {}", duration(ns)),
        LockRecord::ConditionWait { id, lock, made, at } => {
            format!("waits at {at} for condition {id} made at {made}, and releases lock {lock}")
        }
        LockRecord::Woken { id, by: 0, ns } => {
            format!("woke up at condition {id} after {}, without a notification", duration(ns))
        }
        LockRecord::Woken { id, ns, .. } => format!("was notified of condition {id} after {}", duration(ns)),
        LockRecord::Timeout { id, ns, .. } => {
            format!("stopped waiting for condition {id} after {}: the wait timed out", duration(ns))
        }
        LockRecord::Notify { id, all, wakes, made, at, .. } => {
            let whom = if all { "all threads that wait" } else { "one thread that waits" };
            let waiting = if wakes == 0 {
                "no thread waited".to_owned()
            } else {
                format!("wakes {}", count(wakes, "thread"))
            };
            format!("notifies at {at} {whom} for condition {id} made at {made}: {waiting}")
        }
        LockRecord::FutexWait { address } => format!("sleeps at the word {address:#x}"),
        LockRecord::FutexWoken { address, ns, result: 0 } => {
            format!("was woken at the word {address:#x} after {}", duration(ns))
        }
        LockRecord::FutexWoken { address, ns, result } => {
            format!("woke up at the word {address:#x} after {}; the system returned {result}", duration(ns))
        }
        LockRecord::FutexWake { address, most } => {
            format!("wakes at most {} at the word {address:#x}", count(most, "thread"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_locks_and_switches_are_sentences() {
        for (text, expected) in [
            (
                r#"! lock wait id=3 for=lock made="p.rs:31" at="p.rs:77" holder=4711 since="p.rs:60""#,
                "waits at p.rs:77 for lock 3 made at p.rs:31, which thread 4711 got at p.rs:60",
            ),
            (
                r#"! lock wait id=3 for=read made="p.rs:31" at="p.rs:77" holder=0 since="?:0""#,
                "waits at p.rs:77 for lock 3 (read) made at p.rs:31",
            ),
            ("! lock got id=3 ns=81000", "got lock 3 after 81.0 us"),
            ("! lock gave_up id=3 ns=1000000", "gave up waiting for lock 3 after 1.00 ms"),
            (
                r#"! condvar wait id=4 lock=3 made="p.rs:32" at="p.rs:80""#,
                "waits at p.rs:80 for condition 4 made at p.rs:32, and releases lock 3",
            ),
            (
                r#"! condvar notify id=4 to=one first=12 wakes=1 made="p.rs:32" at="p.rs:66""#,
                "notifies at p.rs:66 one thread that waits for condition 4 made at p.rs:32: wakes 1 thread",
            ),
            (
                r#"! condvar notify id=4 to=all first=0 wakes=0 made="p.rs:32" at="p.rs:66""#,
                "notifies at p.rs:66 all threads that wait for condition 4 made at p.rs:32: no thread waited",
            ),
            ("! condvar woken id=4 by=12 ns=52000", "was notified of condition 4 after 52.0 us"),
            (
                "! condvar woken id=4 by=0 ns=52000",
                "woke up at condition 4 after 52.0 us, without a notification",
            ),
            (
                "! condvar timeout id=4 by=0 ns=1000000",
                "stopped waiting for condition 4 after 1.00 ms: the wait timed out",
            ),
            ("! futex wait address=0x55ea", "sleeps at the word 0x55ea"),
            (
                "! futex woken address=0x55ea ns=1000000 result=0",
                "was woken at the word 0x55ea after 1.00 ms",
            ),
            ("! futex wake address=0x55ea most=1", "wakes at most 1 thread at the word 0x55ea"),
            ("# off ticks=7", "tracing was switched off"),
            ("# on ticks=7", "tracing was switched on again"),
            ("# wait begin=7 end=12 ns=2100000 for=room", "the tracer made the thread wait 2.10 ms for room"),
            ("# wait begin=7 end=12 ns=5 for=ring", "the tracer made the thread wait 5 ns for a ring"),
            (
                "# wait begin=7 end=12 ns=5 for=modules",
                "the tracer made the thread wait 5 ns for the list of modules",
            ),
            ("# wait begin=7", "wait begin=7"),
            // Unknown forms, other lines and messages stay as they are.
            ("! lock got id=three", "lock got id=three"),
            ("# lost records=2 reason=full", "lost records=2 reason=full"),
            (": lock got id=3 ns=81000", "lock got id=3 ns=81000"),
        ] {
            let line = format!("0000000000000001-00000007 {text}\n");
            let line = Line::parse(line.trim_end().as_bytes()).unwrap();
            assert_eq!(String::from_utf8_lossy(&in_words(&line)), expected, "{text}");
        }
    }
}
