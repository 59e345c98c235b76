//! The start of a run: starts its flusher thread, and registers what is called at the end of threads, at the end of the
//! process, and at panics.
//!
//! The code runs on the thread that has decided, and on the flusher thread. If the flusher thread may begin much later,
//! the thread that has decided publishes the run, instead of the flusher.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::{exit, hooks, own_ring, panic, scope};
use crate::flusher;
use crate::ring::clock;
use crate::shared::process::{STATE, announce, set_current};
use crate::shared::run::Run;
use crate::shared::{pause, sites};
use crate::sys;
use crate::user::config::Config;
use crate::user::relay;
use crate::words::switch::Attempt;

/// Starts a run: makes the run and its flusher thread, which publishes the run and so ends the decision. If the thread
/// cannot be made, ends the decision with the answer no.
pub(super) fn start(attempt: Attempt, config: Config, root: Option<u32>) {
    // Measured before, because it takes time.
    let shortest = hooks::shortest(&config);
    match start_flusher(config, root, move |run| publish(attempt, run, shortest)) {
        // From here on only the flusher thread has to make progress.
        Ok(()) => _ = STATE.hand_over(attempt),
        Err(e) if STATE.end_off(attempt) => {
            announce();
            relay::say(format_args!("cannot start the flusher thread: {e}; tracing is off"));
        }
        Err(_) => {}
    }
}

/// Makes a run and its flusher thread, which first calls `publish`. If `publish` returns false, the run is not wanted,
/// and the thread ends without having made anything.
fn start_flusher(
    config: Config,
    root: Option<u32>,
    publish: impl FnOnce(&'static Run) -> bool + Send + 'static,
) -> io::Result<()> {
    let run = Run::prepare(config, root)?;
    sys::stay_loaded();
    panic::arm();
    let publish = move || {
        sys::create_exit_key(own_ring::on_thread_exit);
        sys::arm_exit_handler(exit::on_process_exit, exit::on_process_detach);
        publish(run)
    };
    if sys::THREADS_BEGIN_LATE {
        let decided: &'static AtomicU32 = Box::leak(Box::new(AtomicU32::new(UNDECIDED)));
        sys::spawn_hidden(Box::new(move || flusher::run(run, || is_wanted(decided))))?;
        decided.store(if publish() { WANTED } else { UNWANTED }, Ordering::Release);
        sys::wake_word(decided, 1);
        return Ok(());
    }
    // On the flusher thread, where no signal handler can jump out of it.
    sys::spawn_hidden(Box::new(move || flusher::run(run, publish)))
}

/// The states of a word by which the flusher thread learns whether its run is wanted. Used if the thread that starts
/// the run also publishes it: see [`sys::THREADS_BEGIN_LATE`].
///
/// ```text
/// UNDECIDED ──Release──► WANTED or UNWANTED, for ever
/// ```
const UNDECIDED: u32 = 0;
const WANTED: u32 = 1;
const UNWANTED: u32 = 2;

/// Waits until the run is published, or turns out not to be wanted; returns whether it is wanted. Called by the flusher
/// thread only.
fn is_wanted(decided: &AtomicU32) -> bool {
    loop {
        match decided.load(Ordering::Acquire) {
            UNDECIDED => sys::wait_word(decided, UNDECIDED, Duration::from_secs(1)),
            decided => return decided == WANTED,
        }
    }
}

/// Makes `run` the process's run, unless another thread has taken over the decision for which the run was made. Returns
/// whether it did. This is called before the run's flusher thread does anything else, and where no signal handler can
/// jump out of it: so a run that was made for nothing has changed nothing.
fn publish(attempt: Attempt, run: &'static Run, shortest: u64) -> bool {
    if !STATE.hand_over(attempt) {
        return false;
    }
    set_current(run);
    clock::set(run.config.clock);
    scope::set_call_sites(run.config.call_sites);
    hooks::set(&run.config, shortest);
    sites::begin(run.config.filter.clone());
    pause::begin(run.config.paused);
    if run.config.paused {
        sites::end();
    }
    STATE.settle(attempt, run.config.paused);
    announce();
    true
}
