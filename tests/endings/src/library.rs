//! A library that has linked the tracer itself. If a program that has the tracer, too, loads it, there are two copies,
//! and two runs. The library traces on request, and on Windows also while the system loads it.
#![allow(unsafe_code, reason = "functions that are found by their names")]

use std::cell::Cell;
use std::thread;

use tracer::{Tracer, trace};

/// Traces when its thread ends.
struct LastWord(Cell<u64>);

impl Drop for LastWord {
    fn drop(&mut self) {
        trace!("library says a last word {}", self.0.get());
    }
}

thread_local! {
    static LAST_WORD: LastWord = const { LastWord(Cell::new(0)) };
}

/// Traces `count` records on the calling thread, and on so many others, each of which traces a last word when it
/// ends.
#[unsafe(no_mangle)]
pub extern "C" fn library_says(count: u64, threads: u64) {
    let others = (0..threads).map(|number| {
        thread::spawn(move || {
            LAST_WORD.with(|last| last.0.set(number));
            say(count);
        })
    });
    let others: Vec<_> = others.collect();
    say(count);
    for other in others {
        let _ = other.join();
    }
}

/// Traces `count` records in a scope. It is a function of its own, so that its address is in the library.
#[inline(never)]
fn say(count: u64) {
    let _scope = tracer::scope();
    for number in 0..count {
        Tracer::get().trace(format_args!("library says {number}"));
    }
}

/// Traces while the system holds the loader's lock, if the variable `LIBRARY_MAIN` is set.
#[cfg(windows)]
#[unsafe(no_mangle)]
pub extern "system" fn DllMain(_module: *mut u8, reason: u32, _reserved: *mut u8) -> i32 {
    const PROCESS_ATTACH: u32 = 1;
    if reason == PROCESS_ATTACH && std::env::var_os("LIBRARY_MAIN").is_some() {
        trace!("library says it is loaded");
    }
    1
}
