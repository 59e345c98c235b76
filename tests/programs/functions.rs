//! Functions whose calls are recorded: on threads, in handlers and in messages, unwound, polled, forked.
//!
//! Each thread also prints a line, `THREAD|MARK|WHAT`, for each function that it enters or leaves, in order, so
//! that a test can compare.

use crate::host::die;
#[cfg(unix)]
use crate::signals::handle;
use std::fmt::{self, Write as _};
use std::future::Future;
use std::path::Path;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use support::scenarios::Scenario;
use support::words::words;
use tracer::{Tracer, scope, trace, traced};

pub const SCENARIOS: &[Scenario] = &[
    ("functions", |args| functions(args.number(0))),
    ("functions-everything", |args| everything(args.text(0))),
    ("functions-killed", |args| killed(args.text(0))),
    ("functions-unwound", |_| unwound()),
    ("functions-polled", |_| polled()),
    ("functions-in-one-line", |_| in_one_line()),
    ("functions-volume", |args| volume(args.number(0))),
    ("functions-placed", |_| from_known_lines()),
    ("functions-slowly", |args| {
        slowly(args.number(0), args.get(1).map_or(10, |ms| ms.parse().expect("a number")))
    }),
    ("functions-filtered", |_| with_filter()),
    ("functions-many", |args| many(args.number(0), args.get(1))),
    #[cfg(unix)]
    ("functions-inside", |_| inside_of_messages()),
    #[cfg(unix)]
    ("functions-forked", |_| forked()),
    #[cfg(unix)]
    ("libraries", |args| libraries(args.all())),
];

/// A list, for the test, of the functions that a thread has entered and left.
struct Diary {
    thread: String,
    lines: String,
}

impl Diary {
    fn new(thread: &str) -> Diary {
        Diary { thread: thread.into(), lines: String::new() }
    }

    fn note(&mut self, mark: char, what: impl fmt::Display) {
        writeln!(self.lines, "{}|{mark}|{what}", self.thread).expect("a string grows");
    }

    fn print(&self) {
        print!("{}", self.lines);
    }
}

/// Calls itself and other functions, `depth` deep; each call enters and leaves a scope.
fn nested(diary: &mut Diary, depth: u32) {
    let _scope = scope!();
    diary.note('>', "nested");
    for child in 0..depth.min(3) {
        if child == 1 {
            let _by_address = tracer::scope();
            diary.note('>', "0x");
            with_values(diary, depth, child);
            diary.note('<', "0x");
        }
        nested(diary, depth - 1);
    }
    diary.note('<', "nested");
}

/// Enters a scope that has a message.
fn with_values(diary: &mut Diary, depth: u32, child: u32) {
    let _scope = scope!("child {child} at {depth}");
    diary.note('>', "with_values");
    diary.note(':', format_args!("child {child} at {depth}"));
    diary.note('=', returns(depth));
    diary.note('<', "with_values");
}

/// Records a message with its argument, and one with its returned value.
#[traced(args)]
fn returns(depth: u32) -> u64 {
    u64::from(depth) + 1
}

/// Calls functions within functions on three threads, and prints the diary of each.
pub fn functions(depth: u64) {
    let work = move |name: &str| {
        let mut diary = Diary::new(name);
        for _ in 0..20 {
            nested(&mut diary, u32::try_from(depth).expect("a small number"));
        }
        diary
    };
    // From then on, sites have numbers, and their arguments are copied.
    work("main").print();
    Tracer::get().flush().expect("sites have their numbers");
    let threads = ["first", "second"].map(|name| {
        let thread = std::thread::Builder::new().name(name.into());
        thread.spawn(move || work(name)).expect("a thread")
    });
    for thread in threads {
        thread.join().expect("its end").print();
    }
}

