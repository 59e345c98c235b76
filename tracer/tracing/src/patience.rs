//! Taking a lock, with a limit of the wait.

use std::sync::{Mutex, MutexGuard, TryLockError};
use std::time::Duration;

/// Takes a lock; gives up after a tenth of a second: in a forked child, the thread that holds the lock may not exist.
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
