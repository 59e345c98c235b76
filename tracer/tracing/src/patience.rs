//! Takes a lock, but does not wait for it for ever.

use std::sync::{Mutex, MutexGuard, TryLockError};
use std::time::Duration;

/// Takes a lock; returns `None` if that takes longer than a tenth of a second. In a forked child, the thread that holds
/// the lock may not exist, so that the lock is never released.
pub(crate) fn lock<T>(of: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    for _ in 0..1000 {
        match of.try_lock() {
            Ok(guard) => return Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_micros(100)),
        }
    }
    None
}
