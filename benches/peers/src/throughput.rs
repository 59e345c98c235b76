//! The measurement of the number of messages per second that reach the file.

use crate::Outcome;
use crate::loggers::{Logger, TASK};
use crate::message;
use crate::report::Report;
use std::hint::black_box;
use std::ops::Range;
use std::path::Path;
use std::sync::Barrier;
use std::time::Instant;

/// The name, in reports, of the only message that is logged.
pub const MESSAGE: &str = "numbers";

/// The name, in reports, of the time that all messages took.
pub const SECONDS: &str = "seconds";

/// Measures the time from the first of `messages` messages, which `threads` threads log, until all are in files in
/// `directory`.
pub fn measure<L: Logger>(logger: L, directory: &Path, threads: usize, messages: u64) -> Outcome<Report> {
    let mut report = Report::default();
    let ready = Barrier::new(threads + 1);
    let start = std::thread::scope(|scope| {
        let (logger, ready) = (&logger, &ready);
        let spawn = |range| {
            scope.spawn(move || {
                ready.wait();
                log(logger, range);
            })
        };
        let workers: Vec<_> = shares(messages, threads).map(spawn).collect();
        let start = Instant::now();
        ready.wait();
        // The threads are joined one by one, because the destructors of a thread's thread-locals have run only after
        // a join.
        workers.into_iter().try_for_each(|worker| worker.join()).map(|()| start)
    });
    let start = start.map_err(|_| "a thread panicked")?;
    logger.finish()?;
    report.figure(MESSAGE, SECONDS, start.elapsed().as_secs_f64());
    report.note_files(directory)?;
    report.sent.insert(MESSAGE.into(), messages);
    Ok(report)
}

fn log<L: Logger>(logger: &L, range: Range<u64>) {
    let mut first = range.start;
    while first < range.end {
        let end = range.end.min(first + TASK);
        logger.task(|| {
            for i in first..end {
                let i = black_box(i);
                logger.numbers(i, message::int(i), message::double(i));
            }
        });
        first = end;
    }
}

/// Divides the numbers `0..messages` among `threads` threads.
fn shares(messages: u64, threads: usize) -> impl Iterator<Item = Range<u64>> {
    let threads = threads as u64;
    (0..threads).map(move |t| messages * t / threads..messages * (t + 1) / threads)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_to_all_messages() {
        for (messages, threads) in [(10, 1), (10, 3), (2, 4), (4_000_000, 8)] {
            let all: Vec<u64> = shares(messages, threads).flatten().collect();
            assert_eq!(all, (0..messages).collect::<Vec<_>>());
        }
    }
}
