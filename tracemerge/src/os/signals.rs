//! Signals. While an application runs, this process ignores those from the keyboard, which reach the
//! application by themselves, and passes others on to it. Otherwise a signal ends this process, with nothing
//! half-written left behind.
//!
//! A signal that ends both may come here when the application has ended of it already, and is not to end its merge. So one
//! that comes within half a second of the application's end is the application's, too.
//!
//! Signals that were ignored from the start (`nohup`) stay ignored, here and in the application. A thread of
//! its own handles signals, so nothing here runs in a signal handler.

#[cfg(unix)]
pub use unix::{Signals, interruption, keep_interrupts_from_this_process, signal_name};

#[cfg(not(unix))]
pub use elsewhere::{Signals, interruption, keep_interrupts_from_this_process};

/// How long after the application's end a signal still counts as one that was sent to both.
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
    pub use signal_hook::low_level::signal_name;

    use super::LATE;
    use crate::os::sys::{is_ignored, raise_at, send_signal, wait_until_ended};
    use crate::os::unfinished::discard_unfinished;

    /// The process that signals are passed on to.
    #[derive(Clone, Copy, PartialEq, Eq)]
    enum Application {
        /// The application runs under this pid, which cannot be another process's.
        Running(u32),
        /// The application has ended at this time, and signals may still come that were sent to both.
        Ended(Instant),
        /// No application runs; a signal ends this process as it always would.
        Absent,
    }

    /// Whether interrupts from the keyboard are for a pager.
    static PAGING: AtomicBool = AtomicBool::new(false);

    /// Keeps interrupts from the keyboard from ending this process from here on: a pager runs, and has the
    /// terminal.
    pub fn keep_interrupts_from_this_process() {
        PAGING.store(true, Ordering::Relaxed);
    }

    /// The signals that this process handles for the rest of its life.
    pub struct Signals {
        application: Arc<Mutex<Application>>,
    }

    impl Signals {
        /// Takes over the signals. Where that fails they keep their usual effect.
        pub fn take() -> Signals {
            let application = Arc::new(Mutex::new(Application::Absent));
            let wanted = [SIGINT, SIGQUIT, SIGTERM, SIGHUP].into_iter().filter(|&signal| !is_ignored(signal));
            let shared = Arc::clone(&application);
            let (taken, wait) = mpsc::channel();
            // The thread itself takes them, so that none is taken if there is no thread for them.
            let work = move || {
                let signals = iterator::Signals::new(wanted);
                drop(taken);
                signals.into_iter().for_each(|mut signals| {
                    signals.forever().for_each(|signal| handle(signal, &shared));
                });
            };
            if thread::Builder::new().spawn(work).is_ok() {
                // The wait ends when the signals are taken: nothing is ever sent.
                let _: Result<(), _> = wait.recv();
            }
            Signals { application }
        }

        /// Runs `command` to its end; returns its pid and how it ended.
        pub fn run(&self, command: &mut Command) -> io::Result<(u32, ExitStatus)> {
            let mut state = self.application.lock();
            let mut child = command.spawn()?;
            let pid = child.id();
            *state = Application::Running(pid);
            drop(state);
            let ended = wait_until_ended(pid);
            // The pid is forgotten before the child is reaped, so that no signal goes to a stranger with its
            // pid.
            *self.application.lock() = Application::Ended(Instant::now());
            ended?;
            Ok((pid, child.wait()?))
        }
    }

    /// Returns a flag that becomes true when somebody wants this process to end. A second such signal ends it
    /// at once.
    pub fn interruption() -> Arc<AtomicBool> {
        let word = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|&signal| !is_ignored(signal)) {
            // A signal that cannot be taken keeps its usual effect.
            let _ = raise_at(signal, Arc::clone(&word));
        }
        word
    }

    fn handle(signal: i32, application: &Mutex<Application>) {
        // The lock is held while the signal is sent, and is waited for while the application is being
        // started.
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

        /// Where this is not so, the signal ends the process of the tests.
        #[test]
        fn an_interrupt_is_the_pagers_also_behind_an_application() {
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

    /// How long a merge may go on after the console was closed. The system ends each process of a console five seconds
    /// after it has told it, and what is unfinished is to be discarded before.
    const AFTER_CLOSING: Duration = Duration::from_secs(4);

    /// Whether Ctrl-C and Ctrl-Break are for a process that this one has started: the console tells both.
    static FOR_ANOTHER: AtomicBool = AtomicBool::new(false);
    /// Whether this process runs an application, or has run one and merges its traces.
    static RUNS: AtomicBool = AtomicBool::new(false);
    /// When that application has ended.
    static ENDED: OnceLock<Instant> = OnceLock::new();
    /// What [`interruption`] has given.
    static INTERRUPTION: OnceLock<Arc<AtomicBool>> = OnceLock::new();

    /// Returns whether this process goes on.
    fn decide(from_keyboard: bool) -> bool {
        let is_late = || ENDED.get().is_some_and(|ended| ended.elapsed() < LATE);
        if from_keyboard && (FOR_ANOTHER.load(Ordering::Acquire) || is_late()) {
            return true;
        }
        if from_keyboard && INTERRUPTION.get().is_some_and(|word| !word.swap(true, Ordering::Relaxed)) {
            return true;
        }
        // Closing the console ends the application, too. The end of `main`, when its traces are merged, ends this thread.
        if !from_keyboard && RUNS.load(Ordering::Relaxed) {
            thread::sleep(AFTER_CLOSING);
        }
        discard_unfinished();
        false
    }

    /// Returns a flag that becomes true when Ctrl-C or Ctrl-Break is pressed. The second time ends the process at once.
    pub fn interruption() -> Arc<AtomicBool> {
        handle_interrupts(decide);
        Arc::clone(INTERRUPTION.get_or_init(Arc::default))
    }

    /// Keeps interrupts from the keyboard from ending this process from here on: a pager runs, and has the
    /// console.
    pub fn keep_interrupts_from_this_process() {
        handle_interrupts(decide);
        FOR_ANOTHER.store(true, Ordering::Relaxed);
    }

    /// The interrupts that this process handles for the rest of its life.
    pub struct Signals;

    impl Signals {
        /// Takes over the interrupts. Where that fails they keep their usual effect.
        pub fn take() -> Signals {
            handle_interrupts(decide);
            Signals
        }

        /// Runs `command` to its end; returns its pid and how it ended.
        pub fn run(&self, command: &mut Command) -> io::Result<(u32, ExitStatus)> {
            RUNS.store(true, Ordering::Relaxed);
            FOR_ANOTHER.store(true, Ordering::Relaxed);
            let ended = command.spawn().and_then(|mut child| Ok((child.id(), child.wait()?)));
            // Whoever sees that the interrupts are for this process again, sees the time, too.
            let _ = ENDED.set(Instant::now());
            FOR_ANOTHER.store(false, Ordering::Release);
            ended
        }
    }
}
