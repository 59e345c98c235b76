//! The guards of the locks: those of `std`, and guards that clear the known holder of a lock right before it is
//! released.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync;

use super::holder::{LockFacts, SourceLocation};
use super::{LockResult, PoisonError, TryLockError, TryLockResult};

/// A guard that clears the known holder of an exclusive lock when the guard is dropped, right before the thread
/// releases the lock. In each lock guard, this field comes before the guard of `std`, so that it is dropped first.
#[derive(Debug)]
pub(super) struct Held<'a>(pub(super) &'a LockFacts);

impl Drop for Held<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.release();
    }
}

/// A guard of a reader, which is dropped right before the reader releases the lock. It then clears the known holder of
/// the lock, if that is the reader's thread.
#[derive(Debug)]
pub(super) struct HeldShared<'a>(pub(super) &'a LockFacts);

impl Drop for HeldShared<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.release_shared();
    }
}

/// The access to the value of a [`Mutex`](super::Mutex) that this thread has locked; dropping it unlocks the mutex.
/// Like `std::sync::MutexGuard`.
#[must_use = "if unused the Mutex will immediately unlock"]
#[clippy::has_significant_drop]
pub struct MutexGuard<'a, T: ?Sized> {
    pub(super) held: Held<'a>,
    pub(super) inner: sync::MutexGuard<'a, T>,
}

/// The read access to the value of an [`RwLock`](super::RwLock); dropping it unlocks the lock. Like
/// `std::sync::RwLockReadGuard`.
#[must_use = "if unused the RwLock will immediately unlock"]
#[clippy::has_significant_drop]
pub struct RwLockReadGuard<'a, T: ?Sized> {
    _held: HeldShared<'a>,
    inner: sync::RwLockReadGuard<'a, T>,
}

/// The write access to the value of an [`RwLock`](super::RwLock); dropping it unlocks the lock. Like
/// `std::sync::RwLockWriteGuard`.
#[must_use = "if unused the RwLock will immediately unlock"]
#[clippy::has_significant_drop]
pub struct RwLockWriteGuard<'a, T: ?Sized> {
    _held: Held<'a>,
    inner: sync::RwLockWriteGuard<'a, T>,
}

/// The trait of the guards of this module, each of which is made from a guard of `std`.
pub(super) trait Guard<'a>: Sized {
    type Inner;

    /// Makes the guard, without storing the holder of the lock.
    fn new(facts: &'a LockFacts, inner: Self::Inner) -> Self;

    /// Makes a guard from the result of a function of `std` that has locked the lock, poisoned or not.
    #[inline(always)]
    fn of(facts: &'a LockFacts, result: LockResult<Self::Inner>) -> LockResult<Self> {
        match result {
            Ok(inner) => Ok(Self::new(facts, inner)),
            Err(poisoned) => Err(PoisonError::new(Self::new(facts, poisoned.into_inner()))),
        }
    }

    /// Makes a guard from the result of an attempt to lock. Stores the calling thread as the lock's holder since the
    /// call at `place`, which is `None` while tracing is off.
    #[inline(always)]
    fn of_try(
        facts: &'a LockFacts,
        place: Option<SourceLocation>,
        result: TryLockResult<Self::Inner>,
    ) -> TryLockResult<Self> {
        let result = match result {
            Ok(inner) => Ok(inner),
            Err(TryLockError::Poisoned(poisoned)) => Err(poisoned),
            Err(TryLockError::WouldBlock) => return Err(TryLockError::WouldBlock),
        };
        if let Some(place) = place {
            facts.hold(place);
        }
        Ok(Self::of(facts, result)?)
    }
}

impl<'a, T: ?Sized> Guard<'a> for MutexGuard<'a, T> {
    type Inner = sync::MutexGuard<'a, T>;

    #[inline(always)]
    fn new(facts: &'a LockFacts, inner: Self::Inner) -> Self {
        MutexGuard { held: Held(facts), inner }
    }
}

impl<'a, T: ?Sized> Guard<'a> for RwLockReadGuard<'a, T> {
    type Inner = sync::RwLockReadGuard<'a, T>;

    #[inline(always)]
    fn new(facts: &'a LockFacts, inner: Self::Inner) -> Self {
        RwLockReadGuard { _held: HeldShared(facts), inner }
    }
}

impl<'a, T: ?Sized> Guard<'a> for RwLockWriteGuard<'a, T> {
    type Inner = sync::RwLockWriteGuard<'a, T>;

    #[inline(always)]
    fn new(facts: &'a LockFacts, inner: Self::Inner) -> Self {
        RwLockWriteGuard { _held: Held(facts), inner }
    }
}

macro_rules! as_its_value {
    ($guard:ident) => {
        impl<T: ?Sized> Deref for $guard<'_, T> {
            type Target = T;

            #[inline(always)]
            fn deref(&self) -> &T {
                &self.inner
            }
        }

        impl<T: ?Sized + fmt::Debug> fmt::Debug for $guard<'_, T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.inner, f)
            }
        }

        impl<T: ?Sized + fmt::Display> fmt::Display for $guard<'_, T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.inner, f)
            }
        }
    };
}

as_its_value!(MutexGuard);
as_its_value!(RwLockReadGuard);
as_its_value!(RwLockWriteGuard);

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}

impl<T: ?Sized> DerefMut for RwLockWriteGuard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}
