//! A ring of this process, and the drain that writes the records of the ring's thread to a file. All of this runs on
//! the flusher thread.

use std::io;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use trace_format::meta::{EndReason, Ended, Meta, RingPlace};
use trace_format::ring::{Progress, State};
use trace_store::counter;
use trace_store::drain::{Drain, DrainContext, DrainedRing, Observer};

use super::pace::Pace;
use crate::ring::clock;
use crate::shared::run::{CounterSums, Run};
use crate::shared::thread_ring::ThreadRing;
use crate::sys;

/// The minimum time between two `# clock` lines of a file.
const CLOCK_INTERVAL: Duration = Duration::from_secs(10);
/// The minimum time between two reads of a thread's name.
const NAME_INTERVAL: Duration = Duration::from_millis(50);

/// A ring, its file, and how much of the ring is in the file.
#[derive(Debug)]
pub(crate) struct RingDrain {
    run: &'static Run,
    pub ring: &'static ThreadRing,
    /// The drain of the thread that has the ring; `None` before the first drain for this thread.
    drain: Option<Drain>,
    pace: Pace,
    clock_written_at: Instant,
    /// The time when the thread's name was last read.
    name_read_at: Option<Instant>,
    /// True if records of the thread were written since [`RingDrain::follow_name`] read its name last.
    name_is_due: bool,
    /// True if the ring's thread has ended, its records are written or given up, and the supply of rings has not taken
    /// the ring back yet.
    freed: bool,
    /// True if the next drain has to write the records of a flight recorder.
    wanted: bool,
    /// The position of the ring's thread in the order in which the flusher has seen the threads of flight recorders
    /// end; `None` before the flusher has seen the end of this thread.
    ended: Option<u64>,
    /// True if the ring's file was removed: the records in the ring cannot be recovered.
    orphan: bool,
}

/// The result of a drain: whether it has written all records of the ring.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "it is returned, and kept nowhere")]
pub(crate) enum Extent {
    /// Everything that the ring's thread had written when the drain began is in the file. If the thread has ended, the
    /// value is the drain that has written the file.
    All(Option<Drain>),
    /// The drain was interrupted, and records may be left to write.
    Partial,
}

impl RingDrain {
    pub(crate) fn new(run: &'static Run, ring: &'static ThreadRing) -> RingDrain {
        RingDrain {
            run,
            ring,
            drain: None,
            pace: Pace::new(),
            clock_written_at: Instant::now(),
            name_read_at: None,
            name_is_due: false,
            freed: false,
            wanted: false,
            ended: None,
            orphan: false,
        }
    }

    /// Returns whether no thread has the ring and no records are left to write.
    pub(crate) fn is_free(&self) -> bool {
        self.ring.header().tenancy.state() == Ok(State::Free)
    }

    /// Returns whether the ring became free since the last call.
    pub(crate) fn was_freed(&mut self) -> bool {
        std::mem::take(&mut self.freed)
    }

    pub(crate) fn is_failing(&self) -> bool {
        self.ring.link.failing.load(Ordering::Relaxed)
    }

    /// Returns whether the ring is a flight recorder, which keeps its records until a snapshot is requested.
    pub(crate) fn keeps(&self) -> bool {
        self.ring.memory.overwrites() && !self.wanted && !self.orphan
    }

    /// Requests that the next drain writes the records of the flight recorder.
    pub(crate) fn want(&mut self) {
        // If no thread has the ring, the records of its next thread are not wanted.
        self.wanted = !self.is_free();
    }

    /// Closes the ring for its thread, which takes another one for its next record.
    pub(crate) fn close(&self) {
        self.ring.close();
    }

    /// Closes the ring, whose file was removed, for its thread, which takes another one for its next record.
    pub(crate) fn orphan(&mut self) {
        self.orphan = true;
        self.close();
    }

    /// Returns whether the ring's file was removed.
    pub(crate) fn is_orphan(&self) -> bool {
        self.orphan
    }

    /// Returns whether the records in the ring are lost if the process is killed.
    pub(crate) fn dies_with_process(&self) -> bool {
        self.orphan || self.ring.place == RingPlace::Private
    }

    /// Marks the ring's thread as ended if the thread no longer exists, because it ended without running its exit
    /// handlers.
    pub(crate) fn end_if_thread_is_gone(&mut self) {
        let tenancy = &self.ring.header().tenancy;
        let lent = !self.is_free() && !self.ring.detachment.is_thread_detached();
        if lent && !sys::is_thread_alive(tenancy.tid.load(Ordering::Relaxed)) {
            tenancy.state.store(State::Ended as u32, Ordering::Release);
            // The flusher detaches the thread, in the thread's place; it does not detach itself.
            let _ = self.ring.detachment.detach_thread();
        }
    }

    /// Returns whether the ring's thread has given it back and the ring waits for its last drain.
    pub(crate) fn has_ended(&self) -> bool {
        self.ring.header().tenancy.state() == Ok(State::Ended) && self.ring.detachment.is_thread_detached()
    }

