//! A mutex with the API of [`std::sync::Mutex`].

use std::fmt;
use std::panic::Location;
use std::sync::{self, TryLockError};

use super::guards::{Guard, MutexGuard};
use super::holder::{LockFacts, is_off};
use super::{LockResult, TryLockResult};

/// A mutex, like [`std::sync::Mutex`], that records which thread waits for it and which holds it.
///
/// See the [module](super) for the records and their limits.
pub struct Mutex<T: ?Sized> {
    facts: LockFacts,
    inner: sync::Mutex<T>,
}

impl<T> Mutex<T> {
    /// Makes an unlocked mutex. `tracemerge locks` names it by the position of this call in the source.
    #[inline]
    #[must_use]
    #[track_caller]
    pub const fn new(value: T) -> Mutex<T> {
        Mutex { facts: LockFacts::new(Some(Location::caller())), inner: sync::Mutex::new(value) }
    }

    /// Consumes the mutex, and returns the value.
    ///
    /// # Errors
    /// Fails if a thread has panicked while it had the mutex; the value is in the error.
    pub fn into_inner(self) -> LockResult<T> {
        self.inner.into_inner()
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Locks the mutex; waits until that is possible.
    ///
    /// If tracing is on and the mutex is taken, two records describe the wait.
    ///
    /// # Errors
    /// Fails if a thread has panicked while it had the mutex; the guard is in the error.
    ///
    /// # Panics
    /// Like [`std::sync::Mutex::lock`], it may panic if this thread has the mutex already. (On Linux it waits for
    /// ever.)
    #[inline]
    #[track_caller]
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        if is_off() {
            return Guard::of(&self.facts, self.inner.lock());
        }
        let place = Location::caller();
        let result = match self.inner.try_lock() {
            Ok(inner) => Ok(inner),
            Err(TryLockError::Poisoned(poisoned)) => Err(poisoned),
            Err(TryLockError::WouldBlock) => self.facts.wait_until("lock", place, || self.inner.lock()),
        };
        self.facts.hold(place);
        Guard::of(&self.facts, result)
    }

    /// Locks the mutex if it is free. Nothing is recorded.
    ///
    /// # Errors
    /// Fails if the mutex is taken, or if a thread has panicked while it had the mutex. In the second case the guard is
    /// in the error.
    #[inline]
    #[track_caller]
    pub fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        Guard::of_try(&self.facts, (!is_off()).then(Location::caller), self.inner.try_lock())
    }

    /// Returns whether a thread has panicked while it had the mutex.
    #[inline]
    #[must_use]
    pub fn is_poisoned(&self) -> bool {
        self.inner.is_poisoned()
    }

    /// Makes the mutex forget that a thread has panicked while it had the mutex.
    #[inline]
    pub fn clear_poison(&self) {
        self.inner.clear_poison();
    }

    /// Returns a reference to the value without locking the mutex: `&mut self` shows that no other thread uses the
    /// mutex.
    ///
    /// # Errors
    /// Fails if a thread has panicked while it had the mutex; the value is in the error.
    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        self.inner.get_mut()
    }
}

impl<T> From<T> for Mutex<T> {
    #[track_caller]
    fn from(value: T) -> Mutex<T> {
        Mutex::new(value)
    }
}

impl<T: Default> Default for Mutex<T> {
    #[track_caller]
    fn default() -> Mutex<T> {
        Mutex::new(T::default())
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}
