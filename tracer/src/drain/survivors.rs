//! What a ring holds that its producer may overwrite: copied, then checked.
//!
//! For readers whom the producer does not wait for: the flusher, where the ring is a flight recorder, and onlookers
//! from other processes. The way of a sequence lock, with the producer's `reserve` as the sequence.
//!
//! A producer that waits for the flusher does not overwrite what the flusher has not published as written. So an
//! onlooker copies all of such a ring, and afterwards asks what was published meanwhile: from there on the copy is
//! what it was.

use crate::ring::{Data, Memory};
use std::ops::Range;
use trace_format::meta::LossReason;
use trace_format::record::{Flags, Records};
use trace_format::render::Renderer;
use trace_format::ring::{End, RingError, Written, oldest, readable_to, survivors};

/// How often a copy is begun anew of which nothing is left when it is done.
const TRIES: u32 = 100;

/// The records of a ring and of its nested ring at one moment, as far as they were not overwritten.
#[derive(Debug)]
pub(crate) struct Survivors {
    main: Part,
    nested: Part,
    /// Messages that were committed in all, up to where the copies end.
    pub committed: u64,
}

#[derive(Debug)]
struct Part {
    bytes: Vec<u8>,
    /// The position of the first byte.
    start: u64,
    /// Records between the position that was asked for and `start` were overwritten.
    jumped: bool,
    block: u64,
    /// Messages that were committed up to its end.
    messages: u64,
}

impl Survivors {
    /// Copies what lies behind the given positions.
    ///
    /// # Errors
    /// The ring's positions are impossible.
    pub(crate) fn copy(memory: &Memory, consumed: u64, nested_consumed: u64) -> Result<Survivors, RingError> {
        let (header, geometry) = (memory.header(), memory.geometry());
        let layout = header.layout();
        // First the ring, then the nested ring, as in `Drain::portion`.
        let copy = if memory.overwrites() { Part::copy } else { Part::copy_all };
        let main = copy(&header.main, layout, memory.data(), consumed, geometry.block)?;
        let nested =
            copy(&header.nested, layout, memory.nested_data(), nested_consumed, geometry.nested_block)?;
        let committed = main.messages.wrapping_add(nested.messages);
        Ok(Survivors { main, nested, committed })
    }

    /// Where the copy of the ring ends.
    pub(crate) fn end(&self) -> u64 {
        self.main.range().end
    }

    /// Whether something was overwritten that was not read before.
    pub(crate) fn jumped(&self) -> bool {
        self.main.jumped || self.nested.jumped
    }

    /// The records from the given positions on. Where a message's beginning was overwritten, so is its rest.
    pub(crate) fn records(&self, consumed: u64, nested_consumed: u64) -> (Records<'_>, Records<'_>) {
        (self.main.records(consumed), self.nested.records(nested_consumed))
    }

    /// The kind of a record that is kept for later versions, if there is one: see
    /// [`RESERVED`](trace_format::record::RESERVED).
    pub(crate) fn unknown_kind(&self, consumed: u64, nested_consumed: u64) -> Option<u8> {
        let (mut main, mut nested) = self.records(consumed, nested_consumed);
        main.by_ref().for_each(drop);
        nested.by_ref().for_each(drop);
        main.unknown().or(nested.unknown())
    }

    /// Tells what was overwritten since that was told last: all messages that were committed, but for those that are
    /// or were in the file, are told of, or are here.
    pub(crate) fn tell_overwritten(&self, renderer: &mut Renderer, out: &mut Vec<u8>) {
        use LossReason::{Damaged, FileRemoved, Overwritten, Rotated, Torn};
        if self.jumped() {
            renderer.close_torn(out);
        }
        let state = renderer.state();
        let told =
            [Torn, Damaged, Rotated, FileRemoved, Overwritten].map(|reason| state.lost[reason as usize]);
        let there = [state.records, state.elsewhere.records, self.messages()];
        let known = told.into_iter().chain(there).fold(0, u64::saturating_add);
        let lost = self.committed.saturating_sub(known);
        if lost > 0 {
            // A hostile ring may be inside of a message all the same.
            renderer.close_torn(out);
            renderer.lost(lost, Overwritten, out);
        }
    }

