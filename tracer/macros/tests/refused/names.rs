//! Names that do not exist.

use tracer::trace;

fn main() {
    let message = 1;
    trace!("{mesage}");
    trace!("{message} {}", mesage);
    trace!("{message:width$}");
    trace!(concat!("{", "message}"));
}
