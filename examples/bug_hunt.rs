//! A bug hunt: a bounded job queue that hangs now and then, and the trace that shows why.
//!
//! A producer puts jobs into a queue with four places, and a worker takes them out. The worker looks whether there is a
//! job before it takes the lock; it does not notice a job that is put in between, nor the notification of that job. The
//! producer notifies only if the queue was empty, so it sends no further notification: it fills the queue and waits for
//! room. Both threads wait for ever; a watchdog sees that no more jobs are done and ends the program with status 1.
//! `--fixed` runs the queue without this bug.
//!
//! ```text
//! cargo build --release --example bug_hunt
//! TRACER_ENABLE=1 TRACER_FILTER=tracer::sync=off target/release/examples/bug_hunt
//! tracemerge target/release/examples/bug_hunt -o - | grep ' : ' | tail -n 18
//! ```
//!
//! Look at the worker's last three messages, and at the producer's messages between them. Or look at the places where
//! both threads stand at the end: `tracemerge tree target/release/examples/bug_hunt | tail -n 24`. Or use the lock
//! records, which the filter leaves out: run it without `TRACER_FILTER`, and `tracemerge locks` shows the answer.

#![allow(clippy::print_stdout)]

use std::collections::VecDeque;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use std::{io, thread};
use tracer::sync::parking_lot::{Condvar, Mutex};
use tracer::{Tracer, traced};

/// The number of jobs that the producer makes: far more than are done before the queue hangs.
const JOBS: u64 = 2_000_000;
/// The number of jobs that the producer makes if the queue does not hang.
const JOBS_FIXED: u64 = 100_000;
/// The number of jobs that fit in the queue.
const PLACES: usize = 4;
/// The time without progress after which the watchdog decides that the queue hangs.
const PATIENCE: Duration = Duration::from_millis(700);

/// A job: a block of data, whose checksum is to be computed.
struct Job {
    number: u64,
    block: Vec<u8>,
}

/// The queue of jobs from one producer to one worker.
#[derive(Default)]
struct Queue {
    jobs: Mutex<VecDeque<Job>>,
    /// The number of `jobs`, to be read without the lock.
    queued: AtomicUsize,
    /// Notified when the queue was empty and is no longer.
    filled: Condvar,
    /// Notified when the queue was full and is no longer.
    room: Condvar,
}

impl Queue {
    #[traced]
    fn put(&self, job: Job) {
        let number = job.number;
        let mut jobs = self.jobs.lock();
        while jobs.len() == PLACES {
            Tracer::get().trace(format_args!("put {number}: {} queued, wait for room", jobs.len()));
            self.room.wait(&mut jobs);
        }
        jobs.push_back(job);
        self.queued.store(jobs.len(), Ordering::SeqCst);
        Tracer::get().trace(format_args!("put {number}: {} queued", jobs.len()));
        if jobs.len() == 1 {
            Tracer::get().trace(format_args!("put {number}: notify the worker"));
            self.filled.notify_one();
        }
    }

    /// Takes a job, or waits for one: the bug is here.
    #[traced]
    fn take(&self) -> Job {
        loop {
            Tracer::get().trace(format_args!("take: look"));
            if self.queued.load(Ordering::SeqCst) == 0 {
                Tracer::get().trace(format_args!("take: nothing queued, lock and wait"));
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

    /// Takes a job, or waits for one, without the bug: the thread holds the lock from the look at the queue to the
    /// wait.
    #[traced]
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

    /// Takes a job if there is one, and notifies a producer that waits for room.
    fn pop(&self, jobs: &mut VecDeque<Job>) -> Option<Job> {
        let job = jobs.pop_front()?;
        self.queued.store(jobs.len(), Ordering::SeqCst);
        Tracer::get().trace(format_args!("take {}: {} queued", job.number, jobs.len()));
        if jobs.len() == PLACES - 1 {
            self.room.notify_one();
        }
        Some(job)
    }
}

/// The state that the threads share.
struct Work {
    jobs: u64,
    queue: Queue,
    /// The number of jobs that are done.
    done: AtomicU64,
    /// The checksums of all jobs, combined into one.
    checksum: AtomicU64,
}

#[traced]
fn produce(work: &Work) {
    Tracer::get().trace(format_args!("the producer starts"));
    let mut random = 1;
    for number in 1..=work.jobs {
        work.queue.put(Job { number, block: block(&mut random) });
    }
}

#[traced]
fn consume(work: &Work, take: fn(&Queue) -> Job) {
    Tracer::get().trace(format_args!("the worker starts"));
    for _ in 0..work.jobs {
        let job = take(&work.queue);
        work.checksum.fetch_xor(checksum(&job.block), Ordering::Relaxed);
        work.done.fetch_add(1, Ordering::Release);
    }
}

/// Returns up to 8 KiB of pseudo-random bytes.
fn block(random: &mut u64) -> Vec<u8> {
    let mut next = || {
        *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*random >> 33).to_le_bytes()[0]
    };
    let length = usize::from(next()) * 32;
    std::iter::repeat_with(next).take(length).collect()
}

/// Returns the checksum FNV-1a of a block.
fn checksum(block: &[u8]) -> u64 {
    let step = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    block.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

/// Watches the work until it is finished or hangs. Returns whether it was finished.
fn watch(work: &Work) -> bool {
    let mut last = (0, Instant::now());
    loop {
        let done = work.done.load(Ordering::Acquire);
        if done == work.jobs {
            return true;
        }
        if done != last.0 {
            last = (done, Instant::now());
        }
        if last.1.elapsed() >= PATIENCE {
            Tracer::get().trace(format_args!("hung: {done} jobs done, and no more for {PATIENCE:?}"));
            return false;
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// Starts both threads. Does not wait for them, because they may never end.
fn start(take: fn(&Queue) -> Job, jobs: u64) -> io::Result<Arc<Work>> {
    let work = Work { jobs, queue: Queue::default(), done: AtomicU64::new(0), checksum: AtomicU64::new(0) };
    let work = Arc::new(work);
    let (ours, theirs) = (Arc::clone(&work), Arc::clone(&work));
    thread::Builder::new().name("producer".to_owned()).spawn(move || produce(&ours))?;
    thread::Builder::new().name("worker".to_owned()).spawn(move || consume(&theirs, take))?;
    Ok(work)
}

/// Runs the queue, without the bug if `fixed` is set. Prints the outcome, and returns whether the work was finished.
pub fn hunt(fixed: bool) -> io::Result<bool> {
    let work = if fixed { start(Queue::take_fixed, JOBS_FIXED) } else { start(Queue::take, JOBS) }?;
    let finished = watch(&work);
    let done = work.done.load(Ordering::Acquire);
    if finished {
        println!("{done} jobs done, checksum {:016x}", work.checksum.load(Ordering::Relaxed));
    } else {
        eprintln!("bug_hunt: hung after {done} of {} jobs", work.jobs);
    }
    Ok(finished)
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let finished = match args[..] {
        [] => hunt(false),
        ["--fixed"] => hunt(true),
        _ => {
            eprintln!("usage: bug_hunt [--fixed]");
            return ExitCode::from(2);
        }
    };
    match finished {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("bug_hunt: cannot start a thread: {error}");
            ExitCode::from(2)
        }
    }
}
