//! The costs of tracing other than the costs of calls: those of the first record of a process and of a thread, of the
//! start of a process, of an idle program, and of recording the states of threads.
//!
//! The program prints quantiles of many measurements; measurements that are compared take turns. The program starts
//! itself, with a variable that gives the new process its task.
//!
//! `cargo bench --bench around` measures; behind `--`, `starts` measures only the first records of processes,
//! `processes` only the whole lives of processes, and `switches` only the states of threads; `cargo test --bench
//! around` is a test, with few measurements of each sort.

use std::hint::black_box;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tracer::{Tracer, trace};

/// The variable that gives a task to a process that this program has started.
const ROLE: &str = "AROUND_BENCH_ROLE";

fn main() {
    match std::env::var(ROLE).as_deref() {
        Ok("one record") => trace!("the only record: {}", black_box(1)),
        Ok("first call") => time_first_call(),
        Ok("idle") => be_idle(),
        #[cfg(target_os = "linux")]
        Ok("run") => std::process::exit(tracemerge::main(std::env::args_os()).into()),
        #[cfg(target_os = "linux")]
        Ok("switches") => switches::switch_often(),
        _ => measure(&std::env::args().skip(1).collect::<Vec<_>>()),
    }
}

fn measure(arguments: &[String]) {
    let is_given = |word: &str| arguments.iter().any(|argument| argument == word);
    let (first_calls, threads, starts, idle, turns) =
        if is_given("--bench") { (100, 1000, 200, 10, 9) } else { (3, 10, 3, 1, 1) };
    #[cfg(target_os = "linux")]
    if is_given("switches") {
        return switches::states_of_threads(turns);
    }
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
    #[cfg(target_os = "linux")]
    switches::states_of_threads(turns);
    #[cfg(not(target_os = "linux"))]
    let _ = turns;
}

/// The cost of recording the states of threads (`TRACER_SCHED=1`), as the processor time of a program whose threads
/// switch ten thousand times a second.
#[cfg(target_os = "linux")]
mod switches {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    use super::*;

    /// The variables with the number of additions between two questions, and with the number of questions, for the
    /// process that is measured.
    const ADDITIONS: &str = "AROUND_BENCH_ADDITIONS";
    const QUESTIONS: &str = "AROUND_BENCH_QUESTIONS";
    /// The time between two questions of one thread to the other. A question makes both threads leave their processor.
    const PAUSE: Duration = Duration::from_micros(200);

    /// Measures the program with recorded states and without them, in turns.
    pub(super) fn states_of_threads(turns: u32) {
        const PROBE: u64 = 100_000_000;
        let before = processor_time().unwrap_or_default();
        add(PROBE);
        let probe = processor_time().unwrap_or_default().saturating_sub(before);
        let additions = PROBE as f64 * PAUSE.as_secs_f64() / probe.as_secs_f64().max(1e-3);
        let questions = if turns > 1 { 10_000 } else { 100 };
        let (mut on, mut off, mut said) = (Vec::new(), Vec::new(), String::new());
        for _ in 0..turns {
            for (states, taken) in [("1", &mut on), ("0", &mut off)] {
                let directory = tempfile::tempdir().expect("a temporary directory");
                let this = std::env::current_exe().expect("this program's path");
                let mut command = myself("run");
                command.args(["run", "-q", "-o"]).arg(directory.path().join("merged")).arg("--");
                command.arg("/usr/bin/env").arg(format!("{ROLE}=switches")).arg(&this);
                command.env("TRACER_SCHED", states).env("TRACER_DIR", directory.path());
                command.env(ADDITIONS, (additions as u64).to_string()).env(QUESTIONS, questions.to_string());
                let output = command.output().expect("a process");
                let text = String::from_utf8_lossy(&output.stdout).into_owned();
                let numbers: Vec<f64> = text.split_whitespace().filter_map(|n| n.parse().ok()).collect();
                let [processor, switches] = numbers[..] else {
                    panic!("{text}{}", String::from_utf8_lossy(&output.stderr));
                };
                taken.push(processor);
                said = format!("{switches:.0} switches a second of processor's time");
            }
        }
        let ratios = on.iter().zip(&off).map(|(on, off)| (on / off - 1.0) * 100.0);
        let mut ratios: Vec<f64> = ratios.collect();
        for list in [&mut on, &mut off, &mut ratios] {
            list.sort_by(f64::total_cmp);
        }
        let median = |list: &[f64]| list[list.len() / 2];
        println!(
            "states of threads, {said}: {:.1} ms, without {:.1} ms; by turns p25 {:+.2} %, p50 {:+.2} %, p75 {:+.2} %",
            median(&on),
            median(&off),
            ratios[ratios.len() / 4],
            median(&ratios),
            ratios[ratios.len() * 3 / 4]
        );
    }

    fn add(number: u64) {
        let mut sum = 0_u64;
        (0..number).for_each(|n| sum = black_box(sum.wrapping_add(n)));
    }

    /// Lets a thread ask another one again and again. Prints the processor time that this took, in milliseconds, and
    /// the number of switches in a second of processor time.
    pub(super) fn switch_often() {
        trace!("one record: {}", black_box(1));
        let number = |variable: &str| std::env::var(variable).ok().and_then(|text| text.parse().ok());
        let (additions, questions) = (number(ADDITIONS).unwrap_or(1), number(QUESTIONS).unwrap_or(1));
        let (mut ask, mut asked) = UnixStream::pair().expect("descriptors");
        let answerer = std::thread::spawn(move || {
            let mut byte = [0];
            while matches!(asked.read(&mut byte), Ok(1)) && asked.write_all(&byte).is_ok() {}
        });
        let before = processor_time().unwrap_or_default();
        for _ in 0..questions {
            add(additions);
            ask.write_all(&[1]).and_then(|()| ask.read_exact(&mut [0])).expect("an answer");
        }
        let taken = processor_time().unwrap_or_default().saturating_sub(before).as_secs_f64();
        drop(ask);
        let _ = answerer.join();
        println!("{} {}", taken * 1e3, 2.0 * questions as f64 / taken);
    }
}

/// Measures the first record of processes that run one after the other: the call that decides whether the process
/// traces, makes the run and gets a ring. Each process measures its own call.
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

/// Measures the first record of threads that run one after the other, each by its own clock.
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

/// Measures the durations of processes that make one record and end, and of the same processes with tracing off; fewer
/// than `starts` processes if they take long.
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

/// Returns some quantiles as text, in a unit of which a second has `per_second`.
fn quantiles(taken: &mut [Duration], per_second: f64) -> String {
    taken.sort_unstable();
    let at = |share: f64| taken[((taken.len() - 1) as f64 * share) as usize].as_secs_f64() * per_second;
    format!("p50 {:.1}  p90 {:.1}  p99 {:.1}  max {:.1}", at(0.5), at(0.9), at(0.99), at(1.0))
}
