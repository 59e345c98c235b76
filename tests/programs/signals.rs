//! Signals: handlers that trace, wherever they interrupt the program, and signals for which the program waits.

use crate::host::{hear, say};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use support::scenarios::Scenario;
use tracer::Tracer;

pub const SCENARIOS: &[Scenario] = &[
    ("sigwait", |_| sigwait()),
    ("storm", |args| storm(args.number(0))),
    #[cfg(target_arch = "x86_64")]
    ("first-stepped", |args| first_stepped(args.number(0))),
    ("errno", |_| errno()),
    ("fault", |args| fault(args.text(0))),
    ("stepped", |args| stepped(args.text(0))),
    ("held-inside", |args| held_inside(args.number(0))),
];

/// Installs `handler` for `signal`, which is blocked while the handler runs. The handler runs on the thread's
/// alternate stack, if there is one.
pub fn handle(signal: libc::c_int, handler: extern "C" fn(libc::c_int)) {
    // SAFETY: the handlers of this file only trace, store to atomics and make calls that handlers may make.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_RESTART | libc::SA_ONSTACK;
        assert_eq!(libc::sigaction(signal, &action, std::ptr::null_mut()), 0);
    }
}

/// Blocks SIGTERM after its first record and waits for it.
pub fn sigwait() {
    Tracer::get().trace(format_args!("the first record"));
    let mut signal = 0;
    // SAFETY: the set is plain memory, initialised before it is read.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, libc::SIGTERM);
        libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
        say("ready");
        assert_eq!(libc::sigwait(&set, &mut signal), 0);
    }
    Tracer::get().trace(format_args!("signal {signal} was waited for"));
}

static HANDLED: AtomicU64 = AtomicU64::new(0);

extern "C" fn traces(_: libc::c_int) {
    let n = HANDLED.load(Ordering::Relaxed);
    Tracer::get().trace(format_args!("handler {n}"));
    HANDLED.store(n + 1, Ordering::Release);
}

/// A value whose formatting takes its time and writes the number of signals that were handled before and
/// after.
struct Slow(Duration);

impl fmt::Display for Slow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "from {} ", HANDLED.load(Ordering::Relaxed))?;
        let start = Instant::now();
        while start.elapsed() < self.0 {
            std::hint::spin_loop();
        }
        write!(f, "to {}", HANDLED.load(Ordering::Relaxed))
    }
}

/// Raises a signal at this interval; raises none for 0.
fn set_timer(every: Duration) {
    let every = libc::timeval { tv_sec: 0, tv_usec: libc::suseconds_t::from(every.subsec_micros()) };
    let timer = libc::itimerval { it_interval: every, it_value: every };
    // SAFETY: the timer is plain memory.
    assert_eq!(unsafe { libc::setitimer(libc::ITIMER_REAL, &timer, std::ptr::null_mut()) }, 0);
}

/// Traces slow and quick records while at least `count` signals, one each 100 µs, interrupt it with a handler that
/// traces. Prints the numbers of records and signals, and the milliseconds that it took.
pub fn storm(count: u64) {
    handle(libc::SIGALRM, traces);
    Tracer::get().trace(format_args!("main 0 from 0 to 0"));
    let (start, mut records) = (Instant::now(), 1u64);
    set_timer(Duration::from_micros(100));
    loop {
        let handled = HANDLED.load(Ordering::Relaxed);
        if handled >= count {
            break;
        }
        // If signals come more slowly, fewer records suffice.
        if records < 60 * (handled + 50) {
            let time = Duration::from_micros(if records.is_multiple_of(50) { 100 } else { 0 });
            Tracer::get().trace(format_args!("main {records} {}", Slow(time)));
            records += 1;
        }
    }
    set_timer(Duration::ZERO);
    println!("{records} {} {}", HANDLED.load(Ordering::Relaxed), start.elapsed().as_millis());
}

