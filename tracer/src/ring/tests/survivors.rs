//! The surviving records of a ring that is copied while its producer overwrites it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use trace_format::file::Encoding;
use trace_format::meta::LossReason;
use trace_format::record::{Flags, Records};
use trace_format::render::{RenderState, Renderer};
use trace_format::ring::{Geometry, MIN_CAPACITY};
use trace_store::drain::Survivors;
use trace_store::memory::Memory;

use crate::ring::{ALL_RESERVED, Link, Producer};
use crate::user::config::FullPolicy;
use crate::words::wake::Wake;

/// Makes a ring whose oldest records are overwritten, and a producer bound to it.
fn recorder() -> (Memory, Producer) {
    let memory = Memory::private(Geometry::of(MIN_CAPACITY)).unwrap();
    memory.header().identity.set(&memory.geometry(), 1, 0, true);
    let link: &Link = Box::leak(Box::new(Link {
        closed: AtomicBool::new(false),
        reserved: AtomicU64::new(ALL_RESERVED),
        failing: AtomicBool::new(false),
        wake: Box::leak(Box::new(Wake::default())),
        room: Wake::default(),
        policy: FullPolicy::Overwrite,
        max_stall: Duration::ZERO,
    }));
    // SAFETY: the mapping stays where it is when the tuple is moved, and the test keeps it; the link is
    // leaked.
    let producer = unsafe { Producer::bound_to(&memory, link) };
    (memory, producer)
}

/// Returns the messages, their pieces put together.
fn texts(records: Records<'_>) -> Vec<String> {
    let mut texts: Vec<String> = Vec::new();
    for piece in records {
        let text = std::str::from_utf8(piece.payload).unwrap();
        match texts.last_mut().filter(|_| piece.flags().has(Flags::CONT)) {
            Some(message) => message.push_str(text),
            None => texts.push(text.into()),
        }
    }
    texts
}

#[test]
fn the_newest_records_are_kept_and_the_rest_is_counted() {
    let (memory, producer) = recorder();
    for n in 0..5000 {
        producer.record(crate::ring::clock::now(), 0, format_args!("record number {n}"));
    }
    let copy = Survivors::copy(&memory, 0, 0).unwrap();
    let found = texts(copy.records(0, 0).0);
    let expected: Vec<String> = (5000 - found.len()..5000).map(|n| format!("record number {n}")).collect();
    assert!(found.len() > 250, "{}", found.len());
    assert_eq!(found, expected);
    assert_eq!((copy.committed, copy.messages(), copy.has_gap()), (5000, found.len() as u64, true));
    let later = Survivors::copy(&memory, copy.end(), 0).unwrap();
    assert_eq!((later.messages(), later.has_gap()), (0, false));
}

/// A kill between the two stores of a commit, at any number of messages, with and without overwritten ones: the
/// number reported as overwritten is exact.
#[test]
fn a_kill_before_the_last_message_is_counted_loses_none() {
    for made in (1..40).chain(5000..5010) {
        let (memory, producer) = recorder();
        for n in 0..made {
            producer.record(crate::ring::clock::now(), 0, format_args!("record number {n}"));
        }
        // Its last store did not happen.
        memory.header().main.committed.store(made - 1, Ordering::Relaxed);
        let copy = Survivors::copy(&memory, 0, 0).unwrap();
        let mut renderer = Renderer::new(1, RenderState::default(), Encoding::Text);
        let mut out = Vec::new();
        copy.report_overwritten(&mut renderer, &mut out);
        let told = renderer.state().lost[LossReason::Overwritten as usize];
        assert_eq!((copy.committed, told + copy.messages()), (made, made));
        assert_eq!(memory.header().committed(), made);
    }
}

#[test]
fn a_message_whose_beginning_was_overwritten_is_left_out() {
    let (memory, producer) = recorder();
    let long = "long ".repeat(10_000);
    producer.record(crate::ring::clock::now(), 0, format_args!("before"));
    producer.record(crate::ring::clock::now(), 0, format_args!("{long}"));
    producer.record(crate::ring::clock::now(), 0, format_args!("after"));
    let copy = Survivors::copy(&memory, 0, 0).unwrap();
    assert_eq!(texts(copy.records(0, 0).0), ["after"]);
    assert_eq!((copy.committed, copy.messages()), (3, 1));
}

#[test]
fn a_copy_beside_a_busy_producer_has_consecutive_whole_records() {
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
            producer.record(crate::ring::clock::now(), 0, format_args!("{n} {}", &filling[..n % 90]));
        }
        done.store(true, Ordering::Release);
        let (copies, seen) = reader.join().unwrap();
        assert!(copies > 1 && seen > 0, "{copies} copies, {seen} records");
    });
}
