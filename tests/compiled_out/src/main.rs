//! Calls the tracer's macros in the ways that programs do. If it is built with the feature `compile-out`, its machine
//! code contains nothing of the calls.

use std::future::Future as _;
use std::hint::black_box;

/// Returns the argument that the calls would evaluate; the test finds it by its name in the program's symbols.
#[inline(never)]
fn an_argument_nobody_wants() -> u32 {
    black_box(42)
}

/// Has an argument, and a returned value.
#[tracer::traced(args)]
#[inline(never)]
fn the_name_of_a_traced_function(the_marked_argument: u32) -> u32 {
    black_box(the_marked_argument)
}

/// Is polled once.
#[tracer::traced(args)]
async fn polled(another_marked_argument: u32) -> u32 {
    black_box(another_marked_argument)
}

fn main() {
    let count = black_box(7u32);
    tracer::trace!("the marker of a message without arguments");
    tracer::trace!("the marker of a message with {count} and {:?}", an_argument_nobody_wants());
    let _by_address = tracer::scope();
    let _by_site = tracer::scope!();
    let _with_values = tracer::scope!("the marker of a scope with {count} and {}", an_argument_nobody_wants());
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let polled = std::pin::pin!(polled(count)).poll(&mut context);
    println!("{count} {} {polled:?}", the_name_of_a_traced_function(count));
}
