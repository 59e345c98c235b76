//! A pool of ready rings. The flusher puts rings into it, and threads take rings from it, each with one
//! compare-exchange.
#![allow(unsafe_code, reason = "gives back references that were put in as pointers")]

use std::ptr;
#[cfg(not(loom))]
use std::sync::atomic::{AtomicPtr, Ordering};

#[cfg(loom)]
use loom::sync::atomic::{AtomicPtr, Ordering};

/// A lock-free pool of up to `N` references. A thread that takes a reference is the only one that has it.
///
/// ```text
///         put: compare_exchange, Release          take: compare_exchange, Acquire
///   null ────────────────────────────────► a T ────────────────────────────────────► null
/// ```
///
/// Release and Acquire: a thread that takes a reference sees all that was done to its target before the reference was
/// put into the pool. If other threads take a reference and put it back between a thread's load and its
/// compare-exchange, the compare-exchange succeeds all the same. That is harmless, because the reference is in the pool
/// again.
#[derive(Debug)]
pub(crate) struct ReadyPool<T: 'static, const N: usize>([AtomicPtr<T>; N]);

impl<T, const N: usize> ReadyPool<T, N> {
    pub(crate) fn new() -> ReadyPool<T, N> {
        ReadyPool(std::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())))
    }

    /// Takes a reference, if there is one. Also returns how many references are left in the pool. This is
    /// async-signal-safe.
    pub(crate) fn take(&self) -> Option<(&'static T, usize)> {
        let mut taken = None;
        let mut left = 0;
        for place in &self.0 {
            let thing = place.load(Ordering::Relaxed);
            if thing.is_null() {
                continue;
            }
            let claim =
                || place.compare_exchange(thing, ptr::null_mut(), Ordering::Acquire, Ordering::Relaxed);
            if taken.is_none() && claim().is_ok() {
                taken = Some(thing);
            } else {
                left += 1;
            }
        }
        // SAFETY: `put` was given a reference that is good for ever, or until the thread that takes it out frees it.
        taken.map(|thing| (unsafe { &*thing }, left))
    }

    /// Adds a reference. Returns false if the pool is full.
    pub(crate) fn put(&self, thing: &'static T) -> bool {
        let thing = ptr::from_ref(thing).cast_mut();
        self.0.iter().any(|place| {
            place.compare_exchange(ptr::null_mut(), thing, Ordering::Release, Ordering::Relaxed).is_ok()
        })
    }

    /// Returns the number of references in the pool.
    pub(crate) fn count(&self) -> usize {
        self.0.iter().filter(|place| !place.load(Ordering::Relaxed).is_null()).count()
    }
}
