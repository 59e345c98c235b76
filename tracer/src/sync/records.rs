//! Makes the records of locks and condition variables. The records are of a kind of their own (`docs/trace-format.md`),
//! which `tracemerge locks` reads.
//!
//! The functions run on traced threads that wait, that notify, or that were woken.

use std::fmt;

use trace_format::locks::{LockRecord, LockWait};

use super::holder::{Holder, SourceLocation, is_off};
use crate::shared::sites::Site;
use crate::traced::lock_record::{record_lock, switch_of};

/// The site by which the filter switches the records of locks on or off.
static SWITCH: Site = switch_of("tracer::sync::records");

/// The maximum number of bytes of a source file's path in a record: three positions have to fit into one record.
const MAX_PATH_BYTES: usize = 240;

/// A position in the source as records show it, `FILE:LINE`. Of a long path only the end is shown; an unknown position
/// is `?:0`.
struct PlaceText(Option<SourceLocation>);

impl fmt::Display for PlaceText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(place) = self.0 else { return f.write_str("?:0") };
        let file = place.file();
        let mut start = file.len().saturating_sub(MAX_PATH_BYTES);
        while !file.is_char_boundary(start) {
            start += 1;
        }
        write!(f, "{}:{}", file.get(start..).unwrap_or_default(), place.line())
    }
}

#[cold]
fn record(what: &LockRecord<'_, PlaceText>) {
    if !is_off() {
        record_lock(&SWITCH, format_args!("{what}"));
    }
}

/// Records that the thread waits for the lock with the number `id`, in the call at `at`.
pub(super) fn wait(
    id: u64,
    wanted_access: &'static str,
    made: Option<SourceLocation>,
    at: SourceLocation,
    holder: Holder,
) {
    let (made, at, since) = (PlaceText(made), PlaceText(Some(at)), PlaceText(holder.since));
    record(&LockRecord::Wait(LockWait { id, wanted_access, made, at, holder: holder.thread.into(), since }));
}

/// Records that the thread has got the lock that it waited for, after `ns` nanoseconds.
pub(super) fn got(id: u64, ns: u64) {
    record(&LockRecord::Got { id, ns });
}

/// Records that the thread has given up its wait for the lock, after `ns` nanoseconds.
#[cfg(feature = "parking_lot")]
pub(super) fn gave_up(id: u64, ns: u64) {
    record(&LockRecord::GaveUp { id, ns });
}

/// Records that the thread waits for a notification at the condition variable `id`, and has released the lock `lock`.
pub(super) fn condvar_wait(id: u64, lock: u64, made: SourceLocation, at: SourceLocation) {
    record(&LockRecord::ConditionWait { id, lock, made: PlaceText(Some(made)), at: PlaceText(Some(at)) });
}

/// Records that the thread has the lock again, `ns` nanoseconds after its wait began: the notification with the number
/// `by` has woken it, or none if `by` is 0.
pub(super) fn condvar_woken(id: u64, by: u64, ns: u64) {
    record(&LockRecord::Woken { id, by, ns });
}

/// Records that the thread's wait at the condition variable `id` has timed out and that it has the lock again, `ns`
/// nanoseconds after its wait began. `by` is the number of the notification that the thread has taken, or 0.
pub(super) fn condvar_timeout(id: u64, by: u64, ns: u64) {
    record(&LockRecord::Timeout { id, by, ns });
}

/// Records a notification of one waiting thread, or of all if `all` is true. The notification is for `wakes` threads,
/// and has a number for each of them, from `first` on.
pub(super) fn condvar_notify(
    id: u64,
    all: bool,
    first: u64,
    wakes: u64,
    made: SourceLocation,
    at: SourceLocation,
) {
    record(&LockRecord::Notify {
        id,
        all,
        first,
        wakes,
        made: PlaceText(Some(made)),
        at: PlaceText(Some(at)),
    });
}
