//! The end of the process: puts all records into the files, without a call by the program.
//!
//! This runs at `exit()`, on the thread that has called `exit`, after the handlers of `atexit`. Other threads may still
//! run and trace; the flusher drains their records as long as the process lives.
//!
//! On Windows the system ends all other threads before the last actions of the process, and some ends of a process do
//! not go through `exit()`. There, the last thread does the work of a recoverer.

use std::sync::atomic::Ordering;
use std::time::Duration;

use trace_format::meta::EndReason;
use trace_store::recovery;

use super::own_ring;
use crate::ring::clock;
use crate::shared::process;
use crate::shared::run::Run;
use crate::sys;
use crate::words::exclusion::Excluded;

/// The longest time without progress by the flusher for which the exit of the process waits. As long as the flusher
/// makes progress, the exit goes on waiting.
const MAX_WAIT: Duration = Duration::from_secs(2);

/// Makes the flusher drain all rings and end the files, and waits until that is done. The files are not ended here if
/// [`on_process_detach`] will end them. Does nothing in a forked child that has not traced.
pub(crate) fn on_process_exit() {
    let Some(run) = process::running() else {
        return;
    };
    wait_for_flusher(run);
    // The relay's thread may no longer run.
    run.relay.print_all_lines();
}

/// Writes the contents of the rings to the files, on the last thread of the process: the flusher thread no longer runs.
pub(crate) fn on_process_detach() {
    let Some(run) = process::running() else {
        return;
    };
    // The functions called here may trace.
    let _excluded = Excluded::enter();
    let runtime = run.config.runtime_directory.clone().unwrap_or_else(sys::runtime_directory);
    // This thread has called `exit`: it is the main one if `main` has returned or panicked.
    let cause = run.cause_of_exit(sys::thread_id());
    // Rings that cannot be written are left for a recoverer.
    let _ = recovery::drain_own(&runtime, sys::process_id(), run.id, clock::now, cause);
}

fn wait_for_flusher(run: &Run) {
    let exit = &run.exit;
    let ends_later = run.is_ended_by_last_thread();
    exit.requested.store(1, Ordering::Release);
    if let Some(excluded) = Excluded::enter().filter(|_| !ends_later) {
        own_ring::leave(&excluded, EndReason::Exit);
    }
    let mut seen = exit.progress.load(Ordering::Relaxed);
    let mut since = sys::monotonic_ns();
    while exit.finished.load(Ordering::Acquire) == 0 {
        run.wake.wake();
        sys::wait_word(&exit.finished, 0, Duration::from_millis(50));
        let progress = exit.progress.load(Ordering::Relaxed);
        let now = sys::monotonic_ns();
        if progress != seen {
            (seen, since) = (progress, now);
        } else if u128::from(now.saturating_sub(since)) > MAX_WAIT.as_nanos() {
            return;
        }
    }
}
