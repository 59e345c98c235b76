//! The records of locks: messages of a fixed form, `docs/trace-format.md`, which `tracemerge locks` reads.
//!
//! Runs on traced threads that wait, notify or were woken. Each is a call of [`trace!`](crate::trace), with values that
//! have names.

use super::holder::{Holder, Spot};

/// Returns a place in two parts, file and line; one that is not known is `?` and 0.
fn parts(place: Option<Spot>) -> (&'static str, u32) {
    place.map_or(("?", 0), |place| (place.file(), place.line()))
}

/// Records that the thread waits for a lock.
pub(super) fn wait(id: u64, wish: &'static str, made: Option<Spot>, at: Spot, holder: Holder) {
    let ((made, made_line), (at, at_line)) = (parts(made), parts(Some(at)));
    let (holder, (since, since_line)) = (holder.thread, parts(holder.since));
    crate::trace!(
        "lock wait id={id} for={wish} made=\"{made}:{made_line}\" at=\"{at}:{at_line}\" holder={holder} \
         since=\"{since}:{since_line}\""
    );
}

/// Records that the thread has got the lock that it waited for, after `ns` nanoseconds.
pub(super) fn got(id: u64, ns: u64) {
    crate::trace!("lock got id={id} ns={ns}");
}

/// Records that the thread waits for the lock no longer.
#[cfg(feature = "parking_lot")]
pub(super) fn gave_up(id: u64, ns: u64) {
    crate::trace!("lock gave_up id={id} ns={ns}");
}

/// Records that the thread waits for a notification, and has let go of a lock.
pub(super) fn condvar_wait(id: u64, lock: u64, made: Spot, at: Spot) {
    let ((made, made_line), (at, at_line)) = (parts(Some(made)), parts(Some(at)));
    crate::trace!("condvar wait id={id} lock={lock} made=\"{made}:{made_line}\" at=\"{at}:{at_line}\"");
}

/// Records that the thread has the lock again: the notification with the number `by` has woken it, or none (0).
pub(super) fn condvar_woken(id: u64, by: u64, ns: u64) {
    crate::trace!("condvar woken id={id} by={by} ns={ns}");
}

/// Records that the time was over and the thread has the lock again; `by` as in [`condvar_woken`].
pub(super) fn condvar_timeout(id: u64, by: u64, ns: u64) {
    crate::trace!("condvar timeout id={id} by={by} ns={ns}");
}

/// Records a notification of so many waiting threads; the first has the number `first`.
pub(super) fn condvar_notify(id: u64, to: &'static str, first: u64, wakes: u64, made: Spot, at: Spot) {
    let ((made, made_line), (at, at_line)) = (parts(Some(made)), parts(Some(at)));
    crate::trace!(
        "condvar notify id={id} to={to} first={first} wakes={wakes} made=\"{made}:{made_line}\" at=\"{at}:{at_line}\""
    );
}
