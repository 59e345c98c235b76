//! The renderer, which turns the records of a thread into the contents of its file. The flusher of a living process
//! and recovery use the same renderer.
//!
//! The renderer takes the committed records of a thread's ring and nested ring, merges the two by ticks, and appends
//! lines, or records for a [`raw`] file. It holds no text between calls: the state that it needs to continue,
//! [`RenderState`], is published with each step, so that another process can continue from that state.

mod lines;

use crate::file::Encoding;
use crate::kinds::SeparateCounts;
use crate::line::{Kind, Ticks};
use crate::meta::{End, Ended, LossReason, Meta, Name, Run, Thread, Waited};
use crate::plans::Plans;
use crate::raw;
use crate::record::{Flags, Record, RecordKind, Records};
use crate::states::ThreadState;
use crate::wait::{Wait, WaitCause};
pub(crate) use lines::{LineWriter, PlainContent, PlainRecord, PlainRecords, plain_text};

/// The number of records that are rendered one by one after a record that could not be rendered in a batch. After
/// these, the renderer tries a batch again.
pub(crate) const RECORDS_BEFORE_BATCH: u32 = 16;

/// The state from which a renderer continues to render a thread's records. It describes the text in the thread's
/// current file, and counts of the thread's files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RenderState {
    /// The ticks of the last line in the thread's file.
    pub last: Ticks,
    /// Whether the file ends inside a message, without the message's last piece and its line feed.
    pub in_message: bool,
    /// Whether the next piece in the ring continues a message that is already reported lost.
    pub in_lost: bool,
    /// Whether the file ends with an `# end` line.
    pub ended: bool,
    /// The number of messages in the thread's current file.
    pub records: u64,
    /// The numbers of messages reported lost in all existing files of the thread, in the order of [`LossReason`].
    pub lost: [u64; LossReason::COUNT],
    /// The time of waits for the tracer that all existing files of the thread report, in nanoseconds.
    pub stall_ns: u64,
    /// The number of waits that the current file reports.
    pub waits: u64,
    /// The totals of the thread's earlier files that still exist.
    pub in_earlier_files: FileTotals,
    /// Whether the thread's clock went back before `last` and has not caught up yet; a `# backward` line has
    /// reported it.
    pub behind: bool,
}

/// The totals of some files of a thread, for example of its earlier files, which still exist but are no longer written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileTotals {
    /// The number of messages in the counted files.
    pub records: u64,
    /// The numbers of messages reported lost in the counted files, in the order of [`LossReason`].
    pub lost: [u64; LossReason::COUNT],
    /// The time of waits for the tracer that the counted files report, in nanoseconds.
    pub stall_ns: u64,
    /// The sum of the lengths of the counted files in bytes.
    pub bytes: u64,
}

impl FileTotals {
    /// Returns the sum of these totals and `others`.
    #[must_use]
    pub fn and(&self, others: &FileTotals) -> FileTotals {
        FileTotals {
            records: self.records.saturating_add(others.records),
            lost: std::array::from_fn(|i| self.lost[i].saturating_add(others.lost[i])),
            stall_ns: self.stall_ns.saturating_add(others.stall_ns),
            bytes: self.bytes.saturating_add(others.bytes),
        }
    }

    /// Returns these totals, each limited to its value in `most`: another process may have changed the files, so their
    /// totals may be too large.
    fn at_most(&self, most: &FileTotals) -> FileTotals {
        FileTotals {
            records: self.records.min(most.records),
            lost: std::array::from_fn(|i| self.lost[i].min(most.lost[i])),
            stall_ns: self.stall_ns.min(most.stall_ns),
            bytes: self.bytes,
        }
    }
}

impl RenderState {
    /// Returns the totals of the thread's current file alone, whose length is `bytes`.
    #[must_use]
    pub fn here(&self, bytes: u64) -> FileTotals {
        let in_earlier_files = &self.in_earlier_files;
        FileTotals {
            records: self.records,
            lost: std::array::from_fn(|i| self.lost[i].saturating_sub(in_earlier_files.lost[i])),
            stall_ns: self.stall_ns.saturating_sub(in_earlier_files.stall_ns),
            bytes,
        }
    }
}

