//! The drain of a ring: it writes one thread's records to a file, in an order that neither loses nor doubles records.
//!
//! The flusher of a living process and the recoverer of a dead process use the same code. The code runs on the flusher
//! thread or in the recovering process, never on a traced thread.
#![allow(unsafe_code, reason = "reads committed records out of the mapping; argued where it stands")]

mod announcement;
mod observer;
mod ring_copy;
mod rotation;
mod run_file;
mod trace_file;
mod trace_place;

use crate::memory::Memory;
use crate::sys;
pub use announcement::Announcement;
pub use observer::{Observer, Rest};
pub use ring_copy::Survivors;
pub use run_file::RunFile;
use std::io;
use std::sync::atomic::Ordering;
use trace_file::FirstBytes;
use trace_file::TraceFile;
use trace_format::file::Encoding;
use trace_format::life::{Looks, Start};
use trace_format::line::Ticks;
use trace_format::meta::{self, EndReason, Ended, LossReason, Meta, RingPlace};
use trace_format::plans::Plans;
use trace_format::record::{HEADER, Records};
use trace_format::render::{FileTotals, References, RenderState, Renderer};
use trace_format::ring::open_calls::MAX_OPEN;
use trace_format::ring::{Header, Progress, RingError, readable};
pub(crate) use trace_place::visible;
pub use trace_place::{EndedFile, MessageFn, SMALLEST_FILE, TracePlace};

/// The number of bytes of text that are rendered and written at once. The number is small, so that a thread that waits
/// for room in its ring soon gets it.
const PORTION: usize = 512 * 1024;
/// The number of bytes of a raw file that are written at once. In a raw file records are as long as in the ring. The
/// number is a quarter of a ring of the default size, so that a thread hardly waits if the flusher is as fast as the
/// thread.
const RAW_PORTION: usize = 256 * 1024;

/// The number of bytes that are kept free for the last lines of a file, if the process has a limit on the size of
/// files.
const ROOM_FOR_END: u64 = 512;

/// The number of bytes, a power of two, that suffice for the records of all calls that can be held back.
const OPEN_CALLS_BYTES: usize = (MAX_OPEN as usize * HEADER).next_power_of_two();

/// Returns whether a write failed because the disk, the user's quota or the file's size limit left too little room. A
/// shorter write may still succeed.
fn is_no_room(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

/// A ring that is drained, and further values that the first lines of its thread's file contain.
#[derive(Clone, Copy, Debug)]
pub struct DrainedRing<'a> {
    /// The memory of the ring.
    pub memory: &'a Memory,
    /// The type of memory in which the ring lies; it decides whether the ring outlives its process.
    pub place: RingPlace,
    /// The reason why the ring does not outlive its process; empty if it does.
    pub why: &'a str,
    /// The duration of the run's start; `None` if that was not recorded.
    pub start: Option<&'a Start>,
    /// The readings of the clocks at the beginning of the run, and the most recent readings; `None` if they were not
    /// recorded.
    pub looks: Option<&'a Looks>,
}

impl<'a> DrainedRing<'a> {
    fn header(&self) -> &'a Header {
        self.memory.header()
    }

    /// Returns the ticks at which the thread took the ring. The first lines of the thread's files have these ticks.
    fn since(&self) -> Ticks {
        Ticks(self.header().tenancy.since.load(Ordering::Relaxed))
    }
}

/// The tables of a run that its records refer to: those of modules and of sites.
pub trait RunTables {
    /// Returns the tables that are needed to render records of the run, at least those that were committed before this
    /// call.
    fn references(&mut self) -> References<'_>;
}

/// The tables of a run whose records have no addresses.
impl RunTables for &Plans {
    fn references(&mut self) -> References<'_> {
        References::without_modules(self)
    }
}

/// The files, lines and tables that a drain needs in addition to the ring.
pub struct DrainContext<'a> {
    /// The content of the `# run` line of the files.
    pub info: &'a meta::Run,
    /// The directories in which files are made.
    pub place: &'a mut TracePlace,
    /// The tables to which the records refer.
    pub tables: &'a mut dyn RunTables,
    /// The buffer for lines that will be written to a file.
    pub out: &'a mut Vec<u8>,
}

