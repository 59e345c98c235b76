//! Locks of the crate `parking_lot` that record which thread waits for which: [`Mutex`], [`RwLock`] and [`Condvar`],
//! with the API of that crate.
//!
//! Each is a lock of `parking_lot` behind the interface of the crate `lock_api`, which makes the guards. A lock of this
//! module is named by the place where a thread first waited for it, because `lock_api` does not report where the lock
//! was made. The records and their limits are described at [`tracer::sync`](super).
#![allow(unsafe_code, reason = "the traits of lock_api, handed on to the locks of parking_lot; argued")]

use std::fmt;
use std::mem::ManuallyDrop;
use std::panic::Location;
use std::time::{Duration, Instant};

pub use parking_lot::WaitTimeoutResult;
use parking_lot::lock_api::{self, RawMutex as _, RawRwLock as _};

use super::condvar::ConditionFacts;
use super::holder::{LockFacts, SourceLocation, is_off};

/// A mutex, like `parking_lot::Mutex`, that records which thread waits for it and which holds it.
pub type Mutex<T> = lock_api::Mutex<RawMutex, T>;
/// The access to the value of a locked [`Mutex`]; dropping it unlocks the mutex.
pub type MutexGuard<'a, T> = lock_api::MutexGuard<'a, RawMutex, T>;
/// The access to a part of the value of a locked [`Mutex`]; dropping it unlocks the mutex.
pub type MappedMutexGuard<'a, T> = lock_api::MappedMutexGuard<'a, RawMutex, T>;
/// A lock for several readers or one writer, like `parking_lot::RwLock`, that records which thread waits for it and
/// which holds it.
pub type RwLock<T> = lock_api::RwLock<RawRwLock, T>;
/// The read access to the value of an [`RwLock`]; dropping it unlocks the lock.
pub type RwLockReadGuard<'a, T> = lock_api::RwLockReadGuard<'a, RawRwLock, T>;
/// The write access to the value of an [`RwLock`]; dropping it unlocks the lock.
pub type RwLockWriteGuard<'a, T> = lock_api::RwLockWriteGuard<'a, RawRwLock, T>;
/// The read access to the value of an [`RwLock`], which can become write access; dropping it unlocks the lock.
pub type RwLockUpgradableReadGuard<'a, T> = lock_api::RwLockUpgradableReadGuard<'a, RawRwLock, T>;
/// The read access to a part of the value of an [`RwLock`]; dropping it unlocks the lock.
pub type MappedRwLockReadGuard<'a, T> = lock_api::MappedRwLockReadGuard<'a, RawRwLock, T>;
/// The write access to a part of the value of an [`RwLock`]; dropping it unlocks the lock.
pub type MappedRwLockWriteGuard<'a, T> = lock_api::MappedRwLockWriteGuard<'a, RawRwLock, T>;

/// A [`Mutex`] without its value, which `lock_api` adds.
#[derive(Debug)]
pub struct RawMutex {
    facts: LockFacts,
    inner: parking_lot::Mutex<()>,
}

/// An [`RwLock`] without its value, which `lock_api` adds.
pub struct RawRwLock {
    facts: LockFacts,
    inner: parking_lot::RawRwLock,
}

impl fmt::Debug for RawRwLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawRwLock").field("facts", &self.facts).finish_non_exhaustive()
    }
}

/// Tries to take a lock by `at_once`; if that fails, waits for the lock by `wait`, and records the beginning and the
/// end of the wait. Returns whether the thread has got the lock, as both closures do. While tracing is off, only calls
/// `wait`.
#[inline(always)]
fn take(
    facts: &LockFacts,
    wanted_access: &'static str,
    place: SourceLocation,
    at_once: impl FnOnce() -> bool,
    wait: impl FnOnce() -> bool,
) -> bool {
    if is_off() {
        return wait();
    }
    let got = at_once() || wait_recorded(facts, wanted_access, place, wait);
    if got {
        facts.hold(place);
    }
    got
}

