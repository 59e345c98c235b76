//! A ring into a file, in the order that loses and doubles nothing: the way of one thread's records.
//!
//! The same code serves the flusher of a living process and the recoverer of a dead one. It runs on the
//! flusher thread or in the recovering process, never on a traced thread.
#![allow(unsafe_code, reason = "reads committed records out of the mapping; argued where it stands")]

mod onlooker;
mod rotation;
mod survivors;
mod trace_file;

use crate::ring::Memory;
pub(crate) use onlooker::Onlooker;
use std::io;
use std::sync::atomic::Ordering;
pub(crate) use survivors::Survivors;
pub(crate) use trace_file::{TraceFile, TracePlace};
use trace_format::file::Encoding;
use trace_format::line::Ticks;
use trace_format::meta::{self, EndReason, LossReason, Meta, RingPlace};
use trace_format::plans::Plans;
use trace_format::record::Records;
use trace_format::render::{RenderState, Renderer};
use trace_format::ring::{Header, Progress, RingError, readable};

/// Text is written in portions of about this size, so that a waiting thread soon finds room.
const PORTION: usize = 512 * 1024;
/// The same of a raw file, whose records are as long as in the ring: a quarter of the usual ring at once, so that a thread
/// hardly waits for a flusher that is as fast as it is.
const RAW_PORTION: usize = 256 * 1024;

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
    /// What captured arguments mean.
    pub plans: &'a Plans,
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
    /// Of a ring that is overwritten: what is being written now.
    copy: Option<Survivors>,
}

impl Drain {
    /// Of the thread that has the ring. Its file, if there is one, is as was published.
    pub(crate) fn new(header: &Header, encoding: Encoding) -> Drain {
        Drain::going_on_from(header, header.published(), encoding)
    }

    fn going_on_from(header: &Header, mut progress: Progress, encoding: Encoding) -> Drain {
        let tid = header.tenancy.tid.load(Ordering::Relaxed);
        let since = Ticks(header.tenancy.since.load(Ordering::Relaxed));
        progress.render.last = progress.render.last.max(since);
        let renderer = Renderer::new(tid, progress.render, encoding);
        Drain { tid, renderer, file: None, progress, copy: None }
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
        is_idle: &dyn Fn() -> bool,
    ) -> io::Result<usize> {
        let before = (self.renderer.clone(), self.progress);
        let first = self.begin(source, work);
        let usual = match work.place.encoding {
            Encoding::Text => PORTION,
            Encoding::Raw => RAW_PORTION,
        };
        let limit = usual.min(work.place.portion());
        self.render(source.memory, work.plans, is_idle, limit, work.out)?;
        if work.out.len() == first {
            return Ok(0);
        }
        match self.find_file(work) {
            Ok(true) => self.write(source, work).inspect_err(|_| self.go_back(before)),
            Ok(false) => {
                self.go_back(before);
                self.forget_file(source.header());
                self.portion(source, work, is_idle)
            }
            Err(error) => {
                self.go_back(before);
                Err(error)
            }
        }
    }

    /// Empties `out`, but for the lines that a file begins with, if it has none yet; returns their bytes.
    fn begin(&mut self, source: Source<'_>, work: &mut Work<'_>) -> usize {
        work.out.clear();
        if !self.has_file() {
            self.progress.file_length = 0;
        }
        self.renderer.begin_at(self.progress.file_length);
        if self.progress.file_length == 0 {
            let told = source.header().published().render;
            first_lines(self.tid, work.place.encoding, source, work.info, &told, work.out);
        }
        work.out.len()
    }

    fn go_back(&mut self, to: (Renderer, Progress)) {
        (self.renderer, self.progress) = to;
        self.copy = None;
    }

    /// Renders what the ring holds until `out` has about `limit` bytes, and goes on behind it.
    fn render(
        &mut self,
        memory: &Memory,
        plans: &Plans,
        is_idle: &dyn Fn() -> bool,
        limit: usize,
        out: &mut Vec<u8>,
    ) -> io::Result<()> {
        let rendered = if memory.overwrites() {
            self.render_copy(memory, plans, is_idle, limit, out)
        } else {
            self.render_ring(memory, plans, is_idle, limit, out)
        };
        rendered.map_err(|e| io::Error::other(format!("the ring of thread {} is damaged: {e}", self.tid)))?;
        self.renderer.losses(&memory.header().losses(), out);
        Ok(())
    }