/// The drain of one thread's records into its file.
#[derive(Debug)]
pub struct Drain {
    tid: u64,
    renderer: Renderer,
    /// The thread's file; `None` before there is one, and while it is closed to save descriptors.
    file: Option<TraceFile>,
    progress: Progress,
    /// The number of the file among the files of its run, from 1; `None` if the file was made by another drain, whose
    /// work this one continues.
    serial: Option<u32>,
    /// If the ring is a flight recorder, whose producer overwrites records: the copy of the ring that is being written
    /// now.
    copy: Option<Survivors>,
    /// The thread's name as it is in its file; `None` if another drain, whose work this one continues, has written it.
    written_name: Option<Vec<u8>>,
}

impl Drain {
    /// Makes the drain for the thread that has the ring. The drain continues with the file that the ring's header names
    /// in its selected (valid) slot, if there is one.
    pub fn new(header: &Header, encoding: Encoding) -> Drain {
        Drain::continuing_from(header, header.published(), encoding)
    }

    fn continuing_from(header: &Header, mut progress: Progress, encoding: Encoding) -> Drain {
        let tid = header.tenancy.tid.load(Ordering::Relaxed);
        let since = Ticks(header.tenancy.since.load(Ordering::Relaxed));
        progress.render.last = progress.render.last.max(since);
        let renderer = Renderer::new(tid, progress.render, encoding);
        Drain { tid, renderer, file: None, progress, serial: None, copy: None, written_name: None }
    }

    /// Returns whether the thread needs no further line in a file: either its file has its `# end` line, or it has no
    /// file and nothing to report in one.
    pub fn is_ended(&self, header: &Header) -> bool {
        let state = self.renderer.state();
        if self.has_file() {
            return state.ended;
        }
        // The losses that were reported in a file that no longer exists, and those that the producer has counted and
        // no file reports.
        let (gone, counted) = (state.here(0).lost, header.losses());
        let on_file = |reason: LossReason| state.lost[reason as usize];
        gone.iter().all(|lost| *lost == 0)
            && header.open_calls.calls(header.main.head()).is_empty()
            && counted.full <= on_file(LossReason::Full)
            && counted.panic <= on_file(LossReason::Panic)
            && counted.nested <= on_file(LossReason::Nested)
    }

    /// Returns whether the thread has a file, open or not.
    pub fn has_file(&self) -> bool {
        self.file.is_some() || self.progress.inode != 0
    }

    /// Ends the drain, and removes its file if nothing was written to it.
    pub fn discard_empty(self) {
        if let Some(file) = self.file.filter(|_| self.progress.file_length == 0) {
            file.discard();
        }
    }

    /// Closes the file until the next write. If nothing was ever written to the file, removes it; the next write then
    /// makes another file.
    pub fn close(&mut self) {
        let file = self.file.take();
        if let Some(file) = file.filter(|_| self.progress.inode == 0) {
            file.discard();
        }
    }

    /// Returns the positions in the ring and in the nested ring before which all records are in the file.
    pub fn consumed(&self) -> (u64, u64) {
        (self.progress.consumed, self.progress.nested_consumed)
    }

    /// Returns the number of messages in the thread's files.
    pub fn records(&self) -> u64 {
        let state = self.renderer.state();
        state.records.saturating_add(state.in_earlier_files.records)
    }

    /// Renders and writes one portion of the ring's records; returns the number of bytes written, 0 if there was
    /// nothing to write.
    ///
    /// If the disk or a limit has no room for the whole portion, tries smaller and smaller portions, down to a single
    /// message, so that the file gets as much as fits. If the file may not become longer, the thread continues in
    /// another file.
    ///
    /// `is_idle` returns whether the thread is outside of any record. See [`Renderer::records`].
    ///
    /// # Errors
    /// The ring is damaged, or nothing can be written: then the state is unchanged.
    pub fn portion(
        &mut self,
        drained: DrainedRing<'_>,
        context: &mut DrainContext<'_>,
        is_idle: &dyn Fn() -> bool,
    ) -> io::Result<usize> {
        let usual = match context.place.encoding {
            Encoding::Text => PORTION,
            Encoding::Raw => RAW_PORTION,
        };
        let mut limit = usual.min(context.place.portion());
        // A message must not be split between two files.
        let longest = sys::file_size_limit();
        let mut whole = longest != u64::MAX;
        // Limits the portion to the known room, so that records are not rendered in vain.
        let room = longest.saturating_sub(self.progress.file_length).saturating_sub(ROOM_FOR_END);
        limit = limit.min(usize::try_from(room).unwrap_or(usize::MAX)).max(1);
        loop {
            let error = match self.portion_of(drained, context, is_idle, limit, whole) {
                Err(error) if is_no_room(&error) => error,
                result => return result,
            };
            if limit > 1 {
                limit = (limit.min(context.out.len()) / 2).max(1);
                whole = true;
            } else if error.kind() == io::ErrorKind::FileTooLarge {
                return self.retry_in_next_file(drained, context, error, |this, context| {
                    this.portion_of(drained, context, is_idle, 1, true)
                });
            } else {
                return Err(error);
            }
        }
    }

