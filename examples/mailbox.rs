//! A mailbox whose reader hangs, and the records of its locks that show why.
//!
//! A reader looks whether there are letters; if there are none, it waits for the bell. A postman puts a letter into the
//! mailbox and rings. If the postman does so after the look and before the wait, nobody hears the bell: the reader waits
//! for ever, and the postman waits until his letter is read. A watchdog sees that nothing is read any more and ends the
//! program with status 1.
//!
//! ```text
//! cargo build --release --example mailbox
//! TRACER_ENABLE=1 target/release/examples/mailbox
//! tracemerge locks target/release/examples/mailbox
//! ```

use std::process::ExitCode;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use std::{io, thread};
use tracer::sync::{Condvar, Mutex};

/// The number of letters: far more than are read before the reader hangs.
const LETTERS: u64 = 2_000_000;
/// The time without progress after which the watchdog decides that the reader hangs.
const PATIENCE: Duration = Duration::from_millis(700);

/// The letters on their way from a postman to a reader.
#[derive(Default)]
struct Mailbox {
    letters: AtomicU64,
    gate: Mutex<()>,
    bell: Condvar,
    /// The number of letters that were read.
    read: AtomicU64,
}

impl Mailbox {
    fn post(&self) {
        self.letters.fetch_add(1, Ordering::SeqCst);
        self.bell.notify_one();
    }

    /// Takes all letters out of the mailbox, and waits until there is at least one.
    fn fetch(&self) -> u64 {
        loop {
            let letters = self.letters.swap(0, Ordering::SeqCst);
            if letters > 0 {
                return letters;
            }
            // The bug: a letter that comes now rings before anybody listens.
            let gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
            drop(self.bell.wait(gate).unwrap_or_else(PoisonError::into_inner));
        }
    }

    fn read_letters(&self) {
        while self.read.load(Ordering::SeqCst) < LETTERS {
            self.read.fetch_add(self.fetch(), Ordering::SeqCst);
        }
    }

    fn deliver_letters(&self) {
        for letter in 0..LETTERS {
            self.post();
            while self.read.load(Ordering::SeqCst) <= letter {
                thread::yield_now();
            }
        }
    }
}

fn start(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new().name(name.to_owned()).spawn(work).map(drop)
}

fn main() -> io::Result<ExitCode> {
    let mailbox: &'static Mailbox = Box::leak(Box::default());
    start("reader", || mailbox.read_letters())?;
    start("postman", || mailbox.deliver_letters())?;
    let mut before = None;
    loop {
        thread::sleep(PATIENCE);
        let read = mailbox.read.load(Ordering::SeqCst);
        if read == LETTERS {
            return Ok(ExitCode::SUCCESS);
        }
        if before.replace(read) == Some(read) {
            eprintln!("mailbox: hung after {read} of {LETTERS} letters");
            return Ok(ExitCode::FAILURE);
        }
    }
}
