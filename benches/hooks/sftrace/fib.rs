//! Calls a function that is not inlined many times. Prints the nanoseconds of a call, the median of seven turns, and
//! the number of all calls.

use std::hint::black_box;
use std::time::Instant;

#[inline(never)]
fn fib(n: u32) -> u64 {
    if n < 2 { n.into() } else { black_box(fib(n - 1)) + black_box(fib(n - 2)) }
}

/// The number of calls that `fib(27)` makes, itself included.
const CALLS: u32 = 635_621;

fn main() {
    #[cfg(feature = "sftrace")]
    unsafe {
        sftrace_setup::setup();
    }
    let mut times: Vec<f64> = (0..7)
        .map(|_| {
            let start = Instant::now();
            black_box(fib(27));
            let took = start.elapsed().as_nanos() as f64;
            // Meanwhile the flusher writes the records.
            std::thread::sleep(std::time::Duration::from_millis(300));
            took / f64::from(CALLS)
        })
        .collect();
    times.sort_by(f64::total_cmp);
    println!("{:.1} ns a call, {} calls", times[3], 7 * CALLS);
}