    /// Renders and writes about `limit` bytes. If `whole` is set, the last message is rendered up to its end, as far as
    /// it is in the ring.
    fn portion_of(
        &mut self,
        drained: DrainedRing<'_>,
        context: &mut DrainContext<'_>,
        is_idle: &dyn Fn() -> bool,
        limit: usize,
        whole: bool,
    ) -> io::Result<usize> {
        let before = (self.renderer.clone(), self.progress);
        let first = self.begin(drained, context);
        self.render(drained.memory, context.tables, is_idle, first.saturating_add(limit), context.out)?;
        let mut length = first;
        while whole && self.renderer.state().in_message && context.out.len() > length {
            length = context.out.len();
            self.render(drained.memory, context.tables, is_idle, length + 1, context.out)?;
        }
        if context.out.len() == first {
            return Ok(0);
        }
        match self.find_file(context) {
            Ok(true) => self.write(drained, context, ROOM_FOR_END).inspect_err(|_| self.roll_back(before)),
            Ok(false) => {
                self.roll_back(before);
                self.forget_file(drained, context)?;
                self.portion_of(drained, context, is_idle, limit, whole)
            }
            Err(error) => {
                self.roll_back(before);
                Err(error)
            }
        }
    }

    /// Closes the file, which may not become longer, and calls `write`, which makes the thread's next file. Returns the
    /// result of `write`.
    ///
    /// # Errors
    /// Returns `error` if `write` fails for the next file, too; the state is then unchanged.
    fn retry_in_next_file(
        &mut self,
        drained: DrainedRing<'_>,
        context: &mut DrainContext<'_>,
        error: io::Error,
        write: impl FnOnce(&mut Drain, &mut DrainContext<'_>) -> io::Result<usize>,
    ) -> io::Result<usize> {
        if self.progress.file_length == 0 {
            // The file contains only its first lines, and another one would have no more room.
            return Err(error);
        }
        if !self.renderer.state().in_message && !self.is_ended(drained.header()) {
            // There is room for the end, unless another limit than that of the process ends the file.
            let _ = self.write_end(drained, context, EndReason::Full.into(), None);
        }
        let memory = drained.memory;
        // The file is closed, because there may be no descriptor for a second one. The code that returns to it opens
        // it again.
        self.file = None;
        let left = (self.renderer.clone(), self.progress);
        let state = self.renderer.state();
        self.leave(&state.in_earlier_files.and(&state.here(self.progress.file_length)));
        memory.publish(&self.progress);
        match write(self, context) {
            Ok(bytes) if bytes > 0 => Ok(bytes),
            _ => {
                if let Some(file) = self.file.take() {
                    file.discard();
                }
                (self.renderer, self.progress) = left;
                memory.publish(&self.progress);
                Err(error)
            }
        }
    }

    /// Empties the buffer `context.out`. If the file has no lines yet, appends the first lines of a file to the buffer.
    /// Returns the number of bytes in the buffer.
    fn begin(&mut self, drained: DrainedRing<'_>, context: &mut DrainContext<'_>) -> usize {
        context.out.clear();
        if !self.has_file() {
            self.progress.file_length = 0;
        }
        self.renderer.begin_at(self.progress.file_length);
        if self.progress.file_length == 0 {
            self.renderer.begin_file();
            let on_file = drained.header().published().render;
            // The file does not exist yet, and other files may have been made since the last try.
            self.serial = context.place.next_file();
            self.written_name = Some(drained.header().thread_name());
            let thread = (self.tid, self.serial);
            first_lines(thread, context.place.encoding, drained, context.info, &on_file, context.out);
        }
        context.out.len()
    }

    fn roll_back(&mut self, to: (Renderer, Progress)) {
        (self.renderer, self.progress) = to;
        self.copy = None;
    }

    /// Renders the ring's records until `out` has about `limit` bytes, and advances past them.
    fn render(
        &mut self,
        memory: &Memory,
        tables: &mut dyn RunTables,
        is_idle: &dyn Fn() -> bool,
        limit: usize,
        out: &mut Vec<u8>,
    ) -> io::Result<()> {
        let rendered = if memory.overwrites() {
            self.render_copy(memory, tables, is_idle, limit, out)
        } else {
            self.render_ring(memory, tables, is_idle, limit, out)
        };
        rendered.map_err(|e| io::Error::other(format!("the ring of thread {} is damaged: {e}", self.tid)))?;
        self.renderer.losses(&memory.header().losses(), out);
        Ok(())
    }

    /// Renders the records directly from the ring. Their memory is safe to read, because the producer reuses it only
    /// after the records are consumed.
    fn render_ring(
        &mut self,
        memory: &Memory,
        tables: &mut dyn RunTables,
        is_idle: &dyn Fn() -> bool,
        limit: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), RingError> {
        // If the thread is idle after that and the ring has not changed, no open record can precede the nested
        // records that were read.
        let (mut main, mut nested, whole) = self.unread(memory)?;
        let idle = is_idle() && memory.header().main.head() == whole;
        self.renderer.records(&mut main, &mut nested, idle, &mut tables.references(), limit, out);
        if idle && main.position() == whole {
            // The thread is outside of any record, so the rest of the message will not come.
            self.renderer.close_torn(out);
        }
        (self.progress.consumed, self.progress.nested_consumed) = (main.position(), nested.position());
        Ok(())
    }

    /// Returns the unconsumed records of the ring and the nested ring, and the position where the records of the ring
    /// end. Must only be called if the producer does not overwrite records, and the records must not be used after
    /// their space in the ring is freed.
    fn unread<'a>(&self, memory: &'a Memory) -> Result<(Records<'a>, Records<'a>, u64), RingError> {
        let (header, geometry) = (memory.header(), memory.geometry());
        // First the ring, then the nested ring: nested records are committed before the record inside which they were
        // made.
        let main = readable(&header.main, self.progress.consumed, geometry.capacity)?;
        let nested = readable(&header.nested, self.progress.nested_consumed, geometry.nested_capacity)?;
        let (consumed, nested_consumed, end) = (main.start, nested.start, main.end);
        // SAFETY: this is the consumer; both ranges go from the consumed position to a head loaded with Acquire,
        // and are freed only in `write`, when the records are no longer used.
        let (main, nested) = unsafe { (memory.data().parts(main), memory.nested_data().parts(nested)) };
        Ok((
            Records::new(main, consumed, geometry.block),
            Records::new(nested, nested_consumed, geometry.nested_block),
            end,
        ))
    }