    /// How many messages there are.
    pub(crate) fn messages(&self) -> u64 {
        let (main, nested) = self.records(0, 0);
        main.chain(nested).filter(|piece| !piece.flags.has(Flags::MORE)).count() as u64
    }
}

impl Part {
    fn copy(
        written: &Written,
        layout: u32,
        data: Data,
        consumed: u64,
        block: u64,
    ) -> Result<Part, RingError> {
        let mut tries = 0;
        loop {
            let End { position, messages } = written.end(layout);
            let range = survivors(written, position, consumed, data.capacity(), block)?;
            let mut bytes = data.copy(range.clone());
            let start = oldest(written, data.capacity(), block).clamp(range.start, range.end);
            tries += 1;
            // While this reads, a busy producer may have gone round once: then there is something newer.
            if start < range.end || range.is_empty() || tries == TRIES {
                let overwritten = usize::try_from(start - range.start).unwrap_or(usize::MAX).min(bytes.len());
                bytes.drain(..overwritten);
                return Ok(Part { bytes, start, jumped: start > consumed, block, messages });
            }
        }
    }

    fn copy_all(
        written: &Written,
        layout: u32,
        data: Data,
        consumed: u64,
        block: u64,
    ) -> Result<Part, RingError> {
        let End { position, messages } = written.end(layout);
        let range = readable_to(position, consumed, data.capacity())?;
        Ok(Part { bytes: data.copy(range), start: consumed, jumped: false, block, messages })
    }

    fn range(&self) -> Range<u64> {
        self.start..self.start + self.bytes.len() as u64
    }

    fn records(&self, from: u64) -> Records<'_> {
        let from = from.clamp(self.start, self.range().end);
        let skipped = usize::try_from(from - self.start).unwrap_or(usize::MAX);
        let mut records = Records::new([self.bytes.get(skipped..).unwrap_or(&[]), &[]], from, self.block);
        if self.jumped && from == self.start {
            while let Some(piece) = records.peek().filter(|piece| piece.flags.has(Flags::CONT)) {
                records.advance(&piece);
            }
        }
        records
    }
}

