//! The cost of a call on the traced thread, and the floors with which it is compared, such as a bare reading of the
//! clock, in one run.
//!
//! Every figure is the mean over bursts that fit in the ring, so it does not include the flusher's work: the program
//! waits for the flusher between bursts, off the clock. `single_calls` reports percentiles of calls that are timed
//! one by one.
//!
//! `by_turns` compares medians of bursts with those of the clock, for systems on which a flush takes so long that
//! there are few bursts, such as Wine.
//!
//! The command is `cargo bench --bench hot_path`; as a test: `cargo test --bench hot_path`.

use criterion::{Criterion, criterion_group, criterion_main};
use std::cell::RefCell;
use std::fmt::Write;
use std::hint::black_box;
use std::time::{Duration, Instant};
use tracer::{Clock, Tracer, scope, trace, traced};

/// A case: its name, and its call, which gets the number of the call.
type Case = (&'static str, fn(u64));

/// The number of calls of a burst, whose records are far fewer than a ring holds.
const BURST: u64 = 1000;

/// Returns the time that `iterations` calls of `call` take, in bursts with a flush after each burst. The flushes do not
/// count.
fn in_bursts(iterations: u64, mut call: impl FnMut(u64)) -> Duration {
    let mut left = iterations;
    let mut total = Duration::ZERO;
    while left > 0 {
        let now = left.min(BURST);
        let start = Instant::now();
        for i in 0..now {
            call(black_box(i));
        }
        total += start.elapsed();
        left -= now;
        let _ = Tracer::get().flush();
    }
    total
}

fn ordered() -> u64 {
    #[cfg(target_arch = "x86_64")]
    #[allow(unsafe_code, unused_unsafe)]
    // SAFETY: part of every x86-64 processor.
    unsafe {
        std::arch::x86_64::_mm_lfence();
        std::arch::x86_64::_rdtsc()
    }
    #[cfg(not(target_arch = "x86_64"))]
    quanta::Clock::new().raw()
}

fn plain() -> u64 {
    #[cfg(target_arch = "x86_64")]
    #[allow(unsafe_code, unused_unsafe)]
    // SAFETY: part of every x86-64 processor.
    unsafe {
        std::arch::x86_64::_rdtsc()
    }
    #[cfg(not(target_arch = "x86_64"))]
    quanta::Clock::new().raw()
}

/// A buffer on the stack, the cheapest target that `write!` can have.
struct Stack {
    bytes: [u8; 256],
    len: usize,
}

impl Write for Stack {
    #[inline]
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let to = self.bytes.get_mut(self.len..self.len + text.len()).ok_or(std::fmt::Error)?;
        to.copy_from_slice(text.as_bytes());
        self.len += text.len();
        Ok(())
    }
}

/// Does the work that is the floor of an enabled call: the same reading of the clock and the same `write!`, to a buffer
/// on the stack.
#[inline(never)]
fn floor(args: std::fmt::Arguments<'_>) {
    let ticks = ordered();
    let mut stack = Stack { bytes: [0; 256], len: 0 };
    let _ = match args.as_str() {
        Some(text) => stack.write_str(text),
        None => stack.write_fmt(args),
    };
    black_box((&stack.bytes, stack.len, ticks));
}

const FORTY: &str = "a string of exactly forty bytes, no more";

fn disabled(c: &mut Criterion) {
    Tracer::get().startup("HOT_PATH_BENCH_OFF");
    let mut group = c.benchmark_group("disabled");
    group.bench_function("empty loop", |b| b.iter(|| black_box(1u64)));
    group.bench_function("trace", |b| {
        b.iter(|| Tracer::get().trace(format_args!("A number {}", black_box(1u64))));
    });
    group.bench_function("trace!", |b| b.iter(|| trace!("A number {}", black_box(1u64))));
    group.bench_function("a function", |b| b.iter(|| untraced_function(black_box(1))));
    group.bench_function("a function with scope()", |b| b.iter(|| function_with_scope(black_box(1))));
    group.bench_function("a function with scope!", |b| b.iter(|| function_with_site(black_box(1))));
    group.bench_function("a function with #[traced]", |b| b.iter(|| traced_function(black_box(1))));
    group.finish();
}

fn clocks(c: &mut Criterion) {
    let mut group = c.benchmark_group("clock");
    let quanta = quanta::Clock::new();
    group.bench_function("ordered", |b| b.iter(|| black_box(ordered())));
    group.bench_function("plain", |b| b.iter(|| black_box(plain())));
    group.bench_function("quanta raw", |b| b.iter(|| black_box(quanta.raw())));
    group.finish();
}

