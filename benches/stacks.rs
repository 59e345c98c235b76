//! The costs of walking stacks, of checking whether a function is among the callers, and of waiting for a return.
//!
//! The program prints medians of many rounds, for each frame of stacks of several depths, beside a walk by the
//! `backtrace` crate. An ordinary build has no frame pointers, so the command is to be run twice: `cargo bench --bench
//! stacks` and `RUSTFLAGS=-Cforce-frame-pointers=yes cargo bench --bench stacks`. `cargo test --bench stacks` is a
//! test, with few rounds.

use std::hint::black_box;
use std::time::Instant;

use tracer::__macro_support::{Registers, walk};

fn main() {
    let rounds = if std::env::args().any(|argument| argument == "--bench") { 301 } else { 3 };
    for depth in [5, 15, 30, 60] {
        nested(depth, &mut || at_depth(depth, rounds));
    }
    let returns = median(rounds, || {
        for _ in 0..100 {
            awaited();
        }
    });
    println!("on_return!, from the call to the return: {:.0} ns", returns / 100.0);
}

/// Calls itself until `depth` calls are nested, and then calls `bottom`.
#[inline(never)]
fn nested(depth: usize, bottom: &mut dyn FnMut()) {
    if black_box(depth) == 0 {
        bottom()
    } else {
        nested(depth - 1, bottom)
    }
    black_box(());
}

#[inline(never)]
fn awaited() {
    let _ = black_box(tracer::on_return!(|| ()));
}

#[inline(never)]
fn at_depth(depth: usize, rounds: usize) {
    let mut frames = [0u64; 128];
    let found = walk(Registers::here(), &mut frames, 0);
    let per_frame = |ns: f64| ns / found.len as f64;
    let own = median(rounds, || {
        for _ in 0..100 {
            black_box(walk(Registers::here(), black_box(&mut frames), 0));
        }
    }) / 100.0;
    let asked = median(rounds, || {
        for _ in 0..100 {
            let _ = black_box(tracer::is_called_from!(awaited));
        }
    }) / 100.0;
    let theirs = median(rounds, || {
        backtrace::trace(|frame| {
            black_box(frame.ip());
            true
        });
    });
    println!(
        "depth {depth}, {} frames, {:?}: walk {:.2}, is_called_from! {:.2}, backtrace {:.1} ns a frame ({:.0} x)",
        found.len,
        found.end,
        per_frame(own),
        per_frame(asked),
        per_frame(theirs),
        theirs / own
    );
}

/// Returns the median time of a round, in nanoseconds.
fn median(rounds: usize, mut round: impl FnMut()) -> f64 {
    let mut times: Vec<f64> = (0..rounds)
        .map(|_| {
            let start = Instant::now();
            round();
            start.elapsed().as_nanos() as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[rounds / 2]
}
