//! Messages of the tracer to the user: on stderr, in one line, never fatal.
//!
//! The flusher has descriptors of its own, and its descriptor 2 is not the host's stderr. So it hands its messages to
//! its run's [`Relay`], a thread that shares the host's descriptors and prints the messages. At the end of the process,
//! the thread that exits prints them.

use std::cell::Cell;
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::sys;
use crate::words::exclusion::Excluded;
use crate::words::wake::Wake;

/// The greatest number of lines that wait to be printed; further lines are dropped.
const MAX_WAITING_LINES: usize = 256;
/// The longest time that the thread that ends the process waits while another thread prints lines.
const MAX_WAIT: Duration = Duration::from_millis(200);

thread_local! {
    /// The relay that prints the messages of the calling thread; `None` if the thread prints its messages itself.
    static THREAD_RELAY: Cell<Option<&'static Relay>> = const { Cell::new(None) };
}

/// Prints a message on stderr. It is not an error if stderr is closed, or full and not read: the tracer never makes
/// its host fail.
pub(crate) fn say(message: fmt::Arguments<'_>) {
    // One write, so that lines of several threads do not mix.
    let line = format!("tracer: {message}\n");
    match THREAD_RELAY.get() {
        Some(relay) => relay.enqueue_line(line),
        None => sys::write_stderr(line.as_bytes()),
    }
}

/// A thread that prints the messages of another thread, the flusher, which does not have the host's stderr.
#[derive(Debug, Default)]
pub(crate) struct Relay {
    lines: Mutex<VecDeque<String>>,
    wake: Wake,
    ended: AtomicBool,
}

impl Relay {
    /// Starts the relay's thread. Must be called by a thread that shares the host's descriptors.
    ///
    /// # Errors
    /// The thread cannot be made.
    pub(crate) fn start(&'static self) -> io::Result<()> {
        sys::spawn_hidden(Box::new(|| {
            let _excluded = Excluded::mark_permanently();
            sys::name_thread(c"tracer-relay");
            while !self.ended.load(Ordering::Acquire) {
                self.wake.sleep(Duration::from_secs(3600));
                self.print_all_lines();
            }
        }))
    }

    /// Makes this relay print the messages of the calling thread from here on.
    pub(crate) fn relay_for_this_thread(&'static self) {
        THREAD_RELAY.set(Some(self));
    }

    /// Makes the relay's thread end.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::Release);
        self.wake.wake();
    }

    fn enqueue_line(&self, line: String) {
        let mut lines = self.lines.lock();
        if lines.len() < MAX_WAITING_LINES {
            lines.push_back(line);
        }
        drop(lines);
        self.wake.wake();
    }

    /// Prints all waiting lines. Holds the lock until the lines are written: so no line is lost if another thread ends
    /// the process at this moment, because that thread either finds the line still waiting, or waits until the line is
    /// written.
    pub(crate) fn print_all_lines(&self) {
        let Some(mut lines) = self.lines.try_lock_for(MAX_WAIT) else { return };
        while let Some(line) = lines.pop_front() {
            sys::write_stderr(line.as_bytes());
        }
    }
}