    /// The records as they lie in the ring: the producer waits until they are consumed.
    fn render_ring(
        &mut self,
        memory: &Memory,
        plans: &Plans,
        is_idle: &dyn Fn() -> bool,
        limit: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), RingError> {
        let (header, geometry) = (memory.header(), memory.geometry());
        // First the ring, then the nested ring: what was made inside a record is committed before it. If then the
        // thread is idle and the ring still as it was, no record is open that what was read could belong to.
        let main = readable(&header.main, self.progress.consumed, geometry.capacity)?;
        let nested = readable(&header.nested, self.progress.nested_consumed, geometry.nested_capacity)?;
        let whole = main.end;
        let idle = is_idle() && header.main.head.load(Ordering::Acquire) == whole;
        let (consumed, nested_consumed) = (main.start, nested.start);
        // SAFETY: this is the consumer; both ranges go from what was consumed to a head loaded with Acquire, and
        // are freed only in `write`, when the records are no longer used.
        let (mut main, mut nested) = unsafe {
            let (m, n) = (memory.data().parts(main), memory.nested_data().parts(nested));
            (
                Records::new(m, consumed, geometry.block),
                Records::new(n, nested_consumed, geometry.nested_block),
            )
        };
        self.renderer.records(&mut main, &mut nested, idle, plans, limit, out);
        if idle && main.position() == whole {
            // Its thread has gone on without the rest of the message.
            self.renderer.close_torn(out);
        }
        (self.progress.consumed, self.progress.nested_consumed) = (main.position(), nested.position());
        Ok(())
    }

    /// The records of a copy, which is made when the one before is used up: the producer waits for nobody.
    fn render_copy(
        &mut self,
        memory: &Memory,
        plans: &Plans,
        is_idle: &dyn Fn() -> bool,
        limit: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), RingError> {
        let header = memory.header();
        let (consumed, nested_consumed) = self.consumed();
        let copy = match self.copy.take() {
            Some(copy) => copy,
            None => {
                let copy = Survivors::copy(memory, consumed, nested_consumed)?;
                copy.tell_overwritten(&mut self.renderer, out);
                copy
            }
        };
        let idle = is_idle() && header.main.head.load(Ordering::Acquire) == copy.end();
        let (mut main, mut nested) = copy.records(consumed, nested_consumed);
        self.renderer.records(&mut main, &mut nested, idle, plans, limit, out);
        (self.progress.consumed, self.progress.nested_consumed) = (main.position(), nested.position());
        // What is left of the nested ring waits for the record that it was made in: for the next copy.
        if self.progress.consumed < copy.end() {
            self.copy = Some(copy);
        }
        Ok(())
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
        if !self.find_file(work)? {
            self.forget_file(source.header());
            return Ok(0);
        }
        let before = (self.renderer.clone(), self.progress);
        self.begin(source, work);
        self.render_end(source.header(), reason, clock, work.out);
        self.write(source, work).inspect_err(|_| self.go_back(before))
    }

    fn render_end(&mut self, header: &Header, reason: EndReason, clock: Option<Meta>, out: &mut Vec<u8>) {
        self.renderer.close_torn(out);
        self.renderer.losses(&header.losses(), out);
        if let Some(clock) = clock {
            self.renderer.meta(&clock, out);
        }
        self.renderer.end(reason, out);
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
        if self.file.is_none() || state.in_message || state.ended {
            return Ok(0);
        }
        let before = (self.renderer.clone(), self.progress);
        self.begin(source, work);
        self.renderer.meta(clock, work.out);
        self.write(source, work).inspect_err(|_| self.go_back(before))
    }

    /// Opens the file that was published, if there is one, and cuts off what is behind the published length. If it
    /// is no more, forgets it: the thread goes on in a new one.
    ///
    /// # Errors
    /// It is there and cannot be opened.
    pub(crate) fn resume(&mut self, header: &Header, work: &mut Work<'_>) -> io::Result<()> {
        if !self.find_file(work)? {
            self.forget_file(header);
        }
        Ok(())
    }

    /// Looks whether somebody has deleted the file or cut it short.
    pub(crate) fn look_after_file(&mut self, header: &Header) {
        if self.file.as_ref().is_some_and(|file| file.is_open() && !file.is_intact()) {
            self.forget_file(header);
        }
    }