#[cold]
#[inline(never)]
fn wait_recorded(
    facts: &LockFacts,
    wanted_access: &'static str,
    place: SourceLocation,
    wait: impl FnOnce() -> bool,
) -> bool {
    let waiting = facts.wait(wanted_access, place);
    let got = wait();
    if got {
        waiting.got();
    } else {
        waiting.gave_up();
    }
    got
}

/// Stores the calling thread as the holder of a lock if `got` is true: an attempt to take the lock without waiting has
/// succeeded. Returns `got`.
#[inline(always)]
fn taken(facts: &LockFacts, place: SourceLocation, got: bool) -> bool {
    if got && !is_off() {
        facts.hold(place);
    }
    got
}

impl RawMutex {
    #[inline(always)]
    fn raw(&self) -> &parking_lot::RawMutex {
        // SAFETY: the calls here keep the rules: only the thread that has locked it unlocks it.
        unsafe { self.inner.raw() }
    }
}

// SAFETY: every lock and unlock is one of the inner lock, which fulfils the trait's contract.
unsafe impl lock_api::RawMutex for RawMutex {
    #[allow(clippy::declare_interior_mutable_const, reason = "the trait wants it so")]
    const INIT: RawMutex = RawMutex { facts: LockFacts::new(None), inner: parking_lot::Mutex::new(()) };

    type GuardMarker = <parking_lot::RawMutex as lock_api::RawMutex>::GuardMarker;

    #[inline]
    #[track_caller]
    fn lock(&self) {
        let wait = || {
            self.raw().lock();
            true
        };
        take(&self.facts, "lock", Location::caller(), || self.raw().try_lock(), wait);
    }

    #[inline]
    #[track_caller]
    fn try_lock(&self) -> bool {
        taken(&self.facts, Location::caller(), self.raw().try_lock())
    }

    #[inline]
    unsafe fn unlock(&self) {
        self.facts.release();
        // SAFETY: the caller has the lock.
        unsafe { self.raw().unlock() }
    }

    #[inline]
    fn is_locked(&self) -> bool {
        self.raw().is_locked()
    }
}

// SAFETY: as above.
unsafe impl lock_api::RawMutexFair for RawMutex {
    #[inline]
    unsafe fn unlock_fair(&self) {
        self.facts.release();
        // SAFETY: the caller has the lock.
        unsafe { lock_api::RawMutexFair::unlock_fair(self.raw()) }
    }
}

// SAFETY: as above.
unsafe impl lock_api::RawMutexTimed for RawMutex {
    type Duration = Duration;
    type Instant = Instant;

    #[inline]
    #[track_caller]
    fn try_lock_for(&self, timeout: Duration) -> bool {
        let wait = || lock_api::RawMutexTimed::try_lock_for(self.raw(), timeout);
        take(&self.facts, "lock", Location::caller(), || self.raw().try_lock(), wait)
    }

    #[inline]
    #[track_caller]
    fn try_lock_until(&self, timeout: Instant) -> bool {
        let wait = || lock_api::RawMutexTimed::try_lock_until(self.raw(), timeout);
        take(&self.facts, "lock", Location::caller(), || self.raw().try_lock(), wait)
    }
}

// SAFETY: every lock and unlock is one of the inner lock, which fulfils the trait's contract.
unsafe impl lock_api::RawRwLock for RawRwLock {
    #[allow(clippy::declare_interior_mutable_const, reason = "the trait wants it so")]
    const INIT: RawRwLock = RawRwLock { facts: LockFacts::new(None), inner: parking_lot::RawRwLock::INIT };

    type GuardMarker = <parking_lot::RawRwLock as lock_api::RawRwLock>::GuardMarker;

    #[inline]
    #[track_caller]
    fn lock_shared(&self) {
        let wait = || {
            self.inner.lock_shared();
            true
        };
        take(&self.facts, "read", Location::caller(), || self.inner.try_lock_shared(), wait);
    }

    #[inline]
    #[track_caller]
    fn try_lock_shared(&self) -> bool {
        taken(&self.facts, Location::caller(), self.inner.try_lock_shared())
    }

