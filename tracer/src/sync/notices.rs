//! The pairing of notifications and waits: the counts of the threads that wait at a condition variable, and of the
//! notifications for them.
//!
//! The code runs on traced threads, before or after the condition variable itself makes a system call.

use std::sync::atomic::{AtomicU64, Ordering};

/// The counts of the waiting threads and of the notifications for them, in one word.
///
/// | bits | contents |
/// |---|---|
/// | 0 to 15 | *asleep*: threads that wait and that have no notification |
/// | 16 to 31 | *pending*: notifications for threads that have not come back yet |
/// | 32 to 63 | *given*: how many notifications were given to threads; also the number of the last one |
///
/// ```text
///   begin()         asleep + 1
///   give(all)       one thread that is asleep, or all: asleep - n, pending + n, given + n
///   end()           pending - 1, takes the oldest one's number; if there is none, asleep - 1 and the number 0
/// ```
///
/// A condition variable does not show which notification has woken a thread: the first thread that comes back takes the
/// oldest notification. So each notification is taken once. At most 65,535 threads are counted, and numbers
/// repeat after 2³².
///
/// All accesses are relaxed, because the word orders no other memory. A notifier that should see a wait holds the lock,
/// or has held it since the wait began, and the lock orders the changes of both threads.
#[derive(Debug)]
pub(super) struct NotificationCounts(AtomicU64);

const ASLEEP: u64 = 1;
const PENDING: u64 = 1 << 16;
const GIVEN: u64 = 1 << 32;
const MAX_COUNT: u64 = 0xffff;

fn asleep(word: u64) -> u64 {
    word & MAX_COUNT
}

fn pending(word: u64) -> u64 {
    word >> 16 & MAX_COUNT
}

fn given(word: u64) -> u64 {
    word >> 32
}

/// Consecutive notifications for waiting threads: the number of the first one, and the count of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct GivenNotifications {
    pub(super) first: u64,
    pub(super) count: u64,
}

impl NotificationCounts {
    pub(super) const fn new() -> NotificationCounts {
        NotificationCounts(AtomicU64::new(0))
    }

    /// Replaces the word's value by the result of `next` for that value, in one atomic step. Returns the former value.
    fn step(&self, next: impl Fn(u64) -> u64) -> u64 {
        let step = |word| Some(next(word));
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, step).unwrap_or_else(|word| word)
    }

    /// Counts a thread that is about to wait as asleep.
    pub(super) fn begin(&self) {
        self.step(|word| if asleep(word) == MAX_COUNT { word } else { word + ASLEEP });
    }

    /// Counts a call that notifies one waiting thread, or all of them if `all` is true. Returns the notifications that
    /// the call gives to threads.
    pub(super) fn give(&self, all: bool) -> GivenNotifications {
        let count = |word| {
            let wanted = if all { asleep(word) } else { asleep(word).min(1) };
            wanted.min(MAX_COUNT - pending(word))
        };
        let before = self.step(|word| {
            let n = count(word);
            (word - n * ASLEEP + n * PENDING).wrapping_add(n * GIVEN)
        });
        match count(before) {
            0 => GivenNotifications::default(),
            count => GivenNotifications { first: (given(before) + 1) & (u64::MAX >> 32), count },
        }
    }

    /// Removes a thread that waits no longer from the counts. Returns the number of the notification that the thread
    /// takes, or 0 if it takes none. If the thread's wait has timed out (`over`), it takes a notification only if no
    /// thread is counted as asleep: otherwise the thread itself is counted among the sleeping ones.
    pub(super) fn end(&self, over: bool) -> u64 {
        let takes = |word| pending(word) > 0 && !(over && asleep(word) > 0);
        let before =
            self.step(|word| if takes(word) { word - PENDING } else { word - asleep(word).min(1) * ASLEEP });
        if takes(before) { given(before).wrapping_sub(pending(before) - 1) & (u64::MAX >> 32) } else { 0 }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    proptest! {
        #[test]
        fn notifications_are_taken_once_in_their_order(steps in prop::collection::vec(0..5u8, 0..200)) {
            let notices = NotificationCounts::new();
            // The expected counts, kept in simple variables.
            let (mut asleep, mut waiting, mut last) = (0, VecDeque::new(), 0);
            for step in steps {
                match step {
                    0 => {
                        notices.begin();
                        asleep += 1;
                    }
                    1 | 2 => {
                        let count = if step == 2 { asleep } else { asleep.min(1) };
                        let given = notices.give(step == 2);
                        prop_assert_eq!(given.count, count);
                        prop_assert_eq!(given.first, if count > 0 { last + 1 } else { 0 });
                        waiting.extend((1..=count).map(|n| last + n));
                        (asleep, last) = (asleep - count, last + count);
                    }
                    over if asleep > 0 || !waiting.is_empty() => {
                        let over = over == 4;
                        let taken = if over && asleep > 0 { None } else { waiting.pop_front() };
                        asleep -= u64::from(taken.is_none());
                        prop_assert_eq!(notices.end(over), taken.unwrap_or(0));
                    }
                    _ => {}
                }
            }
        }
    }

    #[test]
    fn more_threads_than_can_be_counted_are_left_out() {
        let notices = NotificationCounts::new();
        (0..MAX_COUNT + 2).for_each(|_| notices.begin());
        assert_eq!(notices.give(true), GivenNotifications { first: 1, count: MAX_COUNT });
        assert_eq!(notices.give(true), GivenNotifications::default());
        assert_eq!(notices.end(false), 1);
    }
}
