//! One ring being drained into one file, in the order that loses and doubles nothing. Flusher thread only.
#![allow(unsafe_code, reason = "reads committed records out of the mapping; argued where it stands")]

use super::trace_file::{TraceFile, TracePlace};
use crate::clock;
use crate::run::{Run, ThreadRing};
use crate::sys;
use std::io;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use trace_format::meta::{self, EndReason, Meta};
use trace_format::record::Records;
use trace_format::render::{RenderState, Renderer};
use trace_format::ring::{Progress, State, readable};

/// Text is written in portions of about this size, so that a waiting thread soon finds room.
const PORTION: usize = 256 * 1024;
/// A file gets a `# clock` line at most this often.
const CLOCK_INTERVAL: Duration = Duration::from_secs(10);

/// What a drain works with.
pub(crate) struct Work<'a> {
    pub run: &'static Run,
    pub info: &'a meta::Run,
    pub place: &'a mut TracePlace,
    pub out: &'a mut Vec<u8>,
}

/// A ring, its file, and how far the one is in the other.
#[derive(Debug)]
pub(crate) struct Tail {
    pub ring: &'static ThreadRing,
    tenant: Option<Tenant>,
    /// Its thread has ended and all is written: it can be lent again.
    freed: bool,
}

/// The thread whose records are being written.
#[derive(Debug)]
struct Tenant {
    tid: u64,
    renderer: Renderer,
    file: Option<TraceFile>,
    progress: Progress,
    clock_told: Instant,
    ended: bool,
}

impl Tail {
    pub(crate) fn new(ring: &'static ThreadRing) -> Tail {
        Tail { ring, tenant: None, freed: false }
    }

    /// Whether no thread has the ring and nothing of one is left to write.
    pub(crate) fn is_free(&self) -> bool {
        self.ring.header().tenancy.state() == Ok(State::Free)
    }

    /// Whether the ring became free since this was asked last.
    pub(crate) fn was_freed(&mut self) -> bool {
        std::mem::take(&mut self.freed)
    }

    pub(crate) fn is_failing(&self) -> bool {
        self.ring.link.failing.load(Ordering::Relaxed)
    }

    /// Takes the ring from its thread.
    pub(crate) fn close(&self) {
        self.ring.close();
    }

    /// Marks the ring's thread as ended if the system does not know it any more: one that was ended without
    /// its exit handlers.
    pub(crate) fn end_if_thread_is_gone(&mut self) {
        let tenancy = &self.ring.header().tenancy;
        if tenancy.state() == Ok(State::Owned) && !sys::thread_lives(tenancy.tid.load(Ordering::Relaxed)) {
            tenancy.state.store(State::Ended as u32, Ordering::Release);
        }
    }

    /// Whether the ring's thread has ended and the ring waits to be drained for the last time.
    pub(crate) fn has_ended(&self) -> bool {
        self.ring.header().tenancy.state() == Ok(State::Ended)
    }

    /// Writes what the ring holds. If its thread has ended, ends the file and frees the ring.
    pub(crate) fn drain(&mut self, work: &mut Work<'_>) -> io::Result<()> {
        // Acquire, before the head is looked at: nothing follows what an ended thread wrote.
        let state = self.ring.header().tenancy.state();
        if state == Ok(State::Free) {
            return Ok(());
        }
        let result = self.drain_records(work, state == Ok(State::Ended));
        self.ring.link.failing.store(result.is_err(), Ordering::Relaxed);
        result?;
        if state == Ok(State::Ended) {
            self.end(work, self.ring.end_reason())?;
            self.free(work.run);
        }
        Ok(())
    }

    /// Goes on to where the thread is now and not further, so that a busy one does not keep the others waiting.
    fn drain_records(&mut self, work: &mut Work<'_>, ended: bool) -> io::Result<()> {
        let header = self.ring.header();
        let goal = header.main.head.load(Ordering::Relaxed);
        let tenant = self.tenant.get_or_insert_with(|| Tenant::new(self.ring));
        while tenant.drain_portion(self.ring, work, ended)? && tenant.progress.consumed < goal {}
        Ok(())
    }

    /// Writes the last lines of the file, once.
    pub(crate) fn end(&mut self, work: &mut Work<'_>, reason: EndReason) -> io::Result<()> {
        let Some(tenant) = self.tenant.as_mut().filter(|t| t.file.is_some() && !t.ended) else {
            return Ok(());
        };
        work.out.clear();
        let before = tenant.renderer.clone();
        tenant.renderer.close_torn(work.out);
        tenant.renderer.losses(&self.ring.header().losses(), work.out);
        tenant.tell_clock(work);
        tenant.renderer.end(reason, work.out);
        if let Err(error) = tenant.write(self.ring, work) {
            tenant.renderer = before;
            return Err(error);
        }
        tenant.ended = true;
        Ok(())
    }

