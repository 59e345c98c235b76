//! Locks that record who waits for whom, where, and how long: [`Mutex`], [`RwLock`] and [`Condvar`] with the API of
//! `std`.
//!
//! ```
//! use tracer::sync::Mutex;
//!
//! static TOTAL: Mutex<u64> = Mutex::new(0);
//!
//! *TOTAL.lock().unwrap() += 1;
//! ```
//!
//! They are the locks of `std` with a few words beside them: fairness, poisoning and what may be done where are the
//! same. With the feature `parking_lot` the module `parking_lot` has those of that crate.
//!
//! # What is recorded
//!
//! A lock that is free is taken without a record. A thread that finds it taken records that it waits, for which lock,
//! where, and who holds it since which call, as far as that is known; then that it has got it, and after how many
//! nanoseconds. A wait at a [`Condvar`] is always recorded, and so is each notification, also one that finds nobody
//! waiting: that is how a lost one is found.
//!
//! Places are those of the calls in the program (`#[track_caller]`). A lock gets its number when somebody waits for it
//! the first time; numbers are not used again in a process. `TRACER_FILTER=tracer::sync=off` leaves the records out.
//!
//! # What is not known
//!
//! * Who holds a lock is a word beside it that is written behind the lock and cleared before it is let go. Whoever comes
//!   in between is told of nobody. Of several readers one is known: the last one that came, until it goes.
//! * What was locked while tracing was off has no known holder.
//! * In a forked child the thread that has forked keeps its parent's number as a holder until it waits the first time.
//! * Which of several threads a notification wakes, the system does not tell: they are paired in the order in which they
//!   come.

mod condvar;
mod guards;
mod holder;
mod mutex;
mod notices;
#[cfg(feature = "parking_lot")]
pub mod parking_lot;
mod records;
mod rwlock;

pub use condvar::Condvar;
pub use guards::{MutexGuard, RwLockReadGuard, RwLockWriteGuard};
pub use mutex::Mutex;
pub use rwlock::RwLock;
pub use std::sync::{LockResult, PoisonError, TryLockError, TryLockResult, WaitTimeoutResult};
