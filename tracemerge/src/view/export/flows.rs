//! Flows: related events of several threads, which viewers join by arrows. There are two types of flows:
//! * the polls of a span,
//! * the notification of a condition, and the moment when the notified thread continues.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::view::export::locks::numbers::Numbers;
use trace_format::locks::LockRecord;

/// The role of an event in a flow, with the id of the flow. The id is a hash that is practically unique.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// The event belongs to the flow, and further events may follow.
    Passes(u64),
    /// The event is the last one of the flow.
    Ends(u64),
    /// The flow begins with an earlier event, which is already in the output: that of this thread at this time.
    Began {
        /// The id of the flow.
        id: u64,
        /// The index of the thread of the first event.
        thread: usize,
        /// The time of the first event, in nanoseconds since 1970.
        wall: u64,
    },
}

/// The subject of a flow. The id of the flow is the hash of this value and of the process.
#[derive(Hash)]
enum Subject {
    Span(u64),
    Notification { condition: u64, number: u64 },
}

fn id(subject: &Subject, process: usize) -> u64 {
    let mut hasher = DefaultHasher::new();
    (subject, process).hash(&mut hasher);
    hasher.finish()
}

/// Returns the role of a poll of a span in the flow of the span; `process` is the index of the span's process.
#[must_use]
pub(crate) fn of_span(span: u64, process: usize) -> Flow {
    Flow::Passes(id(&Subject::Span(span), process))
}

/// Returns whether a message may be a part of a flow: whether its text, escaped or not, is about a condition.
#[must_use]
pub(crate) fn may_be_about_condition(text: &[u8]) -> bool {
    text.starts_with(b"condvar ")
}

/// The maximum number of flows that begin when the event of a notification is written, one for each notified thread. If
/// a notification is for more threads (up to 65,535), the flow of each further thread begins when that thread wakes up.
const AT_ONCE: u32 = 4;

/// The notifications whose flows to some of the woken threads were not written yet.
#[derive(Debug, Default)]
pub(crate) struct Flows {
    /// The notifying thread and the time of each flow that was not written yet, by process and condition, and then by
    /// the number of the notification, which the woken thread records.
    pending: HashMap<(usize, u64), Numbers<(usize, u64)>>,
}

impl Flows {
    /// If a message is about a condition, passes the message's roles in flows to `take`.
    pub(crate) fn of_message(
        &mut self,
        text: &str,
        process: usize,
        (thread, wall): (usize, u64),
        mut take: impl FnMut(Flow),
    ) {
        if !may_be_about_condition(text.as_bytes()) {
            return;
        }
        let of = |condition: u64, number: u64| id(&Subject::Notification { condition, number }, process);
        match LockRecord::parse(text) {
            Some(LockRecord::Notify { id, first, wakes, .. }) => {
                let (first, wakes) = LockRecord::numbers(first, wakes);
                let at_once = wakes.min(AT_ONCE);
                (0..at_once).for_each(|more| take(Flow::Passes(of(id, first.wrapping_add(more).into()))));
                if wakes > at_once {
                    let pending = self.pending.entry((process, id)).or_default();
                    pending.insert(first.wrapping_add(at_once), wakes - at_once, (thread, wall));
                }
            }
            Some(LockRecord::Woken { id, by, .. } | LockRecord::Timeout { id, by, .. }) if by != 0 => {
                let pending = self.pending.get_mut(&(process, id)).zip(u32::try_from(by).ok());
                if let Some((thread, wall)) = pending.and_then(|(pending, by)| pending.remove(by)) {
                    take(Flow::Began { id: of(id, by), thread, wall });
                }
                take(Flow::Ends(of(id, by)));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flows(text: &str, process: usize) -> Vec<Flow> {
        let mut found = Vec::new();
        Flows::default().of_message(text, process, (3, 100), |flow| found.push(flow));
        found
    }

    #[test]
    fn a_notification_of_many_threads_is_linked_to_the_woken_ones() {
        let (mut flows, mut found) = (Flows::default(), Vec::new());
        let notify = r#"condvar notify id=7 to=all first=4294967290 wakes=65535 made="a:1" at="b:2""#;
        flows.of_message(notify, 1, (3, 100), |flow| found.push(flow));
        assert_eq!(found.len(), AT_ONCE as usize);
        found.clear();
        for _ in 0..2 {
            flows.of_message("condvar woken id=7 by=9 ns=5", 1, (4, 200), |flow| found.push(flow));
        }
        let [Flow::Began { id, thread: 3, wall: 100 }, Flow::Ends(first), Flow::Ends(again)] = found[..]
        else {
            panic!("{found:?}")
        };
        assert!(id == first && id == again);
    }

    #[test]
    fn a_notification_is_linked_to_each_thread_it_wakes() {
        let notify = r#"condvar notify id=7 to=all first=8 wakes=2 made="a:1" at="b:2""#;
        let [Flow::Passes(one), Flow::Passes(other)] = flows(notify, 1)[..] else { panic!() };
        assert_eq!(flows("condvar woken id=7 by=8 ns=5", 1), [Flow::Ends(one)]);
        assert_eq!(flows("condvar timeout id=7 by=0 ns=5", 1), []);
        assert_eq!(flows("condvar woken id=7 by=9 ns=5", 1), [Flow::Ends(other)]);
        for unlike in ["condvar woken id=7 by=8 ns=5", "condvar woken id=8 by=9 ns=5"] {
            assert!(!flows(unlike, 1).contains(&Flow::Ends(other)));
        }
        assert!(!flows("condvar woken id=7 by=9 ns=5", 2).contains(&Flow::Ends(other)), "another process");
        assert_eq!(flows("condvar woken of old", 1), []);
        assert_ne!(of_span(1, 1), of_span(2, 1));
        assert_ne!(of_span(1, 1), of_span(1, 2));
    }
}
