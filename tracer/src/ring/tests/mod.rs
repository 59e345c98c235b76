//! The producer on a real ring that wraps constantly, with a consumer driven by hand.
#![allow(unsafe_code, reason = "plays the consumer")]
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[cfg(unix)]
mod observers;
mod survivors;

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use trace_format::escape::{EscapeContext, escape_into, unescape};
use trace_format::file::Encoding;
use trace_format::line::{Kind, Line, Ticks};
use trace_format::meta::{LossReason, Meta};
use trace_format::plans::Plans;
use trace_format::record::Records;
use trace_format::record::{Flags, hook_enter_word, stack_word};
use trace_format::render::{References, RenderState, Renderer};
use trace_format::ring::{Geometry, MIN_CAPACITY, Progress, readable};
use trace_format::wait::{Wait, WaitCause};
use trace_store::memory::{FIRST_BYTES, FIRST_NESTED_BYTES, Memory, may_begin_small};

use super::lane::MIN_ROOM;
use super::{ALL_RESERVED, Link, Message, Outcome, Producer, WriteBytes};
use crate::ring::clock::now;
use crate::user::config::FullPolicy;
use crate::words::wake::Wake;

/// A ring, its producer and a stand-in for the flusher. The lane's memory is a real mapping.
struct Bench {
    memory: Memory,
    link: Box<Link>,
    producer: Producer,
    renderer: Renderer,
    progress: Progress,
    text: Vec<u8>,
}

impl Bench {
    fn new(policy: FullPolicy, max_stall: Duration) -> Bench {
        Bench::with(Geometry::of(MIN_CAPACITY), ALL_RESERVED, policy, max_stall)
    }

    /// Makes a ring in which only the first bytes may be written so far.
    fn in_part() -> Bench {
        let geometry = Geometry::of(1 << 20);
        assert!(may_begin_small(&geometry));
        Bench::with(geometry, FIRST_BYTES, FullPolicy::Block, Duration::ZERO)
    }

    fn with(geometry: Geometry, reserved: u64, policy: FullPolicy, max_stall: Duration) -> Bench {
        let memory = Memory::private(geometry).unwrap();
        let link = Box::new(Link {
            closed: AtomicBool::new(false),
            reserved: AtomicU64::new(reserved),
            failing: AtomicBool::new(false),
            wake: Box::leak(Box::new(Wake::default())),
            room: Wake::default(),
            policy,
            max_stall,
        });
        // SAFETY: mapping and box stay where they are when the fields are moved.
        let producer = unsafe { Producer::bound_to(&memory, &*link) };
        let renderer = Renderer::new(1, RenderState::default(), Encoding::Text);
        Bench { memory, link, producer, renderer, progress: Progress::default(), text: Vec::new() }
    }

    fn drain(&mut self) {
        drain(&self.memory, self.producer.is_idle(), &mut self.progress, &mut self.renderer, &mut self.text);
        let losses = self.memory.header().losses();
        self.renderer.losses(&losses, &mut self.text);
        self.renderer.waits_without_record(&losses, &mut self.text);
    }

    fn lines(&self) -> Vec<Line<'_>> {
        let text = self.text.strip_suffix(b"\n").expect("text that ends in a line feed");
        text.split(|&b| b == b'\n').map(|line| Line::parse(line).unwrap()).collect()
    }

    fn messages(&self) -> Vec<String> {
        self.messages_in_bytes().into_iter().map(|m| String::from_utf8(m).unwrap()).collect()
    }

    fn messages_in_bytes(&self) -> Vec<Vec<u8>> {
        let mut messages: Vec<Vec<u8>> = Vec::new();
        for line in self.lines() {
            match line.kind {
                Kind::Message => messages.push(unescape(line.payload)),
                Kind::Continuation => {
                    let last = messages.last_mut().unwrap();
                    last.push(b'\n');
                    last.extend(unescape(line.payload));
                }
                _ => {}
            }
        }
        messages
    }

    fn metas(&self) -> Vec<Meta> {
        self.lines()
            .iter()
            .filter(|l| l.kind == Kind::Meta)
            .map(|l| Meta::parse(l.payload).unwrap())
            .collect()
    }
}

