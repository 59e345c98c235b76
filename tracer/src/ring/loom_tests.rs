//! Models of the ring, checked over all interleavings (up to a bound on preemptions) by loom.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p tracer-lib --lib --release loom`; the test `ring_models_hold_in_every_order`
//! runs these models, too.
#![allow(unsafe_code, reason = "drives lanes as the producer does")]
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;
use trace_format::file::Encoding;
use trace_format::plans::Plans;
use trace_format::record::{Flags, HEADER, Records};
use trace_format::render::{References, RenderState, Renderer};
use trace_format::ring::{Header, LAYOUT_VERSION, Progress, State, readable};
use trace_store::memory::Data;

use super::lane::Lane;
use crate::words::detachment::Detachment;
use crate::words::pool::ReadyPool;
use crate::words::switch::{SwitchWord, TracingState};
use crate::words::wake::Wake;

const BLOCK: u64 = 64;
const CAPACITY: u64 = 128;

struct Ring {
    header: Header,
    data: Data,
}

fn ring() -> Arc<Ring> {
    Arc::new(Ring { header: Header::zeroed(), data: Data::leak(CAPACITY as usize) })
}

fn model(test: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(test);
}

/// Writes `count` records, each of which fills a block or half of a block; waits for room if there is none.
fn produce(ring: &Ring, count: u64, text: usize) {
    // SAFETY: everything belongs together and outlives the lane; this is the only one.
    let lane = unsafe { Lane::new(ring.data, BLOCK, false, &ring.header.main, &ring.header.consumed.main) };
    for ticks in 1..=count {
        let reservation = loop {
            if let Some(reservation) = lane.find(lane.pos(), 64) {
                break reservation;
            }
            thread::yield_now();
        };
        lane.take(reservation);
        let at = reservation.start + HEADER as u64;
        let bytes = vec![b'a' + ticks as u8; text];
        // SAFETY: the reservation has at least 64 bytes.
        let end = unsafe {
            lane.write(at, &bytes);
            lane.seal(0, reservation.start, at + text as u64, ticks, Flags::NONE)
        };
        lane.commit(end, ticks);
    }
}

/// Reads records, publishes the progress and frees their room, until `count` records were seen whole and in order.
fn consume(ring: &Ring, count: u64, text: usize) {
    let mut progress = Progress::default();
    let mut seen = 0;
    while seen < count {
        let range = readable(&ring.header.main, progress.consumed, CAPACITY).unwrap();
        if range.is_empty() {
            thread::yield_now();
            continue;
        }
        // SAFETY: from the consumed position to a head that was loaded with Acquire; freed below.
        let parts = unsafe { ring.data.parts(range.clone()) };
        let mut records = Records::new(parts, range.start, BLOCK);
        for record in records.by_ref() {
            seen += 1;
            assert_eq!(record.ticks.0, seen);
            assert_eq!(record.payload, vec![b'a' + seen as u8; text]);
        }
        assert_eq!((records.damaged(), records.position()), (0, range.end));
        progress.consumed = range.end;
        ring.header.publish(&progress);
        ring.header.free(&progress);
        assert_eq!(ring.header.published(), progress);
    }
}

#[test]
fn loom_records_arrive_whole_and_in_order_while_the_ring_wraps() {
    model(|| {
        let ring = ring();
        let producer = thread::spawn({
            let ring = ring.clone();
            move || produce(&ring, 3, 40)
        });
        consume(&ring, 3, 40);
        producer.join().unwrap();
    });
}

/// Whenever the head is read, the number of messages that is read with it is the number of records before the head.
#[test]
fn loom_the_head_and_the_number_of_messages_are_consistent() {
    model(|| {
        let ring = ring();
        let producer = thread::spawn({
            let ring = ring.clone();
            move || produce(&ring, 2, 40)
        });
        for _ in 0..2 {
            let end = ring.header.main.end(LAYOUT_VERSION);
            // The first record ends at 56, and the second at 120, behind a pad.
            assert_eq!(Some(&end.position), [0, 56, 120].get(end.messages as usize));
        }
        producer.join().unwrap();
        let end = ring.header.main.end(LAYOUT_VERSION);
        assert_eq!((end.position, end.messages), (120, 2));
    });
}

