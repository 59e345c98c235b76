//! A panic of a program whose rings are flight recorders: what they hold is written.
//!
//! Runs on the panicking thread, after the program's own panic hook.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::shared::process;
use crate::shared::run::Run;
use crate::sys;
use crate::user::config::FullPolicy;

/// The time that a panic waits for its snapshot: with a panic that ends the process nothing is lost by not
/// waiting, for recovery finds the rings.
const PATIENCE: Duration = Duration::from_secs(2);

/// Adds the snapshot to the program's panic hook, once, where the run's rings are overwritten. A hook that is
/// set later and does not call the one before it takes it away again.
pub(crate) fn arm(run: &Run) {
    // No `Once`: if a signal handler jumps out of this, who comes next has to do it, and must not wait. That
    // two threads do it at once harms nothing; it takes a decision that was taken over.
    static ARMED: AtomicBool = AtomicBool::new(false);
    // A panicking thread may not touch the hook.
    let wanted = run.config.full_policy == FullPolicy::Overwrite && !std::thread::panicking();
    if wanted && !ARMED.load(Ordering::Relaxed) {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            before(info);
            on_panic();
        }));
        // Relaxed: only says that nothing is left to do.
        ARMED.store(true, Ordering::Relaxed);
    }
}

fn on_panic() {
    let run = process::current().filter(|run| run.is_of_this_process() && !run.is_closed());
    let Some(run) = run.filter(|run| run.config.full_policy == FullPolicy::Overwrite) else { return };
    let request = run.panic_request.wanted.fetch_add(1, Ordering::Release).wrapping_add(1);
    let start = sys::monotonic_ns();
    loop {
        run.wake.wake();
        let done = run.panic_request.done.load(Ordering::Acquire);
        // Requests are carried out together: one that came later may have been done with this one.
        let behind = request.wrapping_sub(done) as i32;
        if behind <= 0 || u128::from(sys::monotonic_ns().saturating_sub(start)) > PATIENCE.as_nanos() {
            return;
        }
        sys::wait_word(&run.panic_request.done, done, Duration::from_millis(50));
    }
}
