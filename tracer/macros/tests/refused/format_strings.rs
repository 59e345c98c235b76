//! Texts that are not format strings.

use tracer::trace;

fn main() {
    let x = 1;
    trace!();
    trace!("{");
    trace!("an open {x");
    trace!("a closed } {x}");
    trace!("{x:y}");
    trace!("{x:>>>5}");
    trace!("{x y}");
    trace!("{:?x}", x);
    trace!(x);
    trace!(b"bytes {}", x);
    trace!("two " "literals");
}
