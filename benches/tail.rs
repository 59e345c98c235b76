//! The tail of a call: how long the slowest of many bursts of calls take, with a pause before each burst.
//!
//! Each figure is a mean over the calls of a burst. For comparison, the same run measures the clock alone, and a
//! minimal recorder: it reads the clock and stores the reading and the arguments into an array of a ring's size,
//! without a flusher.
//!
//! `cargo bench --bench tail` measures with pauses of 5, 50 and 1500 us; behind `--`, pairs of a number of bursts and
//! of a pause in microseconds may follow. `cargo test --bench tail` is a test, with few bursts.

use std::hint::black_box;
use std::time::{Duration, Instant};

use tracer::{Clock, Tracer, trace};

/// The number of calls of a burst.
const BURST: u64 = 20;
/// The number of bursts that are not measured, before the measured ones.
const UNCOUNTED: u64 = 2000;
/// The number of words in a ring of the usual size.
const WORDS: usize = 1 << 17;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let numbers: Vec<u64> = arguments.iter().filter_map(|argument| argument.parse().ok()).collect();
    let is_bench = arguments.iter().any(|argument| argument == "--bench");
    let paces: Vec<(u64, u64)> = match (numbers.chunks_exact(2), is_bench) {
        (pairs, _) if pairs.len() > 0 => pairs.map(|pair| (pair[0], pair[1])).collect(),
        (_, true) => vec![(100_000, 5), (100_000, 50), (10_000, 1500)],
        (_, false) => vec![(100, 5), (100, 50)],
    };
    let directory = tempfile::tempdir().expect("a temporary directory");
    let is_fast = std::env::var("TRACER_CLOCK").is_ok_and(|clock| clock == "fast");
    let clock = if is_fast { Clock::Fast } else { Clock::Ordered };
    assert!(Tracer::builder().directory(directory.path()).clock(clock).enable());
    let read = if is_fast { plain } else { ordered };
    println!(
        "ns, means of {BURST} calls{:>24} {:>8} {:>8} {:>8} {:>8}",
        "p50", "p99", "p99.9", "p99.99", "max"
    );
    for (bursts, pause) in paces {
        let pause = Duration::from_micros(pause);
        report("the clock alone", bursts, pause, |_, _, _| {
            black_box(read());
        });
        let (mut words, mut at) = (vec![0; WORDS], 0);
        report("the clock and four stores", bursts, pause, |number, call, double| {
            words[at..at + 4].copy_from_slice(&[read(), number, call, double.to_bits()]);
            at = (at + 4) % WORDS;
        });
        black_box(&words);
        report("trace!", bursts, pause, |number, call, double| {
            trace!("Logging int: {}, int: {}, double: {}", number, call, double);
        });
    }
    // The directory goes next.
    let _ = Tracer::get().shutdown();
}

/// Measures bursts of calls of `call`, which gets the number of the burst, the number of the call, and a float.
fn report(name: &str, bursts: u64, pause: Duration, mut call: impl FnMut(u64, u64, f64)) {
    let mut means = Vec::new();
    for burst in 0..UNCOUNTED + bursts {
        let double = burst as f64 * 1.1;
        let start = Instant::now();
        for number in 0..BURST {
            call(black_box(burst), black_box(number), double);
        }
        let time = start.elapsed();
        if burst >= UNCOUNTED {
            means.push(time.as_nanos() as f64 / BURST as f64);
        }
        let waiting = Instant::now();
        while waiting.elapsed() < pause {}
    }
    means.sort_by(f64::total_cmp);
    let at = |share: f64| means[((means.len() as f64 * share) as usize).min(means.len() - 1)];
    println!(
        "{name:26} {:>6} us apart: {:8.1} {:8.1} {:8.1} {:8.1} {:8.1}",
        pause.as_micros(),
        at(0.5),
        at(0.99),
        at(0.999),
        at(0.9999),
        at(1.0)
    );
}

fn ordered() -> u64 {
    #[cfg(target_arch = "x86_64")]
    #[allow(unsafe_code, unused_unsafe)]
    // SAFETY: part of every x86-64 processor.
    unsafe {
        std::arch::x86_64::_mm_lfence();
    }
    plain()
}

fn plain() -> u64 {
    #[cfg(target_arch = "x86_64")]
    #[allow(unsafe_code, unused_unsafe)]
    // SAFETY: part of every x86-64 processor.
    unsafe {
        std::arch::x86_64::_rdtsc()
    }
    #[cfg(not(target_arch = "x86_64"))]
    quanta::Clock::new().raw()
}
