//! Arguments that do not fit the format string.

use tracer::trace;

fn main() {
    let (x, y) = (1, 2);
    trace!("{} {}", x);
    trace!("{}", x, y);
    trace!("{1}", x);
    trace!("text", x + 1);
    trace!("{x}", y = 2);
    trace!("{a} {a}", a = 1, a = 2);
    trace!("{} {a}", a = 1, y);
    trace!("{:.*}", x);
    trace!("{:1$}", x);
    trace!(concat!("{", "} {}"), x);
}