fn drain(memory: &Memory, idle: bool, progress: &mut Progress, renderer: &mut Renderer, text: &mut Vec<u8>) {
    let (header, geometry) = (memory.header(), memory.geometry());
    let nested = readable(&header.nested, progress.nested_consumed, geometry.nested_capacity).unwrap();
    let main = readable(&header.main, progress.consumed, geometry.capacity).unwrap();
    // SAFETY: consumed to an acquired head; freed below.
    let (main_parts, nested_parts) =
        unsafe { (memory.data().parts(main.clone()), memory.nested_data().parts(nested.clone())) };
    let mut main = Records::new(main_parts, main.start, geometry.block);
    let mut nested = Records::new(nested_parts, nested.start, geometry.nested_block);
    let plans = Plans::default();
    let mut refer = References::without_modules(&plans);
    renderer.records(&mut main, &mut nested, idle, &mut refer, usize::MAX, text);
    assert_eq!(main.damaged() + nested.damaged(), 0);
    progress.consumed = main.position();
    progress.nested_consumed = nested.position();
    header.publish(progress);
    header.free(progress);
}

struct Chunks<'a>(&'a [String]);

impl fmt::Display for Chunks<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|chunk| f.write_str(chunk))
    }
}

#[test]
fn a_message_larger_than_the_ring_arrives_whole() {
    let mut bench = Bench::new(FullPolicy::Block, Duration::from_secs(20));
    let long: String = (0..400_000u32).map(|i| char::from(b'a' + (i % 26) as u8)).collect();
    let Bench { memory, producer, progress, renderer, text, .. } = &mut bench;
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // The producer is used by this thread only; the consumer has the rest.
        let (memory, done) = (&*memory, &done);
        scope.spawn(move || {
            while !done.load(Ordering::Acquire) {
                drain(memory, true, progress, renderer, text);
            }
            drain(memory, true, progress, renderer, text);
        });
        assert_eq!(producer.record(now(), 0, format_args!("{long}")), Outcome::Committed);
        assert_eq!(producer.record(now(), 0, format_args!("after")), Outcome::Committed);
        done.store(true, Ordering::Release);
    });
    assert_eq!(bench.messages(), [long.as_str(), "after"]);
}

#[test]
fn a_full_ring_drops_and_counts_records_until_there_is_room() {
    let mut bench = Bench::new(FullPolicy::Drop, Duration::ZERO);
    let mut outcomes = Vec::new();
    for i in 0..1000 {
        outcomes.push(bench.producer.record(now(), 0, format_args!("message number {i:>20}")));
    }
    let kept = outcomes.iter().filter(|o| **o == Outcome::Committed).count();
    assert!(kept > 250 && kept < 350, "{kept} records of 48 bytes in 16 KiB");
    assert!(outcomes[..kept].iter().all(|o| *o == Outcome::Committed), "the oldest are kept");
    bench.drain();
    assert_eq!(
        bench.metas(),
        [Meta::Lost { records: 1000 - kept as u64, reason: trace_format::meta::LossReason::Full }]
    );
    assert_eq!(bench.producer.record(now(), 0, format_args!("room again")), Outcome::Committed);
    bench.drain();
    assert_eq!(bench.messages().len(), kept + 1);
}

#[test]
fn a_dropped_long_message_leaves_no_part() {
    let mut bench = Bench::new(FullPolicy::Drop, Duration::ZERO);
    let long = "x".repeat(20_000);
    bench.producer.record(now(), 0, format_args!("before"));
    assert_eq!(bench.producer.record(now(), 0, format_args!("{long}")), Outcome::Lost);
    bench.producer.record(now(), 0, format_args!("after"));
    bench.drain();
    assert_eq!(bench.messages(), ["before", "after"]);
    assert_eq!(bench.metas().len(), 1);
}