    #[inline]
    unsafe fn unlock_shared(&self) {
        self.facts.release_shared();
        // SAFETY: the caller has the lock.
        unsafe { self.inner.unlock_shared() }
    }

    #[inline]
    #[track_caller]
    fn lock_exclusive(&self) {
        let wait = || {
            self.inner.lock_exclusive();
            true
        };
        take(&self.facts, "write", Location::caller(), || self.inner.try_lock_exclusive(), wait);
    }

    #[inline]
    #[track_caller]
    fn try_lock_exclusive(&self) -> bool {
        taken(&self.facts, Location::caller(), self.inner.try_lock_exclusive())
    }

    #[inline]
    unsafe fn unlock_exclusive(&self) {
        self.facts.release();
        // SAFETY: the caller has the lock.
        unsafe { self.inner.unlock_exclusive() }
    }

    #[inline]
    fn is_locked(&self) -> bool {
        self.inner.is_locked()
    }

    #[inline]
    fn is_locked_exclusive(&self) -> bool {
        self.inner.is_locked_exclusive()
    }
}

// SAFETY: as above.
unsafe impl lock_api::RawRwLockFair for RawRwLock {
    #[inline]
    unsafe fn unlock_shared_fair(&self) {
        self.facts.release_shared();
        // SAFETY: the caller has the lock.
        unsafe { self.inner.unlock_shared_fair() }
    }

    #[inline]
    unsafe fn unlock_exclusive_fair(&self) {
        self.facts.release();
        // SAFETY: the caller has the lock.
        unsafe { self.inner.unlock_exclusive_fair() }
    }
}

// SAFETY: as above.
unsafe impl lock_api::RawRwLockDowngrade for RawRwLock {
    #[inline]
    unsafe fn downgrade(&self) {
        // SAFETY: the caller has the lock. It stays the known holder.
        unsafe { self.inner.downgrade() }
    }
}

// SAFETY: as above.
unsafe impl lock_api::RawRwLockRecursive for RawRwLock {
    #[inline]
    #[track_caller]
    fn lock_shared_recursive(&self) {
        let wait = || {
            self.inner.lock_shared_recursive();
            true
        };
        take(&self.facts, "read", Location::caller(), || self.inner.try_lock_shared_recursive(), wait);
    }

    #[inline]
    #[track_caller]
    fn try_lock_shared_recursive(&self) -> bool {
        taken(&self.facts, Location::caller(), self.inner.try_lock_shared_recursive())
    }
}

// SAFETY: as above.
unsafe impl lock_api::RawRwLockTimed for RawRwLock {
    type Duration = Duration;
    type Instant = Instant;

    #[inline]
    #[track_caller]
    fn try_lock_shared_for(&self, timeout: Duration) -> bool {
        let wait = || self.inner.try_lock_shared_for(timeout);
        take(&self.facts, "read", Location::caller(), || self.inner.try_lock_shared(), wait)
    }

    #[inline]
    #[track_caller]
    fn try_lock_shared_until(&self, timeout: Instant) -> bool {
        let wait = || self.inner.try_lock_shared_until(timeout);
        take(&self.facts, "read", Location::caller(), || self.inner.try_lock_shared(), wait)
    }

    #[inline]
    #[track_caller]
    fn try_lock_exclusive_for(&self, timeout: Duration) -> bool {
        let wait = || self.inner.try_lock_exclusive_for(timeout);
        take(&self.facts, "write", Location::caller(), || self.inner.try_lock_exclusive(), wait)
    }

    #[inline]
    #[track_caller]
    fn try_lock_exclusive_until(&self, timeout: Instant) -> bool {
        let wait = || self.inner.try_lock_exclusive_until(timeout);
        take(&self.facts, "write", Location::caller(), || self.inner.try_lock_exclusive(), wait)
    }
}

