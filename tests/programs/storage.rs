//! Programs that trace while storage runs out: the disk, shared memory, descriptors.

use crate::host::die;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;
use support::scenarios::Scenario;
use tracer::Tracer;

pub const SCENARIOS: &[Scenario] = &[
    ("disk-full", |args| disk_full(args.get(0))),
    ("limited", |args| limited(args.number(0), args.get(1))),
    ("memory-full", |_| memory_full()),
    ("moved-away", |args| moved_away(args.text(0))),
    ("no-descriptors", |args| no_descriptors(args.get(0))),
];

/// A thread that traces numbered records on request.
struct Worker {
    go: Sender<u64>,
    done: Receiver<()>,
    thread: JoinHandle<()>,
}

impl Worker {
    fn new(id: u64) -> Worker {
        let (go, wait) = channel::<u64>();
        let (tell, done) = channel();
        let thread = std::thread::spawn(move || {
            let mut next = 0;
            for count in wait {
                for n in next..next + count {
                    Tracer::get().trace(format_args!("{id} {n} while storage runs out"));
                }
                next += count;
                tell.send(()).expect("main waits");
            }
        });
        Worker { go, done, thread }
    }

    /// Makes the thread trace `count` more records, and returns when it has.
    fn trace(&self, count: u64) {
        self.go.send(count).expect("the thread waits");
        self.done.recv().expect("the thread traces");
    }

    fn end(self) {
        drop(self.go);
        self.thread.join().expect("its end");
    }
}

/// A file that takes all the remaining room of a file system.
struct Filler(PathBuf);

impl Filler {
    /// Fills the file system of the directory that a variable names.
    fn of(variable: &str) -> Filler {
        let path = PathBuf::from(std::env::var_os(variable).expect(variable)).join("filler");
        let mut file = File::create(&path).expect("a file");
        for block in [vec![0; 64 * 1024], vec![0; 512], vec![0]] {
            while file.write(&block).is_ok_and(|written| written > 0) {}
        }
        Filler(path)
    }

    fn remove(self) {
        std::fs::remove_file(self.0).expect("a removal");
    }
}

fn print_flush() {
    match Tracer::get().flush() {
        Ok(()) => println!("flushed"),
        Err(error) => println!("error: {error}"),
    }
}

fn print_stats() {
    let stats = Tracer::get().stats();
    println!("records {} lost {}", stats.records, stats.lost);
}

/// Traces while the disk fills up, and when there is room again. `TRACER_DIR` is a file system of its own. Prints
/// the result of each flush. With "killed" or "exits", the program ends while the disk is full.
pub fn disk_full(how: Option<&str>) {
    let (ending, staying) = (Worker::new(0), Worker::new(1));
    ending.trace(10);
    staying.trace(10);
    print_flush();

    let filler = Filler::of("TRACER_DIR");
    // These threads have no file yet.
    let (ending_late, staying_late) = (Worker::new(2), Worker::new(3));
    for worker in [&ending, &staying, &ending_late, &staying_late] {
        worker.trace(400);
    }
    ending.end();
    ending_late.end();
    print_flush();
    print_flush();
    // The flusher retries on its own, twice a second. It must not succeed meanwhile, so there is no event to wait
    // for.
    std::thread::sleep(Duration::from_millis(1200));
    match how {
        Some("killed") => die(),
        Some("exits") => std::process::exit(0),
        _ => {}
    }

    filler.remove();
    print_flush();
    for worker in [&staying, &staying_late] {
        worker.trace(10);
    }
    staying.end();
    staying_late.end();
    print_flush();
    print_stats();
}

/// Traces while shared memory fills up, and when it is free again. `TRACER_RUNTIME_DIR` is a file system of its
/// own.
pub fn memory_full() {
    let mut workers: Vec<Worker> = Vec::new();
    let more = |workers: &mut Vec<Worker>| {
        for _ in 0..10 {
            workers.push(Worker::new(workers.len() as u64));
        }
        workers.iter().for_each(|worker| worker.trace(100));
    };
    more(&mut workers);
    let filler = Filler::of("TRACER_RUNTIME_DIR");
    more(&mut workers);
    filler.remove();
    more(&mut workers);
    workers.into_iter().for_each(Worker::end);
    print_stats();
}

/// Takes all descriptors, before its first record if `when` is "first", and gives them back.
pub fn no_descriptors(when: Option<&str>) {
    let limit = libc::rlimit { rlim_cur: 100, rlim_max: 100 };
    // SAFETY: the limit is plain memory.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) }, 0);
    let take_all = || -> Vec<File> { std::iter::from_fn(|| File::open("/dev/null").ok()).collect() };
    let mut taken = if when == Some("first") { take_all() } else { Vec::new() };
    let early = Worker::new(0);
    early.trace(10);
    if when != Some("first") {
        print_flush();
        taken = take_all();
    }
    let late: Vec<Worker> = (1..=12).map(Worker::new).collect();
    late.iter().chain([&early]).for_each(|worker| worker.trace(100));
    // The flusher may have closed a file that it cannot open any more.
    taken.extend(take_all());
    print_flush();
    drop(taken);
    print_flush();
    late.iter().chain([&early]).for_each(|worker| worker.trace(10));
    late.into_iter().chain([early]).for_each(Worker::end);
    print_stats();
}

/// Traces; puts a file in the place of `directory`, which contains its trace file; traces on another thread, whose
/// file goes elsewhere; traces some more, and is killed.
pub fn moved_away(directory: &str) {
    let before = |n: u32| Tracer::get().trace(format_args!("before {n}"));
    let behind = |n: u32| Tracer::get().trace(format_args!("behind {n}"));
    before(0);
    Tracer::get().flush().expect("a flush");
    let kept = format!("{directory}.kept");
    std::fs::rename(directory, &kept).expect("a new name");
    std::fs::write(directory, "").expect("a file in its place");
    let (tell, done) = channel();
    // The thread lives until the end: the flusher would write the last record of a thread that ends.
    std::thread::spawn(move || {
        behind(0);
        Tracer::get().flush().expect("a flush");
        behind(1);
        tell.send(()).expect("main waits");
        loop {
            std::thread::park();
        }
    });
    done.recv().expect("the thread's records");
    before(1);
    std::fs::remove_file(directory).expect("a removal");
    std::fs::rename(&kept, directory).expect("its name again");
    die();
}

/// Runs two threads that trace numbered records, some of them long, in a process that may not write files longer
/// than `limit` bytes. With "killed", the process is then killed.
pub fn limited(limit: u64, how: Option<&str>) {
    const RECORDS: u64 = 3000;
    let limit = libc::rlimit { rlim_cur: limit, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the limit is plain memory.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &limit) }, 0);
    let (tell, done) = channel();
    let killed = how == Some("killed");
    let work = |id: u64| {
        let tell = tell.clone();
        std::thread::spawn(move || {
            for n in 0..RECORDS {
                match n % 50 {
                    7 => Tracer::get().trace(format_args!("{id} {n} is {}", "long ".repeat(500))),
                    8 => Tracer::get().trace(format_args!("{id} {n} has\nlines\n")),
                    9 => Tracer::get().trace(format_args!("{id} {n}")),
                    _ => tracer::trace!("{} {} of {}", id, n, RECORDS),
                }
            }
            tell.send(()).expect("main waits");
            if killed {
                // Otherwise, the file would get the end of the thread.
                std::thread::sleep(Duration::from_secs(60));
            }
        })
    };
    let threads = [work(0), work(1)];
    done.iter().take(threads.len()).for_each(drop);
    if killed {
        die();
    }
    threads.into_iter().for_each(|thread| thread.join().expect("its end"));
}
