//! The audit of one thread's trace, for `check` and `info`: it reads the whole trace, and compares all of the trace's
//! statements about itself with the records found.

use trace_format::FIRST_WITH_OTHER_KINDS;
use trace_format::kinds::SeparateCounts;
use trace_format::line::{Kind, Line};
use trace_format::meta::{End, EndReason, LossReason, Meta, Name, RingPlace, Thread};
use trace_format::states::ThreadState;
use trace_format::tally::Tally;

use crate::file::lines::{Token, line_at, skip_bad, strip_line_feed};
use crate::input::findings::add_loss;
use crate::input::other_kinds::OtherKinds;
use crate::input::slice::each_stretch;
use crate::input::source::Source;
use crate::time::anchor::Anchor;
use crate::ui::few::FirstItems;

/// A position in a trace: the index of one of the sources that the trace consists of, and an offset in this source.
pub(crate) type PartOffset = (usize, usize);

/// The result of the audit of a thread's trace: what was found when the whole trace was read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Audit {
    /// The `# thread` line of the trace.
    pub thread: Option<Thread>,
    /// The number of messages that were found.
    pub records: u64,
    /// The number of lost messages that the trace reports for each known reason, in the order of [`LossReason`].
    pub lost: [u64; LossReason::COUNT],
    /// The number of lost messages that the trace reports for each reason that this version does not know. If there are
    /// more than `REASONS` of these reasons, the messages lost for further ones are added to the last entry.
    pub lost_otherwise: Vec<(Name, u64)>,
    /// The kinds of lines that this version does not know, with the number of lines of each kind.
    pub other_kinds: OtherKinds,
    /// The number of lines that report a loss in a form that cannot be read, so that the number of lost messages is
    /// unknown.
    pub lost_unread: u64,
    /// The content of the last line, if it is an `# end` line.
    pub end: Option<End>,
    /// The `# end` lines whose counts do not match the lines before them. Each has its position, its content, and the
    /// counts that were found before it: of messages, of losses, and of lines that are counted separately.
    pub wrong_ends: FirstItems<(PartOffset, End, u64, u64, SeparateCounts)>,
    /// Whether the trace is of an earlier format version, in which a line of an unknown kind is damage.
    is_earlier_version: bool,
    /// The number of times that tracing was switched off, as far as the trace reports it.
    pub pauses: u64,
    /// The positions at which the trace reports that the clock went back.
    pub backward: FirstItems<PartOffset>,
    /// The positions of lines whose ticks are smaller than those of the line before.
    pub breaks: FirstItems<PartOffset>,
    /// The damaged places, each with its position and its length in bytes. Damage is bytes that are not a line, a line
    /// of another thread, or a continuation line without a message.
    pub damaged: FirstItems<(PartOffset, usize)>,
    /// Whether the trace ends within a line: its last line has no line feed.
    pub torn: bool,
    /// The duration of the run's start in nanoseconds, if the trace of this thread states it.
    pub start_ns: Option<u64>,
    /// The number of times that the thread waited for room in its ring, as far as the trace reports it.
    pub stalls: u64,
    /// The number of the thread's waits for the tracer that have a line of their own.
    pub waits: u64,
    /// The total time for which the thread waited for room in its ring, in nanoseconds, as far as the trace reports it.
    pub stall_ns: u64,
    /// The readings of ticks and wall clock in the trace's `# run` and `# clock` lines, in the order of the lines.
    pub anchors: Vec<Anchor>,
    /// The ticks of the first and of the last message; entries and exits of functions, stacks and lock operations count
    /// as messages, too.
    pub range: Option<(u64, u64)>,
    /// The ticks of the line that was read last.
    ticks: u64,
    tid: Option<u64>,
    /// Whether the line that was read last belongs to a message, so that the next line may continue the message.
    in_message: bool,
    tally: Tally,
}

impl Audit {
    /// Reads the trace that consists of the sources `parts`, and returns what was found.
    pub(crate) fn of(parts: &[Source]) -> Audit {
        let mut audit = Audit::default();
        for (part, source) in parts.iter().enumerate() {
            let (mut start, mut damaged) = (0, Vec::new());
            // Positions in a rendered source are offsets in its text, but positions of damage are offsets in its
            // file.
            each_stretch(source, &mut |at, bytes| damaged.push(((part, at), bytes)), |text| {
                audit.read(part, start, text);
                start += text.len();
            });
            damaged.into_iter().for_each(|place| audit.damaged.push(place));
        }
        audit
    }

    /// Returns the total number of messages that are reported lost.
    #[must_use]
    pub(crate) fn all_lost(&self) -> u64 {
        let otherwise = self.lost_otherwise.iter().map(|(_, lost)| lost);
        self.lost.iter().chain(otherwise).fold(0, |sum, lost| sum.saturating_add(*lost))
    }

    /// Returns the names of the reasons for which messages were lost, each with the number of messages lost for it.
    pub(crate) fn losses(&self) -> impl Iterator<Item = (&str, u64)> {
        let known = LossReason::ALL.iter().map(|reason| reason.name()).zip(self.lost);
        let otherwise = self.lost_otherwise.iter().map(|(reason, lost)| (reason.as_str(), *lost));
        known.chain(otherwise).filter(|(_, lost)| *lost > 0)
    }