// SAFETY: as above.
unsafe impl lock_api::RawRwLockUpgrade for RawRwLock {
    #[inline]
    #[track_caller]
    fn lock_upgradable(&self) {
        let wait = || {
            self.inner.lock_upgradable();
            true
        };
        take(&self.facts, "upgradable", Location::caller(), || self.inner.try_lock_upgradable(), wait);
    }

    #[inline]
    #[track_caller]
    fn try_lock_upgradable(&self) -> bool {
        taken(&self.facts, Location::caller(), self.inner.try_lock_upgradable())
    }

    #[inline]
    unsafe fn unlock_upgradable(&self) {
        self.facts.release_shared();
        // SAFETY: the caller has the lock.
        unsafe { self.inner.unlock_upgradable() }
    }

    #[inline]
    #[track_caller]
    unsafe fn upgrade(&self) {
        let wait = || {
            // SAFETY: the caller has the lock, and it was not upgraded.
            unsafe { self.inner.upgrade() };
            true
        };
        // SAFETY: the caller has the lock.
        let at_once = || unsafe { self.inner.try_upgrade() };
        // During the wait, other threads see another reader that holds the lock, if one is known.
        self.facts.release_shared();
        take(&self.facts, "write", Location::caller(), at_once, wait);
    }

    #[inline]
    #[track_caller]
    unsafe fn try_upgrade(&self) -> bool {
        // SAFETY: the caller has the lock.
        taken(&self.facts, Location::caller(), unsafe { self.inner.try_upgrade() })
    }
}

// SAFETY: as above.
unsafe impl lock_api::RawRwLockUpgradeDowngrade for RawRwLock {
    #[inline]
    unsafe fn downgrade_upgradable(&self) {
        // SAFETY: the caller has the lock.
        unsafe { self.inner.downgrade_upgradable() }
    }

    #[inline]
    unsafe fn downgrade_to_upgradable(&self) {
        // SAFETY: the caller has the lock.
        unsafe { self.inner.downgrade_to_upgradable() }
    }
}

/// A condition variable, like `parking_lot::Condvar`, that records waits and notifications.
pub struct Condvar {
    inner: parking_lot::Condvar,
    facts: ConditionFacts,
}

impl Condvar {
    /// Makes a condition variable. `tracemerge locks` names it by the position of this call in the source.
    #[inline]
    #[must_use]
    #[track_caller]
    pub const fn new() -> Condvar {
        Condvar { inner: parking_lot::Condvar::new(), facts: ConditionFacts::new(Location::caller()) }
    }

    /// Wakes one waiting thread. Returns whether a thread was waiting.
    #[inline]
    #[track_caller]
    pub fn notify_one(&self) -> bool {
        self.facts.notify(false, Location::caller());
        self.inner.notify_one()
    }

    /// Wakes all waiting threads. Returns the number of threads that were waiting.
    #[inline]
    #[track_caller]
    pub fn notify_all(&self) -> usize {
        self.facts.notify(true, Location::caller());
        self.inner.notify_all()
    }

