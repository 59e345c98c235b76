//! The costs of tracing around the calls: of the first record of a process and of a thread, of the start of a
//! process, and of an idle program.
//!
//! The program prints quantiles of many measurements; measurements that are compared take turns. The program starts
//! itself, with a variable that gives the new process its task.
//!
//! `cargo bench --bench around` measures; behind `--`, `starts` measures only the first records of processes, and
//! `processes` only the whole lives of processes; `cargo test --bench around` is a test, with few of each.

use std::hint::black_box;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tracer::{Tracer, trace};

/// The variable that gives a process that this program has started its task.
const ROLE: &str = "AROUND_BENCH_ROLE";

fn main() {
    match std::env::var(ROLE).as_deref() {
        Ok("one record") => trace!("the only record: {}", black_box(1)),
        Ok("first call") => time_first_call(),
        Ok("idle") => be_idle(),
        _ => measure(&std::env::args().skip(1).collect::<Vec<_>>()),
    }
}

fn measure(arguments: &[String]) {
    let is_given = |word: &str| arguments.iter().any(|argument| argument == word);
    let (first_calls, threads, starts, idle) =
        if is_given("--bench") { (100, 1000, 200, 10) } else { (3, 10, 3, 1) };
    if is_given("processes") {
        return starts_of_processes(starts);
    }
    first_calls_of_processes(first_calls);
    if is_given("starts") {
        return;
    }
    first_records(threads);
    starts_of_processes(starts);
    idle_program(Duration::from_secs(idle));
}

/// Measures the first record of processes that come one after the other, each with its own clock: the call that
/// decides whether the process traces, makes the run and gets a ring.
fn first_calls_of_processes(starts: usize) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let first_call = || {
        let mut command = myself("first call");
        command.env("TRACER_ENABLE", "1").env("TRACER_DIR", directory.path());
        let output = command.stdout(Stdio::piped()).output().expect("a process");
        let text = String::from_utf8_lossy(&output.stdout);
        Duration::from_nanos(text.trim().parse().expect("nanoseconds"))
    };
    let mut taken: Vec<Duration> = (0..starts).map(|_| first_call()).collect();
    println!("first record of a process, us: {}", quantiles(&mut taken, 1e6));
}

fn time_first_call() {
    let start = Instant::now();
    trace!("the only record: {}", black_box(1));
    println!("{}", start.elapsed().as_nanos());
}

/// Measures the first record of threads that come one after the other, each with its own clock.
fn first_records(threads: usize) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    assert!(Tracer::builder().directory(directory.path()).enable());
    let first_record = || {
        let start = Instant::now();
        trace!("the first record: {}", black_box(1));
        start.elapsed()
    };
    let mut taken: Vec<Duration> = (0..threads)
        .map(|_| {
            std::thread::sleep(Duration::from_millis(1));
            std::thread::spawn(first_record).join().expect("no panic")
        })
        .collect();
    let _ = Tracer::get().shutdown();
    println!("first record of a new thread, us: {}", quantiles(&mut taken, 1e6));
}

/// Measures processes that trace once and end, and the same processes with tracing off; fewer if they take long.
fn starts_of_processes(starts: usize) {
    const LONGEST: Duration = Duration::from_secs(60);
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (mut on, mut off) = (Vec::new(), Vec::new());
    let begun = Instant::now();
    while on.len() < starts && begun.elapsed() < LONGEST {
        for (enable, taken) in [("1", &mut on), ("0", &mut off)] {
            let mut command = myself("one record");
            command.env("TRACER_ENABLE", enable).env("TRACER_DIR", directory.path());
            let start = Instant::now();
            assert!(command.status().expect("a process").success());
            taken.push(start.elapsed());
        }
    }
    println!("process that traces once, {} times, ms: {}", on.len(), quantiles(&mut on, 1e3));
    println!("the same with tracing off, ms: {}", quantiles(&mut off, 1e3));
}

/// Measures the share of a processor that an idle program takes with tracing on.
fn idle_program(time: Duration) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mut command = myself("idle");
    command.env("TRACER_ENABLE", "1").env("TRACER_DIR", directory.path());
    command.env("AROUND_BENCH_SECONDS", time.as_secs().to_string());
    let output = command.stdout(Stdio::piped()).output().expect("a process");
    print!("{}", String::from_utf8_lossy(&output.stdout));
}

fn be_idle() {
    trace!("on: {}", black_box(1));
    let seconds = std::env::var("AROUND_BENCH_SECONDS").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    std::thread::sleep(Duration::from_millis(500));
    let before = processor_time();
    std::thread::sleep(Duration::from_secs(seconds));
    match before.zip(processor_time()) {
        Some((before, after)) => {
            let share = (after - before).as_secs_f64() / seconds as f64;
            println!("idle program with tracing on: {:.4} % of a core", share * 100.0);
        }
        None => println!("idle program: this system does not say"),
    }
}

/// Returns the processor time of all threads of this process, if the system reports it.
fn processor_time() -> Option<Duration> {
    let mut ns = 0;
    for task in std::fs::read_dir("/proc/self/task").ok()? {
        let text = std::fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
        ns += text.split(' ').next()?.parse::<u64>().ok()?;
    }
    Some(Duration::from_nanos(ns))
}

fn myself(role: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program's path"));
    command.env(ROLE, role);
    command
}

/// Returns some quantiles as text, in a unit; a second has `per_second` of these units.
fn quantiles(taken: &mut [Duration], per_second: f64) -> String {
    taken.sort_unstable();
    let at = |share: f64| taken[((taken.len() - 1) as f64 * share) as usize].as_secs_f64() * per_second;
    format!("p50 {:.1}  p90 {:.1}  p99 {:.1}  max {:.1}", at(0.5), at(0.9), at(0.99), at(1.0))
}
