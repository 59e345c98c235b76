//! A word by which a thread wakes the flusher, or the flusher wakes a waiting thread. Waking is async-signal-safe, and
//! takes at most one system call.

#[cfg(not(loom))]
use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::time::Duration;

#[cfg(loom)]
use loom::sync::atomic::{AtomicU32, Ordering, fence};

#[cfg(not(loom))]
use crate::sys::{wait_word, wake_word};

/// Sleeps while `word` is `expected`, in the model checker, where no time passes: a wait with a timeout of less than a
/// second ends at once, and a wait with a longer timeout only when the word has changed.
#[cfg(loom)]
fn wait_word(word: &AtomicU32, expected: u32, timeout: Duration) {
    while timeout >= Duration::from_secs(1) && word.load(Ordering::Relaxed) == expected {
        loom::thread::yield_now();
    }
}

#[cfg(loom)]
fn wake_word(_word: &AtomicU32, _count: i32) {}

/// The state of [`Wake`] in which the sleeper is awake.
const AWAKE: u32 = 0;
/// The state of [`Wake`] in which the sleeper sleeps, or is about to.
const ASLEEP: u32 = 2;
/// The state of [`Wake`] in which the sleeper was woken, or must not fall asleep.
const WOKEN: u32 = 1;

/// A flag on which one thread can sleep until another sets it.
///
/// ```text
///            sleep() begins (swap, Acquire)
///   AWAKE ──────────────────────────────────► ASLEEP
///    │ ▲  ◄──────────────────────────────────  │
///    │ │     its time is over (swap, Acquire)  │ wake() (swap, Release; system call)
///    │ │                                       ▼
///    │ └─────────────────────────────────── WOKEN
///    │    sleep() returns (swap, Acquire)      ▲
///    └─────────────────────────────────────────┘
///         wake() (swap, Release; no system call)
/// ```
///
/// `wake` makes no system call if the thread does not sleep, and stores nothing if the flag is set already. What a
/// thread has done before `wake` is visible to the sleeper after `sleep` (Release and Acquire).
///
/// A signal handler of the sleeper may sleep on the same flag: then the outer sleep ends, too.
#[derive(Debug, Default)]
pub(crate) struct Wake(AtomicU32);

impl Wake {
    /// Wakes the sleeper, or keeps it from falling asleep. This is async-signal-safe.
    pub(crate) fn wake(&self) {
        // A sleeper whose flag is found set sees the caller's earlier actions.
        fence(Ordering::SeqCst);
        if self.0.load(Ordering::Relaxed) != WOKEN && self.0.swap(WOKEN, Ordering::Release) == ASLEEP {
            wake_word(&self.0, i32::MAX);
        }
    }

    /// Sleeps until another thread calls [`wake`](Wake::wake), at most for `timeout`. A timeout of zero only clears the
    /// flag.
    pub(crate) fn sleep(&self, timeout: Duration) {
        // If a waker comes between the two swaps of a sleeper that was woken before, its system call finds no sleeper.
        if !timeout.is_zero() && self.0.swap(ASLEEP, Ordering::Acquire) != WOKEN {
            wait_word(&self.0, ASLEEP, timeout);
        }
        self.0.swap(AWAKE, Ordering::Acquire);
        // The other half of the fence in `wake`: the actions of a waker that found the flag set are visible to the
        // reads after this.
        fence(Ordering::SeqCst);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn a_wake_before_the_sleep_is_not_missed_and_one_during_it_ends_it() {
        let wake = Wake::default();
        let start = Instant::now();
        wake.wake();
        wake.wake();
        wake.sleep(Duration::from_secs(60));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(20));
                wake.wake();
            });
            wake.sleep(Duration::from_secs(60));
        });
        assert!(start.elapsed() < Duration::from_secs(30));
    }
}