/// Runs `count` threads, one after the other, which each make a first record. A handler that traces interrupts
/// thread n after its n-th instruction. Prints the number of handlers that have traced.
#[cfg(target_arch = "x86_64")]
pub fn first_stepped(count: u64) {
    use std::cell::Cell;
    const TRAP: i64 = 0x100;
    thread_local! {
        static STEPS: Cell<u64> = const { Cell::new(0) };
    }
    extern "C" fn steps(_: libc::c_int, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
        STEPS.set(STEPS.get().wrapping_sub(1));
        if STEPS.get() == 0 {
            // SAFETY: this is the context that the system hands to a handler; without the flag there are no further
            // traps.
            unsafe {
                (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs[libc::REG_EFL as usize] &= !TRAP;
            }
            Tracer::get().trace(format_args!("handler"));
            HANDLED.fetch_add(1, Ordering::Relaxed);
        }
    }
    // SAFETY: the handler traces, and stores to memory of its own thread.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = steps as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        assert_eq!(libc::sigaction(libc::SIGTRAP, &action, std::ptr::null_mut()), 0);
    }
    Tracer::get().trace(format_args!("main"));
    for n in 1..=count {
        let thread = std::thread::spawn(move || {
            STEPS.set(n);
            // SAFETY: the processor traps after each instruction from here on, until the handler or the code below
            // ends that.
            unsafe { std::arch::asm!("pushfq", "or qword ptr [rsp], 0x100", "popfq") };
            Tracer::get().trace(format_args!("first"));
            // SAFETY: as above.
            unsafe { std::arch::asm!("pushfq", "and qword ptr [rsp], -0x101", "popfq") };
        });
        thread.join().expect("its end");
    }
    println!("{}", HANDLED.load(Ordering::Relaxed));
}

/// Checks that two things leave `errno` unchanged: the first record, in a directory that is gone, and a wait for
/// room that a signal interrupts.
pub fn errno() {
    let errno = || {
        // SAFETY: the location is this thread's own.
        unsafe { libc::__errno_location() }
    };
    let trace = |text: &str| {
        // SAFETY: the reason is the same as above.
        unsafe { *errno() = 4711 };
        Tracer::get().trace(format_args!("{text}"));
        // SAFETY: the reason is the same as above.
        assert_eq!(unsafe { *errno() }, 4711, "{text}");
    };
    let gone = tempfile::tempdir().expect("a directory");
    std::env::set_current_dir(gone.path()).expect("it can be entered");
    drop(gone);
    trace("the first record");
    extern "C" fn nothing(_: libc::c_int) {}
    handle(libc::SIGUSR1, nothing);
    // SAFETY: the call only returns an id, and touches no memory.
    let target = unsafe { libc::pthread_self() };
    static DONE: AtomicBool = AtomicBool::new(false);
    let sender = std::thread::spawn(move || {
        while !DONE.load(Ordering::Relaxed) {
            // SAFETY: the main thread lives as long as this one: it joins it.
            unsafe { libc::pthread_kill(target, libc::SIGUSR1) };
            std::thread::sleep(Duration::from_micros(50));
        }
    });
    let long = "x".repeat(4000);
    (0..1000).for_each(|_| trace(&long));
    DONE.store(true, Ordering::Relaxed);
    sender.join().expect("its end");
    println!("{}", Tracer::get().stats().stalls);
}

struct Faults;

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("half of it and then")?;
        // SAFETY: nothing is there; the fault is the purpose of this read.
        let nothing = unsafe { std::ptr::without_provenance::<u8>(16).read_volatile() };
        write!(f, "{nothing}")
    }
}

