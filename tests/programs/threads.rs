//! Many threads: handing over, coming and going, all at once.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Barrier, Mutex};
use tracer::Tracer;

/// Two threads hand a mutex back and forth `count` times and trace the number of the hand-over inside.
pub fn handover(count: u64) {
    let turn = AtomicU64::new(0);
    let mutex = Mutex::new(0u64);
    let play = |me: u64| {
        loop {
            let now = turn.load(Ordering::Relaxed);
            if now >= count {
                return;
            }
            if now % 2 != me {
                std::hint::spin_loop();
                continue;
            }
            let mut held = mutex.lock().expect("nobody panics");
            if *held == now {
                Tracer::get().trace(format_args!("{now}"));
                *held += 1;
                drop(held);
                turn.store(now + 1, Ordering::Relaxed);
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| play(0));
        scope.spawn(|| play(1));
    });
}

/// `count` threads, 50 alive at a time, each with two records; prints what is left of rings and descriptors.
pub fn short_lived(count: u64) {
    const AT_ONCE: u64 = 50;
    let facts = || {
        let descriptors = std::fs::read_dir("/proc/self/fd").expect("a list of descriptors").count();
        let stats = Tracer::get().stats();
        (descriptors, stats.shared_rings + stats.private_rings)
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

/// Eight threads trace `count` records each as fast as they can, with lines of all sorts.
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
