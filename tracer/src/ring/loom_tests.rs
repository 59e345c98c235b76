//! Models of the ring, checked over all interleavings (up to a bound on preemptions) by loom.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p tracer --lib --release loom`
#![allow(unsafe_code, reason = "drives lanes as the producer does")]
#![allow(clippy::unwrap_used)]

use super::lane::Lane;
use super::memory::Data;
use loom::sync::Arc;
use loom::thread;
use trace_format::record::{Flags, HEADER, Records};
use trace_format::render::{RenderState, Renderer};
use trace_format::ring::{Header, Progress, readable};

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

/// Writes `count` records, each filling a block's room or half of it; waits for room where there is none.
fn produce(ring: &Ring, count: u64, text: usize) {
    // SAFETY: everything belongs together and outlives the lane; this is the only one.
    let lane = unsafe { Lane::new(ring.data, BLOCK, &ring.header.main, &ring.header.consumed.main) };
    for ticks in 1..=count {
        let span = loop {
            if let Some(span) = lane.find(lane.pos()) {
                break span;
            }
            thread::yield_now();
        };
        lane.take(span);
        let at = span.start + HEADER as u64;
        let bytes = vec![b'a' + ticks as u8; text];
        // SAFETY: the span has at least 64 bytes.
        let end = unsafe {
            lane.write(at, &bytes);
            lane.seal(span.start, at + text as u64, ticks, Flags::NONE)
        };
        lane.publish(end);
    }
}

/// Reads, publishes, frees, until `count` records were seen whole and in order.
fn consume(ring: &Ring, count: u64, text: usize) {
    let mut progress = Progress::default();
    let mut seen = 0;
    while seen < count {
        let range = readable(&ring.header.main, progress.consumed, CAPACITY).unwrap();
        if range.is_empty() {
            thread::yield_now();
            continue;
        }
        // SAFETY: from what was consumed to a head that was loaded with Acquire; freed below.
        let parts = unsafe { ring.data.parts(range.clone()) };
        let mut records = Records::new(parts, range.start, BLOCK);
        for record in records.by_ref() {
            seen += 1;
            assert_eq!(record.ticks.0, seen);
            assert_eq!(record.text, vec![b'a' + seen as u8; text]);
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

/// A consumer that dies anywhere and a second one that goes on from what was published see every record once.
#[test]
fn loom_who_takes_over_a_dead_consumer_sees_every_record_once() {
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
            let mut renderer = Renderer::new(1, published.render);
            renderer.records(&mut main, &mut nested, true, usize::MAX, &mut Vec::new());
            assert_eq!(renderer.state().records, 2);
        });
    }
}
