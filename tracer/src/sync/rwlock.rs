//! A lock for several readers or one writer, with the API of [`std::sync::RwLock`].

use std::fmt;
use std::panic::Location;
use std::sync::{self, TryLockError};

use super::guards::{Guard, RwLockReadGuard, RwLockWriteGuard};
use super::holder::{LockFacts, is_off};
use super::{LockResult, TryLockResult};

/// A lock for several readers or one writer, like [`std::sync::RwLock`], that records which thread waits for it and
/// which holds it.
///
/// See the [module](super) for the records and their limits.
pub struct RwLock<T: ?Sized> {
    facts: LockFacts,
    inner: sync::RwLock<T>,
}

impl<T> RwLock<T> {
    /// Makes an unlocked lock. `tracemerge locks` names it by the position of this call in the source.
    #[inline]
    #[must_use]
    #[track_caller]
    pub const fn new(value: T) -> RwLock<T> {
        RwLock { facts: LockFacts::new(Some(Location::caller())), inner: sync::RwLock::new(value) }
    }

    /// Consumes the lock, and returns the value.
    ///
    /// # Errors
    /// Fails if a thread has panicked while it had write access; the value is in the error.
    pub fn into_inner(self) -> LockResult<T> {
        self.inner.into_inner()
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Locks for reading; waits until that is possible.
    ///
    /// If tracing is on and a writer has the lock or waits for it, two records describe the wait.
    ///
    /// # Errors
    /// Fails if a thread has panicked while it had write access; the guard is in the error.
    ///
    /// # Panics
    /// Like [`std::sync::RwLock::read`], it may panic if this thread has the lock already.
    #[inline]
    #[track_caller]
    pub fn read(&self) -> LockResult<RwLockReadGuard<'_, T>> {
        if is_off() {
            return Guard::of(&self.facts, self.inner.read());
        }
        let place = Location::caller();
        let result = match self.inner.try_read() {
            Ok(inner) => Ok(inner),
            Err(TryLockError::Poisoned(poisoned)) => Err(poisoned),
            Err(TryLockError::WouldBlock) => self.facts.wait_until("read", place, || self.inner.read()),
        };
        self.facts.hold(place);
        Guard::of(&self.facts, result)
    }

    /// Locks for writing; waits until that is possible.
    ///
    /// If tracing is on and another thread has the lock, two records describe the wait.
    ///
    /// # Errors
    /// Fails if a thread has panicked while it had write access; the guard is in the error.
    ///
    /// # Panics
    /// Like [`std::sync::RwLock::write`], it may panic if this thread has the lock already.
    #[inline]
    #[track_caller]
    pub fn write(&self) -> LockResult<RwLockWriteGuard<'_, T>> {
        if is_off() {
            return Guard::of(&self.facts, self.inner.write());
        }
        let place = Location::caller();
        let result = match self.inner.try_write() {
            Ok(inner) => Ok(inner),
            Err(TryLockError::Poisoned(poisoned)) => Err(poisoned),
            Err(TryLockError::WouldBlock) => self.facts.wait_until("write", place, || self.inner.write()),
        };
        self.facts.hold(place);
        Guard::of(&self.facts, result)
    }

    /// Locks for reading if that is possible at once. Nothing is recorded.
    ///
    /// # Errors
    /// Fails if a writer has the lock, or if a thread has panicked while it had write access. In the second case the
    /// guard is in the error.
    #[inline]
    #[track_caller]
    pub fn try_read(&self) -> TryLockResult<RwLockReadGuard<'_, T>> {
        Guard::of_try(&self.facts, (!is_off()).then(Location::caller), self.inner.try_read())
    }

    /// Locks for writing if that is possible at once. Nothing is recorded.
    ///
    /// # Errors
    /// Fails if the lock is taken, or if a thread has panicked while it had write access. In the second case the guard
    /// is in the error.
    #[inline]
    #[track_caller]
    pub fn try_write(&self) -> TryLockResult<RwLockWriteGuard<'_, T>> {
        Guard::of_try(&self.facts, (!is_off()).then(Location::caller), self.inner.try_write())
    }

    /// Returns whether a thread has panicked while it had write access.
    #[inline]
    #[must_use]
    pub fn is_poisoned(&self) -> bool {
        self.inner.is_poisoned()
    }

    /// Makes the lock forget that a thread has panicked while it had write access.
    #[inline]
    pub fn clear_poison(&self) {
        self.inner.clear_poison();
    }

    /// Returns a reference to the value without taking the lock: `&mut self` shows that no other thread uses the lock.
    ///
    /// # Errors
    /// Fails if a thread has panicked while it had write access; the value is in the error.
    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        self.inner.get_mut()
    }
}

impl<T> From<T> for RwLock<T> {
    #[track_caller]
    fn from(value: T) -> RwLock<T> {
        RwLock::new(value)
    }
}

impl<T: Default> Default for RwLock<T> {
    #[track_caller]
    fn default() -> RwLock<T> {
        RwLock::new(T::default())
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}