    /// Checks that the ring contains no record of a type that is reserved for later versions. If the ring contains one,
    /// it must not be drained: the drain would take the record for damage and lose it.
    ///
    /// # Errors
    /// The ring contains such a record, or its positions are impossible.
    pub fn check_kinds(&self, memory: &Memory) -> Result<(), RingError> {
        let unknown = if memory.overwrites() {
            let (consumed, nested_consumed) = self.consumed();
            Survivors::copy(memory, consumed, nested_consumed)?.unknown_kind(consumed, nested_consumed)
        } else {
            let (mut main, mut nested, _) = self.unread(memory)?;
            main.by_ref().for_each(drop);
            nested.by_ref().for_each(drop);
            main.unknown().or(nested.unknown())
        };
        unknown.map_or(Ok(()), |kind| Err(RingError::Kind(kind)))
    }

    /// Renders records from a copy of the ring, because the producer may overwrite those in the ring. When all records
    /// of the copy are rendered, the next call makes a new copy.
    fn render_copy(
        &mut self,
        memory: &Memory,
        tables: &mut dyn RunTables,
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
                copy.report_overwritten(&mut self.renderer, out);
                copy
            }
        };
        let idle = is_idle() && header.main.head() == copy.end();
        let (mut main, mut nested) = copy.records(consumed, nested_consumed);
        self.renderer.records(&mut main, &mut nested, idle, &mut tables.references(), limit, out);
        (self.progress.consumed, self.progress.nested_consumed) = (main.position(), nested.position());
        // The remaining nested records wait for the record inside which they were made, which is in the next copy.
        if self.progress.consumed < copy.end() {
            self.copy = Some(copy);
        }
        Ok(())
    }

    /// Writes the last lines of the thread's file, unless the file has them already. If the thread has no file, makes
    /// one only if these lines have something to report. Returns the number of bytes written.
    ///
    /// # Errors
    /// The file cannot be written: then the state is unchanged.
    pub fn end(
        &mut self,
        drained: DrainedRing<'_>,
        context: &mut DrainContext<'_>,
        ended: Ended,
        clock: Option<Meta>,
    ) -> io::Result<usize> {
        if self.is_ended(drained.header()) {
            return Ok(0);
        }
        if !self.find_file(context)? {
            self.forget_file(drained, context)?;
            // A new file reports the number of records that are lost with this one.
            if self.is_ended(drained.header()) {
                return Ok(0);
            }
        }
        match self.write_end(drained, context, ended, clock.clone()) {
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
                self.retry_in_next_file(drained, context, error, |this, context| {
                    this.write_end(drained, context, ended, clock)
                })
            }
            result => result,
        }
    }

    fn write_end(
        &mut self,
        drained: DrainedRing<'_>,
        context: &mut DrainContext<'_>,
        ended: Ended,
        clock: Option<Meta>,
    ) -> io::Result<usize> {
        let changed_earlier_files = self.changed_earlier_files(drained, context)?;
        let before = (self.renderer.clone(), self.progress);
        self.begin(drained, context);
        if let Some(remaining) = changed_earlier_files {
            self.renderer.close_torn(context.out);
            self.renderer.report_missing_files(&remaining, context.out);
        }
        if ended.reason != EndReason::Full {
            self.render_open_calls(drained.header(), context);
        }
        // This counts also a file that is made for these lines.
        let files = context.place.files_so_far().max(self.serial.map(u64::from));
        self.render_end(drained.header(), ended, clock, files, context.out);
        let written = self.write(drained, context, 0).inspect_err(|_| self.roll_back(before))?;
        context.place.retry_removals();
        Ok(written)
    }

    /// Renders the entries of calls that were still held back when the thread ended or was killed. These entries come
    /// after all records of the ring.
    fn render_open_calls(&mut self, header: &Header, context: &mut DrainContext<'_>) {
        let calls = header.open_calls.calls(header.main.head());
        let mut bytes = Vec::with_capacity(OPEN_CALLS_BYTES);
        calls.iter().for_each(|call| call.append_to(&mut bytes));
        let mut records = Records::new([&bytes, &[]], 0, OPEN_CALLS_BYTES as u64);
        let mut nested = Records::empty(0, OPEN_CALLS_BYTES as u64);
        self.renderer.close_torn(context.out);
        let limit = usize::MAX;
        self.renderer.records(
            &mut records,
            &mut nested,
            true,
            &mut context.tables.references(),
            limit,
            context.out,
        );
    }

    /// Returns the counts of what the thread's earlier files contain now, if that has changed since the thread left
    /// these files; `None` otherwise.
    fn changed_earlier_files(
        &self,
        drained: DrainedRing<'_>,
        context: &DrainContext<'_>,
    ) -> io::Result<Option<FileTotals>> {
        let bytes = self.progress.render.in_earlier_files.bytes;
        let look = || {
            if bytes == 0 || context.place.other_files_bytes(self.tid, &self.progress)? == bytes {
                return Ok(None);
            }
            let own = self.file.as_ref().map(|file| file.identity);
            let (info, since) = (context.info, drained.since());
            context.place.survey(self.tid, info, since, &self.progress, own.as_ref()).map(Some)
        };
        match look() {
            // Without a free descriptor this cannot be checked. Writing the end is more important than finding out
            // whether the earlier files were changed.
            Err(error) if sys::is_descriptor_limit_error(&error) => Ok(None),
            result => result,
        }
    }

    fn render_end(
        &mut self,
        header: &Header,
        ended: Ended,
        clock: Option<Meta>,
        files: Option<u64>,
        out: &mut Vec<u8>,
    ) {
        self.renderer.close_torn(out);
        self.renderer.losses(&header.losses(), out);
        self.renderer.waits_without_record(&header.losses(), out);
        if let Some(name) = self.changed_name(header, self.renderer.state().last) {
            self.renderer.meta(&name, out);
        }
        if let Some(clock) = clock {
            self.renderer.meta(&clock, out);
        }
        self.renderer.end(ended, files, out);
    }

    /// Writes another `# end` line to the file of a thread that has ended. The line states how the run ended, and the
    /// number of the run's files. The thread's ring is not needed: it may already belong to another thread.
    ///
    /// # Errors
    /// The file no longer exists, or cannot be written.
    pub fn end_run(&mut self, context: &mut DrainContext<'_>, ended: Ended) -> io::Result<()> {
        if !self.find_file(context)? {
            return Err(io::Error::new(io::ErrorKind::NotFound, "the last trace file no longer exists"));
        }
        context.out.clear();
        self.renderer.begin_at(self.progress.file_length);
        self.renderer.end(ended, context.place.files_so_far(), context.out);
        self.file.as_mut().map_or(Ok(()), |file| file.append(context.out, 0))
    }

    /// Writes the line `line`, which begins with `#`. Does nothing if the file is closed, has its `# end` line, or ends
    /// inside a message. Returns the number of bytes written.
    ///
    /// # Errors
    /// Fails for the same reasons as [`Drain::end`].
    pub fn write_meta_line(
        &mut self,
        drained: DrainedRing<'_>,
        context: &mut DrainContext<'_>,
        line: &Meta,
    ) -> io::Result<usize> {
        let state = self.renderer.state();
        if self.file.is_none() || state.in_message || state.ended {
            return Ok(0);
        }
        let before = (self.renderer.clone(), self.progress);
        self.begin(drained, context);
        self.renderer.meta(line, context.out);
        match self.write(drained, context, ROOM_FOR_END).inspect_err(|_| self.roll_back(before)) {
            // The end of the file will have such a line.
            Err(error) if is_no_room(&error) => Ok(0),
            result => result,
        }
    }

    /// Writes the thread's name, which was seen at `ticks`, if it differs from the name in its file; returns the
    /// number of bytes written.
    ///
    /// # Errors
    /// Fails for the same reasons as [`Drain::end`].
    pub fn write_name_line(
        &mut self,
        drained: DrainedRing<'_>,
        context: &mut DrainContext<'_>,
        ticks: Ticks,
    ) -> io::Result<usize> {
        let Some(line) = self.changed_name(drained.header(), ticks) else { return Ok(0) };
        let bytes = self.write_meta_line(drained, context, &line)?;
        if bytes > 0 {
            self.written_name = Some(drained.header().thread_name());
        }
        Ok(bytes)
    }

    /// Returns the `# name` line if the thread's name differs from the name in its file.
    fn changed_name(&self, header: &Header, ticks: Ticks) -> Option<Meta> {
        let (on_file, name) = (self.written_name.as_ref()?, header.thread_name());
        (*on_file != name).then_some(Meta::Name { ticks, name })
    }

    /// Opens the file that the selected slot names, if there is one, and truncates it to the length in the slot. If the
    /// file no longer exists, the thread will continue in a new file.
    ///
    /// # Errors
    /// The file exists and cannot be opened.
    pub fn resume(&mut self, drained: DrainedRing<'_>, context: &mut DrainContext<'_>) -> io::Result<()> {
        if !self.find_file(context)? {
            self.forget_file(drained, context)?;
        }
        Ok(())
    }

    /// Closes the file if it was deleted or truncated, so that the system can free its space. The next write finds out
    /// which records are missing.
    pub fn check_file(&mut self) {
        if self.file.as_ref().is_some_and(|file| file.is_open() && !file.is_intact()) {
            self.file = None;
        }
    }

    /// Opens the file if it is closed. Returns false if the file no longer exists or was truncated, and true if it can
    /// be written or no file was made yet.
    fn find_file(&mut self, context: &DrainContext<'_>) -> io::Result<bool> {
        match &self.file {
            Some(file) if file.is_open() => Ok(file.is_intact()),
            None if self.progress.inode == 0 => Ok(true),
            // The file is not opened yet, was closed to save descriptors, or was closed by the host.
            _ => {
                self.file = TraceFile::reopen(context.place, self.tid, context.info, &self.progress)?;
                Ok(self.file.is_some())
            }
        }
    }

    /// Forgets a file that no longer exists, or was replaced by another one. Publishes, in the ring's header, that the
    /// records that were in the file are lost; the next write makes another file.
    ///
    /// # Errors
    /// An existing file of the thread cannot be read: then the state is unchanged.
    fn forget_file(&mut self, drained: DrainedRing<'_>, context: &DrainContext<'_>) -> io::Result<()> {
        let published = drained.header().published();
        let remaining = context.place.survey(self.tid, context.info, drained.since(), &published, None)?;
        (self.file, self.progress) = (None, published);
        self.leave(&remaining);
        drained.memory.publish(&self.progress);
        Ok(())
    }

    /// Ends the use of the file; the next write makes another file. `remaining` are the counts of what the thread's
    /// files that still exist contain.
    fn leave(&mut self, remaining: &FileTotals) {
        self.renderer.leave(remaining);
        self.progress.render = self.renderer.state();
        (self.progress.file_length, self.progress.device, self.progress.inode) = (0, 0, 0);
    }

    /// Appends `context.out` to the file, publishes the progress, and frees the space of the written records in the
    /// ring, in the order that [`trace_format::ring`] describes. Makes the file if there is none. The file must be able
    /// to grow by `room` more bytes. On error, the file is unchanged.
    fn write(
        &mut self,
        drained: DrainedRing<'_>,
        context: &mut DrainContext<'_>,
        room: u64,
    ) -> io::Result<usize> {
        let (header, memory) = (drained.header(), drained.memory);
        let is_new = self.progress.file_length == 0;
        let file = match &mut self.file {
            Some(file) => {
                file.append(context.out, room)?;
                file
            }
            none => {
                let mut published = header.published();
                let mut publish = |file: &TraceFile| {
                    file.mark(&mut published);
                    // The file's contents count only after the complete progress is published below.
                    published.file_length = 0;
                    memory.publish(&published);
                };
                let first = FirstBytes { bytes: context.out, room };
                none.insert(context.place.create(self.tid, context.info.id, &first, &mut publish)?)
            }
        };
        let bytes = context.out.len();
        self.renderer.written(bytes);
        context.place.note_growth(if is_new { 0 } else { self.progress.file_length }, file.length);
        file.mark(&mut self.progress);
        self.progress.render = self.renderer.state();
        memory.publish(&self.progress);
        if is_new {
            context.place.count_file();
        }
        header.free(&self.progress);
        self.rotate_if_full(drained, context);
        if context.place.is_crowded() {
            self.file = None;
        }
        Ok(bytes)
    }

    /// Drops the older half of the file if it has reached its limit. If that fails, the file continues to grow, and the
    /// next try is made when it has grown by a quarter of the limit.
    fn rotate_if_full(&mut self, drained: DrainedRing<'_>, context: &mut DrainContext<'_>) {
        if self.file.as_ref().is_some_and(|file| file.length > file.rotate_at) {
            let most = context.place.max_bytes;
            self.rotate(drained, context, most);
        }
    }

    /// Returns the length of the file that is being written, in bytes.
    pub fn file_length(&self) -> u64 {
        self.progress.file_length
    }

    /// Returns the thread's file if it has its `# end` line and is the only file of the thread.
    pub fn ended_file(&self) -> Option<EndedFile> {
        let (state, progress) = (self.renderer.state(), &self.progress);
        let lost = state.here(0).lost;
        let is_alone = state.ended && state.in_earlier_files.bytes == 0 && progress.file_length > 0;
        let serial = self.serial.filter(|_| is_alone)?;
        Some(EndedFile {
            tid: self.tid,
            number: progress.file_number,
            serial,
            device: progress.device,
            inode: progress.inode,
            length: progress.file_length,
            records: state.records,
            lost: lost.iter().any(|lost| *lost > 0).then(|| Box::new(lost)),
        })
    }

    /// Drops the older half of the file now, whatever its length; returns whether that succeeded.
    pub fn drop_older_half(&mut self, drained: DrainedRing<'_>, context: &mut DrainContext<'_>) -> bool {
        let before = self.progress.file_length;
        if !self.find_file(context).unwrap_or(false) {
            return false;
        }
        self.rotate(drained, context, before);
        self.progress.file_length < before
    }

    /// Drops the older part of a file, so that about half of `most`, its limit in bytes, remains.
    fn rotate(&mut self, drained: DrainedRing<'_>, context: &mut DrainContext<'_>, most: u64) {
        let state = self.renderer.state();
        let may = !state.in_message && !state.ended;
        let Some(file) = self.file.as_mut().filter(|_| may) else {
            return;
        };
        if !file.has_its_name() {
            // The file was renamed, so that its contents are kept.
            file.rotate_at = file.length + context.place.max_bytes / 4;
            return;
        }
        let (memory, info, tid, serial) = (drained.memory, context.info, self.tid, self.serial);
        let encoding = context.place.encoding;
        // The module lines that the kept records need may be in the dropped half.
        let tables = &mut *context.tables;
        let (mut renderer, mut progress) = (self.renderer.clone(), self.progress);
        let first = |dropped: &rotation::Dropped| {
            let mut on_file =
                RenderState { last: dropped.last, lost: dropped.lost, ..RenderState::default() };
            on_file.lost[LossReason::Rotated as usize] += dropped.messages;
            on_file.stall_ns = dropped.stall_ns;
            let mut lines = Vec::with_capacity(512);
            first_lines((tid, serial), encoding, drained, info, &on_file, &mut lines);
            let mut more = Renderer::new(tid, on_file, encoding);
            more.begin_at(0);
            more.written(lines.len());
            if dropped.modules {
                tables.references().modules.lines().iter().for_each(|line| more.meta(line, &mut lines));
            }
            lines
        };
        let publish = |file: &TraceFile, dropped: &rotation::Dropped| {
            renderer.forget(dropped.messages, dropped.waits, LossReason::Rotated);
            file.mark(&mut progress);
            progress.render = renderer.state();
            memory.publish(&progress);
        };
        match file.rotate(context.place, (tid, info.id), most, first, publish) {
            Ok(()) => {
                context.place.note_growth(self.progress.file_length, progress.file_length);
                (self.renderer, self.progress) = (renderer, progress);
            }
            Err(error) => {
                file.rotate_at = file.length + context.place.max_bytes / 4;
                memory.publish(&self.progress);
                context.place.remove_unfinished(tid, info.id);
                context.place.deferred_error.get_or_insert(error);
            }
        }
    }
}

