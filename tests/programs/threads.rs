//! Many threads: some hand work over to each other, some start and end one after the other, and some start all at once.

use crate::host::{hear, say};
use std::sync::{Barrier, Mutex};
use support::scenarios::Scenario;
use tracer::Tracer;

pub const SCENARIOS: &[Scenario] = &[
    ("handover", |args| handover(args.number(0))),
    ("short-lived", |args| short_lived(args.number(0))),
    ("one-by-one", |args| one_by_one(args.number(0), args.number(1))),
    ("at-once", |args| at_once(args.number(0))),
    ("held", |args| held(args.number(0))),
    ("beside-the-dead", |args| trace_beside_dead_run(args.number(0))),
    ("many", |args| many(args.number(0))),
    #[cfg(unix)]
    ("left-mark", |_| left_mark()),
];

/// Runs two threads that take a mutex in turn until it was handed over `count` times. While it holds the mutex,
/// each traces how often it was taken before. Prints how often it was taken.
///
/// The pause outside lets the other thread take the mutex meanwhile. The mutex is therefore mostly free when a
/// thread locks it, but in the other core's cache: the processor goes on speculatively while it waits for it. A
/// counter that is not read in order is then read too early.
pub fn handover(count: u64) {
    struct Held {
        taken: u64,
        handed_over: u64,
        last: usize,
    }
    let mutex = Mutex::new(Held { taken: 0, handed_over: 0, last: 0 });
    let play = |me: usize| {
        let mut alone = 0;
        loop {
            let mut held = mutex.lock().expect("nobody panics");
            if held.handed_over >= count {
                return;
            }
            Tracer::get().trace(format_args!("{}", held.taken));
            held.taken += 1;
            let handed_over = held.last != me;
            held.handed_over += u64::from(handed_over);
            held.last = me;
            drop(held);
            // If both run on one processor, the other thread has to get its turn.
            alone = if handed_over { 0 } else { alone + 1 };
            if alone > 10 {
                std::thread::yield_now();
            }
            (0..20).for_each(|_| std::hint::spin_loop());
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| play(0));
        scope.spawn(|| play(1));
    });
    println!("{}", mutex.into_inner().expect("nobody panics").taken);
}

/// Runs `count` threads, 50 alive at a time, each with two records; prints the numbers of descriptors and rings
/// that are left, and the greatest number of rings.
pub fn short_lived(count: u64) {
    const AT_ONCE: u64 = 50;
    let facts = || {
        let stats = Tracer::get().stats();
        (open_files(), stats.shared_rings + stats.private_rings)
    };
    let mut most_rings = 0;
    for batch in 0..count / AT_ONCE {
        let all = Barrier::new(AT_ONCE as usize);
        std::thread::scope(|scope| {
            for i in 0..AT_ONCE {
                let all = &all;
                scope.spawn(move || {
                    Tracer::get().trace(format_args!("first {}", batch * AT_ONCE + i));
                    all.wait();
                    Tracer::get().trace(format_args!("last {}", batch * AT_ONCE + i));
                });
            }
        });
        most_rings = most_rings.max(facts().1);
    }
    Tracer::get().flush().expect("a flush");
    let (descriptors, rings) = facts();
    println!("descriptors {descriptors} rings {rings} most {most_rings}");
}

/// Runs `count` threads one after the other, each with `records` records without a pause. Before each one begins, the
/// flusher has done all its work.
pub fn one_by_one(count: u64, records: u64) {
    Tracer::get().trace(format_args!("main"));
    for thread in 0..count {
        Tracer::get().flush().expect("a flush");
        let record = |n| Tracer::get().trace(format_args!("thread {thread} record {n}"));
        std::thread::scope(|scope| scope.spawn(|| (0..records).for_each(record)).join()).expect("no panic");
    }
}

/// Returns the number of descriptors that this process has.
#[cfg(unix)]
fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("a list of descriptors").count()
}

