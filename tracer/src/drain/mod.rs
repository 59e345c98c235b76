//! A ring into a file, in the order that loses and doubles nothing: the way of one thread's records.
//!
//! The same code serves the flusher of a living process and the recoverer of a dead one. It runs on the
//! flusher thread or in the recovering process, never on a traced thread.
#![allow(unsafe_code, reason = "reads committed records out of the mapping; argued where it stands")]

mod trace_file;

use crate::ring::Memory;
use std::io;
use std::sync::atomic::Ordering;
pub(crate) use trace_file::{TraceFile, TracePlace};
use trace_format::line::Ticks;
use trace_format::meta::{self, EndReason, Meta, RingPlace};
use trace_format::record::Records;
use trace_format::render::{RenderState, Renderer};
use trace_format::ring::{Header, Progress, readable};

/// Text is written in portions of about this size, so that a waiting thread soon finds room.
const PORTION: usize = 256 * 1024;

/// A ring, and what its file's first lines say of it.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    pub memory: &'a Memory,
    pub place: RingPlace,
    pub why: &'a str,
}

impl<'a> Source<'a> {
    pub(crate) fn header(&self) -> &'a Header {
        self.memory.header()
    }
}

/// What a drain works with.
pub(crate) struct Work<'a> {
    /// The `# run` line of the files.
    pub info: &'a meta::Run,
    /// Where files are made.
    pub place: &'a mut TracePlace,
    /// Lines on their way into a file.
    pub out: &'a mut Vec<u8>,
}

/// One thread's records on their way into its file.
#[derive(Debug)]
pub(crate) struct Drain {
    tid: u64,
    renderer: Renderer,
    /// `None` before there is one, and while it is closed for want of descriptors.
    file: Option<TraceFile>,
    progress: Progress,
}

impl Drain {
    /// Of a thread that has just taken its ring: there is no file yet.
    pub(crate) fn of_new_thread(header: &Header) -> Drain {
        let since = Ticks(header.tenancy.since.load(Ordering::Relaxed));
        let mut progress = header.published();
        progress.render = RenderState { last: since, ..RenderState::default() };
        Drain::resume(header, progress, None)
    }

    /// Of a thread whose file is as `progress` says.
    pub(crate) fn resume(header: &Header, progress: Progress, file: Option<TraceFile>) -> Drain {
        let tid = header.tenancy.tid.load(Ordering::Relaxed);
        Drain { tid, renderer: Renderer::new(tid, progress.render), file, progress }
    }

    /// Whether there is a file whose last line is its end, or neither file nor reason to make one.
    pub(crate) fn is_ended(&self) -> bool {
        !self.has_file() || self.renderer.state().ended
    }

    fn has_file(&self) -> bool {
        self.file.is_some() || self.progress.inode != 0
    }

    /// Records of the ring and of the nested ring before these positions are in the file.
    pub(crate) fn consumed(&self) -> (u64, u64) {
        (self.progress.consumed, self.progress.nested_consumed)
    }

    /// Messages in the file.
    pub(crate) fn records(&self) -> u64 {
        self.renderer.state().records
    }

    /// Renders and writes one portion; returns the bytes written, 0 when there was nothing.
    ///
    /// `is_idle` is asked whether the thread is outside of any record. See [`Renderer::records`].
    ///
    /// # Errors
    /// The ring is damaged, or the file cannot be written: then nothing has happened.
    pub(crate) fn portion(
        &mut self,
        source: Source<'_>,
        work: &mut Work<'_>,
        is_idle: impl FnOnce() -> bool,
    ) -> io::Result<usize> {
        let (header, geometry) = (source.header(), source.memory.geometry());
        let damaged = |e| io::Error::other(format!("the ring of thread {} is damaged: {e}", self.tid));
        // First the ring, then the nested ring: what was made inside a record is committed before it. If then the
        // thread is idle and the ring still as it was, no record is open that what was read could belong to.
        let main = readable(&header.main, self.progress.consumed, geometry.capacity).map_err(damaged)?;
        let nested = readable(&header.nested, self.progress.nested_consumed, geometry.nested_capacity)
            .map_err(damaged)?;
        let whole = main.end;
        let idle = is_idle() && header.main.head.load(Ordering::Acquire) == whole;
        let before = (self.renderer.clone(), self.progress);
        let losses = header.losses();
        let (consumed, nested_consumed) = (main.start, nested.start);
        // SAFETY: this is the consumer; both ranges go from what was consumed to a head loaded with Acquire, and
        // are freed only below, when the records are no longer used.
        let (mut main, mut nested) = unsafe {
            let (m, n) = (source.memory.data().parts(main), source.memory.nested_data().parts(nested));
            (
                Records::new(m, consumed, geometry.block),
                Records::new(n, nested_consumed, geometry.nested_block),
            )
        };
        work.out.clear();
        self.renderer.records(&mut main, &mut nested, idle, PORTION, work.out);
        if idle && main.position() == whole {
            // Its thread has gone on without the rest of the message.
            self.renderer.close_torn(work.out);
        }
        self.renderer.losses(&losses, work.out);
        self.progress.consumed = main.position();
        self.progress.nested_consumed = nested.position();
        if work.out.is_empty() {
            return Ok(0);
        }
        self.write(source, work).inspect_err(|_| (self.renderer, self.progress) = before)
    }

