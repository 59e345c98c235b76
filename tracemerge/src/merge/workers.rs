//! The merge by several threads: each takes a job and merges into memory; the calling thread also writes
//! finished lines, in order.
//!
//! There is one writer, and it writes from the first byte to the last: operating systems let only one thread
//! write to a file at a time, wherever in it, so several writers gain nothing, while this way a pipe is no
//! different from a file, and no length need be known beforehand. Writing takes as much time as `cat` takes;
//! all other work is shared.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::num::NonZero;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use crate::input::findings::Findings;
use crate::input::slice::{SlicePart, TickSpan};
use crate::input::source::{SortedRange, Source};
use crate::merge::merged_lines::MergedLines;
use crate::merge::{MANY, MergeWork, Room, Slices, Stop, Turn, Windows, forget, silently, unless_truncated};

/// The number of bytes below which merging is done sooner than threads are started.
const WORTH_THREADS: usize = 4 << 20;
/// The number of threads above which more would only wait for the writer.
const MOST_THREADS: usize = 8;
/// The number of jobs whose lines may wait to be written, beyond one for each thread.
const AHEAD: usize = if cfg!(test) { 2 } else { 8 };

/// Merges what `ranges` have in `span` into `out`, as [`merge`](crate::merge::merge) does and with the same
/// result.
///
/// # Errors
/// The errors are those of [`merge`](crate::merge::merge).
pub fn merge_by_all<W: Write>(
    sources: &[Source],
    ranges: &[SortedRange],
    span: TickSpan,
    out: &mut W,
    findings: &mut Findings,
) -> Result<(), Stop> {
    let most = thread::available_parallelism().map_or(1, NonZero::get).min(MOST_THREADS);
    let threads = |bytes| if bytes < WORTH_THREADS { 1 } else { most };
    let found = if ranges.len() < MANY {
        let slices = Slices::new(sources, ranges, span);
        merge_by(threads(slices.bytes()), slices, sources, out)?
    } else {
        let windows = Windows::new(sources, ranges, span, most);
        merge_by(threads(windows.bytes()), windows, sources, out)?
    };
    findings.append(found);
    Ok(())
}

/// Does all `work` by so many `threads`; returns what was found.
///
/// # Errors
/// The errors are those of [`merge`](crate::merge::merge).
pub fn merge_by<'a, W: Write, J: MergeWork<'a>>(
    threads: usize,
    work: J,
    sources: &'a [Source],
    out: &mut W,
) -> Result<Findings, Stop> {
    let row = Row { work, queue: VecDeque::new(), taken: 0, spare: Vec::new(), stop: None };
    let shared =
        SharedState { sources, limit: threads + AHEAD, row: Mutex::new(row), changed: Condvar::new() };
    thread::scope(|scope| {
        for _ in 1..threads {
            // A thread that cannot be started leaves its share to the others.
            let _ = thread::Builder::new().spawn_scoped(scope, || shared.work::<W>(None));
        }
        shared.work(Some(out));
    });
    let row = shared.row.into_inner().unwrap_or_else(PoisonError::into_inner);
    row.stop.map_or_else(|| Ok(row.work.findings()), Err)
}

/// The state that the threads share.
struct SharedState<'a, J> {
    sources: &'a [Source],
    /// The number of jobs whose lines may be merged or wait to be written at a time.
    limit: usize,
    row: Mutex<Row<'a, J>>,
    changed: Condvar,
}

/// The jobs in the order of their lines.
struct Row<'a, J> {
    work: J,
    /// The lines that are not written yet, in order; `None` while they are being merged.
    queue: VecDeque<Option<MergedJob<'a>>>,
    /// The number of jobs that were taken from the queue.
    taken: usize,
    spare: Vec<MergedLines<'a>>,
    /// The reason to end: once this is set, all threads end.
    stop: Option<Stop>,
}

/// The lines of a job that are to be written, and the parts of sources that are not needed any more then.
type MergedJob<'a> = (MergedLines<'a>, Vec<SlicePart>);