/// Appends to `out`, which is empty, the first lines of a file:
///
/// - the `# run` line and the `# thread` line, with the ticks at which the thread took the ring;
/// - the cost of the run's start and the clocks' first readings, if this file has to report them;
/// - the losses in `on_file`, which were reported by earlier files or by dropped lines.
///
/// The first argument is the thread's id and the number of the file in its run.
fn first_lines(
    (tid, file): (u64, Option<u32>),
    encoding: Encoding,
    drained: DrainedRing<'_>,
    info: &meta::Run,
    on_file: &RenderState,
    out: &mut Vec<u8>,
) {
    let since = drained.since();
    let (name, why) = (drained.header().thread_name(), drained.why.as_bytes().to_vec());
    let thread = meta::Thread { name, ring: drained.place, why, file };
    let at = |last| Renderer::new(tid, RenderState { last, ..RenderState::default() }, encoding);
    let mut first = at(since);
    first.header(info, &thread, out);
    if let Some(ns) = drained.start.and_then(|start| start.cost_reported_by(tid, since)) {
        first.meta(&Meta::Start { ns }, out);
        if let Some(clock) = drained.looks.and_then(Looks::begun) {
            first.meta(&clock, out);
        }
    }
    at(since.max(on_file.last)).write_earlier_losses(&on_file.here(0), out);
}