#[test]
fn a_wait_for_room_is_bounded_and_recorded_and_later_records_drop() {
    let mut bench = Bench::new(FullPolicy::Block, Duration::from_millis(30));
    while bench.producer.record(now(), 0, format_args!("fill")) == Outcome::Committed {}
    let start = Instant::now();
    for _ in 0..1000 {
        assert_eq!(bench.producer.record(now(), 0, format_args!("no room")), Outcome::Lost);
    }
    assert!(start.elapsed() < Duration::from_secs(5), "a thread that waited once does not wait again");
    bench.drain();
    let metas = bench.metas();
    assert!(
        matches!(metas[..], [Meta::Lost { records: 1001, .. }, Meta::Stall { ns: 30_000_000.. }]),
        "{metas:?}"
    );
}

#[test]
fn a_text_is_written_at_once_unless_something_else_is_to_be_done_first() {
    let mut bench = Bench::new(FullPolicy::Block, Duration::from_secs(20));
    let long = "a text of ten ".repeat(20);
    let (mut expected, mut at_once) = (Vec::new(), 0);
    for length in 0..=long.len() {
        let text = &long[..length];
        if bench.producer.record_text_at_once(now(), 0, text) {
            at_once += 1;
        } else {
            // The end of a block.
            assert_eq!(bench.producer.record(now(), 0, format_args!("{text}")), Outcome::Committed);
        }
        expected.push(text.to_owned());
        bench.drain();
    }
    assert!(at_once > long.len() / 2 && at_once < long.len());
    assert!(!bench.producer.record_text_at_once(Ticks(0), 0, "earlier than the last record"));
    bench.producer.mark_abandoned_for_test();
    assert!(!bench.producer.record_text_at_once(now(), 0, "inside another record"));
    bench.drain();
    assert_eq!(bench.messages(), expected);
}

/// The pieces of a message, and the padding before it, take more than half of the ring, and no part of them is
/// published. If the wait for room counted them as work for the flusher, it would last for the longest time.
#[test]
fn a_message_does_not_wait_for_its_own_unpublished_half_of_the_ring() {
    let mut bench = Bench::new(FullPolicy::Block, Duration::from_secs(60));
    let half = bench.memory.geometry().capacity / 2;
    let head = || bench.memory.header().main.head();
    while head() + MIN_ROOM <= half {
        assert_eq!(bench.producer.record(now(), 0, format_args!("20 bytes for padding")), Outcome::Committed);
    }
    assert!(head() < half, "the message begins behind padding");
    let message = "x".repeat(half as usize);
    let Bench { memory, link, producer, renderer, progress, text } = &mut bench;
    let (memory, link) = (&*memory, &**link);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // By then the message has filled the ring.
            std::thread::sleep(Duration::from_millis(50));
            drain(memory, false, progress, renderer, text);
            link.room.wake();
        });
        assert_eq!(producer.record(now(), 0, format_args!("{message}")), Outcome::Committed);
    });
    let stalled = Duration::from_nanos(bench.memory.header().losses().stall_ns);
    assert!(Duration::ZERO < stalled && stalled < Duration::from_secs(30), "{stalled:?}");
    bench.drain();
    assert_eq!(bench.messages().last(), Some(&message));
}

#[test]
fn a_wait_record_precedes_the_record_that_waited_and_is_not_counted() {
    let mut bench = Bench::new(FullPolicy::Block, Duration::from_secs(60));
    let records = 3000u64;
    let done = AtomicBool::new(false);
    let Bench { memory, link, producer, renderer, progress, text } = &mut bench;
    let (memory, link) = (&*memory, &**link);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Acquire) {
                std::thread::sleep(Duration::from_millis(2));
                drain(memory, false, progress, renderer, text);
                link.room.wake();
            }
        });
        for n in 0..records {
            let outcome = producer.record(now(), 0, format_args!("{n} {}", "x".repeat(100)));
            assert_eq!(outcome, Outcome::Committed);
        }
        done.store(true, Ordering::Release);
    });
    bench.drain();
    assert_eq!(bench.messages().len() as u64, records);
    assert_eq!(bench.renderer.state().records, records);
    assert_eq!(bench.memory.header().committed(), records);
    let waits = bench.metas();
    assert!(!waits.is_empty(), "a ring of 16 KiB has to fill up");
    assert_eq!(bench.renderer.state().waits, waits.len() as u64);
    let (mut ns, mut end) = (0, Ticks(0));
    for wait in &waits {
        let Meta::Wait(wait) = wait else { panic!("{wait:?}") };
        assert!(end <= wait.begin && wait.begin < wait.end && wait.what == WaitCause::Room, "{waits:?}");
        (ns, end) = (ns + wait.ns, wait.end);
    }
    assert_eq!(ns, bench.memory.header().losses().stall_ns, "each wait is recorded");
    // Its line has the ticks of the call that waited: it comes before that record, or after a record that waited in
    // its middle.
    for line in bench.lines().iter().filter(|line| line.kind == Kind::Meta) {
        let Some(Meta::Wait(wait)) = Meta::parse(line.payload) else { panic!("a wait") };
        assert!(line.key.ticks <= wait.begin, "{wait:?}");
    }
}

