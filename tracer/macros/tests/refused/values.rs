//! What the compiler says of the values themselves is said of them.

use tracer::trace;

fn taken(_: String) {}

fn main() {
    trace!("{}", taken(1));
    trace!("{} {name:?}", 1, name = "text".no_method());
}
