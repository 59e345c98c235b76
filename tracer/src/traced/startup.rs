//! The start of a run: its flusher thread, and the hooks of thread exit, process exit and panics.
//!
//! Runs on the thread whose decision it was, and on the flusher thread.

use std::io;

use super::{exit, own_ring, panic, scope};
use crate::flusher;
use crate::ring::clock;
use crate::shared::process::{STATE, announce, set_current};
use crate::shared::run::Run;
use crate::shared::sites;
use crate::sync::switch::Attempt;
use crate::sys;
use crate::user::config::Config;
use crate::user::teller;

/// Starts a run: makes it, and the flusher thread that publishes it and so ends the decision; ends it for no
/// where that thread cannot be made.
pub(super) fn start(attempt: Attempt, config: Config, root: Option<u32>) {
    match start_flusher(config, root, move |run| publish(attempt, run)) {
        // From here on only that thread has to get on.
        Ok(()) => _ = STATE.hand_over(attempt),
        Err(e) if STATE.end_off(attempt) => {
            announce();
            teller::say(format_args!("cannot start the flusher thread: {e}; tracing is off"));
        }
        Err(_) => {}
    }
}

/// Makes a run and its flusher thread, which begins with `publish`; if that says that the run is not wanted,
/// the thread ends, and has made nothing.
fn start_flusher(
    config: Config,
    root: Option<u32>,
    publish: impl FnOnce(&'static Run) -> bool + Send + 'static,
) -> io::Result<()> {
    let (run, requests) = Run::prepare(config, root)?;
    sys::stay_loaded();
    panic::arm();
    sys::spawn_hidden(Box::new(move || {
        flusher::run(run, requests, || {
            // Here, where no signal handler can jump out of them.
            sys::create_exit_key(own_ring::on_thread_exit);
            sys::arm_exit_handler(exit::on_process_exit, exit::on_process_detach);
            publish(run)
        });
    }))
}

/// Makes `run` the process's, unless the decision that it was made for was taken over. For its flusher
/// thread, before it does anything else: no signal handler can jump out of this, and who was overtaken has
/// touched nothing.
fn publish(attempt: Attempt, run: &'static Run) -> bool {
    if !STATE.hand_over(attempt) {
        return false;
    }
    set_current(run);
    clock::set(run.config.clock);
    scope::set_call_sites(run.config.call_sites);
    sites::begin(run.config.filter.clone());
    STATE.settle(attempt);
    announce();
    true
}
