//! The merge by several threads: each takes a job and merges its lines into memory; the calling thread also
//! writes finished lines, in order.
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

use crate::file::rendered::Wanted;
use crate::input::findings::Findings;
use crate::input::slice::{SlicePart, TickPeriod};
use crate::input::source::{SortedRange, Source};
use crate::merge::{MANY, MergeWork, Room, Slices, Stop, Turn, Windows, forget, silently, unless_truncated};
use crate::output::sink::Batch;

/// The number of bytes below which starting threads takes longer than merging.
const WORTH_THREADS: usize = 4 << 20;
/// The number of threads above which further threads would only wait for the writer.
const MOST_THREADS: usize = 8;
/// The number of jobs whose lines may wait to be written, beyond one for each thread.
const AHEAD: usize = if cfg!(test) { 2 } else { 8 };
/// The number of these jobs if they have records, because such jobs are larger.
const AHEAD_OF_RECORDS: usize = 2;

/// Merges the lines of `ranges` in `period`, by several threads if that is worth it. `make` makes batches: each job's
/// lines go into a batch that is made in the thread that merges them. `write` gets the batches in order, in the
/// calling thread. If records are `wanted`, the batches get the records of sources that are not text in place of
/// their lines.
///
/// # Errors
/// See [`Stop`]. After an error, the written lines and the findings have no meaning.
pub fn merge_by_all<B: Batch>(
    sources: &[Source],
    ranges: &[SortedRange],
    period: TickPeriod,
    wanted: Option<&Wanted>,
    make: &(impl Fn() -> B + Sync),
    write: &mut impl FnMut(&B) -> io::Result<()>,
    findings: &mut Findings,
) -> Result<(), Stop> {
    let most = thread::available_parallelism().map_or(1, NonZero::get).min(MOST_THREADS);
    let threads = |bytes| if bytes < WORTH_THREADS { 1 } else { most };
    let ahead = if wanted.is_some() { AHEAD_OF_RECORDS } else { AHEAD };
    let found = if ranges.len() < MANY {
        let slices = Slices::new(sources, ranges, period, wanted);
        merge_by((threads(slices.bytes()), ahead), slices, sources, make, write)?
    } else {
        let windows = Windows::new(sources, ranges, period, wanted, most);
        merge_by((threads(windows.bytes()), ahead), windows, sources, make, write)?
    };
    findings.append(found);
    Ok(())
}

/// Does all `work` by `threads` threads, and returns the findings. The lines of up to `threads + ahead` jobs may be
/// in merging or wait to be written.
///
/// # Errors
/// See [`Stop`].
pub fn merge_by<'a, B: Batch, J: MergeWork<'a>>(
    (threads, ahead): (usize, usize),
    work: J,
    sources: &'a [Source],
    make: &(impl Fn() -> B + Sync),
    write: &mut impl FnMut(&B) -> io::Result<()>,
) -> Result<Findings, Stop> {
    let row = Row { work, queue: VecDeque::new(), taken: 0, spare: Vec::new(), stop: None };
    let limit = threads + ahead;
    let shared = SharedState { sources, limit, make, row: Mutex::new(row), changed: Condvar::new() };
    thread::scope(|scope| {
        for _ in 1..threads {
            // If a thread cannot be started, the others do its share.
            let none = None::<&mut fn(&B) -> io::Result<()>>;
            let _ = thread::Builder::new().spawn_scoped(scope, || shared.work(none));
        }
        shared.work(Some(write));
    });
    let row = shared.row.into_inner();
    row.stop.map_or_else(|| Ok(row.work.findings()), Err)
}

/// The state that the threads share.
struct SharedState<'a, 'm, J, B, M> {
    sources: &'a [Source],
    /// The number of jobs whose lines may be merged or wait to be written at a time.
    limit: usize,
    /// The maker of empty batches.
    make: &'m M,
    row: Mutex<Row<J, B>>,
    changed: Condvar,
}

/// The jobs, in the order of their lines.
struct Row<J, B> {
    work: J,
    /// The lines that are not written yet, in order; `None` while they are being merged.
    queue: VecDeque<Option<MergedJob<B>>>,
    /// The number of batches that were taken from the queue.
    taken: usize,
    /// Batches that were written, to be used again.
    spare: Vec<B>,
    /// The reason to stop: once this is set, all threads end.
    stop: Option<Stop>,
}

