//! Walks are compared with those of the `backtrace` crate, and are begun with registers of any content.
#![allow(
    unsafe_code,
    clippy::unwrap_used,
    reason = "asks the system for stacks of its own; a failure fails a test"
)]

#[cfg(target_os = "linux")]
mod hostile;
#[cfg(all(feature = "unwind", target_os = "linux"))]
pub(super) mod libraries;
#[cfg(windows)]
mod recorded;

use std::hint::black_box;

use super::{End, Registers, Walk, walk};

/// Room for more frames than the tests have.
const MANY: usize = 4096;

/// Calls itself `depth` times, with frames of several sizes, and then calls `bottom`.
#[inline(never)]
fn nested<T>(depth: usize, bottom: &mut dyn FnMut() -> T) -> T {
    if depth == 0 {
        return bottom();
    }
    match depth % 3 {
        0 => wide(depth, bottom),
        1 => aligned(depth, bottom),
        _ => black_box(nested(depth - 1, bottom)),
    }
}

#[inline(never)]
fn wide<T>(depth: usize, bottom: &mut dyn FnMut() -> T) -> T {
    let room = black_box([depth; 300]);
    let result = nested(depth - 1, bottom);
    black_box(room);
    result
}

#[inline(never)]
fn aligned<T>(depth: usize, bottom: &mut dyn FnMut() -> T) -> T {
    #[repr(align(64))]
    struct Line(usize);
    let room = black_box(Line(depth));
    let result = nested(depth - 1, bottom);
    black_box(room.0);
    result
}

/// Walks, and has `backtrace` walk, from the same function. Leaves out the innermost frame, in which the two calls
/// have different places.
#[inline(never)]
fn both() -> (Vec<u64>, End, Vec<u64>) {
    let mut frames = vec![0; MANY];
    let Walk { len, end } = walk(Registers::here(), &mut frames, 1);
    frames.truncate(len);
    let mut expected = Vec::new();
    // SAFETY: for one thread at a time; no two threads symbolize here.
    unsafe {
        backtrace::trace_unsynchronized(|frame| {
            // It shows the outermost frame's caller as 0.
            expected.extend(Some(frame.ip().addr() as u64).filter(|ip| *ip != 0));
            true
        });
    }
    let own = expected.iter().position(|ip| frames.first() == Some(ip)).unwrap_or(0);
    (frames, end, expected.split_off(own))
}

#[cfg(any(feature = "unwind", windows))]
#[test]
fn a_walk_agrees_with_a_backtrace() {
    for depth in [0, 1, 2, 3, 10, 60, 1000] {
        let (frames, end, expected) = nested(depth, &mut both);
        assert_eq!(frames, expected);
        assert_eq!(end, End::Complete);
        assert!(frames.len() > depth);
    }
}

#[test]
fn frames_found_without_unwind_tables_are_in_a_backtrace_too() {
    let (frames, _, expected) = nested(10, &mut both);
    let mut rest = expected.iter();
    assert!(frames.iter().all(|frame| rest.any(|ip| ip == frame)), "{frames:x?} {expected:x?}");
}

#[test]
fn a_walk_writes_at_most_the_requested_frames() {
    let mut frames = [7; 4];
    let mut cut =
        |wanted: usize, skip| nested(9, &mut || walk(Registers::here(), &mut frames[..wanted], skip));
    assert_eq!(cut(0, 0), Walk { len: 0, end: End::Cut });
    assert_eq!(cut(1, 0).len, 1);
    let all = cut(4, MANY);
    assert_eq!((all.len, all.end == End::Cut), (0, false));
    assert_eq!(frames[1..], [7; 3]);
}

#[cfg(any(feature = "unwind", windows))]
#[test]
fn a_walk_of_each_thread_is_complete() {
    let walks = (0..8).map(|depth| std::thread::spawn(move || nested(depth, &mut both)));
    for walk in walks.collect::<Vec<_>>() {
        let (frames, end, expected) = walk.join().unwrap();
        assert_eq!((frames, end), (expected, End::Complete));
    }
}
