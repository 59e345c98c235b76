//! Signals. While an application runs that this process has started, this process ignores signals from the keyboard,
//! because the application gets them, too. It passes other signals on to the application. While no application runs, a
//! signal ends this process, which deletes its unfinished output first.
//!
//! A signal that was sent to both processes may reach this process after it has already ended the application. Such a
//! signal must not end the merge of the application's traces, so a signal that arrives within half a second of the
//! application's end counts as sent to the application.
//!
//! Signals that were ignored from the start (`nohup`) stay ignored, here and in the application. A separate thread
//! handles signals, so no code here runs in a signal handler.

#[cfg(unix)]
pub(crate) use unix::{Signals, interruption, keep_interrupts_from_this_process, signal_name};

#[cfg(not(unix))]
pub(crate) use elsewhere::{Signals, interruption, keep_interrupts_from_this_process};

/// The time after the application's end within which a signal still counts as sent to both processes: the application
/// and this one.
const LATE: std::time::Duration = std::time::Duration::from_millis(500);

#[cfg(unix)]
mod unix {
    use std::io;
    use std::process::{Command, ExitStatus};
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Arc, mpsc};
    use std::thread;
    use std::time::Instant;

    use parking_lot::Mutex;
    use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
    use signal_hook::iterator;
    use signal_hook::low_level::emulate_default_handler;
    pub(crate) use signal_hook::low_level::signal_name;

    use super::LATE;
    use crate::os::sys::{is_ignored, send_signal, set_on_signal, wait_until_ended};
    use crate::os::unfinished::discard_unfinished;

    /// The state of the application to which this process passes signals on.
    #[derive(Clone, Copy, PartialEq, Eq)]
    enum Application {
        /// The application runs with this pid. No other process can get the pid, because this process has not reaped
        /// the application yet.
        Running(u32),
        /// The application ended at this time, and signals that were sent to both processes may still come.
        Ended(Instant),
        /// No application runs, so a signal ends this process.
        Absent,
    }

    /// Whether a pager runs. Interrupts from the keyboard are then meant for the pager.
    static PAGING: AtomicBool = AtomicBool::new(false);

    /// Keeps interrupts from the keyboard from ending this process from now on, because a pager runs and has the
    /// terminal.
    pub(crate) fn keep_interrupts_from_this_process() {
        PAGING.store(true, Ordering::Relaxed);
    }

    /// The signals that this process handles for the rest of its life.
    pub(crate) struct Signals {
        application: Arc<Mutex<Application>>,
    }

    impl Signals {
        /// From now on, handles the signals with which users end processes. If this fails, the signals keep their
        /// default effect.
        pub(crate) fn take() -> Signals {
            let application = Arc::new(Mutex::new(Application::Absent));
            let wanted = [SIGINT, SIGQUIT, SIGTERM, SIGHUP].into_iter().filter(|&signal| !is_ignored(signal));
            let shared = Arc::clone(&application);
            let (taken, wait) = mpsc::channel();
            // The thread itself takes the signals, so that they are not taken if the thread cannot start.
            let work = move || {
                let signals = iterator::Signals::new(wanted);
                drop(taken);
                signals.into_iter().for_each(|mut signals| {
                    signals.forever().for_each(|signal| handle(signal, &shared));
                });
            };
            if thread::Builder::new().spawn(work).is_ok() {
                // The wait ends when the signals are taken: the channel closes, and nothing is ever sent.
                let _: Result<(), _> = wait.recv();
            }
            Signals { application }
        }

        /// Runs `command` to its end. Returns its pid and its exit status.
        pub(crate) fn run(&self, command: &mut Command) -> io::Result<(u32, ExitStatus)> {
            let mut state = self.application.lock();
            let mut child = command.spawn()?;
            let pid = child.id();
            *state = Application::Running(pid);
            drop(state);
            let ended = wait_until_ended(pid);
            // The pid is forgotten before the child is reaped, so that no signal goes to another process that gets
            // the pid.
            *self.application.lock() = Application::Ended(Instant::now());
            ended?;
            Ok((pid, child.wait()?))
        }
    }

    /// Returns a flag that becomes true when a signal asks this process to end. A second such signal ends the process
    /// at once.
    pub(crate) fn interruption() -> Arc<AtomicBool> {
        let word = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|&signal| !is_ignored(signal)) {
            // A signal that cannot be taken keeps its usual effect.
            let _ = set_on_signal(signal, Arc::clone(&word));
        }
        word
    }

    fn handle(signal: i32, application: &Mutex<Application>) {
        // The lock is held while the signal is sent. While the application is being started, this waits for the lock.
        let state = application.lock();
        match *state {
            Application::Running(pid) if signal == SIGTERM || signal == SIGHUP => send_signal(pid, signal),
            Application::Running(_) => {}
            Application::Ended(at) if at.elapsed() < LATE => {}
            Application::Ended(_) | Application::Absent
                if signal == SIGINT && PAGING.load(Ordering::Relaxed) => {}
            Application::Ended(_) | Application::Absent => {
                discard_unfinished();
                let _ = emulate_default_handler(signal);
            }
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        /// If the tested code fails, the signal ends the process of the tests.
        #[test]
        fn an_interrupt_is_left_to_the_pager_even_after_the_application() {
            keep_interrupts_from_this_process();
            let ended = Instant::now().checked_sub(2 * LATE).expect("a time at which the system ran");
            for state in [Application::Absent, Application::Ended(ended)] {
                handle(SIGINT, &Mutex::new(state));
            }
        }
    }
}

