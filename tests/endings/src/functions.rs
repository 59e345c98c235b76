//! A traced program whose functions are entered and left on several threads, also by panics, and which counts their
//! calls.
//!
//! For each function, it prints how often it was entered, its name without its path, and its place, as `tracemerge
//! report` shows it. Then it prints the functions of each stack that it has recorded on purpose. Names of functions
//! that were recorded by address come from debug information. It panics if an answer of `is_called_from` is wrong.
//! `functions crash` ends by an invalid access, which the tracer records at its request.
#![allow(clippy::print_stdout, clippy::expect_used, reason = "a test's program, which reports by printing")]

use std::future::{Future, poll_fn};
use std::hint::black_box;
use std::panic::catch_unwind;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::thread;

use tracer::{CalledFrom, Tracer, is_called_from, scope, trace, trace_stack, traced};

/// The number of threads beside the main one; a constant below is the number of turns of each.
const THREADS: usize = 3;
const TURNS: u32 = 40;
/// The depth of the recursion.
const DEPTH: u32 = 5;

/// A function: the number of its calls, and the line that reports name for it.
struct Known {
    name: &'static str,
    entered: AtomicU64,
    line: AtomicU64,
}

impl Known {
    const fn new(name: &'static str) -> Known {
        Known { name, entered: AtomicU64::new(0), line: AtomicU64::new(0) }
    }

    fn enter(&self, line: u32) {
        self.entered.fetch_add(1, Ordering::Relaxed);
        self.line.store(line.into(), Ordering::Relaxed);
    }
}

static WORK: Known = Known::new("work");
static INLINED: Known = Known::new("inlined");
static RECURSIVE: Known = Known::new("recursive");
static CLOSURE: Known = Known::new("{closure#0}");
static GENERIC: Known = Known::new("generic");

/// Runs one turn. The line table gives it the line of its scope.
#[inline(never)]
fn work(turn: u32) -> u32 {
    let _scope = tracer::scope();
    WORK.enter(line!() - 1);
    let closure = |turn: u32| {
        let _scope = tracer::scope();
        CLOSURE.enter(line!() - 1);
        turn + 1
    };
    recursive(DEPTH, turn.is_multiple_of(10));
    inlined(black_box(closure)(turn))
}

/// Has a name of its own, but no code of its own.
#[inline(always)]
fn inlined(turn: u32) -> u32 {
    let _scope = tracer::scope();
    INLINED.enter(line!() - 1);
    generic(turn) + generic(u64::from(turn)) as u32
}

#[inline(never)]
fn generic<T>(value: T) -> T {
    let _scope = scope!();
    GENERIC.enter(line!() - 1);
    black_box(value)
}

#[traced]
#[inline(never)]
fn recursive(depth: u32, panics: bool) {
    RECURSIVE.enter(line!() - 1);
    match depth {
        1 if panics => panic!("as the test wants"),
        1 => {}
        _ => recursive(depth - 1, panics),
    }
}

/// Records a stack after `depth` further calls of itself; `called` is the number of such calls up to now.
#[inline(never)]
fn inner(depth: u32, called: u32) -> u32 {
    if depth == 0 {
        trace_stack!("a stack");
        let by_itself = if called > 0 { CalledFrom::Yes } else { CalledFrom::No };
        for (function, expected) in
            [("inner", by_itself), ("outer", CalledFrom::Yes), ("work", CalledFrom::No)]
        {
            assert_eq!(is_called_from(&format!("functions::{function}")), expected, "{function}");
        }
        assert_eq!(tracer::is_called_from!(outer), CalledFrom::Yes);
        assert_eq!(tracer::is_called_from!(never_a_caller), CalledFrom::No);
        return black_box(1);
    }
    black_box(inner(depth - 1, called + 1)) + 1
}

#[inline(never)]
fn outer(depth: u32) -> u32 {
    // The prologue needs more than one instruction for a frame of this size.
    let room = black_box([depth; 3000]);
    black_box(inner(depth, 0)) + room[black_box(7)]
}

/// Calls no function, but no compiler knows that.
#[inline(never)]
fn never_a_caller() {
    if black_box(false) {
        black_box(outer(0));
    }
}

/// Waits `times` times for its next poll: a span that is idle in between.
#[traced]
async fn waits(times: u32) {
    for _ in 0..times {
        let mut is_ready = false;
        poll_fn(|_| if std::mem::replace(&mut is_ready, true) { Poll::Ready(()) } else { Poll::Pending })
            .await;
    }
}

/// Polls `future` until it is ready.
fn poll_to_end(future: impl Future<Output = ()>) {
    let mut future = pin!(future);
    while future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {}
}

/// Ends the process by an invalid access, two calls further in.
#[inline(never)]
fn crash(address: usize) -> u8 {
    #[allow(unsafe_code, reason = "this is what ends the process")]
    // SAFETY: none.
    let byte = unsafe { std::ptr::with_exposed_provenance::<u8>(black_box(address)).read_volatile() };
    black_box(byte)
}

#[inline(never)]
fn calls_crash(address: usize) -> u8 {
    black_box(crash(address)) + 1
}

fn main() {
    if std::env::args().nth(1).is_some_and(|argument| argument == "crash") {
        trace!("before the crash");
        Tracer::catch_signals();
        calls_crash(0x18);
    }
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    never_a_caller();
    let turns = || {
        for turn in 0..TURNS {
            let _ = catch_unwind(|| work(turn));
        }
    };
    turns();
    (1..4).for_each(|times| poll_to_end(waits(times)));
    let threads: Vec<_> = (0..THREADS)
        .map(|number| thread::Builder::new().name(format!("worker {number}")).spawn(turns).expect("a thread"))
        .collect();
    for thread in threads {
        thread.join().expect("its end");
    }
    std::panic::set_hook(usual);
    for depth in 0..4 {
        trace!("from main, {depth} deep");
        outer(depth);
    }
    thread::spawn(|| outer(2)).join().expect("its end");
    for known in [&WORK, &INLINED, &RECURSIVE, &CLOSURE, &GENERIC] {
        let (entered, line) = (known.entered.load(Ordering::Relaxed), known.line.load(Ordering::Relaxed));
        println!("{entered} {} functions.rs:{line}", known.name);
    }
    for depth in [0, 1, 2, 3, 2] {
        println!("stack {}outer ", "inner ".repeat(depth + 1));
    }
}
