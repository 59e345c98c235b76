//! The compiler's messages about the values themselves point at them.

use tracer::trace;

fn taken(_: String) {}

fn main() {
    trace!("{}", taken(1));
    trace!("{} {name:?}", 1, name = "text".no_method());
}