    /// Writes the last lines of the file, if there is a file and it does not have them; returns the bytes.
    ///
    /// # Errors
    /// The file cannot be written: then nothing has happened.
    pub(crate) fn end(
        &mut self,
        source: Source<'_>,
        work: &mut Work<'_>,
        reason: EndReason,
        clock: Option<Meta>,
    ) -> io::Result<usize> {
        if self.is_ended() {
            return Ok(0);
        }
        let before = (self.renderer.clone(), self.progress);
        work.out.clear();
        self.renderer.close_torn(work.out);
        self.renderer.losses(&source.header().losses(), work.out);
        if let Some(clock) = clock {
            self.renderer.meta(&clock, work.out);
        }
        self.renderer.end(reason, work.out);
        self.write(source, work).inspect_err(|_| (self.renderer, self.progress) = before)
    }

    /// Writes a `# clock` line, if this is a place for one; returns the bytes.
    ///
    /// # Errors
    /// As [`Drain::end`].
    pub(crate) fn tell_clock(
        &mut self,
        source: Source<'_>,
        work: &mut Work<'_>,
        clock: &Meta,
    ) -> io::Result<usize> {
        let state = self.renderer.state();
        if !self.has_file() || state.in_message || state.ended {
            return Ok(0);
        }
        work.out.clear();
        self.renderer.meta(clock, work.out);
        self.write(source, work)
    }

    /// Appends `work.out` to the file, which is made if need be, publishes, and frees the space: the steps (a)
    /// to (d) of [`trace_format::ring`]. On error nothing has happened.
    fn write(&mut self, source: Source<'_>, work: &mut Work<'_>) -> io::Result<usize> {
        let header = source.header();
        if self.file.is_none() && self.progress.inode != 0 {
            self.file = TraceFile::reopen(work.place, self.tid, &self.progress)?;
        }
        let file = match &mut self.file {
            Some(file) => file,
            none => {
                let mut published = header.published();
                let mut publish = |file: &TraceFile| {
                    file.mark(&mut published);
                    header.publish(&published);
                };
                none.insert(work.place.create(self.tid, work.info.id, &mut publish)?)
            }
        };
        if file.length == 0 {
            let lines = first_lines(self.tid, source, work.info);
            work.out.splice(0..0, lines);
        }
        file.append(work.out)?;
        file.mark(&mut self.progress);
        self.progress.render = self.renderer.state();
        header.publish(&self.progress);
        header.free(&self.progress);
        if work.place.is_crowded() {
            self.file = None;
        }
        Ok(work.out.len())
    }
}

/// The two lines that a file begins with; their ticks are those when the thread took the ring.
fn first_lines(tid: u64, source: Source<'_>, info: &meta::Run) -> Vec<u8> {
    let tenancy = &source.header().tenancy;
    let since = Ticks(tenancy.since.load(Ordering::Relaxed));
    let thread =
        meta::Thread { name: tenancy.name(), ring: source.place, why: source.why.as_bytes().to_vec() };
    let mut lines = Vec::with_capacity(512);
    Renderer::new(tid, RenderState { last: since, ..RenderState::default() })
        .header(info, &thread, &mut lines);
    lines
}