    /// Returns the number of messages that were put into the ring, as far as it is known: the messages in the trace,
    /// and the messages that were lost after they were in the ring. Losses for unknown reasons are left out, because
    /// their messages may not have reached the ring; so the result is never too large.
    #[must_use]
    pub(crate) fn committed(&self) -> u64 {
        use LossReason::{Damaged, FileRemoved, Overwritten, Rotated, Torn};
        let later =
            [Torn, Damaged, Rotated, FileRemoved, Overwritten].map(|reason| self.lost[reason as usize]);
        later.into_iter().fold(self.records, u64::saturating_add)
    }

    /// Returns the counts of the lines that an `# end` line counts separately from messages.
    #[must_use]
    pub(crate) fn apart(&self) -> SeparateCounts {
        SeparateCounts {
            others: self.other_kinds.lines(),
            waits: self.waits,
            states: self.other_kinds.states(),
        }
    }

    /// Returns whether the thread's ring is in private memory, which is lost when the process ends.
    #[must_use]
    pub(crate) fn is_private(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| thread.ring == RingPlace::Private)
    }

    /// Reads the lines in `bytes`, which begin at the offset `start` of the source with the index `part`.
    fn read(&mut self, part: usize, start: usize, bytes: &[u8]) {
        let mut at = 0;
        loop {
            let next = match line_at(bytes, at) {
                Token::End => break,
                Token::Bad => {
                    let end = skip_bad(bytes, at);
                    self.damage((part, start + at), end - at);
                    end
                }
                Token::Line(line) => {
                    match Line::parse(strip_line_feed(&bytes[at..line.end])) {
                        Ok(parsed) => self.line((part, start + at), &parsed, line.end - at),
                        // The line has changed while it was being read.
                        Err(_) => self.damage((part, start + at), line.end - at),
                    }
                    line.end
                }
            };
            at = next;
        }
        self.torn |= !bytes.is_empty() && bytes.last() != Some(&b'\n');
        if self.torn {
            // An unknown word may be the beginning of a known one.
            self.end.take_if(|end| matches!(end.reason, EndReason::Other(_)));
        }
    }

    fn damage(&mut self, place: PartOffset, bytes: usize) {
        self.damaged.push((place, bytes));
        (self.end, self.in_message) = (None, false);
    }

    fn line(&mut self, place: PartOffset, line: &Line<'_>, bytes: usize) {
        let continues = line.kind == Kind::Continuation;
        let is_other = matches!(line.kind, Kind::Other(_));
        if (is_other && self.is_earlier_version)
            || *self.tid.get_or_insert(line.key.tid) != line.key.tid
            || (continues && !self.in_message)
        {
            self.damage(place, bytes);
            return;
        }
        if line.key.ticks.0 < self.ticks {
            self.breaks.push(place);
        }
        self.ticks = line.key.ticks.0;
        self.end = None;
        self.in_message = continues || line.kind == Kind::Message;
        self.tally.line(line);
        self.records = self.tally.messages();
        if matches!(line.kind, Kind::Message | Kind::Enter | Kind::Leave | Kind::Stack | Kind::Lock) {
            self.range = Some((self.range.map_or(self.ticks, |(first, _)| first), self.ticks));
        }
        match line.kind {
            Kind::Meta => self.metadata(place, line.payload),
            Kind::Other(kind) => self.other_kinds.see(kind),
            Kind::State => match ThreadState::parse(line.payload) {
                Some(state) => {
                    self.other_kinds.see_state();
                    self.other_kinds.see_lost_states(state.lost);
                }
                None => self.damage(place, bytes),
            },
            _ => {}
        }
    }

    fn metadata(&mut self, place: PartOffset, payload: &[u8]) {
        match Meta::parse(payload) {
            Some(Meta::Thread(thread)) => self.thread = Some(thread),
            Some(Meta::Name { name, .. }) => {
                if let Some(thread) = &mut self.thread {
                    thread.name = name;
                }
            }
            Some(Meta::Lost { records, reason }) => {
                let lost = &mut self.lost[reason as usize];
                *lost = lost.saturating_add(records);
            }
            Some(Meta::LostOtherwise { records, reason }) => {
                add_loss(&mut self.lost_otherwise, reason, records);
            }
            Some(Meta::Start { ns }) => self.start_ns = Some(ns),
            Some(Meta::Stall { ns }) => {
                self.stalls += 1;
                self.stall_ns = self.stall_ns.saturating_add(ns);
            }
            Some(Meta::Wait(wait)) => {
                self.stalls += 1;
                self.waits += 1;
                self.stall_ns = self.stall_ns.saturating_add(wait.ns);
            }
            Some(meta @ (Meta::Run(_) | Meta::Clock { .. })) => {
                if let Meta::Run(run) = &meta {
                    self.is_earlier_version = run.version < FIRST_WITH_OTHER_KINDS;
                }
                self.anchors.extend(Anchor::of_meta(&meta));
            }
            Some(Meta::Switched { on: false, .. }) => self.pauses = self.pauses.saturating_add(1),
            Some(Meta::Backward { .. }) => self.backward.push(place),
            Some(Meta::End(end)) => {
                let (records, lost, apart) = (self.records, self.all_lost(), self.apart());
                if (end.records, end.lost, end.apart) != (records, lost, apart) {
                    self.wrong_ends.push((place, end.clone(), records, lost, apart));
                }
                self.end = Some(end);
            }
            None if payload.starts_with(b"lost ") => self.lost_unread += 1,
            None if payload.starts_with(b"run ") => self.damaged.push((place, payload.len())),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::findings::REASONS;
    use std::iter;

    fn line(ticks: u64, kind: char, payload: &str) -> String {
        format!("{ticks:016x}-00000320 {kind} {payload}\n")
    }

    fn audit(lines: &[String]) -> Audit {
        Audit::of(&[Source::of("f", lines.concat().as_bytes())])
    }

    #[test]
    fn an_audit_of_a_sound_trace_finds_no_damage() {
        let lines = [
            line(1, '#', "thread name=\"w\" ring=private why=\"none\""),
            line(2, ':', "one"),
            line(2, '|', "its second line"),
            line(3, '#', "lost records=3 reason=full"),
            line(3, '#', "lost records=2 reason=rotated"),
            line(4, ':', "two"),
            line(4, '#', "end records=2 lost=5 reason=exit"),
        ];
        let audit = audit(&lines);
        assert_eq!((audit.records, audit.all_lost(), audit.committed()), (2, 5, 4));
        assert_eq!((audit.wrong_ends.count, audit.damaged.count, audit.breaks.count), (0, 0, 0));
        assert!(audit.end.is_some() && audit.is_private() && !audit.torn);
    }

    #[test]
    fn losses_are_counted_even_for_unknown_reasons() {
        let reason = |n: usize| line(2, '#', &format!("lost records=2 reason=later_{n}"));
        let lines: Vec<String> = iter::once(line(2, ':', "one"))
            .chain((0..REASONS + 3).map(reason))
            .chain([reason(0), line(2, '#', "lost records=1 reason=full")])
            .chain([line(4, '#', "end records=1 lost=41 reason=later")])
            .collect();
        let audit = audit(&lines);
        assert_eq!((audit.all_lost(), audit.committed(), audit.lost_unread), (41, 1, 0));
        assert_eq!((audit.wrong_ends.count, audit.losses().count()), (0, REASONS + 1));
        assert_eq!(audit.losses().find(|(name, _)| *name == "later_0"), Some(("later_0", 4)));
        assert_eq!(audit.end.map(|end| end.reason.name().to_owned()).as_deref(), Some("later"));
    }

    #[test]
    fn each_end_line_is_compared_with_the_records_before_it() {
        let lines = [
            line(2, ':', "one"),
            line(2, '#', "end records=1 lost=0 reason=exit"),
            line(3, ':', "two"),
            line(3, '#', "end records=3 lost=1 reason=killed"),
            line(4, ':', "three"),
        ];
        let audit = audit(&lines);
        let [(_, end, records, lost, _)] = &audit.wrong_ends.first[..] else { panic!("{audit:?}") };
        assert_eq!((end.records, end.lost, *records, *lost), (3, 1, 2, 0));
        assert!(audit.end.is_none(), "it is not the last line");
    }

    #[test]
    fn misplaced_lines_and_junk_are_damage() {
        let stranger = line(2, ':', "one").replace("320", "321");
        let orphan = line(3, '|', "continues nothing");
        for bad in [stranger, orphan, "junk\n".to_owned(), "\0\0\0".to_owned()] {
            let lines =
                [line(1, ':', "one"), line(1, '#', "clock ticks=1"), bad.clone(), line(4, ':', "two")];
            let audit = audit(&lines);
            assert_eq!((audit.records, audit.damaged.count), (2, 1), "{bad:?}");
        }
        let audit = audit(&[line(5, ':', "one"), line(4, ':', "two"), line(6, ':', "torn")[..30].to_owned()]);
        assert_eq!((audit.breaks.count, audit.torn), (1, true));
    }

    #[test]
    fn a_truncated_end_line_is_not_an_end() {
        let end = line(4, '#', "end records=1 lost=0 reason=exit");
        for (missing, is_end) in [(0, true), (1, true), (2, false), (4, false), (6, false)] {
            let audit = audit(&[line(2, ':', "one"), end[..end.len() - missing].to_owned()]);
            assert_eq!((audit.end.is_some(), audit.torn), (is_end, missing > 0), "{missing}");
        }
    }

    #[test]
    fn a_message_may_continue_in_the_next_part() {
        let parts = [line(1, ':', "one"), line(1, '|', "second line")];
        let audit = Audit::of(&parts.map(|part| Source::of("f", part.as_bytes())));
        assert_eq!((audit.records, audit.damaged.count), (1, 0));
    }
}
