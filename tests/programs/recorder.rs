//! Programs with a flight recorder, with bounded files, with files that are deleted, and with a clock that goes back.

use crate::host::die;
use std::path::{Path, PathBuf};
use std::time::Duration;
use support::APP;
use support::scenarios::Scenario;
use tracer::Tracer;

pub const SCENARIOS: &[Scenario] = &[
    ("flight", |args| flight(args.text(0))),
    ("flight-of-many", |_| flight_of_many()),
    ("rotated", |args| rotated(args.number(0))),
    ("meddled-again", |args| meddled_again(args.text(0))),
    ("meddled", |args| meddled(args.text(0))),
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    ("backward", |_| backward()),
];

/// The number of records that a thread of the flight recorder traces before each snapshot; far more than its
/// ring holds.
const MANY: u64 = 20_000;

fn trace_numbers(numbers: std::ops::Range<u64>) {
    for n in numbers {
        Tracer::get().trace(format_args!("number {n}"));
    }
}

/// Traces on two threads, with a snapshot in the middle; ends as `how` says.
pub fn flight(how: &str) {
    let thread = std::thread::Builder::new().name("second".into()).spawn(|| trace_numbers(0..MANY));
    thread.expect("a thread").join().expect("its end");
    trace_numbers(0..MANY);
    match how {
        "snapshot" => {
            Tracer::get().snapshot().expect("a snapshot");
            println!("{}", Tracer::get().stats().bytes_written);
            trace_numbers(MANY..MANY + 10);
            Tracer::get().snapshot().expect("a snapshot");
            trace_numbers(MANY + 10..3 * MANY);
        }
        "panic" => {
            let _ = std::panic::catch_unwind(|| panic!("as the test wants"));
            // Only the panic's snapshot has written anything.
            trace_numbers(MANY..MANY + 10);
            die();
        }
        "panic-inside" => {
            struct Panics;
            impl std::fmt::Display for Panics {
                fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                    panic!("as the test wants");
                }
            }
            Tracer::get().trace(format_args!("{Panics}"));
            die();
        }
        "killed" => {
            println!("{}", Tracer::get().stats().bytes_written);
            die();
        }
        "exit" => println!("{}", Tracer::get().stats().bytes_written),
        other => panic!("no way to end {other:?}"),
    }
}

/// Runs threads that trace and end one after the other, more than are kept, then makes a snapshot.
pub fn flight_of_many() {
    for t in 0..40 {
        let thread = std::thread::Builder::new().name(format!("thread {t}"));
        let thread = thread.spawn(|| trace_numbers(0..10)).expect("a thread");
        thread.join().expect("its end");
        // The flusher sees each end before the next thread begins; it looks every millisecond.
        std::thread::sleep(Duration::from_millis(5));
    }
    Tracer::get().snapshot().expect("a snapshot");
}

/// Traces so much that the file is rotated many times, with a long message now and then.
pub fn rotated(records: u64) {
    for n in 0..records {
        match n % 1000 {
            7 => Tracer::get().trace(format_args!("{n} {}", "long ".repeat(3000))),
            8 => Tracer::get().trace(format_args!("{n} \nsecond line\n")),
            _ => Tracer::get().trace(format_args!("{n}")),
        }
    }
}

/// Lowers the limit of descriptors and starts so many threads that files are closed after each write.
#[cfg(unix)]
fn open_many_files() {
    let limit = libc::rlimit { rlim_cur: 16, rlim_max: 16 };
    // SAFETY: the call lowers a limit of this process.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) }, 0);
    let (ready, wait) = std::sync::mpsc::channel();
    for _ in 0..8 {
        let ready = ready.clone();
        std::thread::spawn(move || {
            Tracer::get().trace(format_args!("one of many"));
            ready.send(()).expect("somebody waits");
            loop {
                std::thread::park();
            }
        });
    }
    wait.iter().take(8).for_each(drop);
    Tracer::get().flush().expect("their files");
}

/// Traces, does `what` to the file, traces on.
pub fn meddled(what: &str) {
    let directory = PathBuf::from(std::env::var_os("TRACER_DIR").expect("the test sets it"));
    #[cfg(unix)]
    if std::env::args().any(|arg| arg == "crowded") {
        open_many_files();
    }
    trace_numbers(0..100);
    Tracer::get().flush().expect("a file");
    let file = own_files(&directory).pop().expect("a file");
    match what {
        "removed" => std::fs::remove_file(&file).expect("it is there"),
        "renamed" => {
            std::fs::rename(&file, directory.join(format!("{APP}.trace.99999"))).expect("it is there")
        }
        "truncated" => drop(std::fs::File::create(&file).expect("it is there")),
        "replaced" => {
            std::fs::remove_file(&file).expect("it is there");
            std::fs::write(&file, "somebody's").expect("it can be written");
        }
        "removed-and-quiet" => {
            std::fs::remove_file(&file).expect("it is there");
            return;
        }
        other => panic!("nothing {other:?} can be done"),
    }
    trace_numbers(100..150);
    if std::env::args().any(|arg| arg == "killed") {
        die();
    }
}

