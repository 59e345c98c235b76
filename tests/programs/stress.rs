//! A program to be killed: its threads write numbered records and count them in a file that the killer can read.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use support::scenarios::Scenario;
use support::words::words;
use tracer::Tracer;

pub const SCENARIOS: &[Scenario] = &[("stress", |args| stress(args.text(0)))];

/// The number of threads of the program.
pub const THREADS: usize = 8;

/// Traces numbered records on eight threads until it is killed, or for ten seconds. `path` is a file of one word
/// per thread: the number of its committed records, that is, of the calls that have returned.
///
/// If `STRESS_DEFERRED` is set, the macro makes the records, whose arguments are formatted later.
///
/// If `STRESS_PAUSE_US` is set, each thread sleeps for so many microseconds after each record: then the flusher
/// writes often, and little.
pub fn stress(path: &str) {
    let shared = words(Path::new(path), THREADS);
    let pause =
        std::env::var("STRESS_PAUSE_US").ok().and_then(|us| us.parse().ok()).map(Duration::from_micros);
    let deferred = std::env::var_os("STRESS_DEFERRED").is_some();
    let end = Instant::now() + Duration::from_secs(10);
    std::thread::scope(|scope| {
        for (thread, committed) in shared.iter().enumerate() {
            scope.spawn(move || {
                for n in 0u64.. {
                    match n % 50 {
                        // The texts are the same.
                        7 if deferred => tracer::trace!("{thread} {n} {}", "long ".repeat(400)),
                        8 if deferred => tracer::trace!("{thread} {n} {}more{}", "\nand ", "\n"),
                        _ if deferred => tracer::trace!("{} {n}", thread),
                        // Some messages span blocks, or have several lines.
                        7 => Tracer::get().trace(format_args!("{thread} {n} {}", "long ".repeat(400))),
                        8 => Tracer::get().trace(format_args!("{thread} {n} \nand more\n")),
                        _ => Tracer::get().trace(format_args!("{thread} {n}")),
                    }
                    committed.store(n + 1, Ordering::Release);
                    if let Some(pause) = pause {
                        std::thread::sleep(pause);
                    }
                    if (pause.is_some() || n % 1000 == 0) && Instant::now() > end {
                        return;
                    }
                }
            });
        }
    });
}