/// The losses and the waits that a producer has counted since its thread took the ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// The number of messages that found no room in the ring.
    pub full: u64,
    /// The number of messages whose formatting did not end, for example because a `Display` panicked.
    pub panic: u64,
    /// The number of messages that found no room in the nested ring.
    pub nested: u64,
    /// The time for which the thread waited for the tracer, in nanoseconds.
    pub stall_ns: u64,
}

/// The tables to which the records of a process refer.
pub struct References<'a> {
    /// The plans of the process's sites.
    pub plans: &'a Plans,
    /// The table of the process's modules.
    pub modules: &'a mut dyn Modules,
}

/// The module table of a process, which names the file of the code at an address.
pub trait Modules {
    /// Returns the lines of the module table, in the order in which the modules were seen. They contain at least the
    /// modules that the process has during this call. Their number never decreases.
    fn lines(&mut self) -> &[Meta];
}

impl<const N: usize> Modules for [Meta; N] {
    fn lines(&mut self) -> &[Meta] {
        self
    }
}

impl<'a> References<'a> {
    /// Returns references without a module table, for records without addresses.
    #[must_use]
    pub fn without_modules(plans: &'a Plans) -> References<'a> {
        References { plans, modules: &mut [] }
    }
}

/// A renderer of one thread's records.
#[derive(Clone, Debug)]
pub struct Renderer {
    state: RenderState,
    form: Form,
    /// The number of lines of the module table that were appended to the file. A renderer that continues from a state
    /// begins at 0, so it appends the lines again, which does no harm.
    modules_written: usize,
    /// Whether the lines of the module table were read after the records that are being rendered were committed.
    modules_read: bool,
    /// The number of records reported lost in the current file for reasons that no ring counts.
    lost_otherwise: u64,
    /// The number of changes of threads' states (`=` lines) in the current file.
    states: u64,
    /// The time of the waits in the current file that were not for room in the ring, in nanoseconds.
    for_ring_ns: u64,
}

/// The form in which the renderer writes records: as lines of text, or unchanged in a raw file.
#[derive(Clone, Debug)]
enum Form {
    Text(LineWriter),
    Raw(raw::Writer),
}

impl Renderer {
    /// Returns a renderer for thread `tid` that continues from `state`.
    #[must_use]
    pub fn new(tid: u64, state: RenderState, encoding: Encoding) -> Renderer {
        let form = match encoding {
            Encoding::Text => Form::Text(LineWriter::new(tid)),
            Encoding::Raw => Form::Raw(raw::Writer::new(tid)),
        };
        Renderer {
            state,
            form,
            modules_written: 0,
            modules_read: false,
            lost_otherwise: 0,
            states: 0,
            for_ring_ns: 0,
        }
    }

    /// Sets the position of the file, in bytes, at which further output begins; the output vector must be empty. The
    /// position matters for a raw file, whose records must not cross the borders of blocks.
    pub fn begin_at(&mut self, position: u64) {
        if let Form::Raw(raw) = &mut self.form {
            raw.begin_at(position);
        }
    }

    /// Advances the position in the file by `bytes`, the number of bytes in the output vector, which were written to
    /// the file. See [`Renderer::begin_at`].
    pub fn written(&mut self, bytes: usize) {
        if let Form::Raw(raw) = &mut self.form {
            raw.written(bytes);
        }
    }

    /// Returns the state from which another renderer would continue.
    #[must_use]
    pub fn state(&self) -> RenderState {
        self.state
    }

    /// Prepares the renderer for output in another file, which has no lines of the module table.
    pub fn begin_file(&mut self) {
        (self.modules_written, self.for_ring_ns) = (0, 0);
    }

    /// Appends the two lines that every file begins with.
    pub fn header(&mut self, run: &Run, thread: &Thread, out: &mut Vec<u8>) {
        self.meta(&Meta::Run(run.clone()), out);
        self.meta(&Meta::Thread(thread.clone()), out);
    }

