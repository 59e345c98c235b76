//! The merge by several threads: each thread takes jobs and merges their lines into memory; the calling thread also
//! writes merged lines, in order.
//!
//! One thread writes everything, from the first byte to the last. Operating systems let only one thread write to a
//! file at a time, wherever in the file, so several writers would gain nothing. With one writer a pipe is no
//! different from a file, and no length must be known beforehand. Writing takes as much time as `cat` takes; threads
//! share all other work.

use std::collections::VecDeque;
use std::io;
use std::num::NonZero;
use std::thread;

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::file::rendered::RecordNeeds;
use crate::input::findings::Findings;
use crate::input::slice::{SlicePart, TickPeriod};
use crate::input::source::{SortedRange, Source};
use crate::merge::{
    MIN_WINDOW_RANGES, MergeWork, Room, Slices, Stop, Turn, Windows, forget, run_without_output,
    unless_truncated,
};
use crate::output::sink::Batch;

/// The number of bytes below which merging takes less time than starting threads.
const MIN_PARALLEL_BYTES: usize = 4 << 20;
/// The number of threads beyond which further threads would only wait for the writing thread.
const MAX_THREADS: usize = 8;
/// The number of jobs whose lines may wait to be written, in addition to one job for each thread.
const AHEAD: usize = if cfg!(test) { 2 } else { 8 };
/// The number of jobs with records that may wait to be written, in addition to one job for each thread. It is less than
/// `AHEAD`, because jobs with records take more memory.
const AHEAD_OF_RECORDS: usize = 2;

/// Merges the lines of `ranges` in `period`, by several threads if that is worth it. `make` makes empty batches: it is
/// called in the thread that merges a job's lines into the batch. `write` gets the batches in order, in the calling
/// thread. If records are `wanted`, the batches get the records of sources that are not text in place of their lines.
///
/// # Errors
/// See [`Stop`]. After an error, the written lines and the findings have no meaning.
pub(crate) fn merge_by_all<B: Batch>(
    sources: &[Source],
    ranges: &[SortedRange],
    period: TickPeriod,
    wanted: Option<&RecordNeeds>,
    make: &(impl Fn() -> B + Sync),
    write: &mut impl FnMut(&B) -> io::Result<()>,
    findings: &mut Findings,
) -> Result<(), Stop> {
    let most = thread::available_parallelism().map_or(1, NonZero::get).min(MAX_THREADS);
    let threads = |bytes| if bytes < MIN_PARALLEL_BYTES { 1 } else { most };
    let ahead = if wanted.is_some() { AHEAD_OF_RECORDS } else { AHEAD };
    let found = if ranges.len() < MIN_WINDOW_RANGES {
        let slices = Slices::new(sources, ranges, period, wanted);
        merge_by((threads(slices.bytes()), ahead), slices, sources, make, write)?
    } else {
        let windows = Windows::new(sources, ranges, period, wanted, most);
        merge_by((threads(windows.bytes()), ahead), windows, sources, make, write)?
    };
    findings.append(found);
    Ok(())
}

/// Runs all jobs of `work` by `threads` threads, and returns the findings. The lines of up to `threads + ahead` jobs
/// may be merged or wait to be written at a time.
///
/// # Errors
/// See [`Stop`].
pub(crate) fn merge_by<'a, B: Batch, J: MergeWork<'a>>(
    (threads, ahead): (usize, usize),
    work: J,
    sources: &'a [Source],
    make: &(impl Fn() -> B + Sync),
    write: &mut impl FnMut(&B) -> io::Result<()>,
) -> Result<Findings, Stop> {
    let job_queue = JobQueue { work, queue: VecDeque::new(), taken: 0, spare: Vec::new(), stop: None };
    let limit = threads + ahead;
    let shared =
        SharedState { sources, limit, make, job_queue: Mutex::new(job_queue), changed: Condvar::new() };
    thread::scope(|scope| {
        for _ in 1..threads {
            // If a thread cannot be started, the others do its share.
            let none = None::<&mut fn(&B) -> io::Result<()>>;
            let _ = thread::Builder::new().spawn_scoped(scope, || shared.work(none));
        }
        shared.work(Some(write));
    });
    let job_queue = shared.job_queue.into_inner();
    job_queue.stop.map_or_else(|| Ok(job_queue.work.findings()), Err)
}

/// The state of a merge that its threads share.
struct SharedState<'a, 'm, J, B, M> {
    sources: &'a [Source],
    /// The greatest number of jobs whose lines may be merged or wait to be written at a time.
    limit: usize,
    /// The function that makes empty batches.
    make: &'m M,
    job_queue: Mutex<JobQueue<J, B>>,
    changed: Condvar,
}

/// The work, and the lines of its jobs that are not written yet.
struct JobQueue<J, B> {
    work: J,
    /// The lines of the jobs that are not written yet, in order; `None` for a job whose lines are still being merged.
    queue: VecDeque<Option<MergedJob<B>>>,
    /// The number of batches that the writing thread has taken from the queue so far.
    taken: usize,
    /// Batches whose lines were written, which later jobs use again.
    spare: Vec<B>,
    /// The reason why the merge stops early; all threads end once it is set.
    stop: Option<Stop>,
}

