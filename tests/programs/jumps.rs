//! A decision whether to trace that its thread does not end in time: a signal handler jumps out of it, as by
//! `siglongjmp`, or it takes seconds.

use crate::allocations;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use support::scenarios::Scenario;
use tracer::Tracer;

pub const SCENARIOS: &[Scenario] = &[("left-deciding", |args| left_deciding(args.text(0), args.number(1)))];

// `catching` calls a function and returns 0, or 1 if `jump_back` was called inside with the stack pointer that
// `catching` has stored. Rust knows no function that returns twice; this one returns once in either case.
std::arch::global_asm!(
    ".globl catching",
    ".hidden catching",
    "catching:",
    "push rbp",
    "push rbx",
    "push r12",
    "push r13",
    "push r14",
    "push r15",
    "sub rsp, 8",
    "mov [rsi], rsp",
    "call rdi",
    "xor eax, eax",
    "2:",
    "add rsp, 8",
    "pop r15",
    "pop r14",
    "pop r13",
    "pop r12",
    "pop rbx",
    "pop rbp",
    "ret",
    ".globl jump_back",
    ".hidden jump_back",
    "jump_back:",
    "mov rsp, rdi",
    "mov eax, 1",
    "jmp 2b",
);

unsafe extern "C" {
    fn catching(call: extern "C" fn(), stack: *mut usize) -> libc::c_int;
    fn jump_back(stack: usize) -> !;
}

/// The stack pointer that [`catching`] has stored.
static STACK: AtomicUsize = AtomicUsize::new(0);

extern "C" fn jumps(signal: libc::c_int) {
    // SAFETY: the code does the work of `siglongjmp`: it unblocks the signal, then abandons all calls since. No
    // lock of the C library is held when the handler is called: see `raise`.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, signal);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &set, std::ptr::null_mut());
        jump_back(STACK.load(Ordering::Relaxed));
    }
}

/// Raises the signal; the allocator calls this before it allocates.
fn raise() {
    // SAFETY: the handler is above.
    unsafe { libc::raise(libc::SIGUSR1) };
}

fn sleep() {
    std::thread::sleep(Duration::from_secs(3));
}

static BY_STARTUP: AtomicBool = AtomicBool::new(false);

extern "C" fn begin() {
    if BY_STARTUP.load(Ordering::Relaxed) {
        Tracer::get().startup("TRACED_BY_THIS");
    } else {
        Tracer::get().trace(format_args!("the first record"));
    }
}

/// Runs four threads that trace 50 records each after the barrier; returns the greatest number of slow calls of one
/// thread.
fn others(start: &Barrier) -> usize {
    let work = |thread: usize| {
        start.wait();
        let is_slow = |n: &usize| {
            let before = Instant::now();
            Tracer::get().trace(format_args!("thread {thread} record {n}"));
            before.elapsed() > Duration::from_millis(500)
        };
        (0..50).filter(is_slow).count()
    };
    std::thread::scope(|scope| {
        let threads = [0, 1, 2, 3].map(|thread| scope.spawn(move || work(thread)));
        threads.into_iter().map(|thread| thread.join().expect("its end")).max().unwrap_or(0)
    })
}

/// Begins a decision. At its `nth` allocation, `how` (`jump` or `sleep`) happens; with `-startup`, `startup` makes
/// the decision. Prints whether the decision came so far, and the greatest number of slow calls of one thread.
pub fn left_deciding(how: &str, nth: u64) {
    // SAFETY: the handler is a plain function.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = jumps as extern "C" fn(libc::c_int) as *const () as usize;
        assert_eq!(libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut()), 0);
    }
    BY_STARTUP.store(how.ends_with("-startup"), Ordering::Relaxed);
    let start = Barrier::new(5);
    std::thread::scope(|scope| {
        let others = scope.spawn(|| others(&start));
        if how.starts_with("jump") {
            allocations::at_allocation(nth, raise);
            // SAFETY: `begin` is left in the middle only by the handler, which jumps to the place that this
            // call has stored.
            let was_left = unsafe { catching(begin, STACK.as_ptr()) } == 1;
            allocations::at_allocation(0, raise);
            println!("left {was_left}");
            start.wait();
        } else {
            let waker = scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(100));
                start.wait();
            });
            allocations::at_allocation(nth, || {
                println!("slept");
                sleep();
            });
            begin();
            allocations::at_allocation(0, raise);
            waker.join().expect("its end");
        }
        let slow = |n: &usize| {
            let before = Instant::now();
            Tracer::get().trace(format_args!("main {n}"));
            before.elapsed() > Duration::from_millis(500)
        };
        let own = (0..50).filter(slow).count();
        println!("slow {}", own.max(others.join().expect("its end")));
    });
    println!("lost {}", Tracer::get().stats().lost);
}