#[test]
fn loom_a_block_that_is_too_short_is_padded_and_the_pad_skipped() {
    model(|| {
        let ring = ring();
        let producer = thread::spawn({
            let ring = ring.clone();
            move || produce(&ring, 4, 8)
        });
        consume(&ring, 4, 8);
        producer.join().unwrap();
    });
}

/// A consumer that dies at any point and a second one that continues from the published progress see every record
/// once.
#[test]
fn loom_the_successor_of_a_dead_consumer_sees_every_record_once() {
    for steps_before_death in 0..3 {
        model(move || {
            let ring = ring();
            let producer = thread::spawn({
                let ring = ring.clone();
                move || produce(&ring, 2, 40)
            });
            let dying = thread::spawn({
                let ring = ring.clone();
                move || {
                    let range = readable(&ring.header.main, 0, CAPACITY).unwrap();
                    // SAFETY: as in `consume`.
                    let parts = unsafe { ring.data.parts(range.clone()) };
                    let read = Records::new(parts, range.start, BLOCK).count() as u64;
                    let render = RenderState { records: read, ..RenderState::default() };
                    let progress = Progress { consumed: range.end, render, ..Progress::default() };
                    // Dead before publication, after it, or after all.
                    if steps_before_death > 0 {
                        ring.header.publish(&progress);
                    }
                    if steps_before_death > 1 {
                        ring.header.free(&progress);
                    }
                }
            });
            dying.join().unwrap();
            producer.join().unwrap();
            let published = ring.header.published();
            let range = readable(&ring.header.main, published.consumed, CAPACITY).unwrap();
            // SAFETY: the producer has ended.
            let parts = unsafe { ring.data.parts(range.clone()) };
            let (mut main, mut nested) = (Records::new(parts, range.start, BLOCK), Records::empty(0, BLOCK));
            let mut renderer = Renderer::new(1, published.render, Encoding::Text);
            renderer.records(
                &mut main,
                &mut nested,
                true,
                &mut References::without_modules(&Plans::default()),
                usize::MAX,
                &mut Vec::new(),
            );
            assert_eq!(renderer.state().records, 2);
        });
    }
}

/// A ring that is lent to threads, with the word that shows whether its thread and the flusher have left it.
struct Lent {
    header: Header,
    data: Data,
    detachment: Detachment,
    /// A stand-in for the ring's memory: using the ring reads it, freeing the ring writes it, and loom finds a use
    /// after the ring was freed.
    memory: UnsafeCell<()>,
    freed: AtomicU64,
}

impl Lent {
    fn leak() -> &'static Lent {
        Box::leak(Box::new(Lent {
            header: Header::zeroed(),
            data: Data::leak(CAPACITY as usize),
            detachment: Detachment::new(),
            memory: UnsafeCell::new(()),
            freed: AtomicU64::new(0),
        }))
    }

    fn uses(&self) {
        self.memory.with(|_| ());
    }

    fn free(&self) {
        self.memory.with_mut(|_| ());
        self.freed.fetch_add(1, Ordering::Relaxed);
    }

    /// Plays a thread's life with the ring: takes it, writes one record and gives it back.
    fn live(&'static self, tid: u64) {
        self.uses();
        let tenancy = &self.header.tenancy;
        tenancy.tid.store(tid, Ordering::Relaxed);
        tenancy.state.store(State::Owned as u32, Ordering::Release);
        // SAFETY: everything belongs together and is leaked; the thread has the ring alone.
        let lane =
            unsafe { Lane::new(self.data, BLOCK, false, &self.header.main, &self.header.consumed.main) };
        let reservation = lane.find(lane.pos(), 64).unwrap();
        lane.take(reservation);
        // SAFETY: the reservation has at least 64 bytes.
        lane.commit(
            unsafe { lane.seal(0, reservation.start, reservation.start + HEADER as u64, tid, Flags::NONE) },
            tid,
        );
        tenancy.state.store(State::Ended as u32, Ordering::Release);
        if self.detachment.detach_thread() {
            self.free();
        }
    }
}

