//! The measurement of the time that a call takes for its caller.

use crate::Outcome;
use crate::arguments::Calls;
use crate::clock::{self, Calibration};
use crate::functions::FunctionRecorder;
use crate::loggers::{Logger, Recorder};
use crate::message;
use crate::processor;
use crate::report::Report;
use crate::statistics;
use std::hint::black_box;
use std::path::Path;

/// The number of calls between two pauses.
pub const BATCH: u64 = 20;

/// The number of batches that run before the measured ones.
const WARM_UP: u32 = 100;

/// The names of the three messages in reports.
pub const MESSAGES: [&str; 3] = ["fixed", "numbers", "text"];

/// The name of the function that is entered and left, in reports.
pub const FUNCTION: &str = "function";

/// The name, in reports, of the processor time of other threads for one call.
pub const OTHER_THREADS: &str = "other threads";

/// The quantiles of the durations of single calls, with their names in reports and in tables, in the order of the
/// tables.
pub const QUANTILES: [(&str, f64); 4] = [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999), ("max", 1.0)];

/// Measures calls of `logger`, which writes to `directory`, with each of the three messages.
pub fn measure<L: Logger>(logger: L, directory: &Path, calls: &Calls) -> Outcome<Report> {
    let mut report = Report::default();
    let mut timing = Timing::new(&logger, calls);
    let [fixed, numbers, text] = MESSAGES;
    timing.take(fixed, |logger, _| logger.fixed());
    timing.take(numbers, |logger, i| logger.numbers(i, message::int(i), message::double(i)));
    timing.take(text, |logger, _| logger.text(black_box(message::TEXT)));
    timing.report(&mut report);
    logger.finish()?;
    report.note_files(directory)?;
    Ok(report)
}

/// Measures a function whose entering and leaving `recorder`, which writes to `directory`, records.
pub fn measure_function<R: FunctionRecorder>(
    recorder: R,
    directory: &Path,
    calls: &Calls,
) -> Outcome<Report> {
    let mut report = Report::default();
    let mut timing = Timing::new(&recorder, calls);
    timing.take(FUNCTION, |recorder, i| {
        black_box(recorder.call(i));
    });
    timing.report(&mut report);
    let sent = report.sent.get(FUNCTION).copied().unwrap_or_default();
    let before = processor::of_other_threads();
    recorder.finish()?;
    if let Some(ns) = processor::sum(before, processor::of_other_threads()) {
        report.figure(FUNCTION, OTHER_THREADS, ns as f64 / sent as f64);
    }
    report.note_files(directory)?;
    Ok(report)
}

/// A measurement of the calls of one recorder.
pub struct Timing<'a, L> {
    logger: &'a L,
    calls: &'a Calls,
    calibration: Calibration,
    taken: Vec<Taken>,
}

/// The ticks that the calls of one sort took.
struct Taken {
    name: &'static str,
    batches: Vec<u64>,
    singles: Vec<u64>,
    calls: u64,
}

impl<'a, L: Recorder> Timing<'a, L> {
    /// Begins the measurement.
    pub fn new(logger: &'a L, calls: &'a Calls) -> Timing<'a, L> {
        Timing { logger, calls, calibration: Calibration::begin(), taken: Vec::new() }
    }

    /// Times `call`, which gets numbers from 0 on: first in batches, then one call at a time.
    pub fn take(&mut self, name: &'static str, call: impl Fn(&L, u64)) {
        let mut next = 0;
        let batches = self.batches(&mut next, &call);
        let singles = self.singles(&mut next, &call);
        self.taken.push(Taken { name, batches, singles, calls: next });
    }

    fn batches(&self, next: &mut u64, call: impl Fn(&L, u64)) -> Vec<u64> {
        let mut taken = Vec::with_capacity((WARM_UP + self.calls.batches) as usize);
        for _ in 0..WARM_UP + self.calls.batches {
            self.logger.task(|| {
                let start = clock::ordered();
                for i in *next..*next + BATCH {
                    call(self.logger, black_box(i));
                }
                taken.push(clock::ordered() - start);
            });
            *next += BATCH;
            clock::pause(self.calls.pause());
        }
        taken.split_off(WARM_UP as usize)
    }

    fn singles(&self, next: &mut u64, call: impl Fn(&L, u64)) -> Vec<u64> {
        let mut taken = Vec::with_capacity((u64::from(self.calls.batches) * BATCH) as usize);
        for _ in 0..self.calls.batches {
            self.logger.task(|| {
                for i in *next..*next + BATCH {
                    let start = clock::ordered();
                    call(self.logger, black_box(i));
                    taken.push(clock::ordered() - start);
                }
            });
            *next += BATCH;
            clock::pause(self.calls.pause());
        }
        taken
    }

    /// Ends the measurement, and adds its figures to `report`, in nanoseconds.
    pub fn report(self, report: &mut Report) {
        let ns = self.calibration.ns_per_tick();
        for mut taken in self.taken {
            report.sent.insert(taken.name.into(), taken.calls);
            let batch = statistics::quantile(&mut taken.batches, 0.5) as f64 / BATCH as f64;
            report.figure(taken.name, "batch", batch * ns);
            for (name, share) in QUANTILES {
                report.figure(taken.name, name, statistics::quantile(&mut taken.singles, share) as f64 * ns);
            }
        }
    }
}