    /// Appends the records of `main` and `nested` in the order of their ticks, until both are empty or `out` has
    /// `limit` bytes.
    ///
    /// A nested record is held back while the record inside which it was made may still come: after the last record of
    /// `main`, a nested record is taken only if `idle` is true. The caller sets `idle` if it has read `main`, then
    /// `nested`, and then has seen that the thread was not inside a record and that `main` had no further record.
    pub fn records<'a>(
        &mut self,
        main: &mut Records<'a>,
        nested: &mut Records<'a>,
        idle: bool,
        refer: &mut References<'_>,
        limit: usize,
        out: &mut Vec<u8>,
    ) {
        let damaged = main.damaged() + nested.damaged();
        let alone = nested.peek().is_none();
        self.modules_read = false;
        // If one record cannot be rendered with others at once, the next ones often cannot either.
        let mut one_by_one = 0;
        while out.len() < limit {
            if one_by_one > 0 {
                one_by_one -= 1;
            } else if alone && !self.state.in_message {
                if !self.many(main, refer.plans, limit, out) {
                    one_by_one = RECORDS_BEFORE_BATCH;
                } else if out.len() >= limit {
                    break;
                }
            }
            let from_main = match (main.peek(), nested.peek()) {
                (Some(m), Some(n)) => self.state.in_message || m.ticks <= n.ticks,
                (Some(_), None) => true,
                (None, Some(_)) if idle && !self.state.in_message => false,
                (None, _) => break,
            };
            let source = if from_main { &mut *main } else { &mut *nested };
            let Some(record) = source.next() else { break };
            self.state.in_lost &= !from_main || record.continues();
            match record.kind {
                RecordKind::Captured => self.captured(&record, refer.plans, out),
                RecordKind::Message => self.piece(&record, from_main, refer.plans, out),
                RecordKind::Lock => self.lock(&record, refer.plans, out),
                RecordKind::Wait => self.wait(&record, out),
                _ => self.function(&record, refer, out),
            }
        }
        let damaged = main.damaged() + nested.damaged() - damaged;
        if damaged > 0 {
            self.close_torn(out);
            self.lost(damaged, LossReason::Damaged, out);
        }
    }