/// Enters and leaves functions until it is killed. Counts each record whose call has returned in the file at
/// `path`.
pub fn killed(path: &str) {
    let counters = words(Path::new(path), 1);
    let count = &counters[0];
    loop {
        let by_address = tracer::scope();
        count.fetch_add(1, Ordering::Relaxed);
        let by_site = scope!();
        count.fetch_add(1, Ordering::Relaxed);
        drop(by_site);
        count.fetch_add(1, Ordering::Relaxed);
        drop(by_address);
        count.fetch_add(1, Ordering::Relaxed);
    }
}

/// The number of threads of [`everything`], and the depth of their recursion.
const THREADS: usize = 3;
const DEPTH: u32 = 5;

/// Enters and leaves functions on several threads, recursively, until it is killed; panics that are caught further
/// out leave some of them. Counts, for each thread, the entered calls of `recursive` and of `work_once` in the file
/// at `path`.
pub fn everything(path: &str) {
    let counters = words(Path::new(path), 2 * THREADS);
    std::panic::set_hook(Box::new(|_| {}));
    let work = |thread: usize| {
        let (recursions, works) = (&counters[2 * thread], &counters[2 * thread + 1]);
        let mut turn = 0;
        move || loop {
            turn += 1;
            let _ = std::panic::catch_unwind(|| work_once(recursions, works, turn % 50 == 0));
        }
    };
    let threads =
        (0..THREADS).map(|thread| std::thread::Builder::new().name(format!("{thread}")).spawn(work(thread)));
    for thread in threads.collect::<Vec<_>>() {
        let _ = thread.expect("a thread").join();
    }
}

#[inline(never)]
fn work_once(recursions: &AtomicU64, works: &AtomicU64, panics: bool) {
    let _scope = tracer::scope();
    works.fetch_add(1, Ordering::Relaxed);
    recursive(recursions, DEPTH, panics);
}

#[traced]
#[inline(never)]
fn recursive(recursions: &AtomicU64, depth: u32, panics: bool) {
    recursions.fetch_add(1, Ordering::Relaxed);
    match depth {
        1 if panics => panic!("as the test wants"),
        1 => {}
        _ => recursive(recursions, depth - 1, panics),
    }
}

#[cfg(unix)]
static HANDLED: AtomicU64 = AtomicU64::new(0);

/// Formats values that enter and leave a function, and is interrupted by handlers that do so, too; prints the
/// number of scopes of each kind.
#[cfg(unix)]
pub fn inside_of_messages() {
    extern "C" fn handler(_: libc::c_int) {
        let _scope = scope!();
        HANDLED.fetch_add(1, Ordering::Relaxed);
    }
    struct Traces;
    impl fmt::Display for Traces {
        #[traced]
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            // SAFETY: the signal is handled on this thread, before the call returns.
            assert_eq!(unsafe { libc::raise(libc::SIGUSR1) }, 0);
            f.write_str("traced inside")
        }
    }
    fn messages() {
        let _scope = scope!("outer {}", Traces);
        Tracer::get().trace(format_args!("message {Traces}"));
    }
    handle(libc::SIGUSR1, handler);
    for _ in 0..100 {
        messages();
    }
    println!("{} {} {}", 100, 200, HANDLED.load(Ordering::Relaxed));
}

/// Unwinds functions by a panic; a destructor on the way enters and leaves one.
pub fn unwound() {
    struct Cleans;
    impl Drop for Cleans {
        #[traced]
        fn drop(&mut self) {}
    }
    #[traced(args)]
    fn inner(n: u32) -> u32 {
        let _cleans = Cleans;
        let _by_address = tracer::scope();
        assert!(n > 3, "as the test wants");
        n
    }
    #[traced]
    fn outer() {
        inner(2);
    }
    std::panic::set_hook(Box::new(|_| {}));
    let _scope = scope!();
    assert!(std::panic::catch_unwind(outer).is_err());
    assert_eq!(inner(5), 5);
}

/// Forks a child inside of a function; both leave it.
#[cfg(unix)]
pub fn forked() {
    let scope = scope!("before the fork");
    // SAFETY: the child only traces, waits for no other thread, and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let inner = scope!("in the child");
        drop((inner, scope));
        std::process::exit(0);
    }
    let mut status = 0;
    // SAFETY: the call waits for a child of this process.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0);
    drop(scope);
}