/// The flusher lends a ring, waits for its thread's end, lends it again: each of two threads finds it free and whole,
/// and the flusher finds the record of each thread under that thread's id.
#[test]
fn loom_the_pool_gives_a_ring_to_one_thread_after_the_other() {
    model(|| {
        let lent = Lent::leak();
        let pool: &'static ReadyPool<Lent, 1> = Box::leak(Box::new(ReadyPool::new()));
        let thread = |tid: u64| {
            thread::spawn(move || {
                let ring = loop {
                    if let Some((ring, left)) = pool.take() {
                        assert_eq!(left, 0);
                        break ring;
                    }
                    thread::yield_now();
                };
                ring.live(tid);
            })
        };
        assert!(pool.put(lent));
        let threads = [thread(1), thread(2)];
        let mut progress = Progress::default();
        let mut seen = 0;
        for _ in 0..2 {
            while lent.header.tenancy.state() != Ok(State::Ended) || !lent.detachment.is_thread_detached() {
                thread::yield_now();
            }
            let range = readable(&lent.header.main, progress.consumed, CAPACITY).unwrap();
            // SAFETY: from the consumed position to a head that was loaded with Acquire; freed below.
            let parts = unsafe { lent.data.parts(range.clone()) };
            let records: Vec<_> = Records::new(parts, range.start, BLOCK).collect();
            let tid = lent.header.tenancy.tid.load(Ordering::Relaxed);
            assert_eq!(records.iter().map(|record| record.ticks.0).collect::<Vec<_>>(), [tid]);
            assert_eq!(lent.header.main.committed.load(Ordering::Relaxed), 1);
            seen += tid;
            lent.detachment.renew();
            lent.header.tenancy.state.store(State::Free as u32, Ordering::Release);
            lent.header.main.clear_counters();
            progress.consumed = range.end;
            lent.header.publish(&progress);
            lent.header.free(&progress);
            assert!(pool.put(lent));
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!((seen, pool.count()), (3, 1));
    });
}

/// A thread ends while tracing is shut down: the ring is freed once, by the second of the two that leave it.
#[test]
fn loom_a_thread_that_ends_while_the_flusher_leaves_frees_the_ring_once() {
    model(|| {
        let lent = Lent::leak();
        let ending = thread::spawn(move || lent.live(1));
        // The flusher drains the records that it finds, and leaves.
        lent.uses();
        let seen = readable(&lent.header.main, 0, CAPACITY).unwrap();
        // SAFETY: to a head that was loaded with Acquire; nothing is freed.
        let parts = unsafe { lent.data.parts(seen.clone()) };
        assert!(Records::new(parts, 0, BLOCK).count() <= 1);
        if lent.detachment.detach_flusher() {
            lent.free();
        }
        ending.join().unwrap();
        assert_eq!(lent.freed.load(Ordering::Relaxed), 1);
    });
}

/// Two threads take at the same time from a pool of two rings, for which two counters stand: each is taken once.
#[test]
fn loom_two_threads_that_take_at_once_get_different_rings() {
    model(|| {
        let pool: &'static ReadyPool<AtomicU64, 2> = Box::leak(Box::new(ReadyPool::new()));
        let things: [&'static AtomicU64; 2] =
            std::array::from_fn(|_| &*Box::leak(Box::new(AtomicU64::new(0))));
        assert!(pool.put(things[0]));
        let take = || {
            thread::spawn(move || {
                let taken = pool.take();
                // A taken thing is seen as it was when it was put.
                taken.map(|(thing, _)| thing.fetch_add(1, Ordering::Relaxed))
            })
        };
        let takers = [take(), take()];
        assert!(pool.put(things[1]));
        let taken = takers.into_iter().filter_map(|taker| taker.join().unwrap());
        assert!(taken.inspect(|before| assert_eq!(*before, 0, "taken once")).count() >= 1);
        let total: u64 = things.iter().map(|thing| thing.load(Ordering::Relaxed)).sum();
        assert_eq!(total + pool.count() as u64, 2);
    });
}

/// A copy that is made while the producer overwrites the ring is whole, once the parts that the producer has begun to
/// overwrite are left out. Words are atomics here, because the test reads them while they are written.
#[test]
fn loom_a_reader_leaves_out_blocks_overwritten_while_it_reads() {
    model(|| {
        struct Recorder {
            head: AtomicU64,
            reserve: AtomicU64,
            words: [AtomicU64; 2],
        }
        let zero = || AtomicU64::new(0);
        let ring = Arc::new(Recorder { head: zero(), reserve: zero(), words: [zero(), zero()] });
        let producer = thread::spawn({
            let ring = ring.clone();
            // One word is a block; the order of stores is that of `Lane::find`, `seal` and `publish`.
            move || {
                for n in 0..4u64 {
                    ring.reserve.store(n + 1, Ordering::Relaxed);
                    loom::sync::atomic::fence(Ordering::Release);
                    ring.words[n as usize % 2].store(n + 1, Ordering::Relaxed);
                    ring.head.store(n + 1, Ordering::Release);
                }
            }
        });
        // The order of loads is that of `survivors`, the copy, and `oldest`.
        let head = ring.head.load(Ordering::Acquire);
        let from = head.saturating_sub(2);
        let copy: Vec<u64> =
            (from..head).map(|n| ring.words[n as usize % 2].load(Ordering::Relaxed)).collect();
        loom::sync::atomic::fence(Ordering::Acquire);
        let oldest = ring.reserve.load(Ordering::Relaxed).saturating_sub(2);
        for (n, word) in (from..head).zip(copy).filter(|(n, _)| *n >= oldest) {
            assert_eq!(word, n + 1);
        }
        producer.join().unwrap();
    });
}

/// A thread that waits for room sees the room that was made before a wake-up, or it does not sleep.
#[test]
fn loom_no_wake_up_is_missed() {
    model(|| {
        let shared = Arc::new((AtomicU64::new(0), Wake::default()));
        let flusher = {
            let shared = shared.clone();
            thread::spawn(move || {
                for consumed in 1..=2 {
                    shared.0.store(consumed, Ordering::Release);
                    shared.1.wake();
                }
            })
        };
        while shared.0.load(Ordering::Acquire) < 2 {
            shared.1.sleep(Duration::MAX);
        }
        flusher.join().unwrap();
    });
}

/// A sleep that ends because its time is over, at any moment of a wake-up, does not hide that wake-up from the next
/// sleep.
#[test]
fn loom_a_sleep_whose_time_is_over_hides_no_wake_up() {
    model(|| {
        let shared = Arc::new((AtomicU64::new(0), Wake::default()));
        let threads = [1, 2].map(|_| {
            let shared = shared.clone();
            thread::spawn(move || {
                shared.0.fetch_add(1, Ordering::Release);
                shared.1.wake();
            })
        });
        shared.1.sleep(Duration::from_millis(1));
        while shared.0.load(Ordering::Acquire) < 2 {
            shared.1.sleep(Duration::MAX);
        }
        for thread in threads {
            thread.join().unwrap();
        }
    });
}

/// Two threads decide; each takes over any decision that it finds, as if its patience had ended. One publishes a run,
/// and a thread that sees that tracing is on sees that run.
#[test]
fn loom_a_decision_that_is_taken_over_is_made_once() {
    model(|| {
        let decision = Arc::new((SwitchWord::new(), AtomicU64::new(0), AtomicU64::new(0)));
        let threads = [1, 2].map(|me| {
            let decision = decision.clone();
            thread::spawn(move || {
                let (word, run, published) = &*decision;
                let seen = word.see();
                if !matches!(seen.stand(|| 7), TracingState::Undecided | TracingState::Deciding) {
                    return;
                }
                let Some(attempt) = word.begin(seen, 7) else { return };
                if word.hand_over(attempt) {
                    run.store(me, Ordering::Relaxed);
                    published.fetch_add(1, Ordering::Relaxed);
                    assert!(word.settle(attempt, false));
                }
            })
        });
        if decision.0.see().stand(|| 7) == TracingState::On {
            assert_ne!(decision.1.load(Ordering::Relaxed), 0);
        }
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(decision.0.see().stand(|| 7), TracingState::On);
        assert_eq!(decision.2.load(Ordering::Relaxed), 1);
    });
}
