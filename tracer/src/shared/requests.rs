//! Requests to the flusher: to flush, and to shut down. Threads queue them and wait for the answer; the flusher looks
//! for them when it is woken.
//!
//! The module replaces a generic channel, which has forty times as much code.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::sys;

/// A kind of request to the flusher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestKind {
    Flush,
    ShutDown,
}

/// The requests of a run, in the order in which threads have queued them.
#[derive(Debug, Default)]
pub(crate) struct Requests(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    requests: VecDeque<Request>,
    /// Whether the flusher has stopped taking requests.
    ended: bool,
}

/// A request. If it is dropped without an answer, the thread that waits for the answer gets an error.
#[derive(Debug)]
pub(crate) struct Request {
    pub wanted: RequestKind,
    answer: Arc<Answer>,
}

/// The answer to a request.
///
/// ```text
/// given: 0 ──Release, when `result` is there──► 1, for ever
/// ```
#[derive(Debug, Default)]
struct Answer {
    given: AtomicU32,
    result: Mutex<Option<io::Result<()>>>,
}

fn flusher_gone_error() -> io::Error {
    io::Error::other("the flusher thread has ended")
}

impl Requests {
    /// Queues a request, calls `wake`, which wakes the flusher, and waits for the answer. While the thread waits, calls
    /// `meanwhile` several times a second.
    ///
    /// # Errors
    /// The error that the flusher answers, or an error if the flusher has ended.
    pub(crate) fn ask(
        &self,
        wanted: RequestKind,
        wake: impl FnOnce(),
        meanwhile: &mut dyn FnMut(),
    ) -> io::Result<()> {
        let answer = Arc::new(Answer::default());
        let mut waiting = self.0.lock();
        if waiting.ended {
            return Err(flusher_gone_error());
        }
        waiting.requests.push_back(Request { wanted, answer: Arc::clone(&answer) });
        drop(waiting);
        wake();
        while answer.given.load(Ordering::Acquire) == 0 {
            sys::wait_word(&answer.given, 0, Duration::from_millis(200));
            if answer.given.load(Ordering::Acquire) == 0 {
                meanwhile();
            }
        }
        let result = answer.result.lock().take();
        result.unwrap_or_else(|| Err(flusher_gone_error()))
    }

    /// Removes the next request from the queue and returns it; `None` if no thread waits. Only the flusher calls it.
    pub(crate) fn take(&self) -> Option<Request> {
        self.0.lock().requests.pop_front()
    }

    /// Makes the queue refuse further requests, and answers the waiting ones with an error. Only the flusher calls
    /// this, at its end.
    pub(crate) fn end(&self) {
        let mut waiting = self.0.lock();
        waiting.ended = true;
        let requests = std::mem::take(&mut waiting.requests);
        drop(waiting);
        drop(requests);
    }
}

impl Request {
    /// Gives `result` to the thread that waits for it.
    pub(crate) fn answer(self, result: io::Result<()>) {
        *self.answer.result.lock() = Some(result);
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        self.answer.given.store(1, Ordering::Release);
        sys::wake_word(&self.answer.given, i32::MAX);
    }
}