/// Becomes ready at the given poll.
async fn ready_at(poll: u32) {
    let mut polls = 0;
    std::future::poll_fn(|_| {
        polls += 1;
        if polls < poll { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
}

#[traced(args)]
async fn task(name: &'static str, polls: u32) -> usize {
    ready_at(polls).await;
    name.len()
}

#[traced]
async fn panics() {
    ready_at(2).await;
    panic!("as the test wants");
}

fn poll<F: Future>(future: &mut Pin<Box<F>>) -> Poll<F::Output> {
    future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

/// Polls futures: one on two threads in turn, one that is dropped in between, one that is leaked, one that
/// panics, and one that is never polled at all.
pub fn polled() {
    std::panic::set_hook(Box::new(|_| {}));
    let mut moves = Box::pin(task("moves", 3));
    assert!(poll(&mut moves).is_pending());
    let thread = std::thread::Builder::new().name("other".into());
    let thread = thread.spawn(move || {
        assert!(poll(&mut moves).is_pending());
        moves
    });
    let mut moves = thread.expect("a thread").join().expect("its end");
    assert_eq!(poll(&mut moves), Poll::Ready(5));
    drop(moves);
    let mut dropped = Box::pin(task("dropped", 3));
    assert!(poll(&mut dropped).is_pending());
    drop(dropped);
    let mut leaked = Box::pin(task("leaked", 3));
    assert!(poll(&mut leaked).is_pending());
    std::mem::forget(leaked);
    let mut fails = Box::pin(panics());
    assert!(poll(&mut fails).is_pending());
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| poll(&mut fails))).is_err());
    drop(fails);
    drop(task("never polled", 1));
    let mut never = pin!(task("at once", 1));
    assert!(never.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready());
}

/// Makes two guards, in one line of the source; even their column is the same.
macro_rules! two_guards {
    () => {
        (scope!(), scope!())
    };
}

/// Drops guards that were made in one line: first in the order in which they were made, then the last one first.
pub fn in_one_line() {
    for in_order in [true, false] {
        let (one, other) = two_guards!();
        trace!("both");
        let (first, last) = if in_order { (one, other) } else { (other, one) };
        drop(first);
        trace!("one");
        drop(last);
    }
}

/// A module that a filter can name.
mod filtered {
    use super::{scope, traced};

    pub fn by_macro(evaluated: &mut u32) {
        let _scope = scope!("argument {}", {
            *evaluated += 1;
            *evaluated
        });
    }

    #[traced(args)]
    pub fn by_attribute(n: u32) -> u32 {
        n
    }

    #[traced]
    pub async fn polled() {}
}

/// Calls, twice, functions of a module that a filter may leave out; prints the number of evaluated arguments.
pub fn with_filter() {
    let mut evaluated = 0;
    for _ in 0..2 {
        let _here = scope!();
        filtered::by_macro(&mut evaluated);
        filtered::by_attribute(1);
        assert!(poll(&mut Box::pin(filtered::polled())).is_ready());
        let _ = Tracer::get().flush();
    }
    println!("{evaluated}");
}

/// Enters and leaves functions `calls` times, more than a ring or a limited file holds; traces that number at the
/// end, and is killed if `end` is "killed".
pub fn many(calls: u64, end: Option<&str>) {
    for n in 0..calls {
        let _by_address = tracer::scope();
        let _by_site = scope!("call {n}");
    }
    trace!("called {calls} times");
    if end == Some("killed") {
        // By then, the woken flusher has written the data that readers need.
        std::thread::sleep(std::time::Duration::from_millis(100));
        die();
    }
}

/// Enters and leaves functions `calls` times on four threads, up to eight inside of each other, half of them by
/// address. The times of `tree` and `report` are measured with this program.
pub fn volume(calls: u64) {
    #[inline(never)]
    fn by_address(depth: u64) {
        let _scope = tracer::scope();
        if depth > 1 {
            by_site(depth - 1);
        }
    }
    #[inline(never)]
    fn by_site(depth: u64) {
        let _scope = scope!();
        if depth > 1 {
            by_address(depth - 1);
        }
    }
    std::thread::scope(|threads| {
        for _ in 0..4 {
            threads.spawn(|| (0..calls / 32).for_each(|_| by_address(8)));
        }
    });
}

/// Enters and leaves a function with each of these libraries loaded, one after the other, and before, between and
/// after them. Prints the lines of `/proc/self/maps` for each library's code.
#[cfg(unix)]
pub fn libraries(paths: &[String]) {
    let step = || {
        drop(tracer::scope());
        Tracer::get().flush().expect("the flusher has looked");
    };
    step();
    for path in paths {
        let name = std::ffi::CString::new(path.as_str()).expect("a path without NUL");
        // SAFETY: this is a shared object of this workspace, whose constructors do nothing.
        let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        assert!(!library.is_null(), "{path} can be loaded");
        step();
        let maps = std::fs::read_to_string("/proc/self/maps").expect("what is mapped");
        let is_code = |line: &&str| line.contains(" r-xp ") && line.ends_with(path.as_str());
        maps.lines().filter(is_code).for_each(|line| println!("{line}"));
        // SAFETY: nothing of the library is in use.
        assert_eq!(unsafe { libc::dlclose(library) }, 0);
    }
    step();
}

/// Makes a call, and prints it with its line.
macro_rules! told {
    ($call:expr) => {{
        println!("{} {}", stringify!($call), line!());
        $call
    }};
}

/// Functions that are called from known lines, each entered in another way.
mod placed {
    use std::hint::black_box;
    use tracer::{scope, traced};

    #[inline(never)]
    pub fn by_address(n: u32) -> u32 {
        let _scope = tracer::scope();
        black_box(n)
    }

    #[inline(never)]
    pub fn by_site(n: u32) -> u32 {
        let _scope = scope!("with a message {n}");
        black_box(n)
    }

    #[traced(args)]
    #[inline(never)]
    pub fn by_attribute(n: u32) -> u32 {
        black_box(n)
    }

    #[inline(always)]
    pub fn inlined_by_address(n: u32) -> u32 {
        let _scope = tracer::scope();
        black_box(n)
    }

    #[inline(always)]
    pub fn inlined_by_site(n: u32) -> u32 {
        let _scope = scope!();
        black_box(n)
    }

    #[inline(never)]
    pub fn generic<T: Into<u64>>(value: T) -> u64 {
        let _scope = tracer::scope();
        black_box(value.into())
    }

    #[inline(never)]
    pub fn recursive(n: u32) -> u32 {
        let _scope = tracer::scope();
        let below = if n == 0 { 0 } else { told!(recursive(n - 1)) };
        black_box(below + 1)
    }
}

/// Calls functions, and prints each call with its line; records a call stack at the end.
pub fn from_known_lines() {
    use placed::{
        by_address, by_attribute, by_site, generic, inlined_by_address, inlined_by_site, recursive,
    };
    told!(by_address(1));
    told!(by_site(1));
    told!(by_attribute(1));
    told!(inlined_by_address(1));
    told!(inlined_by_site(1));
    told!(generic(7u8));
    told!(generic(7u32));
    told!(recursive(3));
    told!(by_address(2));
    Tracer::get().stack();
}

/// Calls a function that sleeps for `ms` milliseconds; prints the nanoseconds of all calls, as measured inside of the
/// scopes and around them.
pub fn slowly(calls: u64, ms: u64) {
    #[inline(never)]
    fn slow(ms: u64) -> std::time::Duration {
        let _scope = tracer::scope();
        let begin = std::time::Instant::now();
        trace!("slow");
        std::thread::sleep(std::time::Duration::from_millis(ms));
        begin.elapsed()
    }
    let (mut inside, mut around) = (0, 0);
    for _ in 0..calls {
        let begin = std::time::Instant::now();
        inside += slow(ms).as_nanos();
        around += begin.elapsed().as_nanos();
    }
    println!("{inside} {around}");
}
