//! Records to what a thread's file has of them: the one renderer, used by the flusher of a living process and by
//! recovery.
//!
//! It takes what is committed in a thread's ring and nested ring, merges the two by ticks, and appends lines, or
//! records for a [`raw`] file. It holds no text between calls: what it must remember, [`RenderState`], is
//! published with each step, so that another process can go on where it stopped.

mod lines;

use crate::file::Encoding;
use crate::line::Ticks;
use crate::meta::{End, EndReason, LossReason, Meta, Run, Thread};
use crate::plans::Plans;
use crate::raw;
use crate::record::{Flags, Message, Records};
pub(crate) use lines::{Lines, Plain, Plains};

/// So many messages are rendered one by one behind two that are no usual ones.
pub(crate) const ONE_BY_ONE: u32 = 16;

/// What the renderer of a thread's records goes on from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RenderState {
    /// Ticks of the last line.
    pub last: Ticks,
    /// The text ends inside a message: neither its last piece nor its line feed is there.
    pub in_message: bool,
    /// The text ends with an `# end` line.
    pub ended: bool,
    /// Messages in the text.
    pub records: u64,
    /// Messages told lost, in the order of [`LossReason`].
    pub lost: [u64; LossReason::COUNT],
    /// Stall time told, in nanoseconds.
    pub stall_ns: u64,
    /// The thread's clock went back behind `last` and has not caught up yet; that is told.
    pub behind: bool,
}

/// Totals that a producer has counted since it took its ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// No room in the ring.
    pub full: u64,
    /// Formatting did not end.
    pub panic: u64,
    /// No room in the nested ring.
    pub nested: u64,
    /// Time waited for room, in nanoseconds.
    pub stall_ns: u64,
}

/// Renders the records of one thread.
#[derive(Clone, Debug)]
pub struct Renderer {
    state: RenderState,
    form: Form,
}

/// What is written.
#[derive(Clone, Debug)]
enum Form {
    Text(Lines),
    Raw(raw::Writer),
}

impl Renderer {
    /// A renderer for thread `tid` that goes on from `state`.
    #[must_use]
    pub fn new(tid: u64, state: RenderState, encoding: Encoding) -> Renderer {
        let form = match encoding {
            Encoding::Text => Form::Text(Lines::new(tid)),
            Encoding::Raw => Form::Raw(raw::Writer::new(tid)),
        };
        Renderer { state, form }
    }

    /// What is appended from here on begins at this place of the file, and what it is appended to is empty. A raw
    /// file has borders that its records know.
    pub fn begin_at(&mut self, position: u64) {
        if let Form::Raw(raw) = &mut self.form {
            raw.begin_at(position);
        }
    }

    /// So much was appended since [`Renderer::begin_at`], and is now in the file.
    pub fn written(&mut self, bytes: usize) {
        if let Form::Raw(raw) = &mut self.form {
            raw.written(bytes);
        }
    }

    /// What another renderer would go on from.
    #[must_use]
    pub fn state(&self) -> RenderState {
        self.state
    }

    /// Appends the two lines that every file begins with.
    pub fn header(&mut self, run: &Run, thread: &Thread, out: &mut Vec<u8>) {
        self.meta(&Meta::Run(run.clone()), out);
        self.meta(&Meta::Thread(thread.clone()), out);
    }

