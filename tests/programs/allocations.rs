//! A disabled tracer, and the counting allocator, for this program and the confined burst.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use support::scenarios::Scenario;
use tracer::Tracer;

pub const SCENARIOS: &[Scenario] =
    &[("disabled", |_| disabled()), ("tracing-allocator", |_| tracing_allocator())];

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
    /// The number of allocations that were traced.
    static CALLS: Cell<u64> = const { Cell::new(0) };
    /// The number of allocations to come, and the function that is called before the last of them.
    static NEXT: Cell<(u64, fn())> = const { Cell::new((0, || {})) };
}

/// Whether allocations are traced.
static TRACES: AtomicBool = AtomicBool::new(false);

struct Counting;

// SAFETY: the implementation passes everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.set(COUNT.get() + 1);
        let (left, what) = NEXT.get();
        if left > 0 {
            NEXT.set((left - 1, what));
            if left == 1 {
                what();
            }
        }
        if TRACES.load(Ordering::Relaxed) {
            CALLS.set(CALLS.get() + 1);
            Tracer::get().trace(format_args!("allocated {} {}", CALLS.get(), layout.size()));
        }
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Returns the number of allocations of the calling thread so far.
pub fn count() -> u64 {
    COUNT.get()
}

/// Arranges that `what` is called before the calling thread's `nth` allocation from now; never for 0.
#[cfg_attr(
    not(all(target_arch = "x86_64", target_os = "linux")),
    allow(dead_code, reason = "for jumps, which are written in assembly")
)]
pub fn at_allocation(nth: u64, what: fn()) {
    NEXT.set((nth, what));
}

/// Returns the number of threads of this process.
#[cfg(unix)]
fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").expect("a list of threads").count()
}

/// Returns the number of threads of this process.
#[cfg(windows)]
fn threads() -> usize {
    use std::ffi::c_void;
    #[repr(C)]
    struct Entry {
        size: u32,
        usage: u32,
        thread: u32,
        process: u32,
        priorities: [i32; 2],
        flags: u32,
    }
    unsafe extern "system" {
        fn CreateToolhelp32Snapshot(flags: u32, process: u32) -> *mut c_void;
        fn Thread32First(snapshot: *mut c_void, entry: *mut Entry) -> i32;
        fn Thread32Next(snapshot: *mut c_void, entry: *mut Entry) -> i32;
    }
    const THREADS: u32 = 4;
    let size = u32::try_from(size_of::<Entry>()).expect("a small type");
    let mut entry = Entry { size, usage: 0, thread: 0, process: 0, priorities: [0; 2], flags: 0 };
    let mut own = 0;
    // SAFETY: the entry is plain memory and says its size; the snapshot stays open until this process ends.
    unsafe {
        let snapshot = CreateToolhelp32Snapshot(THREADS, 0);
        let mut more = Thread32First(snapshot, &raw mut entry);
        while more != 0 {
            own += usize::from(entry.process == std::process::id());
            more = Thread32Next(snapshot, &raw mut entry);
        }
    }
    own
}

struct MustNotBeFormatted;

impl fmt::Display for MustNotBeFormatted {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        panic!("a disabled tracer formats nothing");
    }
}

/// Prints the number of allocations of 100,000 disabled calls, and the number of threads.
pub fn disabled() {
    Tracer::get().trace(format_args!("the first call decides"));
    let before = count();
    for _ in 0..100_000 {
        Tracer::get().trace(format_args!("{MustNotBeFormatted}"));
    }
    let allocations = count() - before;
    let threads = threads();
    assert!(!Tracer::get().is_enabled());
    Tracer::get().flush().expect("nothing to flush");
    assert_eq!(Tracer::get().stats().records, 0);
    println!("allocations {allocations} threads {threads}");
}

struct Allocates;

impl fmt::Display for Allocates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8(vec![b'x'; 321]).expect("ASCII"))
    }
}

/// Traces every allocation of every thread, from the first on, also one inside of a message. Each thread prints the
/// number of its allocations.
pub fn tracing_allocator() {
    TRACES.store(true, Ordering::Relaxed);
    let work = |name: &'static str| {
        for n in 0..1000usize {
            drop(std::hint::black_box(vec![0u8; 1000 + n]));
            if n % 10 == 0 {
                Tracer::get().trace(format_args!("{name} {n} {Allocates}"));
            }
        }
        println!("{name} {}", CALLS.get());
    };
    let threads = ["one", "two", "three"].map(|name| {
        let thread = std::thread::Builder::new().name(name.into());
        thread.spawn(move || work(name)).expect("a thread")
    });
    work("main");
    threads.into_iter().for_each(|thread| thread.join().expect("its end"));
}