/// The lines of a job that are to be written, and the parts of sources that are not needed any more after that.
type MergedJob<B> = (B, Vec<SlicePart>);

type RowGuard<'p, J, B> = MutexGuard<'p, Row<J, B>>;

impl<'a, J: MergeWork<'a>, B: Batch, M: Fn() -> B + Sync> SharedState<'a, '_, J, B, M> {
    /// Ends all threads; a reason that was set before stays.
    fn stop(&self, stop: Stop) -> RowGuard<'_, J, B> {
        let mut row = self.row.lock();
        row.stop.get_or_insert(stop);
        self.changed.notify_all();
        row
    }

    /// Does jobs until no job is left. In between, the thread that has the output writes the lines that are ready.
    fn work<W: FnMut(&B) -> io::Result<()>>(&self, mut out: Option<&mut W>) {
        let _alarm = Alarm(self);
        let mut room = Room::default();
        let mut row = self.row.lock();
        loop {
            row = self.write_ready(row, out.as_deref_mut());
            if row.stop.is_some() {
                return;
            }
            let turn = if row.queue.len() < self.limit { row.work.next() } else { Turn::Wait };
            row = match turn {
                Turn::End if out.is_none() || row.queue.is_empty() => return,
                Turn::Wait | Turn::End => {
                    self.changed.wait(&mut row);
                    row
                }
                Turn::Silent(job) => {
                    drop(row);
                    self.do_silently(job, &mut room)
                }
                Turn::Lines(job) => self.merge(row, job, &mut room),
            };
        }
    }

    /// Writes all lines that are ready at the front of the queue.
    fn write_ready<'p, W: FnMut(&B) -> io::Result<()>>(
        &'p self,
        mut row: RowGuard<'p, J, B>,
        out: Option<&mut W>,
    ) -> RowGuard<'p, J, B> {
        let Some(write) = out else { return row };
        while let Some((lines, parts)) = row.pop_ready() {
            drop(row);
            // The queue has room for the lines of another job, even before these are written.
            self.changed.notify_all();
            if let Err(error) = write(&lines) {
                return self.stop(Stop::Write(error));
            }
            forget(self.sources, &parts);
            row = self.row.lock();
            row.spare.push(lines);
        }
        row
    }

    fn do_silently(&self, job: J::Job, room: &mut Room) -> RowGuard<'_, J, B> {
        match silently::<J>(self.sources, job, room) {
            Ok(job) => {
                let mut row = self.row.lock();
                row.work.done(job);
                self.changed.notify_all();
                row
            }
            Err(stop) => self.stop(stop),
        }
    }

    /// Does a job whose lines stand behind all lines in the queue.
    fn merge<'p>(
        &'p self,
        mut row: RowGuard<'p, J, B>,
        mut job: J::Job,
        room: &mut Room,
    ) -> RowGuard<'p, J, B> {
        let number = row.taken + row.queue.len();
        row.queue.push_back(None);
        let spare = row.spare.pop();
        drop(row);
        let mut lines = spare.unwrap_or_else(self.make);
        let merged = unless_truncated(|| {
            lines.clear();
            J::run(self.sources, &mut job, room, &mut lines)
        });
        if let Err(stop) = merged {
            return self.stop(stop);
        }
        let mut row = self.row.lock();
        let parts = row.work.done(job);
        let place = number - row.taken;
        row.queue[place] = Some((lines, parts));
        self.changed.notify_all();
        row
    }
}

impl<J, B> Row<J, B> {
    /// Takes the front of the queue, if it is ready.
    fn pop_ready(&mut self) -> Option<MergedJob<B>> {
        self.queue.front()?.as_ref()?;
        self.taken += 1;
        self.queue.pop_front()?
    }
}

/// A guard that ends all threads if its thread panics, so that no thread waits for it.
struct Alarm<'p, 'a, 'm, J: MergeWork<'a>, B: Batch, M: Fn() -> B + Sync>(&'p SharedState<'a, 'm, J, B, M>);

impl<'a, J: MergeWork<'a>, B: Batch, M: Fn() -> B + Sync> Drop for Alarm<'_, 'a, '_, J, B, M> {
    fn drop(&mut self) {
        if thread::panicking() {
            drop(self.0.stop(Stop::Write(io::Error::other("a thread of the merge has failed"))));
        }
    }
}