    /// Appends as many of the next records as can be rendered at once; returns whether there were any.
    #[inline]
    fn many(&mut self, main: &mut Records<'_>, plans: &Plans, limit: usize, out: &mut Vec<u8>) -> bool {
        let last = self.state.last;
        let with_addresses = self.modules_read;
        let (count, last) = match &mut self.form {
            Form::Text(lines) => {
                // The records are cloned, so the values that change stay in registers.
                let mut usual =
                    WholeRecords { records: main.clone(), plans, with_addresses, next: None, last };
                let count = lines.plain_lines(&mut usual, limit, out);
                *main = usual.records;
                (count, usual.last)
            }
            Form::Raw(raw) => {
                let wanted = |record: &Record<'_>| {
                    (with_addresses || !record.needs_modules()) && record.kind != RecordKind::Wait
                };
                raw.copy_run(main, last, plans, wanted, limit, out)
            }
        };
        if count > 0 {
            self.state.records = self.state.records.saturating_add(count);
            (self.state.last, self.state.behind, self.state.ended) = (last, false, false);
            self.state.in_lost = false;
        }
        count > 0
    }

    /// Appends one piece of a message.
    fn piece(&mut self, piece: &Record<'_>, from_main: bool, plans: &Plans, out: &mut Vec<u8>) {
        let continues = piece.continues();
        if continues && !self.state.in_message {
            return self.skip_headless_piece(piece, from_main, out);
        }
        self.state.ended = false;
        if !continues {
            self.close_before_next(out);
        }
        if !continues {
            self.advance_ticks(piece.ticks, out);
        }
        let more = piece.flags().has(Flags::MORE);
        match &mut self.form {
            Form::Text(lines) => {
                if continues {
                    lines.text(self.state.last, piece.payload, out);
                } else {
                    lines.message(self.state.last, out);
                    let is_lock = plans.is_lock_site(piece.site());
                    lines.first_piece(self.state.last, piece.payload, is_lock, more, out);
                }
                if !more {
                    out.push(b'\n');
                }
            }
            Form::Raw(raw) => raw.write_without_site(piece, self.state.last, plans, out),
        }
        self.state.in_message = more;
        if !more {
            self.state.records = self.state.records.saturating_add(1);
        }
    }

    /// Skips a piece of a message whose beginning is not in the file. If it is the last piece, reports the message as
    /// torn, unless the message is already reported lost.
    fn skip_headless_piece(&mut self, piece: &Record<'_>, from_main: bool, out: &mut Vec<u8>) {
        if piece.flags().has(Flags::MORE) {
            return;
        }
        if from_main && std::mem::take(&mut self.state.in_lost) {
            return;
        }
        // The line has ticks of its own, because the message before it is not torn; see `Tally`.
        self.state.last = self.state.last.max(piece.ticks);
        self.lost(1, LossReason::Torn, out);
    }

    /// Appends a message whose arguments were captured.
    #[inline]
    fn captured(&mut self, message: &Record<'_>, plans: &Plans, out: &mut Vec<u8>) {
        self.state.ended = false;
        self.close_before_next(out);
        let Some(plan) = plans.get(message.site()) else { return self.lost(1, LossReason::Damaged, out) };
        let before = (self.state, out.len());
        self.advance_ticks(message.ticks, out);
        let written = match &mut self.form {
            Form::Text(lines) => lines.captured(self.state.last, plan, message.payload, out),
            Form::Raw(raw) => raw.captured(message.site(), self.state.last, message.payload, plans, out),
        };
        if written {
            self.state.records = self.state.records.saturating_add(1);
        } else {
            // The table was truncated, or the ring is hostile.
            self.state = before.0;
            out.truncate(before.1);
            self.lost(1, LossReason::Damaged, out);
        }
    }

    /// Appends the line of an entered or left function, or of a call stack, after the module lines that its addresses
    /// need.
    fn function(&mut self, record: &Record<'_>, refer: &mut References<'_>, out: &mut Vec<u8>) {
        self.state.ended = false;
        self.close_before_next(out);
        if record.needs_modules() {
            self.write_modules(refer.modules, out);
        }
        self.advance_ticks(record.ticks, out);
        let last = self.state.last;
        match &mut self.form {
            Form::Text(lines) => lines.function(last, record, refer.plans.place(record.site()), out),
            Form::Raw(raw) => raw.write_without_site(record, last, refer.plans, out),
        }
        self.state.records = self.state.records.saturating_add(1);
    }

    /// Appends the `# wait` line of a wait for the tracer.
    fn wait(&mut self, record: &Record<'_>, out: &mut Vec<u8>) {
        // Only a hostile ring has a wait that cannot be read.
        let Some(wait) = Wait::of_record(record) else { return };
        self.state.ended = false;
        self.close_before_next(out);
        self.advance_ticks(record.ticks, out);
        self.state.stall_ns = self.state.stall_ns.saturating_add(wait.ns);
        self.state.waits = self.state.waits.saturating_add(1);
        if wait.what != WaitCause::Room {
            self.for_ring_ns = self.for_ring_ns.saturating_add(wait.ns);
        }
        self.meta(&Meta::Wait(wait), out);
    }

    /// Appends a lock record.
    fn lock(&mut self, record: &Record<'_>, plans: &Plans, out: &mut Vec<u8>) {
        self.state.ended = false;
        self.close_before_next(out);
        self.advance_ticks(record.ticks, out);
        let last = self.state.last;
        match &mut self.form {
            Form::Text(lines) => lines.lock(last, record.payload, out),
            Form::Raw(raw) => raw.write_without_site(record, last, plans, out),
        }
        self.state.records = self.state.records.saturating_add(1);
    }

    /// Appends the lines of the module table that were not appended yet.
    fn write_modules(&mut self, modules: &mut dyn Modules, out: &mut Vec<u8>) {
        if std::mem::replace(&mut self.modules_read, true) {
            return;
        }
        let lines = modules.lines();
        for line in lines.get(self.modules_written..).unwrap_or_default() {
            self.meta(line, out);
        }
        self.modules_written = lines.len();
    }

    /// Sets the ticks of the next line. If `ticks` are smaller than those of the line before (because a virtual machine
    /// was moved, or the ring is hostile), the line gets the ticks of the line before, so that the file stays in order;
    /// a `# backward` line reports the first such record.
    fn advance_ticks(&mut self, ticks: Ticks, out: &mut Vec<u8>) {
        let back = self.state.last.0.saturating_sub(ticks.0);
        if back == 0 {
            self.state.last = ticks;
        } else if !self.state.behind {
            self.meta(&Meta::Backward { ticks: back }, out);
        }
        self.state.behind = back > 0;
    }

    /// Ends a message that lacks its last piece, and reports the message as torn. The missing piece will not come, or
    /// will be skipped when it comes.
    pub fn close_torn(&mut self, out: &mut Vec<u8>) {
        if self.state.in_message {
            (self.state.in_message, self.state.in_lost) = (false, true);
            if let Form::Text(_) = self.form {
                out.push(b'\n');
            }
            self.lost(1, LossReason::Torn, out);
        }
    }

    /// Ends a message that lacks its last piece, as [`close_torn`](Renderer::close_torn) does. The missing piece will
    /// not come, because the thread has begun its next message.
    fn close_before_next(&mut self, out: &mut Vec<u8>) {
        if self.state.in_message {
            self.close_torn(out);
            self.state.in_lost = false;
        }
    }

    /// Appends lines for the losses in `now` that were not reported yet. Does nothing if the text ends inside a
    /// message.
    pub fn losses(&mut self, now: &Losses, out: &mut Vec<u8>) {
        if self.state.in_message {
            return;
        }
        let totals =
            [(now.full, LossReason::Full), (now.panic, LossReason::Panic), (now.nested, LossReason::Nested)];
        for (total, reason) in totals {
            self.lost(total.saturating_sub(self.state.lost[reason as usize]), reason, out);
        }
    }

    /// Appends a line with the waiting time that no record reports. The caller must know that no record of the thread
    /// will follow, because a wait may be counted before its record can be read.
    pub fn waits_without_record(&mut self, now: &Losses, out: &mut Vec<u8>) {
        let ns = now.stall_ns.saturating_sub(self.state.stall_ns);
        if ns > 0 && !self.state.in_message {
            self.state.stall_ns = now.stall_ns;
            self.meta(&Meta::Stall { ns }, out);
        }
    }

    /// Appends a `# lost` line if `records` is not zero. It may be called only between messages.
    pub fn lost(&mut self, records: u64, reason: LossReason, out: &mut Vec<u8>) {
        if records > 0 {
            self.state.ended = false;
            let reported_count = &mut self.state.lost[reason as usize];
            *reported_count = reported_count.saturating_add(records);
            self.meta(&Meta::Lost { records, reason }, out);
        }
    }

    /// Appends a `# lost` line for a reason that no ring counts, if `records` is not zero. It may be called only
    /// between messages.
    pub fn lost_otherwise(&mut self, records: u64, reason: &str, out: &mut Vec<u8>) {
        if let Some(reason) = Name::parse(reason.as_bytes()).filter(|_| records > 0) {
            self.lost_otherwise = self.lost_otherwise.saturating_add(records);
            self.meta(&Meta::LostOtherwise { records, reason }, out);
        }
    }

    /// Appends the losses and the waiting times in `gone` again, because the file that reported them, or the part of
    /// this file, no longer exists.
    pub fn write_earlier_losses(&mut self, gone: &FileTotals, out: &mut Vec<u8>) {
        for (records, reason) in gone.lost.iter().zip(LossReason::ALL) {
            if *records > 0 {
                self.meta(&Meta::Lost { records: *records, reason }, out);
            }
        }
        if gone.stall_ns > 0 {
            self.meta(&Meta::Stall { ns: gone.stall_ns }, out);
        }
    }

    /// Prepares the renderer for the thread's next file; the current one is no longer written. `remaining` are the
    /// totals of all existing files of the thread. The next file reports again what no existing file reports; messages
    /// that are in no existing file are lost.
    pub fn leave(&mut self, remaining: &FileTotals) {
        let state = &mut self.state;
        let most = FileTotals {
            records: state.records.saturating_add(state.in_earlier_files.records),
            lost: state.lost,
            stall_ns: state.stall_ns,
            bytes: 0,
        };
        state.in_earlier_files = remaining.at_most(&most);
        let lost = &mut state.lost[LossReason::FileRemoved as usize];
        *lost = lost.saturating_add(most.records - state.in_earlier_files.records);
        if state.in_message {
            // The beginning of the message stays in the old file, and its rest may never come: the message is
            // reported now.
            let torn = &mut state.lost[LossReason::Torn as usize];
            *torn = torn.saturating_add(1);
            state.in_lost = true;
        }
        (state.records, state.waits) = (0, 0);
        (state.in_message, state.ended) = (false, false);
    }

    /// Reports that earlier files of the thread no longer exist: their messages as lost, and their reports of losses
    /// and waits again. `remaining` are the totals of the earlier files that still exist. It may be called only between
    /// messages.
    pub fn report_missing_files(&mut self, remaining: &FileTotals, out: &mut Vec<u8>) {
        let before = self.state.in_earlier_files;
        let now = remaining.at_most(&before);
        self.state.in_earlier_files = now;
        let gone = FileTotals {
            records: before.records - now.records,
            lost: std::array::from_fn(|i| before.lost[i] - now.lost[i]),
            stall_ns: before.stall_ns - now.stall_ns,
            bytes: 0,
        };
        self.write_earlier_losses(&gone, out);
        self.lost(gone.records, LossReason::FileRemoved, out);
    }

    /// Handles the removal of `gone` messages and `waits` waits from the file: subtracts them from the file's counts,
    /// and counts the messages as lost for this `reason`. The next output begins with a new line.
    pub fn forget(&mut self, gone: u64, waits: u64, reason: LossReason) {
        let gone = gone.min(self.state.records);
        self.state.waits = self.state.waits.saturating_sub(waits);
        self.state.records -= gone;
        let lost = &mut self.state.lost[reason as usize];
        *lost = lost.saturating_add(gone);
        (self.state.in_message, self.state.ended) = (false, false);
    }

    /// Appends the last line of a file; `files` is the number of files that the run has made so far, if
    /// they were counted.
    pub fn end(&mut self, ended: impl Into<Ended>, files: Option<u64>, out: &mut Vec<u8>) {
        self.close_torn(out);
        self.state.ended = true;
        let lost = self.state.here(0).lost;
        let lost = lost.iter().fold(self.lost_otherwise, |sum: u64, lost| sum.saturating_add(*lost));
        let Ended { reason, cause, seen } = ended.into();
        let (waits, states) = (self.state.waits, self.states);
        let apart = SeparateCounts { waits, states, ..SeparateCounts::default() };
        let ns = self.state.here(0).stall_ns;
        let waited = Waited { ns, for_ring_ns: self.for_ring_ns.min(ns) };
        self.meta(
            &Meta::End(End { records: self.state.records, lost, reason, files, cause, seen, apart, waited }),
            out,
        );
    }

    /// Appends a change of a thread's state at `ticks`. If `ticks` are smaller than those of the line before, the
    /// change gets the ticks of the line before.
    pub fn thread_state(&mut self, ticks: Ticks, state: &ThreadState, out: &mut Vec<u8>) {
        self.state.last = self.state.last.max(ticks);
        self.states = self.states.saturating_add(1);
        let last = self.state.last;
        match &mut self.form {
            Form::Text(lines) => lines.line(last, Kind::State, |out| state.write(out), out),
            Form::Raw(raw) => raw.thread_state(last, state, out),
        }
    }

    /// Appends a metadata line with the ticks of the line before it.
    ///
    /// It may be called only between messages; see [`Renderer::state`].
    pub fn meta(&mut self, meta: &Meta, out: &mut Vec<u8>) {
        debug_assert!(!self.state.in_message);
        match &mut self.form {
            Form::Text(lines) => lines.meta(self.state.last, |out| meta.write(out), out),
            Form::Raw(raw) => raw.meta(self.state.last, meta, out),
        }
    }
}