#[test]
fn a_panic_in_a_display_abandons_that_record_only() {
    struct Panics;
    impl fmt::Display for Panics {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("half of a ")?;
            panic!("as the test wants");
        }
    }
    let mut bench = Bench::new(FullPolicy::Block, Duration::ZERO);
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    bench.producer.record(now(), 0, format_args!("one"));
    assert_eq!(bench.producer.record(now(), 0, format_args!("{Panics}")), Outcome::Lost);
    std::panic::set_hook(hook);
    bench.producer.record(now(), 0, format_args!("two"));
    bench.drain();
    assert_eq!(bench.messages(), ["one", "two"]);
    assert_eq!(bench.metas(), [Meta::Lost { records: 1, reason: trace_format::meta::LossReason::Panic }]);
    assert!(bench.producer.is_idle());
}

#[test]
fn a_nested_record_is_kept_and_a_deeper_one_is_counted_as_lost() {
    struct Traces<'a>(&'a Producer, u32);
    impl fmt::Display for Traces<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            if self.1 > 0 {
                self.0.record(now(), 0, format_args!("inner {} {}", self.1, Traces(self.0, self.1 - 1)));
            }
            write!(f, "outer {}", self.1)
        }
    }
    let mut bench = Bench::new(FullPolicy::Block, Duration::ZERO);
    bench.producer.record(now(), 0, format_args!("{}", Traces(&bench.producer, 2)));
    bench.drain();
    assert_eq!(bench.messages(), ["outer 2", "inner 2 outer 1"]);
    assert_eq!(bench.metas(), [Meta::Lost { records: 1, reason: trace_format::meta::LossReason::Nested }]);
    let ticks: Vec<u64> = bench.lines().iter().map(|l| l.key.ticks.0).collect();
    assert!(ticks.is_sorted(), "the outer record began first");
}

#[test]
fn a_stack_too_large_for_the_nested_ring_is_counted_as_lost() {
    struct Stacks<'a>(&'a Producer, &'a [usize]);
    impl fmt::Display for Stacks<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            for length in self.1 {
                let addresses = vec![7; *length];
                let word = stack_word(Flags::WHOLE, 8 * length);
                self.0.record_words(now(), word, &addresses);
            }
            f.write_str("outer")
        }
    }
    let mut bench = Bench::new(FullPolicy::Block, Duration::ZERO);
    let block = usize::try_from(bench.memory.geometry().nested_block).unwrap();
    let longest = (block - 16) / 8;
    let lengths = [longest, longest + 1, 120, 1];
    bench.producer.record(now(), 0, format_args!("{}", Stacks(&bench.producer, &lengths)));
    bench.drain();
    let stacks: Vec<usize> = bench
        .lines()
        .iter()
        .filter(|line| line.kind == Kind::Stack)
        .map(|line| line.payload.split(|byte| *byte == b' ').count())
        .collect();
    assert_eq!(stacks, [longest, 1]);
    assert_eq!(bench.metas(), [Meta::Lost { records: 2, reason: trace_format::meta::LossReason::Nested }]);
}

