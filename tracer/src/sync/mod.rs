//! Locks that record which thread waits for which, where, and how long: [`Mutex`], [`RwLock`] and [`Condvar`] with
//! the API of `std`.
//!
//! ```
//! use tracer::sync::Mutex;
//!
//! static TOTAL: Mutex<u64> = Mutex::new(0);
//!
//! *TOTAL.lock().unwrap() += 1;
//! ```
//!
//! Each lock is a lock of `std` with a few words of memory beside it: fairness, poisoning, and the operations allowed
//! in each place are the same. With the feature `parking_lot` the module `parking_lot` has the locks of that crate.
//!
//! # Records
//!
//! Taking a free lock makes no record. A thread that finds the lock taken records that it waits, for which lock,
//! where, and which thread holds it since which call, as far as that is known. When it has got the lock, it records
//! that, and the wait in nanoseconds. A wait at a [`Condvar`] is always recorded, and so is each notification, even
//! if no thread waits: these records reveal lost notifications.
//!
//! Places are those of the calls in the program (`#[track_caller]`). A lock gets its number when a thread waits for
//! it for the first time; numbers are not used again in a process. `TRACER_FILTER=tracer::sync=off` leaves the
//! records out.
//!
//! # Limits
//!
//! * The holder of a lock is a word beside it that is written after the lock is taken and cleared before it is
//!   released. A thread that comes in between sees no holder. Of several readers only the last one that came is
//!   known, until it releases the lock.
//! * A lock that was taken while tracing was off has no known holder.
//! * In a forked child, the thread that has called `fork` is shown as a holder by the id that it had in the parent,
//!   until it waits for the first time.
//! * The system does not report which thread a notification wakes: notifications and threads are paired in the order
//!   in which they come.

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