    /// Whether there is a file that can be written, or none was made yet.
    fn find_file(&mut self, work: &Work<'_>) -> io::Result<bool> {
        match &self.file {
            Some(file) if file.is_open() => Ok(file.is_intact()),
            None if self.progress.inode == 0 => Ok(true),
            // Not opened yet, closed for want of descriptors, or by the host.
            _ => {
                self.file = TraceFile::reopen(work.place, self.tid, work.info, &self.progress)?;
                Ok(self.file.is_some())
            }
        }
    }

    /// The file is no more: what was in it is lost, and published as that, and there will be another.
    fn forget_file(&mut self, header: &Header) {
        (self.file, self.progress) = (None, header.published());
        self.forget();
        header.publish(&self.progress);
    }

    fn forget(&mut self) {
        self.renderer.forget(u64::MAX, LossReason::FileRemoved);
        self.progress.render = self.renderer.state();
        (self.progress.file_length, self.progress.device, self.progress.inode) = (0, 0, 0);
    }

    /// Appends `work.out` to the file, which is made if need be, publishes, and frees the space: the steps (a)
    /// to (d) of [`trace_format::ring`]. On error nothing has happened.
    fn write(&mut self, source: Source<'_>, work: &mut Work<'_>) -> io::Result<usize> {
        let header = source.header();
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
        file.append(work.out)?;
        let bytes = work.out.len();
        self.renderer.written(bytes);
        file.mark(&mut self.progress);
        self.progress.render = self.renderer.state();
        header.publish(&self.progress);
        header.free(&self.progress);
        self.rotate(source, work);
        if work.place.is_crowded() {
            self.file = None;
        }
        Ok(bytes)
    }

    /// Drops the older half of the file if it has reached its limit. Where that cannot be done, the file grows on,
    /// and it is tried again when it has grown by a quarter of the limit.
    fn rotate(&mut self, source: Source<'_>, work: &mut Work<'_>) {
        let state = self.renderer.state();
        let may = !state.in_message && !state.ended;
        let Some(file) = self.file.as_mut().filter(|file| may && file.length > file.rotate_at) else {
            return;
        };
        let (header, info, tid) = (source.header(), work.info, self.tid);
        let encoding = work.place.encoding;
        let (mut renderer, mut progress) = (self.renderer.clone(), self.progress);
        let first = |dropped: &rotation::Dropped| {
            let mut told = RenderState { last: dropped.last, lost: dropped.lost, ..RenderState::default() };
            told.lost[LossReason::Rotated as usize] += dropped.messages;
            told.stall_ns = dropped.stall_ns;
            let mut lines = Vec::with_capacity(512);
            first_lines(tid, encoding, source, info, &told, &mut lines);
            lines
        };
        let publish = |file: &TraceFile, dropped: &rotation::Dropped| {
            renderer.forget(dropped.messages, LossReason::Rotated);
            file.mark(&mut progress);
            progress.render = renderer.state();
            header.publish(&progress);
        };
        match file.rotate(work.place, tid, info.id, first, publish) {
            Ok(()) => (self.renderer, self.progress) = (renderer, progress),
            Err(error) => {
                file.rotate_at = file.length + work.place.max_bytes / 4;
                header.publish(&self.progress);
                work.place.remove_unfinished(tid, info.id);
                work.place.trouble.get_or_insert(error);
            }
        }
    }
}

/// Appends to `out`, which is empty, the two lines that a file begins with; their ticks are those when the thread took
/// the ring. If this is not the thread's first file, what an earlier one has told of losses follows.
fn first_lines(
    tid: u64,
    encoding: Encoding,
    source: Source<'_>,
    info: &meta::Run,
    told: &RenderState,
    out: &mut Vec<u8>,
) {
    let tenancy = &source.header().tenancy;
    let since = Ticks(tenancy.since.load(Ordering::Relaxed));
    let thread =
        meta::Thread { name: tenancy.name(), ring: source.place, why: source.why.as_bytes().to_vec() };
    let at = |last| Renderer::new(tid, RenderState { last, ..RenderState::default() }, encoding);
    at(since).header(info, &thread, out);
    at(since.max(told.last)).told_before(&told.lost, told.stall_ns, out);
}
