//! Calls `trace!` in the ways that programs do. With the feature `compile-out` nothing of the calls is in the
//! machine code.

use std::hint::black_box;

/// Makes the argument that the calls would evaluate; it is found by its name in the program's symbols.
#[inline(never)]
fn an_argument_nobody_wants() -> u32 {
    black_box(42)
}

fn main() {
    let count = black_box(7u32);
    tracer::trace!("the marker of a message without arguments");
    tracer::trace!("the marker of a message with {count} and {:?}", an_argument_nobody_wants());
    println!("{count}");
}