#[cfg(not(unix))]
mod elsewhere {
    use std::io;
    use std::process::{Command, ExitStatus};
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Arc, OnceLock};
    use std::thread;
    use std::time::{Duration, Instant};

    use super::LATE;
    use crate::os::sys::handle_interrupts;
    use crate::os::unfinished::discard_unfinished;

    /// The time for which a merge may continue after the console was closed. The system ends each process of a console
    /// five seconds after it has notified the process of the closing, and unfinished output has to be discarded before
    /// that.
    const AFTER_CLOSING: Duration = Duration::from_secs(4);

    /// Whether Ctrl-C and Ctrl-Break are meant for a process that this one has started: the console notifies both
    /// processes.
    static FOR_ANOTHER: AtomicBool = AtomicBool::new(false);
    /// Whether this process runs an application, or has run one and merges its traces.
    static RUNS: AtomicBool = AtomicBool::new(false);
    /// The time at which the application that this process ran has ended.
    static ENDED: OnceLock<Instant> = OnceLock::new();
    /// The flag that [`interruption`] returns.
    static INTERRUPTION: OnceLock<Arc<AtomicBool>> = OnceLock::new();

    /// Handles a request to end this process, from the keyboard or because the console was closed. Returns whether this
    /// process continues.
    fn decide(from_keyboard: bool) -> bool {
        let is_late = || ENDED.get().is_some_and(|ended| ended.elapsed() < LATE);
        if from_keyboard && (FOR_ANOTHER.load(Ordering::Acquire) || is_late()) {
            return true;
        }
        if from_keyboard && INTERRUPTION.get().is_some_and(|word| !word.swap(true, Ordering::Relaxed)) {
            return true;
        }
        // Closing the console ends the application, too. This thread ends with `main`, after the traces are merged.
        if !from_keyboard && RUNS.load(Ordering::Relaxed) {
            thread::sleep(AFTER_CLOSING);
        }
        discard_unfinished();
        false
    }

    /// Returns a flag that becomes true when Ctrl-C or Ctrl-Break is pressed. The second press ends the process at
    /// once.
    pub(crate) fn interruption() -> Arc<AtomicBool> {
        handle_interrupts(decide);
        Arc::clone(INTERRUPTION.get_or_init(Arc::default))
    }

    /// Keeps interrupts from the keyboard from ending this process from now on, because a pager runs and has the
    /// console.
    pub(crate) fn keep_interrupts_from_this_process() {
        handle_interrupts(decide);
        FOR_ANOTHER.store(true, Ordering::Relaxed);
    }

    /// The interrupts that this process handles for the rest of its life.
    pub(crate) struct Signals;

    impl Signals {
        /// Handles interrupts in this process from now on. If this fails, the interrupts keep their default effect.
        pub(crate) fn take() -> Signals {
            handle_interrupts(decide);
            Signals
        }

        /// Runs `command` to its end. Returns its pid and its exit status.
        pub(crate) fn run(&self, command: &mut Command) -> io::Result<(u32, ExitStatus)> {
            RUNS.store(true, Ordering::Relaxed);
            FOR_ANOTHER.store(true, Ordering::Relaxed);
            let ended = command.spawn().and_then(|mut child| Ok((child.id(), child.wait()?)));
            // A thread that sees that the interrupts are for this process again also sees the time.
            let _ = ENDED.set(Instant::now());
            FOR_ANOTHER.store(false, Ordering::Release);
            ended
        }
    }
}