/// Traces while the processor's counter goes back: reading the counter traps, and the handler returns a smaller
/// number.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
pub fn backward() {
    use std::sync::atomic::{AtomicU64, Ordering};

    static BACK_BY: AtomicU64 = AtomicU64::new(0);
    const PR_SET_TSC: libc::c_int = 26;

    extern "C" fn emulate(_: libc::c_int, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
        // SAFETY: the kernel gives a context that may be changed; the instruction that trapped is `rdtsc`,
        // two bytes long. The counter is read while it does not trap.
        unsafe {
            libc::prctl(PR_SET_TSC, 1);
            let ticks = std::arch::x86_64::_rdtsc() - BACK_BY.load(Ordering::Relaxed);
            libc::prctl(PR_SET_TSC, 2);
            let registers = &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs;
            registers[libc::REG_RAX as usize] = (ticks & 0xffff_ffff) as i64;
            registers[libc::REG_RDX as usize] = (ticks >> 32) as i64;
            registers[libc::REG_RIP as usize] += 2;
        }
    }

    Tracer::get().trace(format_args!("before"));
    // SAFETY: the call installs a handler that only emulates one instruction; from here on `rdtsc` of this
    // thread traps.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = emulate as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        assert_eq!(libc::sigaction(libc::SIGSEGV, &action, std::ptr::null_mut()), 0);
        assert_eq!(libc::prctl(PR_SET_TSC, 2), 0);
    }
    Tracer::get().trace(format_args!("trapped"));
    BACK_BY.store(1 << 40, Ordering::Relaxed);
    Tracer::get().trace(format_args!("behind"));
    Tracer::get().trace(format_args!("still behind"));
    BACK_BY.store(0, Ordering::Relaxed);
    Tracer::get().trace(format_args!("caught up"));
    // SAFETY: `rdtsc` works again.
    unsafe { libc::prctl(PR_SET_TSC, 1) };
}

/// Returns the trace files of the main thread. If its id is not that of the process, no other thread has a file.
fn own_files(directory: &Path) -> Vec<PathBuf> {
    let id = if cfg!(unix) { std::process::id().to_string() } else { String::new() };
    let start = format!("{APP}.trace.{id}");
    let entries = std::fs::read_dir(directory).expect("the test's directory").flatten();
    let own = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(&start));
    own.map(|entry| entry.path()).collect()
}

/// Traces, does the first of `steps` to its file, traces on, does the next, and so on; its files are whole before
/// each step. After a step that ends in `-at-last`, it traces no more. The macro, whose arguments are formatted
/// later, makes two records of ten.
pub fn meddled_again(steps: &str) {
    let directory = PathBuf::from(std::env::var_os("TRACER_DIR").expect("the test sets it"));
    let mut made = 0;
    let mut trace = |count: u64| {
        for n in made..made + count {
            match n % 10 {
                3 => Tracer::get().trace(format_args!("0 {n} has\nseveral\n lines")),
                4 => Tracer::get().trace(format_args!("0 {n} is {}", "long ".repeat(600))),
                6 | 8 => tracer::trace!("0 {} is deferred", n),
                _ => Tracer::get().trace(format_args!("0 {n}")),
            }
        }
        made += count;
    };
    trace(100);
    for step in steps.split(',') {
        let (step, step_is_last) =
            step.strip_suffix("-at-last").map_or((step, false), |without| (without, true));
        Tracer::get().flush().expect("files");
        let files = own_files(&directory);
        // The current file is the one that was written last.
        let written =
            |path: &PathBuf| std::fs::metadata(path).and_then(|found| found.modified()).expect("a time");
        let current = files.iter().max_by_key(|path| written(path)).expect("a file").clone();
        let length = std::fs::metadata(&current).expect("it is there").len();
        let replace_by = |length: u64| {
            let copy = directory.join("copy");
            std::fs::copy(&current, &copy).expect("a copy");
            let cut = std::fs::OpenOptions::new().write(true).open(&copy);
            cut.and_then(|file| file.set_len(length)).expect("a cut");
            std::fs::rename(copy, &current).expect("a change of names");
        };
        match step {
            "removed" => std::fs::remove_file(&current).expect("it is there"),
            "emptied" => drop(std::fs::File::create(&current).expect("it is there")),
            "cut" => {
                let file = std::fs::OpenOptions::new().write(true).open(&current);
                file.and_then(|file| file.set_len(length / 2)).expect("it is there");
            }
            "copied" => replace_by(length),
            "copied-in-part" => replace_by(length / 3),
            "all-removed" => files.iter().for_each(|file| std::fs::remove_file(file).expect("it is there")),
            "older-removed" => {
                let older = files.iter().filter(|file| **file != current);
                older.for_each(|file| std::fs::remove_file(file).expect("it is there"));
            }
            other => panic!("no step {other:?}"),
        }
        if step_is_last {
            break;
        }
        // The times of files are coarse.
        std::thread::sleep(Duration::from_millis(10));
        trace(100);
    }
    if std::env::args().any(|arg| arg == "killed") {
        die();
    }
}