    /// Returns whether the ring's thread has called `exit` and the thread's file is not ended. This file ends last, so
    /// it has the number of all files of the run.
    pub(crate) fn waits_for_exit(&self) -> bool {
        let drain_goes_on = self.drain.as_ref().is_some_and(|drain| !drain.is_ended(self.ring.header()));
        drain_goes_on && self.has_ended() && self.ring.end_reason() == EndReason::Exit
    }

    fn drained(&self) -> DrainedRing<'static> {
        let start = Some(&self.run.start);
        let looks = Some(&self.run.looks);
        DrainedRing { memory: &self.ring.memory, place: self.ring.place, why: &self.ring.why, start, looks }
    }

    /// Writes the records in the ring. If its thread has ended, ends the file, frees the ring and returns the drain
    /// that has written the file. Calls `is_interrupted` between two portions of records; if `is_interrupted` returns
    /// true, leaves the rest to the next call.
    pub(crate) fn drain(
        &mut self,
        context: &mut DrainContext<'_>,
        is_interrupted: &dyn Fn() -> bool,
    ) -> io::Result<Extent> {
        // Acquire, before the head is loaded: an ended thread writes nothing more.
        let state = self.ring.header().tenancy.state();
        if state == Ok(State::Free) || self.keeps() {
            return Ok(Extent::All(None));
        }
        let result = self.drain_records(context, state == Ok(State::Ended), is_interrupted);
        self.ring.link.failing.store(result.is_err(), Ordering::Relaxed);
        if let Some(drain) = self.drain.as_mut().filter(|_| result.is_err() && context.place.is_crowded()) {
            // Another thread's file may need the descriptor.
            drain.close();
        }
        if !result? {
            return Ok(Extent::Partial);
        }
        self.wanted = false;
        if self.has_ended() && state == Ok(State::Ended) && !self.waits_for_exit() {
            self.end(context, self.run.ended(self.ring.end_reason()))?;
            return Ok(Extent::All(self.free().filter(Drain::has_file)));
        }
        Ok(Extent::All(None))
    }

    /// Writes the records up to the thread's current position and not further, so that a busy thread does not keep
    /// other threads waiting. Returns false if it stopped earlier: `is_interrupted` has returned true, or the files
    /// have exceeded the limit for all files together.
    fn drain_records(
        &mut self,
        context: &mut DrainContext<'_>,
        ended: bool,
        is_interrupted: &dyn Fn() -> bool,
    ) -> io::Result<bool> {
        let (ring, drained, run) = (self.ring, self.drained(), self.run);
        let header = ring.header();
        let goal = (header.main.head(), header.nested.head());
        let drain = self.drain.get_or_insert_with(|| Drain::new(ring.header(), context.place.encoding));
        self.pace.look(
            Instant::now(),
            goal.0,
            goal.0.saturating_sub(drain.consumed().0),
            ring.geometry().capacity,
        );
        loop {
            let bytes = drain.portion(drained, context, &|| ended || ring.is_idle())?;
            run.count_written(bytes);
            if bytes == 0 {
                return Ok(true);
            }
            ring.wake_if_room();
            self.name_is_due = true;
            // An ended thread has noted its name itself.
            if !ended && self.name_read_at.is_none_or(|at| at.elapsed() > NAME_INTERVAL) {
                self.name_read_at = Some(Instant::now());
                ring.read_name();
                run.count_written(drain.write_name_line(drained, context, clock::now())?);
            }
            if self.clock_written_at.elapsed() > CLOCK_INTERVAL {
                self.clock_written_at = Instant::now();
                run.count_written(drain.write_meta_line(drained, context, &clock_line())?);
            }
            let reached = drain.consumed();
            if reached.0 >= goal.0 && reached.1 >= goal.1 {
                return Ok(true);
            }
            if is_interrupted() || context.place.is_over_total() {
                return Ok(false);
            }
        }
    }

    /// Returns when the ring has to be drained again so that its thread need not wake the flusher; `None` if the thread
    /// makes no records, the file cannot be written, or the ring is a flight recorder that keeps its records.
    pub(crate) fn next_look(&self) -> Option<Instant> {
        self.pace.next_look().filter(|_| !self.is_failing() && !self.keeps())
    }

    /// Returns the length of the file that is being written for the ring's thread, in bytes.
    pub(crate) fn file_length(&self) -> u64 {
        self.drain.as_ref().map_or(0, Drain::file_length)
    }

    /// Drops the older half of the file of the ring's thread; returns whether that was done.
    pub(crate) fn drop_older_half(&mut self, context: &mut DrainContext<'_>) -> bool {
        let drained = self.drained();
        self.drain.as_mut().is_some_and(|drain| drain.drop_older_half(drained, context))
    }

    /// Checks whether the thread's file was deleted or truncated; if so, closes it.
    pub(crate) fn check_file(&mut self) {
        if let Some(drain) = &mut self.drain {
            drain.check_file();
        }
    }

    /// Reads the thread's name again, once after its newest records, and writes the name into the file if it has
    /// changed: a thread that makes no more records may have got its name after the last drain.
    pub(crate) fn follow_name(&mut self, context: &mut DrainContext<'_>) {
        let drained = self.drained();
        if let Some(drain) = self.drain.as_mut().filter(|_| std::mem::take(&mut self.name_is_due)) {
            self.ring.read_name();
            // A file that cannot take the line now gets it at its end.
            self.run.count_written(drain.write_name_line(drained, context, clock::now()).unwrap_or(0));
        }
    }

    /// Writes the last lines of the thread's file, if the file exists and has no last lines yet. Returns whether it has
    /// written any.
    pub(crate) fn end(&mut self, context: &mut DrainContext<'_>, ended: Ended) -> io::Result<bool> {
        let (drained, dies) = (self.drained(), self.dies_with_process());
        let header = self.ring.header();
        let Some(drain) = self.drain.as_mut().filter(|drain| !drain.is_ended(header)) else {
            return Ok(false);
        };
        self.ring.read_name();
        if dies {
            // Records inside an unfinished record wait for its end, and this ring cannot be recovered.
            while drain.portion(drained, context, &|| true)? > 0 {}
        }
        let bytes = drain.end(drained, context, ended, Some(clock_line()))?;
        self.run.count_written(bytes);
        Ok(bytes > 0)
    }

    /// Writes a line into the file, if there is a file that can take it now.
    pub(crate) fn write_meta_line(&mut self, context: &mut DrainContext<'_>, meta: &Meta) -> io::Result<()> {
        let drained = self.drained();
        let Some(drain) = &mut self.drain else { return Ok(()) };
        self.run.count_written(drain.write_meta_line(drained, context, meta)?);
        Ok(())
    }

    /// Returns the number of the thread's records that its files neither contain nor report as lost, as recovery
    /// would count them.
    pub(crate) fn unreported_records(&self, context: &mut DrainContext<'_>) -> u64 {
        let header = self.ring.header();
        if self.is_free() {
            return 0;
        }
        let observer = Observer::new(self.drained(), context.info, &mut *context.tables, header.published());
        // 0 for a damaged ring: its records cannot be counted.
        observer.dead(EndReason::Exit.into()).map_or(0, |rest| rest.records.saturating_add(rest.lost))
    }

    /// Returns the number of records that the ring's thread lost before it had the ring; 0 if the flusher has looked at
    /// the ring since the thread took it.
    pub(crate) fn unseen_losses(&self) -> u64 {
        // The thread stores the number before it takes the ring.
        let is_unseen = !self.is_free() && self.drain.is_none();
        if is_unseen { self.ring.header().main.lost_full.load(Ordering::Relaxed) } else { 0 }
    }

    /// Adds 1 to `count`, the number of threads that were seen to end, and stores the result as the position of the
    /// ring's thread among them. Further calls for the same thread do nothing.
    pub(crate) fn note_end(&mut self, count: &mut u64) {
        if self.ended.is_none() {
            *count += 1;
            self.ended = Some(*count);
        }
    }

    /// Returns the position of the ring's thread in the order in which the flusher has seen the threads of flight
    /// recorders end; `None` before the flusher has seen the end of this thread.
    pub(crate) fn end_position(&self) -> Option<u64> {
        self.ended
    }

    /// Frees the ring of an ended thread without writing the rest of it; returns the number of lost records.
    pub(crate) fn give_up(&mut self) -> u64 {
        let committed = CounterSums::of(self.ring.header()).records;
        let lost = committed.saturating_sub(self.drain.as_ref().map_or(0, Drain::records));
        self.ring.link.failing.store(false, Ordering::Relaxed);
        if let Some(drain) = self.free() {
            drain.discard_empty();
        }
        lost
    }

    /// Makes the ring ready for another thread; returns the drain of the thread that had it.
    fn free(&mut self) -> Option<Drain> {
        let header = self.ring.header();
        // Locked until the ring's own counters are cleared, so that a sum over all rings counts each record once.
        let mut finished = self.run.finished.lock();
        finished.add(CounterSums::of(header));
        let drain = self.drain.take();
        self.pace = Pace::new();
        (self.freed, self.ended, self.name_read_at, self.name_is_due) = (true, None, None, false);
        self.ring.detachment.renew();
        // From here on a recoverer ignores the ring.
        header.tenancy.state.store(State::Free as u32, Ordering::Release);
        header.main.clear_counters();
        header.nested.clear_counters();
        drop(finished);
        let progress = Progress {
            consumed: header.main.head(),
            nested_consumed: header.nested.head(),
            ..Progress::default()
        };
        header.publish(&progress);
        header.free(&progress);
        drain
    }
}

/// Reads the clocks for a `# clock` line.
pub(super) fn clock_line() -> Meta {
    counter::clock_line(clock::now)
}