type RowGuard<'p, 'a, J> = MutexGuard<'p, Row<'a, J>>;

impl<'a, J: MergeWork<'a>> SharedState<'a, J> {
    fn lock(&self) -> RowGuard<'_, 'a, J> {
        self.row.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends all threads.
    fn stop(&self, stop: Stop) -> RowGuard<'_, 'a, J> {
        let mut row = self.lock();
        row.stop.get_or_insert(stop);
        self.changed.notify_all();
        row
    }

    /// Does jobs until there are no more. The thread that has the output also writes the lines that are ready
    /// in between.
    fn work<W: Write>(&self, mut out: Option<&mut W>) {
        let _alarm = Alarm(self);
        let mut room = Room::default();
        let mut row = self.lock();
        loop {
            row = self.write_ready(row, out.as_deref_mut());
            if row.stop.is_some() {
                return;
            }
            let turn = if row.queue.len() < self.limit { row.work.next() } else { Turn::Wait };
            row = match turn {
                Turn::End if out.is_none() || row.queue.is_empty() => return,
                Turn::Wait | Turn::End => self.changed.wait(row).unwrap_or_else(PoisonError::into_inner),
                Turn::Silent(job) => {
                    drop(row);
                    self.do_silently(job, &mut room)
                }
                Turn::Lines(job) => self.merge(row, job, &mut room),
            };
        }
    }

    /// Writes all lines that are ready at the front of the queue.
    fn write_ready<'p, W: Write>(
        &'p self,
        mut row: RowGuard<'p, 'a, J>,
        out: Option<&mut W>,
    ) -> RowGuard<'p, 'a, J> {
        let Some(out) = out else { return row };
        while let Some((lines, parts)) = row.pop_ready() {
            drop(row);
            // The queue has room for another job's lines already.
            self.changed.notify_all();
            if let Err(error) = lines.write(out) {
                return self.stop(Stop::Write(error));
            }
            forget(self.sources, &parts);
            row = self.lock();
            row.spare.push(lines);
        }
        row
    }

    fn do_silently(&self, job: J::Job, room: &mut Room) -> RowGuard<'_, 'a, J> {
        match silently::<J>(self.sources, job, room) {
            Ok(job) => {
                let mut row = self.lock();
                row.work.done(job);
                self.changed.notify_all();
                row
            }
            Err(stop) => self.stop(stop),
        }
    }

    /// Does a job whose lines stand behind all that are in the queue.
    fn merge<'p>(
        &'p self,
        mut row: RowGuard<'p, 'a, J>,
        mut job: J::Job,
        room: &mut Room,
    ) -> RowGuard<'p, 'a, J> {
        let number = row.taken + row.queue.len();
        row.queue.push_back(None);
        let mut lines = row.spare.pop().unwrap_or_else(|| MergedLines::new(self.sources));
        drop(row);
        let merged = unless_truncated(|| {
            lines.clear();
            J::run(self.sources, &mut job, room, &mut lines)
        });
        if let Err(stop) = merged {
            return self.stop(stop);
        }
        let mut row = self.lock();
        let parts = row.work.done(job);
        let place = number - row.taken;
        row.queue[place] = Some((lines, parts));
        self.changed.notify_all();
        row
    }
}

impl<'a, J> Row<'a, J> {
    /// Takes the front of the queue, if it is ready.
    fn pop_ready(&mut self) -> Option<MergedJob<'a>> {
        self.queue.front()?.as_ref()?;
        self.taken += 1;
        self.queue.pop_front()?
    }
}

/// Ends all threads when one of them panics, so that none waits for it.
struct Alarm<'p, 'a, J: MergeWork<'a>>(&'p SharedState<'a, J>);

impl<'a, J: MergeWork<'a>> Drop for Alarm<'_, 'a, J> {
    fn drop(&mut self) {
        if thread::panicking() {
            drop(self.0.stop(Stop::Write(io::Error::other("a thread of the merge has failed"))));
        }
    }
}
