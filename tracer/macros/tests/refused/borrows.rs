//! Values that cannot be borrowed.

use tracer::trace;

fn taken(_: String) {}

fn main() {
    let text = String::from("a");
    taken(text);
    trace!("{text}");
    let mut number = 1;
    let reference = &mut number;
    trace!("{}", number);
    *reference += 1;
}
