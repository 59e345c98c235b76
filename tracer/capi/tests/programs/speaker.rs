//! A library in Rust with a copy of the tracer, for programs in C.
#![allow(unsafe_code, reason = "functions that are found by their names")]

use tracer::{trace, traced};

#[traced]
fn in_rust(n: u32) -> u32 {
    std::hint::black_box(n)
}

/// Records a message with the number `n`, and calls a function that is traced.
#[unsafe(no_mangle)]
pub extern "C" fn speaker_says(n: u32) {
    trace!("rust {n}");
    in_rust(n);
}