/// Faults inside of a message, with a handler that traces and then lets the fault kill the process. `stack` names
/// the stack on which the handler runs.
pub fn fault(stack: &str) {
    extern "C" fn last_words(signal: libc::c_int) {
        Tracer::get().trace(format_args!("last words, signal {signal}"));
        // SAFETY: both functions may be called in a handler.
        unsafe {
            libc::signal(signal, libc::SIG_DFL);
            libc::raise(signal);
        }
    }
    // SAFETY: the stack is an alternate one, or none; its memory is never freed.
    unsafe {
        let mut alternate: libc::stack_t = std::mem::zeroed();
        alternate.ss_flags = libc::SS_DISABLE;
        if stack == "alternate" {
            let memory = Box::leak(vec![0u8; 1 << 16].into_boxed_slice());
            alternate.ss_flags = 0;
            alternate.ss_sp = memory.as_mut_ptr().cast();
            alternate.ss_size = memory.len();
        }
        assert_eq!(libc::sigaltstack(&alternate, std::ptr::null_mut()), 0);
    }
    handle(libc::SIGSEGV, last_words);
    (0..100).for_each(|n| Tracer::get().trace(format_args!("before {n}")));
    Tracer::get().trace(format_args!("{Faults}"));
}

/// Stops before each record, `outer <n>`, until SIGUSR2 comes; SIGUSR1 traces `handler <n>`. `how` is
/// "short", "long" (each record begins a block of a small ring) or "captured" (its arguments are not
/// formatted here).
pub fn stepped(how: &str) {
    static DONE: AtomicBool = AtomicBool::new(false);
    extern "C" fn ends(_: libc::c_int) {
        DONE.store(true, Ordering::Relaxed);
    }
    handle(libc::SIGUSR1, traces);
    handle(libc::SIGUSR2, ends);
    let (text, captured) = (if how == "long" { "x".repeat(1200) } else { String::new() }, how == "captured");
    let trace = |n: u64| match captured {
        true => tracer::trace!("outer {n} {}", 7),
        false => Tracer::get().trace(format_args!("outer {n} {text}")),
    };
    // Before the test examines a record, the thread has a ring, and the site has its number.
    for n in 0..2 {
        trace(n);
        Tracer::get().flush().expect("a flush");
    }
    let mut n = 2;
    loop {
        // SAFETY: the call stops this thread, and its ptrace tracer continues it.
        unsafe { libc::raise(libc::SIGSTOP) };
        if DONE.load(Ordering::Relaxed) {
            return;
        }
        trace(n);
        n += 1;
    }
}

/// The id of the thread that is inside of a record; 0 before that.
static INSIDE: AtomicU64 = AtomicU64::new(0);
static RELEASED: AtomicBool = AtomicBool::new(false);

/// A value whose formatting ends only when it is released.
struct Held;

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Tracer::get().trace(format_args!("inside before"));
        // SAFETY: the call only returns an id, and touches no memory. The id is not printed here: a thread that is
        // stopped while it prints holds the lock of stdout.
        INSIDE.store(unsafe { libc::gettid() }.cast_unsigned().into(), Ordering::Release);
        while !RELEASED.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        Tracer::get().trace(format_args!("inside after"));
        f.write_str("held")
    }
}

/// Runs a thread that stays inside of a record until it is released, and prints its id then. On request, other
/// threads trace `count` records each, and a flush follows.
pub fn held_inside(count: u64) {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            Tracer::get().trace(format_args!("before"));
            Tracer::get().trace(format_args!("{Held}"));
            Tracer::get().trace(format_args!("after"));
        });
        while INSIDE.load(Ordering::Acquire) == 0 {
            std::thread::yield_now();
        }
        say(&INSIDE.load(Ordering::Relaxed).to_string());
        let _ = hear();
        std::thread::scope(|others| {
            for thread in 0..2 {
                others.spawn(move || {
                    (0..count).for_each(|n| Tracer::get().trace(format_args!("other{thread} {n}")));
                });
            }
        });
        Tracer::get().flush().expect("a flush");
        say("flushed");
        let _ = hear();
        RELEASED.store(true, Ordering::Release);
    });
}