    /// Makes the ring ready for another thread.
    fn free(&mut self, run: &Run) {
        let header = self.ring.header();
        run.finished.lock().add(crate::run::Totals::of(header));
        self.tenant = None;
        self.freed = true;
        // From here on a recoverer ignores it.
        header.tenancy.state.store(State::Free as u32, Ordering::Release);
        header.main.clear_counters();
        header.nested.clear_counters();
        let progress = Progress {
            consumed: header.main.head.load(Ordering::Relaxed),
            nested_consumed: header.nested.head.load(Ordering::Relaxed),
            ..Progress::default()
        };
        header.publish(&progress);
        header.free(&progress);
    }
}

impl Tenant {
    fn new(ring: &'static ThreadRing) -> Tenant {
        let header = ring.header();
        let tid = header.tenancy.tid.load(Ordering::Relaxed);
        let since = header.tenancy.since.load(Ordering::Relaxed);
        let state = RenderState { last: trace_format::line::Ticks(since), ..RenderState::default() };
        Tenant {
            tid,
            renderer: Renderer::new(tid, state),
            file: None,
            progress: header.published(),
            clock_told: Instant::now(),
            ended: false,
        }
    }

    /// Renders and writes one portion; false when there was nothing.
    fn drain_portion(
        &mut self,
        ring: &'static ThreadRing,
        work: &mut Work<'_>,
        ended: bool,
    ) -> io::Result<bool> {
        let (header, geometry) = (ring.header(), ring.geometry());
        // The order matters: see `Renderer::records`.
        let damaged = |e| io::Error::other(format!("the ring of thread {} is damaged: {e}", self.tid));
        let nested = readable(&header.nested, self.progress.nested_consumed, geometry.nested_capacity)
            .map_err(damaged)?;
        let idle = ended || ring.is_idle();
        let main = readable(&header.main, self.progress.consumed, geometry.capacity).map_err(damaged)?;
        let before = self.renderer.clone();
        let losses = header.losses();
        let (consumed, nested_consumed) = (main.start, nested.start);
        // SAFETY: this is the consumer; both ranges go from what was consumed to a head loaded with Acquire, and
        // are freed only below, when the records are no longer used.
        let (mut main, mut nested) = unsafe {
            let (m, n) = (ring.memory.data().parts(main), ring.memory.nested_data().parts(nested));
            (
                Records::new(m, consumed, geometry.block),
                Records::new(n, nested_consumed, geometry.nested_block),
            )
        };
        work.out.clear();
        self.renderer.records(&mut main, &mut nested, idle, PORTION, work.out);
        self.renderer.losses(&losses, work.out);
        self.progress.consumed = main.position();
        self.progress.nested_consumed = nested.position();
        if work.out.is_empty() {
            return Ok(false);
        }
        if self.clock_told.elapsed() > CLOCK_INTERVAL {
            self.tell_clock(work);
        }
        if let Err(error) = self.write(ring, work) {
            self.renderer = before;
            self.progress.consumed = consumed;
            self.progress.nested_consumed = nested_consumed;
            return Err(error);
        }
        Ok(true)
    }

    fn tell_clock(&mut self, work: &mut Work<'_>) {
        if !self.renderer.state().in_message {
            let (ticks, wall) = clock::pair(work.info.clock);
            self.renderer.meta(&Meta::Clock { ticks, wall }, work.out);
            self.clock_told = Instant::now();
        }
    }

    /// Appends `work.out` to the file, which is made if need be, publishes, and frees the space: the steps (a)
    /// to (d) of [`trace_format::ring`]. On error nothing has happened.
    fn write(&mut self, ring: &'static ThreadRing, work: &mut Work<'_>) -> io::Result<()> {
        self.ended = false;
        if self.file.is_none() {
            self.file = Some(self.create_file(ring, work)?);
        }
        let Some(file) = self.file.as_mut() else { return Ok(()) };
        file.append(work.out)?;
        self.progress.file_length = file.length;
        self.progress.device = file.identity.device;
        self.progress.inode = file.identity.inode;
        self.progress.file_number = file.number;
        self.progress.render = self.renderer.state();
        ring.header().publish(&self.progress);
        ring.header().free(&self.progress);
        work.run.bytes.fetch_add(work.out.len() as u64, Ordering::Relaxed);
        work.run.exit.progress.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// A new file with its two lines, the ticks of which are those when the thread took the ring.
    fn create_file(&self, ring: &ThreadRing, work: &mut Work<'_>) -> io::Result<TraceFile> {
        let mut file = work.place.create(self.tid)?;
        let tenancy = &ring.header().tenancy;
        let since = trace_format::line::Ticks(tenancy.since.load(Ordering::Relaxed));
        let header = Renderer::new(self.tid, RenderState { last: since, ..RenderState::default() });
        let thread =
            meta::Thread { name: tenancy.name(), ring: ring.place, why: ring.why.clone().into_bytes() };
        let mut lines = Vec::with_capacity(512);
        header.header(work.info, &thread, &mut lines);
        file.append(&lines)?;
        Ok(file)
    }
}
