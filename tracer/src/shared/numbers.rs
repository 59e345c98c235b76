//! Numbers of spans and of locks, unique in the process.
//!
//! Any thread may take numbers. If another copy of the library owns the process, that copy gives the numbers.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::copies::{self, interface};

/// The kinds of numbers that are unique among all copies of the library; each kind begins at 1.
#[derive(Clone, Copy, Debug)]
#[repr(u32)]
pub(crate) enum Numbers {
    /// The ids of spans.
    Spans = interface::SPANS,
    /// The numbers of locks and of condition variables.
    Locks = interface::LOCKS,
}

/// The last number of each kind that was given. Relaxed: numbers only have to differ.
static LAST: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

/// Reserves `count` consecutive numbers of this kind; returns the first of them.
pub(crate) fn take(kind: Numbers, count: u64) -> u64 {
    match copies::joined() {
        Some(owner) => owner.numbers(kind as u32, count),
        None => LAST[kind as usize].fetch_add(count, Ordering::Relaxed) + 1,
    }
}
