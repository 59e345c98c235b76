//! A condition variable with the API of [`std::sync::Condvar`], and the data about it that records contain.

use std::fmt;
use std::panic::Location;
use std::sync::{self, PoisonError};
use std::time::{Duration, Instant};

use super::guards::MutexGuard;
use super::holder::{LockFacts, Number, SourceLocation, is_off, nanoseconds_since};
use super::notices::{GivenNotifications, NotificationCounts};
use super::{LockResult, WaitTimeoutResult, records};

/// A condition variable, like [`std::sync::Condvar`], that records waits and notifications.
///
/// A notification has a number for each waiting thread that it is for, and the record of a wait's end contains the
/// number that the wait has taken. See the [module](super) for the limits. Each call costs a record or two if tracing
/// is on.
pub struct Condvar {
    inner: sync::Condvar,
    facts: ConditionFacts,
}

/// The data about a condition variable that records contain: its number, its notifications, and the position in the
/// source where it was made.
#[derive(Debug)]
pub(super) struct ConditionFacts {
    number: Number,
    notices: NotificationCounts,
    made: SourceLocation,
}

/// A wait at a condition variable that is in progress. The beginning of the wait was recorded.
#[derive(Debug)]
#[must_use]
pub(super) struct RecordedConditionWait<'a> {
    facts: &'a ConditionFacts,
    since: Instant,
}

impl ConditionFacts {
    pub(super) const fn new(made: SourceLocation) -> ConditionFacts {
        ConditionFacts { number: Number::new(), notices: NotificationCounts::new(), made }
    }

    /// Records that the calling thread waits at `place` and releases `lock`; returns `None` while tracing is off.
    pub(super) fn wait<'a>(
        &'a self,
        lock: &LockFacts,
        place: SourceLocation,
    ) -> Option<RecordedConditionWait<'a>> {
        let waiting = (!is_off()).then(|| {
            records::condvar_wait(self.number.get(), lock.number(), self.made, place);
            self.notices.begin();
            RecordedConditionWait { facts: self, since: Instant::now() }
        });
        // A thread that comes meanwhile waits for this one.
        lock.release();
        waiting
    }

    /// Records that the calling thread notifies one waiting thread, or all of them if `all` is true. The caller makes
    /// the notification afterwards.
    pub(super) fn notify(&self, all: bool, place: SourceLocation) {
        if !is_off() {
            let GivenNotifications { first, count } = self.notices.give(all);
            records::condvar_notify(self.number.get(), all, first, count, self.made, place);
        }
    }
}

impl RecordedConditionWait<'_> {
    /// Records that the calling thread has the lock again, because its wait has timed out (`over`) or because it was
    /// woken. Stores the thread as the holder of `lock` again.
    pub(super) fn end(self, over: bool, lock: &LockFacts, place: SourceLocation) {
        lock.hold(place);
        let (number, ns) = (self.facts.number.get(), nanoseconds_since(self.since));
        match (over, self.facts.notices.end(over)) {
            (true, by) => records::condvar_timeout(number, by, ns),
            (false, by) => records::condvar_woken(number, by, ns),
        }
    }
}

impl Condvar {
    /// Makes a condition variable. `tracemerge locks` names it by the position of this call in the source.
    #[inline]
    #[must_use]
    #[track_caller]
    pub const fn new() -> Condvar {
        Condvar { inner: sync::Condvar::new(), facts: ConditionFacts::new(Location::caller()) }
    }