#[cfg(all(test, not(loom)))]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::config::FullPolicy;
    use crate::ring::{Link, Producer};
    use crate::wake::Wake;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;
    use trace_format::file::Encoding;
    use trace_format::render::RenderState;
    use trace_format::ring::{Geometry, MIN_CAPACITY};

    /// A ring that is overwritten, and a producer bound to it.
    fn recorder() -> (Memory, Producer) {
        let memory = Memory::private(Geometry::of(MIN_CAPACITY)).unwrap();
        memory.header().identity.set(&memory.geometry(), 1, 0, true);
        let link: &Link = Box::leak(Box::new(Link {
            closed: AtomicBool::new(false),
            failing: AtomicBool::new(false),
            wake: Box::leak(Box::new(Wake::default())),
            room: Wake::default(),
            policy: FullPolicy::Overwrite,
            max_stall: Duration::ZERO,
        }));
        // SAFETY: the mapping stays where it is when the tuple is moved, and the test keeps it; the link is leaked.
        let producer = unsafe { Producer::bound_to(&memory, link) };
        (memory, producer)
    }

    /// The messages, their pieces put together.
    fn texts(records: Records<'_>) -> Vec<String> {
        let mut texts: Vec<String> = Vec::new();
        for piece in records {
            let text = std::str::from_utf8(piece.text).unwrap();
            match texts.last_mut().filter(|_| piece.flags.has(Flags::CONT)) {
                Some(message) => message.push_str(text),
                None => texts.push(text.into()),
            }
        }
        texts
    }

    #[test]
    fn the_newest_records_are_there_and_the_rest_is_counted() {
        let (memory, producer) = recorder();
        for n in 0..5000 {
            producer.record(crate::clock::now(), format_args!("record number {n}"));
        }
        let copy = Survivors::copy(&memory, 0, 0).unwrap();
        let found = texts(copy.records(0, 0).0);
        let expected: Vec<String> =
            (5000 - found.len()..5000).map(|n| format!("record number {n}")).collect();
        assert!(found.len() > 250, "{}", found.len());
        assert_eq!(found, expected);
        assert_eq!((copy.committed, copy.messages(), copy.jumped()), (5000, found.len() as u64, true));
        let later = Survivors::copy(&memory, copy.end(), 0).unwrap();
        assert_eq!((later.messages(), later.jumped()), (0, false));
    }

    /// A kill between the two stores of a commit, at any number of messages, and whether the ring has overwritten some
    /// or not: as many are told overwritten as there were.
    #[test]
    fn a_producer_that_was_killed_before_it_counted_its_last_message_has_lost_none() {
        for made in (1..40).chain(5000..5010) {
            let (memory, producer) = recorder();
            for n in 0..made {
                producer.record(crate::clock::now(), format_args!("record number {n}"));
            }
            // Its last store did not happen.
            memory.header().main.committed.store(made - 1, Ordering::Relaxed);
            let copy = Survivors::copy(&memory, 0, 0).unwrap();
            let mut renderer = Renderer::new(1, RenderState::default(), Encoding::Text);
            let mut out = Vec::new();
            copy.tell_overwritten(&mut renderer, &mut out);
            let told = renderer.state().lost[LossReason::Overwritten as usize];
            assert_eq!((copy.committed, told + copy.messages()), (made, made));
            assert_eq!(memory.header().committed(), made);
        }
    }

    #[test]
    fn of_a_message_whose_beginning_was_overwritten_nothing_is_left() {
        let (memory, producer) = recorder();
        let long = "long ".repeat(10_000);
        producer.record(crate::clock::now(), format_args!("before"));
        producer.record(crate::clock::now(), format_args!("{long}"));
        producer.record(crate::clock::now(), format_args!("after"));
        let copy = Survivors::copy(&memory, 0, 0).unwrap();
        assert_eq!(texts(copy.records(0, 0).0), ["after"]);
        assert_eq!((copy.committed, copy.messages()), (3, 1));
    }

    #[test]
    fn a_copy_beside_a_busy_producer_has_whole_records_without_a_gap() {
        let (memory, producer) = recorder();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (memory, done) = (&memory, &done);
            let reader = scope.spawn(move || {
                let (mut copies, mut seen) = (0, 0);
                while !done.load(Ordering::Acquire) || copies == 0 {
                    let copy = Survivors::copy(memory, 0, 0).unwrap();
                    let (mut records, _) = copy.records(0, 0);
                    let found = texts(records.clone());
                    records.by_ref().for_each(drop);
                    assert_eq!((found.len() as u64, records.damaged()), (copy.messages(), 0));
                    let numbers: Vec<u64> = found
                        .iter()
                        .map(|text| {
                            let (number, filling) = text.split_once(' ').unwrap();
                            let number = number.parse().unwrap();
                            assert_eq!(filling, "x".repeat(number as usize % 90), "a record is whole");
                            number
                        })
                        .collect();
                    assert!(numbers.windows(2).all(|pair| pair[1] == pair[0] + 1), "{numbers:?}");
                    assert!(numbers.last().is_none_or(|last| *last + 1 == copy.committed), "exactly counted");
                    (copies, seen) = (copies + 1, seen + numbers.len());
                }
                (copies, seen)
            });
            let filling = "x".repeat(90);
            for n in 0..400_000usize {
                producer.record(crate::clock::now(), format_args!("{n} {}", &filling[..n % 90]));
            }
            done.store(true, Ordering::Release);
            let (copies, seen) = reader.join().unwrap();
            assert!(copies > 1 && seen > 0, "{copies} copies, {seen} records");
        });
    }
}