#[test]
fn a_word_is_written_at_once_or_the_ring_stays_unchanged() {
    struct Enters<'a>(&'a Producer);
    impl fmt::Display for Enters<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "at once: {}", self.0.record_word_at_once(now(), hook_enter_word(7)))
        }
    }
    let mut bench = Bench::new(FullPolicy::Block, Duration::ZERO);
    let mut refused = 0;
    for address in 1..=1000 {
        if !bench.producer.record_word_at_once(now(), hook_enter_word(address)) {
            refused += 1;
            assert_eq!(bench.producer.record_words(now(), hook_enter_word(address), &[]), Outcome::Committed);
        }
        if address % 50 == 0 {
            bench.drain();
        }
    }
    // The first one of each block.
    assert_eq!(refused, (1000 * 16_u64).div_ceil(bench.memory.geometry().block));
    // The clock has gone back, and the thread is inside another record.
    assert!(!bench.producer.record_word_at_once(Ticks(1), hook_enter_word(7)));
    bench.producer.record(now(), 0, format_args!("{}", Enters(&bench.producer)));
    bench.drain();
    assert_eq!(bench.messages(), ["at once: false"]);
    let lines = bench.lines();
    let entered: Vec<&[u8]> =
        lines.iter().filter(|line| line.kind == Kind::Enter).map(|line| line.payload).collect();
    let expected: Vec<String> = (1..=1000).map(|address| format!("hook {address:#x}")).collect();
    assert_eq!(entered, expected.iter().map(String::as_bytes).collect::<Vec<_>>());
}

#[test]
fn a_closed_ring_sends_its_thread_away() {
    let bench = Bench::new(FullPolicy::Block, Duration::ZERO);
    assert_eq!(bench.producer.record(now(), 0, format_args!("open")), Outcome::Committed);
    bench.link.closed.store(true, Ordering::Release);
    bench.producer.revoke();
    assert_eq!(bench.producer.record(now(), 0, format_args!("closed")), Outcome::Gone);
}

#[test]
fn a_nested_record_stays_in_a_ring_that_is_closed_meanwhile() {
    /// A value that has the ring closed, as the flusher does, and traces inside.
    struct Closes<'a>(&'a Bench, &'a str);
    impl fmt::Display for Closes<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            let Closes(bench, rest) = self;
            bench.link.closed.store(true, Ordering::Release);
            bench.producer.revoke();
            assert_eq!(bench.producer.record(now(), 0, format_args!("inside")), Outcome::Committed);
            assert_eq!(bench.producer.record_words(now(), hook_enter_word(7), &[]), Outcome::Committed);
            f.write_str(rest)
        }
    }
    // After that, the rest of the outer record finds no room.
    for (rest, outcome) in [("", Outcome::Committed), ("more", Outcome::Lost)] {
        let mut bench = Bench::new(FullPolicy::Block, Duration::ZERO);
        let outer = bench.producer.record(now(), 0, format_args!("outside{}", Closes(&bench, rest)));
        assert_eq!(outer, outcome);
        assert_eq!(bench.producer.record(now(), 0, format_args!("closed")), Outcome::Gone);
        bench.drain();
        let is_lost = outcome == Outcome::Lost;
        assert_eq!(bench.messages(), if is_lost { vec!["inside"] } else { vec!["outside", "inside"] });
        let lost = Meta::Lost { records: 1, reason: LossReason::Full };
        assert_eq!(bench.metas(), if is_lost { vec![lost] } else { vec![] });
    }
}

/// Returns whether `data` has nothing but zeros after its `first` bytes.
fn is_untouched_behind(first: u64, data: &[u8]) -> bool {
    data[usize::try_from(first).unwrap()..].iter().all(|byte| *byte == 0)
}