/// Returns the number of handles of all kinds that this process has.
#[cfg(windows)]
fn open_files() -> usize {
    unsafe extern "system" {
        fn GetCurrentProcess() -> *mut std::ffi::c_void;
        fn GetProcessHandleCount(process: *mut std::ffi::c_void, count: *mut u32) -> i32;
    }
    let mut count = 0;
    // SAFETY: the handle is this process's own; the result is plain memory.
    assert_ne!(unsafe { GetProcessHandleCount(GetCurrentProcess(), &raw mut count) }, 0);
    count as usize
}

/// Starts `count` threads at the same moment. Each traces 20 records, and stays until all have traced. When they go
/// on after half of their records, each has its ring.
pub fn at_once(count: u64) {
    let (start, end) = (Barrier::new(count as usize), Barrier::new(count as usize));
    std::thread::scope(|scope| {
        for i in 0..count {
            let (start, end) = (&start, &end);
            let work = move || {
                start.wait();
                for n in 0..20 {
                    if n == 10 {
                        start.wait();
                    }
                    Tracer::get().trace(format_args!("thread {i} record {n}"));
                }
                end.wait();
            };
            let small = std::thread::Builder::new().stack_size(128 * 1024);
            small.spawn_scoped(scope, work).expect("a thread");
        }
    });
    println!("lost {}", Tracer::get().stats().lost);
}

#[cfg(unix)]
struct EndsItsThread;

#[cfg(unix)]
impl std::fmt::Display for EndsItsThread {
    fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // SAFETY: the call ends this thread as `pthread_cancel` would, without unwinding.
        unsafe { libc::syscall(libc::SYS_exit, 0) };
        Ok(())
    }
}

/// Ends a thread inside a record, without any of its exit handlers; other threads take its ring afterwards.
#[cfg(unix)]
pub fn left_mark() {
    let task = |tid: libc::pid_t| std::path::PathBuf::from(format!("/proc/self/task/{tid}"));
    let (send, receive) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        // SAFETY: the call only returns an id, and touches no memory.
        send.send(unsafe { libc::gettid() }).expect("main waits");
        Tracer::get().trace(format_args!("its last whole record"));
        Tracer::get().trace(format_args!("{EndsItsThread}"));
    });
    let tid = receive.recv().expect("its id");
    while task(tid).exists() {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    // The flusher checks once a second whether threads still exist.
    std::thread::sleep(std::time::Duration::from_millis(1500));
    for _ in 0..20 {
        let next = std::thread::spawn(|| {
            for n in 0..500 {
                Tracer::get().trace(format_args!("next {n}"));
            }
        });
        next.join().expect("its end");
    }
    println!("lost {}", Tracer::get().stats().lost);
}

/// Runs eight threads that trace `count` records each as fast as they can, with lines of all sorts.
pub fn many(count: u64) {
    std::thread::scope(|scope| {
        for i in 0..8u64 {
            scope.spawn(move || {
                for n in 0..count {
                    match n % 7 {
                        0 => Tracer::get().trace(format_args!("thread {i}\nrecord {n}")),
                        1 => Tracer::get().trace(format_args!("")),
                        _ => Tracer::get().trace(format_args!("thread {i} record {n} {:?}", "\u{1b}[31m")),
                    }
                }
            });
        }
    });
}

/// Traces `count` records on the main thread and on another one that stays alive.
pub fn trace_on_two_threads(count: u64) {
    let (done, wait) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        (0..count).for_each(|n| Tracer::get().trace(format_args!("other {n}")));
        done.send(()).expect("main waits");
        loop {
            std::thread::park();
        }
    });
    (0..count).for_each(|n| Tracer::get().trace(format_args!("main {n}")));
    wait.recv().expect("the other thread has traced");
}

/// Traces, prints "ready", and lives until it is killed, or for a minute after its test has ended.
pub fn held(count: u64) {
    trace_on_two_threads(count);
    say("ready");
    let _ = hear();
    std::thread::sleep(std::time::Duration::from_secs(60));
}

/// Traces `count` records, many times the capacity of its ring, and then prints the number of runs in memory.
pub fn trace_beside_dead_run(count: u64) {
    (0..count).for_each(|n| Tracer::get().trace(format_args!("beside the dead {n}")));
    let runs = std::env::var_os("TRACER_RUNTIME_DIR").expect("the directory of rings");
    say(&std::fs::read_dir(runs).expect("a directory").count().to_string());
}
