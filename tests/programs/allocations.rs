//! A disabled tracer; and the allocator that counts, for this and the confined burst.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::fmt;
use tracer::Tracer;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: passes everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.set(COUNT.get() + 1);
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

/// Allocations of the calling thread so far.
pub fn count() -> u64 {
    COUNT.get()
}

struct MustNotBeFormatted;

impl fmt::Display for MustNotBeFormatted {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        panic!("a disabled tracer formats nothing");
    }
}

/// Prints what 100,000 disabled calls did: allocations and threads.
pub fn disabled() {
    Tracer::get().trace(format_args!("the first call decides"));
    let before = count();
    for _ in 0..100_000 {
        Tracer::get().trace(format_args!("{MustNotBeFormatted}"));
    }
    let allocations = count() - before;
    let threads = std::fs::read_dir("/proc/self/task").expect("a list of threads").count();
    assert!(!Tracer::get().is_enabled());
    Tracer::get().flush().expect("nothing to flush");
    assert_eq!(Tracer::get().stats().records, 0);
    println!("allocations {allocations} threads {threads}");
}
