//! Flows: events of several threads that belong together, which viewers join by arrows. The polls of a span are one, and so
//! are a notification of a condition and the moment when the thread that it was for goes on.

use std::hash::{DefaultHasher, Hash, Hasher};

use crate::view::export::locks::record::LockRecord;

/// How an event is a part of a flow, with the flow's id, which is that of no other flow in practice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// Further events may belong to it.
    Passes(u64),
    /// The event is the last one.
    Ends(u64),
}

/// What makes an id of a flow.
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

/// Returns the flow of the polls of a span of a process.
#[must_use]
pub fn of_span(span: u64, process: usize) -> Flow {
    Flow::Passes(id(&Subject::Span(span), process))
}

/// Returns whether a message with this text, escaped or not, may be a part of a flow: whether it is of a condition.
#[must_use]
pub fn may_be_of(text: &[u8]) -> bool {
    text.starts_with(b"condvar ")
}

/// Passes on the flows of a message of a process, if it is one of a condition.
pub fn of_message(text: &str, process: usize, mut take: impl FnMut(Flow)) {
    if !may_be_of(text.as_bytes()) {
        return;
    }
    let of = |condition: u64, number: u64| id(&Subject::Notification { condition, number }, process);
    match LockRecord::parse(text) {
        Some(LockRecord::Notify { id, first, wakes, .. }) => {
            LockRecord::numbers(first, wakes).for_each(|number| take(Flow::Passes(of(id, number))));
        }
        Some(LockRecord::Woken { id, by, .. } | LockRecord::Timeout { id, by, .. }) if by != 0 => {
            take(Flow::Ends(of(id, by)));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flows(text: &str, process: usize) -> Vec<Flow> {
        let mut flows = Vec::new();
        of_message(text, process, |flow| flows.push(flow));
        flows
    }

    #[test]
    fn a_notification_is_joined_with_each_thread_that_it_wakes() {
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
