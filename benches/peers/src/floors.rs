//! The floors: readings of the clocks, measured in the same way as calls. No logger with time stamps can be faster than
//! its clock.

use crate::Outcome;
use crate::arguments::Calls;
use crate::call::Timing;
use crate::clock;
use crate::loggers::Nothing;
use crate::report::Report;
use std::hint::black_box;
use std::time::Instant;

/// The name of the empty loop; its figure is the overhead of the harness in every figure.
pub const NOTHING: &str = "nothing";
/// The name of the clock that this tracer reads by default.
pub const ORDERED: &str = "lfence; rdtsc";
/// The name of the clock that most other loggers read.
pub const PLAIN: &str = "rdtsc";
/// The names of all floors, in the order of the table.
pub const NAMES: [&str; 5] = [NOTHING, PLAIN, ORDERED, "quanta raw", "Instant::now"];

/// The name of the function that no recorder records.
pub const BARE: &str = "the function alone";
/// The name of two reads of the clock that this tracer reads by default.
pub const ORDERED_TWICE: &str = "lfence; rdtsc, twice";
/// The name of two reads of the clock that most other recorders read.
pub const PLAIN_TWICE: &str = "rdtsc, twice";
/// The names of the floors of a function that is entered and left, in the order of the table.
pub const OF_FUNCTIONS: [&str; 3] = [BARE, PLAIN_TWICE, ORDERED_TWICE];

#[inline(never)]
fn bare(n: u64) -> u64 {
    n + 1
}

/// Measures all floors.
pub fn measure(calls: &Calls) -> Outcome<Report> {
    let mut report = Report::default();
    let quanta = quanta::Clock::new();
    let mut timing = Timing::new(&Nothing, calls);
    let [nothing, plain, ordered, raw, instant] = NAMES;
    timing.take(nothing, |_, i| {
        black_box(i);
    });
    timing.take(plain, |_, _| {
        black_box(clock::plain());
    });
    timing.take(ordered, |_, _| {
        black_box(clock::ordered());
    });
    timing.take(raw, |_, _| {
        black_box(quanta.raw());
    });
    timing.take(instant, |_, _| {
        black_box(Instant::now());
    });
    timing.take(BARE, |_, i| {
        black_box(bare(i));
    });
    timing.take(PLAIN_TWICE, |_, _| {
        black_box((clock::plain(), clock::plain()));
    });
    timing.take(ORDERED_TWICE, |_, _| {
        black_box((clock::ordered(), clock::ordered()));
    });
    timing.report(&mut report);
    report.sent.clear();
    Ok(report)
}
