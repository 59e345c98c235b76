//! The texts that can stand in a message, and the events that can happen while a message is made.

use std::fmt;
use std::thread;
use std::time::{Duration, Instant};

use support::scenarios::Scenario;
use tracer::Tracer;

pub const SCENARIOS: &[Scenario] = &[
    ("free-text", |_| free_text()),
    ("display", |_| display()),
    ("long-display", |args| long_display(args.number(0))),
    ("slow-display", |args| slow_display(args.number(0))),
    ("panic-hook", |_| panic_hook()),
    ("idle", |args| idle(args.number(0))),
    ("full", |args| full(args.number(0))),
    ("first-records", |_| first_records()),
    ("quiet", |_| quiet()),
    ("startup", |args| startup(args.text(0))),
    #[cfg(unix)]
    ("no-space", |_| no_space()),
    #[cfg(unix)]
    ("without-flusher", |args| without_flusher(args.number(0))),
];

/// Traces every text of [`texts`], then prints their number.
pub fn free_text() {
    for text in texts() {
        Tracer::get().trace(format_args!("{text}"));
    }
    println!("{}", texts().len());
}

/// Returns texts that a line format may stumble over. The test has the same list.
pub fn texts() -> Vec<String> {
    let mut texts: Vec<String> = [
        "",
        "plain",
        "two\nlines",
        "ends in a line feed\n",
        "\n",
        "\n\n\n",
        "\r\n",
        "tab\tand nul\0",
        "\x1b[31mred\x1b[0m\x07",
        "\u{7f}\u{80}\u{9f}\u{a0}",
        "größe 你好 🦀 \u{202e}",
        r"C:\xyz\x41\\x42\",
        r"\x",
        "0000000000000001-00000001 : forged\n0000000000000001-00000001 : twice",
        " leading and trailing ",
        "# end",
    ]
    .map(String::from)
    .to_vec();
    texts.push("x".repeat(1 << 20));
    texts.push("é\\x4\n".repeat(200_000));
    texts.push((0..=0x2ff).filter_map(char::from_u32).collect());
    texts
}

struct Panics;

impl fmt::Display for Panics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the beginning of a message")?;
        panic!("a Display that panics");
    }
}

struct Traces;

impl fmt::Display for Traces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Tracer::get().trace(format_args!("made while {} is formatted", "another"));
        assert!(Tracer::get().flush().is_err(), "a flush here would wait for itself");
        f.write_str("the outer message")
    }
}

struct Fails;

impl fmt::Display for Fails {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("as far as it got")?;
        Err(fmt::Error)
    }
}

/// Traces with a `Display` that panics, one that traces, and one that fails.
pub fn display() {
    Tracer::get().trace(format_args!("before"));
    Tracer::get().trace(format_args!("{Panics}"));
    Tracer::get().trace(format_args!("between"));
    Tracer::get().trace(format_args!("{Traces}"));
    Tracer::get().trace(format_args!("{Fails}"));
    Tracer::get().trace(format_args!("after"));
    println!("lost {}", Tracer::get().stats().lost);
}

struct Long(u64);

impl fmt::Display for Long {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for i in 0..5 {
            Tracer::get().trace(format_args!("inside {i}"));
        }
        (0..self.0).try_for_each(|_| f.write_str("x"))
    }
}

/// Traces a message of `length` bytes, whose formatting traces, as the last record of a thread.
pub fn long_display(length: u64) {
    let thread = std::thread::spawn(move || Tracer::get().trace(format_args!("{}", Long(length))));
    thread.join().expect("its end");
}

struct Slow(u64);

impl fmt::Display for Slow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (0..self.0).try_for_each(|line| {
            if line % 50 == 0 {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            writeln!(f, "line {line} of a message that is not soon all there")
        })
    }
}

/// Traces three messages of `lines` lines whose formatting is slow.
pub fn slow_display(lines: u64) {
    for n in 0..3 {
        Tracer::get().trace(format_args!("{n} begins\n{}{n} ends", Slow(lines)));
    }
}

/// Installs a panic hook that traces, for a panic in the middle of a message.
pub fn panic_hook() {
    std::panic::set_hook(Box::new(|info| Tracer::get().trace(format_args!("hook: {info}"))));
    Tracer::get().trace(format_args!("before"));
    Tracer::get().trace(format_args!("{Panics}"));
    Tracer::get().trace(format_args!("after"));
}

/// Traces `count` records as fast as possible.
pub fn full(count: u64) {
    for i in 0..count {
        Tracer::get().trace(format_args!("record number {i} of a burst that no disk can follow for long"));
    }
    let _ = Tracer::get().flush();
    let stats = Tracer::get().stats();
    println!(
        "records {} lost {} stalls {} stall_ns {}",
        stats.records, stats.lost, stats.stalls, stats.stall_ns
    );
}

