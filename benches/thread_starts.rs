//! The gaps between a thread's first records: for threads that run one after the other, and for the first thread of
//! processes that record as fast as they can.
//!
//! A gap in which the thread was preempted does not count. After each traced thread runs a thread that does the same
//! without records: its gaps are those that the machine makes.
//!
//! `cargo bench --bench thread_starts` measures; behind `--`, a number of threads and a number of milliseconds for each
//! thread may follow. `cargo test --bench thread_starts` is a test, with few threads and processes.

use std::hint::black_box;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tracer::trace;

/// The variable that gives a task to a process that this program has started.
const ROLE: &str = "THREAD_STARTS_ROLE";
/// The time from one record of a thread to the next: 100,000 records a second.
const PAUSE: Duration = Duration::from_micros(10);
/// The greatest gap that a thread may have; longer gaps are counted.
const LIMIT: Duration = Duration::from_micros(100);
/// The number of records that the first thread of a process makes without a pause.
const BURST: usize = 20_000;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let numbers: Vec<u64> = arguments.iter().filter_map(|argument| argument.parse().ok()).collect();
    let number = |index: usize, standard| numbers.get(index).copied().unwrap_or(standard);
    match std::env::var(ROLE).as_deref() {
        Ok("threads") => run_threads(number(0, 1), Duration::from_millis(number(1, 1))),
        Ok("burst") => println!("{}", greatest_gap_of_burst().as_nanos()),
        _ => {
            let is_bench = arguments.iter().any(|argument| argument == "--bench");
            let (threads, time, processes) = if is_bench { (100, 1000, 100) } else { (2, 20, 2) };
            first_threads(processes);
            let (threads, time) = (number(0, threads), number(1, time));
            let output = output_of("threads", &[threads, time]);
            print!("{output}");
        }
    }
}

/// Runs this program with a task, tracing into a directory of its own. Returns its output.
fn output_of(role: &str, numbers: &[u64]) -> String {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mut command = Command::new(std::env::current_exe().expect("this program's path"));
    command.env(ROLE, role).env("TRACER_ENABLE", "1").env("TRACER_DIR", directory.path());
    command.args(numbers.iter().map(u64::to_string));
    let output = command.stdout(Stdio::piped()).output().expect("a process");
    assert!(output.status.success());
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Measures the first thread of processes, which makes records without a pause, and prints quantiles of the greatest
/// gaps.
fn first_threads(processes: usize) {
    let gap = || output_of("burst", &[]).trim().parse().map(Duration::from_nanos).expect("nanoseconds");
    let mut gaps: Vec<Duration> = (0..processes).map(|_| gap()).collect();
    gaps.sort_unstable();
    let at = |share: f64| gaps[((gaps.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e6;
    println!(
        "greatest gap among the first {BURST} records of a process, without a pause, us: p50 {:.0}  p90 {:.0}  max {:.0}",
        at(0.5),
        at(0.9),
        at(1.0)
    );
}

/// Returns the greatest gap between two of the process's first records, not counting the first record. Asking whether
/// the thread was preempted takes as long as many records, so it is done once for several records.
fn greatest_gap_of_burst() -> Duration {
    const ASKED_EVERY: usize = 64;
    trace!("the first record: {}", black_box(0));
    let mut greatest = Duration::ZERO;
    for part in 0..BURST / ASKED_EVERY {
        let before = preemptions();
        let mut greatest_of_part = Duration::ZERO;
        let mut last = Instant::now();
        for number in 0..ASKED_EVERY {
            trace!("record {}", black_box(part * ASKED_EVERY + number));
            let now = Instant::now();
            greatest_of_part = greatest_of_part.max(now - last);
            last = now;
        }
        if preemptions() == before {
            greatest = greatest.max(greatest_of_part);
        }
    }
    greatest
}

/// Runs threads one after the other, by turns one that is traced and one that is not. Prints their greatest gaps.
fn run_threads(threads: u64, time: Duration) {
    let run = |is_traced| std::thread::spawn(move || greatest_gap(is_traced, time)).join().expect("no panic");
    trace!("the first thread's record: {}", black_box(0));
    let (traced, untraced): (Vec<Duration>, Vec<Duration>) =
        (0..threads).map(|_| (run(true), run(false))).unzip();
    for (name, gaps) in [("traced", traced), ("not traced", untraced)] {
        let text: Vec<String> = gaps.iter().map(|gap| gap.as_micros().to_string()).collect();
        println!("greatest gap of each thread, {name}, us: {}", text.join(" "));
        let (first, later) = gaps.split_first().expect("a thread");
        let over = later.iter().filter(|gap| **gap > LIMIT).count();
        let mut sorted = gaps.clone();
        sorted.sort_unstable();
        println!(
            "{name}: {over} of {} threads over {} us; the first {} us, median {} us",
            later.len(),
            LIMIT.as_micros(),
            first.as_micros(),
            sorted[sorted.len() / 2].as_micros()
        );
    }
}

/// Makes records for `time`, with pauses. Returns the greatest time that one record took in which the thread was not
/// preempted. If the thread is not traced, it does the same without records.
fn greatest_gap(is_traced: bool, time: Duration) -> Duration {
    let begun = Instant::now();
    let mut greatest = Duration::ZERO;
    let mut due = begun;
    for number in 0_u64.. {
        let before = preemptions();
        let start = Instant::now();
        if start - begun >= time {
            break;
        }
        if is_traced {
            trace!("record {} of {}", black_box(number), black_box(0.5));
        }
        let taken = start.elapsed();
        if taken > greatest && preemptions() == before {
            greatest = taken;
            if std::env::var("GAPS").is_ok() && taken > LIMIT {
                eprintln!("record {number} at {} us: {} us", (start - begun).as_micros(), taken.as_micros());
            }
        }
        due = (due + PAUSE).max(start);
        while Instant::now() < due {}
    }
    greatest
}

/// Returns how often the system has taken the processor from the calling thread.
#[cfg(target_os = "linux")]
fn preemptions() -> i64 {
    // SAFETY: all bytes of the structure may be zero; the call fills it.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &mut usage);
        usage.ru_nivcsw
    }
}

/// Returns 0: this system does not say how often a thread was preempted.
#[cfg(not(target_os = "linux"))]
fn preemptions() -> i64 {
    0
}
