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
mod tests {
    use super::*;
    use crate::escape::{Place, unescape};
    use crate::line::{Kind, Line};
    use crate::record::tests::lay_out;
    use proptest::prelude::*;

    const BLOCK: u64 = 64;

    fn render(
        state: &mut Renderer,
        main: &[(u64, Flags, &str)],
        nested: &[(u64, Flags, &str)],
        idle: bool,
    ) -> String {
        let own = |list: &[(u64, Flags, &str)]| -> Vec<_> {
            list.iter().map(|(t, f, s)| (*t, *f, s.as_bytes().to_vec())).collect()
        };
        let (main, nested) = (lay_out(&own(main), 64), lay_out(&own(nested), 64));
        let mut out = Vec::new();
        let mut main = Records::new([&main, &[]], 0, BLOCK);
        let mut nested = Records::new([&nested, &[]], 0, BLOCK);
        state.records(&mut main, &mut nested, idle, &Plans::default(), usize::MAX, &mut out);
        String::from_utf8(out).unwrap()
    }

    fn renderer() -> Renderer {
        Renderer::new(320, RenderState::default(), Encoding::Text)
    }

    proptest! {
        #[test]
        fn lines_are_those_of_a_naive_renderer_however_they_fall_into_windows(
            texts in prop::collection::vec((0u64..3, "([a-z ]{0,40}|[ -~]{0,40}|[a-z]{600,700}|.{0,5})"), 0..200)
        ) {
            let mut ticks = 0;
            let mut expected = Vec::new();
            let messages: Vec<_> = texts
                .iter()
                .map(|(step, text)| {
                    ticks += step;
                    expected.extend(format!("{ticks:016x}-00000320 : ").bytes());
                    crate::escape::escape_into(&mut expected, text.as_bytes(), Place::Line);
                    expected.push(b'\n');
                    (ticks, Flags::NONE, text.clone().into_bytes())
                })
                .collect();
            let bytes = lay_out(&messages, 4096);
            let mut main = Records::new([&bytes, &[]], 0, 4096);
            let (mut renderer, mut out) = (renderer(), Vec::new());
            renderer.records(&mut main, &mut Records::empty(0, BLOCK), true, &Plans::default(), usize::MAX, &mut out);
            prop_assert_eq!(String::from_utf8_lossy(&out), String::from_utf8_lossy(&expected));
            prop_assert_eq!(renderer.state().records, texts.len() as u64);
        }
    }

    #[test]
    fn line_feeds_become_lines_of_their_own_and_a_trailing_one_an_empty_line() {
        let text = render(&mut renderer(), &[(1, Flags::NONE, "a\nb\n"), (2, Flags::NONE, "")], &[], true);
        let expected = "0000000000000001-00000320 : a\n0000000000000001-00000320 | b\n\
                        0000000000000001-00000320 | \n0000000000000002-00000320 : \n";
        assert_eq!(text, expected);
    }

    #[test]
    fn nested_records_are_merged_by_ticks_and_wait_for_the_record_they_were_made_in() {
        let mut state = renderer();
        let main = [(1, Flags::NONE, "one"), (5, Flags::NONE, "five")];
        let nested = [(3, Flags::NONE, "three"), (5, Flags::NONE, "5b"), (9, Flags::NONE, "nine")];
        let text = render(&mut state, &main, &nested, false);
        let order: Vec<&str> = text.lines().map(|l| &l[28..]).collect();
        assert_eq!(order, ["one", "three", "five"]);
        let text = render(&mut state, &[(8, Flags::NONE, "eight")], &nested[1..], true);
        let order: Vec<&str> = text.lines().map(|l| &l[28..]).collect();
        assert_eq!(order, ["5b", "eight", "nine"]);
    }

    #[test]
    fn pieces_become_one_message_and_a_missing_end_is_told() {
        let mut state = renderer();
        let text = render(&mut state, &[(1, Flags::MORE, "half ")], &[(2, Flags::NONE, "nested")], true);
        assert_eq!(text, "0000000000000001-00000320 : half ");
        let more = [(1, Flags::CONT, "whole"), (3, Flags::MORE, "torn"), (4, Flags::NONE, "next")];
        let text = render(&mut state, &more, &[], true);
        assert_eq!(
            text,
            "whole\n0000000000000003-00000320 : torn\n0000000000000003-00000320 # lost records=1 reason=torn\n\
             0000000000000004-00000320 : next\n"
        );
        assert_eq!((state.state().records, state.state().lost), (2, [0, 0, 0, 1, 0, 0, 0, 0]));
    }

    #[test]
    fn losses_are_told_once() {
        let mut state = renderer();
        let mut out = Vec::new();
        let losses = Losses { full: 3, panic: 0, nested: 1, stall_ns: 7 };
        state.losses(&losses, &mut out);
        state.losses(&losses, &mut out);
        state.end(EndReason::Thread, &mut out);
        let text = String::from_utf8(out).unwrap();
        let payloads: Vec<&str> = text.lines().map(|l| &l[26..]).collect();
        assert_eq!(
            payloads,
            [
                "# lost records=3 reason=full",
                "# lost records=1 reason=nested",
                "# stall ns=7",
                "# end records=0 lost=4 reason=thread"
            ]
        );
    }

    proptest! {
        #[test]
        fn messages_are_read_back_from_their_lines(texts in prop::collection::vec("(?s).{0,11}", 0..20)) {
            let main: Vec<_> = texts.iter().enumerate().map(|(i, s)| (i as u64, Flags::NONE, s.as_str())).collect();
            let rendered = render(&mut renderer(), &main, &[], true);
            let mut read: Vec<Vec<u8>> = Vec::new();
            for text in rendered.split_terminator('\n') {
                let line = Line::parse(text.as_bytes()).unwrap();
                let payload = unescape(line.payload);
                match (line.kind, read.last_mut()) {
                    (Kind::Continuation, Some(last)) => {
                        last.push(b'\n');
                        last.extend(payload);
                    }
                    _ => read.push(payload),
                }
            }
            let expected: Vec<Vec<u8>> = texts.into_iter().map(String::into_bytes).collect();
            prop_assert_eq!(read, expected);
        }

        #[test]
        fn any_ring_content_gives_sorted_valid_lines(
            main: Vec<u8>, nested: Vec<u8>, words in prop::collection::vec((0u8..4, 0u8..5, 0u16..40, any::<u64>()), 0..9)
        ) {
            let mut mixed = Vec::new();
            for (kind, flags, len, ticks) in words {
                mixed.extend((u64::from(len) << 16 | u64::from(flags) << 8 | u64::from(kind)).to_le_bytes());
                mixed.extend(ticks.to_le_bytes());
                mixed.resize(mixed.len() + usize::from(len).next_multiple_of(8), b'\\');
            }
            mixed.extend(&main);
            let mut out = Vec::new();
            let mut state = renderer();
            let mut main = Records::new([&mixed, &main], 0, 128);
            let mut nested = Records::new([&nested, &[]], 0, 64);
            state.records(&mut main, &mut nested, true, &Plans::default(), usize::MAX, &mut out);
            state.end(EndReason::Killed, &mut out);
            let text = String::from_utf8(out).unwrap();
            let lines: Vec<&str> = text.split_terminator('\n').collect();
            prop_assert!(lines.iter().all(|l| Line::parse(l.as_bytes()).is_ok()), "{}", text);
            prop_assert!(lines.is_sorted_by_key(|l| &l[..16]));
        }
    }
}