#[test]
fn a_ring_is_written_as_far_as_it_is_reserved() {
    struct Inner<'a>(&'a Producer, usize);
    impl fmt::Display for Inner<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            (0..self.1).try_for_each(|n| {
                self.0.record(now(), 0, format_args!("inner {n}"));
                Ok(())
            })?;
            write!(f, "with {} inside", self.1)
        }
    }
    // More than the first bytes in one message, in many, in those inside another, and nearly as many.
    let long = "x".repeat(60_000);
    let cases: [(&str, usize, usize, usize); 4] =
        [("in many", 0, 2000, 0), ("in one", 60_000, 1, 0), ("inside", 0, 1, 600), ("few", 10, 100, 1)];
    for (case, length, count, inside) in cases {
        let mut bench = Bench::in_part();
        let Bench { memory, link, producer, .. } = &bench;
        let (memory, link) = (memory, &**link);
        std::thread::scope(|scope| {
            let (head, geometry) = (&memory.header().main, memory.geometry());
            scope.spawn(move || {
                let mut kept = true;
                // The last but one ends before a block does.
                for reserved in [FIRST_BYTES, 2 * FIRST_BYTES, geometry.block - 64] {
                    link.reserved.store(reserved, Ordering::Release);
                    link.room.wake();
                    std::thread::sleep(Duration::from_millis(30));
                    // The producer does not write now: it waits, or is done.
                    let (main, nested) =
                        (memory.copy(0..geometry.capacity), memory.copy_nested(0..geometry.nested_capacity));
                    kept &= is_untouched_behind(reserved, &main)
                        && is_untouched_behind(FIRST_NESTED_BYTES, &nested)
                        && head.head() <= reserved;
                }
                link.reserved.store(ALL_RESERVED, Ordering::Release);
                link.room.wake();
                assert!(kept, "{case}");
            });
            for n in 0..count {
                let text = &long[..length];
                let outcome =
                    producer.record(now(), 0, format_args!("{n} {text} {}", Inner(producer, inside)));
                assert_eq!(outcome, Outcome::Committed, "{case}");
            }
        });
        bench.drain();
        assert_eq!(bench.messages().len(), count * (1 + inside), "{case}");
        // No record follows a wait inside of one.
        let metas = bench.metas();
        let is_wait = |meta: &Meta| {
            matches!(
                meta,
                Meta::Wait(Wait { ns: 1.., what: WaitCause::Memory, .. }) | Meta::Stall { ns: 1.. }
            )
        };
        assert!(metas.iter().all(is_wait), "{case}: {metas:?}");
        assert_eq!(metas.is_empty(), case == "few", "{case}: {metas:?}");
    }
}

#[test]
fn a_ring_whose_rest_cannot_be_reserved_sends_its_thread_away() {
    let mut bench = Bench::in_part();
    let many = |bench: &Bench| {
        let outcomes = (0..10_000).map(|n| bench.producer.record(now(), 0, format_args!("{n}")));
        outcomes.take_while(|outcome| *outcome == Outcome::Committed).count()
    };
    std::thread::scope(|scope| {
        let link = &*bench.link;
        scope.spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            link.closed.store(true, Ordering::Release);
        });
        let kept = many(&bench);
        assert!((100..2000).contains(&kept), "{kept} records fit in the first bytes");
    });
    assert_eq!(bench.producer.record(now(), 0, format_args!("later")), Outcome::Gone);
    bench.drain();
    assert!(bench.metas().iter().all(|meta| matches!(meta, Meta::Stall { .. })), "{:?}", bench.metas());
}

#[test]
fn a_wiped_producer_sends_its_thread_away() {
    let bench = Bench::new(FullPolicy::Block, Duration::ZERO);
    // SAFETY: all-zero bytes are a valid producer, as its documentation says; nothing in it needs dropping.
    let wiped: Producer = unsafe { std::mem::zeroed() };
    assert!(wiped.is_wiped());
    assert_eq!(wiped.record(now(), 0, format_args!("in a child")), Outcome::Gone);
    assert!(wiped.is_idle());
    drop(bench);
}