/// Traces `count` records, far more than the ring holds, while the flusher is stopped; then one more when it goes
/// on.
#[cfg(unix)]
pub fn without_flusher(count: u64) {
    Tracer::get().trace(format_args!("before"));
    Tracer::get().flush().expect("a file");
    let is_flusher = |task: &std::path::PathBuf| {
        std::fs::read_to_string(task.join("comm")).is_ok_and(|name| name.trim() == "tracer-flusher")
    };
    let tasks = std::fs::read_dir("/proc/self/task").expect("the threads");
    let flusher = tasks.flatten().map(|entry| entry.path()).find(is_flusher).expect("the flusher");
    println!("{}", flusher.file_name().expect("its id").to_string_lossy());
    let mut lines = std::io::stdin().lines();
    lines.next();
    for i in 0..count {
        Tracer::get().trace(format_args!("record number {i}"));
    }
    println!("went on");
    lines.next();
    Tracer::get().flush().expect("the flusher goes on");
    Tracer::get().trace(format_args!("after"));
}

/// Traces while files cannot grow, and when they can again: the records made meanwhile wait in the ring.
#[cfg(unix)]
pub fn no_space() {
    let limit_files = |bytes: libc::rlim_t| {
        let limit = libc::rlimit { rlim_cur: bytes, rlim_max: libc::RLIM_INFINITY };
        // SAFETY: the limit is plain memory.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &limit) }, 0);
    };
    Tracer::get().trace(format_args!("while there is room"));
    Tracer::get().flush().expect("room");
    // The first lines of a file exceed this limit, so no other file can be made either.
    limit_files(64);
    for i in 0..1000 {
        Tracer::get().trace(format_args!("while there is none {i}"));
    }
    let error = Tracer::get().flush().expect_err("no room");
    println!("{error}");
    limit_files(libc::RLIM_INFINITY);
    Tracer::get().flush().expect("room again");
    Tracer::get().trace(format_args!("at the end"));
}

/// Returns the processor time of this process up to now, in microseconds.
#[cfg(unix)]
fn processor_us() -> i64 {
    // SAFETY: the result is plain memory.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    let us = |t: libc::timeval| t.tv_sec * 1_000_000 + t.tv_usec;
    us(usage.ru_utime) + us(usage.ru_stime)
}

/// Returns the processor time of this process up to now, in microseconds.
#[cfg(windows)]
fn processor_us() -> u64 {
    unsafe extern "system" {
        fn GetCurrentProcess() -> *mut std::ffi::c_void;
        fn GetProcessTimes(
            process: *mut std::ffi::c_void,
            created: *mut u64,
            ended: *mut u64,
            kernel: *mut u64,
            user: *mut u64,
        ) -> i32;
    }
    let (mut created, mut ended, mut kernel, mut user) = (0, 0, 0, 0);
    // SAFETY: the handle is this process's own; the results are plain memory, each as long as a `FILETIME`, which
    // counts 100 ns.
    let done = unsafe {
        GetProcessTimes(GetCurrentProcess(), &raw mut created, &raw mut ended, &raw mut kernel, &raw mut user)
    };
    assert_ne!(done, 0);
    (kernel + user) / 10
}

/// Traces one record, then sleeps for `seconds`; prints the processor time that the process used meanwhile, in
/// microseconds.
pub fn idle(seconds: u64) {
    Tracer::get().trace(format_args!("now idle"));
    let _ = Tracer::get().flush();
    let before = processor_us();
    std::thread::sleep(Duration::from_secs(seconds));
    println!("{}", processor_us() - before);
}

/// Traces one record, then nothing, five times; prints the milliseconds until the record's line was in the file.
pub fn quiet() {
    let directory = std::path::PathBuf::from(std::env::var_os("TRACER_DIR").expect("TRACER_DIR"));
    for i in 0..5 {
        let mark = format!("quiet record {i}");
        let start = Instant::now();
        Tracer::get().trace(format_args!("{mark}"));
        let written = || {
            let mut files = std::fs::read_dir(&directory).expect("the directory").flatten();
            files.any(|f| std::fs::read_to_string(f.path()).is_ok_and(|text| text.contains(&mark)))
        };
        while !written() {
            assert!(start.elapsed() < Duration::from_secs(20), "the flusher has to look by itself");
            std::thread::sleep(Duration::from_millis(1));
        }
        println!("{}", start.elapsed().as_millis());
        std::thread::sleep(Duration::from_millis(37));
    }
}

/// Traces a record, calls `startup` with this variable, and traces another record. Prints whether tracing is on.
pub fn startup(variable: &str) {
    Tracer::get().trace(format_args!("before startup"));
    let on = Tracer::get().startup(variable);
    Tracer::get().trace(format_args!("after startup"));
    assert_eq!(on, Tracer::get().is_enabled());
    println!("{on}");
}

/// Makes the first records of the process and of ten threads. A message with the nanoseconds of its call follows
/// each.
pub fn first_records() {
    fn first_record(of: &str) {
        let before = Instant::now();
        Tracer::get().trace(format_args!("the first record of {of}"));
        let took = before.elapsed().as_nanos();
        Tracer::get().trace(format_args!("its call took {took}"));
    }
    first_record("the process");
    let before = Instant::now();
    Tracer::get().trace(format_args!("calibration begins"));
    thread::sleep(Duration::from_millis(50));
    let passed = before.elapsed().as_nanos();
    Tracer::get().trace(format_args!("calibration ends {passed}"));
    for number in 0..10 {
        let thread = thread::spawn(move || first_record(&format!("thread {number}")));
        thread.join().expect("the thread ends");
    }
}
