//! The writer of one thread's lines: messages, pieces of them, captured arguments, functions and metadata.

use crate::escape::{EscapeContext, escape_into, escape_line, is_plain, push_byte};
use crate::fields::SitePlan;
use crate::function::{self, HOOK, put_address};
use crate::line::{Kind, Prefix, Ticks};
use crate::locks;
use crate::record::{Flags, Record, RecordKind};

/// The length in bytes of the window, a part of the output into which several lines are written at once.
const WINDOW: usize = 4096;
/// The number of bytes at the end of the window in which no line begins, because the line may not fit.
const LINE: usize = 512;

/// A whole record that can probably be written as one line without escapes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlainRecord<'a> {
    pub ticks: Ticks,
    pub content: PlainContent<'a>,
}

/// The content of a [`PlainRecord`].
#[derive(Clone, Copy, Debug)]
pub(crate) enum PlainContent<'a> {
    /// The text of a message.
    Text(&'a [u8]),
    /// The values of a message, and the plan that turns them into text.
    Captured(&'a SitePlan, &'a [u8]),
    /// The address of a function that was entered or left, without flags except [`Flags::HOOK`].
    Address(RecordKind, Flags, u64),
}

/// Returns the content of a message that its thread has formatted; `None` if the text of the message needs an escape.
/// It needs one if it looks like a lock message and `is_lock` returns false: the site is not in the tracer's own code
/// that records locks.
#[inline(always)]
pub(crate) fn plain_text<'a>(
    message: &Record<'a>,
    is_lock: impl FnOnce() -> bool,
) -> Option<PlainContent<'a>> {
    let seems = locks::begins_like_lock_record(message.payload, false) && !is_lock();
    (!seems).then_some(PlainContent::Text(message.payload))
}

/// A source of records that can probably be written without escapes; they are taken one after the other.
pub(crate) trait PlainRecords {
    /// Returns the next record; `None` if no record is left, or the next one has to be written in another way.
    fn peek(&mut self) -> Option<PlainRecord<'_>>;

    /// Advances past the record that [`peek`](PlainRecords::peek) returned last.
    fn advance(&mut self);
}

/// A writer of one thread's lines. It holds no text between calls.
#[derive(Clone, Debug)]
pub(crate) struct LineWriter {
    prefix: Prefix,
    /// The text of the current message; without meaning between calls.
    text: Vec<u8>,
}

impl LineWriter {
    pub(crate) fn new(tid: u64) -> LineWriter {
        LineWriter { prefix: Prefix::new(tid), text: Vec::new() }
    }

    /// Appends the key and the kind with which the first line of a message begins.
    #[inline]
    pub(crate) fn message(&self, ticks: Ticks, out: &mut Vec<u8>) {
        self.prefix.begin(out, ticks, Kind::Message);
    }

    /// Writes the first piece of a message that its thread has formatted, after the beginning that
    /// [`LineWriter::message`] has written. `is_lock` says whether the message is a lock message of the tracer, and
    /// `more` whether another piece follows.
    #[inline]
    pub(crate) fn first_piece(
        &self,
        ticks: Ticks,
        text: &[u8],
        is_lock: bool,
        more: bool,
        out: &mut Vec<u8>,
    ) {
        let seems = locks::begins_like_lock_record(text, more) && !is_lock;
        self.first_text(ticks, text, seems, out);
    }

    /// Writes the first text of a message. `seems` says that the message begins like a lock message, but is not one:
    /// then the first letter is written as an escape.
    #[inline]
    fn first_text(&self, ticks: Ticks, text: &[u8], seems: bool, out: &mut Vec<u8>) {
        match text.split_first() {
            Some((first, rest)) if seems => {
                push_byte(out, *first);
                self.text(ticks, rest, out);
            }
            _ => self.text(ticks, text, out),
        }
    }

    /// Writes further text of the current message.
    #[inline]
    pub(crate) fn text(&self, ticks: Ticks, text: &[u8], out: &mut Vec<u8>) {
        let mut rest = text;
        loop {
            rest = &rest[escape_line(out, rest, EscapeContext::Line)..];
            if rest.is_empty() {
                return;
            }
            out.push(b'\n');
            self.prefix.begin(out, ticks, Kind::Continuation);
            rest = &rest[1..];
        }
    }

    /// Writes a whole message of captured arguments. Returns false, and writes nothing, if the arguments do not fit
    /// `plan`.
    #[inline]
    pub(crate) fn captured(
        &mut self,
        ticks: Ticks,
        plan: &SitePlan,
        arguments: &[u8],
        out: &mut Vec<u8>,
    ) -> bool {
        let mut text = std::mem::take(&mut self.text);
        text.clear();
        let rendered = plan.render(arguments, &mut text).is_ok();
        if rendered {
            self.message(ticks, out);
            self.first_text(ticks, &text, plan.begins_like_lock_record(&text), out);
            out.push(b'\n');
        }
        self.text = text;
        rendered
    }