/// A record is left by a jump that no Rust code sees: the frame on the stack is gone, and the producer is still marked.
#[test]
fn a_record_left_by_longjmp_leaves_nothing_stuck() {
    let mut bench = Bench::new(FullPolicy::Block, Duration::ZERO);
    bench.producer.mark_abandoned_for_test();
    assert_eq!(bench.producer.record(now(), 0, format_args!("next")), Outcome::Committed);
    assert!(bench.producer.is_idle());
    bench.drain();
    assert_eq!(bench.messages(), ["next"]);
    assert_eq!(bench.metas(), [Meta::Lost { records: 1, reason: trace_format::meta::LossReason::Panic }]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Messages of all lengths and contents, written in chunks, come out as `format!` makes them, wherever
    /// blocks end and the ring wraps.
    #[test]
    fn messages_are_formatted_as_by_format(
        messages in prop::collection::vec(prop::collection::vec(chunk(), 0..5), 1..60),
    ) {
        let mut bench = Bench::new(FullPolicy::Drop, Duration::ZERO);
        let mut expected = Vec::new();
        for chunks in &messages {
            let text = format!("{}", Chunks(chunks));
            prop_assert!(text.len() < 14_000);
            prop_assert_eq!(bench.producer.record(now(), 0, format_args!("{}", Chunks(chunks))), Outcome::Committed);
            expected.push(text);
            bench.drain();
        }
        prop_assert_eq!(bench.messages(), expected);
    }
}

/// Bytes that are not UTF-8 come out as they went in, and characters as such, wherever pieces end.
#[test]
fn a_message_of_any_bytes_is_escaped_as_a_whole_wherever_its_pieces_end() {
    let odd: [&[u8]; 12] = [
        b"\xff",
        b"\xc3",
        b"\xe2\x82",
        b"\xf0\x9f\xa6",
        b"\xf0\x9f\xa6\xff",
        b"\xf0\x9f\x80\\",
        b"\x80\xbf\xff\xfe\xc0",
        "é\u{85}".as_bytes(),
        "€".as_bytes(),
        "🦀".as_bytes(),
        br"\xff",
        b"\\\xc3\\x5c",
    ];
    for odd in odd {
        let mut bench = Bench::new(FullPolicy::Drop, Duration::ZERO);
        let mut expected = Vec::new();
        // A block has 2 KiB, so each message has several pieces, and some end at each place in `odd`.
        for length in 1900..2100 {
            let message = [&b"x".repeat(length)[..], odd, &b"y".repeat(3000), odd].concat();
            let in_parts: &WriteBytes<'_> =
                &|to| message.chunks(1 + length % 900).try_for_each(|part| to.write_bytes(part));
            assert_eq!(bench.producer.record(now(), 0, Message::Bytes(&in_parts)), Outcome::Committed);
            bench.drain();
            let mut whole = Vec::new();
            escape_into(&mut whole, &message, EscapeContext::Line);
            assert_eq!(
                bench.lines().last().unwrap().payload.escape_ascii().to_string(),
                whole.escape_ascii().to_string()
            );
            expected.push(message);
        }
        assert!(bench.messages_in_bytes() == expected, "{odd:x?}");
    }
}

#[test]
fn a_message_of_any_bytes_may_be_inside_of_another_one() {
    let mut bench = Bench::new(FullPolicy::Drop, Duration::ZERO);
    let outer: &WriteBytes<'_> = &|to| {
        let inner: &WriteBytes<'_> = &|to| to.write_bytes(b"\xff inner \xc3");
        to.write_bytes(b"\xfe outer")?;
        assert_eq!(bench.producer.record(now(), 0, Message::Bytes(&inner)), Outcome::Committed);
        to.write_bytes(b"\xc3")
    };
    assert_eq!(bench.producer.record(now(), 0, Message::Bytes(&outer)), Outcome::Committed);
    bench.drain();
    assert_eq!(bench.messages_in_bytes(), [&b"\xfe outer\xc3"[..], b"\xff inner \xc3"]);
}

/// Makes short and long texts with many of the characters that matter at the borders of pieces.
fn chunk() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => r"(\\|x|[0-9a-f]|\n|é|🦀|[a-z ]|\x1b){0,40}",
        1 => (1usize..2500, r"[\\xa4é]{1,3}").prop_map(|(n, text)| text.repeat(n / text.len() + 1)),
        2 => "\\PC{0,20}",
    ]
}
