//! Signals: while an application runs, those from the keyboard are ignored here (they reach it by themselves)
//! and others are passed on to it; otherwise they end this process, with nothing half-written left behind.
//!
//! Signals that were ignored from the start (`nohup`) stay so, here and in the application. Handled by one
//! thread of its own, so nothing here runs in a signal handler.

#[cfg(unix)]
pub use unix::{Signals, interruption, keep_interrupts_from_this_process};

#[cfg(not(unix))]
pub use elsewhere::{Signals, interruption, keep_interrupts_from_this_process};

#[cfg(unix)]
mod unix {
    use std::io;
    use std::process::{Command, ExitStatus};
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
    use std::thread;

    use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
    use signal_hook::low_level::emulate_default_handler;
    use signal_hook::{flag, iterator};

    use crate::os::sys::{is_ignored, send_signal, wait_until_ended};
    use crate::os::unfinished::discard_unfinished;

    /// The process that signals are passed on to.
    #[derive(Clone, Copy, PartialEq, Eq)]
    enum Application {
        /// It runs under this pid, which cannot be another's.
        Running(u32),
        /// It does not run; a signal ends this process as it always would.
        Absent,
    }

    /// Whether interrupts from the keyboard are for a pager.
    static PAGING: AtomicBool = AtomicBool::new(false);

    /// From here on interrupts from the keyboard do not end this process: a pager runs, and has the terminal.
    pub fn keep_interrupts_from_this_process() {
        PAGING.store(true, Ordering::Relaxed);
    }

    /// The signals, taken for the rest of this process's life.
    pub struct Signals {
        application: Arc<Mutex<Application>>,
    }

    impl Signals {
        /// Takes them. Where that fails they keep their usual effect.
        pub fn take() -> Signals {
            let application = Arc::new(Mutex::new(Application::Absent));
            let wanted = [SIGINT, SIGQUIT, SIGTERM, SIGHUP].into_iter().filter(|&signal| !is_ignored(signal));
            let shared = Arc::clone(&application);
            let (taken, wait) = mpsc::channel();
            // By the thread, so that none is taken if there is no thread for them.
            let work = move || {
                let signals = iterator::Signals::new(wanted);
                drop(taken);
                signals.into_iter().for_each(|mut signals| {
                    signals.forever().for_each(|signal| handle(signal, &shared));
                });
            };
            if thread::Builder::new().spawn(work).is_ok() {
                // Ends when they are taken: nothing is ever sent.
                let _: Result<(), _> = wait.recv();
            }
            Signals { application }
        }

        /// Runs `command` to its end; returns its pid and how it ended.
        pub fn run(&self, command: &mut Command) -> io::Result<(u32, ExitStatus)> {
            let mut state = lock(&self.application);
            let mut child = command.spawn()?;
            let pid = child.id();
            *state = Application::Running(pid);
            drop(state);
            let ended = wait_until_ended(pid);
            // Before it is reaped, so that no signal goes to a stranger with its pid.
            *lock(&self.application) = Application::Absent;
            ended?;
            Ok((pid, child.wait()?))
        }
    }

    /// A word that becomes true when somebody wants this process to end. The second time it ends at once.
    pub fn interruption() -> Arc<AtomicBool> {
        let word = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|&signal| !is_ignored(signal)) {
            // In this order: the first of them looks at what the second has done before. Where one cannot be taken,
            // the signal keeps its usual effect.
            let _ = flag::register_conditional_default(signal, Arc::clone(&word));
            let _ = flag::register(signal, Arc::clone(&word));
        }
        word
    }

    fn lock(application: &Mutex<Application>) -> MutexGuard<'_, Application> {
        application.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn handle(signal: i32, application: &Mutex<Application>) {
        // Stays locked while the signal is sent; and waits here while the application is being started.
        let state = lock(application);
        match *state {
            Application::Running(pid) if signal == SIGTERM || signal == SIGHUP => send_signal(pid, signal),
            Application::Running(_) => {}
            Application::Absent if signal == SIGINT && PAGING.load(Ordering::Relaxed) => {}
            Application::Absent => {
                discard_unfinished();
                let _ = emulate_default_handler(signal);
            }
        }
    }
}

#[cfg(not(unix))]
mod elsewhere {
    use std::io;
    use std::process::{Command, ExitStatus};
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    /// A word that stays false: an interruption ends the process.
    pub fn interruption() -> Arc<AtomicBool> {
        Arc::default()
    }

    /// Nothing is taken here.
    pub fn keep_interrupts_from_this_process() {}

    /// Nothing is taken here: the console tells both processes by itself.
    pub struct Signals;

    impl Signals {
        /// Takes nothing.
        pub fn take() -> Signals {
            Signals
        }

        /// Runs `command` to its end; returns its pid and how it ended.
        pub fn run(&self, command: &mut Command) -> io::Result<(u32, ExitStatus)> {
            let mut child = command.spawn()?;
            Ok((child.id(), child.wait()?))
        }
    }
}
