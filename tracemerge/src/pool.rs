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
use crate::merge::{Stop, merge_in_turn, merge_slice};
use crate::slice::{Slice, Slicer, Span};
use crate::source::{Piece, Source};

/// Fewer bytes than this are merged sooner than threads are started.
const WORTH_THREADS: usize = 4 << 20;
/// More threads would only wait for the writer.
const MOST_THREADS: usize = 8;
/// Slices that may wait to be written, beyond one for each thread.
const AHEAD: usize = 2;

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
    if threads == 1 || slicer.left() < WORTH_THREADS {
        return merge_in_turn(sources, slicer, out, findings);
    }
    merge_by(threads, slicer, sources, out, findings)
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
            let _ = thread::Builder::new().spawn_scoped(scope, || pool.help());
        }
        pool.write(out, findings);
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
    /// Slices that are not written yet, in order; `None` is being merged.
    queue: VecDeque<Option<Done<'a>>>,
    /// How many were taken from the queue.
    taken: usize,
    spare: Vec<Gather<'a>>,
    /// Set, all threads end.
    stop: Option<Stop>,
}

/// A slice that is merged.
struct Done<'a> {
    slice: Slice,
    lines: Gather<'a>,
    findings: Findings,
}

impl<'a> Pool<'a> {
    fn lock(&self) -> MutexGuard<'_, Row<'a>> {
        self.row.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stop(&self, stop: Stop) {
        self.lock().stop.get_or_insert(stop);
        self.changed.notify_all();
    }

    /// Merges slices until there are no more.
    fn help(&self) {
        let _alarm = Alarm(self);
        let mut text = Vec::new();
        let mut row = self.lock();
        while row.stop.is_none() && !row.is_cut {
            row = self.merge_one_or_wait(row, &mut text);
        }
    }

    /// Writes slices until all are written; merges where there is none to write.
    fn write<W: Write>(&self, out: &mut W, findings: &mut Findings) {
        let _alarm = Alarm(self);
        let mut text = Vec::new();
        let mut row = self.lock();
        while row.stop.is_none() {
            if let Some(done) = row.take_done() {
                drop(row);
                // There is room for another slice already.
                self.changed.notify_all();
                if let Err(error) = done.lines.write(out) {
                    return self.stop(Stop::Write(error));
                }
                findings.append(done.findings);
                done.slice.forget(self.sources);
                row = self.lock();
                row.spare.push(done.lines);
                self.changed.notify_all();
            } else if row.is_cut && row.queue.is_empty() {
                return;
            } else {
                row = self.merge_one_or_wait(row, &mut text);
            }
        }
    }

    /// Merges the next slice if there is one and room for it; otherwise waits until something has changed.
    fn merge_one_or_wait<'p>(
        &'p self,
        mut row: MutexGuard<'p, Row<'a>>,
        text: &mut Vec<u8>,
    ) -> MutexGuard<'p, Row<'a>> {
        let slicer = if row.queue.len() < self.limit { row.slicer.take() } else { None };
        let Some(mut slicer) = slicer else {
            return self.changed.wait(row).unwrap_or_else(PoisonError::into_inner);
        };
        drop(row);
        let slice = slicer.next();
        let mut row = self.lock();
        let Some(mut slice) = slice else {
            row.is_cut = true;
            self.changed.notify_all();
            return row;
        };
        row.slicer = Some(slicer);
        let number = row.taken + row.queue.len();
        row.queue.push_back(None);
        let spare = row.spare.pop();
        drop(row);
        self.changed.notify_all();
        let mut lines = spare.unwrap_or_else(|| Gather::new(self.sources));
        let findings = loop {
            let cuts = cut::count();
            lines.clear();
            let mut findings = Findings::default();
            if let Err(stop) = merge_slice(self.sources, &slice, text, &mut lines, &mut findings) {
                self.stop(stop);
                return self.lock();
            }
            if cuts == cut::count() {
                break findings;
            }
            // Zeros may have been read in the place of lines.
            slice.look_for_cuts(self.sources);
        };
        let mut row = self.lock();
        let place = number - row.taken;
        row.queue[place] = Some(Done { slice, lines, findings });
        self.changed.notify_all();
        row
    }
}

impl<'a> Row<'a> {
    /// Takes the slice that is to be written next, if it is merged.
    fn take_done(&mut self) -> Option<Done<'a>> {
        let done = self.queue.front_mut()?.take()?;
        self.queue.pop_front();
        self.taken += 1;
        Some(done)
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
