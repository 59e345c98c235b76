//! Calls functions, some of which panic, on several threads; prints how often each was called.
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

macros::make_answer!();

static FIB: AtomicU64 = AtomicU64::new(0);
static FAILS: AtomicU64 = AtomicU64::new(0);
static CATCHES: AtomicU64 = AtomicU64::new(0);
static AFTER: AtomicU64 = AtomicU64::new(0);

#[inline(never)]
fn fib(n: u64) -> u64 {
    FIB.fetch_add(1, Relaxed);
    // Otherwise the compiler would make a loop of the second call.
    if n < 2 { black_box(one)(n) } else { black_box(fib(n - 1)) + black_box(fib(n - 2)) }
}

#[inline(never)]
fn one(n: u64) -> u64 {
    n
}

#[inline(never)]
fn fails(left: u32) -> u32 {
    FAILS.fetch_add(1, Relaxed);
    if left == 0 {
        std::panic::panic_any("expected");
    }
    black_box(fails(left - 1)) + 1
}

#[inline(never)]
fn after() {
    AFTER.fetch_add(1, Relaxed);
    black_box(one)(1);
}

#[inline(never)]
fn catches(depth: u32) {
    CATCHES.fetch_add(1, Relaxed);
    assert!(std::panic::catch_unwind(|| fails(depth)).is_err());
    after();
}

fn main() {
    std::panic::set_hook(Box::new(|_| ()));
    let threads: Vec<_> = (0..4u64)
        .map(|number| {
            std::thread::spawn(move || {
                for turn in 0..20 {
                    catches(turn % 6);
                    fib(8 + number);
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    println!("{} {} {}", answer(), helper::doubled(4), env!("BUILT_WITH"));
    println!("more {}", cfg!(feature = "more"));
    for (name, count) in [("fib", &FIB), ("fails", &FAILS), ("catches", &CATCHES), ("after", &AFTER)] {
        println!("called the_app::{name} {}", count.load(Relaxed));
    }
    println!("called helper::doubled 1");
    println!("called helper::tripled {}", helper::tripled(1) / 3);
    std::process::exit(std::env::args().nth(1).map_or(0, |status| status.parse().unwrap()));
}