    /// Writes the lines of the next records, as long as they need no escapes and `out` has less than `limit` bytes;
    /// returns the number of these records.
    pub(crate) fn plain_lines(&self, next: &mut impl PlainRecords, limit: usize, out: &mut Vec<u8>) -> u64 {
        let mut count = 0;
        while out.len() < limit && next.peek().is_some() {
            let start = out.len();
            // The lines overwrite these zeros: so there is one test for room per line, and no call of a
            // function.
            out.extend_from_slice(&[0; WINDOW]);
            let (messages, length) = self.fill(next, limit - start, out.get_mut(start..).unwrap_or(&mut []));
            out.truncate(start + length);
            count += messages;
            if messages == 0 {
                break;
            }
        }
        count
    }

    /// Writes lines into `window` until it is nearly full; returns the number of lines, and their length in bytes.
    fn fill(&self, next: &mut impl PlainRecords, limit: usize, window: &mut [u8]) -> (u64, usize) {
        let (mut count, mut at) = (0, 0);
        let limit = limit.min(WINDOW - LINE);
        while at < limit {
            let Some(message) = next.peek() else { break };
            let Some(length) = window.get_mut(at..).and_then(|page| self.plain_line(&message, page)) else {
                break;
            };
            (count, at) = (count + 1, at + length);
            next.advance();
        }
        (count, at)
    }

    /// Writes one line to the beginning of `page`; returns its length in bytes. Returns `None` if the line needs
    /// escapes or does not fit.
    #[inline(always)]
    fn plain_line(&self, message: &PlainRecord<'_>, page: &mut [u8]) -> Option<usize> {
        let kind = match message.content {
            PlainContent::Address(RecordKind::Enter, ..) => Kind::Enter,
            PlainContent::Address(..) => Kind::Leave,
            _ => Kind::Message,
        };
        let start = self.prefix.put(page, message.ticks, kind)?;
        let text = page.get_mut(start..)?;
        let length = match message.content {
            PlainContent::Captured(plan, values) => {
                let length = plan.write_plain(values, text)?;
                if plan.begins_like_lock_record(text.get(..length)?) {
                    return None;
                }
                length
            }
            PlainContent::Text(bytes) => {
                text.get_mut(..bytes.len()).filter(|_| is_plain(bytes))?.copy_from_slice(bytes);
                bytes.len()
            }
            PlainContent::Address(_, flags, address) => {
                let head = if flags.has(Flags::HOOK) { HOOK } else { &[] };
                text.get_mut(..head.len())?.copy_from_slice(head);
                head.len() + put_address(address, text.get_mut(head.len()..)?)?
            }
        };
        *text.get_mut(length)? = b'\n';
        Some(start + length + 1)
    }

    /// Writes the line of a function that was entered or left, or of a call stack. `place` is the text of the site's
    /// place in the source, if the record has a site and the place is known.
    pub(crate) fn function(
        &self,
        ticks: Ticks,
        record: &Record<'_>,
        place: Option<&[u8]>,
        out: &mut Vec<u8>,
    ) {
        let kind = match record.kind {
            RecordKind::Stack => Kind::Stack,
            RecordKind::Leave => Kind::Leave,
            RecordKind::Scope if record.flags().has(Flags::LEAVE) => Kind::Leave,
            _ => Kind::Enter,
        };
        self.prefix.begin(out, ticks, kind);
        function::write(record, place, out);
        out.push(b'\n');
    }

    /// Writes the line of a lock record.
    pub(crate) fn lock(&self, ticks: Ticks, text: &[u8], out: &mut Vec<u8>) {
        self.line(ticks, Kind::Lock, |out| escape_into(out, text, EscapeContext::Line), out);
    }

    /// Writes a `#` line.
    pub(crate) fn meta(&self, ticks: Ticks, payload: impl FnOnce(&mut Vec<u8>), out: &mut Vec<u8>) {
        self.line(ticks, Kind::Meta, payload, out);
    }

    /// Writes a line of any kind. `payload` appends the payload, already escaped.
    pub(crate) fn line(
        &self,
        ticks: Ticks,
        kind: Kind,
        payload: impl FnOnce(&mut Vec<u8>),
        out: &mut Vec<u8>,
    ) {
        self.prefix.begin(out, ticks, kind);
        payload(out);
        out.push(b'\n');
    }
}
