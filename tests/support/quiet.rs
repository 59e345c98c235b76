//! The turns of the tests that need more of the machine than other tests do. The tests of several
//! crates include this file through symbolic links, so that it is in each published package.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Returns a turn, which ends when it is dropped. A test takes one if it measures time or memory, or keeps all
/// processors busy for long: no other such test of this process runs meanwhile.
pub fn quiet() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}
