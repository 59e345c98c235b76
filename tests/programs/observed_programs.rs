//! Programs that are merged while they run.

use crate::host::die;
use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use support::scenarios::Scenario;
use support::words;
use tracer::Tracer;

pub const SCENARIOS: &[Scenario] = &[
    ("watched", |args| watched(args.text(0), args.get(1))),
    ("left-in-memory", |_| left_in_memory()),
    ("killed-when-flushed", |_| killed_when_flushed()),
    ("killed-behind-a-flush", |_| killed_behind_a_flush()),
];

/// The number of threads that trace.
pub const THREADS: usize = 8;

/// A value that traces while it is formatted. The formatting takes some time; if there is a word, until that is 1.
struct Inside<'a>(usize, u64, Option<&'a AtomicU64>);

impl fmt::Display for Inside<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Tracer::get().trace(format_args!("{} {} inside", self.0, self.1));
        loop {
            std::thread::sleep(Duration::from_micros(100));
            if self.2.is_none_or(|end| end.load(Ordering::Acquire) == 1) {
                break;
            }
        }
        f.write_str("outside")
    }
}

/// Traces numbered records on eight threads, as fast as they can, each until it has as many as the first word of
/// the file `words` says, and ends when the second word is 1. The other words count the calls that have returned.
///
/// With `manners` "plain", each message fits into a ring at once, and no record is made inside of another one; with
/// "stuck", the formatting of the eleventh record does not end before the program does.
pub fn watched(words: &str, manners: Option<&str>) {
    let words = words::words(Path::new(words), THREADS + 2);
    #[cfg(unix)]
    // SAFETY: the call touches no memory. The process that observes this one needs a processor, too.
    unsafe {
        libc::nice(5)
    };
    let (goal, end, plain) = (&words[0], &words[1], manners == Some("plain"));
    let until = (manners == Some("stuck")).then_some(end);
    let long = "long ".repeat(400);
    let longer = "longer ".repeat(3000);
    std::thread::scope(|scope| {
        for (thread, returned) in words[2..].iter().enumerate() {
            let (long, longer) = (&long, &longer);
            scope.spawn(move || {
                for n in 0u64.. {
                    while n >= goal.load(Ordering::Acquire) {
                        if end.load(Ordering::Acquire) == 1 {
                            return;
                        }
                        std::thread::sleep(Duration::from_micros(50));
                    }
                    match n % 500 {
                        7 | 107 | 207 => Tracer::get().trace(format_args!("{thread} {n} {long}")),
                        8 | 108 | 208 => Tracer::get().trace(format_args!("{thread} {n} \nand more\n")),
                        9 if !plain => Tracer::get().trace(format_args!("{thread} {n} {longer}")),
                        10 | 110 | 210 if !plain => {
                            Tracer::get().trace(format_args!("{thread} {n} {}", Inside(thread, n, until)));
                        }
                        _ => Tracer::get().trace(format_args!("{thread} {n}")),
                    }
                    returned.store(n + 1, Ordering::Release);
                    if end.load(Ordering::Relaxed) == 1 {
                        return;
                    }
                }
            });
        }
    });
    let stats = Tracer::get().stats();
    println!("records {} lost {}", stats.records, stats.lost);
}

/// Kills itself, and leaves threads of all sorts: one with a file and more records in its ring, one that has only a
/// ring, and one of each sort that has ended. A flight recorder surely leaves them; otherwise the flusher may come
/// first.
pub fn left_in_memory() {
    let thread = |name: &str, records: u64| {
        let name = name.to_owned();
        std::thread::Builder::new().name(name.clone()).spawn(move || {
            for n in 0..records {
                Tracer::get().trace(format_args!("{name} {n}\nand more"));
            }
        })
    };
    Tracer::get().trace(format_args!("flushed"));
    thread("early", 3).expect("a thread").join().expect("its end");
    Tracer::get().flush().expect("a flush");
    for n in 0..5 {
        Tracer::get().trace(format_args!("in the ring {n} {}", "long ".repeat(600)));
    }
    thread("late", 4).expect("a thread").join().expect("its end");
    let (tell, wait) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        Tracer::get().trace(format_args!("without a file"));
        tell.send(()).expect("somebody waits");
        loop {
            std::thread::park();
        }
    });
    wait.recv().expect("the thread has traced");
    die();
}

/// Kills itself when all records are in its files.
pub fn killed_when_flushed() {
    std::thread::spawn(|| Tracer::get().trace(format_args!("another thread"))).join().expect("its end");
    Tracer::get().trace(format_args!("flushed"));
    Tracer::get().flush().expect("a flush");
    die();
}

/// Kills itself when one thread's records are in its file, and another's are in memory only.
pub fn killed_behind_a_flush() {
    Tracer::get().trace(format_args!("flushed"));
    Tracer::get().flush().expect("a flush");
    let in_memory = || {
        Tracer::get().trace(format_args!("in memory"));
        die();
    };
    std::thread::spawn(in_memory).join().expect("its end");
}
