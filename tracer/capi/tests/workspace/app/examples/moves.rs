//! Calls functions and leaves them in a way that Rust does not know, which the first argument names; prints how often
//! each was called.
use std::cell::UnsafeCell;
use std::ffi::{c_char, c_int, c_void, CString};
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

extern "C" {
    fn fork() -> c_int;
    fn waitpid(child: c_int, status: *mut c_int, options: c_int) -> c_int;
    fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
    fn dlclose(library: *mut c_void) -> c_int;
    fn signal(number: c_int, handler: extern "C" fn(c_int)) -> usize;
    fn raise(number: c_int) -> c_int;
    fn _setjmp(place: *mut Memory) -> c_int;
    fn longjmp(place: *mut Memory, value: c_int) -> !;
    fn getcontext(context: *mut Memory) -> c_int;
    fn makecontext(context: *mut Memory, start: extern "C" fn(), count: c_int, ...);
    fn swapcontext(from: *mut Memory, to: *mut Memory) -> c_int;
}

/// Room for the C library's state of a place in a program, a `jmp_buf` or a `ucontext_t`.
#[repr(C, align(64))]
struct Memory([u64; 256]);

struct Shared(UnsafeCell<Memory>);

// One thread uses them.
unsafe impl Sync for Shared {}

static BACK: Shared = Shared(UnsafeCell::new(Memory([0; 256])));
static OF_MAIN: Shared = Shared(UnsafeCell::new(Memory([0; 256])));
static OF_COROUTINE: Shared = Shared(UnsafeCell::new(Memory([0; 256])));

static COUNTS: [(&str, AtomicU64); 13] = [
    ("fib", AtomicU64::new(0)),
    ("jumps", AtomicU64::new(0)),
    ("around_jump", AtomicU64::new(0)),
    ("coroutine", AtomicU64::new(0)),
    ("in_coroutine", AtomicU64::new(0)),
    ("resume", AtomicU64::new(0)),
    ("in_child", AtomicU64::new(0)),
    ("load", AtomicU64::new(0)),
    ("on_signal", AtomicU64::new(0)),
    ("in_handler", AtomicU64::new(0)),
    ("even", AtomicU64::new(0)),
    ("odd", AtomicU64::new(0)),
    ("deep", AtomicU64::new(0)),
];

fn count(name: &str) {
    let (_, count) = COUNTS.iter().find(|(counted, _)| *counted == name).expect("a counter");
    count.fetch_add(1, Relaxed);
}

fn print_counts() {
    for (name, count) in COUNTS.iter().filter(|(_, count)| count.load(Relaxed) > 0) {
        println!("called moves::{name} {}", count.load(Relaxed));
    }
}

#[inline(never)]
fn fib(n: u64) -> u64 {
    count("fib");
    if n < 2 { n } else { black_box(fib(n - 1)) + black_box(fib(n - 2)) }
}

#[inline(never)]
fn in_child() -> u64 {
    count("in_child");
    black_box(fib(7))
}

fn forks() {
    println!("{}", fib(6));
    if unsafe { fork() } == 0 {
        // From here on, count only the child's own calls.
        COUNTS.iter().for_each(|(_, count)| count.store(0, Relaxed));
        println!("{}", in_child());
        print_counts();
        std::process::exit(0);
    }
    let mut status = 0;
    unsafe { waitpid(-1, &mut status, 0) };
    println!("{status} {}", fib(5));
}

#[inline(never)]
fn jumps(depth: u64) -> u64 {
    count("jumps");
    if depth == 0 {
        unsafe { longjmp(BACK.0.get(), 1) }
    }
    black_box(jumps(depth - 1)) + 1
}

#[inline(never)]
fn around_jump() -> u64 {
    count("around_jump");
    // After the jump only values are used that are computed after it.
    if unsafe { _setjmp(BACK.0.get()) } == 0 {
        black_box(jumps(5));
    }
    black_box(fib(3))
}

#[inline(never)]
fn in_coroutine(turn: u64) {
    count("in_coroutine");
    black_box(fib(turn % 4));
    unsafe { swapcontext(OF_COROUTINE.0.get(), OF_MAIN.0.get()) };
}

extern "C" fn coroutine() {
    count("coroutine");
    for turn in 0.. {
        in_coroutine(black_box(turn));
    }
}

#[inline(never)]
fn resume(turn: u64) -> u64 {
    count("resume");
    unsafe { swapcontext(OF_MAIN.0.get(), OF_COROUTINE.0.get()) };
    black_box(fib(turn % 3))
}

fn coroutines() {
    // The position of the stack's address in `ucontext_t`; its length is two words later.
    const STACK: usize = 2;
    let stack = Vec::leak(vec![0_u64; 1 << 15]);
    let context = OF_COROUTINE.0.get();
    unsafe {
        getcontext(context);
        (*context).0[STACK] = stack.as_mut_ptr() as u64;
        (*context).0[STACK + 2] = 8 * stack.len() as u64;
        makecontext(context, coroutine, 0);
    }
    println!("{}", (0..50).map(resume).sum::<u64>());
}

#[inline(never)]
fn load(path: &str, turn: c_int) -> c_int {
    count("load");
    const NOW: c_int = 2;
    let (path, name) = (CString::new(path).unwrap(), CString::new("of_plugin").unwrap());
    unsafe {
        let plugin = dlopen(path.as_ptr(), NOW);
        let function = dlsym(plugin, name.as_ptr());
        assert!(!function.is_null(), "it is not loaded");
        let function = std::mem::transmute::<*mut c_void, extern "C" fn(c_int) -> c_int>(function);
        let result = function(-turn);
        dlclose(plugin);
        result
    }
}

#[inline(never)]
fn in_handler(number: c_int) -> u64 {
    count("in_handler");
    black_box(fib(number as u64 % 5))
}

extern "C" fn on_signal(number: c_int) {
    count("on_signal");
    black_box(in_handler(black_box(number)));
}

fn signals() {
    const SIGUSR1: c_int = 10;
    unsafe { signal(SIGUSR1, on_signal) };
    for turn in 0..200 {
        black_box(fib(turn % 5));
        unsafe { raise(SIGUSR1) };
    }
}

#[inline(never)]
fn even(left: u64) -> bool {
    count("even");
    if left == 0 { true } else { odd(left - 1) }
}

#[inline(never)]
fn odd(left: u64) -> bool {
    count("odd");
    if left == 0 { false } else { even(left - 1) }
}

#[inline(never)]
fn deep(left: u64) -> u64 {
    count("deep");
    let frame = black_box([left; 32]);
    black_box(deep(black_box(left + 1))) + frame[0]
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments[1].as_str() {
        "forks" => forks(),
        "jumps" => println!("{}", (0..100).map(|_| around_jump()).sum::<u64>()),
        "coroutines" => coroutines(),
        "plugins" => println!("{}", (0..20).map(|turn| load(&arguments[2], turn)).sum::<c_int>()),
        "signals" => signals(),
        // With optimization, these calls are jumps.
        "siblings" => println!("{}", even(black_box(1_000_000))),
        "overflows" => println!("{}", deep(0)),
        how => panic!("{how}"),
    }
    print_counts();
}