    /// Appends records in the order of their ticks until both are empty or `out` has `limit` bytes.
    ///
    /// A nested record is held back while the record that it was made in may still come: after the last
    /// record of `main` it is taken only if `idle`, that is if after `nested` was read, which was after `main`,
    /// the thread was seen outside of any record and with nothing more in `main`.
    pub fn records<'a>(
        &mut self,
        main: &mut Records<'a>,
        nested: &mut Records<'a>,
        idle: bool,
        plans: &Plans,
        limit: usize,
        out: &mut Vec<u8>,
    ) {
        let damaged = main.damaged() + nested.damaged();
        let alone = nested.peek().is_none();
        // Where one message is not of the usual kind, the next ones may not be either.
        let mut one_by_one = 0;
        while out.len() < limit {
            if one_by_one > 0 {
                one_by_one -= 1;
            } else if alone && !self.state.in_message {
                if !self.many(main, plans, limit, out) {
                    one_by_one = ONE_BY_ONE;
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
            let Some(message) = source.next() else { break };
            if message.captured {
                self.captured(&message, plans, out);
            } else {
                self.piece(&message, out);
            }
        }
        let damaged = main.damaged() + nested.damaged() - damaged;
        if damaged > 0 {
            self.close_torn(out);
            self.lost(damaged, LossReason::Damaged, out);
        }
    }

    /// Appends as many of the next messages as can be done at once, if there are any.
    #[inline]
    fn many(&mut self, main: &mut Records<'_>, plans: &Plans, limit: usize, out: &mut Vec<u8>) -> bool {
        let last = self.state.last;
        let (count, last) = match &mut self.form {
            Form::Text(lines) => {
                // Records of its own: what changes stays in registers.
                let mut usual = Usual { records: main.clone(), plans, next: None, last };
                let count = lines.plain_lines(&mut usual, limit, out);
                *main = usual.records;
                (count, usual.last)
            }
            Form::Raw(raw) => raw.copy_run(main, last, limit, out),
        };
        if count > 0 {
            self.state.records = self.state.records.saturating_add(count);
            (self.state.last, self.state.behind, self.state.ended) = (last, false, false);
        }
        count > 0
    }

    /// Appends one piece of a message.
    fn piece(&mut self, piece: &Message<'_>, out: &mut Vec<u8>) {
        self.state.ended = false;
        let continues = piece.flags.has(Flags::CONT);
        match (self.state.in_message, continues) {
            (true, false) => self.close_torn(out),
            (false, true) => {
                // The end of a message whose start is gone. Its last piece tells of it, once.
                if !piece.flags.has(Flags::MORE) {
                    self.lost(1, LossReason::Torn, out);
                }
                return;
            }
            _ => {}
        }
        if !continues {
            self.go_on_to(piece.ticks, out);
        }
        let more = piece.flags.has(Flags::MORE);
        match &mut self.form {
            Form::Text(lines) => {
                if !continues {
                    lines.message(self.state.last, out);
                }
                lines.text(self.state.last, piece.text, out);
                if !more {
                    out.push(b'\n');
                }
            }
            Form::Raw(raw) => raw.message(piece.site, piece.flags, self.state.last, piece.text, out),
        }
        self.state.in_message = more;
        if !more {
            self.state.records = self.state.records.saturating_add(1);
        }
    }

    /// Appends a message whose arguments were captured.
    #[inline]
    fn captured(&mut self, message: &Message<'_>, plans: &Plans, out: &mut Vec<u8>) {
        self.state.ended = false;
        self.close_torn(out);
        let Some(plan) = plans.get(message.site) else { return self.lost(1, LossReason::Damaged, out) };
        let before = (self.state, out.len());
        self.go_on_to(message.ticks, out);
        let written = match &mut self.form {
            Form::Text(lines) => lines.captured(self.state.last, plan, message.text, out),
            Form::Raw(raw) => raw.captured(message.site, self.state.last, message.text, plans, out),
        };
        if written {
            self.state.records = self.state.records.saturating_add(1);
        } else {
            // A table that was cut short, or a hostile ring.
            self.state = before.0;
            out.truncate(before.1);
            self.lost(1, LossReason::Damaged, out);
        }
    }

    /// The ticks of the next line. The counters of a machine may go back (a virtual machine that is moved), and a
    /// hostile ring may say anything: the order of the file holds, and the break is told once.
    fn go_on_to(&mut self, ticks: Ticks, out: &mut Vec<u8>) {
        let back = self.state.last.0.saturating_sub(ticks.0);
        if back == 0 {
            self.state.last = ticks;
        } else if !self.state.behind {
            self.meta(&Meta::Backward { ticks: back }, out);
        }
        self.state.behind = back > 0;
    }

    /// Ends a message whose last piece will not come.
    pub fn close_torn(&mut self, out: &mut Vec<u8>) {
        if self.state.in_message {
            self.state.in_message = false;
            if let Form::Text(_) = self.form {
                out.push(b'\n');
            }
            self.lost(1, LossReason::Torn, out);
        }
    }

    /// Appends what was lost and how long was waited since that was told last. Does nothing inside a message.
    pub fn losses(&mut self, now: &Losses, out: &mut Vec<u8>) {
        if self.state.in_message {
            return;
        }
        let totals =
            [(now.full, LossReason::Full), (now.panic, LossReason::Panic), (now.nested, LossReason::Nested)];
        for (total, reason) in totals {
            self.lost(total.saturating_sub(self.state.lost[reason as usize]), reason, out);
        }
        let ns = now.stall_ns.saturating_sub(self.state.stall_ns);
        if ns > 0 {
            self.state.stall_ns = now.stall_ns;
            self.meta(&Meta::Stall { ns }, out);
        }
    }

    /// Appends that records are missing, if they are. Only between messages.
    pub fn lost(&mut self, records: u64, reason: LossReason, out: &mut Vec<u8>) {
        if records > 0 {
            self.state.ended = false;
            let told = &mut self.state.lost[reason as usize];
            *told = told.saturating_add(records);
            self.meta(&Meta::Lost { records, reason }, out);
        }
    }

    /// Appends what an earlier part of the file, which is no more, has told of losses and stalls.
    pub fn told_before(&mut self, lost: &[u64; LossReason::COUNT], stall_ns: u64, out: &mut Vec<u8>) {
        for (records, reason) in lost.iter().zip(LossReason::ALL) {
            if *records > 0 {
                self.meta(&Meta::Lost { records: *records, reason }, out);
            }
        }
        if stall_ns > 0 {
            self.meta(&Meta::Stall { ns: stall_ns }, out);
        }
    }

    /// `gone` messages are in the file no more, for the given reason, and the file goes on behind them with a
    /// line of its own.
    pub fn forget(&mut self, gone: u64, reason: LossReason) {
        let gone = gone.min(self.state.records);
        self.state.records -= gone;
        let lost = &mut self.state.lost[reason as usize];
        *lost = lost.saturating_add(gone);
        (self.state.in_message, self.state.ended) = (false, false);
    }

    /// Appends the last line of a file.
    pub fn end(&mut self, reason: EndReason, out: &mut Vec<u8>) {
        self.close_torn(out);
        self.state.ended = true;
        let lost = self.state.lost.iter().fold(0, |sum: u64, lost| sum.saturating_add(*lost));
        self.meta(&Meta::End(End { records: self.state.records, lost, reason }), out);
    }

    /// Appends a metadata line with the ticks of the line before it.
    ///
    /// Only between messages; see [`Renderer::state`].
    pub fn meta(&mut self, meta: &Meta, out: &mut Vec<u8>) {
        debug_assert!(!self.state.in_message);
        match &mut self.form {
            Form::Text(lines) => lines.meta(self.state.last, |out| meta.write(out), out),
            Form::Raw(raw) => raw.meta(self.state.last, meta, out),
        }
    }
}

/// The next records of a ring, as long as they are whole messages and their ticks do not go back.
struct Usual<'s, 'a> {
    records: Records<'a>,
    plans: &'s Plans,
    next: Option<Message<'a>>,
    last: Ticks,
}

impl Plains for Usual<'_, '_> {
    #[inline(always)]
    fn peek(&mut self) -> Option<Plain<'_>> {
        let next = self.records.peek_whole().filter(|message| message.ticks >= self.last)?;
        self.next = Some(next);
        let plan = if next.captured { Some(self.plans.get(next.site)?) } else { None };
        Some(Plain { ticks: next.ticks, plan, bytes: next.text })
    }

    #[inline(always)]
    fn advance(&mut self) {
        if let Some(message) = &self.next {
            self.last = message.ticks;
            self.records.advance(message);
        }
    }
}

#[cfg(test)]
mod tests;