/// The next records of a ring, up to a piece of a longer message, or a record whose ticks go back.
struct WholeRecords<'s, 'a> {
    records: Records<'a>,
    plans: &'s Plans,
    /// Whether the file already has the lines of the module table that records with addresses need.
    with_addresses: bool,
    next: Option<Record<'a>>,
    last: Ticks,
}

impl PlainRecords for WholeRecords<'_, '_> {
    #[inline(always)]
    fn peek(&mut self) -> Option<PlainRecord<'_>> {
        let next = self.records.peek_whole().filter(|record| record.ticks >= self.last)?;
        self.next = Some(next);
        let content = match next.kind {
            RecordKind::Message => plain_text(&next, || self.plans.is_lock_site(next.site()))?,
            RecordKind::Captured => PlainContent::Captured(self.plans.get(next.site())?, next.payload),
            RecordKind::Enter | RecordKind::Leave
                if self.with_addresses && !next.flags().has(Flags::UNWINDING) =>
            {
                PlainContent::Address(next.kind, next.flags(), next.address())
            }
            _ => return None,
        };
        Some(PlainRecord { ticks: next.ticks, content })
    }

    #[inline(always)]
    fn advance(&mut self) {
        if let Some(record) = &self.next {
            self.last = record.ticks;
            self.records.advance(record);
        }
    }
}

#[cfg(test)]
mod tests;
