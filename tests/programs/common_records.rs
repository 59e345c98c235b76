//! The records that a program and its plugin both make, each by its own copy of the tracer. Both include this file.

use std::fmt;
use std::future::Future;
use std::panic::catch_unwind;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use tracer::{Tracer, trace, trace_stack, traced};

/// A value that traces while it is formatted.
struct Nested(u32);

impl fmt::Display for Nested {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Tracer::get().trace(format_args!("inside of nested {}", self.0));
        write!(f, "nested {}", self.0)
    }
}

/// A value that cannot be formatted.
struct Panics;

impl fmt::Display for Panics {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        panic!("a Display that panics");
    }
}

#[traced]
fn called(n: u32) -> u32 {
    trace!("called with {n}");
    std::hint::black_box(n + 1)
}

#[traced]
async fn polled(n: u32) -> u32 {
    let mut was_polled = false;
    std::future::poll_fn(|context| {
        context.waker().wake_by_ref();
        if std::mem::replace(&mut was_polled, true) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    n
}

/// Makes records of all kinds, most of them `count` times.
pub fn say(who: &str, count: u32) {
    for n in 0..count {
        trace!("{who} has {n} and {:.2}, {:?}", f64::from(n) / 3.0, "a \"text\"\n");
        Tracer::get().trace(format_args!("{who} formats {n:>6}"));
        called(n);
        let mut future = pin!(polled(n));
        while future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {}
        let _scope = tracer::scope();
        trace!("{who} has {}", Nested(n));
    }
    trace_stack!("{who} was called");
    trace!("{who} has much: {}", "0123456789".repeat(30_000));
    trace!("{who} has more than can be captured: {}", &*"x".repeat(2_000));
    let _ = catch_unwind(|| Tracer::get().trace(format_args!("{} is lost", Panics)));
    let _ = catch_unwind(|| panic!("caught"));
}