/// The merged lines of a job, and the parts of sources that are not needed any more once these lines are written.
type MergedJob<B> = (B, Vec<SlicePart>);

type JobQueueGuard<'p, J, B> = MutexGuard<'p, JobQueue<J, B>>;

impl<'a, J: MergeWork<'a>, B: Batch, M: Fn() -> B + Sync> SharedState<'a, '_, J, B, M> {
    /// Makes all threads end because of `stop`, unless another reason was set before.
    fn stop(&self, stop: Stop) -> JobQueueGuard<'_, J, B> {
        let mut job_queue = self.job_queue.lock();
        job_queue.stop.get_or_insert(stop);
        self.changed.notify_all();
        job_queue
    }

    /// Runs jobs until no job is left. In between, the thread that has the output `out` writes the lines that are
    /// ready.
    fn work<W: FnMut(&B) -> io::Result<()>>(&self, mut out: Option<&mut W>) {
        let _alarm = Alarm(self);
        let mut room = Room::default();
        let mut job_queue = self.job_queue.lock();
        loop {
            job_queue = self.write_ready(job_queue, out.as_deref_mut());
            if job_queue.stop.is_some() {
                return;
            }
            let turn = if job_queue.queue.len() < self.limit { job_queue.work.next() } else { Turn::Wait };
            job_queue = match turn {
                Turn::End if out.is_none() || job_queue.queue.is_empty() => return,
                Turn::Wait | Turn::End => {
                    self.changed.wait(&mut job_queue);
                    job_queue
                }
                Turn::WithoutOutput(job) => {
                    drop(job_queue);
                    self.do_without_output(job, &mut room)
                }
                Turn::Lines(job) => self.merge(job_queue, job, &mut room),
            };
        }
    }

    /// Writes all lines that are ready at the front of the queue, if this thread has the output `out`.
    fn write_ready<'p, W: FnMut(&B) -> io::Result<()>>(
        &'p self,
        mut job_queue: JobQueueGuard<'p, J, B>,
        out: Option<&mut W>,
    ) -> JobQueueGuard<'p, J, B> {
        let Some(write) = out else { return job_queue };
        while let Some((lines, parts)) = job_queue.pop_ready() {
            drop(job_queue);
            // The queue has room for the lines of another job, even before these are written.
            self.changed.notify_all();
            if let Err(error) = write(&lines) {
                return self.stop(Stop::Write(error));
            }
            forget(self.sources, &parts);
            job_queue = self.job_queue.lock();
            job_queue.spare.push(lines);
        }
        job_queue
    }

    fn do_without_output(&self, job: J::Job, room: &mut Room) -> JobQueueGuard<'_, J, B> {
        match run_without_output::<J>(self.sources, job, room) {
            Ok(job) => {
                let mut job_queue = self.job_queue.lock();
                job_queue.work.done(job);
                self.changed.notify_all();
                job_queue
            }
            Err(stop) => self.stop(stop),
        }
    }

    /// Runs a job whose lines come after all lines in the queue, and puts its lines into the queue.
    fn merge<'p>(
        &'p self,
        mut job_queue: JobQueueGuard<'p, J, B>,
        mut job: J::Job,
        room: &mut Room,
    ) -> JobQueueGuard<'p, J, B> {
        let number = job_queue.taken + job_queue.queue.len();
        job_queue.queue.push_back(None);
        let spare = job_queue.spare.pop();
        drop(job_queue);
        let mut lines = spare.unwrap_or_else(self.make);
        let merged = unless_truncated(|| {
            lines.clear();
            J::run(self.sources, &mut job, room, &mut lines)
        });
        if let Err(stop) = merged {
            return self.stop(stop);
        }
        let mut job_queue = self.job_queue.lock();
        let parts = job_queue.work.done(job);
        let place = number - job_queue.taken;
        job_queue.queue[place] = Some((lines, parts));
        self.changed.notify_all();
        job_queue
    }
}

impl<J, B> JobQueue<J, B> {
    /// Removes and returns the lines at the front of the queue, if they are merged.
    fn pop_ready(&mut self) -> Option<MergedJob<B>> {
        self.queue.front()?.as_ref()?;
        self.taken += 1;
        self.queue.pop_front()?
    }
}

/// A guard that makes all threads of the merge end if the thread that has the guard panics. Otherwise the other threads
/// would wait forever for that thread.
struct Alarm<'p, 'a, 'm, J: MergeWork<'a>, B: Batch, M: Fn() -> B + Sync>(&'p SharedState<'a, 'm, J, B, M>);

impl<'a, J: MergeWork<'a>, B: Batch, M: Fn() -> B + Sync> Drop for Alarm<'_, 'a, '_, J, B, M> {
    fn drop(&mut self) {
        if thread::panicking() {
            drop(self.0.stop(Stop::Write(io::Error::other("a thread of the merge has failed"))));
        }
    }
}
