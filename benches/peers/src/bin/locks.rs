//! Measures locks that record their acquisitions, beside the locks that they wrap and beside the wrappers of `hotpath`:
//! an uncontended lock is taken and released.
//!
//! `cargo run --release --manifest-path benches/peers/Cargo.toml --bin locks` prints a Markdown table. All locks take
//! turns in bursts, so that each lock meets the same machine; a row is the median of the lock's bursts. Tracing is on
//! in the first table and off in the second. The locks of `hotpath` record every acquisition; their profiler runs as in
//! its documentation.
#![allow(clippy::print_stdout)]

use std::hint::black_box;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

/// The number of times that a lock is taken in a burst.
const BURST: u32 = 2000;
/// The number of bursts of each lock.
const ROUNDS: usize = 301;
/// The pause after a burst, in which other threads can catch up.
const PAUSE: Duration = Duration::from_micros(500);

/// A measured lock: its name, the name of the lock with which it is compared, and a function that runs a burst.
type Case<'a> = (&'a str, &'a str, Box<dyn FnMut() + 'a>);

/// Makes a case of `take`, which takes and releases a lock once.
fn case<'a>(name: &'a str, beside: &'a str, mut take: impl FnMut() + 'a) -> Case<'a> {
    (name, beside, Box::new(move || (0..BURST).for_each(|_| take())))
}

fn measure() {
    let std_mutex = std::sync::Mutex::new(0u64);
    let our_mutex = tracer::sync::Mutex::new(0u64);
    let parking_lot_mutex = parking_lot::Mutex::new(0u64);
    let our_parking_lot_mutex = tracer::sync::parking_lot::Mutex::new(0u64);
    let hotpath_mutex = hotpath::mutex!(std::sync::Mutex::new(0u64));
    let hotpath_parking_lot_mutex = hotpath::mutex!(parking_lot::Mutex::new(0u64));
    let std_rwlock = std::sync::RwLock::new(0u64);
    let our_rwlock = tracer::sync::RwLock::new(0u64);
    let hotpath_rwlock = hotpath::rw_lock!(std::sync::RwLock::new(0u64));
    macro_rules! add {
        ($lock:ident.$take:ident()?) => {
            || {
                if let Ok(mut value) = black_box(&$lock).$take() {
                    *value += 1;
                }
            }
        };
        ($lock:ident.$take:ident()) => {
            || *black_box(&$lock).$take() += 1
        };
    }
    macro_rules! look {
        ($lock:ident) => {
            || {
                if let Ok(value) = black_box(&$lock).read() {
                    black_box(*value);
                }
            }
        };
    }
    let mut cases: Vec<Case<'_>> = vec![
        case("`std::sync::Mutex`", "", add!(std_mutex.lock()?)),
        case("`tracer::sync::Mutex`", "`std::sync::Mutex`", add!(our_mutex.lock()?)),
        case("`hotpath::mutex!` of it", "`std::sync::Mutex`", add!(hotpath_mutex.lock()?)),
        case("`parking_lot::Mutex`", "", add!(parking_lot_mutex.lock())),
        case("`tracer::sync::parking_lot::Mutex`", "`parking_lot::Mutex`", add!(our_parking_lot_mutex.lock())),
        case("`hotpath::mutex!` of that", "`parking_lot::Mutex`", add!(hotpath_parking_lot_mutex.lock())),
        case("`std::sync::RwLock`, written", "", add!(std_rwlock.write()?)),
        case("`tracer::sync::RwLock`, written", "`std::sync::RwLock`, written", add!(our_rwlock.write()?)),
        case("`hotpath::rw_lock!`, written", "`std::sync::RwLock`, written", add!(hotpath_rwlock.write()?)),
        case("`std::sync::RwLock`, read", "", look!(std_rwlock)),
        case("`tracer::sync::RwLock`, read", "`std::sync::RwLock`, read", look!(our_rwlock)),
        case("`hotpath::rw_lock!`, read", "`std::sync::RwLock`, read", look!(hotpath_rwlock)),
    ];
    let mut times = vec![Vec::with_capacity(ROUNDS); cases.len()];
    for _ in 0..ROUNDS {
        for ((_, _, burst), times) in cases.iter_mut().zip(&mut times) {
            let start = Instant::now();
            burst();
            times.push(start.elapsed().as_nanos() as f64 / f64::from(BURST));
            std::thread::sleep(PAUSE);
        }
    }
    let medians: Vec<f64> = times
        .iter_mut()
        .map(|times| {
            times.sort_unstable_by(f64::total_cmp);
            times[ROUNDS / 2]
        })
        .collect();
    println!("| lock, taken and let go | ns | beside the lock itself |\n|---|---|---|");
    for ((name, beside, _), median) in cases.iter().zip(&medians) {
        let of = cases.iter().position(|(name, ..)| name == beside);
        let ratio = of.map_or_else(String::new, |of| format!("{:.2}", median / medians[of]));
        println!("| {name} | {median:.1} | {ratio} |");
    }
}

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some("measure") {
        let _guard = hotpath::HotpathGuardBuilder::new("locks").format(hotpath::Format::None).build();
        // The first record decides whether this process traces.
        tracer::Tracer::get().trace(format_args!("locks are measured"));
        measure();
        return ExitCode::SUCCESS;
    }
    let Ok(program) = std::env::current_exe() else { return ExitCode::FAILURE };
    let Ok(directory) = tempfile::tempdir() else { return ExitCode::FAILURE };
    for (title, enable) in [("Tracing is on", "1"), ("Tracing is off", "0")] {
        println!("{title}:\n");
        let mut child = Command::new(&program);
        child.arg("measure").env("TRACER_ENABLE", enable).env("TRACER_DIR", directory.path());
        if !child.status().is_ok_and(|status| status.success()) {
            eprintln!("locks: the measurement has failed");
            return ExitCode::FAILURE;
        }
        println!();
    }
    ExitCode::SUCCESS
}
