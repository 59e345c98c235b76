//! The time to find the limits of the offset of two clocks: 100 million messages between two machines, 10,000 a second,
//! and the limits every ten seconds, on one processor. The messages are simulated while they are read, from delays that
//! are made beforehand.
//!
//! `cargo bench --bench order` measures; `cargo test --bench order` is a test, with a thousandth of the messages.

use std::hint::black_box;
use std::time::Instant;

use tracemerge::{Assumptions, Direction, PairStream};

/// The number of messages in a second, in both directions together.
const RATE: f64 = 10_000.0;
/// The number of different delays, which are made beforehand.
const DELAYS: usize = 1 << 18;

fn main() {
    let is_bench = std::env::args().any(|argument| argument == "--bench");
    let messages: u32 = if is_bench { 100_000_000 } else { 100_000 };
    let delays = delays();
    let offset = |s: f64| 250_000.0 * (s / 95.0).sin();
    let mut stream = PairStream::new(Assumptions::default(), false);
    let mut most_kept = 0;
    let begin = Instant::now();
    // The sine is that of the last multiple of 64 messages, with its slope: it is not what is measured.
    let (mut near, mut slope, mut from) = (0.0, 0.0, 0.0);
    for id in 0..messages {
        let s = f64::from(id) / RATE;
        if id % 64 == 0 {
            (near, from) = (offset(s), s);
            slope = 250_000.0 / 95.0 * (s / 95.0).cos();
            if id % 65_536 == 0 {
                most_kept = most_kept.max(stream.kept_points());
            }
        }
        let (truth, delay) = (near + slope * (s - from), delays[id as usize % DELAYS]);
        if id % 2 == 0 {
            stream.push(Direction::Forth, s, truth + delay, id);
        } else {
            stream.push(Direction::Back, s, truth - delay, id);
        }
    }
    stream.finish();
    let read = begin.elapsed();
    let last = f64::from(messages) / RATE;
    let (mut widths, mut t) = (Vec::new(), 0.0);
    while t < last {
        let (least, most) = black_box(stream.limits(t, 10_000.0));
        assert!(least <= offset(t) && offset(t) <= most, "the offset is outside its limits at {t} s");
        widths.push(most - least);
        t += 10.0;
    }
    let all = begin.elapsed();
    widths.sort_by(f64::total_cmp);
    println!(
        "{messages} messages in {last} s: {all:.2?} ({:.0} ns a message; the {} limits {:.2?}), median width {:.0} us",
        all.as_nanos() as f64 / f64::from(messages),
        widths.len(),
        all - read,
        widths[widths.len() / 2] / 1e3,
    );
    println!("{} points kept at the end, at most {most_kept} at once", stream.kept_points());
}

/// Makes delays of messages, in nanoseconds: 60 us and more, with a long tail.
fn delays() -> Vec<f64> {
    let mut state = 88_172_645_463_325_252_u64;
    let mut share = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 53) as f64
    };
    let mut normal = move || (0..12).map(|_| share()).sum::<f64>() - 6.0;
    (0..DELAYS).map(|_| 60_000.0 + 50_000.0 * (1.2 * normal()).exp()).collect()
}
