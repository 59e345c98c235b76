//! A bug hunt: a bounded job queue that hangs now and then, and the trace that shows why.
//!
//! A producer puts jobs into a queue with four places, a worker takes them out. The worker looks whether
//! there is anything to take before it takes the lock; what is put in between goes unnoticed, and so does
//! its notification. The producer notifies only when the queue was empty: it fills the queue and waits for
//! room. Both wait for ever; a watchdog sees that nothing gets done any more and ends the program with
//! status 1. `--fixed` runs the queue as it ought to be.
//!
//! ```text
//! cargo build --release --example bug_hunt
//! TRACER_ENABLE=1 target/release/examples/bug_hunt
//! tracemerge target/release/examples/bug_hunt -o - | grep ' : ' | tail -n 12
//! ```
//!
//! What to look at: the last two records of the worker, and what the producer did between them.

#![allow(clippy::print_stdout)]

use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use std::{io, thread};
use tracer::Tracer;

/// How many jobs the producer has.
const JOBS: u64 = 50_000;
/// How many fit in the queue.
const PLACES: usize = 4;
/// Nothing done for this long: nothing will be.
const PATIENCE: Duration = Duration::from_millis(700);

/// A number; the work is to count its Collatz steps.
type Job = u64;

/// Jobs on their way from one producer to one worker.
#[derive(Default)]
struct Queue {
    jobs: Mutex<VecDeque<Job>>,
    /// How many `jobs` there are, to be read without the lock.
    queued: AtomicUsize,
    /// The queue was empty and is no longer.
    filled: Condvar,
    /// The queue was full and is no longer.
    room: Condvar,
}

impl Queue {
    fn put(&self, job: Job) {
        let mut jobs = self.jobs.lock();
        while jobs.len() == PLACES {
            Tracer::get().trace(format_args!("put {job}: {} queued, wait for room", jobs.len()));
            self.room.wait(&mut jobs);
        }
        jobs.push_back(job);
        self.queued.store(jobs.len(), Ordering::Release);
        Tracer::get().trace(format_args!("put {job}: {} queued", jobs.len()));
        if jobs.len() == 1 {
            Tracer::get().trace(format_args!("put {job}: notify the worker"));
            self.filled.notify_one();
        }
    }

    /// Takes a job, or waits for one: the bug is here.
    fn take(&self) -> Job {
        loop {
            if self.queued.load(Ordering::Acquire) == 0 {
                Tracer::get().trace(format_args!("take: nothing queued"));
                let mut jobs = self.jobs.lock();
                Tracer::get().trace(format_args!("take: {} queued, wait for the producer", jobs.len()));
                self.filled.wait(&mut jobs);
                Tracer::get().trace(format_args!("take: notified"));
            }
            if let Some(job) = self.pop(&mut self.jobs.lock()) {
                return job;
            }
        }
    }

    /// The same as it ought to be: from the look to the wait, the lock is held.
    fn take_fixed(&self) -> Job {
        let mut jobs = self.jobs.lock();
        loop {
            if let Some(job) = self.pop(&mut jobs) {
                return job;
            }
            Tracer::get().trace(format_args!("take: {} queued, wait for the producer", jobs.len()));
            self.filled.wait(&mut jobs);
            Tracer::get().trace(format_args!("take: notified"));
        }
    }

    /// Takes a job if there is one; a producer that waits for room gets it.
    fn pop(&self, jobs: &mut VecDeque<Job>) -> Option<Job> {
        let job = jobs.pop_front()?;
        self.queued.store(jobs.len(), Ordering::Release);
        Tracer::get().trace(format_args!("take {job}: {} queued", jobs.len()));
        if jobs.len() == PLACES - 1 {
            self.room.notify_one();
        }
        Some(job)
    }
}

/// What the threads share.
#[derive(Default)]
struct Work {
    queue: Queue,
    /// Jobs done.
    done: AtomicU64,
    /// All their steps.
    steps: AtomicU64,
}

fn produce(work: &Work) {
    for number in 1..=JOBS {
        work.queue.put(number);
    }
}

fn consume(work: &Work, take: fn(&Queue) -> Job) {
    for _ in 0..JOBS {
        let steps = collatz_steps(take(&work.queue));
        work.steps.fetch_add(steps, Ordering::Relaxed);
        work.done.fetch_add(1, Ordering::Release);
    }
}

fn collatz_steps(job: Job) -> u64 {
    let next = |&n: &u64| Some(if n % 2 == 0 { n / 2 } else { 3 * n + 1 });
    std::iter::successors(Some(job), next).take_while(|&n| n != 1).count() as u64
}

/// Watches the work; returns whether it was finished.
fn watch(work: &Work) -> bool {
    let mut last = (0, Instant::now());
    loop {
        let done = work.done.load(Ordering::Acquire);
        if done == JOBS {
            return true;
        }
        if done != last.0 {
            last = (done, Instant::now());
        }
        if last.1.elapsed() >= PATIENCE {
            Tracer::get()
                .trace(format_args!("hung: {done} of {JOBS} jobs done, and no more for {PATIENCE:?}"));
            return false;
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// Starts both threads. They are not waited for: they may never end.
fn start(take: fn(&Queue) -> Job) -> io::Result<Arc<Work>> {
    let work = Arc::new(Work::default());
    let (ours, theirs) = (Arc::clone(&work), Arc::clone(&work));
    thread::Builder::new().name("producer".to_owned()).spawn(move || produce(&ours))?;
    thread::Builder::new().name("worker".to_owned()).spawn(move || consume(&theirs, take))?;
    Ok(work)
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let take = match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => Queue::take,
        ["--fixed"] => Queue::take_fixed,
        _ => {
            eprintln!("usage: bug_hunt [--fixed]");
            return ExitCode::from(2);
        }
    };
    let work = match start(take) {
        Ok(work) => work,
        Err(error) => {
            eprintln!("bug_hunt: cannot start a thread: {error}");
            return ExitCode::from(2);
        }
    };
    if watch(&work) {
        println!("{JOBS} jobs done, {} steps", work.steps.load(Ordering::Relaxed));
        return ExitCode::SUCCESS;
    }
    eprintln!("bug_hunt: hung after {} of {JOBS} jobs", work.done.load(Ordering::Relaxed));
    ExitCode::FAILURE
}
