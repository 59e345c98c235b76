//! Records its stack at several depths of a recursion on two threads. For each record, prints a line with the addresses
//! that the system's unwinder finds there, in the order of a thread's records.

use std::ffi::{c_int, c_void};
use std::hint::black_box;

use tracer::Tracer;

unsafe extern "C" {
    fn _Unwind_Backtrace(each: extern "C" fn(*mut c_void, *mut c_void) -> c_int, all: *mut c_void) -> c_int;
    fn _Unwind_GetIP(context: *mut c_void) -> usize;
}

/// Returns the addresses that the unwinder finds, from its caller on.
fn unwound() -> Vec<usize> {
    extern "C" fn each(context: *mut c_void, all: *mut c_void) -> c_int {
        // SAFETY: the unwinder's own context, and the vector below.
        unsafe { (*all.cast::<Vec<usize>>()).push(_Unwind_GetIP(context)) };
        0
    }
    let mut all = Vec::new();
    // SAFETY: calls the function during the call only, with that vector.
    unsafe { _Unwind_Backtrace(each, (&raw mut all).cast()) };
    all
}

#[inline(never)]
fn record() {
    Tracer::get().stack();
    let thread = std::thread::current();
    let addresses: Vec<String> = unwound().iter().map(|address| address.to_string()).collect();
    println!("{} {}", thread.name().unwrap_or_default(), addresses.join(" "));
}

#[inline(never)]
fn recurse(depth: usize) -> usize {
    if depth == 0 {
        record();
        black_box(0)
    } else {
        black_box(recurse(depth - 1)) + 1
    }
}

#[inline(never)]
fn all_depths(depths: &[usize]) {
    for depth in depths {
        assert_eq!(recurse(*depth), *depth);
    }
}

fn main() {
    let depths: Vec<usize> =
        std::env::args().skip(1).map(|depth| depth.parse().expect("a number")).collect();
    all_depths(&depths);
    let thread = std::thread::Builder::new().name("other".into());
    thread.spawn(move || all_depths(&depths)).expect("a thread").join().expect("its end");
}