/// Measures each case twice: as a floor, and as a record.
fn enabled(c: &mut Criterion) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    assert!(Tracer::builder().directory(directory.path()).ring_size(4 << 20).enable());
    let mut group = c.benchmark_group("enabled");
    macro_rules! case {
        ($name:literal, $i:ident, $($args:tt)*) => {
            group.bench_function(concat!($name, "/floor"), |b| {
                b.iter_custom(|n| in_bursts(n, |$i| floor(format_args!($($args)*))));
            });
            group.bench_function(concat!($name, "/trace"), |b| {
                b.iter_custom(|n| in_bursts(n, |$i| Tracer::get().trace(format_args!($($args)*))));
            });
        };
    }
    case!("fixed string", _i, "a fixed string");
    case!("one integer", i, "A number {}", i);
    case!("int int double", i, "Iteration: {} int: {} double: {}", i, i as u32 + 7, i as f64 / 3.0);
    case!("40-byte string", _i, "{}", black_box(FORTY));
    group.finish();
    single_calls(&[
        ("nothing", |_| {}),
        ("one integer", |i| Tracer::get().trace(format_args!("A number {i}"))),
    ]);
    let _ = Tracer::get().shutdown();
}

thread_local! {
    /// A text whose memory is used again: the usual target of `write!`.
    static TEXT: RefCell<String> = RefCell::new(String::with_capacity(256));
}

/// Measures messages that are formatted at the call, beside `write!` of the same arguments into a text whose memory is
/// used again, and literals beside `trace!` of the same literal. The difference to `write!` includes the reading of the
/// clock.
fn formatted(_: &mut Criterion) {
    let clocks = [("ordered", Clock::Ordered, ordered as fn() -> u64), ("fast", Clock::Fast, plain)];
    for (name, clock, read) in clocks {
        let directory = tempfile::tempdir().expect("a temporary directory");
        assert!(Tracer::builder().directory(directory.path()).ring_size(4 << 20).clock(clock).enable());
        let cases: [Case; 4] = [
            ("int int double by write!", |i| {
                TEXT.with_borrow_mut(|text| {
                    text.clear();
                    let double = i as f64 / 3.0;
                    let _ = write!(text, "Iteration: {} int: {} double: {}", i, i as u32 + 7, double);
                    black_box(text);
                });
            }),
            ("int int double by trace()", |i| {
                let double = i as f64 / 3.0;
                Tracer::get().trace(format_args!(
                    "Iteration: {} int: {} double: {}",
                    i,
                    i as u32 + 7,
                    double
                ));
            }),
            ("a literal by trace!", |_| trace!("a fixed string")),
            ("a literal by trace()", |_| Tracer::get().trace(format_args!("a fixed string"))),
        ];
        // The first call of `trace!` gives its site a number.
        cases.iter().for_each(|(_, call)| call(0));
        let _ = Tracer::get().flush();
        single_calls(&cases);
        by_turns(name, read, &cases);
        let _ = Tracer::get().shutdown();
    }
}

/// Measures `trace!`, which only copies its arguments, beside the clock that it reads. Each clock is measured in a run
/// of its own.
fn captured(c: &mut Criterion) {
    let clocks = [("ordered", Clock::Ordered, ordered as fn() -> u64), ("fast", Clock::Fast, plain)];
    for (name, clock, read) in clocks {
        let directory = tempfile::tempdir().expect("a temporary directory");
        assert!(Tracer::builder().directory(directory.path()).ring_size(4 << 20).clock(clock).enable());
        let mut group = c.benchmark_group(format!("captured, {name}"));
        let bare = |_| {
            black_box(read());
        };
        group.bench_function("clock", |b| b.iter_custom(|n| in_bursts(n, bare)));
        let cases: [Case; 3] = [
            ("fixed string", |_| trace!("a fixed string")),
            ("int int double", |i| {
                trace!("Iteration: {} int: {} double: {}", i, i as u32 + 7, i as f64 / 3.0);
            }),
            ("40-byte string", |_| trace!("{}", black_box(FORTY))),
        ];
        for (name, call) in cases {
            // The first call gives the site its number.
            call(0);
            let _ = Tracer::get().flush();
            group.bench_function(name, |b| b.iter_custom(|n| in_bursts(n, call)));
        }
        group.finish();
        single_calls(&cases);
        by_turns(name, read, &cases);
        let _ = Tracer::get().shutdown();
    }
}

#[inline(never)]
fn untraced_function(n: u64) -> u64 {
    n + 1
}

#[inline(never)]
fn function_with_scope(n: u64) -> u64 {
    let _scope = tracer::scope();
    n + 1
}

#[inline(never)]
fn function_with_site(n: u64) -> u64 {
    let _scope = scope!();
    n + 1
}

#[traced]
#[inline(never)]
fn traced_function(n: u64) -> u64 {
    n + 1
}

