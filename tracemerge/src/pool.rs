//! The merge by several threads: each takes a slice of time and merges it into memory; the calling thread also writes
//! what is done, in order.
//!
//! There is one writer, and it writes from the first byte to the last: operating systems let only one thread write
//! to a file at a time, wherever in it, so several gain nothing, while this way a pipe is no different from a file, and
//! no length need be known beforehand. Writing is as much as `cat` does; what it does besides is shared by all.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::num::NonZero;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use crate::cut;
use crate::findings::Findings;
use crate::gather::Gather;
use crate::merge::{Room, Stop, merge_slice};
use crate::slice::{Slice, Slicer, Span};
use crate::source::{Piece, Source};

/// Fewer bytes than this are merged sooner than threads are started.
const WORTH_THREADS: usize = 4 << 20;
/// More threads would only wait for the writer.
const MOST_THREADS: usize = 8;
/// Slices that may wait to be written, beyond one for each thread.
const AHEAD: usize = 2;
/// Portions of a slice that may wait to be written, if it has several.
const PORTIONS: usize = if cfg!(test) { 2 } else { 40 };

/// Merges what `pieces` have in `span` into `out`, as [`merge`](crate::merge::merge) does and with the same result.
///
/// # Errors
/// As [`merge`](crate::merge::merge).
pub fn merge_by_all<W: Write>(
    sources: &[Source],
    pieces: &[Piece],
    span: Span,
    out: &mut W,
    findings: &mut Findings,
) -> Result<(), Stop> {
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(MOST_THREADS);
    let slicer = Slicer::new(sources, pieces, span, findings);
    let threads = if slicer.left() < WORTH_THREADS { 1 } else { threads };
    merge_by(threads, slicer.shared_by(threads), sources, out, findings)
}

/// [`merge_by_all`], by so many threads.
pub fn merge_by<W: Write>(
    threads: usize,
    slicer: Slicer<'_>,
    sources: &[Source],
    out: &mut W,
    findings: &mut Findings,
) -> Result<(), Stop> {
    let row = Row {
        slicer: Some(slicer),
        is_cut: false,
        queue: VecDeque::new(),
        taken: 0,
        spare: Vec::new(),
        stop: None,
    };
    let pool = Pool { sources, limit: threads + AHEAD, row: Mutex::new(row), changed: Condvar::new() };
    thread::scope(|scope| {
        for _ in 1..threads {
            // A thread that cannot be had leaves its share to the others.
            let _ = thread::Builder::new().spawn_scoped(scope, || pool.work::<W>(None));
        }
        pool.work(Some(Writer { out, findings }));
    });
    let stop = pool.lock().stop.take();
    stop.map_or(Ok(()), Err)
}

/// What the threads share.
struct Pool<'a> {
    sources: &'a [Source],
    /// So many slices are merged or wait to be written.
    limit: usize,
    row: Mutex<Row<'a>>,
    changed: Condvar,
}

/// The slices in their row.
struct Row<'a> {
    /// Away while a thread cuts with it.
    slicer: Option<Slicer<'a>>,
    /// There are no more slices to be cut.
    is_cut: bool,
    /// Slices that are not all written yet, in order.
    queue: VecDeque<Merged<'a>>,
    /// How many were taken from the queue.
    taken: usize,
    spare: Vec<Gather<'a>>,
    /// Set, all threads end.
    stop: Option<Stop>,
}

/// What is to be written of a slice.
#[derive(Default)]
struct Merged<'a> {
    /// Portions of its lines.
    ready: VecDeque<Gather<'a>>,
    /// Set when those are the last: the slice, and what was found in it.
    end: Option<(Slice, Findings)>,
}

/// What only the calling thread has.
struct Writer<'o, W> {
    out: &'o mut W,
    findings: &'o mut Findings,
}

type RowGuard<'p, 'a> = MutexGuard<'p, Row<'a>>;

impl<'a> Pool<'a> {
    fn lock(&self) -> RowGuard<'_, 'a> {
        self.row.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'p>(&self, row: RowGuard<'p, 'a>) -> RowGuard<'p, 'a> {
        self.changed.wait(row).unwrap_or_else(PoisonError::into_inner)
    }

    fn stop(&self, stop: Stop) {
        self.lock().stop.get_or_insert(stop);
        self.changed.notify_all();
    }