    /// Releases the mutex, waits for a notification, and locks the mutex again. It may also return without a
    /// notification.
    ///
    /// # Errors
    /// Fails if a thread has panicked while it had the mutex; the guard is in the error.
    ///
    /// # Panics
    /// Like [`std::sync::Condvar::wait`], it may panic if it is used with several mutexes. (On Linux it does not.)
    #[track_caller]
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        let (place, lock) = (Location::caller(), guard.held.0);
        let MutexGuard { held, inner } = guard;
        let waiting = self.facts.wait(lock, place);
        let result = self.inner.wait(inner);
        if let Some(waiting) = waiting {
            waiting.end(false, lock, place);
        }
        rejoin(held, result)
    }

    /// Waits while `condition` returns true.
    ///
    /// # Errors
    /// Fails if [`wait`](Condvar::wait) would.
    ///
    /// # Panics
    /// Panics if `condition` does, or if [`wait`](Condvar::wait) would.
    #[track_caller]
    pub fn wait_while<'a, T, F>(
        &self,
        mut guard: MutexGuard<'a, T>,
        mut condition: F,
    ) -> LockResult<MutexGuard<'a, T>>
    where
        F: FnMut(&mut T) -> bool,
    {
        while condition(&mut *guard) {
            guard = self.wait(guard)?;
        }
        Ok(guard)
    }

    /// Waits as [`wait`](Condvar::wait) does, at most for `duration`. The result says whether that time is over.
    ///
    /// # Errors
    /// Fails if [`wait`](Condvar::wait) would.
    ///
    /// # Panics
    /// Panics if [`wait`](Condvar::wait) would.
    #[track_caller]
    pub fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        duration: Duration,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
        let (place, lock) = (Location::caller(), guard.held.0);
        let MutexGuard { held, inner } = guard;
        let waiting = self.facts.wait(lock, place);
        let result = self.inner.wait_timeout(inner, duration);
        if let Some(waiting) = waiting {
            waiting.end(timed_out(&result), lock, place);
        }
        rejoin_with(held, result)
    }

    /// Waits while `condition` returns true, at most for `duration`. The result is a timeout only if `condition` still
    /// returned true at the end of that time.
    ///
    /// # Errors
    /// Fails if [`wait`](Condvar::wait) would.
    ///
    /// # Panics
    /// Panics if `condition` does, or if [`wait`](Condvar::wait) would.
    #[track_caller]
    pub fn wait_timeout_while<'a, T, F>(
        &self,
        guard: MutexGuard<'a, T>,
        duration: Duration,
        mut condition: F,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)>
    where
        F: FnMut(&mut T) -> bool,
    {
        let (place, lock) = (Location::caller(), guard.held.0);
        let MutexGuard { held, inner } = guard;
        let (start, mut waiting) = (Instant::now(), None::<RecordedConditionWait<'_>>);
        // The condition is checked before and after each wait, with the lock. Only `std` can make the result.
        let result = self.inner.wait_timeout_while(inner, duration, |value| {
            if let Some(waiting) = waiting.take() {
                waiting.end(start.elapsed() >= duration, lock, place);
            }
            let waits = condition(value);
            if waits && start.elapsed() < duration {
                waiting = self.facts.wait(lock, place);
            }
            waits
        });
        if let Some(waiting) = waiting {
            waiting.end(timed_out(&result), lock, place);
        }
        rejoin_with(held, result)
    }

    /// Wakes one waiting thread, if there is one.
    #[inline]
    #[track_caller]
    pub fn notify_one(&self) {
        self.facts.notify(false, Location::caller());
        self.inner.notify_one();
    }

    /// Wakes all waiting threads.
    #[inline]
    #[track_caller]
    pub fn notify_all(&self) {
        self.facts.notify(true, Location::caller());
        self.inner.notify_all();
    }
}

fn timed_out<G>(result: &LockResult<(G, WaitTimeoutResult)>) -> bool {
    match result {
        Ok((_, timeout)) => timeout.timed_out(),
        Err(poisoned) => poisoned.get_ref().1.timed_out(),
    }
}

/// Makes a guard of this module from its two parts, after a wait.
fn rejoin<'a, T>(
    held: super::guards::Held<'a>,
    result: LockResult<sync::MutexGuard<'a, T>>,
) -> LockResult<MutexGuard<'a, T>> {
    match result {
        Ok(inner) => Ok(MutexGuard { held, inner }),
        Err(poisoned) => Err(PoisonError::new(MutexGuard { held, inner: poisoned.into_inner() })),
    }
}

fn rejoin_with<'a, T>(
    held: super::guards::Held<'a>,
    result: LockResult<(sync::MutexGuard<'a, T>, WaitTimeoutResult)>,
) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
    match result {
        Ok((inner, timeout)) => Ok((MutexGuard { held, inner }, timeout)),
        Err(poisoned) => {
            let (inner, timeout) = poisoned.into_inner();
            Err(PoisonError::new((MutexGuard { held, inner }, timeout)))
        }
    }
}

impl Default for Condvar {
    #[track_caller]
    fn default() -> Condvar {
        Condvar::new()
    }
}

impl fmt::Debug for Condvar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}