/// Measures functions that are entered and left, beside the two readings of the clock that entering and leaving take.
fn functions(c: &mut Criterion) {
    let clocks = [("ordered", Clock::Ordered, ordered as fn() -> u64), ("fast", Clock::Fast, plain)];
    for (name, clock, read) in clocks {
        let directory = tempfile::tempdir().expect("a temporary directory");
        assert!(Tracer::builder().directory(directory.path()).ring_size(4 << 20).clock(clock).enable());
        let mut group = c.benchmark_group(format!("functions, {name}"));
        let bare = |_| {
            black_box((read(), read()));
        };
        group.bench_function("clock, twice", |b| b.iter_custom(|n| in_bursts(n, bare)));
        let cases: [Case; 4] = [
            ("no scope", |i| {
                black_box(untraced_function(i));
            }),
            ("scope()", |i| {
                black_box(function_with_scope(i));
            }),
            ("scope!", |i| {
                black_box(function_with_site(i));
            }),
            ("#[traced]", |i| {
                black_box(traced_function(i));
            }),
        ];
        for (name, call) in cases {
            // The first call gives the site its number.
            call(0);
            let _ = Tracer::get().flush();
            group.bench_function(name, |b| b.iter_custom(|n| in_bursts(n, call)));
        }
        group.finish();
        let _ = Tracer::get().shutdown();
    }
}

/// Measures functions whose entering also records from where they were called.
fn call_sites(c: &mut Criterion) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    assert!(Tracer::builder().directory(directory.path()).ring_size(4 << 20).call_sites(true).enable());
    let mut group = c.benchmark_group("functions, call sites");
    group.bench_function("clock, twice", |b| {
        b.iter_custom(|n| in_bursts(n, |_| _ = black_box((ordered(), ordered()))));
    });
    group.bench_function("scope()", |b| {
        b.iter_custom(|n| in_bursts(n, |i| _ = black_box(function_with_scope(i))));
    });
    group.finish();
    let _ = Tracer::get().shutdown();
}

/// Prints percentiles of the durations of calls that are timed one by one. The figures include the cost of the two
/// clock reads around a call.
fn single_calls(cases: &[Case]) {
    const CALLS: usize = 100_000;
    for (name, call) in cases {
        let mut ticks: Vec<u64> = Vec::with_capacity(CALLS);
        for i in 0..CALLS as u64 {
            if i % BURST == 0 {
                let _ = Tracer::get().flush();
            }
            let start = ordered();
            call(black_box(i));
            ticks.push(ordered() - start);
        }
        ticks.sort_unstable();
        let at = |share: f64| ticks[((CALLS - 1) as f64 * share) as usize];
        eprintln!(
            "single calls, {name}, in ticks: p50 {}  p99 {}  p99.9 {}  max {}",
            at(0.5),
            at(0.99),
            at(0.999),
            ticks[CALLS - 1]
        );
    }
}

/// Prints the cost of a call as a multiple of a bare reading of the clock: medians of bursts of calls and of readings,
/// which take turns.
fn by_turns(clock: &str, read: fn() -> u64, cases: &[Case]) {
    const ROUNDS: usize = 41;
    let mut ticks = vec![Vec::with_capacity(ROUNDS); cases.len() + 1];
    let burst = |call: &dyn Fn(u64)| {
        let _ = Tracer::get().flush();
        let start = ordered();
        (0..BURST).for_each(|i| call(black_box(i)));
        (ordered() - start) as f64 / BURST as f64
    };
    for _ in 0..ROUNDS {
        for (ticks, (_, call)) in ticks.iter_mut().zip(cases) {
            ticks.push(burst(&call));
        }
        ticks[cases.len()].push(burst(&|_| _ = black_box(read())));
    }
    let mut medians = ticks.into_iter().map(|mut ticks| {
        ticks.sort_unstable_by(f64::total_cmp);
        ticks[ROUNDS / 2]
    });
    let of_cases: Vec<f64> = medians.by_ref().take(cases.len()).collect();
    let bare = medians.next().unwrap_or(f64::NAN);
    eprintln!("by turns, {clock}, in ticks: the clock {bare:.1}");
    for ((name, _), taken) in cases.iter().zip(of_cases) {
        eprintln!("by turns, {clock}, in ticks: {name} {taken:.1}, {:.2} times the clock", taken / bare);
    }
}

/// Measures several ways to find a thread's own data; the results show why the hot path has a const thread-local.
fn thread_locals(c: &mut Criterion) {
    thread_local! {
        static CONST: std::cell::Cell<u64> = const { std::cell::Cell::new(1) };
    }
    let own: thread_local::ThreadLocal<std::cell::Cell<u64>> = thread_local::ThreadLocal::new();
    let mutex = parking_lot::Mutex::new(1u64);
    let mut group = c.benchmark_group("own data");
    group.bench_function("thread_local! const", |b| b.iter(|| black_box(CONST.get())));
    group.bench_function("thread_local crate", |b| b.iter(|| black_box(own.get_or_default().get())));
    group.bench_function("parking_lot mutex", |b| b.iter(|| black_box(*mutex.lock())));
    group.finish();
}

criterion_group! {
    name = hot_path;
    config = Criterion::default()
        .sample_size(40)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1));
    targets = disabled, clocks, thread_locals, enabled, formatted, captured, functions, call_sites
}
criterion_main!(hot_path);