    /// Writes what can be written, if this thread is the one that does, and merges slices in between, until there are
    /// no more.
    fn work<W: Write>(&self, mut writer: Option<Writer<'_, W>>) {
        let _alarm = Alarm(self);
        let mut room = Room::default();
        let mut row = self.lock();
        while row.stop.is_none() {
            row = self.write_ready(row, writer.as_mut());
            let all_is_done = row.is_cut && (writer.is_none() || row.queue.is_empty());
            if all_is_done || row.stop.is_some() {
                return;
            }
            let slicer = if row.queue.len() < self.limit { row.slicer.take() } else { None };
            row = match slicer {
                Some(slicer) => {
                    drop(row);
                    self.merge_one(slicer, &mut room, writer.as_mut())
                }
                None => self.wait(row),
            };
        }
    }

    /// Writes all that is ready at the front.
    fn write_ready<'p, W: Write>(
        &'p self,
        mut row: RowGuard<'p, 'a>,
        writer: Option<&mut Writer<'_, W>>,
    ) -> RowGuard<'p, 'a> {
        let Some(writer) = writer else { return row };
        while let Some(first) = row.queue.front_mut() {
            if let Some(lines) = first.ready.pop_front() {
                drop(row);
                // There is room for another portion already.
                self.changed.notify_all();
                if let Err(error) = lines.write(writer.out) {
                    self.stop(Stop::Write(error));
                    return self.lock();
                }
                row = self.lock();
                row.spare.push(lines);
            } else if let Some((slice, findings)) = first.end.take() {
                row.queue.pop_front();
                row.taken += 1;
                drop(row);
                // And for another slice.
                self.changed.notify_all();
                writer.findings.append(findings);
                slice.forget(self.sources);
                row = self.lock();
            } else {
                break;
            }
        }
        row
    }

    /// Merges the next slice, if there is one.
    fn merge_one<'p, W: Write>(
        &'p self,
        mut slicer: Slicer<'a>,
        room: &mut Room,
        mut writer: Option<&mut Writer<'_, W>>,
    ) -> RowGuard<'p, 'a> {
        let slice = slicer.next();
        let mut row = self.lock();
        let Some(slice) = slice else {
            row.is_cut = true;
            self.changed.notify_all();
            return row;
        };
        row.slicer = Some(slicer);
        let number = row.taken + row.queue.len();
        row.queue.push_back(Merged::default());
        let mut lines = row.take_spare(self.sources);
        drop(row);
        self.changed.notify_all();
        let (slice, findings) = match self.merge_whole(slice, room, &mut lines) {
            Ok(merged) => merged,
            Err(stop) => {
                self.stop(stop);
                return self.lock();
            }
        };
        loop {
            let more = match room.pass_on(&mut lines) {
                Ok(more) => more,
                Err(error) => {
                    self.stop(Stop::Write(error));
                    return self.lock();
                }
            };
            let mut row = self.lock();
            let merged = row.merged(number);
            merged.ready.push_back(lines);
            if !more {
                merged.end = Some((slice, findings));
                self.changed.notify_all();
                return row;
            }
            self.changed.notify_all();
            while row.stop.is_none() {
                row = self.write_ready(row, writer.as_deref_mut());
                if row.merged(number).ready.len() < PORTIONS {
                    break;
                }
                row = self.wait(row);
            }
            if row.stop.is_some() {
                return row;
            }
            lines = row.take_spare(self.sources);
        }
    }

    /// Merges a slice into `lines` and `room`.
    fn merge_whole(
        &self,
        mut slice: Slice,
        room: &mut Room,
        lines: &mut Gather<'a>,
    ) -> Result<(Slice, Findings), Stop> {
        loop {
            let cuts = cut::count();
            if cuts > 0 {
                // While the slice was cut out, or merged.
                slice.look_for_cuts(self.sources);
            }
            lines.clear();
            let mut findings = Findings::default();
            merge_slice(self.sources, &slice, room, lines, &mut findings)?;
            // Otherwise zeros may have been read in the place of lines.
            if cuts == cut::count() {
                return Ok((slice, findings));
            }
        }
    }
}

impl<'a> Row<'a> {
    /// The slice with this number, which is not all written yet.
    fn merged(&mut self, number: usize) -> &mut Merged<'a> {
        let place = number - self.taken;
        &mut self.queue[place]
    }

    fn take_spare(&mut self, sources: &'a [Source]) -> Gather<'a> {
        let mut lines = self.spare.pop().unwrap_or_else(|| Gather::new(sources));
        lines.clear();
        lines
    }
}

/// Ends all threads when one of them panics, so that none waits for it.
struct Alarm<'p, 'a>(&'p Pool<'a>);

impl Drop for Alarm<'_, '_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.stop(Stop::Write(io::Error::other("a thread of the merge has failed")));
        }
    }
}