    /// Releases the mutex, waits for a notification, and locks the mutex again.
    ///
    /// # Panics
    /// Panics if another mutex is used with this condition variable at the same time.
    #[track_caller]
    pub fn wait<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>) {
        self.wait_using(guard, Location::caller(), |inner, guard| {
            inner.wait(guard);
            false
        });
    }

    /// Waits as [`wait`](Condvar::wait) does, at most until `timeout`.
    ///
    /// # Panics
    /// Panics if [`wait`](Condvar::wait) would.
    #[track_caller]
    pub fn wait_until<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        timeout: Instant,
    ) -> WaitTimeoutResult {
        let mut result = None;
        self.wait_using(guard, Location::caller(), |inner, guard| {
            result.insert(inner.wait_until(guard, timeout)).timed_out()
        });
        // There always is a result: the value for an empty option is never used.
        result.unwrap_or_else(timed_out_result)
    }

    /// Waits as [`wait`](Condvar::wait) does, at most for `timeout`.
    ///
    /// # Panics
    /// Panics if [`wait`](Condvar::wait) would.
    #[track_caller]
    pub fn wait_for<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>, timeout: Duration) -> WaitTimeoutResult {
        let mut result = None;
        self.wait_using(guard, Location::caller(), |inner, guard| {
            result.insert(inner.wait_for(guard, timeout)).timed_out()
        });
        result.unwrap_or_else(timed_out_result)
    }

    /// Waits while `condition` returns true.
    ///
    /// # Panics
    /// Panics if `condition` does, or if [`wait`](Condvar::wait) would.
    #[track_caller]
    pub fn wait_while<T, F>(&self, guard: &mut MutexGuard<'_, T>, mut condition: F)
    where
        T: ?Sized,
        F: FnMut(&mut T) -> bool,
    {
        while condition(&mut **guard) {
            self.wait(guard);
        }
    }

    /// Waits while `condition` returns true, at most until `timeout`. The result is a timeout only if `condition` still
    /// returned true at the end of that time.
    ///
    /// # Panics
    /// Panics if `condition` does, or if [`wait`](Condvar::wait) would.
    #[track_caller]
    pub fn wait_while_until<T, F>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        mut condition: F,
        timeout: Instant,
    ) -> WaitTimeoutResult
    where
        T: ?Sized,
        F: FnMut(&mut T) -> bool,
    {
        let mut last = None;
        while condition(&mut **guard) {
            let result = self.wait_until(guard, timeout);
            last = Some(result);
            if result.timed_out() {
                // The result is a timeout only if the condition still holds.
                return if condition(&mut **guard) { result } else { not_timed_out_result() };
            }
        }
        last.unwrap_or_else(not_timed_out_result)
    }

    /// Waits while `condition` returns true, at most for `timeout`. The result is a timeout only if `condition` still
    /// returned true at the end of that time.
    ///
    /// # Panics
    /// Panics if `condition` does, or if [`wait`](Condvar::wait) would.
    #[track_caller]
    pub fn wait_while_for<T, F>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        condition: F,
        timeout: Duration,
    ) -> WaitTimeoutResult
    where
        T: ?Sized,
        F: FnMut(&mut T) -> bool,
    {
        // A century, used if the end is later than a clock can express.
        const LONG: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
        let now = Instant::now();
        let end = now.checked_add(timeout).or_else(|| now.checked_add(LONG)).unwrap_or(now);
        self.wait_while_until(guard, condition, end)
    }

    /// Waits by the closure `wait`, which gets the guard of the inner lock and returns whether the wait has timed out.
    /// Records the beginning and the end of the wait.
    fn wait_using<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        place: SourceLocation,
        wait: impl FnOnce(&parking_lot::Condvar, &mut parking_lot::MutexGuard<'_, ()>) -> bool,
    ) {
        // SAFETY: the raw lock is used only for its facts, and for a guard of the lock that is held.
        let raw = unsafe { MutexGuard::mutex(guard).raw() };
        let waiting = self.facts.wait(&raw.facts, place);
        // SAFETY: this thread has the lock, as `guard` shows. The guard that is made here is never dropped, so the
        // lock is released once, by `guard`.
        let mut inner = ManuallyDrop::new(unsafe { raw.inner.make_guard_unchecked() });
        let over = wait(&self.inner, &mut inner);
        if let Some(waiting) = waiting {
            waiting.end(over, &raw.facts, place);
        }
    }
}

/// Returns a `WaitTimeoutResult` that has timed out.
fn timed_out_result() -> WaitTimeoutResult {
    let (mutex, condition) = (parking_lot::Mutex::new(()), parking_lot::Condvar::new());
    condition.wait_for(&mut mutex.lock(), Duration::ZERO)
}

/// Returns a `WaitTimeoutResult` that has not timed out. The value comes from a call of `parking_lot`, which alone can
/// make one.
fn not_timed_out_result() -> WaitTimeoutResult {
    let (mutex, condition) = (parking_lot::Mutex::new(()), parking_lot::Condvar::new());
    condition.wait_while_for(&mut mutex.lock(), |()| false, Duration::MAX)
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
